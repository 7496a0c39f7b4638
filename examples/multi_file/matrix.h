/* matrix.h - the library's interface; it says nothing of spans. SPDX-License-Identifier: MIT */
#ifndef MATRIX_H
#define MATRIX_H

enum { MATRIX_SIZE = 128 };
void matrix_fill(double *m, double value);
void matrix_multiply(const double *a, const double *b, double *c);

#endif
