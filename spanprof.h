/* spanprof.h - span profiler for C, C++ and CUDA: record spans, counters and attributes into a dump that survives SIGKILL.
 * Version 1.0.0.  SPDX-License-Identifier: MIT.  Full text in LICENSE; guide in README.md.
 *
 * DO THIS IN ONE FILE of the program, before any other include:
 *
 *     #define SPANPROF_IMPLEMENTATION
 *     #include "spanprof.h"
 *
 * and in every file that records:
 *
 *     #include "spanprof.h"
 *     void load(void) {
 *         SPANPROF_SPAN("batch.load");              // ends with the scope (GCC, Clang, any C++)
 *         SPANPROF_ATTR_I64("rows", 4096);
 *         SPANPROF_BLOCK("parse") { parse(); }      // block form, any compiler
 *     }
 *
 * Build it, run it with SPANPROF=1, convert what it wrote:
 *
 *     SPANPROF=1 ./program && trace2summary spanprof.dump
 *
 * Without SPANPROF=1 in the environment (or spanprof_start) the program runs as if the macros were not there.
 *
 * COMPILE-TIME OPTIONS (macro; default; where to set it)
 *   SPANPROF_IMPLEMENTATION   unset  one C or C++ file: the code comes with this include
 *   SPANPROF_DISABLE          unset  any file: every macro becomes ((void)0), nothing is declared or included
 *   SPANPROF_CUDA             unset  every file: includes spanprof_cuda.h (needs its own IMPLEMENTATION file, the same one)
 *   SPANPROF_API              unset  every file alike: linkage of the functions, e.g. __attribute__((visibility("default")))
 *   SPANPROF_INLINE           1      every file alike: 0 calls functions instead of inlining the record path
 *   SPANPROF_NO_TLS           0      every file alike: 1 uses a pthread key instead of a thread-local variable
 *   SPANPROF_NO_TSC           0      every file alike: 1 never reads the time stamp counter
 *   SPANPROF_WINDOW_BYTES     65536  implementation file: bytes of a thread's window, a power of two, 64 KiB .. 4 MiB
 *   SPANPROF_MAX_DEPTH        32768  implementation file: open spans a thread can have; deeper ones are counted as dropped
 *   SPANPROF_INSTRUMENT_FUNCTIONS unset  implementation file: record files compiled with -finstrument-functions
 *
 * ENVIRONMENT (read once when a session opens; ignored in a set-user-ID program)
 *   SPANPROF=1                records; empty, 0, false, off, no do not
 *   SPANPROF_OUT              dump path; %p process id, %h host, %r rank, %% a percent sign (default spanprof.dump)
 *   SPANPROF_MODE             stream (default: every event) or ring (the last SPANPROF_RING_MB, default 16, of each thread)
 *   SPANPROF_MAX_EVENTS, SPANPROF_MAX_MB   bounds; what goes over is counted as dropped
 *   SPANPROF_PROCESS_NAME     label in the trace (default: program name)
 *   SPANPROF_CLOCK            auto (default), tsc, monotonic
 *   SPANPROF_SCHEDULE         skip_first,wait,warmup,active,repeat (see spanprof_schedule)
 *
 * WHAT IS PROMISED
 *   Threads: any thread may record; a thread writes its own window, no lock is taken while it has room. Functions marked
 *     "any thread" may run beside recording threads. No thread of ours is ever started.
 *   Signals: a handler may record; what it records in the middle of another record is counted as dropped.
 *   Fork: the child writes a dump of its own (PATH.PID); the parent's holds the parent's spans alone.
 *   Process end: completed events are in the file the moment they complete, so exit, _exit, abort, a fatal signal and
 *     SIGKILL lose none. Spans still open are shown as unfinished.
 *   Failure: a full disk, a limit, a read-only folder cost one line on stderr; the program goes on, drops are counted.
 *   The program: errno, signal masks, locale, stdout and exit status stay as they are.
 *   Strings: names and keys are copied into the dump when first used; they need not outlive the call.
 *
 * CONTENTS  1 version  2 configuration  3 platform  4 types  5 functions  6 record path  7 macros  8 C++ guard
 *           9 dump format  10 implementation
 */
#if defined(SPANPROF_IMPLEMENTATION) && !defined(SPANPROF_DISABLE) && !defined(SPANPROF_H) && !defined(_GNU_SOURCE) && !defined(_WIN32)
#define _GNU_SOURCE 1 /* for the implementation's system calls under -std=c99 */
#endif
#ifndef SPANPROF_H
#define SPANPROF_H

/* ---- 1 version -------------------------------------------------------------------------------------------------- */

#define SPANPROF_VERSION_MAJOR 1
#define SPANPROF_VERSION_MINOR 0
#define SPANPROF_VERSION_PATCH 0
#define SPANPROF_VERSION "1.0.0"

#ifndef SPANPROF_DISABLE

#include <stddef.h>
#include <stdint.h>

/* ---- 2 configuration -------------------------------------------------------------------------------------------- */

/* Linkage of every function and variable. */
#ifndef SPANPROF_API
#define SPANPROF_API
#endif

/* 1: the record path is inlined into each span; 0: it is called (smaller code, some 2 ns a span more). */
#ifndef SPANPROF_INLINE
#define SPANPROF_INLINE 1
#endif

/* Bytes of the window that a thread writes into; also the size of every block of the dump. */
#ifndef SPANPROF_WINDOW_BYTES
#define SPANPROF_WINDOW_BYTES 65536
#endif
#if SPANPROF_WINDOW_BYTES < 65536 || SPANPROF_WINDOW_BYTES > 4194304 || (SPANPROF_WINDOW_BYTES & (SPANPROF_WINDOW_BYTES - 1))
#error "SPANPROF_WINDOW_BYTES must be a power of two from 65536 to 4194304"
#endif

/* Open spans a thread can have at a time. */
#ifndef SPANPROF_MAX_DEPTH
#define SPANPROF_MAX_DEPTH 32768
#endif
#if SPANPROF_MAX_DEPTH < 64 || SPANPROF_MAX_DEPTH > 65535
#error "SPANPROF_MAX_DEPTH must be from 64 to 65535"
#endif

/* ---- 3 platform ------------------------------------------------------------------------------------------------- */

/* GNU C: attributes, statement expressions, __atomic built-ins. */
#if (defined(__GNUC__) || defined(__clang__)) && !defined(__TINYC__)
#define SPANPROF_I_GNU 1
#else
#define SPANPROF_I_GNU 0
#endif

#if defined(_WIN32)
#define SPANPROF_I_WINDOWS 1
#else
#define SPANPROF_I_WINDOWS 0
#endif

/* A thread-local variable; without one every access goes through a key of the thread library. */
#ifndef SPANPROF_NO_TLS
#if SPANPROF_I_GNU || defined(_MSC_VER)
#define SPANPROF_NO_TLS 0
#else
#define SPANPROF_NO_TLS 1
#endif
#endif

/* A time stamp counter that user code can read: x86-64 and aarch64. */
#ifndef SPANPROF_NO_TSC
#if SPANPROF_I_GNU && (defined(__x86_64__) || defined(__i386__) || defined(__aarch64__))
#define SPANPROF_NO_TSC 0
#else
#define SPANPROF_NO_TSC 1
#endif
#endif

