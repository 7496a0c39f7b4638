/* fault_steps.c - a process that is killed at any instruction. The recorder is run one instruction at a time through the start
 * of a session, a thread's first span, a write-out of its window, the ends of spans from before it, a new site, a flush and the
 * end of the session; after each one the dump is looked at as it would be left behind, by SIGKILL and by another thread's exit. Every
 * span known to be complete must be in it, none twice, and the dump must be a good one: for the reader of the tests whenever it has changed, for trace2summary (exit
 * code 0) whenever one of its headers has.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include "check.h"
#include "dump_reader.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Stored by the program after each end, and before each begin. */
static volatile struct known { uint64_t begun, ended, attributes, attributes_begun, stage; } *known;

#define A_SPAN(name)                  \
    do {                              \
        known->begun++;               \
        SPANPROF_BLOCK(name) {}       \
        known->ended++;               \
    } while (0)

static void program(void) {
    const uint64_t words = (SPANPROF_WINDOW_BYTES - SPANPROF_BLOCK_HEADER_BYTES) / 8;
    spanprof_config config;
    uint64_t i;
    memset(&config, 0, sizeof config);
    config.path = "steps.dump";
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL)) _exit(9);
    raise(SIGSTOP); /* from here on one by one */
    if (spanprof_start(&config)) _exit(9);
    known->stage = 1;
    A_SPAN("short");
    raise(SIGSTOP); /* at full speed */
    for (i = 0; i + 80 < words; i++) A_SPAN("many");
    raise(SIGSTOP); /* one by one again */
    known->begun += 2;
    SPANPROF_BLOCK("outer") {
        SPANPROF_BEGIN("pair");
        for (known->stage = 1; known->stage < 30; known->stage++) {
            A_SPAN("short");
            if (known->stage % 4 == 0) {
                known->attributes_begun++;
                SPANPROF_ATTR_U64("stage", known->stage);
                known->attributes++;
            }
        }
        SPANPROF_END();
        known->ended++;
    }
    known->ended++;
    A_SPAN("a new site");
    known->begun++;
    SPANPROF_BEGIN_DYN("named now");
    SPANPROF_END();
    known->ended++;
    known->stage = 40;
    spanprof_flush();
    known->stage = 50;
    spanprof_stop();
    known->stage = 60;
    raise(SIGSTOP);
    _exit(0);
}

/* trace2summary's exit code for the dump as it is. */
static int converted(void) {
    static char tool[1200];
    const char *build = getenv("BUILD");
    int status = 0;
    pid_t pid;
    if (!build) return 0;
    snprintf(tool, sizeof tool, "%.1000s/trace2summary", build);
    if (access(tool, X_OK)) return 0;
    pid = fork();
    if (!pid) {
        execl(tool, "trace2summary", "-q", "--no-table", "-s", "/dev/null", "steps.dump", (char *)NULL);
        _exit(99);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The headers of the dump or of its blocks differ. */
static int headers_differ(const unsigned char *a, const unsigned char *b, size_t size) {
    size_t at;
    for (at = 0; at + 1024 <= size; at += SPANPROF_WINDOW_BYTES)
        if (memcmp(a + at, b + at, at ? SPANPROF_BLOCK_HEADER_BYTES : 1024)) return 1;
    return 0;
}

static int look(uint64_t step, uint64_t before) {
    dr_dump *d = dr_load("steps.dump");
    const uint64_t finished = dr_count(d, NULL);
    int good = CHECK_STR("", d->error);
    good &= CHECK(finished >= before && finished <= known->begun);
    good &= CHECK(d->spans_count <= known->begun);
    good &= CHECK(d->values_count >= known->attributes && d->values_count <= known->attributes_begun);
    good &= CHECK_U64(0, d->stray_ends);
    good &= CHECK_U64(0, dr_dropped(d));
    if (!good) printf("    at step %" PRIu64 ", stage %" PRIu64 ": %" PRIu64 " begun, %" PRIu64 " ended, %" PRIu64 " in the dump\n", step, known->stage, known->begun, before, finished);
    dr_free(d);
    return good;
}

/* The state of the dump, which its program, stopped, has mapped. */
static void mark(uint32_t state) {
    const int file = open("steps.dump", O_WRONLY);
    CHECK_INT(sizeof state, pwrite(file, &state, sizeof state, offsetof(spanprof_dump_header, state)));
    close(file);
}

int main(void) {
    static unsigned char before[1 << 20], now[1 << 20];
    uint64_t steps = 0, changes = 0, conversions = 0, last_ended = 0;
    size_t before_size = 0;
    int status = 0, stopped = 0, bad = 0;
    pid_t pid;
    if (getenv("TEST_RUNNER")) {
        SKIP("one instruction at a time: not under a runner");
        return CHECK_DONE();
    }
    known = (volatile struct known *)mmap(NULL, sizeof *known, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if ((volatile void *)known == MAP_FAILED) return 1;
    pid = fork();
    if (!pid) program();
    waitpid(pid, &status, 0);
    if (WIFEXITED(status)) {
        SKIP("one instruction at a time: ptrace is not allowed");
        return CHECK_DONE();
    }
    while (bad < 5) {
        int file;
        ssize_t size;
        int headers;
        if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) || waitpid(pid, &status, 0) != pid || WIFEXITED(status) || WIFSIGNALED(status)) break;
        if (WSTOPSIG(status) == SIGSTOP && known->stage == 60) {
            stopped = 1;
            break;
        }
        if (WSTOPSIG(status) == SIGSTOP && (ptrace(PTRACE_CONT, pid, NULL, NULL) || waitpid(pid, &status, 0) != pid || WSTOPSIG(status) != SIGSTOP)) break;
        steps++;
        if (known->stage == 0) continue; /* the session is being opened: no span yet */
        file = open("steps.dump", O_RDONLY);
        size = read(file, now, sizeof now);
        close(file);
        if (size > 0 && (size_t)size == before_size && !memcmp(before, now, before_size) && known->ended == last_ended) continue;
        headers = (size_t)size != before_size || headers_differ(before, now, before_size);
        memcpy(before, now, size > 0 ? (size_t)size : 0);
        before_size = size > 0 ? (size_t)size : 0;
        last_ended = known->ended;
        bad += !look(steps, last_ended);
        if (changes++ % 32 == 0 || headers) {
            bad += !CHECK_INT(0, converted());
            conversions++;
        }
        if (known->ended > 0 && known->stage < 40 && headers) { /* its first window opens under the lock that an exit needs */
            mark(SPANPROF_DUMP_EXITED);
            bad += !look(steps, last_ended);
            bad += !CHECK_INT(0, converted());
            mark(SPANPROF_DUMP_RECORDING);
        }
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    CHECK_INT(1, stopped);
    printf("%" PRIu64 " instructions, %" PRIu64 " states of the dump, %" PRIu64 " converted\n", steps, changes, conversions);
    return CHECK_DONE();
}
