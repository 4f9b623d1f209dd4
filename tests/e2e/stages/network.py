"""Machines of a test: network namespaces with an address each, joined by a bridge.

The harness itself stands on the bridge, so that it reaches all of them. It must run in a private network and mount
namespace (run_stages.sh): names and addresses are free there, and everything is gone when the last process has ended.
"""

import subprocess

from report import Failure

SUBNET = "10.77.0"
HARNESS = f"{SUBNET}.254"


def _ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"expected 'ip {' '.join(words)}' to work: {done.stderr.strip()}")


class Host:
    """One machine. `prefix` in front of a command runs it there."""

    def __init__(self, name, number):
        self.name = name
        self.address = f"{SUBNET}.{number}"
        self.prefix = ["ip", "netns", "exec", name]
        self._port = f"v-{name}"  # its end on the bridge
        _ip("netns", "add", name)
        _ip("link", "add", self._port, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", self._port, "master", "bridge0", "up")
        for words in (["addr", "add", f"{self.address}/24", "dev", "eth0"], ["link", "set", "eth0", "up"],
                      ["link", "set", "lo", "up"]):
            _ip("-n", name, *words)

    def unplug(self):
        """Nothing reaches the machine and nothing leaves it; connections do not notice at once."""
        _ip("link", "set", self._port, "down")

    def plug(self):
        _ip("link", "set", self._port, "up")

    def delay(self, ms):
        """What the machine sends arrives so much later. False where the kernel cannot do that."""
        command = ["tc", "-n", self.name, "qdisc", "replace", "dev", "eth0", "root", "netem", "delay", f"{ms}ms"]
        try:
            return subprocess.run(command, capture_output=True, check=False).returncode == 0
        except FileNotFoundError:
            return False


class Network:
    """A head and two machines behind it. Use as a context manager."""

    def __init__(self):
        self.hosts = []

    def __enter__(self):
        # `ip netns` keeps names in /run/netns, where only root may write; this /run is seen by nobody else.
        done = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failure(f"expected a private mount namespace (run_stages.sh makes it): {done.stderr.strip()}")
        _ip("link", "set", "lo", "up")
        _ip("link", "add", "bridge0", "type", "bridge")
        _ip("addr", "add", f"{HARNESS}/24", "dev", "bridge0")
        _ip("link", "set", "bridge0", "up")
        self.hosts = [Host(name, number + 1) for number, name in enumerate(("head", "stage1", "stage2"))]
        return self

    def __exit__(self, kind, error, trace):
        for host in self.hosts:
            subprocess.run(["ip", "netns", "del", host.name], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", "bridge0"], capture_output=True, check=False)
