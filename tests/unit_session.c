/* unit_session.c - sessions: status codes, several in a process, limits, pause and resume, stats, start and stop while others
 * record. SPDX-License-Identifier: MIT */
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include "session.h"

#include <pthread.h>
#include <time.h>

static spanprof_site site = SPANPROF_I_SITE("handle", NULL);

static void states(void) {
    spanprof_session_stats stats;
    int i;
    CHECK_INT(SPANPROF_ERR_STATE, spanprof_stop());
    CHECK_INT(SPANPROF_ERR_STATE, spanprof_pause());
    CHECK_INT(SPANPROF_ERR_STATE, spanprof_resume());
    CHECK_INT(SPANPROF_ERR_STATE, spanprof_flush());
    CHECK_INT(SPANPROF_ERR_STATE, spanprof_stats(&stats));
    CHECK_INT(SPANPROF_ERR_ARGUMENT, spanprof_stats(NULL));
    CHECK_INT(0, spanprof_recording());
    session_open("states.dump");
    CHECK_INT(SPANPROF_ERR_STATE, spanprof_start(NULL));
    CHECK_INT(SPANPROF_OK, spanprof_flush());
    CHECK_INT(SPANPROF_OK, spanprof_pause());
    CHECK_INT(0, spanprof_recording());
    CHECK_INT(SPANPROF_OK, spanprof_pause());
    CHECK_INT(SPANPROF_OK, spanprof_resume());
    CHECK_INT(SPANPROF_OK, spanprof_resume());
    CHECK_INT(1, spanprof_recording());
    dr_free(session_close());
    CHECK_INT(SPANPROF_ERR_STATE, spanprof_stop());
    for (i = -1; i < SPANPROF_I_STATUS_END + 2; i++) CHECK(spanprof_status_text((spanprof_status)i) != NULL);
    CHECK_STR("ok", spanprof_status_text(SPANPROF_OK));
    CHECK_STR("invalid argument", spanprof_status_text(SPANPROF_ERR_ARGUMENT));
}

static void spans(unsigned count) {
    while (count--) SPANPROF_BLOCK("span") {}
}

static void limits(void) {
    spanprof_config config;
    spanprof_session_stats stats;
    dr_dump *d;
    memset(&config, 0, sizeof config);
    config.max_events = 1000;
    session_open_with(config, "limit.dump");
    spans(10000);
    CHECK_INT(SPANPROF_OK, spanprof_stats(&stats));
    CHECK_U64(1000, stats.recorded);
    CHECK_U64(9000, stats.dropped);
    d = session_close();
    CHECK_U64(1000, dr_count(d, "span"));
    CHECK_U64(9000, dr_dropped(d));
    CHECK_U64(1000, d->header.max_events);
    dr_free(d);
    session_open("after_limit.dump"); /* the limit was the other session's */
    spans(10000);
    d = session_close();
    CHECK_U64(10000, dr_count(d, "span"));
    CHECK_U64(0, dr_dropped(d));
    dr_free(d);
    /* Every kind of event counts, attributes do not. */
    config.max_events = 6;
    session_open_with(config, "limit_kinds.dump");
    SPANPROF_BEGIN("pair");
    SPANPROF_ATTR_I64("a", 1);
    SPANPROF_INSTANT("i");
    SPANPROF_COUNTER("c", 1);
    SPANPROF_ASYNC_BEGIN("x", 1);
    SPANPROF_ASYNC_END("x", 1);
    SPANPROF_FLOW_OUT(1);
    SPANPROF_ATTR_I64("b", 1);
    SPANPROF_FLOW_IN(1);
    SPANPROF_INSTANT("i");
    SPANPROF_BEGIN("dropped");
    SPANPROF_END();
    SPANPROF_END();
    d = session_close();
    CHECK_U64(6, dr_events(d));
    CHECK_U64(3, dr_dropped(d));
    CHECK_U64(1, dr_count(d, "pair"));
    CHECK(dr_attr(d, dr_find(d, "pair", 0)->pos, "b") != NULL);
    dr_free(d);
    memset(&config, 0, sizeof config);
    config.max_mb = 1;
    session_open_with(config, "limit_mb.dump");
    spans(500000);
    CHECK_INT(SPANPROF_OK, spanprof_stats(&stats));
    CHECK_U64(500000, stats.recorded + stats.dropped);
    d = session_close();
    CHECK(d->size <= 1u << 20);
    CHECK(dr_count(d, "span") > 80000);
    CHECK_U64(500000, dr_count(d, "span") + dr_dropped(d));
    dr_free(d);
}

