"""kill -9 at random times, again and again, on one folder whose limit is so small that writing never ends."""

import random
import threading
import time

from report import Failure, expect, say
from server import Gone, Server, inspect
from talk import difference, record, replay

CONVERSATIONS, TURNS, CLIENTS = 12, 3, 3
STARTUP_SHARE = 0.25  # of the kills come before the server listens, or soon after
MAX_MIB = 12  # about a third of what the conversations leave


class Clients:
    """Ask for random turns until the server is gone; every answer that came whole must be right."""

    def __init__(self, server, exchanges, seed):
        self.server = server
        self.exchanges = exchanges
        self.stopping = False
        self.answers = self.hits = 0
        self.wrong = []
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._ask, args=(random.Random(f"{seed}/{i}"),))
                         for i in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def _ask(self, chance):
        while not self.stopping and not self.wrong:
            exchange = chance.choice(self.exchanges)
            try:
                self._judge(exchange, self.server.chat(exchange.messages, 8))
            except Gone as gone:
                if not self.stopping:
                    self.wrong.append(f"{exchange}: expected an answer of a running server, got '{gone}'")
            except Failure as failure:
                self.wrong.append(f"{exchange}: {failure}")

    def _judge(self, exchange, reply):
        words = difference(exchange.reply, reply)
        with self._lock:
            self.answers += 1
            self.hits += reply.hit in ("disk", "ram")
            if words:
                self.wrong.append(f"{exchange}: {words}")

    def end_with(self, kill):
        self.stopping = True
        kill()
        for thread in self._threads:
            thread.join()
        if self.wrong:
            raise Failure("; ".join(self.wrong))


def _cycle(env, model, number, flags, exchanges, chance):
    """One life of the server. Returns the number of answers and of hits from a store."""
    server = Server(env, model, *flags)
    try:
        if chance.random() < STARTUP_SHARE:
            time.sleep(chance.uniform(0.05, 1.0))  # loading, or opening the store
            expect(server.process.poll() is None, f"expected a server that starts:\n{server.log()}")
            return 0, 0
        clients = Clients(server.ready(), exchanges, f"{env.seed}/{model.name}/{number}")
        time.sleep(chance.uniform(0.0, 1.5))
        clients.end_with(server.kill)
        return clients.answers, clients.hits
    finally:
        server.kill()
        server.log_path.unlink(missing_ok=True)


def _check_survivor(env, model, flags, folder, exchanges):
    """After the last kill: a server that starts, answers, stores, and leaves nothing but its own files."""
    with Server(env, model, *flags) as server:
        for exchange, reply in zip(exchanges, replay(server.wait_disk(), exchanges)):
            words = difference(exchange.reply, reply)
            expect(words is None, f"after all kills: {exchange}: {words}")
        server.wait_stored()
        puts = server.metrics()['skippy_store_puts_total{tier="disk"}']
        server.stop()
    expect(puts > 0, "after all kills: expected that the folder does not hold everything, and is written again")
    stores = inspect(env, folder)
    expect(sum(store["totals"]["entries"] for store in stores) > 0, "after all kills: expected entries on disk")
    leftover = [path.name for path in folder.rglob("*") if path.is_file() and path.suffix not in (".skj", ".sks")
                and path.name != "lock"]
    expect(not leftover, f"after all kills: expected journals, segments and locks only, got also {leftover}")


def _one_model(env, name, kills):
    model, folder, chance = env.model(name), env.new_path("cache"), random.Random(f"{env.seed}/{name}")
    common = ["-c", 2048, "-np", 2, "--exact", "bit", "--cache-ram", 32]
    flags = [*common, "--cache-disk", folder, "--cache-disk-max", MAX_MIB]
    with Server(env, model, *common) as server:
        exchanges = [x for turn in record(server, env.seed, CONVERSATIONS, TURNS) for x in turn]
        server.stop()
    say(f"{name}: {len(exchanges)} answers known, {kills} kills follow")
    answers = hits = 0
    for number in range(1, kills + 1):
        n_answers, n_hits = _cycle(env, model, number, flags, exchanges, chance)
        answers, hits = answers + n_answers, hits + n_hits
        if folder.exists():
            inspect(env, folder)
        if number % 10 == 0 or number == kills:
            say(f"{name}: {number} of {kills} kills, {answers} answers right, {hits} of them from a store")
    _check_survivor(env, model, flags, folder, exchanges)


def run(env):
    _one_model(env, "qwen3", env.kills // 2)
    _one_model(env, "mamba2", env.kills - env.kills // 2)
