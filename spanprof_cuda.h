/* spanprof_cuda.h - CUDA spans for spanprof.h: synchronized host boundaries, device spans on the GPU stream's own track,
 * counters of device buffers. Optional. SPDX-License-Identifier: MIT.  Full text in LICENSE; guide in README.md.
 *
 *     #define SPANPROF_CUDA                 // in every file, or -DSPANPROF_CUDA; SPANPROF_IMPLEMENTATION in one of them
 *     #include "spanprof.h"
 *     {
 *         SPANPROF_CUDA_SPAN("model.forward");              // at its end waits for the current device
 *         forward<<<grid, block, 0, stream>>>(...);
 *     }
 *     SPANPROF_CUDA_STREAM_SPAN("model.backward", stream);  // at its end waits for this stream only
 *     SPANPROF_CUDA_DEVICE_SPAN("gemm", stream);            // never waits: a pair of CUDA events around the scope's work
 *
 * With metadata: SPANPROF_CUDA_SPAN_META(name, .phase = "forward"), SPANPROF_CUDA_STREAM_SPAN_META(name, stream, ...).
 *
 * WHAT IS MEASURED
 *   SPANPROF_CUDA_SPAN, _STREAM_SPAN: a synchronized host boundary. Before the start: is a device usable, the buffer counters
 *     are sampled. Before the end: the device (stream) is synchronized. After it: the counters are sampled again. The duration
 *     holds queue delay, device work and the synchronization; it is not the sum of kernel times.
 *     timing: "device-synchronized", "stream-synchronized"; "host" when nothing was waited for. Check hook_error before using
 *     a span as a device measurement. device: "cuda" (unless the span names another) and device_index.
 *   SPANPROF_CUDA_DEVICE_SPAN: a plain span of the launch on the host (it holds the recording of two events, some 2.5 us), and
 *     one on the track of the stream: from the moment the device comes to the scope's work to the end of it, gaps while it waits
 *     for launches included, with the queue delay (device start minus host launch). Pairs are read at later CUDA spans,
 *     spanprof_flush, spanprof_stop and exit, never waited for: what is not done when the session closes has no device span and
 *     counts as dropped. The stream must outlive the scope.
 *   alloc_live_bytes, alloc_peak_bytes, alloc_delta_bytes of the span's device: logical payload bytes of the buffers that the
 *     program registered, by spanprof_cuda_malloc and _free or by spanprof_buffer_acquire and _release. live: after the span.
 *     peak: the highest live since the process began or spanprof_buffer_reset_peak. delta: live after minus live before,
 *     negative when the span freed. Aliases, workspaces and memory of other libraries are not in them; see spanprof_cuda_memory.
 *
 * WHAT IS PROMISED
 *   Without toolkit, driver or device the program runs the same; spans have timing "host" and hook_error says why
 *     ("prepare: cudaErrorNoDevice: no CUDA-capable device is detected"). The first such text also goes to stderr, once.
 *   The program's last error, current device and contexts stay as they are: after a first cudaGetDeviceCount the driver is
 *     called directly, which has no last error, and a context is used only when the program has made one.
 *   Stream captures: a span inside one is not synchronized, hook_error "stream capture in progress". The stream forms ask their
 *     stream. SPANPROF_CUDA_SPAN can see captures on blocking streams, and with LibTorch linked on its current stream; a capture
 *     on a cudaStreamNonBlocking stream can't be seen: put spanprof_cuda_capture_begin() and _end() around it, or the
 *     synchronization invalidates it (hook_error cudaErrorStreamCaptureUnsupported).
 *   After fork the child, like all of CUDA there, gets hook_error cudaErrorInitializationError. The first CUDA span of a
 *     recording process initializes the driver (no context): a program that uses CUDA only in children forks before it.
 *   Threads: any. Signal handlers: no, as CUDA itself.
 *
 * BUILD   nvcc, or any C99/C++11 compiler with the toolkit's headers (11.3 or later) and -lcudart or -lcudart_static.
 *   SPANPROF_CUDA_STUB        unset  every file alike: the fallback, no CUDA header or library needed. Also chosen where there is
 *                                    no <cuda_runtime_api.h>, and outside of GNU C and POSIX
 *   SPANPROF_CUDA_MAX_DEVICES 64     implementation file: devices that have buffer counters
 *   SPANPROF_CUDA_MAX_PAIRS   16384  implementation file: event pairs in flight in a context; more device spans are host only
 *   SPANPROF_LIBTORCH         unset  one C++ file, with LibTorch's headers: LibTorch's allocator figures. Nothing else needs
 *                                    LibTorch at build time: where it is linked, the hooks find it by weak symbols (ELF)
 *
 * CONTENTS  1 configuration  2 functions  3 macros  4 C++  5 implementation  6 LibTorch
 */
#ifndef SPANPROF_CUDA
#define SPANPROF_CUDA
#endif
#ifndef SPANPROF_H
#include "spanprof.h"
#endif
#ifndef SPANPROF_CUDA_H
#define SPANPROF_CUDA_H

#ifndef SPANPROF_DISABLE

/* ---- 1 configuration -------------------------------------------------------------------------------------------- */

/* SPANPROF_I_CUDA: 1 with the runtime, else 0 and why. Where the toolkit is, the runtime is referred to strongly: weak
 * references stay null with -lcudart under --as-needed, with -lcudart_static and with nvcc. */
#if defined(SPANPROF_CUDA_STUB)
#define SPANPROF_I_CUDA 0
#define SPANPROF_I_CUDA_WHY "CUDA support not built in (SPANPROF_CUDA_STUB; with this Makefile: make CUDA=1)"
#elif !SPANPROF_I_GNU || SPANPROF_I_WINDOWS
#define SPANPROF_I_CUDA 0
#define SPANPROF_I_CUDA_WHY "CUDA support not built in (it needs GNU C and POSIX)"
#elif defined(__has_include)
#if __has_include(<cuda_runtime_api.h>)
#include <cuda_runtime_api.h>
#if CUDART_VERSION >= 11030
#define SPANPROF_I_CUDA 1
#else
#define SPANPROF_I_CUDA 0
#define SPANPROF_I_CUDA_WHY "CUDA support not built in (toolkit older than 11.3)"
#endif
#endif
#endif
#ifndef SPANPROF_I_CUDA
#define SPANPROF_I_CUDA 0
#define SPANPROF_I_CUDA_WHY "CUDA support not built in (no cuda_runtime_api.h)"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- 2 functions ------------------------------------------------------------------------------------------------ */

/* cudaStream_t points to this; with and without the toolkit. */
struct CUstream_st;

#ifdef CUDART_VERSION
typedef cudaError_t spanprof_cuda_error;
#else
typedef int spanprof_cuda_error;
typedef struct CUstream_st *cudaStream_t;
#endif

/* For SPANPROF_SPAN_HOOKED: wait for the current device. */
SPANPROF_API extern const spanprof_hooks spanprof_cuda_hooks;

SPANPROF_API const char *spanprof_i_cuda_stream_prepare(void *stream, spanprof_hook_call *call);
SPANPROF_API const char *spanprof_i_cuda_stream_complete(void *stream, spanprof_hook_call *call);
SPANPROF_API const char *spanprof_i_cuda_enrich(void *stream, spanprof_hook_call *call);

/* NULL when a CUDA device can be used, else why not, as in hook_error. Any thread. May initialize the driver, makes no
 * context. The text lives as long as the process. */
SPANPROF_API const char *spanprof_cuda_status(void);

/* cudaMalloc and cudaFree that count: their errors and last error are those of the plain calls. A pointer of another origin
 * is freed and not counted. Without CUDA: 801 (cudaErrorNotSupported), *pointer is NULL. Any thread, recording or not. */
SPANPROF_API spanprof_cuda_error spanprof_cuda_malloc(void **pointer, size_t bytes);
SPANPROF_API spanprof_cuda_error spanprof_cuda_free(void *pointer);

/* The same counters, for an owner of its own: bytes of a buffer that it handed out on a device, and took back. Any thread,
 * recording or not, with or without CUDA; lock-free. Devices beyond SPANPROF_CUDA_MAX_DEVICES are not counted. Releasing more
 * than was acquired leaves 0 and is told on stderr, once a process. */
SPANPROF_API void spanprof_buffer_acquire(int device, size_t bytes);
SPANPROF_API void spanprof_buffer_release(int device, size_t bytes);
/* Bytes registered now, and the most since the process began or the last reset. 0 for a device out of range. */
SPANPROF_API uint64_t spanprof_buffer_live(int device);
SPANPROF_API uint64_t spanprof_buffer_peak(int device);
/* Makes the present live bytes the peak. */
SPANPROF_API void spanprof_buffer_reset_peak(int device);

/* Around a stream capture that spanprof_cuda_hooks can't see: no SPANPROF_CUDA_SPAN of the process synchronizes a device
 * meanwhile. May nest and overlap. Any thread. */
SPANPROF_API void spanprof_cuda_capture_begin(void);
SPANPROF_API void spanprof_cuda_capture_end(void);

/* Native memory figures of the thread's current device. A member counts only when its bit is in has. */
enum { SPANPROF_CUDA_MEMORY_DEVICE = 1, SPANPROF_CUDA_MEMORY_POOL = 2, SPANPROF_CUDA_MEMORY_LIBTORCH = 4 };
typedef struct spanprof_cuda_memory_info {
    uint32_t has;
    int32_t device;
    uint64_t device_free, device_total;    /* DEVICE: of the whole device, all processes together (cudaMemGetInfo) */
    uint64_t pool_used, pool_reserved;     /* POOL: the device's current memory pool (cudaMallocAsync) */
    uint64_t libtorch_allocated, libtorch_reserved, libtorch_peak; /* LIBTORCH: its caching allocator; peak of allocated */
} spanprof_cuda_memory_info;
/* Fills *out; asks the driver (7 us), so not for a timed interval. SPANPROF_ERR_STATE with has 0 when the program has no
 * context on the device, or no device; makes none. Any thread. */
SPANPROF_API spanprof_status spanprof_cuda_memory(spanprof_cuda_memory_info *out);

/* A device span without the macro; *d must stay in place. The stream is as in the macro, NULL the legacy default stream. */
typedef struct spanprof_cuda_device_span {
    spanprof_i_scope scope;            /* the launch on the host */
    struct spanprof_i_cuda_pair *pair; /* the events; NULL: host only */
    struct CUstream_st *stream;
    const char *error;
    int begun;
    char text[160];
} spanprof_cuda_device_span;
SPANPROF_API void spanprof_cuda_device_begin(spanprof_cuda_device_span *d, spanprof_site *site, struct CUstream_st *stream);
SPANPROF_API void spanprof_cuda_device_end(spanprof_cuda_device_span *d);

/* The null stream is another one in a file compiled for per-thread default streams: cudaStreamLegacy or cudaStreamPerThread. */
SPANPROF_I_HOT struct CUstream_st *spanprof_i_cuda_stream(struct CUstream_st *stream) {
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
    const uintptr_t null_stream = 2;
#else
    const uintptr_t null_stream = 1;
#endif
    return stream ? stream : SPANPROF_I_PTR(struct CUstream_st *, null_stream);
}

