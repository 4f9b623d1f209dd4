#!/usr/bin/env bash
# Makes a folder that can be shown out of a run of the family benchmark. See usage below.
set -euo pipefail

SKIPPY_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$SKIPPY_ROOT/scripts/lib/say.sh"
. "$SKIPPY_ROOT/scripts/lib/models.sh"

usage() {
    cat <<'TEXT'
usage: evals/publish.sh OUTPUT_DIR DEST_DIR

Copies the rows and certificates of a finished run (skippy-cache-family-bench.sh OUTPUT_DIR) to DEST_DIR/full-gguf and
DEST_DIR/use-cases, without the processes' complete output and the stores, replaces the folders of this machine by
/results, /models, /opt/skippy and /opt/llama.cpp, and makes tables.md, plots and report.html from the replaced files.
DEST_DIR must not exist. Certificates in the rows name the digests of the files before the replacement.

environment: SKIPPY_CACHE_MODELS and SKIPPY_CACHE_BUILD_OUTPUT as they were for the run

example: evals/publish.sh /tmp/family evals/results/2026-12-01
TEXT
}

case ${1:-} in
-h | --help)
    usage
    exit 0
    ;;
esac
if [ $# -ne 2 ]; then
    usage >&2
    exit 2
fi
[ -d "$1" ] || die "there is no folder '$1'." "Name the OUTPUT_DIR of a run."
[ ! -e "$2" ] || die "'$2' exists already." "Name a new folder: what is in the old one could be of another run."
OUTPUT=$(cd "$1" && pwd)
DEST=$2
TOOLS=${SKIPPY_CACHE_BUILD_OUTPUT:-$SKIPPY_ROOT/build}
MODELS=${SKIPPY_CACHE_MODELS:-$SKIPPY_CACHE/models/families}

[ -f "$OUTPUT/evict.json" ] || die "'$OUTPUT' has no evict.json." "Let the run end: the same command goes on from there."
mkdir -p "$DEST"
inputs=()
for part in full-gguf use-cases; do
    [ -f "$OUTPUT/$part/production-cache-bench.json" ] || continue
    cp -r "$OUTPUT/$part" "$DEST/$part"
    rm -rf "$DEST/$part/server-logs"
    find "$DEST/$part" -depth \( -type d -name process -o -name row.partial.json \) -exec rm -rf {} +
    inputs+=(--input "$DEST/$part/production-cache-bench.json")
done
[ ${#inputs[@]} -gt 0 ] || die "'$OUTPUT' has no finished rows."
cp "$OUTPUT/evict.json" "$DEST/evict.json"
find "$DEST" -type f -exec sed -i -e "s|$OUTPUT/|/results/|g" -e "s|$MODELS|/models|g" -e "s|$TOOLS/|/opt/skippy/|g" \
    -e "s|$SKIPPY_ROOT/evals|/opt/skippy/evals|g" -e "s|$SKIPPY_CACHE/llama/[^/\"]*/bin|/opt/llama.cpp|g" {} +
"$TOOLS/skippy" bench report "${inputs[@]}" --evict-json "$DEST/evict.json" --output "$DEST/tables.md" \
    --plots "$DEST/plots" --html "$DEST/report.html"
rm -f "$DEST"/plots/*.dat "$DEST"/plots/*.gp
if grep -rlF -e "$HOME/" -e "$SKIPPY_ROOT/" "$DEST" >&2; then
    die "the files above still name folders of this machine."
fi
