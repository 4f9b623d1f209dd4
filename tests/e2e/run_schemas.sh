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

# Debian's package belongs to /usr/bin/python3, which need not be the first one in PATH.
find_python() {
    local python
    for python in python3 /usr/bin/python3; do
        if "$python" -c 'import jsonschema, sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
            echo "$python"
            return
        fi
    done
}

python=$(find_python)
[ -n "$python" ] || skip "no Python 3.9 or newer with jsonschema (scripts/bootstrap --tests installs python3-jsonschema)"
exec "$python" -B "$here/schemas/check_schemas.py" --skippy "$skippy" --evals "$here/../../evals"
