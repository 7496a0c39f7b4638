/* cuda_fake_device.c - device spans on the fake runtime: events of a pool, read without waiting, on the stream's own track; with
 * times that the test sets. SPDX-License-Identifier: MIT */
#define SPANPROF_CUDA
#define SPANPROF_CUDA_MAX_PAIRS 40
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include "child.h"
#include "fake_cudart.h"
#include "session.h"
#include <pthread.h>
#include <time.h>

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
/* The nth device span of a name; NULL when there is none. */
static const dr_track *track_of(const dr_dump *d, const char *name, size_t nth) {
    size_t i;
    for (i = 0; i < d->tracks_count; i++)
        if (!strcmp(d->names[d->tracks[i].name], name) && !nth--) return &d->tracks[i];
    return NULL;
}
static size_t tracks_of(const dr_dump *d, const char *name) {
    size_t count = 0;
    while (track_of(d, name, count)) count++;
    return count;
}
static const dr_label *label_of(const dr_dump *d, uint64_t track) {
    size_t i;
    for (i = 0; i < d->labels_count; i++)
        if (d->labels[i].track == track) return &d->labels[i];
    return NULL;
}
static const char *error_of(const dr_dump *d, const char *name, size_t nth) { return dr_meta_text(d, dr_find(d, name, nth), SPANPROF_META_hook_error); }

static void test_one(void) {
    struct CUstream_st *stream = fake_stream(0, 1);
    const dr_track *t;
    const dr_label *label;
    const dr_span *host;
    uint64_t device;
    dr_dump *d;
    session_open("one.dump");
    { SPANPROF_CUDA_DEVICE_SPAN("base", stream); }
    device = now_ns() + 50000000; /* ahead of the host, so that no start is before its launch */
    fake_set_time(device);
    { SPANPROF_CUDA_DEVICE_SPAN("first", stream); fake_set_time(device += 1500); }
    fake_set_time(device += 1000000); /* a long queue */
    fake_clear_log();
    { SPANPROF_CUDA_DEVICE_SPAN("gemm", stream); fake_set_time(device += 57600); }
    CHECK_INT(2, fake_calls("cuEventRecord"));
    CHECK_INT(0, fake_calls("cuStreamSynchronize") + fake_calls("cuCtxSynchronize") + fake_calls("cuEventQuery"));
    CHECK_INT(2, fake_calls("cuStreamIsCapturing"));
    { SPANPROF_CUDA_DEVICE_SPAN("default", NULL); }
    d = session_close();
    fake_set_time(0);
    t = track_of(d, "gemm", 0);
    host = dr_find(d, "gemm", 0);
    CHECK_U64(4, d->tracks_count);
    CHECK_U64(1, dr_count(d, "gemm"));
    if (CHECK(t != NULL)) {
        CHECK_U64(57600, t->duration_ns);
        CHECK_U64(host->pos, t->pos);
        CHECK_U64(1, t->track); /* device 0, stream 1 */
        CHECK_RANGE(-5, 5, (double)(int64_t)(t->start_ns - (track_of(d, "first", 0)->start_ns + 1500 + 1000000))); /* the grid at 50 ms */
        CHECK_RANGE(0, 60e6, (double)t->queue_ns);
        CHECK_RANGE(-1e6, 1e6, (double)t->start_ns - (double)(device - 57600));
        label = label_of(d, t->track);
        if (CHECK(label != NULL)) {
            CHECK_STR("GPU 0", label->process);
            CHECK_STR("stream 1", label->name);
            CHECK_U64(0, label->group);
        }
    }
    CHECK_U64(1500, track_of(d, "first", 0)->duration_ns);
    CHECK(track_of(d, "first", 0)->queue_ns >= 0);
    label = label_of(d, 0);
    if (CHECK(label != NULL)) CHECK_STR("stream 0 (default)", label->name);
    CHECK_STR(NULL, error_of(d, "gemm", 0));
    dr_free(d);
}

