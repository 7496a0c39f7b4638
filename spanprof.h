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
 *   SPANPROF_DISABLE          unset  any file: every macro becomes ((void)0), nothing is included, no code is left
 *   SPANPROF_CUDA             unset  every file: includes spanprof_cuda.h (needs its own IMPLEMENTATION file, the same one)
 *   SPANPROF_API              unset  every file alike: linkage of the functions, e.g. __attribute__((visibility("default")))
 *   SPANPROF_INLINE           1      every file alike: 0 calls functions instead of inlining the record path
 *   SPANPROF_NO_TLS           0      every file alike: 1 uses a pthread key instead of a thread-local variable
 *   SPANPROF_NO_TSC           0      every file alike: 1 never reads the time stamp counter
 *   SPANPROF_WINDOW_BYTES     65536  implementation file: bytes of a thread's window, a power of two, 64 KiB .. 4 MiB
 *   SPANPROF_MAX_DEPTH        32768  implementation file: open spans a thread can have; deeper ones are counted as dropped
 *   SPANPROF_INSTRUMENT_FUNCTIONS unset  implementation file (GCC, Clang): record every function of the files compiled with
 *                             -finstrument-functions; add -finstrument-functions-exclude-file-list=spanprof.h if this one is
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
 *     SIGKILL lose none. Spans still open are shown as unfinished; those left by longjmp end when that is found.
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

/* 1: the record path is inlined into each span; 0: it is called (smaller code). */
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
#define SPANPROF_I_PLAIN __attribute__((no_instrument_function)) /* not itself recorded by -finstrument-functions */
#define SPANPROF_I_HOT static inline __attribute__((always_inline, unused, no_instrument_function))
#define SPANPROF_I_LOAD(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define SPANPROF_I_STORE(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define SPANPROF_I_PUBLISH(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
/* Orders a thread's accesses against a signal handler on the same thread: the compiler alone must not move them. */
#define SPANPROF_I_SIGNAL_FENCE() __atomic_signal_fence(__ATOMIC_SEQ_CST)
#else
#define SPANPROF_I_LIKELY(x) (x)
#define SPANPROF_I_COLD
#define SPANPROF_I_PLAIN
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
    uint32_t unused;
    uint64_t word;      /* a short span's word but for its times; 0 until recorded, or when the number is too high for one */
} spanprof_site;
#define SPANPROF_I_SITE(name, fields) { name, __FILE__, SPANPROF_I_NULL, fields, SPANPROF_I_CAST(uint32_t, __LINE__), 0u, 0u, 0u, 0u }
#ifdef __cplusplus
#define SPANPROF_I_NULL nullptr
#else
#define SPANPROF_I_NULL NULL
#endif

/* An open span. pos 0: nothing was recorded, and ending it does nothing. */
typedef struct spanprof_span {
    uint64_t pos; /* where its first word stands: session, lane, word; see SPANPROF_POS_* */
} spanprof_span;

/* A scope's open span; its address tells it from others. word NULL: nothing was recorded. */
typedef struct spanprof_i_scope {
    uint64_t start; /* ticks; this pair first: a compiler stores it as one, which then crosses no cache line on a stack */
    uint64_t bits;  /* what was written at word */
    uint64_t *word; /* where it was recorded first, in the window of the time */
} spanprof_i_scope;

/* Metadata of a span: name, kind (S text, U unsigned, I signed), in the order of the members of spanprof_meta, which is
 * also the order of designators that C++ asks for. Text members: NULL is unset. Numbers: 0 is unset, unless the macro
 * names the member or its bit (1 << index in this list) is in .set. */
#define SPANPROF_META_LIST(X)                                                                    \
    X(phase, S) X(activity, S) X(backend, S) X(dtype, S) X(device, S) X(timing, S) X(module, S)  \
    X(graph_node, S) X(step, I) X(input_shapes, S) X(output_shapes, S)                           \
    X(alloc_bytes, U) X(alloc_live_bytes, U) X(alloc_peak_bytes, U) X(alloc_delta_bytes, I) X(hook_error, S) X(device_index, I)
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
/* A static site by hand: static spanprof_site site = SPANPROF_SITE("name"); */
#define SPANPROF_SITE(name) SPANPROF_I_SITE(name, SPANPROF_I_NULL)
/* Metadata for an open span; fields set here replace fields set before. */
SPANPROF_API void spanprof_set_meta(spanprof_span span, const spanprof_meta *meta);
/* The innermost open span of the calling thread; pos 0 when there is none. */
SPANPROF_API spanprof_span spanprof_current(void);

/* A span with hooks; *h must stay in place until spanprof_hooked_end. meta may be NULL. */
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

/* Registers one function that spanprof_flush (closing 0), spanprof_stop and the program's exit (closing 1) call before
 * they close the books, on their own thread and without a lock: for recorders with results still pending. */
SPANPROF_API void spanprof_i_on_flush(void (*callback)(int closing));
/* Adds to the session's dropped events. */
SPANPROF_API void spanprof_i_dropped(uint64_t events);

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

/* A thread's stack of open spans. The fast path sets word and address alone. Where word is NULL, pos tells where the span
 * stands (0: a placeholder that records nothing, so that a pair's end finds its begin). */
typedef struct spanprof_i_open {
    uint64_t *word;     /* in the window; NULL once the window was written out */
    uintptr_t address;  /* a scope: of its variable, which is aligned to 8, plus 1 if its end must take the slow path because
                           the record is a long one, word is NULL, or ticks are not the counter's. Another entry: a little
                           below that of the scope around it, with SPANPROF_I_NO_SCOPE set */
    uint64_t pos;
    uint64_t ticks;     /* another entry: its start */
    uint64_t kind;      /* another entry: SPANPROF_I_HANDLE ... */
    uintptr_t function; /* SPANPROF_I_FUNCTION: whose entry began it */
} spanprof_i_open;
#define SPANPROF_I_NO_SCOPE 2u
enum { SPANPROF_I_HANDLE, SPANPROF_I_PAIR, SPANPROF_I_FUNCTION };

/* One cache line a thread. */
typedef struct spanprof_i_thread {
    uint32_t generation;    /* equals spanprof_i_on while this thread may record; 0 while a record is being written */
    uint32_t claimer;       /* where on the stack that is: the low half of an address there. SPANPROF_I_ENDED without a lane:
                               the thread's destructors have run, it records no more */
    uint64_t *next;         /* next free word of the window */
    uint64_t *end;          /* one past the last word that a short span may take */
    uint64_t last;          /* ticks that the next start is relative to */
    spanprof_i_open *top;   /* one above the innermost open span; below the outermost stands a sentinel with the highest address */
    spanprof_i_open *limit; /* end of the stack's memory */
    spanprof_i_open *bottom; /* of the stack, above the sentinel */
    struct spanprof_i_lane *lane;
} spanprof_i_thread;

/* 0: off. 1: not decided yet. Else the session's generation, an even number, plus 1 while paused. */
SPANPROF_API extern uint32_t spanprof_i_on;
/* 1: ticks are the time stamp counter's, 0: nanoseconds of CLOCK_MONOTONIC. */
SPANPROF_API extern uint32_t spanprof_i_tsc;

SPANPROF_API spanprof_i_scope spanprof_i_enter_slow(spanprof_site *site, uintptr_t address, uintptr_t frame);
SPANPROF_API void spanprof_i_leave_slow(const spanprof_i_scope *scope, uint64_t now);
SPANPROF_API uint64_t spanprof_i_monotonic_ns(void);
SPANPROF_API spanprof_i_scope spanprof_i_enter_call(spanprof_site *site, void *address);
SPANPROF_API spanprof_i_scope spanprof_i_enter_meta(spanprof_site *site, const spanprof_meta *meta, void *address);
SPANPROF_API void spanprof_i_leave_call(const spanprof_i_scope *scope);
SPANPROF_API void spanprof_i_scope_hooked(spanprof_hooked *h, spanprof_site *site, const spanprof_hooks *hooks, const spanprof_meta *meta);

#if !SPANPROF_NO_TLS
SPANPROF_API extern SPANPROF_I_TLS spanprof_i_thread spanprof_i_tls;
#define SPANPROF_I_SELF() (&spanprof_i_tls)
#else
SPANPROF_API spanprof_i_thread *spanprof_i_self(void);
#define SPANPROF_I_SELF() spanprof_i_self()
#endif

/* The time stamp counter, or 0 where there is none: then no span is short and none takes the fast path. */
SPANPROF_I_HOT uint64_t spanprof_i_counter(void) {
#if SPANPROF_NO_TSC
    return 0;
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return SPANPROF_I_CAST(uint64_t, high) << 32 | low;
#endif
}

/* Begins a span. The generation is 0 while the thread's state is in motion: a signal handler that records then comes to
 * the slow path and is counted. frame: where the caller's frame ends, 0 if this is inlined into it. The release store orders the word after the zero behind it, for who reads the dump now. */
SPANPROF_I_HOT spanprof_i_scope spanprof_i_enter(spanprof_site *site, uintptr_t address, uintptr_t frame, uint32_t generation) {
    spanprof_i_thread *self = SPANPROF_I_SELF();
    spanprof_i_scope scope;
    spanprof_i_open *open;
    uint64_t now, start, bits;
    uint64_t *word;
    if (!SPANPROF_I_LIKELY(generation == self->generation)) return spanprof_i_enter_slow(site, address, frame);
    self->claimer = SPANPROF_I_CAST(uint32_t, frame ? frame : address);
    self->generation = 0;
    SPANPROF_I_SIGNAL_FENCE();
    word = self->next;
    open = self->top;
    bits = SPANPROF_I_LOAD(&site->word);
    now = spanprof_i_counter();
    start = now - self->last;
    if (!SPANPROF_I_LIKELY(word < self->end && open < self->limit && bits != 0 && start <= SPANPROF_SHORT_START_MAX && open[-1].address > address)) {
        SPANPROF_I_SIGNAL_FENCE();
        self->generation = generation;
        return spanprof_i_enter_slow(site, address, frame);
    }
    open->word = word;
    open->address = address;
    scope.word = word;
    scope.start = now;
    scope.bits = start << SPANPROF_SHORT_START_SHIFT | bits;
    SPANPROF_I_STORE(word + 1, SPANPROF_I_CAST(uint64_t, 0));
    SPANPROF_I_PUBLISH(word, scope.bits);
    self->next = word + 1;
    self->last = now;
    self->top = open + 1;
    SPANPROF_I_SIGNAL_FENCE();
    self->generation = generation;
    return scope;
}

/* Ends a span: adds its duration to the word where it stands. When the window was written out meanwhile, the address on
 * the stack is another and the slow path writes a record of the end. */
SPANPROF_I_HOT void spanprof_i_leave(const spanprof_i_scope *scope) {
    const uint64_t now = spanprof_i_counter();
    const uint64_t duration = now - scope->start;
    spanprof_i_thread *self = SPANPROF_I_SELF();
    const uint32_t generation = self->generation;
    spanprof_i_open *open;
    self->claimer = SPANPROF_I_CAST(uint32_t, SPANPROF_I_PTR(uintptr_t, scope));
    self->generation = 0;
    SPANPROF_I_SIGNAL_FENCE();
    open = self->top - 1;
    if (SPANPROF_I_LIKELY(open->address == SPANPROF_I_PTR(uintptr_t, scope) && duration <= SPANPROF_SHORT_DURATION_MAX)) {
        SPANPROF_I_STORE(scope->word, scope->bits + ((duration + 1u) << SPANPROF_SHORT_DURATION_SHIFT));
        self->top = open;
        SPANPROF_I_SIGNAL_FENCE();
        self->generation = generation;
        return;
    }
    SPANPROF_I_SIGNAL_FENCE();
    self->generation = generation;
    spanprof_i_leave_slow(scope, now);
}

/* Laid out for recording off: the straight way leads past the recording, which has 20 ns to find its own. */
SPANPROF_I_HOT spanprof_i_scope spanprof_i_scope_enter(spanprof_site *site, void *address) {
    const uint32_t generation = SPANPROF_I_LOAD(&spanprof_i_on);
    spanprof_i_scope none = { 0u, 0u, SPANPROF_I_NULL };
#if SPANPROF_INLINE
    return !SPANPROF_I_LIKELY(!generation) ? spanprof_i_enter(site, SPANPROF_I_PTR(uintptr_t, address), 0, generation) : none;
#else
    return generation ? spanprof_i_enter_call(site, address) : none;
#endif
}
SPANPROF_I_HOT void spanprof_i_scope_end(const spanprof_i_scope *scope) {
#if SPANPROF_INLINE
    if (!SPANPROF_I_LIKELY(!scope->word)) spanprof_i_leave(scope);
#else
    if (scope->word) spanprof_i_leave_call(scope);
#endif
}
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

/* Values are looked at for their type alone: a variable that only a macro uses is no unused one. */
#define SPANPROF_I_UNUSED(value) ((void)sizeof((value) + 0))
#define SPANPROF_I_UNUSED_TEXT(text) ((void)sizeof((text)[0]))
#define SPANPROF_SPAN(name) ((void)0)
#define SPANPROF_SPAN_META(...) ((void)0)
#define SPANPROF_SPAN_HOOKED(...) ((void)0)
#define SPANPROF_FUNCTION() ((void)0)
#define SPANPROF_BLOCK(name)
#define SPANPROF_BEGIN(name) ((void)0)
#define SPANPROF_BEGIN_META(...) ((void)0)
#define SPANPROF_BEGIN_DYN(text) SPANPROF_I_UNUSED_TEXT(text)
#define SPANPROF_END() ((void)0)
#define SPANPROF_STEP(n) SPANPROF_I_UNUSED(n)
#define SPANPROF_ATTR_I64(key, value) SPANPROF_I_UNUSED(value)
#define SPANPROF_ATTR_U64(key, value) SPANPROF_I_UNUSED(value)
#define SPANPROF_ATTR_F64(key, value) SPANPROF_I_UNUSED(value)
#define SPANPROF_ATTR_STR(key, value) SPANPROF_I_UNUSED_TEXT(value)
#define SPANPROF_INSTANT(name) ((void)0)
#define SPANPROF_COUNTER(name, value) SPANPROF_I_UNUSED(value)
#define SPANPROF_ASYNC_BEGIN(name, id) SPANPROF_I_UNUSED(id)
#define SPANPROF_ASYNC_END(name, id) SPANPROF_I_UNUSED(id)
#define SPANPROF_FLOW_OUT(id) SPANPROF_I_UNUSED(id)
#define SPANPROF_FLOW_IN(id) SPANPROF_I_UNUSED(id)
#define SPANPROF_THREAD_NAME(text) SPANPROF_I_UNUSED_TEXT(text)

/* Handles and the calls of a session do nothing. What takes a structure of the kit belongs inside #ifndef SPANPROF_DISABLE. */
typedef struct spanprof_site { char none; } spanprof_site;
typedef struct spanprof_span { char none; } spanprof_span;
#define SPANPROF_SITE(name) { 0 }
static inline spanprof_span spanprof_begin(spanprof_site *site) { spanprof_span none = { 0 }; (void)site; return none; }
static inline spanprof_span spanprof_begin_dyn(const char *name) { spanprof_span none = { 0 }; (void)name; return none; }
static inline void spanprof_end(spanprof_span span) { (void)span; }
static inline int spanprof_stop(void) { return 0; }
static inline int spanprof_pause(void) { return 0; }
static inline int spanprof_resume(void) { return 0; }
static inline int spanprof_flush(void) { return 0; }
static inline int spanprof_step(void) { return 0; }
static inline int spanprof_recording(void) { return 0; }
static inline int spanprof_schedule(unsigned long long skip_first, unsigned long long wait, unsigned long long warmup, unsigned long long active, unsigned long long repeat) {
    (void)skip_first, (void)wait, (void)warmup, (void)active, (void)repeat;
    return 0;
}

#else

#define SPANPROF_I_TEXT2(...) #__VA_ARGS__
#define SPANPROF_I_TEXT(...) SPANPROF_I_TEXT2(__VA_ARGS__)
#define SPANPROF_I_ON() (SPANPROF_I_LOAD(&spanprof_i_on) != 0)

/* A static site, whose name must be a constant: in C it has to be, in C++ the compiler is asked to insist. */
#if defined(__cplusplus) && defined(__clang__)
#define SPANPROF_I_STATIC static __attribute__((require_constant_initialization))
#elif defined(__cplusplus) && defined(__GNUC__) && __GNUC__ >= 10 && !defined(__CUDACC__) && !defined(__EDG__)
#define SPANPROF_I_STATIC static __constinit
#else
#define SPANPROF_I_STATIC static
#endif

/* The metadata spanprof_i_m of a site, NULL without fields: then no structure is built either. */
#define SPANPROF_I_FIELDS(...) (sizeof SPANPROF_I_TEXT(__VA_ARGS__) > 1 ? &spanprof_i_m : SPANPROF_I_NULL)

/* Runs a statement with a static site named spanprof_i_s, while recording. */
#define SPANPROF_I_AT(name, call)                                                        \
    do {                                                                                 \
        SPANPROF_I_STATIC spanprof_site spanprof_i_s = SPANPROF_I_SITE(name, SPANPROF_I_NULL);      \
        if (SPANPROF_I_ON()) call;                                                       \
    } while (0)

#if SPANPROF_I_GNU
/* The same with the metadata spanprof_i_m, given by its initializer. */
#define SPANPROF_I_AT_META_(call, name, ...)                                                       \
    __extension__({                                                                                \
        _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wmissing-field-initializers\"") \
        SPANPROF_I_STATIC spanprof_site spanprof_i_s = SPANPROF_I_SITE(name, SPANPROF_I_TEXT(__VA_ARGS__));   \
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
        SPANPROF_I_STATIC spanprof_site spanprof_i_s = SPANPROF_I_SITE(name, SPANPROF_I_TEXT(__VA_ARGS__));   \
        if (SPANPROF_I_ON()) { const spanprof_meta spanprof_i_m{ .set = 0u, __VA_ARGS__ }; spanprof_i_push(&spanprof_i_s, &spanprof_i_m); } \
    } while (0)
#else
#define SPANPROF_BEGIN_META(...) SPANPROF_I_BEGIN_META_(__VA_ARGS__, )
#define SPANPROF_I_BEGIN_META_(name, ...)                                                          \
    do {                                                                                           \
        SPANPROF_I_STATIC spanprof_site spanprof_i_s = SPANPROF_I_SITE(name, SPANPROF_I_TEXT(__VA_ARGS__));   \
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
    spanprof_i_scope v __attribute__((cleanup(spanprof_i_scope_end), unused)) = __extension__({                        \
        SPANPROF_I_STATIC spanprof_site spanprof_i_s = SPANPROF_I_SITE(name, SPANPROF_I_NULL);                                 \
        spanprof_i_scope_enter(&spanprof_i_s, &v);                                                                  \
    })
#define SPANPROF_SPAN(name) SPANPROF_I_SCOPE(SPANPROF_I_UNIQUE(spanprof_i_v), name)
#define SPANPROF_FUNCTION() SPANPROF_I_SCOPE_FUNCTION(SPANPROF_I_UNIQUE(spanprof_i_v))
#define SPANPROF_I_SCOPE_FUNCTION(v)                                                                                \
    spanprof_i_scope v __attribute__((cleanup(spanprof_i_scope_end), unused)) = __extension__({                        \
        SPANPROF_I_STATIC spanprof_site spanprof_i_s = { __func__, __FILE__, __func__, NULL, __LINE__, 0u, 0u, 0u, 0u };                   \
        spanprof_i_scope_enter(&spanprof_i_s, &v);                                                                  \
    })
#define SPANPROF_SPAN_META(...) SPANPROF_I_SCOPE_META(SPANPROF_I_UNIQUE(spanprof_i_v), __VA_ARGS__)
#define SPANPROF_I_SCOPE_META(v, ...)                                                                               \
    spanprof_i_scope v __attribute__((cleanup(spanprof_i_scope_end), unused)) = SPANPROF_I_ON()                        \
        ? SPANPROF_I_AT_META(spanprof_i_enter_meta(&spanprof_i_s, &spanprof_i_m, &v), __VA_ARGS__) : (spanprof_i_scope){ 0u, 0u, NULL }
#define SPANPROF_SPAN_HOOKED(...) SPANPROF_I_SCOPE_HOOKED(SPANPROF_I_UNIQUE(spanprof_i_v), __VA_ARGS__, )
#define SPANPROF_I_SCOPE_HOOKED(v, name, with, ...)                                                                 \
    spanprof_hooked v __attribute__((cleanup(spanprof_i_hooked_end), unused));                                      \
    v.hooks = NULL;                                                                                                 \
    if (SPANPROF_I_ON()) SPANPROF_I_AT_META_(spanprof_i_scope_hooked(&v, &spanprof_i_s, with, SPANPROF_I_FIELDS(__VA_ARGS__)), name, __VA_ARGS__)
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
    SPANPROF_I_PLAIN explicit spanprof_scope(spanprof_site *site) : scope_(spanprof_i_scope_enter(site, &scope_)), once_(true) {}
    template <typename Begin> SPANPROF_I_PLAIN explicit spanprof_scope(const Begin &begin) : scope_(), once_(true) { if (SPANPROF_I_ON()) scope_ = begin(&scope_); }
    SPANPROF_I_PLAIN ~spanprof_scope() { spanprof_i_scope_end(&scope_); }
    SPANPROF_I_PLAIN bool once() { const bool now = once_; once_ = false; return now; }
    spanprof_scope(const spanprof_scope &) = delete;
    spanprof_scope &operator=(const spanprof_scope &) = delete;
private:
    spanprof_i_scope scope_;
    bool once_;
};
class spanprof_scope_hooked {
public:
    template <typename Begin> SPANPROF_I_PLAIN explicit spanprof_scope_hooked(const Begin &begin) { h_.hooks = nullptr; if (SPANPROF_I_ON()) begin(&h_); }
    SPANPROF_I_PLAIN ~spanprof_scope_hooked() { spanprof_i_hooked_end(&h_); }
    spanprof_scope_hooked(const spanprof_scope_hooked &) = delete;
    spanprof_scope_hooked &operator=(const spanprof_scope_hooked &) = delete;
private:
    spanprof_hooked h_;
};
class spanprof_scope_step {
public:
    SPANPROF_I_PLAIN explicit spanprof_scope_step(int64_t step) : step_() { if (SPANPROF_I_ON()) step_ = spanprof_i_step_enter(step); }
    SPANPROF_I_PLAIN ~spanprof_scope_step() { spanprof_i_step_end(&step_); }
    spanprof_scope_step(const spanprof_scope_step &) = delete;
    spanprof_scope_step &operator=(const spanprof_scope_step &) = delete;
private:
    spanprof_i_step step_;
};

#if SPANPROF_I_GNU
#define SPANPROF_I_STATIC_SITE(...) __extension__({ SPANPROF_I_STATIC spanprof_site spanprof_i_s = __VA_ARGS__; &spanprof_i_s; })
#define SPANPROF_I_QUIET _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wmissing-field-initializers\"")
#define SPANPROF_I_LOUD _Pragma("GCC diagnostic pop")
#else
#define SPANPROF_I_STATIC_SITE(...) [] { SPANPROF_I_STATIC spanprof_site spanprof_i_s = __VA_ARGS__; return &spanprof_i_s; }()
#define SPANPROF_I_QUIET
#define SPANPROF_I_LOUD
#endif
#define SPANPROF_I_WITH_META(call, name, ...)                                                                       \
    SPANPROF_I_QUIET SPANPROF_I_STATIC spanprof_site spanprof_i_s = SPANPROF_I_SITE(name, SPANPROF_I_TEXT(__VA_ARGS__));       \
    const spanprof_meta spanprof_i_m = __extension__ spanprof_meta{ .set = 0u, __VA_ARGS__ };                       \
    SPANPROF_I_LOUD return call
#define SPANPROF_SPAN(name) ::spanprof_scope SPANPROF_I_UNIQUE(spanprof_i_v)(SPANPROF_I_STATIC_SITE(SPANPROF_I_SITE(name, nullptr)))
#define SPANPROF_FUNCTION()                                                                                         \
    ::spanprof_scope SPANPROF_I_UNIQUE(spanprof_i_v)(SPANPROF_I_STATIC_SITE({ __func__, __FILE__, __func__, nullptr, __LINE__, 0u, 0u, 0u, 0u }))
