/* spanprof_cuda_tests.cu - the CUDA checks on a real device, alone:
 *
 *     make CUDA=1 && CUDA_VISIBLE_DEVICES=0 build/spanprof_cuda_tests
 *
 * Each is skipped, and counted, where it needs a device (or a second one) that is not there, and in a build without CUDA.
 * Checks of what ends a process or needs a fresh one run this program again. SPDX-License-Identifier: MIT */
#define SPANPROF_CUDA
#ifdef SPANPROF_CUDA_STUB
#define SPANPROF_IMPLEMENTATION /* with CUDA it comes with the part of quickstart_mlp.c */
#endif
#include "spanprof.h"

#include "child.h"
#include "session.h"

#if !SPANPROF_I_CUDA

static int devices(void) { return 0; }
static const char reason[] = "built without CUDA (make CUDA=1)";
static int child(const char *what) { return what == NULL; }
#define TEST(name) static void name(void) {}

#else

#include "examples/quickstart_mlp.h"

#include <cmath>
#include <cuda_runtime.h>
#include <pthread.h>
#include <string>
#include <unistd.h>
#include <vector>

#define TEST(name) static void name(void)

static const char reason[] = "no CUDA device";
static int devices(void) {
    int count = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
    cudaGetLastError();
    return 0;
}

/* ---- helpers ---- */

#define GOOD(call) CHECK_INT(0, static_cast<int>(call))

__global__ static void spin(unsigned long long ns) {
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - begin < ns);
}
__global__ static void add_one(int *value) { atomicAdd(value, 1); }
__global__ static void trespass(int *nowhere) { *nowhere = 1; }

static uint64_t now_ns(void) { return spanprof_i_monotonic_ns(); }
static const char *text_of(const dr_dump *d, const char *name, spanprof_meta_index member, size_t nth = 0) { return dr_meta_text(d, dr_find(d, name, nth), member); }
static int64_t number_of(const dr_dump *d, const char *name, spanprof_meta_index member) { return dr_meta_number(d, dr_find(d, name, 0), member); }
static int64_t device_of(const dr_dump *d, const char *name) {
    const dr_span *s = dr_find(d, name, 0);
    return dr_has(d, s, SPANPROF_META_device_index) ? dr_meta_number(d, s, SPANPROF_META_device_index) : -1;
}
static void check_synchronized(const dr_dump *d, const char *name, const char *timing, int device) {
    CHECK(dr_count(d, name) > 0);
    CHECK_STR(timing, text_of(d, name, SPANPROF_META_timing));
    CHECK_STR("cuda", text_of(d, name, SPANPROF_META_device));
    CHECK_STR(NULL, text_of(d, name, SPANPROF_META_hook_error));
    CHECK_INT(device, device_of(d, name));
}
static const dr_track *track_of(const dr_dump *d, const char *name, size_t nth = 0) {
    for (size_t i = 0; i < d->tracks_count; i++)
        if (!strcmp(d->names[d->tracks[i].name], name) && !nth--) return &d->tracks[i];
    return NULL;
}
static size_t tracks_of(const dr_dump *d, const char *name) {
    size_t count = 0;
    while (track_of(d, name, count)) count++;
    return count;
}
/* 1 when the device has a primary context, asked as the header asks: without making one. */
static int context_exists(int device) {
    typedef int (*state_function)(int, unsigned *, int *);
    state_function state = NULL;
    void *address = NULL;
    unsigned flags;
    int active = -1;
#if CUDART_VERSION >= 12050
    cudaDriverEntryPointQueryResult found;
    GOOD(cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState", &address, 11030, cudaEnableDefault, &found));
#elif CUDART_VERSION >= 12000
    cudaDriverEntryPointQueryResult found;
    GOOD(cudaGetDriverEntryPoint("cuDevicePrimaryCtxGetState", &address, cudaEnableDefault, &found));
#else
    GOOD(cudaGetDriverEntryPoint("cuDevicePrimaryCtxGetState", &address, cudaEnableDefault));
#endif
    memcpy(&state, &address, sizeof state);
    return state && !state(device, &flags, &active) ? active : -1;
}
static std::string sibling(const char *name) {
    const std::string self = child_self;
    const size_t slash = self.rfind('/');
    return (slash == std::string::npos ? std::string("./") : self.substr(0, slash + 1)) + name;
}

/* ---- kernels against the CPU ---- */

static double distance(const std::vector<float> &a, const std::vector<float> &b) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < a.size(); i++) {
        difference += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
        size += double(a[i]) * a[i];
    }
    return std::sqrt(difference / (size > 0 ? size : 1));
}
static void parity(int hidden, int batch) {
    const size_t count = MLP_PARAMS(static_cast<size_t>(hidden)), samples = static_cast<size_t>(batch);
    std::vector<float> params(count), x(2 * samples), y(samples);
    std::vector<float> p[2], g[2], out[2];
    const mlp_backend *const backends[2] = { &mlp_cpu, &mlp_cuda };
    float minutes, loss[2] = { 0, 0 };
    mlp m[2];
    mlp_samples(x.data(), y.data(), batch, &minutes);
    for (size_t i = 0; i < 2 * samples; i++) x[i] += 0.001f * static_cast<float>(i % 97); /* no two samples alike */
    mlp_first_params(params.data(), hidden);
    for (int k = 0; k < 2; k++) {
        memset(&m[k], 0, sizeof m[k]);
        m[k].hidden = hidden;
        m[k].batch = batch;
        CHECK_STR(NULL, backends[k]->open(&m[k], params.data(), x.data(), y.data()));
    }
    for (int step = 0; step < 20; step++) {
        for (int k = 0; k < 2; k++) {
            p[k].assign(count, NAN);
            g[k].assign(count, NAN);
            out[k].assign(samples, NAN);
            backends[k]->forward(&m[k]);
            backends[k]->read(&m[k], NULL, NULL, out[k].data());
            loss[k] = backends[k]->loss(&m[k]);
            backends[k]->backward(&m[k]);
            backends[k]->update(&m[k], 0.05f);
            backends[k]->read(&m[k], p[k].data(), g[k].data(), NULL);
        }
        if (step == 0 || step == 19) {
            CHECK_RANGE(0, 1e-4, distance(out[0], out[1]));
            CHECK_RANGE(0, 1e-4, distance(g[0], g[1]));
            CHECK_RANGE(0, 1e-4, distance(p[0], p[1]));
            CHECK_RANGE(loss[0] * (1 - 1e-4), loss[0] * (1 + 1e-4), loss[1]);
        }
    }
    for (int k = 0; k < 2; k++) CHECK_STR(NULL, backends[k]->close(&m[k]));
    CHECK_U64(0, spanprof_buffer_live(0));
}
TEST(kernel_parity) {
    parity(8, 25);
    parity(33, 100);
    parity(256, 1025);
}

