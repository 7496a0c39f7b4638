/* threads.c - workers that take items from one queue: a named track each, a counter of what is left, an arrow (flow) from
 * where an item was queued to where it was worked on.
 *
 *     cc -O2 -I.. threads.c -o threads -pthread && SPANPROF=1 ./threads [WORKERS] && trace2summary spanprof.dump
 *
 * SPDX-License-Identifier: MIT */
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { ITEMS = 64, WORKERS_MAX = 16 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int queue[ITEMS], queued, taken, closed;

/* The next item, or -1 when there are no more. Waiting is a span of its own, so that it does not pass for work. */
static int take(void) {
    SPANPROF_SPAN("queue.wait");
    int item = -1;
    pthread_mutex_lock(&mutex);
    while (taken == queued && !closed) pthread_cond_wait(&changed, &mutex);
    if (taken < queued) {
        item = queue[taken++];
        SPANPROF_COUNTER("queue.length", queued - taken);
    }
    pthread_mutex_unlock(&mutex);
    return item;
}

static void put(int item) {
    SPANPROF_SPAN("queue.put");
    SPANPROF_FLOW_OUT(item + 1);
    pthread_mutex_lock(&mutex);
    queue[queued++] = item;
    SPANPROF_COUNTER("queue.length", queued - taken);
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
}

static unsigned collatz(unsigned long from) {
    unsigned steps = 0;
    for (; from != 1; steps++) from = from % 2 ? 3 * from + 1 : from / 2;
    return steps;
}

static void *worker(void *argument) {
    unsigned long *total = argument;
    int item;
    char name[32];
    snprintf(name, sizeof name, "worker %lu", *total);
    SPANPROF_THREAD_NAME(name); /* copied */
    *total = 0;
    while ((item = take()) >= 0) {
        SPANPROF_SPAN("work");
        SPANPROF_FLOW_IN(item + 1);
        SPANPROF_ATTR_I64("item", item);
        for (unsigned long i = 1; i < 2000; i++) *total += collatz(i + (unsigned long)item * 1000);
    }
    return NULL;
}

int main(int argc, char **argv) {
    const int workers = argc > 1 ? atoi(argv[1]) : 3;
    pthread_t thread[WORKERS_MAX];
    unsigned long total[WORKERS_MAX], sum = 0;
    if (argc > 2 || workers < 1 || workers > WORKERS_MAX) {
        fprintf(stderr, "usage: threads [WORKERS, 1 to %d]\n", WORKERS_MAX);
        return 2;
    }
    SPANPROF_THREAD_NAME("main");
    for (int i = 0; i < workers; i++) {
        total[i] = (unsigned long)i + 1;
        if (pthread_create(&thread[i], NULL, worker, &total[i])) return 1;
    }
    for (int i = 0; i < ITEMS; i++) put(i);
    pthread_mutex_lock(&mutex);
    closed = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < workers; i++) {
        pthread_join(thread[i], NULL);
        sum += total[i];
    }
    printf("%d items, %lu steps\n", ITEMS, sum);
    return 0;
}
