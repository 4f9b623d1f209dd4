"""Several servers and one folder: different models share it, one model's second server does without."""

from report import expect, say
from server import Server, inspect
from talk import expect_answers, expect_hits, record, replay

CONVERSATIONS = 3
FLAGS = ["-c", 2048, "-np", 2, "--exact", "bit", "--cache-ram", 64]


def _known(env, model):
    with Server(env, model, *FLAGS) as server:
        turns = record(server, env.seed, CONVERSATIONS, 4)
        server.stop()
    return turns


def _two_models(env, folder, known):
    servers = []
    try:
        for model in known:
            servers.append(Server(env, model, *FLAGS, "--cache-disk", folder).ready().wait_disk())
        for turn in range(2):
            for server in servers:
                exchanges = known[server.model][turn]
                expect_answers(exchanges, replay(server, exchanges), f"{server.model.name} in a shared folder")
        for server in servers:
            server.stop()
    finally:
        for server in servers:
            server.kill()
    stores = inspect(env, folder)
    expect(len(stores) == len(known), f"expected a store for each of {len(known)} models, got {len(stores)}")
    for model, turns in known.items():
        with Server(env, model, *FLAGS, "--cache-disk", folder) as server:
            replies = replay(server.wait_disk(), turns[2])
            expect_hits(turns[2], replies, f"{model.name} in a shared folder")
            expect_answers(turns[2], replies, f"{model.name} in a shared folder")
            server.stop()
    say("sharing: two models in one folder at the same time, each finds its own again")


def _two_servers(env, folder, model, turns):
    what = "the second server of a model"
    with Server(env, model, *FLAGS, "--cache-disk", folder) as first:
        first.wait_disk()
        with Server(env, model, *FLAGS, "--cache-disk", folder) as second:
            expect_answers(turns[3], replay(second, turns[3]), what)
            ready, warning = second.metrics()["skippy_disk_ready"], second.warning()
            expect(ready == 0, f"{what}: expected skippy_disk_ready 0, got {ready}")
            expect("is not used" in warning, f"{what}: expected a warning that the disk is not used, got '{warning}'")
            say(f"sharing: {what} serves without the disk: {warning}")
            second.stop()
        first.kill()
    with Server(env, model, *FLAGS, "--cache-disk", folder) as third:
        replies = replay(third.wait_disk(), turns[3])
        expect_hits(turns[3], replies, "after the first server was killed")
        expect_answers(turns[3], replies, "after the first server was killed")
        third.stop()
    inspect(env, folder)
    say("sharing: after the first server was killed, the next one takes the store over")


def run(env):
    folder = env.new_path("cache")
    known = {model: _known(env, model) for model in (env.model("qwen3"), env.model("rwkv7"))}
    _two_models(env, folder, known)
    model = env.model("qwen3")
    _two_servers(env, folder, model, known[model])
