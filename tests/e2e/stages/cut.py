"""A link breaks in the middle of an answer: the answer goes on, and its text is that of an unbroken chain."""

import time

from answers import Stream, expect_same, long_request, whole
from chain import DEFAULT_FLAGS, STAGE_PORT, Chain
from relay import Relay
from report import expect, say

TOKENS = 120
BREAK_AFTER = 30
UNPLUGGED_SECONDS = 12  # longer than a link may be silent
DELAY_MS = 4  # so that an answer of a tiny model lasts long enough to be cut


def _expected(env, model, request):
    with whole(env, model, *DEFAULT_FLAGS) as server:
        answer = Stream(server, request).answer()
        server.stop()
    return answer


def _break(chain, relay, request, expected, how, what):
    """An answer is computed again in other pieces, so its last bits may differ where two tokens are nearly equal."""
    before = relay.do("stats")
    stream = Stream(chain.head, request)
    stream.wait_for(BREAK_AFTER)
    how()
    expect_same(expected, stream.answer(), what, bits=False)
    after = relay.do("stats")
    expect(after["bytes_to"] > before["bytes_to"] and after["connections"] > before["connections"],
           f"{what}: expected a new connection on this link, got {after} after {before}")
    say(f"{what}: the answer of {TOKENS} tokens is the same")


def _unplug(host):
    """A relay's own connection is reset by the kernel only much later: the chain must notice the silence."""
    host.unplug()
    time.sleep(UNPLUGGED_SECONDS)
    host.plug()


def run(env):
    model = env.model("qwen3")
    request = long_request(env.seed, TOKENS)
    expected = _expected(env, model, request)
    hosts = env.network.hosts
    with Relay(env, f"{hosts[1].address}:{STAGE_PORT}", DELAY_MS) as first, \
            Relay(env, f"{hosts[2].address}:{STAGE_PORT}", DELAY_MS) as second, \
            Chain(env, model, routes=[first.address, second.address]) as chain:
        expect_same(expected, Stream(chain.head, request).answer(), "an unbroken chain", bits=False)
        _break(chain, first, request, expected, lambda: first.do("cut"), "the first link reset")
        _break(chain, second, request, expected, lambda: second.do("cut"), "the second link reset")
        _break(chain, second, request, expected, lambda: _unplug(hosts[2]),
               "the last machine unplugged and plugged in again")
        chain.stop()
