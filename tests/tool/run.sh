#!/bin/sh
# Tests of trace2summary: inputs in cases/ beside the CSV expected of them, and random dumps whose figures gen_dump computes
# on its own. What is missing on the machine is skipped and counted; STRICT=1 makes that a failure.
#     run.sh BUILD_FOLDER [ROUNDS]
# SPDX-License-Identifier: MIT
out=${1:-build}
rounds=${2:-9}
here=$(cd "$(dirname "$0")" && pwd)
tool=$out/trace2summary
work=$out/tool_tests
passed=0 failed=0 skipped=0
case $tool in /*) ;; *) tool=$(pwd)/$tool ;; esac
mkdir -p "$work" && cd "$work" || exit 1

pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); echo "FAIL $1"; }
skip() {
    if [ -n "$STRICT" ]; then fail "$1 (nothing may be missing here)"; return; fi
    skipped=$((skipped + 1))
    echo "SKIP $1"
}

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
# expect_outputs WHAT NAME=FILE...: through strict parsers, and against each other.
expect_outputs() {
    what=$1
    shift
    if [ -z "$python" ]; then skip "$what: no python3"; return; fi
    if "$python" "$here/check_outputs.py" "$@" >log 2>&1; then pass; else
        fail "$what: outputs that are not as promised"
        head -3 log
    fi
}
# convert_all INPUT...: every output there is, as all.*
convert_all() { "$tool" -q --no-table "$@" -t all.json -s all.sum --csv all.csv --spans all.spans --svg all.svg --folded all.folded --event-timings 2>log; }
all_outputs="trace=all.json summary=all.sum csv=all.csv spans=all.spans svg=all.svg folded=all.folded"
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
    abandoned=$(./gen_dump $seed r.dump r.csv $other)
    expect_code "dump $seed" 0 "$tool" -q --no-table --jobs 1 r.dump --csv got.csv -t one.json -s one.sum
    expect_same "figures of dump $seed $other" r.csv got.csv
    expect_text "abandoned spans of dump $seed" "\"abandoned_events\":$abandoned," one.sum
    expect_code "dump $seed, 3 threads" 0 "$tool" -q --no-table --jobs 3 r.dump -t three.json -s three.sum
    expect_same "trace of dump $seed by 3 threads" one.json three.json
    expect_same "summary of dump $seed by 3 threads" one.sum three.sum
    expect_code "trace $seed" 0 "$tool" -q --no-table one.json --csv got.csv -s again.sum
    expect_same "figures of the trace of dump $seed" r.csv got.csv
    seed=$((seed + 1))
done
convert_all r.dump
expect_outputs "random dump" $all_outputs

# Thinning changes the trace and leaves the summary alone.
expect_code "--min-duration" 0 "$tool" -q --no-table r.dump --min-duration 1ms -t thin.json -s thin.sum
expect_same "summary with --min-duration" one.sum thin.sum
if [ "$(wc -c <thin.json)" -lt "$(wc -c <one.json)" ]; then pass; else fail "--min-duration: expected a smaller trace"; fi
expect_code "--window" 0 "$tool" -q --no-table r.dump --window 1ms:2ms -t thin.json -s thin.sum
expect_same "summary with --window" one.sum thin.sum
expect_code "--args full" 0 "$tool" -q --no-table r.dump --args full --event-timings -t full.json -s full.sum
expect_outputs "--args full" trace=full.json summary=full.sum
expect_code "--args none" 0 "$tool" -q --no-table r.dump --args none -t full.json -s full.sum
expect_outputs "--args none" trace=full.json summary=full.sum

# Foreign JSON: LeanProfiler's, Chrome's, PyTorch's, and what goes wrong in such files.
for input in "$here"/cases/*.json "$here"/cases/*.json.gz; do
    name=$(basename "$input" .gz)
    name=$(basename "$name" .json)
    case $name in *cut|object_cut_inside|broken_*) code=3 ;; *) code=0 ;; esac
    [ "$name" = chrome_array_cut ] && code=0 # the format allows it
    expect_code "$name" $code "$tool" -q --no-table "$input" --csv got.csv -t case.json -s case.sum
    expect_same "figures of $name" "$here/cases/$name.csv" got.csv
    convert_all "$input"
    expect_outputs "$name" $all_outputs
done
if command -v gzip >/dev/null; then
    gzip -c "$here/cases/nested.json" >nested.json.gz
    expect_code "gzipped" 0 "$tool" -q --no-table nested.json.gz --csv got.csv -s case.sum
    expect_same "figures of gzipped JSON" "$here/cases/nested.csv" got.csv
else skip "gzip: not there"; fi
"$tool" -q --no-table - --csv got.csv -s case.sum <"$here/cases/nested.json" || fail "standard input: exit code $?"
expect_same "figures of standard input" "$here/cases/nested.csv" got.csv

# Damage: cut anywhere, the readable part converts. Fields that are out of range.
./gen_dump 4 r.dump r.csv >log
size=$(wc -c <r.dump)
for cut in 0 7 100 900 4095 4096 4200 70000 139264 400000 $((size - 65000)) $((size - 1)); do
    head -c $cut r.dump >cut.dump
    "$tool" -q --no-table cut.dump -t cut.json -s cut.sum 2>log
    got=$?
    if [ $got -eq 3 ] || { [ $got -eq 0 ] && [ $cut -gt 400000 ]; }; then pass; else fail "cut at $cut of $size: expected exit code 3, got $got"; fi
    if [ $got -ne 3 ] || grep -q "cut.dump" log; then pass; else fail "cut at $cut: expected a message with the file's name, got: $(head -1 log)"; fi
    [ $cut -ge 140000 ] && expect_outputs "cut at $cut" trace=cut.json summary=cut.sum
done
# A damaged header: the blocks are read all the same, with the same figures where the clock is known.
for place in 60 100 200 400; do
    cp r.dump bad.dump
    patch_bytes bad.dump $place '\375'
    expect_code "header damaged at $place" 3 "$tool" -q --no-table bad.dump -s bad.sum --csv got.csv
    expect_same "figures with the header damaged at $place" r.csv got.csv
    expect_text "header damaged at $place" "bad.dump: byte [0-9]*: the header's checksum" log
done
tail -c +1002 r.dump >bad.dump
expect_code "begin of the file lost" 3 "$tool" -q --no-table bad.dump -s bad.sum --csv got.csv
if [ "$(cut -d, -f1,11 got.csv)" = "$(cut -d, -f1,11 r.csv)" ] || [ -n "$(sed 1d got.csv)" ]; then pass; else fail "begin of the file lost: no rows"; fi
rm -f none.json none.sum
head -c 4096 r.dump >bad.dump
patch_bytes bad.dump 200 '\375'
expect_code "nothing readable" 3 "$tool" -q --no-table bad.dump -s none.sum -t none.json
if [ -e none.sum ] || [ -e none.json ]; then fail "nothing readable: expected no outputs"; else pass; fi
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

# Nothing is written over an input, over a dump, or twice to one place; devices take anything.
cp r.dump a.dump
cp r.dump b.dump
ln -s a.dump link.dump 2>/dev/null || cp r.dump link.dump
rm -f new.json
expect_code "an output over the input" 2 "$tool" -q --no-table -t a.dump a.dump
expect_text "an output over the input" "a.dump is not written: it is an input" log
expect_code "an output over the second input, by another path" 2 "$tool" -q --no-table --csv ../tool_tests/a.dump b.dump a.dump
expect_code "an output over a link to the input" 2 "$tool" -q --no-table --svg link.dump a.dump
expect_code "an output over standard input" 2 sh -c "'$tool' -q --no-table -s a.dump - <a.dump"
expect_code "an output over another dump" 2 "$tool" -q --no-table -s a.dump b.dump
expect_text "an output over another dump" "a.dump is not written: it is a dump" log
expect_code "run over a dump" 2 "$tool" run -s a.dump -- true
expect_code "compare over an input" 2 "$tool" compare one.sum one.sum --json one.sum
expect_code "compare over a dump" 2 "$tool" compare one.sum one.sum --json a.dump
expect_code "two outputs to one file" 2 "$tool" -q --no-table -t new.json -s ../tool_tests/new.json a.dump
expect_code "two outputs to standard output" 2 "$tool" -q -t - -s - a.dump
expect_same "the input after that" r.dump a.dump
if [ -e new.json ]; then fail "two outputs to one file: expected none"; else pass; fi
expect_code "two outputs to nowhere" 0 "$tool" -q -t /dev/null -s /dev/null a.dump
expect_code "an output over an older one" 0 "$tool" -q --no-table -t new.json a.dump
expect_code "an output over an older one" 0 "$tool" -q --no-table -t new.json a.dump

# Times take decimals, exactly; a part of a nanosecond is none.
for pair in 1.5ms=1500000 0.001us=1 1.0=1 2.000000001s=2000000001 1.50000000000ms=1500000; do
    expect_code "--min-duration ${pair%=*}" 0 "$tool" -q --no-table a.dump --min-duration "${pair%=*}" -t thin.json
    "$tool" -q --no-table a.dump --min-duration "${pair#*=}" -t thin2.json 2>log
    expect_same "--min-duration ${pair%=*}" thin2.json thin.json
done
for time in 1.5 0.0005us 1.ms .5ms 1.5.5ms 1.5e3ms 9999999999.5s 1,5ms; do
    expect_code "--min-duration $time" 2 "$tool" -q --no-table a.dump --min-duration $time -t thin.json
done
expect_code "--window with decimals" 0 "$tool" -q --no-table a.dump --window 0.8ms:2.5ms -t thin.json
"$tool" -q --no-table a.dump --window 800us:2500us -t thin2.json 2>log
expect_same "--window with decimals" thin2.json thin.json
expect_code "a tolerance with decimals" 0 "$tool" compare one.sum one.sum --absolute-tolerance 1.5ms --json cmp.json
expect_text "a tolerance with decimals" '"absolute_tolerance":1500000,' cmp.json
expect_code "a tolerance of half a nanosecond" 2 "$tool" compare one.sum one.sum --absolute-tolerance 0.5ns

# Two dumps of the same process id from different processes.
./gen_dump 5 s.dump s.csv >log
patch_bytes s.dump 56 '\001'
expect_code "two processes" 3 "$tool" -q --no-table r.dump s.dump --by-process -t two.json -s two.sum
expect_text "two processes keep apart" '"process_count":2' two.sum

# One recording counts once: a dump given twice, and a ring beside a copy of it; what each has alone stays.
cp r.dump a.dump
"$tool" -q --no-table a.dump -s once.sum -t once.json --csv once.csv 2>log
expect_code "a dump given twice" 0 "$tool" --no-table a.dump r.dump -s twice.sum -t twice.json --csv twice.csv
expect_same "rows of a dump given twice" once.csv twice.csv
expect_same "summary of a dump given twice" once.sum twice.sum
expect_text "a dump given twice" "r.dump: note: the same recording as a.dump, which has all of it" log
expect_code "a dump given twice, -q" 0 "$tool" -q --no-table a.dump r.dump -s twice.sum
if [ -s log ]; then fail "a dump given twice, -q: expected no note, got $(cat log)"; else pass; fi
cat >copies.c <<'END'
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"
static void spans(long n) { for (; n > 0; n--) { SPANPROF_BEGIN("s"); SPANPROF_ASYNC_BEGIN("a", n); SPANPROF_ASYNC_END("a", n); SPANPROF_END(); } }
int main(void) {
    spans(1000);
    spanprof_flush();
    spans(1000);
    spanprof_flush();
    spans(200000);
    return 0;
}
END
if ${CC:-cc} -O1 -I"$here/../.." copies.c -o copies -pthread 2>log; then
    rm -f copies.dump*
    SPANPROF=1 SPANPROF_MODE=ring SPANPROF_RING_MB=1 SPANPROF_OUT=copies.dump ./copies
    "$tool" -q --no-table copies.dump.2 --csv once.csv
    for order in "copies.dump.1 copies.dump.2" "copies.dump.2 copies.dump.1"; do
        expect_code "two copies of a ring, $order" 0 "$tool" --no-table $order --csv twice.csv
        expect_text "two copies of a ring, $order" "copies.dump.1: note: the same recording as copies.dump.2, which has all of it" log
        expect_same "two copies of a ring, $order" once.csv twice.csv
    done
    expect_code "a ring and an old copy" 0 "$tool" --no-table copies.dump copies.dump.2 --csv twice.csv
    expect_text "a ring and an old copy" "copies.dump.2: note: a part of the same recording" log
else skip "copies of a ring: not built"; fi

# The picture of the time line: threads by name, spans by name, whole and bounded.
cat >line.json <<'END'
[{"ph":"M","name":"thread_name","pid":1,"tid":2,"args":{"name":"a <worker>"}},
{"ph":"X","name":"out & \"er\"","pid":1,"tid":2,"ts":0,"dur":1000},{"ph":"X","name":"inner","pid":1,"tid":2,"ts":250,"dur":500}]
END
expect_code "--svg of a small trace" 0 "$tool" -q --no-table line.json --svg line.svg -s line.sum
expect_text "--svg names the thread" "a &lt;worker&gt;" line.svg
expect_text "--svg names a span" ">out &amp; &quot;er&quot;</text>" line.svg
expect_text "--svg places a span" 'x="425.00" y="46" width="510.00"' line.svg
expect_text "--svg has tooltips" "<title>inner: 500.0 us at 250.0 us</title>" line.svg
expect_text "--svg has an axis" ">200 us</text>" line.svg
expect_text "--svg on dark" "prefers-color-scheme:dark" line.svg

# Spans of a device: a track of their own in every output.
cat >device.c <<'END'
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"
int main(void) {
    static spanprof_site host = SPANPROF_SITE("launch"), kernel = SPANPROF_SITE("gemm"), copy = SPANPROF_SITE("copy");
    struct timespec t;
    uint64_t ns;
    spanprof_span s;
    clock_gettime(CLOCK_MONOTONIC, &t);
    ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    spanprof_start(NULL);
    spanprof_track_name(7, "GPU 0", 0, "stream 7");
    s = spanprof_begin(&host);
    spanprof_track_span(&kernel, 7, ns, 400000, 1000, s);
    spanprof_track_span(&copy, 7, ns + 200000, 500000, -1, s);
    SPANPROF_COUNTER("queue", 3);
    SPANPROF_FLOW_OUT(5);
    spanprof_end(s);
    SPANPROF_ASYNC_BEGIN("request", 9);
    SPANPROF_ASYNC_END("request", 9);
    return 0;
}
END
if ${CC:-cc} -O1 -I"$here/../.." device.c -o device -pthread 2>log; then
    SPANPROF=1 SPANPROF_OUT=device.dump ./device
    convert_all device.dump
    expect_outputs "device spans" $all_outputs
    expect_text "the device's track" '"name":"thread_name","pid":1000000,"tid":8,"args":{"name":"stream 7"}' all.json
    expect_text "--svg of the device" ">GPU 0 stream 7</text>" all.svg
    expect_text "--spans of the device" "^device,[0-9]*,,[^,]*,,,device,gemm,,,,,cuda,,0,400000,0," all.spans
    "$tool" -q --no-table device.dump --csv first.csv -t first.json
    expect_code "device spans read again" 0 "$tool" -q --no-table first.json --csv got.csv -t again.json
    expect_same "rows of device spans read again" first.csv got.csv
    for file in first again; do grep '"cat":"device"' $file.json | sed 's/,$//' >$file.events; done
    expect_same "events of device spans read again" first.events again.events
    expect_text "the end of their arrow" '"ph":"f","name":"launch","pid":1000000,"tid":8,' again.json
    convert_all first.json
    expect_outputs "device spans read again" $all_outputs
    convert_all device.dump
    expect_text "a row of the device" '"name":"copy".*"kind":"device","calls":1,"self_ns":0,"total_ns":500000' all.sum
else skip "device spans: not built"; fi

# Spans of a device that last no time and begin with another one: no slices, which speedscope could not end; alone they are.
cat >ties.c <<'END'
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"
int main(void) {
    static spanprof_site kernel = SPANPROF_SITE("kernel"), tie = SPANPROF_SITE("tie"), lone = SPANPROF_SITE("lone");
    static const spanprof_span none;
    struct timespec t;
    uint64_t ns;
    clock_gettime(CLOCK_MONOTONIC, &t);
    ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    spanprof_start(NULL);
    spanprof_track_name(7, "GPU 0", 0, "stream 7");
    spanprof_track_span(&kernel, 7, ns, 100, 0, none);
    spanprof_track_span(&tie, 7, ns, 0, 0, none);
    spanprof_track_span(&tie, 7, ns + 1000, 0, 0, none);
    spanprof_track_span(&tie, 7, ns + 1000, 0, 0, none);
    spanprof_track_span(&lone, 7, ns + 2000, 0, 0, none);
    spanprof_track_span(&lone, 8, ns + 2000, 0, 0, none);
    return 0;
}
END
if ${CC:-cc} -O1 -I"$here/../.." ties.c -o ties -pthread 2>log; then
    SPANPROF=1 SPANPROF_OUT=ties.dump ./ties
    expect_code "device spans that tie" 0 "$tool" -q --no-table ties.dump -t ties.json -s ties.sum
    expect_outputs "device spans that tie" trace=ties.json
    grep -o '"ph":".","name":"[a-z]*"' ties.json | LC_ALL=C sort | uniq -c | sed 's/^ *//' | grep -v '"M"' >got.txt
    printf '1 "ph":"X","name":"kernel"\n2 "ph":"X","name":"lone"\n3 "ph":"i","name":"tie"\n' >want.txt
    expect_same "device spans that tie" want.txt got.txt
    expect_text "device spans that tie, in the summary" '"name":"tie".*"kind":"device","calls":3,' ties.sum
