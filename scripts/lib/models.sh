# shellcheck shell=bash
# Generated models: random weights, made once by 'skippy synth' and kept in the cache directory.

SKIPPY_CACHE=${SKIPPY_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/skippy}

# synth_model FAMILY SIZE: makes the model if it is not there and sets SYNTH_MODEL to its path. It is written under
# another name first, so that an interrupted run leaves no half model.
synth_model() {
    SYNTH_MODEL=$SKIPPY_CACHE/models/$1-$2.gguf
    [ ! -f "$SYNTH_MODEL" ] || return 0
    mkdir -p "$SKIPPY_CACHE/models"
    "$SKIPPY_ROOT/build/skippy" synth --family "$1" --size "$2" --force --out "$SYNTH_MODEL.new"
    mv "$SYNTH_MODEL.new" "$SYNTH_MODEL"
}