/* Hooks for SPANPROF_SPAN_HOOKED that wait for one stream. */
SPANPROF_I_HOT spanprof_hooks spanprof_cuda_stream_hooks(struct CUstream_st *stream) {
    spanprof_hooks hooks;
    hooks.user = spanprof_i_cuda_stream(stream);
    hooks.prepare = spanprof_i_cuda_stream_prepare;
    hooks.complete_timing = spanprof_i_cuda_stream_complete;
    hooks.enrich = spanprof_i_cuda_enrich;
    return hooks;
}
SPANPROF_I_HOT void spanprof_i_cuda_device_leave(spanprof_cuda_device_span *d) {
    if (d->begun) spanprof_cuda_device_end(d);
}

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* !SPANPROF_DISABLE */

/* ---- 3 macros --------------------------------------------------------------------------------------------------- */

#ifdef SPANPROF_DISABLE

#define SPANPROF_CUDA_SPAN(name) ((void)0)
#define SPANPROF_CUDA_SPAN_META(...) ((void)0)
#define SPANPROF_CUDA_STREAM_SPAN(name, stream) ((void)0)
#define SPANPROF_CUDA_STREAM_SPAN_META(...) ((void)0)
#define SPANPROF_CUDA_DEVICE_SPAN(name, stream) ((void)0)
#define spanprof_cuda_malloc(pointer, bytes) cudaMalloc(pointer, bytes)
#define spanprof_cuda_free(pointer) cudaFree(pointer)
#define spanprof_buffer_acquire(device, bytes) ((void)0)
#define spanprof_buffer_release(device, bytes) ((void)0)
#define spanprof_buffer_reset_peak(device) ((void)0)
#define spanprof_cuda_capture_begin() ((void)0)
#define spanprof_cuda_capture_end() ((void)0)

#else

#define SPANPROF_CUDA_SPAN(name) SPANPROF_SPAN_HOOKED(name, &spanprof_cuda_hooks)
#define SPANPROF_CUDA_SPAN_META(name, ...) SPANPROF_SPAN_HOOKED(name, &spanprof_cuda_hooks, __VA_ARGS__)
#define SPANPROF_CUDA_STREAM_SPAN(name, stream) SPANPROF_I_CUDA_STREAM_SPAN(SPANPROF_I_UNIQUE(spanprof_i_k), name, stream)
#define SPANPROF_I_CUDA_STREAM_SPAN(k, name, stream)                \
    const spanprof_hooks k = spanprof_cuda_stream_hooks(stream);    \
    SPANPROF_SPAN_HOOKED(name, &k)
#define SPANPROF_CUDA_STREAM_SPAN_META(name, stream, ...)           \
    SPANPROF_I_CUDA_STREAM_SPAN_META(SPANPROF_I_UNIQUE(spanprof_i_k), name, stream, __VA_ARGS__)
#define SPANPROF_I_CUDA_STREAM_SPAN_META(k, name, stream, ...)      \
    const spanprof_hooks k = spanprof_cuda_stream_hooks(stream);    \
    SPANPROF_SPAN_HOOKED(name, &k, __VA_ARGS__)
#define SPANPROF_CUDA_DEVICE_SPAN(name, stream) SPANPROF_I_CUDA_DEVICE_SPAN(SPANPROF_I_UNIQUE(spanprof_i_v), name, stream)
#if !defined(__cplusplus) && SPANPROF_I_GNU
#define SPANPROF_I_CUDA_DEVICE_SPAN(v, name, stream)                                                                    \
    spanprof_cuda_device_span v __attribute__((cleanup(spanprof_i_cuda_device_leave), unused));                         \
    v.begun = 0;                                                                                                        \
    if (SPANPROF_I_ON()) __extension__({                                                                                \
        SPANPROF_I_STATIC spanprof_site spanprof_i_s = SPANPROF_I_SITE(name, SPANPROF_I_NULL);                                     \
        spanprof_cuda_device_begin(&v, &spanprof_i_s, spanprof_i_cuda_stream(stream));                                  \
    })
#elif defined(__cplusplus)
#define SPANPROF_I_CUDA_DEVICE_SPAN(v, name, stream) \
    ::spanprof_scope_cuda_device v(SPANPROF_I_STATIC_SITE(SPANPROF_I_SITE(name, nullptr)), ::spanprof_i_cuda_stream(stream))
#endif

#endif

/* ---- 4 C++ ------------------------------------------------------------------------------------------------------ */

#if defined(__cplusplus) && !defined(SPANPROF_DISABLE)

class spanprof_scope_cuda_device {
public:
    spanprof_scope_cuda_device(spanprof_site *site, struct CUstream_st *stream) {
        d_.begun = 0;
        if (SPANPROF_I_ON()) spanprof_cuda_device_begin(&d_, site, stream);
    }
    ~spanprof_scope_cuda_device() { spanprof_i_cuda_device_leave(&d_); }
    spanprof_scope_cuda_device(const spanprof_scope_cuda_device &) = delete;
    spanprof_scope_cuda_device &operator=(const spanprof_scope_cuda_device &) = delete;
private:
    spanprof_cuda_device_span d_;
};

/* Takes any pointer's address, as the C++ form of cudaMalloc does. */
template <typename T> inline spanprof_cuda_error spanprof_cuda_malloc(T **pointer, size_t bytes) {
    void *memory = nullptr;
    const spanprof_cuda_error error = spanprof_cuda_malloc(&memory, bytes);
    *pointer = static_cast<T *>(memory);
    return error;
}

#endif
#endif /* SPANPROF_CUDA_H */

/* ---- 5 implementation ------------------------------------------------------------------------------------------- */

#if defined(SPANPROF_IMPLEMENTATION) && !defined(SPANPROF_DISABLE) && !defined(SPANPROF_I_CUDA_IMPLEMENTED)
#define SPANPROF_I_CUDA_IMPLEMENTED
#if defined(__cplusplus) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuseless-cast"
#endif

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if SPANPROF_I_CUDA
#include <pthread.h>
#endif

#ifndef SPANPROF_CUDA_MAX_DEVICES
#define SPANPROF_CUDA_MAX_DEVICES 64
#endif
#if SPANPROF_CUDA_MAX_DEVICES < 1 || SPANPROF_CUDA_MAX_DEVICES > 4096
#error "SPANPROF_CUDA_MAX_DEVICES must be from 1 to 4096"
#endif
#ifndef SPANPROF_CUDA_MAX_PAIRS
#define SPANPROF_CUDA_MAX_PAIRS 16384
#endif
#if SPANPROF_CUDA_MAX_PAIRS < 1 || SPANPROF_CUDA_MAX_PAIRS > 1000000
#error "SPANPROF_CUDA_MAX_PAIRS must be from 1 to 1000000"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* 5.1 what every build has: notes, buffer counters, declared captures */

#if SPANPROF_I_GNU
#define SPANPROF_I_CUDA_SWAP(p, expected, desired) __atomic_compare_exchange_n((p), (expected), (desired), 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)
#define SPANPROF_I_CUDA_ADD(p, v) __atomic_add_fetch((p), (v), __ATOMIC_RELAXED)
#define SPANPROF_I_CUDA_ONCE(p) (!__atomic_exchange_n((p), 1u, __ATOMIC_RELAXED))
#else /* one thread at a time */
static int spanprof_i_cuda_swap(uint64_t *p, const uint64_t *expected, uint64_t desired) { (void)expected; *p = desired; return 1; }
#define SPANPROF_I_CUDA_SWAP(p, expected, desired) spanprof_i_cuda_swap(p, expected, desired)
#define SPANPROF_I_CUDA_ADD(p, v) (*(p) += (v))
#define SPANPROF_I_CUDA_ONCE(p) (!(*(p))++)
#endif

/* One line on stderr, the first time. */
static void spanprof_i_cuda_note(uint32_t *noted, const char *what, const char *text) {
    if (!SPANPROF_I_LOAD(noted) && SPANPROF_I_CUDA_ONCE(noted)) fprintf(stderr, "spanprof: %s%s\n", what, text);
}
static uint32_t spanprof_i_cuda_noted_error, spanprof_i_cuda_noted_release;
#define SPANPROF_I_CUDA_NOTE(text) spanprof_i_cuda_note(&spanprof_i_cuda_noted_error, "CUDA spans are not synchronized with the device: ", text)

/* A device's counters, on cache lines of their own. Relaxed: each is a number by itself; peak is the highest value that live
 * took, because every value of live is offered to it by the thread that made it. */
typedef struct spanprof_i_buffers_of { uint64_t live, peak, apart[14]; } spanprof_i_buffers_of;
static spanprof_i_buffers_of spanprof_i_buffers[SPANPROF_CUDA_MAX_DEVICES];

static spanprof_i_buffers_of *spanprof_i_buffers_at(int device) {
    return device >= 0 && device < SPANPROF_CUDA_MAX_DEVICES ? &spanprof_i_buffers[device] : SPANPROF_I_NULL;
}
void spanprof_buffer_acquire(int device, size_t bytes) {
    spanprof_i_buffers_of *const b = spanprof_i_buffers_at(device);
    uint64_t live, peak;
    if (!b) return;
    live = SPANPROF_I_CUDA_ADD(&b->live, bytes);
    peak = SPANPROF_I_LOAD(&b->peak);
    while (peak < live && !SPANPROF_I_CUDA_SWAP(&b->peak, &peak, live)) {}
}
void spanprof_buffer_release(int device, size_t bytes) {
    spanprof_i_buffers_of *const b = spanprof_i_buffers_at(device);
    uint64_t live;
    if (!b) return;
    live = SPANPROF_I_LOAD(&b->live);
    while (!SPANPROF_I_CUDA_SWAP(&b->live, &live, live > bytes ? live - bytes : 0u)) {}
    if (live < bytes) spanprof_i_cuda_note(&spanprof_i_cuda_noted_release, "more buffer bytes released than acquired; ", "counted as 0 live");
}
uint64_t spanprof_buffer_live(int device) {
    const spanprof_i_buffers_of *const b = spanprof_i_buffers_at(device);
    return b ? SPANPROF_I_LOAD(&b->live) : 0;
}
uint64_t spanprof_buffer_peak(int device) {
    const spanprof_i_buffers_of *const b = spanprof_i_buffers_at(device);
    return b ? SPANPROF_I_LOAD(&b->peak) : 0;
}
void spanprof_buffer_reset_peak(int device) {
    spanprof_i_buffers_of *const b = spanprof_i_buffers_at(device);
    if (b) SPANPROF_I_STORE(&b->peak, SPANPROF_I_LOAD(&b->live));
}

static uint64_t spanprof_i_cuda_captures; /* declared and not ended */
void spanprof_cuda_capture_begin(void) { SPANPROF_I_CUDA_ADD(&spanprof_i_cuda_captures, 1u); }
void spanprof_cuda_capture_end(void) {
    uint64_t captures = SPANPROF_I_LOAD(&spanprof_i_cuda_captures);
    while (captures && !SPANPROF_I_CUDA_SWAP(&spanprof_i_cuda_captures, &captures, captures - 1u)) {}
}

