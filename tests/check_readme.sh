# check_readme.sh - what README.md tells a reader to paste: its programs compile and record, its CMake and Meson snippets build, its
# commands run.
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

# The commands of the sh blocks and of the consoles, in their order, in the kit's folder; what they build is in BUILD.
: "${MAKE:=make}"
unset MAKEFLAGS MFLAGS MAKELEVEL
run_as() { # STATUS LINE: the kit's build folder is BUILD
    line=$(printf '%s\n' "$2" | sed "s#build/#$3/#g; s#^make#$MAKE -s O='$3'#; s#^cc #$CC #")
    (cd "$SOURCE" && sh -c "$line")
    [ $? -eq "$1" ]
}
awk '/^```sh$/ { sh = 1; next } /^```/ { sh = 0 } sh { sub(/ +#.*/, ""); if (sub(/\\$/, "")) part = part $0; else { print part $0; part = "" } }
     /^\$ / { print substr($0, 3) }' "$README" >commands
while read -r line; do
    case $line in
        make | "make demo" | "make test") ;; # what built this; .ci/run
        make\ CUDA=1*) cuda=${BUILD}/readme_cuda; if have nvcc; then check "$line" run_as 0 "$line" "$cuda"; else skip "README's CUDA session: no nvcc"; cuda=; fi ;;
        *mlp-cuda*) [ -z "$cuda" ] || check "$line" run_as 0 "$line" "$cuda" ;;
        *" compare "*) check "$line" run_as 1 "$line" "$BUILD" ;; # a regression
        cc*first.c*) cp block1.c first.c; check "$line" env CC="$CC" SOURCE="$SOURCE" sh -c "$(printf '%s\n' "$line" | sed "s#^cc#\$CC#; s#-I\.#-I\$SOURCE#")" ;;
        *./first*) check "$line" sh -c "$(printf '%s\n' "$line" | sed "s#build/#$BUILD/#g")" ;;
        *) check "$line" run_as 0 "$line" "$BUILD" ;;
    esac
done <commands
same "commands in blocks" 15 "$(grep -c . commands)"
# Those in the text: run here, or by the test that is named.
grep -o '`[^`]*`' "$README" | tr -d '`' | grep -E '^(make|cc|sh|trace2summary|pkg-config|mpirun|cmake|meson|SPANPROF=1) ' | sort -u >inline
while read -r line; do
    case $line in
        "make demo" | "make CUDA=1 LIBTORCH_HOME=dir" | "make CUDA=1 build/spanprof_cuda_tests"* | "make bench" | "make test" | "make check-"*) ;; # .ci/run, and who has the device
        "make install "* | "pkg-config "*) ;; # check_install.sh
        "sh examples/regression.sh") ;;        # check_examples.sh
        "cc -O2 tools/trace2summary.c"*) check "$line" sh -c "cd '$SOURCE' && $CC -O2 tools/trace2summary.c -o '$PWD/trace2summary' -pthread" ;;
        "trace2summary run -- ./app") cp first app; check "$line" sh -c "'$BUILD/trace2summary' run -- ./app" ;;
        "trace2summary -t clean.json theirs.json") cp "$SOURCE/tests/tool/cases/kineto.json" theirs.json; check "$line" "$BUILD/trace2summary" -t clean.json theirs.json ;;
        "trace2summary -h") check "$line" "$BUILD/trace2summary" -h ;;
        "trace2summary --"*) check "$line" "$BUILD/trace2summary" $(echo "$line" | sed 's/^trace2summary //; s/--svg$/--svg x.svg/') spanprof.dump ;;
        "trace2summary spanprof.dump") check "$line" "$BUILD/trace2summary" spanprof.dump ;;
        *) check "a command of README.md that no test knows: $line" false ;;
    esac
done <inline
finish check_readme
