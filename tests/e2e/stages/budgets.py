"""Stages with caches of different sizes agree on what all of them have."""

from answers import conversations, expect_turn
from chain import DEFAULT_FLAGS, Chain
from report import expect, say

NOTHING = ("--cache", "off")
LITTLE = ("--cache-seqs", "1", "--cache-ram", "0", "--activations", "1")
MUCH = ("--cache-ram", "256", "--activations", "64")


def _one(env, model, turns, what, head, first, second):
    with Chain(env, model, head_flags=head, stage_flags=(first, second)) as chain:
        cached = 0
        for turn in turns:
            cached += sum(reply.cached for reply in expect_turn(chain, turn, what, same_cells=False))
        chain.stop()
    say(f"budgets: {what}: answers right, {cached} tokens were not computed again")
    return cached


def run(env):
    for name in ("qwen3", "falcon-h1"):
        model = env.model(name)
        turns = conversations(env, model, DEFAULT_FLAGS, count=4)
        most = _one(env, model, turns, f"{name}, much everywhere", MUCH[:2], MUCH, MUCH)
        expect(most > 0, f"{name}: expected hits with caches everywhere")
        _one(env, model, turns, f"{name}, little on stage 1", MUCH[:2], LITTLE, MUCH)
        _one(env, model, turns, f"{name}, little on stage 2", MUCH[:2], MUCH, LITTLE)
        none = _one(env, model, turns, f"{name}, nothing on stage 2", MUCH[:2], MUCH, NOTHING)
        expect(none <= most, f"{name}: expected no more hits ({none}) than with caches everywhere ({most})")