#if !SPANPROF_I_CUDA

/* 5.2 the stub */

static const char *spanprof_i_cuda_prepare(void *user, spanprof_hook_call *call) {
    (void)user;
    call->meta.timing = "host";
    SPANPROF_I_CUDA_NOTE(SPANPROF_I_CUDA_WHY);
    return SPANPROF_I_CUDA_WHY;
}
const spanprof_hooks spanprof_cuda_hooks = { SPANPROF_I_NULL, spanprof_i_cuda_prepare, SPANPROF_I_NULL, SPANPROF_I_NULL };
const char *spanprof_i_cuda_stream_prepare(void *stream, spanprof_hook_call *call) { return spanprof_i_cuda_prepare(stream, call); }
const char *spanprof_i_cuda_stream_complete(void *stream, spanprof_hook_call *call) { (void)stream, (void)call; return SPANPROF_I_NULL; }
const char *spanprof_i_cuda_enrich(void *stream, spanprof_hook_call *call) { (void)stream, (void)call; return SPANPROF_I_NULL; }
const char *spanprof_cuda_status(void) { return SPANPROF_I_CUDA_WHY; }

/* Other files of the program may have the toolkit: where the runtime is linked, their memory comes from it all the same. Else 801
 * (cudaErrorNotSupported). */
#if SPANPROF_I_GNU && defined(__ELF__)
extern int spanprof_i_cuda_weak_malloc(void **pointer, size_t bytes) __asm__("cudaMalloc") __attribute__((weak));
extern int spanprof_i_cuda_weak_free(void *pointer) __asm__("cudaFree") __attribute__((weak));
#else
static int (*const spanprof_i_cuda_weak_malloc)(void **pointer, size_t bytes) = SPANPROF_I_NULL;
static int (*const spanprof_i_cuda_weak_free)(void *pointer) = SPANPROF_I_NULL;
#endif
spanprof_cuda_error spanprof_cuda_malloc(void **pointer, size_t bytes) {
    if (spanprof_i_cuda_weak_malloc) return SPANPROF_I_CAST(spanprof_cuda_error, spanprof_i_cuda_weak_malloc(pointer, bytes));
    if (pointer) *pointer = SPANPROF_I_NULL;
    return SPANPROF_I_CAST(spanprof_cuda_error, 801);
}
spanprof_cuda_error spanprof_cuda_free(void *pointer) {
    if (spanprof_i_cuda_weak_free) return SPANPROF_I_CAST(spanprof_cuda_error, spanprof_i_cuda_weak_free(pointer));
    return SPANPROF_I_CAST(spanprof_cuda_error, pointer ? 801 : 0);
}
spanprof_status spanprof_cuda_memory(spanprof_cuda_memory_info *out) {
    if (!out) return SPANPROF_ERR_ARGUMENT;
    memset(out, 0, sizeof *out);
    return SPANPROF_ERR_STATE;
}
void spanprof_cuda_device_begin(spanprof_cuda_device_span *d, spanprof_site *site, struct CUstream_st *stream) {
    d->begun = 1;
    d->stream = stream;
    d->pair = SPANPROF_I_NULL;
    d->error = SPANPROF_I_CUDA_WHY;
    d->scope = spanprof_i_scope_enter(site, &d->scope);
}
void spanprof_cuda_device_end(spanprof_cuda_device_span *d) {
    spanprof_meta meta;
    if (!d->begun) return;
    d->begun = 0;
    if (d->scope.word) {
        memset(&meta, 0, sizeof meta);
        meta.timing = "host";
        meta.hook_error = "prepare: " SPANPROF_I_CUDA_WHY;
        SPANPROF_I_CUDA_NOTE(SPANPROF_I_CUDA_WHY);
        spanprof_set_meta(spanprof_current(), &meta);
    }
    spanprof_i_scope_end(&d->scope);
}

#else

/* 5.2 the driver
 *
 * Everything after the first cudaGetDeviceCount goes to the driver, through the entry points that the runtime hands out: its
 * calls neither set nor take the runtime's last error, can be made in any context without changing the current device, and
 * give the numbers that cudaError_t has too. Each function is asked for in the version of CUDA that brought this form of it. */

struct CUctx_st;
struct CUevent_st;
struct CUmemPoolHandle_st;
#define SPANPROF_I_CUDA_DRIVER_LIST(X)                                                           \
    X(CtxGetCurrent, 11030, (struct CUctx_st **context))                                         \
    X(CtxGetDevice, 11030, (int *device))                                                        \
    X(CtxPushCurrent, 11030, (struct CUctx_st *context))                                         \
    X(CtxPopCurrent, 11030, (struct CUctx_st **context))                                         \
    X(CtxSynchronize, 11030, (void))                                                             \
    X(DevicePrimaryCtxGetState, 11030, (int device, unsigned *flags, int *active))               \
    X(DevicePrimaryCtxRetain, 11030, (struct CUctx_st **context, int device))                    \
    X(DevicePrimaryCtxRelease, 11030, (int device))                                              \
    X(StreamGetCtx, 11030, (struct CUstream_st *stream, struct CUctx_st **context))              \
    X(StreamIsCapturing, 11030, (struct CUstream_st *stream, int *status))                       \
    X(StreamSynchronize, 11030, (struct CUstream_st *stream))                                    \
    X(StreamQuery, 11030, (struct CUstream_st *stream))                                          \
    X(StreamCreate, 11030, (struct CUstream_st **stream, unsigned flags))                        \
    X(StreamDestroy, 11030, (struct CUstream_st *stream))                                        \
    X(ThreadExchangeStreamCaptureMode, 11030, (int *mode))                                       \
    X(EventCreate, 11030, (struct CUevent_st **event, unsigned flags))                           \
    X(EventDestroy, 11030, (struct CUevent_st *event))                                           \
    X(EventRecord, 11030, (struct CUevent_st *event, struct CUstream_st *stream))                \
    X(EventQuery, 11030, (struct CUevent_st *event))                                             \
    X(EventElapsedTime, 11030, (float *milliseconds, struct CUevent_st *from, struct CUevent_st *to)) \
    X(MemGetInfo, 11030, (size_t *free_bytes, size_t *total_bytes))                              \
    X(DeviceGetMemPool, 11030, (struct CUmemPoolHandle_st **pool, int device))                   \
    X(MemPoolGetAttribute, 11030, (struct CUmemPoolHandle_st *pool, int attribute, void *value))
static struct spanprof_i_cuda_driver {
#define SPANPROF_I_X(name, version, parameters) int (*name) parameters;
    SPANPROF_I_CUDA_DRIVER_LIST(SPANPROF_I_X)
#undef SPANPROF_I_X
    int (*CtxGetId)(struct CUctx_st *context, unsigned long long *id); /* CUDA 12; NULL before */
} spanprof_i_cu;

/* Results: 0, an error of the driver, or one of these. */
enum { SPANPROF_I_CUDA_IDLE = -1, SPANPROF_I_CUDA_CAPTURE = -2, SPANPROF_I_CUDA_FULL = -3, SPANPROF_I_CUDA_MOVED = -4 };

/* hook_error of a result. */
static const char *spanprof_i_cuda_text(int result, char *text, size_t room) {
    switch (result) {
    case SPANPROF_I_CUDA_IDLE: return "no CUDA context yet";
    case SPANPROF_I_CUDA_CAPTURE: return "stream capture in progress";
    case SPANPROF_I_CUDA_FULL: return "too many device spans in flight (SPANPROF_CUDA_MAX_PAIRS)";
    case SPANPROF_I_CUDA_MOVED: return "the context of the span's begin is gone";
    default:
        snprintf(text, room, "%s: %s", cudaGetErrorName(SPANPROF_I_CAST(cudaError_t, result)), cudaGetErrorString(SPANPROF_I_CAST(cudaError_t, result)));
        return text;
    }
}
static const char *spanprof_i_cuda_failed(int result, char *text, size_t room) {
    const char *const why = spanprof_i_cuda_text(result, text, room);
    if (result > 0) SPANPROF_I_CUDA_NOTE(why);
    return why;
}

static int spanprof_i_cuda_symbol(const char *name, unsigned version, void *function) {
    void *address = SPANPROF_I_NULL;
#if CUDART_VERSION >= 12050
    enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &address, version, cudaEnableLegacyStream, &found);
    if (found != cudaDriverEntryPointSuccess) return 0;
#elif CUDART_VERSION >= 12000
    enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t error = cudaGetDriverEntryPoint(name, &address, cudaEnableLegacyStream, &found);
    (void)version;
    if (found != cudaDriverEntryPointSuccess) return 0;
#else
    const cudaError_t error = cudaGetDriverEntryPoint(name, &address, cudaEnableLegacyStream);
    (void)version;
#endif
    if (error != cudaSuccess || !address) return 0;
    memcpy(function, &address, sizeof address);
    return 1;
}

/* 5.3 is a device usable: asked once a process, and never again in a child of a process that could use one */

enum { SPANPROF_I_CUDA_UNKNOWN, SPANPROF_I_CUDA_READY, SPANPROF_I_CUDA_FAILED };
static uint32_t spanprof_i_cuda_state;      /* published after what it stands for is written */
static char spanprof_i_cuda_why[256];       /* FAILED: the reason */
static uint32_t spanprof_i_cuda_registered; /* fork handlers */
static int spanprof_i_cuda_devices;         /* READY: how many there are */
/* Guards the state's change, the table of pointers and the device spans' lists; held for some ten instructions beside driver
 * calls that take the driver's own lock. */
static pthread_mutex_t spanprof_i_cuda_mutex = PTHREAD_MUTEX_INITIALIZER;

static void spanprof_i_cuda_lock(void) { pthread_mutex_lock(&spanprof_i_cuda_mutex); }
static void spanprof_i_cuda_unlock(void) { pthread_mutex_unlock(&spanprof_i_cuda_mutex); }
static void spanprof_i_cuda_forget(void);

/* CUDA does not work in a child of a process that initialized it: no call is made there. */
static void spanprof_i_cuda_child(void) {
    if (SPANPROF_I_LOAD(&spanprof_i_cuda_state) == SPANPROF_I_CUDA_READY) {
        snprintf(spanprof_i_cuda_why, sizeof spanprof_i_cuda_why, "%s: %s (forked after CUDA was initialized)",
                 cudaGetErrorName(cudaErrorInitializationError), cudaGetErrorString(cudaErrorInitializationError));
        SPANPROF_I_PUBLISH(&spanprof_i_cuda_state, SPANPROF_I_CAST(uint32_t, SPANPROF_I_CUDA_FAILED));
    }
    spanprof_i_cuda_forget();
    spanprof_i_cuda_unlock();
}
static void spanprof_i_cuda_on_fork(void) { /* locked */
    if (!spanprof_i_cuda_registered && !pthread_atfork(spanprof_i_cuda_lock, spanprof_i_cuda_unlock, spanprof_i_cuda_child)) spanprof_i_cuda_registered = 1;
}

/* Failures of the runtime's own start: as last error they are the answer already. Any other last error shows that the runtime
 * has started, so that cudaGetDeviceCount succeeds and does not write over it. */
