/* cuda_fake_hooks.c - synchronized CUDA spans and buffer counters on the fake runtime: what is called and in which order,
 * error texts, what stays untouched (last error, device, contexts, captures). SPDX-License-Identifier: MIT */
#define SPANPROF_CUDA
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include "child.h"
#include "fake_cudart.h"
#include "session.h"
#include <pthread.h>

static struct CUstream_st *stream0, *stream1; /* of device 0 and 1 */

static const char *text_of(const dr_dump *d, const char *name, spanprof_meta_index member) { return dr_meta_text(d, dr_find(d, name, 0), member); }
static int64_t number_of(const dr_dump *d, const char *name, spanprof_meta_index member) { return dr_meta_number(d, dr_find(d, name, 0), member); }
static int64_t device_of(const dr_dump *d, const char *name) {
    const dr_span *s = dr_find(d, name, 0);
    return dr_has(d, s, SPANPROF_META_device_index) ? dr_meta_number(d, s, SPANPROF_META_device_index) : -1;
}
/* A span without error, and what its fields must be. */
static void check_synchronized(const dr_dump *d, const char *name, const char *timing, int device) {
    CHECK_U64(1, dr_count(d, name));
    CHECK_STR(timing, text_of(d, name, SPANPROF_META_timing));
    CHECK_STR("cuda", text_of(d, name, SPANPROF_META_device));
    CHECK_STR(NULL, text_of(d, name, SPANPROF_META_hook_error));
    CHECK_INT(device, device_of(d, name));
}
static void check_error(const dr_dump *d, const char *name, const char *error) {
    CHECK_U64(1, dr_count(d, name));
    CHECK_STR("host", text_of(d, name, SPANPROF_META_timing));
    CHECK_STR(error, text_of(d, name, SPANPROF_META_hook_error));
}

static void test_order(void) {
    dr_dump *d;
    session_open("order.dump");
    { SPANPROF_CUDA_SPAN("first"); }
    fake_clear_log();
    { SPANPROF_CUDA_SPAN("wide"); CHECK_STR("cuCtxGetDevice ", fake_log()); }
    CHECK_STR("cuCtxGetDevice cuCtxGetDevice cuStreamIsCapturing cuCtxSynchronize ", fake_log());
    fake_clear_log();
    { SPANPROF_CUDA_STREAM_SPAN("stream", stream0); CHECK_STR("cuCtxGetCurrent cuStreamGetCtx cuCtxGetDevice ", fake_log()); }
    CHECK_STR("cuCtxGetCurrent cuStreamGetCtx cuCtxGetDevice cuCtxGetCurrent cuStreamGetCtx cuCtxGetDevice "
              "cuThreadExchangeStreamCaptureMode cuStreamIsCapturing cuStreamSynchronize cuThreadExchangeStreamCaptureMode ", fake_log());
    { SPANPROF_CUDA_STREAM_SPAN("null stream", NULL); }
    { SPANPROF_CUDA_SPAN_META("meta", .phase = "forward", .device = "cuda:0", .step = 0); }
    { SPANPROF_CUDA_STREAM_SPAN_META("stream meta", stream0, .phase = "backward"); }
    { SPANPROF_SPAN_HOOKED("by value", &spanprof_cuda_hooks, .dtype = "float32"); }
    d = session_close();
    check_synchronized(d, "wide", "device-synchronized", 0);
    check_synchronized(d, "stream", "stream-synchronized", 0);
    check_synchronized(d, "null stream", "stream-synchronized", 0);
    check_synchronized(d, "stream meta", "stream-synchronized", 0);
    check_synchronized(d, "by value", "device-synchronized", 0);
    CHECK_STR("cuda:0", text_of(d, "meta", SPANPROF_META_device));
    CHECK_STR("forward", text_of(d, "meta", SPANPROF_META_phase));
    CHECK_INT(0, number_of(d, "wide", SPANPROF_META_alloc_live_bytes));
    CHECK_INT(0, number_of(d, "wide", SPANPROF_META_alloc_peak_bytes));
    CHECK_INT(0, number_of(d, "wide", SPANPROF_META_alloc_delta_bytes));
    dr_free(d);
    /* not recording: no call at all */
    fake_clear_log();
    { SPANPROF_CUDA_SPAN("off"); SPANPROF_CUDA_STREAM_SPAN("off too", stream0); SPANPROF_CUDA_DEVICE_SPAN("and off", stream0); }
    CHECK_STR("", fake_log());
}

