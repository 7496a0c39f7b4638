/* fake_cudart.c - plays the CUDA runtime and the driver entry points behind it; see fake_cudart.h. The rules that matter to
 * spanprof_cuda.h are those that CUDA was seen to follow:
 *   - a failing call of the runtime sets the thread's last error, a call of the driver never does;
 *   - synchronizing a context breaks every capture on its device; synchronizing another stream or asking an event breaks a capture
 *     of the same thread unless the thread is in relaxed mode;
 *   - the legacy stream answers 906 while a blocking stream captures, and says nothing of a non-blocking one;
 *   - cudaGetDevice, cudaGetDeviceCount and cudaPeekAtLastError make no context; nothing works in a forked child.
 * SPDX-License-Identifier: MIT */
#include "fake_cudart.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DEVICES = 4, LOG = 1 << 16, SCRIPTS = 32, DEPTH = 16, EVENTS = 40000 };

typedef struct CUctx_st { int device, active; unsigned long long id; int references; } context;
typedef struct CUevent_st { struct CUstream_st *stream; context *owner; unsigned long long owner_id; uint64_t time; int state; /* 0 new, 1 queued, 2 done */ int alive; } event;
typedef struct CUstream_st { context *owner; unsigned long long owner_id; int non_blocking, held, capturing, mode, alive; pthread_t capturer; } stream;
typedef struct script { char function[64]; int result, times; } script;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int devices = 2, start_error, started, unloaded, sticky, made, retained, invalidated, orphans, live_events;
static pid_t owner_pid;
static context contexts[DEVICES];
static unsigned long long next_id = 100;
static stream defaults[DEVICES];
static stream streams[64];
static event events[EVENTS];
static script scripts[SCRIPTS];
static char calls[LOG];
static size_t calls_length;
static uint64_t fixed_time;

static __thread int last_error, device_of_thread, depth, mode_of_thread;
static __thread context *stack[DEPTH];

__attribute__((constructor)) static void setup(void) {
    const char *text = getenv("FAKE_CUDA_DEVICES");
    if (text) devices = atoi(text);
    text = getenv("FAKE_CUDA_START");
    if (text) start_error = atoi(text);
    text = getenv("FAKE_CUDA_PENDING");
    if (text) last_error = atoi(text);
    if (!devices && !start_error) start_error = 100;
}