static int spanprof_i_cuda_is_start_failure(cudaError_t error) {
    const int codes[] = { 3, 4, 34, 35, 36, 46, 100, 101, 127, 128, 802, 803, 804, 999 };
    size_t i;
    for (i = 0; i < sizeof codes / sizeof *codes; i++)
        if (SPANPROF_I_CAST(int, error) == codes[i]) return 1;
    return 0;
}

static void spanprof_i_cuda_probe(void) { /* locked */
    const cudaError_t pending = cudaPeekAtLastError();
    cudaError_t error = pending;
    const char *missing = SPANPROF_I_NULL;
    int devices = 0;
    spanprof_i_cuda_on_fork();
    if (!spanprof_i_cuda_is_start_failure(pending)) {
        error = cudaGetDeviceCount(&devices);
        if (error == cudaSuccess && devices < 1) error = cudaErrorNoDevice;
    }
    if (error == cudaSuccess) {
#define SPANPROF_I_X(name, version, parameters) \
        if (!missing && !spanprof_i_cuda_symbol("cu" #name, version, &spanprof_i_cu.name)) missing = "cu" #name;
        SPANPROF_I_CUDA_DRIVER_LIST(SPANPROF_I_X)
#undef SPANPROF_I_X
        spanprof_i_cuda_symbol("cuCtxGetId", 12000, &spanprof_i_cu.CtxGetId);
        spanprof_i_cuda_devices = devices;
        if (!missing) spanprof_i_cuda_symbol("cuEventElapsedTime", 12080, &spanprof_i_cu.EventElapsedTime); /* five times as fast */
    }
    if (pending == cudaSuccess && cudaPeekAtLastError() != cudaSuccess) cudaGetLastError(); /* of this function's own making */
    if (missing) snprintf(spanprof_i_cuda_why, sizeof spanprof_i_cuda_why, "the driver has no %s", missing);
    else if (error != cudaSuccess) spanprof_i_cuda_text(SPANPROF_I_CAST(int, error), spanprof_i_cuda_why, sizeof spanprof_i_cuda_why);
    SPANPROF_I_PUBLISH(&spanprof_i_cuda_state, SPANPROF_I_CAST(uint32_t, missing || error != cudaSuccess ? SPANPROF_I_CUDA_FAILED : SPANPROF_I_CUDA_READY));
}
/* Acquires what the probe wrote. */
static int spanprof_i_cuda_ready(void) { return __atomic_load_n(&spanprof_i_cuda_state, __ATOMIC_ACQUIRE) == SPANPROF_I_CUDA_READY; }
const char *spanprof_cuda_status(void) {
    uint32_t state = __atomic_load_n(&spanprof_i_cuda_state, __ATOMIC_ACQUIRE);
    if (SPANPROF_I_LIKELY(state == SPANPROF_I_CUDA_READY)) return SPANPROF_I_NULL;
    if (state == SPANPROF_I_CUDA_UNKNOWN) {
        const int saved = errno;
        spanprof_i_cuda_lock();
        if (spanprof_i_cuda_state == SPANPROF_I_CUDA_UNKNOWN) spanprof_i_cuda_probe();
        state = spanprof_i_cuda_state;
        spanprof_i_cuda_unlock();
        errno = saved;
    }
    return state == SPANPROF_I_CUDA_READY ? SPANPROF_I_NULL : spanprof_i_cuda_why;
}

/* 5.4 contexts, captures, LibTorch */

#define SPANPROF_I_CUDA_LEGACY SPANPROF_I_PTR(struct CUstream_st *, SPANPROF_I_CAST(uintptr_t, 1))
#define SPANPROF_I_CUDA_PER_THREAD SPANPROF_I_PTR(struct CUstream_st *, SPANPROF_I_CAST(uintptr_t, 2))
/* A default stream is one of whatever context is current. */
static int spanprof_i_cuda_is_default(const struct CUstream_st *stream) { return SPANPROF_I_PTR(uintptr_t, stream) <= 2; }

/* Where a span works. */
typedef struct spanprof_i_cuda_place {
    struct CUctx_st *context;
    int device; /* -1: unknown */
    int pushed, retained;
} spanprof_i_cuda_place;

static void spanprof_i_cuda_leave(const spanprof_i_cuda_place *place) {
    struct CUctx_st *popped;
    if (place->pushed) spanprof_i_cu.CtxPopCurrent(&popped);
    if (place->retained) spanprof_i_cu.DevicePrimaryCtxRelease(place->device);
}

/* Makes a stream's context current: for a default stream that of the thread, or, in a thread that has not used CUDA yet, the
 * primary one of its device if the program has made it. IDLE: there is none, and none is made. To be left when it returns 0. */
static int spanprof_i_cuda_enter(spanprof_i_cuda_place *place, struct CUstream_st *stream) {
    struct CUctx_st *current = SPANPROF_I_NULL;
    int result, active = 0;
    unsigned flags;
    place->device = -1;
    place->pushed = place->retained = 0;
    if ((result = spanprof_i_cu.CtxGetCurrent(&current)) != 0) return result;
    place->context = current;
    if (!spanprof_i_cuda_is_default(stream)) {
        if ((result = spanprof_i_cu.StreamGetCtx(stream, &place->context)) != 0) return result;
    } else if (!current) {
        int device = 0;
        if ((result = SPANPROF_I_CAST(int, cudaGetDevice(&device))) != 0) return result;
        place->device = device;
        if ((result = spanprof_i_cu.DevicePrimaryCtxGetState(device, &flags, &active)) != 0) return result;
        if (!active) return SPANPROF_I_CUDA_IDLE;
        if ((result = spanprof_i_cu.DevicePrimaryCtxRetain(&place->context, device)) != 0) return result;
        place->retained = 1;
    }
    if (place->context != current) {
        result = spanprof_i_cu.CtxPushCurrent(place->context);
        place->pushed = result == 0;
    }
    if (!result) result = spanprof_i_cu.CtxGetDevice(&place->device);
    if (result) spanprof_i_cuda_leave(place);
    return result;
}

/* 0, CAPTURE or an error. The legacy stream answers "implicit" while any blocking stream of the context captures. */
static int spanprof_i_cuda_capturing(struct CUstream_st *stream) {
    int status = 0;
    const int result = spanprof_i_cu.StreamIsCapturing(stream, &status);
    if (result >= 900 && result <= 908) return SPANPROF_I_CUDA_CAPTURE;
    return result ? result : status ? SPANPROF_I_CUDA_CAPTURE : 0;
}

/* A thread in relaxed mode may query and synchronize other streams while one of its own captures. */
static void spanprof_i_cuda_exchange(int *mode) { spanprof_i_cu.ThreadExchangeStreamCaptureMode(mode); }
#define SPANPROF_I_CUDA_RELAXED 2

/* LibTorch's C functions, which let no exception out, and the allocator figures of section 6: null where not linked. */
#if defined(__ELF__)
#define SPANPROF_I_CUDA_LIBTORCH 1
extern int32_t aoti_torch_get_current_cuda_stream(int32_t device, void **stream) __attribute__((weak));
extern int32_t torch_cuda_stream_synchronize(void *stream, int32_t device) __attribute__((weak));
extern int spanprof_i_libtorch_memory(int device, uint64_t *figures) __attribute__((weak));
#else
#define SPANPROF_I_CUDA_LIBTORCH 0
#endif

/* CAPTURE when LibTorch's current stream captures. Else synchronizes that stream by LibTorch's own path, so that what watches
 * it there sees the wait; unless the program has an error pending, which a failure there would take. LibTorch logs its failures:
 * after the first it is not asked again. Called with the context current. */
static int spanprof_i_cuda_libtorch(int device) {
#if SPANPROF_I_CUDA_LIBTORCH
    static uint32_t off;
    void *stream = SPANPROF_I_NULL;
    if (!aoti_torch_get_current_cuda_stream || SPANPROF_I_LOAD(&off)) return 0;
    if (aoti_torch_get_current_cuda_stream(device, &stream)) {
        SPANPROF_I_STORE(&off, 1u);
        return 0;
    }
    if (stream) {
        const int capturing = spanprof_i_cuda_capturing(SPANPROF_I_CAST(struct CUstream_st *, stream));
        if (capturing) return capturing;
    }
    if (torch_cuda_stream_synchronize && cudaPeekAtLastError() == cudaSuccess && torch_cuda_stream_synchronize(stream, device)) SPANPROF_I_STORE(&off, 1u);
#else
    (void)device;
#endif
    return 0;
}

spanprof_status spanprof_cuda_memory(spanprof_cuda_memory_info *out) {
    spanprof_i_cuda_place place;
    struct CUmemPoolHandle_st *pool = SPANPROF_I_NULL;
    size_t free_bytes, total_bytes;
    uint64_t used = 0, reserved = 0;
    const int saved = errno;
    if (!out) return SPANPROF_ERR_ARGUMENT;
    memset(out, 0, sizeof *out);
    out->device = -1;
    if (spanprof_cuda_status() || spanprof_i_cuda_enter(&place, SPANPROF_I_CUDA_LEGACY)) return SPANPROF_ERR_STATE;
    out->device = place.device;
    if (!spanprof_i_cu.MemGetInfo(&free_bytes, &total_bytes)) {
        out->device_free = free_bytes;
        out->device_total = total_bytes;
        out->has |= SPANPROF_CUDA_MEMORY_DEVICE;
    }
    if (!spanprof_i_cu.DeviceGetMemPool(&pool, place.device) && /* CU_MEMPOOL_ATTR_USED_MEM_CURRENT, _RESERVED_MEM_CURRENT */
        !spanprof_i_cu.MemPoolGetAttribute(pool, 7, &used) && !spanprof_i_cu.MemPoolGetAttribute(pool, 5, &reserved)) {
        out->pool_used = used;
        out->pool_reserved = reserved;
        out->has |= SPANPROF_CUDA_MEMORY_POOL;
    }
#if SPANPROF_I_CUDA_LIBTORCH
    if (spanprof_i_libtorch_memory) {
        uint64_t figures[3];
        if (spanprof_i_libtorch_memory(place.device, figures)) {
            out->libtorch_allocated = figures[0];
            out->libtorch_reserved = figures[1];
            out->libtorch_peak = figures[2];
            out->has |= SPANPROF_CUDA_MEMORY_LIBTORCH;
        }
    }
#endif
    spanprof_i_cuda_leave(&place);
    errno = saved;
    return out->has ? SPANPROF_OK : SPANPROF_ERR_STATE;
}

/* 5.5 registered buffers: a hash table of device pointers, open addressing, at most half full */

typedef struct spanprof_i_cuda_buffer { uintptr_t address; size_t bytes; int device; } spanprof_i_cuda_buffer;
static spanprof_i_cuda_buffer *spanprof_i_cuda_buffers;
static size_t spanprof_i_cuda_buffer_room, spanprof_i_cuda_buffer_count; /* room is a power of two, or 0 */

static size_t spanprof_i_cuda_slot(uintptr_t address) {
    return SPANPROF_I_CAST(size_t, (address >> 8) * SPANPROF_I_CAST(uintptr_t, 0x9E3779B97F4A7C15ull) >> 20) & (spanprof_i_cuda_buffer_room - 1);
}
static void spanprof_i_cuda_put(const spanprof_i_cuda_buffer *buffer) {
    size_t i = spanprof_i_cuda_slot(buffer->address);
    while (spanprof_i_cuda_buffers[i].address) i = (i + 1) & (spanprof_i_cuda_buffer_room - 1);
    spanprof_i_cuda_buffers[i] = *buffer;
}
/* 0 when there is no memory for it: then the buffer is not counted. */
static int spanprof_i_cuda_remember(const spanprof_i_cuda_buffer *buffer) {
    spanprof_i_cuda_lock();
    if (2 * (spanprof_i_cuda_buffer_count + 1) > spanprof_i_cuda_buffer_room) {
        const size_t room = spanprof_i_cuda_buffer_room;
        spanprof_i_cuda_buffer *const old = spanprof_i_cuda_buffers;
        const size_t wider = room ? 2 * room : 256;
        spanprof_i_cuda_buffer *const table = SPANPROF_I_CAST(spanprof_i_cuda_buffer *, calloc(wider, sizeof *table));
        size_t i;
        if (!table) {
            spanprof_i_cuda_unlock();
            return 0;
        }
        spanprof_i_cuda_on_fork();
        spanprof_i_cuda_buffers = table;
        spanprof_i_cuda_buffer_room = wider;
        for (i = 0; i < room; i++)
            if (old[i].address) spanprof_i_cuda_put(&old[i]);
        free(old);
    }
    spanprof_i_cuda_put(buffer);
    spanprof_i_cuda_buffer_count++;
    spanprof_i_cuda_unlock();
    return 1;
}
/* Takes a pointer out; 0 when it is not there. The entries after it move up, so that no gap ends a search too early. */
static int spanprof_i_cuda_recall(uintptr_t address, spanprof_i_cuda_buffer *buffer) {
    size_t i, next, home;
    int found = 0;
    spanprof_i_cuda_lock();
    if (spanprof_i_cuda_buffer_count) {
        const size_t mask = spanprof_i_cuda_buffer_room - 1;
        for (i = spanprof_i_cuda_slot(address); spanprof_i_cuda_buffers[i].address && spanprof_i_cuda_buffers[i].address != address;) i = (i + 1) & mask;
        if (spanprof_i_cuda_buffers[i].address) {
            *buffer = spanprof_i_cuda_buffers[i];
            for (next = (i + 1) & mask; spanprof_i_cuda_buffers[next].address; next = (next + 1) & mask) {
                home = spanprof_i_cuda_slot(spanprof_i_cuda_buffers[next].address);
                if (((next - home) & mask) < ((next - i) & mask)) continue; /* its search begins after the gap */
                spanprof_i_cuda_buffers[i] = spanprof_i_cuda_buffers[next];
                i = next;
            }
            spanprof_i_cuda_buffers[i].address = 0;
            spanprof_i_cuda_buffer_count--;
            found = 1;
        }
    }
    spanprof_i_cuda_unlock();
    return found;
}

spanprof_cuda_error spanprof_cuda_malloc(void **pointer, size_t bytes) {
    const cudaError_t error = cudaMalloc(pointer, bytes);
    spanprof_i_cuda_buffer buffer;
    buffer.device = 0;
    if (error != cudaSuccess || !*pointer || cudaGetDevice(&buffer.device) != cudaSuccess) return error;
    buffer.address = SPANPROF_I_PTR(uintptr_t, *pointer);
    buffer.bytes = bytes;
    if (spanprof_i_cuda_remember(&buffer)) spanprof_buffer_acquire(buffer.device, bytes);
    return error;
}
/* The entry goes first: as soon as the memory is free, another thread may be given the same address. */
spanprof_cuda_error spanprof_cuda_free(void *pointer) {
    spanprof_i_cuda_buffer buffer;
    const int known = pointer && spanprof_i_cuda_recall(SPANPROF_I_PTR(uintptr_t, pointer), &buffer);
    const cudaError_t error = cudaFree(pointer);
    if (known && error == cudaSuccess) spanprof_buffer_release(buffer.device, buffer.bytes);
    else if (known) spanprof_i_cuda_remember(&buffer);
    return error;
}

/* 5.6 synchronized spans. scratch: 0 usable, 1 device + 1 before, 2 live bytes before, 3 device + 1 at the end */

static uint64_t spanprof_i_cuda_waiting; /* device spans that wait to be read: 0 spares the look */
static void spanprof_i_cuda_resolve_some(void);

/* The device of the thread's context; 201 (cudaErrorDeviceUninitialized) without one, unless there is only one device. */
static int spanprof_i_cuda_device(int *device) {
    *device = 0;
    return spanprof_i_cuda_devices == 1 ? 0 : spanprof_i_cu.CtxGetDevice(device);
}
static void spanprof_i_cuda_sample(spanprof_hook_call *call, int device) {
    call->scratch[0] = 1;
    call->scratch[1] = SPANPROF_I_CAST(uint64_t, device + 1);
    call->scratch[2] = spanprof_buffer_live(device);
}
/* stream NULL: of the whole device. */
static const char *spanprof_i_cuda_begin(struct CUstream_st *stream, spanprof_hook_call *call) {
    const char *const why = spanprof_cuda_status();
    spanprof_i_cuda_place place;
    int result;
    call->meta.timing = "host";
    if (why) {
        SPANPROF_I_CUDA_NOTE(why);
        return why;
    }
    if (stream || spanprof_i_cuda_device(&place.device)) {
        result = spanprof_i_cuda_enter(&place, stream);
        if (!result) spanprof_i_cuda_leave(&place);
        else if (result != SPANPROF_I_CUDA_IDLE) return spanprof_i_cuda_failed(result, call->text, sizeof call->text);
    }
    spanprof_i_cuda_sample(call, place.device);
    return SPANPROF_I_NULL;
}
static const char *spanprof_i_cuda_prepare(void *user, spanprof_hook_call *call) {
    (void)user;
    if (SPANPROF_I_LIKELY(spanprof_i_cuda_ready() && spanprof_i_cuda_devices == 1)) { /* no call needed */
        call->meta.timing = "host";
        spanprof_i_cuda_sample(call, 0);
        return SPANPROF_I_NULL;
    }
    return spanprof_i_cuda_begin(SPANPROF_I_NULL, call);
}
const char *spanprof_i_cuda_stream_prepare(void *stream, spanprof_hook_call *call) {
    return spanprof_i_cuda_begin(stream ? SPANPROF_I_CAST(struct CUstream_st *, stream) : SPANPROF_I_CUDA_LEGACY, call);
}

/* Waits for the device of the thread's context. */
static int spanprof_i_cuda_wait_device(int device) {
    int result = SPANPROF_I_LOAD(&spanprof_i_cuda_captures) ? SPANPROF_I_CUDA_CAPTURE : spanprof_i_cuda_capturing(SPANPROF_I_CUDA_LEGACY);
    if (!result) result = spanprof_i_cuda_libtorch(device);
    return result ? result : spanprof_i_cu.CtxSynchronize();
}
static int spanprof_i_cuda_wait_stream(struct CUstream_st *stream) {
    int result, mode = SPANPROF_I_CUDA_RELAXED;
    spanprof_i_cuda_exchange(&mode);
    result = spanprof_i_cuda_capturing(stream);
    if (!result) result = spanprof_i_cu.StreamSynchronize(stream);
    spanprof_i_cuda_exchange(&mode);
    return result;
}
/* Without a context there is nothing to wait for: no error, timing stays "host". */
static const char *spanprof_i_cuda_finish(struct CUstream_st *stream, spanprof_hook_call *call) {
    spanprof_i_cuda_place place;
    int result = 201;
    if (!call->scratch[0] || !spanprof_i_cuda_ready()) return SPANPROF_I_NULL;
    /* The usual case, without a look at the context: the calls themselves say 201 when the thread has none. */
    if (!stream && !spanprof_i_cuda_device(&place.device)) result = spanprof_i_cuda_wait_device(place.device);
    if (result == 201 && !(result = spanprof_i_cuda_enter(&place, stream))) {
        result = stream ? spanprof_i_cuda_wait_stream(stream) : spanprof_i_cuda_wait_device(place.device);
        spanprof_i_cuda_leave(&place);
    }
    if (result == SPANPROF_I_CUDA_IDLE) return SPANPROF_I_NULL;
    call->scratch[3] = SPANPROF_I_CAST(uint64_t, place.device + 1);
    if (!call->meta.device) call->meta.device = "cuda";
    if (result) return spanprof_i_cuda_failed(result, call->text, sizeof call->text);
    call->meta.timing = stream ? "stream-synchronized" : "device-synchronized";
    return SPANPROF_I_NULL;
}
static const char *spanprof_i_cuda_complete(void *user, spanprof_hook_call *call) {
    (void)user;
    return spanprof_i_cuda_finish(SPANPROF_I_NULL, call);
}
const char *spanprof_i_cuda_stream_complete(void *stream, spanprof_hook_call *call) {
    return spanprof_i_cuda_finish(stream ? SPANPROF_I_CAST(struct CUstream_st *, stream) : SPANPROF_I_CUDA_LEGACY, call);
}

/* LibTorch's allocator figures, as attributes of the innermost span. */
static void spanprof_i_cuda_tell_libtorch(int device) {
#if SPANPROF_I_CUDA_LIBTORCH
    if (spanprof_i_libtorch_memory) {
        uint64_t figures[3];
        if (spanprof_i_libtorch_memory(device, figures)) {
            SPANPROF_ATTR_U64("libtorch_allocated_bytes", figures[0]);
            SPANPROF_ATTR_U64("libtorch_reserved_bytes", figures[1]);
            SPANPROF_ATTR_U64("libtorch_peak_bytes", figures[2]);
        }
    }
#else
    (void)device;
#endif
}

/* The counters belong to the device that was synchronized; when the program has changed devices inside the span there is no
 * delta to tell. The span is still open here, so that attributes are its own. */
const char *spanprof_i_cuda_enrich(void *stream, spanprof_hook_call *call) {
    const uint64_t at = call->scratch[3] ? call->scratch[3] : call->scratch[1];
    const int device = SPANPROF_I_CAST(int, at) - 1;
    const spanprof_i_buffers_of *b;
    (void)stream;
    if (!call->scratch[0] || !spanprof_i_cuda_ready()) return SPANPROF_I_NULL;
    b = spanprof_i_buffers_at(device);
    if (b) {
        call->meta.alloc_live_bytes = SPANPROF_I_LOAD(&b->live);
        call->meta.alloc_peak_bytes = SPANPROF_I_LOAD(&b->peak);
        call->meta.set |= SPANPROF_META_BIT(alloc_live_bytes) | SPANPROF_META_BIT(alloc_peak_bytes);
        if (at == call->scratch[1]) {
            call->meta.alloc_delta_bytes = SPANPROF_I_CAST(int64_t, call->meta.alloc_live_bytes - call->scratch[2]);
            call->meta.set |= SPANPROF_META_BIT(alloc_delta_bytes);
        }
    }
    if (call->scratch[3]) {
        call->meta.device_index = device;
        call->meta.set |= SPANPROF_META_BIT(device_index);
        spanprof_i_cuda_tell_libtorch(device);
        if (SPANPROF_I_LOAD(&spanprof_i_cuda_waiting)) spanprof_i_cuda_resolve_some();
    }
    return SPANPROF_I_NULL;
}
const spanprof_hooks spanprof_cuda_hooks = { SPANPROF_I_NULL, spanprof_i_cuda_prepare, spanprof_i_cuda_complete, spanprof_i_cuda_enrich };

/* 5.7 device spans
 *
 * A pair of events stands around the work of a scope on its stream. Pairs whose end is recorded wait in their context's list,
 * and are read, never waited for, by later CUDA spans and at flush. The duration comes from the pair; the start from a base event
 * of known host time, renewed every second: elapsed times are floats, whose grid grows with the distance from the base, and
 * the clocks of device and host drift apart. The base is recorded on an idle stream of our own, so that it takes place at
 * once: its host time is known to half the time that it took to be seen done. */

#define SPANPROF_I_CUDA_BASE_NS 1000000000ull    /* age at which a base is renewed, unless device spans are open in the context */
#define SPANPROF_I_CUDA_BASE_MAX_NS 8000000000ull /* age at which it is renewed anyway */
#define SPANPROF_I_CUDA_BATCH 16                 /* pairs that gather before a device span reads them */

typedef struct spanprof_i_cuda_base {
    struct CUevent_st *event;
    uint64_t host_ns;
    uint32_t users; /* pairs that count from it, and one while it is the context's newest or is being measured */
    struct spanprof_i_cuda_base *next;
} spanprof_i_cuda_base;

/* Spans of a track that were recorded last, without those inside another of them; oldest first. */
typedef struct spanprof_i_cuda_recent { uint64_t begin_order, end_order, end_ns; } spanprof_i_cuda_recent;
#define SPANPROF_I_CUDA_RECENT 16

typedef struct spanprof_i_cuda_track {
    struct CUstream_st *stream;
    const void *thread;     /* of a per-thread default stream, else NULL */
    uint64_t track;
    uint32_t session;       /* in which it was named */
    uint32_t count;         /* of recent */
    spanprof_i_cuda_recent recent[SPANPROF_I_CUDA_RECENT];
    struct spanprof_i_cuda_track *next;
} spanprof_i_cuda_track;

typedef struct spanprof_i_cuda_context {
    struct CUctx_st *handle;
    unsigned long long id;  /* tells a context from a later one with the same handle; 0: the driver does not say */
    int device;
    int dead;               /* off the list; goes when nothing holds it */
    int resolving, renewing;
    uint32_t holds;         /* open device spans, and calls that work on it without the lock */
    uint32_t open;          /* open device spans */
    uint32_t pairs, waiting, patience; /* pairs made; in the list; in the list before the next device span reads it */
    struct CUstream_st *stream; /* of the bases */
    spanprof_i_cuda_base *base, *bases;
    struct spanprof_i_cuda_pair *free_pairs, *first, *last;
    spanprof_i_cuda_track *tracks[64];
    struct spanprof_i_cuda_context *next;
} spanprof_i_cuda_context;

struct spanprof_i_cuda_pair {
    struct CUevent_st *start, *end;
    spanprof_i_cuda_context *context;
    spanprof_i_cuda_base *base;
    spanprof_i_cuda_track *track;
    spanprof_site *site;
    spanprof_span host;
    uint64_t launch_ns;
    uint64_t begin_order, end_order;
    uint32_t closed; /* spanprof_i_cuda_closed at the begin */
    struct spanprof_i_cuda_pair *next;
};
typedef struct spanprof_i_cuda_pair spanprof_i_cuda_pair;

static spanprof_i_cuda_context *spanprof_i_cuda_contexts;
static uint64_t spanprof_i_cuda_order;    /* of begins and ends, to tell nested device spans from successive ones */
static uint32_t spanprof_i_cuda_streams[SPANPROF_CUDA_MAX_DEVICES]; /* stream numbers given out; 0 is the legacy default stream */
static uint32_t spanprof_i_cuda_registered_flush;

/* Sessions that have closed. A pair that was open meanwhile is not recorded in the next one. */
static uint32_t spanprof_i_cuda_closed;
/* Number of the session that a span was recorded in: the top bits of its position. */
static uint32_t spanprof_i_cuda_session_of(spanprof_span span) { return SPANPROF_I_CAST(uint32_t, span.pos >> 54); }

static void spanprof_i_cuda_lost(uint64_t pairs) {
    if (pairs) spanprof_i_dropped(pairs);
}

static void spanprof_i_cuda_free_pairs(spanprof_i_cuda_pair *pair) {
    while (pair) {
        spanprof_i_cuda_pair *const next = pair->next;
        free(pair);
        pair = next;
    }
}
static void spanprof_i_cuda_free_context(spanprof_i_cuda_context *c) {
    size_t i;
    spanprof_i_cuda_free_pairs(c->free_pairs);
    spanprof_i_cuda_free_pairs(c->first);
    while (c->bases) {
        spanprof_i_cuda_base *const next = c->bases->next;
        free(c->bases);
        c->bases = next;
    }
    for (i = 0; i < sizeof c->tracks / sizeof *c->tracks; i++)
        while (c->tracks[i]) {
            spanprof_i_cuda_track *const next = c->tracks[i]->next;
            free(c->tracks[i]);
            c->tracks[i] = next;
        }
    free(c);
}
static void spanprof_i_cuda_drop_hold(spanprof_i_cuda_context *c) { /* locked */
    if (!--c->holds && c->dead) spanprof_i_cuda_free_context(c);
}
/* In a forked child: the records go, the parent's events are left alone. Open scopes hold pairs and look no further. */
static void spanprof_i_cuda_forget(void) {
    while (spanprof_i_cuda_contexts) {
        spanprof_i_cuda_context *const next = spanprof_i_cuda_contexts->next;
        spanprof_i_cuda_free_context(spanprof_i_cuda_contexts);
        spanprof_i_cuda_contexts = next;
    }
    SPANPROF_I_STORE(&spanprof_i_cuda_waiting, SPANPROF_I_CAST(uint64_t, 0));
}
/* The context was destroyed, and its events with it. Locked. Returns the pairs that are lost. */
static uint32_t spanprof_i_cuda_bury(spanprof_i_cuda_context *c) {
    spanprof_i_cuda_context **at = &spanprof_i_cuda_contexts;
    const uint32_t lost = c->waiting;
    while (*at && *at != c) at = &(*at)->next;
    if (*at) *at = c->next;
    c->dead = 1;
    spanprof_i_cuda_free_pairs(c->free_pairs);
    spanprof_i_cuda_free_pairs(c->first);
    c->free_pairs = c->first = c->last = SPANPROF_I_NULL;
    c->waiting = 0;
    SPANPROF_I_CUDA_ADD(&spanprof_i_cuda_waiting, 0u - SPANPROF_I_CAST(uint64_t, lost));
    return lost;
}
/* Is the context that c stands for still there? */
static int spanprof_i_cuda_alive(const spanprof_i_cuda_context *c) {
    unsigned long long id = 0;
    unsigned flags;
    int active = 0;
    if (spanprof_i_cu.CtxGetId) return !spanprof_i_cu.CtxGetId(c->handle, &id) && id == c->id;
    return !spanprof_i_cu.DevicePrimaryCtxGetState(c->device, &flags, &active) && active;
}
/* The record of a place's context, made when new. Locked. NULL without memory. */
static spanprof_i_cuda_context *spanprof_i_cuda_context_of(const spanprof_i_cuda_place *place, uint32_t *lost) {
    unsigned long long id = 0;
    spanprof_i_cuda_context *c;
    if (spanprof_i_cu.CtxGetId) spanprof_i_cu.CtxGetId(place->context, &id);
    for (c = spanprof_i_cuda_contexts; c && c->handle != place->context; c = c->next) {}
    if (c && c->id != id) {
        c->holds++;
        *lost += spanprof_i_cuda_bury(c);
        spanprof_i_cuda_drop_hold(c);
        c = SPANPROF_I_NULL;
    }
    if (!c && (c = SPANPROF_I_CAST(spanprof_i_cuda_context *, calloc(1, sizeof *c))) != SPANPROF_I_NULL) {
        c->handle = place->context;
        c->id = id;
        c->device = place->device;
        c->next = spanprof_i_cuda_contexts;
        spanprof_i_cuda_contexts = c;
    }
    return c;
}
/* Keyed by the handle, which the driver gives to a later stream only when the earlier one's work is done: as many tracks as
 * streams at a time. A per-thread default stream has one handle for all threads. Locked. NULL without memory. */
static spanprof_i_cuda_track *spanprof_i_cuda_track_of(spanprof_i_cuda_context *c, struct CUstream_st *stream) {
    const uintptr_t bits = SPANPROF_I_PTR(uintptr_t, stream);
    const void *const thread = bits == 2 ? SPANPROF_I_SELF() : SPANPROF_I_NULL;
    spanprof_i_cuda_track **const head = &c->tracks[(bits >> 4 ^ bits >> 10 ^ SPANPROF_I_PTR(uintptr_t, thread) >> 6) & 63u];
    spanprof_i_cuda_track *t;
    uint32_t number = 0;
    for (t = *head; t && (t->stream != stream || t->thread != thread); t = t->next) {}
    if (t || !(t = SPANPROF_I_CAST(spanprof_i_cuda_track *, calloc(1, sizeof *t)))) return t;
    if (bits != 1) number = c->device >= 0 && c->device < SPANPROF_CUDA_MAX_DEVICES ? ++spanprof_i_cuda_streams[c->device] : SPANPROF_I_CAST(uint32_t, bits >> 4);
    t->stream = stream;
    t->thread = thread;
    t->track = SPANPROF_I_CAST(uint64_t, c->device) << 32 | number;
    t->next = *head;
    *head = t;
    return t;
}

/* Measures a base; called with the context current and held, in relaxed mode, without the lock. 0 or an error. */
static int spanprof_i_cuda_renew(spanprof_i_cuda_context *c) {
    spanprof_i_cuda_base *b;
    struct CUstream_st *stream;
    uint64_t before = 0, after = 0;
    int result = 0, tries;
    spanprof_i_cuda_lock();
    stream = c->stream;
    for (b = c->bases; b && b->users; b = b->next) {}
    if (b) b->users = 1;
    spanprof_i_cuda_unlock();
    if (!b) {
        if (!(b = SPANPROF_I_CAST(spanprof_i_cuda_base *, calloc(1, sizeof *b)))) return SPANPROF_I_CAST(int, cudaErrorMemoryAllocation);
        if ((result = spanprof_i_cu.EventCreate(&b->event, 0)) != 0) {
            free(b);
            return result;
        }
        b->users = 1;
        spanprof_i_cuda_lock();
        b->next = c->bases;
        c->bases = b;
        spanprof_i_cuda_unlock();
    }
    if (!stream && !(result = spanprof_i_cu.StreamCreate(&stream, 1))) { /* CU_STREAM_NON_BLOCKING */
        struct CUstream_st *spare = SPANPROF_I_NULL;
        spanprof_i_cuda_lock();
        if (c->stream) {
            spare = stream;
            stream = c->stream;
        } else {
            c->stream = stream;
        }
        spanprof_i_cuda_unlock();
        if (spare) spanprof_i_cu.StreamDestroy(spare);
    }
    /* The first record on a stream is slow, and a thread may lose its processor: try for a close look, at most 0.3 ms. */
    for (tries = 0; !result && tries < 4; tries++) {
        before = spanprof_i_monotonic_ns();
        if ((result = spanprof_i_cu.EventRecord(b->event, stream)) != 0) break;
        do {
            result = spanprof_i_cu.EventQuery(b->event);
            after = spanprof_i_monotonic_ns();
        } while (result == 600 && after - before < 75000u); /* cudaErrorNotReady */
        if (result == 600) result = 0;
        if (after - before < 12000u) break;
    }
    spanprof_i_cuda_lock();
    if (result) {
        b->users--;
    } else {
        b->host_ns = before + (after - before) / 2;
        if (c->base) c->base->users--;
        c->base = b;
    }
    spanprof_i_cuda_unlock();
    return result;
}

/* Destroys a pair that was never used or can't be used again; its place in the count goes too. */
static void spanprof_i_cuda_unmake(spanprof_i_cuda_context *c, spanprof_i_cuda_pair *pair) {
    if (pair) {
        if (pair->start) spanprof_i_cu.EventDestroy(pair->start);
        if (pair->end) spanprof_i_cu.EventDestroy(pair->end);
        free(pair);
    }
    c->pairs--;
}
static int spanprof_i_cuda_make(spanprof_i_cuda_pair **pair) {
    int result;
    if (!(*pair = SPANPROF_I_CAST(spanprof_i_cuda_pair *, calloc(1, sizeof **pair)))) return SPANPROF_I_CAST(int, cudaErrorMemoryAllocation);
    result = spanprof_i_cu.EventCreate(&(*pair)->start, 0);
    return result ? result : spanprof_i_cu.EventCreate(&(*pair)->end, 0);
}

/* A pair for an open device span; called with the place's context current, in relaxed mode. 0, FULL or an error. */
static int spanprof_i_cuda_take(spanprof_i_cuda_pair **taken, const spanprof_i_cuda_place *place, struct CUstream_st *stream) {
    spanprof_i_cuda_pair *pair = SPANPROF_I_NULL;
    spanprof_i_cuda_context *c;
    uint32_t lost = 0;
    int result = 0, make = 0, renew = 0, renewed = 0;
    spanprof_i_cuda_lock();
    c = spanprof_i_cuda_context_of(place, &lost);
    if (!c) {
        result = SPANPROF_I_CAST(int, cudaErrorMemoryAllocation);
    } else if ((pair = c->free_pairs) != SPANPROF_I_NULL) {
        c->free_pairs = pair->next;
    } else if (c->pairs < SPANPROF_CUDA_MAX_PAIRS) {
        c->pairs++;
        make = 1;
    } else {
        result = SPANPROF_I_CUDA_FULL;
    }
    if (!result) {
        const uint64_t age = c->base ? spanprof_i_monotonic_ns() - c->base->host_ns : 0;
        c->holds++;
        renew = !c->base || (!c->renewing && (age > SPANPROF_I_CUDA_BASE_MAX_NS || (age > SPANPROF_I_CUDA_BASE_NS && !c->open)));
        c->renewing |= renew;
        if (make || renew) {
            spanprof_i_cuda_unlock();
            if (make) result = spanprof_i_cuda_make(&pair);
            if (!result && renew) renewed = spanprof_i_cuda_renew(c);
            spanprof_i_cuda_lock();
            if (renew) c->renewing = 0;
            if (renewed && !c->base) result = renewed; /* else the old one serves on */
        }
        if (!result) {
            pair->track = spanprof_i_cuda_track_of(c, stream);
            if (!pair->track) result = SPANPROF_I_CAST(int, cudaErrorMemoryAllocation);
        }
        if (!result) {
            pair->context = c;
            pair->base = c->base;
            pair->base->users++;
            c->open++;
        } else {
            spanprof_i_cuda_unmake(c, pair);
            spanprof_i_cuda_drop_hold(c);
            pair = SPANPROF_I_NULL;
        }
    }
    spanprof_i_cuda_unlock();
    spanprof_i_cuda_lost(lost);
    *taken = pair;
    return result;
}
/* Ends a pair's part in an open span: into the list, or, when it can't be read, back. Returns whether the list is due. */
static int spanprof_i_cuda_put_down(spanprof_i_cuda_pair *pair, int good) {
    spanprof_i_cuda_context *const c = pair->context;
    uint32_t lost = 0;
    int due = 0;
    spanprof_i_cuda_lock();
    c->open--;
    if (c->dead) {
        lost = good ? 1 : 0;
        free(pair);
    } else if (good) {
        pair->next = SPANPROF_I_NULL;
        if (c->last) c->last->next = pair;
        else c->first = pair;
        c->last = pair;
        SPANPROF_I_CUDA_ADD(&spanprof_i_cuda_waiting, 1u);
        due = ++c->waiting >= c->patience + SPANPROF_I_CUDA_BATCH;
    } else {
        pair->base->users--;
        pair->next = c->free_pairs;
        c->free_pairs = pair;
    }
    spanprof_i_cuda_drop_hold(c);
    spanprof_i_cuda_unlock();
    spanprof_i_cuda_lost(lost);
    return due;
}

static void spanprof_i_cuda_name(const spanprof_i_cuda_context *c, spanprof_i_cuda_track *t, uint32_t session) {
    char process[32], name[64];
    const unsigned number = SPANPROF_I_CAST(unsigned, t->track & 0xffffffffu);
    if (t->session == session) return;
    t->session = session;
    snprintf(process, sizeof process, "GPU %d", c->device);
    snprintf(name, sizeof name, number == 0 ? "stream %u (default)" : t->thread ? "stream %u (per-thread default)" : "stream %u", number);
    spanprof_track_name(t->track, process, SPANPROF_I_CAST(uint32_t, c->device), name);
}
/* On one stream spans follow each other or nest. Starts are rounded, and bases differ by some microseconds, so that spans could
 * cross by as much. A span that follows another moves its start behind it, one that holds others closes over them: returns what
 * to add to the start, may lengthen the duration. Spans are seen in the order of their ends. */
static uint64_t spanprof_i_cuda_fit(spanprof_i_cuda_track *t, const spanprof_i_cuda_pair *pair, uint64_t start, uint64_t *duration) {
    uint64_t shift = 0, inner_end = 0;
    while (t->count && t->recent[t->count - 1].begin_order > pair->begin_order) {
        t->count--;
        if (t->recent[t->count].end_order < pair->end_order && t->recent[t->count].end_ns > inner_end) inner_end = t->recent[t->count].end_ns;
    }
    if (t->count && t->recent[t->count - 1].end_order < pair->begin_order) {
        const uint64_t before = t->recent[t->count - 1].end_ns;
        if (before > start && before - start < 20000u) shift = before - start;
    }
    if (inner_end > start + shift + *duration && inner_end - start - shift - *duration < 500u) *duration = inner_end - start - shift;
    if (t->count == SPANPROF_I_CUDA_RECENT) memmove(t->recent, t->recent + 1, --t->count * sizeof *t->recent);
    t->recent[t->count].begin_order = pair->begin_order;
    t->recent[t->count].end_order = pair->end_order;
    t->recent[t->count++].end_ns = start + shift + *duration;
    return shift;
}
/* Records a pair whose end has taken place. 0, or why it can't be read; 600: not yet. */
static int spanprof_i_cuda_emit(const spanprof_i_cuda_context *c, const spanprof_i_cuda_pair *pair) {
    spanprof_i_cuda_track *const t = pair->track;
    float length = 0, offset = 0;
    uint64_t start, duration, shift;
    int64_t queue;
    int result;
    if (pair->closed != SPANPROF_I_LOAD(&spanprof_i_cuda_closed)) return 0;
    if ((result = spanprof_i_cu.EventElapsedTime(&length, pair->start, pair->end)) != 0) return result;
    if ((result = spanprof_i_cu.EventElapsedTime(&offset, pair->base->event, pair->start)) != 0) return result;
    duration = length > 0 ? SPANPROF_I_CAST(uint64_t, SPANPROF_I_CAST(double, length) * 1e6 + 0.5) : 0;
    queue = SPANPROF_I_CAST(int64_t, pair->base->host_ns - pair->launch_ns) + SPANPROF_I_CAST(int64_t, SPANPROF_I_CAST(double, offset) * 1e6);
    if (queue < 0) queue = 0; /* the clocks agree to some microseconds; work never starts before its launch */
    start = pair->launch_ns + SPANPROF_I_CAST(uint64_t, queue);
    shift = spanprof_i_cuda_fit(t, pair, start, &duration);
    start += shift;
    queue += SPANPROF_I_CAST(int64_t, shift);
    spanprof_i_cuda_name(c, t, spanprof_i_cuda_session_of(pair->host));
    spanprof_track_span(pair->site, t->track, start, duration, queue, pair->host);
    return 0;
}

/* Reads what has taken place of a context's list. c is held by the caller. One thread at a time, so that a track's spans are
 * recorded in the order of their ends; others go on. closing: what is not done is lost. */
static void spanprof_i_cuda_resolve(spanprof_i_cuda_context *c, int closing) {
    spanprof_i_cuda_pair *list, *pair, *done = SPANPROF_I_NULL, *kept = SPANPROF_I_NULL, **kept_end = &kept;
    struct CUctx_st *popped;
    uint32_t lost = 0, left = 0, misses = 0;
    int alive, pushed = 0, mode = SPANPROF_I_CUDA_RELAXED;
    spanprof_i_cuda_lock();
    list = c->resolving || c->dead ? SPANPROF_I_NULL : c->first;
    if (list) {
        c->resolving = 1;
        SPANPROF_I_CUDA_ADD(&spanprof_i_cuda_waiting, 0u - SPANPROF_I_CAST(uint64_t, c->waiting));
        c->first = c->last = SPANPROF_I_NULL;
        c->waiting = 0;
    }
    spanprof_i_cuda_unlock();
    if (!list) return;
    alive = spanprof_i_cuda_alive(c) && !spanprof_i_cu.CtxPushCurrent(c->handle);
    if (alive) {
        pushed = 1;
        spanprof_i_cuda_exchange(&mode);
    }
    while ((pair = list) != SPANPROF_I_NULL) {
        const int result = !alive ? SPANPROF_I_CUDA_MOVED : misses < 8 ? spanprof_i_cuda_emit(c, pair) : 600;
        list = pair->next;
        if (result == 600 && !closing) { /* streams finish in any order: look at some more */
            misses++;
            left++;
            *kept_end = pair;
            kept_end = &pair->next;
            continue;
        }
        if (result) lost++;
        pair->next = done;
        done = pair;
    }
    *kept_end = SPANPROF_I_NULL;
    if (pushed) {
        spanprof_i_cuda_exchange(&mode);
        spanprof_i_cu.CtxPopCurrent(&popped);
    }
    spanprof_i_cuda_lock();
    c->resolving = 0;
    c->waiting += left;
    c->patience = left;
    SPANPROF_I_CUDA_ADD(&spanprof_i_cuda_waiting, left);
    if (kept) {
        *kept_end = c->first;
        if (!c->last) {
            c->last = kept;
            while (c->last->next) c->last = c->last->next;
        }
        c->first = kept;
    }
    while ((pair = done) != SPANPROF_I_NULL) {
        done = pair->next;
        pair->base->users--;
        pair->next = c->free_pairs;
        c->free_pairs = pair;
    }
    if (!alive || c->dead) lost += spanprof_i_cuda_bury(c);
    spanprof_i_cuda_unlock();
    spanprof_i_cuda_lost(lost);
}
/* All contexts. A context that another thread buries meanwhile stays as long as it is held, with its next. */
static void spanprof_i_cuda_resolve_all(int closing) {
    spanprof_i_cuda_context *c, *next;
    spanprof_i_cuda_lock();
    for (c = spanprof_i_cuda_contexts; c; c = next) {
        c->holds++;
        spanprof_i_cuda_unlock();
        spanprof_i_cuda_resolve(c, closing);
        spanprof_i_cuda_lock();
        next = c->dead ? SPANPROF_I_NULL : c->next; /* the rest comes at the next call */
        spanprof_i_cuda_drop_hold(c);
    }
    spanprof_i_cuda_unlock();
}
static void spanprof_i_cuda_resolve_some(void) {
    const int saved = errno;
    spanprof_i_cuda_resolve_all(0);
    errno = saved;
}
static void spanprof_i_cuda_flush(int closing) {
    const int saved = errno;
    if (spanprof_i_cuda_ready() && SPANPROF_I_LOAD(&spanprof_i_cuda_waiting)) spanprof_i_cuda_resolve_all(closing);
    if (closing) SPANPROF_I_CUDA_ADD(&spanprof_i_cuda_closed, 1u);
    errno = saved;
}
/* A thread that ends while its per-thread default stream is busy can hang in the driver (580, once cudaMallocAsync was used). A
 * program that synchronizes the stream first must not meet that for the event that we record behind it: such a thread waits
 * for it, at most a millisecond. It has to happen before the driver's own key destructor: the destructors of C++ do. */
#if defined(__ELF__) && defined(__GLIBC__)
extern int __cxa_thread_atexit_impl(void (*destructor)(void *), void *object, void *library) __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));
static void spanprof_i_cuda_thread_end(void *unused) {
    const uint64_t begin = spanprof_i_monotonic_ns();
    spanprof_i_cuda_place place;
    int mode = SPANPROF_I_CUDA_RELAXED;
    (void)unused;
    if (SPANPROF_I_LOAD(&spanprof_i_cuda_state) != SPANPROF_I_CUDA_READY || spanprof_i_cuda_enter(&place, SPANPROF_I_CUDA_PER_THREAD)) return;
    spanprof_i_cuda_exchange(&mode);
    while (spanprof_i_cu.StreamQuery(SPANPROF_I_CUDA_PER_THREAD) == 600 && spanprof_i_monotonic_ns() - begin < 1000000u) {}
    spanprof_i_cuda_exchange(&mode);
    spanprof_i_cuda_leave(&place);
}
static void spanprof_i_cuda_mind_thread(void) {
    static pthread_key_t key;
    static uint32_t made; /* 2: there is no key */
    if (!SPANPROF_I_LOAD(&made)) {
        spanprof_i_cuda_lock();
        if (!made) SPANPROF_I_PUBLISH(&made, pthread_key_create(&key, SPANPROF_I_NULL) ? 2u : 1u);
        spanprof_i_cuda_unlock();
    }
    if (!__cxa_thread_atexit_impl || __atomic_load_n(&made, __ATOMIC_ACQUIRE) != 1 || pthread_getspecific(key)) return;
    if (!pthread_setspecific(key, &key)) __cxa_thread_atexit_impl(spanprof_i_cuda_thread_end, SPANPROF_I_NULL, &__dso_handle);
}
#else
static void spanprof_i_cuda_mind_thread(void) {}
#endif

