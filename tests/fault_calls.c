/* fault_calls.c - every system call of the recorder fails, one after the other: the nth call alone, then the nth and all later
 * ones of its kind, with each error that fits. Whatever fails, the program's result, errno and signal mask are its own, what was
 * recorded and what was dropped add up to what it tried, the dump holds what the figures say, and stderr gets one line at most.
 *
 *     fault_calls [all]    all: every error of every call; else they take turns
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- calls that fail ---- */

enum { SHORT = -1 }; /* instead of an error: half of the bytes are written */
#define CALLS(X)                                                                                                        \
    X(open, EMFILE, EACCES, ENOSPC) X(close, EIO, EIO, EIO) X(read, EIO, EACCES, EIO) X(readlink, ENOENT, EACCES, EIO)  \
    X(getrusage, EINVAL, EINVAL, EINVAL) X(map_memory, ENOMEM, EAGAIN, EPERM) X(map_file, ENODEV, ENOMEM, EACCES)       \
    X(sigaltstack, EPERM, EPERM, EPERM) X(getrlimit, EPERM, EINVAL, EPERM) X(thread_attributes, ENOMEM, EPERM, ENOENT)  \
    X(fstat, EIO, EOVERFLOW, EBADF) X(stat, EACCES, ENOENT, EIO) X(pwritev, ENOSPC, SHORT, EINTR) X(pwrite, ENOSPC, EIO, EDQUOT) \
    X(posix_fallocate, EOPNOTSUPP, ENOSPC, EFBIG) X(pread, EIO, EISDIR, EIO) X(fdatasync, EIO, ENOSPC, EIO)             \
    X(flock, ENOLCK, EWOULDBLOCK, EINTR) X(unlink, EACCES, EROFS, ENOENT) X(key_create, EAGAIN, ENOMEM, EAGAIN)         \
    X(atfork, ENOMEM, ENOMEM, ENOMEM) X(setspecific, ENOMEM, ENOMEM, ENOMEM) X(gethostname, ENAMETOOLONG, EFAULT, EPERM) \
    X(sysconf, EINVAL, EINVAL, EINVAL) X(prctl, EPERM, EINVAL, EFAULT)
enum kind {
#define X(name, a, b, c) KIND_##name,
    CALLS(X)
#undef X
    KINDS
};
static const struct { const char *name; int errors[3]; } calls[] = {
#define X(name, a, b, c) { #name, { a, b, c } },
    CALLS(X)
#undef X
};

static struct {
    int nth, from_then_on, error; /* what is to fail; nth 0: nothing */
    int calls, kind, failed;      /* so far; kind of the nth */
    int lines;                    /* on stderr */
    char said[2048];
} fault;