#if SPANPROF_I_GNU
#define SPANPROF_I_LIKELY(x) __builtin_expect(!!(x), 1)
#define SPANPROF_I_COLD __attribute__((noinline, cold))
#define SPANPROF_I_HOT static inline __attribute__((always_inline, unused))
#define SPANPROF_I_LOAD(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define SPANPROF_I_STORE(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define SPANPROF_I_PUBLISH(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
/* Orders a thread's accesses against a signal handler on the same thread: the compiler alone must not move them. */
#define SPANPROF_I_SIGNAL_FENCE() __atomic_signal_fence(__ATOMIC_SEQ_CST)
#else
#define SPANPROF_I_LIKELY(x) (x)
#define SPANPROF_I_COLD
#define SPANPROF_I_HOT static
#define SPANPROF_I_LOAD(p) (*(p))
#define SPANPROF_I_STORE(p, v) (*(p) = (v))
#define SPANPROF_I_PUBLISH(p, v) (*(p) = (v))
#define SPANPROF_I_SIGNAL_FENCE() ((void)0)
#endif

#if SPANPROF_NO_TLS
#undef SPANPROF_INLINE
#define SPANPROF_INLINE 0
#elif SPANPROF_I_WINDOWS && !SPANPROF_I_GNU
#define SPANPROF_I_TLS __declspec(thread)
#elif SPANPROF_I_WINDOWS
#define SPANPROF_I_TLS __thread
#else
/* initial-exec: one load in a shared library, and small enough (64 bytes) for a library that is opened late. */
#define SPANPROF_I_TLS __thread __attribute__((tls_model("initial-exec")))
#endif

#ifdef __cplusplus
#define SPANPROF_I_CAST(type, x) static_cast<type>(x)
#define SPANPROF_I_PTR(type, x) reinterpret_cast<type>(x)
#else
#define SPANPROF_I_CAST(type, x) ((type)(x))
#define SPANPROF_I_PTR(type, x) ((type)(x))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- 4 types ---------------------------------------------------------------------------------------------------- */

/* Status codes of the functions: name, value, text. */
#define SPANPROF_STATUS_LIST(X)                                            \
    X(SPANPROF_OK, 0, "ok")                                                \
    X(SPANPROF_ERR_ARGUMENT, 1, "invalid argument")                        \
    X(SPANPROF_ERR_STATE, 2, "not possible in this state of the session")  \
    X(SPANPROF_ERR_OPEN, 3, "the dump could not be created")               \
    X(SPANPROF_ERR_WRITE, 4, "the dump could not be written")              \
    X(SPANPROF_ERR_MEMORY, 5, "out of memory")

typedef enum spanprof_status {
#define SPANPROF_I_X(name, value, text) name = value,
    SPANPROF_STATUS_LIST(SPANPROF_I_X)
#undef SPANPROF_I_X
    SPANPROF_I_STATUS_END
} spanprof_status;

typedef enum spanprof_clock { SPANPROF_CLOCK_AUTO = 0, SPANPROF_CLOCK_TSC = 1, SPANPROF_CLOCK_MONOTONIC = 2 } spanprof_clock;
typedef enum spanprof_mode { SPANPROF_MODE_DEFAULT = 0, SPANPROF_MODE_STREAM = 1, SPANPROF_MODE_RING = 2 } spanprof_mode;

/* Settings of a session; a zero member takes the environment's value, else the default. Strings are copied. */
typedef struct spanprof_config {
    const char *path;         /* dump, with %p %h %r as in SPANPROF_OUT */
    const char *process_name; /* label in the trace */
    spanprof_mode mode;
    spanprof_clock clock;
    uint32_t ring_mb;         /* MiB a thread keeps in ring mode */
    uint64_t max_events;      /* events recorded at most */
    uint64_t max_mb;          /* MiB the dump may grow to */
} spanprof_config;

/* What a session has recorded; see spanprof_stats. */
typedef struct spanprof_session_stats {
    uint64_t recorded;   /* events in the dump: spans, instants, counters, async ends, flows, device spans */
    uint64_t dropped;    /* events that were not recorded: limits, full disk, depth, signal handlers */
    uint64_t unfinished; /* spans in the dump without an end */
    uint64_t bytes;      /* size of the dump */
    uint64_t threads;    /* threads that recorded */
    uint64_t snapshots;  /* copies that spanprof_flush wrote in ring mode */
    int recording;       /* 1 while events are recorded, 0 when paused, stopped or failed */
    char path[1024];     /* dump of the current or last session */
} spanprof_session_stats;

/* A place in the program that records; one static object a macro. Members are internal but for the first three. */
typedef struct spanprof_site {
    const char *name;
    const char *file;
    const char *function;
    const char *fields; /* source text of the metadata initializer: tells a zero from an absent number */
    uint32_t line;
    uint32_t id;        /* 0 until first recorded */
    uint32_t set;       /* numbers that fields names, as in spanprof_meta.set; known once recorded */
} spanprof_site;
#define SPANPROF_I_SITE(name, fields) { name, __FILE__, SPANPROF_I_NULL, fields, SPANPROF_I_CAST(uint32_t, __LINE__), 0u, 0u }
#ifdef __cplusplus
#define SPANPROF_I_NULL nullptr
#else
#define SPANPROF_I_NULL NULL
#endif

/* An open span. pos 0: nothing was recorded, and ending it does nothing. */
typedef struct spanprof_span {
    uint64_t pos;   /* where its first word stands: session, lane, word; see SPANPROF_POS_* */
    uint32_t depth; /* its index on the thread's stack of open spans */
    uint32_t unused;
} spanprof_span;

/* Metadata of a span: name, kind (S text, U unsigned, I signed), in the order of the members of spanprof_meta, which is
 * also the order of designators that C++ asks for. Text members: NULL is unset. Numbers: 0 is unset, unless the macro
 * names the member or its bit (1 << index in this list) is in .set. */
#define SPANPROF_META_LIST(X)                                                                    \
    X(phase, S) X(activity, S) X(backend, S) X(dtype, S) X(device, S) X(timing, S) X(module, S)  \
    X(graph_node, S) X(step, I) X(input_shapes, S) X(output_shapes, S)                           \
    X(alloc_bytes, U) X(alloc_live_bytes, U) X(alloc_peak_bytes, U) X(alloc_delta_bytes, I) X(hook_error, S)
#define SPANPROF_I_TYPE_S const char *
#define SPANPROF_I_TYPE_U uint64_t
#define SPANPROF_I_TYPE_I int64_t

typedef struct spanprof_meta {
    uint32_t set;
#define SPANPROF_I_X(name, kind) SPANPROF_I_TYPE_##kind name;
    SPANPROF_META_LIST(SPANPROF_I_X)
#undef SPANPROF_I_X
} spanprof_meta;

typedef enum spanprof_meta_index {
#define SPANPROF_I_X(name, kind) SPANPROF_META_##name,
    SPANPROF_META_LIST(SPANPROF_I_X)
#undef SPANPROF_I_X
    SPANPROF_META_COUNT
} spanprof_meta_index;
/* Bit of a number in spanprof_meta.set: SPANPROF_META_BIT(step). */
#define SPANPROF_META_BIT(name) (1u << SPANPROF_META_##name)

/* One run of a hooked span, handed to each of its hooks in turn. */
typedef struct spanprof_hook_call {
    const char *name;     /* name of the span */
    spanprof_meta meta;   /* recorded after enrich; hooks may change it. Its strings must live until then */
    uint64_t scratch[8];  /* the hooks' own, zero at first */
    char text[128];       /* room for an error text or a string of the metadata */
} spanprof_hook_call;

/* Hooks around a span. Each returns NULL, or an error text that must live until the span has ended. A hook that fails
 * never stops the program or the later hooks: the span is kept and hook_error holds "PHASE: TEXT", joined by "; ".
 * prepare runs before the start time is taken, complete_timing before the end time, enrich after it. A hook may be NULL.
 * Hooks must not throw or longjmp. They run only while recording. */