/* Work that takes its time: nothing waits for it; it is read later. */
static void test_late(void) {
    struct CUstream_st *slow = fake_stream(0, 1), *quick = fake_stream(0, 1);
    spanprof_session_stats stats;
    dr_dump *d;
    int i;
    session_open("late.dump");
    { SPANPROF_CUDA_DEVICE_SPAN("warm", quick); }
    fake_hold(slow);
    fake_clear_log();
    { SPANPROF_CUDA_DEVICE_SPAN("slow", slow); }
    CHECK_INT(SPANPROF_OK, spanprof_flush());
    spanprof_stats(&stats);
    CHECK_U64(2 + 1, stats.recorded); /* two on the host, one on the device */
    for (i = 0; i < 35; i++) { SPANPROF_CUDA_DEVICE_SPAN("quick", quick); } /* read by its own successors, past the slow one */
    spanprof_stats(&stats);
    CHECK_RANGE(3 + 35 + 16, 3 + 35 + 35, (double)stats.recorded);
    fake_release(slow);
    { SPANPROF_CUDA_SPAN("synchronized"); } /* reads what is done */
    spanprof_stats(&stats);
    CHECK_U64(2 + 35 + 1 + 37, stats.recorded);
    CHECK_INT(0, fake_calls("cuStreamSynchronize"));
    d = session_close();
    CHECK_U64(1, tracks_of(d, "slow"));
    CHECK_U64(35, tracks_of(d, "quick"));
    CHECK_U64(0, dr_dropped(d));
    dr_free(d);
}

/* Still running when the session closes, or more in flight than there are pairs: told, counted, and no harm to what follows. */
static void test_bounds(void) {
    struct CUstream_st *stream = fake_stream(0, 1);
    int i, events;
    dr_dump *d;
    session_open("bounds.dump");
    fake_hold(stream);
    for (i = 0; i < 45; i++) { SPANPROF_CUDA_DEVICE_SPAN("held", stream); }
    d = session_close();
    CHECK_U64(45, dr_count(d, "held"));
    CHECK_U64(0, tracks_of(d, "held"));
    CHECK_STR(NULL, error_of(d, "held", 39));
    CHECK_STR("prepare: too many device spans in flight (SPANPROF_CUDA_MAX_PAIRS)", error_of(d, "held", 40));
    CHECK_U64(40, dr_dropped(d));
    dr_free(d);
    fake_release(stream);
    events = fake_events();
    session_open("bounds2.dump");
    for (i = 0; i < 1000; i++) { SPANPROF_CUDA_DEVICE_SPAN("again", stream); }
    d = session_close();
    CHECK_U64(1000, tracks_of(d, "again"));
    CHECK_U64(0, dr_dropped(d));
    CHECK_INT(events, fake_events());
    CHECK(label_of(d, track_of(d, "again", 0)->track) != NULL); /* named again in a new session */
    dr_free(d);
    /* open while the session changes: unfinished in the one, not in the other */
    session_open("bounds3.dump");
    {
        SPANPROF_CUDA_DEVICE_SPAN("across sessions", stream);
        d = session_close();
        CHECK_U64(1, dr_unfinished(d, "across sessions"));
        dr_free(d);
        session_open("bounds4.dump");
    }
    { SPANPROF_CUDA_DEVICE_SPAN("own", stream); }
    d = session_close();
    CHECK_U64(0, tracks_of(d, "across sessions"));
    CHECK_U64(1, tracks_of(d, "own"));
    dr_free(d);
}

static void test_captures(void) {
    struct CUstream_st *captured = fake_stream(0, 1), *other = fake_stream(0, 1);
    const int invalidated = fake_invalidated();
    dr_dump *d;
    int mode;
    session_open("captures.dump");
    for (mode = FAKE_GLOBAL; mode <= FAKE_RELAXED; mode++) {
        { SPANPROF_CUDA_DEVICE_SPAN("earlier", other); }
        fake_begin_capture(captured, mode);
        fake_clear_log();
        { SPANPROF_CUDA_DEVICE_SPAN("captured", captured); }
        CHECK_INT(0, fake_calls("cuEventRecord"));
        { SPANPROF_CUDA_DEVICE_SPAN("beside", other); }
        CHECK_INT(SPANPROF_OK, spanprof_flush()); /* asks events while this thread captures */
        CHECK_INT(0, fake_end_capture(captured));
        { SPANPROF_CUDA_DEVICE_SPAN("begins inside", captured); fake_begin_capture(captured, mode); }
        CHECK_INT(0, fake_end_capture(captured));
    }
    CHECK_INT(invalidated, fake_invalidated());
    d = session_close();
    for (mode = 0; mode < 3; mode++) {
        CHECK_STR("prepare: stream capture in progress", error_of(d, "captured", (size_t)mode));
        CHECK_STR("complete_timing: stream capture in progress", error_of(d, "begins inside", (size_t)mode));
        CHECK_STR(NULL, error_of(d, "beside", (size_t)mode));
    }
    CHECK_U64(3, tracks_of(d, "beside"));
    CHECK_U64(3, tracks_of(d, "earlier"));
    CHECK_U64(6, d->tracks_count);
    CHECK_U64(0, dr_dropped(d));
    dr_free(d);
}

