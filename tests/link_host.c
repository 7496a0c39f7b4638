/* link_host.c - a program that opens libraries which record, calls into them, closes them and goes on.
 * link_host LIBRARY...; with HOST_IMPLEMENTATION it carries the implementation. SPDX-License-Identifier: MIT */
#ifdef HOST_IMPLEMENTATION
#define SPANPROF_IMPLEMENTATION
#endif
#include "spanprof.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void own(void) {
    SPANPROF_BLOCK("host") {}
}

int main(int argc, char **argv) {
    int i, k;
    own();
    for (i = 1; i < argc; i++) {
        void *library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        void *symbol = library ? dlsym(library, "link_library") : NULL;
        void (*call)(const char *) = NULL;
        if (!symbol) {
            fprintf(stderr, "link_host: %s\n", dlerror());
            return 1;
        }
        memcpy(&call, &symbol, sizeof call);
        for (k = 0; k < 10; k++) {
            own();
            call("by name");
        }
        /* Its names, sites and code are gone before the process ends. */
        if (dlclose(library)) return 2;
        own();
    }
    own();
    return 0;
}
