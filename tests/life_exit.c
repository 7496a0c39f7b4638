/* life_exit.c - every way that a process ends, with threads inside nested spans: what the dump holds is what the program knew
 * it had completed, to the span. The program counts in a file that it maps shared, which also outlives it.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include "check.h"
#include "child.h"
#include "dump_reader.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WORKERS = 3, ROUNDS = 7000 };

typedef struct { volatile uint64_t outer, inner, pairs; } counts;

static counts *map_counts(void) {
    const int fd = open("counts", O_RDWR | O_CREAT, 0600);
    void *memory;
    if (fd < 0 || ftruncate(fd, sizeof(counts) * (WORKERS + 1))) return NULL;
    memory = mmap(NULL, sizeof(counts) * (WORKERS + 1), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return memory == MAP_FAILED ? NULL : (counts *)memory;
}

/* ---- the program that ends ---- */

static pthread_barrier_t parked;
static counts *shared;

static void rounds(counts *c) {
    int i;
    for (i = 0; i < ROUNDS; i++) {
        {
            SPANPROF_SPAN("outer");
            {
                SPANPROF_SPAN("inner");
            }
            c->inner++;
            SPANPROF_BEGIN("pair");
            SPANPROF_END();
            c->pairs++;
        }
        c->outer++;
    }
}

static void *worker(void *c) {
    SPANPROF_SPAN("worker");
    rounds((counts *)c);
    {
        SPANPROF_SPAN("parked");
        pthread_barrier_wait(&parked);
        for (;;) pause();
    }
    return NULL;
}

static void at_exit(void) {
    SPANPROF_BLOCK("at exit") {}
}

__attribute__((noinline)) static void end_by(const char *how) {
    SPANPROF_SPAN("last");
    if (!strcmp(how, "exit")) exit(3);
    if (!strcmp(how, "quick_exit")) quick_exit(3);
    if (!strcmp(how, "_exit")) _exit(3);
    if (!strcmp(how, "_Exit")) _Exit(3);
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "exec")) execl("/bin/sh", "sh", "-c", "exit 3", (char *)NULL);
    if (!strcmp(how, "segv")) {
        /* A fault of the hardware, at an address that no sanitizer takes offence at first. */
        volatile int *nowhere = (volatile int *)mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        *nowhere = 1;
    }
    if (!strcmp(how, "fpe")) raise(SIGFPE);
    if (!strcmp(how, "term")) raise(SIGTERM);
    if (!strcmp(how, "kill")) raise(SIGKILL);
    if (!strcmp(how, "pthread_exit")) {
        /* The main thread ends alone; another one ends the process. */
        pthread_exit(NULL);
    }
}

static void *leaver(void *main_thread) {
    pthread_join(*(pthread_t *)main_thread, NULL);
    exit(3);
}

static int program(const char *how) {
    pthread_t thread, self = pthread_self();
    int i;
    shared = map_counts();
    if (!shared) return 99;
    atexit(at_exit);
    pthread_barrier_init(&parked, NULL, WORKERS + 1);
    {
        SPANPROF_SPAN("program");
        for (i = 0; i < WORKERS; i++) pthread_create(&thread, NULL, worker, &shared[i + 1]);
        rounds(&shared[0]);
        pthread_barrier_wait(&parked);
        if (!strcmp(how, "return")) return 3;
        if (!strcmp(how, "pthread_exit")) {
            static pthread_t main_thread;
            main_thread = self;
            pthread_create(&thread, NULL, leaver, &main_thread);
        }
        end_by(how);
    }
    return 98;
}

/* ---- the test ---- */

static void ends(const char *how, int status, int exits, uint64_t unfinished) {
    char command[64];
    counts *c;
    uint64_t outer = 0, inner = 0, pairs = 0;
    dr_dump *d;
    int i;
    remove("counts");
    remove("exit.dump");
    snprintf(command, sizeof command, "program %s", how);
    if (!CHECK_INT(status, child_run("SPANPROF=1 SPANPROF_OUT=exit.dump ASAN_OPTIONS=handle_segv=0:handle_abort=0:handle_sigfpe=0 TSAN_OPTIONS=handle_segv=0:handle_abort=0:handle_sigfpe=0:report_thread_leaks=0", command)))
        printf("    %s\n%s\n", how, child_err);
    c = map_counts();
    d = dr_load("exit.dump");
    CHECK_STR("", d->error);
    if (!c) {
        CHECK(c != NULL);
        return;
    }
    for (i = 0; i <= WORKERS; i++) {
        outer += c[i].outer;
        inner += c[i].inner;
        pairs += c[i].pairs;
    }
    CHECK_U64((WORKERS + 1) * ROUNDS, outer);
    if (!CHECK_U64(outer, dr_count(d, "outer")) + !CHECK_U64(inner, dr_count(d, "inner")) + !CHECK_U64(pairs, dr_count(d, "pair")) +
        !CHECK_U64(WORKERS, dr_unfinished(d, "parked")) + !CHECK_U64(unfinished, dr_unfinished(d, NULL)) +
        !CHECK_U64(exits ? 1 : 0, dr_count(d, "at exit")) +
        !CHECK_INT(exits ? SPANPROF_DUMP_EXITED : SPANPROF_DUMP_RECORDING, d->header.state) + !CHECK_U64(0, dr_dropped(d)))
        printf("    %s\n", how);
    munmap(c, sizeof *c * (WORKERS + 1));
    dr_free(d);
    /* What the process left behind converts, and nothing calls it damaged. */
    if (child_tool()) {
        if (!CHECK_INT(0, child_command("\"$TOOL\" -q -s - --no-table exit.dump"))) printf("    %s: %s\n", how, child_err);
        CHECK_CONTAINS("\"unfinished_events\"", child_out);
    }
}

int main(int argc, char **argv) {
    /* Open at the end: three workers in two spans each, and what the main thread has not left. */
    enum { PARKED = 2 * WORKERS };
    child_self = argv[0];
    if (argc > 2) return program(argv[2]);
    ends("return", 3, 1, PARKED);
    ends("exit", 3, 1, PARKED + 2);
    ends("quick_exit", 3, 0, PARKED + 2);
    ends("_exit", 3, 0, PARKED + 2);
    ends("_Exit", 3, 0, PARKED + 2);
    ends("exec", 3, 0, PARKED + 2);
    ends("abort", 128 + SIGABRT, 0, PARKED + 2);
    ends("segv", 128 + SIGSEGV, 0, PARKED + 2);
    ends("fpe", 128 + SIGFPE, 0, PARKED + 2);
    ends("term", 128 + SIGTERM, 0, PARKED + 2);
    ends("kill", 128 + SIGKILL, 0, PARKED + 2);
    return CHECK_DONE();
}