#define SPANPROF_BLOCK(name) SPANPROF_I_BLOCK(SPANPROF_I_UNIQUE(spanprof_i_v), name)
#define SPANPROF_I_BLOCK(v, name) for (::spanprof_scope v(SPANPROF_I_STATIC_SITE(SPANPROF_I_SITE(name, nullptr))); v.once();)
#define SPANPROF_SPAN_META(...) SPANPROF_I_SCOPE_META(SPANPROF_I_UNIQUE(spanprof_i_v), __VA_ARGS__, )
#define SPANPROF_I_SCOPE_META(v, name, ...)                                                                         \
    ::spanprof_scope v([&](void *spanprof_i_a) {                                                              \
        SPANPROF_I_WITH_META(spanprof_i_enter_meta(&spanprof_i_s, &spanprof_i_m, spanprof_i_a), name, __VA_ARGS__); \
    })
#define SPANPROF_SPAN_HOOKED(...) SPANPROF_I_SCOPE_HOOKED(SPANPROF_I_UNIQUE(spanprof_i_v), __VA_ARGS__, )
#define SPANPROF_I_SCOPE_HOOKED(v, name, with, ...)                                                                 \
    ::spanprof_scope_hooked v([&](spanprof_hooked *spanprof_i_h) {                                                  \
        SPANPROF_I_WITH_META(spanprof_i_scope_hooked(spanprof_i_h, &spanprof_i_s, with, SPANPROF_I_FIELDS(__VA_ARGS__)), name, __VA_ARGS__); \
    })
#define SPANPROF_STEP(n) ::spanprof_scope_step SPANPROF_I_UNIQUE(spanprof_i_v)(n)

#endif /* __cplusplus */
#endif /* !SPANPROF_DISABLE */
#endif /* SPANPROF_H */

#ifdef SPANPROF_CUDA
#include "spanprof_cuda.h"
#endif

#if defined(SPANPROF_DISABLE) && defined(SPANPROF_IMPLEMENTATION) && !defined(SPANPROF_I_DISABLED)
#define SPANPROF_I_DISABLED
typedef int spanprof_i_disabled; /* so that a file of the implementation alone is not an empty one */
#endif

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
 * An end by another thread may come before the start, by what the counters of two cores differ (readers allow 10 us): a
 * duration of 0. An abandoned span was left by longjmp, or is a pair whose scope ended first: its end is the time when
 * that was found.
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
    X(END, 8)          /* flags 1: abandoned (below); position, ticks */                                              \
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

/* ---- 10 implementation ------------------------------------------------------------------------------------------ */

#if defined(SPANPROF_IMPLEMENTATION) && !defined(SPANPROF_DISABLE) && !defined(SPANPROF_I_IMPLEMENTED)
#define SPANPROF_I_IMPLEMENTED
#if defined(__cplusplus) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuseless-cast" /* what is useless here is needed on another platform */
#endif

#if defined(__GLIBC__) && !defined(__USE_GNU)
#error "define SPANPROF_IMPLEMENTATION and include spanprof.h before any other include (or define _GNU_SOURCE)"
#endif

/* 10.1 includes */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if SPANPROF_I_WINDOWS
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#else
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#if defined(__linux__)
#if defined(__PIC__) && !defined(__PIE__)
#include <link.h>
#endif
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif
#endif
#if !SPANPROF_NO_TSC && (defined(__x86_64__) || defined(__i386__))
#include <cpuid.h>
#endif

/* Words kept free at a window's end, so that a thread whose dump can't grow any more can still write the ends of its spans. */
#define SPANPROF_I_TAIL 48u
/* Words that a lane's window offers to records of any length before it is written out. */
#define SPANPROF_I_ROOM (SPANPROF_I_WORDS - SPANPROF_I_TAIL)
#define SPANPROF_I_HIGHEST UINTPTR_MAX
#define SPANPROF_I_WAITING_MAX 256 /* depth at which no coroutine's scope outlives the scope around it */
#define SPANPROF_I_SAME_FRAME_MAX 64 /* open spans among which a scope that left by longjmp is looked for by its address */
#define SPANPROF_I_SIGNAL_FRAME_MIN 512u /* bytes that the system puts on the stack below what a signal interrupts, at least */
#define SPANPROF_I_ENDED 1u
#define SPANPROF_I_LANES_MAX ((1u << SPANPROF_POS_LANE_BITS) - 1u)
#define SPANPROF_I_PATH_MAX 1024

/* Where the frame of the caller of the function that says it ends, if that function is never inlined; and a stack address
 * below every variable of the calling functions, whatever the compiler has inlined. */
#if SPANPROF_I_GNU
#define SPANPROF_I_NOINLINE __attribute__((noinline))
#define SPANPROF_I_FRAME() SPANPROF_I_PTR(uintptr_t, __builtin_frame_address(0))
static SPANPROF_I_NOINLINE uintptr_t spanprof_i_frame(void) {
    __asm__ volatile("");
    return SPANPROF_I_PTR(uintptr_t, __builtin_frame_address(0));
}
#else
#define SPANPROF_I_NOINLINE
#define SPANPROF_I_FRAME() spanprof_i_frame()
static uintptr_t spanprof_i_frame(void) { return 0; } /* never taken for left by longjmp */
#endif

static int spanprof_i_is_scope(const spanprof_i_open *open) { return !(open->address & SPANPROF_I_NO_SCOPE); }
/* The address of an entry that is no scope's, on top of another one: below it, so that the fast path takes it for an
 * inner one and still sees a scope at the very address of the one around it. */
static uintptr_t spanprof_i_address_inside(const spanprof_i_open *below) {
    return ((below->address - 8u) & ~SPANPROF_I_CAST(uintptr_t, 7)) | SPANPROF_I_NO_SCOPE;
}

/* 10.2 state */

typedef struct spanprof_i_slot {
    uint64_t offset; /* of the block in the file; 0: not given out yet */
    uint64_t events; /* in the copy that it holds */
} spanprof_i_slot;

/* A sequence of words in the dump; one thread at a time owns it. Lives in a mapping of its own. */
typedef struct spanprof_i_lane {
    struct spanprof_i_session *session;
    struct spanprof_i_lane *next;      /* all lanes of the session */
    struct spanprof_i_lane *next_free; /* lanes that no thread owns; under the lock */
    spanprof_dump_block *window;
    uint64_t *words;  /* first word of the window */
    uint64_t pos;     /* its position */
    uintptr_t stack_low, stack_high; /* of the thread that owns the lane: where its local variables are, once it is known */
    int stack_known;
    spanprof_i_open *stack;
    size_t stack_bytes;
    uint64_t *ended;  /* positions of spans on the stack that another thread has ended; under the lock */
    size_t ended_count, ended_bytes;
    uint64_t too_deep; /* pairs begun that the stack had no room for */
    uint64_t taken;    /* position at which its thread took the lane: what stands before is another's */
    size_t lane_bytes;
    uint64_t offset;  /* of the window in the file */
    uint64_t seq;
    uint64_t events;  /* before the window; read by other threads */
    uint64_t overwritten; /* events in copies that a ring has overwritten */
    uint64_t other_words; /* words in the window that begin no event */
    uint64_t open_before; /* spans without end in the blocks before the window; read by other threads */
    uint64_t left_open;   /* spans in the window that will get no end here: their thread ended, or another ended them */
    int64_t step;
    uint32_t id, thread, cycle, has_step;
    uint32_t rounds;   /* of thread-exit destructors seen */
    uint32_t full;     /* 1: nothing can be written out any more */
    uint32_t ring_blocks;
    spanprof_i_slot *slots;
} spanprof_i_lane;

typedef struct spanprof_i_session {
    spanprof_dump_header *header; /* mapped, or private memory */
    size_t header_bytes;
    spanprof_i_lane *lanes, *free;
    spanprof_i_thread text; /* writes lane 0, under the lock */
    spanprof_i_lane none;   /* for threads that found no room for a lane: always full, without a window or a stack */
    uint64_t refs;          /* lanes that a thread owns, plus 1 while the session is open; under the lock */
    uint64_t threads;       /* thread numbers given out */
    uint64_t events_left;   /* of max_events */
    uint64_t blocks_max;
    uint64_t anchored;      /* ticks of the newest anchor in the header */
    uint64_t anchor_gap;    /* ticks between anchors */
    uint64_t foreign_ends;  /* spans that another thread ended */
    uint64_t snapshots;
    uint32_t number, cycle, anchoring, is_private, ring_blocks, limited, told, open, no_room;
    uint64_t device, inode;
#if SPANPROF_I_WINDOWS
    HANDLE file;
#else
    int file;
#endif
    char path[SPANPROF_I_PATH_MAX];
} spanprof_i_session;

/* Definitions of all sites, kept for the dumps of later sessions and of forked children. */
typedef struct spanprof_i_book {
    struct spanprof_i_book *next;
    size_t used;
    uint64_t words[(SPANPROF_WINDOW_BYTES - 64) / 8];
} spanprof_i_book;

typedef struct spanprof_i_plan { uint64_t skip_first, wait, warmup, active, repeat, step; uint32_t set; } spanprof_i_plan;

SPANPROF_API uint32_t spanprof_i_on = 1;
SPANPROF_API uint32_t spanprof_i_tsc = 0;
/* The stack of a thread without a lane: the sentinel alone. */
#define SPANPROF_I_NO_STACK { SPANPROF_I_NULL, SPANPROF_I_HIGHEST, 0, 0, 0, 0 }
static spanprof_i_open spanprof_i_no_stack[2] = { SPANPROF_I_NO_STACK, SPANPROF_I_NO_STACK };
static int spanprof_i_has_ended(const spanprof_i_thread *self) { return !self->lane && self->claimer == SPANPROF_I_ENDED; }
static void spanprof_i_reset_thread(spanprof_i_thread *self) {
    memset(self, 0, sizeof *self);
    self->top = self->limit = self->bottom = spanprof_i_no_stack + 1;
}
#if !SPANPROF_NO_TLS
SPANPROF_API SPANPROF_I_TLS spanprof_i_thread spanprof_i_tls = { 0, 0, SPANPROF_I_NULL, SPANPROF_I_NULL, 0, spanprof_i_no_stack + 1, spanprof_i_no_stack + 1, spanprof_i_no_stack + 1, SPANPROF_I_NULL };
static SPANPROF_I_TLS char spanprof_i_name[48]; /* thread name, for a session that opens later */
static SPANPROF_I_TLS uint32_t spanprof_i_inside; /* 1 while this thread is in code under the lock */
#endif

/* All below is under the lock, but for what atomics read. */
static spanprof_i_session *spanprof_i_current;
static spanprof_session_stats spanprof_i_last;
static uint32_t spanprof_i_sessions;      /* opened in this process */
static uint32_t spanprof_i_generation = 2; /* even, the newest given out */
static uint32_t spanprof_i_sites;          /* numbers given out */
static uint32_t spanprof_i_paused;
static uint32_t spanprof_i_forked;         /* the next session is a forked child's first */
static spanprof_i_book *spanprof_i_books, *spanprof_i_book_last;
static spanprof_i_plan spanprof_i_schedule_plan;
static spanprof_config spanprof_i_config;  /* of the current session, for a forked child */
static char spanprof_i_config_path[SPANPROF_I_PATH_MAX], spanprof_i_config_name[128];
#if !SPANPROF_I_WINDOWS
/* Of the processes that this one was forked from, and that recorded: the first one's dump, the process keys of the last. */
static char spanprof_i_parent_path[SPANPROF_I_PATH_MAX];
static uint64_t spanprof_i_ancestors[16];
static uint32_t spanprof_i_ancestor_count;
#endif
static uint64_t spanprof_i_made_device, spanprof_i_made_inode; /* file of the session before */
static void (*spanprof_i_flush_callback)(int closing);
static uint64_t spanprof_i_stray_drops, spanprof_i_stray_orphans; /* counted where the lock could not be had; added to the header later */

/* 10.3 atomics: relaxed counters that several threads add to */

#if SPANPROF_I_GNU
#define SPANPROF_I_ADD(p, v) __atomic_fetch_add((p), SPANPROF_I_CAST(uint64_t, v), __ATOMIC_RELAXED)
#define SPANPROF_I_ACQUIRE(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
static int spanprof_i_swap(uint64_t *p, uint64_t *expected, uint64_t desired) {
    return __atomic_compare_exchange_n(p, expected, desired, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}
static uint32_t spanprof_i_exchange(uint32_t *p, uint32_t v) { return __atomic_exchange_n(p, v, __ATOMIC_ACQ_REL); }
#elif SPANPROF_I_WINDOWS
#define SPANPROF_I_ADD(p, v) SPANPROF_I_CAST(uint64_t, InterlockedExchangeAdd64(SPANPROF_I_PTR(volatile LONG64 *, p), SPANPROF_I_CAST(LONG64, v)))
#define SPANPROF_I_ACQUIRE(p) (*(p))
static int spanprof_i_swap(uint64_t *p, uint64_t *expected, uint64_t desired) {
    const LONG64 before = SPANPROF_I_CAST(LONG64, *expected);
    const LONG64 seen = InterlockedCompareExchange64(SPANPROF_I_PTR(volatile LONG64 *, p), SPANPROF_I_CAST(LONG64, desired), before);
    *expected = SPANPROF_I_CAST(uint64_t, seen);
    return seen == before;
}
static uint32_t spanprof_i_exchange(uint32_t *p, uint32_t v) { return SPANPROF_I_CAST(uint32_t, InterlockedExchange(SPANPROF_I_PTR(volatile LONG *, p), SPANPROF_I_CAST(LONG, v))); }
#else
/* A compiler without atomics: one mutex of their own for all of them. */
static pthread_mutex_t spanprof_i_atomic_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t spanprof_i_add(uint64_t *p, uint64_t v) {
    uint64_t before;
    pthread_mutex_lock(&spanprof_i_atomic_lock);
    before = *p;
    *p = before + v;
    pthread_mutex_unlock(&spanprof_i_atomic_lock);
    return before;
}
#define SPANPROF_I_ADD(p, v) spanprof_i_add((p), (uint64_t)(v))
#define SPANPROF_I_ACQUIRE(p) (*(p))
static int spanprof_i_swap(uint64_t *p, uint64_t *expected, uint64_t desired) {
    int same;
    pthread_mutex_lock(&spanprof_i_atomic_lock);
    same = *p == *expected;
    if (same) *p = desired; else *expected = *p;
    pthread_mutex_unlock(&spanprof_i_atomic_lock);
    return same;
}
static uint32_t spanprof_i_exchange(uint32_t *p, uint32_t v) {
    uint32_t before;
    pthread_mutex_lock(&spanprof_i_atomic_lock);
    before = *p;
    *p = v;
    pthread_mutex_unlock(&spanprof_i_atomic_lock);
    return before;
}
#endif

/* Adds a text to a string, as much of it as fits; 0 if some did not. */
static int spanprof_i_append(char *out, size_t bytes, const char *text) {
    const size_t used = strlen(out), length = strlen(text);
    const size_t fit = length < bytes - used ? length : bytes - used - 1;
    memcpy(out + used, text, fit);
    out[used + fit] = 0;
    return fit == length;
}

/* 10.4 system: POSIX and Windows, the same set of functions */

/* What a stay in the cold code must leave as it was. */
typedef struct spanprof_i_cold {
    int error;
#if !SPANPROF_I_WINDOWS
    int cancel;
    sigset_t mask;
#endif
} spanprof_i_cold;

typedef struct spanprof_i_buffer { const void *data; size_t bytes; } spanprof_i_buffer;

static void spanprof_i_thread_exit(void *value);

#if !SPANPROF_I_WINDOWS

static pthread_mutex_t spanprof_i_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t spanprof_i_key;
static uint32_t spanprof_i_key_made;
static int spanprof_i_fork_registered;

#if SPANPROF_NO_TLS
/* The thread's state in memory that the key holds; made on first use. */
typedef struct spanprof_i_keyed { spanprof_i_thread thread; char name[48]; uint32_t inside; } spanprof_i_keyed;
static pthread_once_t spanprof_i_key_once = PTHREAD_ONCE_INIT;
/* When memory is short, and after a thread's end: records nothing. */
static spanprof_i_keyed spanprof_i_keyless = { { 0, 1, SPANPROF_I_NULL, SPANPROF_I_NULL, 0, spanprof_i_no_stack + 1, spanprof_i_no_stack + 1, spanprof_i_no_stack + 1, SPANPROF_I_NULL }, { 0 }, 0 };
static void spanprof_i_make_key(void) { spanprof_i_key_made = pthread_key_create(&spanprof_i_key, spanprof_i_thread_exit) == 0; }
static spanprof_i_keyed *spanprof_i_keyed_self(void) {
    spanprof_i_keyed *self;
    pthread_once(&spanprof_i_key_once, spanprof_i_make_key);
    if (!spanprof_i_key_made) return &spanprof_i_keyless;
    self = SPANPROF_I_CAST(spanprof_i_keyed *, pthread_getspecific(spanprof_i_key));
    if (self) return self;
    self = SPANPROF_I_CAST(spanprof_i_keyed *, calloc(1, sizeof *self));
    if (!self || pthread_setspecific(spanprof_i_key, self)) { free(self); return &spanprof_i_keyless; }
    spanprof_i_reset_thread(&self->thread);
    return self;
}
spanprof_i_thread *spanprof_i_self(void) { return &spanprof_i_keyed_self()->thread; }
#define SPANPROF_I_NAME() (spanprof_i_keyed_self()->name)
#define SPANPROF_I_INSIDE() (&spanprof_i_keyed_self()->inside)
#else
#define SPANPROF_I_NAME() (spanprof_i_name)
#define SPANPROF_I_INSIDE() (&spanprof_i_inside)
#endif

/* No signal, no cancellation and no other errno come out of the cold code. */
static void spanprof_i_cold_enter(spanprof_i_cold *cold) {
    sigset_t all;
    cold->error = errno;
#if !defined(__ANDROID__)
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cold->cancel);
#endif
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &cold->mask);
}
static void spanprof_i_cold_leave(spanprof_i_cold *cold) {
    pthread_sigmask(SIG_SETMASK, &cold->mask, SPANPROF_I_NULL);
#if !defined(__ANDROID__)
    pthread_setcancelstate(cold->cancel, SPANPROF_I_NULL);
#endif
    errno = cold->error;
}

/* Enters the lock; 0 when this thread is inside already: a system call that the program has wrapped records a span. */
static int spanprof_i_lock(spanprof_i_cold *cold) {
    if (*SPANPROF_I_INSIDE()) return 0;
    spanprof_i_cold_enter(cold);
    pthread_mutex_lock(&spanprof_i_mutex);
    *SPANPROF_I_INSIDE() = 1;
    return 1;
}
static void spanprof_i_unlock(spanprof_i_cold *cold) {
    *SPANPROF_I_INSIDE() = 0;
    pthread_mutex_unlock(&spanprof_i_mutex);
    spanprof_i_cold_leave(cold);
}

static uint64_t spanprof_i_clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return SPANPROF_I_CAST(uint64_t, t.tv_sec) * 1000000000u + SPANPROF_I_CAST(uint64_t, t.tv_nsec);
}
uint64_t spanprof_i_monotonic_ns(void) { return spanprof_i_clock_ns(CLOCK_MONOTONIC); }
static uint64_t spanprof_i_real_ns(void) { return spanprof_i_clock_ns(CLOCK_REALTIME); }

static uint64_t spanprof_i_thread_id(void) {
#if defined(__linux__)
    return SPANPROF_I_CAST(uint64_t, syscall(SYS_gettid));
#else
    static uint64_t numbers;
    return SPANPROF_I_ADD(&numbers, 1) + 1;
#endif
}
static uint32_t spanprof_i_process_id(void) { return SPANPROF_I_CAST(uint32_t, getpid()); }
static uint32_t spanprof_i_parent_id(void) { return SPANPROF_I_CAST(uint32_t, getppid()); }
static void spanprof_i_host(char *out, size_t bytes) {
    if (gethostname(out, bytes)) out[0] = 0;
    out[bytes - 1] = 0;
}
static size_t spanprof_i_page(void) {
    const long page = sysconf(_SC_PAGESIZE);
    return page > 4096 ? SPANPROF_I_CAST(size_t, page) : 4096u;
}

/* The first bytes of a small file as text; 0 if it can't be read. */
static int spanprof_i_read_text(const char *path, char *out, size_t bytes) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;
    if (file < 0) return 0;
    n = read(file, out, bytes - 1);
    close(file);
    out[n > 0 ? n : 0] = 0;
    return n > 0;
}

static void spanprof_i_program(char *out, size_t bytes) {
    char path[SPANPROF_I_PATH_MAX];
    const char *name;
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    name = strrchr(path, '/');
    out[0] = 0;
#if defined(__linux__) && defined(_GNU_SOURCE) && !defined(__ANDROID__)
    if (n <= 0) name = program_invocation_short_name;
#endif
    spanprof_i_append(out, bytes, n > 0 && name ? name + 1 : n > 0 ? path : name ? name : "program");
}

/* What tells this process from every other one, and stays the same over exec. */
static uint64_t spanprof_i_process_key(void) {
    char text[1024];
    char key[128];
    const char *p = SPANPROF_I_NULL;
    uint64_t born = 0;
    int field;
    char boot[64];
    if (!spanprof_i_read_text("/proc/sys/kernel/random/boot_id", boot, sizeof boot)) boot[0] = 0;
    if (spanprof_i_read_text("/proc/self/stat", text, sizeof text)) p = strrchr(text, ')');
    for (field = 2; p && field < 22; field++) { /* starttime is field 22, proc(5) */
        p = strchr(p, ' ');
        if (p) p++;
    }
    if (p) born = strtoull(p, SPANPROF_I_NULL, 10);
    else born = spanprof_i_real_ns();
    snprintf(key, sizeof key, "%.40s %lu %llu", boot, SPANPROF_I_CAST(unsigned long, getpid()), SPANPROF_I_CAST(unsigned long long, born));
    return spanprof_dump_sum(key, strlen(key));
}

static int spanprof_i_usage(spanprof_dump_usage *out) {
    struct rusage usage;
    memset(out, 0, sizeof *out);
    if (getrusage(RUSAGE_SELF, &usage)) return 0;
    out->user_us = SPANPROF_I_CAST(uint64_t, usage.ru_utime.tv_sec) * 1000000u + SPANPROF_I_CAST(uint64_t, usage.ru_utime.tv_usec);
    out->system_us = SPANPROF_I_CAST(uint64_t, usage.ru_stime.tv_sec) * 1000000u + SPANPROF_I_CAST(uint64_t, usage.ru_stime.tv_usec);
    out->max_rss_kb = SPANPROF_I_CAST(uint64_t, usage.ru_maxrss);
#if defined(__APPLE__)
    out->max_rss_kb /= 1024;
#endif
    out->minor_faults = SPANPROF_I_CAST(uint64_t, usage.ru_minflt);
    out->major_faults = SPANPROF_I_CAST(uint64_t, usage.ru_majflt);
    out->block_in = SPANPROF_I_CAST(uint64_t, usage.ru_inblock);
    out->block_out = SPANPROF_I_CAST(uint64_t, usage.ru_oublock);
    out->voluntary = SPANPROF_I_CAST(uint64_t, usage.ru_nvcsw);
    out->involuntary = SPANPROF_I_CAST(uint64_t, usage.ru_nivcsw);
    return 1;
}

