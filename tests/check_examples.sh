# check_examples.sh - each example: what it prints, that it runs the same unrecorded, and what the trace and the summary of its
# record say. SPDX-License-Identifier: MIT
. "$SOURCE/tests/lib.sh"
E=$BUILD/examples
[ -n "$TEST_RUNNER" ] && { skip "examples: not in an emulator"; finish check_examples; }
get() { "$BUILD/tests/jget" "$@" 2>&1; }
values() { echo $(get "$@"); }

# example NAME OUTPUT ARGUMENTS...: runs it unrecorded and recorded, and converts.
example() {
    name=$1 output=$2
    shift 2
    rm -f *.dump* *.json
    same "$name: output" "$output" "$("$E/$name" "$@" 2>&1)"
    same "$name: no file unasked" "" "$(ls | grep -v '^check.out$\|^index$\|^tree$')"
}
record() { # NAME ARGUMENTS...
    name=$1
    shift
    check "$name: recorded" env SPANPROF=1 SPANPROF_OUT=x.dump "$E/$name" "$@"
    check "$name: converts" "$BUILD/trace2summary" --no-table x.dump
    same "$name: nothing lost, nothing odd" "0 0" "$(values x.summary.json dropped_events validation_issues)"
    check "$name: trace is JSON" "$BUILD/tests/jget" x.trace.json traceEvents
}
calls() { values x.summary.json $(for name in "$@"; do echo "rows[key.name=$name].calls"; done); }

example hello "sum 166897533.2"
record hello
same "hello: calls" "1 5 5" "$(calls rounds load transform)"
same "hello: attribute" "200000" "$(get x.trace.json 'traceEvents[name=load].args.values')"

example nested "$("$E/nested")"
record nested
same "nested: calls" "3 3 3 6 3 3" "$(calls step batch.load model.forward layer.linear model.backward optimizer.update)"
same "nested: metadata" "forward mlp float32" "$(values x.summary.json 'rows[key.name=layer.linear].key.phase' 'rows[key.name=layer.linear].key.module' 'rows[key.name=layer.linear].key.dtype')"
same "nested: thread" "trainer" "$(get x.trace.json 'traceEvents[name=thread_name].args.name')"
same "nested: counter samples" "3" "$(get x.trace.json 'traceEvents[ph=C]#')"
same "nested: depth" "3" "$(get x.summary.json max_depth)"
# Self time is what the children left: the step's own is nearly nothing, the tree's selves add up to the steps.
total=$(get x.summary.json 'rows[key.name=step].total_ns') sum=0
for self in $(values x.summary.json 'rows[key.name=step].self_ns' 'rows[key.name=batch.load].self_ns' 'rows[key.name=model.forward].self_ns' \
    'rows[key.name=layer.linear].self_ns' 'rows[key.name=model.backward].self_ns' 'rows[key.name=optimizer.update].self_ns'); do sum=$((sum + self)); done
same "nested: selves add up to the root" "$total" "$sum"

example threads "64 items, 13225434 steps"
record threads 4
same "threads: calls" "64 64" "$(calls queue.put work)"
same "threads: tracks" "5" "$(get x.trace.json 'traceEvents[name=thread_name]#')"
same "threads: arrows" "64 64" "$(values x.trace.json 'traceEvents[ph=s]#' 'traceEvents[ph=f]#')"
"$E/threads" 0 >/dev/null 2>&1
same "threads: wrong usage" 2 $?

example async_completion "4 requests completed"
record async_completion
same "async_completion: calls" "4 4 4 1" "$(calls submit device.complete read.request wait.all)"
same "async_completion: operations and arrows" "4 4 4 4" "$(values x.trace.json 'traceEvents[ph=b]#' 'traceEvents[ph=e]#' 'traceEvents[ph=s]#' 'traceEvents[ph=f]#')"

