"""The harness must do what the scenarios rely on: machines that talk, links that can be cut, delayed and stalled."""

import socket
import subprocess
import sys
import time

from relay import Relay
from report import Failure, expect, say

PORT = 7999
ECHO = f"""
import socketserver, sys
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        try:
            while data := self.request.recv(65536):
                self.request.sendall(data)
        except OSError:
            pass  # reset: that is what is tested
socketserver.ThreadingTCPServer.daemon_threads = True
server = socketserver.ThreadingTCPServer((sys.argv[1], {PORT}), Echo)
print("ready", flush=True)
server.serve_forever()
"""


def _talk(connection, word):
    connection.sendall(word)
    heard = b""
    while len(heard) < len(word):
        piece = connection.recv(65536)
        if not piece:
            raise ConnectionError("the other side has ended")
        heard += piece
    return heard


def _is_cut(connection):
    try:
        return _talk(connection, b"anybody?") == b""
    except OSError:
        return True


def _machines(host, echo):
    """The harness and another machine both reach the host; an unplugged one is reached by nobody."""
    with socket.create_connection((host.address, PORT), 10) as connection:
        expect(_talk(connection, b"ahoy") == b"ahoy", f"expected an echo from {host.address}")
        host.unplug()
        connection.settimeout(1)
        expect(_is_cut(connection), "expected no answer from an unplugged machine")
        host.plug()
    with socket.create_connection((host.address, PORT), 10) as connection:
        expect(_talk(connection, b"again") == b"again", "expected an echo after the machine was plugged in again")
    expect(echo.poll() is None, "expected the echo to live on")


def _relay(env, host):
    with Relay(env, f"{host.address}:{PORT}", delay_ms=20) as relay:
        address, _, port = relay.address.rpartition(":")
        way = (address, int(port))
        connection = socket.create_connection(way, 10)
        began = time.monotonic()
        expect(_talk(connection, b"slow") == b"slow", "expected an echo through the relay")
        expect(time.monotonic() - began >= 0.04, "expected 20 ms each way")
        counts = relay.do("cut")
        expect(counts["bytes_to"] == 4 and counts["bytes_from"] == 4, f"expected 4 bytes each way, got {counts}")
        expect(_is_cut(connection), "expected the relay to cut the connection")
        connection.close()
        relay.do("stall")
        connection = socket.create_connection(way, 10)
        connection.settimeout(0.3)
        expect(_is_cut(connection), "expected silence from a stalled relay")
        relay.do("go")
        connection.close()


def run(env):
    host = env.network.hosts[1]
    echo = subprocess.Popen([*host.prefix, sys.executable, "-c", ECHO, host.address], stdout=subprocess.PIPE)
    try:
        if not echo.stdout.readline():
            raise Failure("expected an echo server that listens")
        _machines(host, echo)
        _relay(env, host)
    finally:
        echo.kill()
        echo.wait()
        echo.stdout.close()
    say("selftest: machines, links and the relay do what they are asked")