/* The example itself: the same losses on both, and what its spans say. */
TEST(quickstart) {
    const std::string program = sibling("quickstart_mlp");
    double losses[2][3];
    if (access(program.c_str(), X_OK)) {
        SKIP("quickstart: not built beside the tests");
        return;
    }
    for (int k = 0; k < 2; k++) {
        const std::string command = "SPANPROF=1 SPANPROF_OUT=quickstart.dump '" + program + "' --arithmetic native --steps 3 --device " + (k ? "cuda" : "cpu");
        CHECK_INT(0, child_command(command.c_str()));
        CHECK_STR("", child_err);
        const char *at = child_out;
        for (int i = 0; i < 3; i++) {
            at = strstr(at, " loss ");
            if (!CHECK(at != NULL)) return;
            losses[k][i] = atof(at += 6);
        }
    }
    for (int i = 0; i < 3; i++) CHECK_RANGE(losses[0][i] * (1 - 1e-5), losses[0][i] * (1 + 1e-5), losses[1][i]);
    dr_dump *d = dr_load("quickstart.dump");
    CHECK_STR("", d->error);
    static const char *const phases[] = { "model.forward", "loss.mse", "model.backward", "optimizer.sgd" };
    for (const char *phase : phases) {
        CHECK_U64(3, dr_count(d, phase));
        check_synchronized(d, phase, "device-synchronized", 0);
        CHECK(dr_has(d, dr_find(d, phase, 2), SPANPROF_META_alloc_live_bytes));
        CHECK(dr_has(d, dr_find(d, phase, 2), SPANPROF_META_alloc_peak_bytes));
    }
    CHECK_INT(25 * 9 * 4, number_of(d, "model.forward", SPANPROF_META_alloc_delta_bytes));
    CHECK_INT(-25 * 9 * 4, number_of(d, "model.backward", SPANPROF_META_alloc_delta_bytes));
    CHECK_U64(12, d->tracks_count);
    CHECK_U64(0, dr_dropped(d));
    dr_free(d);
}

/* ---- buffers ---- */

