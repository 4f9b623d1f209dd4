"""The judge must find what it is there to find."""

from report import Failure, expect
from talk import Exchange, difference, expect_hits, expect_misses


class _Token:
    def __init__(self, text, logprob=-1.0, best=None):
        self.text, self.logprob, self.best = text, logprob, best or [(text, logprob)]


class _Reply:
    def __init__(self, *tokens, hit=None, cached=0, reason=None):
        self.tokens, self.text = tokens, "".join(token.text for token in tokens)
        self.hit, self.cached, self.header, self.gated = hit, cached, "header", reason == "restore-slower"


def _fails(check, *arguments):
    try:
        check(*arguments)
    except Failure:
        return True
    return False


def _exchange(recorded):
    exchange = Exchange(1, 2, [], _Reply(_Token("a")))
    exchange.recorded = recorded
    return exchange


def run(_):
    near = _Token("a", -1.0, [("a", -1.0), ("b", -1.02), ("c", -1.2)])
    far = _Token("a", -1.0, [("a", -1.0), ("b", -2.2), ("c", -2.3)])
    expect(difference(_Reply(near), _Reply(_Token("a"))) is None, "equal answers are equal")
    expect(difference(_Reply(near), _Reply(_Token("a", -1.0000001))), "bits: another likelihood is a difference")
    expect(difference(_Reply(near), _Reply(_Token("b", -1.02))), "bits: a near tie is a difference")
    expect(difference(_Reply(near), _Reply(_Token("b")), bits=False) is None, "state: a near tie is none")
    expect(difference(_Reply(near), _Reply(_Token("c")), bits=False), "state: a less likely token is a difference")
    expect(difference(_Reply(far), _Reply(_Token("b")), bits=False), "state: a far token is a difference")
    expect(difference(_Reply(near), _Reply(_Token("d")), bits=False), "state: a token of no mention is a difference")
    expect(difference(_Reply(near, near), _Reply(near), bits=False), "state: a shorter answer is a difference")

    disk = _Reply(_Token("a"), hit="disk", cached=100)
    expect(not _fails(expect_hits, [_exchange(100)], [disk], ""), "a hit of all that was recorded is one")
    expect(_fails(expect_hits, [_exchange(101)], [disk], ""), "a shorter hit is none")
    expect(not _fails(expect_hits, [_exchange(101)], [disk], "", 1), "a prefix that was not kept is excused")
    expect(_fails(expect_hits, [_exchange(0)], [disk], ""), "a prompt that continues nothing proves nothing")
    expect(_fails(expect_hits, [_exchange(9)], [_Reply(hit="resident", cached=9)], ""), "resident is not disk")
    expect(_fails(expect_hits, [_exchange(9)], [_Reply(reason="restore-slower")], ""), "all gated is a failure")
    expect(_fails(expect_misses, [_exchange(9)], [disk], ""), "a hit is no miss")
    expect(not _fails(expect_misses, [_exchange(9)], [_Reply()], ""), "a miss is a miss")
