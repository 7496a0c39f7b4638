/* life_live.c - a dump that is converted while its program records: never damaged, never endless, and what is in it adds up.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include "check.h"
#include "child.h"
#include "json.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 3, INNER = 100, TIMES = 12 };

static void *record(void *number) {
    const struct timespec breath = { 0, 5000000 };
    unsigned i, round = 0;
    for (;;) {
        SPANPROF_SPAN("outer");
        for (i = 0; i < INNER; i++) {
            SPANPROF_SPAN("inner");
        }
        SPANPROF_ATTR_U64("round", round);
        if (++round % 64 == 0) { /* sites and names that are new */
            char name[32];
            snprintf(name, sizeof name, "thread %u, %u", *(unsigned *)number, round % 4096);
            SPANPROF_THREAD_NAME(name);
            SPANPROF_BEGIN_DYN(name);
            SPANPROF_END();
            nanosleep(&breath, NULL);
        }
    }
    return NULL;
}
static void program(spanprof_mode mode) {
    static unsigned numbers[THREADS] = { 0, 1, 2 };
    spanprof_config config;
    pthread_t thread;
    unsigned i;
    memset(&config, 0, sizeof config);
    config.path = "live.dump";
    config.mode = mode;
    config.ring_mb = 1;
    config.max_mb = 300;
    if (spanprof_start(&config)) _exit(1);
    for (i = 1; i < THREADS; i++) pthread_create(&thread, NULL, record, &numbers[i]);
    record(&numbers[0]);
}

static void converted(spanprof_mode mode) {
    static char command[4200];
    double outer, inner;
    json *summary;
    snprintf(command, sizeof command, "timeout 60 %.4000s -q --no-table -t /dev/null -s live.summary.json live.dump", child_tool());
    CHECK_INT(0, child_command(command));
    CHECK_STR("", child_err);
    summary = json_load("live.summary.json");
    CHECK_STR("", summary->error);
    CHECK_STR("false", json_get(summary, "damaged"));
    CHECK_STR(NULL, json_get(summary, "validation_issues[0].message"));
    outer = json_double(summary, "rows[key.name=outer].calls");
    inner = json_double(summary, "rows[key.name=inner].calls");
    CHECK(outer > 0);
    if (mode == SPANPROF_MODE_STREAM && json_double(summary, "dropped_events") == 0) CHECK_RANGE(INNER * outer, INNER * (outer + THREADS), inner);
    json_free(summary);
}

static void live(spanprof_mode mode) {
    const struct timespec moment = { 0, 20000000 };
    pid_t pid;
    int i, status;
    remove("live.dump");
    fflush(stdout);
    pid = fork();
    if (!pid) program(mode);
    nanosleep(&moment, NULL);
    for (i = 0; i < 500 && !child_exists("live.dump"); i++) nanosleep(&moment, NULL);
    nanosleep(&moment, NULL);
    for (i = 0; i < TIMES && !check_failed; i++) converted(mode);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    converted(mode);
}

int main(int argc, char **argv) {
    (void)argc;
    child_self = argv[0];
    if (!child_tool() || getenv("TEST_RUNNER")) {
        SKIP("no trace2summary that runs beside the program");
        return CHECK_DONE();
    }
    live(SPANPROF_MODE_STREAM);
    live(SPANPROF_MODE_RING);
    return CHECK_DONE();
}