else skip "device spans that tie: not built"; fi

# Dumps that are cut where nothing but what was in use tells of it: the last window of a killed process, and blocks of a ring.
cat >cut.c <<'END'
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"
#include <stdlib.h>
int main(int argc, char **argv) {
    long i, n = argc > 1 ? atol(argv[1]) : 100;
    for (i = 0; i < n; i++) { SPANPROF_BEGIN("s"); SPANPROF_END(); }
    if (argc > 2) raise(SIGKILL);
    return 0;
}
END
if ${CC:-cc} -O1 -I"$here/../.." cut.c -o cut -pthread 2>log; then
    (SPANPROF=1 SPANPROF_OUT=killed.dump ./cut 1000 kill; :) 2>/dev/null
    header=$(($(wc -c <killed.dump) - 131072))
    expect_code "a killed process" 0 "$tool" -q --no-table killed.dump -s killed.sum
    expect_text "a killed process" '"calls":1000,' killed.sum
    for words in 1 2 400; do
        head -c $((header + 65536 + 128 + words * 8 + 8)) killed.dump >cut.dump
        expect_code "its window cut behind $words words" 3 "$tool" -q --no-table cut.dump -s cut.sum
        expect_text "its window cut behind $words words" "cut.dump: byte $((header + 65536 + 128 + words * 8 + 8)): the block is cut off" log
    done
    expect_text "what is left of it" '"calls":[34][0-9][0-9],' cut.sum
    head -c $((header + 65536 + 40000)) killed.dump >cut.dump
    expect_code "its window cut where it is unused" 0 "$tool" -q --no-table cut.dump -s cut.sum
    expect_same "its window cut where it is unused" killed.sum cut.sum
    SPANPROF=1 SPANPROF_MODE=ring SPANPROF_RING_MB=1 SPANPROF_OUT=ring.dump ./cut 300000
    size=$(wc -c <ring.dump)
    expect_code "a ring" 0 "$tool" -q --no-table ring.dump -s cut.sum
    for blocks in 3 4 7 12; do
        head -c $((size - blocks * 65536)) ring.dump >cut.dump
        expect_code "a ring without its last $blocks blocks" 3 "$tool" -q --no-table cut.dump -s cut.sum
    done