/* 0, or the error that this call must end with. */
static int fails(enum kind kind) {
    const int now = ++fault.calls == fault.nth;
    if (now) fault.kind = kind;
    if (!now && !(fault.from_then_on && fault.nth && fault.calls > fault.nth && fault.kind == (int)kind)) return 0;
    fault.failed++;
    return calls[kind].errors[fault.error % 3];
}
#define FAIL(kind, result)                       \
    const int error = fails(KIND_##kind);        \
    if (error) {                                 \
        errno = error;                           \
        return (result);                         \
    }
static int fault_open(const char *path, int flags, ...) {
    va_list arguments;
    mode_t mode;
    FAIL(open, -1)
    va_start(arguments, flags);
    mode = flags & O_CREAT ? (mode_t)va_arg(arguments, int) : 0;
    va_end(arguments);
    return open(path, flags, mode);
}
static int fault_close(int file) {
    const int result = close(file);
    FAIL(close, -1)
    return result;
}
static ssize_t fault_read(int file, void *out, size_t bytes) { FAIL(read, -1) return read(file, out, bytes); }
static ssize_t fault_readlink(const char *path, char *out, size_t bytes) { FAIL(readlink, -1) return readlink(path, out, bytes); }
static int fault_getrusage(int who, struct rusage *usage) { FAIL(getrusage, -1) return getrusage(RUSAGE_SELF, usage) + 0 * who; }
static void *fault_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
    if (file < 0) {
        FAIL(map_memory, MAP_FAILED)
    } else {
        FAIL(map_file, MAP_FAILED)
    }
    return mmap(at, bytes, protection, flags, file, offset);
}
static int fault_sigaltstack(const stack_t *stack, stack_t *old) { FAIL(sigaltstack, -1) return sigaltstack(stack, old); }
static int fault_getrlimit(int what, struct rlimit *limit) { FAIL(getrlimit, -1) return getrlimit((__rlimit_resource_t)what, limit); }
static int fault_pthread_getattr_np(pthread_t thread, pthread_attr_t *attributes) { FAIL(thread_attributes, error) return pthread_getattr_np(thread, attributes); }
static int fault_fstat(int file, struct stat *info) { FAIL(fstat, -1) return fstat(file, info); }
static int fault_stat(const char *path, struct stat *info) { FAIL(stat, -1) return stat(path, info); }
static ssize_t fault_pwrite(int file, const void *data, size_t bytes, off_t offset) { FAIL(pwrite, -1) return pwrite(file, data, bytes, offset); }
static ssize_t fault_pwritev(int file, const struct iovec *pieces, int count, off_t offset) {
    const int error = fails(KIND_pwritev);
    if (error == SHORT) return pwrite(file, pieces[0].iov_base, pieces[0].iov_len / 2, offset);
    if (error) {
        errno = error;
        return -1;
    }
    return pwritev(file, pieces, count, offset);
}
static int fault_posix_fallocate(int file, off_t offset, off_t bytes) { FAIL(posix_fallocate, error) return posix_fallocate(file, offset, bytes); }
static ssize_t fault_pread(int file, void *out, size_t bytes, off_t offset) { FAIL(pread, -1) return pread(file, out, bytes, offset); }
static int fault_fdatasync(int file) { FAIL(fdatasync, -1) return fdatasync(file); }
static int fault_flock(int file, int how) { FAIL(flock, -1) return flock(file, how); }
static int fault_unlink(const char *path) { FAIL(unlink, -1) return unlink(path); }
static int fault_pthread_key_create(pthread_key_t *key, void (*destructor)(void *)) { FAIL(key_create, error) return pthread_key_create(key, destructor); }
static int fault_pthread_atfork(void (*a)(void), void (*b)(void), void (*c)(void)) { FAIL(atfork, error) return pthread_atfork(a, b, c); }
static int fault_pthread_setspecific(pthread_key_t key, const void *value) { FAIL(setspecific, error) return pthread_setspecific(key, value); }
static int fault_gethostname(char *out, size_t bytes) { FAIL(gethostname, -1) return gethostname(out, bytes); }
static long fault_sysconf(int what) { FAIL(sysconf, -1) return sysconf(what); }
static int fault_prctl(int what, char *name) { FAIL(prctl, -1) return prctl(what, name, 0, 0, 0); }
static ssize_t fault_write(int file, const void *data, size_t bytes) {
    const char *text = (const char *)data;
    size_t i;
    if (file != 2) return write(file, data, bytes);
    for (i = 0; i < bytes; i++) fault.lines += text[i] == '\n';
    snprintf(fault.said + strlen(fault.said), sizeof fault.said - strlen(fault.said), "%.*s", (int)bytes, text);
    return (ssize_t)bytes;
}

#define open(...) fault_open(__VA_ARGS__)
#define close(f) fault_close(f)
#define read(f, p, n) fault_read(f, p, n)
#define readlink(p, o, n) fault_readlink(p, o, n)
#define getrusage(w, u) fault_getrusage(w, u)
#define mmap(a, b, p, f, d, o) fault_mmap(a, b, p, f, d, o)
#define sigaltstack(s, o) fault_sigaltstack(s, o)
#define getrlimit(w, l) fault_getrlimit((int)(w), l)
#define pthread_getattr_np(t, a) fault_pthread_getattr_np(t, a)
#define fstat(f, i) fault_fstat(f, i)
#define stat(p, i) fault_stat(p, i)
#define pwrite(f, p, n, o) fault_pwrite(f, p, n, o)
#define pwritev(f, p, n, o) fault_pwritev(f, p, n, o)
#define posix_fallocate(f, o, n) fault_posix_fallocate(f, o, n)
#define pread(f, p, n, o) fault_pread(f, p, n, o)
#define fdatasync(f) fault_fdatasync(f)
#define flock(f, h) fault_flock(f, h)
#define unlink(p) fault_unlink(p)
#define pthread_key_create(k, d) fault_pthread_key_create(k, d)
#define pthread_atfork(a, b, c) fault_pthread_atfork(a, b, c)
#define pthread_setspecific(k, v) fault_pthread_setspecific(k, v)
#define gethostname(o, n) fault_gethostname(o, n)
#define sysconf(w) fault_sysconf(w)
#define prctl(w, n, a, b, c) fault_prctl(w, n)
#define write(f, p, n) fault_write(f, p, n)
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"
#undef open
#undef close
#undef read
#undef readlink
#undef getrusage
#undef mmap
#undef sigaltstack
#undef getrlimit
#undef pthread_getattr_np
#undef fstat
#undef stat
#undef pwrite
#undef pwritev
#undef posix_fallocate
#undef pread
#undef fdatasync
#undef flock
#undef unlink
#undef pthread_key_create
#undef pthread_atfork
#undef pthread_setspecific
#undef gethostname
#undef sysconf
#undef prctl
#undef write

