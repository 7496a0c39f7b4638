# matrix.sh BUILD - the kit under every compiler, standard and platform that this machine has; what is missing is skipped and
# counted, or fails with STRICT=1. Called by `make check-matrix`.
#
# Each cell builds the tests of the recorder with one compiler and set of flags in BUILD/matrix/NAME, runs them (in an emulator
# where the program is not for this machine), and counts as one check. A dump that a foreign platform wrote is then converted
# here. ONLY="NAME NAME" runs these cells alone. SPDX-License-Identifier: MIT
mkdir -p "$1" && BUILD=$(cd "$1" && pwd) || exit 2
SOURCE=$(cd "$(dirname "$0")/.." && pwd)
export BUILD SOURCE
. "$SOURCE/tests/lib.sh"
: "${MAKE:=make}"
unset MAKEFLAGS MFLAGS MAKELEVEL
work=$BUILD/matrix
mkdir -p "$work" && cd "$work" || exit 2
started=$(date +%s)
try() { "$@" >try.out 2>&1 </dev/null; } # is the tool there, and does it work?

printf '#include <pthread.h>\n#include <stdio.h>\nint main(void) { return puts("ok") < 0; }\n' >probe.c
# works WHAT COMPILE... -- RUN...: the compiler makes programs, and they run.
works() {
    what=$1 compile=
    shift
    while [ "$1" != -- ]; do compile="$compile $1"; shift; done
    shift
    rm -f probe probe.exe
    try $compile probe.c -o probe -pthread && { [ -f probe ] || mv probe.exe probe; } && try "$@" ./probe
}

HOST_TOOL=$work/host/trace2summary
check "the tool, for this machine" $MAKE -s -C "$SOURCE" O="$work/host" "$HOST_TOOL" "$work/host/tests/dcount" "$work/host/tests/jget"

# cell NAME RUNNER TESTS MAKE-ARGUMENTS...: builds these tests and runs them.
cell() {
    name=$1 runner=$2 tests=$3
    shift 3
    case " ${ONLY:-$name} " in *" $name "*) ;; *) return 1 ;; esac
    step "$name"
    targets=
    for test in $tests; do targets="$targets $work/$name/tests/$test"; done
    check "$name: builds" $MAKE -s -j2 -C "$SOURCE" O="$work/$name" "$@" $targets
    if env ${runner:+TEST_RUNNER="$runner"} TOOL="$([ -z "$runner" ] && echo "$HOST_TOOL")" TEST_LINES=15 sh "$SOURCE/tests/run.sh" "$work/$name" $targets >"$name.out" 2>&1; then
        passed=$((passed + 1))
        echo "   $(tail -n 1 "$name.out")"
    else
        failed=$((failed + 1))
        echo "failed: $name"
        cat "$name.out"
    fi
    return 0
}

UNITS="unit_macros unit_portable unit_order unit_hooks unit_session unit_env unit_schedule unit_text unit_records unit_async"
LIVES="life_exit life_fork life_thread life_static"
QUICK="unit_macros unit_portable unit_order unit_session unit_text unit_cpp"

# ---- compilers and levels on this machine ----