else skip "cut dumps: not built"; fi

# Attributes under the names of metadata and of the tool's own args: no key stands twice, and the trace read again gives the
# same rows. One that is set again counts once, however many there are.
{
    printf '#define SPANPROF_IMPLEMENTATION\n#include "spanprof.h"\nint main(void) {\n    int i;\n    SPANPROF_BLOCK("plain") {\n'
    for key in phase activity device module timing step hook_error device_index; do printf '        SPANPROF_ATTR_STR("%s", "as an attribute");\n' $key; done
    for key in alloc_bytes alloc_delta_bytes alloc_live_bytes event_index parent_index depth start_ns duration_ns file line metadata attributes \
        cycle unfinished abandoned crossing ended_on_another_thread queue_ns own; do printf '        SPANPROF_ATTR_U64("%s", 77777);\n' $key; done
    printf '        for (i = 0; i < 300; i++) { SPANPROF_ATTR_I64("again", i); SPANPROF_ATTR_I64("phase", i); }\n    }\n'
    printf '    { SPANPROF_SPAN_META("both", .phase = "real", .alloc_bytes = 5); SPANPROF_ATTR_STR("phase", "attribute"); }\n'
    printf '    SPANPROF_BEGIN("open"); SPANPROF_ATTR_I64("unfinished", 0);\n    return 0;\n}\n'
} >attributes.c
if ${CC:-cc} -O1 -I"$here/../.." attributes.c -o attributes -pthread 2>log; then
    SPANPROF=1 SPANPROF_OUT=attributes.dump ./attributes
    for mode in set full; do
        expect_code "attributes, --args $mode" 0 "$tool" -q --no-table attributes.dump --args $mode -t all.json -s all.sum --csv first.csv
        expect_outputs "attributes, --args $mode" trace=all.json summary=all.sum csv=first.csv
        expect_code "attributes read again, --args $mode" 0 "$tool" -q --no-table all.json -t again.json --csv got.csv -s again.sum
        expect_same "rows of the trace, --args $mode" first.csv got.csv
        expect_outputs "trace of the trace, --args $mode" trace=again.json
        expect_text "an attribute of its own, --args $mode" '"own":77777[,}]' again.json
        expect_text "one set again, --args $mode" '"again":299,"attributes":{.*"phase":299}' again.json
        expect_text "metadata and attribute, --args $mode" '"phase":"real".*"attributes":{"phase":"attribute"}' again.json
    done