/* Zeroed memory straight from the system: malloc may be the program's own and record spans. */
static void *spanprof_i_pages(size_t bytes) {
    void *p = mmap(SPANPROF_I_NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? SPANPROF_I_NULL : p;
}
static void spanprof_i_unmap(void *p, size_t bytes) {
    if (p) munmap(p, bytes);
}

static void spanprof_i_unmap_file(void *p, size_t bytes) { spanprof_i_unmap(p, bytes); }

/* The environment's value; none in a set-user-ID program. */
static const char *spanprof_i_env(const char *name) {
#if defined(__linux__)
    return secure_getenv(name);
#else
    return getuid() == geteuid() && getgid() == getegid() ? getenv(name) : SPANPROF_I_NULL;
#endif
}

static int spanprof_i_on_signal_stack(void) {
    stack_t now;
    return sigaltstack(SPANPROF_I_NULL, &now) == 0 && (now.ss_flags & SS_ONSTACK);
}
static int spanprof_i_in_signal_stack(uintptr_t address) {
    stack_t now;
    return sigaltstack(SPANPROF_I_NULL, &now) == 0 && !(now.ss_flags & SS_DISABLE) && address - SPANPROF_I_PTR(uintptr_t, now.ss_sp) < now.ss_size;
}

/* Where the calling thread's stack lies; an empty range if the system does not tell. */
static void spanprof_i_thread_stack(uintptr_t *low, uintptr_t *high) {
    *low = *high = 0;
#if defined(__linux__) && !defined(__ANDROID__)
    if (SPANPROF_I_CAST(uint64_t, getpid()) == spanprof_i_thread_id()) {
        /* The main thread's grows down from what the kernel put above it, as far as its limit. In a process that another thread
         * forked, that thread is the main one, on its own stack. */
        struct rlimit limit;
        const uintptr_t most = SPANPROF_I_CAST(uintptr_t, 64) << 20;
        const uintptr_t here = SPANPROF_I_PTR(uintptr_t, &limit);
        *high = SPANPROF_I_CAST(uintptr_t, getauxval(AT_EXECFN));
        *low = *high - (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur > most ? most : SPANPROF_I_CAST(uintptr_t, limit.rlim_cur));
        if (here >= *low && here < *high) return;
        *low = *high = 0;
    }
    {
        pthread_attr_t attributes;
        void *base = SPANPROF_I_NULL;
        size_t bytes = 0;
        if (pthread_getattr_np(pthread_self(), &attributes)) return;
        if (pthread_attr_getstack(&attributes, &base, &bytes) == 0) {
            *low = SPANPROF_I_PTR(uintptr_t, base);
            *high = *low + bytes;
        }
        pthread_attr_destroy(&attributes);
    }
#endif
}

/* One line on stderr. A pipe that nobody reads, or a file at its limit, must not end the program: the signal that the
 * write causes is taken away again. */
static void spanprof_i_say(const char *text) {
    sigset_t set, before, pending;
    int had_pipe, had_size, number;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    sigaddset(&set, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    sigpending(&pending);
    had_pipe = sigismember(&pending, SIGPIPE);
    had_size = sigismember(&pending, SIGXFSZ);
    if (write(2, text, strlen(text)) < 0) {
        sigpending(&pending);
        sigemptyset(&set);
        if (!had_pipe && sigismember(&pending, SIGPIPE)) sigaddset(&set, SIGPIPE);
        if (!had_size && sigismember(&pending, SIGXFSZ)) sigaddset(&set, SIGXFSZ);
        if (sigismember(&set, SIGPIPE) || sigismember(&set, SIGXFSZ)) sigwait(&set, &number);
    }
    pthread_sigmask(SIG_SETMASK, &before, SPANPROF_I_NULL);
}

/* 1 if the descriptor still is the dump: a program that closed all its descriptors may have opened another file on it. */
static int spanprof_i_same_file(const spanprof_i_session *session, int file) {
    struct stat info;
    return file >= 0 && fstat(file, &info) == 0 && SPANPROF_I_CAST(uint64_t, info.st_dev) == session->device &&
           SPANPROF_I_CAST(uint64_t, info.st_ino) == session->inode;
}
static int spanprof_i_reopen(spanprof_i_session *session) {
    int file = SPANPROF_I_LOAD(&session->file), again;
    if (spanprof_i_same_file(session, file)) return file;
    again = open(session->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (again >= 0 && !spanprof_i_same_file(session, again)) { close(again); again = -1; }
    if (again >= 0) SPANPROF_I_STORE(&session->file, again);
    else errno = EBADF;
    return again;
}

/* The file size limit would send SIGXFSZ: ask first. */
static int spanprof_i_size_allowed(uint64_t end) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY || end <= SPANPROF_I_CAST(uint64_t, limit.rlim_cur)) return 1;
    errno = EFBIG;
    return 0;
}

/* Writes the buffers, two at most, at an offset; 0, or the error. In one call if the system can, so that a block reaches
 * the page cache in one piece. */
static int spanprof_i_write_at(spanprof_i_session *session, const spanprof_i_buffer *buffers, int count, uint64_t offset) {
    const int file = spanprof_i_reopen(session);
    uint64_t end = offset;
    int i;
    if (file < 0) return errno;
    for (i = 0; i < count; i++) end += buffers[i].bytes;
    if (!spanprof_i_size_allowed(end)) return errno;
#if defined(__linux__)
    {
        struct iovec pieces[2];
        ssize_t n;
        for (i = 0; i < count; i++) {
            memcpy(&pieces[i].iov_base, &buffers[i].data, sizeof pieces[i].iov_base);
            pieces[i].iov_len = buffers[i].bytes;
        }
        n = pwritev(file, pieces, count, SPANPROF_I_CAST(off_t, offset));
        if (n >= 0 && SPANPROF_I_CAST(uint64_t, n) == end - offset) return 0;
        /* Interrupted or short: the loop below says why. */
    }
#endif
    for (i = 0; i < count; i++) {
        const char *p = SPANPROF_I_CAST(const char *, buffers[i].data);
        size_t left = buffers[i].bytes;
        while (left) {
            const ssize_t n = pwrite(file, p, left, SPANPROF_I_CAST(off_t, offset));
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) return n < 0 ? errno : ENOSPC;
            p += n;
            left -= SPANPROF_I_CAST(size_t, n);
            offset += SPANPROF_I_CAST(uint64_t, n);
        }
    }
    return 0;
}

/* Gives a range of the file disk blocks, so that writing to its mapping can't fail, and maps it. NULL with *error set;
 * with *error 0 the file system can't map: use private memory. */
static void *spanprof_i_map_file(spanprof_i_session *session, uint64_t offset, size_t bytes, int *error) {
    const int file = spanprof_i_reopen(session);
    void *p;
    *error = file < 0 || !spanprof_i_size_allowed(offset + bytes) ? errno : 0;
    if (*error) return SPANPROF_I_NULL;
    do *error = posix_fallocate(file, SPANPROF_I_CAST(off_t, offset), SPANPROF_I_CAST(off_t, bytes));
    while (*error == EINTR);
    if (*error == EINVAL || *error == EOPNOTSUPP || *error == ENOSYS || *error == ENODEV) {
        /* No such call on this file system: write the range. */
        static const char zeros[4096] = { 0 };
        size_t at;
        *error = 0;
        for (at = 0; at < bytes && !*error; at += sizeof zeros) {
            const spanprof_i_buffer buffer = { zeros, sizeof zeros };
            *error = spanprof_i_write_at(session, &buffer, 1, offset + at);
        }
    }
    if (*error || session->is_private) return SPANPROF_I_NULL;
#if !defined(MAP_POPULATE)
#define MAP_POPULATE 0
#endif
    p = mmap(SPANPROF_I_NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, SPANPROF_I_CAST(off_t, offset));
    if (p != MAP_FAILED) return p;
    /* The header comes first, and decides for the session whether the file system can map. */
    if (errno == ENOMEM || errno == EAGAIN || session->header) *error = errno;
    return SPANPROF_I_NULL;
}

/* Reads a range; 1 if all of it was there. */
static int spanprof_i_read_at(spanprof_i_session *session, void *out, size_t bytes, uint64_t offset) {
    const int file = spanprof_i_reopen(session);
    return file >= 0 && pread(file, out, bytes, SPANPROF_I_CAST(off_t, offset)) == SPANPROF_I_CAST(ssize_t, bytes);
}
static uint64_t spanprof_i_file_size(spanprof_i_session *session) {
    struct stat info;
    return spanprof_i_reopen(session) >= 0 && fstat(session->file, &info) == 0 ? SPANPROF_I_CAST(uint64_t, info.st_size) : 0;
}
static int spanprof_i_sync(spanprof_i_session *session) {
    const int file = spanprof_i_reopen(session);
#if defined(__APPLE__)
    return file < 0 || fsync(file);
#else
    return file < 0 || fdatasync(file);
#endif
}
static void spanprof_i_close_file(spanprof_i_session *session) {
    if (spanprof_i_same_file(session, session->file)) close(session->file);
    session->file = -1;
}

/* Takes back a dump that nothing could be put into. */
static void spanprof_i_remove_file(spanprof_i_session *session) {
    if (spanprof_i_same_file(session, session->file)) unlink(session->path);
    spanprof_i_close_file(session);
}

static int spanprof_i_is_ancestor(uint64_t process_key) {
    uint32_t i;
    for (i = 0; i < spanprof_i_ancestor_count && i < 16; i++)
        if (spanprof_i_ancestors[i] == process_key) return 1;
    return 0;
}
/* Decides about a file that stands where the dump should be. 1: it was an old dump and is gone; 0: leave it alone, *why
 * says why; -1: it changed meanwhile, look again. Only who holds a file's lock may remove it from its path. */