typedef struct spanprof_hooks {
    void *user;
    const char *(*prepare)(void *user, spanprof_hook_call *call);
    const char *(*complete_timing)(void *user, spanprof_hook_call *call);
    const char *(*enrich)(void *user, spanprof_hook_call *call);
} spanprof_hooks;

/* State of SPANPROF_SPAN_HOOKED on the caller's stack. */
typedef struct spanprof_hooked {
    spanprof_span span;
    const spanprof_hooks *hooks;
    const char *prepare_error;
    spanprof_hook_call call;
} spanprof_hooked;

/* ---- 5 functions ------------------------------------------------------------------------------------------------ */

/* Life cycle */

/* Opens a session and starts recording. config may be NULL; its zero members take the environment's values. Any thread.
 * SPANPROF_ERR_STATE while a session is open; SPANPROF_ERR_OPEN, _MEMORY: recording is off, and stderr says why. */
SPANPROF_API spanprof_status spanprof_start(const spanprof_config *config);

/* Closes the session: no event after it is recorded, open spans stay unfinished. Any thread; other threads may be
 * recording. SPANPROF_ERR_STATE without a session; SPANPROF_ERR_WRITE when events were dropped for want of room. */
SPANPROF_API spanprof_status spanprof_stop(void);

/* Suspends and resumes recording. A span that began before the pause may still end. Any thread.
 * SPANPROF_ERR_STATE without a session. */
SPANPROF_API spanprof_status spanprof_pause(void);
SPANPROF_API spanprof_status spanprof_resume(void);

/* Stream mode: asks the system to put the dump on the disk (fdatasync), for safety against power loss; a crash of the
 * program needs no flush. Ring mode: writes a snapshot beside the dump, PATH.1, PATH.2, ... Any thread.
 * SPANPROF_ERR_STATE without a session, SPANPROF_ERR_WRITE. */
SPANPROF_API spanprof_status spanprof_flush(void);

/* Records only the active steps of a cycle: skip_first steps once, then wait, warmup, active steps, repeat times (0: for
 * ever). Call before the first step; spanprof_step() ends a step. Any thread, but one thread should drive the steps.
 * SPANPROF_ERR_ARGUMENT when active is 0. */
SPANPROF_API spanprof_status spanprof_schedule(uint64_t skip_first, uint64_t wait, uint64_t warmup, uint64_t active, uint64_t repeat);
SPANPROF_API spanprof_status spanprof_step(void);

/* Query */

/* Figures of the current session, or of the last one. Exact for threads that record nothing meanwhile. Any thread.
 * SPANPROF_ERR_STATE before the first session, SPANPROF_ERR_ARGUMENT for NULL. */
SPANPROF_API spanprof_status spanprof_stats(spanprof_session_stats *out);

/* 1 while events are recorded. Any thread. */
SPANPROF_API int spanprof_recording(void);

/* Text of a status code; never NULL. */
SPANPROF_API const char *spanprof_status_text(spanprof_status status);

/* Recording. All may be called by any thread, in a signal handler too; none fails: what can't be recorded is counted. */

/* Begins a span at a static site; end it by its handle, on the same thread. Spans need not end in order. */
SPANPROF_API spanprof_span spanprof_begin(spanprof_site *site);
SPANPROF_API spanprof_span spanprof_begin_meta(spanprof_site *site, const spanprof_meta *meta);
/* The same with a name known only at run time, stored with every span. NULL is "(null)". */
SPANPROF_API spanprof_span spanprof_begin_dyn(const char *name);
/* Ends a span. A handle that has ended, or is of another session, does nothing; one of another thread ends there, and
 * the trace shows the span apart from both threads' nesting. */
SPANPROF_API void spanprof_end(spanprof_span span);
/* Metadata for an open span; fields set here replace fields set before. */
SPANPROF_API void spanprof_set_meta(spanprof_span span, const spanprof_meta *meta);
/* The innermost open span of the calling thread; pos 0 when there is none. */
SPANPROF_API spanprof_span spanprof_current(void);

/* A span with hooks; *h must stay in place until spanprof_hooked_end. fields: NULL, or the source text of the metadata's
 * initializer. */
SPANPROF_API void spanprof_hooked_begin(spanprof_hooked *h, spanprof_site *site, const spanprof_hooks *hooks, const spanprof_meta *meta);
SPANPROF_API void spanprof_hooked_end(spanprof_hooked *h);

/* Name of the calling thread in the trace; copied. Kept when no session is open yet. */
SPANPROF_API void spanprof_thread_name(const char *name);

/* A finished span on a track of its own, such as a GPU stream: track is any number that the program chooses, start_ns is
 * CLOCK_MONOTONIC, queue_ns the wait between the host's launch and the start (-1: unknown). host: the span that
 * launched it (pos 0: none), for the arrow. */
SPANPROF_API void spanprof_track_span(spanprof_site *site, uint64_t track, uint64_t start_ns, uint64_t duration_ns, int64_t queue_ns, spanprof_span host);
/* Names a track: process is the group ("GPU 0"), group its number for sorting, name the track ("stream 7"). */
SPANPROF_API void spanprof_track_name(uint64_t track, const char *process, uint32_t group, const char *name);

/* Registers one function that spanprof_flush, spanprof_stop and the program's exit call before they close the books, on
 * their own thread and without a lock: for recorders with results still pending, such as device spans. */
SPANPROF_API void spanprof_i_on_flush(void (*callback)(void));

/* What the macros call. */
typedef enum spanprof_event_kind {
    SPANPROF_EVENT_INSTANT, SPANPROF_EVENT_COUNTER, SPANPROF_EVENT_ASYNC_BEGIN, SPANPROF_EVENT_ASYNC_END,
    SPANPROF_EVENT_FLOW_OUT, SPANPROF_EVENT_FLOW_IN
} spanprof_event_kind;
SPANPROF_API void spanprof_i_event(spanprof_site *site, spanprof_event_kind kind, uint64_t id, double value);
SPANPROF_API void spanprof_i_attr_i64(spanprof_site *key, int64_t value);
SPANPROF_API void spanprof_i_attr_u64(spanprof_site *key, uint64_t value);
SPANPROF_API void spanprof_i_attr_f64(spanprof_site *key, double value);
SPANPROF_API void spanprof_i_attr_str(spanprof_site *key, const char *value);
SPANPROF_API void spanprof_i_push(spanprof_site *site, const spanprof_meta *meta);
SPANPROF_API int spanprof_i_push_dyn(const char *name);
SPANPROF_API int spanprof_i_pop(void);
/* Step numbers inherited by the spans that begin while they are set; returns the one before for spanprof_i_step_leave. */
typedef struct spanprof_i_step { int64_t before; uint32_t recorded; uint32_t had; } spanprof_i_step;
SPANPROF_API spanprof_i_step spanprof_i_step_enter(int64_t step);
SPANPROF_API void spanprof_i_step_leave(spanprof_i_step *step);

/* ---- 6 record path ---------------------------------------------------------------------------------------------- */

/* A short span is one word of the dump, written at its start; its end adds the duration to it. Bit 0 tells it from the
 * longer records of section 9. */