else skip "attributes: not built"; fi

# Names of functions that the program knew by address come from its symbol table.
printf 'int leaf(int n) { return n * 3; }\nstatic int middle(int n) { return leaf(n) + 1; }\nint main(void) { return middle(2) != 7; }\n' >traced.c
printf '#define SPANPROF_IMPLEMENTATION\n#define SPANPROF_INSTRUMENT_FUNCTIONS\n#include "spanprof.h"\n' >traced_spans.c
if ${CC:-cc} -O0 -finstrument-functions -c traced.c 2>log && ${CC:-cc} -O1 -I"$here/../.." -c traced_spans.c 2>log && ${CC:-cc} traced.o traced_spans.o -o traced -pthread 2>log; then
    SPANPROF=1 SPANPROF_OUT=traced.dump ./traced
    "$tool" -q traced.dump -s traced.sum >log 2>&1
    for name in main middle leaf; do expect_text "-finstrument-functions: $name" "^$name  *1 " log; done
else skip "-finstrument-functions: not there"; fi

# Ranks: one trace, in the order of the ranks; the names say which is which.
printf '#define SPANPROF_IMPLEMENTATION\n#include "spanprof.h"\nint main(void) { SPANPROF_BEGIN("step"); SPANPROF_INSTANT("i"); SPANPROF_END(); return 0; }\n' >rank.c
if ${CC:-cc} -O1 -I"$here/../.." rank.c -o rank -pthread 2>log; then
    for rank in 3 1 0 2; do RANK=$rank SPANPROF=1 SPANPROF_OUT=rank%r.dump ./rank; done
    expect_code "ranks" 0 "$tool" -q --no-table rank3.dump rank1.dump rank0.dump rank2.dump --by-process -t all.json -s all.sum --spans all.spans
    expect_outputs "ranks" trace=all.json
    [ "$(grep -o '(rank [0-9], host ' all.json | head -c 60 | tr -dc 0-9)" = 0123 ] && pass || fail "ranks: expected the order 0 1 2 3"
    expect_text "ranks in --by-process" '"process":"rank (rank 2, host ' all.sum
    expect_text "ranks in --spans" '^rank,[0-9]*,3,' all.spans
    SPANPROF=1 "$tool" run -q --no-table -t run.json -s run.sum -- sh -c './rank; ./rank; exit 7' >log 2>&1
    [ $? -eq 7 ] && pass || fail "run: expected the command's exit code 7"
    expect_text "run records the processes" '"process_count":2' run.sum
    "$tool" run -q --no-table -t run.json -s run.sum -- sh -c './rank; kill -TERM $$' >log 2>&1
    [ $? -eq 143 ] && pass || fail "run: expected 143 for a command that SIGTERM ended"
    expect_code "run without spans" 0 "$tool" run -- true
    expect_text "run without spans" "recorded nothing" log
    expect_code "run without a command" 127 "$tool" run -- no_such_command