static void *allocate(void *device) {
    void *memory[16];
    cudaSetDevice(*static_cast<int *>(device));
    for (int round = 0; round < 20; round++) {
        for (void *&m : memory)
            if (spanprof_cuda_malloc(&m, 4096) != cudaSuccess) m = NULL;
        for (void *m : memory) spanprof_cuda_free(m);
    }
    return NULL;
}
TEST(buffers) {
    float *a = NULL, *b = NULL;
    void *plain = NULL;
    int device = 0;
    pthread_t threads[8];
    spanprof_buffer_reset_peak(0);
    session_open("buffers.dump");
    { SPANPROF_CUDA_SPAN("64 MiB and back"); GOOD(spanprof_cuda_malloc(&a, 64u << 20)); GOOD(spanprof_cuda_free(a)); }
    { SPANPROF_CUDA_SPAN("after it"); }
    spanprof_buffer_reset_peak(0);
    { SPANPROF_CUDA_SPAN("allocates"); GOOD(spanprof_cuda_malloc(&a, 1000)); GOOD(spanprof_cuda_malloc(&b, 24)); }
    { SPANPROF_CUDA_SPAN("frees"); GOOD(spanprof_cuda_free(a)); }
    { SPANPROF_CUDA_SPAN("not registered"); GOOD(cudaMalloc(&plain, 1 << 20)); }
    GOOD(spanprof_cuda_free(plain));
    GOOD(spanprof_cuda_free(b));
    dr_dump *d = session_close();
    check_synchronized(d, "allocates", "device-synchronized", 0);
    CHECK_INT(0, number_of(d, "64 MiB and back", SPANPROF_META_alloc_delta_bytes));
    CHECK_INT(64 << 20, number_of(d, "64 MiB and back", SPANPROF_META_alloc_peak_bytes));
    CHECK_INT(0, number_of(d, "after it", SPANPROF_META_alloc_delta_bytes));
    CHECK_INT(1024, number_of(d, "allocates", SPANPROF_META_alloc_delta_bytes));
    CHECK_INT(-1000, number_of(d, "frees", SPANPROF_META_alloc_delta_bytes));
    CHECK_INT(24, number_of(d, "frees", SPANPROF_META_alloc_live_bytes));
    CHECK_INT(1024, number_of(d, "frees", SPANPROF_META_alloc_peak_bytes));
    CHECK_INT(0, number_of(d, "not registered", SPANPROF_META_alloc_delta_bytes));
    dr_free(d);
    for (pthread_t &t : threads) pthread_create(&t, NULL, allocate, &device);
    for (pthread_t &t : threads) pthread_join(t, NULL);
    CHECK_U64(0, spanprof_buffer_live(0));
    CHECK_RANGE(16 * 4096, 8 * 16 * 4096, double(spanprof_buffer_peak(0)));
    CHECK_INT(1, spanprof_cuda_free(&device) != cudaSuccess); /* not a device pointer: the plain call's error */
    CHECK(cudaGetLastError() != cudaSuccess);
}
TEST(memory_figures) {
    spanprof_cuda_memory_info before, after;
    cudaStream_t stream;
    void *p = NULL;
    GOOD(cudaStreamCreate(&stream));
    CHECK_INT(SPANPROF_OK, spanprof_cuda_memory(&before));
    CHECK_INT(SPANPROF_CUDA_MEMORY_DEVICE | SPANPROF_CUDA_MEMORY_POOL, int(before.has));
    CHECK_RANGE(1e8, 1e13, double(before.device_total));
    CHECK(before.device_free <= before.device_total);
    GOOD(cudaMallocAsync(&p, 1 << 20, stream));
    CHECK_INT(SPANPROF_OK, spanprof_cuda_memory(&after));
    CHECK(after.pool_used >= before.pool_used + (1 << 20));
    CHECK(after.pool_reserved >= after.pool_used);
    GOOD(cudaFreeAsync(p, stream));
    GOOD(cudaStreamDestroy(stream));
}

/* ---- captures ---- */