static void test_errors(void) {
    dr_dump *d;
    session_open("errors.dump");
    fake_fail("cuCtxSynchronize", 700, 1);
    { SPANPROF_CUDA_SPAN("sync fails"); }
    { SPANPROF_CUDA_SPAN("next"); }
    fake_fail("cuStreamSynchronize", 2, 1);
    { SPANPROF_CUDA_STREAM_SPAN("stream fails", stream0); }
    fake_fail("cuStreamGetCtx", 400, 1);
    { SPANPROF_CUDA_STREAM_SPAN("bad stream", stream0); }
    CHECK_INT(0, (int)cudaPeekAtLastError());
    /* a bad launch of the program, pending before and inside */
    fake_set_last_error(9);
    { SPANPROF_CUDA_SPAN("pending"); }
    fake_fail("cuCtxSynchronize", 700, 1);
    { SPANPROF_CUDA_SPAN("pending and failing"); }
    CHECK_INT(9, (int)cudaGetLastError());
    { SPANPROF_CUDA_SPAN("inside"); fake_set_last_error(9); }
    CHECK_INT(9, (int)cudaPeekAtLastError());
    { SPANPROF_CUDA_STREAM_SPAN("stream pending", stream0); }
    CHECK_INT(9, (int)cudaPeekAtLastError());
    fake_set_last_error(0);
    fake_stick(700);
    { SPANPROF_CUDA_STREAM_SPAN("sticky 1", stream0); }
    { SPANPROF_CUDA_SPAN("sticky 2"); }
    fake_stick(0);
    CHECK_INT(0, fake_context_depth() - 1);
    d = session_close();
    check_error(d, "sync fails", "complete_timing: cudaErrorIllegalAddress: an illegal memory access was encountered");
    check_synchronized(d, "next", "device-synchronized", 0);
    check_error(d, "stream fails", "complete_timing: cudaErrorMemoryAllocation: out of memory");
    check_error(d, "bad stream", "prepare: cudaErrorInvalidResourceHandle: invalid resource handle");
    check_synchronized(d, "pending", "device-synchronized", 0);
    check_error(d, "pending and failing", "complete_timing: cudaErrorIllegalAddress: an illegal memory access was encountered");
    check_synchronized(d, "inside", "device-synchronized", 0);
    check_synchronized(d, "stream pending", "stream-synchronized", 0);
    check_error(d, "sticky 1", "complete_timing: cudaErrorIllegalAddress: an illegal memory access was encountered");
    check_error(d, "sticky 2", "complete_timing: cudaErrorIllegalAddress: an illegal memory access was encountered");
    dr_free(d);
}