static void *limited_thread(void *unused) {
    spans(20000);
    return unused;
}

static void limits_of_threads(void) {
    spanprof_config config;
    pthread_t thread[4];
    dr_dump *d;
    int i;
    memset(&config, 0, sizeof config);
    config.max_events = 50000;
    session_open_with(config, "limit_threads.dump");
    for (i = 0; i < 4; i++) pthread_create(&thread[i], NULL, limited_thread, NULL);
    for (i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    d = session_close();
    CHECK_U64(50000, dr_count(d, "span"));
    CHECK_U64(30000, dr_dropped(d));
    dr_free(d);
}

static void paused(void) {
    spanprof_span span;
    dr_dump *d;
    session_open("paused.dump");
    {
        SPANPROF_SPAN("across");
        SPANPROF_BEGIN("across pair");
        span = spanprof_begin(&site);
        spanprof_pause();
        SPANPROF_BLOCK("not recorded") { SPANPROF_INSTANT("not recorded"); }
        SPANPROF_BEGIN("not recorded");
        SPANPROF_END();
        spanprof_end(span); /* began before the pause, so it ends */
        SPANPROF_END();
        SPANPROF_BEGIN("begun in the pause");
        spanprof_resume();
        SPANPROF_BLOCK("recorded") {}
        SPANPROF_END(); /* of the pair that was not recorded */
        SPANPROF_BEGIN("recorded pair");
        SPANPROF_END();
    }
    d = session_close();
    CHECK_U64(1, dr_count(d, "across"));
    CHECK_U64(1, dr_count(d, "across pair"));
    CHECK_U64(1, dr_count(d, "handle"));
    CHECK_U64(1, dr_count(d, "recorded"));
    CHECK_U64(1, dr_count(d, "recorded pair"));
    CHECK_U64(5, dr_events(d));
    CHECK_U64(0, d->header.orphan_ends);
    CHECK_U64(0, dr_dropped(d));
    CHECK(dr_find(d, "across pair", 0)->end < dr_find(d, "recorded", 0)->start);
    dr_free(d);
}

static void across_sessions(void) {
    spanprof_span span;
    dr_dump *d;
    session_open("one.dump");
    {
        SPANPROF_SPAN("scope");
        SPANPROF_BEGIN("pair");
        span = spanprof_begin(&site);
        d = session_close();
        CHECK_U64(3, dr_unfinished(d, NULL));
        dr_free(d);
        session_open("two.dump");
        {
            SPANPROF_SPAN("second");
        }
        spanprof_end(span);
        SPANPROF_END();
    }
    d = session_close();
    CHECK_U64(1, dr_count(d, NULL));
    CHECK_STR("", dr_name(d, dr_parent(d, dr_find(d, "second", 0))));
    dr_free(d);
}

static void stats(void) {
    spanprof_session_stats stats;
    dr_dump *d;
    session_open("stats.dump");
    CHECK_INT(SPANPROF_OK, spanprof_stats(&stats));
    CHECK_U64(0, stats.recorded);
    CHECK_U64(0, stats.threads);
    CHECK_INT(1, stats.recording);
    CHECK_STR("stats.dump", stats.path);
    SPANPROF_BEGIN("a");
    SPANPROF_INSTANT("i");
    CHECK_INT(SPANPROF_OK, spanprof_stats(&stats));
    CHECK_U64(2, stats.recorded);
    CHECK_U64(1, stats.unfinished);
    CHECK_U64(1, stats.threads);
    CHECK(stats.bytes > 0);
    SPANPROF_END();
    spans(100000);
    CHECK_INT(SPANPROF_OK, spanprof_stats(&stats));
    CHECK_U64(100002, stats.recorded);
    CHECK_U64(0, stats.unfinished);
    CHECK(stats.bytes > 800000);
    CHECK_RANGE(8, 10, (double)stats.bytes / 100002.0);
    d = session_close();
    CHECK_U64(100002, dr_events(d));
    dr_free(d);
}

static int recording; /* atomic */
static void *record(void *done) {
    const struct timespec breath = { 0, 100000 };
    uint64_t spans = 0;
    while (__atomic_load_n(&recording, __ATOMIC_RELAXED)) {
        SPANPROF_SPAN("outer");
        SPANPROF_BEGIN("pair");
        SPANPROF_ATTR_I64("n", (int64_t)spans);
        SPANPROF_END();
        if (++spans % 512 == 0) nanosleep(&breath, NULL); /* lets the others in, where cores are few */
    }
    *(uint64_t *)done = spans;
    return NULL;
}

/* Sessions open, pause and close under threads that go on recording. */
static void under_load(void) {
    enum { THREADS = 4, ROUNDS = 12 };
    pthread_t thread[THREADS];
    uint64_t done[THREADS], total = 0;
    int i, round;
    __atomic_store_n(&recording, 1, __ATOMIC_RELAXED);
    for (i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, record, &done[i]);
    for (round = 0; round < ROUNDS; round++) {
        spanprof_session_stats stats;
        dr_dump *d;
        int turn;
        session_open("load.dump");
        for (turn = 0; turn < 20 || (!stats.recorded && turn < 100000); turn++) { /* all may be asleep for the first 20 */
            if (turn == round) spanprof_flush();
            spanprof_pause();
            spanprof_stats(&stats);
            spanprof_resume();
            if (turn >= 20) sched_yield();
        }
        CHECK_INT(SPANPROF_OK, spanprof_stop());
        CHECK_INT(SPANPROF_OK, spanprof_stats(&stats));
        d = dr_load(stats.path);
        CHECK_STR("", d->error);
        /* The span that a thread was in the middle of may be in one of them alone. */
        CHECK_RANGE((double)stats.recorded - THREADS, (double)stats.recorded + THREADS, (double)dr_events(d));
        CHECK(stats.unfinished <= 3 * THREADS);
        CHECK(dr_unfinished(d, NULL) <= 3 * THREADS);
        CHECK_U64(0, d->stray_ends);
        total += dr_events(d);
        dr_free(d);
    }
    __atomic_store_n(&recording, 0, __ATOMIC_RELAXED);
    for (i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    CHECK(total > 0);
}

/* With 1,024 and more: more sessions than a position has numbers for. */
static void many_sessions(int count) {
    spanprof_span first, span;
    int i, good = 0;
    session_open("many.dump");
    first = spanprof_begin(&site);
    spanprof_end(first);
    dr_free(session_close());
    for (i = 0; i < count; i++) {
        spanprof_config config;
        memset(&config, 0, sizeof config);
        config.path = "many.dump";
        if (spanprof_start(&config)) break;
        SPANPROF_BLOCK("one") {}
        good += spanprof_stop() == SPANPROF_OK;
    }
    CHECK_INT(count, good);
    session_open("many_last.dump");
    span = spanprof_begin(&site);
    spanprof_end(span);
    dr_free(session_close());
}

int main(int argc, char **argv) {
    states();
    limits();
    limits_of_threads();
    paused();
    across_sessions();
    stats();
    under_load();
    many_sessions(argc > 1 ? atoi(argv[1]) : 40);
    return CHECK_DONE();
}
