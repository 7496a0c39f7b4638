/* jget.c - jget FILE [PATH...]: checks that FILE is strict JSON and prints what the paths of json.h lead to, one a line.
 * Exit status 1: not JSON, or nothing there. For the test scripts. SPDX-License-Identifier: MIT */
#include "json.h"

int main(int argc, char **argv) {
    json *j;
    int i, status = 0;
    if (argc < 2) {
        fputs("usage: jget FILE [PATH...]\n", stderr);
        return 2;
    }
    j = json_load(argv[1]);
    if (j->error[0]) {
        fprintf(stderr, "jget: %s: %s\n", argv[1], j->error);
        return 1;
    }
    for (i = 2; i < argc; i++) {
        const char *value = json_get(j, argv[i]);
        if (!value) {
            fprintf(stderr, "jget: %s: nothing at %s\n", argv[1], argv[i]);
            status = 1;
        } else {
            puts(value);
        }
    }
    json_free(j);
    return status;
}
