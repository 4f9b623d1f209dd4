# shellcheck shell=bash
# Messages of scripts/bootstrap: numbered progress lines on standard output, everything else on standard error.

SAY_STEP=0
SAY_STEPS=1

# say_begin N: how many steps will follow.
say_begin() {
    SAY_STEP=0
    SAY_STEPS=$1
}

# say_next: the next step begins; the lines of say carry its number.
say_next() {
    SAY_STEP=$((SAY_STEP + 1))
}

# say TEXT: a line of the current step.
say() {
    printf '[%d/%d] %s\n' "$SAY_STEP" "$SAY_STEPS" "$1"
}

warn() {
    printf 'warning: %s\n' "$1" >&2
}

# die LINE...: ends the program with a message of one or more lines.
die() {
    printf 'error: %s\n' "$1" >&2
    shift
    if [ $# -gt 0 ]; then printf '       %s\n' "$@" >&2; fi
    exit 1
}
