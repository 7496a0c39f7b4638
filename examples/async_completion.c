/* async_completion.c - an operation that begins on one thread and completes on another. A span must end where it began; an
 * async operation need not: it has a track of its own, and its length is from the request to the completion. Flows draw
 * the arrow from the request to the worker's span that completed it.
 *
 *     cc -O2 -I.. async_completion.c -o async_completion -pthread
 *     SPANPROF=1 ./async_completion && trace2summary spanprof.dump
 *
 * In the summary "read.request" is a row of its own: its time is the operation's, the waiting included.
 * SPDX-License-Identifier: MIT */
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

enum { REQUESTS = 4 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int requested, completed;

static void pause_ms(long ms) {
    struct timespec time = { 0, ms * 1000000 };
    nanosleep(&time, NULL);
}

/* Completes the requests in order. */
static void *device(void *unused) {
    SPANPROF_THREAD_NAME("device");
    for (int id = 1; id <= REQUESTS; id++) {
        pthread_mutex_lock(&mutex);
        while (requested < id) pthread_cond_wait(&changed, &mutex);
        pthread_mutex_unlock(&mutex);
        SPANPROF_SPAN("device.complete");
        SPANPROF_FLOW_IN(id);
        pause_ms(3);
        SPANPROF_ASYNC_END("read.request", id); /* the same name and id as at the request */
        pthread_mutex_lock(&mutex);
        completed = id;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    SPANPROF_THREAD_NAME("main");
    if (pthread_create(&thread, NULL, device, NULL)) return 1;
    for (int id = 1; id <= REQUESTS; id++) {
        SPANPROF_SPAN("submit");
        SPANPROF_ASYNC_BEGIN("read.request", id);
        SPANPROF_FLOW_OUT(id);
        pthread_mutex_lock(&mutex);
        requested = id;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
        pause_ms(1); /* goes on with other work; the operations overlap */
    }
    SPANPROF_BLOCK("wait.all") {
        pthread_mutex_lock(&mutex);
        while (completed < REQUESTS) pthread_cond_wait(&changed, &mutex);
        pthread_mutex_unlock(&mutex);
    }
    pthread_join(thread, NULL);
    printf("%d requests completed\n", completed);
    return 0;
}