#define SPANPROF_SHORT_SITE_SHIFT 1
#define SPANPROF_SHORT_SITE_BITS 13
#define SPANPROF_SHORT_START_SHIFT 14
#define SPANPROF_SHORT_START_BITS 23
#define SPANPROF_SHORT_DURATION_SHIFT 37
#define SPANPROF_SHORT_DURATION_BITS 27
#define SPANPROF_SHORT_SITE_MAX ((1u << SPANPROF_SHORT_SITE_BITS) - 1u)
#define SPANPROF_SHORT_START_MAX ((1u << SPANPROF_SHORT_START_BITS) - 1u)
/* The duration is stored plus one: zero is an open span. */
#define SPANPROF_SHORT_DURATION_MAX ((1u << SPANPROF_SHORT_DURATION_BITS) - 2u)

#define SPANPROF_BLOCK_HEADER_BYTES 128
#define SPANPROF_I_WORDS ((SPANPROF_WINDOW_BYTES - SPANPROF_BLOCK_HEADER_BYTES) / 8)

/* A thread's stack of open spans. */
typedef struct spanprof_i_open {
    uint64_t pos;      /* 0: a placeholder that records nothing, so that a pair's end finds its begin */
    uint64_t start;    /* ticks; 0 sends the end to the slow path: the record is a long one */
    uintptr_t address; /* of the scope's variable; the highest for a pair or a handle, which no scope holds */
    uint64_t ticks;    /* start again, where start is 0 */
    uintptr_t frame;   /* pair: stack address of the call that began it, 0 for a handle */
    uintptr_t caller;  /* pair: its return address */
} spanprof_i_open;

/* One cache line a thread. */
typedef struct spanprof_i_thread {
    uint32_t generation;    /* equals spanprof_i_on while this thread may record; 0 while a record is being written */
    uint16_t depth;         /* open spans */
    uint16_t capacity;      /* of stack */
    uint64_t *next;         /* next free word of the window */
    uint64_t *end;          /* one past the last word that a short span may take */
    uint64_t last;          /* ticks that the next start is relative to */
    spanprof_i_open *stack; /* stack[-1] is a sentinel whose address is the highest */
    uint64_t *words;        /* first word of the window */
    uint64_t pos;           /* position of words[0] */
    struct spanprof_i_lane *lane;
} spanprof_i_thread;

/* 0: off. 1: not decided yet. Else the session's generation, an even number, plus 1 while paused. */
SPANPROF_API extern uint32_t spanprof_i_on;
/* 1: ticks are the time stamp counter's, 0: nanoseconds of CLOCK_MONOTONIC. */
SPANPROF_API extern uint32_t spanprof_i_tsc;

SPANPROF_API spanprof_span spanprof_i_enter_slow(spanprof_site *site, uintptr_t address);
SPANPROF_API void spanprof_i_leave_slow(spanprof_span span, uint64_t now);
SPANPROF_API uint64_t spanprof_i_monotonic_ns(void);
SPANPROF_API spanprof_span spanprof_i_scope(spanprof_site *site, void *address);
SPANPROF_API spanprof_span spanprof_i_scope_meta(spanprof_site *site, const spanprof_meta *meta, void *address);
SPANPROF_API void spanprof_i_scope_leave(const spanprof_span *span);
SPANPROF_API void spanprof_i_scope_hooked(spanprof_hooked *h, spanprof_site *site, const spanprof_hooks *hooks, const spanprof_meta *meta);

#if !SPANPROF_NO_TLS
SPANPROF_API extern SPANPROF_I_TLS spanprof_i_thread spanprof_i_tls;
#define SPANPROF_I_SELF() (&spanprof_i_tls)
#else
SPANPROF_API spanprof_i_thread *spanprof_i_self(void);
#define SPANPROF_I_SELF() spanprof_i_self()
#endif

/* Ticks of the session's clock. */
SPANPROF_I_HOT uint64_t spanprof_i_now(void) {
#if !SPANPROF_NO_TSC
    if (SPANPROF_I_LIKELY(SPANPROF_I_LOAD(&spanprof_i_tsc) != 0)) {
#if defined(__aarch64__)
        uint64_t ticks;
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
        return ticks;
#else
        uint32_t low, high;
        __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
        return SPANPROF_I_CAST(uint64_t, high) << 32 | low;
#endif
    }
#endif
    return spanprof_i_monotonic_ns();
}

/* Begins a span. The generation is 0 while the thread's state is in motion: a signal handler that records then comes to
 * the slow path and is counted. */
SPANPROF_I_HOT spanprof_span spanprof_i_enter(spanprof_site *site, uintptr_t address) {
    spanprof_i_thread *self = SPANPROF_I_SELF();
    const uint32_t generation = SPANPROF_I_LOAD(&spanprof_i_on);
    spanprof_span span;
    uint64_t now, start;
    uint64_t *word;
    spanprof_i_open *open;
    uint32_t id;
    if (!SPANPROF_I_LIKELY(generation == self->generation)) return spanprof_i_enter_slow(site, address);
    self->generation = 0;
    SPANPROF_I_SIGNAL_FENCE();
    word = self->next;
    open = self->stack + self->depth;
    id = SPANPROF_I_LOAD(&site->id);
    now = spanprof_i_now();
    start = now - self->last;
    if (!SPANPROF_I_LIKELY(word < self->end && self->depth < self->capacity && id - 1u < SPANPROF_SHORT_SITE_MAX &&
                           start <= SPANPROF_SHORT_START_MAX && open[-1].address > address)) {
        SPANPROF_I_SIGNAL_FENCE();
        self->generation = generation;
        return spanprof_i_enter_slow(site, address);
    }
    span.pos = self->pos + SPANPROF_I_CAST(uint64_t, word - self->words);
    span.depth = self->depth;
    span.unused = 0;
    open->pos = span.pos;
    open->start = now;
    open->address = address;
    SPANPROF_I_STORE(word + 1, SPANPROF_I_CAST(uint64_t, 0));
    SPANPROF_I_PUBLISH(word, start << SPANPROF_SHORT_START_SHIFT | SPANPROF_I_CAST(uint64_t, id) << SPANPROF_SHORT_SITE_SHIFT | 1u);
    self->next = word + 1;
    self->last = now;
    self->depth = SPANPROF_I_CAST(uint16_t, span.depth + 1u);
    SPANPROF_I_SIGNAL_FENCE();
    self->generation = generation;
    return span;
}

/* Ends a span: adds its duration to the word where it stands. */
SPANPROF_I_HOT void spanprof_i_leave(spanprof_span span) {
    const uint64_t now = spanprof_i_now();
    spanprof_i_thread *self = SPANPROF_I_SELF();
    const uint32_t generation = self->generation;
    const spanprof_i_open *open;
    uint64_t duration, index;
    self->generation = 0;
    SPANPROF_I_SIGNAL_FENCE();
    open = self->stack + span.depth;
    index = span.pos - self->pos;
    if (SPANPROF_I_LIKELY(self->depth == span.depth + 1u && open->pos == span.pos && index < SPANPROF_I_WORDS &&
                          (duration = now - open->start) <= SPANPROF_SHORT_DURATION_MAX)) {
        uint64_t *word = self->words + index;
        SPANPROF_I_STORE(word, *word + ((duration + 1u) << SPANPROF_SHORT_DURATION_SHIFT));
        self->depth = SPANPROF_I_CAST(uint16_t, span.depth);
        SPANPROF_I_SIGNAL_FENCE();
        self->generation = generation;
        return;
    }
    SPANPROF_I_SIGNAL_FENCE();
    self->generation = generation;
    spanprof_i_leave_slow(span, now);
}

