/* unit_async.c - operations and arrows from thread to thread, in the dump and in what the tool makes of it.
 * SPDX-License-Identifier: MIT */
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include "child.h"
#include "json.h"
#include "session.h"

#include <pthread.h>
#include <time.h>

enum { OPERATIONS = 5 };

static void pause_ms(long ms) {
    const struct timespec time = { 0, ms * 1000000 };
    nanosleep(&time, NULL);
}

static void *complete(void *unused) {
    int id;
    SPANPROF_THREAD_NAME("completer");
    for (id = 1; id <= OPERATIONS; id++) {
        SPANPROF_SPAN("complete");
        SPANPROF_FLOW_IN(id);
        pause_ms(2);
        SPANPROF_ASYNC_END("operation", id);
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    dr_dump *d;
    json *j;
    char command[512];
    int id;
    session_open("async.dump");
    SPANPROF_THREAD_NAME("submitter");
    for (id = 1; id <= OPERATIONS; id++) {
        SPANPROF_SPAN("submit");
        SPANPROF_ASYNC_BEGIN("operation", id);
        SPANPROF_FLOW_OUT(id);
    }
    SPANPROF_ASYNC_BEGIN("never completed", 99);
    pthread_create(&thread, NULL, complete, NULL);
    pthread_join(thread, NULL);
    d = session_close();
    CHECK_U64(OPERATIONS, dr_marks(d, SPANPROF_RECORD_ASYNC_BEGIN, "operation"));
    CHECK_U64(OPERATIONS, dr_marks(d, SPANPROF_RECORD_ASYNC_END, "operation"));
    for (id = 1; id <= OPERATIONS; id++) {
        const dr_mark *begin = dr_mark_of(d, SPANPROF_RECORD_ASYNC_BEGIN, "operation", (size_t)id - 1), *end = dr_mark_of(d, SPANPROF_RECORD_ASYNC_END, "operation", (size_t)id - 1);
        const dr_mark *out = dr_mark_of(d, SPANPROF_RECORD_FLOW_OUT, NULL, (size_t)id - 1), *in = dr_mark_of(d, SPANPROF_RECORD_FLOW_IN, NULL, (size_t)id - 1);
        if (!CHECK(begin && end && out && in)) break;
        CHECK_U64((uint64_t)id, begin->id);
        CHECK_U64((uint64_t)id, end->id);
        CHECK_RANGE(1.9e6 * id, 60e9, dr_ns(d, begin->ticks, end->ticks));
        CHECK(begin->thread != end->thread);
        CHECK_U64(dr_find(d, "submit", (size_t)id - 1)->pos, out->pos);
        CHECK_U64(dr_find(d, "complete", (size_t)id - 1)->pos, in->pos);
    }
    dr_free(d);
    if (child_tool()) {
        snprintf(command, sizeof command, "%s --no-table -t async.json -s async.summary.json async.dump", child_tool());
        CHECK_INT(0, child_command(command));
        j = json_load("async.json");
        CHECK_STR("", j->error);
        CHECK_STR("6", json_get(j, "traceEvents[ph=b]#"));
        CHECK_STR("5", json_get(j, "traceEvents[ph=s]#"));
        CHECK_STR("5", json_get(j, "traceEvents[ph=f]#"));
        json_free(j);
        /* Operations are rows of their own, with the time from the request to the completion. */
        j = json_load("async.summary.json");
        CHECK_STR("", j->error);
        CHECK_STR("5", json_get(j, "rows[key.name=operation].calls"));
        CHECK_RANGE(1.9e6, 60e9, json_double(j, "rows[key.name=operation].min_ns"));
        CHECK_RANGE(9.5e6, 60e9, json_double(j, "rows[key.name=operation].max_ns"));
        json_free(j);
    } else {
        SKIP("the tool's view: no tool here");
    }
    return CHECK_DONE();
}
