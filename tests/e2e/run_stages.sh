#!/usr/bin/env bash
# usage: run_stages.sh SKIPPY MODELS SCENARIO...
# Runs scenarios of tests/e2e/stages: one model over several "machines", each a network namespace with an address of its
# own. All of it lives in a private network and mount namespace, so nothing of this machine changes and nothing is left
# behind. Exit 77: skipped, the reason is printed.
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
command -v ip >/dev/null || skip "the program 'ip' is not installed (Debian: iproute2)"
command -v unshare >/dev/null || skip "the program 'unshare' is not installed (Debian: util-linux)"

private=(unshare --net --mount)
[ "$(id -u)" -eq 0 ] || private+=(--user --map-root-user)
# What is tried here is all that the tests need of the kernel: a namespace inside of a private one, and a pair of devices.
probe='mount -t tmpfs tmpfs /run && ip netns add probe && ip link add probe0 type veth peer name probe1 netns probe &&
    ip link add probe2 type bridge && ip netns exec probe true'
why=$("${private[@]}" sh -c "$probe" 2>&1) || skip "network namespaces are not permitted here: ${why:-no reason given}"
exec "${private[@]}" python3 -B "$here/stages" --skippy "$skippy" --models "$models" "$@"
