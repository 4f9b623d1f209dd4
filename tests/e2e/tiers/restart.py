"""A conversation outlives the server: SIGTERM, kill -9 when all is written, kill -9 at a random moment."""

import random
import threading

from report import say
from server import Gone, Server, inspect
from talk import expect_answers, expect_hits, record, replay

TURNS = 6


def _flags(folder, exact):
    # A context that holds a few of the conversations: the others are evicted while they go on.
    return ["-c", 2048, "-np", 2, "--exact", exact, "--cache-disk", folder, "--cache-ram", 512]


def _kill_while_asked(server, exchanges, chance):
    """Ends the server with kill -9 while it answers; what it answered before is returned."""
    done = []

    def ask():
        for exchange in exchanges:
            try:
                done.append((exchange, server.chat(exchange.messages, 8)))
            except Gone:
                return

    client = threading.Thread(target=ask)
    client.start()
    client.join(chance.uniform(0.05, 1.0))
    server.kill()
    client.join()
    return done


def _one_model(env, name, exact):
    model, folder, bits = env.model(name), env.new_path("cache"), exact == "bit"
    flags = _flags(folder, exact)
    what = f"{name}, --exact {exact}"
    with Server(env, model, *_flags(env.new_path("cache"), exact)) as server:
        turns = record(server, env.seed, env.conversations, TURNS)
        server.stop()
    say(f"{what}: {env.conversations} conversations of {TURNS} turns with a server that never restarts")

    with Server(env, model, *flags) as server:
        server.wait_disk()
        for turn in turns[:2]:
            expect_answers(turn, replay(server, turn), f"{what}, before any restart", bits)
        skipped = server.skipped()
        server.stop()  # at once: what is not written yet is written now

    with Server(env, model, *flags) as server:
        replies = replay(server.wait_disk(), turns[2])
        expect_answers(turns[2], replies, f"{what}, after SIGTERM", bits)
        expect_hits(turns[2], replies, f"{what}, after SIGTERM", skipped)
        say(f"{what}: after SIGTERM {len(replies)} conversations go on from disk")
        server.wait_stored()
        skipped = server.skipped()
        server.kill()
    inspect(env, folder)

    with Server(env, model, *flags) as server:
        replies = replay(server.wait_disk(), turns[3])
        expect_answers(turns[3], replies, f"{what}, after kill -9", bits)
        expect_hits(turns[3], replies, f"{what}, after kill -9", skipped)
        say(f"{what}: after kill -9 {len(replies)} conversations go on from disk")
        answered = _kill_while_asked(server, turns[4], random.Random(f"{env.seed}/{what}"))
        expect_answers([x for x, _ in answered], [r for _, r in answered], f"{what}, before a random kill", bits)
    inspect(env, folder)

    with Server(env, model, *flags) as server:
        replies = replay(server.wait_disk(), turns[4])
        expect_answers(turns[4], replies, f"{what}, after kill -9 at a random moment", bits)
        hits = sum(reply.hit is not None for reply in replies)
        say(f"{what}: after kill -9 at a random moment all answers are right, {hits} of {len(replies)} are hits")
        skipped = server.skipped()
        server.stop()

    with Server(env, model, *flags) as server:
        replies = replay(server.wait_disk(), turns[5])
        expect_answers(turns[5], replies, f"{what}, after all of that", bits)
        expect_hits(turns[5], replies, f"{what}, after all of that", skipped)
        server.stop()
    inspect(env, folder)


def run(env):
    for name in ["qwen3", "falcon-h1"] + (["rwkv7"] if env.long else []):
        _one_model(env, name, "bit")
    # Not gemma3 in bit mode: there a window's cells cannot be moved into order, and in a full context what was restored
    # is now and then computed again after all.
    for name in ["qwen3", "falcon-h1", "gemma3", "rwkv7"] if env.long else []:
        _one_model(env, name, "state")
