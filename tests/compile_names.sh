# compile_names.sh - what the header brings into a file: stdint.h and stddef.h and nothing else, no macro, symbol or identifier
# outside its prefix. SPDX-License-Identifier: MIT
. "$SOURCE/tests/lib.sh"
I="-I$SOURCE"
printf '#include <stddef.h>\n#include <stdint.h>\n' >plain.c
printf '#include "spanprof.h"\n' >header.c
printf '#define SPANPROF_IMPLEMENTATION\n#include "spanprof.h"\n' >implementation.c

# Files included by the header itself.
same "includes" "stddef.h stdint.h" "$(echo $($CC $I -H -fsyntax-only header.c 2>&1 | sed -n 's/^\.\. .*\///p' | sort -u))"

# Macros, beside those of the two.
for language in "$CC -std=c99" "$CC -std=c2x" "$CXX -std=c++11 -x c++"; do
    have "$language" || continue
    $language $I -dM -E plain.c >plain.macros 2>/dev/null || continue
    $language $I -dM -E header.c >header.macros
    same "macros, $language" "" "$(sort plain.macros header.macros | uniq -u | sed 's/^#define //; s/[( ].*//' | grep -v '^SPANPROF_' | tr '\n' ' ')"
    check "macros are there, $language" grep -q 'define SPANPROF_SPAN(' header.macros
done

# Symbols of the object files: what a program's own names could meet. A point in a name is a variable inside a function, or a
# part that the compiler made; two underscores at its start are the system's headers'.
if have nm; then
    check "header object" $CC $I -O0 -c header.c -o header.o
    same "symbols without the implementation" "" "$(nm header.o | awk '{ print $NF }' | grep -v '^spanprof_' | tr '\n' ' ')"
    for level in -O0 -O2; do
        check "implementation object" $CC $I $level -c implementation.c -o implementation.o
        same "global symbols, $level" "" "$(nm -g --defined-only implementation.o | awk '{ print $NF }' | grep -v '^spanprof_' | tr '\n' ' ')"
        same "all symbols, $level" "" "$(nm --defined-only implementation.o | awk '{ print $NF }' | grep -v '^spanprof_\|^__\|\.\|^\$' | tr '\n' ' ')"
    done
    # What it needs: only the C library's and the thread library's names.
    same "undefined names of other projects" "" "$(nm -u implementation.o | awk '{ print $NF }' | grep -i '^spanprof_\|cuda\|torch\|^Z' | tr '\n' ' ')"
else
    skip "no nm"
fi

# Identifiers at file scope: types, enumerators, functions. A declaration without a name shows as its column.
if have clang; then
    clang $I -Xclang -ast-dump -fsyntax-only -fno-color-diagnostics plain.c 2>/dev/null >plain.ast
    clang $I -Xclang -ast-dump -fsyntax-only -fno-color-diagnostics header.c 2>/dev/null >header.ast
    names() { # declarations directly in the file, with their names
        sed -n "s/^[|\`]-\([A-Za-z]*Decl\) 0x[0-9a-f]* \(prev 0x[0-9a-f]* \)*<[^>]*> \(<[^>]*> \)*\([a-z]*:[0-9:]* \)*\(implicit \)*\(used \)*\(referenced \)*\(struct \|enum \|union \)*\([A-Za-z_][A-Za-z_0-9]*\).*/\9/p" "$1" | sort -u
    }
    names plain.ast >plain.names
    names header.ast >header.names
    same "identifiers at file scope" "" "$(comm -13 plain.names header.names | grep -v '^spanprof_\|^SPANPROF_\|^__\|^definition$\|^col$\|^line$' | tr '\n' ' ')"
    check "identifiers are found" grep -q '^spanprof_begin$' header.names
else
    skip "identifiers at file scope: no clang"
fi

finish compile_names