/* Registered when the program has a context, so that it runs before the driver unloads; the flush of the session's end comes after that. */
static void spanprof_i_cuda_at_exit(void) { spanprof_i_cuda_flush(0); }

void spanprof_cuda_device_begin(spanprof_cuda_device_span *d, spanprof_site *site, struct CUstream_st *stream) {
    const int saved = errno;
    const int early = !spanprof_recording();
    const char *why;
    spanprof_i_cuda_place place;
    int result = 0, mode = SPANPROF_I_CUDA_RELAXED, entered = 0;
    d->begun = 1;
    d->pair = SPANPROF_I_NULL;
    d->stream = stream ? stream : SPANPROF_I_CUDA_LEGACY;
    d->error = SPANPROF_I_NULL;
    /* Paused, or not yet decided: CUDA is left alone unless the span on the host is recorded. */
    if (early) {
        d->scope = spanprof_i_scope_enter(site, &d->scope);
        if (!d->scope.word) return;
    }
    why = spanprof_cuda_status();
    if (!why) {
        spanprof_i_cuda_exchange(&mode);
        result = spanprof_i_cuda_enter(&place, d->stream);
        entered = !result;
        if (!result) result = spanprof_i_cuda_capturing(d->stream);
        if (!result) result = spanprof_i_cuda_take(&d->pair, &place, d->stream);
        if (d->pair && d->stream == SPANPROF_I_CUDA_PER_THREAD) spanprof_i_cuda_mind_thread();
        if (d->pair && !SPANPROF_I_LOAD(&spanprof_i_cuda_registered_flush) && SPANPROF_I_CUDA_ONCE(&spanprof_i_cuda_registered_flush)) {
            spanprof_i_on_flush(spanprof_i_cuda_flush);
            atexit(spanprof_i_cuda_at_exit);
        }
    }
    /* The span on the host begins before the work that it launches. */
    if (!early) d->scope = spanprof_i_scope_enter(site, &d->scope);
    if (d->pair) {
        d->pair->site = site;
        d->pair->host = spanprof_current();
        d->pair->closed = SPANPROF_I_LOAD(&spanprof_i_cuda_closed);
        d->pair->launch_ns = spanprof_i_monotonic_ns();
        if (d->scope.word) result = spanprof_i_cu.EventRecord(d->pair->start, d->stream);
        d->pair->begin_order = SPANPROF_I_CUDA_ADD(&spanprof_i_cuda_order, 1u);
        if (result || !d->scope.word) {
            spanprof_i_cuda_put_down(d->pair, 0);
            d->pair = SPANPROF_I_NULL;
        }
    }
    if (entered) spanprof_i_cuda_leave(&place);
    if (!why) {
        spanprof_i_cuda_exchange(&mode);
        if (result) why = spanprof_i_cuda_failed(result, d->text, 128);
    } else {
        SPANPROF_I_CUDA_NOTE(why);
    }
    if (why) {
        char text[sizeof d->text];
        snprintf(text, sizeof text, "prepare: %.140s", why);
        memcpy(d->text, text, sizeof text);
        d->error = d->text;
    }
    errno = saved;
}

