#!/usr/bin/env bash
# usage: run_stage_up.sh SKIPPY MODEL [SCENARIO...]
# Runs tests/e2e/stage_up: a whole split started by one command, against the model in one process.
# Exit 77: skipped, the reason is printed.
set -euo pipefail

skippy=$1
model=$2
shift 2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

skip() {
    echo "skipped: $1"
    exit 77
}

command -v python3 >/dev/null || skip "python3 is not installed (scripts/bootstrap --tests installs it)"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || skip "python3 is older than 3.9"
[ -e "$model" ] || skip "the model '$model' is not there"
exec python3 -B "$here/stage_up" "$skippy" "$model" "$@"
