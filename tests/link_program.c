/* link_program.c - a program linked to link_library.c; with HOST_IMPLEMENTATION it carries the implementation.
 * SPDX-License-Identifier: MIT */
#ifdef HOST_IMPLEMENTATION
#define SPANPROF_IMPLEMENTATION
#endif
#include "spanprof.h"

void link_library(const char *name);

int main(void) {
    int i;
    for (i = 0; i < 12; i++) {
        SPANPROF_BEGIN("host");
        link_library("by name");
        SPANPROF_END();
    }
    return 0;
}
