/* scheduled_steps.c - records a few steps of a long run. The schedule leaves out the first two steps, then twice: waits
 * three, warms up one, records two. Ten more steps go by unrecorded.
 *
 *     cc -O2 -I.. scheduled_steps.c -o scheduled_steps -pthread
 *     SPANPROF=1 ./scheduled_steps && trace2summary spanprof.dump        steps 6, 7 and 12, 13 (counted from 0)
 *     trace2summary --cycle 2 spanprof.dump                               the second cycle alone
 *
 * The same without a line of code: SPANPROF_SCHEDULE=2,3,1,2,2, if the program calls spanprof_step().
 * SPDX-License-Identifier: MIT */
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include <stdio.h>

static double train(int step) {
    SPANPROF_SPAN_META("train.step", .step = step);
    double sum = 0;
    SPANPROF_BLOCK("forward") {
        for (int i = 1; i < 20000; i++) sum += 1.0 / i;
    }
    SPANPROF_BLOCK("backward") {
        for (int i = 1; i < 40000; i++) sum -= 0.5 / i;
    }
    return sum;
}

int main(void) {
    enum { SKIP_FIRST = 2, WAIT = 3, WARMUP = 1, ACTIVE = 2, REPEAT = 2, STEPS = 24 };
    double sum = 0;
    spanprof_status status = spanprof_schedule(SKIP_FIRST, WAIT, WARMUP, ACTIVE, REPEAT);
    if (status != SPANPROF_OK) {
        fprintf(stderr, "schedule: %s\n", spanprof_status_text(status));
        return 1;
    }
    for (int step = 0; step < STEPS; step++) {
        sum += train(step);
        spanprof_step(); /* this step is over */
    }
    printf("%d steps, sum %.3f\n", STEPS, sum);
    return 0;
}
