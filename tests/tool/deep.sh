#!/bin/sh
# Tests of trace2summary that take longer, or need what not every machine has: npm packages, mpirun, a second user. What is
# missing is skipped and counted; STRICT=1 makes that a failure.   deep.sh BUILD_FOLDER        SPDX-License-Identifier: MIT
out=${1:-build}
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
case $out in /*) ;; *) out=$(pwd)/$out ;; esac
tool=$out/trace2summary
work=$out/tool_deep
passed=0 failed=0 skipped=0
rm -rf "$work/dumps"
mkdir -p "$work/dumps" "$work/npm" && cd "$work" || exit 1

pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); echo "FAIL $1"; [ ! -f log ] || head -3 log; }
skip() { if [ -n "$STRICT" ]; then fail "$1 (nothing may be missing here)"; else skipped=$((skipped + 1)); echo "SKIP $1"; fi; }
# works WHAT COMMAND...
works() {
    what=$1
    shift
    if "$@" >log 2>&1; then pass; else fail "$what: exit code $? from: $*"; fi
}

${CC:-cc} -O1 -o gen_dump "$here/gen_dump.c" || { echo "FAIL gen_dump does not build"; exit 1; }
printf '#define SPANPROF_IMPLEMENTATION\n#include "spanprof.h"\nint main(void) { SPANPROF_BEGIN("step"); SPANPROF_BLOCK("inner") {} SPANPROF_END(); return 0; }\n' >rank.c
${CC:-cc} -O1 -I"$source" rank.c -o rank -pthread || { echo "FAIL rank does not build"; exit 1; }

# More random dumps and JSON than the quick test makes.
works "many random dumps and JSON files" sh "$here/run.sh" "$out" ${ROUNDS:-40}

# 256 dumps of over 1 MB within a bound of memory: mapped files and a fixed part, not the events.
SPANPROF=1 SPANPROF_OUT=dumps/0.dump ./rank
i=0
while [ $i -lt 256 ]; do
    ./gen_dump $i dumps/$i.dump dumps/figures.csv >log
    i=$((i + 1))
done
bytes=$(cat dumps/*.dump | wc -c)
if (ulimit -v $((bytes / 1024 + 600000)); exec "$tool" -q --no-table --jobs 2 dumps/*.dump -t /dev/null -s many.sum) >log 2>&1 || [ $? -eq 3 ]; then pass; else fail "256 dumps of $((bytes / 256)) bytes: exit code $?"; fi

# MPI, and ranks as torchrun sets them.
mpi="mpirun -n 4 --oversubscribe --allow-run-as-root"
if command -v mpirun >/dev/null; then
    rm -f mpi*.dump
    works "mpirun" env SPANPROF=1 SPANPROF_OUT='mpi%r.dump' $mpi ./rank
    works "dumps of mpirun" "$tool" -q --no-table -t mpi.json -s mpi.sum mpi0.dump mpi1.dump mpi2.dump mpi3.dump
    [ "$(grep -o '"name":"rank (rank [0-3], host [^"]*)"' mpi.json | grep -o 'rank [0-3]' | tr -dc 0-9)" = 0123 ] && pass || fail "mpirun: expected four processes by rank"
else skip "mpirun: not there"; fi

# A set-user-ID program records nothing, and run says why.
if [ "$(id -u)" = 0 ] && cp rank setuid && chown 65534 setuid && chmod 4755 setuid; then
    "$tool" run -q -- ./setuid >log 2>&1
    grep -q "set-user-ID" log && pass || fail "run of a set-user-ID program: expected a word about it"
else skip "set-user-ID: not root"; fi

# Others' programs.
if command -v node >/dev/null && command -v npm >/dev/null && (cd npm && { [ -d node_modules/@duckdb ] || npm install --silent --no-audit --no-fund speedscope @duckdb/node-api; }) >log 2>&1; then
    ./gen_dump 7 r.dump r.csv >log
    rm -f npm/spans-*.csv
    SPANPROF=1 SPANPROF_OUT=a.dump ./rank && RANK=1 SPANPROF=1 SPANPROF_OUT=b.dump ./rank
    "$tool" -q --no-table a.dump b.dump -s npm/both.sum -t npm/both.json --csv npm/both.csv
    for input in a b; do "$tool" -q --no-table $input.dump --spans npm/spans-$input.csv -s /dev/null; done
    works "speedscope" sh -c "cd npm && node '$here/viewers.mjs' speedscope both.json both.csv"
    works "DuckDB over two ranks" sh -c "cd npm && node '$here/viewers.mjs' duckdb '$source/README.md' both.sum"
    rm -f npm/spans-*.csv
    "$tool" -q --no-table "$here/cases/leanprofiler.json" --spans npm/spans-lean.csv -s npm/lean.sum -t /dev/null
    works "DuckDB over LeanProfiler's spans" sh -c "cd npm && node '$here/viewers.mjs' duckdb '$source/README.md' lean.sum"
else skip "speedscope, DuckDB: no node, npm or network"; fi

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
