/* link_library.c - a library that records; with LIBRARY_IMPLEMENTATION it carries the implementation.
 * SPDX-License-Identifier: MIT */
#ifdef LIBRARY_IMPLEMENTATION
#define SPANPROF_IMPLEMENTATION
#endif
#include "spanprof.h"

__attribute__((visibility("default"))) void link_library(const char *name);

void link_library(const char *name) {
    SPANPROF_BEGIN("library");
    SPANPROF_BEGIN_DYN(name);
    SPANPROF_ATTR_STR("key", "value");
    SPANPROF_END();
    SPANPROF_END();
}
