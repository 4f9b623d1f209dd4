"""`skippy bench relay` on the harness's address: a link that can be slow, stalled or cut."""

import json
import subprocess

from network import HARNESS
from report import Failure


class Relay:
    """Use as a context manager; `address` leads to the target."""

    def __init__(self, env, target, delay_ms=0):
        command = [env.skippy, "bench", "relay", "--listen", f"{HARNESS}:0", "--to", target,
                   "--delay-ms", str(delay_ms)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            raise Failure(f"expected a relay to {target} that listens, it ended with {self.process.wait()}")
        self.address = json.loads(line)["address"]

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def do(self, command):
        """cut, stall, go, "delay X", stats. Returns the counts at that moment."""
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise Failure(f"expected the relay to know '{command}': {answer['error']}")
        return answer
