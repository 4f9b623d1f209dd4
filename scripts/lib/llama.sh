# shellcheck shell=bash
# llama.cpp: a pinned, unmodified source tree, and a build of it that is kept outside the repository.
#
#   <cache>/src/node-llama-cpp-<version>.tgz    the npm package that carries llama.cpp's git bundle
#   <cache>/src/llama.cpp                       the source tree, cloned from the bundle
#   <cache>/llama/<version>-<key>               the build; the key is a digest over all that changes its result
#   <cache>/lock                                held while any of these is written

# CMAKE_BUILD_RPATH_USE_ORIGIN: the libraries find each other wherever they are copied ('make install').
LLAMA_FLAGS=(
    -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON
    -DCMAKE_BUILD_TYPE=Release
    -DLLAMA_BUILD_TESTS=OFF
    -DLLAMA_BUILD_EXAMPLES=OFF
    -DLLAMA_BUILD_UI=OFF
    -DLLAMA_USE_PREBUILT_UI=OFF
    -DLLAMA_OPENSSL=OFF
)

# lock_field NAME FIELD: a column (2 version, 3 source, 4 check) of deps/deps.lock.
lock_field() {
    awk -v name="$1" -v field="$2" '$1 == name { print $field; exit }' "$SKIPPY_ROOT/deps/deps.lock"
}