static uint64_t device_time(void) {
    struct timespec t;
    if (fixed_time) return fixed_time;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Logs a call; what it must return at once, or 0 to go on. */
static int called(const char *function) {
    const size_t length = strlen(function);
    int result = 0, i;
    pthread_mutex_lock(&lock);
    if (calls_length + length + 2 < LOG) {
        memcpy(calls + calls_length, function, length);
        calls[calls_length + length] = ' ';
        calls[calls_length += length + 1] = 0;
    }
    for (i = 0; i < SCRIPTS && !result; i++)
        if (scripts[i].times && !strcmp(scripts[i].function, function)) {
            if (scripts[i].times > 0) scripts[i].times--;
            result = scripts[i].result;
        }
    if (unloaded) result = 4;
    if (started && owner_pid != getpid()) {
        orphans++;
        result = 3;
    }
    pthread_mutex_unlock(&lock);
    return result;
}
static int start(void) {
    if (start_error) return start_error;
    if (!started) {
        started = 1;
        owner_pid = getpid();
    }
    return 0;
}
static cudaError_t runtime(int result) {
    if (result) last_error = result;
    return (cudaError_t)result;
}
static context *current(void) { return depth ? stack[depth - 1] : NULL; }
static void make_active(int device) {
    context *c = &contexts[device];
    if (c->active) return;
    c->active = 1;
    c->device = device;
    c->id = next_id++;
    c->references = 1;
    defaults[device].owner = c;
    made++;
}
static void use(int device) {
    make_active(device);
    device_of_thread = device;
    if (depth) stack[depth - 1] = &contexts[device];
    else stack[depth++] = &contexts[device];
}
/* The stream that a handle means. */
static stream *resolve(stream *s) {
    if ((uintptr_t)s > 2) return s;
    return current() ? &defaults[current()->device] : NULL;
}
static int valid(const stream *s) { return s && (s >= defaults && s < defaults + DEVICES ? s->owner && s->owner->active : s->alive && s->owner->active && s->owner->id == s->owner_id); }
static void break_captures(const context *c, int own_thread) {
    size_t i;
    for (i = 0; i < sizeof streams / sizeof *streams; i++) {
        stream *s = &streams[i];
        if (!s->alive || s->capturing != 1 || (c && s->owner != c)) continue;
        if (own_thread && (!pthread_equal(s->capturer, pthread_self()) || s->mode == FAKE_RELAXED || mode_of_thread == FAKE_RELAXED)) continue;
        s->capturing = 2;
        invalidated++;
    }
}
static int captures(const context *c, int blocking_only) {
    size_t i;
    int count = 0;
    for (i = 0; i < sizeof streams / sizeof *streams; i++) count += streams[i].alive && streams[i].capturing && streams[i].owner == c && !(blocking_only && streams[i].non_blocking);
    return count;
}

/* ---- the runtime ---- */

const char *cudaGetErrorName(cudaError_t error) {
    switch ((int)error) {
    case 0: return "cudaSuccess";
    case 2: return "cudaErrorMemoryAllocation";
    case 3: return "cudaErrorInitializationError";
    case 4: return "cudaErrorCudartUnloading";
    case 9: return "cudaErrorInvalidConfiguration";
    case 35: return "cudaErrorInsufficientDriver";
    case 100: return "cudaErrorNoDevice";
    case 400: return "cudaErrorInvalidResourceHandle";
    case 700: return "cudaErrorIllegalAddress";
    case 709: return "cudaErrorContextIsDestroyed";
    case 900: return "cudaErrorStreamCaptureUnsupported";
    default: return "unrecognized error code";
    }
}
const char *cudaGetErrorString(cudaError_t error) {
    switch ((int)error) {
    case 0: return "no error";
    case 2: return "out of memory";
    case 3: return "initialization error";
    case 4: return "driver shutting down";
    case 9: return "invalid configuration argument";
    case 35: return "CUDA driver version is insufficient for CUDA runtime version";
    case 100: return "no CUDA-capable device is detected";
    case 400: return "invalid resource handle";
    case 700: return "an illegal memory access was encountered";
    case 709: return "context is destroyed";
    case 900: return "operation not permitted when stream is capturing";
    default: return "unrecognized error code";
    }
}
/* Without a driver the real one answers so too: it tries to start the runtime. */
cudaError_t cudaPeekAtLastError(void) { return (cudaError_t)(start_error == 35 && !last_error ? 35 : last_error); }
cudaError_t cudaGetLastError(void) {
    const cudaError_t error = cudaPeekAtLastError();
    called("cudaGetLastError");
    last_error = 0;
    return error;
}
cudaError_t cudaGetDeviceCount(int *count) {
    int result = called("cudaGetDeviceCount");
    if (!result) result = start();
    if (!result) *count = devices;
    return runtime(result);
}
cudaError_t cudaGetDevice(int *device) {
    int result = called("cudaGetDevice");
    if (!result) result = start();
    if (!result) *device = current() ? current()->device : device_of_thread;
    return runtime(result);
}
cudaError_t cudaSetDevice(int device) {
    int result = called("cudaSetDevice");
    if (!result) result = start();
    if (!result && (device < 0 || device >= devices)) result = 101;
    if (!result) use(device);
    return runtime(result);
}
cudaError_t cudaMalloc(void **pointer, size_t bytes) {
    int result = called("cudaMalloc");
    if (!result) result = start();
    if (!result) result = sticky;
    if (result) return runtime(result);
    use(device_of_thread);
    *pointer = bytes ? malloc(bytes) : NULL;
    return cudaSuccess;
}
cudaError_t cudaFree(void *pointer) {
    int result = called("cudaFree");
    if (!result) result = start();
    if (!result) result = sticky;
    if (!result) free(pointer);
    return runtime(result);
}

/* ---- the driver ---- */

static int cuCtxGetCurrent(context **c) {
    const int result = called("cuCtxGetCurrent");
    if (!result) *c = current();
    return result;
}
static int cuCtxGetDevice(int *device) {
    const int result = called("cuCtxGetDevice");
    if (result) return result;
    if (!current()) return 201;
    *device = current()->device;
    return 0;
}
static int cuCtxPushCurrent(context *c) {
    const int result = called("cuCtxPushCurrent");
    if (result) return result;
    if (!c->active) return 709;
    stack[depth++] = c;
    return 0;
}
static int cuCtxPopCurrent(context **c) {
    const int result = called("cuCtxPopCurrent");
    if (result) return result;
    if (!depth) return 201;
    *c = stack[--depth];
    return 0;
}
static int cuCtxGetId(const context *c, unsigned long long *id) {
    const int result = called("cuCtxGetId");
    if (result) return result;
    if (!c->active) return 709;
    *id = c->id;
    return 0;
}
static int cuCtxSynchronize(void) {
    const int result = called("cuCtxSynchronize");
    if (result) return result;
    if (!current()) return 201;
    if (captures(current(), 0)) {
        break_captures(current(), 0);
        return 900;
    }
    return sticky;
}
static int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    const int result = called("cuDevicePrimaryCtxGetState");
    if (result) return result;
    *flags = 0;
    *active = contexts[device].active;
    return 0;
}
static int cuDevicePrimaryCtxRetain(context **c, int device) {
    const int result = called("cuDevicePrimaryCtxRetain");
    if (result) return result;
    make_active(device);
    contexts[device].references++;
    retained++;
    *c = &contexts[device];
    return 0;
}
static int cuDevicePrimaryCtxRelease(int device) {
    const int result = called("cuDevicePrimaryCtxRelease");
    if (result) return result;
    retained--;
    if (!--contexts[device].references) contexts[device].active = 0;
    return 0;
}
static int cuStreamGetCtx(stream *s, context **c) {
    const int result = called("cuStreamGetCtx");
    if (result) return result;
    if (!valid(s)) return 400;
    *c = s->owner;
    return 0;
}
static int cuStreamIsCapturing(stream *s, int *status) {
    const int result = called("cuStreamIsCapturing");
    if (result) return result;
    if (!current() && (uintptr_t)s <= 2) return 201;
    if ((uintptr_t)s == 1 && captures(current(), 1)) return 906;
    s = resolve(s);
    if (!valid(s)) return 400;
    *status = s->capturing;
    return sticky;
}
static int cuStreamSynchronize(stream *s) {
    const int result = called("cuStreamSynchronize");
    if (result) return result;
    s = resolve(s);
    if (!valid(s)) return 400;
    if (s->capturing) {
        s->capturing = 2;
        invalidated++;
        return 900;
    }
    break_captures(NULL, 1);
    return sticky;
}
static int cuStreamQuery(stream *s) {
    const int result = called("cuStreamQuery");
    if (result) return result;
    s = resolve(s);
    if (!valid(s)) return 400;
    break_captures(NULL, 1);
    return sticky ? sticky : s->held ? 600 : 0;
}
static int cuStreamCreate(stream **s, unsigned flags) {
    const int result = called("cuStreamCreate");
    size_t i;
    if (result) return result;
    for (i = 0; i < sizeof streams / sizeof *streams; i++)
        if (!streams[i].alive) {
            memset(&streams[i], 0, sizeof streams[i]);
            streams[i].alive = 1;
            streams[i].owner = current();
            streams[i].owner_id = current()->id;
            streams[i].non_blocking = flags & 1u;
            *s = &streams[i];
            return 0;
        }
    return 2;
}
static int cuStreamDestroy(stream *s) {
    const int result = called("cuStreamDestroy");
    if (!result) s->alive = 0;
    return result;
}
static int cuThreadExchangeStreamCaptureMode(int *mode) {
    const int result = called("cuThreadExchangeStreamCaptureMode");
    const int before = mode_of_thread;
    if (result) return result;
    mode_of_thread = *mode;
    *mode = before;
    return 0;
}
static int cuEventCreate(event **e, unsigned flags) {
    const int result = called("cuEventCreate");
    size_t i;
    (void)flags;
    if (result) return result;
    pthread_mutex_lock(&lock);
    for (i = 0; i < EVENTS && events[i].alive; i++) {}
    if (i < EVENTS) {
        memset(&events[i], 0, sizeof events[i]);
        events[i].alive = 1;
        events[i].owner = current();
        events[i].owner_id = current()->id;
        live_events++;
        *e = &events[i];
    }
    pthread_mutex_unlock(&lock);
    return i < EVENTS ? 0 : 2;
}
static int cuEventDestroy(event *e) {
    const int result = called("cuEventDestroy");
    if (result) return result;
    e->alive = 0;
    live_events--;
    return 0;
}
static int event_valid(const event *e) { return e->alive && e->owner->active && e->owner->id == e->owner_id; }
static int cuEventRecord(event *e, stream *s) {
    const int result = called("cuEventRecord");
    if (result) return result;
    s = resolve(s);
    if (!valid(s) || !event_valid(e) || e->owner != s->owner) return 400;
    if (sticky) return sticky;
    e->stream = s;
    e->state = s->held || s->capturing ? 1 : 2;
    e->time = device_time();
    return 0;
}
static int cuEventQuery(event *e) {
    const int result = called("cuEventQuery");
    if (result) return result;
    break_captures(NULL, 1);
    if (!event_valid(e)) return 400;
    return sticky ? sticky : e->state == 1 ? 600 : 0;
}
static int cuEventElapsedTime(float *ms, event *from, event *to) {
    const int result = called("cuEventElapsedTime");
    if (result) return result;
    break_captures(NULL, 1);
    if (!event_valid(from) || !event_valid(to) || !from->state || !to->state || from->owner != to->owner) return 400;
    if (sticky) return sticky;
    if (from->state != 2 || to->state != 2) return 600;
    *ms = (float)((double)(int64_t)(to->time - from->time) / 1e6);
    return 0;
}
static int cuMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    const int result = called("cuMemGetInfo");
    *free_bytes = 1000;
    *total_bytes = 4000;
    return result;
}
static int cuDeviceGetMemPool(void **pool, int device) {
    const int result = called("cuDeviceGetMemPool");
    *pool = &contexts[device];
    return result;
}
static int cuMemPoolGetAttribute(void *pool, int attribute, void *value) {
    const int result = called("cuMemPoolGetAttribute");
    const uint64_t bytes = attribute == 7 ? 64 : attribute == 5 ? 256 : 0;
    (void)pool;
    if (!result) memcpy(value, &bytes, sizeof bytes);
    return result;
}