static void *from_bare_thread(void *stream) {
    { SPANPROF_CUDA_DEVICE_SPAN("bare thread", (struct CUstream_st *)stream); }
    { SPANPROF_CUDA_DEVICE_SPAN("bare thread, default", NULL); }
    CHECK_INT(0, fake_context_depth());
    return NULL;
}
static void test_devices(void) {
    struct CUstream_st *stream1 = fake_stream(1, 1);
    struct CUstream_st *const per_thread = (struct CUstream_st *)2;
    pthread_t thread;
    int device = -1;
    dr_dump *d;
    const dr_label *label;
    session_open("devices.dump");
    { SPANPROF_CUDA_DEVICE_SPAN("device 1", stream1); }
    { SPANPROF_CUDA_DEVICE_SPAN("moves", NULL); cudaSetDevice(1); }
    cudaGetDevice(&device);
    CHECK_INT(1, device);
    cudaSetDevice(0);
    { SPANPROF_CUDA_DEVICE_SPAN("per thread", per_thread); }
    CHECK_INT(1, fake_context_depth());
    pthread_create(&thread, NULL, from_bare_thread, stream1);
    pthread_join(thread, NULL);
    CHECK_INT(0, fake_retained());
    CHECK_INT(0, (int)cudaPeekAtLastError());
    d = session_close();
    CHECK_U64((1ull << 32) + 1, track_of(d, "device 1", 0)->track);
    CHECK_STR("GPU 1", label_of(d, (1ull << 32) + 1)->process);
    CHECK_U64(1, label_of(d, (1ull << 32) + 1)->group);
    CHECK_U64((1ull << 32) + 1, track_of(d, "bare thread", 0)->track);
    CHECK_U64(0, track_of(d, "moves", 0)->track);
    CHECK_U64(0, track_of(d, "bare thread, default", 0)->track);
    label = label_of(d, track_of(d, "per thread", 0)->track);
    if (CHECK(label != NULL)) CHECK_CONTAINS("(per-thread default)", label->name);
    CHECK_U64(0, dr_dropped(d));
    dr_free(d);
}

/* cudaDeviceReset, also between a span's begin and end: the events are gone. The same handle then is another context. */
static void test_reset(void) {
    struct CUstream_st *stream;
    dr_dump *d;
    session_open("reset.dump");
    stream = fake_stream(2, 1);
    fake_hold(stream);
    { SPANPROF_CUDA_DEVICE_SPAN("lost", stream); }
    { SPANPROF_CUDA_DEVICE_SPAN("lost too", stream); }
    fake_reset_device(2);
    CHECK_INT(SPANPROF_OK, spanprof_flush());
    stream = fake_stream(2, 1);
    { SPANPROF_CUDA_DEVICE_SPAN("kept", stream); }
    fake_hold(stream);
    { SPANPROF_CUDA_DEVICE_SPAN("lost three", stream); }
    fake_reset_device(2);
    stream = fake_stream(2, 1);
    { SPANPROF_CUDA_DEVICE_SPAN("kept too", stream); } /* finds the old one gone */
    {
        SPANPROF_CUDA_DEVICE_SPAN("across", stream);
        fake_reset_device(2);
    }
    d = session_close();
    CHECK_U64(0, tracks_of(d, "lost") + tracks_of(d, "lost too") + tracks_of(d, "lost three") + tracks_of(d, "across"));
    CHECK_U64(0, tracks_of(d, "kept")); /* done, but not read before the reset */
    CHECK_STR("complete_timing: cudaErrorInvalidResourceHandle: invalid resource handle", error_of(d, "across", 0));
    CHECK_U64(5, dr_dropped(d));
    dr_free(d);
    cudaSetDevice(0);
}

/* A float of milliseconds rounds the starts; spans that touch must not cross for it, nor a nested one stick out. */
static void test_rounding(void) {
    struct CUstream_st *stream = fake_stream(0, 1);
    uint64_t device = now_ns(), origin;
    dr_dump *d;
    size_t i;
    int touching = 1, inside = 1, durations = 1;
    session_open("rounding.dump");
    fake_set_time(device);
    { SPANPROF_CUDA_DEVICE_SPAN("first", stream); }
    fake_set_time(origin = device += 50000000);
    { SPANPROF_CUDA_DEVICE_SPAN("base", stream); }
    device += 777777777;
    for (i = 0; i < 36; i += 2) {
        fake_set_time(device += 13);
        {
            SPANPROF_CUDA_DEVICE_SPAN("outer", stream);
            { SPANPROF_CUDA_DEVICE_SPAN("inner", stream); fake_set_time(device += 1003); }
        }
        CHECK_INT(SPANPROF_OK, spanprof_flush());
    }
    d = session_close();
    fake_set_time(0);
    for (i = 0; i < 18; i++) {
        const dr_track *o = track_of(d, "outer", i), *n = track_of(d, "inner", i), *next = track_of(d, "outer", i + 1);
        if (n->start_ns < o->start_ns || n->start_ns + n->duration_ns > o->start_ns + o->duration_ns) inside = 0;
        if (next && next->start_ns < o->start_ns + o->duration_ns) touching = 0;
        if (n->duration_ns != 1003 || o->duration_ns > 1003 + 130) durations = 0;
    }
    CHECK(touching);
    CHECK(inside);
    CHECK(durations);
    CHECK_RANGE(-130, 130, (double)track_of(d, "outer", 17)->start_ns - (double)track_of(d, "base", 0)->start_ns - (double)(device - 1003 - origin));
    dr_free(d);
}