#if SPANPROF_INLINE
SPANPROF_I_HOT spanprof_span spanprof_i_scope_enter(spanprof_site *site, void *address) {
    spanprof_span none = { 0u, 0u, 0u };
    return SPANPROF_I_LOAD(&spanprof_i_on) ? spanprof_i_enter(site, SPANPROF_I_PTR(uintptr_t, address)) : none;
}
SPANPROF_I_HOT void spanprof_i_scope_end(const spanprof_span *span) {
    if (span->pos) spanprof_i_leave(*span);
}
#else
SPANPROF_I_HOT spanprof_span spanprof_i_scope_enter(spanprof_site *site, void *address) {
    spanprof_span none = { 0u, 0u, 0u };
    return SPANPROF_I_LOAD(&spanprof_i_on) ? spanprof_i_scope(site, address) : none;
}
SPANPROF_I_HOT void spanprof_i_scope_end(const spanprof_span *span) {
    if (span->pos) spanprof_i_scope_leave(span);
}
#endif
SPANPROF_I_HOT void spanprof_i_hooked_end(spanprof_hooked *h) {
    if (h->hooks) spanprof_hooked_end(h);
}
SPANPROF_I_HOT void spanprof_i_step_end(spanprof_i_step *step) {
    if (step->recorded) spanprof_i_step_leave(step);
}

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* !SPANPROF_DISABLE */

/* ---- 7 macros --------------------------------------------------------------------------------------------------- */

/* SPANPROF_SPAN(name)                 span until the end of the scope (GCC, Clang, any C++)
 * SPANPROF_SPAN_META(name, ...)       the same with metadata: SPANPROF_SPAN_META("fwd", .phase = "forward", .step = i)
 * SPANPROF_SPAN_HOOKED(name, hooks, ...)  the same with a const spanprof_hooks * and optional metadata
 * SPANPROF_FUNCTION()                 span named after the function
 * SPANPROF_BLOCK(name) { ... }        span of the block that follows. break and continue in it mean the block itself, so that an
 *                                     outer loop is not left by them; return and goto out of it need GCC, Clang or C++
 * SPANPROF_BEGIN(name); ... SPANPROF_END();   pair on one thread; SPANPROF_END ends the innermost pair
 * SPANPROF_BEGIN_META(name, ...)      the pair's begin with metadata
 * SPANPROF_BEGIN_DYN(text)            the pair's begin with a name known at run time
 * SPANPROF_STEP(n)                    spans that begin in this scope carry step n (GCC, Clang, any C++)
 * SPANPROF_ATTR_I64(key, value), _U64, _F64, _STR   attribute of the innermost open span; NaN and infinity become null
 * SPANPROF_INSTANT(name)              a moment on the thread's track
 * SPANPROF_COUNTER(name, value)       a sample (double) of a process-wide counter
 * SPANPROF_ASYNC_BEGIN(name, id), SPANPROF_ASYNC_END(name, id)   an operation that may end on another thread
 * SPANPROF_FLOW_OUT(id), SPANPROF_FLOW_IN(id)   an arrow from the innermost open span to another one; an id serves once
 * SPANPROF_THREAD_NAME(text)          name of the calling thread's track
 * name and key are string literals; file, line and text are stored once. Attributes count as no events. */
#define SPANPROF_I_PASTE2(a, b) a##b
#define SPANPROF_I_PASTE(a, b) SPANPROF_I_PASTE2(a, b)
#ifdef __COUNTER__
#define SPANPROF_I_UNIQUE(prefix) SPANPROF_I_PASTE(prefix, __COUNTER__)
#else
#define SPANPROF_I_UNIQUE(prefix) SPANPROF_I_PASTE(prefix, __LINE__)
#endif

#ifdef SPANPROF_DISABLE

#define SPANPROF_SPAN(name) ((void)0)
#define SPANPROF_SPAN_META(...) ((void)0)
#define SPANPROF_SPAN_HOOKED(...) ((void)0)
#define SPANPROF_FUNCTION() ((void)0)
#define SPANPROF_BLOCK(name)
#define SPANPROF_BEGIN(name) ((void)0)
#define SPANPROF_BEGIN_META(...) ((void)0)
#define SPANPROF_BEGIN_DYN(text) ((void)0)
#define SPANPROF_END() ((void)0)
#define SPANPROF_STEP(n) ((void)0)
#define SPANPROF_ATTR_I64(key, value) ((void)0)
#define SPANPROF_ATTR_U64(key, value) ((void)0)
#define SPANPROF_ATTR_F64(key, value) ((void)0)
#define SPANPROF_ATTR_STR(key, value) ((void)0)
#define SPANPROF_INSTANT(name) ((void)0)
#define SPANPROF_COUNTER(name, value) ((void)0)
#define SPANPROF_ASYNC_BEGIN(name, id) ((void)0)
#define SPANPROF_ASYNC_END(name, id) ((void)0)
#define SPANPROF_FLOW_OUT(id) ((void)0)
#define SPANPROF_FLOW_IN(id) ((void)0)
#define SPANPROF_THREAD_NAME(text) ((void)0)

#else

#define SPANPROF_I_TEXT2(...) #__VA_ARGS__
#define SPANPROF_I_TEXT(...) SPANPROF_I_TEXT2(__VA_ARGS__)
#define SPANPROF_I_ON() (SPANPROF_I_LOAD(&spanprof_i_on) != 0)

/* Runs a statement with a static site named spanprof_i_s, while recording. */
#define SPANPROF_I_AT(name, call)                                                        \
    do {                                                                                 \
        static spanprof_site spanprof_i_s = SPANPROF_I_SITE(name, SPANPROF_I_NULL);      \
        if (SPANPROF_I_ON()) call;                                                       \
    } while (0)

#if SPANPROF_I_GNU
/* The same with the metadata spanprof_i_m, given by its initializer. */
#define SPANPROF_I_AT_META_(call, name, ...)                                                       \
    __extension__({                                                                                \
        _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wmissing-field-initializers\"") \
        static spanprof_site spanprof_i_s = SPANPROF_I_SITE(name, SPANPROF_I_TEXT(__VA_ARGS__));   \
        const spanprof_meta spanprof_i_m = { .set = 0u, __VA_ARGS__ };                             \
        _Pragma("GCC diagnostic pop") call;                                                        \
    })
#define SPANPROF_I_AT_META(call, ...) SPANPROF_I_AT_META_(call, __VA_ARGS__, )
#define SPANPROF_BEGIN_META(...)                                                                   \
    do {                                                                                           \
        if (SPANPROF_I_ON()) SPANPROF_I_AT_META(spanprof_i_push(&spanprof_i_s, &spanprof_i_m), __VA_ARGS__); \
    } while (0)
#elif defined(__cplusplus)
#define SPANPROF_BEGIN_META(...) SPANPROF_I_BEGIN_META_(__VA_ARGS__, )
#define SPANPROF_I_BEGIN_META_(name, ...)                                                          \
    do {                                                                                           \
        static spanprof_site spanprof_i_s = SPANPROF_I_SITE(name, SPANPROF_I_TEXT(__VA_ARGS__));   \
        if (SPANPROF_I_ON()) { const spanprof_meta spanprof_i_m{ .set = 0u, __VA_ARGS__ }; spanprof_i_push(&spanprof_i_s, &spanprof_i_m); } \
    } while (0)
#else
#define SPANPROF_BEGIN_META(...) SPANPROF_I_BEGIN_META_(__VA_ARGS__, )
#define SPANPROF_I_BEGIN_META_(name, ...)                                                          \
    do {                                                                                           \
        static spanprof_site spanprof_i_s = SPANPROF_I_SITE(name, SPANPROF_I_TEXT(__VA_ARGS__));   \
        if (SPANPROF_I_ON()) { const spanprof_meta spanprof_i_m = { .set = 0u, __VA_ARGS__ }; spanprof_i_push(&spanprof_i_s, &spanprof_i_m); } \
    } while (0)