static int spanprof_i_replace(const char *path, const char **why) {
    struct stat info, now;
    spanprof_dump_header old;
    ssize_t n;
    int result = 0;
    const int file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    *why = "is not a spanprof dump";
    if (file < 0) {
        *why = strerror(errno);
        return errno == ENOENT ? -1 : 0;
    }
    if (fstat(file, &info) || !S_ISREG(info.st_mode)) {
        close(file);
        return 0;
    }
    n = pread(file, &old, sizeof old, 0);
    if (n == 0 || (n >= 8 && memcmp(old.magic, SPANPROF_DUMP_MAGIC, 8) == 0)) {
        const int has_key = n >= SPANPROF_I_CAST(ssize_t, offsetof(spanprof_dump_header, sum));
        const int ours = SPANPROF_I_CAST(uint64_t, info.st_dev) == spanprof_i_made_device && SPANPROF_I_CAST(uint64_t, info.st_ino) == spanprof_i_made_inode;
        if (!ours && flock(file, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) *why = "is being written by another process, or another module of this one";
        else if (!ours && has_key && old.process_key == spanprof_i_process_key()) *why = "holds this process before its exec";
        else if (has_key && spanprof_i_is_ancestor(old.process_key)) *why = "holds a process that this one was forked from";
        else if (stat(path, &now) || now.st_dev != info.st_dev || now.st_ino != info.st_ino) result = -1;
        else if (unlink(path)) *why = strerror(errno);
        else result = 1;
    }
    close(file);
    return result;
}

/* Creates the dump, locked, at path or, when that is taken, at path.PID, path.PID.2, ... 0, or the error. */
static int spanprof_i_create_file(spanprof_i_session *session) {
    char base[SPANPROF_I_PATH_MAX];
    char line[SPANPROF_I_PATH_MAX * 2 + 128];
    const char *why = "";
    /* A forked child knows that its parent writes base. */
    const unsigned first = spanprof_i_forked && strcmp(session->path, spanprof_i_parent_path) == 0 ? 1 : 0;
    unsigned attempt = first, tries;
    memcpy(base, session->path, sizeof base);
    for (tries = 0; tries < 1000; tries++) {
        struct stat info, now;
        int made = 0;
        if (attempt > 0) {
            char suffix[48];
            if (attempt == 1) snprintf(suffix, sizeof suffix, ".%lu", SPANPROF_I_CAST(unsigned long, getpid()));
            else snprintf(suffix, sizeof suffix, ".%lu.%u", SPANPROF_I_CAST(unsigned long, getpid()), attempt);
            memcpy(session->path, base, sizeof base);
            if (!spanprof_i_append(session->path, sizeof session->path, suffix)) return ENAMETOOLONG;
        }
        session->file = open(session->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (session->file < 0 && errno != EEXIST) return errno;
        if (session->file < 0) {
            made = spanprof_i_replace(session->path, &why);
            if (made == 0) attempt++;
            continue;
        }
        if (flock(session->file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
            made = fstat(session->file, &info) == 0 && stat(session->path, &now) == 0 && info.st_dev == now.st_dev && info.st_ino == now.st_ino;
        if (!made) {
            close(session->file);
            continue;
        }
        session->device = SPANPROF_I_CAST(uint64_t, info.st_dev);
        session->inode = SPANPROF_I_CAST(uint64_t, info.st_ino);
        if (attempt > first) {
            snprintf(line, sizeof line, "spanprof: %s %s; writing %s\n", base, why, session->path);
            spanprof_i_say(line);
        }
        return 0;
    }
    return EEXIST;
}

#if !SPANPROF_I_GNU
static void spanprof_i_at_end(void);
#endif
static sigset_t spanprof_i_fork_mask; /* the signals of the forking thread: a handler must not come between, for the lock */
static void spanprof_i_fork_prepare(void) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pthread_mutex_lock(&spanprof_i_mutex);
    spanprof_i_fork_mask = before;
    *SPANPROF_I_INSIDE() = 1;
}
static void spanprof_i_fork_parent(void) {
    const sigset_t before = spanprof_i_fork_mask;
    *SPANPROF_I_INSIDE() = 0;
    pthread_mutex_unlock(&spanprof_i_mutex);
    pthread_sigmask(SIG_SETMASK, &before, SPANPROF_I_NULL);
}
static void spanprof_i_fork_forget(void);
static void spanprof_i_fork_child(void) {
    const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    spanprof_i_fork_forget();
    memcpy(&spanprof_i_mutex, &fresh, sizeof fresh);
    *SPANPROF_I_INSIDE() = 0;
    pthread_sigmask(SIG_SETMASK, &spanprof_i_fork_mask, SPANPROF_I_NULL);
}
/* Thread exit and fork handlers, once a process. */
static int spanprof_i_hooks_into_system(void) {
#if SPANPROF_NO_TLS
    spanprof_i_self();
#else
    if (!spanprof_i_key_made && pthread_key_create(&spanprof_i_key, spanprof_i_thread_exit)) return 0;
    spanprof_i_key_made = 1;
#endif
    if (!spanprof_i_fork_registered && pthread_atfork(spanprof_i_fork_prepare, spanprof_i_fork_parent, spanprof_i_fork_child)) return 0;
#if !SPANPROF_I_GNU
    if (!spanprof_i_fork_registered) atexit(spanprof_i_at_end);
#endif
    spanprof_i_fork_registered = 1;
    return 1;
}
static void spanprof_i_watch_thread(spanprof_i_thread *self) { pthread_setspecific(spanprof_i_key, self); }
#if defined(__PIC__) && !defined(__PIE__)
/* Position-independent code may be a library's, which can be unloaded, or the program's. */
static int spanprof_i_is_library(void) {
#if defined(__linux__)
    const unsigned char *at = SPANPROF_I_PTR(const unsigned char *, SPANPROF_I_CAST(uintptr_t, getauxval(AT_PHDR)));
    const size_t count = SPANPROF_I_CAST(size_t, getauxval(AT_PHNUM)), size = SPANPROF_I_CAST(size_t, getauxval(AT_PHENT));
    const uintptr_t here = SPANPROF_I_PTR(uintptr_t, &spanprof_i_mutex);
    uintptr_t bias = 0;
    ElfW(Phdr) header;
    size_t i;
    if (!at || size < sizeof header) return 1;
    for (i = 0; i < count; i++) {
        memcpy(&header, at + i * size, sizeof header);
        if (header.p_type == PT_PHDR) bias = SPANPROF_I_PTR(uintptr_t, at) - SPANPROF_I_CAST(uintptr_t, header.p_vaddr);
        if (header.p_type == PT_LOAD && here - bias - SPANPROF_I_CAST(uintptr_t, header.p_vaddr) < SPANPROF_I_CAST(uintptr_t, header.p_memsz)) return 0;
    }
#endif
    return 1;
}
static void spanprof_i_unhook_from_system(void) {
#if !SPANPROF_NO_TLS
    if (spanprof_i_key_made) pthread_key_delete(spanprof_i_key);
    spanprof_i_key_made = 0;
#endif
}
#endif

/* The system's name of the thread, if the thread has one of its own. */
static void spanprof_i_system_thread_name(char *out, size_t bytes) {
    out[0] = 0;
#if defined(__linux__)
    if (SPANPROF_I_CAST(uint64_t, getpid()) == spanprof_i_thread_id()) {
        snprintf(out, bytes, "main");
    } else {
        char mine[17], process[32];
        memset(mine, 0, sizeof mine);
        if (prctl(PR_GET_NAME, mine, 0, 0, 0) || !spanprof_i_read_text("/proc/self/comm", process, sizeof process)) return;
        process[strcspn(process, "\n")] = 0;
        if (strcmp(mine, process) != 0) snprintf(out, bytes, "%s", mine);
    }
#endif
}
#else /* Windows */

static SRWLOCK spanprof_i_mutex = SRWLOCK_INIT;
static DWORD spanprof_i_slot_number = FLS_OUT_OF_INDEXES;
#define SPANPROF_I_NAME() (spanprof_i_name)
#define SPANPROF_I_INSIDE() (&spanprof_i_inside)

static void spanprof_i_cold_enter(spanprof_i_cold *cold) { cold->error = errno; }
static void spanprof_i_cold_leave(spanprof_i_cold *cold) { errno = cold->error; }
static int spanprof_i_lock(spanprof_i_cold *cold) {
    if (*SPANPROF_I_INSIDE()) return 0;
    spanprof_i_cold_enter(cold);
    AcquireSRWLockExclusive(&spanprof_i_mutex);
    *SPANPROF_I_INSIDE() = 1;
    return 1;
}
static void spanprof_i_unlock(spanprof_i_cold *cold) {
    *SPANPROF_I_INSIDE() = 0;
    ReleaseSRWLockExclusive(&spanprof_i_mutex);
    spanprof_i_cold_leave(cold);
}

uint64_t spanprof_i_monotonic_ns(void) {
    LARGE_INTEGER now, rate;
    uint64_t ticks, per_second;
    QueryPerformanceCounter(&now);
    QueryPerformanceFrequency(&rate);
    ticks = SPANPROF_I_CAST(uint64_t, now.QuadPart);
    per_second = SPANPROF_I_CAST(uint64_t, rate.QuadPart);
    return ticks / per_second * 1000000000u + ticks % per_second * 1000000000u / per_second;
}
static uint64_t spanprof_i_file_time(const FILETIME *time) { return SPANPROF_I_CAST(uint64_t, time->dwHighDateTime) << 32 | time->dwLowDateTime; }
static uint64_t spanprof_i_real_ns(void) {
    FILETIME now;
    GetSystemTimeAsFileTime(&now);
    return (spanprof_i_file_time(&now) - 116444736000000000u) * 100; /* from 1601 to 1970, in 100 ns */
}
static uint64_t spanprof_i_thread_id(void) { return GetCurrentThreadId(); }
static uint32_t spanprof_i_process_id(void) { return GetCurrentProcessId(); }
static uint32_t spanprof_i_parent_id(void) { return 0; }
static void spanprof_i_host(char *out, size_t bytes) {
    DWORD length = SPANPROF_I_CAST(DWORD, bytes);
    if (!GetComputerNameA(out, &length)) out[0] = 0;
}
static size_t spanprof_i_page(void) { return 4096; }

static void spanprof_i_program(char *out, size_t bytes) {
    char path[SPANPROF_I_PATH_MAX];
    const DWORD n = GetModuleFileNameA(SPANPROF_I_NULL, path, sizeof path - 1);
    const char *name;
    path[n] = 0;
    name = strrchr(path, '\\');
    out[0] = 0;
    spanprof_i_append(out, bytes, name ? name + 1 : "program");
}
static uint64_t spanprof_i_process_key(void) {
    FILETIME born, a, b, c;
    uint64_t key[2];
    key[0] = GetCurrentProcessId();
    key[1] = GetProcessTimes(GetCurrentProcess(), &born, &a, &b, &c) ? spanprof_i_file_time(&born) : 0;
    return spanprof_dump_sum(key, sizeof key);
}
static int spanprof_i_usage(spanprof_dump_usage *out) {
    memset(out, 0, sizeof *out);
    return 0;
}

static void *spanprof_i_pages(size_t bytes) { return VirtualAlloc(SPANPROF_I_NULL, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE); }
static void spanprof_i_unmap(void *p, size_t bytes) {
    (void)bytes;
    if (p) VirtualFree(p, 0, MEM_RELEASE);
}
static void spanprof_i_unmap_file(void *p, size_t bytes) {
    (void)bytes;
    if (p) UnmapViewOfFile(p);
}
static const char *spanprof_i_env(const char *name) { return getenv(name); }
static int spanprof_i_on_signal_stack(void) { return 0; }
static int spanprof_i_in_signal_stack(uintptr_t address) { (void)address; return 0; }
static void spanprof_i_thread_stack(uintptr_t *low, uintptr_t *high) { *low = *high = 0; }
static void spanprof_i_say(const char *text) {
    DWORD written;
    WriteFile(GetStdHandle(STD_ERROR_HANDLE), text, SPANPROF_I_CAST(DWORD, strlen(text)), &written, SPANPROF_I_NULL);
}

/* The last error as errno has it. */
static int spanprof_i_error(void) {
    switch (GetLastError()) {
    case ERROR_DISK_FULL: case ERROR_HANDLE_DISK_FULL: return ENOSPC;
    case ERROR_ACCESS_DENIED: return EACCES;
    case ERROR_FILE_NOT_FOUND: case ERROR_PATH_NOT_FOUND: return ENOENT;
    case ERROR_NOT_ENOUGH_MEMORY: case ERROR_OUTOFMEMORY: return ENOMEM;
    default: return EIO;
    }
}
static void spanprof_i_at(OVERLAPPED *place, uint64_t offset) {
    memset(place, 0, sizeof *place);
    place->Offset = SPANPROF_I_CAST(DWORD, offset & 0xffffffffu);
    place->OffsetHigh = SPANPROF_I_CAST(DWORD, offset >> 32);
}
static int spanprof_i_write_at(spanprof_i_session *session, const spanprof_i_buffer *buffers, int count, uint64_t offset) {
    int i;
    for (i = 0; i < count; i++) {
        OVERLAPPED place;
        DWORD written = 0;
        spanprof_i_at(&place, offset);
        if (!WriteFile(session->file, buffers[i].data, SPANPROF_I_CAST(DWORD, buffers[i].bytes), &written, &place)) return spanprof_i_error();
        if (written != buffers[i].bytes) return ENOSPC;
        offset += written;
    }
    return 0;
}
static int spanprof_i_read_at(spanprof_i_session *session, void *out, size_t bytes, uint64_t offset) {
    OVERLAPPED place;
    DWORD got = 0;
    spanprof_i_at(&place, offset);
    return ReadFile(session->file, out, SPANPROF_I_CAST(DWORD, bytes), &got, &place) && got == bytes;
}
/* The file is made long enough first. A mapping would do that, too, but Wine's way of it cuts off what another thread appends
 * meanwhile. */
static void *spanprof_i_map_file(spanprof_i_session *session, uint64_t offset, size_t bytes, int *error) {
    static const char zero = 0;
    const uint64_t end = offset + bytes;
    void *p = SPANPROF_I_NULL;
    spanprof_i_buffer last;
    HANDLE mapping;
    last.data = &zero;
    last.bytes = 1;
    *error = spanprof_i_write_at(session, &last, 1, end - 1);
    if (*error) return SPANPROF_I_NULL;
    mapping = CreateFileMappingA(session->file, SPANPROF_I_NULL, PAGE_READWRITE, SPANPROF_I_CAST(DWORD, end >> 32), SPANPROF_I_CAST(DWORD, end & 0xffffffffu), SPANPROF_I_NULL);
    if (mapping) p = MapViewOfFile(mapping, FILE_MAP_WRITE, SPANPROF_I_CAST(DWORD, offset >> 32), SPANPROF_I_CAST(DWORD, offset & 0xffffffffu), bytes);
    if (!p) *error = spanprof_i_error();
    if (mapping) CloseHandle(mapping);
    return p;
}
static uint64_t spanprof_i_file_size(spanprof_i_session *session) {
    LARGE_INTEGER size;
    return GetFileSizeEx(session->file, &size) ? SPANPROF_I_CAST(uint64_t, size.QuadPart) : 0;
}
static int spanprof_i_sync(spanprof_i_session *session) { return !FlushFileBuffers(session->file); }
static void spanprof_i_close_file(spanprof_i_session *session) { CloseHandle(session->file); }

static void spanprof_i_remove_file(spanprof_i_session *session) {
    spanprof_i_close_file(session);
    DeleteFileA(session->path);
}

/* The dump is opened so that others may read it, not write it: that tells a second process. */
static int spanprof_i_create_file(spanprof_i_session *session) {
    char base[SPANPROF_I_PATH_MAX], suffix[48], magic[8], line[SPANPROF_I_PATH_MAX * 2 + 64];
    unsigned attempt = 0, tries;
    memcpy(base, session->path, sizeof base);
    for (tries = 0; tries < 1000; tries++) {
        HANDLE old;
        DWORD got = 0;
        int dump;
        if (attempt > 0) {
            if (attempt == 1) snprintf(suffix, sizeof suffix, ".%lu", GetCurrentProcessId());
            else snprintf(suffix, sizeof suffix, ".%lu.%u", GetCurrentProcessId(), attempt);
            memcpy(session->path, base, sizeof base);
            if (!spanprof_i_append(session->path, sizeof session->path, suffix)) return ENAMETOOLONG;
        }
        session->file = CreateFileA(session->path, GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ, SPANPROF_I_NULL, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, SPANPROF_I_NULL);
        if (session->file != INVALID_HANDLE_VALUE) {
            session->inode = 1;
            if (attempt > 0) {
                snprintf(line, sizeof line, "spanprof: %.1000s is taken; writing %.1000s\n", base, session->path);
                spanprof_i_say(line);
            }
            return 0;
        }
        if (GetLastError() != ERROR_FILE_EXISTS) return spanprof_i_error();
        old = CreateFileA(session->path, GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ, SPANPROF_I_NULL, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, SPANPROF_I_NULL);
        dump = old != INVALID_HANDLE_VALUE && ReadFile(old, magic, sizeof magic, &got, SPANPROF_I_NULL) && (got == 0 || (got == 8 && memcmp(magic, SPANPROF_DUMP_MAGIC, 8) == 0));
        if (old != INVALID_HANDLE_VALUE) CloseHandle(old);
        if (!dump || !DeleteFileA(session->path)) attempt++;
    }
    return EEXIST;
}

static void WINAPI spanprof_i_fiber_exit(void *value) {
    if (value) spanprof_i_thread_exit(value);
}
static int spanprof_i_hooks_into_system(void) {
    if (spanprof_i_slot_number == FLS_OUT_OF_INDEXES) spanprof_i_slot_number = FlsAlloc(spanprof_i_fiber_exit);
    return spanprof_i_slot_number != FLS_OUT_OF_INDEXES;
}
static void spanprof_i_watch_thread(spanprof_i_thread *self) { FlsSetValue(spanprof_i_slot_number, self); }
static void spanprof_i_system_thread_name(char *out, size_t bytes) {
    (void)bytes;
    out[0] = 0;
}
#endif /* POSIX, Windows */

/* 10.5 clock */

#if !SPANPROF_NO_TSC && (defined(__x86_64__) || defined(__i386__))
/* Invariant, and not distrusted by the system: a kernel that has seen counters disagree uses another clock source. */
static int spanprof_i_tsc_usable(void) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    char source[64];
    if (!__get_cpuid(0x80000007u, &a, &b, &c, &d) || !(d & 1u << 8)) return 0;
#if defined(__linux__)
    if (spanprof_i_read_text("/sys/devices/system/clocksource/clocksource0/current_clocksource", source, sizeof source))
        return !strncmp(source, "tsc", 3) || !strncmp(source, "kvm-clock", 9) || !strncmp(source, "hyperv", 6) || !strncmp(source, "xen", 3);
#else
    (void)source;
#endif
    return 1;
}
#endif

/* Ticks of the session's clock. */
static uint64_t spanprof_i_now(void) { return SPANPROF_I_LOAD(&spanprof_i_tsc) ? spanprof_i_counter() : spanprof_i_monotonic_ns(); }

/* Both clocks at one moment: of a few readings the one that took least, so that an interruption between them is left out. */
static void spanprof_i_both_clocks(spanprof_dump_anchor *out, int readings) {
    uint64_t best = UINT64_MAX;
    int i;
    memset(out, 0, sizeof *out);
    for (i = 0; i < readings; i++) {
        const uint64_t before = spanprof_i_now();
        const uint64_t ns = spanprof_i_monotonic_ns();
        const uint64_t after = spanprof_i_now();
        if (after - before >= best) continue;
        best = after - before;
        out->ticks = SPANPROF_I_LOAD(&spanprof_i_tsc) ? before + best / 2 : ns;
        out->mono_ns = ns;
    }
}

static uint64_t spanprof_i_tick_rate(void) {
#if defined(__aarch64__) && !SPANPROF_NO_TSC
    uint64_t rate;
    if (SPANPROF_I_LOAD(&spanprof_i_tsc)) {
        __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(rate));
        return rate;
    }
#endif
    if (SPANPROF_I_LOAD(&spanprof_i_tsc)) {
        spanprof_dump_anchor a, b;
        spanprof_i_both_clocks(&a, 8);
        do spanprof_i_both_clocks(&b, 8); while (b.mono_ns - a.mono_ns < 500000u);
        return SPANPROF_I_CAST(uint64_t, SPANPROF_I_CAST(double, b.ticks - a.ticks) * 1e9 / SPANPROF_I_CAST(double, b.mono_ns - a.mono_ns));
    }
    return 1000000000u;
}

static void spanprof_i_choose_clock(spanprof_clock wanted) {
    uint32_t tsc = 0;
#if !SPANPROF_NO_TSC
#if defined(__aarch64__)
    tsc = wanted != SPANPROF_CLOCK_MONOTONIC;
#else
    tsc = wanted == SPANPROF_CLOCK_TSC || (wanted == SPANPROF_CLOCK_AUTO && spanprof_i_tsc_usable());
#endif
#else
    if (wanted == SPANPROF_CLOCK_TSC) spanprof_i_say("spanprof: this build has no time stamp counter; using the monotonic clock\n");
#endif
    SPANPROF_I_STORE(&spanprof_i_tsc, tsc);
}

/* Puts a new anchor into the header now and then; whoever comes second while one is being written goes on. The two slots
 * take turns, so that a process that dies here leaves the older one. */
static void spanprof_i_anchor(spanprof_i_session *session, int now) {
    spanprof_dump_anchor *slot;
    uint32_t next;
    const uint64_t ticks = spanprof_i_now();
    if (!now && ticks - SPANPROF_I_LOAD(&session->anchored) < session->anchor_gap) return;
    if (spanprof_i_exchange(&session->anchoring, 1)) return;
    next = SPANPROF_I_LOAD(&session->header->last_valid) == 1 ? 1 : 0;
    slot = &session->header->last[next];
    spanprof_i_both_clocks(slot, 3);
    slot->real_ns = spanprof_i_real_ns();
    SPANPROF_I_PUBLISH(&session->header->last_valid, next + 1u);
    SPANPROF_I_STORE(&session->anchored, slot->ticks);
    SPANPROF_I_PUBLISH(&session->anchoring, 0u);
}

/* 10.6 dump file: blocks, windows, writing out */

/* One line a session and kind of trouble. */
static void spanprof_i_tell(spanprof_i_session *session, const char *what, int error) {
    char line[SPANPROF_I_PATH_MAX + 256];
    const int before = errno;
    if (spanprof_i_exchange(&session->told, 1)) return;
    snprintf(line, sizeof line, "spanprof: %s: %s%s%s; %s\n", session->path, what, error ? ": " : "", error ? strerror(error) : "",
             session->header ? "recording stops here, what is dropped is counted" : "nothing is recorded");
    spanprof_i_say(line);
    errno = before;
}

/* Offset of a fresh block; 0 when the dump may not grow. */
static uint64_t spanprof_i_new_block(spanprof_i_session *session) {
    uint64_t count = SPANPROF_I_LOAD(&session->header->blocks);
    do {
        if (count >= session->blocks_max) return 0;
    } while (!spanprof_i_swap(&session->header->blocks, &count, count + 1));
    return session->header_bytes + count * SPANPROF_WINDOW_BYTES;
}

static uint64_t *spanprof_i_first_word(spanprof_dump_block *window) {
    return SPANPROF_I_PTR(uint64_t *, SPANPROF_I_PTR(char *, window) + SPANPROF_BLOCK_HEADER_BYTES);
}

static uint64_t spanprof_i_lane_pos(const spanprof_i_lane *lane) {
    return SPANPROF_I_CAST(uint64_t, lane->session->number & 1023u) << (SPANPROF_POS_WORD_BITS + SPANPROF_POS_LANE_BITS) |
           SPANPROF_I_CAST(uint64_t, lane->id) << SPANPROF_POS_WORD_BITS | (SPANPROF_I_LOAD(&lane->seq) * SPANPROF_I_WORDS & ((1ull << SPANPROF_POS_WORD_BITS) - 1));
}
/* How far the fast path may go: nowhere where every event is counted, or without a counter to read. */
static void spanprof_i_set_end(const spanprof_i_lane *lane, spanprof_i_thread *self) {
    self->end = lane->session->limited || lane->full || !SPANPROF_I_LOAD(&spanprof_i_tsc) ? lane->words : lane->words + SPANPROF_I_ROOM;
}

/* Starts a window's next sequence number. The state goes from FLUSHED to OPEN last: a reader of what a killed process
 * left sees the old words gone or the new window empty, never old words under a new number. */
static void spanprof_i_open_window(spanprof_i_lane *lane, spanprof_i_thread *self) {
    spanprof_dump_block *window = lane->window;
    spanprof_dump_anchor anchor;
    spanprof_i_both_clocks(&anchor, 2);
    SPANPROF_I_STORE(spanprof_i_first_word(window), SPANPROF_I_CAST(uint64_t, 0)); /* says that the header is in motion */
    SPANPROF_I_SIGNAL_FENCE();
    window->magic = SPANPROF_BLOCK_MAGIC;
    window->lane = lane->id;
    window->seq = lane->seq;
    window->base_ticks = anchor.ticks;
    window->base_ns = anchor.mono_ns;
    window->events = lane->events;
    window->step = lane->step;
    window->has_step = lane->has_step;
    window->thread = lane->thread;
    window->cycle = lane->cycle;
    window->words = 0;
    window->sum = spanprof_dump_sum(window, offsetof(spanprof_dump_block, sum));
    lane->other_words = 0;
    lane->words = spanprof_i_first_word(window);
    lane->pos = spanprof_i_lane_pos(lane);
    self->next = lane->words;
    self->last = anchor.ticks;
    spanprof_i_set_end(lane, self);
    SPANPROF_I_PUBLISH(&window->state, SPANPROF_I_CAST(uint32_t, SPANPROF_BLOCK_OPEN));
}

static uint64_t spanprof_i_window_events(const spanprof_i_lane *lane, const spanprof_i_thread *self) {
    return SPANPROF_I_CAST(uint64_t, self->next - lane->words) - lane->other_words;
}

/* Where the window's copy goes: in ring mode the slots take turns. 0: nowhere. */
static uint64_t spanprof_i_copy_offset(spanprof_i_lane *lane, uint64_t events) {
    spanprof_i_slot *slot;
    if (!lane->ring_blocks) return spanprof_i_new_block(lane->session);
    slot = &lane->slots[lane->seq % lane->ring_blocks];
    if (!slot->offset) slot->offset = spanprof_i_new_block(lane->session);
    else SPANPROF_I_STORE(&lane->overwritten, lane->overwritten + slot->events);
    slot->events = events;
    return slot->offset;
}

/* Nothing more can be written out. The window keeps what it has; its tail takes the ends of open spans. */
static void spanprof_i_lane_full(spanprof_i_lane *lane, spanprof_i_thread *self, const char *what, int error) {
    lane->full = 1;
    spanprof_i_set_end(lane, self);
    spanprof_i_tell(lane->session, what, error);
}

/* Where an open span stands. */
static uint64_t spanprof_i_open_pos(const spanprof_i_lane *lane, const spanprof_i_open *open) {
    return open->word ? lane->pos + SPANPROF_I_CAST(uint64_t, open->word - lane->words) : open->pos;
}

/* Appends the window to the dump and begins it anew; 0 if it could not. The caller has claimed the thread. */
static SPANPROF_I_COLD int spanprof_i_write_out(spanprof_i_thread *self) {
    spanprof_i_lane *lane = self->lane;
    spanprof_dump_block head = *lane->window;
    spanprof_i_buffer buffers[2];
    spanprof_i_open *open;
    spanprof_i_cold cold;
    uint64_t offset, still_open = lane->left_open;
    int error;
    if (lane->full) return 0;
    spanprof_i_cold_enter(&cold);
    offset = spanprof_i_copy_offset(lane, spanprof_i_window_events(lane, self));
    head.words = SPANPROF_I_CAST(uint32_t, self->next - lane->words);
    head.state = SPANPROF_BLOCK_DONE;
    head.sum = spanprof_dump_sum(&head, offsetof(spanprof_dump_block, sum));
    buffers[0].data = &head;
    buffers[0].bytes = sizeof head;
    buffers[1].data = lane->words;
    buffers[1].bytes = SPANPROF_WINDOW_BYTES - sizeof head; /* whole blocks: one large piece of page cache */
    error = offset ? spanprof_i_write_at(lane->session, buffers, 2, offset) : 0;
    if (!offset || error) {
        if (error) SPANPROF_I_STORE(&lane->session->header->write_error, SPANPROF_I_CAST(uint64_t, error));
        spanprof_i_lane_full(lane, self, offset ? "writing failed" : "SPANPROF_MAX_MB is reached", error);
        spanprof_i_cold_leave(&cold);
        return 0;
    }
    if (lane->session->is_private) {
        buffers[0].data = lane->session->header;
        buffers[0].bytes = sizeof *lane->session->header;
        (void)spanprof_i_write_at(lane->session, buffers, 1, 0);
    }
    SPANPROF_I_PUBLISH(&lane->window->state, SPANPROF_I_CAST(uint32_t, SPANPROF_BLOCK_FLUSHED));
    for (open = self->bottom; open < self->top; open++) { /* spans of this window that are still open: from here on by position */
        if (!open->word) continue;
        open->pos = spanprof_i_open_pos(lane, open);
        open->word = SPANPROF_I_NULL;
        open->address |= 1u;
        still_open++;
    }
    SPANPROF_I_ADD(&lane->open_before, still_open);
    SPANPROF_I_STORE(&lane->events, lane->events + spanprof_i_window_events(lane, self));
    lane->left_open = 0;
    SPANPROF_I_PUBLISH(&lane->seq, lane->seq + 1);
    spanprof_i_open_window(lane, self);
    spanprof_i_cold_leave(&cold);
    return 1;
}

/* Room for a record of count words, and for the zero that ends the window; NULL if there is none. */
SPANPROF_I_HOT uint64_t *spanprof_i_room(spanprof_i_thread *self, size_t count) {
    const spanprof_i_lane *lane = self->lane;
    if (SPANPROF_I_LIKELY(!lane->full && SPANPROF_I_CAST(size_t, self->next - lane->words) + count <= SPANPROF_I_ROOM)) return self->next;
    return !lane->full && count <= SPANPROF_I_ROOM && spanprof_i_write_out(self) ? self->next : SPANPROF_I_NULL;
}

/* Publishes the record whose words after the head stand at self->next already: a reader that sees the head sees it all. */
static uint64_t spanprof_i_publish(spanprof_i_thread *self, uint64_t head, size_t count, int is_event) {
    uint64_t *word = self->next;
    const uint64_t pos = self->lane->pos + SPANPROF_I_CAST(uint64_t, word - self->lane->words);
    SPANPROF_I_STORE(word + count, SPANPROF_I_CAST(uint64_t, 0));
    SPANPROF_I_PUBLISH(word, head);
    self->next = word + count;
    self->lane->other_words += is_event ? count - 1 : count;
    return pos;
}

/* A record of a head and up to five words; 0 if there was no room. */
static uint64_t spanprof_i_record(spanprof_i_thread *self, uint32_t type, uint32_t flags, uint64_t argument, const uint64_t *words, uint32_t count, int is_event) {
    uint64_t *at = spanprof_i_room(self, count + 1u);
    uint32_t i;
    if (!at) return 0;
    for (i = 0; i < count; i++) SPANPROF_I_STORE(at + i + 1, words[i]);
    return spanprof_i_publish(self, SPANPROF_RECORD(type, flags, count + 1u, argument), count + 1u, is_event);
}

/* The end of a span whose own record can't take it; the window's tail serves when nothing else is left. 0 if that is
 * full. */
static int spanprof_i_record_end(spanprof_i_thread *self, uint32_t flags, uint64_t pos, uint64_t ticks) {
    uint64_t words[2];
    words[0] = pos;
    words[1] = ticks;
    if (spanprof_i_record(self, SPANPROF_RECORD_END, flags, 0, words, 2, 0)) return 1;
    if (!self->lane->window || SPANPROF_I_CAST(size_t, self->next - self->lane->words) + 3 >= SPANPROF_I_WORDS) return 0;
    SPANPROF_I_STORE(self->next + 1, pos);
    SPANPROF_I_STORE(self->next + 2, ticks);
    spanprof_i_publish(self, SPANPROF_RECORD(SPANPROF_RECORD_END, flags, 3, 0), 3, 0);
    return 1;
}

/* Length of a text in the dump: cut to SPANPROF_TEXT_MAX bytes, not inside a UTF-8 character. */
static size_t spanprof_i_text_length(const char *text) {
    const void *end;
    size_t n;
    if (!text) return 0;
    end = memchr(text, 0, SPANPROF_TEXT_MAX + 1u);
    if (end) return SPANPROF_I_CAST(size_t, SPANPROF_I_CAST(const char *, end) - text);
    n = SPANPROF_TEXT_MAX;
    while (n > SPANPROF_TEXT_MAX - 4 && (SPANPROF_I_CAST(unsigned char, text[n]) & 0xc0u) == 0x80u) n--;
    return n;
}

/* Texts on their way into words, in which bytes stand as they do in memory. bits: how much of word is taken. */
typedef struct spanprof_i_packer { uint64_t *out, word; uint32_t bits; } spanprof_i_packer;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define SPANPROF_I_LATER(word, bits) ((word) >> (bits))
#define SPANPROF_I_EARLIER(word, bits) ((word) << (bits))
#else
#define SPANPROF_I_LATER(word, bits) ((word) << (bits))
#define SPANPROF_I_EARLIER(word, bits) ((word) >> (bits))
#endif
/* Adds the first bytes of a word, 1 to 8 of them; the others are 0. */
SPANPROF_I_HOT void spanprof_i_pack(spanprof_i_packer *p, uint64_t word, uint32_t bytes) {
    p->word |= SPANPROF_I_LATER(word, p->bits);
    if (p->bits + 8 * bytes >= 64) {
        SPANPROF_I_STORE(p->out++, p->word);
        p->word = p->bits ? SPANPROF_I_EARLIER(word, 64 - p->bits) : 0;
    }
    p->bits = (p->bits + 8 * bytes) & 63;
}
/* By loads of fixed size: a memcpy of 1 to 7 bytes and the load of their word would wait for each other. */
static void spanprof_i_pack_bytes(spanprof_i_packer *p, const char *text, size_t bytes) {
    uint64_t word;
    size_t at = 0;
#define SPANPROF_I_PACK(n) { word = 0; memcpy(&word, text + at, n); spanprof_i_pack(p, word, n); }
    for (; at + 8 <= bytes; at += 8) SPANPROF_I_PACK(8)
    if (bytes & 4) SPANPROF_I_PACK(4)
    at += bytes & 4;
    if (bytes & 2) SPANPROF_I_PACK(2)
    at += bytes & 2;
    if (bytes & 1) SPANPROF_I_PACK(1)
#undef SPANPROF_I_PACK
}
/* Puts texts, each after its length, into words, each word in one store: spanprof_stats may be looking at the window. */
static void spanprof_i_put_texts(uint64_t *out, const char *const *texts, const size_t *lengths, uint32_t count) {
    spanprof_i_packer p;
    uint32_t i;
    p.out = out;
    p.word = 0;
    p.bits = 0;
    for (i = 0; i < count; i++) {
        const uint16_t size = SPANPROF_I_CAST(uint16_t, lengths[i]);
        uint64_t word = 0;
        memcpy(&word, &size, 2);
        spanprof_i_pack(&p, word, 2);
        spanprof_i_pack_bytes(&p, texts[i], lengths[i]);
    }
    if (p.bits) SPANPROF_I_STORE(p.out, p.word);
}

/* A record of a head, some words and some texts, built where it will stand; 0 if there was no room. */
static SPANPROF_I_NOINLINE uint64_t spanprof_i_record_texts(spanprof_i_thread *self, uint32_t type, uint32_t flags, uint64_t argument, const uint64_t *words, uint32_t count,
                                        const char *const *texts, uint32_t text_count, int is_event) {
    size_t lengths[SPANPROF_META_COUNT], bytes = 0, total;
    uint64_t *out;
    uint32_t i;
    for (i = 0; i < text_count; i++) bytes += 2 + (lengths[i] = spanprof_i_text_length(texts[i]));
    total = 1 + count + (bytes + 7) / 8;
    out = spanprof_i_room(self, total);
    if (!out) return 0;
    for (i = 0; i < count; i++) SPANPROF_I_STORE(out + i + 1, words[i]);
    spanprof_i_put_texts(out + 1 + count, texts, lengths, text_count);
    return spanprof_i_publish(self, SPANPROF_RECORD(type, flags, total, argument), total, is_event);
}

/* 10.7 lanes and threads */

static size_t spanprof_i_round(size_t bytes) {
    const size_t page = spanprof_i_page();
    return (bytes + page - 1) / page * page;
}

/* The window of a new lane: mapped from the file, or private. NULL, and why. */
static spanprof_dump_block *spanprof_i_lane_window(spanprof_i_lane *lane, const char **what, int *error) {
    spanprof_i_session *session = lane->session;
    void *window;
    uint64_t end;
    *what = "SPANPROF_MAX_MB is reached";
    *error = 0;
    lane->offset = spanprof_i_new_block(session);
    if (!lane->offset) return SPANPROF_I_NULL;
    *what = "no room for a thread's window";
    window = spanprof_i_map_file(session, lane->offset, SPANPROF_WINDOW_BYTES, error);
    if (!window && session->is_private && !*error) window = spanprof_i_pages(SPANPROF_WINDOW_BYTES);
    if (window) return SPANPROF_I_CAST(spanprof_dump_block *, window);
    if (*error) SPANPROF_I_STORE(&session->header->write_error, SPANPROF_I_CAST(uint64_t, *error));
    end = (lane->offset - session->header_bytes) / SPANPROF_WINDOW_BYTES + 1;
    (void)spanprof_i_swap(&session->header->blocks, &end, end - 1); /* unless another block was given out since */
    return SPANPROF_I_NULL;
}

/* A lane with its window in the file; NULL if there is no room. Under the lock. */
static spanprof_i_lane *spanprof_i_lane_create(spanprof_i_session *session, spanprof_i_thread *self, uint32_t thread) {
    const size_t slots = session->header->lanes ? session->ring_blocks : 0; /* the text lane is never a ring */
    const size_t bytes = spanprof_i_round(sizeof(spanprof_i_lane) + slots * sizeof(spanprof_i_slot));
    const int too_many = session->header->lanes >= SPANPROF_I_LANES_MAX;
    spanprof_i_lane *lane = too_many ? SPANPROF_I_NULL : SPANPROF_I_CAST(spanprof_i_lane *, spanprof_i_pages(bytes));
    const char *what = too_many ? "too many threads at once" : "out of memory";
    int error = 0;
    if (lane) {
        lane->session = session;
        lane->thread = thread;
        lane->lane_bytes = bytes;
        lane->ring_blocks = SPANPROF_I_CAST(uint32_t, slots);
        lane->slots = SPANPROF_I_PTR(spanprof_i_slot *, lane + 1);
        lane->id = SPANPROF_I_CAST(uint32_t, session->header->lanes);
        lane->stack_bytes = spanprof_i_page();
        lane->stack = SPANPROF_I_CAST(spanprof_i_open *, spanprof_i_pages(lane->stack_bytes));
        if (lane->stack) lane->window = spanprof_i_lane_window(lane, &what, &error);
    }
    if (!lane || !lane->window) {
        spanprof_i_tell(session, what, error);
        if (lane) spanprof_i_unmap(lane->stack, lane->stack_bytes);
        spanprof_i_unmap(lane, bytes);
        return SPANPROF_I_NULL;
    }
    lane->stack[0].address = SPANPROF_I_HIGHEST;
    lane->next = session->lanes;
    session->lanes = lane;
    spanprof_i_open_window(lane, self);
    SPANPROF_I_PUBLISH(&session->header->lanes, session->header->lanes + 1);
    return lane;
}

static void spanprof_i_lane_destroy(spanprof_i_lane *lane) {
    spanprof_i_unmap(lane->stack, lane->stack_bytes);
    spanprof_i_unmap(lane->ended, lane->ended_bytes);
    if (lane->session->is_private) spanprof_i_unmap(lane->window, SPANPROF_WINDOW_BYTES);
    else spanprof_i_unmap_file(lane->window, SPANPROF_WINDOW_BYTES);
    spanprof_i_unmap(lane, lane->lane_bytes);
}

static void spanprof_i_session_destroy(spanprof_i_session *session) {
    while (session->lanes) {
        spanprof_i_lane *lane = session->lanes;
        session->lanes = lane->next;
        spanprof_i_lane_destroy(lane);
    }
    if (session->is_private) spanprof_i_unmap(session->header, session->header_bytes);
    else spanprof_i_unmap_file(session->header, session->header_bytes);
    spanprof_i_close_file(session);
    spanprof_i_unmap(session, spanprof_i_round(sizeof *session));
}

/* Private windows are in the file only when somebody puts them there. Words that their threads write meanwhile may be
 * missing, none is torn. */
static void spanprof_i_store_private(spanprof_i_session *session) {
    const spanprof_i_lane *lane;
    if (!session->is_private) return;
    for (lane = session->lanes; lane; lane = lane->next) {
        spanprof_i_buffer buffer;
        buffer.data = lane->window;
        buffer.bytes = SPANPROF_WINDOW_BYTES;
        (void)spanprof_i_write_at(session, &buffer, 1, lane->offset);
    }
    {
        spanprof_i_buffer buffer;
        buffer.data = session->header;
        buffer.bytes = sizeof *session->header;
        (void)spanprof_i_write_at(session, &buffer, 1, 0);
    }
}

/* Gives a lane back; its window stays as it is for the next thread, who finds its place by the first zero word. Under
 * the lock. */
static void spanprof_i_detach(spanprof_i_thread *self) {
    spanprof_i_lane *lane = self->lane;
    spanprof_i_session *session = lane->session;
    const spanprof_i_open *open;
    for (open = self->bottom; open < self->top; open++)
        if (open->word) lane->left_open++;
    spanprof_i_reset_thread(self);
    if (lane != &session->none) {
        lane->ended_count = 0;
        lane->too_deep = 0;
        lane->next_free = session->free;
        session->free = lane;
    }
    if (--session->refs == 0) {
        spanprof_i_store_private(session);
        spanprof_i_session_destroy(session);
    }
}

/* Words that a record takes, or a short span; 0 at the end. */
static size_t spanprof_i_length(uint64_t head) { return head & 1u ? 1u : SPANPROF_I_CAST(size_t, SPANPROF_RECORD_WORDS(head)); }

/* Resumes a lane that another thread has left. */
static void spanprof_i_lane_resume(spanprof_i_lane *lane, spanprof_i_thread *self) {
    uint64_t *word = lane->words;
    const uint64_t now = spanprof_i_now();
    while (*word) word += spanprof_i_length(*word);
    self->next = word;
    spanprof_i_set_end(lane, self);
    if (!spanprof_i_record(self, SPANPROF_RECORD_THREAD, 0, lane->thread, &now, 1, 0)) return;
    self->last = now;
    if (lane->has_step) {
        const uint64_t none = 0;
        lane->has_step = 0;
        spanprof_i_record(self, SPANPROF_RECORD_STEP, 0, 0, &none, 1, 0);
    }
}

/* 10.8 definitions: sites, thread names, tracks */

/* Puts a definition into the text lane and, if kept, into the book for later dumps. 0 if either has no room. Under the
 * lock. */
static int spanprof_i_define(uint32_t type, uint64_t argument, const uint64_t *words, uint32_t count, const char *const *texts, uint32_t text_count, int keep) {
    spanprof_i_session *session = spanprof_i_current;
    const uint64_t *record;
    uint64_t pos;
    size_t length;
    if (!session) return 0;
    pos = spanprof_i_record_texts(&session->text, type, 0, argument, words, count, texts, text_count, 0);
    if (!pos) return 0;
    if (!keep) return 1;
    record = session->text.lane->words + (pos - session->text.lane->pos);
    length = spanprof_i_length(*record);
    if (!spanprof_i_book_last || spanprof_i_book_last->used + length > sizeof spanprof_i_book_last->words / 8) {
        spanprof_i_book *book = SPANPROF_I_CAST(spanprof_i_book *, spanprof_i_pages(sizeof *book));
        if (!book) {
            spanprof_i_tell(session, "out of memory", ENOMEM);
            return 0;
        }
        if (spanprof_i_book_last) spanprof_i_book_last->next = book;
        else spanprof_i_books = book;
        spanprof_i_book_last = book;
    }
    memcpy(spanprof_i_book_last->words + spanprof_i_book_last->used, record, length * 8);
    spanprof_i_book_last->used += length;
    return 1;
}

/* Writes the book into a new session's text lane. */
static int spanprof_i_copy_book(spanprof_i_session *session) {
    const spanprof_i_book *book;
    for (book = spanprof_i_books; book; book = book->next) {
        size_t at = 0;
        while (at < book->used) {
            const size_t length = spanprof_i_length(book->words[at]);
            uint64_t *out = spanprof_i_room(&session->text, length);
            if (!out) return 0;
            memcpy(out + 1, book->words + at + 1, (length - 1) * 8);
            spanprof_i_publish(&session->text, book->words[at], length, 0);
            at += length;
        }
    }
    return 1;
}

/* Which numbers a metadata initializer names: ".step = i, .alloc_bytes = n". Text in quotes is not looked at. */
static uint32_t spanprof_i_named_numbers(const char *fields) {
    static const char *const names[] = {
#define SPANPROF_I_X(name, kind) #name,
        SPANPROF_META_LIST(SPANPROF_I_X)
#undef SPANPROF_I_X
    };
    uint32_t set = 0, i, depth = 0;
    const char *p;
    int begins = 1; /* where a designator may stand: at first, and after a comma that is inside nothing */
    for (p = fields; p && *p; p++) {
        const int may = begins;
        if (*p == ' ') continue;
        begins = *p == ',' && !depth;
        if (*p == '(' || *p == '[' || *p == '{') depth++;
        else if ((*p == ')' || *p == ']' || *p == '}') && depth) depth--;
        if (*p == '"' || *p == '\'') {
            const char quote = *p++;
            while (*p && *p != quote) p += *p == '\\' && p[1] ? 2 : 1;
            if (!*p) break;
        } else if (*p == '.' && may) {
            const char *word = p + 1;
            size_t length;
            while (*word == ' ') word++;
            length = strspn(word, "abcdefghijklmnopqrstuvwxyz_");
            for (i = 0; i < SPANPROF_META_COUNT; i++)
                if (strlen(names[i]) == length && memcmp(names[i], word, length) == 0) set |= 1u << i;
        }
    }
    return set;
}

/* Gives a site the number under which it was just defined. */
static void spanprof_i_number(spanprof_site *site) {
    const uint32_t id = ++spanprof_i_sites;
    if (id <= SPANPROF_SHORT_SITE_MAX) SPANPROF_I_STORE(&site->word, SPANPROF_I_CAST(uint64_t, id) << SPANPROF_SHORT_SITE_SHIFT | 1u);
    SPANPROF_I_PUBLISH(&site->id, id);
}

/* Gives a site its number and defines it in the dump; 0 if that failed. */
static SPANPROF_I_COLD int spanprof_i_register(spanprof_site *site) {
    spanprof_i_cold cold;
    const char *texts[3];
    uint64_t words[2];
    int done;
    if (!spanprof_i_lock(&cold)) return 0;
    done = site->id != 0;
    if (!done) {
        texts[0] = site->name ? site->name : "(null)";
        texts[1] = site->file;
        texts[2] = site->function;
        words[0] = site->line;
        words[1] = 0;
        site->set = spanprof_i_named_numbers(site->fields);
        done = spanprof_i_define(SPANPROF_RECORD_SITE, spanprof_i_sites + 1u, words, 2, texts, 3, 1);
        if (done) spanprof_i_number(site);
    }
    spanprof_i_unlock(&cold);
    return done;
}
static int spanprof_i_known(spanprof_site *site) { return SPANPROF_I_LOAD(&site->id) != 0 || spanprof_i_register(site); }

static void spanprof_i_define_thread(uint32_t thread, const char *name) {
    uint64_t words[2];
    words[0] = spanprof_i_thread_id();
    words[1] = spanprof_i_now();
    spanprof_i_define(SPANPROF_RECORD_THREAD_NAME, thread, words, 2, &name, 1, 0);
}

/* 10.9 sessions */

static const char *spanprof_i_rank_text(void) {
    static const char *const names[] = { "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK" };
    size_t i;
    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = spanprof_i_env(names[i]);
        if (value && *value && strspn(value, "0123456789") == strlen(value) && strlen(value) < 10) return value;
    }
    return SPANPROF_I_NULL;
}

