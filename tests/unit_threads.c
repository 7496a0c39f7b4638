/* unit_threads.c - many threads: each under its own name, memory and dump bounded by those that run at a time.
 * SPDX-License-Identifier: MIT */
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include "session.h"

#include <pthread.h>
#include <unistd.h>

/* Pages of this process that are in memory, in KiB; 0 where the system does not say. */
static unsigned long resident_kb(void) {
    unsigned long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file) {
        if (fscanf(file, "%lu %lu", &pages, &resident) != 2) resident = 0;
        fclose(file);
    }
    return resident * (unsigned long)sysconf(_SC_PAGESIZE) / 1024;
}

static void *named(void *number) {
    char name[32];
    int i;
    snprintf(name, sizeof name, "thread %d", *(int *)number);
    SPANPROF_THREAD_NAME(name);
    for (i = 0; i < 3; i++) {
        SPANPROF_SPAN("named");
        SPANPROF_ATTR_I64("number", *(int *)number);
    }
    return NULL;
}

/* Threads one after the other: ids and stacks come back, names and spans stay apart. */
static void one_after_the_other(void) {
    enum { THREADS = 2000 };
    pthread_t thread;
    dr_dump *d;
    int i, wrong = 0;
    size_t k;
    session_open("one_after_the_other.dump");
    for (i = 0; i < THREADS; i++) {
        pthread_create(&thread, NULL, named, &i);
        pthread_join(thread, NULL);
    }
    d = session_close();
    CHECK_U64(3 * THREADS, dr_count(d, "named"));
    if (CHECK_U64(3 * THREADS, d->values_count))
        for (k = 0; k < d->values_count; k++) {
            const dr_span *s = dr_span_at(d, d->values[k].pos);
            char name[32];
            snprintf(name, sizeof name, "thread %d", (int)d->values[k].as.i64);
            wrong += !s || !dr_thread_name(d, s->thread) || strcmp(name, dr_thread_name(d, s->thread));
        }
    CHECK_INT(0, wrong);
    CHECK(d->header.lanes <= 4); /* a lane is used again */
    CHECK(d->size < 8u << 20);
    dr_free(d);
}

static void *short_lived(void *unused) {
    SPANPROF_BLOCK("short lived") { SPANPROF_INSTANT("short lived"); }
    return unused;
}

static void threads(int count) {
    pthread_t thread[8];
    int i, k;
    for (i = 0; i < count; i += 8) {
        for (k = 0; k < 8; k++) pthread_create(&thread[k], NULL, short_lived, NULL);
        for (k = 0; k < 8; k++) pthread_join(thread[k], NULL);
    }
}

static void memory(void) {
    enum { THREADS = 20000 };
    /* Sanitizers keep things of their own for each thread. */
    const unsigned long slack = CHECK_SANITIZED ? 256 << 10 : 0;
    unsigned long before, after;
    dr_dump *d;
    threads(800);
    before = resident_kb();
    threads(THREADS);
    after = resident_kb();
    CHECK_RANGE(0, (double)(before + 512 + slack), (double)after);
    session_open("memory.dump");
    threads(800);
    before = resident_kb();
    threads(THREADS);
    after = resident_kb();
    CHECK_RANGE(0, (double)(before + 4096 + slack), (double)after);
    d = session_close();
    CHECK_U64(THREADS + 800, dr_count(d, "short lived"));
    CHECK(d->header.lanes <= 16);
    CHECK(d->size < 8u << 20);
    dr_free(d);
}

/* Eight threads record; one asks for everything that can be asked for meanwhile. */
static int recording; /* atomic */
static void *record(void *count) {
    uint64_t spans = 0;
    while (__atomic_load_n(&recording, __ATOMIC_RELAXED)) {
        SPANPROF_SPAN("busy");
        SPANPROF_ATTR_U64("spans", spans);
        if (spans % 64 == 0) SPANPROF_COUNTER("busy", (double)spans);
        if (++spans % 4096 == 0) usleep(100); /* lets the others in, where cores are few */
    }
    *(uint64_t *)count = spans;
    return NULL;
}

