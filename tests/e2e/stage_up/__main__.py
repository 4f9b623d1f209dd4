"""`skippy stage up` as people use it: one command, the whole model's answers, one Ctrl-C that ends all."""

import os
import signal
import sys
import tempfile

from program import Failure, Program, alive, expect

MESSAGES = [
    {"role": "system", "content": "You answer in one sentence. " * 12},
    {"role": "user", "content": "Which way does the river run?"},
]


def answers_are_those_of_the_whole_model(start):
    """The same tokens with the same probabilities, cold and repeated."""
    with start("serve") as whole:
        expected = whole.chat(MESSAGES)
    with start("stage", "up", "--stages", "3") as split:
        expect(len(split.facts["stages"]) == 2, f"expected two stages behind the head: {split.facts}")
        cold, warm = split.chat(MESSAGES), split.chat(MESSAGES)
        expect(cold.choices == expected.choices, f"expected {expected.choices}, the split said {cold.choices}")
        expect(warm.choices == expected.choices, f"expected {expected.choices}, the repeat said {warm.choices}")
        expect(cold.header.startswith("miss"), f"expected a miss at first: {cold.header}")
        expect(warm.header.startswith("hit"), f"expected a hit of the repeat: {warm.header}")


def one_signal_ends_every_process(start):
    """SIGINT to the first process: all are gone, nothing is left in the folder of sockets, exit code 0."""
    with start("stage", "up", "--stages", "2") as split:
        children = split.children()
        expect(len(children) == 2, f"expected a head and a stage, got {children}")
        expect(os.listdir(split.sockets) != [], "expected a folder of sockets while it runs")
        code = split.end(signal.SIGINT)
        expect(code == 0, f"expected exit code 0, got {code}: {split.log()}")
        expect(not any(map(alive, children)), f"expected no process to be left of {children}")
        expect(os.listdir(split.sockets) == [], f"expected no sockets to be left: {os.listdir(split.sockets)}")


def a_stage_that_dies_ends_all(start):
    """SIGKILL to a stage: the others end, exit code 1, and the words say which one it was."""
    with start("stage", "up", "--stages", "3") as split:
        children = split.children()
        # stages are started in order
        victim = next(pid for pid in children if split.command_of(pid).split("\0")[1] == "stage")
        os.kill(victim, signal.SIGKILL)
        code = split.wait()
        expect(code == 1, f"expected exit code 1, got {code}")
        expect("stage 1 was ended by signal 9" in split.log(), f"expected the stage's name in: {split.log()}")
        expect(not any(map(alive, children)), f"expected no process to be left of {children}")


def the_first_process_takes_the_others_with_it(start):
    """SIGKILL to the first process: nobody is left without an owner."""
    with start("stage", "up", "--stages", "2") as split:
        children = split.children()
        split.end(signal.SIGKILL)
        expect(split.all_end(children), f"expected no process to be left of {children}")


def a_model_that_cannot_start_is_told_in_words(start):
    """Code 1, the reason, and no process is left."""
    with start("stage", "up", "--stages", "64", ready=False) as split:
        code = split.wait()
        expect(code == 2, f"expected exit code 2 of 64 stages, got {code}: {split.log()}")
        expect("--stages needs" in split.log(), f"expected words about --stages in: {split.log()}")
    with start("stage", "up", "--stages", "2", "-c", "99999999", ready=False) as split:
        code = split.wait()
        expect(code == 1, f"expected exit code 1 of a context that is too large, got {code}: {split.log()}")
        expect("stage 1:" in split.log(), f"expected the stage's words in: {split.log()}")


SCENARIOS = [
    one_signal_ends_every_process,
    a_stage_that_dies_ends_all,
    the_first_process_takes_the_others_with_it,
    a_model_that_cannot_start_is_told_in_words,
    answers_are_those_of_the_whole_model,
]


def main():
    skippy, model, *names = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="skippy-") as folder:
        def start(*words, ready=True):
            return Program(skippy, model, folder, words, ready)

        for scenario in SCENARIOS:
            if names and scenario.__name__ not in names:
                continue
            print(scenario.__name__, flush=True)
            try:
                scenario(start)
            except Failure as failure:
                print(f"error: {scenario.__name__}: {failure}", file=sys.stderr)
                return 1
    return 0


sys.exit(main())