/* Spans of a schedule's active step are read when it has paused. */
static void test_schedule(void) {
    struct CUstream_st *stream = fake_stream(0, 1);
    spanprof_config config;
    dr_dump *d;
    int step;
    CHECK_INT(SPANPROF_OK, spanprof_schedule(0, 1, 0, 1, 2));
    memset(&config, 0, sizeof config);
    config.path = "schedule.dump";
    CHECK_INT(SPANPROF_OK, spanprof_start(&config));
    for (step = 0; step < 6; step++) {
        fake_hold(stream);
        { SPANPROF_CUDA_DEVICE_SPAN("step", stream); }
        spanprof_step();
        fake_release(stream);
    }
    d = session_close();
    CHECK_U64(2, dr_count(d, "step"));
    CHECK_U64(2, tracks_of(d, "step"));
    CHECK_U64(0, dr_dropped(d));
    dr_free(d);
}

/* The base is renewed after a second, its event used again. */
static void test_base(void) {
    struct CUstream_st *stream = fake_stream(0, 1);
    const struct timespec second = { 1, 50000000 };
    dr_dump *d;
    int i, renewed = 0, events;
    session_open("base.dump");
    { SPANPROF_CUDA_DEVICE_SPAN("a", stream); }
    CHECK_INT(SPANPROF_OK, spanprof_flush());
    events = fake_events();
    for (i = 0; i < 2; i++) {
        nanosleep(&second, NULL);
        fake_clear_log();
        { SPANPROF_CUDA_DEVICE_SPAN("b", stream); }
        renewed += fake_calls("cuEventQuery") > 0;
        CHECK_INT(SPANPROF_OK, spanprof_flush());
        fake_clear_log();
        { SPANPROF_CUDA_DEVICE_SPAN("c", stream); }
        CHECK_INT(0, fake_calls("cuEventQuery"));
        CHECK_INT(SPANPROF_OK, spanprof_flush());
    }
    CHECK_INT(2, renewed);
    CHECK_RANGE(events, events + 1, fake_events());
    d = session_close();
    for (i = 0; i < 2; i++) {
        const dr_track *b = track_of(d, "b", (size_t)i);
        if (CHECK(b != NULL)) CHECK_RANGE(0, 1e7, (double)b->queue_ns);
    }
    dr_free(d);
}

static void test_failures(void) {
    struct CUstream_st *stream = fake_stream(0, 1);
    dr_dump *d;
    session_open("failures.dump");
    fake_fail("cuEventRecord", 700, 1);
    { SPANPROF_CUDA_DEVICE_SPAN("begin fails", stream); }
    { SPANPROF_CUDA_DEVICE_SPAN("end fails", stream); fake_fail("cuEventRecord", 700, 1); }
    fake_fail("cuStreamGetCtx", 400, 1);
    { SPANPROF_CUDA_DEVICE_SPAN("bad stream", stream); }
    fake_set_last_error(9);
    { SPANPROF_CUDA_DEVICE_SPAN("pending", stream); }
    CHECK_INT(9, (int)cudaGetLastError());
    { SPANPROF_CUDA_DEVICE_SPAN("unreadable", stream); }
    fake_stick(700);
    CHECK_INT(SPANPROF_OK, spanprof_flush());
    fake_stick(0);
    CHECK_INT(0, (int)cudaPeekAtLastError());
    d = session_close();
    CHECK_STR("prepare: cudaErrorIllegalAddress: an illegal memory access was encountered", error_of(d, "begin fails", 0));
    CHECK_STR("host", dr_meta_text(d, dr_find(d, "begin fails", 0), SPANPROF_META_timing));
    CHECK_STR("complete_timing: cudaErrorIllegalAddress: an illegal memory access was encountered", error_of(d, "end fails", 0));
    CHECK_STR("prepare: cudaErrorInvalidResourceHandle: invalid resource handle", error_of(d, "bad stream", 0));
    CHECK_STR(NULL, error_of(d, "pending", 0));
    CHECK_U64(0, d->tracks_count);
    CHECK_U64(2, dr_dropped(d)); /* pending, unreadable */
    dr_free(d);
}

