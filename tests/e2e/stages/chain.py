"""A chain under test: stages on their machines, and the head with the HTTP front."""

import json
import os
import signal
import subprocess
import time

from network import HARNESS
from report import Failure
from server import Gone, Server

STAGE_PORT = 7001
END_SECONDS = 20
DEFAULT_FLAGS = ("-c", "2048", "-np", "2")


def plan_cuts(env, model, stages):
    """First layer of each stage as `skippy families plan` proposes it, and the number of layers at the end."""
    command = [env.skippy, "families", "plan", str(model), "--stages", str(stages), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=env.variables, check=False)
    if done.returncode != 0:
        raise Failure(f"expected a plan of {stages} stages for {model}: {done.stderr.strip()}")
    plan = json.loads(done.stdout)
    return [stage["start"] for stage in plan["stages"]] + [plan["layers"]]


def security(folder, name):
    """Options of a link's end that holds this certificate."""
    return ["--tls-ca", f"{folder}/ca.crt", "--tls-cert", f"{folder}/{name}.crt", "--tls-key", f"{folder}/{name}.key"]


def _variables(env, host):
    """Every machine has a disk of its own: stage files and digests lie there."""
    return dict(env.variables, XDG_CACHE_HOME=str(disk_of(env, host)))


def disk_of(env, host):
    return env.folder / f"disk-{host.name}"


class Stage:
    """One process of `skippy stage`."""

    def __init__(self, env, host, model, layers, *flags, certificates=None, name=None):
        self.address = f"{host.address}:{STAGE_PORT}"
        self.log_path = env.new_path(f"{host.name}.log")
        links = security(certificates or env.certificates, name or host.address)
        command = [*host.prefix, env.skippy, "stage", "-m", str(model), "--layers", f"{layers[0]}..{layers[1] - 1}",
                   "--listen", self.address, "-t", "1", *links, *map(str, flags)]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=_variables(env, host))

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def memory(self):
        """Resident set in bytes."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS:"))

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        """Ends it as an operator does."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(END_SECONDS)
        if status != 0:
            raise Failure(f"expected a stage to end with 0 after SIGTERM, got {status}:\n{self.log()}")

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)  # a stopped process would not be reaped
            self.process.kill()
            self.process.wait()


class Head(Server):
    """`skippy serve` with the first layers, on its machine."""

    def __init__(self, env, host, model, layers, addresses, *flags):  # pylint: disable=super-init-not-called
        self.env = env
        self.model = model
        self.log_path = env.new_path("head.log")
        command = [*host.prefix, env.skippy, "serve", "-m", str(model), "--layers", f"0..{layers - 1}", "--stages",
                   ",".join(addresses), "--host", host.address, "--port", "8080", "--allow-anonymous", "--json",
                   "-t", "1", *security(env.certificates, "head"), *map(str, flags)]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                            env=_variables(env, host))
        self.facts = None


class Chain:
    """Head and stages of one model. Use as a context manager: nothing is left running.

    routes: addresses by which stages are reached instead of their own (relays). stage_flags: for each stage behind the
    head, beside the common flags.
    """

    def __init__(self, env, model, flags=DEFAULT_FLAGS, head_flags=(), stage_flags=((), ()), routes=None, n_stages=3):
        self.env = env
        self.model = model
        self.flags = flags
        self.head_flags = head_flags
        self.stage_flags = stage_flags
        self.routes = routes
        self.cuts = plan_cuts(env, model, n_stages)
        self.hosts = env.network.hosts[:n_stages]
        self.stages = []
        self.head = None
        if env.certificates is None:
            env.certificates = env.make_certificates(["head", HARNESS, *(host.address for host in env.network.hosts)])

    def __enter__(self):
        try:
            for i in range(1, len(self.hosts)):
                self.stages.append(self.new_stage(i))
            self.start_head()
        except BaseException:
            self.__exit__(Failure, True, None)
            raise
        return self

    def __exit__(self, kind, error, trace):
        if error is not None and not isinstance(error, KeyboardInterrupt):
            self._print_logs()
        if self.head:
            self.head.kill()
        for stage in self.stages:
            stage.kill()

    def _print_logs(self):
        for name, process in [("head", self.head), *((f"stage {i + 1}", s) for i, s in enumerate(self.stages))]:
            if process:
                print(f"---- log of {name}\n{process.log()}----", flush=True)

    def new_stage(self, i):
        """Starts stage i (1 is the first behind the head)."""
        # A certificate is made for the address that the stage before connects to, which may be a relay's.
        return Stage(self.env, self.hosts[i], self.model, self.cuts[i:i + 2], *self.flags, *self.stage_flags[i - 1],
                     name=self.routes[i - 1].rpartition(":")[0] if self.routes else None)

    def restart_stage(self, i):
        self.stages[i - 1].kill()
        self.stages[i - 1] = self.new_stage(i)

    def start_head(self):
        addresses = self.routes or [stage.address for stage in self.stages]
        self.head = Head(self.env, self.hosts[0], self.model, self.cuts[1], addresses, *self.flags, *self.head_flags)
        self.head.ready()

    def stop(self):
        """Ends all as an operator does, the head first."""
        self.head.stop()
        self.stop_stages()

    def stop_stages(self):
        for stage in self.stages:
            stage.stop()

    def wait_up(self, seconds=60):
        """Waits until the chain answers again after it was broken."""
        until = time.monotonic() + seconds
        while True:
            try:
                return self.head.chat([{"role": "user", "content": "still there?"}], 1, cache=False)
            except (Failure, Gone) as error:
                if time.monotonic() > until:
                    raise Failure(f"expected the chain to answer again within {seconds} s: {error}") from error
                time.sleep(0.2)


def file_bytes(folder):
    """Bytes of all files below a folder."""
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)
