# link_files.sh - one implementation among several files: in C, in C++, in a static library; none and two must not link.
# SPDX-License-Identifier: MIT
. "$SOURCE/tests/lib.sh"
T=$SOURCE/tests I="-I$SOURCE"
SAN_FLAGS=${SAN:+-fsanitize=$SAN}

c() { $CC -std=gnu99 $CFLAGS $WARN_C $I "$@"; }
cxx() { $CXX -std=gnu++11 $CXXFLAGS $WARN_CXX $I "$@"; }
link() { $CC $CFLAGS $LDFLAGS "$@" -pthread; }
linkxx() { $CXX $CXXFLAGS $LDFLAGS "$@" -pthread; }

# records WHAT PROGRAM: runs it and finds its spans.
records() {
    rm -f out.dump*
    check "$1 runs" env SPANPROF=1 SPANPROF_OUT=out.dump "$2"
    same "$1: spans" "1 100 100 100" "$(spans a.main out.dump*) $(spans a.loop out.dump*) $(spans b out.dump*) $(spans b.inner out.dump*)"
    rm -f out.dump*
    check "$1 runs unrecorded" "$2"
    same "$1: no dump unasked" "no" "$([ -e spanprof.dump ] && echo yes || echo no)"
}

check "a.o" c -c "$T/link_a.c" -o a.o
check "b.o" c -c "$T/link_b.c" -o b.o
check "implementation.o" c -c "$T/link_implementation.c" -o implementation.o
check "implementation2.o" c -c "$T/link_implementation.c" -o implementation2.o
check "two files and an implementation link" link a.o b.o implementation.o -o two
records "two files" ./two
check "the implementation's place does not matter" link implementation.o b.o a.o -o two_again
records "two files, other order" ./two_again
fails "no implementation does not link" spanprof_ link a.o b.o -o none
fails "two implementations do not link" spanprof_ link a.o b.o implementation.o implementation2.o -o double

check "library" ar rcs libspans.a b.o implementation.o
check "static library links" link a.o libspans.a -o static_library
records "static library" ./static_library

if have "$CXX"; then
    check "implementation in C++" cxx -x c++ -c "$T/link_implementation.c" -o implementation_cxx.o
    check "b in C++" cxx -x c++ -c "$T/link_b.c" -o b_cxx.o
    check "C with the implementation in C++ links" linkxx a.o b.o implementation_cxx.o -o c_with_cxx
    records "implementation in C++" ./c_with_cxx
    check "C++ with the implementation in C links" linkxx a.o b_cxx.o implementation.o -o cxx_with_c
    records "implementation in C" ./cxx_with_c
    check "C++ without exceptions and types at run time" cxx -fno-exceptions -fno-rtti -x c++ -c "$T/link_b.c" -o b_bare.o
    check "... links" linkxx a.o b_bare.o implementation_cxx.o -o bare
    records "bare C++" ./bare
    fails "two implementations, C and C++, do not link" spanprof_ linkxx a.o b.o implementation.o implementation_cxx.o -o double
else
    skip "no C++ compiler"
fi

# Ways to build, and the fallbacks of other platforms forced on this one.
for flags in -O0 -Os "-O3 -fno-omit-frame-pointer" "-O2 -ffunction-sections -fdata-sections -Wl,--gc-sections" "-O2 -fPIC -pie" -flto \
    "-O0 -DSPANPROF_INLINE=0" "-O0 -DSPANPROF_NO_TLS=1" "-O0 -DSPANPROF_NO_TSC=1" "-O0 -DSPANPROF_NO_TLS=1 -DSPANPROF_NO_TSC=1" \
    "-O0 -DSPANPROF_WINDOW_BYTES=1048576" "-O0 -DSPANPROF_MAX_DEPTH=64"; do
    case $flags:$SAN in -flto:?*) continue ;; esac
    echo 'int main(void) { return 0; }' >probe.c
    $CC $CFLAGS $flags probe.c -o probe >/dev/null 2>&1 || { skip "the compiler does not know $flags"; continue; }
    check "builds with $flags" c $flags "$T/link_a.c" "$T/link_b.c" "$T/link_implementation.c" -o flags $LDFLAGS -pthread
    records "with $flags" ./flags
done
finish link_files
