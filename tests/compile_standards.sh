# compile_standards.sh - the header in every standard, with all the warnings as errors, recording and disabled, alone, twice, with
# the implementation, by this compiler and by the machine's others. SPDX-License-Identifier: MIT
. "$SOURCE/tests/lib.sh"
T=$SOURCE/tests I="-I$SOURCE"

compile() { # COMPILER STANDARD FLAGS...
    compiler=$1 standard=$2
    shift 2
    case $standard in
        *++*) warn=$WARN_CXX language=c++ ;;
        *) warn=$WARN_C language=c ;;
    esac
    $compiler -std=$standard $warn $I -x $language "$@" -c
}

knows() { # COMPILER STANDARD
    case $2 in *++*) language=c++ ;; *) language=c ;; esac
    echo 'int main(void) { return 0; }' | $1 -std=$2 -x $language -c - -o probe.o >/dev/null 2>&1
}

each() { # COMPILER STANDARD...
    compiler_name=$1
    shift
    for standard in "$@"; do
        knows "$compiler_name" $standard || { skip "$compiler_name does not know $standard"; continue; }
        say="$compiler_name $standard"
        check "$say" compile "$compiler_name" $standard -O0 "$T/compile_all.c"
        check "$say, not inlined" compile "$compiler_name" $standard -fsyntax-only -DSPANPROF_INLINE=0 "$T/compile_all.c"
        check "$say, disabled" compile "$compiler_name" $standard -fsyntax-only -DSPANPROF_DISABLE "$T/compile_all.c"
        check "$say, implementation" compile "$compiler_name" $standard -fsyntax-only "$T/link_implementation.c"
        check "$say, implementation disabled" compile "$compiler_name" $standard -fsyntax-only -DSPANPROF_DISABLE "$T/link_implementation.c"
        check "$say, implementation and uses" compile "$compiler_name" $standard -fsyntax-only -DSPANPROF_IMPLEMENTATION "$T/compile_all.c"
    done
    # Some warnings come with optimization only; they are the same in every standard.
    for level in ${LEVELS:--O2}; do
        check "$compiler_name $level" compile "$compiler_name" $1 $level "$T/compile_all.c"
        check "$compiler_name $level, implementation and uses" compile "$compiler_name" $1 $level -DSPANPROF_IMPLEMENTATION "$T/compile_all.c"
    done
}

for compiler in "$CC" $(other_compilers C "$CC"); do
    each "$compiler" c99 gnu99 c11 c17 c2x
    for fallback in -DSPANPROF_NO_TLS=1 -DSPANPROF_NO_TSC=1; do
        check "$compiler $fallback" compile "$compiler" c99 -fsyntax-only $fallback -DSPANPROF_IMPLEMENTATION "$T/compile_all.c"
    done
done
for compiler in "$CXX" $(other_compilers C++ "$CXX"); do
    have "$compiler" && each "$compiler" c++11 gnu++11 c++14 c++17 c++20
done
# The tuning macros are checked where they are set.
for bad in WINDOW_BYTES=65535 WINDOW_BYTES=32768 WINDOW_BYTES=8388608 MAX_DEPTH=63 MAX_DEPTH=65536; do
    fails "SPANPROF_$bad is refused" "SPANPROF_${bad%=*} must be" compile "$CC" c99 -O0 -DSPANPROF_$bad "$T/link_implementation.c"
done
# An unbraced if does not take a scope's declaration, which would record always.
printf '#include "spanprof.h"\nvoid f(int x) { if (x) SPANPROF_SPAN("x"); }\n' >unbraced.c
fails "an unbraced if with a scope span, in C" "error" compile "$CC" c99 -O0 unbraced.c
# A name known only at run time would be that of the first pass for ever: C++ is made to refuse it, as C does.
printf '#include "spanprof.h"\nvoid f(const char *name) { SPANPROF_MACRO(name); }\n' >dynamic.c
for compiler in "$CC" "$CXX" $(other_compilers C++ "$CXX"); do
    have "$compiler" || continue
    case $compiler in *++*) language=c++ ;; *) language=c ;; esac
    for macro in SPAN BEGIN INSTANT; do fails "$compiler: a dynamic name in SPANPROF_$macro" "error" "$compiler" -x $language -I"$SOURCE" -DSPANPROF_MACRO=SPANPROF_$macro -fsyntax-only dynamic.c; done
done
finish compile_standards
