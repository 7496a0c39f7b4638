#!/bin/sh
# Tests of trace2summary: inputs in cases/ beside the CSV expected of them, and random dumps whose figures gen_dump computes
# on its own.   run.sh BUILD_FOLDER [ROUNDS]
out=${1:-build}
rounds=${2:-12}
here=$(cd "$(dirname "$0")" && pwd)
tool=$out/trace2summary
work=$out/tool_tests
passed=0 failed=0 skipped=0
case $tool in /*) ;; *) tool=$(pwd)/$tool ;; esac
mkdir -p "$work" && cd "$work" || exit 1

pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); echo "FAIL $1"; }
skip() { skipped=$((skipped + 1)); echo "SKIP $1"; }

# expect_code WHAT CODE COMMAND...: runs it, its output in log.
expect_code() {
    what=$1 code=$2
    shift 2
    "$@" >log 2>&1
    got=$?
    if [ $got -eq "$code" ]; then pass; else
        fail "$what: expected exit code $code, got $got from: $*"
        head -3 log
    fi
}
# expect_same WHAT EXPECTED GOT
expect_same() {
    if cmp -s "$2" "$3"; then pass; else
        fail "$1: < expected, > got"
        diff "$2" "$3" | head -6
    fi
}
# expect_text WHAT PATTERN FILE
expect_text() {
    if grep -q -e "$2" "$3"; then pass; else
        fail "$1: expected '$2', got:"
        head -3 "$3"
    fi
}
expect_json() {
    if [ -z "$python" ]; then skip "$1: no python3"; return; fi
    for f in "$2" "$3"; do
        if "$python" -c 'import json,sys; json.load(open(sys.argv[1]), parse_constant=lambda c: sys.exit("not JSON: " + c))' "$f" 2>log; then pass; else
            fail "$1: $f is no JSON:"
            tail -1 log
        fi
    done
}
# Bytes of a file from OFFSET on replaced by printf's FORMAT.
patch_bytes() { printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null; }
python=$(command -v python3)

if [ ! -x "$tool" ]; then echo "FAIL $tool is not built"; echo "0 passed, 1 failed, 0 skipped"; exit 1; fi
${CC:-cc} -O1 -o gen_dump "$here/gen_dump.c" || { echo "FAIL gen_dump does not build"; echo "0 passed, 1 failed, 0 skipped"; exit 1; }

# Random dumps: every figure as computed, in either byte order, by any number of threads, and again from the trace.
seed=1
while [ $seed -le "$rounds" ]; do
    other=
    [ $((seed % 3)) -eq 0 ] && other=swap
    ./gen_dump $seed r.dump r.csv $other
    expect_code "dump $seed" 0 "$tool" -q --no-table --jobs 1 r.dump --csv got.csv -t one.json -s one.sum
    expect_same "figures of dump $seed $other" r.csv got.csv
    expect_code "dump $seed, 3 threads" 0 "$tool" -q --no-table --jobs 3 r.dump -t three.json -s three.sum
    expect_same "trace of dump $seed by 3 threads" one.json three.json
    expect_same "summary of dump $seed by 3 threads" one.sum three.sum
    expect_code "trace $seed" 0 "$tool" -q --no-table one.json --csv got.csv -s again.sum
    expect_same "figures of the trace of dump $seed" r.csv got.csv
    seed=$((seed + 1))
done
expect_json "random dump" one.json one.sum

# Thinning changes the trace and leaves the summary alone.
expect_code "--min-duration" 0 "$tool" -q --no-table r.dump --min-duration 1ms -t thin.json -s thin.sum
expect_same "summary with --min-duration" one.sum thin.sum
if [ "$(wc -c <thin.json)" -lt "$(wc -c <one.json)" ]; then pass; else fail "--min-duration: expected a smaller trace"; fi
expect_code "--window" 0 "$tool" -q --no-table r.dump --window 1ms:2ms -t thin.json -s thin.sum
expect_same "summary with --window" one.sum thin.sum
expect_code "--args full" 0 "$tool" -q --no-table r.dump --args full --event-timings -t full.json -s full.sum
expect_json "--args full" full.json full.sum

# Foreign JSON.
for input in "$here"/cases/*.json; do
    name=$(basename "$input" .json)
    code=0
    [ "$name" = cut ] && code=3
    expect_code "$name.json" $code "$tool" -q --no-table "$input" --csv got.csv -t case.json -s case.sum
    expect_same "figures of $name.json" "$here/cases/$name.csv" got.csv
    expect_json "$name.json" case.json case.sum
done
if command -v gzip >/dev/null; then
    gzip -c "$here/cases/nested.json" >nested.json.gz
    expect_code "gzipped" 0 "$tool" -q --no-table nested.json.gz --csv got.csv -s case.sum
    expect_same "figures of gzipped JSON" "$here/cases/nested.csv" got.csv
else skip "gzip: not there"; fi
"$tool" -q --no-table - --csv got.csv -s case.sum <"$here/cases/nested.json" || fail "standard input: exit code $?"
expect_same "figures of standard input" "$here/cases/nested.csv" got.csv

# Damage: cut anywhere, the readable part converts. Fields that are out of range.
./gen_dump 4 r.dump r.csv
size=$(wc -c <r.dump)
for cut in 0 7 100 900 4095 4096 4200 70000 139264 400000 $((size - 65000)) $((size - 1)); do
    head -c $cut r.dump >cut.dump
    "$tool" -q --no-table cut.dump -t cut.json -s cut.sum 2>log
    got=$?
    if [ $got -eq 3 ] || { [ $got -eq 0 ] && [ $cut -gt 400000 ]; }; then pass; else fail "cut at $cut of $size: expected exit code 3, got $got"; fi
    if [ $got -ne 3 ] || grep -q "cut.dump" log; then pass; else fail "cut at $cut: expected a message with the file's name, got: $(head -1 log)"; fi
    [ $cut -ge 4096 ] && expect_json "cut at $cut" cut.json cut.sum
done
cp r.dump newer.dump
patch_bytes newer.dump 12 '\002'
expect_code "newer version" 3 "$tool" newer.dump
expect_text "newer version" "newer" log
cp r.dump bad.dump
patch_bytes bad.dump 20 '\377\377\377\377'
expect_code "absurd block size" 3 "$tool" bad.dump
cp r.dump bad.dump
patch_bytes bad.dump $((4096 + 65536 * 9 + 128 + 800)) '\376\377\377\377\377\377\377\377'
expect_code "absurd record" 3 "$tool" -q --no-table bad.dump -s bad.sum
expect_text "absurd record" "byte [0-9]*: " log
expect_text "absurd record in the summary" '"damaged":true' bad.sum

# Usage, and outputs that can't be written.
expect_code "no input" 2 "$tool"
expect_code "unknown option" 2 "$tool" --nonsense r.dump
expect_code "missing file" 2 "$tool" no_such_file.dump
expect_code "bad number" 2 "$tool" --top many r.dump
expect_code "-h" 0 "$tool" -h
expect_text "-h" "exit status" log
expect_code "-V" 0 "$tool" -V
expect_text "-V" "^trace2summary [0-9]" log
expect_code "output folder missing" 4 "$tool" -q --no-table r.dump -t no_such_folder/t.json
if [ -w /dev/full ]; then expect_code "full device" 4 "$tool" -q --no-table r.dump -t /dev/full; else skip "/dev/full: not there"; fi
echo kept >kept.json
expect_code "unreadable input leaves the old output" 2 "$tool" -q --no-table no_such_file.dump -t kept.json
expect_text "unreadable input leaves the old output" kept kept.json

# Two dumps of the same process id from different processes.
./gen_dump 5 s.dump s.csv
patch_bytes s.dump 56 '\001'
expect_code "two processes" 3 "$tool" -q --no-table r.dump s.dump --by-process -t two.json -s two.sum
expect_text "two processes keep apart" '"process_count":2' two.sum

# compare
expect_code "compare with itself" 0 "$tool" compare one.sum one.sum
sed 's/"mean_ns":\([0-9]\)/"mean_ns":9\1/g' one.sum >slow.sum
expect_code "a regression" 1 "$tool" compare one.sum slow.sum
expect_code "compare with a missing file" 3 "$tool" compare one.sum no_such_file.sum
expect_code "compare dumps" 0 "$tool" compare r.dump r.dump --allow-incomplete

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