/* SPANPROF_OUT with its percent signs replaced. */
static void spanprof_i_expand_path(const char *pattern, char *out, size_t bytes) {
    char piece[80];
    out[0] = 0;
    for (; *pattern; pattern++) {
        piece[0] = *pattern;
        piece[1] = 0;
        if (*pattern == '%' && pattern[1] && strchr("phr%", pattern[1])) {
            const char *rank = spanprof_i_rank_text();
            pattern++;
            if (*pattern == 'p') snprintf(piece, sizeof piece, "%lu", SPANPROF_I_CAST(unsigned long, spanprof_i_process_id()));
            else if (*pattern == 'h') spanprof_i_host(piece, 64);
            else if (*pattern == 'r') snprintf(piece, sizeof piece, "%s", rank ? rank : "0");
        }
        spanprof_i_append(out, bytes, piece);
    }
}

static int spanprof_i_same_word(const char *a, const char *b) {
    for (; *a && *b; a++, b++)
        if ((*a >= 'A' && *a <= 'Z' ? *a + 32 : *a) != *b) return 0;
    return *a == *b;
}

static void spanprof_i_bad_value(const char *name, const char *value, const char *used) {
    char line[512];
    char shown[128];
    size_t i;
    for (i = 0; i < sizeof shown - 1 && value[i]; i++) shown[i] = value[i] >= 32 && value[i] < 127 ? value[i] : '?';
    shown[i] = 0;
    snprintf(line, sizeof line, "spanprof: %s=%s is not understood; using %s\n", name, shown, used);
    spanprof_i_say(line);
}

/* A choice among words; the first is the default. */
static int spanprof_i_env_choice(const char *name, const char *const *words, int count) {
    const char *value = spanprof_i_env(name);
    int i;
    if (!value || !*value) return 0;
    for (i = 0; i < count; i++)
        if (spanprof_i_same_word(value, words[i])) return i;
    spanprof_i_bad_value(name, value, words[0]);
    return 0;
}

/* Decimal digits up to a limit; 1 if the whole text is one. */
static int spanprof_i_parse(const char *text, size_t length, uint64_t most, uint64_t *out) {
    uint64_t n = 0;
    size_t i;
    if (length == 0) return 0;
    for (i = 0; i < length; i++) {
        const uint64_t digit = SPANPROF_I_CAST(uint64_t, text[i] - '0');
        if (text[i] < '0' || text[i] > '9' || n > (most - digit) / 10) return 0;
        n = n * 10 + digit;
    }
    *out = n;
    return n <= most;
}
static uint64_t spanprof_i_env_number(const char *name, uint64_t most, uint64_t otherwise) {
    const char *value = spanprof_i_env(name);
    char used[32];
    uint64_t n = 0;
    if (!value || !*value) return otherwise;
    if (spanprof_i_parse(value, strlen(value), most, &n) && n > 0) return n;
    if (otherwise) snprintf(used, sizeof used, "%llu", SPANPROF_I_CAST(unsigned long long, otherwise));
    spanprof_i_bad_value(name, value, otherwise ? used : "no bound");
    return otherwise;
}

static int spanprof_i_plan_valid(const spanprof_i_plan *plan) {
    const uint64_t most = UINT64_MAX / 8;
    return plan->active > 0 && plan->active < most && plan->skip_first < most && plan->wait < most && plan->warmup < most;
}

static void spanprof_i_env_schedule(void) {
    const char *value = spanprof_i_env("SPANPROF_SCHEDULE");
    uint64_t n[5] = { 0, 0, 0, 0, 0 };
    const char *p = value;
    spanprof_i_plan plan;
    int i, good = 1;
    if (!value || !*value || spanprof_i_schedule_plan.set) return;
    for (i = 0; i < 5 && good; i++) {
        const size_t length = strspn(p, "0123456789");
        good = spanprof_i_parse(p, length, UINT64_MAX / 16, &n[i]) && p[length] == (i < 4 ? ',' : 0);
        p += length + (i < 4);
    }
    memset(&plan, 0, sizeof plan);
    plan.skip_first = n[0];
    plan.wait = n[1];
    plan.warmup = n[2];
    plan.active = n[3];
    plan.repeat = n[4];
    plan.set = 1;
    if (good && spanprof_i_plan_valid(&plan)) spanprof_i_schedule_plan = plan;
    else spanprof_i_bad_value("SPANPROF_SCHEDULE", value, "no schedule");
}

/* The cycle, from 1, that the plan's step is an active step of; 0: the step is not recorded. */
static uint64_t spanprof_i_plan_cycle(const spanprof_i_plan *plan) {
    uint64_t at, length, cycle;
    if (plan->step < plan->skip_first) return 0;
    at = plan->step - plan->skip_first;
    length = plan->wait + plan->warmup + plan->active;
    cycle = at / length;
    if (plan->repeat && cycle >= plan->repeat) return 0;
    return at % length >= plan->wait + plan->warmup ? cycle + 1 : 0;
}

/* Sets the flag that the macros test, from the session, the pause and the schedule. A new cycle takes a new generation,
 * so that every thread comes to the slow path once and marks it. Under the lock. */
static void spanprof_i_apply(void) {
    spanprof_i_session *session = spanprof_i_current;
    uint64_t cycle;
    if (!session) return;
    cycle = spanprof_i_schedule_plan.set ? spanprof_i_plan_cycle(&spanprof_i_schedule_plan) : 0;
    if (spanprof_i_paused || (spanprof_i_schedule_plan.set && !cycle)) {
        SPANPROF_I_PUBLISH(&spanprof_i_on, spanprof_i_generation | 1u);
        return;
    }
    if (SPANPROF_I_CAST(uint32_t, cycle) != session->cycle) {
        SPANPROF_I_STORE(&session->cycle, SPANPROF_I_CAST(uint32_t, cycle));
        spanprof_i_generation += 2;
        if (spanprof_i_generation < 4) spanprof_i_generation = 4; /* 0 and 1 have meanings of their own */
    }
    SPANPROF_I_PUBLISH(&spanprof_i_on, spanprof_i_generation);
}

/* The settings of a new session: the caller's, where zero the environment's, else the defaults. */
static void spanprof_i_settle(spanprof_config *config, const spanprof_config *wanted) {
    static const char *const modes[] = { "stream", "ring" };
    static const char *const clocks[] = { "auto", "tsc", "monotonic" };
    const char *text;
    memset(config, 0, sizeof *config);
    if (wanted) *config = *wanted;
    text = config->path && *config->path ? config->path : spanprof_i_env("SPANPROF_OUT");
    snprintf(spanprof_i_config_path, sizeof spanprof_i_config_path, "%s", text && *text ? text : "spanprof.dump");
    if (text && strlen(text) >= sizeof spanprof_i_config_path) memset(spanprof_i_config_path, 'x', sizeof spanprof_i_config_path - 1); /* too long to open */
    text = config->process_name && *config->process_name ? config->process_name : spanprof_i_env("SPANPROF_PROCESS_NAME");
    if (text && *text) snprintf(spanprof_i_config_name, sizeof spanprof_i_config_name, "%s", text);
    else spanprof_i_program(spanprof_i_config_name, sizeof spanprof_i_config_name);
    config->path = spanprof_i_config_path;
    config->process_name = spanprof_i_config_name;
    if (config->mode == SPANPROF_MODE_DEFAULT) config->mode = SPANPROF_I_CAST(spanprof_mode, spanprof_i_env_choice("SPANPROF_MODE", modes, 2) + 1);
    if (config->clock == SPANPROF_CLOCK_AUTO) config->clock = SPANPROF_I_CAST(spanprof_clock, spanprof_i_env_choice("SPANPROF_CLOCK", clocks, 3));
    if (!config->ring_mb) config->ring_mb = SPANPROF_I_CAST(uint32_t, spanprof_i_env_number("SPANPROF_RING_MB", 1u << 20, 16));
    if (!config->max_events) config->max_events = spanprof_i_env_number("SPANPROF_MAX_EVENTS", UINT64_MAX / 2, 0);
    if (!config->max_mb) config->max_mb = spanprof_i_env_number("SPANPROF_MAX_MB", 1ull << 40, 0);
    spanprof_i_env_schedule();
    spanprof_i_config = *config;
}

static void spanprof_i_fill_header(spanprof_i_session *session, const spanprof_config *config) {
    spanprof_dump_header *h = session->header;
    const char *rank = spanprof_i_rank_text();
    uint64_t n = 0;
    memset(h, 0, sizeof *h);
    memcpy(h->magic, SPANPROF_DUMP_MAGIC, 8);
    h->endian = SPANPROF_DUMP_ENDIAN;
    h->version = SPANPROF_DUMP_VERSION;
    h->header_bytes = SPANPROF_I_CAST(uint32_t, session->header_bytes);
    h->block_bytes = SPANPROF_WINDOW_BYTES;
    h->block_header_bytes = SPANPROF_BLOCK_HEADER_BYTES;
    h->clock = SPANPROF_I_LOAD(&spanprof_i_tsc) ? SPANPROF_CLOCK_TSC : SPANPROF_CLOCK_MONOTONIC;
    if (config->mode == SPANPROF_MODE_RING) h->flags |= SPANPROF_DUMP_RING;
    if (session->is_private) h->flags |= SPANPROF_DUMP_PRIVATE;
    if (spanprof_i_forked) h->flags |= SPANPROF_DUMP_FORKED;
    h->session = session->number;
    h->rank = rank && spanprof_i_parse(rank, strlen(rank), INT32_MAX, &n) ? SPANPROF_I_CAST(int32_t, n) : -1;
    h->pid = spanprof_i_process_id();
    h->parent_pid = spanprof_i_parent_id();
    h->ring_blocks = session->ring_blocks;
    h->process_key = spanprof_i_process_key();
    spanprof_i_both_clocks(&h->first, 5);
    h->first.real_ns = spanprof_i_real_ns();
    h->ticks_per_second = spanprof_i_tick_rate();
    h->max_events = config->max_events;
    h->max_mb = config->max_mb;
    snprintf(h->producer, sizeof h->producer, "spanprof %s", SPANPROF_VERSION);
    spanprof_i_host(h->host, sizeof h->host);
    snprintf(h->process_name, sizeof h->process_name, "%s", config->process_name);
    (void)spanprof_i_usage(&h->usage_first);
    h->sum = spanprof_dump_sum(h, offsetof(spanprof_dump_header, sum));
    session->anchor_gap = h->ticks_per_second / 64 + 1;
    session->anchored = h->first.ticks;
}

/* Creates the dump's file, header and text lane. */
static spanprof_status spanprof_i_create(spanprof_i_session *session, const spanprof_config *config) {
    static const spanprof_i_buffer magic = { SPANPROF_DUMP_MAGIC, 8 };
    int error = spanprof_i_create_file(session);
    spanprof_i_lane *text;
    if (!error) error = spanprof_i_write_at(session, &magic, 1, 0); /* whatever comes, the file can be told for a dump */
    if (!error) {
        session->header_bytes = SPANPROF_WINDOW_BYTES; /* so that copies are aligned: the page cache takes them in one piece */
        session->header = SPANPROF_I_CAST(spanprof_dump_header *, spanprof_i_map_file(session, 0, session->header_bytes, &error));
        if (!session->header && !error) {
            session->is_private = 1;
            session->header = SPANPROF_I_CAST(spanprof_dump_header *, spanprof_i_pages(session->header_bytes));
            if (!session->header) error = ENOMEM;
        }
    }
    if (error) {
        spanprof_i_tell(session, "the dump could not be created", error);
        if (session->inode) spanprof_i_remove_file(session);
        return SPANPROF_ERR_OPEN;
    }
    session->none.session = session;
    session->none.full = 1;
    if (config->mode == SPANPROF_MODE_RING) {
        const uint64_t blocks = (SPANPROF_I_CAST(uint64_t, config->ring_mb) << 20) / SPANPROF_WINDOW_BYTES;
        session->ring_blocks = blocks == 0 ? 1u : blocks > 1u << 30 ? 1u << 30 : SPANPROF_I_CAST(uint32_t, blocks);
    }
    session->blocks_max = UINT64_MAX / 2 / SPANPROF_WINDOW_BYTES;
    if (config->max_mb && config->max_mb <= UINT64_MAX >> 20) {
        const uint64_t bytes = config->max_mb << 20;
        session->blocks_max = bytes > session->header_bytes ? (bytes - session->header_bytes) / SPANPROF_WINDOW_BYTES : 0;
    }
    session->limited = config->max_events != 0;
    session->events_left = config->max_events;
    spanprof_i_fill_header(session, config);
    text = spanprof_i_lane_create(session, &session->text, 0);
    if (!text) return SPANPROF_ERR_WRITE;
    session->text.lane = text;
    session->text.top = session->text.bottom = text->stack + 1;
    spanprof_i_store_private(session);
    return SPANPROF_OK;
}

/* Opens a session. Under the lock, with none open. */
static spanprof_status spanprof_i_open_session(const spanprof_config *wanted) {
    spanprof_config config;
    spanprof_i_session *session = SPANPROF_I_CAST(spanprof_i_session *, spanprof_i_pages(spanprof_i_round(sizeof *session)));
    spanprof_status status;
    if (!session || !spanprof_i_hooks_into_system()) {
        spanprof_i_say("spanprof: out of memory; recording is off\n");
        spanprof_i_unmap(session, session ? spanprof_i_round(sizeof *session) : 0);
        return SPANPROF_ERR_MEMORY;
    }
    spanprof_i_settle(&config, wanted);
    spanprof_i_choose_clock(config.clock);
    spanprof_i_expand_path(config.path, session->path, sizeof session->path);
    session->number = ++spanprof_i_sessions;
    session->refs = 1;
    status = spanprof_i_create(session, &config);
    if (status == SPANPROF_OK && !spanprof_i_copy_book(session)) status = SPANPROF_ERR_WRITE;
    if (status != SPANPROF_OK) {
        if (session->header) spanprof_i_session_destroy(session);
        else spanprof_i_unmap(session, spanprof_i_round(sizeof *session));
        return status;
    }
    spanprof_i_made_device = session->device;
    spanprof_i_made_inode = session->inode;
    session->open = 1;
    SPANPROF_I_PUBLISH(&spanprof_i_current, session);
    spanprof_i_paused = 0;
    spanprof_i_generation += 2;
    if (spanprof_i_generation < 4) spanprof_i_generation = 4;
    spanprof_i_apply();
    return SPANPROF_OK;
}

/* The first event of a process, or of a forked child: is it to be recorded? Under the lock. */
static void spanprof_i_decide(void) {
    static const char *const off_words[] = { "off", "0", "false", "no", "1", "true", "yes", "on" };
    if (SPANPROF_I_LOAD(&spanprof_i_on) != 1) return;
    if (spanprof_i_forked) {
        const uint32_t paused = spanprof_i_paused;
        const spanprof_config config = spanprof_i_config;
        char path[SPANPROF_I_PATH_MAX], name[128];
        spanprof_config mine = config;
        memcpy(path, spanprof_i_config_path, sizeof path);
        memcpy(name, spanprof_i_config_name, sizeof name);
        mine.path = path;
        mine.process_name = name;
        if (spanprof_i_open_session(&mine) != SPANPROF_OK) SPANPROF_I_PUBLISH(&spanprof_i_on, 0u);
        else if (paused) { spanprof_i_paused = 1; spanprof_i_apply(); }
        spanprof_i_forked = 0;
        return;
    }
    if (spanprof_i_env_choice("SPANPROF", off_words, 8) < 4 || spanprof_i_open_session(SPANPROF_I_NULL) != SPANPROF_OK)
        SPANPROF_I_PUBLISH(&spanprof_i_on, 0u);
}

