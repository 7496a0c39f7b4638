/* life_fork.c - fork, vfork, posix_spawn, daemons: each process has a dump of its own, and the parent's holds the parent's spans
 * alone. SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include "child.h"
#include "session.h"

#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/stat.h>
#include <unistd.h>

static void spans(const char *name, unsigned count) {
    while (count--) {
        SPANPROF_BEGIN_DYN(name);
        SPANPROF_END();
    }
}
static void short_spans(unsigned count) {
    while (count--) SPANPROF_BLOCK("short") {}
}

/* Waits for a child that must end with a status. */
static void reap(pid_t pid, int expected) {
    int status = -1;
    waitpid(pid, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK_INT(expected, WEXITSTATUS(status));
}

static dr_dump *child_dump(const char *path, pid_t pid) {
    char name[64];
    dr_dump *d;
    snprintf(name, sizeof name, "%s.%d", path, (int)pid);
    d = dr_load(name);
    CHECK_STR("", d->error);
    CHECK_U64((uint64_t)pid, d->header.pid);
    CHECK(d->header.flags & SPANPROF_DUMP_FORKED);
    return d;
}

static void simple(void) {
    dr_dump *d;
    pid_t pid;
    session_open("fork.dump");
    SPANPROF_THREAD_NAME("the parent's main");
    short_spans(20000);
    {
        SPANPROF_SPAN("around");
        SPANPROF_BEGIN("pair around");
        pid = fork();
        if (!pid) {
            pid_t grandchild;
            short_spans(7);
            spans("child", 5);
            grandchild = fork();
            if (!grandchild) {
                spans("grandchild", 3);
                exit(3);
            }
            waitpid(grandchild, NULL, 0);
            SPANPROF_END(); /* of the parent's pair: not the child's to record */
            exit(spanprof_recording() ? 4 : 5);
        }
        reap(pid, 4);
        SPANPROF_END();
    }
    spans("parent", 10);
    d = session_close();
    CHECK_U64(20000, dr_count(d, "short"));
    CHECK_U64(10, dr_count(d, "parent"));
    CHECK_U64(1, dr_count(d, "around"));
    CHECK_U64(1, dr_count(d, "pair around"));
    CHECK_U64(20012, dr_events(d));
    dr_free(d);
    d = child_dump("fork.dump", pid);
    CHECK_U64(7, dr_count(d, "short"));
    CHECK_U64(5, dr_count(d, "child"));
    CHECK_U64(12, dr_events(d));
    CHECK_U64((uint64_t)getpid(), d->header.parent_pid);
    CHECK_INT(SPANPROF_DUMP_EXITED, d->header.state);
    CHECK_U64(0, d->stray_ends);
    dr_free(d);
}

/* The child leaves the parent's scopes by returning from them. */
__attribute__((noinline)) static pid_t fork_inside(void) {
    SPANPROF_SPAN("inside");
    SPANPROF_BEGIN("inside pair");
    {
        const pid_t pid = fork();
        SPANPROF_END();
        return pid;
    }
}

static void scopes(void) {
    dr_dump *d;
    pid_t pid;
    session_open("scopes.dump");
    {
        SPANPROF_SPAN("outer");
        pid = fork_inside();
        if (!pid) spans("child", 2);
    }
    if (!pid) exit(0);
    reap(pid, 0);
    d = session_close();
    CHECK_U64(3, dr_events(d));
    CHECK_U64(0, dr_unfinished(d, NULL));
    dr_free(d);
    d = child_dump("scopes.dump", pid);
    CHECK_U64(2, dr_events(d));
    CHECK_U64(2, dr_count(d, "child"));
    CHECK_U64(0, d->header.orphan_ends);
    dr_free(d);
}

/* A child that records nothing leaves no file; one that execs is the new program's business. */
static void quiet(void) {
    char name[64];
    pid_t pid;
    session_open("quiet.dump");
    spans("parent", 1);
    pid = fork();
    if (!pid) _exit(0);
    reap(pid, 0);
    snprintf(name, sizeof name, "quiet.dump.%d", (int)pid);
    CHECK(!child_exists(name));
    pid = fork();
    if (!pid) {
        execl("/bin/sh", "sh", "-c", "exit 6", (char *)NULL);
        _exit(1);
    }
    reap(pid, 6);
    snprintf(name, sizeof name, "quiet.dump.%d", (int)pid);
    CHECK(!child_exists(name));
    /* The dump is not open in the new program. */
    pid = fork();
    if (!pid) {
        execl("/bin/sh", "sh", "-c", "ls -l /proc/self/fd 2>/dev/null | grep -q quiet.dump && exit 1; exit 0", (char *)NULL);
        _exit(1);
    }
    reap(pid, 0);
    dr_free(session_close());
}

/* Others go on recording while one forks, and the child's only thread is the one that forked. */
static int recording; /* atomic */
static void *record(void *count) {
    uint64_t n = 0;
    while (__atomic_load_n(&recording, __ATOMIC_RELAXED)) {
        SPANPROF_SPAN("other");
        n++;
    }
    *(uint64_t *)count = n;
    return NULL;
}

static void threads(void) {
    enum { THREADS = 3, FORKS = 20 };
    pthread_t thread[THREADS];
    uint64_t count[THREADS], total = 0;
    pid_t pid[FORKS];
    dr_dump *d;
    int i;
    session_open("threads.dump");
    __atomic_store_n(&recording, 1, __ATOMIC_RELAXED);
    for (i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, record, &count[i]);
    for (i = 0; i < FORKS; i++) {
        SPANPROF_SPAN("forking");
        pid[i] = fork();
        if (!pid[i]) {
            spans("child", 3);
            _exit(0);
        }
    }
    for (i = 0; i < FORKS; i++) reap(pid[i], 0);
    __atomic_store_n(&recording, 0, __ATOMIC_RELAXED);
    for (i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        total += count[i];
    }
    d = session_close();
    CHECK_U64(total, dr_count(d, "other"));
    CHECK_U64(FORKS, dr_count(d, "forking"));
    CHECK_U64(0, dr_count(d, "child"));
    CHECK_U64(0, dr_dropped(d));
    dr_free(d);
    for (i = 0; i < FORKS; i++) {
        d = child_dump("threads.dump", pid[i]);
        CHECK_U64(3, dr_count(d, "child"));
        CHECK_U64(3, dr_events(d));
        dr_free(d);
    }
}

/* Programs started with the same environment, at the same time: one dump each. */
static int vforked(const char *self) {
    static char *const arguments[] = { (char *)(uintptr_t) "self", (char *)(uintptr_t) "program", (char *)(uintptr_t) "leaf", NULL };
    extern char **environ;
    pid_t pid, spawned = 0;
    int status, good = 1;
    SPANPROF_SPAN("parent");
    pid = vfork();
    if (!pid) {
        execv(self, arguments);
        _exit(1);
    }
    good &= posix_spawn(&spawned, self, NULL, NULL, arguments, environ) == 0;
    good &= waitpid(pid, &status, 0) == pid && status == 0;
    good &= waitpid(spawned, &status, 0) == spawned && status == 0;
    printf("%d %d", (int)pid, (int)spawned);
    return good ? 0 : 1;
}

static void same_environment(void) {
    int first = 0, second = 0;
    char name[64];
    dr_dump *d;
    if (getenv("TEST_RUNNER")) {
        SKIP("exec of the program itself: it needs its runner");
        return;
    }
    CHECK_INT(0, child_run("SPANPROF=1 SPANPROF_OUT=env.dump", "program vfork"));
    CHECK_INT(2, sscanf(child_out, "%d %d", &first, &second));
    d = dr_load("env.dump");
    CHECK_STR("", d->error);
    CHECK_U64(1, dr_count(d, "parent"));
    CHECK_U64(1, dr_events(d));
    dr_free(d);
    snprintf(name, sizeof name, "env.dump.%d", first);
    d = dr_load(name);
    CHECK_STR("", d->error);
    CHECK_U64(100, dr_count(d, "leaf"));
    dr_free(d);
    snprintf(name, sizeof name, "env.dump.%d", second);
    d = dr_load(name);
    CHECK_STR("", d->error);
    CHECK_U64(100, dr_count(d, "leaf"));
    dr_free(d);
    CHECK_CONTAINS("env.dump.", child_err); /* says which file it took instead */
    /* A dump whose process is gone may be written over. */
    CHECK_INT(0, child_run("SPANPROF=1 SPANPROF_OUT=env.dump", "program leaf"));
    CHECK_STR("", child_err);
    d = dr_load("env.dump");
    CHECK_U64(100, dr_events(d));
    dr_free(d);
}

/* A daemon closes every descriptor, then opens files of its own, which get our old numbers: they must stay as they are. */
static int daemonized(void) {
    char buffer[64] = "";
    int fd, k, own[8];
    short_spans(10);
    for (fd = 0; fd < 1024; fd++) close(fd);
    for (k = 0; k < 8; k++) {
        char name[16];
        snprintf(name, sizeof name, "own.%d", k);
        own[k] = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (own[k] < 0 || write(own[k], "mine", 4) != 4) return 10;
    }
    short_spans(100000);
    for (k = 0; k < 8; k++) {
        struct stat status;
        if (fstat(own[k], &status) || status.st_size != 4) return 11;
        if (pread(own[k], buffer, 4, 0) != 4 || memcmp(buffer, "mine", 4)) return 12;
    }
    {
        spanprof_session_stats stats;
        if (spanprof_stats(&stats)) return 13;
        if (stats.recorded + stats.dropped != 100010) return 14;
    }
    return 0;
}

static void daemons(void) {
    dr_dump *d;
    CHECK_INT(0, child_run("SPANPROF=1 SPANPROF_OUT=daemon.dump", "program daemon"));
    d = dr_load("daemon.dump");
    CHECK_STR("", d->error);
    CHECK(dr_count(d, "short") >= 10);
    CHECK_U64(100010, dr_count(d, "short") + dr_dropped(d));
    printf("after closing all descriptors: %" PRIu64 " of 100010 recorded, %" PRIu64 " dropped\n", dr_count(d, "short"), dr_dropped(d));
    dr_free(d);
    /* The same through daemon(3). */
    CHECK_INT(0, child_run("SPANPROF=1 SPANPROF_OUT=daemon3.dump", "program daemon3"));
}

/* A line of forks, each of which outlives the one before: nobody's dump is taken for an old one. */
static int family(void) {
    pid_t before = getpid();
    spans("first", 100);
    if (fork() > 0) return 0;
    while (getppid() == before) usleep(1000);
    spans("second", 200);
    before = getpid();
    if (fork() > 0) return 0;
    while (getppid() == before) usleep(1000);
    spans("third", 300);
    return 0;
}
static void generations(void) {
    static char names[sizeof child_out];
    static const char *const span[] = { "first", "second", "third" };
    int found[3] = { 0, 0, 0 }, i;
    char *path;
    CHECK_INT(0, child_run("SPANPROF=1 SPANPROF_OUT=family.dump", "program family"));
    for (i = 0; i < 200 && child_command("test $(ls family.dump* | wc -l) -eq 3 && sleep 0.2"); i++) usleep(20000);
    CHECK_INT(0, child_command("ls family.dump*"));
    snprintf(names, sizeof names, "%s", child_out);
    for (path = strtok(names, "\n"); path; path = strtok(NULL, "\n")) {
        dr_dump *d = dr_load(path);
        CHECK_STR("", d->error);
        for (i = 0; i < 3; i++)
            if (dr_count(d, span[i])) found[i] += (int)dr_count(d, NULL);
        dr_free(d);
    }
    for (i = 0; i < 3; i++) CHECK_INT(100 * (i + 1), found[i]);
}

int main(int argc, char **argv) {
    child_self = argv[0];
    if (argc > 2 && !strcmp(argv[2], "leaf")) return spans("leaf", 100), 0;
    if (argc > 2 && !strcmp(argv[2], "vfork")) return vforked("/proc/self/exe");
    if (argc > 2 && !strcmp(argv[2], "daemon")) return daemonized();
    if (argc > 2 && !strcmp(argv[2], "daemon3")) return short_spans(3), daemon(1, 0) ? 1 : (short_spans(100000), 0);
    if (argc > 2 && !strcmp(argv[2], "family")) return family();
    simple();
    scopes();
    quiet();
    threads();
    same_environment();
    daemons();
    generations();
    return CHECK_DONE();
}