else skip "ranks: not built"; fi

# The options that -h, the manual page and the README name.
"$tool" -h | grep -o -e '--[a-z][a-z-]*' | sort -u >options
grep -o -e '--[a-z][a-z-]*' "$here/../../tools/trace2summary.1" | sort -u >options.1
expect_same "options of the manual page" options options.1
sed -n '/^## trace2summary/,/^## What is promised/p' "$here/../../README.md" | grep '^| `' | grep -o -e '--[a-z][a-z-]*' | sort -u | while read -r option; do grep -qx -e "$option" options || echo "$option"; done >log
if [ -s log ]; then fail "README names options that -h does not: $(cat log)"; else pass; fi

# The parts alone, and inputs made at random.
if ${CC:-cc} -O1 -o unit_parts "$here/unit_parts.c" -pthread 2>log; then
    expect_code "unit_parts" 0 ./unit_parts
    [ -n "$python" ] && expect_code "gzip at random" 0 "$python" "$here/gen_gzip.py" ./unit_parts 5
else fail "unit_parts does not build"; fi
if [ -n "$python" ]; then expect_code "JSON at random" 0 "$python" "$here/gen_json.py" "$tool" "$rounds"; else skip "JSON and gzip at random: no python3"; fi

# compare
expect_code "compare with itself" 0 "$tool" compare one.sum one.sum
sed 's/"mean_ns":\([0-9]\)/"mean_ns":9\1/g' one.sum >slow.sum
expect_code "a regression" 1 "$tool" compare one.sum slow.sum --json cmp.json
expect_outputs "compare" compare=cmp.json
# Inputs that are no files are read once, and no further than it makes sense; what a file only claims to hold is not looked for.
"$tool" -q --no-table one.json --csv got.csv -s again.sum 2>/dev/null
mkfifo pipe 2>/dev/null && { cat one.json >pipe & expect_code "JSON from a named pipe" 0 "$tool" -q --no-table pipe --csv piped.csv -s again.sum; expect_same "rows of a named pipe" got.csv piped.csv; }
expect_code "JSON from standard input" 0 sh -c "cat one.json | '$tool' -q --no-table - --csv piped.csv -s again.sum"
expect_same "rows of standard input" got.csv piped.csv
./gen_dump 6 vast.dump vast.csv >log
expect_code "a dump from standard input" 0 sh -c "cat vast.dump | '$tool' -q --no-table - -s again.sum"
expect_code "a stream that is neither" 3 sh -c "ulimit -v 1000000; yes | '$tool' -q --no-table - -s again.sum"
if truncate -s 1T vast.dump 2>/dev/null; then expect_code "a dump that claims a terabyte" 0 sh -c "ulimit -v 1000000; '$tool' -q --no-table vast.dump -s again.sum"; rm -f vast.dump; else skip "a file of a terabyte"; fi