#ifdef SPANPROF_INSTRUMENT_FUNCTIONS
/* Memory that is never given back, a little at a time. Under the lock. */
static void *spanprof_i_small(size_t bytes) {
    static char *at;
    static size_t left;
    void *p;
    bytes = (bytes + 15) / 16 * 16;
    if (left < bytes) {
        at = SPANPROF_I_CAST(char *, spanprof_i_pages(65536));
        left = at ? 65536 : 0;
    }
    if (left < bytes) return SPANPROF_I_NULL;
    p = at;
    at += bytes;
    left -= bytes;
    return p;
}
#endif

/* Points a thread at its lane's stack, with some spans open on it. */
static void spanprof_i_use_stack(const spanprof_i_lane *lane, spanprof_i_thread *self, size_t depth) {
    const size_t room = lane->stack_bytes / sizeof(spanprof_i_open) - 1;
    self->bottom = lane->stack + 1;
    self->top = self->bottom + depth;
    self->limit = self->bottom + (room < SPANPROF_MAX_DEPTH ? room : SPANPROF_MAX_DEPTH);
}

/* Gives the thread a lane of the current session: one that another thread has left, a new one, or the one that records
 * nothing. Once there was no room there will be none: nobody tries again. Under the lock. */
static void spanprof_i_attach(spanprof_i_thread *self) {
    spanprof_i_session *session = spanprof_i_current;
    spanprof_i_lane *lane = session->free;
    char name[48];
    const uint32_t thread = SPANPROF_I_CAST(uint32_t, session->threads + 1);
    if (lane) {
        session->free = lane->next_free;
        lane->thread = thread;
        self->lane = lane;
        spanprof_i_use_stack(lane, self, 0);
        spanprof_i_lane_resume(lane, self);
    } else {
        if (!session->no_room) lane = spanprof_i_lane_create(session, self, thread);
        if (!lane) session->no_room = 1;
    }
    session->refs++;
    self->lane = lane ? lane : &session->none;
    spanprof_i_watch_thread(self);
    if (!lane) return;
    session->threads++;
    lane->rounds = 0;
    lane->taken = lane->pos + SPANPROF_I_CAST(uint64_t, self->next - lane->words);
    spanprof_i_use_stack(lane, self, 0);
    lane->stack_known = 0;
    memcpy(name, SPANPROF_I_NAME(), sizeof name);
    if (!name[0]) spanprof_i_system_thread_name(name, sizeof name);
    spanprof_i_define_thread(thread, name);
}

/* Runs when a thread ends. Destructors of other keys may still record, so the lane is kept until the last round but one
 * that the system makes (the last belongs to the sanitizers' own); what comes after that is counted. */
static void spanprof_i_thread_exit(void *value) {
    spanprof_i_cold cold;
#if SPANPROF_NO_TLS && !SPANPROF_I_WINDOWS
    spanprof_i_keyed *keyed = SPANPROF_I_CAST(spanprof_i_keyed *, value);
    spanprof_i_thread *self = &keyed->thread;
    pthread_setspecific(spanprof_i_key, keyed);
    if (keyed == &spanprof_i_keyless) return;
#else
    spanprof_i_thread *self = SPANPROF_I_CAST(spanprof_i_thread *, value);
#endif
    if (!self->lane) {
#if SPANPROF_NO_TLS && !SPANPROF_I_WINDOWS
        pthread_setspecific(spanprof_i_key, &spanprof_i_keyless);
        free(keyed);
#endif
        return;
    }
#if !SPANPROF_I_WINDOWS
    if (self->lane->window && ++self->lane->rounds < PTHREAD_DESTRUCTOR_ITERATIONS - 1) {
#if !SPANPROF_NO_TLS
        spanprof_i_watch_thread(self);
#endif
        return;
    }
#endif
    if (!spanprof_i_lock(&cold)) return;
    spanprof_i_detach(self);
    self->claimer = SPANPROF_I_ENDED;
#if SPANPROF_NO_TLS && !SPANPROF_I_WINDOWS
    pthread_setspecific(spanprof_i_key, &spanprof_i_keyless);
    free(keyed);
#endif
    spanprof_i_unlock(&cold);
}

#if !SPANPROF_I_WINDOWS
/* The child of a fork has copies of the parent's threads' states and mappings of the parent's windows: it lets go of all. */
static void spanprof_i_fork_forget(void) {
    spanprof_i_thread *self = SPANPROF_I_SELF();
    spanprof_i_session *session = spanprof_i_current;
    spanprof_i_reset_thread(self);
    if (!session) return;
    if (!spanprof_i_ancestor_count) memcpy(spanprof_i_parent_path, session->path, sizeof spanprof_i_parent_path);
    spanprof_i_ancestors[spanprof_i_ancestor_count++ % 16u] = session->header->process_key;
    spanprof_i_session_destroy(session);
    spanprof_i_current = SPANPROF_I_NULL;
    spanprof_i_forked = 1;
    spanprof_i_made_device = 0;
    spanprof_i_made_inode = 0;
    SPANPROF_I_STORE(&spanprof_i_on, 1u);
}
#endif

/* 10.10 recording */

/* Counts what a thread without a lane could not record. Without the lock the session might go away. */
static SPANPROF_I_COLD void spanprof_i_count_elsewhere(int orphan) {
    spanprof_i_cold cold;
    if (!spanprof_i_lock(&cold)) {
        SPANPROF_I_ADD(orphan ? &spanprof_i_stray_orphans : &spanprof_i_stray_drops, 1);
        return;
    }
    if (spanprof_i_current) SPANPROF_I_ADD(orphan ? &spanprof_i_current->header->orphan_ends : &spanprof_i_current->header->dropped, 1);
    spanprof_i_unlock(&cold);
}
static void spanprof_i_drop(spanprof_i_thread *self) {
    if (!self->lane) spanprof_i_count_elsewhere(0);
    else SPANPROF_I_ADD(self->lane->window ? &self->lane->window->dropped : &self->lane->session->header->dropped, 1);
}
static void spanprof_i_orphan(const spanprof_i_thread *self) {
    if (self->lane) SPANPROF_I_ADD(&self->lane->session->header->orphan_ends, 1);
    else spanprof_i_count_elsewhere(1);
}

/* Finds the calling thread's stack when it first matters. Not before: the system's way to it allocates, which a handler that
 * interrupts malloc, or a malloc that records, can't bear; a scope whose place on the stack is in doubt has neither above it. */
static void spanprof_i_know_stack(spanprof_i_lane *lane) {
    const int error = errno;
    if (lane->stack_known) return;
    lane->stack_known = 1;
    spanprof_i_thread_stack(&lane->stack_low, &lane->stack_high);
    errno = error;
}

/* Whether a variable lies in a frame that has been left without a word, by longjmp: below a frame that is in use, both on
 * the thread's own stack. Signal stacks and the stacks of coroutines say nothing about it. */
static int spanprof_i_frame_gone(spanprof_i_lane *lane, uintptr_t address, uintptr_t frame) {
    if (address >= frame || spanprof_i_on_signal_stack()) return 0;
    spanprof_i_know_stack(lane);
    return address >= lane->stack_low && frame < lane->stack_high;
}

/* A generation of 0 with a lane: a record is being written above us and we are in a signal handler; unless the handler
 * jumped out of it. That shows when this frame is not a signal's frame below the place of the record, or when the frame of the
 * innermost scope is gone, and the record's with it. */
static int spanprof_i_jumped_out(const spanprof_i_thread *self, uintptr_t frame) {
    const uint32_t below = self->claimer - SPANPROF_I_CAST(uint32_t, frame); /* modulo 2^32 */
    if (*SPANPROF_I_INSIDE() || spanprof_i_on_signal_stack()) return 0;
    if (below < SPANPROF_I_SIGNAL_FRAME_MIN || below > UINT32_MAX / 2) {
        spanprof_i_know_stack(self->lane);
        if (frame >= self->lane->stack_low && frame < self->lane->stack_high) return 1;
    }
    return spanprof_i_frame_gone(self->lane, self->top[-1].address, frame);
}
static void spanprof_i_repair(spanprof_i_thread *self) {
    uint64_t *word = self->lane->words, *last = word;
    const uint64_t now = spanprof_i_now();
    for (; *word; word += spanprof_i_length(*word)) last = word;
    self->next = word;
    /* A span that was written and not yet on the stack: nobody ends it. */
    if (*last & 1u && *last >> SPANPROF_SHORT_DURATION_SHIFT == 0 && self->top[-1].word != last) self->lane->left_open++;
    if (spanprof_i_record(self, SPANPROF_RECORD_TIME, 0, 0, &now, 1, 0)) self->last = now;
}

/* Opens the session if this is the first event, and gives the thread a lane of it. Even while paused: pairs need a stack.
 * The flag as it is then, or 1 if this thread is in the cold code already. */
static uint32_t spanprof_i_join(spanprof_i_thread *self) {
    spanprof_i_cold cold;
    uint32_t on;
    if (!spanprof_i_lock(&cold)) return 1;
    spanprof_i_decide();
    on = SPANPROF_I_LOAD(&spanprof_i_on);
    if (self->lane && self->lane->session != spanprof_i_current) spanprof_i_detach(self);
    if (on && spanprof_i_current && !self->lane) spanprof_i_attach(self);
    if (self->lane) self->generation = on & ~1u;
    spanprof_i_unlock(&cold);
    return on;
}

/* The rest of spanprof_i_claim: everything but the common case. */
static SPANPROF_I_COLD uint32_t spanprof_i_claim_slow(spanprof_i_thread *self, uint32_t on, uintptr_t frame) {
    if (on == 0 || (on != 1 && (on & 1u))) return 0; /* off; paused */
    if (spanprof_i_has_ended(self)) return 1;
    if (self->lane && self->generation == 0) {
        if (!spanprof_i_jumped_out(self, frame)) return 1;
        spanprof_i_repair(self);
        self->generation = on;
    }
    if (!self->lane || on == 1 || self->lane->session != SPANPROF_I_LOAD(&spanprof_i_current)) {
        on = spanprof_i_join(self);
        if (on < 2) return on;
        if (on & 1u) return 0;
    }
    self->claimer = SPANPROF_I_CAST(uint32_t, frame);
    self->generation = 0;
    SPANPROF_I_SIGNAL_FENCE();
    if (self->lane->window && self->lane->cycle != SPANPROF_I_LOAD(&self->lane->session->cycle)) {
        const uint64_t now = spanprof_i_now();
        self->lane->cycle = SPANPROF_I_LOAD(&self->lane->session->cycle);
        spanprof_i_record(self, SPANPROF_RECORD_CYCLE, 0, self->lane->cycle, &now, 1, 0);
    }
    return on;
}

/* Takes the thread's state for writing: the generation to give back to spanprof_i_release; 0 when nothing is recorded now;
 * 1 when something would be, but can't: in a handler in the middle of a record, or after the thread's end. */
static uint32_t spanprof_i_try_claim(spanprof_i_thread *self, uintptr_t frame) {
    const uint32_t on = SPANPROF_I_LOAD(&spanprof_i_on);
    if (!SPANPROF_I_LIKELY(on == self->generation && on != 0)) return spanprof_i_claim_slow(self, on, frame);
    self->claimer = SPANPROF_I_CAST(uint32_t, frame);
    self->generation = 0;
    SPANPROF_I_SIGNAL_FENCE();
    return on;
}
/* For what is no event: not counted. */
static uint32_t spanprof_i_claim(spanprof_i_thread *self, uintptr_t frame) {
    const uint32_t generation = spanprof_i_try_claim(self, frame);
    return generation == 1 ? 0 : generation;
}
/* For an event: counted when it can't be recorded. */
static uint32_t spanprof_i_claim_event(spanprof_i_thread *self, uintptr_t frame) {
    const uint32_t generation = spanprof_i_try_claim(self, frame);
    if (generation != 1) return generation;
    spanprof_i_drop(self);
    return 0;
}
/* The same for the ends, which count while recording is paused or over, too: 0 when the thread has no lane, or in a
 * handler that came in the middle of a record. */
static uint32_t spanprof_i_claim_end(spanprof_i_thread *self) {
    const uint32_t generation = self->lane ? self->generation : 0;
    if (!generation) return 0;
    self->claimer = SPANPROF_I_CAST(uint32_t, spanprof_i_frame());
    self->generation = 0;
    SPANPROF_I_SIGNAL_FENCE();
    return generation;
}
static void spanprof_i_release(spanprof_i_thread *self, uint32_t generation) {
    SPANPROF_I_SIGNAL_FENCE();
    self->generation = generation;
}

/* One of the events that SPANPROF_MAX_EVENTS allows; 0 when they are used up. */
static int spanprof_i_allowed(spanprof_i_thread *self) {
    spanprof_i_session *session = self->lane->session;
    uint64_t left;
    if (!session->limited) return 1;
    left = SPANPROF_I_LOAD(&session->events_left);
    while (left)
        if (spanprof_i_swap(&session->events_left, &left, left - 1)) return 1;
    spanprof_i_tell(session, "SPANPROF_MAX_EVENTS is reached", 0);
    return 0;
}

/* Takes an entry out of the stack. */
static spanprof_i_open spanprof_i_take(spanprof_i_thread *self, spanprof_i_open *at) {
    const spanprof_i_open open = *at;
    self->top--;
    if (at != self->top) memmove(at, at + 1, SPANPROF_I_CAST(size_t, self->top - at) * sizeof open);
    return open;
}

/* Removes the entries whose spans another thread has ended. Under the lock. */
static void spanprof_i_purge_ended(spanprof_i_thread *self) {
    spanprof_i_lane *lane = self->lane;
    spanprof_i_open *open;
    size_t i;
    for (open = self->top; lane->ended_count && open-- > self->bottom;) {
        const uint64_t pos = spanprof_i_open_pos(lane, open);
        for (i = 0; i < lane->ended_count && lane->ended[i] != pos; i++) {}
        if (i == lane->ended_count) continue;
        lane->ended[i] = lane->ended[lane->ended_count - 1];
        SPANPROF_I_STORE(&lane->ended_count, lane->ended_count - 1);
        if (spanprof_i_take(self, open).word) lane->left_open++;
    }
    SPANPROF_I_STORE(&lane->ended_count, SPANPROF_I_CAST(size_t, 0));
}

static SPANPROF_I_COLD void spanprof_i_see_ended_slow(spanprof_i_thread *self) {
    spanprof_i_cold cold;
    if (!spanprof_i_lock(&cold)) return;
    spanprof_i_purge_ended(self);
    spanprof_i_unlock(&cold);
}
SPANPROF_I_HOT void spanprof_i_see_ended(spanprof_i_thread *self) {
    if (!SPANPROF_I_LIKELY(!SPANPROF_I_LOAD(&self->lane->ended_count))) spanprof_i_see_ended_slow(self);
}

/* Makes room on the stack for one more open span. */
static int spanprof_i_deepen(spanprof_i_thread *self) {
    spanprof_i_lane *lane = self->lane;
    spanprof_i_cold cold;
    spanprof_i_open *bigger;
    const size_t depth = SPANPROF_I_CAST(size_t, self->top - self->bottom);
    const size_t bytes = lane->stack_bytes * 2;
    if (self->top < self->limit) return 1;
    if (!spanprof_i_lock(&cold)) return 0;
    spanprof_i_purge_ended(self);
    if (self->top >= self->limit && depth < SPANPROF_MAX_DEPTH) {
        bigger = SPANPROF_I_CAST(spanprof_i_open *, spanprof_i_pages(bytes));
        if (bigger) {
            memcpy(bigger, lane->stack, lane->stack_bytes);
            spanprof_i_unmap(lane->stack, lane->stack_bytes);
            lane->stack = bigger;
            lane->stack_bytes = bytes;
            spanprof_i_use_stack(lane, self, depth);
        } else {
            spanprof_i_tell(lane->session, "out of memory", ENOMEM);
        }
    }
    spanprof_i_unlock(&cold);
    return self->top < self->limit;
}

/* Ends an open span that nothing else will end; its record says so. */
static void spanprof_i_abandon(spanprof_i_thread *self, spanprof_i_open *at, uint64_t now) {
    const uint64_t pos = spanprof_i_open_pos(self->lane, at);
    const uint64_t *const word = spanprof_i_take(self, at).word;
    const int in_window = word != SPANPROF_I_NULL;
    /* A handler jumped out of its end, after that was written. */
    if (word && (*word & 1u ? *word >> SPANPROF_SHORT_DURATION_SHIFT : word[2]) != 0) return;
    if (pos && spanprof_i_record_end(self, 1, pos, now) && !in_window) SPANPROF_I_ADD(&self->lane->open_before, UINT64_MAX);
}

/* Whether a scope's variable lies on a coroutine's stack or in its frame: neither on the thread's nor on its signal stack. */
static int spanprof_i_is_elsewhere(spanprof_i_lane *lane, uintptr_t address) {
    spanprof_i_know_stack(lane);
    return lane->stack_high && (address < lane->stack_low || address >= lane->stack_high) && !spanprof_i_in_signal_stack(address);
}

/* Abandons the scopes, pairs and functions inside an open span. Handles are nobody's inner ones; nor are the scopes, with
 * their pairs, of a coroutine that waits to be resumed, nor those around the coroutine whose scope ends. A waiting one may
 * never be resumed, or end on another thread: few are kept. */
static void spanprof_i_abandon_inside(spanprof_i_thread *self, spanprof_i_open *outer, uint64_t now) {
    const int many = self->top - self->bottom >= SPANPROF_I_WAITING_MAX;
    const int of_coroutine = self->top - 1 > outer && spanprof_i_is_scope(outer) && spanprof_i_is_elsewhere(self->lane, outer->address);
    spanprof_i_open *inner = outer + 1;
    int is_kept = 0;
    while (inner < self->top) {
        if (spanprof_i_is_scope(inner)) is_kept = !many && (of_coroutine || spanprof_i_is_elsewhere(self->lane, inner->address));
        if (is_kept || (!spanprof_i_is_scope(inner) && inner->kind == SPANPROF_I_HANDLE)) inner++;
        else spanprof_i_abandon(self, inner, now);
    }
}

/* The open scope whose variable is at that address, among the innermost ones; NULL if there is none. */
static spanprof_i_open *spanprof_i_scope_at(const spanprof_i_thread *self, uintptr_t address) {
    spanprof_i_open *at = self->top;
    int looks;
    for (looks = 0; looks < SPANPROF_I_SAME_FRAME_MAX && at-- > self->bottom; looks++)
        if (spanprof_i_is_scope(at) && (at->address & ~SPANPROF_I_CAST(uintptr_t, 1)) == address) return at;
    return SPANPROF_I_NULL;
}

/* longjmp leaves spans open: a scope's variable in a frame that is gone, or at the very address of the new one, tells; of
 * functions that were inlined into one frame, the outermost is the first to come back to its address. What is inside such a
 * scope goes with it. */
static void spanprof_i_sweep(spanprof_i_thread *self, uintptr_t address, uintptr_t frame) {
    for (;;) {
        spanprof_i_open *scope = spanprof_i_scope_at(self, address);
        uint64_t now;
        if (!scope) {
            scope = self->top - 1;
            while (scope >= self->bottom && !spanprof_i_is_scope(scope)) scope--;
            if (scope < self->bottom || !spanprof_i_frame_gone(self->lane, scope->address, frame)) return;
        }
        now = spanprof_i_now();
        spanprof_i_abandon_inside(self, scope, now);
        spanprof_i_abandon(self, scope, now);
    }
}

/* Writes the start of a span and puts it on the stack; NULL if it was dropped. name: for a span without a site. address:
 * of the scope's variable; 0: a handle or a pair. The thread is claimed. */
static spanprof_i_open *spanprof_i_start_span(spanprof_i_thread *self, spanprof_site *site, const char *name, uintptr_t address) {
    spanprof_i_lane *lane = self->lane;
    const uint64_t last = self->last;
    spanprof_i_open *open;
    uint64_t now, pos, words[2];
    const uint32_t id = name ? 0 : SPANPROF_I_LOAD(&site->id);
    const int is_long = name != SPANPROF_I_NULL || id > SPANPROF_SHORT_SITE_MAX;
    if (!spanprof_i_deepen(self) || !spanprof_i_room(self, name ? 4 + spanprof_i_text_length(name) / 8 + 1 : 4) || !spanprof_i_allowed(self)) {
        spanprof_i_drop(self);
        return SPANPROF_I_NULL;
    }
    now = spanprof_i_now();
    words[0] = now;
    words[1] = 0;
    if (is_long) {
        pos = name ? spanprof_i_record_texts(self, SPANPROF_RECORD_SPAN_DYN, 0, 0, words, 2, &name, 1, 1) : spanprof_i_record(self, SPANPROF_RECORD_SPAN, 0, id, words, 2, 1);
    } else {
        if (now - self->last > SPANPROF_SHORT_START_MAX) {
            spanprof_i_record(self, SPANPROF_RECORD_TIME, 0, 0, words, 1, 0);
            self->last = now;
        }
        pos = spanprof_i_publish(self, (now - self->last) << SPANPROF_SHORT_START_SHIFT | SPANPROF_I_CAST(uint64_t, id) << SPANPROF_SHORT_SITE_SHIFT | 1u, 1, 1);
    }
    self->last = now;
    open = self->top;
    open->word = lane->words + (pos - lane->pos);
    open->address = !address ? spanprof_i_address_inside(open - 1) : is_long || !SPANPROF_I_LOAD(&spanprof_i_tsc) ? address | 1u : address;
    open->pos = pos;
    open->ticks = now;
    open->kind = SPANPROF_I_HANDLE;
    open->function = 0;
    self->top++;
    if (now - last > SPANPROF_SHORT_START_MAX) spanprof_i_anchor(lane->session, 0);
    return open;
}

/* Begins a span for a scope or, with address 0, a handle. */
static SPANPROF_I_NOINLINE spanprof_span spanprof_i_open_span(spanprof_site *site, const char *name, uintptr_t address, uintptr_t frame, spanprof_i_scope *scope) {
    spanprof_i_thread *self = SPANPROF_I_SELF();
    spanprof_span span = { 0u };
    /* A scope's variable stands in its function's frame, above all that is called from there. */
    const uintptr_t place = address > frame && !(address & SPANPROF_I_NO_SCOPE) ? address : frame;
    const uint32_t generation = spanprof_i_claim_event(self, place);
    const spanprof_i_open *open = SPANPROF_I_NULL;
    if (generation) {
        spanprof_i_sweep(self, address, frame);
        if (!self->lane->full && (name || spanprof_i_known(site))) open = spanprof_i_start_span(self, site, name, address);
        else spanprof_i_drop(self);
        if (open) span.pos = open->pos;
        if (open && scope) {
            scope->word = open->word;
            scope->start = open->ticks;
            scope->bits = *open->word;
        }
        spanprof_i_release(self, generation);
    }
    return span;
}

SPANPROF_I_COLD spanprof_i_scope spanprof_i_enter_slow(spanprof_site *site, uintptr_t address, uintptr_t frame) {
    spanprof_i_scope scope = { 0u, 0u, SPANPROF_I_NULL };
    spanprof_i_open_span(site, SPANPROF_I_NULL, address, frame ? frame : SPANPROF_I_FRAME(), &scope);
    return scope;
}

/* Ends the span at a place of the stack. A counter that another core reads a little behind must not give a negative
 * duration. */
