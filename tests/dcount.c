/* dcount.c - dcount DUMP [NAME...]: checks that DUMP is whole and prints, for each name, how many of its spans are finished and
 * how many are open; without names: of all spans. Exit status 1: not a good dump. For the test scripts.
 * SPDX-License-Identifier: MIT */
#include "dump_reader.h"

int main(int argc, char **argv) {
    dr_dump *d;
    int i, status;
    if (argc < 2) {
        fputs("usage: dcount DUMP [NAME...]\n", stderr);
        return 2;
    }
    d = dr_load(argv[1]);
    if (d->error[0]) fprintf(stderr, "dcount: %s: %s\n", argv[1], d->error);
    if (getenv("DCOUNT_BLOCKS")) {
        size_t lane, k;
        for (lane = 0; lane < d->lane_count; lane++)
            for (k = 0; k < d->lanes[lane].count; k++)
                printf("lane %d seq %d state %u at %lu\n", (int)lane, (int)d->lanes[lane].blocks[k].seq, (unsigned)d->lanes[lane].blocks[k].head->state,
                       (unsigned long)d->lanes[lane].blocks[k].offset);
    }
    if (argc == 2) printf("%" PRIu64 " %" PRIu64 "\n", dr_count(d, NULL), dr_unfinished(d, NULL));
    for (i = 2; i < argc; i++) printf("%" PRIu64 " %" PRIu64 "\n", dr_count(d, argv[i]), dr_unfinished(d, argv[i]));
    status = d->error[0] != 0;
    dr_free(d);
    return status;
}