# Events that overlap without end: linear time (each looking at all before it took minutes), and a depth of what is open.
awk 'BEGIN { for (i = 0; i < 200000; i++) printf "%s{\"ph\":\"X\",\"name\":\"n\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":10}", i ? ",\n" : "[", i * 5; print "]" }' >chain.json
expect_code "200,000 overlapping events" 0 "$tool" -q --no-table --jobs 1 chain.json -t chain1.json -s chain.sum
expect_code "200,000 overlapping events, 3 threads" 0 "$tool" -q --no-table --jobs 3 chain.json -t chain3.json -s chain.sum
expect_same "their trace by 3 threads" chain1.json chain3.json
expect_text "their depth" '"max_depth":2,' chain.sum
expect_text "their self time" '"self_ns":1000005000,"total_ns":2000000000,' chain.sum

# What the reader of a table or a verdict must know: spans that say of themselves that they failed, and time that is in no row.
printf '[%s,%s]\n' '{"ph":"X","name":"a","pid":1,"tid":1,"ts":0,"dur":10,"args":{"hook_error":"prepare: none"}}' '{"ph":"B","name":"open","pid":1,"tid":1,"ts":2}' >told.json
expect_code "table with hook_error" 0 "$tool" told.json -s told.sum
expect_text "hook_error under the table" '; 1 unfinished (80 % of the recorded time is theirs); 1 with hook_error' log
expect_code "compare with hook_error" 0 "$tool" compare told.json told.sum
expect_text "hook_error of a side" 'told.sum: note: 1 span(s) with hook_error' log
expect_text "unfinished spans of a side" 'told.json: note: 1 unfinished event(s)' log