#include "check.h"
#include "dump_reader.h"
#include <dirent.h>

/* ---- a program that records ---- */

enum { TEXTS = 24, SHORTS = 8200, DEEP = 200 };

/* What the program did and what it found; shared with the test. */
static struct outcome {
    uint64_t attempted, result, recorded, dropped, held, held_dropped, unfinished, held_unfinished;
    int calls, failed, kind, lines, start, stop, finished, errno_changed, mask_changed, files, recording;
    char error[256], said[2048];
} *outcome;

static void keep_errno(void) {
    if (errno != 77) outcome->errno_changed++;
    errno = 77;
}

static void deep(int depth) {
    SPANPROF_SPAN("deep");
    outcome->attempted++;
    keep_errno();
    if (depth > 1) deep(depth - 1);
}

static void *work(void *argument) {
    static char text[3000];
    const spanprof_span *foreign = (const spanprof_span *)argument;
    int i;
    memset(text, 't', sizeof text - 1);
    errno = 77;
    SPANPROF_THREAD_NAME("worker");
    for (i = 0; i < TEXTS; i++) {
        SPANPROF_SPAN("text");
        SPANPROF_ATTR_STR("long", text);
        outcome->attempted++;
        outcome->result += (uint64_t)i;
        keep_errno();
    }
    for (i = 0; i < SHORTS; i++) {
        SPANPROF_SPAN("short");
        outcome->attempted++;
    }
    deep(DEEP);
    SPANPROF_BEGIN("pair");
    SPANPROF_INSTANT("moment");
    SPANPROF_COUNTER("level", i);
    outcome->attempted += 3;
    SPANPROF_END();
    if (foreign) spanprof_end(*foreign);
    keep_errno();
    return NULL;
}

static int open_files(void) {
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    if (!folder) return 0;
    while (readdir(folder)) count++;
    closedir(folder);
    return count;
}

static void program(void) {
    static spanprof_site handed = SPANPROF_SITE("handed over");
    spanprof_config config;
    spanprof_session_stats stats;
    spanprof_span span;
    pthread_t thread;
    sigset_t before, after;
    dr_dump *d;
    const int files = open_files();
    memset(&config, 0, sizeof config);
    memset(&before, 0, sizeof before);
    memset(&after, 0, sizeof after);
    config.path = "calls.dump";
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    errno = 77;
    outcome->start = (int)spanprof_start(&config);
    outcome->recording = spanprof_recording();
    keep_errno();
    span = spanprof_begin(&handed);
    outcome->attempted++;
    pthread_create(&thread, NULL, work, &span);
    pthread_join(thread, NULL);
    errno = 77;
    work(NULL);
    spanprof_flush();
    keep_errno();
    spanprof_pause();
    {
        SPANPROF_SPAN("not recorded");
    }
    spanprof_resume();
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
    errno = 77;
    outcome->stop = (int)spanprof_stop();
    keep_errno();
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    outcome->mask_changed = memcmp(&before, &after, sizeof before) != 0;
    outcome->files = open_files() - files;
    outcome->calls = fault.calls;
    outcome->failed = fault.failed;
    outcome->kind = fault.kind;
    outcome->lines = fault.lines;
    memcpy(outcome->said, fault.said, sizeof outcome->said);
    fault.nth = 0;
    if (outcome->start == SPANPROF_OK) {
        memset(&stats, 0, sizeof stats);
        spanprof_stats(&stats);
        outcome->recorded = stats.recorded;
        outcome->dropped = stats.dropped;
        outcome->unfinished = stats.unfinished;
        d = dr_load(stats.path);
        snprintf(outcome->error, sizeof outcome->error, "%s", d->error);
        outcome->held = dr_events(d);
        outcome->held_dropped = dr_dropped(d);
        outcome->held_unfinished = dr_unfinished(d, NULL);
    }
    outcome->finished = 1;
    _exit(0);
}

