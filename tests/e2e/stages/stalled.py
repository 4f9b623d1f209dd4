"""A stage that stops working without closing anything: an error in words in time, and a chain that recovers."""

from answers import conversations, expect_error, expect_turn
from chain import DEFAULT_FLAGS, Chain
from report import expect, say
from talk import ANSWER_TOKENS

WAIT_SECONDS = 15  # how long the head waits for a stage
DEADLINE_SECONDS = 60  # for the client


def _stall(chain, number, turn, what):
    stage = chain.stages[number - 1]
    stage.pause()
    text = expect_error(lambda: chain.head.chat(turn[0].messages, ANSWER_TOKENS, cache=False), what, DEADLINE_SECONDS)
    expect(chain.hosts[number].address in text, f"{what}: expected that the error names the stage, got: {text}")
    stage.resume()
    chain.wait_up()
    expect_turn(chain, turn, f"{what}, then resumed")
    say(f"{what}: {text.partition(': ')[2]}")


def run(env):
    model = env.model("qwen3")
    turns = conversations(env, model, DEFAULT_FLAGS)
    with Chain(env, model, head_flags=("--stage-wait", WAIT_SECONDS)) as chain:
        expect_turn(chain, turns[0], "before any stall")
        _stall(chain, 2, turns[1], "the last stage stopped")
        _stall(chain, 1, turns[2], "the first stage behind the head stopped")
        chain.stop()
