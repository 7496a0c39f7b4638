#!/bin/sh
# run.sh BUILD - checks window.pml with spin: no error as it is and with a ring, an error with each mutation.
# SPDX-License-Identifier: MIT
SOURCE=$(cd "$(dirname "$0")/../.." && pwd)
BUILD=${1:-build}
. "$SOURCE/tests/lib.sh"
mkdir -p "$BUILD/model" && BUILD=$(cd "$BUILD" && pwd) && cd "$BUILD/model" || exit 2
if ! have spin; then
    skip "spin"
    finish model
fi

# errors DEFINES: how many errors the model has.
errors() {
    spin -a $1 "$SOURCE/tests/model/window.pml" >spin.log 2>&1 && $CC -O2 -w -DSAFETY -DVECTORSZ=4096 -o pan pan.c 2>>spin.log && ./pan -m500000 -w24 >pan.log 2>&1
    sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.log
}

for variant in "" -DRING; do
    same "the model, ${variant:-as it is}" 0 "$(errors "$variant")"
    sed -n 's/^ *\([0-9]*\) states, stored.*/    \1 states/p' pan.log
    if grep -q "max search depth too small" pan.log; then same "search depth" enough "too small"; fi
done
for mutation in 1 2 3 4 5 6 7 8; do
    same "mutation $mutation is found" 1 "$(errors -DMUTATION=$mutation)"
done
finish model
