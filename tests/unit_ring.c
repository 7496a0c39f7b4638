/* unit_ring.c - ring mode: the last events of every thread, snapshots while recording goes on. SPDX-License-Identifier: MIT */
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include "session.h"

#include <pthread.h>

static void open_ring(const char *path) {
    spanprof_config config;
    memset(&config, 0, sizeof config);
    config.mode = SPANPROF_MODE_RING;
    config.ring_mb = 1;
    session_open_with(config, path);
}

static dr_dump *load(const char *path) {
    dr_dump *d = dr_load(path);
    CHECK_STR("", d->error);
    CHECK(d->header.flags & SPANPROF_DUMP_RING);
    return d;
}

/* The kept events are the last ones, without a hole. */
static void check_tail(const dr_dump *d, const char *name, int64_t last, uint64_t at_least) {
    size_t i, k = 0;
    int64_t expected = -1;
    uint64_t kept = 0, wrong = 0;
    for (i = 0; i < d->spans_count; i++) {
        const dr_span *s = &d->spans[i];
        if (strcmp(dr_name(d, s), name)) continue;
        while (k < d->values_count && d->values[k].pos < s->pos) k++;
        if (k == d->values_count || d->values[k].pos != s->pos) {
            wrong++;
            continue;
        }
        if (expected >= 0) wrong += d->values[k].as.i64 != expected;
        expected = d->values[k].as.i64 + 1;
        kept++;
    }
    CHECK_U64(0, wrong);
    CHECK_INT(last + 1, expected);
    CHECK(kept >= at_least);
}

static void numbered(int64_t from, int64_t to) {
    int64_t i;
    for (i = from; i < to; i++)
        SPANPROF_BLOCK("numbered") { SPANPROF_ATTR_I64("i", i); }
}

static void wraps(void) {
    spanprof_session_stats stats;
    dr_dump *d;
    open_ring("wraps.dump");
    SPANPROF_BLOCK("overwritten") {}
    SPANPROF_BEGIN("open from the start");
    numbered(0, 200000);
    SPANPROF_END();
    SPANPROF_BEGIN("open at the end");
    CHECK_INT(SPANPROF_OK, spanprof_stop());
    CHECK_INT(SPANPROF_OK, spanprof_stats(&stats));
    d = load("wraps.dump");
    check_tail(d, "numbered", 199999, 20000); /* 32 bytes each */
    CHECK(d->size < 3u << 20);
    CHECK_U64(d->size, stats.bytes);
    CHECK_U64(0, dr_count(d, "overwritten") + dr_unfinished(d, "overwritten"));
    CHECK_U64(1, dr_unfinished(d, "open at the end"));
    dr_free(d);
    /* A short run loses nothing. */
    open_ring("short.dump");
    numbered(0, 100);
    d = session_close();
    CHECK_U64(100, dr_count(d, "numbered"));
    dr_free(d);
}

static void snapshots(void) {
    spanprof_session_stats stats;
    dr_dump *d;
    open_ring("snap.dump");
    numbered(0, 100);
    CHECK_INT(SPANPROF_OK, spanprof_flush());
    numbered(100, 150000);
    CHECK_INT(SPANPROF_OK, spanprof_flush());
    numbered(150000, 150010);
    CHECK_INT(SPANPROF_OK, spanprof_stats(&stats));
    CHECK_U64(2, stats.snapshots);
    CHECK_INT(1, stats.recording);
    CHECK_INT(SPANPROF_OK, spanprof_stop());
    d = load("snap.dump.1");
    CHECK(d->header.flags & SPANPROF_DUMP_SNAPSHOT);
    CHECK_U64(100, dr_count(d, NULL));
    check_tail(d, "numbered", 99, 100);
    dr_free(d);
    d = load("snap.dump.2");
    check_tail(d, "numbered", 149999, 20000);
    dr_free(d);
    d = load("snap.dump");
    check_tail(d, "numbered", 150009, 20000);
    dr_free(d);
}

static int recording; /* atomic */
static void *record(void *number) {
    int64_t i;
    SPANPROF_THREAD_NAME((const char *)number);
    for (i = 0; __atomic_load_n(&recording, __ATOMIC_RELAXED); i++) {
        SPANPROF_SPAN("outer");
        SPANPROF_BLOCK("numbered") { SPANPROF_ATTR_I64("i", i); }
    }
    return NULL;
}

/* Snapshots under load are whole: each thread's events hang together. */
static void under_load(void) {
    static char names[4][16] = { "zero", "one", "two", "three" };
    pthread_t thread[4];
    int i, k;
    open_ring("load.dump");
    __atomic_store_n(&recording, 1, __ATOMIC_RELAXED);
    for (i = 0; i < 4; i++) pthread_create(&thread[i], NULL, record, names[i]);
    numbered(0, 50000);
    for (k = 1; k <= 5; k++) {
        char path[32];
        dr_dump *d;
        size_t at, wrong = 0, overwritten = 0;
        int64_t next[16] = { 0 };
        numbered(0, 20000);
        CHECK_INT(SPANPROF_OK, spanprof_flush());
        snprintf(path, sizeof path, "load.dump.%d", k);
        d = load(path);
        for (at = 0; at < d->values_count; at++) {
            const dr_span *s = dr_span_at(d, d->values[at].pos);
            const uint32_t thread_number = s ? s->thread : 0;
            const char *name = s ? dr_thread_name(d, s->thread) : NULL;
            if (!s) overwritten++; /* the span's own record was the last of what went */
            else if (thread_number >= 16) wrong++;
            else if (name && *name && strcmp(name, "main")) { /* the workers: each number follows on the one before */
                wrong += next[thread_number] && d->values[at].as.i64 != next[thread_number];
                next[thread_number] = d->values[at].as.i64 + 1;
            }
        }
        CHECK_U64(0, wrong);
        CHECK(overwritten <= 5);
        dr_free(d);
    }
    __atomic_store_n(&recording, 0, __ATOMIC_RELAXED);
    for (i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    CHECK_INT(SPANPROF_OK, spanprof_stop());
}

int main(void) {
    wraps();
    snapshots();
    under_load();
    return CHECK_DONE();
}
