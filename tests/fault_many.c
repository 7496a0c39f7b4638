/* fault_many.c - many threads: 1,000 at once, then 20,000 (or the first argument) one after another, each with a name of its own.
 * Every span is found under its own thread's name, and neither memory nor dump grows with the threads that are gone, but for
 * their names. SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include "session.h"

#include <pthread.h>
#include <unistd.h>

enum { AT_ONCE = 1000, SPANS = 20 };

static pthread_barrier_t all_run;

static long resident_kib(void) {
    long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%ld %ld", &size, &resident) != 2) resident = 0;
    if (file) fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static void record(long number, int spans) {
    char name[16];
    int i;
    snprintf(name, sizeof name, "%ld", number);
    SPANPROF_THREAD_NAME(name);
    for (i = 0; i < spans; i++) {
        SPANPROF_BEGIN("work");
        SPANPROF_ATTR_I64("thread", number);
        SPANPROF_END();
    }
}
static void *one_of_many(void *number) {
    pthread_barrier_wait(&all_run);
    record((long)(intptr_t)number, SPANS);
    pthread_barrier_wait(&all_run);
    return NULL;
}
static void *alone(void *number) {
    record((long)(intptr_t)number, 1);
    return NULL;
}

/* Every span carries its thread's name as an attribute; spans_each of each thread. */
static void check_names(const dr_dump *d, size_t threads, uint64_t spans_each) {
    long *name_of = (long *)calloc(threads + 2, sizeof *name_of);
    uint64_t *count = (uint64_t *)calloc(threads + 2, sizeof *count), wrong = 0;
    size_t i;
    if (!CHECK(name_of && count)) return;
    for (i = 0; i < d->threads_count; i++)
        if (d->threads[i].id < threads + 2 && d->threads[i].name[0]) name_of[d->threads[i].id] = atol(d->threads[i].name);
    for (i = 0; i < d->values_count; i++) {
        const dr_span *s = dr_span_at(d, d->values[i].pos);
        if (!s || !(s->flags & DR_FINISHED) || s->thread >= threads + 2 || d->values[i].as.i64 != name_of[s->thread]) wrong++;
        else count[s->thread]++;
    }
    CHECK_U64(0, wrong);
    CHECK_U64(threads * spans_each, d->values_count);
    for (i = 0, wrong = 0; i < threads + 2; i++) wrong += name_of[i] != 0 && count[i] != spans_each;
    CHECK_U64(0, wrong);
    free(name_of);
    free(count);
}

static void at_once(void) {
    static pthread_t threads[AT_ONCE];
    spanprof_session_stats stats;
    dr_dump *d;
    pthread_attr_t small;
    long i, made = 0;
    session_open("once.dump");
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 * 1024);
    pthread_barrier_init(&all_run, NULL, AT_ONCE);
    for (i = 0; i < AT_ONCE; i++) made += pthread_create(&threads[i], &small, one_of_many, (void *)(intptr_t)(i + 1)) == 0;
    if (made < AT_ONCE) { /* the barrier never opens */
        printf("fault_many: only %ld of %d threads could be made\n", made, AT_ONCE);
        exit(1);
    }
    for (i = 0; i < AT_ONCE; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&all_run);
    CHECK_INT(SPANPROF_OK, spanprof_stats(&stats));
    CHECK_U64(AT_ONCE, stats.threads);
    CHECK(stats.bytes <= (AT_ONCE + 4) * (uint64_t)SPANPROF_WINDOW_BYTES);
    d = session_close();
    CHECK_U64((uint64_t)AT_ONCE * SPANS, dr_count(d, "work"));
    check_names(d, AT_ONCE, SPANS);
    dr_free(d);
}

static void one_after_another(long count) {
    pthread_t thread;
    spanprof_session_stats early, late;
    dr_dump *d;
    long i, before = 0, after;
    session_open("after.dump");
    memset(&early, 0, sizeof early);
    for (i = 0; i < count; i++) {
        if (i == 1000) {
            before = resident_kib();
            spanprof_stats(&early);
        }
        if (!CHECK(pthread_create(&thread, NULL, alone, (void *)(intptr_t)(i + 1)) == 0)) break;
        pthread_join(thread, NULL);
    }
    after = resident_kib();
    spanprof_stats(&late);
    printf("%ld threads one after another: %ld KiB resident after 1,000, %ld at the end; %" PRIu64 " and %" PRIu64 " bytes of dump\n", count, before, after, early.bytes, late.bytes);
    CHECK_U64((uint64_t)count, late.threads);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they keep what was freed */
    CHECK(after - before < 2048);
#endif
    /* A thread costs its name in the text lane, its mark, span and attribute in the lane. */
    CHECK(late.bytes - early.bytes <= (uint64_t)count * 112 + 2 * SPANPROF_WINDOW_BYTES);
    d = session_close();
    CHECK_U64(2, d->lane_count);
    check_names(d, (size_t)count, 1);
    dr_free(d);
}

int main(int argc, char **argv) {
    at_once();
    one_after_another(argc > 1 ? atol(argv[1]) : 20000);
    return CHECK_DONE();
}