typedef int (*entry)(void);
static const struct { const char *name; unsigned version; entry function; } entries[] = {
#define ENTRY(name, version) { #name, version, (entry)(void (*)(void))name },
    ENTRY(cuCtxGetCurrent, 4000) ENTRY(cuCtxGetDevice, 2000) ENTRY(cuCtxPushCurrent, 4000) ENTRY(cuCtxPopCurrent, 4000)
    ENTRY(cuCtxSynchronize, 2000) ENTRY(cuCtxGetId, 12000) ENTRY(cuDevicePrimaryCtxGetState, 7000)
    ENTRY(cuDevicePrimaryCtxRetain, 7000) ENTRY(cuDevicePrimaryCtxRelease, 11000) ENTRY(cuStreamGetCtx, 9020)
    ENTRY(cuStreamIsCapturing, 10000) ENTRY(cuStreamSynchronize, 2000) ENTRY(cuStreamQuery, 2000) ENTRY(cuStreamCreate, 2000) ENTRY(cuStreamDestroy, 4000)
    ENTRY(cuThreadExchangeStreamCaptureMode, 10010) ENTRY(cuEventCreate, 2000) ENTRY(cuEventDestroy, 4000) ENTRY(cuEventRecord, 2000)
    ENTRY(cuEventQuery, 2000) ENTRY(cuEventElapsedTime, 2000) ENTRY(cuMemGetInfo, 3020) ENTRY(cuDeviceGetMemPool, 11020)
    ENTRY(cuMemPoolGetAttribute, 11020)
};
static cudaError_t entry_point(const char *symbol, void **function, unsigned version, enum cudaDriverEntryPointQueryResult *found) {
    size_t i;
    int result = called("cudaGetDriverEntryPoint");
    if (!result) result = start();
    *function = NULL;
    *found = cudaDriverEntryPointSymbolNotFound;
    for (i = 0; !result && i < sizeof entries / sizeof *entries; i++)
        if (!strcmp(entries[i].name, symbol) && !(getenv("FAKE_CUDA_MISSING") && !strcmp(getenv("FAKE_CUDA_MISSING"), symbol))) {
            *found = version >= entries[i].version ? cudaDriverEntryPointSuccess : cudaDriverEntryPointVersionNotSufficent;
            if (version >= entries[i].version) memcpy(function, &entries[i].function, sizeof *function);
        }
    return runtime(result);
}
#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *found) {
    (void)flags;
    return entry_point(symbol, function, version, found);
}
#elif CUDART_VERSION >= 12000
cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags, enum cudaDriverEntryPointQueryResult *found) {
    (void)flags;
    return entry_point(symbol, function, CUDART_VERSION, found);
}
#else
cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags) {
    enum cudaDriverEntryPointQueryResult found;
    (void)flags;
    return entry_point(symbol, function, CUDART_VERSION, &found);
}
#endif

