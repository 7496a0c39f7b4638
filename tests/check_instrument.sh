# check_instrument.sh - SPANPROF_INSTRUMENT_FUNCTIONS: every function of a program compiled with -finstrument-functions is a span,
# named by the tool. SPDX-License-Identifier: MIT
. "$SOURCE/tests/lib.sh"
[ -n "$SAN" ] && { skip "not with sanitizers"; finish check_instrument; }
cat >program.c <<'END'
#include <stdio.h>
int leaf(int n);
static __attribute__((noinline)) int hidden(int n) { return leaf(n) + leaf(n + 1); }
int outer(int n) { return hidden(n) * 2; }
int leaf(int n) { return n + 1; }
int main(void) {
    int sum = 0;
    for (int i = 0; i < 50; i++) sum += outer(i);
    printf("%d\n", sum);
    return 0;
}
END
printf '#define SPANPROF_IMPLEMENTATION\n#define SPANPROF_INSTRUMENT_FUNCTIONS\n#include "spanprof.h"\n' >spans.c
same_output() { same "$1: unrecorded output" 5200 "$(./program)"; }
calls() { echo $("$BUILD/tests/jget" x.json 'rows[key.name=outer].calls' 'rows[key.name=hidden].calls' 'rows[key.name=leaf].calls' 'rows[key.name=main].calls' 2>&1); }

for compiler in "$CC" $(other_compilers C "$CC"); do
    for link in -pie -no-pie; do
        if [ $link = -pie ]; then pie=-fPIE; else pie=-fno-pie; fi
        say="$compiler $link"
        check "$say: program" $compiler -std=gnu99 -O1 $pie -finstrument-functions -c program.c
        check "$say: implementation" $compiler -std=gnu99 -O2 $pie $WARN_C -I"$SOURCE" -c spans.c
        check "$say: links" $compiler $link program.o spans.o -o program -pthread
        same_output "$say"
        same "$say: recorded output" 5200 "$(SPANPROF=1 SPANPROF_OUT=x.dump ./program)"
        check "$say: converts" "$BUILD/trace2summary" -q --no-table -s x.json x.dump
        same "$say: calls by name" "50 50 100 1" "$(calls)"
    done
done
# Without a symbol table there are addresses; as many calls.
if have strip; then
    check "strip" strip program
    check "records" env SPANPROF=1 SPANPROF_OUT=x.dump ./program
    check "converts" "$BUILD/trace2summary" -q --no-table -s x.json x.dump
    same "calls" 201 "$("$BUILD/tests/jget" x.json event_count 2>&1)"
else
    skip "no strip"
fi
finish check_instrument
