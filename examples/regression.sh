#!/bin/sh
# regression.sh - a gate for a build server: records a baseline and a candidate, compares them, fails on a regression.
#
#     sh examples/regression.sh [BUILD]
#
# BUILD (default build) holds trace2summary and examples/indexer, as `make` puts them there. The candidate here is the same
# program, made slower on purpose (--slow repeats the tokenizer), so the gate must fire: the script prints the comparison and
# exits as the gate does, with 1.
#
# A row is a regression when its total time grew by more than 1 ms and by more than 50 %. The total sees more calls, too, as here;
# --metric mean_ns sees slower calls alone.
# SPDX-License-Identifier: MIT
build=${1:-build}
work=$build/regression
mkdir -p "$work" || exit 2

record() { # NAME OPTIONS...: records the program and summarises it
    name=$1
    shift
    SPANPROF=1 SPANPROF_OUT="$work/$name.dump" "$build/examples/indexer" --threads 1 --files 40 --index "$work/$name.idx" "$@" >/dev/null &&
        "$build/trace2summary" -q --no-table -s "$work/$name.summary.json" "$work/$name.dump"
}
record baseline || exit 2
record candidate --slow 8 || exit 2

"$build/trace2summary" compare "$work/baseline.summary.json" "$work/candidate.summary.json" \
    --metric total_ns --absolute-tolerance 1ms --relative-tolerance-bps 5000