# Events that are rejected are in no row: the summary counts them, a negative duration is an issue, and compare says so.
x='{"ph":"X","name":"a","pid":1,"tid":1,"ts":'
printf '[%s0,"dur":10},%s20},%s30,"dur":"long"},{"ph":"X","name":"a","pid":1,"tid":1,"dur":3}]\n' "$x" "$x" "$x" >rejected.json
expect_code "events that are rejected" 3 "$tool" -q --no-table rejected.json -s rejected.sum
expect_text "they are counted" '"dropped_events":3,' rejected.sum
printf '[%s0,"dur":10},%s20,"dur":-5}]\n' "$x" "$x" >negative.json
expect_code "a negative duration" 0 "$tool" -q --no-table negative.json -s negative.sum -t all.json
expect_text "a negative duration is counted" '"dropped_events":1,' negative.sum
expect_text "a negative duration is an issue" '{"event_index":null,"message":"byte [0-9]*: 1 X event(s) with a negative dur' negative.sum
for input in negative.json all.json; do expect_code "compare with a negative duration, $input" 3 "$tool" compare $input $input; done
expect_code "compare with a negative duration, allowed" 0 "$tool" compare negative.json negative.json --allow-incomplete
expect_text "compare tells of it" 'negative.json: byte [0-9]*: 1 X event(s) with a negative dur, rejected' log
expect_code "compare -q" 0 "$tool" compare -q negative.json negative.json --allow-incomplete
if grep -q trace2summary: log; then fail "compare -q: expected no notes, got $(head -1 log)"; else pass; fi

