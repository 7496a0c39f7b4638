/* unit_portable.c - what any C99 compiler can do: pairs, blocks, handles, attributes and events, without scope exits.
 * SPDX-License-Identifier: MIT */
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include "session.h"

static unsigned tree(unsigned depth) {
    unsigned spans = 1;
    SPANPROF_BEGIN("tree");
    if (depth) {
        spans += tree(depth - 1);
        SPANPROF_BLOCK("tree.block") spans += 1 + tree(depth - 1);
    }
    SPANPROF_END();
    return spans;
}

int main(void) {
    static spanprof_site site = SPANPROF_I_SITE("handle", NULL);
    spanprof_span span;
    dr_dump *d;
    unsigned spans, i;
    SPANPROF_BEGIN("off");
    SPANPROF_END();
    CHECK_INT(0, spanprof_recording());
    session_open("portable.dump");
    spans = tree(12);
    for (i = 0; i < 20000; i++) {
        SPANPROF_BEGIN_DYN("dynamic");
        span = spanprof_begin(&site);
        SPANPROF_ATTR_U64("i", i);
        spanprof_end(span);
        SPANPROF_END();
    }
    SPANPROF_BEGIN_META("meta", .phase = "p", .step = 0);
    SPANPROF_ATTR_STR("key", "value");
    SPANPROF_ATTR_F64("f", 2.5);
    SPANPROF_COUNTER("counter", 3);
    SPANPROF_INSTANT("instant");
    SPANPROF_ASYNC_BEGIN("async", 1);
    SPANPROF_FLOW_OUT(1);
    SPANPROF_END();
    SPANPROF_ASYNC_END("async", 1);
    SPANPROF_BEGIN("open");
    SPANPROF_THREAD_NAME("main");
    d = session_close();
    CHECK_U64(spans, dr_count(d, "tree") + dr_count(d, "tree.block"));
    CHECK_U64(20000, dr_count(d, "handle"));
    CHECK_U64(20000, dr_count(d, "dynamic"));
    /* What begins and ends in one tick of a coarse clock has no parent that a reader could know. */
    if (dr_find(d, "dynamic", 19999)->end > dr_find(d, "handle", 19999)->start) CHECK_STR("dynamic", dr_name(d, dr_parent(d, dr_find(d, "handle", 19999))));
    CHECK_U64(20000, d->values_count - 2);
    CHECK_STR("p", dr_meta_text(d, dr_find(d, "meta", 0), SPANPROF_META_phase));
    CHECK_INT(0, dr_meta_number(d, dr_find(d, "meta", 0), SPANPROF_META_step));
    CHECK_U64(1, dr_unfinished(d, "open"));
    CHECK_U64(1, dr_unfinished(d, NULL));
    CHECK_U64(5, d->marks_count);
    CHECK_STR("main", dr_thread_name(d, dr_find(d, "open", 0)->thread));
    dr_free(d);
    return CHECK_DONE();
}
