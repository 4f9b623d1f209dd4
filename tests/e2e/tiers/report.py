"""How a scenario speaks: progress lines, failures that say what was expected, skips with a reason."""

import sys
import time

_start = time.monotonic()


class Failure(Exception):
    """Something is not as expected; the text says what was expected and what was seen."""


class Skip(Exception):
    """This machine cannot run the check; the text says why."""


def say(text):
    print(f"[{time.monotonic() - _start:6.1f} s] {text}", flush=True)


def expect(condition, text):
    """Fails with the text, which says what was expected, unless the condition holds."""
    if not condition:
        raise Failure(text)


def end_with(error):
    """Ends the program with what stopped it."""
    print(f"error: {error}", file=sys.stderr, flush=True)
    sys.exit(1)