# A trace tells of what its inputs lacked, and is refused as they are.
"$tool" -q --no-table one.json -t whole.json 2>/dev/null
sed 's/"damaged":false,"dropped_events":0,/"damaged":false,"dropped_events":5,/' whole.json >lost.json
sed 's/"damaged":false,/"damaged":true,/' whole.json >broken.json
sed 's/"generator":"spanprof /"generator":"another /;s/"damaged":false,"dropped_events":0,/"damaged":true,"dropped_events":5,/' whole.json >another.json
expect_code "compare whole traces" 0 "$tool" compare whole.json whole.json
for input in lost broken; do expect_code "compare $input traces" 3 "$tool" compare $input.json $input.json; done
expect_code "a trace of a dump with drops" 0 "$tool" -q --no-table lost.json -s lost.sum -t lost2.json
expect_text "drops that a trace tells of" '"dropped_events":5,' lost.sum
expect_text "drops in the trace of the trace" '"damaged":false,"dropped_events":5,' lost2.json
expect_code "a trace of a damaged dump" 3 "$tool" -q --no-table broken.json -s broken.sum
expect_text "damage that a trace tells of" '"damaged":true,' broken.sum
expect_code "another tool's otherData" 0 "$tool" -q --no-table another.json -s another.sum
expect_text "another tool's otherData" '"dropped_events":0,' another.sum

# Its laws: a higher tolerance adds no regression; what a side lacks, or has alone, fails only where that is asked.
last=1000000
for bps in 0 1000 20000 100000 1000000; do
    "$tool" compare one.sum slow.sum --relative-tolerance-bps $bps --json cmp.json >log 2>&1
    regressions=$(grep -o '"status":"regression"' cmp.json | wc -l)
    [ "$regressions" -le $last ] && pass || fail "tolerance $bps: $regressions regressions, fewer ($last) at a lower one"
    last=$regressions
done
sed 's/"schema_version":1/"schema_version":7/' one.sum >other.sum
sed 's/"dropped_events":0/"dropped_events":5/' one.sum >drops.sum
: >empty.sum
for bad in other empty drops; do expect_code "compare with $bad.sum" 3 "$tool" compare one.sum $bad.sum; done
expect_code "compare with drops allowed" 0 "$tool" compare one.sum drops.sum --allow-incomplete
expect_code "compare: unknown metric" 2 "$tool" compare one.sum one.sum --metric speed
expect_code "compare runs" 0 "$tool" compare one.sum one.sum -- one.sum one.sum one.sum
expect_code "compare with a missing file" 3 "$tool" compare one.sum no_such_file.sum
# Rows that differ by their kind alone, or by their process; the pids of another run are others.
same_names() { # PID PID
    printf '[%s,\n%s,\n%s' '{"ph":"b","cat":"c","name":"request","id":"1","pid":9,"tid":1,"ts":0}' \
        '{"ph":"e","cat":"c","name":"request","id":"1","pid":9,"tid":1,"ts":7}' '{"ph":"M","name":"process_name","pid":9,"args":{"name":"server"}}'
    for pid; do
        printf ',\n{"ph":"M","name":"process_name","pid":%d,"args":{"name":"worker"}}' "$pid"
        printf ',\n{"ph":"X","name":"request","pid":%d,"tid":1,"ts":0,"dur":%d}' "$pid" $((pid % 10 * 10))
    done
    echo ']'
}
same_names 101 102 >kinds1.json
same_names 201 202 >kinds2.json
for by in "" --by-process; do
    "$tool" -q --no-table kinds1.json $by -s kinds1.sum
    "$tool" -q --no-table kinds2.json $by -s kinds2.sum
    expect_code "compare rows of one name, of two kinds $by" 0 "$tool" compare kinds1.sum kinds2.sum --fail-on-new --fail-on-missing --json cmp.json
    expect_text "their kinds in --json" '"kind":"async","status":"within_tolerance"' cmp.json
done
expect_text "compare with --by-process" '"process":"worker","process_ordinal":1},"status":"within_tolerance","baseline":20000,' cmp.json
expect_code "compare dumps" 0 "$tool" compare r.dump r.dump --allow-incomplete

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
