"""A slow network changes when answers come, not what they are."""

from answers import conversations, expect_turn
from chain import DEFAULT_FLAGS, STAGE_PORT, Chain
from relay import Relay
from report import expect, say

DELAY_MS = 10


def run(env):
    model = env.model("qwen3")
    turns = conversations(env, model, DEFAULT_FLAGS)
    hosts = env.network.hosts
    kernel = all([host.delay(DELAY_MS) for host in hosts[1:]])
    try:
        if kernel:
            with Chain(env, model) as chain:
                for turn in turns:
                    expect_turn(chain, turn, "a network with delay")
                chain.stop()
            say(f"slow: {DELAY_MS} ms of the kernel's own delay change no answer")
    finally:
        for host in hosts[1:]:
            host.delay(0)
    with Relay(env, f"{hosts[1].address}:{STAGE_PORT}", DELAY_MS) as first, \
            Relay(env, f"{hosts[2].address}:{STAGE_PORT}", DELAY_MS) as second, \
            Chain(env, model, routes=[first.address, second.address]) as chain:
        for turn in turns:
            expect_turn(chain, turn, "relays with delay")
        for relay in (first, second):
            expect(relay.do("stats")["bytes_from"] > 0, "expected that every link goes through its relay")
        chain.stop()
    say(f"slow: relays with {DELAY_MS} ms each way change no answer")
