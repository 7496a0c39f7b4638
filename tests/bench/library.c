/* library.c - the shared library of the benchmark: a span in it with recording off, and the same loop without.
 * SPDX-License-Identifier: MIT */
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

void library_spans(long count);
void library_empty(long count);

void library_spans(long count) {
    while (count--) {
        SPANPROF_SPAN("library");
        __asm__ volatile("" ::: "memory");
    }
}
void library_empty(long count) {
    while (count--) __asm__ volatile("" ::: "memory");
}
