/* fault_program.h - a program that records and counts what it tried, for tests that take something away from it. It runs in a
 * forked child; what it did, what the recorder said and what is in the dump comes back in shared memory. Include after
 * spanprof.h and check.h. SPDX-License-Identifier: MIT */
#ifndef FAULT_PROGRAM_H
#define FAULT_PROGRAM_H

#include "dump_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct fault_outcome {
    uint64_t attempted, result, recorded, dropped, unfinished, held, held_dropped, held_unfinished;
    int start, stop, finished, errno_changed, recording, skipped, threads, is_private;
    char error[256], path[1024], note[256];
} fault_outcome;
static fault_outcome *fault_got;
static char fault_said[4096]; /* what the child wrote to stderr */
static int fault_lines, fault_status;

static void fault_keep_errno(void) {
    if (errno != 77) fault_got->errno_changed++;
    errno = 77;
}

/* Writes out more than three windows: some 1,600 words of text, then 24,000 short spans. */
static void *fault_work(void *argument) {
    static char text[2000];
    int i;
    (void)argument;
    errno = 77;
    if (!text[0]) memset(text, 't', sizeof text - 1);
    SPANPROF_BEGIN("outer");
    fault_got->attempted++;
    for (i = 0; i < 6; i++) {
        SPANPROF_BLOCK("text") { SPANPROF_ATTR_STR("long", text); }
        fault_got->attempted++;
        fault_got->result += (uint64_t)i;
        fault_keep_errno();
    }
    for (i = 0; i < 12000; i++) {
        SPANPROF_BLOCK("a") {
            SPANPROF_BLOCK("b") { fault_got->result++; }
        }
        fault_got->attempted += 2;
    }
    fault_keep_errno();
    SPANPROF_END();
    SPANPROF_INSTANT("moment");
    fault_got->attempted++;
    fault_keep_errno();
    return NULL;
}

/* The program. between runs after the first half, when it is not NULL. */
static void fault_program(const char *path, void (*between)(void)) {
    spanprof_config config;
    spanprof_session_stats stats;
    int i;
    memset(&config, 0, sizeof config);
    config.path = path;
    errno = 77;
    fault_got->start = (int)spanprof_start(&config);
    fault_got->recording = spanprof_recording();
    fault_keep_errno();
    fault_work(NULL);
    if (between) between();
    for (i = 0; i < 2; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, fault_work, NULL)) continue; /* no memory for its stack */
        pthread_join(thread, NULL);
        fault_got->threads++;
    }
    fault_work(NULL);
    errno = 77;
    fault_got->stop = (int)spanprof_stop();
    fault_keep_errno();
    memset(&stats, 0, sizeof stats);
    if (spanprof_stats(&stats) == SPANPROF_OK) {
        fault_got->recorded = stats.recorded;
        fault_got->dropped = stats.dropped;
        fault_got->unfinished = stats.unfinished;
        memcpy(fault_got->path, stats.path, sizeof stats.path);
    }
    fault_got->finished = 1;
}

/* What the dump holds; in the child that has the rights and the file systems, with its limits lifted. */
static void fault_look(const char *path) {
    dr_dump *d = dr_load(path);
    snprintf(fault_got->error, sizeof fault_got->error, "%s", d->error);
    fault_got->held = dr_events(d);
    fault_got->held_dropped = dr_dropped(d);
    fault_got->held_unfinished = dr_unfinished(d, NULL);
    fault_got->is_private = (d->header.flags & SPANPROF_DUMP_PRIVATE) != 0;
    dr_free(d);
}

/* Runs part(argument) in a child, its stderr kept apart. */
static void fault_run(void (*part)(long argument), long argument) {
    FILE *file;
    size_t n = 0, i;
    pid_t pid;
    if (!fault_got) fault_got = (fault_outcome *)mmap(NULL, sizeof *fault_got, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(fault_got, 0, sizeof *fault_got);
    fflush(stdout);
    pid = fork();
    if (!pid) {
        const int to = open("fault.err", O_WRONLY | O_CREAT | O_TRUNC, 0666);
        dup2(to, 2);
        close(to);
        part(argument);
        _exit(0);
    }
    waitpid(pid, &fault_status, 0);
    file = fopen("fault.err", "rb");
    if (file) {
        n = fread(fault_said, 1, sizeof fault_said - 1, file);
        fclose(file);
    }
    fault_said[n] = 0;
    for (i = 0, fault_lines = 0; i < n; i++) fault_lines += fault_said[i] == '\n';
}

/* What holds whatever was taken away. starts: 1 a session must open, 0 it must not, -1 either. */
static void fault_check(const char *what, int starts, int dumped) {
    const unsigned failed = check_failed;
    const uint64_t parts = 2 + (uint64_t)fault_got->threads;
    if (fault_got->skipped) {
        SKIP(fault_got->note);
        return;
    }
    CHECK_INT(0, fault_status);
    CHECK_INT(1, fault_got->finished);
    CHECK_U64(parts * (15 + 12000), fault_got->result);
    CHECK_INT(0, fault_got->errno_changed);
    if (starts == 1) CHECK_INT(SPANPROF_OK, fault_got->start);
    if (starts == 0) CHECK(fault_got->start != SPANPROF_OK);
    CHECK_INT(fault_got->start == SPANPROF_OK, fault_got->recording);
    if (fault_got->start != SPANPROF_OK || fault_got->dropped) CHECK_INT(1, fault_lines);
    else CHECK(fault_lines <= 1);
    if (fault_got->start == SPANPROF_OK) CHECK_U64(fault_got->attempted, fault_got->recorded + fault_got->dropped);
    if (fault_got->start == SPANPROF_OK && dumped) {
        CHECK_STR("", fault_got->error);
        CHECK_U64(fault_got->recorded, fault_got->held);
        CHECK_U64(fault_got->dropped, fault_got->held_dropped);
        CHECK_U64(fault_got->unfinished, fault_got->held_unfinished);
    }
    if (check_failed != failed) printf("    %s: %s", what, fault_said[0] ? fault_said : "nothing on stderr\n");
}

#endif