static void busy(void) {
    enum { THREADS = 8 };
    pthread_t thread[THREADS];
    uint64_t count[THREADS], total = 0, last = 0;
    spanprof_session_stats stats;
    dr_dump *d;
    int i, k;
    session_open("busy.dump");
    __atomic_store_n(&recording, 1, __ATOMIC_RELAXED);
    for (i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, record, &count[i]);
    for (k = 0; k < 30; k++) {
        if (k % 6 == 0) CHECK_INT(SPANPROF_OK, spanprof_flush()); /* waits for the disk */
        CHECK_INT(SPANPROF_OK, spanprof_stats(&stats));
        CHECK(stats.recorded >= last);
        last = stats.recorded;
        SPANPROF_THREAD_NAME("asks");
        usleep(1000);
    }
    __atomic_store_n(&recording, 0, __ATOMIC_RELAXED);
    for (i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        total += count[i];
    }
    d = session_close();
    CHECK_U64(total, dr_count(d, "busy"));
    CHECK_U64(total, d->values_count);
    CHECK_U64(0, dr_dropped(d));
    dr_free(d);
}

/* Figures are asked for while windows are begun anew: values that look like heads of records stand in them. */
static int attributes_go_on; /* atomic */
static void *attributes(void *unused) {
    int64_t i = 0;
    while (__atomic_load_n(&attributes_go_on, __ATOMIC_RELAXED)) {
        SPANPROF_SPAN("request");
        SPANPROF_ATTR_I64("value", (i++ & 7) * 2 + 4);
        SPANPROF_ATTR_I64("value", INT64_C(0x7fff0000) + 2 * (i & 63));
    }
    return unused;
}
static void figures(void) {
    pthread_t thread[3];
    spanprof_session_stats stats;
    spanprof_config config;
    dr_dump *d;
    int i;
    memset(&config, 0, sizeof config);
    config.mode = SPANPROF_MODE_RING;
    config.ring_mb = 1;
    session_open_with(config, "figures.dump");
    __atomic_store_n(&attributes_go_on, 1, __ATOMIC_RELAXED);
    for (i = 0; i < 3; i++) pthread_create(&thread[i], NULL, attributes, NULL);
    for (i = 0; i < 2000; i++) {
        if (!CHECK_INT(SPANPROF_OK, spanprof_stats(&stats)) || !CHECK_RANGE(0, 100, (double)stats.unfinished)) break; /* what ends during the look may count as open */
        if (i % 16 == 0) usleep(200);
    }
    __atomic_store_n(&attributes_go_on, 0, __ATOMIC_RELAXED);
    for (i = 0; i < 3; i++) pthread_join(thread[i], NULL);
    CHECK_INT(SPANPROF_OK, spanprof_stop());
    d = dr_load("figures.dump");
    CHECK_STR("", d->error);
    CHECK(dr_count(d, "request") > 0);
    dr_free(d);
}

/* What such a look may take for heads: no length, and one that reaches beyond the window, whose last word is then not 0. */
static void torn(void) {
    static uint64_t memory[SPANPROF_WINDOW_BYTES / 8 + 8];
    static const uint64_t head[] = { 4, SPANPROF_RECORD(SPANPROF_RECORD_INSTANT, 0, 60000, 1) };
    spanprof_i_lane lane;
    uint64_t *word;
    size_t i;
    memset(&lane, 0, sizeof lane);
    memcpy(&lane.window, &(void *){ memory }, sizeof lane.window);
    word = spanprof_i_first_word(lane.window);
    for (i = 0; i < 2; i++) {
        uint64_t events = 0, open = 0;
        word[0] = SPANPROF_RECORD(SPANPROF_RECORD_INSTANT, 0, 2, 1);
        word[1] = 1;
        word[2] = head[i];
        alarm(20);
        spanprof_i_count_window(&lane, 0, &events, &open);
        alarm(0);
        CHECK_U64(1, events);
    }
}

int main(void) {
    one_after_the_other();
    memory();
    busy();
    figures();
    torn();
    return CHECK_DONE();
}
