# compile_disable.sh - SPANPROF_DISABLE leaves nothing behind: the object file is, byte for byte, that of the same source without
# the macros. SPDX-License-Identifier: MIT
. "$SOURCE/tests/lib.sh"
T=$SOURCE/tests

# The same lines, without the macros and the include.
mkdir -p with without
cp "$T/compile_object.c" with/object.c
sed -e '/#include "spanprof.h"/s/.*//' -e 's/SPANPROF_BLOCK("[^"]*")//g' -e 's/SPANPROF_[A-Z0-9_]*([^;]*);/;/g' "$T/compile_object.c" >without/object.c
same "the other source has no macro" 0 "$(grep -c 'SPANPROF_[A-Z]*(' without/object.c)"
same "this one has all of them" "$(sed -n '/^#ifdef SPANPROF_DISABLE/,/^#else/s/^#define \(SPANPROF_[A-Z0-9_]*\)(.*/\1/p' "$SOURCE/spanprof.h" | grep -v 'SPANPROF_I_\|SPANPROF_SITE' | sort -u | tr '\n' ' ')" \
    "$(grep -o 'SPANPROF_[A-Z0-9_]*(' with/object.c | tr -d '(' | sort -u | tr '\n' ' ')"

object() { (cd $1 && shift && "$@" -DSPANPROF_DISABLE -I"$SOURCE" -c object.c -o object.o); }
compare() { # COMPILER FLAGS...
    compiler=$1
    shift
    check "$compiler $*: with" object with $compiler "$@"
    check "$compiler $*: without" object without $compiler "$@"
    check "$compiler $*: the same object" cmp with/object.o without/object.o
}
for compiler in "$CC" $(other_compilers C "$CC"); do
    for level in -O0 -O1 -O2 -Os; do compare "$compiler" -std=c99 $level; done
done
for compiler in "$CXX" $(other_compilers C++ "$CXX"); do
    have "$compiler" && for level in -O0 -O2; do compare "$compiler" -std=c++11 -x c++ $level; done
done
# Nothing is included, and the implementation file is empty.
printf '#define SPANPROF_DISABLE\n#define SPANPROF_IMPLEMENTATION\n#include "spanprof.h"\n' >empty.c
check "the implementation, disabled" $CC -I"$SOURCE" -c empty.c -o empty.o
if have nm; then same "it has no symbols" "" "$(nm empty.o 2>/dev/null)"; else skip "no nm"; fi
printf '%s\n' '#define SPANPROF_DISABLE' '#include "spanprof.h"' 'int f(void) { static spanprof_site s = SPANPROF_SITE("s");' \
    'spanprof_span h = spanprof_begin(&s); spanprof_end(spanprof_begin_dyn("d")); spanprof_end(h); spanprof_step(); spanprof_schedule(0, 0, 0, 1, 0);' \
    'return spanprof_recording() || spanprof_pause() || spanprof_resume() || spanprof_flush() || spanprof_stop(); }' >calls.c
check "handles and calls, disabled" $CC -std=c99 $WARN_C -O2 -I"$SOURCE" -c calls.c -o calls.o
if have "$CXX"; then check "handles and calls, disabled, C++" $CXX -std=c++11 $WARN_CXX -I"$SOURCE" -x c++ -c calls.c -o calls_cxx.o; fi
if have nm; then same "they leave nothing" "f" "$(nm calls.o | awk '{ print $NF }' | tr '\n' ' ' | tr -d ' ')"; fi
same "it includes nothing" "" "$($CC -I"$SOURCE" -H -fsyntax-only empty.c 2>&1 | grep '^\.\.')"
finish compile_disable