/* A default stream is the begin's: the thread's current device may be another by now. */
static int spanprof_i_cuda_record_end(spanprof_i_cuda_pair *pair, struct CUstream_st *stream) {
    struct CUctx_st *context = SPANPROF_I_NULL;
    int result = 0, mode = SPANPROF_I_CUDA_RELAXED, pushed = 0;
    spanprof_i_cuda_exchange(&mode);
    if (spanprof_i_cuda_is_default(stream)) {
        result = spanprof_i_cu.CtxGetCurrent(&context);
        if (!result && context != pair->context->handle) {
            result = spanprof_i_cuda_alive(pair->context) ? spanprof_i_cu.CtxPushCurrent(pair->context->handle) : SPANPROF_I_CUDA_MOVED;
            pushed = !result;
        }
    }
    if (!result) result = spanprof_i_cuda_capturing(stream);
    pair->end_order = SPANPROF_I_CUDA_ADD(&spanprof_i_cuda_order, 1u);
    if (!result) result = spanprof_i_cu.EventRecord(pair->end, stream);
    if (pushed) spanprof_i_cu.CtxPopCurrent(&context);
    spanprof_i_cuda_exchange(&mode);
    return result;
}
void spanprof_cuda_device_end(spanprof_cuda_device_span *d) {
    const int saved = errno;
    int due = 0;
    if (!d->begun) return;
    d->begun = 0;
    if (d->pair && SPANPROF_I_LOAD(&spanprof_i_cuda_state) != SPANPROF_I_CUDA_READY) {
        free(d->pair); /* in a forked child: the events are the parent's */
    } else if (d->pair) {
        const int result = spanprof_i_cuda_record_end(d->pair, d->stream);
        if (result) {
            char text[128];
            snprintf(d->text, sizeof d->text, "complete_timing: %s", spanprof_i_cuda_failed(result, text, sizeof text));
            d->error = d->text;
        }
        due = spanprof_i_cuda_put_down(d->pair, !result);
    }
    d->pair = SPANPROF_I_NULL;
    if (d->error && d->scope.word) {
        spanprof_meta meta;
        memset(&meta, 0, sizeof meta);
        meta.timing = "host";
        meta.hook_error = d->error;
        spanprof_set_meta(spanprof_current(), &meta);
    }
    errno = saved;
    spanprof_i_scope_end(&d->scope);
    if (due) spanprof_i_cuda_resolve_some();
    errno = saved;
}