llama_init() {
    LLAMA_VERSION=$(lock_field llama.cpp 2)
    LLAMA_COMMIT=$(lock_field llama.cpp 4)
    LLAMA_COMMIT=${LLAMA_COMMIT#commit:}
    LLAMA_BUNDLE=$(lock_field llama.cpp 3)
    LLAMA_BUNDLE=${LLAMA_BUNDLE#*:}
    LLAMA_PACKAGE_VERSION=$(lock_field node-llama-cpp 2)
    LLAMA_PACKAGE_SHA256=$(lock_field node-llama-cpp 4)
    LLAMA_PACKAGE_SHA256=${LLAMA_PACKAGE_SHA256#sha256:}
    LLAMA_PACKAGE=$SKIPPY_CACHE/src/node-llama-cpp-$LLAMA_PACKAGE_VERSION.tgz
    LLAMA_SRC=${LLAMA_CPP_DIR:-$SKIPPY_CACHE/src/llama.cpp}
    read -r -a LLAMA_EXTRA_FLAGS <<<"${SKIPPY_LLAMA_CMAKE_ARGS:-}"
}

# llama_lock: one bootstrap at a time writes to the cache; the lock is released when the program ends.
llama_lock() {
    mkdir -p "$SKIPPY_CACHE/src" "$SKIPPY_CACHE/llama" 2>/dev/null ||
        die "the cache directory '$SKIPPY_CACHE' cannot be created." "Set SKIPPY_CACHE_DIR to a directory you can write to."
    has_command flock || return 0
    exec 9>"$SKIPPY_CACHE/lock"
    if ! flock -n 9; then
        say "another bootstrap is at work on '$SKIPPY_CACHE': waiting for it ..."
        flock 9
    fi
}

# llama_must_fetch: true when the npm package is needed and not there yet.
llama_must_fetch() {
    [ -z "${LLAMA_CPP_DIR:-}" ] && [ ! -d "$LLAMA_SRC/.git" ] && [ ! -f "$LLAMA_PACKAGE" ]
}

# Git would otherwise rewrite its index when it looks at the tree, and llama.cpp's build configures itself anew then.
llama_git() {
    GIT_OPTIONAL_LOCKS=0 git -C "$LLAMA_SRC" "$@"
}

# llama_fetch TMP: the npm package, verified, into the cache.
llama_fetch() {
    local tmp=$1 sum
    say "llama.cpp $LLAMA_VERSION: fetching (35 MB, npm package node-llama-cpp $LLAMA_PACKAGE_VERSION) ..."
    if ! (cd "$tmp" && npm pack --loglevel=error --ignore-scripts --fetch-retries=2 --fetch-retry-mintimeout=1000 \
        --fetch-retry-maxtimeout=5000 "node-llama-cpp@$LLAMA_PACKAGE_VERSION" >/dev/null); then
        die "llama.cpp $LLAMA_VERSION could not be fetched: the npm package node-llama-cpp $LLAMA_PACKAGE_VERSION is not reachable (offline?)." \
            "Without network you can:" \
            "  - set LLAMA_CPP_DIR to a llama.cpp $LLAMA_VERSION source tree that is already here, or" \
            "  - copy node-llama-cpp-$LLAMA_PACKAGE_VERSION.tgz into '$SKIPPY_CACHE/src', or" \
            "  - work on the cache library alone: 'make test-cache'."
    fi
    mv "$tmp/node-llama-cpp-$LLAMA_PACKAGE_VERSION.tgz" "$tmp/package.tgz"
    sum=$(sha256sum "$tmp/package.tgz" | cut -d ' ' -f 1)
    if [ "$sum" != "$LLAMA_PACKAGE_SHA256" ]; then
        die "the fetched npm package node-llama-cpp $LLAMA_PACKAGE_VERSION is not the pinned one." \
            "expected sha256 $LLAMA_PACKAGE_SHA256" "received sha256 $sum"
    fi
    mv "$tmp/package.tgz" "$LLAMA_PACKAGE"
}

# llama_clone TMP: the source tree out of the package.
llama_clone() {
    local tmp=$1
    echo "$LLAMA_PACKAGE_SHA256  $LLAMA_PACKAGE" | sha256sum --check --status ||
        die "'$LLAMA_PACKAGE' does not have the pinned checksum." "Remove the file and run the command again."
    say "llama.cpp $LLAMA_VERSION: unpacking ..."
    tar -xzf "$LLAMA_PACKAGE" -C "$tmp" "package/$LLAMA_BUNDLE"
    git -c advice.detachedHead=false clone --quiet "$tmp/package/$LLAMA_BUNDLE" "$tmp/llama.cpp"
    # The bundle goes away with the temporary folder; a remote that points to it would only mislead.
    git -C "$tmp/llama.cpp" remote remove origin
    mv "$tmp/llama.cpp" "$LLAMA_SRC"
}

# The pinned tree must be the pinned commit without any change.
llama_check_pinned() {
    local head
    head=$(llama_git rev-parse HEAD || echo unknown)
    [ "$head" = "$LLAMA_COMMIT" ] ||
        die "'$LLAMA_SRC' is at commit $head, not at $LLAMA_COMMIT ($LLAMA_VERSION)." "Remove the folder and run the command again."
    llama_git diff --quiet HEAD -- ||
        die "'$LLAMA_SRC' has local changes; the pinned llama.cpp is used unmodified." \
            "Remove the folder, or set LLAMA_CPP_DIR to a tree of your own."
}

# A tree of the user's own may differ; say so, because results were only verified with the pinned version.
llama_check_own() {
    local found
    [ -f "$LLAMA_SRC/include/llama.h" ] || die "LLAMA_CPP_DIR='$LLAMA_SRC' is not a llama.cpp source tree (no include/llama.h)."
    found=$(sed -n 's/^set(LLAMA_VERSION_\(MAJOR\|MINOR\|PATCH\) \([0-9]*\)).*/\2/p' "$LLAMA_SRC/CMakeLists.txt" 2>/dev/null | paste -sd .)
    [ "v$found" = "$LLAMA_VERSION" ] ||
        warn "LLAMA_CPP_DIR holds llama.cpp ${found:-of an unknown version}; Skippy is verified with $LLAMA_VERSION only."
    LLAMA_VERSION=v${found:-unknown}
    say "llama.cpp $LLAMA_VERSION: using '$LLAMA_SRC' (LLAMA_CPP_DIR)"
}

llama_source() {
    if [ -n "${LLAMA_CPP_DIR:-}" ]; then
        LLAMA_SRC=$(cd "$LLAMA_CPP_DIR" 2>/dev/null && pwd) || die "LLAMA_CPP_DIR='$LLAMA_CPP_DIR' is not a folder."
        llama_check_own
        return
    fi
    if [ ! -d "$LLAMA_SRC/.git" ]; then
        # In the cache's own folder, so that the finished parts can be renamed into place.
        LLAMA_TMP=$(mktemp -d "$SKIPPY_CACHE/src/tmp.XXXXXX")
        trap 'rm -rf "$LLAMA_TMP"' EXIT
        [ -f "$LLAMA_PACKAGE" ] || llama_fetch "$LLAMA_TMP"
        llama_clone "$LLAMA_TMP"
        rm -rf "$LLAMA_TMP"
    fi
    llama_check_pinned
    say "llama.cpp $LLAMA_VERSION: source is there (commit ${LLAMA_COMMIT:0:7}, unmodified)"
}

# All that changes the build's result: version, place of a tree of the user's own, flags, compilers, and what
# -march=native means on this CPU (a cache on a shared home directory may serve several machines).
llama_key() {
    local cc=${CC:-cc} cxx=${CXX:-c++}
    {
        printf '%s\n' "$LLAMA_VERSION" "$LLAMA_COMMIT" "${LLAMA_CPP_DIR:+$LLAMA_SRC}"
        printf '%s\n' "${LLAMA_FLAGS[@]}" "${LLAMA_EXTRA_FLAGS[@]}"
        "$cc" --version
        "$cxx" --version
        "$cc" -march=native -dM -E -x c /dev/null 2>/dev/null | LC_ALL=C sort
    } | sha256sum | cut -c 1-12
}

llama_configure() {
    LLAMA_BUILD=$SKIPPY_CACHE/llama/$LLAMA_VERSION-$(llama_key)
    if [ -f "$LLAMA_BUILD/build.ninja" ]; then
        say "llama.cpp $LLAMA_VERSION: configured"
        return
    fi
    say "llama.cpp $LLAMA_VERSION: configuring ..."
    mkdir -p "$LLAMA_BUILD"
    if ! cmake -G Ninja -S "$LLAMA_SRC" -B "$LLAMA_BUILD" "${LLAMA_FLAGS[@]}" "${LLAMA_EXTRA_FLAGS[@]}" \
        >"$LLAMA_BUILD/configure.log" 2>&1 9>&-; then
        tail -n 30 "$LLAMA_BUILD/configure.log" >&2
        die "llama.cpp could not be configured; the whole log is '$LLAMA_BUILD/configure.log'."
    fi
}

# A compiler process of this build takes up to 1.5 GiB.
llama_jobs() {
    local cores available
    cores=$(nproc)
    available=$(awk '/^MemAvailable:/ { print int($2 / 1572864) }' /proc/meminfo 2>/dev/null)
    available=${available:-$cores}
    [ "$available" -ge 1 ] || available=1
    echo $((available < cores ? available : cores))
}

# show_progress: of ninja's output only the step counter, redrawn on a terminal, every 25th line in a log. The compiler's
# warnings about code that is not ours to change stay in the log file.
show_progress() {
    if [ -t 1 ]; then
        awk '/^\[[0-9]+\/[0-9]+\]/ { printf "\r\033[K%s", substr($0, 1, 79); fflush() } END { print "" }'
    else
        awk '/^\[[0-9]+\/[0-9]+\]/ && n++ % 25 == 0 { print; fflush() }'
    fi
}

# run_ninja ARGUMENT...: the whole output goes to build.log; of a failure the part that says why is shown.
run_ninja() {
    local log=$LLAMA_BUILD/build.log
    ninja -C "$LLAMA_BUILD" "$@" 2>&1 9>&- | tee "$log" | show_progress && return
    sed -n '/^FAILED:/,$p' "$log" | head -n 40 >&2
    die "llama.cpp could not be built; the whole log is '$log'."
}

# The pinned tree never changes, so a target that was built stays built. A tree of the user's own is always asked.
llama_is_built() {
    local target
    if [ -n "${LLAMA_CPP_DIR:-}" ]; then
        ninja -C "$LLAMA_BUILD" -n "$@" 2>/dev/null 9>&- | grep -q 'no work to do'
        return
    fi
    for target in "$@"; do [ -f "$LLAMA_BUILD/$target.built" ] || return 1; done
}

# llama_build TARGET...
llama_build() {
    local jobs steps target began=$SECONDS
    if llama_is_built "$@"; then
        say "llama.cpp $LLAMA_VERSION: built ($LLAMA_BUILD)"
        return
    fi
    jobs=$(llama_jobs)
    steps=$(ninja -C "$LLAMA_BUILD" -n "$@" 2>/dev/null 9>&- | grep -c '^\[') || true
    # One step takes about 3 s of one core (340 steps in 8.5 minutes on a 2-core x86-64 machine).
    say "llama.cpp $LLAMA_VERSION: building, $steps steps, about $(((steps * 3 / jobs + 59) / 60)) min on $jobs cores, once ..."
    run_ninja -j "$jobs" "$@"
    for target in "$@"; do touch "$LLAMA_BUILD/$target.built"; done
    say "llama.cpp $LLAMA_VERSION: built in $((SECONDS - began)) s"
}
