"""Requests whose answers the whole model gave, and what a chain answers to them."""

import http.client
import json
import threading

from report import Failure, expect
from server import Gone, Server, Token
from talk import ANSWER_TOKENS, Exchange, difference, expect_answers, replay, words

STREAM_SECONDS = 120


def whole(env, model, *flags):
    """The same model in one process, on the harness's own machine."""
    return Server(env, model, *flags)


def conversations(env, model, flags, count=2, turns=3):
    """Exchanges by turn, with the answers of the whole model.

    One request at a time, in the order in which the scenarios send them again: where a sequence's cells lie decides
    about the last bits of an answer.
    """
    found = []
    with whole(env, model, *flags) as server:
        messages = [[{"role": "system", "content": f"{n} {words(f'{env.seed}/{n}', 24)}."}] for n in range(count)]
        for turn in range(1, turns + 1):
            found.append([])
            for n in range(count):
                messages[n] = messages[n] + [{"role": "user", "content": words(f"{env.seed}/{n}/{turn}", 24) + "?"}]
                exchange = Exchange(n, turn, messages[n], server.chat(messages[n], ANSWER_TOKENS))
                found[-1].append(exchange)
                messages[n] = messages[n] + [{"role": "assistant", "content": exchange.reply.text}]
        server.stop()
    return found


def expect_turn(chain, turn, what, same_cells=True):
    """Sends a turn and returns the replies.

    A first turn is computed from its beginning by everybody, so every bit must be the same; later ones may have been
    cut into other pieces, by what was restored. same_cells: caches are as large as the whole model's, so that sequences
    lie in the same cells.
    """
    replies = replay(chain.head, turn, clients=1)
    expect_answers(turn, replies, what, bits=same_cells and turn[0].turn == 1)
    return replies


def long_request(seed, tokens):
    return {"messages": [{"role": "user", "content": words(f"{seed}/long", 40) + "?"}], "max_tokens": tokens,
            "temperature": 0, "logprobs": True, "top_logprobs": 5, "ignore_eos": True}


class Answer:
    """An answer as talk.difference compares it."""

    def __init__(self, tokens, header=""):
        self.tokens = tokens
        self.text = "".join(token.text for token in tokens)
        self.header = header


class Stream(threading.Thread):
    """A streamed answer, read by a thread of its own. `wait_for(n)` returns when n tokens have come."""

    def __init__(self, server, request):
        super().__init__()
        self.server = server
        self.request = dict(request, stream=True)
        self.tokens = []
        self.error = None  # words of the server, or of the connection
        self.ended = False
        self._news = threading.Condition()
        self.start()

    def run(self):
        try:
            self._read()
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._tell(error=f"the connection: {error!r}")
        self._tell(ended=True)

    def _tell(self, tokens=(), error=None, ended=False):
        with self._news:
            self.tokens += tokens
            self.error = self.error or error
            self.ended = self.ended or ended
            self._news.notify_all()

    def _read(self):
        host, _, port = self.server.facts["url"].partition("//")[2].partition(":")
        connection = http.client.HTTPConnection(host, int(port.strip("/")), timeout=STREAM_SECONDS)
        connection.request("POST", "/v1/chat/completions", json.dumps(self.request),
                           {"Content-Type": "application/json"})
        reply = connection.getresponse()
        if reply.status != 200:
            self._tell(error=f"status {reply.status}: {reply.read().decode(errors='replace')}")
            return
        for line in reply:
            if line.startswith(b"data: ") and line.strip() != b"data: [DONE]":
                self._take(json.loads(line[6:]))
        connection.close()

    def _take(self, event):
        if "error" in event:
            self._tell(error=json.dumps(event["error"]))
            return
        for choice in event.get("choices", []):
            logprobs = choice.get("logprobs") or {}
            self._tell([Token(entry) for entry in logprobs.get("content") or []])

    def wait_for(self, count):
        with self._news:
            if not self._news.wait_for(lambda: self.ended or len(self.tokens) >= count, STREAM_SECONDS):
                raise Failure(f"expected {count} tokens within {STREAM_SECONDS} s, got {len(self.tokens)}")
            expect(not self.ended, f"expected that the answer goes on after {count} tokens; it ended ({self.error})")

    def answer(self):
        """The whole answer; fails when there was an error."""
        self.join()
        if self.error:
            raise Failure(f"expected a whole answer, after {len(self.tokens)} tokens came: {self.error}")
        return Answer(self.tokens)


def expect_same(expected, got, what, bits=True):
    words_about = difference(expected, got, bits)
    if words_about:
        raise Failure(f"{what}: {words_about}")


def expect_error(chat, what, seconds):
    """The request fails, in words; a client that waits longer than `seconds` would have given up."""
    try:
        reply = chat()
    except Failure as failure:
        text = str(failure)
        expect("status 200" in text and "message" in text, f"{what}: expected an error in words, got: {text}")
        return text
    except Gone as gone:
        raise Failure(f"{what}: expected an error in words within {seconds} s, the connection ended: {gone}") from gone
    raise Failure(f"{what}: expected an error, got {reply.text!r}")
