# link_libraries.sh - a program and its shared libraries, each with or without the implementation, each visibility, libraries
# opened and closed at run time: every span is found, in one dump or in several that convert together.
# SPDX-License-Identifier: MIT
. "$SOURCE/tests/lib.sh"
T=$SOURCE/tests CFLAGS="$CFLAGS -O1"
[ -n "$SAN" ] && { skip "shared libraries: not with sanitizers"; finish link_libraries; }

library() { $CC -std=gnu99 $CFLAGS $WARN_C -I"$SOURCE" -fPIC -shared "$@" "$T/link_library.c" -pthread; }
program() { $CC -std=gnu99 $CFLAGS $WARN_C -I"$SOURCE" "$@" -pthread; }

# finds WHAT HOST LIBRARY: the dumps hold so many spans; the tool makes one summary of all of them.
finds() {
    same "$1: spans of the program" "$2" "$(spans host out.dump*)"
    same "$1: spans of the library" "$3" "$(spans library out.dump*)"
    same "$1: spans by name" "$3" "$(spans "by name" out.dump*)"
    check "$1: converts" "$BUILD/trace2summary" -q --no-table -s out.json out.dump*
    same "$1: summary" "$2 $3 $3" "$(echo $("$BUILD/tests/jget" out.json 'rows[key.name=host].calls' 'rows[key.name=library].calls' 'rows[key.name=by name].calls' 2>&1))"
}
run() { rm -f out.dump* && SPANPROF=1 SPANPROF_OUT=out.dump "$@" && rm -f out.json; }

I=-DHOST_IMPLEMENTATION L=-DLIBRARY_IMPLEMENTATION
for visibility in default hidden; do
    v=-fvisibility=$visibility
    # A library with the implementation, and a program that carries one too or, when it can see the library's, does not.
    check "library, $visibility" library $v $L -o liblink_$visibility.so
    check "program, $visibility" program $v $I "$T/link_program.c" -L. -llink_$visibility -Wl,-rpath,'$ORIGIN' -o program_$visibility
    check "program runs, $visibility" run ./program_$visibility
    finds "both carry it, $visibility" 12 12
done
check "program without the implementation" program "$T/link_program.c" -L. -llink_default -Wl,-rpath,'$ORIGIN' -o program_without
check "it runs on the library's" run ./program_without
finds "the library carries it" 12 12
same "one implementation, one dump" 1 "$(ls out.dump* | wc -l)"

# Opened at run time: two libraries that carry it, a host with it, exported or not.
check "plugin 1" library -fvisibility=hidden $L -o plugin1.so
cp plugin1.so plugin2.so
check "plugin 3, default visibility" library $L -o plugin3.so
for export in "" -rdynamic; do
    for v in default hidden; do
        check "host $export $v" program -fvisibility=$v $I $export "$T/link_host.c" -ldl -o host
        check "host runs $export $v" run ./host ./plugin1.so ./plugin2.so ./plugin3.so
        finds "plugins that carry it, host ${export:-plain} $v" 35 30
    done
done
# A plugin without it finds the host's, when the host exports it.
check "plugin without the implementation" library -o plugin4.so
check "exporting host" program $I -rdynamic "$T/link_host.c" -ldl -o host
check "host runs" run ./host ./plugin4.so ./plugin4.so
finds "the host carries it" 24 20
same "one dump" 1 "$(ls out.dump* | wc -l)"
# A host without it, and plugins with it.
check "host that records nothing" program -DSPANPROF_DISABLE "$T/link_host.c" -ldl -o host_without
check "it runs" run ./host_without ./plugin1.so ./plugin3.so
same "spans of the plugins" 20 "$(spans library out.dump*)"

# Late libraries share a small space for their thread-local variables: twelve of them must fit.
set --
for n in 1 2 3 4 5 6 7 8 9 10 11 12; do
    cp plugin1.so many$n.so
    set -- "$@" ./many$n.so
done
check "a dozen libraries" run ./host_without "$@"
same "spans of a dozen" 120 "$(spans library out.dump*)"
finish link_libraries
