"""A server under test: start, ask, look inside, end."""

import json
import os
import select
import signal
import subprocess
import time
import urllib.error
import urllib.request

from report import Failure

READY_SECONDS = 120
REPLY_SECONDS = 120
DRAIN_SECONDS = 60


class Gone(Exception):
    """The connection broke before the whole answer came, as it does when the server is killed."""


class Reply:
    """An answer: its tokens, how likely they were, and where its prompt's state came from."""

    def __init__(self, body, header):
        choice = body["choices"][0]
        logprobs = choice.get("logprobs") or {}
        self.text = choice["message"]["content"] or ""
        self.tokens = [Token(entry) for entry in logprobs.get("content") or []]
        self.cached = body["usage"]["prompt_tokens_details"]["cached_tokens"]
        self.prompt_tokens = body["usage"]["prompt_tokens"]
        self.header = header
        fields = dict(field.partition("=")[::2] for field in header.split("; "))
        self.hit = fields.get("hit")  # "resident", "ram", "disk"; None: a miss
        self.reason = fields.get("reason")

    @property
    def gated(self):
        """True when the server found the state but judged that computing is faster."""
        return self.reason == "restore-slower"


class Token:
    """One token of an answer, with its alternatives, best first."""

    def __init__(self, entry):
        self.text = entry["token"]
        self.logprob = entry["logprob"]
        self.best = [(other["token"], other["logprob"]) for other in entry["top_logprobs"]]


class Server:
    """One process of `skippy serve` on a free port. Use as a context manager: nothing is left running."""

    def __init__(self, env, model, *flags):
        self.env = env
        self.model = model
        command = [env.skippy, "serve", "-m", str(model), "--port", "0", "--json", "-t", "1", *map(str, flags)]
        self.log_path = env.new_path("server.log")
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                            env=env.variables)
        self.facts = None

    def __enter__(self):
        return self.ready()

    def __exit__(self, kind, error, trace):
        if error is not None and not isinstance(error, KeyboardInterrupt):
            print(f"---- log of the server\n{self.log()}----", flush=True)
        self.kill()

    def ready(self):
        """Waits until the server listens."""
        readable, _, _ = select.select([self.process.stdout], [], [], READY_SECONDS)
        line = self.process.stdout.readline() if readable else b""
        if not line:
            self.kill()
            raise Failure(f"expected a server that listens, it ended or was silent:\n{self.log()}")
        self.facts = json.loads(line)
        return self

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return "".join(line for line in log if "loading the model" not in line)

    def warning(self):
        """The first warning of the log; empty when there is none."""
        return next((line for line in self.log().splitlines() if "warning: " in line), "")

    def _open(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.facts["url"] + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=REPLY_SECONDS) as reply:
                return reply.read(), reply.headers
        except urllib.error.HTTPError as error:
            words = error.read().decode(errors="replace")
            raise Failure(f"expected status 200 of {path}, got {error.code}: {words}") from error
        except OSError as error:  # refused, reset, ended early
            raise Gone(str(error)) from error
        except Exception as error:  # http.client's own: the reply ended in its middle
            raise Gone(repr(error)) from error

    def post(self, path, body):
        return json.loads(self._open(path, body)[0])

    def chat(self, messages, max_tokens, cache=True):
        """The greedy answer to a chat."""
        body = {"messages": messages, "max_tokens": max_tokens, "temperature": 0, "logprobs": True, "top_logprobs": 5,
                "cache_prompt": cache}
        data, headers = self._open("/v1/chat/completions", body)
        return Reply(json.loads(data), headers["X-Skippy-Cache"])

    def prompt(self, messages):
        """The token ids of a chat's prompt."""
        text = self.post("/apply-template", {"messages": messages})["prompt"]
        return self.post("/tokenize", {"content": text, "add_special": True, "parse_special": True})["tokens"]

    def metrics(self):
        """All samples of /metrics by name with labels."""
        samples = {}
        for line in self._open("/metrics")[0].decode().splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                samples[name] = float(value)
        return samples

    def memory(self, field):
        """A line of /proc/PID/status in bytes: VmRSS (resident now) or VmHWM (most so far)."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            for line in status:
                if line.startswith(field + ":"):
                    return int(line.split()[1]) * 1024
        raise Failure(f"expected {field} in /proc/{self.process.pid}/status")

    def skipped(self):
        """Evicted prefixes that were not kept because the store thread was behind."""
        return int(self.metrics()["skippy_exports_skipped_total"])

    def wait_stored(self):
        """Waits until all that was recorded is in the stores: nothing staged, and no export in three looks."""
        until = time.monotonic() + DRAIN_SECONDS
        seen, quiet = None, 0
        while quiet < 3:
            if time.monotonic() > until:
                raise Failure(f"expected the store thread to finish, /metrics still moves: {seen}")
            metrics = self.metrics()
            now = (metrics["skippy_exports_total"], metrics['skippy_store_puts_total{tier="disk"}'],
                   metrics["skippy_staging_bytes"])
            quiet = quiet + 1 if now == seen and now[2] == 0 else 0
            seen = now
            time.sleep(0.1)

    def wait_disk(self):
        """Waits until the disk store is open: it is opened while the server serves already."""
        until = time.monotonic() + DRAIN_SECONDS
        while self.metrics()["skippy_disk_ready"] != 1:
            if time.monotonic() > until:
                raise Failure(f"expected skippy_disk_ready 1:\n{self.log()}")
            time.sleep(0.05)
        return self

    def stop(self):
        """Ends the server as an operator does."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(READY_SECONDS)
        self.process.stdout.close()
        if status != 0:
            raise Failure(f"expected exit status 0 after SIGTERM, got {status}:\n{self.log()}")

    def kill(self):
        """kill -9; what it was doing stays undone."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def inspect(env, directory):
    """Verifies every block of a cache directory that nothing may have harmed. Returns its stores."""
    command = [env.skippy, "inspect", str(directory), "--verify", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=REPLY_SECONDS, env=env.variables,
                          check=False)
    if done.returncode != 0:
        raise Failure(f"expected 'skippy inspect --verify' to find nothing bad in {os.listdir(directory)}, "
                      f"it ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr}")
    return json.loads(done.stdout)["stores"]
