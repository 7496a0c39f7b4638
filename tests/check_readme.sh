# check_readme.sh - what README.md tells a reader to paste: its programs compile and record, its CMake and Meson snippets build.
# SPDX-License-Identifier: MIT
. "$SOURCE/tests/lib.sh"
README=$SOURCE/README.md
[ -f "$README" ] || { skip "no README.md"; finish check_readme; }
[ -n "$SAN" ] && { skip "not with sanitizers"; finish check_readme; }

# block LANGUAGE N: the text of the Nth code block of a language.
block() { awk -v want='```'"$1" -v n="$2" '$0 == want { inside = ++seen == n; next } /^```/ { inside = 0 } inside' "$README"; }

n=1
while [ -n "$(block c $n)" ]; do
    block c $n >block$n.c
    if grep -q 'int main' block$n.c; then
        grep -q SPANPROF_IMPLEMENTATION block$n.c && spans= || { printf '#define SPANPROF_IMPLEMENTATION\n#include "spanprof.h"\n' >spans.c; spans=spans.c; }
        check "program $n compiles" $CC -O1 -Wall -Wextra -I"$SOURCE" block$n.c $spans -o block$n -pthread -lm
        check "program $n records" env SPANPROF=1 SPANPROF_OUT=block$n.dump ./block$n
        check "program $n converts" "$BUILD/trace2summary" -q --no-table block$n.dump
    fi
    n=$((n + 1))
done

# A project for the snippets: two files beside the kit's header.
project() {
    mkdir -p $1/$2 && cp "$SOURCE/spanprof.h" $1/$2/ && cp "$SOURCE/tests/link_a.c" $1/main.c || return 1
    { printf '#define SPANPROF_IMPLEMENTATION\n'; cat "$SOURCE/tests/link_b.c"; } >$1/spans.c
}
built() { # WHAT PROGRAM
    check "$1: the program records" env SPANPROF=1 SPANPROF_OUT=x.dump "$2"
    same "$1: spans" 100 "$(spans b x.dump)"
}
if [ -z "$(block cmake 1)" ]; then
    skip "README.md has no CMake snippet"
elif have cmake; then
    check "CMake project" project cmake third_party/spanprof
    { printf 'cmake_minimum_required(VERSION 3.14)\nproject(app C)\n'; block cmake 1; } >cmake/CMakeLists.txt
    check "CMake configures" cmake -S cmake -B cmake/build -DCMAKE_C_COMPILER="$CC"
    check "CMake builds" cmake --build cmake/build
    built CMake cmake/build/app
else
    skip "no cmake"
fi
if [ -z "$(block meson 1)" ]; then
    skip "README.md has no Meson snippet"
elif have meson; then
    check "Meson project" project meson subprojects/spanprof
    { printf "project('app', 'c')\n"; block meson 1; } >meson/meson.build
    check "Meson configures" env CC="$CC" meson setup meson/build meson
    check "Meson builds" meson compile -C meson/build
    built Meson meson/build/app
else
    skip "no meson"
fi
finish check_readme