#endif

#define SPANPROF_BEGIN(name) SPANPROF_I_AT(name, spanprof_i_push(&spanprof_i_s, SPANPROF_I_NULL))
#define SPANPROF_BEGIN_DYN(text)                            \
    do {                                                    \
        if (SPANPROF_I_ON()) spanprof_i_push_dyn(text);     \
    } while (0)
#define SPANPROF_END()                            \
    do {                                          \
        if (SPANPROF_I_ON()) spanprof_i_pop();    \
    } while (0)
#define SPANPROF_ATTR_I64(key, value) SPANPROF_I_AT(key, spanprof_i_attr_i64(&spanprof_i_s, value))
#define SPANPROF_ATTR_U64(key, value) SPANPROF_I_AT(key, spanprof_i_attr_u64(&spanprof_i_s, value))
#define SPANPROF_ATTR_F64(key, value) SPANPROF_I_AT(key, spanprof_i_attr_f64(&spanprof_i_s, value))
#define SPANPROF_ATTR_STR(key, value) SPANPROF_I_AT(key, spanprof_i_attr_str(&spanprof_i_s, value))
#define SPANPROF_INSTANT(name) SPANPROF_I_AT(name, spanprof_i_event(&spanprof_i_s, SPANPROF_EVENT_INSTANT, 0, 0))
#define SPANPROF_COUNTER(name, value) SPANPROF_I_AT(name, spanprof_i_event(&spanprof_i_s, SPANPROF_EVENT_COUNTER, 0, SPANPROF_I_CAST(double, value)))
#define SPANPROF_ASYNC_BEGIN(name, id) SPANPROF_I_AT(name, spanprof_i_event(&spanprof_i_s, SPANPROF_EVENT_ASYNC_BEGIN, SPANPROF_I_CAST(uint64_t, id), 0))
#define SPANPROF_ASYNC_END(name, id) SPANPROF_I_AT(name, spanprof_i_event(&spanprof_i_s, SPANPROF_EVENT_ASYNC_END, SPANPROF_I_CAST(uint64_t, id), 0))
#define SPANPROF_FLOW_OUT(id) SPANPROF_I_AT("flow", spanprof_i_event(&spanprof_i_s, SPANPROF_EVENT_FLOW_OUT, SPANPROF_I_CAST(uint64_t, id), 0))
#define SPANPROF_FLOW_IN(id) SPANPROF_I_AT("flow", spanprof_i_event(&spanprof_i_s, SPANPROF_EVENT_FLOW_IN, SPANPROF_I_CAST(uint64_t, id), 0))
#define SPANPROF_THREAD_NAME(text) spanprof_thread_name(text)

#if SPANPROF_I_GNU && !defined(__cplusplus)

/* The scope's variable is a single declaration, so that an unbraced if does not compile instead of recording always. */
#define SPANPROF_I_SCOPE(v, name)                                                                                   \
    spanprof_span v __attribute__((cleanup(spanprof_i_scope_end), unused)) = __extension__({                        \
        static spanprof_site spanprof_i_s = SPANPROF_I_SITE(name, SPANPROF_I_NULL);                                 \
        spanprof_i_scope_enter(&spanprof_i_s, &v);                                                                  \
    })
#define SPANPROF_SPAN(name) SPANPROF_I_SCOPE(SPANPROF_I_UNIQUE(spanprof_i_v), name)
#define SPANPROF_FUNCTION() SPANPROF_I_SCOPE_FUNCTION(SPANPROF_I_UNIQUE(spanprof_i_v))
#define SPANPROF_I_SCOPE_FUNCTION(v)                                                                                \
    spanprof_span v __attribute__((cleanup(spanprof_i_scope_end), unused)) = __extension__({                        \
        static spanprof_site spanprof_i_s = { __func__, __FILE__, __func__, NULL, __LINE__, 0u, 0u };                   \
        spanprof_i_scope_enter(&spanprof_i_s, &v);                                                                  \
    })
#define SPANPROF_SPAN_META(...) SPANPROF_I_SCOPE_META(SPANPROF_I_UNIQUE(spanprof_i_v), __VA_ARGS__)
#define SPANPROF_I_SCOPE_META(v, ...)                                                                               \
    spanprof_span v __attribute__((cleanup(spanprof_i_scope_end), unused)) = SPANPROF_I_ON()                        \
        ? SPANPROF_I_AT_META(spanprof_i_scope_meta(&spanprof_i_s, &spanprof_i_m, &v), __VA_ARGS__) : (spanprof_span){ 0u, 0u, 0u }
#define SPANPROF_SPAN_HOOKED(...) SPANPROF_I_SCOPE_HOOKED(SPANPROF_I_UNIQUE(spanprof_i_v), __VA_ARGS__, )
#define SPANPROF_I_SCOPE_HOOKED(v, name, with, ...)                                                                 \
    spanprof_hooked v __attribute__((cleanup(spanprof_i_hooked_end), unused));                                      \
    v.hooks = NULL;                                                                                                 \
    if (SPANPROF_I_ON()) SPANPROF_I_AT_META_(spanprof_i_scope_hooked(&v, &spanprof_i_s, with, &spanprof_i_m), name, __VA_ARGS__)
#define SPANPROF_BLOCK(name) SPANPROF_I_BLOCK(SPANPROF_I_UNIQUE(spanprof_i_v), SPANPROF_I_UNIQUE(spanprof_i_once), name)
#define SPANPROF_I_BLOCK(v, once, name)                                                                             \
    for (SPANPROF_I_SCOPE(v, name), *once = &v; once; once = NULL)
#define SPANPROF_STEP(n) SPANPROF_I_STEP(SPANPROF_I_UNIQUE(spanprof_i_v), n)
#define SPANPROF_I_STEP(v, n)                                                                                       \
    spanprof_i_step v __attribute__((cleanup(spanprof_i_step_end), unused)) =                                       \
        SPANPROF_I_ON() ? spanprof_i_step_enter(n) : (spanprof_i_step){ 0, 0u, 0u }

#elif !defined(__cplusplus)

/* C without scope exits: the pair and the block. */
#define SPANPROF_BLOCK(name) SPANPROF_I_BLOCK(SPANPROF_I_UNIQUE(spanprof_i_once), name)
#define SPANPROF_I_BLOCK(once, name)                                                                                \
    for (int once = SPANPROF_I_ON() ? spanprof_i_push_dyn(name) : 1; once; once = SPANPROF_I_ON() ? spanprof_i_pop() : 0)

#endif

/* ---- 8 C++ guard ------------------------------------------------------------------------------------------------ */

#ifdef __cplusplus

