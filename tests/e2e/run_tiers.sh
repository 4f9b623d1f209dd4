#!/usr/bin/env bash
# usage: run_tiers.sh SKIPPY MODELS SCENARIO...
# Runs scenarios of tests/e2e/tiers: real servers whose state must outlive restarts, kills and damaged files.
# Exit 77: skipped, the reason is printed.
set -euo pipefail

skippy=$1
models=$2
shift 2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

skip() {
    echo "skipped: $1"
    exit 77
}

command -v python3 >/dev/null || skip "python3 is not installed (scripts/bootstrap --tests installs it)"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || skip "python3 is older than 3.9"
exec python3 -B "$here/tiers" --skippy "$skippy" --models "$models" "$@"
