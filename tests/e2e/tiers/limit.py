"""--cache-disk-max bounds what is really in the folder."""

import threading

from report import expect, say
from server import Server, inspect
from talk import expect_answers, record, replay

MIB = 1 << 20
MAX_MIB = 16
SEGMENT_MIB = 64  # docs/formats/disk-store.md


class Watch:
    """The folder's size, looked at all the time."""

    def __init__(self, folder):
        self.folder = folder
        self.most = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def size(self):
        total = 0
        for path in self.folder.rglob("*"):
            try:
                total += path.stat().st_blocks * 512
            except FileNotFoundError:
                pass  # it has just been replaced
        return total

    def _look(self):
        while not self._done.wait(0.02):
            self.most = max(self.most, self.size())

    def end(self):
        self._done.set()
        self._thread.join()
        return self.most


def run(env):
    model, folder = env.model("qwen3"), env.new_path("cache")
    common = ["-c", 2048, "-np", 2, "--exact", "bit", "--cache-ram", 256]
    with Server(env, model, *common) as server:
        turns = record(server, env.seed, 14, 3)
        server.stop()
    folder.mkdir()
    watch = Watch(folder)
    try:
        with Server(env, model, *common, "--cache-disk", folder, "--cache-disk-max", MAX_MIB) as server:
            server.wait_disk()
            for turn in turns:
                expect_answers(turn, replay(server, turn), "with a small limit")
            server.wait_stored()
            metrics = server.metrics()
            server.stop()
    finally:
        most = watch.end()
    written = metrics['skippy_store_written_bytes_total{tier="disk"}']
    puts, entries = metrics['skippy_store_puts_total{tier="disk"}'], metrics['skippy_store_entries{tier="disk"}']
    say(f"limit: {written / MIB:.1f} MiB written, {entries:.0f} of {puts:.0f} entries left; the folder had at most "
        f"{most / MIB:.1f} MiB and has {watch.size() / MIB:.1f} MiB; the limit is {MAX_MIB} MiB")
    expect(written > 1.5 * MAX_MIB * MIB, f"expected over {1.5 * MAX_MIB} MiB to be written, got {written / MIB:.1f}")
    expect(0 < entries < puts, f"expected some of {puts:.0f} entries to be evicted, {entries:.0f} are there")
    expect(most <= (MAX_MIB + SEGMENT_MIB) * MIB, f"expected at most {MAX_MIB} MiB and a segment, got {most / MIB:.1f}")
    expect(watch.size() <= MAX_MIB * MIB, f"expected at most {MAX_MIB} MiB in the end, got {watch.size() / MIB:.1f}")
    inspect(env, folder)
    with Server(env, model, *common, "--cache-disk", folder, "--cache-disk-max", MAX_MIB) as server:
        for turn in turns:
            expect_answers(turn, replay(server.wait_disk(), turn), "after a restart with a small limit")
        server.stop()
