"""State outlives everything: after a restart of head and stages a repeat is answered from disk on all of them."""

from answers import conversations, expect_turn
from chain import DEFAULT_FLAGS, Chain, file_bytes
from report import expect, say
from server import inspect


def _chain(env, model, folders):
    disks = [("--cache-disk", folder) for folder in folders]
    return Chain(env, model, head_flags=disks[0], stage_flags=disks[1:])


def run(env):
    for name in ("qwen3", "falcon-h1"):
        model = env.model(name)
        turns = conversations(env, model, DEFAULT_FLAGS, turns=2)
        folders = [env.new_path(f"{name}-{i}") for i in range(3)]
        with _chain(env, model, folders) as chain:
            chain.head.wait_disk()
            expect_turn(chain, turns[0], f"{name}, cold")
            chain.stop()
        for folder in folders:
            expect(file_bytes(folder) > 0, f"{name}: expected that every stage has stored something, {folder} is empty")
            inspect(env, folder)
        with _chain(env, model, folders) as chain:
            chain.head.wait_disk()
            replies = expect_turn(chain, turns[0], f"{name}, after a restart of all")
            for reply in replies:
                expect(reply.cached == reply.prompt_tokens, f"{name}: expected an exact repeat from disk, got "
                       f"'{reply.header}' with {reply.cached} of {reply.prompt_tokens} tokens")
            expect_turn(chain, turns[1], f"{name}, the next turn")
            chain.stop()
        say(f"{name}: after a restart of all stages {len(replies)} repeats come from disk; "
            f"{', '.join(str(file_bytes(folder) // 1024) for folder in folders)} KiB stored by the stages")