static void *launches(void *stream) {
    int i;
    for (i = 0; i < 500; i++) { SPANPROF_CUDA_DEVICE_SPAN("thread", (struct CUstream_st *)stream); }
    return NULL;
}
static void test_threads(void) {
    struct CUstream_st *streams[4];
    pthread_t threads[4];
    dr_dump *d;
    int i;
    for (i = 0; i < 4; i++) streams[i] = fake_stream(i & 1, 1);
    session_open("threads.dump");
    for (i = 0; i < 4; i++) { SPANPROF_CUDA_DEVICE_SPAN("warm", streams[i]); } /* the fake's tables don't change under the threads */
    for (i = 0; i < 4; i++) pthread_create(&threads[i], NULL, launches, streams[i]);
    for (i = 0; i < 50; i++) spanprof_flush();
    for (i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    d = session_close();
    CHECK_U64(2000, dr_count(d, "thread"));
    {
        size_t failed = 0, k;
        for (k = 0; k < 2000; k++) failed += error_of(d, "thread", k) != NULL; /* out of pairs */
        CHECK_U64(2000, tracks_of(d, "thread") + failed);
    }
    CHECK_U64(0, dr_dropped(d));
    dr_free(d);
}

/* ---- in processes of their own ---- */

static int child(const char *what) {
    struct CUstream_st *const stream = fake_stream(0, 1);
    int i;
    if (!strcmp(what, "exit")) {
        for (i = 0; i < 20; i++) { SPANPROF_CUDA_DEVICE_SPAN("done", stream); }
        fake_hold(stream);
        { SPANPROF_CUDA_DEVICE_SPAN("running", stream); }
        return 5;
    }
    if (!strcmp(what, "unload")) {
        { SPANPROF_CUDA_DEVICE_SPAN("done", stream); }
        fake_unload();
        { SPANPROF_CUDA_DEVICE_SPAN("too late", stream); }
        return 6;
    }
    if (!strcmp(what, "fork")) {
        pid_t pid;
        int calls = 0;
        fflush(stdout);
        {
            SPANPROF_CUDA_DEVICE_SPAN("around", stream);
            pid = fork();
            if (!pid) calls = -1;
        }
        if (!pid) {
            { SPANPROF_CUDA_DEVICE_SPAN("in child", stream); }
            spanprof_flush();
            calls = fake_orphan_calls();
            exit(calls ? 1 : 0);
        }
        waitpid(pid, &calls, 0);
        return calls ? 9 : 0;
    }
    if (!strcmp(what, "off")) {
        { SPANPROF_CUDA_DEVICE_SPAN("off", stream); }
        puts(fake_log());
    }
    return 0;
}
static void test_children(void) {
    dr_dump *d;
    CHECK_INT(5, child_run("SPANPROF=1 SPANPROF_OUT=exit.dump", "exit"));
    CHECK_STR("", child_err);
    d = dr_load("exit.dump");
    CHECK_STR("", d->error);
    CHECK_U64(20, tracks_of(d, "done"));
    CHECK_U64(0, tracks_of(d, "running"));
    CHECK_U64(1, dr_dropped(d));
    dr_free(d);
    CHECK_INT(6, child_run("SPANPROF=1 SPANPROF_OUT=unload.dump", "unload"));
    d = dr_load("unload.dump");
    CHECK_U64(0, d->tracks_count);
    CHECK_U64(1, dr_dropped(d));
    CHECK_STR("prepare: cudaErrorCudartUnloading: driver shutting down", error_of(d, "too late", 0));
    dr_free(d);
    CHECK_INT(0, child_run("SPANPROF=1 SPANPROF_OUT=fork.dump", "fork"));
    d = dr_load("fork.dump");
    CHECK_U64(1, tracks_of(d, "around"));
    dr_free(d);
    CHECK_INT(0, child_run("SPANPROF=0", "off"));
    CHECK_STR("cuStreamCreate \n", child_out); /* the test's own */
}

int main(int argc, char **argv) {
    child_self = argv[0];
    if (argc > 1) return child(argv[1]);
    test_one();
    test_late();
    test_bounds();
    test_captures();
    test_devices();
    test_reset();
    test_rounding();
    test_failures();
    test_threads();
    test_base();
    test_schedule();
    test_children();
    return CHECK_DONE();
}
