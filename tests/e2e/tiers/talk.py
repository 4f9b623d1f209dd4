"""Conversations that are the same in every run of a seed, and the judgement of two answers."""

import random
from concurrent.futures import ThreadPoolExecutor

from report import Failure, expect

WORDS = ("harbour tide crane signal ledger freight anchor pilot buoy cargo winch morning evening report cabin deck "
         "number channel depth weather northern quiet engine repair schedule captain letter market window garden "
         "river stone paper yellow seven twenty little heavy before after between against question answer").split()

# Natural logarithm. Two computations of one prompt that cut it into other batches give a token of the tiny models
# likelihoods that differ by some hundredths at most. Large models differ by more (src/bench/tie.h).
TIE_GAP = 0.1

ANSWER_TOKENS = 8


def words(seed, count):
    chosen = random.Random(seed)
    return " ".join(chosen.choice(WORDS) for _ in range(count))


class Exchange:
    """One request of a conversation, and the answer that a server without any restart gave."""

    def __init__(self, number, turn, messages, reply):
        self.number = number
        self.turn = turn
        self.messages = messages
        self.reply = reply
        self.recorded = 0  # tokens that the turns before must have left for this one

    def __str__(self):
        return f"conversation {self.number}, turn {self.turn}"


def _converse(server, seed, number, turns, length):
    """Conversations begin with different words, so that none finds another one's state.

    What a turn must find is the whole prompt of the turn before. A template may change a turn that is over (drop what
    was thought); then it is what the server found that had never forgotten anything.
    """
    messages = [{"role": "system", "content": f"{number} {words(f'{seed}/{number}', length)}."}]
    exchanges, last = [], []
    for turn in range(1, turns + 1):
        messages = messages + [{"role": "user", "content": words(f"{seed}/{number}/{turn}", length) + "?"}]
        prompt = server.prompt(messages)
        exchange = Exchange(number, turn, messages, server.chat(messages, ANSWER_TOKENS))
        exchange.recorded = len(last) if prompt[:len(last)] == last else exchange.reply.cached
        exchanges.append(exchange)
        messages = messages + [{"role": "assistant", "content": exchange.reply.text}]
        last = prompt
    return exchanges


def record(server, seed, count, turns, length=24, clients=2):
    """Has `count` conversations with a server. Returns their exchanges by turn: [turn - 1][conversation]."""
    with ThreadPoolExecutor(clients) as pool:
        done = list(pool.map(lambda n: _converse(server, seed, n, turns, length), range(count)))
    return [list(turn) for turn in zip(*done)]


def replay(server, exchanges, clients=2, cache=True):
    """Sends the same requests. Returns the replies in the order of the exchanges."""
    with ThreadPoolExecutor(clients) as pool:
        return list(pool.map(lambda x: server.chat(x.messages, ANSWER_TOKENS, cache), exchanges))


def _same_bits(a, b):
    return a.text == b.text and [(t.text, t.logprob) for t in a.tokens] == [(t.text, t.logprob) for t in b.tokens]


def _is_tie(expected, got):
    """True when two tokens parted that were nearly equally likely."""
    logprobs = dict(expected.best)
    return got.text in logprobs and abs(expected.logprob - logprobs[got.text]) < TIE_GAP


def difference(expected, got, bits=True):
    """None when two answers agree: in every bit, or else up to a near tie. Otherwise words about where they part."""
    if bits:
        if _same_bits(expected, got):
            return None
        return f"expected {expected.text!r} to the last bit, got {got.text!r} ({got.header})"
    for at, (a, b) in enumerate(zip(expected.tokens, got.tokens)):
        if a.text == b.text:
            continue
        if _is_tie(a, b):
            return None
        return f"expected {a.text!r} as token {at}, got {b.text!r}; the best were {a.best} ({got.header})"
    if len(expected.tokens) == len(got.tokens):
        return None
    return f"expected {len(expected.tokens)} tokens, got {len(got.tokens)} ({got.header})"


def expect_answers(exchanges, replies, what, bits=True):
    for exchange, reply in zip(exchanges, replies):
        words_about = difference(exchange.reply, reply, bits)
        if words_about:
            raise Failure(f"{what}: {exchange}: {words_about}")


def _shortfall(exchange, reply):
    """None when a request continued from disk with all that its conversation had left there; otherwise words."""
    if exchange.recorded == 0:
        return "expected a prompt that continues the one before"
    if reply.hit != "disk":
        return f"expected a hit from disk, got '{reply.header}'"
    if reply.cached < exchange.recorded:
        return f"expected at least {exchange.recorded} cached tokens, got {reply.cached} ('{reply.header}')"
    return None


def expect_hits(exchanges, replies, what, skipped=0):
    """Every request continued from disk with all that its conversation had left there, but for two reasons.

    `skipped` evicted prefixes were not kept because the store thread was behind (skippy_exports_skipped_total of the
    server that recorded). And the server may judge that computing is faster than reading: on a machine that is busy
    with other things that happens now and then, the header says so, and no entry is lost; more than one in five is not
    "now and then".
    """
    gated = sum(reply.gated for reply in replies)
    short = [f"{exchange}: {words_about}" for exchange, reply in zip(exchanges, replies)
             if not reply.gated and (words_about := _shortfall(exchange, reply))]
    expect(len(short) <= skipped, f"{what}: {'; '.join(short)}; {skipped} prefixes were not kept")
    expect(gated * 5 <= len(replies), f"{what}: expected hits, computing was judged faster {gated} times")


def expect_misses(exchanges, replies, what):
    for exchange, reply in zip(exchanges, replies):
        expect(reply.hit is None and reply.cached == 0,
               f"{what}: {exchange}: expected a miss, got '{reply.header}' with {reply.cached} cached tokens")
