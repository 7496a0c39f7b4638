/* compile_all.c - every macro once, in C and C++, with the standard headers before and after; only compiled.
 * SPDX-License-Identifier: MIT */
#ifdef SPANPROF_IMPLEMENTATION
#include "spanprof.h"
#endif
#include <stdio.h>
#include "spanprof.h"
#include "spanprof.h"
#include <string.h>

#ifdef __cplusplus
#define NO_HOOKS nullptr
#else
#define NO_HOOKS NULL
#endif

int compile_all(int argument, const char *text);
static inline int in_a_header(int x) {
    SPANPROF_SPAN("in a header");
    return x + 1;
}

int compile_all(int argument, const char *text) {
    int i, sum = 0;
    unsigned char small = 3;
    float single = 1.5f;
    SPANPROF_FUNCTION();
    SPANPROF_SPAN("one"); SPANPROF_SPAN("two");
    SPANPROF_SPAN_META("meta", .phase = "forward", .step = argument);
    SPANPROF_SPAN_META("everything", .phase = "p", .activity = "a", .backend = "b", .dtype = "t", .device = "d", .timing = "h", .module = text,
                       .graph_node = "g", .step = -1, .input_shapes = "i", .output_shapes = "o", .alloc_bytes = 1, .alloc_live_bytes = 2,
                       .alloc_peak_bytes = 3, .alloc_delta_bytes = -4, .hook_error = "e");
    SPANPROF_SPAN_META("no metadata");
    SPANPROF_STEP(argument);
#ifndef SPANPROF_DISABLE
    static const spanprof_hooks hooks = { NO_HOOKS, NO_HOOKS, NO_HOOKS, NO_HOOKS };
    SPANPROF_SPAN_HOOKED("hooked", &hooks);
    SPANPROF_SPAN_HOOKED("hooked", &hooks, .device = "cpu");
#else
    SPANPROF_SPAN_HOOKED("hooked", &hooks);
    SPANPROF_SPAN_HOOKED("hooked", &hooks, .device = "cpu");
#endif
    if (argument) {
        SPANPROF_SPAN("if");
        sum++;
    } else {
        SPANPROF_SPAN("else");
        sum--;
    }
    if (argument) SPANPROF_BEGIN("then"); else SPANPROF_BEGIN("otherwise");
    SPANPROF_END();
    if (argument)
        SPANPROF_BLOCK("unbraced") sum++;
    switch (argument) {
    case 0: SPANPROF_INSTANT("zero"); break;
    case 1: {
        SPANPROF_SPAN("one");
        break;
    }
    default: SPANPROF_BLOCK("many") { sum += argument; }
    }
    for (i = 0; i < argument; i++) {
        SPANPROF_SPAN("loop");
        if (i == 3) continue;
        if (i == 7) break;
        if (i == 9) goto out;
        SPANPROF_BLOCK("block") {
            SPANPROF_BLOCK("nested") { sum += i; }
        }
    }
out:
    SPANPROF_BEGIN_META("pair", .module = text);
    SPANPROF_BEGIN_DYN(text);
    SPANPROF_ATTR_I64("i", sum);
    SPANPROF_ATTR_I64("small", small);
    SPANPROF_ATTR_U64("u", 7u);
    SPANPROF_ATTR_F64("f", single);
    SPANPROF_ATTR_STR("s", text);
    SPANPROF_END();
    SPANPROF_END();
    SPANPROF_COUNTER("c", sum);
    SPANPROF_COUNTER("c", 1.5);
    SPANPROF_COUNTER("c", small);
    SPANPROF_ASYNC_BEGIN("async", argument);
    SPANPROF_ASYNC_END("async", argument);
    SPANPROF_FLOW_OUT(7);
    SPANPROF_FLOW_IN(7);
    SPANPROF_THREAD_NAME("thread");
    (void)small;
    (void)single;
    return in_a_header(sum) + (strlen(text) > 3) + printf("%d", sum);
}