/* ---- controls ---- */

const char *fake_log(void) { return calls; }
void fake_clear_log(void) { calls[calls_length = 0] = 0; }
int fake_calls(const char *function) {
    const size_t length = strlen(function);
    const char *at = calls;
    int count = 0;
    for (; (at = strstr(at, function)) != NULL; at += length) count += at[length] == ' ' && (at == calls || at[-1] == ' ');
    return count;
}
void fake_fail(const char *function, int result, int times) {
    int i;
    for (i = 0; i < SCRIPTS - 1 && scripts[i].times && strcmp(scripts[i].function, function); i++) {}
    snprintf(scripts[i].function, sizeof scripts[i].function, "%s", function);
    scripts[i].result = result;
    scripts[i].times = times;
}
void fake_stick(int error) { sticky = error; }
void fake_unload(void) { unloaded = 1; }
void fake_set_last_error(int error) { last_error = error; }
int fake_contexts_made(void) { return made; }
int fake_context_depth(void) { return depth; }
int fake_retained(void) { return retained; }
int fake_invalidated(void) { return invalidated; }
int fake_orphan_calls(void) { return orphans; }
int fake_events(void) { return live_events; }
struct CUstream_st *fake_stream(int device, int non_blocking) {
    context *const before = current();
    const int device_before = device_of_thread;
    stream *s = NULL;
    start();
    use(device);
    cuStreamCreate(&s, (unsigned)non_blocking);
    if (before) {
        stack[depth - 1] = before;
        device_of_thread = device_before;
    }
    return s;
}
void fake_reset_device(int device) {
    size_t i;
    contexts[device].active = 0;
    for (i = 0; i < sizeof streams / sizeof *streams; i++)
        if (streams[i].owner == &contexts[device]) streams[i].alive = 0;
    if (current() == &contexts[device]) depth = 0;
}
void fake_begin_capture(struct CUstream_st *s, int mode) {
    s->capturing = 1;
    s->mode = mode;
    s->capturer = pthread_self();
}
int fake_end_capture(struct CUstream_st *s) {
    const int broken = s->capturing == 2;
    s->capturing = 0;
    return broken ? 901 : 0;
}
void fake_set_time(uint64_t ns) { fixed_time = ns; }
void fake_hold(struct CUstream_st *s) { s->held = 1; }
void fake_release(struct CUstream_st *s) {
    size_t i;
    s->held = 0;
    for (i = 0; i < EVENTS; i++)
        if (events[i].alive && events[i].state == 1 && events[i].stream == s) {
            events[i].state = 2;
            events[i].time = device_time();
        }
}