#endif /* SPANPROF_I_CUDA */

#ifdef __cplusplus
} /* extern "C" */
#endif
#if defined(__cplusplus) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#endif /* SPANPROF_IMPLEMENTATION */

/* ---- 6 LibTorch ------------------------------------------------------------------------------------------------- */

/* The allocator figures, which only C++ can read, for the hooks and spanprof_cuda_memory: allocated now, reserved now, most
 * allocated. 0 before LibTorch's first CUDA tensor, when its allocator throws. */
#if defined(SPANPROF_LIBTORCH) && defined(__cplusplus) && !defined(SPANPROF_DISABLE) && SPANPROF_I_CUDA && !defined(SPANPROF_I_LIBTORCH_IMPLEMENTED)
#define SPANPROF_I_LIBTORCH_IMPLEMENTED
#include <c10/cuda/CUDACachingAllocator.h>
extern "C" SPANPROF_API int spanprof_i_libtorch_memory(int device, uint64_t *figures);
extern "C" int spanprof_i_libtorch_memory(int device, uint64_t *figures) {
    try {
        const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(device));
        const size_t all = 0; /* StatType::AGGREGATE */
        figures[0] = static_cast<uint64_t>(stats.allocated_bytes[all].current);
        figures[1] = static_cast<uint64_t>(stats.reserved_bytes[all].current);
        figures[2] = static_cast<uint64_t>(stats.allocated_bytes[all].peak);
        return 1;
    } catch (...) {
        return 0;
    }
}
#endif
