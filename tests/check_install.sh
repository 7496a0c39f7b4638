# check_install.sh - make: what is installed where, a program built from the installed files through pkg-config, nothing written
# outside the build folder, clean. SPDX-License-Identifier: MIT
. "$SOURCE/tests/lib.sh"
: "${MAKE:=make}"
unset MAKEFLAGS MFLAGS MAKELEVEL
here=$(pwd)
make_() { (cd "$SOURCE" && $MAKE -s O="$here/build" CC="$CC" CXX="$CXX" CFLAGS="$CFLAGS" LDFLAGS="$LDFLAGS" "$@"); }
version=$(sed -n 's/^#define SPANPROF_VERSION "\(.*\)"/\1/p' "$SOURCE/spanprof.h")

# The files of the source folder, but for the repository's and the build folder's own.
files() { find "$SOURCE" -path "$BUILD" -prune -o -path "$SOURCE/build" -prune -o -path "$SOURCE/.git" -prune -o -type f -print | sort; }
before=$(files)
check "make install" make_ install PREFIX="$here/root"
check "make install, staged" make_ install PREFIX=/opt/kit DESTDIR="$here/stage"
for file in include/spanprof.h bin/trace2summary lib/pkgconfig/spanprof.pc; do
    check "installed: $file" test -f root/$file
    check "staged: $file" test -f stage/opt/kit/$file
done
same "header is the header" "$(cksum <"$SOURCE/spanprof.h")" "$(cksum <root/include/spanprof.h)"
check "version in spanprof.pc" grep -q "^Version: $version\$" root/lib/pkgconfig/spanprof.pc
check "prefix of the staged one" grep -q '^prefix=/opt/kit$' stage/opt/kit/lib/pkgconfig/spanprof.pc
same "tool's version" "yes" "$(root/bin/trace2summary -V | grep -q "$version" && echo yes)"

if have pkg-config; then
    flags=$(PKG_CONFIG_PATH=root/lib/pkgconfig pkg-config --cflags --libs spanprof 2>&1)
    same "pkg-config's version" "$version" "$(PKG_CONFIG_PATH=root/lib/pkgconfig pkg-config --modversion spanprof 2>&1)"
else
    skip "no pkg-config: its flags by hand"
    flags="-I$here/root/include -pthread"
fi
cp "$SOURCE/examples/hello.c" .
check "a program builds from the installed header" $CC -O1 hello.c -o hello $flags
check "... and records" env SPANPROF=1 SPANPROF_OUT=x.dump ./hello
check "... and converts" root/bin/trace2summary --no-table x.dump

check "make clean" make_ clean
same "make clean removes the build folder" no "$([ -e build ] && echo yes || echo no)"
same "nothing is written outside it" "$before" "$(files)"
check "make help" make_ help
finish check_install