/* Ends what its constructor began; copies would end twice, so there are none. */
class spanprof_scope {
public:
    explicit spanprof_scope(spanprof_site *site) : span_(spanprof_i_scope_enter(site, this)), once_(true) {}
    template <typename Begin> explicit spanprof_scope(const Begin &begin) : span_(), once_(true) { if (SPANPROF_I_ON()) span_ = begin(this); }
    ~spanprof_scope() { spanprof_i_scope_end(&span_); }
    bool once() { const bool now = once_; once_ = false; return now; }
    spanprof_scope(const spanprof_scope &) = delete;
    spanprof_scope &operator=(const spanprof_scope &) = delete;
private:
    spanprof_span span_;
    bool once_;
};
class spanprof_scope_hooked {
public:
    template <typename Begin> explicit spanprof_scope_hooked(const Begin &begin) { h_.hooks = nullptr; if (SPANPROF_I_ON()) begin(&h_); }
    ~spanprof_scope_hooked() { spanprof_i_hooked_end(&h_); }
    spanprof_scope_hooked(const spanprof_scope_hooked &) = delete;
    spanprof_scope_hooked &operator=(const spanprof_scope_hooked &) = delete;
private:
    spanprof_hooked h_;
};
class spanprof_scope_step {
public:
    explicit spanprof_scope_step(int64_t step) : step_() { if (SPANPROF_I_ON()) step_ = spanprof_i_step_enter(step); }
    ~spanprof_scope_step() { spanprof_i_step_end(&step_); }
    spanprof_scope_step(const spanprof_scope_step &) = delete;
    spanprof_scope_step &operator=(const spanprof_scope_step &) = delete;
private:
    spanprof_i_step step_;
};

#if SPANPROF_I_GNU
#define SPANPROF_I_STATIC_SITE(...) __extension__({ static spanprof_site spanprof_i_s = __VA_ARGS__; &spanprof_i_s; })
#define SPANPROF_I_QUIET _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wmissing-field-initializers\"")
#define SPANPROF_I_LOUD _Pragma("GCC diagnostic pop")
#else
#define SPANPROF_I_STATIC_SITE(...) [] { static spanprof_site spanprof_i_s = __VA_ARGS__; return &spanprof_i_s; }()
#define SPANPROF_I_QUIET
#define SPANPROF_I_LOUD
#endif
#define SPANPROF_I_WITH_META(call, name, ...)                                                                       \
    SPANPROF_I_QUIET static spanprof_site spanprof_i_s = SPANPROF_I_SITE(name, SPANPROF_I_TEXT(__VA_ARGS__));       \
    const spanprof_meta spanprof_i_m = __extension__ spanprof_meta{ .set = 0u, __VA_ARGS__ };                       \
    SPANPROF_I_LOUD return call
#define SPANPROF_SPAN(name) ::spanprof_scope SPANPROF_I_UNIQUE(spanprof_i_v)(SPANPROF_I_STATIC_SITE(SPANPROF_I_SITE(name, nullptr)))
#define SPANPROF_FUNCTION()                                                                                         \
    ::spanprof_scope SPANPROF_I_UNIQUE(spanprof_i_v)(SPANPROF_I_STATIC_SITE({ __func__, __FILE__, __func__, nullptr, __LINE__, 0u, 0u }))
#define SPANPROF_BLOCK(name) SPANPROF_I_BLOCK(SPANPROF_I_UNIQUE(spanprof_i_v), name)
#define SPANPROF_I_BLOCK(v, name) for (::spanprof_scope v(SPANPROF_I_STATIC_SITE(SPANPROF_I_SITE(name, nullptr))); v.once();)
#define SPANPROF_SPAN_META(...) SPANPROF_I_SCOPE_META(SPANPROF_I_UNIQUE(spanprof_i_v), __VA_ARGS__, )
#define SPANPROF_I_SCOPE_META(v, name, ...)                                                                         \
    ::spanprof_scope v([&](void *spanprof_i_a) {                                                              \
        SPANPROF_I_WITH_META(spanprof_i_scope_meta(&spanprof_i_s, &spanprof_i_m, spanprof_i_a), name, __VA_ARGS__); \
    })
#define SPANPROF_SPAN_HOOKED(...) SPANPROF_I_SCOPE_HOOKED(SPANPROF_I_UNIQUE(spanprof_i_v), __VA_ARGS__, )
#define SPANPROF_I_SCOPE_HOOKED(v, name, with, ...)                                                                 \
    ::spanprof_scope_hooked v([&](spanprof_hooked *spanprof_i_h) {                                                  \
        SPANPROF_I_WITH_META(spanprof_i_scope_hooked(spanprof_i_h, &spanprof_i_s, with, &spanprof_i_m), name, __VA_ARGS__); \
    })
#define SPANPROF_STEP(n) ::spanprof_scope_step SPANPROF_I_UNIQUE(spanprof_i_v)(n)

#endif /* __cplusplus */
#endif /* !SPANPROF_DISABLE */
#endif /* SPANPROF_H */

/* ---- 9 dump format, version 1 ----------------------------------------------------------------------------------- */

/* For the implementation and for readers, who define SPANPROF_DUMP_FORMAT.
 *
 * A dump is a header (header_bytes long) and blocks (block_bytes long each, so block i stands at header_bytes + i *
 * block_bytes). Numbers have the byte order of the machine that wrote them. Each block begins with spanprof_dump_block.
 *
 * Lanes. A lane is a sequence of words that one thread at a time writes. Its window is a block of the file that the
 * writer maps; a window that is full is appended to the file as a copy (state DONE) and used again with the next
 * sequence number. So a lane's words are those of its DONE blocks in the order of seq, then those of its window (state
 * OPEN). A copy whose seq is the window's was cut short by the end of the process: the window has all of it. A window in
 * state FLUSHED holds nothing that the copies do not have. A DONE block has `words` words; an OPEN one ends at the first
 * zero word where a record should begin. In ring mode the copies take a fixed set of blocks in turn: a lane's older
 * sequence numbers are absent.
 * Lane 0 is the text lane: definitions of sites, threads and tracks. A definition stands in the file before the first
 * record that needs it, but readers should read lane 0 first.
 *
 * Words. Bit 0 set: a short span (section 6): site, start in ticks after the previous start on the lane, duration plus
 * one (0: open). Bit 0 clear: the head of a record: bits 0-7 its type, 8-15 flags, 16-31 words in all, 32-63 an argument.
 * "The previous start" is that of the last short or long span, or the last TIME, THREAD record, or the block's base_ticks.
 * (Long spans, TIME and THREAD records set it too.) Other records with a time have absolute ticks and leave it alone.
 *
 * Positions. 64 bits: session (10) lane (14) word (40); word = seq * words in a block + index in the block. Session is
 * the same in all of a dump.
 *
 * Spans stand in order of their start. A span's end is in its own record, or in an END record later in the lane (or, if
 * another thread ended it, in another lane). A span without end is unfinished: it lasts until its thread or the dump ends.
 *
 * Times. ns = CLOCK_MONOTONIC at a tick, by the anchors: pairs of ticks and ns in the header (first, last) and in every
 * block. Without a tick counter ticks are ns. */
#if defined(SPANPROF_IMPLEMENTATION) || defined(SPANPROF_DUMP_FORMAT)
#if !defined(SPANPROF_I_DUMP_FORMAT) && !defined(SPANPROF_DISABLE)
#define SPANPROF_I_DUMP_FORMAT

#define SPANPROF_DUMP_MAGIC "SPANPROF"
#define SPANPROF_DUMP_VERSION 1u
#define SPANPROF_DUMP_ENDIAN 0x01020304u
#define SPANPROF_BLOCK_MAGIC 0x4b425053u /* "SPBK" */

#define SPANPROF_POS_WORD_BITS 40
#define SPANPROF_POS_LANE_BITS 14
#define SPANPROF_POS_WORD(pos) ((pos) & ((1ull << SPANPROF_POS_WORD_BITS) - 1))
#define SPANPROF_POS_LANE(pos) ((pos) >> SPANPROF_POS_WORD_BITS & ((1ull << SPANPROF_POS_LANE_BITS) - 1))

/* One moment on both clocks; real_ns is CLOCK_REALTIME. */
typedef struct spanprof_dump_anchor { uint64_t ticks, mono_ns, real_ns; } spanprof_dump_anchor;