TEST(captures) {
    static const cudaStreamCaptureMode modes[] = { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed };
    int *value = NULL, total = 0, expected = 0;
    cudaStream_t other;
    GOOD(cudaMalloc(&value, sizeof *value));
    GOOD(cudaMemset(value, 0, sizeof *value));
    GOOD(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    session_open("captures.dump");
    { SPANPROF_CUDA_DEVICE_SPAN("pending", other); add_one<<<1, 1, 0, other>>>(value); }
    expected++;
    for (const cudaStreamCaptureMode mode : modes)
        for (const unsigned flags : { cudaStreamDefault, cudaStreamNonBlocking }) {
            cudaStream_t stream;
            cudaGraph_t graph = NULL;
            cudaGraphExec_t exec = NULL;
            GOOD(cudaStreamCreateWithFlags(&stream, flags));
            GOOD(cudaStreamBeginCapture(stream, mode));
            if (flags == cudaStreamNonBlocking) spanprof_cuda_capture_begin();
            { SPANPROF_CUDA_SPAN("wide"); add_one<<<1, 1, 0, stream>>>(value); }
            { SPANPROF_CUDA_STREAM_SPAN("stream", stream); add_one<<<1, 1, 0, stream>>>(value); }
            { SPANPROF_CUDA_DEVICE_SPAN("device", stream); add_one<<<1, 1, 0, stream>>>(value); }
            { SPANPROF_CUDA_STREAM_SPAN("other stream", other); }
            { SPANPROF_CUDA_DEVICE_SPAN("other device", other); }
            CHECK_INT(SPANPROF_OK, spanprof_flush());
            if (flags == cudaStreamNonBlocking) spanprof_cuda_capture_end();
            GOOD(cudaStreamEndCapture(stream, &graph));
            if (!CHECK(graph != NULL)) continue;
            GOOD(cudaGraphInstantiate(&exec, graph, 0));
            {
                SPANPROF_CUDA_STREAM_SPAN("replay", stream);
                SPANPROF_CUDA_DEVICE_SPAN("replay on the device", stream);
                GOOD(cudaGraphLaunch(exec, stream));
                GOOD(cudaGraphLaunch(exec, stream));
            }
            expected += 6;
            GOOD(cudaStreamSynchronize(stream));
            GOOD(cudaGraphExecDestroy(exec));
            GOOD(cudaGraphDestroy(graph));
            GOOD(cudaStreamDestroy(stream));
        }
    { SPANPROF_CUDA_SPAN("afterwards"); }
    GOOD(cudaMemcpy(&total, value, sizeof total, cudaMemcpyDeviceToHost));
    CHECK_INT(expected, total);
    GOOD(cudaPeekAtLastError());
    dr_dump *d = session_close();
    for (size_t i = 0; i < 6; i++) {
        CHECK_STR("complete_timing: stream capture in progress", text_of(d, "wide", SPANPROF_META_hook_error, i));
        CHECK_STR("host", text_of(d, "wide", SPANPROF_META_timing, i));
        CHECK_STR("complete_timing: stream capture in progress", text_of(d, "stream", SPANPROF_META_hook_error, i));
        CHECK_STR("prepare: stream capture in progress", text_of(d, "device", SPANPROF_META_hook_error, i));
        CHECK_STR("stream-synchronized", text_of(d, "other stream", SPANPROF_META_timing, i));
        CHECK_STR("stream-synchronized", text_of(d, "replay", SPANPROF_META_timing, i));
    }
    CHECK_U64(0, tracks_of(d, "device"));
    CHECK_U64(6, tracks_of(d, "other device"));
    CHECK_U64(6, tracks_of(d, "replay on the device"));
    check_synchronized(d, "afterwards", "device-synchronized", 0);
    dr_free(d);
    GOOD(cudaFree(value));
    GOOD(cudaStreamDestroy(other));
}

/* ---- errors ---- */

TEST(pending_errors) {
    spin<<<1, 4096>>>(1); /* a bad launch */
    const cudaError_t bad = cudaGetLastError();
    CHECK(bad != cudaSuccess);
    session_open("pending.dump");
    spin<<<1, 4096>>>(1);
    { SPANPROF_CUDA_SPAN("wide"); }
    { SPANPROF_CUDA_STREAM_SPAN("stream", NULL); }
    { SPANPROF_CUDA_DEVICE_SPAN("device", NULL); }
    CHECK_INT(SPANPROF_OK, spanprof_flush());
    CHECK_INT(bad, cudaGetLastError());
    { SPANPROF_CUDA_SPAN("inside"); spin<<<1, 4096>>>(1); }
    CHECK_INT(bad, cudaGetLastError());
    GOOD(cudaGetLastError());
    dr_dump *d = session_close();
    check_synchronized(d, "wide", "device-synchronized", 0);
    check_synchronized(d, "stream", "stream-synchronized", 0);
    check_synchronized(d, "inside", "device-synchronized", 0);
    CHECK_U64(1, tracks_of(d, "device"));
    dr_free(d);
}
TEST(sticky_errors) {
    CHECK_INT(3, child_run("SPANPROF=1 SPANPROF_OUT=sticky.dump", "sticky"));
    CHECK_STR("launch 0 sync 700 last 700 free 700\n", child_out);
    CHECK_STR("spanprof: CUDA spans are not synchronized with the device: cudaErrorIllegalAddress: an illegal memory access was encountered\n", child_err);
    dr_dump *d = dr_load("sticky.dump");
    static const char error[] = "complete_timing: cudaErrorIllegalAddress: an illegal memory access was encountered";
    check_synchronized(d, "before", "device-synchronized", 0);
    CHECK_STR(error, text_of(d, "at fault", SPANPROF_META_hook_error));
    for (size_t i = 0; i < 20; i++) CHECK_CONTAINS("cudaErrorIllegalAddress", text_of(d, "later", SPANPROF_META_hook_error, i));
    CHECK_CONTAINS("cudaErrorIllegalAddress", text_of(d, "later stream", SPANPROF_META_hook_error));
    CHECK_STR("host", text_of(d, "at fault", SPANPROF_META_timing));
    CHECK_U64(1, dr_count(d, "later device"));
    dr_free(d);
}
TEST(out_of_memory) {
    CHECK_INT(0, child_run("SPANPROF=1 SPANPROF_OUT=oom.dump", "oom"));
    CHECK_STR("", child_err);
    dr_dump *d = dr_load("oom.dump");
    check_synchronized(d, "too much", "device-synchronized", 0);
    CHECK_INT(0, number_of(d, "too much", SPANPROF_META_alloc_delta_bytes));
    check_synchronized(d, "enough", "device-synchronized", 0);
    CHECK_INT(4096, number_of(d, "enough", SPANPROF_META_alloc_delta_bytes));
    dr_free(d);
}

/* ---- contexts, processes, threads ---- */

TEST(no_context_made) {
    CHECK_INT(0, child_run("SPANPROF=1 SPANPROF_OUT=idle.dump", "idle"));
    CHECK_STR("context 0 pending 0\n", child_out);
    CHECK_STR("", child_err);
    dr_dump *d = dr_load("idle.dump");
    CHECK_STR("host", text_of(d, "wide", SPANPROF_META_timing));
    CHECK_STR(NULL, text_of(d, "wide", SPANPROF_META_hook_error));
    CHECK_STR("prepare: no CUDA context yet", text_of(d, "device", SPANPROF_META_hook_error));
    dr_free(d);
    CHECK_INT(0, child_run("SPANPROF=1 SPANPROF_OUT=first.dump", "first"));
    d = dr_load("first.dump");
    check_synchronized(d, "wide", "device-synchronized", 0);
    dr_free(d);
}
TEST(hidden_devices) {
    static const char *const values[] = { "CUDA_VISIBLE_DEVICES=", "CUDA_VISIBLE_DEVICES=-1", "CUDA_VISIBLE_DEVICES=99" };
    for (const char *value : values) {
        CHECK_INT(0, child_run((std::string("SPANPROF=1 SPANPROF_OUT=hidden.dump ") + value).c_str(), "hidden"));
        CHECK_STR("spanprof: CUDA spans are not synchronized with the device: cudaErrorNoDevice: no CUDA-capable device is detected\n", child_err);
        CHECK_STR("pending 0\n", child_out);
        dr_dump *d = dr_load("hidden.dump");
        CHECK_STR("prepare: cudaErrorNoDevice: no CUDA-capable device is detected", text_of(d, "wide", SPANPROF_META_hook_error));
        CHECK_STR("host", text_of(d, "wide", SPANPROF_META_timing));
        CHECK_STR("prepare: cudaErrorNoDevice: no CUDA-capable device is detected", text_of(d, "device", SPANPROF_META_hook_error));
        dr_free(d);
    }
}
TEST(after_fork) {
    CHECK_INT(0, child_run("SPANPROF=1 SPANPROF_OUT=fork.dump", "fork"));
    CHECK_CONTAINS("parent fine\n", child_out);
    dr_dump *d = dr_load("fork.dump");
    check_synchronized(d, "around", "device-synchronized", 0);
    CHECK_U64(1, tracks_of(d, "device around"));
    dr_free(d);
    long pid = 0;
    const char *at = strstr(child_out, "child ");
    if (at) pid = atol(at + 6);
    d = dr_load(("fork.dump." + std::to_string(pid)).c_str());
    CHECK_STR("", d->error);
    CHECK_STR("prepare: cudaErrorInitializationError: initialization error (forked after CUDA was initialized)", text_of(d, "in child", SPANPROF_META_hook_error));
    dr_free(d);
}
TEST(at_exit) {
    CHECK_INT(4, child_run("SPANPROF=1 SPANPROF_OUT=exit.dump", "exit"));
    dr_dump *d = dr_load("exit.dump");
    CHECK_STR("", d->error);
    CHECK_U64(100, tracks_of(d, "device"));
    CHECK_U64(1, dr_count(d, "in a handler of exit"));
    dr_free(d);
}
TEST(device_reset) {
    CHECK_INT(0, child_run("SPANPROF=1 SPANPROF_OUT=reset.dump", "reset"));
    CHECK_STR("", child_out);
    dr_dump *d = dr_load("reset.dump");
    CHECK_STR("", d->error);
    CHECK_U64(0, tracks_of(d, "lost"));
    CHECK_U64(3, tracks_of(d, "kept"));
    CHECK_U64(6, dr_dropped(d));
    dr_free(d);
}

static void *bare(void *) {
    { SPANPROF_CUDA_SPAN("bare wide"); }
    { SPANPROF_CUDA_STREAM_SPAN("bare stream", NULL); }
    { SPANPROF_CUDA_DEVICE_SPAN("bare device", NULL); }
    { SPANPROF_CUDA_STREAM_SPAN("bare per thread", cudaStreamPerThread); }
    { SPANPROF_CUDA_DEVICE_SPAN("bare device per thread", cudaStreamPerThread); }
    return NULL;
}
/* The program leaves its per-thread stream idle; the end of the device span is recorded behind that. */
static void *tidy(void *) {
    SPANPROF_CUDA_DEVICE_SPAN("tidy", cudaStreamPerThread);
    spin<<<1, 1, 0, cudaStreamPerThread>>>(10000);
    cudaStreamSynchronize(cudaStreamPerThread);
    return NULL;
}
TEST(threads) {
    pthread_t thread;
    void *p = NULL;
    /* with this, driver 580 hangs at the end of a thread whose per-thread stream is busy */
    GOOD(cudaMallocAsync(&p, 1 << 20, 0));
    GOOD(cudaFreeAsync(p, 0));
    session_open("threads.dump");
    pthread_create(&thread, NULL, bare, NULL);
    pthread_join(thread, NULL);
    for (int i = 0; i < 20; i++) {
        pthread_create(&thread, NULL, tidy, NULL);
        pthread_join(thread, NULL);
    }
    dr_dump *d = session_close();
    check_synchronized(d, "bare wide", "device-synchronized", 0);
    check_synchronized(d, "bare stream", "stream-synchronized", 0);
    check_synchronized(d, "bare per thread", "stream-synchronized", 0);
    CHECK_U64(1, tracks_of(d, "bare device"));
    CHECK_U64(1, tracks_of(d, "bare device per thread"));
    CHECK_U64(20, tracks_of(d, "tidy"));
    dr_free(d);
}

/* ---- device spans ---- */

/* Against events of the test's own around the same work, and against the host's clock around launch and synchronization. */
TEST(device_spans) {
    static const unsigned long long work[] = { 20000, 57600, 1000000, 20000000 };
    cudaStream_t stream;
    cudaEvent_t from, to;
    float by_hand[4];
    uint64_t before[4], after[4];
    GOOD(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    GOOD(cudaEventCreate(&from));
    GOOD(cudaEventCreate(&to));
    spin<<<1, 1, 0, stream>>>(1000);
    GOOD(cudaStreamSynchronize(stream));
    session_open("device.dump");
    { SPANPROF_CUDA_DEVICE_SPAN("warm", stream); }
    GOOD(cudaStreamSynchronize(stream));
    for (int i = 0; i < 4; i++) {
        before[i] = now_ns();
        {
            SPANPROF_CUDA_DEVICE_SPAN("work", stream);
            GOOD(cudaEventRecord(from, stream));
            spin<<<1, 1, 0, stream>>>(work[i]);
            GOOD(cudaEventRecord(to, stream));
        }
        GOOD(cudaStreamSynchronize(stream));
        after[i] = now_ns();
        GOOD(cudaEventElapsedTime(&by_hand[i], from, to));
    }
    /* queued: 5 ms of work stand before it */
    spin<<<1, 1, 0, stream>>>(5000000);
    { SPANPROF_CUDA_DEVICE_SPAN("queued", stream); spin<<<1, 1, 0, stream>>>(10000); }
    GOOD(cudaStreamSynchronize(stream));
    dr_dump *d = session_close();
    CHECK_U64(4, tracks_of(d, "work"));
    for (size_t i = 0; i < 4 && i < tracks_of(d, "work"); i++) {
        const dr_track *t = track_of(d, "work", i);
        printf("    device span %.3f us, by hand %.3f us; start %.1f us after launch, end %.1f us before the host saw it\n", double(t->duration_ns) / 1e3, by_hand[i] * 1e3,
               double(int64_t(t->start_ns - before[i])) / 1e3, double(int64_t(after[i] - t->start_ns - t->duration_ns)) / 1e3);
        CHECK_RANGE(by_hand[i] * 1e6 - 1, by_hand[i] * 1e6 + 20000, double(t->duration_ns));
        CHECK_RANGE(0, 200000, double(int64_t(t->start_ns - before[i])));
        CHECK_RANGE(-15000, 500000, double(int64_t(after[i] - t->start_ns - t->duration_ns)));
        CHECK_RANGE(0, 100000, double(t->queue_ns));
        CHECK_U64(dr_find(d, "work", i)->pos, t->pos);
    }
    CHECK_RANGE(4e6, 6e6, double(track_of(d, "queued")->queue_ns));
    dr_free(d);
    GOOD(cudaEventDestroy(from));
    GOOD(cudaEventDestroy(to));
    GOOD(cudaStreamDestroy(stream));
}
/* Over some seconds, with bases renewed: starts stay between launch and synchronization, spans that touch do not cross. */
TEST(device_clock) {
    enum { ROUNDS = 40 };
    cudaStream_t stream;
    std::vector<uint64_t> before(ROUNDS), after(ROUNDS);
    double early = 1e9, late = 1e9;
    GOOD(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    session_open("clock.dump");
    for (int i = 0; i < ROUNDS; i++) {
        GOOD(cudaStreamSynchronize(stream));
        before[size_t(i)] = now_ns();
        {
            SPANPROF_CUDA_DEVICE_SPAN("outer", stream);
            for (int k = 0; k < 5; k++) { SPANPROF_CUDA_DEVICE_SPAN("inner", stream); spin<<<1, 1, 0, stream>>>(3000); }
        }
        GOOD(cudaStreamSynchronize(stream));
        after[size_t(i)] = now_ns();
        usleep(90000);
    }
    dr_dump *d = session_close();
    CHECK_U64(ROUNDS, tracks_of(d, "outer"));
    CHECK_U64(5 * ROUNDS, tracks_of(d, "inner"));
    int crossing = 0;
    for (size_t i = 0; i < tracks_of(d, "outer"); i++) {
        const dr_track *o = track_of(d, "outer", i);
        early = fmin(early, double(int64_t(o->start_ns - before[i])));
        late = fmin(late, double(int64_t(after[i] - o->start_ns - o->duration_ns)));
        for (size_t k = 0; k < 5; k++) {
            const dr_track *n = track_of(d, "inner", 5 * i + k), *next = k < 4 ? track_of(d, "inner", 5 * i + k + 1) : NULL;
            crossing += n->start_ns < o->start_ns || n->start_ns + n->duration_ns > o->start_ns + o->duration_ns;
            crossing += next && next->start_ns < n->start_ns + n->duration_ns;
        }
    }
    printf("    over 3.8 s: earliest start %.1f us after launch, latest end %.1f us before the host saw it\n", early / 1e3, late / 1e3);
    CHECK_INT(0, crossing);
    CHECK_RANGE(0, 1e6, early);
    CHECK_RANGE(-20000, 1e6, late);
    dr_free(d);
    GOOD(cudaStreamDestroy(stream));
}
/* A device span never waits: the host is through while the device works. */
TEST(never_waits) {
    cudaStream_t stream;
    GOOD(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    session_open("waits.dump");
    { SPANPROF_CUDA_DEVICE_SPAN("warm", stream); }
    GOOD(cudaStreamSynchronize(stream));
    spin<<<1, 1, 0, stream>>>(200000000);
    const uint64_t begin = now_ns();
    for (int i = 0; i < 100; i++) { SPANPROF_CUDA_DEVICE_SPAN("queued", stream); }
    CHECK_INT(SPANPROF_OK, spanprof_flush());
    const uint64_t end = now_ns();
    CHECK_RANGE(0, 100e6, double(end - begin));
    CHECK_INT(cudaErrorNotReady, cudaStreamQuery(stream));
    GOOD(cudaStreamSynchronize(stream));
    dr_dump *d = session_close();
    CHECK_U64(100, tracks_of(d, "queued"));
    dr_free(d);
    GOOD(cudaGetLastError());
    GOOD(cudaStreamDestroy(stream));
}

/* ---- two devices ---- */

TEST(two_devices) {
    cudaStream_t stream1;
    void *p = NULL;
    int device = -1;
    if (devices() < 2) {
        SKIP("two_devices: needs a second device");
        return;
    }
    GOOD(cudaSetDevice(1));
    GOOD(cudaStreamCreateWithFlags(&stream1, cudaStreamNonBlocking));
    GOOD(cudaSetDevice(0));
    session_open("two.dump");
    { SPANPROF_CUDA_STREAM_SPAN("stream 1", stream1); GOOD(cudaSetDevice(1)); GOOD(spanprof_cuda_malloc(&p, 512)); spin<<<1, 1, 0, stream1>>>(1000000); GOOD(cudaSetDevice(0)); }
    { SPANPROF_CUDA_DEVICE_SPAN("device 1", stream1); GOOD(cudaSetDevice(1)); spin<<<1, 1, 0, stream1>>>(300000); GOOD(cudaSetDevice(0)); }
    { SPANPROF_CUDA_DEVICE_SPAN("moves", NULL); GOOD(cudaSetDevice(1)); }
    GOOD(cudaGetDevice(&device));
    CHECK_INT(1, device);
    { SPANPROF_CUDA_SPAN("wide 1"); }
    GOOD(cudaSetDevice(0));
    { SPANPROF_CUDA_SPAN("wide 0"); }
    GOOD(cudaStreamSynchronize(stream1));
    CHECK_U64(512, spanprof_buffer_live(1));
    CHECK_U64(0, spanprof_buffer_live(0));
    GOOD(spanprof_cuda_free(p)); /* from device 0 */
    CHECK_U64(0, spanprof_buffer_live(1));
    GOOD(cudaPeekAtLastError());
    dr_dump *d = session_close();
    check_synchronized(d, "stream 1", "stream-synchronized", 1);
    CHECK_INT(512, number_of(d, "stream 1", SPANPROF_META_alloc_delta_bytes));
    check_synchronized(d, "wide 1", "device-synchronized", 1);
    check_synchronized(d, "wide 0", "device-synchronized", 0);
    if (CHECK(track_of(d, "device 1") != NULL)) {
        CHECK_U64(1, track_of(d, "device 1")->track >> 32);
        CHECK_RANGE(300000, 600000, double(track_of(d, "device 1")->duration_ns));
    }
    if (CHECK(track_of(d, "moves") != NULL)) CHECK_U64(0, track_of(d, "moves")->track);
    dr_free(d);
    GOOD(cudaStreamDestroy(stream1));
}

/* ---- this program again ---- */

static void in_exit_handler(void) { SPANPROF_CUDA_SPAN("in a handler of exit"); }

static int child(const char *what) {
    int *p = NULL;
    if (!strcmp(what, "sticky")) {
        cudaFree(NULL);
        { SPANPROF_CUDA_SPAN("before"); }
        int launch;
        { SPANPROF_CUDA_SPAN("at fault"); trespass<<<1, 1>>>(reinterpret_cast<int *>(64)); launch = cudaGetLastError(); }
        for (int i = 0; i < 20; i++) { SPANPROF_CUDA_SPAN("later"); }
        { SPANPROF_CUDA_STREAM_SPAN("later stream", NULL); }
        { SPANPROF_CUDA_DEVICE_SPAN("later device", NULL); }
        spanprof_flush();
        const int sync = cudaDeviceSynchronize(), last = cudaPeekAtLastError(), freed = cudaFree(NULL);
        printf("launch %d sync %d last %d free %d\n", launch, sync, last, freed);
        return 3;
    }
    if (!strcmp(what, "oom")) {
        GOOD(cudaFree(NULL));
        { SPANPROF_CUDA_SPAN("too much"); CHECK_INT(cudaErrorMemoryAllocation, spanprof_cuda_malloc(&p, size_t(1) << 50)); }
        CHECK_INT(cudaErrorMemoryAllocation, cudaGetLastError());
        CHECK_U64(0, spanprof_buffer_live(0));
        { SPANPROF_CUDA_SPAN("enough"); GOOD(spanprof_cuda_malloc(&p, 4096)); GOOD(cudaMemset(p, 0, 4096)); add_one<<<1, 32>>>(p); GOOD(cudaGetLastError()); }
        int value = 0;
        GOOD(cudaMemcpy(&value, p, sizeof value, cudaMemcpyDeviceToHost));
        CHECK_INT(32, value);
        GOOD(spanprof_cuda_free(p));
        return check_failed != 0;
    }
    if (!strcmp(what, "idle") || !strcmp(what, "hidden")) {
        { SPANPROF_CUDA_SPAN("wide"); usleep(100); }
        { SPANPROF_CUDA_STREAM_SPAN("stream", NULL); }
        { SPANPROF_CUDA_DEVICE_SPAN("device", NULL); }
        spanprof_flush();
        if (!strcmp(what, "idle")) printf("context %d ", context_exists(0));
        printf("pending %d\n", cudaPeekAtLastError() == cudaErrorNoDevice ? 0 : cudaPeekAtLastError());
    }
    if (!strcmp(what, "first")) { SPANPROF_CUDA_SPAN("wide"); cudaFree(NULL); }
    if (!strcmp(what, "fork")) {
        cudaFree(NULL);
        pid_t pid;
        {
            SPANPROF_CUDA_SPAN("around");
            SPANPROF_CUDA_DEVICE_SPAN("device around", NULL);
            spin<<<1, 1>>>(1000000);
            pid = fork();
            if (!pid) {
                { SPANPROF_CUDA_SPAN("in child"); }
                { SPANPROF_CUDA_STREAM_SPAN("in child too", NULL); }
                { SPANPROF_CUDA_DEVICE_SPAN("in child three", NULL); }
                spanprof_flush();
                exit(0);
            }
            int status = -1;
            waitpid(pid, &status, 0);
            printf("child %ld\n", long(pid));
            if (status) return 9;
        }
        printf("parent %s\n", cudaDeviceSynchronize() == cudaSuccess ? "fine" : "broken");
    }
    if (!strcmp(what, "exit")) {
        cudaStream_t stream;
        atexit(in_exit_handler);
        cudaStreamCreate(&stream);
        for (int i = 0; i < 100; i++) { SPANPROF_CUDA_DEVICE_SPAN("device", stream); }
        cudaStreamSynchronize(stream);
        return 4;
    }
    if (!strcmp(what, "reset")) {
        cudaStream_t stream;
        for (int round = 0; round < 3; round++) {
            GOOD(cudaStreamCreate(&stream));
            { SPANPROF_CUDA_DEVICE_SPAN("kept", stream); spin<<<1, 1, 0, stream>>>(1000); }
            GOOD(cudaStreamSynchronize(stream));
            { SPANPROF_CUDA_SPAN("read"); }
            { SPANPROF_CUDA_DEVICE_SPAN("lost", stream); }
            { SPANPROF_CUDA_DEVICE_SPAN("lost", stream); }
            GOOD(cudaDeviceReset());
            if (round == 1) spanprof_flush();
        }
        GOOD(cudaFree(NULL));
        GOOD(cudaPeekAtLastError());
        return check_failed != 0;
    }
    return 0;
}

#endif /* SPANPROF_I_CUDA */

/* ---- the list ---- */

#if !SPANPROF_I_CUDA
TEST(kernel_parity) TEST(quickstart) TEST(buffers) TEST(memory_figures) TEST(captures) TEST(pending_errors) TEST(sticky_errors) TEST(out_of_memory)
TEST(no_context_made) TEST(hidden_devices) TEST(after_fork) TEST(at_exit) TEST(device_reset) TEST(threads) TEST(device_spans) TEST(device_clock)
TEST(never_waits) TEST(two_devices)
#endif
/* not_under_sanitizer: why compute-sanitizer can't run it, which sets the variable that main looks for. */
static const struct { const char *name; void (*run)(void); const char *not_under_sanitizer; } tests[] = {
    /* first: what must not find this process's CUDA started */
    { "no_context_made", no_context_made, NULL }, { "hidden_devices", hidden_devices, "the sanitizer sees the devices all the same" },
    { "kernel_parity", kernel_parity, NULL }, { "quickstart", quickstart, NULL }, { "buffers", buffers, NULL }, { "memory_figures", memory_figures, NULL },
    { "captures", captures, NULL }, { "pending_errors", pending_errors, NULL }, { "out_of_memory", out_of_memory, NULL },
    { "sticky_errors", sticky_errors, "the illegal access is the sanitizer's then" },
    { "after_fork", after_fork, "a forked child can hang in the sanitizer" }, { "at_exit", at_exit, NULL }, { "device_reset", device_reset, NULL }, { "threads", threads, NULL },
    { "device_spans", device_spans, NULL }, { "device_clock", device_clock, NULL }, { "never_waits", never_waits, NULL }, { "two_devices", two_devices, NULL },
};

int main(int argc, char **argv) {
    const size_t count = sizeof tests / sizeof *tests;
    child_self = argv[0];
    if (argc > 1 && !strncmp(argv[1], "--only=", 7)) {
        for (size_t i = 0; i < count; i++)
            if (strstr(argv[1] + 7, tests[i].name)) tests[i].run();
        return CHECK_DONE();
    }
    if (argc > 1) return child(argv[1]);
    const int found = devices();
    const int under_sanitizer = getenv("NV_SANITIZER_INJECTION_TRANSPORT_TYPE") != NULL;
    printf("CUDA devices: %d\n", found);
    for (size_t i = 0; i < count; i++) {
        const unsigned failed = check_failed, skipped = check_skipped;
        char text[128];
        const char *const why = !found ? reason : under_sanitizer ? tests[i].not_under_sanitizer : NULL;
        if (why) {
            snprintf(text, sizeof text, "%s: %s", tests[i].name, why);
            SKIP(text);
            continue;
        }
        tests[i].run();
        printf("%s %s\n", check_failed != failed ? "FAILED" : check_skipped != skipped ? "skip  " : "ok    ", tests[i].name);
        fflush(stdout);
    }
    return CHECK_DONE();
}
