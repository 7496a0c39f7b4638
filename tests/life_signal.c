/* life_signal.c - signal handlers that record, on the thread's own stack and on another: what a handler records in the middle
 * of another record is counted, nothing else is disturbed. SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include "session.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t handled;

static void handler(int number) {
    (void)number;
    handled++;
    {
        SPANPROF_SPAN("handler");
    }
    SPANPROF_INSTANT("in a handler");
}

static void install(int flags) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
}

static void timer(long microseconds) {
    struct itimerval every;
    every.it_interval.tv_sec = every.it_value.tv_sec = 0;
    every.it_interval.tv_usec = every.it_value.tv_usec = microseconds;
    setitimer(ITIMER_REAL, &every, NULL);
}

__attribute__((noinline)) static uint64_t recurse(int depth) {
    uint64_t spans = 3;
    int i;
    SPANPROF_SPAN("scope");
    SPANPROF_BEGIN("pair");
    SPANPROF_ATTR_I64("depth", depth);
    SPANPROF_BEGIN_DYN("dynamic");
    if (depth)
        for (i = 0; i < 2; i++) spans += recurse(depth - 1);
    SPANPROF_END();
    SPANPROF_END();
    return spans;
}

static uint64_t busy(double seconds) {
    struct timespec from, now;
    uint64_t spans = 0;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do {
        spans += recurse(10);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((double)(now.tv_sec - from.tv_sec) + (double)(now.tv_nsec - from.tv_nsec) * 1e-9 < seconds);
    return spans;
}

static void check(uint64_t spans) {
    dr_dump *d = session_close();
    size_t i;
    uint64_t outside = 0;
    CHECK_U64(spans, dr_count(d, "scope") + dr_count(d, "pair") + dr_count(d, "dynamic"));
    CHECK(handled > 0);
    CHECK_U64(2 * (uint64_t)handled, dr_count(d, "handler") + dr_marks(d, SPANPROF_RECORD_INSTANT, "in a handler") + dr_dropped(d));
    CHECK_U64(0, dr_unfinished(d, NULL));
    CHECK_U64(0, d->header.orphan_ends);
    for (i = 0; i < d->spans_count; i++) {
        const dr_span *s = &d->spans[i], *parent = dr_parent(d, s);
        outside += (parent && s->end > parent->end) || (s->flags & DR_ABANDONED);
    }
    CHECK_U64(0, outside);
    printf("%d signals, %" PRIu64 " handler spans recorded, %" PRIu64 " events dropped\n", (int)handled, dr_count(d, "handler"), dr_dropped(d));
    dr_free(d);
}

static void own_stack(void) {
    uint64_t spans;
    install(SA_RESTART);
    handled = 0;
    session_open("own_stack.dump");
    timer(150);
    spans = busy(0.7);
    timer(0);
    check(spans);
}

/* The other stack lies above the thread's, then below it. */
static unsigned char *region;
enum { STACK = 1 << 20 };

static void *on_another_stack(void *above) {
    uint64_t *spans = (uint64_t *)above;
    stack_t other;
    memset(&other, 0, sizeof other);
    other.ss_sp = *spans ? region + 2 * STACK : region;
    other.ss_size = STACK;
    sigaltstack(&other, NULL);
    *spans = 0;
    {
        sigset_t alarm;
        sigemptyset(&alarm);
        sigaddset(&alarm, SIGALRM);
        pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    }
    timer(150);
    *spans = busy(0.4);
    timer(0);
    other.ss_flags = SS_DISABLE;
    sigaltstack(&other, NULL);
    return NULL;
}

static void another_stack(uint64_t above) {
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t alarm;
    char path[32];
    uint64_t spans = above;
    install(SA_RESTART | SA_ONSTACK);
    handled = 0;
    snprintf(path, sizeof path, "stack_%s.dump", above ? "above" : "below");
    session_open(path);
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL); /* the signals are the other thread's */
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, region + STACK, STACK);
    if (CHECK_INT(0, pthread_create(&thread, &attributes, on_another_stack, &spans))) pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    check(spans);
}

/* A handler as the first to record on its thread, and errno after it. */
static void first(void) {
    dr_dump *d;
    install(0);
    handled = 0;
    session_open("first.dump");
    errno = 99;
    raise(SIGUSR1);
    CHECK_INT(99, errno);
    d = session_close();
    CHECK_U64(2, dr_events(d));
    dr_free(d);
}

/* A handler that jumps out of whatever it interrupts, records included: it costs an event at most, not the thread. */
static sigjmp_buf back;
static volatile sig_atomic_t armed;
static void jumper(int number) {
    (void)number;
    if (!armed) return;
    armed = 0;
    siglongjmp(back, 1);
}
__attribute__((noinline)) static void endless(void) {
    for (;;) {
        SPANPROF_SPAN("inner");
    }
}
static void jumps(void) {
    enum { JUMPS = 60 };
    static volatile int i;
    dr_dump *d;
    session_open("jumps.dump");
    signal(SIGALRM, jumper);
    {
        SPANPROF_SPAN("around");
        for (i = 0; i < JUMPS; i++) {
            if (!sigsetjmp(back, 1)) {
                armed = 1;
                timer(500 + i % 7);
                endless();
            }
            SPANPROF_BEGIN("landed");
            SPANPROF_END();
        }
        timer(0);
    }
    for (i = 0; i < 100; i++) {
        SPANPROF_SPAN("later");
    }
    d = session_close();
    CHECK_U64(100, dr_count(d, "later"));
    CHECK_U64(JUMPS, dr_count(d, "landed") + dr_dropped(d));
    CHECK_U64(1, dr_count(d, "around"));
    dr_free(d);
}

int main(void) {
    region = mmap(NULL, 3 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (region == MAP_FAILED) return 1;
    first();
    own_stack();
    another_stack(1);
    another_stack(0);
    if (!CHECK_SANITIZED) jumps(); /* a sanitizer holds signals back until the next system call */
    return CHECK_DONE();
}
