#!/usr/bin/env bash
# usage: run_openai_client.sh SKIPPY MODEL
# Serves MODEL with an API key on a free port, drives it with the official OpenAI client, and stops it as an operator would.
# Exit 77: skipped, the reason is printed.
set -euo pipefail

skippy=$1
model=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
log=$(mktemp)
server=

skip() {
    echo "skipped: $1"
    exit 77
}

stop_server() {
    if [ -n "$server" ]; then kill -TERM "$server" 2>/dev/null || true; fi
    rm -f "$log"
}
trap stop_server EXIT

fail() {
    echo "error: $1" >&2
    cat "$log" >&2
    exit 1
}

command -v node >/dev/null || skip "node is not installed"
[ -d "$here/node_modules/openai" ] || skip "tests/e2e/node_modules is missing (scripts/bootstrap --tests installs it)"
[ -r "$model" ] || skip "the test model '$model' is not there"

free_port() {
    node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close(); });'
}

healthy() {
    node -e 'fetch(process.argv[1]).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1));' "http://127.0.0.1:$1/health"
}

key=sk-e2e-0123456789
port=$(free_port)
"$skippy" serve -m "$model" -c 2048 -np 2 -t 1 --host 127.0.0.1 --port "$port" --api-key "$key" >"$log" 2>&1 &
server=$!
until healthy "$port"; do # bounded by the test's time limit
    kill -0 "$server" 2>/dev/null || fail "the server ended before it was ready"
    sleep 0.1
done

cd "$here"
status=0
BASE_URL=http://127.0.0.1:$port/v1 API_KEY=$key node --test --test-concurrency=1 openai_client/test.mjs || status=$?
[ "$status" -eq 0 ] || fail "the client's tests failed"

kill -TERM "$server"
wait "$server" || status=$?
server=
[ "$status" -eq 0 ] || fail "the server ended with status $status after SIGTERM"