static void test_captures(void) {
    static const char capture[] = "complete_timing: stream capture in progress";
    struct CUstream_st *blocking = fake_stream(0, 0), *free_stream = fake_stream(0, 1);
    const int invalidated = fake_invalidated();
    dr_dump *d;
    int mode;
    session_open("captures.dump");
    for (mode = FAKE_GLOBAL; mode <= FAKE_RELAXED; mode++) {
        fake_begin_capture(blocking, mode);
        { SPANPROF_CUDA_SPAN("wide, blocking capture"); }
        { SPANPROF_CUDA_STREAM_SPAN("null stream, blocking capture", NULL); }
        { SPANPROF_CUDA_STREAM_SPAN("captured stream", blocking); }
        { SPANPROF_CUDA_STREAM_SPAN("other stream", stream0); }
        CHECK_INT(0, fake_end_capture(blocking));
        fake_begin_capture(free_stream, mode);
        { SPANPROF_CUDA_STREAM_SPAN("captured free stream", free_stream); }
        { SPANPROF_CUDA_STREAM_SPAN("other free stream", stream0); }
        spanprof_cuda_capture_begin();
        { SPANPROF_CUDA_SPAN("wide, declared capture"); }
        spanprof_cuda_capture_end();
        CHECK_INT(0, fake_end_capture(free_stream));
    }
    CHECK_INT(invalidated, fake_invalidated());
    spanprof_cuda_capture_end(); /* one too many */
    { SPANPROF_CUDA_SPAN("afterwards"); }
    fake_begin_capture(free_stream, FAKE_GLOBAL);
    { SPANPROF_CUDA_SPAN("wide, unseen capture"); }
    CHECK_INT(901, fake_end_capture(free_stream));
    d = session_close();
    for (mode = 0; mode < 3; mode++) {
        CHECK_STR(capture, dr_meta_text(d, dr_find(d, "wide, blocking capture", (size_t)mode), SPANPROF_META_hook_error));
        CHECK_STR("host", dr_meta_text(d, dr_find(d, "wide, blocking capture", (size_t)mode), SPANPROF_META_timing));
        CHECK_STR(capture, dr_meta_text(d, dr_find(d, "null stream, blocking capture", (size_t)mode), SPANPROF_META_hook_error));
        CHECK_STR(capture, dr_meta_text(d, dr_find(d, "captured stream", (size_t)mode), SPANPROF_META_hook_error));
        CHECK_STR(capture, dr_meta_text(d, dr_find(d, "captured free stream", (size_t)mode), SPANPROF_META_hook_error));
        CHECK_STR(capture, dr_meta_text(d, dr_find(d, "wide, declared capture", (size_t)mode), SPANPROF_META_hook_error));
        CHECK_STR("stream-synchronized", dr_meta_text(d, dr_find(d, "other stream", (size_t)mode), SPANPROF_META_timing));
        CHECK_STR("stream-synchronized", dr_meta_text(d, dr_find(d, "other free stream", (size_t)mode), SPANPROF_META_timing));
    }
    check_synchronized(d, "afterwards", "device-synchronized", 0);
    check_error(d, "wide, unseen capture", "complete_timing: cudaErrorStreamCaptureUnsupported: operation not permitted when stream is capturing");
    dr_free(d);
}

static void *bare_thread(void *out) {
    int device = -1;
    { SPANPROF_CUDA_SPAN("bare thread"); }
    { SPANPROF_CUDA_STREAM_SPAN("bare thread, null stream", NULL); }
    { SPANPROF_CUDA_STREAM_SPAN("bare thread, stream 1", stream1); }
    *(int *)out = fake_context_depth();
    cudaGetDevice(&device);
    CHECK_INT(0, device);
    return NULL;
}
static void test_devices(void) {
    const int contexts = fake_contexts_made();
    pthread_t thread;
    int device = -1, left = -1;
    dr_dump *d;
    session_open("devices.dump");
    spanprof_buffer_acquire(1, 4096);
    { SPANPROF_CUDA_STREAM_SPAN("device 1", stream1); spanprof_buffer_acquire(1, 100); spanprof_buffer_acquire(0, 7); }
    cudaGetDevice(&device);
    CHECK_INT(0, device);
    CHECK_INT(1, fake_context_depth());
    { SPANPROF_CUDA_SPAN("moves"); cudaSetDevice(1); }
    cudaGetDevice(&device);
    CHECK_INT(1, device);
    cudaSetDevice(0);
    spanprof_buffer_release(1, 4196);
    spanprof_buffer_release(0, 7);
    /* A thread that has not used CUDA has no context of its own; it must not keep one from us. */
    pthread_create(&thread, NULL, bare_thread, &left);
    pthread_join(thread, NULL);
    CHECK_INT(0, left);
    CHECK_INT(0, fake_retained());
    CHECK_INT(contexts, fake_contexts_made());
    d = session_close();
    check_synchronized(d, "device 1", "stream-synchronized", 1);
    CHECK_INT(4196, number_of(d, "device 1", SPANPROF_META_alloc_live_bytes));
    CHECK_INT(100, number_of(d, "device 1", SPANPROF_META_alloc_delta_bytes));
    check_synchronized(d, "moves", "device-synchronized", 1);
    CHECK_INT(0, dr_has(d, dr_find(d, "moves", 0), SPANPROF_META_alloc_delta_bytes));
    CHECK_INT(4196, number_of(d, "moves", SPANPROF_META_alloc_live_bytes));
    check_synchronized(d, "bare thread", "device-synchronized", 0);
    check_synchronized(d, "bare thread, null stream", "stream-synchronized", 0);
    check_synchronized(d, "bare thread, stream 1", "stream-synchronized", 1);
    dr_free(d);
}

