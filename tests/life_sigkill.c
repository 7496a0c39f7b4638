/* life_sigkill.c - kills a recorder of four threads at random moments, 50 times (or as often as the first argument says): no
 * span that the program knew to be complete is missing from the dump. SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include "check.h"
#include "dump_reader.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4 };

/* Each thread's own cache lines; written by the recorder alone, after the span has ended. */
typedef struct { uint64_t outer, inner, pairs, attributes, spare[12]; } counts;
static counts *shared; /* THREADS of them, and one whose outer says that all threads run */

static void store(uint64_t *to, uint64_t value) { __atomic_store_n(to, value, __ATOMIC_RELEASE); }

static void *record(void *argument) {
    const long number = (long)(intptr_t)argument;
    counts *c = &shared[number];
    uint64_t outer = 0, inner = 0, pairs = 0, attributes = 0;
    char name[16];
    snprintf(name, sizeof name, "%ld", number);
    SPANPROF_THREAD_NAME(name);
    __atomic_fetch_add(&shared[THREADS].outer, 1, __ATOMIC_RELAXED);
    for (;;) {
        {
            SPANPROF_SPAN("outer");
            {
                SPANPROF_SPAN("inner");
            }
            store(&c->inner, ++inner);
            if (outer % 8 == (uint64_t)number) {
                SPANPROF_BEGIN("pair");
                SPANPROF_ATTR_U64("outer", outer);
                store(&c->attributes, ++attributes);
                SPANPROF_END();
                store(&c->pairs, ++pairs);
            }
        }
        store(&c->outer, ++outer);
    }
    return NULL;
}

static void child(void) {
    pthread_t thread;
    long i;
    spanprof_config config;
    memset(&config, 0, sizeof config);
    config.path = "kill.dump";
    if (spanprof_start(&config)) _exit(9);
    for (i = 1; i < THREADS; i++) pthread_create(&thread, NULL, record, (void *)(intptr_t)i);
    record((void *)(intptr_t)0);
}

static uint64_t known, held, lost;

/* More in the dump than known is right for the one span that was ended and not yet counted. */
static void compare(uint64_t expected, uint64_t got) {
    known += expected;
    held += got;
    if (got < expected) lost += expected - got;
    CHECK(got >= expected && got <= expected + 1);
}

static void kill_one(void) {
    struct timespec wait = { 0, rand() % 15000 * 1000 + 100000 };
    pid_t pid;
    dr_dump *d;
    int status = 0, i;
    uint64_t per_thread[THREADS][4];
    size_t k;
    memset(shared, 0, sizeof *shared * (THREADS + 1));
    remove("kill.dump");
    pid = fork();
    if (!pid) child();
    while (__atomic_load_n(&shared[THREADS].outer, __ATOMIC_RELAXED) < THREADS) {
        if (waitpid(pid, &status, WNOHANG)) break;
        usleep(100);
    }
    nanosleep(&wait, NULL);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    CHECK(WIFSIGNALED(status));
    d = dr_load("kill.dump");
    CHECK_STR("", d->error);
    memset(per_thread, 0, sizeof per_thread);
    for (k = 0; k < d->spans_count; k++) {
        const dr_span *s = &d->spans[k];
        const char *name = dr_name(d, s), *thread = dr_thread_name(d, s->thread);
        const int number = thread && *thread ? atoi(thread) : 0;
        if (s->flags & DR_FINISHED) per_thread[number][*name == 'o' ? 0 : *name == 'i' ? 1 : 2]++;
    }
    for (k = 0; k < d->values_count; k++) {
        const dr_span *s = dr_span_at(d, d->values[k].pos);
        const char *thread = s ? dr_thread_name(d, s->thread) : NULL;
        per_thread[thread && *thread ? atoi(thread) : 0][3]++;
    }
    for (i = 0; i < THREADS; i++) {
        compare(shared[i].outer, per_thread[i][0]);
        compare(shared[i].inner, per_thread[i][1]);
        compare(shared[i].pairs, per_thread[i][2]);
        CHECK(per_thread[i][3] >= shared[i].attributes && per_thread[i][3] <= shared[i].attributes + 1);
    }
    CHECK(dr_unfinished(d, NULL) <= 2 * THREADS);
    CHECK_U64(0, dr_dropped(d));
    CHECK_U64(0, d->stray_ends);
    dr_free(d);
}

int main(int argc, char **argv) {
    const int kills = argc > 1 ? atoi(argv[1]) : 50;
    const unsigned seed = argc > 2 ? (unsigned)atoi(argv[2]) : (unsigned)time(NULL);
    int i;
    shared = mmap(NULL, sizeof *shared * (THREADS + 1), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 1;
    srand(seed);
    for (i = 0; i < kills; i++) kill_one();
    printf("%d kills (seed %u): %" PRIu64 " spans known complete, %" PRIu64 " in the dumps, %" PRIu64 " lost\n", kills, seed, known, held, lost);
    CHECK_U64(0, lost);
    return CHECK_DONE();
}