for pair in gcc:g++ clang:clang++; do
    cc=${pair%:*} cxx=${pair#*:}
    works $cc $cc -- && works $cxx $cxx -x c++ -- || { missing "$cc and $cxx"; continue; }
    cell $cc-O0 "" "$UNITS unit_cpp unit_clock $LIVES" CC=$cc CXX=$cxx CFLAGS="-O0 -g -Werror" LDFLAGS=
    cell $cc-O3 "" "$QUICK life_exit life_thread" CC=$cc CXX=$cxx CFLAGS="-O3 -g -Werror"
    cell $cc-Os "" "$QUICK" CC=$cc CXX=$cxx CFLAGS="-Os -Werror"
done

# ---- fallbacks, forced on this machine ----

for fallback in NO_TLS NO_TSC; do
    cell $fallback "" "$UNITS unit_cpp life_exit life_thread" CPPFLAGS=-DSPANPROF_$fallback=1
done
cell not-inlined "" "$UNITS unit_cpp life_exit" CPPFLAGS=-DSPANPROF_INLINE=0
cell large-windows "" "unit_macros unit_order unit_records life_exit life_thread" CPPFLAGS=-DSPANPROF_WINDOW_BYTES=1048576

# ---- sanitizers ----

# Frames on the heap are not where a scope's address can be compared; a cancelled thread's poison is under the sanitizer's own feet.
ASAN_OPTIONS=detect_stack_use_after_return=0:use_sigaltstack=0
TSAN_OPTIONS=atexit_sleep_ms=50 # a second for each of hundreds of children
export ASAN_OPTIONS TSAN_OPTIONS
for cc in gcc clang; do
    cxx=$([ $cc = gcc ] && echo g++ || echo clang++)
    if works "$cc" $cc -fsanitize=address,undefined -- ; then
        cell $cc-address,undefined "" "$UNITS unit_cpp unit_threads unit_ring $LIVES" CC=$cc CXX=$cxx SAN=address,undefined CFLAGS="-O1 -g -fno-sanitize-recover=undefined"
    else
        missing "$cc -fsanitize=address,undefined"
    fi
    if works "$cc" $cc -fsanitize=thread -- ; then
        cell $cc-thread "" "unit_macros unit_order unit_hooks unit_session unit_threads unit_async unit_ring unit_cpp life_exit life_thread" CC=$cc CXX=$cxx SAN=thread CFLAGS="-O1 -g"
    else
        missing "$cc -fsanitize=thread"
    fi
done

# ---- other C libraries and word sizes ----

if works musl-gcc musl-gcc -static -- ; then
    cell musl-static "" "$UNITS life_exit life_fork life_thread" CC=musl-gcc LDFLAGS=-static
else
    missing "musl-gcc"
fi
# The headers of this machine's own word size do for the other.
m32="-m32 -isystem /usr/include/$(gcc -print-multiarch 2>/dev/null)"
if works gcc gcc $m32 -- && works g++ g++ $m32 -x c++ -- ; then
    cell gcc-m32 "" "$UNITS unit_cpp $LIVES" CC="gcc $m32" CXX="g++ $m32"
else
    missing "gcc -m32"
fi
if works tcc tcc -- ; then
    cell tcc "" "unit_portable" CC=tcc CFLAGS="-g -Wno-error"
else
    missing "tcc"
fi

# ---- other processors, emulated ----

# foreign NAME COMPILER RUNNER: the tests, then its dump on this machine.
foreign() {
    name=$1 compiler=$2 runner=$3 convert=$4
    if ! works "$compiler" $compiler -static -- $runner; then
        missing "$compiler with $runner"
        return
    fi
    cell $name "$runner" "unit_macros unit_portable unit_hooks unit_session unit_schedule unit_text unit_records" CC=$compiler LDFLAGS=-static || return
    dump=$work/$name/run/unit_portable/portable.dump
    if [ "$convert" = yes ]; then
        check "$name: its dump converts here" "$HOST_TOOL" -q --no-table -s $name.json "$dump"
        same "$name: spans by name" 20000 "$("$work/host/tests/jget" $name.json 'rows[key.name=handle].calls' 2>&1)"
    else
        fails "$name: its dump is refused here, or converts" "byte order" sh -c "'$HOST_TOOL' -q --no-table -s $name.json '$dump' && echo the byte order is read && exit 1"
    fi
}
foreign aarch64 aarch64-linux-gnu-gcc qemu-aarch64 yes
foreign riscv64 riscv64-linux-gnu-gcc qemu-riscv64 yes
foreign s390x s390x-linux-gnu-gcc qemu-s390x no

# ---- Windows ----

wine=$(ls /usr/lib/wine/wine64 2>/dev/null || command -v wine64 || command -v wine)
WINEDEBUG=-all
export WINEDEBUG
if works x86_64-w64-mingw32-gcc x86_64-w64-mingw32-gcc -static -- "${wine:-wine}"; then
    cell windows "$wine" "unit_macros unit_portable unit_hooks unit_session unit_schedule unit_records" CC=x86_64-w64-mingw32-gcc LDFLAGS=-static && {
    check "windows: its dump converts here" "$HOST_TOOL" -q --no-table -s windows.json windows/run/unit_portable/portable.dump
    same "windows: spans by name" 20000 "$("$work/host/tests/jget" windows.json 'rows[key.name=handle].calls' 2>&1)"
    check "windows: the tool builds" $MAKE -s -C "$SOURCE" O="$work/windows" CC=x86_64-w64-mingw32-gcc LDFLAGS=-static "$work/windows/trace2summary"
    tool=$(ls windows/trace2summary.exe windows/trace2summary 2>/dev/null | head -n 1)
    check "windows: the tool converts there" "$wine" "$tool" -q --no-table -s windows2.json windows/run/unit_portable/portable.dump
    check "windows: to the same summary" cmp windows.json windows2.json
    }
else
    missing "x86_64-w64-mingw32-gcc and wine"
fi

step "done"
finish check-matrix
