"""--shadow-recompute 100: what was reused is computed again, and nothing disagrees."""

import time

from report import expect, say
from server import Server
from talk import expect_answers, record, replay

PATIENCE_SECONDS = 60


def _settled(server):
    """Comparisons run when lanes are idle: waits until one more look finds the same number."""
    until, seen = time.monotonic() + PATIENCE_SECONDS, -1
    while (now := server.metrics()["skippy_shadows_total"]) != seen and time.monotonic() < until:
        seen = now
        time.sleep(0.5)
    return server.metrics()


def _judge(metrics, what):
    shadows, wrong = metrics["skippy_shadows_total"], metrics["skippy_shadow_disagreements_total"]
    say(f"{what}: {shadows:.0f} hits computed again, {wrong:.0f} disagree, "
        f"{metrics['skippy_shadow_skipped_total']:.0f} skipped, distance {metrics['skippy_shadow_max_distance']:g}")
    expect(shadows > 0, f"{what}: expected hits that were computed again")
    expect(wrong == 0, f"{what}: expected no disagreement, got {wrong:.0f}")


def _one(env, name, exact):
    folder, what = env.new_path("cache"), f"{name}, --exact {exact}"
    flags = ["-c", 2048, "-np", 2, "--exact", exact, "--cache-ram", 64, "--cache-disk", folder]
    flags += ["--shadow-recompute", 100]
    with Server(env, env.model(name), *flags[:-2]) as server:
        turns = record(server.wait_disk(), env.seed, 3, 2)
        server.stop()
    with Server(env, env.model(name), *flags) as server:
        server.wait_disk()
        for exchange in turns[1] * 2:  # from disk, then resident; one at a time, so that a lane is idle
            expect_answers([exchange], replay(server, [exchange], clients=1), what, exact == "bit")
            _settled(server)
        metrics = server.metrics()
        server.stop()
    _judge(metrics, what)
    disk = metrics['skippy_hits_by_source_total{source="disk"}']
    expect(disk > 0, f"{what}: expected hits from disk among them")
    if exact == "bit":
        distance = metrics["skippy_shadow_max_distance"]
        expect(distance == 0, f"{what}: expected the same bits, the rows are {distance:g} apart")


def run(env):
    _one(env, "falcon-h1", "bit")
    _one(env, "qwen3", "state")
