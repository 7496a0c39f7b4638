/* matrix.c - the library. SPDX-License-Identifier: MIT */
#include "matrix.h"
#include "spanprof.h"

void matrix_fill(double *m, double value) {
    SPANPROF_FUNCTION();
    for (int i = 0; i < MATRIX_SIZE * MATRIX_SIZE; i++) m[i] = value;
}

void matrix_multiply(const double *a, const double *b, double *c) {
    SPANPROF_SPAN_META("matrix.multiply", .dtype = "float64", .module = "matrix");
    SPANPROF_ATTR_I64("size", MATRIX_SIZE);
    for (int i = 0; i < MATRIX_SIZE; i++) {
        for (int j = 0; j < MATRIX_SIZE; j++) {
            double sum = 0;
            for (int k = 0; k < MATRIX_SIZE; k++) sum += a[i * MATRIX_SIZE + k] * b[k * MATRIX_SIZE + j];
            c[i * MATRIX_SIZE + j] = sum;
        }
    }
}
