#!/bin/sh
# run.sh BUILD TEST... - runs the tests, TEST_JOBS (2) at a time, and sums up.
#
# A test is a program or a script (*.sh, which is given BUILD). It runs in a folder of its own, BUILD/run/NAME; what it prints
# goes to BUILD/run/NAME.log, and its last line is "NAME: N passed, N failed, N skipped". That line is shown here; so are the
# reasons of skipped checks and, when something failed, the end of the log. A test that ends without the line has failed.
# SPDX-License-Identifier: MIT
BUILD=$(cd "$1" && pwd) || exit 2
SOURCE=$(cd "$(dirname "$0")/.." && pwd) || exit 2
shift
# The tool, for the tests that look at what it makes of a dump; without one they leave that out.
: "${TOOL:=$BUILD/trace2summary}"
[ -x "$TOOL" ] || TOOL=
export BUILD SOURCE TOOL
unset SPANPROF SPANPROF_OUT SPANPROF_MODE SPANPROF_RING_MB SPANPROF_MAX_EVENTS SPANPROF_MAX_MB SPANPROF_PROCESS_NAME SPANPROF_CLOCK SPANPROF_SCHEDULE
limit=
command -v timeout >/dev/null 2>&1 && limit="timeout -k 5 ${TEST_TIMEOUT:-170}"
here=$(pwd)
total_passed=0 total_failed=0 total_skipped=0
mkdir -p "$BUILD/run"

# Names the test: path, name, folder, log.
name_of() {
    case $1 in /*) path=$1 ;; *) path=$here/$1 ;; esac
    name=${1##*/}
    [ -f "$path" ] || [ ! -f "$path.exe" ] || path=$path.exe
    case $1 in
        */tool/run.sh) name=tool ;;
        *.sh) name=${name%.sh} ;;
    esac
    folder=$BUILD/run/$name log=$BUILD/run/$name.log
}

run() {
    # A test may have left a folder that can't be written to.
    chmod -R u+rwx "$folder" 2>/dev/null
    rm -rf "$folder"
    mkdir -p "$folder" && cd "$folder" || exit 2
    case $path in
        */tool/run.sh) cd "$SOURCE" && exec $limit sh "$path" "$BUILD" ;;
        *.sh) exec $limit sh "$path" "$BUILD" ;;
        *) exec $limit $TEST_RUNNER "$path" ;;
    esac
}

result() { # STATUS
    line=$(sed -n 's/^\(.*[^0-9]\)\{0,1\}\([0-9][0-9]* passed, [0-9][0-9]* failed.*\)$/\2/p' "$log" | tail -n 1)
    passed=$(printf '%s\n' "$line" | sed -n 's/^\([0-9]*\) passed.*/\1/p')
    failed=$(printf '%s\n' "$line" | sed -n 's/.* \([0-9]*\) failed.*/\1/p')
    skipped=$(printf '%s\n' "$line" | sed -n 's/.* \([0-9]*\) skipped.*/\1/p')
    note=
    if [ -z "$line" ]; then
        passed=0 failed=1 skipped=0 note=" (ended with status $1 and no result)"
    elif [ "$1" -ne 0 ] && [ "$failed" -eq 0 ]; then
        failed=1 note=" (ended with status $1)"
    fi
    echo "$name: $passed passed, $failed failed, ${skipped:-0} skipped$note"
    grep 'SKIP: ' "$log" | sed 's/^.*SKIP: /    skipped: /' | sort -u
    if [ "$failed" -gt 0 ]; then
        grep -v 'SKIP: ' "$log" | tail -n "${TEST_LINES:-40}" | sed 's/^/    | /'
        echo "    log: $log"
    fi
    total_passed=$((total_passed + passed)) total_failed=$((total_failed + failed)) total_skipped=$((total_skipped + ${skipped:-0}))
}

# The oldest of those that run is awaited and told first, so the order is that of the arguments.
running=
settle() {
    set -- $running
    pid=${1%%:*} test=${1#*:}
    shift
    running=$*
    wait "$pid"
    status=$?
    name_of "$test"
    result $status
}
for test in "$@"; do
    name_of "$test"
    (run) >"$log" 2>&1 </dev/null &
    running="$running $!:$test"
    set -- $running
    [ $# -lt "${TEST_JOBS:-2}" ] || settle
done
while [ -n "$running" ]; do settle; done
for name in $WITHOUT_CXX; do
    echo "$name: 0 passed, 0 failed, 1 skipped"
    echo "    skipped: no C++ compiler ($CXX)"
    total_skipped=$((total_skipped + 1))
done
echo "$total_passed passed, $total_failed failed, $total_skipped skipped"
[ "$total_failed" -eq 0 ]
