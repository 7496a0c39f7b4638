/* nested.c - a fixed tree of spans with metadata: one training step the way a model would record it.
 *
 *     step 1..3
 *       batch.load        phase data, activity read
 *       model.forward     phase forward, module mlp, shapes
 *         layer.linear    graph_node fc1, fc2
 *       model.backward    phase backward
 *       optimizer.update  a BEGIN/END pair, with an attribute
 *
 *     cc -O2 -I.. nested.c -o nested -pthread && SPANPROF=1 ./nested && trace2summary spanprof.dump
 *
 * Each of the spans takes a few hundred microseconds, so that the shape of the trace is easy to see.
 * SPDX-License-Identifier: MIT */
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include <stdio.h>

/* Something that takes time and that no compiler removes. */
static unsigned work(unsigned rounds) {
    volatile unsigned state = 2463534242u;
    for (unsigned i = 0; i < rounds * 1000u; i++) {
        unsigned x = state;
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        state = x;
    }
    return state;
}

static unsigned linear(const char *node) {
    /* The metadata are designated initializers; only those named here are recorded. */
    SPANPROF_SPAN_META("layer.linear", .phase = "forward", .dtype = "float32", .module = "mlp", .graph_node = node);
    return work(100);
}

static unsigned forward(void) {
    SPANPROF_SPAN_META("model.forward", .phase = "forward", .module = "mlp", .input_shapes = "[64, 784]", .output_shapes = "[64, 10]");
    unsigned sum = linear("fc1");
    sum += linear("fc2");
    return sum;
}

int main(void) {
    unsigned sum = 0;
    SPANPROF_THREAD_NAME("trainer");
    for (int step = 1; step <= 3; step++) {
        SPANPROF_STEP(step); /* every span that begins in this scope carries the step */
        SPANPROF_SPAN("step");
        SPANPROF_BLOCK("batch.load") {
            SPANPROF_ATTR_STR("source", "synthetic");
            sum += work(50);
        }
        sum += forward();
        {
            SPANPROF_SPAN_META("model.backward", .phase = "backward", .module = "mlp");
            sum += work(300);
        }
        SPANPROF_BEGIN_META("optimizer.update", .phase = "update", .activity = "sgd");
        SPANPROF_ATTR_F64("learning_rate", 0.01);
        sum += work(50);
        SPANPROF_END();
        SPANPROF_COUNTER("loss", 1.0 / step);
    }
    printf("checksum %u\n", sum);
    return 0;
}
