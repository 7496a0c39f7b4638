# deep.sh BUILD - slower checks, and those that need tools which not every machine has; what is missing is skipped and counted, or
# fails with STRICT=1. Called by `make check-deep`. SPDX-License-Identifier: MIT
mkdir -p "$1" && BUILD=$(cd "$1" && pwd) || exit 2
SOURCE=$(cd "$(dirname "$0")/.." && pwd)
export BUILD SOURCE
. "$SOURCE/tests/lib.sh"
: "${MAKE:=make}"
unset MAKEFLAGS MFLAGS MAKELEVEL
work=$BUILD/deep
mkdir -p "$work" && cd "$work" || exit 2
started=$(date +%s)

check "the kit builds" $MAKE -s -j2 -C "$SOURCE" O="$BUILD" all "$BUILD/tests/life_sigkill" "$BUILD/tests/unit_macros" "$BUILD/tests/unit_session" "$BUILD/tests/fault_calls" "$BUILD/tests/jget"

# ---- static checks, of a stated set ----

step "static checks"
if have clang-tidy; then
    checks='-*,bugprone-*,clang-analyzer-*,-bugprone-easily-swappable-parameters,-bugprone-reserved-identifier,-bugprone-macro-parentheses'
    checks="$checks,-bugprone-narrowing-conversions,-bugprone-implicit-widening-of-multiplication-result,-bugprone-branch-clone,-clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling,-bugprone-assignment-in-if-condition,-bugprone-signal-handler"
    # In the tool these warn of guards that they can't follow, and of sizes and copies that are meant.
    lenient=-clang-analyzer-core.NonNullParamChecker,-clang-analyzer-core.NullDereference,-clang-analyzer-unix.Malloc
    lenient=$lenient,-bugprone-sizeof-expression,-bugprone-not-null-terminated-result,-bugprone-signed-char-misuse
    tidy() { clang-tidy --quiet --warnings-as-errors='*' --checks="$checks${2:+,$2}" "$1" -- -std=gnu99 -I"$SOURCE"; }
    check "clang-tidy: the implementation" tidy "$SOURCE/tests/link_implementation.c"
    check "clang-tidy: the tool" tidy "$SOURCE/tools/trace2summary.c" "$lenient"
else
    missing "clang-tidy"
fi
if have cppcheck; then
    cppcheck_() { cppcheck --quiet --error-exitcode=1 --enable=warning,performance,portability --inline-suppr --suppress=missingInclude --suppress=preprocessorErrorDirective --suppress=objectIndex --std=c99 -D__GNUC__=12 -D__x86_64__ -D__linux__ -I"$SOURCE" "$@"; }
    check "cppcheck: the implementation" cppcheck_ "$SOURCE/tests/link_implementation.c"
    check "cppcheck: the tool" cppcheck_ "$SOURCE/tools/trace2summary.c"
else
    missing "cppcheck"
fi

# ---- memory ----

step "valgrind"
if have valgrind; then
    check "valgrind: recorder" sh -c "mkdir -p valgrind && cd valgrind && exec valgrind -q --error-exitcode=9 --leak-check=full '$BUILD/tests/unit_macros'"
    check "valgrind: the tool" sh -c "cd valgrind && exec valgrind -q --error-exitcode=9 --leak-check=full '$BUILD/trace2summary' -q --no-table attributes.dump"
else
    missing "valgrind"
fi

# ---- life and death, more often ----

step "1,100 sessions"
check "1,100 sessions" sh -c "mkdir -p sessions && cd sessions && exec '$BUILD/tests/unit_session' 1100"
step "500 kills"
check "500 kills" sh -c "mkdir -p kills && cd kills && exec '$BUILD/tests/life_sigkill' 500"
cat check.out

# ---- a demo's outputs under other readers ----

step "other JSON readers"
check "demo" $MAKE -s -C "$SOURCE" O="$BUILD" demo
echo "JSON.parse(require('fs').readFileSync(0,'utf8'))" >parse.js
for reader in "jq -e ." "python3 -m json.tool" "node parse.js"; do
    if have "$reader"; then
        for file in trace summary; do check "${reader%% *}: demo.$file.json" sh -c "$reader >/dev/null <'$BUILD/demo.$file.json'" ; done
    else
        missing "${reader%% *}"
    fi
done
if have python3; then
    check "python3: the trace holds what the summary counts" python3 - "$BUILD/demo.trace.json" "$BUILD/demo.summary.json" <<'END'
import collections, json, sys
trace, summary = (json.load(open(path, encoding="utf-8")) for path in sys.argv[1:])
calls, total = collections.Counter(), collections.Counter()
for event in trace["traceEvents"]:
    if event["ph"] == "X":
        assert event["dur"] >= 0 and event["ts"] >= 0, event
        calls[event["name"]] += 1
        total[event["name"]] += round(event["dur"] * 1000)
for row in summary["rows"]:
    assert calls[row["key"]["name"]] == row["calls"], row
    assert total[row["key"]["name"]] == row["total_ns"], (row, total[row["key"]["name"]])
assert sum(row["self_ns"] for row in summary["rows"]) <= summary["recorded_thread_time_ns"] * 1.0001
END
fi

# ---- random programs, random inputs, and the model of the window ----

# part WHAT COMMAND...: a part with a closing line of its own, whose counts are added.
part() {
    what=$1
    shift
    step "$what"
    "$@" >part.out 2>&1 </dev/null
    status=$?
    line=$(sed -n 's/^.*[^0-9]\([0-9][0-9]* passed, [0-9][0-9]* failed.*\)$/\1/p' part.out | tail -n 1)
    set -- $(printf '%s\n' "$line" | tr -d ',a-z')
    [ "$status" -ne 0 ] && [ "${2:-0}" -eq 0 ] && set -- "${1:-0}" 1 "${3:-0}"
    passed=$((passed + ${1:-0})) failed=$((failed + ${2:-0}))
    if [ -n "$STRICT" ]; then failed=$((failed + ${3:-0})); else skipped=$((skipped + ${3:-0})); fi
    grep -v ' 0 failed, 0 skipped' part.out | grep -i 'fail\|skip\|expected\|got \|crash\|error' | head -n 20
    tail -n 1 part.out
}
check "soak and faults build" $MAKE -s -C "$SOURCE" O="$BUILD" "$BUILD/tests/soak" "$BUILD/tests/fault_calls" "$BUILD/tests/fault_many"
check "hostile input under sanitizers builds" $MAKE -s -C "$SOURCE" O="$BUILD/sanitized" SAN=address,undefined "$BUILD/sanitized/tests/hostile_input"
mkdir -p soak
part "soak" sh -c "cd soak && exec '$BUILD/tests/soak' ${SOAK_SECONDS:-600}"
part "fuzz targets" sh "$SOURCE/tests/fuzz/run.sh" "$BUILD" "${FUZZ_SECONDS:-60}"
part "the tool with others' programs" sh "$SOURCE/tests/tool/deep.sh" "$BUILD"
part "model of the window" sh "$SOURCE/tests/model/run.sh" "$BUILD"
part "every failing call" sh -c "mkdir -p calls && cd calls && exec '$BUILD/tests/fault_calls' all"
part "100,000 threads" sh -c "cd calls && exec '$BUILD/tests/fault_many' 100000"
part "hostile input under sanitizers" "$BUILD/sanitized/tests/hostile_input" all
step "done"
finish check-deep
