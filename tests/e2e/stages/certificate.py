"""Who has no certificate of the chain's authority does not get in, and does not disturb those who have one."""

import socket
import ssl

from answers import conversations, expect_turn
from chain import DEFAULT_FLAGS, STAGE_PORT, Chain, Head
from report import Failure, expect, say

PATIENCE_SECONDS = 15


def _is_refused(host, context, what):
    """The stage ends a connection that does not present the right certificate, before it answers anything."""
    try:
        plain = socket.create_connection((host.address, STAGE_PORT), PATIENCE_SECONDS)
    except OSError as error:
        raise Failure(f"{what}: expected a stage that listens on {host.address}: {error}") from error
    with plain:
        plain.settimeout(PATIENCE_SECONDS)
        try:
            connection = context.wrap_socket(plain) if context else plain
            connection.sendall(bytes(64))
            got = connection.recv(1)
        except TimeoutError as error:
            raise Failure(f"{what}: expected that the stage ends the connection, it is silent") from error
        except OSError:  # an alert, or a reset
            return
        expect(got == b"", f"{what}: expected that the stage says nothing, got {got!r}")


def _is_heard(host, context):
    """The right certificate gets in: what is no frame is answered with one that says so."""
    with socket.create_connection((host.address, STAGE_PORT), PATIENCE_SECONDS) as plain:
        plain.settimeout(PATIENCE_SECONDS)
        connection = context.wrap_socket(plain)
        connection.sendall(bytes(64))
        expect(connection.recv(1) != b"", "expected that a peer with the right certificate is told what is wrong")


def _stranger(folder=None, name=None, version=ssl.TLSVersion.TLSv1_3):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    if folder:
        context.load_cert_chain(f"{folder}/{name}.crt", f"{folder}/{name}.key")
    return context


def _foreign_head(env, chain):
    """A head of another authority: it must not start, and says why."""
    ours = env.certificates
    env.certificates = env.make_certificates(["head"])
    addresses = [stage.address for stage in chain.stages]
    head = Head(env, chain.hosts[0], chain.model, chain.cuts[1], addresses, *DEFAULT_FLAGS, "--port", "8081",
                "--stage-wait", "5")
    try:
        head.ready()
    except Failure:
        log = head.log()
        expect("certificate" in log, f"expected that the head names the certificate, it said:\n{log}")
        return
    finally:
        env.certificates = ours
        if head.process.poll() is None:
            head.kill()
    raise Failure("expected that a head with a certificate of another authority does not start")


def run(env):
    model = env.model("qwen3")
    turns = conversations(env, model, DEFAULT_FLAGS, turns=2)
    with Chain(env, model) as chain:
        expect_turn(chain, turns[0], "before strangers came")
        foreign = env.make_certificates(["head"])
        for host in chain.hosts[1:]:
            _is_refused(host, None, "plaintext")
            _is_refused(host, _stranger(), "no certificate")
            _is_refused(host, _stranger(foreign, "head"), "a certificate of another authority")
            _is_refused(host, _stranger(env.certificates, "head", ssl.TLSVersion.TLSv1_2), "TLS 1.2")
        say("certificate: plaintext, no certificate, a foreign one and TLS 1.2 are refused")
        _foreign_head(env, chain)
        say("certificate: a head of another authority is refused and says why")
        expect_turn(chain, turns[1], "after strangers came")
        chain.head.stop()
        # With the head away a stage listens to the next one; so it was the certificates that kept the others out.
        for host in reversed(chain.hosts[1:]):
            _is_heard(host, _stranger(env.certificates, "head"))
        chain.stop_stages()
