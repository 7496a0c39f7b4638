/* link_b.c - the other file of the linked programs; a C and a C++ file. SPDX-License-Identifier: MIT */
#include "spanprof.h"

#ifdef __cplusplus
extern "C"
#endif
int link_b(int n);

int link_b(int n) {
    SPANPROF_BEGIN_META("b", .phase = "link", .step = n);
    SPANPROF_BLOCK("b.inner") {}
    SPANPROF_END();
    return n;
}
