"""State is found again by the same model with the same settings only."""

import shutil

import gguf
from report import say
from server import Server
from talk import expect_answers, expect_hits, expect_misses, record, replay

CONVERSATIONS = 4


def _expect_cold(env, what, model, folder, turn, flags):
    """Under other settings nothing is found, and the answers are those of a computation without the cache."""
    with Server(env, model, *flags, "--cache-disk", folder) as server:
        replies = replay(server.wait_disk(), turn)
        expect_misses(turn, replies, what)
        for exchange, cold in zip(turn, replay(server, turn, cache=False)):
            exchange.reply = cold
        expect_answers(turn, replies, what)
        server.stop()
    say(f"{what}: {len(turn)} misses, answers right")


def _expect_warm(env, what, model, folder, turn, flags):
    with Server(env, model, *flags, "--cache-disk", folder) as server:
        replies = replay(server.wait_disk(), turn)
        expect_hits(turn, replies, what)
        for exchange, cold in zip(turn, replay(server, turn, cache=False)):
            exchange.reply = cold
        expect_answers(turn, replies, what)
        server.stop()
    say(f"{what}: hits, answers right")


def run(env):
    model, folder = env.model("qwen3"), env.new_path("cache")
    same = ["-c", 4096, "-np", 2, "--exact", "bit", "--cache-ram", 64]
    adapter, perturbed, copy = env.new_path("lora.gguf"), env.new_path("qwen3.gguf"), env.new_path("qwen3.gguf")
    gguf.make_lora(model, adapter)
    gguf.perturb(model, perturbed)
    shutil.copy(model, copy)

    with Server(env, model, *same) as server:  # no folder: what is in it later was left by the turns replayed below
        turns = record(server, env.seed, CONVERSATIONS, 4)
        server.stop()
    with Server(env, model, *same, "--cache-disk", folder) as server:
        replay(server.wait_disk(), turns[0])
        replay(server, turns[1])
        server.stop()
    others = [("-ctk q8_0 -ctv q8_0", model, [*same, "-ctk", "q8_0", "-ctv", "q8_0"]),
              ("-c 2048", model, ["-c", 2048, *same[2:]]),
              ("--lora", model, [*same, "--lora", adapter]),
              ("--lora-scaled", model, [*same, "--lora-scaled", f"{adapter}:0.5"]),
              ("--rope-freq-base", model, [*same, "--rope-freq-base", 20000]),
              ("one bit of one weight", perturbed, same)]
    for what, other_model, flags in others:
        _expect_cold(env, what, other_model, folder, turns[2], flags)
    _expect_warm(env, "the first settings again", model, folder, turns[2], same)
    _expect_warm(env, "a copy of the model elsewhere", copy, folder, turns[3], same)
