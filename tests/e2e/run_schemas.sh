#!/usr/bin/env bash
# usage: run_schemas.sh SKIPPY
# Checks the JSON schemas of evals/schemas against the committed files and against what the program reads and writes.
# Exit 77: skipped, the reason is printed.
set -euo pipefail

skippy=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

skip() {
    echo "skipped: $1"
    exit 77
}

command -v python3 >/dev/null || skip "python3 is not installed (scripts/bootstrap --tests installs it)"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || skip "python3 is older than 3.9"
python3 -c 'import jsonschema' 2>/dev/null || skip "python3-jsonschema is not installed (scripts/bootstrap --tests installs it)"
exec python3 -B "$here/schemas/check_schemas.py" --skippy "$skippy" --evals "$here/../../evals"
