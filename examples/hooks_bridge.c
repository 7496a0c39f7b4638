/* hooks_bridge.c - the spans drive another profiler too: hooks push a range on it before the span starts and pop it when
 * the span ends. Here the other profiler is a stand-in that prints; with NVTX the two calls are nvtxRangePushA(call->name)
 * and nvtxRangePop().
 *
 *     cc -O2 -I.. hooks_bridge.c -o hooks_bridge -pthread && SPANPROF=1 ./hooks_bridge && trace2summary spanprof.dump
 *
 * Hooks run only while recording: without SPANPROF=1 nothing is printed.
 * SPDX-License-Identifier: MIT */
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include <stdio.h>

static int depth;
static void other_push(const char *name) { printf("%*spush %s\n", 2 * depth++, "", name); }
static void other_pop(void) { printf("%*spop\n", 2 * --depth, ""); }

/* ---- the bridge ---- */
static const char *bridge_push(void *user, spanprof_hook_call *call) {
    (void)user;
    other_push(call->name);
    return NULL; /* or an error text: the span is kept and carries it as hook_error */
}
static const char *bridge_pop(void *user, spanprof_hook_call *call) {
    (void)user, (void)call;
    other_pop();
    return NULL;
}
static const spanprof_hooks bridge = { NULL, bridge_push, bridge_pop, NULL };
#define BRIDGED_SPAN(name) SPANPROF_SPAN_HOOKED(name, &bridge)
/* ---------------- */

static void decode(void) { BRIDGED_SPAN("decode"); }

static void frame(void) {
    BRIDGED_SPAN("frame");
    decode();
    decode();
}

int main(void) {
    frame();
    frame();
    return 0;
}
