"""A chat over three machines answers what the whole model answers, bit for bit where both compute the same pieces."""

from answers import conversations, expect_turn
from chain import DEFAULT_FLAGS, Chain, disk_of
from report import expect, say

FAMILIES = ("qwen3", "falcon-h1", "gemma3", "qwen3next")


def _expect_own_parts(env, chain):
    """The disk of a machine holds a file with its own layers and no other weights."""
    for host, start, end in zip(chain.hosts, chain.cuts, chain.cuts[1:]):
        names = [path.name for path in disk_of(env, host).rglob("*.gguf")]
        expect(len(names) == 1 and f"-{start}-{end}-" in names[0],
               f"expected one file with the layers {start} to {end - 1} on {host.name}, got {names}")


def _one(env, name):
    model = env.model(name)
    turns = conversations(env, model, DEFAULT_FLAGS)
    with Chain(env, model) as chain:
        cached = 0
        for number, turn in enumerate(turns):
            replies = expect_turn(chain, turn, f"{name}, turn {number + 1}")
            cached += sum(reply.cached for reply in replies)
        expect(cached > 0, f"{name}: expected that later turns find what earlier ones left")
        repeats = expect_turn(chain, turns[-1], f"{name}, the last turn again")
        for reply in repeats:
            expect(reply.cached == reply.prompt_tokens, f"{name}: expected an exact repeat, got '{reply.header}' with "
                   f"{reply.cached} of {reply.prompt_tokens} tokens")
        if name == FAMILIES[0]:
            _expect_own_parts(env, chain)
        chain.stop()
    say(f"{name}: {len(turns) * len(turns[0])} answers over three machines are those of the whole model; "
        f"{cached} tokens were not computed again")


def run(env):
    for name in FAMILIES:
        _one(env, name)
