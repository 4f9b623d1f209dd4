"""Files that change, shrink, vanish or cannot be written: the server says so and computes."""

import os
import random
import shutil
import subprocess

from report import Skip, expect, say
from server import Server, inspect
from talk import expect_answers, expect_hits, record, replay

CONVERSATIONS = 4
NONE, SOME, ALL = range(3)
BAD_BLOCKS = "a bit flipped in each 10,000 bytes of the segments behind their heads"
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


def _flip(folder, suffix, chance, every, first=0):
    """Flips one bit in each `every` bytes from `first` on (of a shorter file: one bit)."""
    for path in _files(folder, suffix):
        data = bytearray(path.read_bytes())
        for at in range(first, len(data), every):
            data[at + chance.randrange(min(every, len(data) - at))] ^= 1 << chance.randrange(8)
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
    """What is done to the folder, and how many of the conversations may still be found: NONE, SOME or ALL."""
    for suffix, what in ((".sks", "segments"), (".skj", "journals")):
        yield f"{what} cut in half", SOME, lambda folder, s=suffix: _truncate(folder, s)
        yield f"{what} empty", NONE, lambda folder, s=suffix: _empty(folder, s)
        yield f"{what} deleted", NONE, lambda folder, s=suffix: _delete(folder, s)
        yield f"{what} with bytes at their end", ALL, lambda folder, s=suffix: _append(folder, s, chance)
    yield BAD_BLOCKS, NONE, lambda folder: _flip(folder, ".sks", chance, 10000, first=4096)
    yield "a bit flipped in each 50 bytes of the segments", NONE, lambda folder: _flip(folder, ".sks", chance, 50)
    yield "a bit flipped in each 1,000 bytes of the journals", SOME, lambda folder: _flip(folder, ".skj", chance, 1000)
    yield "a bit flipped in the middle of the segments", SOME, lambda folder: _flip(folder, ".sks", chance, 10**9)
    yield "files of others in the folder", ALL, lambda folder: _litter(folder, chance)


def _expect_right(server, turns, what):
    """Two turns: one that may find what is left, and one that continues it. Returns the first turn's replies."""
    first, second = replay(server, turns[2]), replay(server, turns[3])
    expect_answers(turns[2], first, what)
    expect_answers(turns[3], second, what)
    return first


def _one_case(env, what, source, left, damage, turns):
    folder = env.new_path("cache")
    shutil.copytree(source, folder)
    damage(folder)
    with Server(env, env.model("qwen3"), *FLAGS, "--cache-disk", folder) as server:
        replies = _expect_right(server.wait_disk(), turns, what)
        hits = sum(reply.hit == "disk" for reply in replies)
        bad = server.metrics()['skippy_store_corrupt_blocks_total{tier="disk"}']
        server.stop()
    if left == ALL:
        expect_hits(turns[2], replies, what)
    expect(what != BAD_BLOCKS or bad > 0, f"{what}: expected bad blocks in /metrics")
    expect(left != NONE or hits == 0, f"{what}: expected that nothing is found, got {hits} hits")
    say(f"{what}: answers right, {hits} of {len(replies)} hits from disk, {bad:.0f} bad blocks found")


def _damaged_while_open(env, source, turns):
    """The files shrink under a server that has them open."""
    folder, what = env.new_path("cache"), "segments emptied while the server runs"
    shutil.copytree(source, folder)
    with Server(env, env.model("qwen3"), *FLAGS, "--cache-disk", folder) as server:
        server.wait_disk()
        _empty(folder, ".sks")
        _expect_right(server, turns, what)
        server.stop()
    say(f"{what}: answers right")


def _expect_without_disk(env, what, folder, turns):
    """The folder cannot be used: the log says so, /metrics says so, the answers are right."""
    with Server(env, env.model("qwen3"), *FLAGS, "--cache-disk", folder) as server:
        _expect_right(server, turns, what)
        ready = server.metrics()["skippy_disk_ready"]
        server.stop()
        warning = server.warning()
    expect(ready == 0, f"{what}: expected skippy_disk_ready 0, got {ready}")
    expect("is not used" in warning, f"{what}: expected a warning that the disk is not used, got '{warning}'")
    say(f"{what}: answers right; the log says: {warning}")


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
            warning = server.warning()
        expect("could not be written" in warning, f"{what}: expected a warning that it is full, got '{warning}'")
        inspect(env, folder / "cache")
        say(f"{what}: answers right; the log says: {warning}")
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
    for what, left, damage in _cases(chance):
        _one_case(env, what, source, left, damage, turns)
    _damaged_while_open(env, source, turns)

    in_the_way = env.new_path("file")
    in_the_way.write_text("a file, not a folder")
    _expect_without_disk(env, "a file in the place of the folder", in_the_way, turns)
    _optional(_full_disk, env, turns)
    _optional(_read_only_disk, env, source, turns)
