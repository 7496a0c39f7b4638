/* link_a.c - the main file of the linked programs; it calls into link_b.c. SPDX-License-Identifier: MIT */
#include "spanprof.h"

int link_b(int n);

int main(void) {
    int sum = 0, i;
    SPANPROF_BEGIN("a.main");
    SPANPROF_ATTR_I64("sum", sum);
    for (i = 0; i < 100; i++) {
        SPANPROF_BLOCK("a.loop") { sum += link_b(i); }
    }
    SPANPROF_END();
    SPANPROF_COUNTER("sum", sum);
    return sum == 4950 ? 0 : 1;
}
