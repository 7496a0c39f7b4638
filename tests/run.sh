#!/bin/sh
# run.sh BUILD TEST... - runs the tests one after the other and sums up.
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

for test in "$@"; do
    case $test in /*) path=$test ;; *) path=$here/$test ;; esac
    name=${test##*/}
    [ -f "$path" ] || [ ! -f "$path.exe" ] || path=$path.exe
    case $test in
        */tool/run.sh) name=tool ;;
        */fuzz/run.sh) name=fuzz ;;
        *.sh) name=${name%.sh} ;;
    esac
    folder=$BUILD/run/$name log=$BUILD/run/$name.log
    # A test may have left a folder that can't be written to.
    chmod -R u+rwx "$folder" 2>/dev/null
    rm -rf "$folder"
    mkdir -p "$folder" || exit 2
    case $name in
        tool) (cd "$SOURCE" && exec $limit sh "$path" "$BUILD") >"$log" 2>&1 </dev/null ;;
        *) case $path in
               *.sh) (cd "$folder" && exec $limit sh "$path" "$BUILD") >"$log" 2>&1 </dev/null ;;
               *) (cd "$folder" && exec $limit $TEST_RUNNER "$path") >"$log" 2>&1 </dev/null ;;
           esac ;;
    esac
    status=$?
    line=$(sed -n 's/^\(.*[^0-9]\)\{0,1\}\([0-9][0-9]* passed, [0-9][0-9]* failed.*\)$/\2/p' "$log" | tail -n 1)
    passed=$(printf '%s\n' "$line" | sed -n 's/^\([0-9]*\) passed.*/\1/p')
    failed=$(printf '%s\n' "$line" | sed -n 's/.* \([0-9]*\) failed.*/\1/p')
    skipped=$(printf '%s\n' "$line" | sed -n 's/.* \([0-9]*\) skipped.*/\1/p')
    note=
    if [ -z "$line" ]; then
        passed=0 failed=1 skipped=0 note=" (ended with status $status and no result)"
    elif [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then
        failed=1 note=" (ended with status $status)"
    fi
    echo "$name: $passed passed, $failed failed, ${skipped:-0} skipped$note"
    grep 'SKIP: ' "$log" | sed 's/^.*SKIP: /    skipped: /' | sort -u
    if [ "$failed" -gt 0 ]; then
        grep -v 'SKIP: ' "$log" | tail -n "${TEST_LINES:-40}" | sed 's/^/    | /'
        echo "    log: $log"
    fi
    total_passed=$((total_passed + passed)) total_failed=$((total_failed + failed)) total_skipped=$((total_skipped + ${skipped:-0}))
done
echo "$total_passed passed, $total_failed failed, $total_skipped skipped"
[ "$total_failed" -eq 0 ]
