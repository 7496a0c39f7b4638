/* unit_schedule.c - schedules: every small one against a model, the borders of active steps, the limits of the numbers.
 * SPDX-License-Identifier: MIT */
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include "session.h"

enum { STEPS = 17 };

/* The cycle (from 1) that records a step, or 0: the definition, one step at a time. */
static unsigned model(unsigned step, unsigned skip, unsigned wait, unsigned warmup, unsigned active, unsigned repeat) {
    unsigned at = skip, cycle, i;
    if (step < skip) return 0;
    for (cycle = 1; !repeat || cycle <= repeat; cycle++) {
        for (i = 0; i < wait + warmup; i++, at++)
            if (at == step) return 0;
        for (i = 0; i < active; i++, at++)
            if (at == step) return cycle;
    }
    return 0;
}

static void exhaustive(void) {
    unsigned skip, wait, warmup, active, repeat, step, schedules = 0;
    for (skip = 0; skip <= 2; skip++)
        for (wait = 0; wait <= 2; wait++)
            for (warmup = 0; warmup <= 2; warmup++)
                for (active = 1; active <= 3; active++)
                    for (repeat = 0; repeat <= 2; repeat++, schedules++) {
                        spanprof_config config;
                        dr_dump *d;
                        unsigned recorded = 0, wrong = 0, of_cycle[STEPS + 2] = { 0 };
                        memset(&config, 0, sizeof config);
                        config.path = "schedule.dump";
                        if (spanprof_start(&config) || spanprof_schedule(skip, wait, warmup, active, repeat)) {
                            CHECK_STR("", "the session or its schedule did not start");
                            return;
                        }
                        for (step = 0; step < STEPS; step++) {
                            {
                                SPANPROF_SPAN_META("step", .step = step);
                                SPANPROF_BLOCK("inner") {}
                            }
                            wrong += spanprof_step() != SPANPROF_OK;
                        }
                        spanprof_stop();
                        d = dr_load("schedule.dump");
                        wrong += d->error[0] != 0;
                        for (step = 0; step < STEPS; step++) {
                            const unsigned cycle = model(step, skip, wait, warmup, active, repeat);
                            const dr_span *s = dr_find(d, "step", recorded);
                            if (!cycle) continue;
                            recorded++;
                            of_cycle[cycle]++;
                            wrong += dr_meta_number(d, s, SPANPROF_META_step) != step || s->cycle != cycle || !(s->flags & DR_FINISHED);
                        }
                        wrong += dr_count(d, "step") != recorded || dr_count(d, "inner") != recorded || dr_events(d) != 2 * recorded;
                        /* A whole cycle has exactly `active` steps. */
                        for (step = 1; step < STEPS && of_cycle[step + 1]; step++) wrong += of_cycle[step] != active;
                        if (wrong) printf("    schedule %u,%u,%u,%u,%u: %s\n", skip, wait, warmup, active, repeat, d->error);
                        CHECK_INT(0, wrong);
                        dr_free(d);
                    }
    CHECK_INT(3 * 3 * 3 * 3 * 3, schedules);
}

/* A span open across a border belongs to the side where it began. */
static void borders(void) {
    dr_dump *d;
    session_open("borders.dump");
    CHECK_INT(SPANPROF_OK, spanprof_schedule(1, 0, 0, 1, 1));
    CHECK_INT(0, spanprof_recording());
    SPANPROF_BEGIN("begun before");
    spanprof_step();
    CHECK_INT(1, spanprof_recording());
    SPANPROF_END();
    SPANPROF_BEGIN("begun within");
    SPANPROF_BLOCK("within") {}
    spanprof_step();
    CHECK_INT(0, spanprof_recording());
    SPANPROF_BLOCK("after") {}
    SPANPROF_END();
    SPANPROF_BLOCK("after") {}
    d = session_close();
    CHECK_U64(2, dr_events(d));
    CHECK_U64(1, dr_count(d, "begun within"));
    CHECK_U64(1, dr_count(d, "within"));
    CHECK_STR("begun within", dr_name(d, dr_parent(d, dr_find(d, "within", 0))));
    CHECK_U64(0, d->header.orphan_ends);
    CHECK_U64(0, dr_dropped(d)); /* what is not active is left out, not lost */
    dr_free(d);
}

static void numbers(void) {
    static const uint64_t big = UINT64_C(1) << 40;
    dr_dump *d;
    int i;
    session_open("numbers.dump");
    CHECK_INT(SPANPROF_ERR_ARGUMENT, spanprof_schedule(0, 0, 0, 0, 0));
    CHECK_INT(SPANPROF_ERR_ARGUMENT, spanprof_schedule(1, 2, 3, 0, 1));
    CHECK_INT(1, spanprof_recording()); /* a refused schedule changes nothing */
    CHECK_INT(SPANPROF_OK, spanprof_schedule(0, 0, 0, big, big));
    for (i = 0; i < 3; i++) {
        SPANPROF_BLOCK("always") {}
        spanprof_step();
    }
    d = session_close();
    CHECK_U64(3, dr_count(d, "always"));
    dr_free(d);
    session_open("never.dump");
    CHECK_INT(SPANPROF_OK, spanprof_schedule(big, big, big, big, 0));
    for (i = 0; i < 3; i++) {
        SPANPROF_BLOCK("never") {}
        spanprof_step();
    }
    d = session_close();
    CHECK_U64(0, dr_events(d));
    dr_free(d);
    /* The next session has no schedule but its own. */
    session_open("next.dump");
    SPANPROF_BLOCK("next") {}
    d = session_close();
    CHECK_U64(1, dr_events(d));
    dr_free(d);
}

int main(void) {
    exhaustive();
    borders();
    numbers();
    return CHECK_DONE();
}
