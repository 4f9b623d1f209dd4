"""Files that change, shrink, vanish or cannot be written: the server says so and computes."""

import os
import random
import shutil
import subprocess

from report import Skip, expect, say
from server import Server, inspect
from talk import expect_answers, record, replay

CONVERSATIONS = 4
FLAGS = ["-c", 2048, "-np", 2, "--exact", "bit", "--cache-ram", 64]


def _files(folder, suffix):
    found = sorted(folder.rglob("*" + suffix))
    expect(found, f"expected {suffix} files in {folder}")
    return found


def _truncate(folder, suffix):
    for path in _files(folder, suffix):
        os.truncate(path, path.stat().st_size // 2)


def _empty(folder, suffix):
    for path in _files(folder, suffix):
        os.truncate(path, 0)


def _delete(folder, suffix):
    for path in _files(folder, suffix):
        path.unlink()


def _flip(folder, suffix, chance, every):
    """Flips one bit in each `every` bytes."""
    for path in _files(folder, suffix):
        data = bytearray(path.read_bytes())
        for at in range(0, len(data), every):
            data[min(at + chance.randrange(every), len(data) - 1)] ^= 1 << chance.randrange(8)
        path.write_bytes(data)


def _append(folder, suffix, chance):
    for path in _files(folder, suffix):
        with open(path, "ab") as file:
            file.write(chance.randbytes(5000))


def _litter(folder, chance):
    """Files and folders that nobody of ours made."""
    (folder / "README").write_text("not a store")
    (folder / "sub" / "sub").mkdir(parents=True)
    for store in [path for path in folder.iterdir() if any(path.glob("*.skj"))]:
        (store / "segment-9999999999.sks").write_bytes(chance.randbytes(70000))
        (store / "journal-0000000000.skj").write_bytes(chance.randbytes(700))
        (store / "notes.txt").write_text("hello")


def _cases(chance):
    for suffix, what in ((".sks", "segments"), (".skj", "journals")):
        yield f"{what} cut in half", lambda folder, s=suffix: _truncate(folder, s)
        yield f"{what} empty", lambda folder, s=suffix: _empty(folder, s)
        yield f"{what} deleted", lambda folder, s=suffix: _delete(folder, s)
        yield f"{what} with a bit flipped in each 1000 bytes", lambda folder, s=suffix: _flip(folder, s, chance, 1000)
        yield f"{what} with bytes at their end", lambda folder, s=suffix: _append(folder, s, chance)
    yield "one bit flipped in each 100,000 bytes of the segments", lambda folder: _flip(folder, ".sks", chance, 100000)
    yield "files of others in the folder", lambda folder: _litter(folder, chance)


def _expect_right(server, turns, what):
    """Two turns: one that may find what is left, and one that continues it."""
    replies = []
    for turn in turns[2:4]:
        replies += (now := replay(server, turn))
        expect_answers(turn, now, what)
    return replies


def _one_case(env, what, source, damage, turns):
    folder = env.new_path("cache")
    shutil.copytree(source, folder)
    damage(folder)
    with Server(env, env.model("qwen3"), *FLAGS, "--cache-disk", folder) as server:
        replies = _expect_right(server.wait_disk(), turns, what)
        hits = sum(reply.hit == "disk" for reply in replies)
        bad = server.metrics()['skippy_store_corrupt_blocks_total{tier="disk"}']
        server.stop()
        words = server.log().replace("skippy: stopped\n", "")
    inspect(env, folder)
    say(f"{what}: answers right, {hits} of {len(replies)} hits from disk, {bad:.0f} bad blocks found; "
        f"the log says: {words.strip() or 'nothing'}")
    return hits, bad, words


def _damaged_while_open(env, source, turns):
    """The files shrink under a server that has them open."""
    folder, what = env.new_path("cache"), "segments emptied while the server runs"
    shutil.copytree(source, folder)
    with Server(env, env.model("qwen3"), *FLAGS, "--cache-disk", folder) as server:
        server.wait_disk()
        _empty(folder, ".sks")
        _expect_right(server, turns, what)
        server.stop()
        say(f"{what}: answers right; the log says: {server.log().strip()}")


def _expect_without_disk(env, what, folder, turns):
    """The folder cannot be used: the log says so, /metrics says so, the answers are right."""
    with Server(env, env.model("qwen3"), *FLAGS, "--cache-disk", folder) as server:
        _expect_right(server, turns, what)
        ready = server.metrics()["skippy_disk_ready"]
        server.stop()
        words = server.log()
    expect(ready == 0, f"{what}: expected skippy_disk_ready 0, got {ready}")
    expect("is not used" in words, f"{what}: expected a log that says that the disk is not used, got:\n{words}")
    say(f"{what}: answers right; the log says: {words.splitlines()[0]}")


def _mount(env, options):
    """A small file system of its own, for the errors that only a file system can give."""
    folder = env.new_path("mount")
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise Skip(f"no file system can be mounted here: {done.stderr.strip()}")
    return folder


def _unmount(folder):
    subprocess.run(["umount", "-l", str(folder)], check=False)


def _full_disk(env, turns):
    folder, what = _mount(env, "size=1m"), "a file system of 1 MiB"
    try:
        with Server(env, env.model("qwen3"), *FLAGS, "--cache-disk", folder / "cache") as server:
            server.wait_disk()
            for turn in turns[:2]:
                expect_answers(turn, replay(server, turn), what)
            _expect_right(server, turns, what)
            server.stop()
            words = server.log()
        expect("could not be written" in words, f"{what}: expected a log that says what could not be written: {words}")
        inspect(env, folder / "cache")
        say(f"{what}: answers right; the log says: {words.splitlines()[0]}")
    finally:
        _unmount(folder)


def _read_only_disk(env, source, turns):
    folder, what = _mount(env, "size=64m"), "a file system that can only be read"
    try:
        shutil.copytree(source, folder / "cache")
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        _expect_without_disk(env, what, folder / "cache", turns)
    finally:
        _unmount(folder)


def _optional(check, *arguments):
    try:
        check(*arguments)
    except Skip as reason:
        say(f"skipped: {reason}")


def run(env):
    source = env.new_path("cache")
    with Server(env, env.model("qwen3"), *FLAGS) as server:
        turns = record(server, env.seed, CONVERSATIONS, 4)
        server.stop()
    with Server(env, env.model("qwen3"), *FLAGS, "--cache-disk", source) as server:
        server.wait_disk()
        for turn in turns[:2]:
            replay(server, turn)
        server.stop()
    chance = random.Random(f"{env.seed}/damage")
    for what, damage in _cases(chance):
        hits, bad, words = _one_case(env, what, source, damage, turns)
        if "deleted" not in what and "files of others" not in what:
            expect(bad > 0 or words or hits, f"{what}: expected words in the log or bad blocks in /metrics")
    _damaged_while_open(env, source, turns)

    in_the_way = env.new_path("file")
    in_the_way.write_text("a file, not a folder")
    _expect_without_disk(env, "a file in the place of the folder", in_the_way, turns)
    _optional(_full_disk, env, turns)
    _optional(_read_only_disk, env, source, turns)
