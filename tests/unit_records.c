/* unit_records.c - every form that a record can take: short spans, long pauses and long spans, spans that outlast their
 * window, records at the end of a block, and how many bytes a span costs. SPDX-License-Identifier: MIT */
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include "session.h"

#include <time.h>

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}
static void pause_ms(long ms) {
    const struct timespec time = { ms / 1000, ms % 1000 * 1000000 };
    nanosleep(&time, NULL);
}

/* A flat run of short spans: all there, in order, at the promised size. */
static void flat(void) {
    enum { SPANS = 1000000 };
    spanprof_session_stats stats;
    uint64_t before, after;
    size_t i, wrong = 0;
    double sum = 0;
    dr_dump *d;
    session_open("flat.dump");
    before = now_ns();
    for (i = 0; i < SPANS; i++) SPANPROF_BLOCK("flat") {}
    after = now_ns();
    d = session_close();
    spanprof_stats(&stats);
    CHECK_U64(SPANS, dr_count(d, "flat"));
    CHECK_RANGE(8, SPANPROF_WINDOW_BYTES > 65536 ? 12 : 9, (double)stats.bytes / SPANS);
    for (i = 0; i < d->spans_count; i++) {
        sum += dr_ns(d, d->spans[i].start, d->spans[i].end);
        wrong += i && d->spans[i].start < d->spans[i - 1].end;
    }
    CHECK_U64(0, wrong);
    CHECK_RANGE(0, (double)(after - before), sum);
    dr_free(d);
}

/* Pauses and lengths around the limits of a short span. */
static void lengths(void) {
    static const long ms[] = { 0, 1, 2, 3, 4, 5, 10, 20, 40, 50, 60, 100, 200 };
    enum { COUNT = sizeof ms / sizeof *ms };
    uint64_t measured[COUNT];
    dr_dump *d;
    size_t i;
    session_open("lengths.dump");
    for (i = 0; i < COUNT; i++) {
        uint64_t from;
        pause_ms(ms[i]);
        from = now_ns();
        SPANPROF_BLOCK("long") {
            SPANPROF_BLOCK("child") {}
            pause_ms(ms[i]);
        }
        measured[i] = now_ns() - from;
    }
    d = session_close();
    CHECK_U64(2 * COUNT, dr_count(d, NULL));
    for (i = 0; i < COUNT; i++) {
        const dr_span *s = dr_find(d, "long", i);
        const double ns = dr_ns(d, s->start, s->end);
        CHECK_RANGE((double)ms[i] * 1e6 * 0.999, (double)measured[i] * 1.001 + 1000, ns);
        if (i) CHECK_RANGE((double)ms[i] * 1e6 * 0.999, 60e9, dr_ns(d, dr_find(d, "long", i - 1)->end, s->start));
        CHECK_STR("long", dr_name(d, dr_parent(d, dr_find(d, "child", i))));
    }
    dr_free(d);
}

/* Parents that are open while windows fill up: their ends are in later blocks. */
static unsigned outlast(unsigned depth) {
    unsigned spans = 1, i;
    SPANPROF_SPAN("parent");
    SPANPROF_ATTR_I64("depth", depth);
    if (depth) spans += outlast(depth - 1);
    for (i = 0; i < 9000; i++, spans++) SPANPROF_BLOCK("child") {}
    SPANPROF_ATTR_I64("late", depth);
    return spans;
}

static void windows(void) {
    dr_dump *d;
    unsigned spans, i;
    size_t k, outside = 0;
    session_open("windows.dump");
    spans = outlast(9);
    d = session_close();
    CHECK_U64(spans, dr_count(d, NULL));
    for (i = 0; i < 10; i++) {
        const dr_span *s = dr_find(d, "parent", i);
        const dr_value *early = dr_attr(d, s->pos, "depth"), *late = dr_attr(d, s->pos, "late");
        CHECK_INT(i, dr_depth(d, s));
        if (CHECK(early && late)) CHECK(early->as.i64 == 9 - (int64_t)i && late->as.i64 == 9 - (int64_t)i);
    }
    for (k = 0; k < d->spans_count; k++) {
        const dr_span *parent = dr_parent(d, &d->spans[k]);
        outside += parent && d->spans[k].end > parent->end;
    }
    CHECK_U64(0, outside);
    CHECK(d->lane_count >= 2 && d->lanes[1].count > 10 * 65536 / SPANPROF_WINDOW_BYTES);
    dr_free(d);
}

/* Records of every length, at every distance from the end of a window. */
static void borders(void) {
    enum { ROUNDS = 3000 };
    static char text[700];
    dr_dump *d;
    unsigned i, wrong = 0;
    session_open("borders.dump");
    for (i = 0; i < ROUNDS; i++) {
        memset(text, 'x', sizeof text - 1);
        text[i * 7 % 699] = 0;
        SPANPROF_BEGIN("short");
        SPANPROF_ATTR_STR("text", text);
        SPANPROF_BEGIN_META("meta", .step = (int64_t)i, .module = text);
        SPANPROF_INSTANT("instant");
        SPANPROF_END();
        SPANPROF_COUNTER("counter", i);
        SPANPROF_END();
        SPANPROF_BEGIN_DYN(text);
        SPANPROF_END();
    }
    d = session_close();
    CHECK_U64(ROUNDS, dr_count(d, "short"));
    CHECK_U64(ROUNDS, dr_count(d, "meta"));
    CHECK_U64(3 * ROUNDS, dr_count(d, NULL));
    CHECK_U64(ROUNDS, dr_marks(d, SPANPROF_RECORD_INSTANT, "instant"));
    CHECK_U64(ROUNDS, dr_marks(d, SPANPROF_RECORD_COUNTER, "counter"));
    if (CHECK_U64(3 * ROUNDS, d->spans_count) && CHECK_U64(ROUNDS, d->values_count) && CHECK_U64(ROUNDS, d->metas_count))
        for (i = 0; i < ROUNDS; i++) {
            const dr_span *s = &d->spans[3 * i], *meta = s + 1, *dynamic = s + 2;
            memset(text, 'x', sizeof text - 1);
            text[i * 7 % 699] = 0;
            wrong += d->values[i].pos != s->pos || strcmp(text, d->values[i].text) || d->metas[i].pos != meta->pos ||
                     d->metas[i].number[SPANPROF_META_step] != (int64_t)i || strcmp(text, d->metas[i].text[SPANPROF_META_module]) ||
                     strcmp(text, dr_name(d, dynamic)) || (dr_parent(d, meta) != s && meta->start < s->end) || dr_parent(d, dynamic); /* where a tick is long, all of it may be one */
        }
    CHECK_INT(0, wrong);
    dr_free(d);
}

int main(void) {
    flat();
    lengths();
    windows();
    borders();
    return CHECK_DONE();
}
