"""A running `skippy` of any kind: start, ask, look at its processes, end."""

import json
import os
import select
import signal
import subprocess
import tempfile
import time
import urllib.request

PATIENCE_SECONDS = 120


class Failure(Exception):
    """Something is not as expected; the text says what was expected and what was seen."""


def expect(condition, text):
    """Fails with the text, which says what was expected, unless the condition holds."""
    if not condition:
        raise Failure(text)


def alive(pid):
    """Does the process run? One that ended but was not waited for does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Answer:
    """What was said, how likely each token was, and where the state came from."""

    def __init__(self, body, header):
        choice = body["choices"][0]
        self.choices = [(token["token"], token["logprob"]) for token in choice["logprobs"]["content"]]
        self.header = header


class Program:
    """Use as a context manager: nothing is left running."""

    def __init__(self, skippy, model, folder, words, ready):
        self.sockets = tempfile.mkdtemp(dir=folder)
        self.log_path = os.path.join(self.sockets + ".log")
        # a split cuts its prompts into parts of a batch, at least 64 rows: with -b 64 both servers cut alike
        flags = ["-m", model, "--port", "0", "--json", "-t", "1", "-c", "2048", "-np", "2", "-b", "64", "-ub", "64"]
        variables = dict(os.environ, XDG_CACHE_HOME=folder + "/cache", XDG_STATE_HOME=folder + "/state",
                         XDG_RUNTIME_DIR=self.sockets)
        os.makedirs(folder + "/cache", exist_ok=True)
        action = 2 if words[0] == "stage" else 1
        command = [skippy, *words[:action], *flags, *words[action:]]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                            env=variables)
        self.want_ready = ready
        self.facts = None

    def __enter__(self):
        if not self.want_ready:
            return self
        readable, _, _ = select.select([self.process.stdout], [], [], PATIENCE_SECONDS)
        line = self.process.stdout.readline() if readable else b""
        if not line:
            self.end(signal.SIGKILL)
            raise Failure(f"expected a server that listens, it ended or was silent:\n{self.log()}")
        self.facts = json.loads(line)
        return self

    def __exit__(self, kind, error, trace):
        if self.process.poll() is None:
            self.end(signal.SIGTERM)
        self.process.stdout.close()

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def chat(self, messages):
        """The greedy answer."""
        body = {"messages": messages, "max_tokens": 16, "temperature": 0, "logprobs": True, "top_logprobs": 1}
        request = urllib.request.Request(self.facts["url"] + "/v1/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as reply:
            return Answer(json.loads(reply.read()), reply.headers["X-Skippy-Cache"])

    def children(self):
        """Processes that it started."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="utf-8") as children:
            return [int(pid) for pid in children.read().split()]

    @staticmethod
    def command_of(pid):
        """Its arguments, separated by NULs."""
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as command:
            return command.read()

    def wait(self):
        """The exit code, when it ends by itself."""
        try:
            return self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired as error:
            self.process.kill()
            raise Failure(f"expected the program to end:\n{self.log()}") from error

    def end(self, sig):
        self.process.send_signal(sig)
        return self.wait()

    @staticmethod
    def all_end(pids):
        """Are they gone in time?"""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while any(map(alive, pids)) and time.monotonic() < deadline:
            time.sleep(0.05)
        return not any(map(alive, pids))
