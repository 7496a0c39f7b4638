#!/bin/sh
# run.sh BUILD [SECONDS] - the fuzz targets: every input of the corpus, and with SECONDS that long a search by each of them, with
# libFuzzer and sanitizers. What a search finds that is new goes to BUILD/fuzz, as does what crashes. SPDX-License-Identifier: MIT
SOURCE=$(cd "$(dirname "$0")/../.." && pwd)
BUILD=$(mkdir -p "${1:-build}" && cd "${1:-build}" && pwd)
seconds=${2:-0}
. "$SOURCE/tests/lib.sh"
mkdir -p "$BUILD/fuzz" && cd "$BUILD/fuzz" || exit 2
targets="dump json inflate compare"

if [ "$seconds" -gt 0 ]; then
    fuzzer=
    for compiler in ${CLANG:-clang clang-14}; do
        have "$compiler" && echo 'int LLVMFuzzerTestOneInput(const char *p, long n) { return 0 & p[n - n]; }' >probe.c &&
            $compiler -w -fsanitize=fuzzer,address,undefined probe.c -o probe >/dev/null 2>&1 && fuzzer=$compiler && break
    done
    if [ -z "$fuzzer" ]; then
        skip "clang with libFuzzer"
        finish fuzz
    fi
    for target in $targets; do
        mkdir -p "new_$target"
        check "fuzz_$target builds" $fuzzer -std=gnu11 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -I"$SOURCE" \
            "$SOURCE/tests/fuzz/fuzz_$target.c" -o "fuzz_$target" -pthread -lm
        check "fuzz_$target, $seconds s" "./fuzz_$target" -close_fd_mask=2 -max_total_time="$seconds" -rss_limit_mb=1500 -timeout=20 -print_final_stats=1 \
            -artifact_prefix="$BUILD/fuzz/$target-" "new_$target" "$SOURCE/tests/fuzz/corpus/$target"
        sed -n "s/^stat::number_of_executed_units: */    $target: inputs /p" check.out
    done
else
    for target in $targets; do
        check "fuzz_$target builds" $CC $CFLAGS $LDFLAGS -std=gnu11 -g -O0 -w -DFUZZ_REPLAY -I"$SOURCE" "$SOURCE/tests/fuzz/fuzz_$target.c" -o "replay_$target" -pthread -lm
        check "the corpus of fuzz_$target" sh -c "./replay_$target '$SOURCE/tests/fuzz/corpus/$target'/* 2>replay.log || { tail -n 3 replay.log; false; }"
    done
fi
finish fuzz
