# lib.sh - checks for the test scripts, which source it: . "$SOURCE/tests/lib.sh"
# SPDX-License-Identifier: MIT
passed=0 failed=0 skipped=0
: "${CC:=cc}" "${CXX:=c++}" "${SOURCE:=$(cd "$(dirname "$0")/.." && pwd)}"
WARN_C="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wcast-qual -Wstrict-prototypes -Werror"
WARN_CXX="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wcast-qual -Wold-style-cast -Werror"

have() { command -v "${1%% *}" >/dev/null 2>&1; }

# check WHAT COMMAND...: passes when the command exits 0; its output is shown when it does not.
check() {
    what=$1
    shift
    if "$@" >check.out 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "failed: $what"
        echo "    $*" | cut -c1-300
        head -n 12 check.out | sed 's/^/    /'
    fi
}

# fails WHAT TEXT COMMAND...: passes when the command exits non-zero and prints TEXT.
fails() {
    what=$1 text=$2
    shift 2
    if "$@" >check.out 2>&1; then
        failed=$((failed + 1))
        echo "failed: $what: the command should have failed"
        echo "    $*" | cut -c1-300
    elif ! grep -q "$text" check.out; then
        failed=$((failed + 1))
        echo "failed: $what: the output should have said $text"
        head -n 12 check.out | sed 's/^/    /'
    else
        passed=$((passed + 1))
    fi
}

# same WHAT EXPECTED GOT
same() {
    if [ "$2" = "$3" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "failed: $1"
        echo "    expected $2"
        echo "    got      $3"
    fi
}

skip() {
    skipped=$((skipped + 1))
    echo "SKIP: $*"
}

# finish NAME: the closing line, and the exit status.
finish() {
    echo "$1: $passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
    exit
}

# spans NAME FILE...: finished spans of a name in all the dumps.
spans() {
    name=$1 sum=0
    shift
    for dump in "$@"; do
        set -- $("$BUILD/tests/dcount" "$dump" "$name" 2>&1)
        sum=$((sum + ${1:-0}))
    done
    echo "$sum"
}

version() { "$@" --version 2>/dev/null | sed -n '1s/^[^ ]* //p'; }

# The other compilers of this machine, beside CC and CXX: gcc, clang.
other_compilers() { # C or C++
    for pair in gcc:g++ clang:clang++; do
        if [ "$1" = C ]; then compiler=${pair%:*}; else compiler=${pair#*:}; fi
        # cc may be one of them under another name.
        have "$compiler" && [ "$(version "$compiler")" != "$(version $2)" ] && echo "$compiler"
    done
}

# For the long scripts: what may be missing, unless STRICT; and what is being done, with the seconds since $started.
missing() {
    if [ -n "$STRICT" ]; then
        failed=$((failed + 1))
        echo "failed: $* (nothing may be missing here)"
    else
        skip "$@"
    fi
}
step() { echo "-- $* ($(($(date +%s) - started)) s)"; }
