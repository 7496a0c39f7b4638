/* life_thread.c - how threads end: destructors of thread-specific data that record, pthread_exit, cancellation, detached
 * threads, exit while others record. SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include "child.h"
#include "session.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

static pthread_key_t key;
static int rounds_left;

/* Recorded, or counted as lost, up to the last round that the system gives destructors. */
static void destructor(void *value) {
    SPANPROF_BLOCK("destructor") {}
    SPANPROF_BEGIN("destructor pair");
    SPANPROF_END();
    if (__atomic_sub_fetch(&rounds_left, 1, __ATOMIC_RELAXED) > 0) pthread_setspecific(key, value);
}

static void *with_destructor(void *value) {
    SPANPROF_SPAN("thread");
    pthread_setspecific(key, value);
    return NULL;
}

static void destructors(void) {
    enum { THREADS = 100 };
    pthread_t thread;
    dr_dump *d;
    int i;
    uint64_t runs = 0;
    session_open("destructors.dump");
    pthread_key_create(&key, destructor); /* after the recorder's own key: its destructor has run before ours */
    for (i = 0; i < THREADS; i++) {
        __atomic_store_n(&rounds_left, 3, __ATOMIC_RELAXED);
        pthread_create(&thread, NULL, with_destructor, &key);
        pthread_join(thread, NULL);
        runs += (uint64_t)(3 - __atomic_load_n(&rounds_left, __ATOMIC_RELAXED));
    }
    pthread_key_delete(key);
    d = session_close();
    CHECK_U64(THREADS, dr_count(d, "thread"));
    CHECK_U64(3 * THREADS, runs);
    CHECK_U64(2 * runs, dr_count(d, "destructor") + dr_count(d, "destructor pair") + dr_dropped(d));
    CHECK(d->header.lanes <= 4);
    dr_free(d);
}

static void *exits(void *unused) {
    SPANPROF_SPAN("exits");
    SPANPROF_BEGIN("exits pair");
    pthread_exit(unused);
}

static pthread_barrier_t reached;
static void *cancelled(void *unused) {
    SPANPROF_SPAN("cancelled");
    SPANPROF_BEGIN("cancelled pair");
    pthread_barrier_wait(&reached);
    for (;;) pause();
    return unused;
}

static void *plain(void *unused) {
    SPANPROF_SPAN("plain");
    return unused;
}

/* Whether unwinding runs the scopes' ends is the platform's choice; in either case nothing is left for the next thread. */
static void leavers(void) {
    enum { ROUNDS = 100 };
    pthread_t thread;
    dr_dump *d;
    size_t i, wrong = 0;
    int k;
    session_open("leavers.dump");
    pthread_barrier_init(&reached, NULL, 2);
    for (k = 0; k < ROUNDS; k++) {
        pthread_create(&thread, NULL, exits, NULL);
        pthread_join(thread, NULL);
        pthread_create(&thread, NULL, cancelled, NULL);
        pthread_barrier_wait(&reached);
        pthread_cancel(thread);
        pthread_join(thread, NULL);
        pthread_create(&thread, NULL, plain, NULL);
        pthread_join(thread, NULL);
    }
    pthread_barrier_destroy(&reached);
    d = session_close();
    CHECK_U64(ROUNDS, dr_count(d, "plain"));
    CHECK_U64(ROUNDS, dr_count(d, "exits") + dr_unfinished(d, "exits"));
    CHECK_U64(ROUNDS, dr_count(d, "exits pair") + dr_unfinished(d, "exits pair"));
    CHECK_U64(ROUNDS, dr_count(d, "cancelled") + dr_unfinished(d, "cancelled"));
    CHECK_U64(ROUNDS, dr_count(d, "cancelled pair") + dr_unfinished(d, "cancelled pair"));
    CHECK_U64(5 * ROUNDS, dr_events(d));
    CHECK_U64(0, dr_dropped(d));
    for (i = 0; i < d->spans_count; i++)
        if (!strcmp(dr_name(d, &d->spans[i]), "plain") && dr_parent(d, &d->spans[i])) wrong++;
    CHECK_U64(0, wrong);
    dr_free(d);
}

static int running; /* atomic */

/* The process ends while detached threads record: no crash, and the dump is whole. */
static void *forever(void *unused) {
    for (;;) {
        {
            SPANPROF_SPAN("forever");
            SPANPROF_BLOCK("inner") {}
        }
        __atomic_store_n(&running, 1, __ATOMIC_RELAXED);
    }
    return unused;
}

static int exit_under_load(void) {
    const struct timespec wait = { 0, 20000000 };
    pthread_t thread;
    int i;
    for (i = 0; i < 4; i++) {
        pthread_create(&thread, NULL, forever, NULL);
        pthread_detach(thread);
    }
    do nanosleep(&wait, NULL);
    while (!__atomic_load_n(&running, __ATOMIC_RELAXED)); /* even one of them, where cores are few */
    return 5;
}

static void at_exit(void) {
    int i;
    for (i = 0; i < 15; i++) {
        dr_dump *d;
        CHECK_INT(5, child_run("SPANPROF=1 SPANPROF_OUT=load.dump TSAN_OPTIONS=report_thread_leaks=0:atexit_sleep_ms=50", "program"));
        CHECK_STR("", child_err);
        d = dr_load("load.dump");
        CHECK_STR("", d->error);
        CHECK(dr_count(d, "forever") > 0);
        CHECK(dr_unfinished(d, NULL) <= 8);
        CHECK_INT(SPANPROF_DUMP_EXITED, d->header.state);
        dr_free(d);
    }
}

int main(int argc, char **argv) {
    child_self = argv[0];
    if (argc > 1) return exit_under_load();
    destructors();
    leavers();
    at_exit();
    return CHECK_DONE();
}
