/* multi_file - a library and a program that both record; the implementation is compiled once, in spans.c.
 *
 *     cc -O2 -I../.. main.c matrix.c spans.c -o multi_file -pthread && SPANPROF=1 ./multi_file && trace2summary spanprof.dump
 *
 * SPDX-License-Identifier: MIT */
#include "matrix.h"
#include "spanprof.h"

#include <stdio.h>

int main(void) {
    static double a[MATRIX_SIZE * MATRIX_SIZE], b[MATRIX_SIZE * MATRIX_SIZE], c[MATRIX_SIZE * MATRIX_SIZE];
    SPANPROF_FUNCTION();
    matrix_fill(a, 1.0);
    matrix_fill(b, 0.5);
    for (int i = 0; i < 3; i++) {
        SPANPROF_BLOCK("round") { matrix_multiply(a, b, c); }
    }
    printf("c[0] = %.1f\n", c[0]);
    return 0;
}