/* Runs the program with a fault; the kind of call that failed, -1 when it makes fewer calls than that. */
static int run(int nth, int from_then_on, int error) {
    char what[160];
    int status = 0, good = 1, harmed, writes;
    unsigned failed = check_failed;
    pid_t pid;
    memset(outcome, 0, sizeof *outcome);
    system("rm -f calls.dump calls.dump.*");
    fault.nth = nth;
    fault.from_then_on = from_then_on;
    fault.error = error;
    pid = fork();
    if (!pid) program();
    waitpid(pid, &status, 0);
    if (nth && !outcome->failed && outcome->finished) return -1;
    good &= CHECK_INT(0, status);
    good &= CHECK_INT(1, outcome->finished);
    if (!good) {
        printf("    call %d%s, error %d\n", nth, from_then_on ? " and later ones" : "", error);
        return outcome->finished ? outcome->kind : -2;
    }
    harmed = outcome->start != SPANPROF_OK || outcome->dropped > 0;
    /* A final write that fails leaves private windows behind: what is in them can't be in the file. */
    writes = outcome->kind == KIND_pwrite || outcome->kind == KIND_pwritev;
    CHECK_U64(3 * (TEXTS * (TEXTS - 1) / 2), outcome->result);
    CHECK_INT(0, outcome->errno_changed);
    CHECK_INT(0, outcome->mask_changed);
    if (outcome->kind != KIND_setspecific && outcome->kind != KIND_fstat) CHECK_INT(0, outcome->files);
    if (harmed) CHECK_INT(1, outcome->lines);
    else CHECK(outcome->lines <= 1);
    if (outcome->start == SPANPROF_OK) {
        CHECK_INT(1, outcome->recording);
        CHECK_U64(outcome->attempted, outcome->recorded + outcome->dropped);
        CHECK_STR("", outcome->error);
        CHECK_U64(outcome->recorded, outcome->held);
        CHECK_U64(outcome->dropped, outcome->held_dropped);
        CHECK_U64(outcome->unfinished, outcome->held_unfinished);
    } else {
        CHECK_INT(0, outcome->recording);
    }
    (void)writes;
    if (check_failed != failed) {
        snprintf(what, sizeof what, "call %d (%s)%s fails with error %d (%s)", nth, calls[outcome->kind].name, from_then_on ? " and later ones" : "",
                 calls[outcome->kind].errors[error % 3], strerror(calls[outcome->kind].errors[error % 3]));
        printf("    %s\n    said: %s\n", what, outcome->said[0] ? outcome->said : "nothing\n");
    }
    return outcome->kind;
}

int main(int argc, char **argv) {
    const int all = argc > 1 && !strcmp(argv[1], "all");
    int later, nth, error, kind, faults = 0, per_kind[KINDS] = { 0 };
    outcome = (struct outcome *)mmap(NULL, sizeof *outcome, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (outcome == MAP_FAILED) return 1;
    run(0, 0, 0);
    CHECK_INT(0, outcome->lines);
    CHECK_U64(0, outcome->dropped);
    printf("%d calls, %" PRIu64 " events\n", outcome->calls, outcome->attempted);
    for (later = 0; later < 2; later++) {
        for (nth = 1, kind = 0; kind != -1; nth++) {
            for (error = 0; error < 3 && kind != -1; error++) {
                if (!all && error != (nth + later) % 3) continue;
                kind = run(nth, later, error);
                faults += kind >= 0;
                if (kind >= 0) per_kind[kind]++;
            }
        }
    }
    for (kind = 0; kind < KINDS; kind++)
        if (!per_kind[kind]) printf("    (no %s)\n", calls[kind].name);
    printf("%d faults\n", faults);
    return CHECK_DONE();
}