static void *churn(void *unused) {
    int i;
    (void)unused;
    for (i = 0; i < 50000; i++) {
        spanprof_buffer_acquire(2, 64);
        spanprof_buffer_release(2, 64);
    }
    return NULL;
}
static void test_counters(void) {
    pthread_t threads[8];
    void *a = NULL, *b = NULL, *many[1000];
    int i;
    dr_dump *d;
    /* other tests have raised the peak of device 0 */
    spanprof_buffer_reset_peak(0);
    session_open("counters.dump");
    { SPANPROF_CUDA_SPAN("64 MiB and back"); spanprof_buffer_acquire(0, 64u << 20); spanprof_buffer_release(0, 64u << 20); }
    { SPANPROF_CUDA_SPAN("after it"); }
    spanprof_buffer_reset_peak(0);
    { SPANPROF_CUDA_SPAN("allocates"); CHECK_INT(0, (int)spanprof_cuda_malloc(&a, 1000)); CHECK_INT(0, (int)spanprof_cuda_malloc(&b, 24)); }
    { SPANPROF_CUDA_SPAN("frees"); CHECK_INT(0, (int)spanprof_cuda_free(a)); }
    d = session_close();
    CHECK_INT(0, number_of(d, "64 MiB and back", SPANPROF_META_alloc_delta_bytes));
    CHECK_INT(64 << 20, number_of(d, "64 MiB and back", SPANPROF_META_alloc_peak_bytes));
    CHECK_INT(0, number_of(d, "after it", SPANPROF_META_alloc_delta_bytes));
    CHECK_INT(0, number_of(d, "after it", SPANPROF_META_alloc_live_bytes));
    CHECK_INT(64 << 20, number_of(d, "after it", SPANPROF_META_alloc_peak_bytes));
    CHECK_INT(1024, number_of(d, "allocates", SPANPROF_META_alloc_delta_bytes));
    CHECK_INT(1024, number_of(d, "allocates", SPANPROF_META_alloc_peak_bytes));
    CHECK_INT(-1000, number_of(d, "frees", SPANPROF_META_alloc_delta_bytes));
    CHECK_INT(24, number_of(d, "frees", SPANPROF_META_alloc_live_bytes));
    CHECK_INT(1024, number_of(d, "frees", SPANPROF_META_alloc_peak_bytes));
    dr_free(d);
    CHECK_INT(0, (int)spanprof_cuda_free(b));
    CHECK_INT(0, (int)spanprof_cuda_free(NULL));
    CHECK_U64(0, spanprof_buffer_live(0));

    /* errors are the plain calls' errors, and nothing is counted */
    fake_fail("cudaMalloc", 2, 1);
    CHECK_INT(2, (int)spanprof_cuda_malloc(&a, 10));
    CHECK_INT(2, (int)cudaGetLastError());
    CHECK_U64(0, spanprof_buffer_live(0));
    CHECK_INT(0, (int)spanprof_cuda_malloc(&a, 10));
    fake_fail("cudaFree", 700, 1);
    CHECK_INT(700, (int)spanprof_cuda_free(a));
    CHECK_INT(700, (int)cudaGetLastError());
    CHECK_U64(10, spanprof_buffer_live(0));
    CHECK_INT(0, (int)spanprof_cuda_free(a));
    CHECK_U64(0, spanprof_buffer_live(0));
    CHECK_INT(0, (int)cudaMalloc(&a, 10)); /* not registered */
    CHECK_INT(0, (int)spanprof_cuda_free(a));
    CHECK_INT(0, (int)spanprof_cuda_malloc(&a, 0));
    CHECK_U64(0, spanprof_buffer_live(0));

    /* many pointers, freed in another order */
    for (i = 0; i < 1000; i++) spanprof_cuda_malloc(&many[i], (size_t)i + 1);
    CHECK_U64(500500, spanprof_buffer_live(0));
    for (i = 0; i < 1000; i++) spanprof_cuda_free(many[(i * 7) % 1000]);
    CHECK_U64(0, spanprof_buffer_live(0));
    CHECK_U64(500500, spanprof_buffer_peak(0));

    for (i = 0; i < 8; i++) pthread_create(&threads[i], NULL, churn, NULL);
    for (i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    CHECK_U64(0, spanprof_buffer_live(2));
    CHECK_RANGE(64, 8 * 64, (double)spanprof_buffer_peak(2));

    spanprof_buffer_acquire(-1, 5);
    spanprof_buffer_acquire(64, 5);
    spanprof_buffer_release(64, 5);
    CHECK_U64(0, spanprof_buffer_live(-1));
    CHECK_U64(0, spanprof_buffer_live(64));
    CHECK_U64(0, spanprof_buffer_peak(64));
}

static void test_memory(void) {
    spanprof_cuda_memory_info m;
    CHECK_INT(SPANPROF_OK, spanprof_cuda_memory(&m));
    CHECK_INT(SPANPROF_CUDA_MEMORY_DEVICE | SPANPROF_CUDA_MEMORY_POOL, (int)m.has);
    CHECK_INT(0, m.device);
    CHECK_U64(1000, m.device_free);
    CHECK_U64(4000, m.device_total);
    CHECK_U64(64, m.pool_used);
    CHECK_U64(256, m.pool_reserved);
    fake_fail("cuMemPoolGetAttribute", 801, 1);
    CHECK_INT(SPANPROF_OK, spanprof_cuda_memory(&m));
    CHECK_INT(SPANPROF_CUDA_MEMORY_DEVICE, (int)m.has);
    CHECK_U64(0, m.pool_used);
    CHECK_INT(SPANPROF_ERR_ARGUMENT, spanprof_cuda_memory(NULL));
}

/* ---- each in a process of its own ---- */

static void three_spans(void) {
    void *p = NULL;
    spanprof_cuda_memory_info m;
    printf("pending %d\n", (int)cudaPeekAtLastError());
    { SPANPROF_CUDA_SPAN("a"); }
    { SPANPROF_CUDA_STREAM_SPAN("b", NULL); }
    { SPANPROF_CUDA_DEVICE_SPAN("c", NULL); }
    printf("pending %d contexts %d memory %d\n", (int)cudaPeekAtLastError(), fake_contexts_made(), (int)spanprof_cuda_memory(&m));
    CHECK((int)spanprof_cuda_malloc(&p, 8) != 0);
}
static void check_fallback(const char *env, const char *error, const char *before_and_after) {
    char line[256], expected[256];
    dr_dump *d;
    snprintf(line, sizeof line, "SPANPROF=1 SPANPROF_OUT=child.dump %s", env);
    CHECK_INT(0, child_run(line, "three"));
    snprintf(expected, sizeof expected, "spanprof: CUDA spans are not synchronized with the device: %s\n", error);
    CHECK_STR(expected, child_err);
    CHECK_STR(before_and_after, child_out);
    snprintf(expected, sizeof expected, "prepare: %s", error);
    d = dr_load("child.dump");
    CHECK_STR("", d->error);
    check_error(d, "a", expected);
    check_error(d, "b", expected);
    check_error(d, "c", expected);
    CHECK_INT(0, dr_has(d, dr_find(d, "a", 0), SPANPROF_META_alloc_live_bytes));
    CHECK_U64(0, d->tracks_count);
    dr_free(d);
    /* the same program, not recording */
    CHECK_INT(0, child_run(env, "three"));
    CHECK_STR("", child_err);
}
static void test_fallback(void) {
    check_fallback("FAKE_CUDA_DEVICES=0", "cudaErrorNoDevice: no CUDA-capable device is detected", "pending 0\npending 0 contexts 0 memory 2\n");
    check_fallback("FAKE_CUDA_START=35", "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version",
                   "pending 35\npending 35 contexts 0 memory 2\n");
    /* the program has seen the error itself, and left it */
    check_fallback("FAKE_CUDA_DEVICES=0 FAKE_CUDA_PENDING=100", "cudaErrorNoDevice: no CUDA-capable device is detected",
                   "pending 100\npending 100 contexts 0 memory 2\n");
    check_fallback("FAKE_CUDA_START=4", "cudaErrorCudartUnloading: driver shutting down", "pending 0\npending 0 contexts 0 memory 2\n");
}

static void test_children(void) {
    dr_dump *d;
    /* a program without CUDA work gets no context, and no error; nothing was waited for */
    CHECK_INT(0, child_run("SPANPROF=1 SPANPROF_OUT=idle.dump", "idle"));
    CHECK_STR("contexts 0, pending 0\n", child_out);
    CHECK_STR("", child_err);
    d = dr_load("idle.dump");
    CHECK_STR("host", text_of(d, "a", SPANPROF_META_timing));
    CHECK_STR(NULL, text_of(d, "a", SPANPROF_META_hook_error));
    CHECK_STR(NULL, text_of(d, "a", SPANPROF_META_device));
    CHECK_STR("prepare: no CUDA context yet", text_of(d, "c", SPANPROF_META_hook_error));
    dr_free(d);
    /* the first use of CUDA is inside the span, after an error of the program */
    CHECK_INT(0, child_run("SPANPROF=1 SPANPROF_OUT=inside.dump FAKE_CUDA_PENDING=9", "inside"));
    CHECK_STR("pending 9\n", child_out);
    d = dr_load("inside.dump");
    check_synchronized(d, "a", "device-synchronized", 0);
    dr_free(d);
    /* one device: nothing to ask for */
    CHECK_INT(0, child_run("SPANPROF=1 SPANPROF_OUT=single.dump FAKE_CUDA_DEVICES=1", "single"));
    CHECK_STR("cuStreamIsCapturing cuCtxSynchronize \ncontext depth 0, retained 0\n", child_out);
    d = dr_load("single.dump");
    check_synchronized(d, "b", "device-synchronized", 0);
    check_synchronized(d, "bare thread", "device-synchronized", 0);
    dr_free(d);
    /* a driver that lacks what is needed */
    CHECK_INT(0, child_run("SPANPROF=1 SPANPROF_OUT=poor.dump FAKE_CUDA_MISSING=cuStreamIsCapturing", "poor"));
    d = dr_load("poor.dump");
    check_error(d, "a", "prepare: the driver has no cuStreamIsCapturing");
    dr_free(d);
    /* a device that is lost: each span says so, stderr once */
    CHECK_INT(0, child_run("SPANPROF=1 SPANPROF_OUT=lost.dump", "lost"));
    CHECK_STR("spanprof: CUDA spans are not synchronized with the device: cudaErrorIllegalAddress: an illegal memory access was encountered\n", child_err);
    d = dr_load("lost.dump");
    CHECK_U64(100, dr_count(d, "a"));
    CHECK_STR("complete_timing: cudaErrorIllegalAddress: an illegal memory access was encountered", dr_meta_text(d, dr_find(d, "a", 99), SPANPROF_META_hook_error));
    dr_free(d);
    /* a child of a process that has used CUDA: not one call */
    CHECK_INT(0, child_run("SPANPROF=1 SPANPROF_OUT=fork.dump", "fork"));
    CHECK_STR("child calls 0\nparent calls 0\n", child_out);
    {
        char path[64] = "";
        FILE *file = fopen("fork.child", "r");
        long pid = 0;
        if (file) {
            if (fscanf(file, "%ld", &pid) != 1) pid = 0;
            fclose(file);
        }
        snprintf(path, sizeof path, "fork.dump.%ld", pid);
        d = dr_load(path);
    }
    CHECK_STR("", d->error);
    check_error(d, "in child", "prepare: cudaErrorInitializationError: initialization error (forked after CUDA was initialized)");
    dr_free(d);
    d = dr_load("fork.dump");
    check_synchronized(d, "before", "device-synchronized", 0);
    check_synchronized(d, "after", "device-synchronized", 0);
    CHECK_U64(0, dr_count(d, "in child"));
    dr_free(d);
    /* spans while the driver unloads */
    CHECK_INT(7, child_run("SPANPROF=1 SPANPROF_OUT=unload.dump", "unload"));
    d = dr_load("unload.dump");
    CHECK_U64(1, dr_count(d, "at exit"));
    CHECK_STR("prepare: cudaErrorCudartUnloading: driver shutting down", text_of(d, "at exit", SPANPROF_META_hook_error));
    dr_free(d);
    /* released twice: told once */
    CHECK_INT(0, child_run("", "release"));
    CHECK_STR("spanprof: more buffer bytes released than acquired; counted as 0 live\n", child_err);
}

static void at_exit(void) { SPANPROF_CUDA_SPAN("at exit"); }
static int child(const char *what) {
    int i;
    if (!strcmp(what, "three")) {
        three_spans();
        return check_failed != 0;
    }
    if (!strcmp(what, "idle")) {
        { SPANPROF_CUDA_SPAN("a"); }
        { SPANPROF_CUDA_STREAM_SPAN("b", NULL); }
        { SPANPROF_CUDA_DEVICE_SPAN("c", NULL); }
        printf("contexts %d, pending %d\n", fake_contexts_made(), (int)cudaPeekAtLastError());
    }
    if (!strcmp(what, "inside")) {
        { SPANPROF_CUDA_SPAN("a"); fake_stream(0, 0); }
        printf("pending %d\n", (int)cudaPeekAtLastError());
    }
    if (!strcmp(what, "single")) {
        int left = -1;
        pthread_t thread;
        { SPANPROF_CUDA_SPAN("no context"); }
        fake_stream(0, 0);
        { SPANPROF_CUDA_SPAN("a"); }
        fake_clear_log();
        { SPANPROF_CUDA_SPAN("b"); }
        puts(fake_log());
        stream1 = fake_stream(0, 0);
        pthread_create(&thread, NULL, bare_thread, &left);
        pthread_join(thread, NULL);
        printf("context depth %d, retained %d\n", left, fake_retained());
    }
    if (!strcmp(what, "poor")) {
        { SPANPROF_CUDA_SPAN("a"); }
    }
    if (!strcmp(what, "lost")) {
        fake_stream(0, 0);
        fake_stick(700);
        for (i = 0; i < 100; i++) { SPANPROF_CUDA_SPAN("a"); }
    }
    if (!strcmp(what, "fork")) {
        pid_t pid;
        fake_stream(0, 0);
        { SPANPROF_CUDA_SPAN("before"); }
        fflush(stdout);
        {
            SPANPROF_CUDA_SPAN("after");
            pid = fork();
            if (!pid) {
                FILE *file = fopen("fork.child", "w");
                { SPANPROF_CUDA_SPAN("in child"); }
                { SPANPROF_CUDA_DEVICE_SPAN("in child too", NULL); }
                if (file) {
                    fprintf(file, "%ld\n", (long)getpid());
                    fclose(file);
                }
                printf("child calls %d\n", fake_orphan_calls());
                fflush(stdout);
                _exit(0);
            }
            waitpid(pid, NULL, 0);
        }
        printf("parent calls %d\n", fake_orphan_calls());
    }
    if (!strcmp(what, "unload")) {
        fake_stream(0, 0);
        atexit(at_exit);
        atexit(fake_unload);
        { SPANPROF_CUDA_SPAN("a"); }
        return 7;
    }
    if (!strcmp(what, "release")) {
        spanprof_buffer_acquire(0, 5);
        for (i = 0; i < 3; i++) spanprof_buffer_release(0, 5);
        return spanprof_buffer_live(0) != 0;
    }
    return 0;
}

int main(int argc, char **argv) {
    child_self = argv[0];
    if (argc > 1) return child(argv[1]);
    stream0 = fake_stream(0, 0);
    stream1 = fake_stream(1, 0);
    test_order();
    test_errors();
    test_captures();
    test_devices();
    test_counters();
    test_memory();
    test_fallback();
    test_children();
    return CHECK_DONE();
}