/* getrusage, microseconds and its own units. */
typedef struct spanprof_dump_usage {
    uint64_t user_us, system_us, max_rss_kb, minor_faults, major_faults, block_in, block_out, voluntary, involuntary;
} spanprof_dump_usage;

enum { SPANPROF_DUMP_RING = 1, SPANPROF_DUMP_PRIVATE = 2 /* windows are written when full and at the end only */,
       SPANPROF_DUMP_SNAPSHOT = 4, SPANPROF_DUMP_FORKED = 8 };
enum { SPANPROF_DUMP_RECORDING = 0, SPANPROF_DUMP_STOPPED = 1, SPANPROF_DUMP_EXITED = 2 };

typedef struct spanprof_dump_header {
    /* Fixed when the session opens; sum covers it. */
    char magic[8];
    uint32_t endian, version;
    uint32_t header_bytes, block_bytes, block_header_bytes;
    uint32_t clock;              /* spanprof_clock: TSC or MONOTONIC */
    uint32_t flags;              /* SPANPROF_DUMP_RING ... */
    uint32_t session;            /* number of the session in its process, from 1 */
    int32_t rank;                /* -1: none */
    uint32_t pid, parent_pid;
    uint32_t ring_blocks;        /* copies that a lane keeps in ring mode */
    uint64_t process_key;        /* the same in all dumps of a process, different in any other */
    spanprof_dump_anchor first;
    uint64_t ticks_per_second;   /* estimate at the start, for dumps with too few anchors */
    uint64_t max_events, max_mb; /* 0: no bound */
    char producer[32];           /* "spanprof 1.0.0" */
    char host[64];
    char process_name[128];
    spanprof_dump_usage usage_first;
    uint64_t sum;                /* FNV-1a (64 bit) over all bytes before it */
    /* Changes while recording. */
    uint32_t state;              /* SPANPROF_DUMP_RECORDING ... */
    uint32_t last_valid;         /* 1 + index of the newest of last[] */
    spanprof_dump_anchor last[2];
    uint64_t blocks;             /* blocks given out: the size that the file has or is about to have */
    uint64_t lanes;              /* lanes created, lane 0 included */
    uint64_t dropped;            /* events dropped outside of any lane */
    uint64_t orphan_ends;        /* ends without a begin */
    uint64_t write_error;        /* errno that ended the writing, 0 if none */
    uint32_t usage_valid, reserved;
    spanprof_dump_usage usage_last;
} spanprof_dump_header;

enum { SPANPROF_BLOCK_OPEN = 1, SPANPROF_BLOCK_DONE = 2, SPANPROF_BLOCK_FLUSHED = 3 };

typedef struct spanprof_dump_block {
    uint32_t magic;
    uint32_t lane;
    uint64_t seq;
    uint64_t base_ticks; /* the first delta is relative to it; also an anchor: */
    uint64_t base_ns;    /* CLOCK_MONOTONIC at base_ticks */
    uint64_t events;     /* events on the lane before this block */
    int64_t step;        /* in force at the block's first word, if has_step */
    uint32_t has_step;
    uint32_t thread;     /* thread that writes the first word */
    uint32_t cycle;      /* schedule cycle in force, 0: none */
    uint32_t words;      /* DONE: words in use; OPEN: 0 */
    uint64_t sum;        /* FNV-1a over the bytes before it */
    /* Changes while the block is a window. */
    uint32_t state;      /* SPANPROF_BLOCK_OPEN ... */
    uint32_t reserved;
    uint64_t dropped;    /* events dropped on the lane since it was created */
    uint64_t spare[5];
} spanprof_dump_block;

/* Head of a record. */
#define SPANPROF_RECORD(type, flags, words, argument) \
    (SPANPROF_I_CAST(uint64_t, type) | SPANPROF_I_CAST(uint64_t, flags) << 8 | SPANPROF_I_CAST(uint64_t, words) << 16 | SPANPROF_I_CAST(uint64_t, argument) << 32)
#define SPANPROF_RECORD_TYPE(head) ((head) & 255u)
#define SPANPROF_RECORD_FLAGS(head) ((head) >> 8 & 255u)
#define SPANPROF_RECORD_WORDS(head) ((head) >> 16 & 65535u)
#define SPANPROF_RECORD_ARGUMENT(head) ((head) >> 32)

/* Texts are a sequence of 16-bit length and bytes, padded with zero bytes to whole words. They are as the program gave
 * them: any bytes, cut to SPANPROF_TEXT_MAX. */
#define SPANPROF_TEXT_MAX 4096

/* Types: name, number, words after the head. A span, an instant, a counter, an async begin or end, a flow and a track span
 * are each one event. */
#define SPANPROF_RECORD_LIST(X)                                                                                        \
    X(TIME, 2)         /* ticks: sets the previous start */                                                           \
    X(SPAN, 4)         /* argument site; ticks, duration + 1 */                                                       \
    X(SPAN_DYN, 6)     /* ticks, duration + 1, text name */                                                           \
    X(END, 8)          /* flags 1: abandoned (left by longjmp); position, ticks */                                    \
    X(META, 10)        /* argument bits of SPANPROF_META_LIST, flags 1: hooked; position, numbers by index, texts by index */ \
    X(ATTR, 12)        /* argument key site, flags SPANPROF_VALUE_*; position, value; STR: text instead of value */ \
    X(INSTANT, 14)     /* argument site; ticks */                                                                     \
    X(COUNTER, 16)     /* argument site; ticks, double */                                                             \
    X(ASYNC_BEGIN, 18) /* argument site; ticks, id */                                                                 \
    X(ASYNC_END, 20)   /* argument site; ticks, id */                                                                 \
    X(FLOW_OUT, 22)    /* ticks, id, position of the span */                                                          \
    X(FLOW_IN, 24)     /* ticks, id, position of the span */                                                          \
    X(THREAD, 26)      /* argument thread; ticks: the lane is another thread's from here on, its open spans are unfinished */ \
    X(CYCLE, 28)       /* argument cycle; ticks */                                                                    \
    X(STEP, 30)        /* flags 1: set, 0: none; step */                                                              \
    X(TRACK_SPAN, 32)  /* argument site; position of the host span (0: none), track, start ns, duration ns, queue ns or -1 */ \
    X(SITE, 64)        /* text lane: argument site; line, address (0: none), texts name, file, function */            \
    X(THREAD_NAME, 66) /* text lane: argument thread; system's thread id, ticks, text name (may be empty; the last wins) */ \
    X(TRACK_NAME, 68)  /* text lane: track, group, texts process, track */                                            \
    X(MODULE, 70)      /* text lane: load bias, lowest address, highest address, text path */
enum spanprof_record_type {
#define SPANPROF_I_X(name, number) SPANPROF_RECORD_##name = number,
    SPANPROF_RECORD_LIST(SPANPROF_I_X)
#undef SPANPROF_I_X
    SPANPROF_RECORD_END_OF_LIST
};
enum { SPANPROF_VALUE_I64 = 0, SPANPROF_VALUE_U64 = 1, SPANPROF_VALUE_F64 = 2, SPANPROF_VALUE_STR = 3 };

/* FNV-1a, 64 bit (http://www.isthe.com/chongo/tech/comp/fnv/). */
static inline uint64_t spanprof_dump_sum(const void *data, size_t bytes) {
    const unsigned char *p = SPANPROF_I_CAST(const unsigned char *, data);
    uint64_t h = 14695981039346656037ull;
    size_t i;
    for (i = 0; i < bytes; i++) h = (h ^ p[i]) * 1099511628211ull;
    return h;
}

#endif
#endif
