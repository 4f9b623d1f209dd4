#!/usr/bin/env bash
# Measures every model family against llama-server and writes tables, plots and one HTML page. See usage below.
set -euo pipefail

SKIPPY_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$SKIPPY_ROOT/scripts/lib/say.sh"
. "$SKIPPY_ROOT/scripts/lib/models.sh"

usage() {
    cat <<'TEXT'
usage: evals/skippy-cache-family-bench.sh OUTPUT_DIR [further options of 'skippy bench family']

Builds skippy and llama-server, runs the rows of the families and of the use cases, and writes the report:
OUTPUT_DIR/readme-tables.md, report.html, plots/, TODO.md, and the raw rows with every receipt. Ctrl-C keeps what was
measured; the same command goes on from there.

environment:
  SKIPPY_CACHE_OPERATOR_INPUT   an operator's request (evals/schemas/cache-operator.schema.json): programs, models and
                                limits are its own
  SKIPPY_CACHE_MODELS           without a request: folder with the models (plain files or a Hugging Face cache).
                                Default: models with random weights and the families' real widths, made once
  SKIPPY_CACHE_MODELS_MIB       largest generated model (default: 5120)
  SKIPPY_CACHE_MODELS_ACTIVE_M  most million weights of their layers that a token goes through (default: 320)
  SKIPPY_CACHE_SKIP_BUILD=1     use what is built
  SKIPPY_CACHE_BUILD_OUTPUT     folder with skippy and llama-server (default: build)
  SKIPPY_CACHE_USECASE_CORPUS   prompts of the use cases (default: evals/skippy-usecase-corpus.json)
  SKIPPY_CACHE_AGENT_CORPUS     conversations of agents (default: evals/skippy-agent-corpus.json)
  PREFIX_TOKENS                 known prefix of every row (default: 128)
  RUNTIME_LANE_COUNT            lanes of skippy (default: 1)
  LLAMA_PARALLEL                slots of llama-server (default: 1)
  CACHE_HIT_REPEATS             measured requests of skippy (default: 20)
  LLAMA_REPEATS                 measured requests of llama-server (default: 20)

example:
  SKIPPY_CACHE_MODELS=~/.cache/huggingface/hub evals/skippy-cache-family-bench.sh /tmp/family --cases llama,falcon_h1
TEXT
}

case ${1:-} in
'')
    usage >&2
    exit 2
    ;;
-h | --help)
    usage
    exit 0
    ;;
esac
OUTPUT=$1
shift

TOOLS=${SKIPPY_CACHE_BUILD_OUTPUT:-$SKIPPY_ROOT/build}
CORPUS=${SKIPPY_CACHE_USECASE_CORPUS:-$SKIPPY_ROOT/evals/skippy-usecase-corpus.json}
AGENTS=${SKIPPY_CACHE_AGENT_CORPUS:-$SKIPPY_ROOT/evals/skippy-agent-corpus.json}
export PREFIX_TOKENS=${PREFIX_TOKENS:-128}

build() {
    if [ "${SKIPPY_CACHE_SKIP_BUILD:-}" = 1 ]; then return; fi
    "$SKIPPY_ROOT/scripts/bootstrap" --bench
    make -C "$SKIPPY_ROOT" baseline build
}

# The generated models, where no folder with real ones is named.
find_models() {
    MODELS=${SKIPPY_CACHE_MODELS:-}
    if [ -n "$MODELS" ]; then return; fi
    MODELS=$SKIPPY_CACHE/models/families
    mkdir -p "$MODELS"
    "$TOOLS/skippy" bench models --root "$MODELS" --synthetic --max-mib "${SKIPPY_CACHE_MODELS_MIB:-5120}" \
        --max-active-m "${SKIPPY_CACHE_MODELS_ACTIVE_M:-320}"
}

build
[ -x "$TOOLS/skippy" ] || die "there is no program '$TOOLS/skippy'." "Build it ('make build'), or name its folder with SKIPPY_CACHE_BUILD_OUTPUT."
if [ -n "${SKIPPY_CACHE_OPERATOR_INPUT:-}" ]; then
    what=(--input "$SKIPPY_CACHE_OPERATOR_INPUT")
else
    find_models
    what=(--models "$MODELS" --llama-server "$TOOLS/llama-server")
fi
exec "$TOOLS/skippy" bench family "${what[@]}" --corpus "$CORPUS" --agent-corpus "$AGENTS" --out "$OUTPUT" "$@"
