# shellcheck shell=bash
# Debian packages: which are missing, and how to get them.
#
# A package counts as present when what it provides can be used (a command, a header, a library), not when the package
# manager knows its name: tools installed in another way, and systems other than Debian, work too.

has_command() {
    local name
    for name in "$@"; do command -v "$name" >/dev/null 2>&1 || return 1; done
}

has_library() {
    has_command pkg-config && pkg-config --exists "$@"
}

has_cmocka() {
    has_command cc && printf '#include <stdarg.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <setjmp.h>\n#include <cmocka.h>\n' |
        cc -E -x c - >/dev/null 2>&1
}

has_blake3() {
    [ -f "${BLAKE3_DIR:-}/blake3.h" ] || [ -n "$(find /usr/share/cargo/registry -maxdepth 3 -path '*/blake3-*/c/blake3.h' -print -quit 2>/dev/null)" ]
}

# libFuzzer's and the sanitizers' runtime lie in a package of their own.
has_clang_runtime() {
    has_command clang && [ -n "$(find "$(clang -print-runtime-dir)" -name 'libclang_rt.fuzzer*' -print -quit 2>/dev/null)" ]
}

# Debian's package belongs to /usr/bin/python3, which need not be the first one in PATH.
has_jsonschema() {
    python3 -c 'import jsonschema' 2>/dev/null || /usr/bin/python3 -c 'import jsonschema' 2>/dev/null
}

# package_present NAME
package_present() {
    case $1 in
    build-essential) has_command cc c++ make ;;
    ninja-build) has_command ninja ;;
    nodejs) has_command node ;;
    gnuplot-nox) has_command gnuplot ;; # gnuplot-qt and gnuplot-x11 have it as well
    python3-jsonschema) has_jsonschema ;;
    iproute2) has_command ip || [ -x /usr/sbin/ip ] ;; # not on everybody's PATH
    libevent-dev) has_library libevent libevent_openssl libevent_pthreads ;;
    libssl-dev) has_library openssl ;;
    libjansson-dev) has_library jansson ;;
    libcurl4-openssl-dev) has_library 'libcurl >= 7.85' ;;
    libcmocka-dev) has_cmocka ;;
    librust-blake3-dev) has_blake3 ;;
    libclang-rt-dev) has_clang_runtime ;;
    *) has_command "$1" ;;
    esac
}

# packages_missing NAME...: prints the names that are not there, one per line.
packages_missing() {
    local name
    for name in "$@"; do package_present "$name" || printf '%s\n' "$name"; done
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif [ -t 0 ] && [ -z "${CI:-}" ]; then
        sudo "$@"
    else
        sudo -n "$@"
    fi
}

# packages_refuse REASON NAME...
packages_refuse() {
    local reason=$1 hints=("Install them (names are Debian 12's) and run the command again.")
    shift
    if [ "${CACHE_ONLY:-0}" -eq 0 ]; then hints+=("The cache library alone needs fewer: 'make test-cache'."); fi
    die "these packages are missing: $*" "$reason" "${hints[@]}"
}

# packages_install NAME...: installs what is missing, or ends the program with the list.
packages_install() {
    local missing still
    mapfile -t missing < <(packages_missing "$@")
    if [ ${#missing[@]} -eq 0 ]; then
        say "packages: all present"
        return
    fi
    has_command apt-get || packages_refuse "They cannot be installed here: there is no apt-get." "${missing[@]}"
    if [ "$(id -u)" -ne 0 ] && ! has_command sudo; then
        packages_refuse "They cannot be installed here: you are not root and there is no sudo." "${missing[@]}"
    fi
    say "packages: installing ${missing[*]} ..."
    # A stale or unreachable index is not fatal by itself: the packages may be in the local archive already.
    as_root apt-get update -qq -o Acquire::Retries=2 || warn "the package index could not be refreshed (offline?)"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" ||
        packages_refuse "apt-get could not install them (its message is above; offline, or no permission?)." "${missing[@]}"
    mapfile -t still < <(packages_missing "${missing[@]}")
    [ ${#still[@]} -eq 0 ] || packages_refuse "apt-get installed them, but what they provide is not usable." "${still[@]}"
}