example scheduled_steps "24 steps, sum $("$E/scheduled_steps" | sed 's/.*sum //')"
record scheduled_steps
same "scheduled_steps: calls" "4 4 4" "$(calls train.step forward backward)"
steps() { tr '{' '\n' <"$1" | sed -n 's/.*"step":\([0-9]*\).*/\1/p' | sort -n -u | tr '\n' ' '; }
same "scheduled_steps: steps" "6 7 12 13 " "$(steps x.trace.json)"
check "scheduled_steps: one cycle" "$BUILD/trace2summary" --no-table --cycle 2 -t y.trace.json -s y.summary.json x.dump
same "scheduled_steps: steps of cycle 2" "12 13 " "$(steps y.trace.json)"
same "scheduled_steps: calls of cycle 2" "2" "$(get y.summary.json 'rows[key.name=train.step].calls')"
check "scheduled_steps: by environment" env SPANPROF=1 SPANPROF_OUT=z.dump SPANPROF_SCHEDULE=0,0,0,1,1 "$E/hello"

example hooks_bridge ""
same "hooks_bridge: recorded" "push frame|  push decode|  pop|  push decode|  pop|pop|push frame|  push decode|  pop|  push decode|  pop|pop|" \
    "$(SPANPROF=1 SPANPROF_OUT=x.dump "$E/hooks_bridge" | tr '\n' '|')"
record hooks_bridge
same "hooks_bridge: calls" "2 4" "$(calls frame decode)"

example multi_file "c[0] = 64.0"
record multi_file
same "multi_file: calls" "1 2 3 3" "$(calls main matrix_fill round matrix.multiply)"

# The indexer on a folder whose answer is known, then on the kit itself.
mkdir tree tree/sub
printf 'int foo(int bar) { return bar + foo(1); } // comment words\n/* more words */ char *s = "in a string"; 0x1fU\n' >tree/a.c
printf 'foo foo\n' >tree/sub/b.h
printf 'foo in a text\n' >tree/c.txt
example indexer "2 files, 115 bytes, 11 identifiers, 6 distinct, 0 unreadable; index: index" --index index tree
same "indexer: index" "4 2 foo,2 1 bar,2 1 int,1 1 char,1 1 return,1 1 s," "$(sed 's/  */ /g; s/^ //' index | LC_ALL=C sort -s -k1,1nr | tr '\n' ',')"
record indexer --index index --threads 3 "$SOURCE"
files=$(SPANPROF=0 "$E/indexer" --index index "$SOURCE" | sed 's/ files.*//')
same "indexer: calls" "1 1 1 1 3 1 1" "$(calls indexer scan index merge merge.worker sort write)"
same "indexer: a span a file" "$files $files $files $files" "$(calls file read tokenize count)"
same "indexer: trace says the same" "$files" "$(get x.trace.json 'traceEvents[name=tokenize]#')"
same "indexer: samples of the counter" "$files" "$(get x.trace.json 'traceEvents[name=files.taken]#')"
same "indexer: main's track" "1" "$(values x.trace.json 'traceEvents[args.name=main]#')"
# A worker that comes late finds no file left, and has no track.
workers=$(values x.trace.json 'traceEvents[args.name=worker 1]#' 'traceEvents[args.name=worker 2]#' 'traceEvents[args.name=worker 3]#')
check "indexer: workers' tracks: $workers" test "$workers" != "0 0 0"
for wrong in "--threads 0" "--threads" "--threads x" "--files 1x" "--unknown" "a b" "--index"; do
    "$E/indexer" $wrong >/dev/null 2>&1
    same "indexer $wrong: wrong usage" 2 $?
done
"$E/indexer" --index index no/such/folder >/dev/null 2>&1
same "indexer: no such folder" 1 $?
"$E/indexer" --index no/such/folder/index tree >/dev/null 2>&1
same "indexer: an index that can't be written" 1 $?

# The gate fires on the slower candidate, and says which row.
(cd "$SOURCE" && sh examples/regression.sh "$BUILD") >regression.out 2>&1
same "regression.sh: a regression" 1 $?
check "regression.sh: names the row" grep -q tokenize regression.out
finish check_examples