static void spanprof_i_finish(spanprof_i_thread *self, spanprof_i_open *at, uint64_t ticks, uint64_t now) {
    const uint64_t pos = spanprof_i_open_pos(self->lane, at);
    const spanprof_i_open open = spanprof_i_take(self, at);
    const uint64_t duration = now > ticks ? now - ticks : 0;
    if (!pos) return;
    if (!open.word) {
        if (spanprof_i_record_end(self, 0, pos, ticks + duration)) SPANPROF_I_ADD(&self->lane->open_before, UINT64_MAX);
    } else if (!(*open.word & 1u)) {
        SPANPROF_I_STORE(open.word + 2, duration + 1);
    } else if (duration <= SPANPROF_SHORT_DURATION_MAX) {
        SPANPROF_I_STORE(open.word, *open.word + ((duration + 1) << SPANPROF_SHORT_DURATION_SHIFT));
    } else {
        spanprof_i_record_end(self, 0, pos, ticks + duration);
    }
    if (duration > SPANPROF_SHORT_START_MAX) spanprof_i_anchor(self->lane->session, 0);
}

/* A scope ends: the scopes inside it that are still open were left by longjmp, the pairs were forgotten. */
SPANPROF_I_COLD void spanprof_i_leave_slow(const spanprof_i_scope *scope, uint64_t now) {
    spanprof_i_thread *self = SPANPROF_I_SELF();
    const uint32_t generation = spanprof_i_claim_end(self);
    spanprof_i_open *open;
    if (!generation) {
        spanprof_i_orphan(self);
        return;
    }
    if (!SPANPROF_I_LOAD(&spanprof_i_tsc)) now = spanprof_i_now();
    for (open = self->top - 1; open >= self->bottom && (open->address & ~SPANPROF_I_CAST(uintptr_t, 1)) != SPANPROF_I_PTR(uintptr_t, scope); open--) {}
    if (open >= self->bottom) {
        spanprof_i_abandon_inside(self, open, now);
        spanprof_i_finish(self, open, scope->start, now);
    } else if (scope->start >= self->lane->session->header->first.ticks) { /* not of a session before, or of a parent process */
        spanprof_i_orphan(self);
    }
    spanprof_i_release(self, generation);
}

/* Tells the thread that began a span that it has ended elsewhere. Under the lock. */
static void spanprof_i_tell_owner(const spanprof_i_thread *self, uint64_t pos) {
    spanprof_i_lane *lane = self->lane->session->lanes;
    while (lane && lane->id != SPANPROF_POS_LANE(pos)) lane = lane->next;
    if (!lane || lane == self->lane) return; /* the thread has ended, its lane is ours */
    if ((lane->ended_count + 1) * 8 > lane->ended_bytes) {
        const size_t bytes = lane->ended ? lane->ended_bytes * 2 : spanprof_i_page();
        uint64_t *bigger = SPANPROF_I_CAST(uint64_t *, spanprof_i_pages(bytes));
        if (!bigger) return;
        if (lane->ended) memcpy(bigger, lane->ended, lane->ended_bytes);
        spanprof_i_unmap(lane->ended, lane->ended_bytes);
        lane->ended = bigger;
        lane->ended_bytes = bytes;
    }
    lane->ended[lane->ended_count] = pos;
    SPANPROF_I_STORE(&lane->ended_count, lane->ended_count + 1);
}

/* A span that another thread began ends here, paused or not: its end goes into this thread's lane. */
static void spanprof_i_finish_foreign(spanprof_i_thread *self, spanprof_span span, uint64_t now) {
    spanprof_i_cold cold;
    uint32_t generation;
    if (!self->lane && !spanprof_i_has_ended(self) && SPANPROF_I_ON()) spanprof_i_join(self);
    generation = spanprof_i_claim_end(self);
    if (!generation) return;
    if (span.pos >> (SPANPROF_POS_WORD_BITS + SPANPROF_POS_LANE_BITS) == (self->lane->session->number & 1023u) && spanprof_i_record_end(self, 0, span.pos, now)) {
        /* Of a thread before us on this lane, in this window: the window knows its end. */
        if (span.pos - self->lane->pos < SPANPROF_I_WORDS) self->lane->left_open--;
        else SPANPROF_I_ADD(&self->lane->session->foreign_ends, 1);
        if (spanprof_i_lock(&cold)) {
            spanprof_i_tell_owner(self, span.pos);
            spanprof_i_unlock(&cold);
        }
    }
    spanprof_i_release(self, generation);
}

void spanprof_end(spanprof_span span) {
    spanprof_i_thread *self = SPANPROF_I_SELF();
    const uint64_t now = span.pos ? spanprof_i_now() : 0;
    spanprof_i_open *open;
    uint32_t generation;
    if (!span.pos) return;
    if (!self->lane || (span.pos ^ self->lane->pos) >> SPANPROF_POS_WORD_BITS || span.pos < self->lane->taken) {
        spanprof_i_finish_foreign(self, span, now);
        return;
    }
    generation = spanprof_i_claim_end(self);
    if (generation) spanprof_i_see_ended(self);
    for (open = self->top - 1; generation && open >= self->bottom && spanprof_i_open_pos(self->lane, open) != span.pos; open--) {}
    if (generation && open >= self->bottom) spanprof_i_finish(self, open, open->ticks, now);
    else spanprof_i_orphan(self);
    if (generation) spanprof_i_release(self, generation);
}

/* Metadata of a span; only fields that are set go into the record. The thread is claimed. */
static void spanprof_i_record_meta(spanprof_i_thread *self, uint64_t pos, const spanprof_meta *meta, uint32_t set, uint32_t flags) {
    const char *texts[SPANPROF_META_COUNT];
    uint64_t words[1 + SPANPROF_META_COUNT];
    uint32_t count = 1, text_count = 0, mask = 0;
    words[0] = pos;
    set |= meta->set;
#define SPANPROF_I_PUT_S(name) if (meta->name) { mask |= SPANPROF_META_BIT(name); texts[text_count++] = meta->name; }
#define SPANPROF_I_PUT_U(name) if (meta->name || (set & SPANPROF_META_BIT(name))) { mask |= SPANPROF_META_BIT(name); words[count++] = SPANPROF_I_CAST(uint64_t, meta->name); }
#define SPANPROF_I_PUT_I(name) SPANPROF_I_PUT_U(name)
#define SPANPROF_I_X(name, kind) SPANPROF_I_PUT_##kind(name)
    SPANPROF_META_LIST(SPANPROF_I_X)
#undef SPANPROF_I_X
#undef SPANPROF_I_PUT_I
#undef SPANPROF_I_PUT_U
#undef SPANPROF_I_PUT_S
    if (mask || flags) spanprof_i_record_texts(self, SPANPROF_RECORD_META, flags, mask, words, count, texts, text_count, 0);
}
static void spanprof_i_put_meta(spanprof_span span, const spanprof_meta *meta, uint32_t set) {
    spanprof_i_thread *self = SPANPROF_I_SELF();
    uint32_t generation;
    if (!span.pos) return;
    generation = spanprof_i_claim(self, spanprof_i_frame());
    if (!generation) return;
    spanprof_i_record_meta(self, span.pos, meta, set, 0);
    spanprof_i_release(self, generation);
}

static uint64_t spanprof_i_current_pos(const spanprof_i_thread *self) { return self->lane && self->top > self->bottom ? spanprof_i_open_pos(self->lane, self->top - 1) : 0; }

/* Attribute of the innermost open span; none when there is no span, or one that is not recorded. */
static SPANPROF_I_NOINLINE void spanprof_i_attr(spanprof_site *key, uint32_t kind, uint64_t value, const char *text) {
    spanprof_i_thread *self = SPANPROF_I_SELF();
    const uint32_t generation = spanprof_i_claim(self, SPANPROF_I_FRAME());
    uint64_t words[2];
    if (!generation) return;
    spanprof_i_see_ended(self);
    spanprof_i_sweep(self, 0, SPANPROF_I_FRAME());
    words[0] = spanprof_i_current_pos(self);
    words[1] = value;
    if (words[0] && spanprof_i_known(key)) {
        if (kind == SPANPROF_VALUE_STR) spanprof_i_record_texts(self, SPANPROF_RECORD_ATTR, kind, SPANPROF_I_LOAD(&key->id), words, 1, &text, 1, 0);
        else spanprof_i_record(self, SPANPROF_RECORD_ATTR, kind, SPANPROF_I_LOAD(&key->id), words, 2, 0);
    }
    spanprof_i_release(self, generation);
}
static uint64_t spanprof_i_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
void spanprof_i_attr_i64(spanprof_site *key, int64_t value) { spanprof_i_attr(key, SPANPROF_VALUE_I64, SPANPROF_I_CAST(uint64_t, value), SPANPROF_I_NULL); }
void spanprof_i_attr_u64(spanprof_site *key, uint64_t value) { spanprof_i_attr(key, SPANPROF_VALUE_U64, value, SPANPROF_I_NULL); }
void spanprof_i_attr_f64(spanprof_site *key, double value) { spanprof_i_attr(key, SPANPROF_VALUE_F64, spanprof_i_bits(value), SPANPROF_I_NULL); }
void spanprof_i_attr_str(spanprof_site *key, const char *value) { spanprof_i_attr(key, SPANPROF_VALUE_STR, 0, value ? value : "(null)"); }

SPANPROF_I_NOINLINE void spanprof_i_event(spanprof_site *site, spanprof_event_kind kind, uint64_t id, double value) {
    static const uint32_t types[] = { SPANPROF_RECORD_INSTANT, SPANPROF_RECORD_COUNTER, SPANPROF_RECORD_ASYNC_BEGIN, SPANPROF_RECORD_ASYNC_END, SPANPROF_RECORD_FLOW_OUT, SPANPROF_RECORD_FLOW_IN };
    spanprof_i_thread *self = SPANPROF_I_SELF();
    const uint32_t generation = spanprof_i_claim_event(self, SPANPROF_I_FRAME());
    uint64_t words[3];
    uint32_t count = kind == SPANPROF_EVENT_INSTANT ? 1 : kind >= SPANPROF_EVENT_FLOW_OUT ? 3 : 2;
    if (!generation) return;
    spanprof_i_sweep(self, 0, SPANPROF_I_FRAME());
    words[1] = kind == SPANPROF_EVENT_COUNTER ? spanprof_i_bits(value) : id;
    words[2] = spanprof_i_current_pos(self);
    if (spanprof_i_room(self, 4) && spanprof_i_known(site) && spanprof_i_allowed(self)) {
        words[0] = spanprof_i_now();
        spanprof_i_record(self, types[kind], 0, SPANPROF_I_LOAD(&site->id), words, count, 1);
    } else {
        spanprof_i_drop(self);
    }
    spanprof_i_release(self, generation);
}

/* Pairs. While recording is paused, or a span is dropped, a placeholder keeps ends and begins together. */
static void spanprof_i_push_at(spanprof_site *site, const char *name, const spanprof_meta *meta, uintptr_t frame) {
    spanprof_i_thread *self = SPANPROF_I_SELF();
    const uint32_t recording = spanprof_i_claim_event(self, frame);
    uint32_t generation = recording;
    spanprof_i_open *open = SPANPROF_I_NULL;
    spanprof_span span = { 0u };
    if (!recording) {
        const uint32_t on = SPANPROF_I_LOAD(&spanprof_i_on); /* may have been resumed meanwhile: the claim decides */
        if (on > 1 && !self->lane && !spanprof_i_has_ended(self)) spanprof_i_join(self);
        generation = on > 1 ? spanprof_i_claim_end(self) : 0;
    } else {
        spanprof_i_sweep(self, 0, frame);
        if (!self->lane->full && (name || spanprof_i_known(site))) open = spanprof_i_start_span(self, site, name, 0);
        else spanprof_i_drop(self);
    }
    if (generation) {
        if (open) {
            span.pos = open->pos;
        } else if (!self->lane->window) { /* such a thread's pairs are nowhere counted */
        } else if (spanprof_i_deepen(self)) {
            open = self->top++;
            memset(open, 0, sizeof *open);
            open->address = spanprof_i_address_inside(open - 1);
        } else {
            self->lane->too_deep++; /* its end comes before any of those on the stack */
        }
        if (open) open->kind = SPANPROF_I_PAIR;
        spanprof_i_release(self, generation);
    }
    if (meta) spanprof_i_put_meta(span, meta, site->set);
}
SPANPROF_I_NOINLINE void spanprof_i_push(spanprof_site *site, const spanprof_meta *meta) { spanprof_i_push_at(site, SPANPROF_I_NULL, meta, SPANPROF_I_FRAME()); }
SPANPROF_I_NOINLINE int spanprof_i_push_dyn(const char *name) {
    spanprof_i_push_at(SPANPROF_I_NULL, name ? name : "(null)", SPANPROF_I_NULL, SPANPROF_I_FRAME());
    return 1;
}

int spanprof_i_pop(void) {
    const uint64_t now = spanprof_i_now();
    spanprof_i_thread *self = SPANPROF_I_SELF();
    const uint32_t generation = self->lane && self->lane->session == SPANPROF_I_LOAD(&spanprof_i_current) ? spanprof_i_claim_end(self) : 0;
    spanprof_i_open *open = self->top - 1;
    if (generation) {
        while (open >= self->bottom && (spanprof_i_is_scope(open) || open->kind != SPANPROF_I_PAIR)) open--;
        if (!self->lane->window) {} /* its begin was dropped */
        else if (self->lane->too_deep) self->lane->too_deep--;
        else if (open >= self->bottom) spanprof_i_finish(self, open, open->ticks, now);
        else spanprof_i_orphan(self);
        spanprof_i_release(self, generation);
    } else {
        spanprof_i_orphan(self);
    }
    return 0;
}

spanprof_i_step spanprof_i_step_enter(int64_t step) {
    spanprof_i_thread *self = SPANPROF_I_SELF();
    const uint32_t generation = spanprof_i_claim(self, spanprof_i_frame());
    spanprof_i_step out = { 0, 0u, 0u };
    const uint64_t word = SPANPROF_I_CAST(uint64_t, step);
    if (generation && !self->lane->window) { spanprof_i_release(self, generation); return out; }
    if (!generation) return out;
    out.before = self->lane->step;
    out.had = self->lane->has_step;
    out.recorded = 1;
    spanprof_i_record(self, SPANPROF_RECORD_STEP, 1, 0, &word, 1, 0);
    self->lane->step = step;
    self->lane->has_step = 1;
    spanprof_i_release(self, generation);
    return out;
}
void spanprof_i_step_leave(spanprof_i_step *step) {
    spanprof_i_thread *self = SPANPROF_I_SELF();
    const uint32_t generation = spanprof_i_claim_end(self);
    const uint64_t word = SPANPROF_I_CAST(uint64_t, step->before);
    if (!generation) return;
    spanprof_i_record(self, SPANPROF_RECORD_STEP, step->had ? 1 : 0, 0, &word, 1, 0);
    self->lane->step = step->before;
    self->lane->has_step = step->had;
    spanprof_i_release(self, generation);
}

/* 10.11 public functions */

SPANPROF_I_NOINLINE spanprof_i_scope spanprof_i_enter_call(spanprof_site *site, void *address) {
    return spanprof_i_enter(site, SPANPROF_I_PTR(uintptr_t, address), SPANPROF_I_FRAME(), SPANPROF_I_LOAD(&spanprof_i_on));
}
void spanprof_i_leave_call(const spanprof_i_scope *scope) { spanprof_i_leave(scope); }
SPANPROF_I_NOINLINE spanprof_i_scope spanprof_i_enter_meta(spanprof_site *site, const spanprof_meta *meta, void *address) {
    const spanprof_i_scope scope = spanprof_i_enter(site, SPANPROF_I_PTR(uintptr_t, address), SPANPROF_I_FRAME(), SPANPROF_I_LOAD(&spanprof_i_on));
    if (scope.word) spanprof_i_put_meta(spanprof_current(), meta, site->set);
    return scope;
}

SPANPROF_I_NOINLINE spanprof_span spanprof_begin(spanprof_site *site) {
    spanprof_span none = { 0u };
    return SPANPROF_I_ON() ? spanprof_i_open_span(site, SPANPROF_I_NULL, 0, SPANPROF_I_FRAME(), SPANPROF_I_NULL) : none;
}
spanprof_span spanprof_begin_meta(spanprof_site *site, const spanprof_meta *meta) {
    const spanprof_span span = spanprof_begin(site);
    if (meta) spanprof_i_put_meta(span, meta, site->set);
    return span;
}
SPANPROF_I_NOINLINE spanprof_span spanprof_begin_dyn(const char *name) {
    spanprof_span none = { 0u };
    return SPANPROF_I_ON() ? spanprof_i_open_span(SPANPROF_I_NULL, name ? name : "(null)", 0, SPANPROF_I_FRAME(), SPANPROF_I_NULL) : none;
}
void spanprof_set_meta(spanprof_span span, const spanprof_meta *meta) {
    if (meta) spanprof_i_put_meta(span, meta, 0);
}
spanprof_span spanprof_current(void) {
    spanprof_span span = { 0u };
    if (SPANPROF_I_ON()) span.pos = spanprof_i_current_pos(SPANPROF_I_SELF());
    return span;
}

/* A hooked span's hooks run even when the span itself is dropped, so that what prepare opened elsewhere is closed. */
static void spanprof_i_begin_hooked(spanprof_hooked *h, spanprof_site *site, const spanprof_hooks *hooks, const spanprof_meta *meta, uintptr_t address, uintptr_t frame) {
    static spanprof_meta none; /* nothing set, never written */
    spanprof_i_thread *self = SPANPROF_I_SELF();
    spanprof_i_scope scope;
    const int error = errno;
    uint32_t generation;
    h->span.pos = 0;
    h->hooks = SPANPROF_I_NULL;
    h->prepare_error = SPANPROF_I_NULL;
    if (!hooks || !SPANPROF_I_ON()) return;
    if (SPANPROF_I_LOAD(&spanprof_i_on) != self->generation || !SPANPROF_I_LOAD(&site->id)) {
        generation = spanprof_i_claim(self, frame); /* opens the session: hooks run only while recording */
        if (!generation) return;
        (void)spanprof_i_known(site);
        spanprof_i_release(self, generation);
    }
    h->call.name = site->name;
    memset(h->call.scratch, 0, sizeof h->call.scratch);
    h->call.text[0] = 0;
    h->call.meta = *(meta ? meta : &none); /* a memset of this size is slow to start */
    h->call.meta.set |= site->set;
    if (hooks->prepare) h->prepare_error = hooks->prepare(hooks->user, &h->call);
    errno = error;
    h->hooks = hooks;
    scope = spanprof_i_enter(site, address ? address : spanprof_i_address_inside(self->top - 1), frame, SPANPROF_I_LOAD(&spanprof_i_on));
    if (!scope.word) return;
    self->top[-1].ticks = scope.start;
    self->top[-1].kind = SPANPROF_I_HANDLE;
    h->span.pos = spanprof_i_open_pos(self->lane, self->top - 1);
}
SPANPROF_I_NOINLINE void spanprof_i_scope_hooked(spanprof_hooked *h, spanprof_site *site, const spanprof_hooks *hooks, const spanprof_meta *meta) {
    spanprof_i_begin_hooked(h, site, hooks, meta, SPANPROF_I_PTR(uintptr_t, h), SPANPROF_I_FRAME());
}
SPANPROF_I_NOINLINE void spanprof_hooked_begin(spanprof_hooked *h, spanprof_site *site, const spanprof_hooks *hooks, const spanprof_meta *meta) {
    spanprof_i_begin_hooked(h, site, hooks, meta, 0, SPANPROF_I_FRAME());
}
static void spanprof_i_join_error(char *out, size_t bytes, const char *phase, const char *error) {
    if (!error) return;
    if (out[0]) spanprof_i_append(out, bytes, "; ");
    spanprof_i_append(out, bytes, phase);
    spanprof_i_append(out, bytes, error);
}
void spanprof_hooked_end(spanprof_hooked *h) {
    const spanprof_hooks *hooks = h->hooks;
    spanprof_i_thread *self = SPANPROF_I_SELF();
    const char *errors[3], *given;
    char joined[1024];
    const int error = errno;
    spanprof_i_open *open;
    uint32_t generation;
    uint64_t now;
    if (!hooks) return;
    h->hooks = SPANPROF_I_NULL;
    errors[0] = h->prepare_error;
    errors[1] = hooks->complete_timing ? hooks->complete_timing(hooks->user, &h->call) : SPANPROF_I_NULL;
    now = spanprof_i_now();
    errors[2] = hooks->enrich ? hooks->enrich(hooks->user, &h->call) : SPANPROF_I_NULL;
    given = h->call.meta.hook_error;
    joined[0] = 0;
    if (given || errors[0] || errors[1] || errors[2]) {
        spanprof_i_join_error(joined, sizeof joined, "", given);
        spanprof_i_join_error(joined, sizeof joined, "prepare: ", errors[0]);
        spanprof_i_join_error(joined, sizeof joined, "complete_timing: ", errors[1]);
        spanprof_i_join_error(joined, sizeof joined, "enrich: ", errors[2]);
    }
    if (!h->span.pos) return;
    generation = self->lane && !((h->span.pos ^ self->lane->pos) >> SPANPROF_POS_WORD_BITS) ? spanprof_i_claim_end(self) : 0;
    for (open = self->top - 1; generation && open >= self->bottom && spanprof_i_open_pos(self->lane, open) != h->span.pos; open--) {}
    if (generation && open >= self->bottom) {
        /* The metadata goes first: the span is still open then, whatever stands between. */
        if (joined[0]) h->call.meta.hook_error = joined;
        spanprof_i_record_meta(self, h->span.pos, &h->call.meta, 0, 1);
        h->call.meta.hook_error = given;
        if (spanprof_i_is_scope(open)) spanprof_i_abandon_inside(self, open, now);
        spanprof_i_finish(self, open, open->ticks, now);
    } else {
        spanprof_i_orphan(self);
    }
    if (generation) spanprof_i_release(self, generation);
    errno = error;
}

void spanprof_i_dropped(uint64_t events) { SPANPROF_I_ADD(&spanprof_i_stray_drops, events); }

void spanprof_thread_name(const char *name) {
    spanprof_i_thread *self = SPANPROF_I_SELF();
    spanprof_i_cold cold;
    const uint32_t on = SPANPROF_I_LOAD(&spanprof_i_on);
    snprintf(SPANPROF_I_NAME(), 48, "%s", name ? name : "");
    if (on < 2 || !self->lane || !spanprof_i_lock(&cold)) return;
    if (self->lane->session == spanprof_i_current && self->lane->window) spanprof_i_define_thread(self->lane->thread, name ? name : "");
    spanprof_i_unlock(&cold);
}

void spanprof_track_span(spanprof_site *site, uint64_t track, uint64_t start_ns, uint64_t duration_ns, int64_t queue_ns, spanprof_span host) {
    spanprof_i_thread *self = SPANPROF_I_SELF();
    const uint32_t on = SPANPROF_I_LOAD(&spanprof_i_on);
    /* With a host span it is that span's late end, which counts while recording is paused, too. */
    const int late = host.pos != 0 && on > 1 && (on & 1u);
    const uint32_t generation = !on ? 0 : !late ? spanprof_i_claim_event(self, spanprof_i_frame())
                              : self->lane && self->lane->session == SPANPROF_I_LOAD(&spanprof_i_current) ? spanprof_i_claim_end(self) : 0;
    uint64_t words[5];
    if (!generation && late) spanprof_i_dropped(1);
    if (!generation) return;
    words[0] = host.pos;
    words[1] = track;
    words[2] = start_ns;
    words[3] = duration_ns;
    words[4] = SPANPROF_I_CAST(uint64_t, queue_ns);
    if (!spanprof_i_room(self, 6) || !spanprof_i_known(site) || !spanprof_i_allowed(self)) spanprof_i_drop(self);
    else spanprof_i_record(self, SPANPROF_RECORD_TRACK_SPAN, 0, SPANPROF_I_LOAD(&site->id), words, 5, 1);
    spanprof_i_release(self, generation);
}
void spanprof_track_name(uint64_t track, const char *process, uint32_t group, const char *name) {
    spanprof_i_cold cold;
    const char *texts[2];
    uint64_t words[2];
    if (!spanprof_recording() || !spanprof_i_lock(&cold)) return;
    texts[0] = process;
    texts[1] = name;
    words[0] = track;
    words[1] = group;
    spanprof_i_define(SPANPROF_RECORD_TRACK_NAME, 0, words, 2, texts, 2, 1);
    spanprof_i_unlock(&cold);
}

