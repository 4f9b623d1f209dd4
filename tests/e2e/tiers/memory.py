"""--cache-ram is a limit on what the process really takes, not on what it counts."""

from report import expect, say
from server import Server
from talk import ANSWER_TOKENS, difference, words

MIB = 1 << 20
LIMIT_MIB = 64
# Pages of the threads, of their stacks and of the allocator's arenas that only a server with a store has.
SLACK_MIB = 8
CHURN_MIB = 4 * LIMIT_MIB
BATCH = 24
RECENT = 10  # prompts of which some are in RAM and no longer resident


def _ask(server, seed, number):
    messages = [{"role": "user", "content": f"{number} {words(f'{seed}/memory/{number}', 90)}?"}]
    return messages, server.chat(messages, ANSWER_TOKENS)


def _churn(server, seed, enough):
    """Different prompts until `enough` of the server's metrics holds. Returns how many there were."""
    number = 0
    while not enough(number, server.metrics()):
        for _ in range(BATCH):
            _ask(server, seed, number)
            number += 1
    return number


def _exported(_, metrics):
    return metrics["skippy_export_bytes_total"] >= CHURN_MIB * MIB


def run(env):
    model, flags = env.model("falcon-h1"), ["-c", 2048, "-np", 2, "--cache-seqs", 8]
    with Server(env, model, *flags, "--cache-ram", LIMIT_MIB) as server:
        count = _churn(server, env.seed, _exported)
        most, metrics = server.memory("VmHWM"), server.metrics()
        again = [_ask(server, env.seed, number) for number in range(count - RECENT, count)]
        colds = [server.chat(messages, ANSWER_TOKENS, cache=False) for messages, _ in again]
        server.stop()
    say(f"memory: {count} prompts, {metrics['skippy_export_bytes_total'] / MIB:.0f} MiB of state left the runtime")
    with Server(env, model, *flags, "--cache-ram", 0) as server:
        _churn(server, env.seed, lambda number, _: number >= count)
        base = server.memory("VmHWM")
        server.stop()
    extra = most - base
    held, limit = metrics['skippy_cache_bytes{tier="ram"}'], metrics['skippy_store_limit_bytes{tier="ram"}']
    say(f"memory: at most {most / MIB:.1f} MiB resident, {base / MIB:.1f} MiB without the store: {extra / MIB:.1f} MiB "
        f"for --cache-ram {LIMIT_MIB}; /metrics: {held / MIB:.1f} of {limit / MIB:.1f} MiB")
    headers = [reply.header for _, reply in again]
    expect(any(reply.hit == "ram" for _, reply in again), f"expected a recent prompt to come from RAM, got {headers}")
    for (_, reply), cold in zip(again, colds):
        words_about = difference(cold, reply, bits=False)
        expect(words_about is None, f"a prompt asked again: {words_about}")
    expect(extra <= (LIMIT_MIB + SLACK_MIB) * MIB,
           f"expected at most {LIMIT_MIB} + {SLACK_MIB} MiB more than without a store, got {extra / MIB:.1f}")
    expect(0 < held <= limit <= LIMIT_MIB * MIB,
           f"expected 0 < bytes held <= limit <= {LIMIT_MIB} MiB in /metrics, got {held:.0f}, {limit:.0f}")
    puts, entries = metrics['skippy_store_puts_total{tier="ram"}'], metrics['skippy_store_entries{tier="ram"}']
    expect(puts > 2 * entries, f"expected most of the {puts:.0f} entries to be evicted, {entries:.0f} are there")
