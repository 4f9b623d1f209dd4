"""A stage is killed in the middle of an answer and started again: the same answer, and nothing of its old life."""

from answers import Stream, expect_same, long_request, whole
from chain import DEFAULT_FLAGS, STAGE_PORT, Chain
from relay import Relay
from report import expect, say

TOKENS = 120
KILL_AFTER = 30
DELAY_MS = 4


def _kill(chain, number, request, expected):
    what = f"stage {number} killed"
    stream = Stream(chain.head, request)
    stream.wait_for(KILL_AFTER)
    chain.restart_stage(number)
    expect_same(expected, stream.answer(), what, bits=False)
    # What the stage had is gone; an answer that used it all the same would differ.
    again = Stream(chain.head, request)
    expect_same(expected, again.answer(), f"{what}, the request again", bits=False)
    say(f"{what}: the answer goes on, and the next one is the same")


def run(env):
    model = env.model("falcon-h1")
    request = long_request(env.seed, TOKENS)
    with whole(env, model, *DEFAULT_FLAGS) as server:
        expected = Stream(server, request).answer()
        other = Stream(server, long_request(f"{env.seed}/other", 8)).answer()
        server.stop()
    hosts = env.network.hosts
    with Relay(env, f"{hosts[1].address}:{STAGE_PORT}", DELAY_MS) as first, \
            Chain(env, model, routes=[first.address, f"{hosts[2].address}:{STAGE_PORT}"]) as chain:
        for number in (1, 2):
            _kill(chain, number, request, expected)
        for stage in chain.stages:
            expect(stage.process.poll() is None, "expected that the other stages live on")
        # All stages at once, between two answers.
        for number in (1, 2):
            chain.restart_stage(number)
        chain.wait_up()
        after = Stream(chain.head, long_request(f"{env.seed}/other", 8)).answer()
        expect_same(other, after, "all stages killed", bits=False)
        chain.stop()