void spanprof_i_on_flush(void (*callback)(int closing)) { SPANPROF_I_STORE(&spanprof_i_flush_callback, callback); }
static void spanprof_i_call_flush_callback(int closing) {
    void (*const callback)(int closing) = SPANPROF_I_LOAD(&spanprof_i_flush_callback);
    if (callback) callback(closing);
}

int spanprof_recording(void) {
    const uint32_t on = SPANPROF_I_LOAD(&spanprof_i_on);
    return on > 1 && !(on & 1u);
}
const char *spanprof_status_text(spanprof_status status) {
    switch (status) {
#define SPANPROF_I_X(name, value, text) case name: return text;
        SPANPROF_STATUS_LIST(SPANPROF_I_X)
#undef SPANPROF_I_X
    case SPANPROF_I_STATUS_END: break;
    }
    return "unknown status";
}

spanprof_status spanprof_start(const spanprof_config *config) {
    spanprof_i_cold cold;
    spanprof_status status = SPANPROF_ERR_STATE;
    if (!spanprof_i_lock(&cold)) return SPANPROF_ERR_STATE;
    if (!spanprof_i_current) status = spanprof_i_open_session(config);
    if (!spanprof_i_current) SPANPROF_I_PUBLISH(&spanprof_i_on, 0u);
    spanprof_i_unlock(&cold);
    return status;
}

/* Events in a lane's window, and its spans without end. Reads what the owner may be writing: heads with acquire, so that
 * the words after them are whole. */
static void spanprof_i_count_window(const spanprof_i_lane *lane, uint64_t base, uint64_t *events, uint64_t *open) {
    const uint64_t *word = spanprof_i_first_word(lane->window);
    const uint64_t *const end = word + SPANPROF_I_WORDS;
    size_t length;
    uint64_t head;
    for (; word < end && (head = SPANPROF_I_ACQUIRE(word)) != 0; word += length) {
        const uint64_t type = head & 1u ? SPANPROF_I_CAST(uint64_t, SPANPROF_RECORD_SPAN) : SPANPROF_RECORD_TYPE(head);
        length = spanprof_i_length(head);
        /* No head: the window was begun anew in the midst of this look. */
        if (length > SPANPROF_I_CAST(size_t, end - word) || (!(head & 1u) && length < 2)) return;
        if ((type == SPANPROF_RECORD_SPAN || type == SPANPROF_RECORD_SPAN_DYN) && !(head & 1u) && length < 3) return;
        switch (type) {
        case SPANPROF_RECORD_SPAN:
        case SPANPROF_RECORD_SPAN_DYN:
            ++*events;
            if (head & 1u ? head >> SPANPROF_SHORT_DURATION_SHIFT == 0 : SPANPROF_I_LOAD(word + 2) == 0) ++*open;
            break;
        case SPANPROF_RECORD_END: /* of a span of this window whose own word shows no end */
            if (SPANPROF_I_LOAD(word + 1) - base < SPANPROF_I_WORDS) --*open;
            break;
        case SPANPROF_RECORD_INSTANT: case SPANPROF_RECORD_COUNTER: case SPANPROF_RECORD_ASYNC_BEGIN: case SPANPROF_RECORD_ASYNC_END:
        case SPANPROF_RECORD_FLOW_OUT: case SPANPROF_RECORD_FLOW_IN: case SPANPROF_RECORD_TRACK_SPAN: ++*events; break;
        default: break;
        }
    }
}

/* Adds a lane's figures. A window that is written out meanwhile is looked at again: its number or its state tells. */
static void spanprof_i_count_lane(const spanprof_i_lane *lane, spanprof_session_stats *out) {
    uint64_t recorded = 0, unfinished = 0;
    int tries;
    for (tries = 0; tries < 1000; tries++) {
        const uint64_t seq = SPANPROF_I_ACQUIRE(&lane->seq);
        const int whole = SPANPROF_I_ACQUIRE(&lane->window->state) == SPANPROF_BLOCK_OPEN;
        recorded = SPANPROF_I_LOAD(&lane->events) - SPANPROF_I_LOAD(&lane->overwritten);
        unfinished = SPANPROF_I_LOAD(&lane->open_before);
        spanprof_i_count_window(lane, spanprof_i_lane_pos(lane), &recorded, &unfinished);
        if (whole && SPANPROF_I_ACQUIRE(&lane->seq) == seq && SPANPROF_I_ACQUIRE(&lane->window->state) == SPANPROF_BLOCK_OPEN) break;
    }
    out->recorded += recorded;
    out->unfinished += unfinished;
    out->dropped += SPANPROF_I_LOAD(&lane->window->dropped);
}

static void spanprof_i_add_strays(spanprof_i_session *session) {
    const uint64_t drops = SPANPROF_I_LOAD(&spanprof_i_stray_drops), orphans = SPANPROF_I_LOAD(&spanprof_i_stray_orphans);
    SPANPROF_I_ADD(&session->header->dropped, drops);
    SPANPROF_I_ADD(&session->header->orphan_ends, orphans);
    SPANPROF_I_ADD(&spanprof_i_stray_drops, 0 - drops);
    SPANPROF_I_ADD(&spanprof_i_stray_orphans, 0 - orphans);
}

static void spanprof_i_collect(spanprof_i_session *session, spanprof_session_stats *out) {
    const uint32_t on = SPANPROF_I_LOAD(&spanprof_i_on);
    const spanprof_i_lane *lane;
    uint64_t elsewhere;
    memset(out, 0, sizeof *out);
    spanprof_i_add_strays(session);
    for (lane = session->lanes; lane; lane = lane->next) spanprof_i_count_lane(lane, out);
    elsewhere = SPANPROF_I_LOAD(&session->foreign_ends);
    out->unfinished -= elsewhere < out->unfinished ? elsewhere : out->unfinished; /* other threads may have ended one twice */
    out->dropped += SPANPROF_I_LOAD(&session->header->dropped);
    out->bytes = spanprof_i_file_size(session);
    out->threads = session->threads;
    out->snapshots = session->snapshots;
    out->recording = session->open && on > 1 && !(on & 1u) && !session->told;
    memcpy(out->path, session->path, sizeof out->path);
}

/* Last anchor, resources, and why the recording ended. */
static void spanprof_i_close_books(spanprof_i_session *session, uint32_t state) {
    spanprof_i_add_strays(session);
    spanprof_i_anchor(session, 1);
    session->header->usage_valid = SPANPROF_I_CAST(uint32_t, spanprof_i_usage(&session->header->usage_last));
    SPANPROF_I_PUBLISH(&session->header->state, state);
    spanprof_i_store_private(session);
}

spanprof_status spanprof_stop(void) {
    spanprof_i_thread *self = SPANPROF_I_SELF();
    spanprof_i_cold cold;
    spanprof_i_session *session;
    spanprof_status status = SPANPROF_ERR_STATE;
    if (SPANPROF_I_LOAD(&spanprof_i_on) > 1) spanprof_i_call_flush_callback(1);
    if (!spanprof_i_lock(&cold)) return SPANPROF_ERR_STATE;
    session = spanprof_i_current;
    if (session) {
        SPANPROF_I_PUBLISH(&spanprof_i_on, 0u);
        SPANPROF_I_STORE(&spanprof_i_current, SPANPROF_I_CAST(spanprof_i_session *, SPANPROF_I_NULL));
        session->open = 0;
        spanprof_i_close_books(session, SPANPROF_DUMP_STOPPED);
        spanprof_i_collect(session, &spanprof_i_last);
        status = SPANPROF_I_LOAD(&session->header->write_error) ? SPANPROF_ERR_WRITE : SPANPROF_OK;
        spanprof_i_schedule_plan.set = 0;
        if (self->lane && self->lane->session == session) spanprof_i_detach(self);
        if (--session->refs == 0) spanprof_i_session_destroy(session);
    }
    spanprof_i_unlock(&cold);
    return status;
}

static spanprof_status spanprof_i_set_paused(uint32_t paused) {
    spanprof_i_cold cold;
    spanprof_status status = SPANPROF_ERR_STATE;
    if (!spanprof_i_lock(&cold)) return SPANPROF_ERR_STATE;
    spanprof_i_decide();
    if (spanprof_i_current) {
        spanprof_i_paused = paused;
        spanprof_i_apply();
        status = SPANPROF_OK;
    }
    spanprof_i_unlock(&cold);
    return status;
}
spanprof_status spanprof_pause(void) { return spanprof_i_set_paused(1); }
spanprof_status spanprof_resume(void) { return spanprof_i_set_paused(0); }

spanprof_status spanprof_schedule(uint64_t skip_first, uint64_t wait, uint64_t warmup, uint64_t active, uint64_t repeat) {
    spanprof_i_cold cold;
    spanprof_i_plan plan;
    memset(&plan, 0, sizeof plan);
    plan.skip_first = skip_first;
    plan.wait = wait;
    plan.warmup = warmup;
    plan.active = active;
    plan.repeat = repeat;
    plan.set = 1;
    if (!spanprof_i_plan_valid(&plan)) return SPANPROF_ERR_ARGUMENT;
    if (!spanprof_i_lock(&cold)) return SPANPROF_ERR_STATE;
    spanprof_i_schedule_plan = plan;
    spanprof_i_apply();
    spanprof_i_unlock(&cold);
    return SPANPROF_OK;
}

spanprof_status spanprof_step(void) {
    spanprof_i_cold cold;
    spanprof_status status;
    if (!SPANPROF_I_ON()) return SPANPROF_ERR_STATE;
    if (!spanprof_i_lock(&cold)) return SPANPROF_ERR_STATE;
    spanprof_i_decide();
    if (spanprof_i_schedule_plan.set) {
        spanprof_i_schedule_plan.step++;
        spanprof_i_apply();
    }
    status = spanprof_i_current ? SPANPROF_OK : SPANPROF_ERR_STATE;
    spanprof_i_unlock(&cold);
    return status;
}

spanprof_status spanprof_stats(spanprof_session_stats *out) {
    spanprof_i_cold cold;
    spanprof_status status = SPANPROF_OK;
    if (!out) return SPANPROF_ERR_ARGUMENT;
    if (!spanprof_i_lock(&cold)) return SPANPROF_ERR_STATE;
    spanprof_i_decide();
    if (spanprof_i_current) spanprof_i_collect(spanprof_i_current, out);
    else if (spanprof_i_last.path[0]) *out = spanprof_i_last;
    else { memset(out, 0, sizeof *out); status = SPANPROF_ERR_STATE; }
    spanprof_i_unlock(&cold);
    return status;
}

/* One lane of a ring into the snapshot. The window goes first, then the copies from the newest back: the ring is
 * overwritten from its oldest end, so the first copy that is not the expected one ends what is whole. */
static int spanprof_i_snapshot_lane(spanprof_i_session *session, spanprof_i_session *copy, const spanprof_i_lane *lane, char *block) {
    spanprof_i_buffer buffer;
    spanprof_dump_block head, after;
    uint64_t seq;
    uint32_t i;
    int error, tries;
    buffer.data = block;
    buffer.bytes = SPANPROF_WINDOW_BYTES;
    for (tries = 0; tries < 1000; tries++) { /* until it was not written out and begun anew meanwhile */
        const uint64_t seen = SPANPROF_I_ACQUIRE(&lane->seq);
        if (session->is_private) memcpy(block, lane->window, SPANPROF_WINDOW_BYTES);
        else if (!spanprof_i_read_at(session, block, SPANPROF_WINDOW_BYTES, lane->offset)) return EIO;
        memcpy(&head, block, sizeof head);
        if (SPANPROF_I_ACQUIRE(&lane->seq) == seen && head.seq == seen && head.state == SPANPROF_BLOCK_OPEN) break;
    }
    error = spanprof_i_write_at(copy, &buffer, 1, lane->offset);
    for (i = 0, seq = head.seq; i < lane->ring_blocks && seq > 0 && !error; i++) {
        const uint64_t offset = SPANPROF_I_LOAD(&lane->slots[--seq % lane->ring_blocks].offset);
        if (!offset || !spanprof_i_read_at(session, block, SPANPROF_WINDOW_BYTES, offset)) break;
        memcpy(&head, block, sizeof head);
        /* A newer block begins to take its place with the head: one that is the same afterwards had all its words. */
        if (head.seq != seq || !spanprof_i_read_at(session, &after, sizeof after, offset) || after.seq != seq) break;
        error = spanprof_i_write_at(copy, &buffer, 1, offset);
    }
    return error;
}

/* Copies a ring's dump while it is being written. */
static spanprof_status spanprof_i_snapshot(spanprof_i_session *session) {
    spanprof_i_session copy;
    char *block = SPANPROF_I_CAST(char *, spanprof_i_pages(SPANPROF_WINDOW_BYTES));
    const spanprof_i_lane *lane;
    spanprof_dump_header header;
    spanprof_i_buffer buffer;
    char number[24];
    int error = block ? 0 : ENOMEM;
    memset(&copy, 0, sizeof copy);
    memset(&header, 0, sizeof header);
    snprintf(number, sizeof number, ".%llu", SPANPROF_I_CAST(unsigned long long, session->snapshots + 1));
    if (!error && (!spanprof_i_append(copy.path, sizeof copy.path, session->path) || !spanprof_i_append(copy.path, sizeof copy.path, number))) error = ENAMETOOLONG;
    if (!error) error = spanprof_i_create_file(&copy);
    if (error) {
        spanprof_i_unmap(block, SPANPROF_WINDOW_BYTES);
        return SPANPROF_ERR_OPEN;
    }
    for (lane = session->lanes; lane && !error; lane = lane->next) error = spanprof_i_snapshot_lane(session, &copy, lane, block);
    /* As the file has it: others count in the header meanwhile. */
    if (session->is_private) memcpy(&header, session->header, sizeof header);
    else if (!error && !spanprof_i_read_at(session, &header, sizeof header, 0)) error = EIO;
    header.flags |= SPANPROF_DUMP_SNAPSHOT;
    header.sum = spanprof_dump_sum(&header, offsetof(spanprof_dump_header, sum));
    buffer.data = &header;
    buffer.bytes = sizeof header;
    if (!error) error = spanprof_i_write_at(&copy, &buffer, 1, 0);
    spanprof_i_close_file(&copy);
    spanprof_i_unmap(block, SPANPROF_WINDOW_BYTES);
    if (!error) session->snapshots++;
    return error ? SPANPROF_ERR_WRITE : SPANPROF_OK;
}

spanprof_status spanprof_flush(void) {
    spanprof_i_cold cold;
    spanprof_status status = SPANPROF_ERR_STATE;
    if (SPANPROF_I_LOAD(&spanprof_i_on) > 1) spanprof_i_call_flush_callback(0);
    if (!spanprof_i_lock(&cold)) return SPANPROF_ERR_STATE;
    spanprof_i_decide();
    if (spanprof_i_current) {
        spanprof_i_session *session = spanprof_i_current;
        spanprof_i_anchor(session, 1);
        spanprof_i_store_private(session);
        if (session->ring_blocks) status = spanprof_i_snapshot(session);
        else status = spanprof_i_sync(session) || SPANPROF_I_LOAD(&session->header->write_error) ? SPANPROF_ERR_WRITE : SPANPROF_OK;
    }
    spanprof_i_unlock(&cold);
    return status;
}

/* The program ends, or the library that holds this code is unloaded. Recording goes on after it in a program: static
 * destructors that come later still find their way into the dump. A library takes everything of its own back that no
 * other thread can be using. */
static void spanprof_i_at_end(void) {
#if defined(__PIC__) && !defined(__PIE__) && !SPANPROF_I_WINDOWS
    spanprof_i_thread *self = SPANPROF_I_SELF();
    const int is_library = spanprof_i_is_library();
#endif
    spanprof_i_cold cold;
    if (SPANPROF_I_LOAD(&spanprof_i_on) == 0) return; /* 1: another thread may be opening the session, so wait for it */
    if (SPANPROF_I_LOAD(&spanprof_i_on) > 1) spanprof_i_call_flush_callback(1);
    if (!spanprof_i_lock(&cold)) return;
    if (spanprof_i_current) spanprof_i_close_books(spanprof_i_current, SPANPROF_DUMP_EXITED);
#if defined(__PIC__) && !defined(__PIE__) && !SPANPROF_I_WINDOWS
    if (is_library && spanprof_i_current) {
        spanprof_i_session *session = spanprof_i_current;
        SPANPROF_I_PUBLISH(&spanprof_i_on, 0u);
        SPANPROF_I_STORE(&spanprof_i_current, SPANPROF_I_CAST(spanprof_i_session *, SPANPROF_I_NULL));
        session->open = 0;
        if (self->lane && self->lane->session == session) spanprof_i_detach(self);
        if (--session->refs == 0) spanprof_i_session_destroy(session);
    }
    if (is_library) spanprof_i_unhook_from_system();
#endif
    spanprof_i_unlock(&cold);
}
/* 10.12 every function: -finstrument-functions */

#if defined(SPANPROF_INSTRUMENT_FUNCTIONS) && SPANPROF_I_GNU && !SPANPROF_I_WINDOWS
#include <link.h>

/* A function seen, and its site. The table is read without a lock; it never moves, and is at most three quarters full. */
#define SPANPROF_I_FUNCTIONS_MAX (1u << 18)
typedef struct spanprof_i_function { uintptr_t address; spanprof_site site; char name[24]; } spanprof_i_function;
static spanprof_i_function **spanprof_i_functions;
static uint32_t spanprof_i_functions_used;
static struct { uintptr_t low, high; } spanprof_i_modules[512];
static uint32_t spanprof_i_modules_used;

/* Defines the program and libraries that are loaded now, so that the converter can name addresses. */
static int spanprof_i_define_module(struct dl_phdr_info *info, size_t bytes, void *unused) {
    uintptr_t low = SPANPROF_I_HIGHEST, high = 0;
    char self[SPANPROF_I_PATH_MAX];
    const char *path = info->dlpi_name;
    uint64_t words[3];
    uint32_t i;
    (void)bytes;
    (void)unused;
    for (i = 0; i < info->dlpi_phnum; i++) {
        const uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
        if (start < low) low = start;
        if (start + info->dlpi_phdr[i].p_memsz > high) high = start + info->dlpi_phdr[i].p_memsz;
    }
    for (i = 0; i < spanprof_i_modules_used; i++)
        if (spanprof_i_modules[i].low == low && spanprof_i_modules[i].high == high) return 0;
    if (i == sizeof spanprof_i_modules / sizeof spanprof_i_modules[0] || low >= high) return 0;
    if (!path || !*path) {
        const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
        self[n > 0 ? n : 0] = 0;
        path = self;
    }
    words[0] = info->dlpi_addr;
    words[1] = low;
    words[2] = high;
    if (spanprof_i_define(SPANPROF_RECORD_MODULE, 0, words, 3, &path, 1, 1)) {
        spanprof_i_modules[i].low = low;
        spanprof_i_modules[i].high = high;
        spanprof_i_modules_used++;
    }
    return 0;
}

/* Gives a function a site, under its address as a name. Under the lock. */
static spanprof_i_function *spanprof_i_add_function(uintptr_t address, uint32_t place) {
    spanprof_i_function *function;
    const char *texts[3];
    uint64_t words[2];
    uint32_t i;
    if (!spanprof_i_functions) spanprof_i_functions = SPANPROF_I_CAST(spanprof_i_function **, spanprof_i_pages(SPANPROF_I_FUNCTIONS_MAX * sizeof *spanprof_i_functions));
    if (!spanprof_i_functions || spanprof_i_functions_used >= SPANPROF_I_FUNCTIONS_MAX / 4 * 3) return SPANPROF_I_NULL;
    while (spanprof_i_functions[place] && spanprof_i_functions[place]->address != address) place = (place + 1) % SPANPROF_I_FUNCTIONS_MAX;
    if (spanprof_i_functions[place]) return spanprof_i_functions[place];
    for (i = 0; i < spanprof_i_modules_used && (address < spanprof_i_modules[i].low || address >= spanprof_i_modules[i].high); i++) {}
    if (i == spanprof_i_modules_used) dl_iterate_phdr(spanprof_i_define_module, SPANPROF_I_NULL);
    function = SPANPROF_I_CAST(spanprof_i_function *, spanprof_i_small(sizeof *function));
    if (!function) return SPANPROF_I_NULL;
    function->address = address;
    snprintf(function->name, sizeof function->name, "0x%llx", SPANPROF_I_CAST(unsigned long long, address));
    function->site.name = function->name;
    texts[0] = function->name;
    texts[1] = texts[2] = SPANPROF_I_NULL;
    words[0] = 0;
    words[1] = address;
    if (!spanprof_i_define(SPANPROF_RECORD_SITE, spanprof_i_sites + 1u, words, 2, texts, 3, 1)) return SPANPROF_I_NULL;
    spanprof_i_number(&function->site);
    spanprof_i_functions_used++;
    SPANPROF_I_PUBLISH(&spanprof_i_functions[place], function);
    return function;
}

static spanprof_i_function *spanprof_i_find_function(uintptr_t address) {
    const uint32_t home = SPANPROF_I_CAST(uint32_t, (SPANPROF_I_CAST(uint64_t, address) * 0x9e3779b97f4a7c15ull) >> 46);
    spanprof_i_function **table = SPANPROF_I_LOAD(&spanprof_i_functions);
    spanprof_i_function *function = SPANPROF_I_NULL;
    spanprof_i_cold cold;
    uint32_t place;
    for (place = home; table; place = (place + 1) % SPANPROF_I_FUNCTIONS_MAX) {
        function = SPANPROF_I_ACQUIRE(&table[place]);
        if (!function || function->address == address) break;
    }
    if (function) return function;
    if (!SPANPROF_I_SELF()->lane && spanprof_i_join(SPANPROF_I_SELF()) < 2) return SPANPROF_I_NULL;
    if (!spanprof_i_lock(&cold)) return SPANPROF_I_NULL;
    if (spanprof_i_current) function = spanprof_i_add_function(address, home);
    spanprof_i_unlock(&cold);
    return function;
}

#ifdef __cplusplus
extern "C" {
#endif
SPANPROF_I_PLAIN void __cyg_profile_func_enter(void *address, void *caller);
SPANPROF_I_PLAIN void __cyg_profile_func_exit(void *address, void *caller);
#ifdef __cplusplus
}
#endif

void __cyg_profile_func_enter(void *address, void *caller) {
    const uint32_t on = SPANPROF_I_LOAD(&spanprof_i_on);
    spanprof_i_thread *self = SPANPROF_I_SELF();
    spanprof_i_function *function;
    spanprof_i_scope scope;
    (void)caller;
    if (on == 0 || (on != 1 && (on & 1u)) || *SPANPROF_I_INSIDE() || (self->lane && !self->generation)) return;
    function = spanprof_i_find_function(SPANPROF_I_PTR(uintptr_t, address));
    if (!function) return;
    scope = spanprof_i_enter(&function->site, spanprof_i_address_inside(self->top - 1), SPANPROF_I_FRAME(), SPANPROF_I_LOAD(&spanprof_i_on));
    if (!scope.word) return;
    self->top[-1].ticks = scope.start;
    self->top[-1].kind = SPANPROF_I_FUNCTION;
    self->top[-1].function = SPANPROF_I_PTR(uintptr_t, address);
}

void __cyg_profile_func_exit(void *address, void *caller) {
    const uint64_t now = spanprof_i_now();
    spanprof_i_thread *self = SPANPROF_I_SELF();
    spanprof_i_open *open;
    uint32_t generation;
    (void)caller;
    if (*SPANPROF_I_INSIDE() || self->top == self->bottom) return;
    generation = spanprof_i_claim_end(self);
    if (!generation) return;
    for (open = self->top - 1; open >= self->bottom; open--)
        if (!spanprof_i_is_scope(open) && open->kind == SPANPROF_I_FUNCTION && open->function == SPANPROF_I_PTR(uintptr_t, address)) break;
    if (open >= self->bottom) {
        spanprof_i_abandon_inside(self, open, now); /* left by longjmp */
        spanprof_i_finish(self, open, open->ticks, now);
    }
    spanprof_i_release(self, generation);
}
#endif

#if SPANPROF_I_GNU
__attribute__((destructor)) static void spanprof_i_destructor(void) { spanprof_i_at_end(); }
#endif
#if defined(__cplusplus) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif /* SPANPROF_IMPLEMENTATION */
