/* unit_clock.c - the clocks: which one is used, that it agrees with CLOCK_MONOTONIC, and that it never runs backwards from one
 * core to another. SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include "session.h"

#include <sched.h>
#include <time.h>

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void agrees(spanprof_clock clock, const char *path) {
    const struct timespec pause = { 0, 700000000 };
    spanprof_config config;
    uint64_t before, after, outer_before, outer_after;
    dr_dump *d;
    memset(&config, 0, sizeof config);
    config.clock = clock;
    session_open_with(config, path);
    outer_before = now_ns();
    {
        SPANPROF_SPAN("span");
        before = now_ns();
        nanosleep(&pause, NULL);
        after = now_ns();
    }
    outer_after = now_ns();
    d = session_close();
    if (clock == SPANPROF_CLOCK_MONOTONIC) CHECK_INT(SPANPROF_CLOCK_MONOTONIC, d->header.clock);
    CHECK(d->header.clock == SPANPROF_CLOCK_MONOTONIC || d->header.clock == SPANPROF_CLOCK_TSC);
    /* Within 10 ppm of what the system's clock says. */
    CHECK_RANGE((double)(after - before) * (1 - 1e-5), (double)(outer_after - outer_before) * (1 + 1e-5), dr_ns(d, dr_find(d, "span", 0)->start, dr_find(d, "span", 0)->end));
    if (d->header.clock == SPANPROF_CLOCK_MONOTONIC) {
        CHECK(dr_find(d, "span", 0)->start >= outer_before && dr_find(d, "span", 0)->start <= before);
        CHECK(dr_find(d, "span", 0)->end >= after && dr_find(d, "span", 0)->end <= outer_after);
    }
    dr_free(d);
}

/* The anchors of a dump, on a line: no block's anchor is more than 20 microseconds off the line through the header's two. */
static void anchors(void) {
    dr_dump *d;
    size_t i, k, used = 0;
    double worst = 0;
    session_open("anchors.dump");
    for (i = 0; i < 2000000; i++) SPANPROF_BLOCK("span") {}
    d = session_close();
    for (i = 0; i < d->lane_count; i++)
        for (k = 0; k < d->lanes[i].count; k++) {
            const spanprof_dump_block *b = d->lanes[i].blocks[k].head;
            const double off = dr_ns(d, d->header.first.ticks, b->base_ticks) - (double)(b->base_ns - d->header.first.mono_ns);
            if (b->base_ticks < d->header.first.ticks) continue;
            used++;
            if (off > worst) worst = off;
            if (-off > worst) worst = -off;
        }
    CHECK(used > 200);
    printf("%lu anchors, worst %.0f ns off the line\n", (unsigned long)used, worst);
    CHECK_RANGE(0, 200000, worst);
    dr_free(d);
}

static void cores(void) {
#ifdef __linux__
    cpu_set_t all, one;
    dr_dump *d;
    size_t i, wrong = 0;
    int cpu, first = -1, second = -1;
    if (sched_getaffinity(0, sizeof all, &all)) {
        SKIP("cores: the affinity can't be read");
        return;
    }
    for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET((size_t)cpu, &all)) {
            if (first < 0) first = cpu;
            else if (second < 0) second = cpu;
        }
    if (second < 0) {
        SKIP("cores: there is one only");
        return;
    }
    session_open("cores.dump");
    for (i = 0; i < 500; i++) {
        CPU_ZERO(&one);
        CPU_SET((size_t)(i % 2 ? first : second), &one);
        {
            SPANPROF_SPAN("hop");
            if (sched_setaffinity(0, sizeof one, &one)) break;
            SPANPROF_BLOCK("child") {}
        }
    }
    sched_setaffinity(0, sizeof all, &all);
    d = session_close();
    CHECK_U64(1000, dr_count(d, NULL));
    for (i = 0; i < d->spans_count; i++)
        wrong += d->spans[i].end < d->spans[i].start || dr_ns(d, d->spans[i].start, d->spans[i].end) > 5e9 || (i && d->spans[i].start < d->spans[i - 1].start);
    CHECK_U64(0, wrong);
    dr_free(d);
#else
    SKIP("cores: not on this system");
#endif
}

int main(void) {
    agrees(SPANPROF_CLOCK_AUTO, "auto.dump");
    agrees(SPANPROF_CLOCK_MONOTONIC, "monotonic.dump");
    agrees(SPANPROF_CLOCK_TSC, "tsc.dump");
    anchors();
    cores();
    return CHECK_DONE();
}
