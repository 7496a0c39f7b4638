/* hello.c - the smallest program that records: one span a scope, a block, an attribute.
 *
 *     cc -O2 -I.. hello.c -o hello -pthread
 *     ./hello                                    runs as if the macros were not there
 *     SPANPROF=1 ./hello && trace2summary spanprof.dump
 *
 * SPDX-License-Identifier: MIT */
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include <stdio.h>
#include <stdlib.h>

static double load(double *values, int count) {
    SPANPROF_SPAN("load"); /* until the end of this function, however it is left */
    SPANPROF_ATTR_I64("values", count);
    double last = 0;
    for (int i = 0; i < count; i++) values[i] = last = (i * 7919) % 10007;
    return last;
}

static double transform(const double *values, int count) {
    SPANPROF_SPAN("transform");
    double sum = 0;
    for (int i = 0; i < count; i++) sum += values[i] * values[i] / count;
    return sum;
}

int main(void) {
    enum { COUNT = 200000, ROUNDS = 5 };
    double *values = malloc(COUNT * sizeof *values), sum = 0;
    if (!values) return 1;
    SPANPROF_BLOCK("rounds") {
        for (int i = 0; i < ROUNDS; i++) sum += load(values, COUNT) + transform(values, COUNT);
    }
    printf("sum %.1f\n", sum);
    free(values);
    return 0;
}
