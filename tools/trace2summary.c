/* trace2summary.c - turns spanprof dumps and Trace Event JSON into a trace, a summary and a table.
 * SPDX-License-Identifier: MIT. Part of spanprof; the dump format is that of ../spanprof.h, section 9.
 *
 * In:    dumps of spanprof; Trace Event JSON, plain or gzipped (.json, .json.gz); - is standard input.
 * Out:   trace JSON (Perfetto, chrome://tracing, speedscope), summary JSON, a table; on request folded stacks, a
 *        picture of the time line, CSV. An output is written beside its place and renamed, so it appears whole or not at all.
 * Exit:  0 done; 1 a regression (compare); 2 wrong usage; 3 an input was damaged, the readable part was converted;
 *        4 an output could not be written, or memory ran out.
 *
 * How a dump is read. It is mapped, and a first look at each block collects the names, checks every record and notes the
 * records that speak of a span in an earlier block (its end, its metadata). After that each span's end is known where the
 * span begins, so that every later pass, over a lane in order, needs no more than a stack of open spans. Memory grows
 * with names, threads, depth and spans that cross a block's end, never with the number of events. (Two exceptions keep
 * some 40 bytes each: asynchronous operations and spans on tracks of their own, whose parts may lie in any lane.)
 *
 * Foreign JSON promises no order, so its spans are kept (24 bytes each) and become a dump in memory, after which both
 * kinds of input go the same way.
 *
 * Contents: limits; types; memory, text and diagnostics; names; inputs; dump reader; clock; inflate; Trace Event JSON;
 * spans of foreign JSON; rows and statistics; span matching; passes; ids; outputs; trace; table; summary; CSV; call tree; SVG;
 * compare; run; reading all inputs; usage and options; main.
 */
#define _DEFAULT_SOURCE 1
#define _DARWIN_C_SOURCE 1
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64
#define __USE_MINGW_ANSI_STDIO 1

#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#ifdef _WIN32
#include <io.h>
#define OPEN_FLAGS O_BINARY
#define OPEN_NONBLOCK 0
__declspec(dllimport) int __stdcall MoveFileExA(const char *from, const char *to, unsigned long flags);
#else
#ifdef O_CLOEXEC
#define OPEN_FLAGS O_CLOEXEC
#else
#define OPEN_FLAGS 0
#endif
#define OPEN_NONBLOCK O_NONBLOCK
#include <dirent.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif
#include <sys/mman.h>
#include <sys/wait.h>
#endif

#define SPANPROF_DUMP_FORMAT
#include "../spanprof.h"

/* ---- limits ----------------------------------------------------------------------------------------------------- */

#define BLOCK_BYTES_MIN 4096u
#define BLOCK_BYTES_MAX (64u << 20)
#define LANES_MAX (1u << SPANPROF_POS_LANE_BITS)
/* Times beyond it are damage: ticks and nanoseconds stay far from the end of 64 bits. */
#define TIME_MAX (UINT64_C(1) << 62)
/* Mapped inputs larger than this do not stay in memory as a whole. */
#ifndef RELEASE_FROM
#define RELEASE_FROM (64u << 20)
#endif
#define ISSUES_KEPT 100u
#define COMPLAINTS_SHOWN 8u
#define JOBS_MAX 64u
/* Blocks of one unit of parallel work. */
#ifndef TASK_BLOCKS
#define TASK_BLOCKS 8u
#endif
/* Anchors of the clock closer than this say more about their own jitter than about the clock. */
#define ANCHOR_GAP_NS UINT64_C(50000000)
#define ANCHORS_MAX 4096u
/* First pid of the tracks that are no threads; Linux has no higher thread id than OS_TID_MAX. */
#define TRACK_PID 1000000u
/* Tracks and groups of tracks that a process has at most. */
#define TRACKS_MAX 65536u
#define GROUPS_MAX 1024u
#define OS_TID_MAX 4194304u
/* Threads of a dump up to which they are looked for in other dumps of the process. */
#define THREADS_COMPARED 4096u

enum { EXIT_DONE = 0, EXIT_REGRESSION = 1, EXIT_USAGE = 2, EXIT_DAMAGED = 3, EXIT_OUTPUT = 4 };

#if defined(__GNUC__) || defined(__clang__)
#ifdef __MINGW_PRINTF_FORMAT
#define PRINTF_LIKE(text, first) __attribute__((format(__MINGW_PRINTF_FORMAT, text, first)))
#else
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
#endif
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#else
#define PRINTF_LIKE(text, first)
#define ALWAYS_INLINE static inline
#define NOINLINE
#define LIKELY(x) (x)
#endif

/* ---- types ------------------------------------------------------------------------------------------------------ */

/* Text that somebody else owns. */
typedef struct slice {
    const char *p;
    size_t n;
} slice;

/* Text that grows. Running out of memory sets `failed` and drops what follows: checked once, at the end. */
typedef struct textbuf {
    char *p;
    size_t n, cap;
    bool failed;
} textbuf;

typedef enum args_mode { ARGS_NONE, ARGS_SET, ARGS_FULL } args_mode;
typedef enum sort_key { SORT_SELF, SORT_TOTAL, SORT_CALLS, SORT_P95 } sort_key;

typedef struct options {
    const char **inputs;
    size_t input_count;
    const char *trace, *summary, *folded, *csv, *svg, *spans; /* NULL: not asked for */
    int no_table, quiet, event_timings, by_process;
    uint64_t top, min_duration, window_from, window_to;
    uint64_t cycle; /* 0: all */
    args_mode args;
    sort_key sort;
    unsigned jobs;
    char *own[2]; /* paths made up for the two outputs */
} options;

/* A name and its escaped form between quotes. Number 0 is the absent text. */
typedef struct name_entry {
    slice raw, json;
    uint64_t hash;
} name_entry;

typedef struct name_table {
    pthread_mutex_t lock;
    name_entry *list;
    size_t count, room;
    uint32_t *slots;
    size_t slot_count;
} name_table;

/* What a row of the summary stands for. */
enum { KEY_NAME, KEY_PHASE, KEY_ACTIVITY, KEY_BACKEND, KEY_DTYPE, KEY_DEVICE, KEY_MODULE, KEY_FIELDS };
typedef enum row_kind { ROW_SPAN, ROW_ASYNC, ROW_DEVICE } row_kind;
typedef struct row_key {
    uint32_t field[KEY_FIELDS]; /* numbers of names */
    uint32_t process;           /* 1 + index with --by-process, else 0 */
    uint32_t kind;
} row_key;

/* Durations are counted one by one below EXACT_BELOW, and in bins of 1/256 of their octave from there on. */
#define EXACT_BITS 12
#define EXACT_BELOW (UINT64_C(1) << EXACT_BITS)
#define BIN_BITS 8
#define BINS (1u << BIN_BITS)
#define EXACT_CHUNKS (1u << (EXACT_BITS - BIN_BITS))
#define CHUNKS (EXACT_CHUNKS + 64u - EXACT_BITS)
#ifndef LARGE_KEPT
#define LARGE_KEPT 4096u
#endif

typedef struct figures {
    uint64_t calls, total, self, min, max;
    uint64_t *bins[CHUNKS];
    uint64_t *large; /* durations from EXACT_BELOW on, while they are few */
    uint32_t large_count, large_room;
    uint32_t large_lost; /* 1: there were more than LARGE_KEPT */
    uint32_t wanted;     /* 1 + first of the ranges to count in a refinement pass, 0: none */
    uint64_t hook_errors, alloc_bytes, alloc_delta_bytes, peak_live_bytes;
} figures;

/* A range of durations that holds a wanted rank; passes over the events narrow it down to one value. */
typedef struct wanted_range {
    uint64_t low, step, cell_count; /* cell i counts low + i * step .. + step - 1 */
    uint64_t rank;                  /* from 1, among the values of the range */
    uint32_t row, which;
    uint32_t next; /* 1 + next of the same row */
    uint64_t *cells;
} wanted_range;
#ifndef RANGE_CELLS
#define RANGE_CELLS 16384u
#endif
#define RANGES_A_PASS 256u

enum { P50, P95, P99, PERCENTILES };
typedef struct row_entry {
    row_key key;
    figures sum;
    uint64_t percentile[PERCENTILES];
    uint64_t share;
} row_entry;

typedef struct row_table {
    pthread_mutex_t lock;
    row_entry *list;
    size_t count, room;
    uint32_t *slots;
    size_t slot_count;
} row_table;

typedef struct site_entry {
    uint32_t name, file, function; /* numbers of names; name 0: not defined */
    uint32_t row, category;        /* 1 + row of its spans and its category, where they come from JSON */
    uint64_t line, address;
    slice head; /* begin of the event of a plain span */
} site_entry;

typedef struct thread_entry {
    uint64_t system_id, ticks;
    uint32_t name;  /* 0: none given */
    uint32_t tid;   /* in the trace */
    uint32_t used;  /* wrote an event */
    uint32_t shared; /* is a thread of an earlier dump of the process */
    uint32_t is_track; /* the events of JSON on it are of a device */
    slice ids;      /* "pid":P,"tid":T, */
} thread_entry;

typedef struct track_entry {
    uint64_t number;
    uint32_t group, process_name, name;
    uint32_t pid, tid;
    uint32_t dump, lane; /* of the thread that it is in a trace of ours that is read again */
} track_entry;

typedef struct module_entry {
    uint64_t bias, low, high;
    uint32_t path;
} module_entry;

/* A block that takes part, in the order of its lane. */
typedef struct block_entry {
    const spanprof_dump_block *head;
    const uint64_t *words;
    uint64_t seq, offset; /* offset: in the file */
    uint32_t lane, count; /* words that hold valid records */
    uint32_t has_refs;    /* records that speak of other records of the block */
    uint32_t is_cut;      /* blocks are missing before it */
} block_entry;

/* A record in a later block that speaks of a span at word `target` of the lane. */
typedef struct far_ref {
    uint64_t target;
    const uint64_t *record;
    uint32_t lane; /* of the record */
    uint32_t order;
} far_ref;

/* Where open spans without an end are cut off: the lane changes its thread, or blocks are missing. */
typedef struct lane_cut {
    uint64_t word, ticks;
} lane_cut;

/* An open span of a lane. */
typedef struct open_span {
    uint64_t end;       /* ticks */
    figures *figures;   /* of its row; of no row when it is unfinished */
    uint64_t start;     /* ticks */
    uint64_t start_ns, end_ns;
    uint64_t index;     /* among the spans of the lane */
    uint64_t pos;       /* word in the lane */
    uint64_t shown_end; /* of the innermost span on the thread's own track that holds it */
    uint32_t crossing, unfinished;
    size_t node;        /* of the call tree, in the pass that builds one */
    uint64_t covered;   /* nanoseconds of its children */
} open_span;

/* The state before a block: a place where parallel work can begin. */
typedef struct checkpoint {
    uint64_t first_block; /* in the lane */
    uint64_t span_index, ticks;
    open_span *open;
    size_t open_count;
} checkpoint;

typedef struct lane_entry {
    size_t first, count; /* blocks */
    far_ref *refs;
    size_t ref_count, ref_room;
    lane_cut *cuts;
    size_t cut_count, cut_room;
    checkpoint *points;
    size_t point_count, point_room;
    uint64_t span_count, first_index; /* spans before it in the whole input */
    uint64_t dropped;
} lane_entry;

/* A stretch of the clock: ns = ns + (ticks - ticks0) * factor / 2^shift. */
typedef struct clock_part {
    uint64_t ticks, length, ns, factor;
    uint64_t quick; /* length, or 0 where the shift is not QUICK_SHIFT */
    uint32_t shift;
} clock_part;
#define QUICK_SHIFT 52u

typedef struct foreign_load foreign_load;

typedef struct dump_input {
    const char *path;
    unsigned char *data;
    size_t size, moved; /* moved: bytes lost at the begin of the file, so that blocks are aligned */
    uint64_t file_size; /* holes at its end included, which are not looked at */
    int mapped, releasable;
    spanprof_dump_header head;
    uint64_t words_in_block;
    block_entry *blocks;
    size_t block_count, block_room;
    lane_entry *lanes;
    size_t lane_count, lane_room, thread_room;
    site_entry *sites;
    size_t site_count;
    thread_entry *threads;
    size_t thread_count;
    module_entry *modules;
    size_t module_count, module_room;
    clock_part *clock;
    size_t clock_count;
    uint64_t shift_ns;   /* added to its nanoseconds (wrapping) to reach the common clock */
    const char *aligned; /* how shift_ns was found */
    uint64_t end_ticks;  /* last moment known */
    uint32_t process;    /* index */
    uint64_t overwritten, dropped;
    uint32_t is_json, shares_sites; /* shares: with the dump before it */
    foreign_load *foreign; /* where it comes from JSON */
    const void *foreign_pid;
    void **copies; /* of the blocks' headers */
    size_t copy_count, copy_room;
} dump_input;

typedef struct process_entry {
    uint64_t key;
    uint32_t pid, is_json;
    uint32_t name, host, label; /* label: the name, and the rank and host where there are several */
    int32_t rank;
    track_entry *tracks;
    size_t track_count, track_room;
    uint32_t *track_slots; /* 1 + index */
    size_t track_slot_count;
    uint32_t *groups; /* pairs of group and its pid */
    size_t group_count, group_room;
    size_t first_dump, end_dump; /* its dumps lie between */
} process_entry;

typedef struct async_event {
    uint64_t ns, id;
    uint32_t name, process, is_end, is_named;
} async_event;

typedef struct track_event {
    uint64_t start, duration;
    int64_t queue;
    uint32_t name, process, track, dump;
    const uint64_t *record; /* NULL: of JSON */
} track_event;

typedef struct issue_entry {
    uint64_t index;      /* UINT64_MAX: of no event; else of the span in its lane */
    uint32_t dump, lane;
    char message[160];
} issue_entry;

/* Everything that was read, and what the passes found. */
typedef struct session {
    const options *opt;
    name_table names;
    row_table rows;
    dump_input *dumps;
    size_t dump_count, dump_room;
    process_entry *processes;
    size_t process_count, process_room;
    uint32_t *process_order; /* by rank, then as they came */
    async_event *asyncs;
    size_t async_count, async_room;
    uint64_t *async_stack; /* begins that wait for an end: they nest */
    size_t async_stack_room;
    track_event *tracks;
    size_t track_count, track_room;
    pthread_mutex_t lock; /* of what follows */
    issue_entry issues[ISSUES_KEPT];
    size_t issue_count; /* all, kept or not */
    uint64_t complaint_count;
    int damaged, output_failed;
    uint64_t events, spans, unfinished, abandoned, crossing, threads, depth_max, dropped, overwritten, orphan_ends;
    uint64_t first_ns, last_ns, thread_time, async_unfinished, async_unmatched;
    uint64_t done_words, all_words;
    int progress_shown;
} session;

/* ---- memory, text and diagnostics ------------------------------------------------------------------------------- */

#define NO_OFFSET UINT64_MAX
#define SLICE(literal) ((slice){ (literal), sizeof(literal) - 1 })

/* One line on stderr: "trace2summary: FILE: byte N: what". */
PRINTF_LIKE(3, 4) static void diag(const char *file, uint64_t offset, const char *format, ...) {
    char line[1024];
    va_list arguments;
    int n = 0;
    va_start(arguments, format);
    n = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (n < 0) line[0] = '\0';
    if (offset != NO_OFFSET)
        fprintf(stderr, "trace2summary: %s%sbyte %" PRIu64 ": %s\n", file ? file : "", file ? ": " : "", offset, line);
    else
        fprintf(stderr, "trace2summary: %s%s%s\n", file ? file : "", file ? ": " : "", line);
}

/* How much one call of read or write is asked for: not every system takes more. */
static unsigned io_bytes(size_t n) { return (unsigned)(n < (1u << 30) ? n : 1u << 30); }

static bool slice_is(slice a, slice b) { return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0); }

/* Bytewise, a prefix first: the order of keys in every output. */
static int slice_order(slice a, slice b) {
    const size_t n = a.n < b.n ? a.n : b.n;
    const int order = n ? memcmp(a.p, b.p, n) : 0;
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

static slice slice_of(const char *text) { return (slice){ text, strlen(text) }; }

/* Makes room for `need` elements of `size` bytes, doubling; false leaves the old array as it was. The pointer is copied,
 * since an array of any type may stand there. */
static bool grow(void *array, size_t *cap, size_t need, size_t size) {
    void *old, *more;
    size_t n = *cap ? *cap : 16;
    if (need <= *cap) return true;
    while (n < need) {
        if (n > SIZE_MAX / 2) return false;
        n *= 2;
    }
    if (n > SIZE_MAX / size) return false;
    memcpy(&old, array, sizeof old);
    more = realloc(old, n * size);
    if (!more) return false;
    memcpy(array, &more, sizeof more);
    *cap = n;
    return true;
}

/* Files being written, so that whatever ends the program leaves no half of one behind. */
static char *unfinished_files[16];

/* Without memory nothing can be finished: the one place besides main that ends the program. */
static void out_of_memory(void) {
    size_t i;
    for (i = 0; i < sizeof unfinished_files / sizeof *unfinished_files; i++)
        if (unfinished_files[i]) unlink(unfinished_files[i]);
    diag(NULL, NO_OFFSET, "out of memory");
    _exit(EXIT_OUTPUT);
}

static void must_grow(void *array, size_t *cap, size_t need, size_t size) {
    if (!grow(array, cap, need, size)) out_of_memory();
}

/* Zeroed memory; never NULL. */
static void *must_alloc(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size ? size : 1);
    if (!memory) out_of_memory();
    return memory;
}

static bool text_room(textbuf *t, size_t more) {
    if (t->failed || more > SIZE_MAX - t->n - 1 || !grow(&t->p, &t->cap, t->n + more + 1, 1)) t->failed = true;
    return !t->failed;
}

static void text_put(textbuf *t, const char *p, size_t n) {
    if (n == 0 || !text_room(t, n)) return;
    memcpy(t->p + t->n, p, n);
    t->n += n;
}

static void text_byte(textbuf *t, char c) { text_put(t, &c, 1); }
static void text_str(textbuf *t, const char *s) { text_put(t, s, strlen(s)); }
static void text_slice(textbuf *t, slice s) { text_put(t, s.p, s.n); }

PRINTF_LIKE(2, 3) static void text_form(textbuf *t, const char *format, ...) {
    char line[512];
    va_list arguments;
    int n;
    va_start(arguments, format);
    n = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (n > 0) text_put(t, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

/* The text as a C string; NULL after running out of memory. */
static const char *text_end(textbuf *t) {
    if (!text_room(t, 0)) return NULL;
    t->p[t->n] = '\0';
    return t->p;
}

static void text_free(textbuf *t) {
    free(t->p);
    memset(t, 0, sizeof *t);
}

/* A copy that lives as long as the program; ends in a zero byte. */
static slice slice_copy(slice s) {
    char *copy = must_alloc(s.n + 1, 1);
    if (s.n) memcpy(copy, s.p, s.n);
    return (slice){ copy, s.n };
}

static void slice_free(slice s) { free((void *)(uintptr_t)s.p); }

static const char digit_pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
                                  "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
                                  "8081828384858687888990919293949596979899";

/* Decimal digits of v at p, which has room for 20; returns the end. */
ALWAYS_INLINE char *put_u64(char *p, uint64_t v) {
    char digits[20];
    unsigned at = 20;
    while (v >= 100) {
        const unsigned pair = (unsigned)(v % 100) * 2;
        v /= 100;
        at -= 2;
        memcpy(digits + at, digit_pairs + pair, 2);
    }
    if (v >= 10) {
        at -= 2;
        memcpy(digits + at, digit_pairs + v * 2, 2);
    } else {
        digits[--at] = (char)('0' + v);
    }
    memcpy(p, digits + at, 20 - at);
    return p + (20 - at);
}

/* Nanoseconds as microseconds with three decimals; p has room for 24. */
ALWAYS_INLINE char *put_us(char *p, uint64_t ns) {
    const uint64_t us = ns / 1000;
    const unsigned rest = (unsigned)(ns % 1000);
    p = put_u64(p, us);
    p[0] = '.';
    p[1] = (char)('0' + rest / 100);
    memcpy(p + 2, digit_pairs + rest % 100 * 2, 2);
    return p + 4;
}

static void text_u64(textbuf *t, uint64_t v) {
    if (text_room(t, 20)) t->n = (size_t)(put_u64(t->p + t->n, v) - t->p);
}

static void text_i64(textbuf *t, int64_t v) {
    if (v < 0) text_byte(t, '-');
    text_u64(t, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

static void text_us(textbuf *t, uint64_t ns) {
    if (text_room(t, 24)) t->n = (size_t)(put_us(t->p + t->n, ns) - t->p);
}

static bool is_finite(double v) { return v >= -DBL_MAX && v <= DBL_MAX; }

/* The shortest of three forms that reads back the same; null where JSON has no number. */
static void text_double(textbuf *t, double v) {
    char line[40];
    int digits;
    if (!is_finite(v)) {
        text_str(t, "null");
        return;
    }
    for (digits = 6; digits < 17; digits += digits == 6 ? 9 : 1) {
        snprintf(line, sizeof line, "%.*g", digits, v);
        if (!(strtod(line, NULL) < v) && !(strtod(line, NULL) > v)) break;
    }
    if (digits == 17) snprintf(line, sizeof line, "%.17g", v);
    text_str(t, line);
}

/* Length of the valid UTF-8 sequence at p, 0 when there is none. */
static size_t utf8_length(const unsigned char *p, size_t n) {
    size_t length, i;
    if (p[0] < 0x80) return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4) return 0;
    length = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (n < length) return 0;
    for (i = 1; i < length; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
        (p[0] == 0xf4 && p[1] > 0x8f)) return 0;
    return length;
}

/* The same inside a text. */
static size_t utf8_at(slice s, size_t i) {
    unsigned char sequence[4] = { 0, 0, 0, 0 };
    const size_t left = s.n - i;
    memcpy(sequence, s.p + i, left < 4 ? left : 4);
    return utf8_length(sequence, left);
}

/* The inside of a JSON string: raw UTF-8, what is none of it becomes U+FFFD. */
static void text_json_inside(textbuf *t, slice s) {
    size_t i = 0;
    while (i < s.n) {
        const unsigned char c = (unsigned char)s.p[i];
        const size_t length = utf8_at(s, i);
        if (c == '"' || c == '\\') {
            text_byte(t, '\\');
            text_byte(t, (char)c);
        } else if (c < 0x20) {
            text_form(t, "\\u%04X", (unsigned)c);
        } else if (length) {
            text_put(t, s.p + i, length);
        } else {
            text_str(t, "\xEF\xBF\xBD");
        }
        i += length ? length : 1;
    }
}

static void text_json(textbuf *t, slice s) {
    text_byte(t, '"');
    text_json_inside(t, s);
    text_byte(t, '"');
}

/* For a terminal or a line of text: control characters and what is no UTF-8 as \xNN. */
static void text_plain(textbuf *t, slice s) {
    size_t i = 0;
    while (i < s.n) {
        const unsigned char c = (unsigned char)s.p[i];
        const size_t length = utf8_at(s, i);
        /* U+0080 .. U+009F are controls as well. */
        if (c < 0x20 || c == 0x7f || length == 0 || (c == 0xc2 && (unsigned char)s.p[i + 1] < 0xa0)) {
            text_form(t, "\\x%02x", (unsigned)c);
            i++;
        } else {
            text_put(t, s.p + i, length);
            i += length;
        }
    }
}

/* A field of CSV: quoted where it has to be. What is no UTF-8, and bytes of zero, become U+FFFD. */
static void text_csv(textbuf *t, slice s) {
    size_t i, length;
    bool quote = false;
    for (i = 0; i < s.n && !quote; i++) quote = s.p[i] == ',' || s.p[i] == '"' || (unsigned char)s.p[i] < 0x20;
    if (quote) text_byte(t, '"');
    for (i = 0; i < s.n; i += length) {
        length = s.p[i] ? utf8_at(s, i) : 0;
        if (s.p[i] == '"') text_byte(t, '"');
        if (length) text_put(t, s.p + i, length);
        else text_str(t, "\xEF\xBF\xBD");
        if (!length) length = 1;
    }
    if (quote) text_byte(t, '"');
}

/* Notes a damaged place for the outputs. */
static void damage_note(session *s, uint64_t offset, const char *what) {
    pthread_mutex_lock(&s->lock);
    s->damaged = 1;
    if (s->issue_count < ISSUES_KEPT) {
        issue_entry *i = &s->issues[s->issue_count];
        i->index = UINT64_MAX;
        if (offset == NO_OFFSET) snprintf(i->message, sizeof i->message, "damaged input: %.120s", what);
        else snprintf(i->message, sizeof i->message, "damaged input: byte %" PRIu64 ": %.100s", offset, what);
    }
    s->issue_count++;
    pthread_mutex_unlock(&s->lock);
}

/* A damaged place in an input. The first ones are shown, all are counted. */
PRINTF_LIKE(4, 5) static void complain(session *s, const char *path, uint64_t offset, const char *format, ...) {
    char line[sizeof s->issues[0].message];
    va_list arguments;
    int n;
    va_start(arguments, format);
    n = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (n < 0) line[0] = '\0';
    if (s->complaint_count++ < COMPLAINTS_SHOWN) diag(path, offset, "%s", line);
    damage_note(s, offset, line);
}

/* Order of issues: by event, those of no event first. */
static int issue_order(const issue_entry *a, const issue_entry *b) {
    const int none_a = a->index == UINT64_MAX, none_b = b->index == UINT64_MAX;
    if (none_a != none_b) return none_b - none_a;
    if (a->dump != b->dump) return a->dump < b->dump ? -1 : 1;
    if (a->lane != b->lane) return a->lane < b->lane ? -1 : 1;
    if (a->index != b->index) return a->index < b->index ? -1 : 1;
    return strcmp(a->message, b->message);
}

/* Something about an event that the validation of the summary reports. The first ones are kept, whatever the order in
 * which several threads find them. */
PRINTF_LIKE(5, 6) static void report_issue(session *s, uint32_t dump, uint32_t lane, uint64_t index, const char *format, ...) {
    issue_entry fresh = { index, dump, lane, "" };
    va_list arguments;
    size_t i, worst = 0;
    va_start(arguments, format);
    if (vsnprintf(fresh.message, sizeof fresh.message, format, arguments) < 0) fresh.message[0] = '\0';
    va_end(arguments);
    pthread_mutex_lock(&s->lock);
    if (s->issue_count < ISSUES_KEPT) {
        s->issues[s->issue_count] = fresh;
    } else {
        for (i = 1; i < ISSUES_KEPT; i++)
            if (issue_order(&s->issues[i], &s->issues[worst]) > 0) worst = i;
        if (issue_order(&fresh, &s->issues[worst]) < 0) s->issues[worst] = fresh;
    }
    s->issue_count++;
    pthread_mutex_unlock(&s->lock);
}

/* A whole decimal number up to TIME_MAX, to the end of the text or to `*end`. */
static bool parse_u64(const char *text, uint64_t *value, const char **end) {
    uint64_t v = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (v > TIME_MAX / 10) return false;
        v = v * 10 + (uint64_t)(*p - '0');
    }
    if (p == text || (!end && *p)) return false;
    if (end) *end = p;
    *value = v;
    return true;
}

/* A time, "10us", "1.5ms", "2s", of ns without a unit, as exactly the ns that it says: false when it has a part of one. */
static bool parse_time(const char *text, uint64_t *value, const char **end) {
    static const struct { const char *unit; uint64_t ns; } units[] = { { "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s",
        1000000000 } };
    const char *fraction = NULL;
    uint64_t ns = 1;
    size_t i;
    if (!parse_u64(text, value, end)) return false;
    if (**end == '.') {
        fraction = *end + 1;
        *end = fraction + strspn(fraction, "0123456789");
        if (*end == fraction) return false;
    }
    for (i = 0; i < sizeof units / sizeof *units; i++) {
        const char *const unit = *end;
        const size_t n = strlen(units[i].unit);
        if (strncmp(unit, units[i].unit, n) != 0) continue;
        ns = units[i].ns;
        *end += n;
        break;
    }
    if (*value > TIME_MAX / ns) return false;
    *value *= ns;
    for (; fraction && *fraction >= '0' && *fraction <= '9'; fraction++) {
        if (*fraction != '0' && ns == 1) return false;
        if (ns > 1) ns /= 10;
        *value += (uint64_t)(*fraction - '0') * ns;
    }
    return true;
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

static uint64_t hash_bytes(const void *data, size_t n) { return spanprof_dump_sum(data, n); }

static void names_rehash(name_table *t, size_t slots) {
    uint32_t *fresh = must_alloc(slots, sizeof *fresh);
    size_t i;
    for (i = 1; i < t->count; i++) {
        size_t at = (size_t)t->list[i].hash & (slots - 1);
        while (fresh[at]) at = (at + 1) & (slots - 1);
        fresh[at] = (uint32_t)i;
    }
    free(t->slots);
    t->slots = fresh;
    t->slot_count = slots;
}

/* The number of a text; equal texts have equal numbers, an absent one (p NULL) is 0. Any thread. */
static uint32_t name_number(name_table *t, slice s) {
    uint64_t hash;
    size_t at;
    uint32_t number;
    if (!s.p) return 0;
    hash = hash_bytes(s.p, s.n);
    pthread_mutex_lock(&t->lock);
    if (t->count == 0) {
        must_grow(&t->list, &t->room, 16, sizeof *t->list);
        memset(t->list, 0, sizeof *t->list);
        t->count = 1;
        names_rehash(t, 64);
    }
    for (at = (size_t)hash & (t->slot_count - 1); t->slots[at]; at = (at + 1) & (t->slot_count - 1))
        if (t->list[t->slots[at]].hash == hash && slice_is(t->list[t->slots[at]].raw, s)) break;
    number = t->slots[at];
    if (!number) {
        textbuf json = { NULL, 0, 0, false };
        must_grow(&t->list, &t->room, t->count + 1, sizeof *t->list);
        text_json(&json, s);
        if (!text_end(&json) || t->count > UINT32_MAX - 2) out_of_memory();
        number = (uint32_t)t->count++;
        t->list[number].raw = slice_copy(s);
        t->list[number].json = slice_copy((slice){ json.p, json.n });
        t->list[number].hash = hash;
        text_free(&json);
        t->slots[at] = number;
        if (t->count * 2 > t->slot_count) names_rehash(t, t->slot_count * 2);
    }
    pthread_mutex_unlock(&t->lock);
    return number;
}

/* Texts do not move; the list does, so reading it takes the lock while others may add. */
static slice name_raw(name_table *t, uint32_t number) {
    slice s = { NULL, 0 };
    pthread_mutex_lock(&t->lock);
    if (number && number < t->count) s = t->list[number].raw;
    pthread_mutex_unlock(&t->lock);
    return s;
}

static slice name_json(name_table *t, uint32_t number) {
    slice s = SLICE("null");
    pthread_mutex_lock(&t->lock);
    if (number && number < t->count) s = t->list[number].json;
    pthread_mutex_unlock(&t->lock);
    return s;
}

/* ---- inputs ----------------------------------------------------------------------------------------------------- */

/* Where the last bytes stand that the file system holds: what a sparse file claims behind them is not worth a look. */
static uint64_t data_end(int fd, uint64_t size) {
#ifdef __linux__
    enum { DATA = 3, HOLE = 4, PIECES = 100000 }; /* of lseek(2) */
    const uint64_t slack = 2 * (uint64_t)BLOCK_BYTES_MAX; /* a block that begins with bytes may end with none */
    const off_t before = lseek(fd, 0, SEEK_CUR);
    off_t at = 0, end = 0;
    int i;
    for (i = 0; i < PIECES && end >= 0 && (at = lseek(fd, end, DATA)) >= 0; i++) end = lseek(fd, at, HOLE);
    (void)lseek(fd, before, SEEK_SET);
    if (end >= 0 && i < PIECES && (uint64_t)end < size && size - (uint64_t)end > slack) return (uint64_t)end + slack;
#else
    (void)fd;
#endif
    return size;
}

/* The bytes of an open file, mapped where that is possible; 0, or the errno that ended the reading. Of what is no file, and
 * does not begin as a dump, the first megabyte, and `*more` is set: it may be JSON, and it may have no end. */
static int load_file(int fd, const struct stat *st, unsigned char **data, size_t *size, int *mapped, bool *more) {
    enum { ENOUGH = 1 << 20 };
    size_t room = *size;
    *mapped = 0;
#ifndef _WIN32
    if (S_ISREG(st->st_mode) && st->st_size > 0 && (uintmax_t)st->st_size < SIZE_MAX) {
        /* Private and writable: a dump of the other byte order is turned round in place. */
        const size_t end = (size_t)data_end(fd, (uint64_t)st->st_size);
        void *map = mmap(NULL, end, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
        if (map != MAP_FAILED) {
            *data = map;
            *size = end;
            *mapped = 1;
            return 0;
        }
    }
#else
    (void)st;
#endif
    for (;;) {
        ssize_t got;
        must_grow(data, &room, *size + 65536, 1);
        got = read(fd, *data + *size, io_bytes(room - *size));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return got < 0 ? errno : 0;
        *size += (size_t)got;
        if (more && !S_ISREG(st->st_mode) && *size >= ENOUGH && !*more && memcmp(*data, SPANPROF_DUMP_MAGIC, 8) != 0) {
            *more = true;
            return 0;
        }
    }
}


/* Gives the memory of a part of a mapped input back; it comes again from the file when somebody looks at it. */
static void release_input(const unsigned char *data, size_t size) {
#if !defined(_WIN32) && defined(MADV_DONTNEED)
    const uintptr_t page = 4095, from = ((uintptr_t)data + page) & ~page, to = ((uintptr_t)data + size) & ~page;
    if (to > from) (void)madvise((void *)from, to - from, MADV_DONTNEED); /* no harm when it fails */
#else
    (void)data;
    (void)size;
#endif
}

static void unload_input(unsigned char *data, size_t size, int mapped) {
#ifndef _WIN32
    if (mapped) {
        munmap(data, size);
        return;
    }
#else
    (void)size;
    (void)mapped;
#endif
    free(data);
}

/* ---- dump reader: records --------------------------------------------------------------------------------------- */

/* What a record type looks like: words before its texts, of which `raw` from the end are texts' or a value's and keep
 * their byte order. Number 0 words: no such type. */
typedef struct record_form {
    uint8_t words;      /* smallest size, head included */
    uint8_t texts;      /* texts after the words; META has as many as its bits say */
    uint8_t time_word;  /* word that holds absolute ticks, 0: none */
    uint8_t is_event;
} record_form;

static const record_form record_forms[72] = {
    [SPANPROF_RECORD_TIME] = { 2, 0, 1, 0 },         [SPANPROF_RECORD_SPAN] = { 3, 0, 1, 1 },
    [SPANPROF_RECORD_SPAN_DYN] = { 4, 1, 1, 1 },     [SPANPROF_RECORD_END] = { 3, 0, 2, 0 },
    [SPANPROF_RECORD_META] = { 2, 0, 0, 0 },         [SPANPROF_RECORD_ATTR] = { 3, 0, 0, 0 },
    [SPANPROF_RECORD_INSTANT] = { 2, 0, 1, 1 },      [SPANPROF_RECORD_COUNTER] = { 3, 0, 1, 1 },
    [SPANPROF_RECORD_ASYNC_BEGIN] = { 3, 0, 1, 1 },  [SPANPROF_RECORD_ASYNC_END] = { 3, 0, 1, 1 },
    [SPANPROF_RECORD_FLOW_OUT] = { 4, 0, 1, 1 },     [SPANPROF_RECORD_FLOW_IN] = { 4, 0, 1, 1 },
    [SPANPROF_RECORD_THREAD] = { 2, 0, 1, 0 },       [SPANPROF_RECORD_CYCLE] = { 2, 0, 1, 0 },
    [SPANPROF_RECORD_STEP] = { 2, 0, 0, 0 },         [SPANPROF_RECORD_TRACK_SPAN] = { 6, 0, 0, 1 },
    [SPANPROF_RECORD_SITE] = { 4, 3, 0, 0 },         [SPANPROF_RECORD_THREAD_NAME] = { 4, 1, 0, 0 },
    [SPANPROF_RECORD_TRACK_NAME] = { 4, 2, 0, 0 },   [SPANPROF_RECORD_MODULE] = { 5, 1, 0, 0 },
};

/* An attribute's value that is JSON already; only readers of JSON make it. */
#define VALUE_JSON 4u

/* Bits of the metadata that are numbers, and of those that have a sign. */
#define META_NUMBER_S 0u
#define META_NUMBER_U 1u
#define META_NUMBER_I 1u
#define META_SIGNED_S 0u
#define META_SIGNED_U 0u
#define META_SIGNED_I 1u
#define SPANPROF_I_X(name, kind) | (uint32_t)(META_NUMBER_##kind << SPANPROF_META_##name)
static const uint32_t meta_numbers = 0u SPANPROF_META_LIST(SPANPROF_I_X);
#undef SPANPROF_I_X
#define SPANPROF_I_X(name, kind) | (uint32_t)(META_SIGNED_##kind << SPANPROF_META_##name)
static const uint32_t meta_signed = 0u SPANPROF_META_LIST(SPANPROF_I_X);
#undef SPANPROF_I_X
#define META_ALL ((1u << SPANPROF_META_COUNT) - 1u)
#define SPANPROF_I_X(name, kind) #name,
static const char *const meta_names[SPANPROF_META_COUNT] = { SPANPROF_META_LIST(SPANPROF_I_X) };
#undef SPANPROF_I_X

static unsigned bits_in(uint32_t bits) {
    unsigned n = 0;
    for (; bits; bits &= bits - 1) n++;
    return n;
}

/* The next text of a record; *at is a byte offset from the record's begin. False when the record is too short. */
static bool record_text(const uint64_t *record, size_t words, size_t *at, slice *out) {
    const unsigned char *bytes = (const unsigned char *)record;
    uint16_t size;
    if (*at + 2 > words * 8) return false;
    memcpy(&size, bytes + *at, 2);
    if (size > words * 8 - *at - 2) return false;
    out->p = (const char *)bytes + *at + 2;
    out->n = size;
    *at += 2 + (size_t)size;
    return true;
}

/* Metadata as a record or several gave it; the texts lie in the dump. */
typedef struct meta_view {
    uint32_t set; /* bits of SPANPROF_META_LIST */
    int hooked;
    uint64_t number[SPANPROF_META_COUNT];
    slice text[SPANPROF_META_COUNT];
} meta_view;

/* Adds the fields of a META record of that many words, replacing those set before; false when it is malformed. */
static bool meta_add(meta_view *m, const uint64_t *record, size_t words) {
    const uint64_t head = record[0];
    const uint32_t set = (uint32_t)SPANPROF_RECORD_ARGUMENT(head) & META_ALL;
    size_t at = 2, byte;
    unsigned i;
    if (words < 2 + (size_t)bits_in(set & meta_numbers)) return false;
    for (i = 0; i < SPANPROF_META_COUNT; i++)
        if (set & meta_numbers & 1u << i) m->number[i] = record[at++];
    byte = at * 8;
    for (i = 0; i < SPANPROF_META_COUNT; i++)
        if ((set & ~meta_numbers & 1u << i) && !record_text(record, words, &byte, &m->text[i])) return false;
    m->set |= set;
    m->hooked |= (SPANPROF_RECORD_FLAGS(head) & 1) != 0;
    return true;
}

/* Is the record whole and sane? NULL, or what is wrong with it. */
static const char *record_check(const uint64_t *record, size_t left) {
    const uint64_t head = record[0];
    const unsigned type = (unsigned)SPANPROF_RECORD_TYPE(head);
    const size_t words = (size_t)SPANPROF_RECORD_WORDS(head);
    record_form form;
    size_t at;
    slice text;
    unsigned i;
    if (type >= sizeof record_forms / sizeof *record_forms || record_forms[type].words == 0) return "unknown record type";
    form = record_forms[type];
    if (words < form.words) return "record shorter than its type";
    if (words > left) return "record longer than its block";
    if (form.time_word && record[form.time_word] > TIME_MAX) return "impossible time";
    if ((type == SPANPROF_RECORD_SPAN || type == SPANPROF_RECORD_SPAN_DYN) && record[2] > TIME_MAX) return "impossible duration";
    if (type == SPANPROF_RECORD_TRACK_SPAN && (record[3] > TIME_MAX || record[4] > TIME_MAX)) return "impossible time";
    if (type == SPANPROF_RECORD_META) {
        meta_view m;
        memset(&m, 0, sizeof m);
        return meta_add(&m, record, words) ? NULL : "metadata longer than its record";
    }
    at = (size_t)(form.words - (type == SPANPROF_RECORD_SPAN_DYN)) * 8;
    if (type == SPANPROF_RECORD_ATTR) {
        if (SPANPROF_RECORD_FLAGS(head) > VALUE_JSON) return "unknown kind of value";
        at = 16;
        form.texts = SPANPROF_RECORD_FLAGS(head) >= SPANPROF_VALUE_STR;
    } else if (type == SPANPROF_RECORD_SITE) {
        at = 24;
    } else if (type == SPANPROF_RECORD_THREAD_NAME || type == SPANPROF_RECORD_TRACK_NAME) {
        at = 24;
    } else if (type == SPANPROF_RECORD_MODULE) {
        at = 32;
    }
    for (i = 0; i < form.texts; i++)
        if (!record_text(record, words, &at, &text)) return "text longer than its record";
    return NULL;
}

/* Word of a record that holds the position of a span, 0: none. */
static unsigned record_position_word(unsigned type) {
    switch (type) {
    case SPANPROF_RECORD_END: case SPANPROF_RECORD_META: case SPANPROF_RECORD_ATTR: case SPANPROF_RECORD_TRACK_SPAN: return 1;
    case SPANPROF_RECORD_FLOW_OUT: case SPANPROF_RECORD_FLOW_IN: return 3;
    default: return 0;
    }
}

/* ---- dump reader: header and blocks ----------------------------------------------------------------------------- */

static uint64_t swapped64(uint64_t v) {
    v = (v & UINT64_C(0x00ff00ff00ff00ff)) << 8 | (v >> 8 & UINT64_C(0x00ff00ff00ff00ff));
    v = (v & UINT64_C(0x0000ffff0000ffff)) << 16 | (v >> 16 & UINT64_C(0x0000ffff0000ffff));
    return v << 32 | v >> 32;
}

static void swap64(void *at, size_t count) {
    unsigned char *p = at;
    uint64_t v;
    for (; count; count--, p += 8) {
        memcpy(&v, p, 8);
        v = swapped64(v);
        memcpy(p, &v, 8);
    }
}

static void swap32(void *at, size_t count) {
    unsigned char *p = at;
    for (; count; count--, p += 4) {
        const unsigned char a = p[0], b = p[1];
        p[0] = p[3];
        p[1] = p[2];
        p[2] = b;
        p[3] = a;
    }
}

static void header_swap(spanprof_dump_header *h) {
    swap32(&h->endian, 12);
    swap64(&h->process_key, 1);
    swap64(&h->first, 3);
    swap64(&h->ticks_per_second, 3);
    swap64(&h->usage_first, sizeof h->usage_first / 8);
    swap64(&h->sum, 1);
    swap32(&h->state, 2);
    swap64(h->last, 6);
    swap64(&h->blocks, 5);
    swap32(&h->usage_valid, 2);
    swap64(&h->usage_last, sizeof h->usage_last / 8);
}

/* Turns the lengths of `count` texts of a record round; their bytes have no order. */
static void texts_swap(uint64_t *record, size_t words, size_t at, unsigned count) {
    unsigned char *bytes = (unsigned char *)record;
    for (; count && at + 2 <= words * 8; count--) {
        const unsigned char low = bytes[at + 1], high = bytes[at];
        uint16_t size;
        bytes[at] = low;
        bytes[at + 1] = high;
        memcpy(&size, bytes + at, 2);
        at += 2 + (size_t)size;
    }
}

/* Turns a block of the other byte order round in place. */
static void block_swap(spanprof_dump_block *h, uint64_t *words, size_t count) {
    size_t i, size;
    swap32(&h->magic, 2);
    swap64(&h->seq, 5);
    swap32(&h->has_step, 4);
    swap64(&h->sum, 1);
    swap32(&h->state, 2);
    swap64(&h->dropped, 1);
    for (i = 0; i < count; i += size) {
        unsigned type, fixed, texts;
        words[i] = swapped64(words[i]);
        size = 1;
        if (words[i] & 1 || !words[i]) continue;
        type = (unsigned)SPANPROF_RECORD_TYPE(words[i]);
        size = (size_t)SPANPROF_RECORD_WORDS(words[i]);
        if (type >= sizeof record_forms / sizeof *record_forms || size == 0 || size > count - i) return;
        texts = record_forms[type].texts;
        fixed = record_forms[type].words - (texts ? 1u : 0u);
        if (type == SPANPROF_RECORD_META) {
            const uint32_t set = (uint32_t)SPANPROF_RECORD_ARGUMENT(words[i]) & META_ALL;
            fixed = 2 + bits_in(set & meta_numbers);
            texts = bits_in(set & ~meta_numbers);
        } else if (type == SPANPROF_RECORD_ATTR && SPANPROF_RECORD_FLAGS(words[i]) == SPANPROF_VALUE_STR) {
            fixed = 2;
            texts = 1;
        }
        if (fixed > size) return;
        swap64(words + i + 1, fixed - 1);
        texts_swap(words + i, size, fixed * 8, texts);
    }
}

/* Does a block begin there? Its own checksum vouches for it. */
static bool block_is_sound(const unsigned char *at, int *swap) {
    spanprof_dump_block copy;
    uint32_t magic;
    memcpy(&copy, at, sizeof copy);
    magic = copy.magic;
    *swap = magic != SPANPROF_BLOCK_MAGIC;
    if (*swap) swap32(&magic, 1);
    return magic == SPANPROF_BLOCK_MAGIC &&
           spanprof_dump_sum(at, offsetof(spanprof_dump_block, sum)) == (*swap ? swapped64(copy.sum) : copy.sum);
}

/* The first sound block at or after a byte; false when there is none. */
static bool block_search(const dump_input *d, size_t *at, int *swap) {
    for (; d->size >= sizeof(spanprof_dump_block) && *at <= d->size - sizeof(spanprof_dump_block); ++*at)
        if ((d->data[*at] == 'S' || d->data[*at] == 'K') && block_is_sound(d->data + *at, swap)) return true;
    return false;
}

/* What a damaged header said of the blocks, from the blocks themselves; false when there are none. */
static bool header_restore(dump_input *d, int *swap) {
    enum { USUAL_BLOCK = 65536 };
    spanprof_dump_header *h = &d->head;
    spanprof_dump_block first;
    size_t at = 0, second;
    int other;
    if (!block_search(d, &at, swap)) return false;
    /* A file that lost bytes at its begin: its words have to be where words can be read. */
    d->moved = at % 8;
    if (d->moved) memmove(d->data, d->data + d->moved, d->size - d->moved);
    d->size -= d->moved;
    at -= d->moved;
    second = at + BLOCK_BYTES_MIN;
    if (h->block_header_bytes != sizeof first || h->block_bytes < BLOCK_BYTES_MIN || h->block_bytes > BLOCK_BYTES_MAX ||
        h->block_bytes % 8 ||
        h->header_bytes > at || (at - h->header_bytes) % h->block_bytes) {
        h->header_bytes = (uint32_t)(at < UINT32_MAX ? at : 0);
        h->block_header_bytes = sizeof first;
        h->block_bytes = USUAL_BLOCK;
        if (block_search(d, &second, &other) && (second - at) % USUAL_BLOCK && second - at <= BLOCK_BYTES_MAX && (second - at) % 8 == 0)
            h->block_bytes = (uint32_t)(second - at);
    }
    memcpy(&first, d->data + at, sizeof first);
    if (*swap) swap64(&first.seq, 3);
    h->first = (spanprof_dump_anchor){ first.base_ticks, first.base_ns, 0 };
    if (h->clock != SPANPROF_CLOCK_MONOTONIC) h->clock = SPANPROF_CLOCK_TSC;
    if (h->ticks_per_second < 1000000 || h->ticks_per_second > UINT64_C(10000000000)) h->ticks_per_second = 0;
    h->process_key = hash_bytes(d->path, strlen(d->path));
    diag(d->path, at + d->moved, "note: read from this block on, without the header");
    return true;
}

/* What is wrong with a header, and where; NULL when nothing is. */
static const char *header_check(const spanprof_dump_header *h, uint64_t sum, uint64_t *offset) {
    *offset = 0;
    if (memcmp(h->magic, SPANPROF_DUMP_MAGIC, sizeof h->magic) != 0) return "the begin of the file is missing or damaged";
    *offset = offsetof(spanprof_dump_header, endian);
    if (h->endian != SPANPROF_DUMP_ENDIAN) return "unknown byte order";
    *offset = offsetof(spanprof_dump_header, version);
    if (h->version != SPANPROF_DUMP_VERSION) return "impossible version in the header";
    *offset = offsetof(spanprof_dump_header, header_bytes);
    if (h->header_bytes < sizeof *h || h->header_bytes % 8 || h->block_header_bytes < sizeof(spanprof_dump_block) ||
        h->block_header_bytes % 8 || h->block_bytes < BLOCK_BYTES_MIN || h->block_bytes > BLOCK_BYTES_MAX ||
        h->block_bytes % 8 || h->block_header_bytes >= h->block_bytes)
        return "impossible sizes in the header";
    *offset = offsetof(spanprof_dump_header, sum);
    if (sum != h->sum) return "the header's checksum is wrong";
    return NULL;
}

/* Reads and checks the header: 0, -1 when the dump has the other byte order, or an exit code when nothing of the file can
 * be read. */
static int header_read(session *s, dump_input *d) {
    spanprof_dump_header *h = &d->head;
    const char *wrong;
    uint64_t sum, offset;
    int swap;
    if (d->size < sizeof *h) {
        complain(s, d->path, d->size, "the header is cut off");
        return EXIT_DAMAGED;
    }
    memcpy(h, d->data, sizeof *h);
    sum = spanprof_dump_sum(h, offsetof(spanprof_dump_header, sum));
    swap = h->endian != SPANPROF_DUMP_ENDIAN;
    if (swap) header_swap(h);
    wrong = header_check(h, sum, &offset);
    /* Versions will not be many: a larger number is damage. */
    if (wrong && h->endian == SPANPROF_DUMP_ENDIAN && h->version > SPANPROF_DUMP_VERSION && h->version < 65536) {
        complain(s, d->path, offsetof(spanprof_dump_header, version),
            "dump version %" PRIu32 ", this program reads version %u: a newer trace2summary is needed",
                 h->version, SPANPROF_DUMP_VERSION);
        return EXIT_DAMAGED;
    }
    if (wrong) {
        complain(s, d->path, offset, "%s", wrong);
        if (memcmp(h->magic, SPANPROF_DUMP_MAGIC, sizeof h->magic) != 0) {
            memset(h, 0, sizeof *h);
            h->rank = -1;
        }
        if (!header_restore(d, &swap)) {
            complain(s, d->path, NO_OFFSET, "no readable block");
            return EXIT_DAMAGED;
        }
    }
    if (h->first.ticks > TIME_MAX || h->first.mono_ns > TIME_MAX) {
        complain(s, d->path, offsetof(spanprof_dump_header, first), "impossible time in the header");
        h->first.ticks = h->first.mono_ns = 0;
    }
    h->producer[sizeof h->producer - 1] = h->host[sizeof h->host - 1] = h->process_name[sizeof h->process_name - 1] = '\0';
    d->words_in_block = (h->block_bytes - h->block_header_bytes) / 8;
    return swap ? -1 : 0;
}

/* Where a word of a block stands in the file. */
static uint64_t word_offset(const dump_input *d, const block_entry *b, uint64_t index) {
    return b->offset + d->head.block_header_bytes + index * 8;
}

/* ---- dump reader: blocks of a file that is being written --------------------------------------------------------- */

/* The mapping is private: what is written into it stays as it is, whatever happens to the file. */

/* Makes a block stand still as it is at one moment; false when it never was the same before and after the look. */
static bool block_freeze(unsigned char *at, size_t size, unsigned char *still) {
    int tries;
    for (tries = 0; tries < 1000; tries++) {
        spanprof_dump_block before, after;
        memcpy(&before, at, sizeof before);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        memcpy(still, at, size);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        memcpy(&after, at, sizeof after);
        if (before.state != SPANPROF_BLOCK_FLUSHED && before.state == after.state && before.seq == after.seq && before.sum == after.sum) {
            memcpy(at, still, size);
            return true;
        }
        if (tries % 16 == 15) (void)usleep(100); /* its thread is opening it again */
    }
    return false;
}

/* Takes in what was appended since the file was mapped. */
static void input_grow(dump_input *d, int fd) {
#ifdef __linux__
    enum { MAY_MOVE = 1 }; /* of mremap(2) */
    struct stat st;
    uint64_t size;
    long map;
    if (!d->mapped || d->moved || fd < 0 || fstat(fd, &st) != 0 || (uintmax_t)st.st_size >= SIZE_MAX) return;
    size = data_end(fd, (uint64_t)st.st_size);
    if (size <= d->size || (map = syscall(SYS_mremap, d->data, d->size, (size_t)size, MAY_MOVE)) == -1) return;
    d->data = (unsigned char *)map;
    d->size = (size_t)size;
#else
    (void)d;
    (void)fd;
#endif
}

/* Blocks that the rest of the program may give back to the file: those that are as the file has them, and stay so. */
static bool block_is_settled(const dump_input *d, uint32_t state) {
    return d->head.state != SPANPROF_DUMP_RECORDING || (state == SPANPROF_BLOCK_DONE && !(d->head.flags & SPANPROF_DUMP_RING));
}

/* A lane of such a file. */
typedef struct frozen_lane {
    uint64_t newest; /* 1 + the highest sequence number of its blocks at first; 0: it has none */
    uint64_t window; /* 1 + its window's */
} frozen_lane;

/* The header at that byte, if there is one of a lane. */
static bool block_header(const dump_input *d, size_t at, spanprof_dump_block *h) {
    memcpy(h, d->data + at, sizeof *h);
    return h->magic == SPANPROF_BLOCK_MAGIC && h->lane < LANES_MAX;
}
static bool block_header_is_whole(const spanprof_dump_block *h) {
    return h->sum == spanprof_dump_sum(h, offsetof(spanprof_dump_block, sum)) && h->seq < TIME_MAX;
}

/* Settles what is looked at of a file whose program may still be running: the windows as they are at one moment, that of the
 * names last, since the others refer to them; of the other blocks what was there before. What is newer is taken out: copies of
 * a window that is there, blocks that came after it or that a ring writes over, lanes that have begun since. */
static void dump_freeze(dump_input *d, int fd) {
    const size_t header = d->head.header_bytes, size = d->head.block_bytes;
    const bool ring = (d->head.flags & SPANPROF_DUMP_RING) != 0;
    unsigned char *still = must_alloc(size, 1);
    frozen_lane *lanes = NULL;
    size_t count = 0, room = 0, at, end;
    spanprof_dump_block h;
    int names;
    input_grow(d, fd);
    end = d->size;
    for (at = header; at < end && end - at >= sizeof h; at += size) {
        if (!block_header(d, at, &h) || !block_header_is_whole(&h)) continue;
        must_grow(&lanes, &room, (size_t)h.lane + 1, sizeof *lanes);
        while (count <= h.lane) lanes[count++] = (frozen_lane){ 0, 0 };
        if (h.state == SPANPROF_BLOCK_DONE && h.seq + 1 > lanes[h.lane].newest) lanes[h.lane].newest = h.seq + 1;
        if (d->releasable) release_input(d->data + at, end - at < size ? end - at : size);
    }
    for (names = 0; names < 2; names++)
        for (at = header; at < end && end - at >= size; at += size) {
            if (!block_header(d, at, &h) || h.state == SPANPROF_BLOCK_DONE || (h.lane == 0) != names) continue;
            if (!block_freeze(d->data + at, size, still)) continue; /* a killed thread was at it: there is nothing new in it */
            if (block_header(d, at, &h) && block_header_is_whole(&h) && h.state == SPANPROF_BLOCK_OPEN && h.lane < count) lanes[h.lane].window = h.seq + 1;
        }
    input_grow(d, fd);
    for (at = header; at < d->size && d->size - at >= sizeof h; at += size) {
        const size_t there = d->size - at < size ? d->size - at : size;
        bool keep;
        if (!block_header(d, at, &h)) continue;
        if (h.state != SPANPROF_BLOCK_DONE) {
            keep = at < end;
        } else {
            const frozen_lane lane = h.lane < count ? lanes[h.lane] : (frozen_lane){ 0, 0 };
            const uint64_t seq = h.seq, newest = lane.newest > lane.window ? lane.newest : lane.window;
            keep = seq < newest && seq + 1 != lane.window;
            if (keep && ring) keep = block_freeze(d->data + at, there, still) && block_header(d, at, &h) && h.seq == seq;
            if (!block_header_is_whole(&h)) keep = at < end && !ring; /* damage, to be told of */
        }
        if (!keep) memset(d->data + at, 0, sizeof h);
        else if (d->releasable && block_is_settled(d, h.state)) release_input(d->data + at, there);
    }
    free(lanes);
    free(still);
}

/* ---- dump reader: blocks ------------------------------------------------------------------------------------------ */

/* Takes up the block at that byte, of which `size` bytes are there. */
static void block_take(session *s, dump_input *d, size_t offset, size_t size, int swap) {
    unsigned char *at = d->data + offset;
    const spanprof_dump_block *h;
    spanprof_dump_block copy, *kept;
    block_entry b;
    uint32_t state;
    const size_t words = size > d->head.block_header_bytes ? (size - d->head.block_header_bytes) / 8 : 0;
    memcpy(&copy, at, sizeof copy);
    if (copy.magic == 0 && copy.seq == 0 && copy.sum == 0 && copy.state == 0) return; /* given out, not yet used */
    state = copy.state;
    if (swap) swap32(&state, 1);
    /* A window that was being opened, or that holds nothing: its header may be half written. Other threads may have been at it
     * when the process exited, too; the first word is zero then. */
    if (d->head.state == SPANPROF_DUMP_RECORDING && (state == 0 || state == SPANPROF_BLOCK_FLUSHED)) return;
    if (state == SPANPROF_BLOCK_FLUSHED && words > 0 && *(const uint64_t *)(const void *)(at + d->head.block_header_bytes) == 0) return;
    h = (const spanprof_dump_block *)(const void *)at;
    memset(&b, 0, sizeof b);
    b.words = (const uint64_t *)(const void *)(at + d->head.block_header_bytes);
    if (spanprof_dump_sum(h, offsetof(spanprof_dump_block, sum)) != (swap ? swapped64(h->sum) : h->sum)) {
        /* A copy that was being written over an older one when the process ended; its window has all of it. */
        if (!(d->head.flags & SPANPROF_DUMP_RING && d->head.state == SPANPROF_DUMP_RECORDING))
            complain(s, d->path, offset + d->moved, "the block's checksum is wrong, the block is left out");
        return;
    }
    if (swap) block_swap((spanprof_dump_block *)(void *)at, (uint64_t *)(void *)(at + d->head.block_header_bytes), words);
    if (h->magic != SPANPROF_BLOCK_MAGIC || h->lane >= LANES_MAX || h->state < SPANPROF_BLOCK_OPEN || h->state > SPANPROF_BLOCK_FLUSHED ||
        h->base_ticks > TIME_MAX || h->base_ns > TIME_MAX || h->seq > (UINT64_C(1) << SPANPROF_POS_WORD_BITS) / d->words_in_block) {
        complain(s, d->path, offset + d->moved, "impossible values in the block's header, the block is left out");
        return;
    }
    /* A copy, so that looking at all headers does not bring the whole file into memory. */
    kept = must_alloc(1, sizeof *kept);
    memcpy(kept, h, sizeof *kept);
    must_grow(&d->copies, &d->copy_room, d->copy_count + 1, sizeof *d->copies);
    d->copies[d->copy_count++] = kept;
    b.head = kept;
    b.offset = offset + d->moved;
    b.seq = h->seq;
    b.lane = h->lane;
    b.count = (uint32_t)words;
    must_grow(&d->blocks, &d->block_room, d->block_count + 1, sizeof *d->blocks);
    d->blocks[d->block_count++] = b;
}

/* Order of blocks: lane, sequence, windows before copies, place in the file. */
static int block_order(const void *a, const void *b) {
    const block_entry *x = a, *y = b;
    if (x->lane != y->lane) return x->lane < y->lane ? -1 : 1;
    if (x->seq != y->seq) return x->seq < y->seq ? -1 : 1;
    if (x->head->state != y->head->state) return x->head->state < y->head->state ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Finds the blocks and brings them in order; one of each sequence number stays. */
static void blocks_find(session *s, dump_input *d, int swap) {
    const uint64_t header = d->head.header_bytes, size = d->head.block_bytes;
    uint64_t at;
    size_t i, kept = 0;
    for (at = header; at < d->size && d->size - at >= size; at += size) {
        spanprof_dump_block h;
        memcpy(&h, d->data + at, sizeof h);
        block_take(s, d, (size_t)at, (size_t)size, swap);
        if (d->releasable && block_is_settled(d, h.state)) release_input(d->data + at, (size_t)size);
    }
    if (at < d->size && d->size - at >= d->head.block_header_bytes) {
        /* The last block is cut off. A copy that its window replaces is dropped below without a word. */
        block_take(s, d, (size_t)at, (size_t)(d->size - at), swap);
    }
    if (d->block_count) qsort(d->blocks, d->block_count, sizeof *d->blocks, block_order);
    for (i = 0; i < d->block_count; i++) {
        block_entry *b = &d->blocks[i];
        block_entry *before = kept ? &d->blocks[kept - 1] : NULL;
        if (before && before->lane == b->lane && before->seq == b->seq) {
            if (before->head->state == b->head->state)
                complain(s, d->path, b->offset, "lane %" PRIu32 " has block %" PRIu64 " twice", b->lane, b->seq);
            continue;
        }
        if (b->head->state == SPANPROF_BLOCK_FLUSHED && d->head.state != SPANPROF_DUMP_RECORDING)
            complain(s, d->path, b->offset, "lane %" PRIu32 ": the copy of block %" PRIu64 " is missing", b->lane, b->seq);
        if (b->head->state == SPANPROF_BLOCK_DONE) {
            if (b->head->words > b->count) complain(s, d->path, word_offset(d, b, b->count), "the block is cut off");
            else b->count = b->head->words;
        }
        d->blocks[kept++] = *b;
    }
    d->block_count = kept;
}

/* A file that ends before its blocks do, though its process closed it. Other threads may have been about to write a block each,
 * what no disk took is told of by itself, and a snapshot has only what was there when it was made. */
static void blocks_missing(session *s, const dump_input *d) {
    const spanprof_dump_header *const h = &d->head;
    const uint64_t there = d->file_size > h->header_bytes ? (d->file_size - h->header_bytes) / h->block_bytes : 0;
    if (h->state == SPANPROF_DUMP_RECORDING || h->flags & SPANPROF_DUMP_SNAPSHOT || h->write_error || d->moved) return;
    if (h->blocks > there && h->blocks - there > h->lanes)
        complain(s, d->path, d->file_size, "the file is cut off: %" PRIu64 " of %" PRIu64 " blocks are there", there, h->blocks);
}

/* Gives each lane its blocks and finds what is missing. */
static void lanes_build(session *s, dump_input *d) {
    const int ring = (d->head.flags & SPANPROF_DUMP_RING) != 0;
    size_t i, missing = 0;
    d->lane_count = d->block_count ? (size_t)d->blocks[d->block_count - 1].lane + 1 : 0;
    d->lanes = must_alloc(d->lane_count, sizeof *d->lanes);
    for (i = 0; i < d->block_count; i++) {
        block_entry *b = &d->blocks[i];
        lane_entry *l = &d->lanes[b->lane];
        const uint64_t offset = b->offset;
        if (l->count == 0) {
            l->first = i;
            if (b->head->events && ring) d->overwritten += b->head->events < TIME_MAX ? b->head->events : 0;
            else if (b->head->events)
                complain(s, d->path, offset, "lane %" PRIu32 ": the blocks before block %" PRIu64 " are missing", b->lane, b->seq);
        } else if (b->seq != d->blocks[i - 1].seq + 1) {
            b->is_cut = 1;
            /* Of a ring the oldest blocks are gone, none between them and the window. */
            if (!ring || b->lane == 0 || d->head.state != SPANPROF_DUMP_RECORDING)
                complain(s, d->path, offset, "lane %" PRIu32 ": blocks %" PRIu64 " to %" PRIu64 " are missing", b->lane,
                    d->blocks[i - 1].seq + 1, b->seq - 1);
            must_grow(&l->cuts, &l->cut_room, l->cut_count + 1, sizeof *l->cuts);
            l->cuts[l->cut_count++] = (lane_cut){ b->seq * d->words_in_block, b->head->base_ticks };
        }
        l->count++;
        if (b->head->dropped < TIME_MAX && b->head->dropped > l->dropped) l->dropped = b->head->dropped;
    }
    for (i = 0; i < d->lane_count; i++) {
        d->dropped += d->lanes[i].dropped;
        missing += d->lanes[i].count == 0;
    }
    if (d->head.lanes > d->lane_count) missing += (size_t)(d->head.lanes < LANES_MAX ? d->head.lanes - d->lane_count : 1);
    if (d->head.dropped < TIME_MAX) d->dropped += d->head.dropped;
    blocks_missing(s, d);
    /* A process that was killed may have been about to write its first block of a lane. */
    if (missing > (d->head.state == SPANPROF_DUMP_RECORDING ? 1u : 0u))
        complain(s, d->path, d->size, "%zu of %" PRIu64 " lanes have no block", missing, d->head.lanes);
}

/* ---- dump reader: definitions and references -------------------------------------------------------------------- */

/* Numbers of sites and threads are given in sequence, each with a definition, so a file of that size has no higher ones. */
static bool number_is_sane(const dump_input *d, uint64_t number) { return number <= d->size / 16 + SPANPROF_SHORT_SITE_MAX; }

static void site_define(session *s, dump_input *d, const uint64_t *r, size_t words, uint64_t offset) {
    const uint64_t number = SPANPROF_RECORD_ARGUMENT(r[0]);
    slice name = { NULL, 0 }, file = { NULL, 0 }, function = { NULL, 0 };
    size_t at = 24;
    site_entry *site;
    if (!number_is_sane(d, number)) {
        complain(s, d->path, offset, "impossible number of a site: %" PRIu64, number);
        return;
    }
    if (number >= d->site_count) {
        size_t room = d->site_count;
        must_grow(&d->sites, &room, (size_t)number + 1, sizeof *d->sites);
        memset(d->sites + d->site_count, 0, (room - d->site_count) * sizeof *d->sites);
        d->site_count = room;
    }
    site = &d->sites[number];
    if (!record_text(r, words, &at, &name) || !record_text(r, words, &at, &file) || !record_text(r, words, &at, &function)) return;
    site->line = r[1];
    site->address = r[2];
    site->name = name_number(&s->names, name);
    site->file = file.n ? name_number(&s->names, file) : 0;
    site->function = function.n ? name_number(&s->names, function) : 0;
}

static thread_entry *thread_get(session *s, dump_input *d, uint64_t number, uint64_t offset) {
    if (!number_is_sane(d, number)) {
        complain(s, d->path, offset, "impossible number of a thread: %" PRIu64, number);
        number = 0;
    }
    if (number >= d->thread_count) {
        size_t room = d->thread_count;
        must_grow(&d->threads, &room, (size_t)number + 1, sizeof *d->threads);
        memset(d->threads + d->thread_count, 0, (room - d->thread_count) * sizeof *d->threads);
        d->thread_count = room;
    }
    return &d->threads[number];
}

static void thread_define(session *s, dump_input *d, const uint64_t *r, size_t words, uint64_t offset) {
    thread_entry *t = thread_get(s, d, SPANPROF_RECORD_ARGUMENT(r[0]), offset);
    slice name;
    size_t at = 24;
    t->system_id = r[1];
    t->ticks = r[2];
    if (record_text(r, words, &at, &name) && name.n) t->name = name_number(&s->names, name);
}

static size_t track_slot(const process_entry *p, uint64_t number) {
    size_t at = (size_t)hash_bytes(&number, sizeof number) & (p->track_slot_count - 1);
    while (p->track_slots[at] && p->tracks[p->track_slots[at] - 1].number != number) at = (at + 1) & (p->track_slot_count - 1);
    return at;
}

/* The track of that number in a process, made when it is new. Beyond TRACKS_MAX the rest share the last one. */
static size_t track_get(process_entry *p, uint64_t number) {
    size_t at, i;
    if (p->track_count * 2 >= p->track_slot_count) {
        free(p->track_slots);
        p->track_slot_count = p->track_slot_count ? p->track_slot_count * 2 : 64;
        p->track_slots = must_alloc(p->track_slot_count, sizeof *p->track_slots);
        for (i = 0; i < p->track_count; i++) p->track_slots[track_slot(p, p->tracks[i].number)] = (uint32_t)i + 1;
    }
    at = track_slot(p, number);
    if (p->track_slots[at]) return p->track_slots[at] - 1;
    if (p->track_count == TRACKS_MAX) return TRACKS_MAX - 1;
    must_grow(&p->tracks, &p->track_room, p->track_count + 1, sizeof *p->tracks);
    memset(&p->tracks[p->track_count], 0, sizeof *p->tracks);
    p->tracks[p->track_count].number = number;
    p->track_slots[at] = (uint32_t)++p->track_count;
    return p->track_count - 1;
}

static void track_define(session *s, dump_input *d, const uint64_t *r, size_t words) {
    process_entry *p = &s->processes[d->process];
    const size_t number = track_get(p, r[1]); /* moves the list */
    track_entry *t = &p->tracks[number];
    slice group, name;
    size_t at = 24;
    t->group = r[2] < TRACK_PID ? (uint32_t)r[2] : TRACK_PID - 1;
    if (!record_text(r, words, &at, &group) || !record_text(r, words, &at, &name)) return;
    t->process_name = group.n ? name_number(&s->names, group) : 0;
    t->name = name.n ? name_number(&s->names, name) : 0;
}

static void module_define(session *s, dump_input *d, const uint64_t *r, size_t words) {
    slice path;
    size_t at = 32;
    if (!record_text(r, words, &at, &path)) return;
    must_grow(&d->modules, &d->module_room, d->module_count + 1, sizeof *d->modules);
    d->modules[d->module_count++] = (module_entry){ r[1], r[2], r[3], name_number(&s->names, path) };
}

/* Notes a record that speaks of a span: of this block, or of another one, which has to know before. */
static void ref_note(dump_input *d, block_entry *b, const uint64_t *r, uint64_t pos) {
    const uint64_t word = SPANPROF_POS_WORD(pos), begin = b->seq * d->words_in_block;
    const size_t target = (size_t)SPANPROF_POS_LANE(pos);
    lane_entry *l;
    if (target == b->lane && word >= begin && word < begin + d->words_in_block) {
        b->has_refs = 1;
        return;
    }
    if (target >= d->lane_count || d->lanes[target].count == 0) return;
    l = &d->lanes[target];
    /* Overwritten in ring mode, or lost: nobody will ask for it. */
    if (word < d->blocks[l->first].seq * d->words_in_block) return;
    must_grow(&l->refs, &l->ref_room, l->ref_count + 1, sizeof *l->refs);
    l->refs[l->ref_count] = (far_ref){ word, r, b->lane, (uint32_t)l->ref_count };
    l->ref_count++;
}

static void async_note(session *s, dump_input *d, const uint64_t *r, uint32_t is_end) {
    async_event *a;
    must_grow(&s->asyncs, &s->async_room, s->async_count + 1, sizeof *s->asyncs);
    a = &s->asyncs[s->async_count++];
    a->ns = r[1]; /* ticks until the clock is known */
    a->id = r[2];
    a->name = (uint32_t)SPANPROF_RECORD_ARGUMENT(r[0]); /* site until all names are known */
    a->process = (uint32_t)(d - s->dumps);
    a->is_end = is_end;
    a->is_named = 0;
}

static void track_note(session *s, dump_input *d, const uint64_t *r) {
    track_event *t;
    must_grow(&s->tracks, &s->track_room, s->track_count + 1, sizeof *s->tracks);
    t = &s->tracks[s->track_count++];
    memset(t, 0, sizeof *t);
    t->start = r[3];
    t->duration = r[4];
    memcpy(&t->queue, r + 5, 8);
    t->name = (uint32_t)SPANPROF_RECORD_ARGUMENT(r[0]);
    t->process = d->process;
    t->dump = (uint32_t)(d - s->dumps);
    t->track = (uint32_t)track_get(&s->processes[d->process], r[2]);
    t->record = r;
}

/* Takes up what a checked record says to the rest of the dump. `cycle` is that of the lane at this point. */
static void record_index(session *s, dump_input *d, block_entry *b, const uint64_t *r, uint64_t *cycle) {
    const uint64_t only = s->opt->cycle;
    const unsigned type = (unsigned)SPANPROF_RECORD_TYPE(*r), at = record_position_word(type);
    const unsigned time_word = record_forms[type].time_word;
    const size_t size = (size_t)SPANPROF_RECORD_WORDS(*r);
    const uint64_t offset = word_offset(d, b, (uint64_t)(r - b->words));
    lane_entry *l = &d->lanes[b->lane];
    if (at && r[at]) ref_note(d, b, r, r[at]);
    if (time_word && r[time_word] > d->end_ticks) d->end_ticks = r[time_word];
    switch (type) {
    case SPANPROF_RECORD_SITE: site_define(s, d, r, size, offset); break;
    case SPANPROF_RECORD_THREAD_NAME: thread_define(s, d, r, size, offset); break;
    case SPANPROF_RECORD_TRACK_NAME: track_define(s, d, r, size); break;
    case SPANPROF_RECORD_MODULE: module_define(s, d, r, size); break;
    case SPANPROF_RECORD_ASYNC_BEGIN: case SPANPROF_RECORD_ASYNC_END:
        if (!only || only == *cycle) async_note(s, d, r, type == SPANPROF_RECORD_ASYNC_END);
        break;
    case SPANPROF_RECORD_TRACK_SPAN:
        if (!only || only == *cycle) track_note(s, d, r);
        break;
    case SPANPROF_RECORD_CYCLE: *cycle = SPANPROF_RECORD_ARGUMENT(*r); break;
    case SPANPROF_RECORD_THREAD:
        thread_get(s, d, SPANPROF_RECORD_ARGUMENT(*r), offset);
        must_grow(&l->cuts, &l->cut_room, l->cut_count + 1, sizeof *l->cuts);
        l->cuts[l->cut_count++] = (lane_cut){ b->seq * d->words_in_block + (uint64_t)(r - b->words), r[1] };
        break;
    default: break;
    }
}

/* The block has been dealt with for now: of a large dump that need not stay in memory. */
static void block_release(const dump_input *d, const block_entry *b) {
    const unsigned char *at = (const unsigned char *)b->words - d->head.block_header_bytes;
    if (d->releasable && block_is_settled(d, b->head->state)) release_input(at, d->head.block_bytes);
}

/* Checks a block's records, keeps the valid beginning and collects what they say to the rest of the dump. */
static void block_index(session *s, dump_input *d, block_entry *b) {
    const int ends_at_zero = b->head->state != SPANPROF_BLOCK_DONE;
    const uint64_t *words = b->words;
    uint64_t cycle = b->head->cycle;
    uint32_t i = 0;
    thread_get(s, d, b->head->thread, b->offset + offsetof(spanprof_dump_block, thread));
    while (i < b->count) {
        const char *wrong;
        while (b->count - i >= 8 && words[i] & words[i + 1] & words[i + 2] & words[i + 3] & words[i + 4] & words[i + 5] & words[i + 6] &
               words[i + 7] & 1) i += 8;
        while (i < b->count && words[i] & 1) i++;
        if (i == b->count || (words[i] == 0 && ends_at_zero)) break;
        wrong = record_check(words + i, b->count - i);
        if (wrong) {
            complain(s, d->path, word_offset(d, b, i), "%s (type %u), the rest of the block is left out", wrong,
                     (unsigned)SPANPROF_RECORD_TYPE(words[i]));
            break;
        }
        record_index(s, d, b, words + i, &cycle);
        i += (uint32_t)SPANPROF_RECORD_WORDS(words[i]);
    }
    /* A window has a zero behind its last record, so one without it went on where the file now ends. */
    if (b->head->state == SPANPROF_BLOCK_OPEN && i == b->count && b->count < d->words_in_block && !d->foreign &&
        d->file_size < b->offset + d->head.block_bytes)
        complain(s, d->path, word_offset(d, b, i), "the block is cut off");
    b->count = i;
}

static int ref_order(const void *a, const void *b) {
    const far_ref *x = a, *y = b;
    if (x->target != y->target) return x->target < y->target ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static int cut_order(const void *a, const void *b) {
    const lane_cut *x = a, *y = b;
    return (x->word > y->word) - (x->word < y->word);
}

/* The last moment that the lane's last block knows of. */
static void block_last_ticks(dump_input *d, const block_entry *b) {
    uint64_t t = b->head->base_ticks, end;
    uint32_t i = 0;
    while (i < b->count) {
        const uint64_t w = b->words[i];
        const unsigned type = (unsigned)SPANPROF_RECORD_TYPE(w);
        end = 0;
        if (w & 1) {
            t += w >> SPANPROF_SHORT_START_SHIFT & SPANPROF_SHORT_START_MAX;
            end = t + (w >> SPANPROF_SHORT_DURATION_SHIFT);
            i++;
        } else {
            if (type == SPANPROF_RECORD_TIME || type == SPANPROF_RECORD_THREAD) t = b->words[i + 1];
            if (type == SPANPROF_RECORD_SPAN || type == SPANPROF_RECORD_SPAN_DYN) {
                t = b->words[i + 1];
                end = t + b->words[i + 2];
            }
            i += (uint32_t)SPANPROF_RECORD_WORDS(w);
        }
        if (t > d->end_ticks) d->end_ticks = t;
        if (end > d->end_ticks + 1) d->end_ticks = end - 1;
    }
}

/* ---- names of functions from ELF files -------------------------------------------------------------------------- */

/* An ELF file of either size and byte order. What lies outside of the file reads as 0. */
typedef struct elf_file {
    const unsigned char *p;
    size_t n;
    bool wide, big;
} elf_file;

typedef struct elf_symbol {
    uint64_t value, size, name; /* name: offset in the file */
    uint32_t rank, number;      /* which of several names counts: the lowest rank, then number */
} elf_symbol;

static uint64_t elf_number(const elf_file *e, uint64_t at, unsigned bytes) {
    uint64_t v = 0;
    unsigned i;
    if (at > e->n || e->n - at < bytes) return 0;
    for (i = 0; i < bytes; i++) v |= (uint64_t)e->p[at + i] << 8 * (e->big ? bytes - 1 - i : i);
    return v;
}

/* A field whose place and size depend on the kind of file. */
static uint64_t elf_field(const elf_file *e, uint64_t base, unsigned wide_at, unsigned narrow_at) {
    return elf_number(e, base + (e->wide ? wide_at : narrow_at), e->wide ? 8 : 4);
}

static int elf_symbol_order(const void *a, const void *b) {
    const elf_symbol *x = a, *y = b;
    if (x->value != y->value) return x->value < y->value ? -1 : 1;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* The functions of the section of that type, sorted by address, the name that counts first; NULL when there are none. */
static elf_symbol *elf_symbols(const elf_file *e, unsigned type, size_t *count) {
    const uint64_t sections = elf_field(e, 0, 0x28, 0x20), size = elf_number(e, e->wide ? 0x3a : 0x2e, 2);
    const uint64_t section_count = elf_number(e, e->wide ? 0x3c : 0x30, 2), entry = e->wide ? 24 : 16;
    const uint64_t thumb = elf_number(e, 18, 2) == 40; /* EM_ARM: bit 0 of an address is no part of it */
    elf_symbol *list = NULL;
    uint64_t i, at = 0, names, names_end, bytes, table;
    size_t room = 0;
    *count = 0;
    for (i = 0; i < section_count && size; i++) {
        at = sections + i * size;
        if (at < e->n && elf_number(e, at + 4, 4) == type) break;
    }
    if (i == section_count || !size) return NULL;
    table = elf_field(e, at, 24, 16);
    bytes = elf_field(e, at, 32, 20);
    at = sections + elf_number(e, at + (e->wide ? 40u : 24u), 4) * size;
    names = elf_field(e, at, 24, 16);
    names_end = elf_field(e, at, 32, 20);
    if (table > e->n || bytes > e->n - table || names > e->n || names_end > e->n - names) return NULL;
    names_end += names;
    for (i = 0; i + entry <= bytes; i += entry) {
        const uint64_t s = table + i, info = elf_number(e, s + (e->wide ? 4u : 12u), 1);
        const uint64_t name = names + elf_number(e, s, 4), binding = info >> 4;
        if ((info & 15) != 2 || !elf_number(e, s + (e->wide ? 6u : 14u), 2) || name >= names_end || !e->p[name]) continue;
        must_grow(&list, &room, *count + 1, sizeof *list);
        list[*count] = (elf_symbol){ elf_field(e, s, 8, 4) & ~thumb, elf_field(e, s, 16, 8), name,
            binding == 1 ? 0 : binding == 2 ? 1 : 2, (uint32_t)*count };
        ++*count;
    }
    if (*count) qsort(list, *count, sizeof *list, elf_symbol_order);
    return list;
}

/* The name of the function that holds the address; empty when none does. */
static slice elf_find(const elf_file *e, const elf_symbol *list, size_t count, uint64_t address) {
    size_t low = 0, high = count, n;
    const elf_symbol *found;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (list[middle].value <= address) low = middle + 1;
        else high = middle;
    }
    if (low == 0) return (slice){ NULL, 0 };
    for (high = low - 1; high > 0 && list[high - 1].value == list[low - 1].value; high--) {}
    for (found = &list[high]; found < &list[low] && address != found->value && address - found->value >= found->size; found++) {}
    if (found == &list[low]) return (slice){ NULL, 0 };
    for (n = 0; n < SPANPROF_TEXT_MAX && found->name + n < e->n && e->p[found->name + n]; n++) {}
    return (slice){ (const char *)e->p + found->name, n };
}

/* A site inside the module that the program knows by its address alone. */
static bool site_is_inside(session *s, const site_entry *site, const module_entry *module) {
    const slice name = name_raw(&s->names, site->name);
    return site->address && site->address >= module->low && site->address < module->high &&
           (!name.n || (name.n > 2 && memcmp(name.p, "0x", 2) == 0));
}

/* Names the sites inside a module from its file, where that is there and has symbols. */
static void module_name_sites(session *s, dump_input *d, const module_entry *module) {
    const slice path = name_raw(&s->names, module->path);
    elf_file e = { NULL, 0, false, false };
    elf_symbol *list = NULL;
    unsigned char *data = NULL;
    size_t i, count = 0;
    int mapped = 0;
    struct stat st;
    const int fd = path.n && !memchr(path.p, '\0', path.n) ? open(path.p, O_RDONLY | OPEN_FLAGS | OPEN_NONBLOCK) : -1;
    if (fd < 0) return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) load_file(fd, &st, &data, &e.n, &mapped, NULL);
    close(fd);
    e.p = data;
    if (e.n >= 64 && memcmp(data, "\177ELF", 4) == 0) {
        e.wide = data[4] == 2;
        e.big = data[5] == 2;
        list = elf_symbols(&e, 2, &count);         /* .symtab */
        if (!list) list = elf_symbols(&e, 11, &count); /* .dynsym */
    }
    for (i = 0; i < d->site_count && count; i++) {
        site_entry *site = &d->sites[i];
        slice name;
        if (!site_is_inside(s, site, module)) continue;
        name = elf_find(&e, list, count, site->address - module->bias);
        if (name.n) site->name = name_number(&s->names, name);
    }
    free(list);
    if (data) unload_input(data, e.n, mapped);
}

/* Names of functions of which the program knew the addresses. */
static void sites_name(session *s, dump_input *d) {
    size_t i, m;
    for (m = 0; m < d->module_count; m++) {
        const module_entry *module = &d->modules[m];
        for (i = 0; i < d->site_count && !site_is_inside(s, &d->sites[i], module); i++) {}
        if (i < d->site_count) module_name_sites(s, d, module);
    }
}

/* ---- dump reader: a dump ---------------------------------------------------------------------------------------- */

/* Reads all but the events of a dump whose header is read. */
static void dump_index(session *s, dump_input *d, int swap) {
    size_t i;
    blocks_find(s, d, swap);
    lanes_build(s, d);
    for (i = 0; i < d->block_count; i++) {
        block_index(s, d, &d->blocks[i]);
        block_release(d, &d->blocks[i]);
    }
    for (i = 0; i < d->lane_count; i++) {
        lane_entry *l = &d->lanes[i];
        if (l->ref_count) qsort(l->refs, l->ref_count, sizeof *l->refs, ref_order);
        if (l->cut_count) qsort(l->cuts, l->cut_count, sizeof *l->cuts, cut_order);
        if (l->count) block_last_ticks(d, &d->blocks[l->first + l->count - 1]);
    }
    if (d->head.last_valid && d->head.last_valid <= 2) {
        const uint64_t last = d->head.last[d->head.last_valid - 1].ticks;
        if (last > d->end_ticks && last <= TIME_MAX) d->end_ticks = last;
    }
    sites_name(s, d);
    if (!d->sites) d->sites = must_alloc(1, sizeof *d->sites);
}

/* ---- clock ------------------------------------------------------------------------------------------------------ */

/* a * b / 2^shift, at most TIME_MAX. */
ALWAYS_INLINE uint64_t scaled(uint64_t a, uint64_t b, uint32_t shift) {
#ifdef __SIZEOF_INT128__
    __extension__ typedef unsigned __int128 wide;
    const wide product = ((wide)a * b) >> shift;
    return product > TIME_MAX ? TIME_MAX : (uint64_t)product;
#else
    const uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
    const uint64_t ll = al * bl, lh = al * bh, hl = ah * bl, hh = ah * bh;
    const uint64_t middle = (ll >> 32) + (uint32_t)lh + (uint32_t)hl;
    const uint64_t high = hh + (lh >> 32) + (hl >> 32) + (middle >> 32), low = middle << 32 | (uint32_t)ll;
    if (shift == 0) return high || low > TIME_MAX ? TIME_MAX : low;
    if (high >> shift || (high << (64 - shift) | low >> shift) > TIME_MAX) return TIME_MAX;
    return high << (64 - shift) | low >> shift;
#endif
}

/* (a << shift) / b rounded down, bit by bit; the result has to fit 64 bits. */
static uint64_t ratio(uint64_t a, uint64_t b, uint32_t shift) {
    uint64_t quotient = a / b, rest = a % b;
    for (; shift; shift--) {
        const int carry = rest >> 63 != 0;
        rest <<= 1;
        quotient <<= 1;
        if (carry || rest >= b) {
            rest -= b;
            quotient |= 1;
        }
    }
    return quotient;
}

/* The conversion over `ticks` that last `ns`. */
static clock_part clock_stretch(uint64_t ticks0, uint64_t ns0, uint64_t ticks, uint64_t ns) {
    clock_part part = { ticks0, ticks, ns0, 0, 0, QUICK_SHIFT };
    /* The factor stays below 2^63: a tick that lasts longer than 1,024 ns takes fewer binary places. */
    while (part.shift && ns / ticks >> (62 - part.shift)) part.shift--;
    part.factor = ratio(ns, ticks, part.shift);
    if (part.factor == 0) part.factor = 1;
    part.quick = part.shift == QUICK_SHIFT ? ticks : 0;
    return part;
}

static uint64_t clock_apply(const clock_part *part, uint64_t ticks) {
    const uint64_t ns = part->ns + scaled(ticks - part->ticks, part->factor, part->shift);
    return ns > TIME_MAX ? TIME_MAX : ns;
}

/* The stretch that holds the ticks; the first also serves what lies before it, the last what lies after. */
static const clock_part *clock_find(const dump_input *d, uint64_t ticks) {
    size_t low = 0, high = d->clock_count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (d->clock[middle].ticks <= ticks) low = middle;
        else high = middle;
    }
    return &d->clock[low];
}

/* Nanoseconds of CLOCK_MONOTONIC, never falling as ticks rise. */
static uint64_t clock_ns(const dump_input *d, uint64_t ticks) {
    const clock_part *part = clock_find(d, ticks);
    return ticks < part->ticks ? part->ns : clock_apply(part, ticks);
}

static int anchor_order(const void *a, const void *b) {
    const spanprof_dump_anchor *x = a, *y = b;
    if (x->ticks != y->ticks) return x->ticks < y->ticks ? -1 : 1;
    return (x->mono_ns > y->mono_ns) - (x->mono_ns < y->mono_ns);
}

/* Anchors of the blocks between the header's first and last: of each stretch of time the one that lags least behind the
 * line through both ends, since a thread that was interrupted between its two readings only makes an anchor late. */
static size_t anchors_choose(spanprof_dump_anchor *all, size_t count, size_t first, size_t last) {
    const clock_part line = clock_stretch(all[first].ticks, all[first].mono_ns, all[last].ticks - all[first].ticks,
        all[last].mono_ns - all[first].mono_ns);
    const uint64_t span = all[last].mono_ns - all[first].mono_ns;
    const uint64_t gap = span / ANCHORS_MAX > ANCHOR_GAP_NS ? span / ANCHORS_MAX : ANCHOR_GAP_NS;
    spanprof_dump_anchor *kept = all + count;
    size_t n = 0, i;
    uint64_t stretch_end = 0;
    int64_t best = 0;
    kept[n++] = all[first];
    for (i = first + 1; i < last; i++) {
        const uint64_t expected = clock_apply(&line, all[i].ticks);
        const int64_t late = (int64_t)(all[i].mono_ns - expected);
        /* A clock is steered by 500 parts in a million at most; what is farther off was misread. */
        const int64_t tolerance = (int64_t)(1000000 + (expected - all[first].mono_ns) / 1000);
        if (late > tolerance || late < -tolerance || expected + gap > all[last].mono_ns) continue;
        if (n > 1 && expected < stretch_end) {
            if (late < best) {
                best = late;
                kept[n - 1] = all[i];
            }
        } else if (expected >= kept[n - 1].mono_ns + gap) {
            best = late;
            kept[n++] = all[i];
            stretch_end = expected + gap;
        }
    }
    kept[n++] = all[last];
    return n;
}

/* Adds a dump's anchors that lie after `first`. */
static size_t anchors_add(const dump_input *d, const spanprof_dump_anchor *first, spanprof_dump_anchor *all, size_t count) {
    const spanprof_dump_header *h = &d->head;
    size_t i;
    for (i = 0; i < d->block_count; i++)
        if (d->blocks[i].head->base_ticks > first->ticks && d->blocks[i].head->base_ns > first->mono_ns)
            all[count++] = (spanprof_dump_anchor){ d->blocks[i].head->base_ticks, d->blocks[i].head->base_ns, 0 };
    if (h->last_valid >= 1 && h->last_valid <= 2) {
        const spanprof_dump_anchor *a = &h->last[h->last_valid - 1];
        if (a->ticks > first->ticks && a->mono_ns > first->mono_ns && a->ticks <= TIME_MAX && a->mono_ns <= TIME_MAX) all[count++] = *a;
    }
    return count;
}

/* Do both count the same ticks? Then they share one conversion, so that spans of one thread nest whichever dump has them. */
static bool clock_is_shared(const dump_input *a, const dump_input *b) {
    return !a->is_json && !b->is_json && a->process == b->process && a->head.clock == b->head.clock && a->head.clock == SPANPROF_CLOCK_TSC;
}

/* Builds the conversion from ticks to nanoseconds of a dump, by its own anchors and those of later dumps of its process. */
static void clock_build(session *s, dump_input *d) {
    const spanprof_dump_header *h = &d->head;
    const dump_input *other, *end = s->dumps + s->dump_count;
    spanprof_dump_anchor *all, begin = h->first;
    size_t count = 0, i, n = 0, last;
    clock_part *part;
    for (other = d, i = 8; other < end; other++) i += other->block_count + 2;
    all = must_alloc(i * 2, sizeof *all);
    for (other = d + 1; other < end; other++)
        if (clock_is_shared(d, other) && other->head.first.ticks < begin.ticks) begin = other->head.first;
    all[count++] = begin;
    for (other = d; other < end; other++) {
        if (other != d && !clock_is_shared(d, other)) continue;
        if (other->head.first.ticks > begin.ticks && other->head.first.mono_ns > begin.mono_ns) all[count++] = other->head.first;
        count = anchors_add(other, &begin, all, count);
    }
    qsort(all, count, sizeof *all, anchor_order);
    for (last = count - 1; last > 0 && all[last].mono_ns <= all[0].mono_ns; last--) {}
    d->clock = must_alloc(count < ANCHORS_MAX ? count + 8 : ANCHORS_MAX + 8, sizeof *d->clock);
    if (h->clock == SPANPROF_CLOCK_MONOTONIC) {
        d->clock[d->clock_count++] = clock_stretch(0, 0, 1, 1);
    } else if (last > 0 && all[last].mono_ns - all[0].mono_ns >= ANCHOR_GAP_NS) {
        const spanprof_dump_anchor *kept = all + count;
        n = anchors_choose(all, count, 0, last);
        for (i = 0; i + 1 < n && d->clock_count < ANCHORS_MAX + 4; i++) {
            size_t next = i + 1;
            while (next + 1 < n && (kept[next].ticks <= kept[i].ticks || kept[next].mono_ns <= kept[i].mono_ns)) next++;
            if (kept[next].ticks <= kept[i].ticks || kept[next].mono_ns <= kept[i].mono_ns) break;
            d->clock[d->clock_count++] = clock_stretch(kept[i].ticks, kept[i].mono_ns, kept[next].ticks - kept[i].ticks,
                kept[next].mono_ns - kept[i].mono_ns);
            i = next - 1;
        }
    } else if (h->ticks_per_second) {
        d->clock[d->clock_count++] = clock_stretch(h->first.ticks, h->first.mono_ns, h->ticks_per_second, UINT64_C(1000000000));
    } else if (last > 0) {
        d->clock[d->clock_count++] = clock_stretch(all[0].ticks, all[0].mono_ns, all[last].ticks - all[0].ticks,
            all[last].mono_ns - all[0].mono_ns);
    }
    if (d->clock_count == 0) {
        if (d->block_count) complain(s, d->path, offsetof(spanprof_dump_header, first),
            "the dump does not tell the rate of its clock; its ticks are taken as nanoseconds");
        d->clock[d->clock_count++] = clock_stretch(0, 0, 1, 1);
    }
    /* The last stretch goes on as long as its products fit. */
    part = &d->clock[d->clock_count - 1];
    part->length = part->factor >> part->shift >= 1 ? TIME_MAX / ((part->factor >> part->shift) + 1) : TIME_MAX;
    part->quick = part->shift == QUICK_SHIFT ? part->length : 0;
    free(all);
}

static void clocks_build(session *s) {
    size_t i, j;
    for (i = 0; i < s->dump_count; i++) {
        dump_input *d = &s->dumps[i];
        if (d->is_json) continue;
        for (j = 0; j < i && !clock_is_shared(&s->dumps[j], d); j++) {}
        if (j == i) {
            clock_build(s, d);
        } else {
            d->clock_count = s->dumps[j].clock_count;
            d->clock = must_alloc(d->clock_count, sizeof *d->clock);
            memcpy(d->clock, s->dumps[j].clock, d->clock_count * sizeof *d->clock);
        }
    }
}

/* ==== inflate ====================================================================================================== */

/* gzip files (RFC 1951, RFC 1952), pulled piece by piece.
 *
 * gz_open(z, read, user), then gz_read until it returns 0; z->error is then NULL or says what is wrong, z->error_offset at
 * which byte of the compressed file. What was decoded before the error is handed out first.
 */

enum {
    GZ_IN = 65536,
    GZ_HISTORY = 32768,     /* how far back a match may reach */
    GZ_OUT = 131072,        /* history and what is being decoded; sliding it costs one copy of a history per 96 KiB */
    GZ_MATCH = 258,
    GZ_LITERAL_BITS = 10,   /* codes up to this length take one look-up, longer ones are counted through */
    GZ_DISTANCE_BITS = 8,
    GZ_LONGEST = 15
};

typedef struct {
    uint16_t count[GZ_LONGEST + 1];      /* codes of each length */
    uint16_t symbol[288];                /* symbols in the order of their codes */
    uint16_t quick[1 << GZ_LITERAL_BITS]; /* by the next bits: symbol << 4 | length; 0 is a longer code or none */
} gz_code;

enum gz_state { GZ_HEADER, GZ_BLOCK, GZ_STORED, GZ_CODED, GZ_TRAILER, GZ_END };

/* Up to n bytes of the compressed file; 0 is its end. */
typedef size_t (*gz_source)(void *user, unsigned char *buf, size_t n);

typedef struct {
    gz_source read;
    void *user;
    uint64_t bits;            /* the next bits, lowest first. Above bit_count they may hold bits of bytes still to come,
                                 which or-ing those bytes in again leaves as they are */
    int bit_count;
    const unsigned char *in, *in_end;
    uint64_t in_base;         /* offset of in_buf[0] in the file */
    enum gz_state state;
    bool last_block, in_eof;
    uint32_t stored_left;
    size_t taken, made;       /* out[taken .. made) waits for gz_read */
    size_t member_start;      /* out[member_start]: the first byte that this member's matches may reach */
    uint32_t crc, length;
    unsigned members;
    const char *error;
    uint64_t error_offset;
    gz_code literals, distances;
    uint32_t crc_table[8][256];
    unsigned char in_buf[GZ_IN + 8];
    unsigned char out[GZ_OUT + GZ_MATCH + 16];
} gz;

static bool gz_fail(gz *z, const char *what) {
    if (!z->error) {
        z->error = what;
        z->error_offset = z->in_base + (uint64_t)(z->in - z->in_buf) - (uint64_t)(z->bit_count > 0 ? z->bit_count / 8 : 0);
    }
    z->state = GZ_END;
    return false;
}

/* Eight tables: a CRC over eight bytes at a time needs one look-up a byte but no chain from byte to byte. */
static void gz_crc_tables(gz *z) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++) c = c & 1 ? 0xedb88320u ^ (c >> 1) : c >> 1;
        z->crc_table[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int t = 1; t < 8; t++)
            z->crc_table[t][i] = z->crc_table[0][z->crc_table[t - 1][i] & 255] ^ (z->crc_table[t - 1][i] >> 8);
}

static void gz_crc(gz *z, const unsigned char *p, size_t n) {
    uint32_t c = ~z->crc;
    z->length += (uint32_t)n; /* ISIZE is the length modulo 2^32 */
    for (; n >= 8; n -= 8, p += 8) {
        const uint32_t a = c ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        c = z->crc_table[7][a & 255] ^ z->crc_table[6][a >> 8 & 255] ^ z->crc_table[5][a >> 16 & 255] ^
            z->crc_table[4][a >> 24] ^ z->crc_table[3][p[4]] ^ z->crc_table[2][p[5]] ^ z->crc_table[1][p[6]] ^
            z->crc_table[0][p[7]];
    }
    for (; n; n--, p++) c = z->crc_table[0][(c ^ *p) & 255] ^ (c >> 8);
    z->crc = ~c;
}

static bool gz_more_input(gz *z) {
    size_t n;
    if (z->in_eof) return false;
    z->in_base += (uint64_t)(z->in_end - z->in_buf);
    n = z->read(z->user, z->in_buf, GZ_IN);
    z->in = z->in_buf;
    z->in_end = z->in_buf + n;
    if (n == 0) z->in_eof = true;
    return n != 0;
}

/* At least 56 bits, unless the file ends. */
static inline void gz_refill(gz *z) {
    if (z->in_end - z->in >= 8) {
        uint64_t next;
        memcpy(&next, z->in, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        next = __builtin_bswap64(next);
#endif
        z->bits |= next << z->bit_count;
        z->in += (63 - z->bit_count) >> 3;
        z->bit_count |= 56;
        return;
    }
    while (z->bit_count <= 55) {
        if (z->in == z->in_end && !gz_more_input(z)) return;
        z->bits |= (uint64_t)*z->in++ << z->bit_count;
        z->bit_count += 8;
    }
}

static inline void gz_drop(gz *z, int n) {
    z->bits >>= n;
    z->bit_count -= n;
}

/* n <= 32 bits; false when the file ends inside them. */
static bool gz_bits(gz *z, int n, uint32_t *value) {
    if (z->bit_count < n) gz_refill(z);
    if (z->bit_count < n) return gz_fail(z, "the compressed data ends here (truncated)");
    *value = (uint32_t)(z->bits & ((UINT64_C(1) << n) - 1));
    gz_drop(z, n);
    return true;
}

/* Builds a code from the lengths of its n symbols. Only a code of a single symbol may leave bits without a meaning. */
static bool gz_build(gz_code *h, const uint8_t *length, unsigned n, unsigned quick_bits) {
    uint16_t at[GZ_LONGEST + 2], code[GZ_LONGEST + 2];
    int left = 1;
    memset(h->count, 0, sizeof h->count);
    memset(h->quick, 0, sizeof h->quick[0] << quick_bits);
    for (unsigned i = 0; i < n; i++) h->count[length[i]]++;
    h->count[0] = 0;
    at[1] = code[1] = 0;
    for (unsigned i = 1; i <= GZ_LONGEST; i++) {
        left = left * 2 - h->count[i];
        if (left < 0) return false;
        at[i + 1] = (uint16_t)(at[i] + h->count[i]);
        code[i + 1] = (uint16_t)((code[i] + h->count[i]) << 1);
    }
    if (left > 0 && !(at[GZ_LONGEST + 1] == 0 || (at[GZ_LONGEST + 1] == 1 && h->count[1] == 1))) return false;
    for (unsigned i = 0; i < n; i++) {
        unsigned reversed = 0;
        const unsigned bits = length[i];
        if (!bits) continue;
        h->symbol[at[bits]++] = (uint16_t)i;
        for (unsigned k = 0, c = code[bits]++; k < bits; k++, c >>= 1) reversed = reversed << 1 | (c & 1);
        if (bits <= quick_bits)
            for (; reversed < 1u << quick_bits; reversed += 1u << bits) h->quick[reversed] = (uint16_t)(i << 4 | bits);
    }
    return true;
}

/* A code longer than the table: its bits are compared with the first code of each length. 0 when there is none. */
static unsigned gz_long_code(const gz_code *h, uint64_t bits) {
    unsigned code = 0, first = 0, index = 0;
    for (unsigned n = 1; n <= GZ_LONGEST; n++) {
        code |= (unsigned)(bits & 1);
        bits >>= 1;
        if (code < first + h->count[n]) return (unsigned)h->symbol[index + code - first] << 4 | n;
        index += h->count[n];
        first = (first + h->count[n]) << 1;
        code <<= 1;
    }
    return 0;
}

static bool gz_fixed_codes(gz *z) {
    uint8_t length[288];
    for (unsigned i = 0; i < 288; i++) length[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    if (!gz_build(&z->literals, length, 288, GZ_LITERAL_BITS)) return false;
    memset(length, 5, 32);
    return gz_build(&z->distances, length, 32, GZ_DISTANCE_BITS);
}

static bool gz_dynamic_codes(gz *z) {
    static const uint8_t order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    uint8_t length[320] = {0};
    uint32_t literals, distances, n, value;
    if (!gz_bits(z, 5, &literals) || !gz_bits(z, 5, &distances) || !gz_bits(z, 4, &n)) return false;
    literals += 257;
    distances += 1;
    if (literals > 286 || distances > 30) return gz_fail(z, "a block has too many codes");
    for (uint32_t i = 0; i < n + 4; i++) {
        if (!gz_bits(z, 3, &value)) return false;
        length[order[i]] = (uint8_t)value;
    }
    if (!gz_build(&z->literals, length, 19, GZ_LITERAL_BITS)) return gz_fail(z, "a block's code lengths make no code");
    memset(length, 0, sizeof length);
    for (uint32_t i = 0; i < literals + distances;) {
        unsigned entry, symbol;
        gz_refill(z);
        entry = z->literals.quick[z->bits & ((1u << GZ_LITERAL_BITS) - 1)];
        symbol = entry >> 4;
        if (!entry || (int)(entry & 15) > z->bit_count) return gz_fail(z, "a block's code lengths are damaged or cut");
        gz_drop(z, (int)(entry & 15));
        if (symbol < 16) {
            length[i++] = (uint8_t)symbol;
            continue;
        }
        if (symbol == 16 && i == 0) return gz_fail(z, "a block repeats a length before the first");
        if (!gz_bits(z, symbol == 16 ? 2 : symbol == 17 ? 3 : 7, &value)) return false;
        value += symbol == 18 ? 11 : 3;
        if (value > literals + distances - i) return gz_fail(z, "a block repeats a length too often");
        memset(length + i, symbol == 16 ? length[i - 1] : 0, value);
        i += value;
    }
    if (length[256] == 0) return gz_fail(z, "a block has no end");
    if (!gz_build(&z->literals, length, literals, GZ_LITERAL_BITS) ||
        !gz_build(&z->distances, length + literals, distances, GZ_DISTANCE_BITS))
        return gz_fail(z, "a block's codes make no code");
    return true;
}

static void gz_copy_match(unsigned char *to, uint32_t distance, uint32_t n) {
    const unsigned char *from = to - distance;
    if (distance >= 8) { /* eight at a time: writes up to 7 bytes beyond, which the slack of `out` takes */
        for (unsigned char *end = to + n; to < end; to += 8, from += 8) memcpy(to, from, 8);
    } else if (distance == 1) {
        memset(to, *from, n);
    } else {
        while (n--) *to++ = *from++;
    }
}

/* The extra bits after a length or distance symbol, and what they are added to. */
static const uint16_t gz_length_base[29] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                            31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
static const uint8_t gz_length_bits[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
static const uint16_t gz_distance_base[30] = {1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
                                              193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};

/* The match that length symbol `symbol` opens. At most 5 + 15 + 13 bits: the caller has refilled. */
static inline bool gz_match(gz *z, unsigned symbol) {
    uint32_t length, distance;
    unsigned entry, extra;
    if (symbol > 285) return gz_fail(z, "a length that does not exist");
    symbol -= 257;
    length = gz_length_base[symbol] + (uint32_t)(z->bits & ((1u << gz_length_bits[symbol]) - 1));
    gz_drop(z, gz_length_bits[symbol]);
    entry = z->distances.quick[z->bits & ((1u << GZ_DISTANCE_BITS) - 1)];
    if (!entry) entry = gz_long_code(&z->distances, z->bits);
    gz_drop(z, (int)(entry & 15));
    if (z->bit_count < 0) return gz_fail(z, "the compressed data ends here (truncated)");
    if (!entry || entry >> 4 > 29) return gz_fail(z, "a distance that does not exist");
    entry >>= 4;
    extra = entry < 2 ? 0 : entry / 2 - 1;
    distance = gz_distance_base[entry] + (uint32_t)(z->bits & ((1u << extra) - 1));
    gz_drop(z, (int)extra);
    if (z->bit_count < 0) return gz_fail(z, "the compressed data ends here (truncated)");
    if (distance > z->made - z->member_start) return gz_fail(z, "a match reaches before the start");
    gz_copy_match(z->out + z->made, distance, length);
    z->made += length;
    return true;
}

/* Decodes until the block ends or the buffer is full. */
static bool gz_coded(gz *z) {
    while (z->made < GZ_OUT) {
        unsigned entry;
        gz_refill(z);
        entry = z->literals.quick[z->bits & ((1u << GZ_LITERAL_BITS) - 1)];
        /* Three literals of the table take at most 30 of the 56 bits, and leave 26: too few for a match, so a match
         * refills again. */
        for (int i = 0; i < 3 && entry && entry < 256u << 4 && (int)(entry & 15) <= z->bit_count; i++) {
            z->out[z->made++] = (unsigned char)(entry >> 4);
            gz_drop(z, (int)(entry & 15));
            entry = z->literals.quick[z->bits & ((1u << GZ_LITERAL_BITS) - 1)];
        }
        if (z->bit_count < 48) gz_refill(z);
        entry = z->literals.quick[z->bits & ((1u << GZ_LITERAL_BITS) - 1)];
        if (!entry) entry = gz_long_code(&z->literals, z->bits);
        if (z->bit_count < (int)(entry & 15) || (!entry && z->bit_count < GZ_LONGEST))
            return gz_fail(z, "the compressed data ends here (truncated)");
        if (!entry) return gz_fail(z, "a code that does not exist");
        gz_drop(z, (int)(entry & 15));
        entry >>= 4;
        if (entry < 256) {
            z->out[z->made++] = (unsigned char)entry;
        } else if (entry == 256) {
            z->state = z->last_block ? GZ_TRAILER : GZ_BLOCK;
            return true;
        } else if (!gz_match(z, entry)) {
            return false;
        }
    }
    return true;
}

static bool gz_stored(gz *z) {
    while (z->stored_left && z->made < GZ_OUT) {
        size_t n = GZ_OUT - z->made;
        if (z->bit_count >= 8) { /* whole bytes that the bit buffer already holds */
            z->out[z->made++] = (unsigned char)(z->bits & 255);
            gz_drop(z, 8);
            z->stored_left--;
            continue;
        }
        z->bits = 0;
        z->bit_count = 0;
        if (z->in == z->in_end && !gz_more_input(z)) return gz_fail(z, "the compressed data ends here (truncated)");
        if (n > (size_t)(z->in_end - z->in)) n = (size_t)(z->in_end - z->in);
        if (n > z->stored_left) n = z->stored_left;
        memcpy(z->out + z->made, z->in, n);
        z->in += n;
        z->made += n;
        z->stored_left -= (uint32_t)n;
    }
    if (!z->stored_left) z->state = z->last_block ? GZ_TRAILER : GZ_BLOCK;
    return true;
}

static bool gz_block(gz *z) {
    uint32_t last, type, length, check;
    if (!gz_bits(z, 1, &last) || !gz_bits(z, 2, &type)) return false;
    z->last_block = last != 0;
    if (type == 0) {
        gz_drop(z, z->bit_count & 7);
        if (!gz_bits(z, 16, &length) || !gz_bits(z, 16, &check)) return false;
        if ((length ^ check) != 0xffff) return gz_fail(z, "a stored block's length is damaged");
        z->stored_left = length;
        z->state = GZ_STORED;
        return true;
    }
    if (type == 3) return gz_fail(z, "a block of a kind that does not exist");
    if (!(type == 1 ? gz_fixed_codes(z) : gz_dynamic_codes(z))) return false;
    z->state = GZ_CODED;
    return true;
}

static bool gz_skip_text(gz *z) {
    uint32_t byte;
    do {
        if (!gz_bits(z, 8, &byte)) return false;
    } while (byte);
    return true;
}

/* A member's header, or the end of the file. */
static bool gz_header(gz *z) {
    uint32_t magic, method, flags, value;
    gz_refill(z);
    if (z->bit_count == 0 && z->members) return z->state = GZ_END, true;
    if (z->bit_count == 0) return gz_fail(z, "empty");
    if (z->members && ((z->bits & 0xffff) != 0x8b1f || z->bit_count < 16))
        return gz_fail(z, "bytes after the compressed data");
    if (!gz_bits(z, 16, &magic) || !gz_bits(z, 8, &method) || !gz_bits(z, 8, &flags)) return false;
    if (magic != 0x8b1f) return gz_fail(z, "not a gzip file");
    if (method != 8 || flags & 0xe0) return gz_fail(z, "a gzip file of an unknown kind");
    if (!gz_bits(z, 32, &value) || !gz_bits(z, 16, &value)) return false; /* time, extra flags, system */
    if (flags & 4) {
        uint32_t n;
        if (!gz_bits(z, 16, &n)) return false;
        while (n--)
            if (!gz_bits(z, 8, &value)) return false;
    }
    if (flags & 8 && !gz_skip_text(z)) return false;
    if (flags & 16 && !gz_skip_text(z)) return false;
    if (flags & 2 && !gz_bits(z, 16, &value)) return false;
    z->members++;
    z->crc = z->length = 0;
    z->member_start = z->made;
    z->state = GZ_BLOCK;
    return true;
}

static bool gz_trailer(gz *z) {
    uint32_t crc, length;
    gz_drop(z, z->bit_count & 7);
    if (!gz_bits(z, 32, &crc) || !gz_bits(z, 32, &length)) return false;
    if (crc != z->crc) return gz_fail(z, "the checksum of the compressed data is wrong");
    if (length != z->length) return gz_fail(z, "the length of the compressed data is wrong");
    z->state = GZ_HEADER;
    return true;
}

/* Decodes the next piece into `out`; everything made before has been taken. */
static void gz_fill(gz *z) {
    if (z->made >= GZ_OUT) {
        const size_t slide = z->made - GZ_HISTORY;
        memmove(z->out, z->out + slide, GZ_HISTORY);
        z->member_start = z->member_start > slide ? z->member_start - slide : 0;
        z->made = z->taken = GZ_HISTORY;
    }
    while (z->state != GZ_END && z->made == z->taken) {
        const size_t before = z->made;
        switch (z->state) {
        case GZ_HEADER: gz_header(z); break;
        case GZ_BLOCK: gz_block(z); break;
        case GZ_STORED: gz_stored(z); break;
        case GZ_CODED: gz_coded(z); break;
        case GZ_TRAILER: gz_trailer(z); break;
        case GZ_END: break;
        }
        gz_crc(z, z->out + before, z->made - before);
    }
}

static void gz_open(gz *z, gz_source read, void *user) {
    memset(z, 0, offsetof(gz, in_buf));
    z->read = read;
    z->user = user;
    z->in = z->in_end = z->in_buf;
    gz_crc_tables(z);
}

/* The next bytes, up to n; 0 is the end (see z->error). */
static size_t gz_read(gz *z, unsigned char *buf, size_t n) {
    size_t have;
    if (z->taken == z->made) gz_fill(z);
    have = z->made - z->taken;
    if (n > have) n = have;
    memcpy(buf, z->out + z->taken, n);
    z->taken += n;
    return n;
}

/* ==== Trace Event JSON ============================================================================================= */

/* Trace Event JSON, read as a stream: files of any length in a buffer as large as their largest event.
 *
 *     json_trace_read(file, on_event, user, &report)   every event in file order; 0, or what on_event returned, or -1
 *     json_report_print(file, &report)                 what was skipped or repaired, one line a kind
 *     json_find, json_next, json_string, json_integer  fields of an args object
 *     json_clean(out, raw)                             raw JSON made strict, for another file
 *
 * Read leniently, since traces are cut, patched by hand and written by many tools; everything that is skipped or repaired is
 * counted in the report with the byte offset of the first. For a gzip file, offsets are those of the decompressed text.
 */
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* First size of the buffer; stays in the second-level cache. */
#ifndef JSON_CHUNK
#define JSON_CHUNK ((size_t)1 << 18)
#endif
enum {
    JSON_EVENT_MAX = 64 << 20, /* a longer event is skipped and counted */
    JSON_OTHER_MAX = 4 << 20,  /* otherData that is looked into */
    JSON_RESCAN = 1 << 18      /* bytes of broken events that may be looked at again at the start of a file */
};

/* ---- report -------------------------------------------------------------------------------------------------------- */

/* name, is it damage (exit code 3), what it says after the count */
#define JSON_NOTES(X)                                                              \
    X(JSON_CUT, true, "the file is cut: its last event or its end is missing")     \
    X(JSON_BROKEN, true, "event(s) with broken syntax, skipped")                   \
    X(JSON_TOO_LARGE, true, "event(s) longer than 64 MiB, skipped")                \
    X(JSON_COMPRESSED, true, "the compressed data is damaged")                     \
    X(JSON_UNREADABLE, true, "the file could not be read further")                 \
    X(JSON_TRAILING, true, "text after the end")                                   \
    X(JSON_UNCLOSED, false, "an array without its ], which the format allows")     \
    X(JSON_COMMA, false, "comma(s) too many or too few, repaired")                 \
    X(JSON_EMPTY, false, "empty event(s), skipped")                                \
    X(JSON_NOT_EVENT, false, "array element(s) that are no event, skipped")        \
    X(JSON_NO_PHASE, false, "event(s) without a phase, skipped")                   \
    X(JSON_OTHER_PHASE, false, "event(s) of a kind that is not converted, skipped") \
    X(JSON_NO_TS, false, "event(s) without a time stamp, rejected")                \
    X(JSON_BAD_TS, true, "event(s) whose time stamp is no number or too large, rejected") \
    X(JSON_NO_DUR, false, "X event(s) without dur, rejected")                      \
    X(JSON_BAD_DUR, true, "X event(s) whose dur is no number or too large, rejected") \
    X(JSON_NEGATIVE_DUR, false, "X event(s) with a negative dur, rejected")        \
    X(JSON_SURROGATE, false, "half surrogate pair(s), replaced by U+FFFD")         \
    X(JSON_UNMATCHED_E, false, "E event(s) without an open B, ignored")            \
    X(JSON_OUT_OF_ORDER_E, false, "E event(s) that close a B around another open one") \
    X(JSON_UNFINISHED_B, false, "B event(s) left open, shown as unfinished")

#define JSON_NOTE_NAME(name, damage, text) name,
typedef enum { JSON_NOTES(JSON_NOTE_NAME) JSON_NOTE_COUNT } json_note;
#undef JSON_NOTE_NAME

typedef struct {
    uint64_t events;                                          /* given to on_event */
    struct { uint64_t count, first; } note[JSON_NOTE_COUNT];
    const char *why;                                          /* of JSON_COMPRESSED, JSON_UNREADABLE or a failure */
    bool cut, damaged, compressed;
    bool is_own, own_damaged;                                 /* a trace that this tool wrote; what it said of its inputs */
    uint64_t own_dropped;
} json_report;

#define JSON_NOTE_DAMAGE(name, damage, text) damage,
static const bool json_note_damage[] = {JSON_NOTES(JSON_NOTE_DAMAGE)};
#undef JSON_NOTE_DAMAGE
#define JSON_NOTE_TEXT(name, damage, text) text,
static const char *const json_note_texts[] = {JSON_NOTES(JSON_NOTE_TEXT)};
#undef JSON_NOTE_TEXT

static void json_count(json_report *r, json_note note, uint64_t offset) {
    if (r->note[note].count++ == 0 || offset < r->note[note].first) r->note[note].first = offset;
    if (json_note_damage[note]) r->damaged = true;
    if (note == JSON_CUT) r->cut = true;
}

static void json_report_print(const char *file, const json_report *r) {
    for (int i = 0; i < JSON_NOTE_COUNT; i++) {
        if (!r->note[i].count) continue;
        if (i == JSON_COMPRESSED || i == JSON_UNREADABLE)
            diag(file, r->note[i].first, "%s: %s", json_note_texts[i], r->why ? r->why : "unknown");
        else if (i == JSON_CUT || i == JSON_TRAILING || i == JSON_UNCLOSED)
            diag(file, r->note[i].first, "%s", json_note_texts[i]);
        else
            diag(file, r->note[i].first, "%" PRIu64 " %s%s", r->note[i].count, json_note_texts[i],
                r->note[i].count > 1 ? " (first here)" : "");
    }
}

/* ---- characters ---------------------------------------------------------------------------------------------------- */

/* The first quote or backslash in [p, end), or end. */
static inline const char *json_quote(const char *p, const char *end) {
#if defined(__SSE2__)
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\');
    for (; end - p >= 16; p += 16) {
        __m128i block;
        int found;
        memcpy(&block, p, sizeof block);
        found = _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(block, quote), _mm_cmpeq_epi8(block, backslash)));
        if (found) return p + __builtin_ctz((unsigned)found);
    }
#endif
    while (p < end && *p != '"' && *p != '\\') p++;
    return p;
}

/* The first quote, brace or bracket in [p, end), or end. A bracket differs from its brace by one bit. */
static inline const char *json_structure(const char *p, const char *end) {
#if defined(__SSE2__)
    const __m128i quote = _mm_set1_epi8('"'), open = _mm_set1_epi8('{'), close = _mm_set1_epi8('}'), bit = _mm_set1_epi8(0x20);
    for (; end - p >= 16; p += 16) {
        __m128i block, braces;
        int found;
        memcpy(&block, p, sizeof block);
        braces = _mm_or_si128(block, bit);
        found = _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(block, quote),
                                               _mm_or_si128(_mm_cmpeq_epi8(braces, open), _mm_cmpeq_epi8(braces, close))));
        if (found) return p + __builtin_ctz((unsigned)found);
    }
#endif
    while (p < end && *p != '"' && (*p | 0x20) != '{' && (*p | 0x20) != '}') p++;
    return p;
}

static inline const char *json_space(const char *p, const char *end) {
    while (p < end && (unsigned char)*p <= ' ') p++;
    return p;
}

static inline bool json_delimiter(char c) {
    return (unsigned char)c <= ' ' || c == ',' || c == ':' || c == '"' || (c | 0x20) == '{' || (c | 0x20) == '}';
}

/* From behind a string's first quote to its last quote, or NULL when the text ends before it. */
static inline const char *json_string_end(const char *p, const char *end, bool *escaped) {
    for (;;) {
        p = json_quote(p, end);
        if (p >= end) return NULL;
        if (*p == '"') return p;
        *escaped = true;
        if (end - p < 2) return NULL;
        p += 2;
    }
}

/* What is open while a nested value is skipped: a count, not a stack, so that depth costs nothing. */
typedef struct { uint64_t depth; bool in_string; } json_nest;

#if defined(__SSE2__)
/* One bit a character of 64: which are c, once `bits` are set in them. */
static inline uint64_t json_mask(const __m128i block[4], int bits, char c) {
    const __m128i set = _mm_set1_epi8((char)bits), want = _mm_set1_epi8(c);
    uint64_t mask = 0;
    for (int i = 0; i < 4; i++)
        mask |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_or_si128(block[i], set), want)) << (16 * i);
    return mask;
}

/* Skips 64 characters at a time, up to a block with a backslash or to the end of the value, behind which it stops. */
static const char *json_skip_blocks(json_nest *n, const char *p, const char *end) {
    if (n->depth == 0 && n->in_string) return p; /* a string, which ends without a bracket */
    for (; end - p >= 64; p += 64) {
        __m128i block[4];
        uint64_t inside, open, close;
        memcpy(block, p, sizeof block);
        if (json_mask(block, 0, '\\')) break;
        /* Each quote turns "inside a string" over for all that follow it. */
        inside = json_mask(block, 0, '"');
        for (int shift = 1; shift < 64; shift *= 2) inside ^= inside << shift;
        if (n->in_string) inside = ~inside;
        open = json_mask(block, 0x20, '{') & ~inside;
        close = json_mask(block, 0x20, '}') & ~inside;
        if (n->depth > (uint64_t)__builtin_popcountll(close)) {
            n->depth += (uint64_t)__builtin_popcountll(open);
            n->depth -= (uint64_t)__builtin_popcountll(close);
        } else {
            for (uint64_t rest = open | close; rest; rest &= rest - 1) {
                const uint64_t lowest = rest & (0 - rest);
                if (open & lowest) {
                    n->depth++;
                } else if (n->depth <= 1) {
                    n->depth = 0;
                    n->in_string = false;
                    return p + __builtin_ctzll(rest) + 1;
                } else {
                    n->depth--;
                }
            }
        }
        n->in_string = inside >> 63;
    }
    return p;
}
#endif

/* Skips on inside a value. Stops behind it (depth 0), or as far as the text can be judged: the rest comes again. */
static const char *json_skip_nested(json_nest *n, const char *p, const char *end) {
#if defined(__SSE2__)
    const char *next = p; /* where blocks are tried again */
#endif
    for (;;) {
#if defined(__SSE2__)
        if (p >= next) {
            const char *const from = p;
            p = json_skip_blocks(n, p, end);
            if (n->depth == 0 && p != from && !n->in_string) return p;
            next = end - p >= 64 ? p + 64 : end;
        }
#endif
        if (n->in_string) {
            p = json_quote(p, end);
            if (p >= end || (*p == '\\' && end - p < 2)) return p;
            n->in_string = *p == '\\';
            p += *p == '\\' ? 2 : 1;
            if (!n->in_string && n->depth == 0) return p;
            continue;
        }
        p = json_structure(p, end);
        if (p >= end) return end;
        if (*p == '"') {
            n->in_string = true;
        } else if ((*p | 0x20) == '{') {
            n->depth++;
        } else if (n->depth <= 1) {
            n->depth = 0;
            return p + 1;
        } else {
            n->depth--;
        }
        p++;
    }
}

/* Behind the value at p, or NULL when the text ends before its end is sure. Returns p where no value stands. */
static const char *json_skip(const char *p, const char *end) {
    bool escaped;
    if (p >= end) return NULL;
    if (*p == '"') {
        p = json_string_end(p + 1, end, &escaped);
        return p ? p + 1 : NULL;
    }
    if ((*p | 0x20) == '{') {
        json_nest n = {0, false};
        p = json_skip_nested(&n, p, end);
        return n.depth == 0 && !n.in_string ? p : NULL;
    }
    while (p < end && !json_delimiter(*p)) p++;
    return p < end ? p : NULL;
}

static int json_hex4(const char *p, const char *end) {
    int v = 0;
    if (end - p < 4) return -1;
    for (int i = 0; i < 4; i++) {
        const int c = p[i];
        const int d = c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
        if (d < 0) return -1;
        v = v * 16 + d;
    }
    return v;
}

static size_t json_utf8(char *to, uint32_t c) {
    if (c < 0x80) return to[0] = (char)c, 1;
    if (c < 0x800) return to[0] = (char)(0xc0 | c >> 6), to[1] = (char)(0x80 | (c & 63)), 2;
    if (c < 0x10000)
        return to[0] = (char)(0xe0 | c >> 12), to[1] = (char)(0x80 | (c >> 6 & 63)), to[2] = (char)(0x80 | (c & 63)), 3;
    to[0] = (char)(0xf0 | c >> 18);
    to[1] = (char)(0x80 | (c >> 12 & 63));
    to[2] = (char)(0x80 | (c >> 6 & 63));
    to[3] = (char)(0x80 | (c & 63));
    return 4;
}

/* Decodes the inside of a string; `to` may be `s.p` itself, since no escape is shorter than what it stands for.
 * Counts the halves of surrogate pairs. An unknown escape stands for its character. */
static size_t json_unescape(char *to, slice s, uint64_t *halves) {
    const char *p = s.p, *const end = s.p + s.n;
    char *const start = to;
    while (p < end) {
        static const char from[] = "bfnrt", into[] = "\b\f\n\r\t";
        const char *hit;
        int unit, low;
        if (*p != '\\' || end - p < 2) {
            *to++ = *p++;
            continue;
        }
        if (p[1] != 'u' || (unit = json_hex4(p + 2, end)) < 0) {
            hit = p[1] ? strchr(from, p[1]) : NULL;
            *to++ = hit ? into[hit - from] : p[1];
            p += 2;
            continue;
        }
        p += 6;
        if (unit >= 0xd800 && unit <= 0xdbff && end - p >= 6 && p[0] == '\\' && p[1] == 'u' &&
            (low = json_hex4(p + 2, end)) >= 0xdc00 && low <= 0xdfff) {
            to += json_utf8(to, 0x10000u + ((uint32_t)(unit - 0xd800) << 10) + (uint32_t)(low - 0xdc00));
            p += 6;
        } else if (unit >= 0xd800 && unit <= 0xdfff) {
            to += json_utf8(to, 0xfffd);
            (*halves)++;
        } else {
            to += json_utf8(to, (uint32_t)unit);
        }
    }
    return (size_t)(to - start);
}

/* ---- numbers ------------------------------------------------------------------------------------------------------- */

typedef struct { bool negative; const char *whole, *fraction; size_t whole_n, fraction_n; int64_t exponent; } json_decimal;

static bool json_split_decimal(slice s, json_decimal *d) {
    const char *p = s.p, *const end = s.p + s.n;
    memset(d, 0, sizeof *d);
    if (p < end && (*p == '-' || *p == '+')) d->negative = *p++ == '-';
    for (d->whole = p; p < end && *p >= '0' && *p <= '9'; p++) d->whole_n++;
    if (p < end && *p == '.') p++;
    for (d->fraction = p; p < end && *p >= '0' && *p <= '9'; p++) d->fraction_n++;
    if (d->whole_n + d->fraction_n == 0) return false;
    if (p < end && (*p | 0x20) == 'e') {
        bool down = false;
        p++;
        if (p < end && (*p == '-' || *p == '+')) down = *p++ == '-';
        if (p == end) return false;
        for (; p < end && *p >= '0' && *p <= '9'; p++)
            if (d->exponent < INT32_MAX) d->exponent = d->exponent * 10 + (*p - '0'); /* beyond that it is over or 0 anyway */
        if (down) d->exponent = -d->exponent;
    }
    return p == end;
}

static unsigned json_digit(const json_decimal *d, uint64_t i) {
    return (unsigned)((i < d->whole_n ? d->whole[i] : d->fraction[i - d->whole_n]) - '0');
}

/* The decimal times ten to the power of `shift`, rounded half up, in integers alone. false: no number, or over 64 bits. */
static bool json_decimal_integer(slice s, int shift, int64_t *value) {
    json_decimal d;
    uint64_t digits, v = 0;
    int64_t keep; /* digits before the point once it is shifted */
    bool up = false;
    if (!json_split_decimal(s, &d)) return false;
    digits = (uint64_t)d.whole_n + d.fraction_n;
    keep = (int64_t)d.whole_n + d.exponent + shift;
    for (int64_t i = 0; i < keep; i++) {
        const unsigned digit = (uint64_t)i < digits ? json_digit(&d, (uint64_t)i) : 0;
        if (v == 0 && (uint64_t)i >= digits) break; /* 0e99 */
        if (v > (UINT64_MAX - digit) / 10) return false;
        v = v * 10 + digit;
    }
    if (keep >= 0 && (uint64_t)keep < digits) {
        const unsigned digit = json_digit(&d, (uint64_t)keep);
        up = digit >= 5;
        if (d.negative && digit == 5) { /* half up is toward zero below zero */
            up = false;
            for (uint64_t i = (uint64_t)keep + 1; i < digits && !up; i++) up = json_digit(&d, i) != 0;
        }
    }
    if (up && v == UINT64_MAX) return false;
    v += up;
    if (v > (uint64_t)INT64_MAX + (d.negative ? 1 : 0)) return false;
    *value = d.negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

/* ---- input --------------------------------------------------------------------------------------------------------- */

typedef struct {
    int fd;
    gz *zip;
    unsigned char head[2]; /* what telling gzip from text has read of the file */
    size_t head_n;
    char *buf;             /* [buf, end) is text, *end is 0 */
    size_t cap;
    const char *p, *end;
    uint64_t base;         /* offset of buf[0] */
    bool eof, is_ahead;    /* is_ahead: json_ahead comes first */
    int error;             /* errno of a failed read */
} json_in;

/* What was read of an input that is no file, to tell a dump from JSON, and where the rest comes from. */
static struct { const char *path; slice text; int fd; } json_ahead;

static size_t json_read_file(void *user, unsigned char *to, size_t n) {
    json_in *in = user;
    ssize_t got;
    if (in->head_n) {
        n = in->head_n < n ? in->head_n : n;
        memcpy(to, in->head, n);
        memmove(in->head, in->head + n, in->head_n - n);
        in->head_n -= n;
        return n;
    }
    if (in->is_ahead && json_ahead.text.n) {
        n = json_ahead.text.n < n ? json_ahead.text.n : n;
        memcpy(to, json_ahead.text.p, n);
        json_ahead.text = (slice){ json_ahead.text.p + n, json_ahead.text.n - n };
        return n;
    }
    do got = read(in->fd, to, io_bytes(n));
    while (got < 0 && errno == EINTR);
    if (got < 0) in->error = errno;
    return got > 0 ? (size_t)got : 0;
}

static uint64_t json_offset(const json_in *in, const char *p) { return in->base + (uint64_t)(p - in->buf); }

/* Reads on, keeping [keep, end) and moving it to the front. false at the end, or out of memory. */
static bool json_more(json_in *in, const char *keep) {
    const size_t kept = (size_t)(in->end - keep), at = (size_t)(in->p - keep);
    size_t got = 0, n = 1;
    if (in->eof) return false;
    in->base += (uint64_t)(keep - in->buf);
    if (kept && keep != in->buf) memmove(in->buf, keep, kept);
    if (kept > in->cap / 2) {
        char *more = in->cap > SIZE_MAX / 4 ? NULL : realloc(in->buf, in->cap * 2 + 1);
        if (more) {
            in->buf = more;
            in->cap *= 2;
        } else {
            in->error = ENOMEM;
        }
    }
    /* At least as much as was kept, so that an event is parsed again only after its text has doubled. */
    while (!in->error && n && got <= kept && kept + got < in->cap) {
        unsigned char *const to = (unsigned char *)in->buf + kept + got;
        n = in->zip ? gz_read(in->zip, to, in->cap - kept - got) : json_read_file(in, to, in->cap - kept - got);
        got += n;
    }
    in->p = in->buf + at;
    in->end = in->buf + kept + got;
    in->buf[kept + got] = '\0';
    if (got == 0) in->eof = true;
    return got != 0;
}

static void json_close(json_in *in) {
    if (in->fd > 0) close(in->fd);
    free(in->zip);
    free(in->buf);
    memset(in, 0, sizeof *in);
}

/* false with errno set. "-" is stdin. */
static bool json_open(json_in *in, const char *file) {
    memset(in, 0, sizeof *in);
    in->is_ahead = json_ahead.path == file;
    in->fd = in->is_ahead ? json_ahead.fd : strcmp(file, "-") == 0 ? 0 : open(file, O_RDONLY | OPEN_FLAGS);
    if (in->fd < 0) return false;
    in->cap = JSON_CHUNK;
    in->buf = malloc(in->cap + 1);
    if (in->buf) {
        size_t n = 0, got;
        in->p = in->end = in->buf;
        *in->buf = '\0';
        while (n < 2 && (got = json_read_file(in, in->head + n, 2 - n)) != 0) n += got;
        in->head_n = n;
        if (n < 2 || in->head[0] != 0x1f || in->head[1] != 0x8b) return true;
        in->zip = malloc(sizeof *in->zip);
        if (in->zip) return gz_open(in->zip, json_read_file, in), true;
    }
    json_close(in);
    errno = ENOMEM;
    return false;
}

/* The next character that is no space; 0 at the end. Skips a byte order mark at the very start. */
static char json_peek(json_in *in) {
    for (;;) {
        in->p = json_space(in->p, in->end);
        if (in->p < in->end) return *in->p;
        if (!json_more(in, in->p)) return '\0';
    }
}

static void json_skip_bom(json_in *in) {
    while (in->end - in->p < 3 && json_more(in, in->p)) {}
    if (in->end - in->p >= 3 && memcmp(in->p, "\xef\xbb\xbf", 3) == 0) in->p += 3;
}

/* Skips the value at in->p, however long. false when the file ends inside it or no value stands there. */
static bool json_skip_stream(json_in *in) {
    json_nest n = {0, false};
    if (*in->p == '"') {
        n.in_string = true;
        in->p++;
    } else if ((*in->p | 0x20) != '{') {
        const char *const start = in->p;
        if (json_delimiter(*start)) return false;
        for (;;) {
            while (in->p < in->end && !json_delimiter(*in->p)) in->p++;
            if (in->p < in->end || !json_more(in, in->p)) return true;
        }
    }
    for (;;) {
        in->p = json_skip_nested(&n, in->p, in->end);
        if (n.depth == 0 && !n.in_string) return true;
        if (!json_more(in, in->p)) return false;
    }
}

/* ---- events -------------------------------------------------------------------------------------------------------- */

typedef enum { JSON_ID_NONE, JSON_ID_NUMBER, JSON_ID_TEXT } json_id_kind;
typedef struct { json_id_kind kind; int64_t number; slice text; } json_id; /* "12" is the number 12 */

typedef enum { JSON_ABSENT, JSON_GOOD, JSON_BAD } json_state;

/* One event; its texts are decoded, live until on_event returns and are not zero-terminated. */
typedef struct {
    char ph;               /* X B E b n e s t f i R C M; I is given as i, the old async S T p F as b n n e */
    char bp;               /* flows: 'e' or 0 */
    char scope;            /* instants: 't', 'p' or 'g' ('t' when absent) */
    bool has_ts, has_dur;
    int64_t ts_ns, dur_ns;
    slice name, cat;
    json_id pid, tid;
    slice id;              /* of async events and flows, as written; empty when absent */
    char id_kind;          /* 0 from "id", 'l' from id2.local, 'g' from id2.global */
    slice id_scope;        /* "scope" of async events */
    slice args;            /* the raw text of the args object; empty when absent */
    uint64_t offset;       /* of the event in the file */
} json_event;

typedef int (*json_on_event)(void *user, const json_event *event);

enum { JSON_ESC_NAME = 1, JSON_ESC_CAT = 2, JSON_ESC_ID = 4, JSON_ESC_SCOPE = 8 };

typedef struct {
    json_in in;
    json_report *report;
    json_on_event on_event;
    void *user;
    const char *bad;       /* where the event's syntax broke; NULL when its text ran out */
    json_event event;
    json_state ts, dur;
    slice id2;
    unsigned escaped;      /* which slices of the event hold escapes */
    bool stray_comma;
    uint64_t rescanned;    /* bytes of broken events that were looked at again */
    unsigned long_rescans; /* broken events of many bytes, not counted there */
    int result;            /* of on_event, once it is not 0 */
} json_reader;

static const char *json_stop(json_reader *r, const char *p) {
    if (p < r->in.end) r->bad = p;
    return NULL;
}

/* A string, or the text of another value, which a tolerant reader takes for it. NULL: see json_stop. */
static inline const char *json_take_text(json_reader *r, const char *p, slice *s, unsigned bit) {
    const char *q;
    bool escaped = false;
    r->escaped &= ~bit;
    if (*p == '"') {
        q = json_string_end(p + 1, r->in.end, &escaped);
        if (!q) return NULL;
        *s = (slice){p + 1, (size_t)(q - p - 1)};
        if (escaped) r->escaped |= bit;
        return q + 1;
    }
    q = json_skip(p, r->in.end);
    if (!q || q == p) return json_stop(r, q ? q : r->in.end);
    *s = (slice){p, (size_t)(q - p)};
    if (slice_is(*s, SLICE("null"))) s->n = 0;
    return q;
}

/* Microseconds to nanoseconds. The quick way takes what nearly every writer writes: digits, a point, up to three digits. */
static inline const char *json_take_time(json_reader *r, const char *p, int64_t *ns, json_state *state) {
    static const unsigned scale[4] = {1000, 100, 10, 1};
    const char *q = p;
    uint64_t v = 0;
    unsigned fraction = 0, n = 0;
    slice text;
    while (*q >= '0' && *q <= '9') v = v * 10 + (uint64_t)(*q++ - '0');
    if (q - p > 0 && q - p < 16) {
        if (*q == '.')
            for (q++; n < 3 && *q >= '0' && *q <= '9'; n++) fraction = fraction * 10 + (unsigned)(*q++ - '0');
        if (*q == ',' || *q == '}') {
            *ns = (int64_t)(v * 1000 + fraction * (n ? scale[n] : 0));
            *state = JSON_GOOD;
            return q;
        }
    }
    q = json_take_text(r, p, &text, 0);
    if (!q) return NULL;
    if (text.n == 0 && *p != '"') *state = JSON_ABSENT;
    else *state = json_decimal_integer(text, 3, ns) ? JSON_GOOD : JSON_BAD;
    return q;
}

/* A whole number in canonical form, so that "12" and 12 are one process and "012" is another. */
static bool json_canonical(slice s, int64_t *value) {
    const bool negative = s.n && s.p[0] == '-';
    const size_t digits = s.n - negative;
    uint64_t v = 0;
    if (digits == 0 || digits > 18 || (digits > 1 && s.p[negative] == '0') || (negative && s.p[1] == '0')) return false;
    for (size_t i = negative; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9') return false;
        v = v * 10 + (uint64_t)(s.p[i] - '0');
    }
    *value = negative ? -(int64_t)v : (int64_t)v;
    return true;
}

/* pid and tid. Their escapes stay undecoded: an id only has to differ from other ids. */
static inline const char *json_take_id(json_reader *r, const char *p, json_id *id) {
    const char *q = p;
    int64_t v = 0;
    while (*q >= '0' && *q <= '9' && q - p < 18) v = v * 10 + (*q++ - '0');
    if (q != p && (*q == ',' || *q == '}') && (*p != '0' || q - p == 1)) { /* as nearly every writer has it */
        *id = (json_id){JSON_ID_NUMBER, v, {p, (size_t)(q - p)}};
        return q;
    }
    q = json_take_text(r, p, &id->text, 0);
    if (!q) return NULL;
    if (id->text.n == 0 && *p != '"') id->kind = JSON_ID_NONE;
    else id->kind = json_canonical(id->text, &id->number) ? JSON_ID_NUMBER : JSON_ID_TEXT;
    return q;
}

static const char *json_take_char(json_reader *r, const char *p, char *c) {
    slice s;
    if (r->in.end - p >= 3 && p[0] == '"' && p[2] == '"' && p[1] != '\\' && p[1] != '"') return *c = p[1], p + 3;
    p = json_take_text(r, p, &s, 0);
    if (p) *c = s.n == 1 ? s.p[0] : s.n ? '?' : '\0';
    return p;
}

static const char *json_take_raw(json_reader *r, const char *p, slice *s, bool object) {
    const char *const q = json_skip(p, r->in.end);
    if (!q || q == p) return json_stop(r, q ? q : r->in.end);
    *s = !object || *p == '{' ? (slice){p, (size_t)(q - p)} : (slice){p, 0};
    return q;
}

/* Up to seven characters as a number: a key is told by one comparison. */
#define JSON_KEY1(a) ((uint64_t)(unsigned char)(a))
#define JSON_KEY2(a, b) (JSON_KEY1(a) | JSON_KEY1(b) << 8)
#define JSON_KEY3(a, b, c) (JSON_KEY2(a, b) | JSON_KEY1(c) << 16)
#define JSON_KEY4(a, b, c, d) (JSON_KEY3(a, b, c) | JSON_KEY1(d) << 24)
#define JSON_KEY5(a, b, c, d, e) (JSON_KEY4(a, b, c, d) | JSON_KEY1(e) << 32)

static uint64_t json_pack_key(slice s) {
    uint64_t key = 0;
    if (s.n > 7) return 0;
    for (size_t i = s.n; i-- > 0;) key = key << 8 | (unsigned char)s.p[i];
    return key;
}

/* The key at p, packed; 0 for one that no event field has. Returns behind its quote. */
static inline const char *json_take_key(json_reader *r, const char *p, uint64_t *key) {
    const char *q;
    bool escaped = false;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (r->in.end - p >= 9) {
        const uint64_t ones = UINT64_C(0x0101010101010101), high = UINT64_C(0x8080808080808080);
        uint64_t word, quote, slash;
        memcpy(&word, p + 1, 8);
        quote = word ^ ones * '"';
        slash = word ^ ones * '\\';
        quote = (quote - ones) & ~quote & high; /* its lowest bit marks the first quote; higher ones may be false */
        slash = (slash - ones) & ~slash & high;
        if (quote && !(slash & (quote ^ (quote - 1)))) {
            const int n = __builtin_ctzll(quote) & ~7;
            *key = word & ((UINT64_C(1) << n) - 1);
            return p + 2 + n / 8;
        }
    }
#endif
    q = json_string_end(p + 1, r->in.end, &escaped);
    if (!q) return NULL;
    *key = json_pack_key((slice){p + 1, (size_t)(q - p - 1)});
    if (escaped && q - p - 1 <= 42) { /* 7 characters, all of them written as \u00XX */
        char plain[48];
        uint64_t halves = 0;
        const size_t n = json_unescape(plain, (slice){p + 1, (size_t)(q - p - 1)}, &halves);
        *key = json_pack_key((slice){plain, n});
    }
    return q + 1;
}

static inline const char *json_take_field(json_reader *r, const char *p, uint64_t key) {
    json_event *e = &r->event;
    slice ignored;
    switch (key) {
    case JSON_KEY2('p', 'h'): return json_take_char(r, p, &e->ph);
    case JSON_KEY2('t', 's'): return json_take_time(r, p, &e->ts_ns, &r->ts);
    case JSON_KEY3('d', 'u', 'r'): return json_take_time(r, p, &e->dur_ns, &r->dur);
    case JSON_KEY4('n', 'a', 'm', 'e'): return json_take_text(r, p, &e->name, JSON_ESC_NAME);
    case JSON_KEY3('c', 'a', 't'): return json_take_text(r, p, &e->cat, JSON_ESC_CAT);
    case JSON_KEY3('p', 'i', 'd'): return json_take_id(r, p, &e->pid);
    case JSON_KEY3('t', 'i', 'd'): return json_take_id(r, p, &e->tid);
    case JSON_KEY4('a', 'r', 'g', 's'): return json_take_raw(r, p, &e->args, true);
    case JSON_KEY2('i', 'd'): return json_take_text(r, p, &e->id, JSON_ESC_ID);
    case JSON_KEY3('i', 'd', '2'): return json_take_raw(r, p, &r->id2, true);
    case JSON_KEY2('b', 'p'): return json_take_char(r, p, &e->bp);
    case JSON_KEY1('s'): return json_take_char(r, p, &e->scope);
    case JSON_KEY5('s', 'c', 'o', 'p', 'e'): return json_take_text(r, p, &e->id_scope, JSON_ESC_SCOPE);
    default: return json_take_raw(r, p, &ignored, false);
    }
}

/* The event at p. Returns behind it; NULL when it is broken (r->bad) or its text runs out. */
static const char *json_parse_event(json_reader *r, const char *p) {
    const char *const end = r->in.end;
    r->bad = NULL;
    r->escaped = 0;
    r->stray_comma = false;
    r->ts = r->dur = JSON_ABSENT;
    r->id2.n = 0;
    memset(&r->event, 0, sizeof r->event);
    for (p = json_space(p + 1, end); *p != '}';) {
        uint64_t key = 0;
        if (*p != '"') return json_stop(r, p);
        p = json_take_key(r, p, &key);
        if (!p) return NULL;
        p = json_space(p, end);
        if (*p != ':') return json_stop(r, p);
        p = json_space(p + 1, end);
        if (p >= end) return NULL;
        p = json_take_field(r, p, key);
        if (!p) return NULL;
        p = json_space(p, end);
        if (*p == ',') {
            p = json_space(p + 1, end);
            if (*p == '}') r->stray_comma = true;
        } else if (*p != '}') {
            return json_stop(r, p);
        }
    }
    return p + 1;
}

/* ---- fields of an object ------------------------------------------------------------------------------------------- */

/* The next field of an object: its key as written, without quotes, and its raw value. Start with *at = object.p. */
static bool json_next(slice object, const char **at, slice *key, slice *value) {
    const char *const end = object.p + object.n;
    const char *p = json_space(*at, end), *q;
    bool escaped = false;
    if (p < end && (*p == '{' || *p == ',')) p = json_space(p + 1, end);
    if (p >= end || *p != '"') return false;
    q = json_string_end(p + 1, end, &escaped);
    if (!q) return false;
    *key = (slice){p + 1, (size_t)(q - p - 1)};
    p = json_space(q + 1, end);
    if (p >= end || *p != ':') return false;
    p = json_space(p + 1, end);
    q = json_skip(p, end);
    if (!q || q == p) return false;
    *value = (slice){p, (size_t)(q - p)};
    *at = q;
    return true;
}

/* The raw value of a field, the last of that key. */
static bool json_find(slice object, const char *key, slice *value) {
    const char *at = object.p;
    const size_t n = strlen(key);
    slice k, v;
    bool found = false;
    while (object.n && json_next(object, &at, &k, &v)) {
        char plain[64];
        uint64_t halves = 0;
        if (k.n > n && k.n < sizeof plain && memchr(k.p, '\\', k.n)) k = (slice){plain, json_unescape(plain, k, &halves)};
        if (k.n == n && memcmp(k.p, key, n) == 0) {
            *value = v;
            found = true;
        }
    }
    return found;
}

/* Appends the decoded text of a string value; false when it is none. */
static bool json_string(slice raw, textbuf *out) {
    uint64_t halves = 0;
    if (raw.n < 2 || raw.p[0] != '"') return false;
    raw = (slice){raw.p + 1, raw.n - 2};
    if (!text_room(out, raw.n)) return false;
    out->n += json_unescape(out->p + out->n, raw, &halves);
    return true;
}

/* A whole number, bare or in quotes; 12.0 and 1.2e1 are whole, 12.5 is not. */
static bool json_integer(slice raw, int64_t *value) {
    json_decimal d;
    if (raw.n >= 2 && raw.p[0] == '"') raw = (slice){raw.p + 1, raw.n - 2};
    if (!json_split_decimal(raw, &d)) return false;
    for (uint64_t i = 0; i < (uint64_t)d.whole_n + d.fraction_n; i++)
        if ((int64_t)i >= (int64_t)d.whole_n + d.exponent && json_digit(&d, i) != 0) return false;
    return json_decimal_integer(raw, 0, value);
}

/* ---- raw JSON made strict ------------------------------------------------------------------------------------------ */

/* A number as strict JSON has it, else 0: its length in [p, end). */
static size_t json_strict_number(const char *p, const char *end) {
    const char *q = p;
    if (q < end && *q == '-') q++;
    if (q >= end || *q < '0' || *q > '9') return 0;
    if (*q == '0') q++;
    else while (q < end && *q >= '0' && *q <= '9') q++;
    if (q < end && *q == '.') {
        if (++q >= end || *q < '0' || *q > '9') return 0;
        while (q < end && *q >= '0' && *q <= '9') q++;
    }
    if (q < end && (*q | 0x20) == 'e') {
        if (++q < end && (*q == '-' || *q == '+')) q++;
        if (q >= end || *q < '0' || *q > '9') return 0;
        while (q < end && *q >= '0' && *q <= '9') q++;
    }
    return (size_t)(q - p);
}

/* A string or scalar at p, made strict: escapes resolved where they may be (half surrogates would stop Perfetto), NaN,
 * Infinity and unknown words null. Returns behind it, NULL when none stands there. */
static const char *json_clean_atom(textbuf *out, const char *p, const char *end) {
    if (*p == '"') {
        bool escaped = false;
        uint64_t halves = 0;
        textbuf plain = {NULL, 0, 0, false};
        slice s;
        const char *const q = json_string_end(p + 1, end, &escaped);
        if (!q) return NULL;
        s = (slice){p + 1, (size_t)(q - p - 1)};
        if (escaped) {
            if (!text_room(&plain, s.n)) out_of_memory();
            s.n = json_unescape(plain.p, s, &halves);
            s.p = plain.p;
        }
        text_json(out, s);
        text_free(&plain);
        return q + 1;
    }
    const char *q = p;
    while (q < end && !json_delimiter(*q)) q++;
    const slice word = {p, (size_t)(q - p)};
    if (word.n == 0) return NULL;
    if (json_strict_number(p, q) == word.n || slice_is(word, SLICE("true")) || slice_is(word, SLICE("false"))) text_slice(out, word);
    else text_str(out, "null");
    return q;
}

/* Appends `raw`, one value, as strict JSON without spaces between tokens. Trailing commas go; what is no value at all, or
 * closes what is not open, is left out entirely: false. */
static bool json_clean(textbuf *out, slice raw) {
    enum { WANT_VALUE, WANT_ELEMENT, WANT_KEY, WANT_COLON, WANT_COMMA } want = WANT_VALUE; /* ELEMENT and KEY: or the end */
    const char *p = raw.p, *const end = raw.p + raw.n;
    const size_t start = out->n;
    textbuf open = {NULL, 0, 0, false}; /* the closing character of every open value */
    bool good = true;
    for (p = json_space(p, end); p < end && good; p = json_space(p, end)) {
        const bool closes = open.n && *p == open.p[open.n - 1];
        if (want == WANT_COMMA && !open.n) {
            good = false; /* text behind the value */
        } else if (closes && (want == WANT_ELEMENT || want == WANT_KEY || want == WANT_COMMA)) {
            if (out->p[out->n - 1] == ',') out->n--;
            text_byte(out, *p++);
            open.n--;
            want = WANT_COMMA;
        } else if (want == WANT_COMMA || want == WANT_COLON) {
            good = *p == (want == WANT_COMMA ? ',' : ':');
            text_byte(out, *p++);
            want = want == WANT_COLON ? WANT_VALUE : open.p[open.n - 1] == '}' ? WANT_KEY : WANT_ELEMENT;
        } else if ((*p == '{' || *p == '[') && want != WANT_KEY) {
            want = *p == '{' ? WANT_KEY : WANT_ELEMENT;
            text_byte(out, *p);
            text_byte(&open, *p++ == '{' ? '}' : ']');
        } else {
            good = want != WANT_KEY || *p == '"';
            p = good ? json_clean_atom(out, p, end) : p;
            if (!p) break;
            want = want == WANT_KEY ? WANT_COLON : WANT_COMMA;
        }
        if (out->failed || open.failed) out_of_memory();
    }
    good = good && p && want == WANT_COMMA && !open.n;
    text_free(&open);
    if (!good) out->n = start;
    return good;
}

/* ---- the trace ----------------------------------------------------------------------------------------------------- */

static slice json_decode(json_reader *r, slice s) {
    uint64_t halves = 0;
    char *const to = r->in.buf + (s.p - r->in.buf);
    s.n = json_unescape(to, s, &halves);
    if (halves) {
        r->report->note[JSON_SURROGATE].count += halves - 1;
        json_count(r->report, JSON_SURROGATE, r->event.offset);
    }
    return s;
}

/* id2 holds one of two ids; decoded in place like the rest. */
static void json_take_id2(json_reader *r) {
    json_event *e = &r->event;
    slice value;
    if (json_find(r->id2, "local", &value)) e->id_kind = 'l';
    else if (json_find(r->id2, "global", &value)) e->id_kind = 'g';
    else return;
    r->escaped &= ~(unsigned)JSON_ESC_ID;
    if (value.n >= 2 && value.p[0] == '"') {
        value = (slice){value.p + 1, value.n - 2};
        if (memchr(value.p, '\\', value.n)) r->escaped |= JSON_ESC_ID;
    }
    e->id = value;
}

/* Why an event is not given out, or JSON_NOTE_COUNT. */
static json_note json_judge(json_reader *r) {
    json_event *e = &r->event;
    if (!e->ph) return JSON_NO_PHASE;
    switch (e->ph) {
    case 'X': case 'B': case 'E': case 'b': case 'n': case 'e': case 's': case 't': case 'f': case 'i': case 'R': case 'C':
    case 'M': break;
    case 'I': e->ph = 'i'; break;
    case 'S': e->ph = 'b'; break;
    case 'T': case 'p': e->ph = 'n'; break;
    case 'F': e->ph = 'e'; break;
    default: return JSON_OTHER_PHASE;
    }
    e->has_ts = r->ts == JSON_GOOD;
    e->has_dur = r->dur == JSON_GOOD;
    if (e->ph == 'M') return JSON_NOTE_COUNT;
    if (r->ts == JSON_BAD) return JSON_BAD_TS;
    if (!e->has_ts) return JSON_NO_TS;
    if (e->ph != 'X') return JSON_NOTE_COUNT;
    if (r->dur == JSON_BAD) return JSON_BAD_DUR;
    if (!e->has_dur) return JSON_NO_DUR;
    if (e->dur_ns < 0) return JSON_NEGATIVE_DUR;
    return e->ts_ns > INT64_MAX - e->dur_ns ? JSON_BAD_DUR : JSON_NOTE_COUNT;
}

static void json_emit(json_reader *r) {
    json_event *e = &r->event;
    const json_note wrong = json_judge(r);
    if (r->stray_comma) json_count(r->report, JSON_COMMA, e->offset);
    if (wrong != JSON_NOTE_COUNT) {
        json_count(r->report, wrong, e->offset);
        return;
    }
    if (r->id2.n) json_take_id2(r);
    if (r->escaped & JSON_ESC_NAME) e->name = json_decode(r, e->name);
    if (r->escaped & JSON_ESC_CAT) e->cat = json_decode(r, e->cat);
    if (r->escaped & JSON_ESC_ID) e->id = json_decode(r, e->id);
    if (r->escaped & JSON_ESC_SCOPE) e->id_scope = json_decode(r, e->id_scope);
    if (e->scope != 'p' && e->scope != 'g') e->scope = 't';
    if (e->bp != 'e') e->bp = 0;
    r->report->events++;
    r->result = r->on_event(r->user, e);
}

/* After broken syntax: on to the next place that looks like the border of two events, "} , {". A nested list of objects
 * looks the same; its elements have no phase and are skipped as such. */
static bool json_resync(json_in *in) {
    int state = 0; /* 1: saw }, 2: saw } and a comma */
    for (;;) {
        for (; in->p < in->end; in->p++) {
            const char c = *in->p;
            if (c == '{' && state == 2) return true;
            if (c == '}') state = 1;
            else if (c == ',' && state == 1) state = 2;
            else if ((unsigned char)c > ' ') state = 0;
        }
        if (!json_more(in, in->p)) return false;
    }
}

/* Where to look for the next event after a broken one that was read up to `broke`: from its start, since a quote that is
 * missing hides the border; but not again and again, which would take quadratic time. */
static bool json_recover(json_reader *r, const char *broke) {
    json_in *const in = &r->in;
    if (broke - in->p > JSON_RESCAN && r->long_rescans < 8) r->long_rescans++; /* a few may take as long as they do */
    else r->rescanned += (uint64_t)(broke - in->p);
    if (r->rescanned <= 4 * json_offset(in, in->p) + JSON_RESCAN) in->p += in->p < in->end;
    else in->p = broke;
    return json_resync(in);
}

/* The event at in->p. false when the file ends inside it or on_event has had enough. */
static bool json_one_event(json_reader *r) {
    json_in *const in = &r->in;
    for (;;) {
        const uint64_t offset = json_offset(in, in->p);
        const char *const after = json_parse_event(r, in->p);
        if (after) {
            r->event.offset = offset;
            if (r->event.ph || r->event.name.n || after - in->p > 64 || json_space(in->p + 1, after) != after - 1) json_emit(r);
            else json_count(r->report, JSON_EMPTY, offset);
            in->p = after;
            return r->result == 0;
        }
        if (r->bad) {
            json_count(r->report, JSON_BROKEN, json_offset(in, r->bad));
            return json_recover(r, r->bad);
        }
        if (in->end - in->p >= JSON_EVENT_MAX) {
            json_count(r->report, JSON_TOO_LARGE, offset);
            if (json_skip_stream(in)) return true;
            json_count(r->report, JSON_CUT, offset);
            return false;
        }
        if (!json_more(in, in->p)) {
            /* At the end of the text: an event that lost its end, or one whose missing quote swallowed what followed. */
            json_count(r->report, JSON_CUT, offset);
            r->bad = in->end;
            return json_recover(r, in->end);
        }
    }
}

/* The events behind a [. Stops behind its ], or at the end; false when nothing more is to be read. */
static bool json_events(json_reader *r, bool in_object) {
    json_in *const in = &r->in;
    bool comma = true, some = false; /* a comma was seen or is not due; an element was seen */
    for (;;) {
        const char c = json_peek(in);
        const uint64_t offset = json_offset(in, in->p);
        if (in->p == in->end) {
            json_count(r->report, in_object ? JSON_CUT : JSON_UNCLOSED, offset);
            return false;
        }
        if (c == ']') {
            if (comma && some) json_count(r->report, JSON_COMMA, offset);
            in->p++;
            return true;
        }
        if (c == ',') {
            if (comma) json_count(r->report, JSON_COMMA, offset);
            comma = true;
            in->p++;
            continue;
        }
        if (!comma) json_count(r->report, JSON_COMMA, offset);
        comma = false;
        some = true;
        if (c == '{') {
            if (!json_one_event(r)) return false;
            if (r->bad) comma = true; /* resynchronized at an event */
            continue;
        }
        json_count(r->report, JSON_NOT_EVENT, offset);
        if (!json_skip_stream(in)) {
            if (in->p < in->end) in->p++; /* a stray character */
            else return json_count(r->report, JSON_CUT, offset), false;
        }
    }
}

/* The key at in->p into `key`, as far as it fits, and on to the value behind its colon. false: broken, or the end. */
static bool json_top_key(json_in *in, char *key, size_t size) {
    bool escaped = false;
    const char *q;
    if (json_peek(in) != '"') return false;
    while ((q = json_string_end(in->p + 1, in->end, &escaped)) == NULL && (size_t)(in->end - in->p) <= size && json_more(in, in->p)) {}
    *key = '\0';
    if (!q) {
        if (!json_skip_stream(in)) return false;
    } else {
        if ((size_t)(q - in->p - 1) < size) {
            memcpy(key, in->p + 1, (size_t)(q - in->p - 1));
            key[q - in->p - 1] = '\0';
        }
        in->p = q + 1;
    }
    if (json_peek(in) != ':') return false;
    in->p++;
    return json_peek(in) != '\0';
}

/* What our own trace says about its inputs, which the events no longer tell. in->p is at the value of otherData. */
static bool json_other_data(json_reader *r) {
    json_in *const in = &r->in;
    const char *q;
    slice data, value;
    int64_t dropped;
    while ((q = json_skip(in->p, in->end)) == NULL && in->end - in->p < JSON_OTHER_MAX && json_more(in, in->p)) {}
    if (!q || q == in->p) return false;
    data = (slice){in->p, (size_t)(q - in->p)};
    in->p = q;
    if (!json_find(data, "generator", &value) || value.n < 10 || memcmp(value.p, "\"spanprof ", 10) != 0) return true;
    r->report->is_own = true;
    if (json_find(data, "damaged", &value) && slice_is(value, SLICE("true"))) r->report->own_damaged = true;
    if (json_find(data, "dropped_events", &value) && json_integer(value, &dropped) && dropped > 0) r->report->own_dropped = (uint64_t)dropped < TIME_MAX ? (uint64_t)dropped : TIME_MAX;
    return true;
}

/* The object form: every traceEvents, whatever stands before and behind. Returns how many there were. */
static int json_object(json_reader *r) {
    json_in *const in = &r->in;
    char key[24];
    int found = 0;
    in->p++;
    for (;;) {
        const char c = json_peek(in);
        if (c == '}') {
            in->p++;
            if (json_peek(in) == '\0' && in->p == in->end) return found;
            json_count(r->report, JSON_TRAILING, json_offset(in, in->p));
            if (!r->report->note[JSON_BROKEN].count) return found;
        } else if (c == ',') {
            in->p++;
            continue;
        } else if (json_top_key(in, key, sizeof key)) {
            if (strcmp(key, "traceEvents") == 0 && *in->p == '[') {
                found++;
                in->p++;
                if (!json_events(r, true)) return found;
                continue;
            }
            if (strcmp(key, "otherData") == 0 && *in->p == '{' && json_other_data(r)) continue;
            if (json_skip_stream(in)) continue;
        }
        if (in->p >= in->end && !json_more(in, in->p)) {
            json_count(r->report, JSON_CUT, json_offset(in, in->p));
            return found;
        }
        /* Broken outside the events: when there were some, more may follow. */
        if (c != '}') json_count(r->report, JSON_BROKEN, json_offset(in, in->p));
        if (!found || !json_resync(in) || !json_events(r, true)) return found;
    }
}

/* Reads the events of a file in their order. 0; what on_event returned to stop; or -1 when the file is no trace, with
 * report->why set (and errno, when it could not be opened). Damage is in the report. */
static int json_trace_read(const char *file, json_on_event on_event, void *user, json_report *report) {
    json_reader r;
    char first;
    memset(&r, 0, sizeof r);
    memset(report, 0, sizeof *report);
    r.report = report;
    r.on_event = on_event;
    r.user = user;
    if (!json_open(&r.in, file)) return report->why = "cannot be opened", -1;
    report->compressed = r.in.zip != NULL;
    json_skip_bom(&r.in);
    first = json_peek(&r.in);
    if (first == '[') {
        r.in.p++;
        while (json_events(&r, false)) {
            if (json_peek(&r.in) == '\0' && r.in.p == r.in.end) break;
            json_count(report, JSON_TRAILING, json_offset(&r.in, r.in.p));
            if (!report->note[JSON_BROKEN].count || !json_resync(&r.in)) break;
        }
    } else if (first == '{') {
        if (!json_object(&r) && !report->cut) report->why = "holds no traceEvents", r.result = -1;
    } else {
        report->why = r.in.p == r.in.end ? "is empty" : "is neither a dump nor JSON";
        r.result = -1;
    }
    /* Compressed data is looked at to its end, where its checksum stands, wherever the text stopped making sense. */
    if (r.in.zip) r.in.p = r.in.end;
    while (r.in.zip && json_more(&r.in, r.in.p)) r.in.p = r.in.end;
    if (r.in.zip && r.in.zip->error) {
        report->why = r.in.zip->error;
        json_count(report, JSON_COMPRESSED, r.in.zip->error_offset);
    }
    if (r.in.error) {
        report->why = strerror(r.in.error);
        json_count(report, JSON_UNREADABLE, json_offset(&r.in, r.in.end));
    }
    json_close(&r.in);
    return r.result;
}

/* ---- what a JSON file is ------------------------------------------------------------------------------------------- */

typedef enum { JSON_KIND_NONE, JSON_KIND_TRACE, JSON_KIND_SUMMARY, JSON_KIND_OTHER } json_kind;

/* Told by its top-level keys, in whatever order; values are skipped as a stream. NONE: no JSON, or not readable. */
static json_kind json_kind_of(const char *file) {
    json_in in;
    json_kind kind = JSON_KIND_OTHER;
    char key[24], c;
    if (!json_open(&in, file)) return JSON_KIND_NONE;
    json_skip_bom(&in);
    c = json_peek(&in);
    if (c != '{') {
        kind = c == '[' ? JSON_KIND_TRACE : JSON_KIND_NONE;
        json_close(&in);
        return kind;
    }
    for (in.p++; kind == JSON_KIND_OTHER; in.p += json_peek(&in) == ',') {
        if (!json_top_key(&in, key, sizeof key)) break;
        if (strcmp(key, "traceEvents") == 0) kind = JSON_KIND_TRACE;
        else if (strcmp(key, "rows") == 0 || strcmp(key, "schema_version") == 0) kind = JSON_KIND_SUMMARY;
        else if (!json_skip_stream(&in)) break;
    }
    json_close(&in);
    return kind;
}

/* ==== spans of foreign JSON ======================================================================================== */

/* spans of foreign JSON: X and B/E events of any order become nested spans with self times.
 *
 *     foreign f; foreign_init(&f, &names, &report, keep_args);
 *     json_trace_read(file, on_event, ...)      whose on_event calls foreign_add(&f, event) for X, B and E
 *     foreign_finish(&f)                        matches B and E, sorts each track
 *
 * Foreign input promises no order, so each span is kept: 24 bytes, plus its args when the trace is to be written again.
 */

#define FOREIGN_OPEN (-1) /* the duration of a span that no E ended */

typedef struct { int64_t start, duration; uint32_t key, args; } foreign_record;

/* A B or an E, until they are matched. */
typedef struct { int64_t ts; uint64_t offset; uint32_t key, args, extra; bool is_end; } foreign_half;

typedef struct {
    json_id pid, tid; /* their texts are copies */
    foreign_record *spans;
    foreign_half *halves;
    size_t count, room, half_count, half_room;
} foreign_track;

/* What the metadata of spans adds to a row. */
typedef struct { int64_t alloc_bytes, alloc_delta_bytes, peak_live_bytes; uint64_t hook_errors; } foreign_extra;

typedef struct {
    uint32_t field[KEY_FIELDS]; /* numbers of names, 0 when absent */
    uint32_t category;
    foreign_extra sum;          /* of its finished spans */
} foreign_key;

/* Numbers from 1 for byte strings; an open-addressed table of hashes beside the list. */
typedef struct { uint64_t *hash; uint32_t *number; size_t slots, used; } foreign_index;

enum { FOREIGN_RECENT_BITS = 10 };
typedef struct { slice name, cat; uint32_t key; } foreign_recent; /* key 0: none */

typedef struct {
    name_table *names;
    json_report *report;
    bool keep_args;
    foreign_track *tracks;
    foreign_key *keys;      /* from 1 */
    slice *args;            /* from 1 */
    foreign_extra *extras;  /* from 1; of B events that carry some */
    size_t track_count, track_room, key_count, key_room, args_count, args_room, extra_count, extra_room;
    foreign_index track_index, key_index, args_index;
    size_t last_track;
    uint64_t unfinished;
    foreign_recent recent[1 << FOREIGN_RECENT_BITS];
} foreign;

/* ---- numbers for keys, tracks and args ----------------------------------------------------------------------------- */

static void foreign_rehash(foreign_index *x) {
    const size_t slots = x->slots ? x->slots * 2 : 64;
    uint64_t *const hash = must_alloc(slots, sizeof *hash);
    uint32_t *const number = must_alloc(slots, sizeof *number);
    for (size_t i = 0; i < x->slots; i++) {
        size_t at = (size_t)x->hash[i] & (slots - 1);
        if (!x->number[i]) continue;
        while (number[at]) at = (at + 1) & (slots - 1);
        hash[at] = x->hash[i];
        number[at] = x->number[i];
    }
    free(x->hash);
    free(x->number);
    x->hash = hash;
    x->number = number;
    x->slots = slots;
}

/* The slot to look at first; the caller goes on with foreign_next_slot until the number there is 0 or the right one. */
static size_t foreign_first_slot(foreign_index *x, uint64_t hash) {
    if (x->used * 2 >= x->slots) foreign_rehash(x);
    return (size_t)hash & (x->slots - 1);
}
static size_t foreign_next_slot(const foreign_index *x, size_t at) { return (at + 1) & (x->slots - 1); }

static void foreign_fill_slot(foreign_index *x, size_t at, uint64_t hash, size_t number) {
    if (number > UINT32_MAX) out_of_memory();
    x->hash[at] = hash;
    x->number[at] = (uint32_t)number;
    x->used++;
}

static bool foreign_same_id(const json_id *a, const json_id *b) {
    return a->kind == b->kind && (a->kind != JSON_ID_NUMBER || a->number == b->number) &&
           (a->kind != JSON_ID_TEXT || slice_is(a->text, b->text));
}

static uint64_t foreign_hash_id(const json_id *id) {
    if (id->kind == JSON_ID_NUMBER) return (uint64_t)id->number * UINT64_C(0x9e3779b97f4a7c15);
    return id->kind == JSON_ID_TEXT ? hash_bytes(id->text.p, id->text.n) : 0;
}

static json_id foreign_copy_id(json_id id) {
    id.text = id.kind == JSON_ID_TEXT ? slice_copy(id.text) : (slice){NULL, 0};
    return id;
}

/* The track of (pid, tid), made when it is new. Its number is its place in f->tracks. */
static void foreign_id_free(json_id *id) {
    if (id->kind == JSON_ID_TEXT) slice_free(id->text);
}

static size_t foreign_track_of(foreign *f, const json_id *pid, const json_id *tid) {
    uint64_t hash;
    size_t at;
    if (f->last_track < f->track_count && foreign_same_id(&f->tracks[f->last_track].tid, tid) &&
        foreign_same_id(&f->tracks[f->last_track].pid, pid))
        return f->last_track;
    hash = (foreign_hash_id(pid) ^ 0x5bd1e995) * UINT64_C(0xff51afd7ed558ccd) + foreign_hash_id(tid);
    hash ^= hash >> 32;
    for (at = foreign_first_slot(&f->track_index, hash); f->track_index.number[at]; at = foreign_next_slot(&f->track_index, at)) {
        const foreign_track *t = &f->tracks[f->track_index.number[at] - 1];
        if (f->track_index.hash[at] == hash && foreign_same_id(&t->pid, pid) && foreign_same_id(&t->tid, tid))
            return f->last_track = f->track_index.number[at] - 1;
    }
    must_grow(&f->tracks, &f->track_room, f->track_count + 1, sizeof *f->tracks);
    memset(&f->tracks[f->track_count], 0, sizeof *f->tracks);
    f->tracks[f->track_count].pid = foreign_copy_id(*pid);
    f->tracks[f->track_count].tid = foreign_copy_id(*tid);
    foreign_fill_slot(&f->track_index, at, hash, ++f->track_count);
    return f->last_track = f->track_count - 1;
}

static uint32_t foreign_key_of(foreign *f, const foreign_key *key) {
    const uint64_t hash = hash_bytes(key, offsetof(foreign_key, sum));
    size_t at = foreign_first_slot(&f->key_index, hash);
    for (; f->key_index.number[at]; at = foreign_next_slot(&f->key_index, at))
        if (f->key_index.hash[at] == hash && !memcmp(&f->keys[f->key_index.number[at]], key, offsetof(foreign_key, sum)))
            return f->key_index.number[at];
    must_grow(&f->keys, &f->key_room, f->key_count + 1, sizeof *f->keys);
    f->keys[f->key_count] = *key;
    memset(&f->keys[f->key_count].sum, 0, sizeof key->sum);
    foreign_fill_slot(&f->key_index, at, hash, f->key_count++);
    return f->key_index.number[at];
}

static uint32_t foreign_args_of(foreign *f, slice args) {
    uint64_t hash;
    size_t at;
    if (!f->keep_args || args.n < 2 || json_space(args.p + 1, args.p + args.n) == args.p + args.n - 1) return 0;
    hash = hash_bytes(args.p, args.n);
    for (at = foreign_first_slot(&f->args_index, hash); f->args_index.number[at]; at = foreign_next_slot(&f->args_index, at))
        if (f->args_index.hash[at] == hash && slice_is(f->args[f->args_index.number[at]], args)) return f->args_index.number[at];
    must_grow(&f->args, &f->args_room, f->args_count + 1, sizeof *f->args);
    f->args[f->args_count] = slice_copy(args);
    foreign_fill_slot(&f->args_index, at, hash, f->args_count++);
    return f->args_index.number[at];
}

/* ---- reading events ------------------------------------------------------------------------------------------------ */

static void foreign_init(foreign *f, name_table *names, json_report *report, bool keep_args) {
    memset(f, 0, sizeof *f);
    f->names = names;
    f->report = report;
    f->keep_args = keep_args;
    f->last_track = SIZE_MAX;
    f->key_count = f->args_count = f->extra_count = 1;
    must_grow(&f->keys, &f->key_room, 1, sizeof *f->keys);
    must_grow(&f->args, &f->args_room, 1, sizeof *f->args);
    must_grow(&f->extras, &f->extra_room, 1, sizeof *f->extras);
    memset(f->keys, 0, sizeof *f->keys);
    memset(f->args, 0, sizeof *f->args);
    memset(f->extras, 0, sizeof *f->extras);
}

static uint32_t foreign_text(foreign *f, slice value) {
    textbuf plain = {NULL, 0, 0, false};
    uint32_t number;
    if (slice_is(value, SLICE("null"))) return 0;
    if (json_string(value, &plain) && text_end(&plain)) value = (slice){plain.p, plain.n};
    if (plain.failed) out_of_memory();
    number = name_number(f->names, value); /* a bare number or word stands for its text */
    text_free(&plain);
    return number;
}

/* Two figures added without a way to overflow. */
static int64_t foreign_sum(int64_t a, int64_t b) {
    if (b > 0 && a > INT64_MAX - b) return INT64_MAX;
    if (b < 0 && a < INT64_MIN - b) return INT64_MIN;
    return a + b;
}

/* Takes one field of metadata. Other tools put fields of these names into args as well ("device": 0): outside of an object
 * of our own only texts count as key fields. True when it was one. */
static bool foreign_field(foreign *f, slice name, slice value, bool own, foreign_key *key, foreign_extra *extra) {
    static const char *const keys[KEY_FIELDS] = {"", "phase", "activity", "backend", "dtype", "device", "module"};
    int64_t bytes;
    if (name.n < 5 || name.n > 17) return false;
    for (int i = KEY_PHASE; i < KEY_FIELDS; i++) {
        if (name.p[0] != keys[i][0] || !slice_is(name, slice_of(keys[i]))) continue;
        if (!own && value.p[0] != '"') return false;
        key->field[i] = foreign_text(f, value);
        return key->field[i] != 0;
    }
    if (slice_is(name, SLICE("hook_error"))) extra->hook_errors = value.p[0] == '"' && value.n > 2;
    if (name.p[0] != 'a' || !json_integer(value, &bytes)) return false;
    if (slice_is(name, SLICE("alloc_bytes"))) extra->alloc_bytes = bytes;
    else if (slice_is(name, SLICE("alloc_delta_bytes"))) extra->alloc_delta_bytes = bytes;
    else if (slice_is(name, SLICE("alloc_live_bytes")) || slice_is(name, SLICE("alloc_peak_bytes")))
        extra->peak_live_bytes = bytes > extra->peak_live_bytes ? bytes : extra->peak_live_bytes;
    return false;
}

/* Key fields and figures of args.metadata (LeanProfiler's form) or of args itself. false when there are none: then the
 * category of the event tells rows of one name apart. */
static bool foreign_metadata(foreign *f, slice args, foreign_key *key, foreign_extra *extra) {
    slice name, value, object = {NULL, 0};
    const char *at = args.p;
    bool any = false;
    memset(extra, 0, sizeof *extra);
    while (args.n > 2 && json_next(args, &at, &name, &value)) {
        if (slice_is(name, SLICE("metadata")) && value.p[0] == '{') object = value;
        else if (foreign_field(f, name, value, false, key, extra)) any = true;
    }
    if (!object.n) return any;
    at = object.p;
    while (json_next(object, &at, &name, &value)) foreign_field(f, name, value, true, key, extra);
    return true;
}

static void foreign_add_extra(foreign *f, uint32_t key, const foreign_extra *more) {
    foreign_extra *const sum = &f->keys[key].sum;
    sum->alloc_bytes = foreign_sum(sum->alloc_bytes, more->alloc_bytes);
    sum->alloc_delta_bytes = foreign_sum(sum->alloc_delta_bytes, more->alloc_delta_bytes);
    sum->hook_errors += more->hook_errors;
    if (more->peak_live_bytes > sum->peak_live_bytes) sum->peak_live_bytes = more->peak_live_bytes;
}

/* Categories that say no more than who wrote the event. */
static bool foreign_plain_category(slice cat) {
    const char *const comma = cat.n ? memchr(cat.p, ',', cat.n) : NULL;
    if (comma) cat.n = (size_t)(comma - cat.p);
    return cat.n == 0 || slice_is(cat, SLICE("span")) || slice_is(cat, SLICE("spanprof")) || slice_is(cat, SLICE("lean"));
}

static uint32_t foreign_key_named(foreign *f, const json_event *e, foreign_key *key) {
    key->field[KEY_NAME] = name_number(f->names, e->name.p ? e->name : SLICE(""));
    key->category = e->cat.n ? name_number(f->names, e->cat) : 0;
    return foreign_key_of(f, key);
}

/* The key of an event without metadata, by name and category. Nearly all are of this kind, so the last key seen of each
 * hash is remembered. */
static uint32_t foreign_plain_key(foreign *f, const json_event *e) {
    uint64_t head = 0, tail = 0;
    foreign_recent *recent;
    foreign_key key;
    if (e->name.n >= 8) {
        memcpy(&head, e->name.p, 8);
        memcpy(&tail, e->name.p + e->name.n - 8, 8);
    } else if (e->name.n) {
        memcpy(&head, e->name.p, e->name.n);
    }
    head = (head ^ tail * 31 ^ e->name.n << 32 ^ e->cat.n) * UINT64_C(0x9e3779b97f4a7c15);
    recent = &f->recent[head >> (64 - FOREIGN_RECENT_BITS)];
    if (recent->key && slice_is(recent->name, e->name) && slice_is(recent->cat, e->cat)) return recent->key;
    memset(&key, 0, sizeof key);
    if (!foreign_plain_category(e->cat)) key.field[KEY_ACTIVITY] = name_number(f->names, e->cat);
    recent->key = foreign_key_named(f, e, &key);
    recent->name = name_raw(f->names, f->keys[recent->key].field[KEY_NAME]); /* texts of the table do not move */
    recent->cat = name_raw(f->names, f->keys[recent->key].category);
    return recent->key;
}

/* An X, B or E event; others are none of spans' business. */
static void foreign_add(foreign *f, const json_event *e) {
    foreign_track *t;
    foreign_key key;
    foreign_extra extra;
    uint32_t number;
    size_t place;
    if (e->ph != 'X' && e->ph != 'B' && e->ph != 'E') return;
    place = foreign_track_of(f, &e->pid, &e->tid); /* may move the tracks */
    t = &f->tracks[place];
    if (e->ph == 'E') {
        number = e->name.n ? name_number(f->names, e->name) : 0;
        must_grow(&t->halves, &t->half_room, t->half_count + 1, sizeof *t->halves);
        t->halves[t->half_count++] = (foreign_half){e->ts_ns, e->offset, number, foreign_args_of(f, e->args), 0, true};
        return;
    }
    memset(&key, 0, sizeof key);
    number = foreign_metadata(f, e->args, &key, &extra) ? foreign_key_named(f, e, &key) : foreign_plain_key(f, e);
    if (e->ph == 'X') {
        foreign_add_extra(f, number, &extra);
        must_grow(&t->spans, &t->room, t->count + 1, sizeof *t->spans);
        t->spans[t->count++] = (foreign_record){e->ts_ns, e->dur_ns, number, foreign_args_of(f, e->args)};
        return;
    }
    must_grow(&t->halves, &t->half_room, t->half_count + 1, sizeof *t->halves);
    t->halves[t->half_count] = (foreign_half){e->ts_ns, e->offset, number, foreign_args_of(f, e->args), 0, false};
    if (extra.alloc_bytes || extra.alloc_delta_bytes || extra.peak_live_bytes || extra.hook_errors) {
        must_grow(&f->extras, &f->extra_room, f->extra_count + 1, sizeof *f->extras);
        f->extras[f->extra_count] = extra;
        if (f->extra_count > UINT32_MAX - 1) out_of_memory();
        t->halves[t->half_count].extra = (uint32_t)f->extra_count++;
    }
    t->half_count++;
}

/* ---- order --------------------------------------------------------------------------------------------------------- */

/* By start, longest first: a parent stands before its children. An open span is the longest. */
static bool foreign_span_after(const void *a, const void *b) {
    const foreign_record *x = a, *y = b;
    if (x->start != y->start) return x->start > y->start;
    return (uint64_t)x->duration < (uint64_t)y->duration;
}

static bool foreign_half_after(const void *a, const void *b) {
    return ((const foreign_half *)a)->ts > ((const foreign_half *)b)->ts;
}

/* Stable merge sort from below; runs that are in order already cost one comparison, so sorted input costs one pass. */
static void foreign_sort(void *array, size_t count, size_t size, bool (*after)(const void *, const void *)) {
    char *from = array, *to = NULL, *spare = NULL;
    size_t sorted = 1;
    for (; sorted < count && !after(from + (sorted - 1) * size, from + sorted * size); sorted++) {}
    if (sorted >= count) return;
    spare = to = must_alloc(count, size);
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t low = 0; low < count; low += 2 * width) {
            const size_t mid = count - low < width ? count : low + width;
            const size_t high = count - low < 2 * width ? count : low + 2 * width;
            size_t a = low, b = mid, at = low;
            if (mid == high || !after(from + (mid - 1) * size, from + mid * size)) {
                memcpy(to + low * size, from + low * size, (high - low) * size);
                continue;
            }
            while (a < mid && b < high) {
                const size_t take = after(from + a * size, from + b * size) ? b++ : a++;
                memcpy(to + at++ * size, from + take * size, size);
            }
            memcpy(to + at * size, from + a * size, (mid - a) * size);
            memcpy(to + (at + mid - a) * size, from + b * size, (high - b) * size);
        }
        { char *const swap = from; from = to; to = swap; }
    }
    if (from != array) memcpy(array, from, count * size);
    free(spare);
}

/* ---- matching B and E ---------------------------------------------------------------------------------------------- */

/* An open B. Those of one name are chained, so that the innermost of a name is found at once however deep the stack. */
typedef struct {
    const foreign_half *half;
    size_t span;  /* its record, made in the order of the Bs, so that of two equal spans the outer stays the first */
    size_t below; /* 1 + the next outer one of its name, 0: none */
    bool closed;
} foreign_open;

typedef struct { foreign_open *stack; size_t depth, room; size_t *innermost; /* by name: 1 + place in the stack */ } foreign_opens;

static void foreign_begin(foreign *f, foreign_track *t, foreign_opens *o, const foreign_half *b) {
    size_t *const innermost = &o->innermost[f->keys[b->key].field[KEY_NAME]];
    must_grow(&t->spans, &t->room, t->count + 1, sizeof *t->spans);
    must_grow(&o->stack, &o->room, o->depth + 1, sizeof *o->stack);
    t->spans[t->count] = (foreign_record){b->ts, FOREIGN_OPEN, b->key, b->args};
    o->stack[o->depth++] = (foreign_open){b, t->count++, *innermost, false};
    *innermost = o->depth;
}

static void foreign_end(foreign *f, foreign_track *t, foreign_opens *o, const foreign_half *e) {
    const foreign_half *b;
    foreign_record *r;
    size_t at;
    while (o->depth && o->stack[o->depth - 1].closed) o->depth--;
    at = e->key ? o->innermost[e->key] : o->depth;
    if (at == 0) {
        json_count(f->report, JSON_UNMATCHED_E, e->offset);
        return;
    }
    if (at != o->depth) json_count(f->report, JSON_OUT_OF_ORDER_E, e->offset);
    b = o->stack[at - 1].half;
    r = &t->spans[o->stack[at - 1].span];
    o->stack[at - 1].closed = true;
    o->innermost[f->keys[b->key].field[KEY_NAME]] = o->stack[at - 1].below;
    r->duration = b->ts < 0 && e->ts > INT64_MAX + b->ts ? INT64_MAX : e->ts - b->ts;
    if (!r->args) r->args = e->args;
    foreign_add_extra(f, b->key, &f->extras[b->extra]);
}

static void foreign_match(foreign *f, foreign_track *t, foreign_opens *o) {
    foreign_sort(t->halves, t->half_count, sizeof *t->halves, foreign_half_after);
    o->depth = 0;
    for (size_t i = 0; i < t->half_count; i++) {
        if (t->halves[i].is_end) foreign_end(f, t, o, &t->halves[i]);
        else foreign_begin(f, t, o, &t->halves[i]);
    }
    for (size_t i = 0; i < o->depth; i++) {
        const foreign_half *const b = o->stack[i].half;
        if (o->stack[i].closed) continue;
        o->innermost[f->keys[b->key].field[KEY_NAME]] = 0;
        f->unfinished++;
        json_count(f->report, JSON_UNFINISHED_B, b->offset);
    }
    free(t->halves);
    t->halves = NULL;
    t->half_count = t->half_room = 0;
}

/* After the last event: B and E become spans, and each track is put in order. */
static void foreign_finish(foreign *f) {
    foreign_opens opens = {NULL, 0, 0, NULL};
    opens.innermost = must_alloc(f->names->count + 1, sizeof *opens.innermost);
    for (size_t i = 0; i < f->track_count; i++) {
        foreign_match(f, &f->tracks[i], &opens);
        foreign_sort(f->tracks[i].spans, f->tracks[i].count, sizeof *f->tracks[i].spans, foreign_span_after);
    }
    free(opens.stack);
    free(opens.innermost);
}

/* ---- a file of foreign JSON --------------------------------------------------------------------------------------- */

/* An event that is no span. */
typedef struct foreign_event {
    int64_t ts;
    uint32_t name, category, id, args; /* numbers of names; args of foreign.args */
    uint32_t track;
    char phase, scope, id_kind;
} foreign_event;

typedef struct foreign_names {
    json_id pid, tid;
    bool of_process;
    uint32_t name;
} foreign_names;

/* A span of a device in a trace of ours. */
typedef struct foreign_device {
    int64_t ts, duration, queue; /* duration: FOREIGN_OPEN until its end is read */
    uint32_t name, id, track;    /* id: number of a name; of one that overlaps another */
} foreign_device;

/* Tells spans of devices in our own trace. */
#define DEVICE_CATEGORY "device"

struct foreign_load {
    session *s;
    const char *path;
    foreign f;
    json_report report;
    foreign_event *events;
    foreign_names *names;
    foreign_device *devices;
    size_t event_count, event_room, name_count, name_room, device_count, device_room;
    foreign_index name_index, process_index; /* of names; of the newest dump of a process */
    int64_t first, last;
    uint64_t *words; /* room for a block */
    uint32_t *dumps; /* by track: index of its dump */
    uint32_t *lanes;
};

static const foreign *foreign_of(const dump_input *d) { return &d->foreign->f; }

/* ---- rows and statistics ---------------------------------------------------------------------------------------- */

static void rows_rehash(row_table *t, size_t slots) {
    uint32_t *fresh = must_alloc(slots, sizeof *fresh);
    size_t i;
    for (i = 0; i < t->count; i++) {
        size_t at = (size_t)hash_bytes(&t->list[i].key, sizeof t->list[i].key) & (slots - 1);
        while (fresh[at]) at = (at + 1) & (slots - 1);
        fresh[at] = (uint32_t)i + 1;
    }
    free(t->slots);
    t->slots = fresh;
    t->slot_count = slots;
}

/* The number of the row with that key, made when it is new. Any thread. */
static uint32_t row_number(row_table *t, const row_key *key) {
    const uint64_t hash = hash_bytes(key, sizeof *key);
    size_t at;
    uint32_t number;
    pthread_mutex_lock(&t->lock);
    if (!t->slot_count) rows_rehash(t, 64);
    for (at = (size_t)hash & (t->slot_count - 1); t->slots[at]; at = (at + 1) & (t->slot_count - 1))
        if (memcmp(&t->list[t->slots[at] - 1].key, key, sizeof *key) == 0) break;
    number = t->slots[at];
    if (!number) {
        must_grow(&t->list, &t->room, t->count + 1, sizeof *t->list);
        memset(&t->list[t->count], 0, sizeof *t->list);
        t->list[t->count].key = *key;
        number = (uint32_t)++t->count;
        t->slots[at] = number;
        if (t->count * 2 > t->slot_count) rows_rehash(t, t->slot_count * 2);
    }
    pthread_mutex_unlock(&t->lock);
    return number - 1;
}

ALWAYS_INLINE unsigned highest_bit(uint64_t v) {
#if defined(__GNUC__) || defined(__clang__)
    return 63u - (unsigned)__builtin_clzll(v);
#else
    unsigned n = 0;
    while (v >>= 1) n++;
    return n;
#endif
}

/* Chunk and cell of a duration. */
ALWAYS_INLINE unsigned bin_chunk(uint64_t v) {
    return v < EXACT_BELOW ? (unsigned)(v >> BIN_BITS) : EXACT_CHUNKS + highest_bit(v) - EXACT_BITS;
}
ALWAYS_INLINE unsigned bin_cell(uint64_t v) {
    return (unsigned)(v < EXACT_BELOW ? v : v >> (highest_bit(v) - BIN_BITS)) & (BINS - 1);
}

NOINLINE static uint64_t *figures_chunk(figures *f, unsigned chunk) {
    f->bins[chunk] = must_alloc(BINS, sizeof *f->bins[chunk]);
    return f->bins[chunk];
}

NOINLINE static void figures_keep(figures *f, uint64_t duration) {
    if (f->large_count == LARGE_KEPT) {
        f->large_lost = 1;
        return;
    }
    if (f->large_count == f->large_room) {
        size_t room = f->large_room;
        must_grow(&f->large, &room, room + 1, sizeof *f->large);
        f->large_room = (uint32_t)room;
    }
    f->large[f->large_count++] = duration;
}

/* Counts a finished span; its children's time is taken from `self` when they are met. */
ALWAYS_INLINE void figures_add(figures *f, uint64_t duration) {
    const unsigned chunk = bin_chunk(duration);
    uint64_t *bins = f->bins[chunk];
    if (!LIKELY(bins != NULL)) bins = figures_chunk(f, chunk);
    bins[bin_cell(duration)]++;
    f->calls++;
    f->total += duration;
    f->self += duration;
    if (duration < f->min) f->min = duration;
    if (duration > f->max) f->max = duration;
    if (duration >= EXACT_BELOW && !f->large_lost) figures_keep(f, duration);
}

static figures *figures_new(void) {
    figures *f = must_alloc(1, sizeof *f);
    f->min = UINT64_MAX;
    return f;
}

static void figures_free(figures *f) {
    size_t i;
    for (i = 0; i < CHUNKS; i++) free(f->bins[i]);
    free(f->large);
}

/* Adds what one worker counted to a row. */
static void figures_merge(figures *to, const figures *from) {
    size_t i, j;
    if (to->calls == 0) to->min = UINT64_MAX;
    to->calls += from->calls;
    to->total += from->total;
    to->self += from->self;
    if (from->min < to->min) to->min = from->min;
    if (from->max > to->max) to->max = from->max;
    for (i = 0; i < CHUNKS; i++) {
        if (!from->bins[i]) continue;
        if (!to->bins[i]) figures_chunk(to, (unsigned)i);
        for (j = 0; j < BINS; j++) to->bins[i][j] += from->bins[i][j];
    }
    to->large_lost |= from->large_lost;
    for (i = 0; i < from->large_count; i++) figures_keep(to, from->large[i]);
    to->hook_errors += from->hook_errors;
    to->alloc_bytes += from->alloc_bytes;
    to->alloc_delta_bytes += from->alloc_delta_bytes;
    if (from->peak_live_bytes > to->peak_live_bytes) to->peak_live_bytes = from->peak_live_bytes;
}

/* Nearest rank, from 1: the smallest k with k >= p * n. */
static uint64_t percentile_rank(uint64_t n, uint64_t percent) {
    const uint64_t rank = n / 100 * percent + (n % 100 * percent + 99) / 100;
    return rank ? rank : 1;
}

/* floor(part * 1000 / whole) without overflow. */
static uint64_t share_of(uint64_t part, uint64_t whole) {
    while (whole > UINT64_MAX / 1000) {
        part >>= 1;
        whole >>= 1;
    }
    return part > UINT64_MAX / 1000 ? 0 : part * 1000 / whole;
}

static int u64_order(const void *a, const void *b) {
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/* The value of a rank as far as the bins tell: true when it is exact, else the range that holds it. */
static bool percentile_find(const figures *f, uint64_t rank, uint64_t *value, wanted_range *range) {
    uint64_t before = 0;
    unsigned chunk, cell;
    for (chunk = 0; chunk < CHUNKS; chunk++) {
        if (!f->bins[chunk]) continue;
        for (cell = 0; cell < BINS; cell++) {
            const uint64_t n = f->bins[chunk][cell];
            if (rank > before + n) {
                before += n;
                continue;
            }
            if (chunk < EXACT_CHUNKS) {
                *value = (uint64_t)chunk << BIN_BITS | cell;
                return true;
            }
            range->step = UINT64_C(1) << (chunk - EXACT_CHUNKS + EXACT_BITS - BIN_BITS);
            range->low = (BINS + (uint64_t)cell) * range->step;
            range->rank = rank - before;
            return false;
        }
    }
    *value = f->max;
    return true;
}

/* The percentiles of a row that its figures give; adds a range for each that needs another pass over the events. */
static void row_percentiles(row_entry *row, uint32_t number, wanted_range **ranges, size_t *count, size_t *room) {
    static const uint64_t percents[PERCENTILES] = { 50, 95, 99 };
    figures *f = &row->sum;
    unsigned i;
    if (!f->large_lost && f->large_count) qsort(f->large, f->large_count, sizeof *f->large, u64_order);
    for (i = 0; i < PERCENTILES; i++) {
        const uint64_t rank = percentile_rank(f->calls, percents[i]);
        const uint64_t small = f->calls - f->large_count;
        wanted_range range;
        memset(&range, 0, sizeof range);
        if (f->calls == 0) continue;
        if (!f->large_lost && rank > small) {
            row->percentile[i] = f->large[rank - small - 1];
        } else if (!percentile_find(f, rank, &row->percentile[i], &range)) {
            range.row = number;
            range.which = i;
            must_grow(ranges, room, *count + 1, sizeof **ranges);
            (*ranges)[(*count)++] = range;
        }
    }
}

/* Narrows a range to the cell that holds its rank; true when that is a single value. */
static bool range_narrow(wanted_range *r, uint64_t *value) {
    uint64_t before = 0;
    size_t i;
    for (i = 0; i + 1 < r->cell_count && r->rank > before + r->cells[i]; i++) before += r->cells[i];
    r->low += i * r->step;
    r->rank = r->rank > before ? r->rank - before : 1;
    *value = r->low;
    return r->step == 1;
}

/* ---- span matching ---------------------------------------------------------------------------------------------- */

/* A span as the passes see it. */
typedef struct span_view {
    uint64_t start, end;       /* ticks */
    uint64_t start_ns, end_ns; /* on the common clock */
    uint64_t index, parent;    /* in the lane; parent UINT64_MAX: none */
    uint64_t pos;              /* word in the lane */
    uint32_t depth, site;
    slice name;                /* of a span that brings its own */
    uint32_t args;             /* of a span from JSON: number of its args */
    const uint64_t *const *refs; /* records that speak of it, in order */
    size_t ref_count;
    uint32_t unfinished, abandoned, crossing, elsewhere;
} span_view;

struct worker;
typedef struct walk walk;

/* What a pass does; a NULL member does nothing. */
typedef struct visitor {
    void (*span)(walk *w, const span_view *v);           /* at its start */
    void (*closed)(walk *w, const open_span *o);         /* at its end, after all it holds */
    void (*record)(walk *w, unsigned type, const uint64_t *r); /* any other record */
    /* Instead of `span`, for a finished span that no record speaks of, outside of any step or cycle, nested properly.
     * Only where there is no `closed`. */
    void (*plain)(walk *w, uint32_t site, uint64_t start_ns, uint64_t end_ns);
} visitor;

typedef enum walk_mode { WALK_STATS, WALK_RANGES, WALK_VISIT } walk_mode;

/* A walk over the blocks of a lane. */
struct walk {
    session *s;
    dump_input *d;
    lane_entry *l;
    struct worker *worker;
    const visitor *visit;
    void *user;
    open_span *open; /* open[0] is a sentinel that never ends */
    size_t open_count, open_room;
    bool tangled;    /* a span may end before one that stands on it */
    size_t next_ref, next_cut;
    uint64_t span_index;
    size_t node; /* set by the visitor for the span that begins */
    uint32_t thread, cycle, has_step, lane;
    int64_t step;
    const block_entry *block; /* where the walk is */
    uint32_t *heads; /* per word of the block: 1 + first of links */
    struct walk_link { const uint64_t *record; uint32_t next, foreign; } *links;
    size_t link_count, link_room;
    const uint64_t **chain;
    size_t chain_room;
    uint64_t ticks;   /* the previous start */
    uint64_t counted; /* events when walk_thread_used was last called */
    clock_part part; /* of the clock, where the walk is */
};

/* The first span of a dump whose site nobody defined. */
typedef struct undefined_site {
    uint64_t pos, offset; /* offset 0: none */
    uint32_t lane, site;
} undefined_site;

/* What one thread of ours counts. */
typedef struct worker {
    session *s;
    figures **rows; /* by row number */
    size_t row_room;
    figures ***sites; /* by dump and site: the figures of plain spans */
    undefined_site *undefined; /* by dump */
    figures none;     /* of unfinished spans, which belong to no row */
    figures roots;    /* holds the outermost spans: its self falls by their time */
    wanted_range *ranges;
    size_t range_count;
    uint64_t events, spans, unfinished, abandoned, crossing, depth_max, first_ns, last_ns;
} worker;

static figures *worker_row(worker *k, uint32_t number) {
    if (number >= k->row_room) {
        size_t room = k->row_room;
        must_grow(&k->rows, &room, (size_t)number + 1, sizeof *k->rows);
        memset(k->rows + k->row_room, 0, (room - k->row_room) * sizeof *k->rows);
        k->row_room = room;
    }
    if (!k->rows[number]) {
        size_t i;
        figures *f = k->rows[number] = figures_new();
        for (i = 0; i < k->range_count; i++) {
            if (k->ranges[i].row != number) continue;
            k->ranges[i].next = f->wanted;
            f->wanted = (uint32_t)i + 1;
        }
    }
    return k->rows[number];
}

static uint32_t site_name(session *s, const dump_input *d, uint64_t number) {
    char line[40];
    if (number < d->site_count && d->sites[number].name) return d->sites[number].name;
    snprintf(line, sizeof line, "(undefined site %" PRIu64 ")", number);
    return name_number(&s->names, slice_of(line));
}

static row_key plain_key(const session *s, const dump_input *d, uint32_t name) {
    row_key key;
    memset(&key, 0, sizeof key);
    key.field[KEY_NAME] = name;
    key.process = s->opt->by_process ? d->process + 1 : 0;
    return key;
}

/* Room that serves every site of a short span, defined or not. */
static size_t sites_room(const dump_input *d) {
    return d->is_json || d->site_count > SPANPROF_SHORT_SITE_MAX ? d->site_count : SPANPROF_SHORT_SITE_MAX + 1;
}

static bool undefined_is_earlier(const undefined_site *a, const undefined_site *b) {
    if (!a->offset || !b->offset) return a->offset != 0;
    return a->lane != b->lane ? a->lane < b->lane : a->pos < b->pos;
}

/* The figures of a site's plain spans; asked for once a site and worker, at its first span. */
NOINLINE static figures *site_figures(walk *w, uint32_t site, uint64_t pos) {
    const size_t dump = (size_t)(w->d - w->s->dumps);
    const row_key key = plain_key(w->s, w->d, site_name(w->s, w->d, site));
    const uint32_t given = site < w->d->site_count ? w->d->sites[site].row : 0;
    figures *f = worker_row(w->worker, given ? given - 1 : row_number(&w->s->rows, &key));
    if (site < sites_room(w->d)) w->worker->sites[dump][site] = f;
    if (site >= w->d->site_count || !w->d->sites[site].name) {
        const undefined_site here = { pos, word_offset(w->d, w->block, pos - w->block->seq * w->d->words_in_block), w->lane, site };
        if (undefined_is_earlier(&here, &w->worker->undefined[dump])) w->worker->undefined[dump] = here;
    }
    return f;
}

/* Nanoseconds of a tick that is not on the walk's stretch of the clock. */
NOINLINE static uint64_t walk_ns_far(const walk *w, uint64_t ticks) { return clock_ns(w->d, ticks) + w->d->shift_ns; }

/* Moves the walk's stretch of the clock to where a span starts. */
NOINLINE static uint64_t walk_ns_move(walk *w, uint64_t ticks) {
    w->part = *clock_find(w->d, ticks);
    w->part.ns += w->d->shift_ns;
    return walk_ns_far(w, ticks);
}

ALWAYS_INLINE bool walk_ns_near(const walk *w, uint64_t ticks) { return ticks - w->part.ticks < w->part.length; }

/* Scales ticks within a part's quick length: no result leaves 64 bits. */
ALWAYS_INLINE uint64_t quick_ns(uint64_t ticks, uint64_t factor) {
#ifdef __SIZEOF_INT128__
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)(((wide)ticks * factor) >> QUICK_SHIFT);
#else
    return scaled(ticks, factor, QUICK_SHIFT);
#endif
}

ALWAYS_INLINE uint64_t walk_ns_here(const walk *w, uint64_t ticks) {
    return w->part.ns + scaled(ticks - w->part.ticks, w->part.factor, w->part.shift);
}

ALWAYS_INLINE uint64_t walk_start_ns(walk *w, uint64_t ticks) {
    return LIKELY(walk_ns_near(w, ticks)) ? walk_ns_here(w, ticks) : walk_ns_move(w, ticks);
}
ALWAYS_INLINE uint64_t walk_end_ns(const walk *w, uint64_t ticks) {
    return LIKELY(walk_ns_near(w, ticks)) ? walk_ns_here(w, ticks) : walk_ns_far(w, ticks);
}

static void walk_pop_to(walk *w, uint64_t ticks) {
    while (w->open[w->open_count - 1].end <= ticks) {
        w->open_count--;
        if (w->visit && w->visit->closed) w->visit->closed(w, &w->open[w->open_count]);
    }
}

/* Spans that cross leave others beneath them that end first. Takes those out that have ended, of the nearest CROSSING_LOOK:
 * what overlaps without end must cost neither memory nor time without bound. */
enum { CROSSING_LOOK = 1000 };
NOINLINE static void walk_untangle(walk *w, uint64_t ticks) {
    const size_t from = w->open_count > CROSSING_LOOK ? w->open_count - CROSSING_LOOK : 1;
    size_t i, to = from;
    w->tangled = false;
    for (i = from; i < w->open_count; i++) {
        if (w->open[i].end <= ticks) {
            if (w->visit && w->visit->closed) w->visit->closed(w, &w->open[i]);
            continue;
        }
        w->tangled |= w->open[i].end > w->open[to - 1].end;
        if (to != i) w->open[to] = w->open[i];
        to++;
    }
    w->open_count = to;
}

/* Pops all: the lane goes on with another thread. */
static void walk_pop_all(walk *w) {
    while (w->open_count > 1) {
        w->open_count--;
        if (w->visit && w->visit->closed) w->visit->closed(w, &w->open[w->open_count]);
    }
}

NOINLINE static void walk_grow(walk *w) { must_grow(&w->open, &w->open_room, w->open_count + 2, sizeof *w->open); }

/* Does a span from `start` to `end` leave the innermost span that is shown on the thread's track? The top's idea of that
 * span may be out of date when the top itself is shown elsewhere and outlived what holds it. */
NOINLINE static bool walk_crosses(walk *w, uint64_t start, uint64_t end) {
    open_span *top = &w->open[w->open_count - 1];
    size_t i = w->open_count - 1;
    while (i > 0 && (w->open[i].crossing || w->open[i].end <= start)) {
        if (w->open_count - i > CROSSING_LOOK) return true;
        i--;
    }
    top->shown_end = w->open[i].end;
    return end > top->shown_end;
}

/* Collects the records that speak of a word; their order is that of the dump. */
static void walk_chain(walk *w, uint32_t index, span_view *v) {
    uint32_t at = w->heads[index];
    v->ref_count = 0;
    for (; at; at = w->links[at - 1].next) {
        const uint64_t *r = w->links[at - 1].record;
        must_grow(&w->chain, &w->chain_room, v->ref_count + 1, sizeof *w->chain);
        w->chain[v->ref_count++] = r;
        if (SPANPROF_RECORD_TYPE(*r) == SPANPROF_RECORD_END && v->unfinished) {
            v->end = r[2];
            v->abandoned = (uint32_t)SPANPROF_RECORD_FLAGS(*r) & 1;
            v->elsewhere = w->links[at - 1].foreign;
            v->unfinished = 0;
        }
    }
    v->refs = w->chain;
}

/* The row of a span that brings metadata or a name, and what its metadata adds to it. */
static figures *span_figures(walk *w, const span_view *v) {
    static const uint8_t fields[KEY_FIELDS] = { 0, SPANPROF_META_phase, SPANPROF_META_activity, SPANPROF_META_backend,
                                                SPANPROF_META_dtype, SPANPROF_META_device, SPANPROF_META_module };
    session *s = w->s;
    meta_view m;
    row_key key;
    figures *f;
    size_t i;
    m.set = 0;
    m.hooked = 0;
    for (i = 0; i < v->ref_count; i++)
        if (SPANPROF_RECORD_TYPE(*v->refs[i]) == SPANPROF_RECORD_META) meta_add(&m, v->refs[i], (size_t)SPANPROF_RECORD_WORDS(*v->refs[i]));
    if (!m.set && !v->name.p) {
        f = v->site < sites_room(w->d) ? w->worker->sites[w->d - s->dumps][v->site] : NULL;
        return f ? f : site_figures(w, v->site, v->pos);
    }
    key = plain_key(s, w->d, v->name.p ? name_number(&s->names, v->name) : site_name(s, w->d, v->site));
    for (i = 1; i < KEY_FIELDS; i++)
        if (m.set & 1u << fields[i]) key.field[i] = name_number(&s->names, m.text[fields[i]]);
    f = worker_row(w->worker, row_number(&s->rows, &key));
    if (w->worker->range_count) return f;
    if (m.set & SPANPROF_META_BIT(hook_error)) f->hook_errors++;
    if (m.set & SPANPROF_META_BIT(alloc_bytes)) f->alloc_bytes += m.number[SPANPROF_META_alloc_bytes];
    if (m.set & SPANPROF_META_BIT(alloc_delta_bytes)) f->alloc_delta_bytes += m.number[SPANPROF_META_alloc_delta_bytes];
    if (m.set & SPANPROF_META_BIT(alloc_live_bytes) && m.number[SPANPROF_META_alloc_live_bytes] > f->peak_live_bytes)
        f->peak_live_bytes = m.number[SPANPROF_META_alloc_live_bytes];
    if (m.set & SPANPROF_META_BIT(alloc_peak_bytes) && m.number[SPANPROF_META_alloc_peak_bytes] > f->peak_live_bytes)
        f->peak_live_bytes = m.number[SPANPROF_META_alloc_peak_bytes];
    return f;
}

/* Counts a duration in the ranges of a refinement pass. */
static void ranges_add(worker *k, const figures *f, uint64_t duration) {
    uint32_t at;
    for (at = f->wanted; at; at = k->ranges[at - 1].next) {
        wanted_range *r = &k->ranges[at - 1];
        if (duration >= r->low && (duration - r->low) / r->step < r->cell_count) r->cells[(duration - r->low) / r->step]++;
    }
}

static void span_issue(walk *w, const span_view *v, const char *what) {
    const slice name = v->name.p ? v->name : name_raw(&w->s->names, site_name(w->s, w->d, v->site));
    report_issue(w->s, (uint32_t)(w->d - w->s->dumps), w->lane, v->index, "%s: %.*s", what, (int)(name.n < 80 ? name.n : 80), name.p);
}

/* Makes the span ready whose end its own word does not give, or which other records speak of. */
static void span_resolve(walk *w, uint32_t index, span_view *v) {
    const open_span *top;
    v->ref_count = 0;
    v->refs = NULL;
    if (w->heads && w->link_count && w->heads[index]) walk_chain(w, index, v);
    walk_pop_to(w, v->start);
    if (w->tangled) walk_untangle(w, v->start);
    top = &w->open[w->open_count - 1];
    if (v->unfinished) {
        while (w->next_cut < w->l->cut_count && w->l->cuts[w->next_cut].word <= v->pos) w->next_cut++;
        v->end = w->next_cut < w->l->cut_count ? w->l->cuts[w->next_cut].ticks : w->d->end_ticks;
        if (v->end > top->end) v->end = top->end;
        if (v->end < v->start) v->end = v->start;
    }
    if (v->end < v->start) {
        const bool skewed = v->elsewhere && v->start - v->end <= w->d->head.ticks_per_second / 100000;
        if (!skewed && w->worker && !w->worker->range_count && !w->visit)
            span_issue(w, v, "the span ends before it starts");
        v->end = v->start;
    }
    v->start_ns = walk_start_ns(w, v->start);
    v->end_ns = walk_end_ns(w, v->end);
    v->crossing = v->elsewhere;
    if (!v->crossing && v->end > top->shown_end) v->crossing = walk_crosses(w, v->start, v->end);
    v->depth = (uint32_t)w->open_count - 1;
    v->parent = top->index;
}

/* What a span goes on for after the span that holds it has ended is part of the spans around that one: every moment of a
 * thread belongs to one span, the one that began last, so that self times add up. */
NOINLINE static void walk_outlives(walk *w, const span_view *v, walk_mode mode) {
    size_t i = w->open_count - 1;
    uint64_t from = v->start_ns;
    for (; i > 0 && w->open[i].end < v->end && w->open_count - i <= CROSSING_LOOK; i--) {
        open_span *outer = &w->open[i - 1];
        const uint64_t to = v->end < outer->end ? v->end_ns : outer->end_ns;
        if (w->open[i].end_ns > from) from = w->open[i].end_ns;
        if (to <= from) continue;
        outer->covered += to - from;
        if (mode != WALK_VISIT) outer->figures->self -= to - from;
    }
}

/* A span in full generality; word `index` of the block is its first. */
NOINLINE static void walk_span(walk *w, const block_entry *b, uint32_t index, uint32_t site, slice name, uint64_t duration,
    walk_mode mode) {
    worker *k = w->worker;
    span_view v;
    open_span *top, *o;
    figures *f = &k->none;
    uint64_t clip;
    if (w->s->opt->cycle && w->s->opt->cycle != w->cycle) return;
    memset(&v, 0, sizeof v);
    v.start = w->ticks;
    v.end = w->ticks + duration - 1;
    v.unfinished = duration == 0;
    v.site = site;
    v.name = name;
    v.index = w->span_index++;
    v.pos = b->seq * w->d->words_in_block + index;
    if (w->d->is_json && !(b->words[index] & 1)) v.args = (uint32_t)b->words[index + 3];
    span_resolve(w, index, &v);
    if (mode == WALK_VISIT) {
        if (w->visit->span) w->visit->span(w, &v);
    } else {
        f = span_figures(w, &v);
        if (v.unfinished) f = &k->none;
        else if (mode == WALK_RANGES) ranges_add(k, f, v.end_ns - v.start_ns);
        else figures_add(f, v.end_ns - v.start_ns);
        k->unfinished += v.unfinished;
        k->abandoned += v.abandoned;
        k->crossing += v.crossing;
        if (v.start_ns < k->first_ns) k->first_ns = v.start_ns;
        if (v.end_ns > k->last_ns) k->last_ns = v.end_ns;
        if (v.crossing && mode == WALK_STATS)
            span_issue(w, &v, v.elsewhere ? "the span ended on another thread" : "the span ends after the span that holds it");
    }
    if (v.elsewhere) return; /* belongs to neither thread's nesting */
    top = &w->open[w->open_count - 1];
    clip = (v.end < top->end ? v.end_ns : top->end_ns) - v.start_ns;
    top->covered += clip;
    if (mode != WALK_VISIT) top->figures->self -= clip;
    if (v.end > top->end) {
        walk_outlives(w, &v, mode);
        w->tangled = true;
    }
    if (w->open_count + 1 >= w->open_room) walk_grow(w);
    o = &w->open[w->open_count];
    o->shown_end = v.crossing ? o[-1].shown_end : v.end;
    o->end = v.end;
    o->figures = f;
    o->start = v.start;
    o->end_ns = v.end_ns;
    o->start_ns = v.start_ns;
    o->index = v.index;
    o->crossing = v.crossing;
    o->covered = 0;
    o->node = w->node;
    o->unfinished = v.unfinished;
    w->open_count++;
    if (w->open_count - 1 > k->depth_max) k->depth_max = w->open_count - 1;
}

/* Sets the previous start from a record; time that goes back stands still. */
static void walk_time(walk *w, uint64_t ticks) {
    if (ticks < w->ticks && w->worker && !w->visit && !w->worker->range_count)
        report_issue(w->s, (uint32_t)(w->d - w->s->dumps), w->lane, w->span_index, "time goes back before the span");
    if (ticks > w->ticks) w->ticks = ticks;
}

/* Impossible numbers have become thread 0 when the block was first looked at. */
static uint32_t thread_number(const dump_input *d, uint64_t number) { return number < d->thread_count ? (uint32_t)number : 0; }

/* Notes whether the lane's thread has recorded anything since the last call. */
static void walk_thread_used(walk *w) {
    const uint64_t count = w->worker->events + w->span_index;
    if (count != w->counted && !w->visit) {
        pthread_mutex_lock(&w->s->lock);
        w->d->threads[w->thread].used = 1;
        pthread_mutex_unlock(&w->s->lock);
    }
    w->counted = count;
}

/* Any record but a short span. */
NOINLINE static void walk_record(walk *w, const block_entry *b, uint32_t index, const walk_mode mode) {
    const uint64_t *r = b->words + index;
    const unsigned type = (unsigned)SPANPROF_RECORD_TYPE(*r);
    const slice none = { NULL, 0 };
    const bool wanted = !w->s->opt->cycle || w->s->opt->cycle == w->cycle;
    slice name;
    size_t at = 24;
    if (record_forms[type].is_event && wanted && type != SPANPROF_RECORD_SPAN && type != SPANPROF_RECORD_SPAN_DYN) w->worker->events++;
    switch (type) {
    case SPANPROF_RECORD_TIME: walk_time(w, r[1]); return;
    case SPANPROF_RECORD_SPAN:
        walk_time(w, r[1]);
        walk_span(w, b, index, (uint32_t)SPANPROF_RECORD_ARGUMENT(*r), none, r[2], mode);
        return;
    case SPANPROF_RECORD_SPAN_DYN:
        walk_time(w, r[1]);
        if (record_text(r, (size_t)SPANPROF_RECORD_WORDS(*r), &at, &name)) walk_span(w, b, index, 0, name, r[2], mode);
        return;
    case SPANPROF_RECORD_THREAD:
        walk_time(w, r[1]);
        walk_pop_all(w);
        walk_thread_used(w);
        w->thread = thread_number(w->d, SPANPROF_RECORD_ARGUMENT(*r));
        w->has_step = 0;
        return;
    case SPANPROF_RECORD_CYCLE: w->cycle = (uint32_t)SPANPROF_RECORD_ARGUMENT(*r); return;
    case SPANPROF_RECORD_STEP:
        w->has_step = SPANPROF_RECORD_FLAGS(*r) & 1;
        memcpy(&w->step, r + 1, sizeof w->step);
        return;
    default:
        if (!wanted || !record_forms[type].is_event) return;
        if (mode == WALK_VISIT && w->visit->record) w->visit->record(w, type, r);
        if (mode == WALK_STATS && record_forms[type].time_word) {
            const uint64_t ns = walk_start_ns(w, r[1]);
            if (ns < w->worker->first_ns) w->worker->first_ns = ns;
            if (ns > w->worker->last_ns) w->worker->last_ns = ns;
        }
        return;
    }
}

/* Short spans, which is nearly all there is: one turn of the loop each. Everything else goes to the functions above. What
 * the loop needs of the walk is kept in variables, since the compiler can't know that the counting leaves it alone. */
ALWAYS_INLINE void walk_words(walk *w, const block_entry *b, const walk_mode mode) {
    const uint64_t *words = b->words;
    const uint32_t count = b->count;
    const uint32_t *heads = w->link_count ? w->heads : NULL;
    const bool all = !w->s->opt->cycle, quick = mode != WALK_VISIT || (w->visit->plain && !w->visit->closed);
    bool plain = all && quick && !w->tangled && (mode != WALK_VISIT || (!w->cycle && !w->has_step));
    const slice none = { NULL, 0 };
    worker *k = w->worker;
    figures *const *sites = k->sites[w->d - w->s->dumps];
    clock_part part = w->part;
    open_span *top = &w->open[w->open_count - 1], *deepest = w->open, *last = w->open + w->open_room - 2;
    uint64_t ticks = w->ticks, index = w->span_index, last_ns = k->last_ns;
    size_t deep;
    uint32_t i = 0;
    k->spans -= mode == WALK_VISIT ? 0 : index;
    k->events -= mode == WALK_VISIT ? 0 : index;
    while (i < count) {
        const uint64_t word = words[i];
        const uint64_t duration = word >> SPANPROF_SHORT_DURATION_SHIFT;
        const uint32_t site = (uint32_t)(word >> SPANPROF_SHORT_SITE_SHIFT) & SPANPROF_SHORT_SITE_MAX;
        uint64_t end, start_ns, end_ns;
        figures *f;
        if (!LIKELY(word & 1)) goto general;
        ticks += word >> SPANPROF_SHORT_START_SHIFT & SPANPROF_SHORT_START_MAX;
        if (!LIKELY(plain && duration && !(heads && heads[i]))) goto general;
        end = ticks + duration - 1;
        while (top->end <= ticks) top--;
        f = mode == WALK_VISIT ? &k->none : sites[site];
        if (!LIKELY(end <= top->shown_end && end <= top->end && top < last && f && ticks - part.ticks < part.quick && end - part.ticks < part.quick))
            goto general;
        start_ns = part.ns + quick_ns(ticks - part.ticks, part.factor);
        end_ns = part.ns + quick_ns(end - part.ticks, part.factor);
        if (mode == WALK_VISIT) {
            w->visit->plain(w, site, start_ns, end_ns);
        } else if (mode == WALK_STATS) {
            figures_add(f, end_ns - start_ns);
            top->figures->self -= end_ns - start_ns;
            if (end_ns > last_ns) last_ns = end_ns;
        } else if (f->wanted) {
            ranges_add(k, f, end_ns - start_ns);
        }
        top++;
        top->end = top->shown_end = end;
        top->end_ns = end_ns;
        top->figures = f;
        top->index = index++;
        top->crossing = 0;
        if (top > deepest) deepest = top;
        i++;
        continue;
    general:
        w->open_count = (size_t)(top - w->open) + 1;
        w->ticks = ticks;
        w->span_index = index;
        deep = (size_t)(deepest - w->open);
        if (word & 1) {
            walk_span(w, b, i++, site, none, duration, mode);
        } else {
            walk_record(w, b, i, mode);
            i += (uint32_t)SPANPROF_RECORD_WORDS(word);
        }
        part = w->part;
        top = &w->open[w->open_count - 1];
        deepest = w->open + deep;
        last = w->open + w->open_room - 2;
        ticks = w->ticks;
        index = w->span_index;
        plain = all && quick && !w->tangled && (mode != WALK_VISIT || (!w->cycle && !w->has_step));
    }
    w->open_count = (size_t)(top - w->open) + 1;
    w->ticks = ticks;
    w->span_index = index;
    deep = (size_t)(deepest - w->open);
    if (deep > k->depth_max) k->depth_max = deep;
    if (last_ns > k->last_ns) k->last_ns = last_ns;
    k->spans += mode == WALK_VISIT ? 0 : index;
    k->events += mode == WALK_VISIT ? 0 : index;
}

/* Links the records that speak of words of the block to those words. */
static void walk_link(walk *w, const block_entry *b) {
    const uint64_t begin = b->seq * w->d->words_in_block;
    const lane_entry *l = w->l;
    size_t first_far, n;
    uint32_t i;
    w->link_count = 0;
    while (w->next_ref < l->ref_count && l->refs[w->next_ref].target < begin) w->next_ref++;
    first_far = w->next_ref;
    while (w->next_ref < l->ref_count && l->refs[w->next_ref].target < begin + b->count) w->next_ref++;
    if (!b->has_refs && first_far == w->next_ref) return;
    if (!w->heads) w->heads = must_alloc((size_t)w->d->words_in_block, sizeof *w->heads);
    memset(w->heads, 0, (size_t)w->d->words_in_block * sizeof *w->heads);
    for (i = 0; i < b->count;) {
        const uint64_t *r = b->words + i;
        const unsigned at = *r & 1 ? 0 : record_position_word((unsigned)SPANPROF_RECORD_TYPE(*r));
        if (at && r[at] && SPANPROF_POS_LANE(r[at]) == b->lane && SPANPROF_POS_WORD(r[at]) - begin < b->count) {
            must_grow(&w->links, &w->link_room, w->link_count + 1, sizeof *w->links);
            w->links[w->link_count++] = (struct walk_link){ r, (uint32_t)(SPANPROF_POS_WORD(r[at]) - begin), 0 };
        }
        i += *r & 1 ? 1 : (uint32_t)SPANPROF_RECORD_WORDS(*r);
    }
    for (; first_far < w->next_ref; first_far++) {
        must_grow(&w->links, &w->link_room, w->link_count + 1, sizeof *w->links);
        w->links[w->link_count++] = (struct walk_link){ l->refs[first_far].record, (uint32_t)(l->refs[first_far].target - begin),
            l->refs[first_far].lane != b->lane };
    }
    /* From the last to the first, so that each chain has the order of the dump. */
    for (n = w->link_count; n > 0; n--) {
        const uint32_t word = w->links[n - 1].next;
        w->links[n - 1].next = w->heads[word];
        w->heads[word] = (uint32_t)n;
    }
}

/* Walks one block of the lane. */
static void walk_block(walk *w, const block_entry *b, walk_mode mode) {
    w->block = b;
    if (b->is_cut) walk_pop_all(w);
    if (b->head->base_ticks > w->ticks) w->ticks = b->head->base_ticks;
    w->thread = thread_number(w->d, b->head->thread);
    w->cycle = b->head->cycle;
    w->has_step = b->head->has_step != 0;
    w->step = b->head->step;
    walk_link(w, b);
    if (mode == WALK_STATS) walk_words(w, b, WALK_STATS);
    else if (mode == WALK_RANGES) walk_words(w, b, WALK_RANGES);
    else walk_words(w, b, WALK_VISIT);
    walk_thread_used(w);
    block_release(w->d, b);
}

static void walk_begin(walk *w, session *s, dump_input *d, uint32_t lane, worker *k) {
    memset(w, 0, sizeof *w);
    w->s = s;
    w->d = d;
    w->l = &d->lanes[lane];
    w->lane = lane;
    w->worker = k;
    walk_grow(w);
    memset(&w->open[0], 0, sizeof w->open[0]);
    w->open[0].end = w->open[0].end_ns = w->open[0].shown_end = UINT64_MAX;
    w->open[0].index = UINT64_MAX;
    w->open[0].figures = &k->roots;
    w->open_count = 1;
    w->counted = k->events;
}

static void walk_end(walk *w) {
    free(w->open);
    free(w->heads);
    free(w->links);
    free(w->chain);
}

/* Notes the state before a block, unless the stack is so deep that it would cost more than the blocks are worth. */
static void checkpoint_note(walk *w, size_t block) {
    lane_entry *l = w->l;
    checkpoint *c;
    const size_t since = l->point_count ? block - (size_t)l->points[l->point_count - 1].first_block : SIZE_MAX;
    if (since < TASK_BLOCKS || since / 16 < w->open_count / 512) return;
    must_grow(&l->points, &l->point_room, l->point_count + 1, sizeof *l->points);
    c = &l->points[l->point_count++];
    c->first_block = block;
    c->span_index = w->span_index;
    c->ticks = w->ticks;
    c->open_count = w->open_count;
    c->open = must_alloc(w->open_count, sizeof *c->open);
    memcpy(c->open, w->open, w->open_count * sizeof *c->open);
}

/* Continues from a checkpoint. */
static void walk_resume(walk *w, const checkpoint *c) {
    size_t i, high;
    must_grow(&w->open, &w->open_room, c->open_count + 2, sizeof *w->open);
    memcpy(w->open, c->open, c->open_count * sizeof *w->open);
    w->open_count = c->open_count;
    w->tangled = true; /* the next span tells */
    for (i = 0; i < w->open_count; i++) {
        w->open[i].figures = &w->worker->none;
        w->open[i].node = 0;
    }
    w->span_index = c->span_index;
    w->ticks = c->ticks;
    high = w->l->ref_count;
    while (w->next_ref < high) {
        const size_t middle = w->next_ref + (high - w->next_ref) / 2;
        if (w->l->refs[middle].target < w->d->blocks[w->l->first + c->first_block].seq * w->d->words_in_block) w->next_ref = middle + 1;
        else high = middle;
    }
}

/* ---- passes ----------------------------------------------------------------------------------------------------- */

/* Work that several threads share: each takes the next task. */
typedef struct crew {
    session *s;
    void (*work)(void *context, unsigned member, size_t task);
    void *context;
    pthread_mutex_t lock;
    size_t next, count;
    unsigned members;
} crew;

typedef struct crew_member {
    crew *c;
    unsigned number;
} crew_member;

static void *crew_run(void *argument) {
    const crew_member *m = argument;
    for (;;) {
        size_t task;
        pthread_mutex_lock(&m->c->lock);
        task = m->c->next++;
        pthread_mutex_unlock(&m->c->lock);
        if (task >= m->c->count) return NULL;
        m->c->work(m->c->context, m->number, task);
    }
}

/* Runs all tasks on up to --jobs threads; a thread that can't be started is done without. */
static void crew_do(session *s, size_t count, void (*work)(void *, unsigned, size_t), void *context) {
    crew c;
    crew_member members[JOBS_MAX];
    pthread_t threads[JOBS_MAX];
    unsigned started = 0, i, wanted = s->opt->jobs;
    if (wanted > count) wanted = (unsigned)count;
    memset(&c, 0, sizeof c);
    c.s = s;
    c.work = work;
    c.context = context;
    c.count = count;
    pthread_mutex_init(&c.lock, NULL);
    for (i = 0; i < JOBS_MAX; i++) members[i] = (crew_member){ &c, i };
    while (started + 1 < wanted && pthread_create(&threads[started], NULL, crew_run, &members[started + 1]) == 0) started++;
    crew_run(&members[0]);
    for (i = 0; i < started; i++) pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&c.lock);
}

/* Shows how far a pass is, on a terminal. */
static void progress(session *s, const char *what, uint64_t words, int finished) {
    static time_t last;
    time_t now;
    if (!s->progress_shown) return;
    pthread_mutex_lock(&s->lock);
    s->done_words += words;
    now = time(NULL);
    if (finished) {
        if (last) fprintf(stderr, "\r%40s\r", "");
        s->done_words = 0;
    } else if (now != last && s->all_words) {
        if (last) fprintf(stderr, "\r%s: %3d %%", what, (int)((double)s->done_words * 100.0 / (double)s->all_words));
        last = now;
    }
    pthread_mutex_unlock(&s->lock);
}

typedef struct lane_task {
    uint32_t dump, lane;
    size_t first, end;       /* blocks of the lane */
    const checkpoint *point; /* NULL: from the lane's begin */
} lane_task;

typedef struct stats_pass {
    session *s;
    worker *workers;
    lane_task *tasks;
    size_t task_count;
    walk_mode mode;
} stats_pass;

static void stats_work(void *context, unsigned member, size_t task) {
    stats_pass *p = context;
    const lane_task *t = &p->tasks[task];
    dump_input *d = &p->s->dumps[t->dump];
    walk w;
    size_t i;
    walk_begin(&w, p->s, d, t->lane, &p->workers[member]);
    for (i = t->first; i < t->end; i++) {
        if (p->mode == WALK_STATS) checkpoint_note(&w, i);
        walk_block(&w, &d->blocks[w.l->first + i], p->mode);
        progress(p->s, "counting", d->blocks[w.l->first + i].count, 0);
    }
    if (p->mode == WALK_STATS) w.l->span_count = w.span_index;
    walk_end(&w);
}

/* One task a lane. */
static lane_task *tasks_by_lane(session *s, size_t *count) {
    lane_task *tasks = NULL;
    size_t room = 0, i, j;
    *count = 0;
    for (i = 0; i < s->dump_count; i++)
        for (j = 0; j < s->dumps[i].lane_count; j++) {
            if (!s->dumps[i].lanes[j].count) continue;
            must_grow(&tasks, &room, *count + 1, sizeof *tasks);
            tasks[(*count)++] = (lane_task){ (uint32_t)i, (uint32_t)j, 0, s->dumps[i].lanes[j].count, NULL };
        }
    return tasks;
}

/* Tasks between the checkpoints: together the whole trace, in its order. */
static lane_task *tasks_by_point(session *s, size_t *count) {
    lane_task *tasks = NULL;
    size_t room = 0, i, j, k;
    *count = 0;
    for (i = 0; i < s->dump_count; i++)
        for (j = 0; j < s->dumps[i].lane_count; j++) {
            const lane_entry *l = &s->dumps[i].lanes[j];
            for (k = 0; k < l->point_count; k++) {
                const size_t end = k + 1 < l->point_count ? (size_t)l->points[k + 1].first_block : l->count;
                must_grow(&tasks, &room, *count + 1, sizeof *tasks);
                tasks[(*count)++] = (lane_task){ (uint32_t)i, (uint32_t)j, (size_t)l->points[k].first_block, end, &l->points[k] };
            }
        }
    return tasks;
}

static worker *workers_new(session *s) {
    worker *workers = must_alloc(s->opt->jobs, sizeof *workers);
    size_t i, j;
    for (i = 0; i < s->opt->jobs; i++) {
        workers[i].s = s;
        workers[i].first_ns = UINT64_MAX;
        workers[i].sites = must_alloc(s->dump_count, sizeof *workers[i].sites);
        workers[i].undefined = must_alloc(s->dump_count, sizeof *workers[i].undefined);
        for (j = 0; j < s->dump_count; j++) workers[i].sites[j] = must_alloc(sites_room(&s->dumps[j]), sizeof **workers[i].sites);
    }
    return workers;
}

static void workers_free(session *s, worker *workers) {
    size_t i, j;
    for (i = 0; i < s->opt->jobs; i++) {
        for (j = 0; j < s->dump_count; j++) free(workers[i].sites[j]);
        free(workers[i].sites);
        free(workers[i].undefined);
        for (j = 0; j < workers[i].row_room; j++) {
            if (!workers[i].rows[j]) continue;
            figures_free(workers[i].rows[j]);
            free(workers[i].rows[j]);
        }
        free(workers[i].rows);
        for (j = 0; j < workers[i].range_count; j++) free(workers[i].ranges[j].cells);
        free(workers[i].ranges);
    }
    free(workers);
}

/* Order of asynchronous events: operation, then time, an end after the begin of the same moment. */
static int async_order(const void *a, const void *b) {
    const async_event *x = a, *y = b;
    if (x->process != y->process) return x->process < y->process ? -1 : 1;
    if (x->name != y->name) return x->name < y->name ? -1 : 1;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    if (x->ns != y->ns) return x->ns < y->ns ? -1 : 1;
    return (x->is_end > y->is_end) - (x->is_end < y->is_end);
}

static int track_order(const void *a, const void *b) {
    const track_event *x = a, *y = b;
    if (x->process != y->process) return x->process < y->process ? -1 : 1;
    if (x->track != y->track) return x->track < y->track ? -1 : 1;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    if (x->duration != y->duration) return x->duration > y->duration ? -1 : 1;
    return (x->name > y->name) - (x->name < y->name);
}

/* Brings what may lie in any lane onto the common clock and in order. */
static void extras_prepare(session *s) {
    size_t i;
    for (i = 0; i < s->async_count; i++) {
        async_event *a = &s->asyncs[i];
        const dump_input *d = &s->dumps[a->process];
        a->ns = clock_ns(d, a->ns) + d->shift_ns;
        if (!a->is_named) a->name = site_name(s, d, a->name);
        a->process = d->process;
    }
    for (i = 0; i < s->track_count; i++) {
        track_event *t = &s->tracks[i];
        t->start += s->dumps[t->dump].shift_ns;
        if (t->record) t->name = site_name(s, &s->dumps[t->dump], t->name);
    }
    if (s->async_count) qsort(s->asyncs, s->async_count, sizeof *s->asyncs, async_order);
    if (s->track_count) qsort(s->tracks, s->track_count, sizeof *s->tracks, track_order);
}

/* Name of the device that a track belongs to, for the key of its row. */
static uint32_t track_device(session *s, const track_entry *t) {
    const slice group = name_raw(&s->names, t->process_name);
    if (!group.p || (group.n >= 4 && memcmp(group.p, "GPU ", 4) == 0)) return name_number(&s->names, SLICE("cuda"));
    return t->process_name;
}

static void extra_count(session *s, worker *k, const row_key *key, uint64_t duration, walk_mode mode) {
    figures *f = worker_row(k, row_number(&s->rows, key));
    if (mode == WALK_RANGES) {
        ranges_add(k, f, duration);
        return;
    }
    figures_add(f, duration);
    f->self -= duration; /* they take no thread's time */
}

/* The time that a JSON file's other events cover. */
static void foreign_window(session *s, worker *k) {
    size_t i, j;
    for (i = 0; i < s->dump_count; i++) {
        const foreign_load *l = s->dumps[i].foreign;
        for (j = 0; l && j < l->event_count; j++) {
            const uint64_t ns = (uint64_t)l->events[j].ts - (uint64_t)l->first + s->dumps[i].shift_ns;
            if (ns < k->first_ns) k->first_ns = ns;
            if (ns > k->last_ns) k->last_ns = ns;
        }
    }
}

/* Counts asynchronous operations and the spans of tracks. */
static void extras_count(session *s, worker *k, walk_mode mode) {
    size_t i, open = 0;
    for (i = 0; i < s->async_count; i++) {
        const async_event *a = &s->asyncs[i];
        row_key key;
        if (i && (a[-1].process != a->process || a[-1].name != a->name || a[-1].id != a->id)) {
            if (mode == WALK_STATS) s->async_unfinished += open;
            open = 0;
        }
        if (a->ns < k->first_ns) k->first_ns = a->ns;
        if (a->ns > k->last_ns) k->last_ns = a->ns;
        if (!a->is_end) {
            must_grow(&s->async_stack, &s->async_stack_room, open + 1, sizeof *s->async_stack);
            s->async_stack[open++] = a->ns;
            continue;
        }
        if (open == 0) {
            if (mode == WALK_STATS) s->async_unmatched++;
            continue;
        }
        memset(&key, 0, sizeof key);
        key.field[KEY_NAME] = a->name;
        key.kind = ROW_ASYNC;
        key.process = s->opt->by_process ? a->process + 1 : 0;
        extra_count(s, k, &key, a->ns - s->async_stack[--open], mode);
    }
    if (mode == WALK_STATS) s->async_unfinished += open;
    for (i = 0; i < s->track_count; i++) {
        const track_event *t = &s->tracks[i];
        row_key key;
        memset(&key, 0, sizeof key);
        key.field[KEY_NAME] = t->name;
        key.field[KEY_DEVICE] = track_device(s, &s->processes[t->process].tracks[t->track]);
        key.kind = ROW_DEVICE;
        key.process = s->opt->by_process ? t->process + 1 : 0;
        if (t->start < k->first_ns) k->first_ns = t->start;
        if (t->start + t->duration > k->last_ns) k->last_ns = t->start + t->duration;
        extra_count(s, k, &key, t->duration, mode);
    }
}

/* Narrows the ranges by passes over the events until each is one value. */
static void ranges_pass(session *s, wanted_range *ranges, size_t count) {
    stats_pass p = { s, NULL, NULL, 0, WALK_RANGES };
    size_t i, j, c, kept = 0;
    for (i = 0; i < count; i++) {
        const uint64_t width = ranges[i].step;
        ranges[i].step = (width + RANGE_CELLS - 1) / RANGE_CELLS;
        ranges[i].cell_count = (width + ranges[i].step - 1) / ranges[i].step;
    }
    p.tasks = tasks_by_lane(s, &p.task_count);
    p.workers = workers_new(s);
    for (i = 0; i < s->opt->jobs; i++) {
        worker *k = &p.workers[i];
        k->ranges = must_alloc(count, sizeof *k->ranges);
        k->range_count = count;
        memcpy(k->ranges, ranges, count * sizeof *ranges);
        for (j = 0; j < count; j++) k->ranges[j].cells = must_alloc((size_t)ranges[j].cell_count, sizeof(uint64_t));
    }
    crew_do(s, p.task_count, stats_work, &p);
    progress(s, NULL, 0, 1);
    extras_count(s, &p.workers[0], WALK_RANGES);
    for (j = 0; j < count; j++) {
        wanted_range *r = &p.workers[0].ranges[j];
        row_entry *row = &s->rows.list[r->row];
        for (i = 1; i < s->opt->jobs; i++)
            for (c = 0; c < r->cell_count; c++) r->cells[c] += p.workers[i].ranges[j].cells[c];
        ranges[j] = *r;
        if (!range_narrow(&ranges[j], &row->percentile[r->which])) ranges[kept++] = ranges[j];
        ranges[j].cells = NULL;
    }
    free(p.tasks);
    workers_free(s, p.workers);
    if (kept) ranges_pass(s, ranges, kept);
}

/* Adds up what the workers counted. */
static void workers_merge(session *s, const worker *workers) {
    size_t i, j;
    for (i = 0; i < s->opt->jobs; i++) {
        const worker *k = &workers[i];
        s->events += k->events;
        s->spans += k->spans;
        s->unfinished += k->unfinished;
        s->abandoned += k->abandoned;
        s->crossing += k->crossing;
        s->thread_time += 0 - k->roots.self;
        if (k->depth_max > s->depth_max) s->depth_max = k->depth_max;
        if (k->first_ns < s->first_ns) s->first_ns = k->first_ns;
        if (k->last_ns > s->last_ns) s->last_ns = k->last_ns;
        for (j = 0; j < k->row_room; j++)
            if (k->rows[j]) figures_merge(&s->rows.list[j].sum, k->rows[j]);
    }
}

/* One complaint a dump about spans whose site nobody defined: about the first, whichever worker met it. */
static void complain_undefined(session *s, const worker *workers) {
    size_t i, j;
    for (i = 0; i < s->dump_count; i++) {
        undefined_site first = { 0, 0, 0, 0 };
        for (j = 0; j < s->opt->jobs; j++)
            if (undefined_is_earlier(&workers[j].undefined[i], &first)) first = workers[j].undefined[i];
        if (first.offset) complain(s, s->dumps[i].path, first.offset, "a span's site %" PRIu32 " is not defined", first.site);
    }
}

/* Counts everything: rows with their figures and percentiles, totals, checkpoints. */
static void count_all(session *s) {
    stats_pass p = { s, NULL, NULL, 0, WALK_STATS };
    wanted_range *ranges = NULL;
    size_t count = 0, room = 0, i, j;
    uint64_t index = 0, self = 0;
    extras_prepare(s);
    p.tasks = tasks_by_lane(s, &p.task_count);
    p.workers = workers_new(s);
    s->first_ns = UINT64_MAX;
    crew_do(s, p.task_count, stats_work, &p);
    progress(s, NULL, 0, 1);
    extras_count(s, &p.workers[0], WALK_STATS);
    foreign_window(s, &p.workers[0]);
    workers_merge(s, p.workers);
    complain_undefined(s, p.workers);
    workers_free(s, p.workers);
    free(p.tasks);
    if (s->first_ns > s->last_ns) s->first_ns = s->last_ns = 0;
    for (i = 0; i < s->rows.count; i++) row_percentiles(&s->rows.list[i], (uint32_t)i, &ranges, &count, &room);
    for (i = 0; i < count; i += RANGES_A_PASS) ranges_pass(s, ranges + i, count - i < RANGES_A_PASS ? count - i : RANGES_A_PASS);
    free(ranges);
    for (i = 0; i < s->rows.count; i++) self += s->rows.list[i].sum.self;
    for (i = 0; i < s->rows.count; i++) s->rows.list[i].share = self ? share_of(s->rows.list[i].sum.self, self) : 0;
    for (i = 0; i < s->dump_count; i++) {
        for (j = 0; j < s->dumps[i].lane_count; j++) {
            s->dumps[i].lanes[j].first_index = index;
            index += s->dumps[i].lanes[j].span_count;
        }
        for (j = 0; j < s->dumps[i].thread_count; j++) s->threads += s->dumps[i].threads[j].used;
    }
}

/* All lanes in order through a visitor, by one thread. */
static void walk_all(session *s, const visitor *visit, void *user) {
    size_t count, i, b;
    lane_task *tasks = tasks_by_lane(s, &count);
    worker *workers = workers_new(s);
    for (i = 0; i < count; i++) {
        dump_input *d = &s->dumps[tasks[i].dump];
        walk w;
        walk_begin(&w, s, d, tasks[i].lane, &workers[0]);
        w.visit = visit;
        w.user = user;
        for (b = 0; b < w.l->count; b++) walk_block(&w, &d->blocks[w.l->first + b], WALK_VISIT);
        walk_pop_all(&w);
        walk_end(&w);
    }
    workers_free(s, workers);
    free(tasks);
}

/* ---- processes, threads and tracks in the trace ----------------------------------------------------------------- */

/* A set of numbers, for ids that may be given once. */
typedef struct id_set {
    uint64_t *slots; /* number + 1 */
    size_t count, room;
} id_set;

/* Adds a number; false when it was there. */
static bool id_add(id_set *set, uint64_t number) {
    size_t at, i;
    if ((set->count + 1) * 2 > set->room) {
        const id_set old = *set;
        set->room = old.room ? old.room * 2 : 64;
        set->slots = must_alloc(set->room, sizeof *set->slots);
        for (i = 0; i < old.room; i++) {
            if (!old.slots[i]) continue;
            at = (size_t)hash_bytes(&old.slots[i], 8) & (set->room - 1);
            while (set->slots[at]) at = (at + 1) & (set->room - 1);
            set->slots[at] = old.slots[i];
        }
        free(old.slots);
    }
    number++;
    for (at = (size_t)hash_bytes(&number, 8) & (set->room - 1); set->slots[at]; at = (at + 1) & (set->room - 1))
        if (set->slots[at] == number) return false;
    set->slots[at] = number;
    set->count++;
    return true;
}

/* The wanted id when it is possible and free, else the next one that the system gives nobody. `high` keeps processes
 * (0) and the threads of each process (1 + its index) apart. */
static uint32_t id_give(id_set *set, uint64_t high, uint64_t wanted, uint32_t *next) {
    if (wanted >= 1 && wanted <= INT32_MAX && id_add(set, high << 32 | wanted)) return (uint32_t)wanted;
    while (*next < INT32_MAX && !id_add(set, high << 32 | *next)) (*next)++;
    return (*next)++;
}

static slice ids_text(uint32_t pid, uint32_t tid) {
    char line[64];
    const int n = snprintf(line, sizeof line, "\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 ",\"ts\":", pid, tid);
    return slice_copy((slice){ line, n > 0 ? (size_t)n : 0 });
}

/* The pid of a track's group: one a device, with a number of its own. */
static uint32_t group_pid(process_entry *p, uint32_t group, id_set *set) {
    size_t i;
    uint32_t pid = TRACK_PID + group;
    for (i = 0; i < p->group_count; i++)
        if (p->groups[i * 2] == group || i + 1 == GROUPS_MAX) return p->groups[i * 2 + 1];
    while (pid < INT32_MAX - 1000 && !id_add(set, pid)) pid += 1000;
    must_grow(&p->groups, &p->group_room, p->group_count * 2 + 2, sizeof *p->groups);
    p->groups[p->group_count * 2] = group;
    p->groups[p->group_count * 2 + 1] = pid;
    p->group_count++;
    return pid;
}

/* The number of a track within its group: that of its stream plus one where the name tells. */
static uint64_t track_wish(session *s, const track_entry *t) {
    const slice name = name_raw(&s->names, t->name);
    uint64_t number = 0;
    size_t i;
    if (name.n < 8 || name.n > 16 || memcmp(name.p, "stream ", 7) != 0) return t->number < INT32_MAX ? t->number + 1 : 0;
    for (i = 7; i < name.n; i++) {
        if (name.p[i] < '0' || name.p[i] > '9') return 0;
        number = number * 10 + (uint64_t)(name.p[i] - '0');
    }
    return number + 1;
}

/* The thread of an earlier dump of the same process that is this one: the system's id and how often it was given before
 * agree. NULL when there is none. */
static thread_entry *thread_of_earlier(session *s, const dump_input *d, const thread_entry *t) {
    size_t before = 0, i, k;
    if (!t->system_id || d->is_json) return NULL;
    for (k = 0; &d->threads[k] < t; k++) before += d->threads[k].used && d->threads[k].system_id == t->system_id;
    for (i = 0; &s->dumps[i] < d; i++) {
        size_t seen = 0;
        if (s->dumps[i].process != d->process) continue;
        for (k = 0; k < s->dumps[i].thread_count; k++) {
            thread_entry *other = &s->dumps[i].threads[k];
            if (other->used && other->system_id == t->system_id && seen++ == before) return other;
        }
    }
    return NULL;
}

/* Names the processes so that they can be told apart, and brings them in order. */
static void processes_order(session *s) {
    size_t i, j, n = 0;
    uint32_t known = 0;
    bool hosts = false;
    s->process_order = must_alloc(s->process_count, sizeof *s->process_order);
    for (i = 0; i < s->process_count; i++) {
        const uint32_t host = s->processes[i].host;
        if (!name_raw(&s->names, host).n) continue;
        hosts |= known && host != known;
        known = host;
    }
    for (i = 0; i < s->process_count; i++) {
        process_entry *p = &s->processes[i];
        const slice host = name_raw(&s->names, p->host);
        textbuf t = { NULL, 0, 0, false };
        text_slice(&t, name_raw(&s->names, p->name));
        if (p->rank >= 0) text_form(&t, " (rank %" PRId32 "%s", p->rank, host.n ? ", host " : ")");
        else if (hosts && host.n) text_str(&t, " (host ");
        if (host.n && (p->rank >= 0 || hosts)) {
            text_slice(&t, host);
            text_byte(&t, ')');
        }
        if (!text_end(&t)) out_of_memory();
        p->label = name_number(&s->names, (slice){ t.p, t.n });
        text_free(&t);
        for (j = n++; j > 0 && p->rank >= 0 && (uint32_t)p->rank < (uint32_t)s->processes[s->process_order[j - 1]].rank; j--)
            s->process_order[j] = s->process_order[j - 1];
        s->process_order[j] = (uint32_t)i;
    }
}

/* Gives every process, thread and track its ids. */
static void ids_assign(session *s) {
    id_set set = { NULL, 0, 0 };
    uint32_t next_pid = OS_TID_MAX + 1;
    size_t i, j;
    for (j = s->dump_count; j > 0; j--) {
        process_entry *p = &s->processes[s->dumps[j - 1].process];
        p->first_dump = j - 1;
        if (!p->end_dump) p->end_dump = j;
    }
    for (i = 0; i < s->process_count; i++) s->processes[i].pid = id_give(&set, 0, s->processes[i].pid, &next_pid);
    for (i = 0; i < s->process_count; i++) {
        process_entry *p = &s->processes[i];
        uint32_t next_tid = OS_TID_MAX + 1;
        size_t dumps = 0;
        for (j = p->first_dump; j < p->end_dump; j++) {
            dump_input *d = &s->dumps[j];
            size_t k;
            if (d->process != i) continue;
            dumps++;
            for (k = 0; k < d->thread_count; k++) {
                thread_entry *t = &d->threads[k], *earlier;
                if (!t->used) continue;
                earlier = dumps > 1 && d->thread_count < THREADS_COMPARED ? thread_of_earlier(s, d, t) : NULL;
                if (earlier) {
                    t->tid = earlier->tid;
                    t->ids = slice_copy(earlier->ids);
                    t->shared = 1;
                    if (!earlier->name) earlier->name = t->name;
                    s->threads--;
                    continue;
                }
                t->tid = id_give(&set, i + 1, t->system_id, &next_tid);
                t->ids = ids_text(p->pid, t->tid);
            }
        }
        for (j = 0; j < p->track_count; j++) {
            track_entry *t = &p->tracks[j];
            uint32_t next_track = 1;
            if (p->is_json) {
                thread_entry *thread = &s->dumps[t->dump].threads[t->lane];
                if (!thread->used) thread->tid = id_give(&set, i + 1, thread->system_id, &next_tid);
                if (!thread->ids.p) thread->ids = ids_text(p->pid, thread->tid);
                t->pid = p->pid;
                t->tid = thread->tid;
                continue;
            }
            t->pid = group_pid(p, t->group, &set);
            t->tid = id_give(&set, UINT64_C(0x10000000) + t->pid, track_wish(s, t), &next_track);
        }
    }
    free(set.slots);
}

/* ---- outputs ---------------------------------------------------------------------------------------------------- */

/* An output file. It is written beside its place; output_close puts it there. */
typedef struct output {
    session *s;
    const char *path;
    char *temporary; /* NULL: written directly */
    int fd, failed;
    textbuf text;
} output;

#define OUTPUT_BYTES (1u << 20)
#define OUTPUT_MEMORY (-2) /* as fd: the text is kept */

static void output_fail(output *o, const char *what) {
    if (!o->failed) diag(o->path, NO_OFFSET, "%s: %s", what, strerror(errno));
    o->failed = 1;
    if (o->s) o->s->output_failed = 1;
}

static void write_all(output *o, const char *p, size_t n) {
    if (o->fd == OUTPUT_MEMORY) {
        text_put(&o->text, p, n);
        return;
    }
    while (n && !o->failed) {
        const ssize_t put = write(o->fd, p, io_bytes(n));
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) {
            output_fail(o, "not written");
            return;
        }
        p += put;
        n -= (size_t)put;
    }
}

/* A name that nobody can guess, so that nobody can put a link there first. */
static uint64_t random_bits(void) {
    uint64_t bits = 0;
    const int fd = open("/dev/urandom", O_RDONLY);
    if (fd < 0 || read(fd, &bits, sizeof bits) != (ssize_t)sizeof bits)
        bits = (uint64_t)time(NULL) * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)getpid() << 32;
    if (fd >= 0) close(fd);
    return bits;
}

/* Puts a finished file in its place; 0, or -1 with errno set. */
static int file_move(const char *from, const char *to) {
#ifdef _WIN32
    if (MoveFileExA(from, to, 1 /* replace */)) return 0;
    errno = EACCES;
    return -1;
#else
    return rename(from, to);
#endif
}

static int output_open(output *o, session *s, const char *path) {
    struct stat st;
    const size_t room = strlen(path) + 32;
    size_t i;
    int attempt;
    memset(o, 0, sizeof *o);
    o->s = s;
    o->path = path;
    if (strcmp(path, "-") == 0) {
        o->fd = 1;
        fflush(stdout);
#ifdef _WIN32
        _setmode(1, O_BINARY);
#endif
        return 0;
    }
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        o->fd = open(path, O_WRONLY | OPEN_FLAGS);
    } else {
        o->temporary = must_alloc(room, 1);
        o->fd = -1;
        for (attempt = 0; attempt < 16 && o->fd < 0; attempt++) {
            snprintf(o->temporary, room, "%s.%08" PRIx32 ".tmp", path, (uint32_t)(random_bits() >> 16));
            o->fd = open(o->temporary, O_WRONLY | O_CREAT | O_EXCL | OPEN_FLAGS, 0666);
            if (o->fd < 0 && errno != EEXIST) break;
        }
        for (i = 0; o->fd >= 0 && i < sizeof unfinished_files / sizeof *unfinished_files; i++)
            if (!unfinished_files[i]) {
                unfinished_files[i] = o->temporary;
                break;
            }
    }
    if (o->fd < 0) {
        output_fail(o, "can't be created");
        free(o->temporary);
        o->temporary = NULL;
    }
    return o->fd < 0 ? EXIT_OUTPUT : 0;
}

static void output_flush(output *o) {
    if (o->text.failed) out_of_memory();
    if (o->fd == OUTPUT_MEMORY) return;
    if (o->text.n) write_all(o, o->text.p, o->text.n);
    o->text.n = 0;
}

static void output_room(output *o) {
    if (o->text.n >= OUTPUT_BYTES) output_flush(o);
}

/* Finishes the output: it appears whole, or the old one stays. */
static void output_close(output *o) {
    size_t i;
    if (o->fd < 0) return;
    output_flush(o);
    if (o->fd != 1 && close(o->fd) != 0) output_fail(o, "not written");
    if (o->temporary) {
        if (!o->failed && file_move(o->temporary, o->path) != 0) output_fail(o, "can't be put in its place");
        if (o->failed) unlink(o->temporary);
        for (i = 0; i < sizeof unfinished_files / sizeof *unfinished_files; i++)
            if (unfinished_files[i] == o->temporary) unfinished_files[i] = NULL;
        free(o->temporary);
    }
    text_free(&o->text);
}

/* Are these one regular file, or would they be, one written after the other? */
static bool same_file(const char *a, const char *b) {
#ifdef _WIN32
    char whole_a[1024], whole_b[1024];
    if (!_fullpath(whole_a, a, sizeof whole_a) || !_fullpath(whole_b, b, sizeof whole_b)) return strcmp(a, b) == 0;
    return _stricmp(whole_a, whole_b) == 0;
#else
    struct stat x, y;
    const bool has_x = stat(a, &x) == 0, has_y = stat(b, &y) == 0;
    const char *const name_a = strrchr(a, '/'), *const name_b = strrchr(b, '/');
    bool same;
    char *folder;
    size_t room;
    if (has_x && has_y) return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    if (has_x != has_y || strcmp(name_a ? name_a + 1 : a, name_b ? name_b + 1 : b) != 0) return false;
    room = strlen(a) + strlen(b) + 3;
    folder = must_alloc(room, 1);
    snprintf(folder, room, "%.*s.", name_a ? (int)(name_a + 1 - a) : 0, a);
    same = stat(folder, &x) == 0;
    snprintf(folder, room, "%.*s.", name_b ? (int)(name_b + 1 - b) : 0, b);
    same = same && stat(folder, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    free(folder);
    return same;
#endif
}

/* Is the output that file? Standard input (-) may have been redirected from it. */
static bool is_input(const char *path, const char *input) {
    struct stat x, y;
    if (strcmp(input, "-") != 0) return same_file(path, input);
    return stat(path, &x) == 0 && fstat(0, &y) == 0 && S_ISREG(x.st_mode) && x.st_ino && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static bool is_dump_file(const char *path) {
    char magic[8] = { 0 };
    struct stat st;
    int fd;
    bool is_dump;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || (fd = open(path, O_RDONLY | OPEN_FLAGS)) < 0) return false;
    is_dump = read(fd, magic, sizeof magic) == (ssize_t)sizeof magic && memcmp(magic, SPANPROF_DUMP_MAGIC, sizeof magic) == 0;
    close(fd);
    return is_dump;
}

/* Why nothing may be written there: an output takes the place of what was there, and recorded data is there once. NULL: it may.
 * `others`: the outputs before it. */
static const char *output_refusal(const char *path, const char *const *inputs, size_t input_count, const char *const *others, size_t other_count) {
    const bool is_stdout = strcmp(path, "-") == 0;
    size_t i;
    for (i = 0; i < other_count; i++)
        if (others[i] && (strcmp(others[i], "-") == 0) == is_stdout && (is_stdout || same_file(path, others[i]))) return "two outputs go there";
    for (i = 0; i < input_count && !is_stdout; i++)
        if (is_input(path, inputs[i])) return "it is an input";
    return !is_stdout && is_dump_file(path) ? "it is a dump" : NULL;
}

/* Writes a whole text; false after saying what went wrong. */
static bool save_text(const char *path, const textbuf *t) {
    output o;
    if (output_open(&o, NULL, path) != 0) return false;
    write_all(&o, t->p ? t->p : "", t->n);
    output_close(&o);
    return !o.failed;
}

/* The raw args of that number. */
static slice foreign_args(const dump_input *d, uint32_t number) {
    const foreign *f = foreign_of(d);
    return number < f->args_count ? f->args[number] : SLICE("{}");
}

/* ---- trace JSON ------------------------------------------------------------------------------------------------- */

/* What a walk that writes needs. */
typedef struct span_writer {
    textbuf *text;
    uint64_t zero_ns;    /* start of the last event */
    size_t zero_at;      /* where it begins if it lasts no time, else SIZE_MAX */
    bool any, thinned;
    uint64_t origin_ns;
} span_writer;

static void text_hex(textbuf *t, uint64_t v) { text_form(t, "\"0x%" PRIx64 "\"", v); }

/* The begin of an event: everything up to its time. */
static void event_head(textbuf *t, const char *phase, slice json_name, const thread_entry *thread) {
    text_str(t, ",\n{\"ph\":\"");
    text_str(t, phase);
    text_str(t, "\",\"name\":");
    text_slice(t, json_name);
    text_byte(t, ',');
    text_slice(t, thread->ids);
}

/* One member of args: the comma before it, the key, the colon. */
static void args_key(textbuf *t, bool *any, slice json_key) {
    text_str(t, *any ? "," : ",\"args\":{");
    *any = true;
    text_slice(t, json_key);
    text_byte(t, ':');
}

static void args_plain(textbuf *t, bool *any, const char *key) {
    text_str(t, *any ? ",\"" : ",\"args\":{\"");
    *any = true;
    text_str(t, key);
    text_str(t, "\":");
}

static void meta_value(textbuf *t, const meta_view *m, unsigned i) {
    int64_t number;
    if (!(m->set & 1u << i)) {
        text_str(t, "null");
    } else if (!(meta_numbers & 1u << i)) {
        text_json(t, m->text[i]);
    } else if (meta_signed & 1u << i) {
        memcpy(&number, &m->number[i], sizeof number);
        text_i64(t, number);
    } else {
        text_u64(t, m->number[i]);
    }
}

/* The value of an ATTR record. */
static void attr_value(textbuf *t, const uint64_t *r) {
    const unsigned kind = (unsigned)SPANPROF_RECORD_FLAGS(*r);
    slice text;
    size_t at = 16;
    double real;
    int64_t number;
    if (kind >= SPANPROF_VALUE_STR) {
        if (!record_text(r, (size_t)SPANPROF_RECORD_WORDS(*r), &at, &text)) text = (slice){ "", 0 };
        if (kind == VALUE_JSON) text_slice(t, text.n ? text : SLICE("null"));
        else text_json(t, text);
    } else if (kind == SPANPROF_VALUE_F64) {
        memcpy(&real, r + 2, sizeof real);
        text_double(t, real);
    } else if (kind == SPANPROF_VALUE_U64) {
        text_u64(t, r[2]);
    } else {
        memcpy(&number, r + 2, sizeof number);
        text_i64(t, number);
    }
}

/* Keys of args that mean something to a reader of the trace, whatever --args says: no attribute may have them there. */
static bool key_is_reserved(slice key) {
#define RESERVED(name) { name, sizeof name - 1 }
#define SPANPROF_I_X(name, kind) RESERVED(#name),
    static const slice list[] = { SPANPROF_META_LIST(SPANPROF_I_X) RESERVED("metadata"), RESERVED("attributes"), RESERVED("event_index"),
        RESERVED("parent_index"), RESERVED("depth"), RESERVED("start_ns"), RESERVED("duration_ns"), RESERVED("file"), RESERVED("line"),
        RESERVED("cycle"), RESERVED("unfinished"), RESERVED("abandoned"), RESERVED("crossing"), RESERVED("ended_on_another_thread"),
        RESERVED("queue_ns") };
#undef SPANPROF_I_X
#undef RESERVED
    size_t i;
    for (i = 0; i < sizeof list / sizeof *list; i++)
        if (slice_is(key, list[i])) return true;
    return false;
}

/* An attribute of a span. */
typedef struct attr_item {
    slice key; /* as in the trace: texts that are no UTF-8 may differ and be the same there */
    const uint64_t *record;
    size_t place;
    bool reserved, again; /* again: a later one has its key, and counts */
} attr_item;

static int attr_key_order(const void *a, const void *b) {
    const attr_item *x = a, *y = b;
    const int order = slice_order(x->key, y->key);
    return order ? order : (x->place > y->place) - (x->place < y->place);
}
static int attr_place_order(const void *a, const void *b) {
    const attr_item *x = a, *y = b;
    return (x->place > y->place) - (x->place < y->place);
}

/* Finds those that a later one replaces. */
static void attrs_compare(attr_item *list, size_t count) {
    enum { FEW = 32 };
    size_t i, j;
    if (count <= FEW) {
        for (i = 0; i < count; i++)
            for (j = i + 1; j < count && !list[i].again; j++) list[i].again = slice_is(list[i].key, list[j].key);
        return;
    }
    qsort(list, count, sizeof *list, attr_key_order);
    for (i = 0; i + 1 < count; i++) list[i].again = slice_is(list[i].key, list[i + 1].key);
    qsort(list, count, sizeof *list, attr_place_order);
}

/* The attributes of a span: members of args, or of args.attributes where their key has a meaning of its own in args. */
static void args_attributes(walk *w, textbuf *t, bool *any, const span_view *v) {
    attr_item some[8], *list = v->ref_count <= sizeof some / sizeof *some ? some : NULL;
    size_t count = 0, reserved = 0, i;
    bool first = true;
    for (i = 0; i < v->ref_count; i++) {
        const uint64_t *const r = v->refs[i];
        uint32_t name;
        if (SPANPROF_RECORD_TYPE(*r) != SPANPROF_RECORD_ATTR) continue;
        if (!list) list = must_alloc(v->ref_count, sizeof *list);
        name = site_name(w->s, w->d, SPANPROF_RECORD_ARGUMENT(*r));
        list[count] = (attr_item){ name_json(&w->s->names, name), r, count, key_is_reserved(name_raw(&w->s->names, name)), false };
        count++;
    }
    if (count > 1) attrs_compare(list, count);
    for (i = 0; i < count; i++) {
        if (list[i].again) continue;
        if (list[i].reserved) {
            reserved++;
            continue;
        }
        args_key(t, any, list[i].key);
        attr_value(t, list[i].record);
    }
    if (reserved) args_plain(t, any, "attributes");
    for (i = 0; i < count && reserved; i++) {
        if (list[i].again || !list[i].reserved) continue;
        text_byte(t, first ? '{' : ',');
        first = false;
        text_slice(t, list[i].key);
        text_byte(t, ':');
        attr_value(t, list[i].record);
        if (--reserved == 0) text_byte(t, '}');
    }
    if (list != some) free(list);
}

/* LeanProfiler's form: everything, unset fields as null. */
static void args_full(walk *w, textbuf *t, bool *any, const span_view *v, const meta_view *m) {
    const site_entry *site = !v->name.p && v->site < w->d->site_count ? &w->d->sites[v->site] : NULL;
    const uint64_t first = w->l->first_index;
    unsigned i;
    args_plain(t, any, "event_index");
    text_u64(t, first + v->index);
    args_plain(t, any, "parent_index");
    if (v->parent == UINT64_MAX) text_str(t, "null");
    else text_u64(t, first + v->parent);
    args_plain(t, any, "depth");
    text_u64(t, v->depth);
    args_plain(t, any, "start_ns");
    text_u64(t, v->start_ns - w->s->first_ns);
    args_plain(t, any, "duration_ns");
    text_u64(t, v->end_ns - v->start_ns);
    args_plain(t, any, "file");
    text_slice(t, name_json(&w->s->names, site ? site->file : 0));
    args_plain(t, any, "line");
    if (site && site->line) text_u64(t, site->line);
    else text_str(t, "null");
    text_str(t, ",\"metadata\":{");
    for (i = 0; i < SPANPROF_META_COUNT; i++) {
        text_form(t, "%s\"%s\":", i ? "," : "", meta_names[i]);
        meta_value(t, m, i);
    }
    text_byte(t, '}');
}

/* The members of an args object as another tool wrote it, made strict. */
static void args_raw(textbuf *t, bool *any, slice raw) {
    textbuf clean = { NULL, 0, 0, false };
    if (json_clean(&clean, raw) && clean.n > 2) {
        text_str(t, *any ? "," : ",\"args\":{");
        *any = true;
        text_put(t, clean.p + 1, clean.n - 2);
    }
    if (clean.failed) out_of_memory();
    text_free(&clean);
}

/* The args of a span, with the brace that ends them; nothing where there is nothing to say. */
static void span_args(walk *w, textbuf *t, const span_view *v) {
    const args_mode mode = w->s->opt->args;
    const slice raw = v->args ? foreign_args(w->d, v->args) : (slice){ NULL, 0 };
    bool any = false;
    slice there; /* another tool's key of this name stays */
    meta_view m;
    size_t i;
    m.set = 0;
    m.hooked = 0;
    for (i = 0; i < v->ref_count; i++)
        if (SPANPROF_RECORD_TYPE(*v->refs[i]) == SPANPROF_RECORD_META) meta_add(&m, v->refs[i], (size_t)SPANPROF_RECORD_WORDS(*v->refs[i]));
    if (w->has_step && !(m.set & SPANPROF_META_BIT(step))) {
        m.set |= SPANPROF_META_BIT(step);
        memcpy(&m.number[SPANPROF_META_step], &w->step, sizeof w->step);
    }
    if (v->args) args_raw(t, &any, raw);
    else if (mode == ARGS_FULL) args_full(w, t, &any, v, &m);
    if (mode == ARGS_SET)
        for (i = 0; i < SPANPROF_META_COUNT; i++) {
            const bool always = m.hooked && (i == SPANPROF_META_timing || i == SPANPROF_META_hook_error);
            if (!(m.set & 1u << i) && !always) continue;
            args_plain(t, &any, meta_names[i]);
            meta_value(t, &m, (unsigned)i);
        }
    if (mode != ARGS_NONE) args_attributes(w, t, &any, v);
    if (mode != ARGS_NONE && w->cycle) {
        args_plain(t, &any, "cycle");
        text_u64(t, w->cycle);
    }
    if (v->unfinished && !json_find(raw, "unfinished", &there)) {
        args_plain(t, &any, "unfinished");
        text_str(t, "true");
    }
    if (v->abandoned) {
        args_plain(t, &any, "abandoned");
        text_str(t, "true");
    }
    if (v->crossing && !json_find(raw, v->elsewhere ? "ended_on_another_thread" : "crossing", &there)) {
        args_plain(t, &any, v->elsewhere ? "ended_on_another_thread" : "crossing");
        text_str(t, "true");
    }
    if (any) text_byte(t, '}');
}

/* Id of the arrow from a host span to a span on a track; the record is the same on both sides. */
static uint64_t launch_id(const uint64_t *r) { return hash_bytes(r, 48) >> 1; }

static uint64_t flow_id(const session *s, const dump_input *d, uint64_t id) {
    return s->process_count > 1 ? id ^ (uint64_t)(d->process + 1) << 48 : id;
}

static void write_flow(textbuf *t, const char *phase, const char *category, uint64_t id, slice ids, uint64_t ns) {
    text_form(t, ",\n{\"ph\":\"%s\",\"cat\":\"%s\",\"name\":\"%s\",\"bp\":\"e\",\"id\":", phase, category, category);
    text_hex(t, id);
    text_byte(t, ',');
    text_slice(t, ids);
    text_us(t, ns);
    text_byte(t, '}');
}

/* Arrows that begin or end at a span. */
static void span_flows(walk *w, textbuf *t, const span_view *v, uint64_t ts) {
    const slice ids = w->d->threads[w->thread].ids;
    size_t i;
    for (i = 0; i < v->ref_count; i++) {
        const uint64_t *r = v->refs[i];
        const unsigned type = (unsigned)SPANPROF_RECORD_TYPE(*r);
        if (type == SPANPROF_RECORD_FLOW_OUT || type == SPANPROF_RECORD_FLOW_IN)
            write_flow(t, type == SPANPROF_RECORD_FLOW_OUT ? "s" : "f", "flow", flow_id(w->s, w->d, r[2]), ids, ts);
        else if (type == SPANPROF_RECORD_TRACK_SPAN)
            write_flow(t, "s", "launch", launch_id(r), ids, ts);
    }
}

/* Is the span left out by --min-duration or --window? */
static bool is_thinned(const session *s, uint64_t start, uint64_t end) {
    const options *o = s->opt;
    const uint64_t a = start - s->first_ns, b = end - s->first_ns;
    return end - start < o->min_duration || b < o->window_from || a > o->window_to;
}

/* A slice that lasts no time and begins with another one breaks the thread in speedscope: it becomes an instant. */
static void zero_to_instant(textbuf *t, size_t at) {
    char *p = t->p + at;
    if (t->n - at > 10 && memcmp(p, ",\n{\"ph\":\"X\"", 11) == 0) p[9] = 'i';
}

static slice span_json_name(walk *w, const span_view *v) {
    return name_json(&w->s->names, site_name(w->s, w->d, v->site));
}

static void write_crossing(walk *w, textbuf *t, const span_view *v, uint64_t ts) {
    const thread_entry *thread = &w->d->threads[w->thread];
    int end;
    for (end = 0; end < 2; end++) {
        text_form(t, ",\n{\"ph\":\"%s\",\"cat\":\"crossing\",\"id2\":{\"local\":\"0x%" PRIx64 "\"},\"name\":", end ? "e" : "b",
            w->l->first_index + v->index + 1);
        if (v->name.p) text_json(t, v->name);
        else text_slice(t, span_json_name(w, v));
        text_byte(t, ',');
        text_slice(t, thread->ids);
        text_us(t, end ? v->end_ns - w->s->first_ns : ts);
        if (!end) span_args(w, t, v);
        text_byte(t, '}');
    }
}

/* A span into the trace, at its start. */
static void trace_span(walk *w, const span_view *v) {
    span_writer *x = w->user;
    textbuf *t = x->text;
    const thread_entry *thread = &w->d->threads[w->thread];
    const uint64_t ts = v->start_ns - w->s->first_ns;
    const site_entry *site = v->site < w->d->site_count && !v->name.p ? &w->d->sites[v->site] : NULL;
    bool tie;
    size_t begin;
    char *p;
    if (is_thinned(w->s, v->start_ns, v->end_ns)) return;
    if (v->crossing) {
        write_crossing(w, t, v, ts);
        return;
    }
    tie = x->any && x->zero_ns == v->start_ns;
    if (tie && x->zero_at != SIZE_MAX) zero_to_instant(t, x->zero_at);
    begin = t->n;
    if (site && site->head.p) {
        if (!text_room(t, site->head.n + thread->ids.n + 80)) return;
        p = t->p + t->n;
        memcpy(p, site->head.p, site->head.n);
        p += site->head.n;
        memcpy(p, thread->ids.p, thread->ids.n);
        p += thread->ids.n;
    } else {
        text_str(t, ",\n{\"ph\":\"X\",\"name\":");
        if (v->name.p) text_json(t, v->name);
        else text_slice(t, span_json_name(w, v));
        text_byte(t, ',');
        text_slice(t, thread->ids);
        if (!text_room(t, 80)) return;
        p = t->p + t->n;
    }
    p = put_us(p, ts);
    memcpy(p, ",\"dur\":", 7);
    p = put_us(p + 7, v->end_ns - v->start_ns);
    t->n = (size_t)(p - t->p);
    if (v->ref_count || v->args || w->has_step || w->cycle || v->unfinished || w->s->opt->args == ARGS_FULL) span_args(w, t, v);
    text_byte(t, '}');
    x->any = true;
    x->zero_ns = v->start_ns;
    x->zero_at = v->end_ns == v->start_ns ? begin : SIZE_MAX;
    if (tie && x->zero_at != SIZE_MAX) zero_to_instant(t, begin);
    if (v->ref_count && w->s->opt->min_duration == 0 && w->s->opt->window_to == UINT64_MAX) span_flows(w, t, v, ts);
}

/* A span that has nothing but a name and two times, by the general way. */
static void trace_simple(walk *w, uint32_t number, uint64_t start_ns, uint64_t end_ns) {
    span_view v;
    memset(&v, 0, sizeof v);
    v.site = number;
    v.start_ns = start_ns;
    v.end_ns = end_ns;
    trace_span(w, &v);
}

/* The same for a span that has nothing but a name and two times. */
static void trace_plain(walk *w, uint32_t number, uint64_t start_ns, uint64_t end_ns) {
    span_writer *x = w->user;
    textbuf *t = x->text;
    const site_entry *site = &w->d->sites[number < w->d->site_count ? number : 0];
    const slice ids = w->d->threads[w->thread].ids;
    const size_t begin = t->n;
    const bool tie = x->any && x->zero_ns == start_ns;
    char *p;
    if (!LIKELY(site->head.p && !tie && start_ns != end_ns && !x->thinned)) {
        trace_simple(w, number, start_ns, end_ns);
        return;
    }
    if (!LIKELY(t->cap > t->n + site->head.n + ids.n + 80) && !text_room(t, site->head.n + ids.n + 80)) return;
    p = t->p + begin;
    memcpy(p, site->head.p, site->head.n);
    p += site->head.n;
    memcpy(p, ids.p, ids.n);
    p = put_us(p + ids.n, start_ns - x->origin_ns);
    memcpy(p, ",\"dur\":", 7);
    p = put_us(p + 7, end_ns - start_ns);
    *p++ = '}';
    t->n = (size_t)(p - t->p);
    x->any = true;
    x->zero_ns = start_ns;
    x->zero_at = SIZE_MAX;
}

/* Instants, counters, asynchronous events, and arrows outside of any span. */
static void trace_record(walk *w, unsigned type, const uint64_t *r) {
    span_writer *x = w->user;
    textbuf *t = x->text;
    const thread_entry *thread = &w->d->threads[w->thread];
    const uint64_t ns = walk_end_ns(w, r[1]), ts = ns - w->s->first_ns;
    double value;
    slice name;
    if (ts < w->s->opt->window_from || ts > w->s->opt->window_to || type == SPANPROF_RECORD_TRACK_SPAN) return;
    if (type == SPANPROF_RECORD_FLOW_OUT || type == SPANPROF_RECORD_FLOW_IN) {
        if (r[3] == 0) write_flow(t, type == SPANPROF_RECORD_FLOW_OUT ? "s" : "f", "flow", flow_id(w->s, w->d, r[2]), thread->ids, ts);
        return;
    }
    name = name_json(&w->s->names, site_name(w->s, w->d, SPANPROF_RECORD_ARGUMENT(*r)));
    switch (type) {
    case SPANPROF_RECORD_INSTANT:
        event_head(t, "i", name, thread);
        text_us(t, ts);
        text_str(t, ",\"s\":\"t\"}");
        return;
    case SPANPROF_RECORD_COUNTER:
        memcpy(&value, r + 2, sizeof value);
        if (!is_finite(value)) return;
        event_head(t, "C", name, thread);
        text_us(t, ts);
        text_str(t, ",\"args\":{\"value\":");
        text_double(t, value);
        text_str(t, "}}");
        return;
    case SPANPROF_RECORD_ASYNC_BEGIN: case SPANPROF_RECORD_ASYNC_END:
        event_head(t, type == SPANPROF_RECORD_ASYNC_BEGIN ? "b" : "e", name, thread);
        text_us(t, ts);
        text_str(t, ",\"cat\":");
        text_slice(t, name);
        text_str(t, ",\"id2\":{\"local\":");
        text_hex(t, r[2]);
        text_str(t, "}}");
        return;
    default: return;
    }
}

/* A lane's stretch through a visitor into a text, with fresh state but for the checkpoint. */
static void write_task(session *s, const lane_task *t, const visitor *visit, textbuf *text, worker *k) {
    dump_input *d = &s->dumps[t->dump];
    const options *opt = s->opt;
    span_writer x = { text, 0, SIZE_MAX, false, opt->min_duration || opt->window_from || opt->window_to != UINT64_MAX, s->first_ns };
    walk w;
    size_t i;
    walk_begin(&w, s, d, t->lane, k);
    w.visit = visit;
    w.user = &x;
    if (t->point) walk_resume(&w, t->point);
    for (i = t->first; i < t->end && !s->output_failed; i++) {
        walk_block(&w, &d->blocks[w.l->first + i], WALK_VISIT);
        progress(s, "writing", d->blocks[w.l->first + i].count, 0);
    }
    if (t->end == w.l->count) walk_pop_all(&w);
    walk_end(&w);
}

typedef struct write_pass {
    session *s;
    output *out;
    const visitor *visit;
    lane_task *tasks;
    textbuf buffers[JOBS_MAX];
    worker *workers;
    pthread_mutex_t lock;
    pthread_cond_t turn;
    size_t next_write;
} write_pass;

/* Formats a task, waits for its turn and writes it: the output does not depend on the number of threads. */
static void write_work(void *context, unsigned member, size_t task) {
    write_pass *p = context;
    textbuf *text = &p->buffers[member];
    text->n = 0;
    write_task(p->s, &p->tasks[task], p->visit, text, &p->workers[member]);
    if (text->failed) out_of_memory();
    pthread_mutex_lock(&p->lock);
    while (p->next_write != task) pthread_cond_wait(&p->turn, &p->lock);
    pthread_mutex_unlock(&p->lock);
    write_all(p->out, text->p, text->n);
    pthread_mutex_lock(&p->lock);
    p->next_write++;
    pthread_cond_broadcast(&p->turn);
    pthread_mutex_unlock(&p->lock);
}

/* All spans and records of all lanes through a visitor, in order, into an output. */
static void write_lanes(session *s, output *o, const visitor *visit) {
    write_pass p;
    size_t count, i;
    memset(&p, 0, sizeof p);
    p.s = s;
    p.out = o;
    p.visit = visit;
    p.tasks = tasks_by_point(s, &count);
    p.workers = workers_new(s);
    pthread_mutex_init(&p.lock, NULL);
    pthread_cond_init(&p.turn, NULL);
    output_flush(o);
    crew_do(s, count, write_work, &p);
    progress(s, NULL, 0, 1);
    pthread_cond_destroy(&p.turn);
    pthread_mutex_destroy(&p.lock);
    for (i = 0; i < JOBS_MAX; i++) text_free(&p.buffers[i]);
    workers_free(s, p.workers);
    free(p.tasks);
}

/* A metadata event; tid 0: it is about the process. */
static void write_metadata(textbuf *t, const char *name, uint32_t pid, uint32_t tid, slice json_value, const char *key) {
    text_form(t, ",\n{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%" PRIu32, name, pid);
    if (tid) text_form(t, ",\"tid\":%" PRIu32, tid);
    text_form(t, ",\"args\":{\"%s\":", key);
    text_slice(t, json_value);
    text_str(t, "}}");
}

static void write_metadata_number(textbuf *t, const char *name, uint32_t pid, uint32_t tid, uint64_t value) {
    char line[24];
    write_metadata(t, name, pid, tid, (slice){ line, (size_t)(put_u64(line, value) - line) }, "sort_index");
}

static void write_thread_name(textbuf *t, uint32_t pid, uint32_t tid, slice name) {
    textbuf json = { NULL, 0, 0, false };
    text_json(&json, name);
    t->failed |= json.failed;
    write_metadata(t, "thread_name", pid, tid, (slice){ json.p, json.n }, "name");
    text_free(&json);
}

/* What a thread is called; `line` serves those without a name. */
static slice thread_title(session *s, const process_entry *p, const thread_entry *t, char *line, size_t room) {
    if (t->name) return name_raw(&s->names, t->name);
    if (t->system_id == p->pid && t->tid == p->pid) return SLICE("main");
    snprintf(line, room, "thread %" PRIu64, t->system_id ? t->system_id : t->tid);
    return slice_of(line);
}

/* Names and order of processes, threads and tracks. */
static void write_trace_names(session *s, output *o) {
    textbuf *t = &o->text;
    char line[64];
    const size_t first = t->n;
    size_t i, j, k, order = 0;
    for (i = 0; i < s->process_count; i++) {
        const uint32_t number = s->process_order[i];
        process_entry *p = &s->processes[number];
        uint64_t place = 0;
        write_metadata(t, "process_name", p->pid, 0, name_json(&s->names, p->label), "name");
        if (i == 0 && !t->failed) t->p[first] = ' '; /* each event brings the comma before it, the first needs none */
        write_metadata_number(t, "process_sort_index", p->pid, 0, order++);
        if (p->rank >= 0) {
            snprintf(line, sizeof line, "\"rank %" PRId32 "\"", p->rank);
            write_metadata(t, "process_labels", p->pid, 0, slice_of(line), "labels");
        }
        for (j = p->first_dump; j < p->end_dump; j++) {
            dump_input *d = &s->dumps[j];
            for (k = 0; d->process == number && k < d->thread_count; k++) {
                const thread_entry *thread = &d->threads[k];
                if (!thread->used || thread->shared) continue;
                write_thread_name(t, p->pid, thread->tid, thread_title(s, p, thread, line, sizeof line));
                write_metadata_number(t, "thread_sort_index", p->pid, thread->tid, place++);
                output_room(o);
            }
        }
    }
    for (i = 0; i < s->process_count; i++) {
        process_entry *p = &s->processes[s->process_order[i]];
        for (j = 0; j < p->group_count; j++) {
            slice name = { NULL, 0 };
            for (k = 0; k < p->track_count && !name.p; k++)
                if (p->tracks[k].group == p->groups[j * 2] && p->tracks[k].process_name)
                    name = name_json(&s->names, p->tracks[k].process_name);
            snprintf(line, sizeof line, "\"device %" PRIu32 "\"", p->groups[j * 2]);
            write_metadata(t, "process_name", p->groups[j * 2 + 1], 0, name.p ? name : slice_of(line), "name");
            write_metadata_number(t, "process_sort_index", p->groups[j * 2 + 1], 0, 1000 + order++);
        }
        for (j = 0; j < p->track_count; j++) {
            const track_entry *track = &p->tracks[j];
            snprintf(line, sizeof line, "\"track %" PRIu64 "\"", track->number);
            write_metadata(t, "thread_name", track->pid, track->tid, track->name ? name_json(&s->names, track->name) : slice_of(line),
                "name");
            write_metadata_number(t, "thread_sort_index", track->pid, track->tid, j);
        }
    }
}

static bool same_track(const track_event *a, const track_event *b) { return a->process == b->process && a->track == b->track; }

/* The spans of tracks, in order; one that overlaps another partly becomes asynchronous. */
static void write_tracks(session *s, output *o) {
    textbuf *t = &o->text;
    size_t i;
    uint64_t last_end = 0, last_start = UINT64_MAX;
    for (i = 0; i < s->track_count; i++) {
        const track_event *e = &s->tracks[i];
        const process_entry *p = &s->processes[e->process];
        const track_entry *track = &p->tracks[e->track];
        const slice name = name_json(&s->names, e->name);
        const uint64_t ts = e->start - s->first_ns, end = e->start + e->duration;
        char line[64];
        slice ids;
        size_t begin;
        bool overlaps, tie;
        if (!i || !same_track(e, e - 1)) {
            last_end = 0;
            last_start = UINT64_MAX;
        }
        if (is_thinned(s, e->start, end)) continue;
        snprintf(line, sizeof line, "\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 ",\"ts\":", track->pid, track->tid);
        ids = slice_of(line);
        overlaps = e->start < last_end && end > last_end;
        if (end > last_end && !overlaps) last_end = end;
        /* What ties with it stands behind it and lasts no time either, or before it. */
        tie = e->duration == 0 && (last_start == e->start || (i + 1 < s->track_count && same_track(e, e + 1) && e[1].start == e->start));
        if (!overlaps) last_start = e->start;
        begin = t->n;
        text_form(t, ",\n{\"ph\":\"%s\",\"name\":", overlaps ? "b" : "X");
        text_slice(t, name);
        text_byte(t, ',');
        text_slice(t, ids);
        text_us(t, ts);
        if (!overlaps) {
            text_str(t, ",\"dur\":");
            text_us(t, e->duration);
            text_str(t, ",\"cat\":\"" DEVICE_CATEGORY "\"");
            if (tie) zero_to_instant(t, begin);
        } else {
            text_form(t, ",\"cat\":\"" DEVICE_CATEGORY "\",\"id2\":{\"local\":\"0x%zx\"}", i + 1);
        }
        if (s->opt->args != ARGS_NONE && e->queue >= 0) text_form(t, ",\"args\":{\"queue_ns\":%" PRId64 "}", e->queue);
        text_byte(t, '}');
        if (overlaps) {
            text_form(t, ",\n{\"ph\":\"e\",\"cat\":\"" DEVICE_CATEGORY "\",\"id2\":{\"local\":\"0x%zx\"},\"name\":", i + 1);
            text_slice(t, name);
            text_byte(t, ',');
            text_slice(t, ids);
            text_us(t, end - s->first_ns);
            text_byte(t, '}');
        } else if (e->record && e->record[1] && s->opt->min_duration == 0 && s->opt->window_to == UINT64_MAX) {
            write_flow(t, "f", "launch", launch_id(e->record), ids, ts);
        }
        output_room(o);
    }
}

/* An event of a JSON file that is no span, as it was. */
static void write_foreign_event(session *s, textbuf *t, const foreign_load *l, const foreign_event *e) {
    const dump_input *d = &s->dumps[l->dumps[e->track]];
    const thread_entry *thread = &d->threads[l->lanes[e->track]];
    const char phase[2] = { e->phase, '\0' };
    const uint64_t ns = (uint64_t)e->ts - (uint64_t)l->first + d->shift_ns;
    const bool is_async = e->phase == 'b' || e->phase == 'n' || e->phase == 'e';
    bool any = false;
    if (ns < s->first_ns || ns - s->first_ns < s->opt->window_from || ns - s->first_ns > s->opt->window_to || !thread->ids.p) return;
    event_head(t, phase, name_json(&s->names, e->name), thread);
    text_us(t, ns - s->first_ns);
    if (e->category || is_async || e->id) {
        text_str(t, ",\"cat\":");
        text_slice(t, e->category ? name_json(&s->names, e->category) : SLICE("\"\""));
    }
    if (e->phase == 'i') text_form(t, ",\"s\":\"%c\"", e->scope == 'g' || e->scope == 'p' ? e->scope : 't');
    if (e->id && is_async && e->id_kind) {
        text_form(t, ",\"id2\":{\"%s\":", e->id_kind == 'g' ? "global" : "local");
        text_slice(t, name_json(&s->names, e->id));
        text_byte(t, '}');
    } else if (e->id) {
        text_str(t, ",\"id\":");
        text_slice(t, name_json(&s->names, e->id));
    }
    if (e->phase == 's' || e->phase == 't' || e->phase == 'f') text_str(t, ",\"bp\":\"e\"");
    if (e->args) args_raw(t, &any, l->f.args[e->args]);
    text_str(t, any ? "}}" : "}");
}

static void write_foreign(session *s, output *o) {
    size_t i, j;
    for (i = 0; i < s->dump_count; i++) {
        const foreign_load *l = s->dumps[i].foreign;
        if (!l || (i && s->dumps[i - 1].foreign == l)) continue;
        for (j = 0; j < l->event_count; j++) {
            write_foreign_event(s, &o->text, l, &l->events[j]);
            output_room(o);
        }
    }
}

/* What a reader of the trace should know about its making. */
static void write_other_data(session *s, textbuf *t) {
    size_t i;
    text_str(t, "\"otherData\":{\"generator\":\"spanprof " SPANPROF_VERSION "\",\"trace_origin_ns\":");
    text_u64(t, s->first_ns);
    text_form(t, ",\"damaged\":%s,\"dropped_events\":%" PRIu64 ",\"unfinished_events\":%" PRIu64 ",\"inputs\":[",
              s->damaged ? "true" : "false", s->dropped, s->unfinished + s->async_unfinished);
    for (i = 0; i < s->dump_count; i++) {
        const dump_input *d = &s->dumps[i];
        const process_entry *p = &s->processes[d->process];
        const char *slash = strrchr(d->path, '/');
        text_str(t, i ? ",{\"file\":" : "{\"file\":");
        text_json(t, slice_of(slash ? slash + 1 : d->path));
        text_form(t, ",\"pid\":%" PRIu32 ",\"host\":", p->pid);
        text_json(t, slice_of(d->head.host));
        text_str(t, ",\"process\":");
        text_slice(t, name_json(&s->names, p->name));
        text_str(t, ",\"clock\":");
        text_str(t, d->is_json ? "\"foreign\"" : d->head.clock == SPANPROF_CLOCK_TSC ? "\"tsc\"" : "\"monotonic\"");
        text_form(t, ",\"clock_parts\":%zu,\"alignment\":\"%s\",\"shift_ns\":", d->clock_count, d->aligned);
        text_i64(t, (int64_t)d->shift_ns);
        text_byte(t, '}');
    }
    text_str(t, "]}");
}

static void sites_prepare(session *s) {
    size_t i, j;
    for (i = 0; i < s->dump_count; i++)
        for (j = 0; j < s->dumps[i].site_count; j++) {
            site_entry *site = &s->dumps[i].sites[j];
            textbuf t = { NULL, 0, 0, false };
            if (!site->name || site->head.p) continue;
            text_str(&t, ",\n{\"ph\":\"X\",\"name\":");
            text_slice(&t, name_json(&s->names, site->name));
            text_byte(&t, ',');
            if (site->category) {
                text_str(&t, "\"cat\":");
                text_slice(&t, name_json(&s->names, site->category));
                text_byte(&t, ',');
            }
            if (t.failed) out_of_memory();
            site->head = slice_copy((slice){ t.p, t.n });
            text_free(&t);
        }
}

static void write_trace(session *s, output *o) {
    static const visitor with_plain = { trace_span, NULL, trace_record, trace_plain };
    static const visitor always_args = { trace_span, NULL, trace_record, NULL };
    sites_prepare(s);
    text_str(&o->text, "{\"displayTimeUnit\":\"ns\",");
    write_other_data(s, &o->text);
    text_str(&o->text, ",\"traceEvents\":[");
    write_trace_names(s, o);
    write_lanes(s, o, s->opt->args == ARGS_FULL ? &always_args : &with_plain);
    write_tracks(s, o);
    write_foreign(s, o);
    text_str(&o->text, "\n]}");
}

/* ---- sorting and the table -------------------------------------------------------------------------------------- */

/* Order of keys: field by field, an absent one first; then kind and process. */
static int key_order(session *s, const row_key *a, const row_key *b) {
    size_t i;
    for (i = 0; i < KEY_FIELDS; i++) {
        const slice x = name_raw(&s->names, a->field[i]), y = name_raw(&s->names, b->field[i]);
        const int order = !x.p || !y.p ? (x.p != NULL) - (y.p != NULL) : slice_order(x, y);
        if (order) return order;
    }
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    return (a->process > b->process) - (a->process < b->process);
}

static uint64_t row_value(const row_entry *r, sort_key by) {
    switch (by) {
    case SORT_TOTAL: return r->sum.total;
    case SORT_CALLS: return r->sum.calls;
    case SORT_P95: return r->percentile[P95];
    default: return r->sum.self;
    }
}

typedef struct sort_item {
    session *s;
    const row_entry *row;
    uint64_t value;
} sort_item;

static int item_order(const void *a, const void *b) {
    const sort_item *x = a, *y = b;
    if (x->value != y->value) return x->value > y->value ? -1 : 1;
    return key_order(x->s, &x->row->key, &y->row->key);
}

/* The rows that have calls, largest first. */
static sort_item *rows_sorted(session *s, sort_key by, size_t *count) {
    sort_item *items = must_alloc(s->rows.count, sizeof *items);
    size_t i, n = 0;
    for (i = 0; i < s->rows.count; i++)
        if (s->rows.list[i].sum.calls) {
            items[n] = (sort_item){ s, &s->rows.list[i], row_value(&s->rows.list[i], by) };
            n++;
        }
    qsort(items, n, sizeof *items, item_order);
    *count = n;
    return items;
}

static const char *const key_names[KEY_FIELDS] = { "name", "phase", "activity", "backend", "dtype", "device", "module" };
static const char *const kind_names[] = { "span", "async", "device" };

static uint64_t mean_of(const figures *f) { return f->calls ? f->total / f->calls : 0; }

typedef uint64_t (*figure_of)(const row_entry *);
static uint64_t row_calls(const row_entry *r) { return r->sum.calls; }
static uint64_t row_total(const row_entry *r) { return r->sum.total; }
static uint64_t row_self(const row_entry *r) { return r->sum.self; }
static uint64_t row_min(const row_entry *r) { return r->sum.min; }
static uint64_t row_mean(const row_entry *r) { return mean_of(&r->sum); }
static uint64_t row_max(const row_entry *r) { return r->sum.max; }
static uint64_t row_p50(const row_entry *r) { return r->percentile[P50]; }
static uint64_t row_p95(const row_entry *r) { return r->percentile[P95]; }
static uint64_t row_p99(const row_entry *r) { return r->percentile[P99]; }
static uint64_t row_share(const row_entry *r) { return r->share; }

/* The figures of a row: names in the summary, headings of the table (NULL: not shown there). */
typedef enum figure_form { FORM_COUNT, FORM_TIME, FORM_SHARE } figure_form;
static const struct figure_column {
    const char *name, *heading;
    figure_of of;
    figure_form form;
} figure_columns[] = {
    { "calls", "calls", row_calls, FORM_COUNT },      { "self_ns", "self", row_self, FORM_TIME },
    { "total_ns", "total", row_total, FORM_TIME },    { "min_ns", "min", row_min, FORM_TIME },
    { "mean_ns", "mean", row_mean, FORM_TIME },       { "median_ns", "median", row_p50, FORM_TIME },
    { "p95_ns", "p95", row_p95, FORM_TIME },          { "p99_ns", NULL, row_p99, FORM_TIME },
    { "max_ns", "max", row_max, FORM_TIME },          { "share_permille", "share", row_share, FORM_SHARE },
};
#define FIGURE_COLUMNS (sizeof figure_columns / sizeof *figure_columns)

/* A time in the unit that suits it, four digits. */
static void time_text(char *line, size_t room, uint64_t ns) {
    static const struct { uint64_t unit; const char *name; } units[] = {
        { UINT64_C(1000000000), "s" }, { 1000000, "ms" }, { 1000, "us" } };
    size_t i;
    for (i = 0; i < 3; i++)
        if (ns >= units[i].unit) {
            const double v = (double)ns / (double)units[i].unit;
            snprintf(line, room, "%.*f %s", v < 10 ? 3 : v < 100 ? 2 : v < 1000 ? 1 : 0, v, units[i].name);
            return;
        }
    snprintf(line, room, "%" PRIu64 " ns", ns);
}

static void figure_text(char *line, size_t room, const struct figure_column *c, const row_entry *r) {
    const uint64_t v = c->of(r);
    if (c->form == FORM_TIME) time_text(line, room, v);
    else if (c->form == FORM_SHARE) snprintf(line, room, "%" PRIu64 ".%" PRIu64 " %%", v / 10, v % 10);
    else snprintf(line, room, "%" PRIu64, v);
}

/* Characters that a line of UTF-8 takes on a terminal, wide ones counted once. */
static size_t text_width(slice s) {
    size_t i, n = 0;
    for (i = 0; i < s.n; i++) n += ((unsigned char)s.p[i] & 0xc0) != 0x80;
    return n;
}

static void text_padded(textbuf *t, slice s, size_t width, bool right) {
    const size_t used = text_width(s);
    size_t i;
    if (!right) text_slice(t, s);
    for (i = used; i < width; i++) text_byte(t, ' ');
    if (right) text_slice(t, s);
}

/* Name of a row as the table shows it: the name, then what else the key holds. */
static void row_label(session *s, textbuf *t, const row_entry *r) {
    size_t i;
    bool any = false;
    text_plain(t, name_raw(&s->names, r->key.field[KEY_NAME]));
    for (i = 1; i < KEY_FIELDS; i++) {
        if (!r->key.field[i]) continue;
        text_str(t, any ? ", " : " [");
        text_form(t, "%s=", key_names[i]);
        text_plain(t, name_raw(&s->names, r->key.field[i]));
        any = true;
    }
    if (any) text_byte(t, ']');
    if (r->key.kind != ROW_SPAN) text_form(t, " (%s)", kind_names[r->key.kind]);
    if (r->key.process) {
        text_str(t, " @");
        text_plain(t, name_raw(&s->names, s->processes[r->key.process - 1].label));
        text_form(t, "/%" PRIu32, s->processes[r->key.process - 1].pid);
    }
}

/* The first `width` characters of a label. */
static slice label_cut(slice s, size_t width) {
    size_t i, n = 0;
    for (i = 0; i < s.n; i++) {
        n += ((unsigned char)s.p[i] & 0xc0) != 0x80;
        if (n > width) break;
    }
    return (slice){ s.p, i };
}

static void table_totals(session *s, textbuf *t, size_t shown, size_t rows) {
    uint64_t self = 0, hook_errors = 0;
    char line[32];
    size_t i;
    for (i = 0; i < s->rows.count; i++) {
        self += s->rows.list[i].sum.self;
        hook_errors += s->rows.list[i].sum.hook_errors;
    }
    time_text(line, sizeof line, s->last_ns - s->first_ns);
    text_form(t, "%" PRIu64 " event%s, %" PRIu64 " thread%s, %zu process%s, %s", s->events, s->events == 1 ? "" : "s", s->threads,
              s->threads == 1 ? "" : "s", s->process_count, s->process_count == 1 ? "" : "es", line);
    if (shown < rows) text_form(t, "; %zu of %zu rows shown", shown, rows);
    if (s->unfinished + s->async_unfinished) text_form(t, "; %" PRIu64 " unfinished", s->unfinished + s->async_unfinished);
    if (s->unfinished && s->thread_time > self)
        text_form(t, " (%" PRIu64 " %% of the recorded time is theirs)", share_of(s->thread_time - self, s->thread_time) / 10);
    if (hook_errors) text_form(t, "; %" PRIu64 " with hook_error", hook_errors);
    if (s->abandoned) text_form(t, "; %" PRIu64 " abandoned (longjmp, or a BEGIN without END)", s->abandoned);
    if (s->dropped) text_form(t, "; %" PRIu64 " DROPPED", s->dropped);
    if (s->overwritten) text_form(t, "; %" PRIu64 " overwritten before these", s->overwritten);
    if (s->issue_count) text_form(t, "; %zu ISSUES (see the summary)", s->issue_count);
    if (s->damaged) text_str(t, "; INPUT DAMAGED");
    text_byte(t, '\n');
}

/* The table on stdout. */
static void write_table(session *s, output *o) {
    enum { LABEL_MAX = 60 };
    textbuf *t = &o->text;
    textbuf label = { NULL, 0, 0, false };
    size_t widths[FIGURE_COLUMNS], count, shown, i, c, label_width = 4;
    sort_item *items = rows_sorted(s, s->opt->sort, &count);
    char line[48];
    shown = s->opt->top && s->opt->top < count ? (size_t)s->opt->top : count;
    for (c = 0; c < FIGURE_COLUMNS; c++) widths[c] = figure_columns[c].heading ? strlen(figure_columns[c].heading) : 0;
    for (i = 0; i < shown; i++) {
        label.n = 0;
        row_label(s, &label, items[i].row);
        if (text_width((slice){ label.p, label.n }) > label_width) label_width = text_width((slice){ label.p, label.n });
        for (c = 0; c < FIGURE_COLUMNS; c++) {
            if (!figure_columns[c].heading) continue;
            figure_text(line, sizeof line, &figure_columns[c], items[i].row);
            if (strlen(line) > widths[c]) widths[c] = strlen(line);
        }
    }
    if (label_width > LABEL_MAX) label_width = LABEL_MAX;
    text_padded(t, SLICE("name"), label_width, false);
    for (c = 0; c < FIGURE_COLUMNS; c++) {
        if (!figure_columns[c].heading) continue;
        text_str(t, "  ");
        text_padded(t, slice_of(figure_columns[c].heading), widths[c], true);
    }
    text_byte(t, '\n');
    for (i = 0; i < shown; i++) {
        label.n = 0;
        row_label(s, &label, items[i].row);
        if (text_width((slice){ label.p, label.n }) > label_width) {
            label.n = label_cut((slice){ label.p, label.n }, label_width - 3).n;
            text_str(&label, "...");
        }
        text_padded(t, (slice){ label.p, label.n }, label_width, false);
        for (c = 0; c < FIGURE_COLUMNS; c++) {
            if (!figure_columns[c].heading) continue;
            figure_text(line, sizeof line, &figure_columns[c], items[i].row);
            text_str(t, "  ");
            text_padded(t, slice_of(line), widths[c], true);
        }
        text_byte(t, '\n');
        output_room(o);
    }
    table_totals(s, t, shown, count);
    text_free(&label);
    free(items);
}

/* ---- summary JSON ----------------------------------------------------------------------------------------------- */

static void write_key(session *s, textbuf *t, const row_key *key) {
    size_t i;
    for (i = 0; i < KEY_FIELDS; i++) {
        text_form(t, "%s\"%s\":", i ? "," : "{", key_names[i]);
        text_slice(t, name_json(&s->names, key->field[i]));
    }
    if (key->process) {
        text_str(t, ",\"process\":");
        text_slice(t, name_json(&s->names, s->processes[key->process - 1].label));
        text_form(t, ",\"pid\":%" PRIu32, s->processes[key->process - 1].pid);
    }
    text_byte(t, '}');
}

static void write_row(session *s, textbuf *t, const row_entry *r) {
    const figures *f = &r->sum;
    size_t i;
    int64_t delta;
    memcpy(&delta, &f->alloc_delta_bytes, sizeof delta);
    text_str(t, "{\"key\":");
    write_key(s, t, &r->key);
    text_form(t, ",\"kind\":\"%s\"", kind_names[r->key.kind]);
    for (i = 0; i < FIGURE_COLUMNS; i++) text_form(t, ",\"%s\":%" PRIu64, figure_columns[i].name, figure_columns[i].of(r));
    text_form(t, ",\"hook_errors\":%" PRIu64 ",\"alloc_bytes\":%" PRIu64 ",\"peak_live_bytes\":%" PRIu64 ",\"alloc_delta_bytes\":%" PRId64,
              f->hook_errors, f->alloc_bytes, f->peak_live_bytes, delta);
    if (r->key.kind == ROW_DEVICE) {
        text_str(t, ",\"device_ns\":{");
        text_form(t, "\"total\":%" PRIu64 ",\"min\":%" PRIu64 ",\"mean\":%" PRIu64 ",\"median\":%" PRIu64 ",\"p95\":%" PRIu64
            ",\"p99\":%" PRIu64 ",\"max\":%" PRIu64 "}",
                  f->total, f->min, mean_of(f), r->percentile[P50], r->percentile[P95], r->percentile[P99], f->max);
    }
    text_byte(t, '}');
}

/* What the processes used, added up; null where no dump knows. */
static void write_resources(session *s, textbuf *t) {
    spanprof_dump_usage sum;
    uint64_t rss_growth = 0;
    bool known = false;
    size_t i;
    memset(&sum, 0, sizeof sum);
    for (i = 0; i < s->dump_count; i++) {
        const spanprof_dump_usage *a = &s->dumps[i].head.usage_first, *b = &s->dumps[i].head.usage_last;
        if (s->dumps[i].is_json || !s->dumps[i].head.usage_valid) continue;
        known = true;
#define ADD(field) sum.field += b->field > a->field ? b->field - a->field : 0
        ADD(user_us); ADD(system_us); ADD(minor_faults); ADD(major_faults); ADD(block_in); ADD(block_out); ADD(voluntary); ADD(involuntary);
#undef ADD
        if (b->max_rss_kb > sum.max_rss_kb) sum.max_rss_kb = b->max_rss_kb;
        rss_growth += b->max_rss_kb > a->max_rss_kb ? b->max_rss_kb - a->max_rss_kb : 0;
    }
    {
        const struct { const char *name; uint64_t value; } list[] = {
            { "user_cpu_ms", sum.user_us / 1000 },            { "system_cpu_ms", sum.system_us / 1000 },
            { "peak_resident_set_size_kb", sum.max_rss_kb },  { "peak_resident_set_increase_kb", rss_growth },
            { "minor_page_faults", sum.minor_faults },        { "major_page_faults", sum.major_faults },
            { "block_input_ops", sum.block_in },              { "block_output_ops", sum.block_out },
            { "voluntary_context_switches", sum.voluntary },  { "involuntary_context_switches", sum.involuntary } };
        for (i = 0; i < sizeof list / sizeof *list; i++) {
            text_form(t, "%s\"%s\":", i ? "," : "{", list[i].name);
            if (known) text_u64(t, list[i].value);
            else text_str(t, "null");
        }
    }
    text_byte(t, '}');
}

static void write_issues(session *s, textbuf *t) {
    const size_t kept = s->issue_count < ISSUES_KEPT ? s->issue_count : ISSUES_KEPT;
    size_t i, j;
    for (i = 1; i < kept; i++) {
        const issue_entry moving = s->issues[i];
        for (j = i; j > 0 && issue_order(&moving, &s->issues[j - 1]) < 0; j--) s->issues[j] = s->issues[j - 1];
        s->issues[j] = moving;
    }
    text_byte(t, '[');
    for (i = 0; i < kept; i++) {
        const issue_entry *e = &s->issues[i];
        text_str(t, i ? ",{\"event_index\":" : "{\"event_index\":");
        if (e->index == UINT64_MAX) text_str(t, "null");
        else text_u64(t, s->dumps[e->dump].lanes[e->lane].first_index + e->index);
        text_str(t, ",\"message\":");
        text_json(t, slice_of(e->message));
        text_byte(t, '}');
    }
    if (s->issue_count > kept) text_form(t, ",{\"event_index\":null,\"message\":\"and %zu more\"}", s->issue_count - kept);
    text_byte(t, ']');
}

typedef struct timing_writer {
    output *out;
    bool any;
} timing_writer;

/* One line of event_timings, when the span and all it holds are over. */
static void timing_closed(walk *w, const open_span *o) {
    timing_writer *x = w->user;
    const uint64_t inclusive = o->end_ns - o->start_ns;
    text_form(&x->out->text, "%s\n{\"event_index\":%" PRIu64 ",\"inclusive_ns\":%" PRIu64 ",\"self_ns\":%" PRIu64 "%s}", x->any ? "," : "",
              w->l->first_index + o->index, inclusive, inclusive - o->covered, o->unfinished ? ",\"unfinished\":true" : "");
    x->any = true;
    output_room(x->out);
}

static void write_timings(session *s, output *o) {
    static const visitor visit = { NULL, timing_closed, NULL, NULL };
    timing_writer x = { o, false };
    text_str(&o->text, ",\n\"event_timings\":[");
    walk_all(s, &visit, &x);
    text_byte(&o->text, ']');
}

static void write_summary(session *s, output *o) {
    textbuf *t = &o->text;
    size_t count, i;
    bool tsc = false;
    uint64_t limit = 0;
    sort_item *items = rows_sorted(s, SORT_SELF, &count);
    for (i = 0; i < s->dump_count; i++) {
        tsc |= !s->dumps[i].is_json && s->dumps[i].head.clock == SPANPROF_CLOCK_TSC;
        limit += s->dumps[i].head.max_events;
    }
    text_str(t, "{\"schema_version\":1,\"generator\":\"spanprof " SPANPROF_VERSION "\",");
    text_form(t, "\"clock\":\"%s\",\"time_unit\":\"ns\",\n\"event_count\":%" PRIu64 ",\"span_count\":%" PRIu64
        ",\"thread_count\":%" PRIu64 ",\"process_count\":%zu,\"max_depth\":%" PRIu64 ",",
              tsc ? "tsc" : "monotonic", s->events, s->spans, s->threads, s->process_count, s->depth_max);
    text_form(t, "\n\"trace_origin_ns\":%" PRIu64 ",\"trace_window_ns\":%" PRIu64 ",\"recorded_thread_time_ns\":%" PRIu64
        ",\n\"event_limit\":",
              s->first_ns, s->last_ns - s->first_ns, s->thread_time);
    if (limit) text_u64(t, limit);
    else text_str(t, "null");
    text_form(t, ",\"dropped_events\":%" PRIu64 ",\"overwritten_events\":%" PRIu64 ",\"unfinished_events\":%" PRIu64
        ",\"abandoned_events\":%" PRIu64 ",\"orphan_ends\":%" PRIu64 ",\"damaged\":%s,\n\"process_resources\":",
              s->dropped, s->overwritten, s->unfinished + s->async_unfinished, s->abandoned, s->orphan_ends, s->damaged ? "true" : "false");
    write_resources(s, t);
    text_str(t, ",\n\"validation_issues\":");
    write_issues(s, t);
    if (s->opt->event_timings) write_timings(s, o);
    text_str(t, ",\n\"rows\":[");
    for (i = 0; i < count; i++) {
        text_str(t, i ? ",\n" : "\n");
        write_row(s, t, items[i].row);
        output_room(o);
    }
    text_str(t, "\n]}\n");
    free(items);
}

/* ---- CSV -------------------------------------------------------------------------------------------------------- */

/* The rows of the summary. */
static void write_csv(session *s, output *o) {
    textbuf *t = &o->text;
    size_t count, i, c;
    sort_item *items = rows_sorted(s, SORT_SELF, &count);
    for (c = 0; c < KEY_FIELDS; c++) text_form(t, "%s,", key_names[c]);
    text_str(t, "process,pid,kind");
    for (c = 0; c < FIGURE_COLUMNS; c++) text_form(t, ",%s", figure_columns[c].name);
    text_str(t, ",hook_errors,alloc_bytes,peak_live_bytes,alloc_delta_bytes\n");
    for (i = 0; i < count; i++) {
        const row_entry *r = items[i].row;
        int64_t delta;
        memcpy(&delta, &r->sum.alloc_delta_bytes, sizeof delta);
        for (c = 0; c < KEY_FIELDS; c++) {
            text_csv(t, name_raw(&s->names, r->key.field[c]));
            text_byte(t, ',');
        }
        if (r->key.process) {
            text_csv(t, name_raw(&s->names, s->processes[r->key.process - 1].label));
            text_form(t, ",%" PRIu32, s->processes[r->key.process - 1].pid);
        } else {
            text_byte(t, ',');
        }
        text_form(t, ",%s", kind_names[r->key.kind]);
        for (c = 0; c < FIGURE_COLUMNS; c++) text_form(t, ",%" PRIu64, figure_columns[c].of(r));
        text_form(t, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRId64 "\n", r->sum.hook_errors, r->sum.alloc_bytes,
            r->sum.peak_live_bytes, delta);
        output_room(o);
    }
    free(items);
}

/* Lines of spans that are open, in their nesting: each waits for the span's end, which tells its self time. */
typedef struct csv_writer {
    output *out;
    textbuf open;
} csv_writer;

/* Process and thread of a line; thread NULL: none. */
static void csv_place(session *s, textbuf *t, const process_entry *p, const thread_entry *thread) {
    char line[64];
    text_csv(t, name_raw(&s->names, p->name));
    text_form(t, ",%" PRIu32 ",", p->pid);
    if (p->rank >= 0) text_u64(t, (uint64_t)p->rank);
    text_byte(t, ',');
    text_csv(t, name_raw(&s->names, p->host));
    text_byte(t, ',');
    if (thread) text_csv(t, thread_title(s, p, thread, line, sizeof line));
    text_byte(t, ',');
    if (thread) text_u64(t, thread->tid);
}

/* A line of what is no span of a thread. */
static void csv_extra(session *s, output *o, const process_entry *p, const char *kind, uint32_t name, slice device, uint64_t start,
    uint64_t duration) {
    textbuf *t = &o->text;
    csv_place(s, t, p, NULL);
    text_form(t, ",%s,", kind);
    text_csv(t, name_raw(&s->names, name));
    text_str(t, ",,,,,");
    text_csv(t, device);
    text_form(t, ",,%" PRIu64 ",%" PRIu64 ",0,,,,0,0\n", start - s->first_ns, duration);
    output_room(o);
}

/* One line a span, but for its self time and what follows. */
static void csv_span(walk *w, const span_view *v) {
    static const uint8_t fields[] = { SPANPROF_META_phase, SPANPROF_META_activity, SPANPROF_META_backend, SPANPROF_META_dtype,
                                      SPANPROF_META_device, SPANPROF_META_module };
    session *s = w->s;
    csv_writer *c = w->user;
    textbuf *t = v->elsewhere ? &c->out->text : &c->open;
    const size_t begin = t->n;
    meta_view m;
    size_t i;
    m.set = 0;
    m.hooked = 0;
    for (i = 0; i < v->ref_count; i++)
        if (SPANPROF_RECORD_TYPE(*v->refs[i]) == SPANPROF_RECORD_META) meta_add(&m, v->refs[i], (size_t)SPANPROF_RECORD_WORDS(*v->refs[i]));
    csv_place(s, t, &s->processes[w->d->process], &w->d->threads[w->thread]);
    text_str(t, ",span,");
    text_csv(t, v->name.p ? v->name : name_raw(&s->names, site_name(s, w->d, v->site)));
    for (i = 0; i < sizeof fields; i++) {
        text_byte(t, ',');
        if (w->d->is_json) text_csv(t, name_raw(&s->names, foreign_of(w->d)->keys[v->site].field[i + 1]));
        else if (m.set & 1u << fields[i]) text_csv(t, m.text[fields[i]]);
    }
    text_form(t, ",%" PRIu64 ",%" PRIu64 ",", v->start_ns - s->first_ns, v->end_ns - v->start_ns);
    w->node = begin;
    /* A span that ended on another thread holds no other. */
    if (v->elsewhere)
        text_form(t, "%" PRIu64 ",%" PRIu32 ",%" PRIu64 ",,%u,1\n", v->end_ns - v->start_ns, v->depth, w->l->first_index + v->index,
            v->unfinished);
}

static void csv_closed(walk *w, const open_span *o) {
    csv_writer *c = w->user;
    textbuf *t = &c->out->text;
    const open_span *parent = o > w->open + 1 ? o - 1 : NULL;
    if (c->open.failed) out_of_memory();
    text_put(t, c->open.p + o->node, c->open.n - o->node);
    c->open.n = o->node;
    text_form(t, "%" PRIu64 ",%zu,%" PRIu64 ",", o->end_ns - o->start_ns - o->covered, (size_t)(o - w->open) - 1,
        w->l->first_index + o->index);
    if (parent) text_u64(t, w->l->first_index + parent->index);
    text_form(t, ",%u,%u\n", o->unfinished, o->crossing);
    output_room(c->out);
}

/* Asynchronous operations and spans of devices: of no thread, and without self time. */
static void write_extra_spans(session *s, output *o) {
    size_t i, open = 0;
    for (i = 0; i < s->async_count; i++) {
        const async_event *a = &s->asyncs[i];
        if (i && (a[-1].process != a->process || a[-1].name != a->name || a[-1].id != a->id)) open = 0;
        if (!a->is_end) {
            must_grow(&s->async_stack, &s->async_stack_room, open + 1, sizeof *s->async_stack);
            s->async_stack[open++] = a->ns;
        } else if (open) {
            open--;
            csv_extra(s, o, &s->processes[a->process], kind_names[ROW_ASYNC], a->name, SLICE(""), s->async_stack[open],
                a->ns - s->async_stack[open]);
        }
    }
    for (i = 0; i < s->track_count; i++) {
        const track_event *t = &s->tracks[i];
        const process_entry *p = &s->processes[t->process];
        csv_extra(s, o, p, kind_names[ROW_DEVICE], t->name, name_raw(&s->names, track_device(s, &p->tracks[t->track])), t->start,
            t->duration);
    }
}

static void write_spans(session *s, output *o) {
    static const visitor visit = { csv_span, csv_closed, NULL, NULL };
    csv_writer c = { o, { NULL, 0, 0, false } };
    text_str(&o->text, "process,pid,rank,host,thread,tid,kind,name,phase,activity,backend,dtype,device,module,start_ns,duration_ns,"
                       "self_ns,depth,event_index,parent_index,unfinished,crossing\n");
    walk_all(s, &visit, &c);
    write_extra_spans(s, o);
    text_free(&c.open);
}

/* ---- call tree: folded stacks ----------------------------------------------------------------------------------- */

typedef struct tree_node {
    size_t parent;
    uint32_t name;
    uint64_t self;
} tree_node;

/* Nodes by the path of names that leads to them; a parent has a lower number than its children. */
typedef struct call_tree {
    session *s;
    tree_node *nodes;
    size_t count, room;
    size_t *slots; /* number of the node, 0: free; node 0 is the root */
    size_t slot_count;
} call_tree;

static size_t tree_slot(const call_tree *t, size_t parent, uint32_t name) {
    const uint64_t key[2] = { parent, name };
    size_t at = (size_t)hash_bytes(key, sizeof key) & (t->slot_count - 1);
    while (t->slots[at] && (t->nodes[t->slots[at]].parent != parent || t->nodes[t->slots[at]].name != name))
        at = (at + 1) & (t->slot_count - 1);
    return at;
}

/* The child of that name, made when it is new. */
static size_t tree_child(call_tree *t, size_t parent, uint32_t name) {
    size_t at, i;
    if (t->count * 2 >= t->slot_count) {
        free(t->slots);
        t->slot_count = t->slot_count ? t->slot_count * 2 : 256;
        t->slots = must_alloc(t->slot_count, sizeof *t->slots);
        for (i = 1; i < t->count; i++) t->slots[tree_slot(t, t->nodes[i].parent, t->nodes[i].name)] = i;
    }
    at = tree_slot(t, parent, name);
    if (!t->slots[at]) {
        must_grow(&t->nodes, &t->room, t->count + 1, sizeof *t->nodes);
        memset(&t->nodes[t->count], 0, sizeof *t->nodes);
        t->nodes[t->count].parent = parent;
        t->nodes[t->count].name = name;
        t->slots[at] = t->count++;
    }
    return t->slots[at];
}

static void tree_span(walk *w, const span_view *v) {
    call_tree *t = w->user;
    size_t parent = v->elsewhere ? 0 : w->open[w->open_count - 1].node;
    if (!parent && w->s->opt->by_process) parent = tree_child(t, 0, w->s->processes[w->d->process].label);
    w->node = tree_child(t, parent, v->name.p ? name_number(&w->s->names, v->name) : site_name(w->s, w->d, v->site));
    if (v->elsewhere && !v->unfinished) t->nodes[w->node].self += v->end_ns - v->start_ns;
}

static void tree_closed(walk *w, const open_span *o) {
    call_tree *t = w->user;
    if (!o->unfinished) t->nodes[o->node].self += o->end_ns - o->start_ns - o->covered;
}

/* Builds the tree of all spans; with --by-process the processes are its first level. */
static void tree_build(call_tree *t, session *s) {
    static const visitor visit = { tree_span, tree_closed, NULL, NULL };
    memset(t, 0, sizeof *t);
    t->s = s;
    must_grow(&t->nodes, &t->room, 1, sizeof *t->nodes);
    memset(t->nodes, 0, sizeof *t->nodes);
    t->count = 1;
    walk_all(s, &visit, t);
}

static void tree_free(call_tree *t) {
    free(t->nodes);
    free(t->slots);
}

typedef struct tree_item {
    session *s;
    const tree_node *node;
    size_t number;
} tree_item;

static int tree_order(const void *a, const void *b) {
    const tree_item *x = a, *y = b;
    if (x->node->parent != y->node->parent) return x->node->parent < y->node->parent ? -1 : 1;
    return slice_order(name_raw(&x->s->names, x->node->name), name_raw(&y->s->names, y->node->name));
}

/* The nodes, children of one parent together and by name; a parent stands before its children. */
static tree_item *tree_sorted(const call_tree *t) {
    tree_item *items = must_alloc(t->count, sizeof *items);
    size_t i;
    for (i = 1; i < t->count; i++) items[i - 1] = (tree_item){ t->s, &t->nodes[i], i };
    qsort(items, t->count - 1, sizeof *items, tree_order);
    return items;
}

/* A name inside a folded stack, where ';' parts names and a line is an entry. */
static void text_frame(textbuf *t, slice name) {
    const size_t from = t->n;
    size_t i;
    text_plain(t, name);
    for (i = from; i < t->n; i++)
        if (t->p[i] == ';') t->p[i] = ':';
}

static void write_folded(session *s, output *o) {
    call_tree t;
    tree_item *items;
    size_t *path = NULL, room = 0, i, n, at;
    tree_build(&t, s);
    items = tree_sorted(&t);
    for (i = 0; i + 1 < t.count; i++) {
        if (items[i].node->self == 0) continue;
        for (n = 0, at = items[i].number; at; at = t.nodes[at].parent) {
            must_grow(&path, &room, n + 1, sizeof *path);
            path[n++] = at;
        }
        while (n > 0) {
            text_frame(&o->text, name_raw(&s->names, t.nodes[path[--n]].name));
            text_byte(&o->text, n ? ';' : ' ');
        }
        text_u64(&o->text, items[i].node->self);
        text_byte(&o->text, '\n');
        output_room(o);
    }
    free(path);
    free(items);
    tree_free(&t);
}

/* ---- SVG: a still picture of the time line ---------------------------------------------------------------------- */

/* Sizes in pixels. A picture has at most SVG_SHAPES rectangles: spans narrower than a grain share one. */
enum { SVG_WIDTH = 1200, SVG_LEFT = 170, SVG_RIGHT = 10, SVG_TOP = 30, SVG_ROW = 16, SVG_GAP = 6, SVG_CHARACTER = 6,
       SVG_DEPTHS = 32, SVG_ROWS = 400, SVG_CELLS = 5000, SVG_SHAPES = 20000, SVG_COLORS = 12 };

/* Neighbours that are too narrow to be drawn one by one, at one depth of a track. */
typedef struct svg_run {
    uint64_t from, to, busy, count;
    slice name;
    bool mixed; /* of several names */
} svg_run;

typedef struct svg_track {
    uint32_t process, pid, tid;
    uint32_t depths;  /* in use */
    uint32_t is_deeper; /* than what is drawn */
    size_t first_run; /* of the rows */
    uint32_t y;
    char label[64];
    uint64_t ends[SVG_DEPTHS]; /* of the spans of a track that is no thread */
} svg_track;

typedef struct svg_picture {
    session *s;
    output *o;
    svg_track *tracks;
    size_t track_count, track_room;
    uint32_t **by_thread;  /* per dump and thread: 1 + track */
    size_t *by_track;      /* per process: the first of its other tracks */
    svg_run *runs;
    uint64_t from, to;     /* what is shown */
    double scale;          /* pixels a ns */
    uint64_t grain;        /* ns */
    uint64_t shapes, left_out;
    bool drawing;          /* else the depths are found */
} svg_picture;

/* Text inside XML: what it does not allow becomes \xNN. */
static void text_xml(textbuf *t, slice s) {
    textbuf plain = { NULL, 0, 0, false };
    size_t i;
    text_plain(&plain, s);
    for (i = 0; i < plain.n; i++) {
        if (plain.p[i] == '<') text_str(t, "&lt;");
        else if (plain.p[i] == '>') text_str(t, "&gt;");
        else if (plain.p[i] == '&') text_str(t, "&amp;");
        else if (plain.p[i] == '"') text_str(t, "&quot;");
        /* U+FFFE and U+FFFF are no characters of XML. */
        else if (plain.n - i >= 3 && memcmp(plain.p + i, "\xef\xbf", 2) == 0 && (unsigned char)plain.p[i + 2] >= 0xbe) {
            text_str(t, "\xef\xbf\xbd");
            i += 2;
        } else text_byte(t, plain.p[i]);
    }
    text_free(&plain);
}

/* A text that is cut to `room` characters, with an ellipsis where it was. */
static void text_xml_cut(textbuf *t, slice s, size_t room) {
    if (text_width(s) <= room) {
        text_xml(t, s);
        return;
    }
    text_xml(t, label_cut(s, room - 1));
    text_str(t, "\xe2\x80\xa6");
}

static svg_track *svg_add_track(svg_picture *g, uint32_t process, uint32_t pid, uint32_t tid, slice label) {
    textbuf plain = { NULL, 0, 0, false };
    svg_track *track;
    slice cut;
    must_grow(&g->tracks, &g->track_room, g->track_count + 1, sizeof *g->tracks);
    track = &g->tracks[g->track_count++];
    memset(track, 0, sizeof *track);
    track->process = process;
    track->pid = pid;
    track->tid = tid;
    text_plain(&plain, label);
    cut = label_cut((slice){ plain.p, plain.n }, (SVG_LEFT - 12) / SVG_CHARACTER);
    if (cut.n >= sizeof track->label) cut = label_cut(cut, sizeof track->label / 4);
    memcpy(track->label, cut.p ? cut.p : "", cut.n);
    text_free(&plain);
    return track;
}

/* Every thread and track of the trace, in its order. */
static void svg_add_tracks(svg_picture *g) {
    session *s = g->s;
    size_t i, j, k, n;
    char line[64];
    g->by_thread = must_alloc(s->dump_count, sizeof *g->by_thread);
    g->by_track = must_alloc(s->process_count, sizeof *g->by_track);
    for (j = 0; j < s->dump_count; j++) g->by_thread[j] = must_alloc(s->dumps[j].thread_count, sizeof **g->by_thread);
    for (i = 0; i < s->process_count; i++) {
        const uint32_t number = s->process_order[i];
        const process_entry *p = &s->processes[number];
        const size_t first = g->track_count;
        for (j = p->first_dump; j < p->end_dump; j++)
            for (k = 0; s->dumps[j].process == number && k < s->dumps[j].thread_count; k++) {
                const thread_entry *thread = &s->dumps[j].threads[k];
                if (!thread->used) continue;
                for (n = first; thread->shared && n < g->track_count && g->tracks[n].tid != thread->tid; n++) {}
                if (!thread->shared || n == g->track_count) {
                    n = g->track_count;
                    svg_add_track(g, number, p->pid, thread->tid, thread_title(s, p, thread, line, sizeof line));
                }
                g->by_thread[j][k] = (uint32_t)n + 1;
            }
    }
    for (i = 0; i < s->process_count; i++) {
        const process_entry *p = &s->processes[s->process_order[i]];
        g->by_track[s->process_order[i]] = g->track_count;
        for (j = 0; j < p->track_count; j++) {
            const slice group = name_raw(&s->names, p->tracks[j].process_name), name = name_raw(&s->names, p->tracks[j].name);
            textbuf label = { NULL, 0, 0, false };
            if (group.n) text_slice(&label, group);
            else text_form(&label, "device %" PRIu32, p->tracks[j].group);
            text_byte(&label, ' ');
            if (name.n) text_slice(&label, name);
            else text_form(&label, "track %" PRIu64, p->tracks[j].number);
            svg_add_track(g, s->process_order[i], p->tracks[j].pid, p->tracks[j].tid, (slice){ label.p, label.n });
            text_free(&label);
        }
    }
}

static double svg_x(const svg_picture *g, uint64_t ns) {
    const uint64_t inside = ns < g->from ? g->from : ns > g->to ? g->to : ns;
    return SVG_LEFT + (double)(inside - g->from) * g->scale;
}

static unsigned svg_color(slice name) { return (unsigned)(hash_bytes(name.p, name.n) % SVG_COLORS); }

/* One rectangle with its tooltip and, where it fits, its name. `color` is a class. */
static void svg_shape(svg_picture *g, uint32_t y, uint64_t from, uint64_t to, const char *color, slice title, slice name) {
    textbuf *t = &g->o->text;
    const double x = svg_x(g, from), width = svg_x(g, to) - x;
    const size_t room = width > 2 * SVG_CHARACTER ? (size_t)(width - 6) / SVG_CHARACTER : 0;
    if (g->shapes == SVG_SHAPES) {
        g->left_out++;
        return;
    }
    g->shapes++;
    text_form(t, "<g><title>");
    text_slice(t, title);
    text_form(t, "</title><rect class=\"%s\" x=\"%.2f\" y=\"%" PRIu32 "\" width=\"%.2f\" height=\"%d\"/>", color, x, y,
        width < 0.3 ? 0.3 : width, SVG_ROW - 1);
    if (room >= 3) {
        text_form(t, "<text class=\"n\" x=\"%.2f\" y=\"%" PRIu32 "\">", x + 3, y + 11);
        text_xml_cut(t, name, room);
        text_str(t, "</text>");
    }
    text_str(t, "</g>\n");
    output_room(g->o);
}

static void svg_flush(svg_picture *g, svg_run *run, uint32_t y) {
    textbuf title = { NULL, 0, 0, false }, name = { NULL, 0, 0, false };
    char color[16], busy[32];
    if (!run->count) return;
    time_text(busy, sizeof busy, run->busy);
    if (run->mixed) text_form(&title, "%" PRIu64 " spans", run->count);
    else text_xml(&title, run->name);
    if (!run->mixed && run->count > 1) text_form(&title, ", %" PRIu64 " times", run->count);
    text_form(&title, ": %s", busy);
    if (run->mixed) text_form(&name, "%" PRIu64 " spans", run->count);
    else text_slice(&name, run->name);
    if (run->mixed) snprintf(color, sizeof color, "m");
    else snprintf(color, sizeof color, "c%u", svg_color(run->name));
    svg_shape(g, y, run->from, run->to, color, (slice){ title.p, title.n }, (slice){ name.p, name.n });
    text_free(&title);
    text_free(&name);
    memset(run, 0, sizeof *run);
}

/* A span of a track into the picture, times from the trace's origin. */
static void svg_span(svg_picture *g, svg_track *track, uint32_t depth, slice name, uint64_t from, uint64_t to, const char *state) {
    svg_run *run;
    const uint32_t y = track->y + depth * SVG_ROW;
    if (depth >= SVG_DEPTHS) {
        track->is_deeper = 1;
        return;
    }
    if (!g->drawing) {
        if (depth + 1 > track->depths) track->depths = depth + 1;
        return;
    }
    if (!track->y || depth >= track->depths) return; /* the picture has no room for the track */
    run = &g->runs[track->first_run + depth];
    if (to - from >= g->grain || *state) {
        textbuf title = { NULL, 0, 0, false };
        char color[16], lasts[32], begins[32];
        svg_flush(g, run, y);
        time_text(lasts, sizeof lasts, to - from);
        time_text(begins, sizeof begins, from);
        text_xml(&title, name);
        text_form(&title, ": %s at %s%s", lasts, begins, state);
        snprintf(color, sizeof color, "c%u%s", svg_color(name), *state ? " u" : "");
        svg_shape(g, y, from, to, color, (slice){ title.p, title.n }, name);
        text_free(&title);
        return;
    }
    if (run->count && (from > run->to + g->grain || from < run->from)) svg_flush(g, run, y);
    if (!run->count) {
        run->from = from;
        run->name = name;
    }
    run->mixed |= !slice_is(run->name, name);
    if (to > run->to) run->to = to;
    run->busy += to - from;
    run->count++;
}

static void svg_visit(walk *w, const span_view *v) {
    svg_picture *g = w->user;
    const uint32_t track = g->by_thread[w->d - w->s->dumps][w->thread];
    const char *state = v->unfinished ? ", unfinished"
                      : v->abandoned  ? ", abandoned"
                      : v->elsewhere  ? ", ended on another thread"
                      : v->crossing   ? ", ends after the span that holds it" : "";
    slice name;
    if (!track || is_thinned(w->s, v->start_ns, v->end_ns)) return;
    name = name_raw(&w->s->names, v->name.p ? name_number(&w->s->names, v->name) : site_name(w->s, w->d, v->site));
    svg_span(g, &g->tracks[track - 1], v->depth, name, v->start_ns - w->s->first_ns, v->end_ns - w->s->first_ns, state);
}

/* All spans: of threads, then of other tracks, where one that overlaps another goes a row lower. */
static void svg_walk(svg_picture *g) {
    static const visitor visit = { svg_visit, NULL, NULL, NULL };
    session *s = g->s;
    size_t i;
    walk_all(s, &visit, g);
    for (i = 0; i < g->track_count; i++) memset(g->tracks[i].ends, 0, sizeof g->tracks[i].ends);
    for (i = 0; i < s->track_count; i++) {
        const track_event *e = &s->tracks[i];
        svg_track *track = &g->tracks[g->by_track[e->process] + e->track];
        const uint64_t from = e->start - s->first_ns, to = from + e->duration;
        uint32_t depth = 0;
        if (is_thinned(s, e->start, e->start + e->duration)) continue;
        while (depth < SVG_DEPTHS && track->ends[depth] > from) depth++;
        if (depth < SVG_DEPTHS) track->ends[depth] = to;
        svg_span(g, track, depth, name_raw(&s->names, e->name), from, to, "");
    }
}

/* Places the tracks; the height of the picture. */
static uint32_t svg_place(svg_picture *g, size_t *hidden) {
    size_t i, rows = 0;
    uint32_t y = SVG_TOP, process = UINT32_MAX;
    const double width = SVG_WIDTH - SVG_LEFT - SVG_RIGHT;
    double share;
    *hidden = 0;
    for (i = 0; i < g->track_count; i++) {
        svg_track *track = &g->tracks[i];
        if (!track->depths) continue;
        if (rows + track->depths > SVG_ROWS) {
            ++*hidden;
            continue;
        }
        if (track->process != process && g->s->process_count > 1) y += SVG_ROW;
        process = track->process;
        track->first_run = rows;
        track->y = y;
        rows += track->depths;
        y += track->depths * SVG_ROW + SVG_GAP;
    }
    g->runs = must_alloc(rows, sizeof *g->runs);
    g->scale = g->to > g->from ? width / (double)(g->to - g->from) : 0;
    /* A pixel, or more where all rows together would have too many of them. */
    share = (double)rows * width < SVG_CELLS ? 1 / width : (double)rows / SVG_CELLS;
    g->grain = g->to > g->from ? (uint64_t)((double)(g->to - g->from) * share) : 0;
    if (g->grain == 0) g->grain = 1;
    return y;
}

/* A mark of the axis in the unit of the marks, with as many digits as tell them apart. */
static void svg_mark_text(char *line, size_t room, uint64_t at, uint64_t step) {
    static const struct { uint64_t unit; const char *name; } units[] = {
        { UINT64_C(1000000000), "s" }, { 1000000, "ms" }, { 1000, "us" }, { 1, "ns" } };
    size_t i = 0;
    int digits = 0;
    uint64_t rest;
    while (i < 3 && at < units[i].unit) i++;
    for (rest = units[i].unit; rest > 1 && step % rest; rest /= 10) digits++;
    if (at) snprintf(line, room, "%.*f %s", digits, (double)at / (double)units[i].unit, units[i].name);
    else snprintf(line, room, "0");
}

/* Time runs to the right; about eight marks at round times. */
static void svg_axis(const svg_picture *g, uint32_t height) {
    textbuf *t = &g->o->text;
    const uint64_t window = g->to - g->from;
    uint64_t step = 1, at;
    unsigned turn = 0;
    for (; window / step > 10; turn++) {
        if (step > TIME_MAX / 10) break;
        step = turn % 3 == 1 ? step / 2 * 5 : step * 2;
    }
    for (at = (g->from + step - 1) / step * step; at <= g->to && window; at += step) {
        char line[32];
        const double x = svg_x(g, at);
        svg_mark_text(line, sizeof line, at, step);
        text_form(t, "<path class=\"g\" d=\"M%.2f %dV%" PRIu32 "\"/><text x=\"%.2f\" y=\"14\"%s>%s</text>\n", x, 20, height, x,
                  x > SVG_WIDTH - 60 ? " text-anchor=\"end\"" : x > SVG_LEFT + 20 ? " text-anchor=\"middle\"" : "", line);
    }
}

/* The names of tracks, and of their processes where there are several. */
static void svg_labels(const svg_picture *g) {
    textbuf *t = &g->o->text;
    session *s = g->s;
    uint32_t process = UINT32_MAX;
    size_t i;
    for (i = 0; i < g->track_count; i++) {
        const svg_track *track = &g->tracks[i];
        if (!track->y) continue;
        if (track->process != process && s->process_count > 1) {
            text_form(t, "<text class=\"b\" x=\"6\" y=\"%" PRIu32 "\">", track->y - SVG_ROW + 11);
            text_xml_cut(t, name_raw(&s->names, s->processes[track->process].label), 100);
            text_str(t, "</text>\n");
        }
        process = track->process;
        text_form(t, "<path class=\"g\" d=\"M0 %" PRIu32 "H%d\"/><text x=\"6\" y=\"%" PRIu32 "\">", track->y - SVG_GAP / 2, SVG_WIDTH,
            track->y + 11);
        text_xml(t, slice_of(track->label));
        if (track->is_deeper) text_form(t, "<title>spans deeper than %d are not drawn</title>", SVG_DEPTHS);
        text_str(t, "</text>\n");
    }
}

static void svg_begin(textbuf *t, uint32_t height) {
    unsigned i;
    text_form(t, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %" PRIu32 "\" width=\"%d\" height=\"%" PRIu32
        "\">\n<style>\n", SVG_WIDTH, height, SVG_WIDTH, height);
    text_str(t, "rect{stroke:#fff;stroke-width:.4}text{font:11px ui-monospace,Menlo,Consolas,monospace;fill:#24292f}"
        ".n{fill:#111;pointer-events:none}.b{font-weight:bold}\n"
        ".p{fill:#fff}.g{stroke:#888;stroke-opacity:.35;fill:none}.m{fill:#a0a4a8}"
        ".u{stroke:#c00;stroke-width:1;stroke-dasharray:3 2;fill-opacity:.6}\n");
    for (i = 0; i < SVG_COLORS; i++) text_form(t, ".c%u{fill:hsl(%u,60%%,%u%%)}", i, i * (360u / SVG_COLORS), i % 2 ? 72u : 66u);
    text_str(t, "\n@media(prefers-color-scheme:dark){text{fill:#d0d7de}.n{fill:#111}.p{fill:#0d1117}rect{stroke:#0d1117}}"
        "\n</style>\n<rect class=\"p\" width=\"100%\" height=\"100%\"/>\n");
}

static void write_svg(session *s, output *o) {
    svg_picture g;
    size_t hidden, i, row;
    uint32_t height, foot;
    memset(&g, 0, sizeof g);
    g.s = s;
    g.o = o;
    g.from = s->opt->window_from;
    g.to = s->last_ns - s->first_ns < s->opt->window_to ? s->last_ns - s->first_ns : s->opt->window_to;
    if (g.from > g.to) g.from = g.to;
    svg_add_tracks(&g);
    svg_walk(&g);
    foot = svg_place(&g, &hidden);
    height = foot + SVG_ROW + 4;
    svg_begin(&o->text, height);
    svg_axis(&g, foot);
    svg_labels(&g);
    g.drawing = true;
    svg_walk(&g);
    for (i = 0; i < g.track_count; i++)
        for (row = 0; g.tracks[i].y && row < g.tracks[i].depths; row++)
            svg_flush(&g, &g.runs[g.tracks[i].first_run + row], g.tracks[i].y + (uint32_t)row * SVG_ROW);
    text_form(&o->text, "<text x=\"6\" y=\"%" PRIu32 "\">%" PRIu64 " spans", foot + 12, s->spans + s->track_count);
    if (hidden) text_form(&o->text, ", %zu tracks without room here", hidden);
    if (g.left_out) text_form(&o->text, ", %" PRIu64 " shapes left out", g.left_out);
    if (s->dropped) text_form(&o->text, ", %" PRIu64 " events dropped", s->dropped);
    text_str(&o->text, s->damaged ? ", the input was damaged</text>\n</svg>\n" : "</text>\n</svg>\n");
    for (i = 0; i < s->dump_count; i++) free(g.by_thread[i]);
    free(g.by_thread);
    free(g.by_track);
    free(g.tracks);
    free(g.runs);
}

/* ==== compare ====================================================================================================== */

/* trace2summary compare: a regression gate over two summaries, or over several runs of each side.
 *
 *     compare_main(argc, argv, summarise)   argv behind the word "compare"; returns the exit code
 *
 * Laws, held for every input: a higher tolerance never adds a regression; a summary compared with itself has none; an input
 * that is missing, empty, incomplete, of another schema or with a key twice never passes. A key is what a row stands for: the
 * key fields, the kind and, where rows are kept apart by process, the process; its pid is of one run alone.
 */

/* ---- a small strict JSON document ---------------------------------------------------------------------------------- */

enum { DOC_DEPTH = 64, DOC_BYTES = 256 << 20 };

typedef enum { DOC_NULL, DOC_FALSE, DOC_TRUE, DOC_NUMBER, DOC_STRING, DOC_ARRAY, DOC_OBJECT } doc_kind;

/* Values in the order of the text. The members of an object or array lie behind it, one after the other by `next`. */
typedef struct {
    doc_kind kind;
    uint32_t next;   /* number of the value behind this one and all it holds */
    slice key;       /* of a member of an object, decoded */
    slice text;      /* of a string decoded, of a number as written */
    uint64_t offset;
} doc_value;

typedef struct {
    char *text;
    const char *p, *end;
    doc_value *list;
    size_t count, room;
    const char *error;
    uint64_t error_offset;
} doc;

static bool doc_fail(doc *d, const char *what) {
    if (!d->error) {
        d->error = what;
        d->error_offset = (uint64_t)(d->p - d->text);
    }
    return false;
}

static void doc_space(doc *d) {
    while (d->p < d->end && (*d->p == ' ' || *d->p == '\t' || *d->p == '\n' || *d->p == '\r')) d->p++;
}

/* Decodes a string in place. */
static bool doc_string(doc *d, slice *s) {
    bool escaped = false;
    uint64_t halves = 0;
    const char *end;
    if (d->p >= d->end || *d->p != '"') return doc_fail(d, "a string is missing");
    end = json_string_end(d->p + 1, d->end, &escaped);
    if (!end) return doc_fail(d, "a string without its end");
    *s = (slice){d->p + 1, (size_t)(end - d->p - 1)};
    for (size_t i = 0; i < s->n; i++) {
        const char c = s->p[i];
        if ((unsigned char)c < 0x20) return doc_fail(d, "a control character in a string");
        if (c != '\\') continue;
        i++; /* never the last: its quote would not have ended the string */
        if (!strchr("\"\\/bfnrtu", s->p[i]) || (s->p[i] == 'u' && json_hex4(s->p + i + 1, s->p + s->n) < 0))
            return doc_fail(d, "an escape that does not exist");
    }
    if (escaped) s->n = json_unescape(d->text + (s->p - d->text), *s, &halves);
    d->p = end + 1;
    return true;
}

static bool doc_word(doc *d, const char *word, doc_kind kind, doc_value *v) {
    const size_t n = strlen(word);
    if ((size_t)(d->end - d->p) < n || memcmp(d->p, word, n) != 0) return doc_fail(d, "no JSON value");
    d->p += n;
    v->kind = kind;
    return true;
}

/* Recursion is bounded by DOC_DEPTH. */
static bool doc_parse_value(doc *d, slice key, unsigned depth) {
    doc_value v = {DOC_NULL, 0, key, {NULL, 0}, (uint64_t)(d->p - d->text)};
    const size_t at = d->count;
    bool good = true;
    char close;
    must_grow(&d->list, &d->room, d->count + 1, sizeof *d->list);
    d->count++;
    switch (d->p < d->end ? *d->p : '\0') {
    case '"': v.kind = DOC_STRING; good = doc_string(d, &v.text); break;
    case 'n': good = doc_word(d, "null", DOC_NULL, &v); break;
    case 't': good = doc_word(d, "true", DOC_TRUE, &v); break;
    case 'f': good = doc_word(d, "false", DOC_FALSE, &v); break;
    case '{':
    case '[':
        if (depth == DOC_DEPTH) return doc_fail(d, "nested too deep");
        v.kind = *d->p == '{' ? DOC_OBJECT : DOC_ARRAY;
        close = *d->p++ == '{' ? '}' : ']';
        doc_space(d);
        while (good && !(d->p < d->end && *d->p == close)) {
            slice member = {NULL, 0};
            if (v.kind == DOC_OBJECT) {
                if (!doc_string(d, &member)) return false;
                doc_space(d);
                if (d->p >= d->end || *d->p != ':') return doc_fail(d, "a colon is missing");
                d->p++;
                doc_space(d);
            }
            if (!doc_parse_value(d, member, depth + 1)) return false;
            doc_space(d);
            if (d->p < d->end && *d->p == close) break;
            if (d->p >= d->end || *d->p != ',') return doc_fail(d, "a comma or the end of a list is missing");
            d->p++;
            doc_space(d);
            if (d->p < d->end && *d->p == close) return doc_fail(d, "a comma before the end of a list");
        }
        d->p++;
        break;
    default: {
        const size_t n = json_strict_number(d->p, d->end);
        if (!n) return doc_fail(d, d->p < d->end ? "no JSON value" : "the file ends here");
        v.kind = DOC_NUMBER;
        v.text = (slice){d->p, n};
        d->p += n;
    }
    }
    if (d->count > UINT32_MAX) return doc_fail(d, "too many values");
    v.next = (uint32_t)d->count;
    d->list[at] = v;
    return good;
}

/* Parses d->text, which it changes. */
static bool doc_parse(doc *d, size_t n) {
    d->p = d->text;
    d->end = d->text + n;
    if (n >= 3 && memcmp(d->p, "\xef\xbb\xbf", 3) == 0) d->p += 3;
    doc_space(d);
    if (!doc_parse_value(d, (slice){NULL, 0}, 0)) return false;
    doc_space(d);
    return d->p == d->end || doc_fail(d, "text after the end");
}

static void doc_free(doc *d) {
    free(d->text);
    free(d->list);
    memset(d, 0, sizeof *d);
}

/* A member of an object; the last of that key. NULL when there is none. */
static const doc_value *doc_member(const doc *d, const doc_value *object, const char *key) {
    const doc_value *found = NULL;
    if (!object || object->kind != DOC_OBJECT) return NULL;
    for (size_t i = (size_t)(object - d->list) + 1; i < object->next; i = d->list[i].next)
        if (slice_is(d->list[i].key, slice_of(key))) found = &d->list[i];
    return found;
}

/* ---- summaries ----------------------------------------------------------------------------------------------------- */

static const char *const compare_metrics[] = {"calls",  "self_ns", "total_ns", "min_ns",      "mean_ns",        "median_ns",
                                              "p95_ns", "p99_ns",  "max_ns",   "alloc_bytes", "peak_live_bytes"};
static const char *const compare_fields[KEY_FIELDS] = {"name", "phase", "activity", "backend", "dtype", "device", "module"};

typedef struct {
    slice field[KEY_FIELDS]; /* p NULL: absent or null */
    slice kind, process;     /* process: of --by-process */
    int64_t pid;             /* tells processes of one name apart within a run; another run has others */
    int64_t ordinal;         /* of the process among those of its name, by pid */
    int64_t value, calls;
} compare_row;

typedef struct {
    const char *file;
    doc json;
    bool made; /* the summary was made here: places in it are of no file */
    uint64_t hook_errors;
    compare_row *rows;
    size_t count, room;
} compare_run;

typedef struct { compare_run *run; size_t count, room; } compare_side;

typedef struct {
    const char *metric, *json_file;
    int64_t absolute, relative_bps;
    bool fail_on_new, fail_on_missing, allow_incomplete, quiet, is_time; /* is_time: the absolute tolerance has a unit */
    compare_side base, candidate;
} compare_options;

/* Summarises a dump or a trace into summary JSON; 0 or the exit code of what went wrong, said on stderr, as are notes on the
 * input unless `quiet`. */
typedef int (*compare_summarise)(const char *file, bool quiet, textbuf *summary);

static int compare_order(const compare_row *a, const compare_row *b) {
    for (int i = 0; i < KEY_FIELDS; i++) {
        const int absent = (b->field[i].p == NULL) - (a->field[i].p == NULL);
        const int order = absent ? absent : slice_order(a->field[i], b->field[i]);
        if (order) return order;
    }
    if (slice_order(a->kind, b->kind)) return slice_order(a->kind, b->kind);
    if (slice_order(a->process, b->process)) return slice_order(a->process, b->process);
    return (a->ordinal > b->ordinal) - (a->ordinal < b->ordinal);
}
static int compare_process_order(const void *a, const void *b) {
    const compare_row *const x = a, *const y = b;
    const int order = slice_order(x->process, y->process);
    return order ? order : (x->pid > y->pid) - (x->pid < y->pid);
}
static int compare_order_void(const void *a, const void *b) { return compare_order(a, b); }

/* A count or a time: a whole number that is not negative. 1 good, 0 absent or null, -1 anything else. */
static int compare_number(const doc_value *v, int64_t *value) {
    if (!v || v->kind == DOC_NULL) return 0;
    return v->kind == DOC_NUMBER && json_integer(v->text, value) && *value >= 0 ? 1 : -1;
}

static uint64_t compare_place(const compare_run *run, const doc_value *where) { return where && !run->made ? where->offset : NO_OFFSET; }

static bool compare_refuse(const compare_run *run, const doc_value *where, const char *why) {
    diag(run->file, compare_place(run, where), "refused: %s", why);
    return false;
}

/* A text of a row's key, left as it is where the member is absent or null. */
static bool compare_take_text(const compare_run *run, const doc_value *object, const char *member, slice *text) {
    const doc_value *const f = doc_member(&run->json, object, member);
    if (!f || f->kind == DOC_NULL) return true;
    if (f->kind != DOC_STRING) return compare_refuse(run, f, "a key field is no text");
    *text = f->text;
    return true;
}

/* One row; key fields may also lie beside the figures. */
static bool compare_take_row(compare_run *run, const doc_value *v, const char *metric) {
    const doc_value *key = doc_member(&run->json, v, "key");
    compare_row row;
    int64_t errors = 0;
    int good;
    memset(&row, 0, sizeof row);
    row.kind = SLICE("span");
    if (v->kind != DOC_OBJECT) return compare_refuse(run, v, "a row is no object");
    if (!key || key->kind != DOC_OBJECT) key = v;
    for (int i = 0; i < KEY_FIELDS; i++)
        if (!compare_take_text(run, key, compare_fields[i], &row.field[i])) return false;
    if (!compare_take_text(run, v, "kind", &row.kind) || !compare_take_text(run, key, "process", &row.process)) return false;
    if (compare_number(doc_member(&run->json, key, "pid"), &row.pid) < 0) return compare_refuse(run, key, "a row's pid is no whole number");
    if (!row.field[KEY_NAME].p) return compare_refuse(run, v, "a row has no name");
    good = compare_number(doc_member(&run->json, v, "calls"), &row.calls);
    if (good != 1) return compare_refuse(run, v, "a row's calls are missing or no whole number");
    good = compare_number(doc_member(&run->json, v, metric), &row.value);
    if (good < 0) return compare_refuse(run, doc_member(&run->json, v, metric), "the metric is no whole number from 0 to 2^63-1");
    if (good == 0) {
        diag(run->file, compare_place(run, v), "refused: a row has no %s; choose another --metric", metric);
        return false;
    }
    if (compare_number(doc_member(&run->json, v, "hook_errors"), &errors) == 1) run->hook_errors += (uint64_t)errors;
    must_grow(&run->rows, &run->room, run->count + 1, sizeof *run->rows);
    run->rows[run->count++] = row;
    return true;
}

/* Dropped events or validation issues make figures that mean less than they say. */
static bool compare_complete(const compare_run *run, const doc_value *root, bool allow, bool quiet) {
    const doc_value *const dropped = doc_member(&run->json, root, "dropped_events");
    const doc_value *const issues = doc_member(&run->json, root, "validation_issues");
    int64_t lost = 0;
    if (compare_number(dropped, &lost) != 1) return compare_refuse(run, dropped, "dropped_events is missing or no whole number");
    if (!issues || issues->kind != DOC_ARRAY) return compare_refuse(run, issues, "validation_issues is missing or no list");
    if (lost > 0) {
        if (!allow || !quiet) diag(run->file, compare_place(run, dropped), "%s: incomplete, %" PRId64 " dropped event(s)%s", allow ? "note" : "refused", lost,
             allow ? "" : "; --allow-incomplete compares it");
        if (!allow) return false;
    }
    if (issues->next > (size_t)(issues - run->json.list) + 1) {
        const doc_value *const first = doc_member(&run->json, issues + 1, "message");
        textbuf text = {NULL, 0, 0, false};
        if (first && first->kind == DOC_STRING) text_plain(&text, first->text);
        if (!allow || !quiet) diag(run->file, compare_place(run, issues), "%s: has validation issues%s%.200s%s", allow ? "note" : "refused", text.n ? ", the first: " : "",
             text_end(&text) ? text.p : "", allow ? "" : "; --allow-incomplete compares it");
        text_free(&text);
        if (!allow) return false;
    }
    return true;
}

/* What is no reason to refuse, but to think about the figures. */
static void compare_notes(const compare_run *run, const doc_value *root) {
    int64_t open = 0;
    if (compare_number(doc_member(&run->json, root, "unfinished_events"), &open) == 1 && open > 0)
        diag(run->file, NO_OFFSET, "note: %" PRId64 " unfinished event(s) are not in the figures", open);
    if (run->hook_errors)
        diag(run->file, NO_OFFSET, "note: %" PRIu64 " span(s) with hook_error: their times may not be what their names say", run->hook_errors);
}

/* Checks the document and takes its rows, in the order of their keys. */
static bool compare_take(compare_run *run, const compare_options *o) {
    const doc_value *const root = run->json.list;
    const doc_value *const version = doc_member(&run->json, root, "schema_version");
    const doc_value *const rows = doc_member(&run->json, root, "rows");
    int64_t number = 0;
    if (compare_number(version, &number) != 1) return compare_refuse(run, version, "no summary: schema_version is missing");
    if (number != 1) return compare_refuse(run, version, "a summary of another schema; this program reads schema_version 1");
    if (!rows || rows->kind != DOC_ARRAY) return compare_refuse(run, rows, "rows is missing or no list");
    if (!compare_complete(run, root, o->allow_incomplete, o->quiet)) return false;
    for (size_t i = (size_t)(rows - run->json.list) + 1; i < rows->next; i = run->json.list[i].next)
        if (!compare_take_row(run, &run->json.list[i], o->metric)) return false;
    if (!run->count) return compare_refuse(run, rows, "it is empty: no rows. Was anything recorded?");
    qsort(run->rows, run->count, sizeof *run->rows, compare_process_order);
    for (size_t i = 1; i < run->count; i++) {
        const compare_row *const before = &run->rows[i - 1];
        compare_row *const row = &run->rows[i];
        if (slice_order(before->process, row->process) == 0) row->ordinal = before->ordinal + (row->pid != before->pid);
    }
    qsort(run->rows, run->count, sizeof *run->rows, compare_order_void);
    for (size_t i = 1; i < run->count; i++)
        if (compare_order(&run->rows[i - 1], &run->rows[i]) == 0) {
            textbuf name = {NULL, 0, 0, false};
            text_plain(&name, run->rows[i].field[KEY_NAME]);
            diag(run->file, NO_OFFSET, "refused: the key of \"%s\" stands twice", text_end(&name) ? name.p : "?");
            text_free(&name);
            return false;
        }
    if (!o->quiet) compare_notes(run, root);
    return true;
}

/* A whole file, unpacked when it is gzipped. */
static bool compare_load_file(const char *file, textbuf *text) {
    json_in in;
    bool good;
    if (!json_open(&in, file)) return diag(file, NO_OFFSET, "refused: cannot be opened: %s", strerror(errno)), false;
    do {
        text_put(text, in.p, (size_t)(in.end - in.p));
        in.p = in.end;
    } while (text->n <= DOC_BYTES && !text->failed && json_more(&in, in.p));
    good = !in.error && !text->failed && text->n <= DOC_BYTES && !(in.zip && in.zip->error);
    if (in.error) diag(file, NO_OFFSET, "refused: cannot be read: %s", strerror(in.error));
    else if (in.zip && in.zip->error) diag(file, in.zip->error_offset, "refused: %s", in.zip->error);
    else if (!good) diag(file, NO_OFFSET, "refused: larger than a summary can be (256 MiB)");
    json_close(&in);
    return good;
}

static bool compare_load(compare_run *run, const compare_options *o, compare_summarise summarise) {
    textbuf text = {NULL, 0, 0, false};
    struct stat st;
    json_kind kind;
    bool good;
    if (stat(run->file, &st) != 0) return diag(run->file, NO_OFFSET, "refused: %s", strerror(errno)), false;
    if (S_ISDIR(st.st_mode)) return compare_refuse(run, NULL, "a folder");
    kind = S_ISREG(st.st_mode) ? json_kind_of(run->file) : JSON_KIND_SUMMARY; /* a pipe can be read only once */
    if (kind == JSON_KIND_TRACE || (kind == JSON_KIND_NONE && st.st_size != 0)) {
        run->made = true;
        good = summarise && summarise(run->file, o->quiet, &text) == 0;
        if (!good) compare_refuse(run, NULL, "it could not be summarised");
    } else {
        good = compare_load_file(run->file, &text);
    }
    if (good && text.n == 0) good = compare_refuse(run, NULL, "it is empty");
    if (good && !text_end(&text)) out_of_memory();
    if (good) {
        run->json.text = text.p;
        good = doc_parse(&run->json, text.n);
        if (!good) diag(run->file, run->json.error_offset, "refused: %s", run->json.error);
        return good && compare_take(run, o);
    }
    text_free(&text);
    return false;
}

/* ---- verdicts ------------------------------------------------------------------------------------------------------ */

typedef struct { uint64_t high, low; } compare_wide;

/* 64 x 64 bits. By halves, so that it needs no type wider than any compiler has. */
static compare_wide compare_product(uint64_t a, uint64_t b) {
    const uint64_t a0 = a & UINT32_MAX, a1 = a >> 32, b0 = b & UINT32_MAX, b1 = b >> 32;
    const uint64_t low = a0 * b0, cross = a1 * b0 + (low >> 32), other = a0 * b1 + (cross & UINT32_MAX);
    return (compare_wide){a1 * b1 + (cross >> 32) + (other >> 32), other << 32 | (low & UINT32_MAX)};
}
static bool compare_greater(compare_wide a, compare_wide b) { return a.high != b.high ? a.high > b.high : a.low > b.low; }

/* floor(a * b / c), at most INT64_MAX; c > 0. Bit by bit: it runs once a row. */
static int64_t compare_ratio(uint64_t a, uint64_t b, uint64_t c) {
    const compare_wide n = compare_product(a, b);
    uint64_t rest = 0, quotient = 0;
    if (n.high >= c) return INT64_MAX;
    for (int i = 127; i >= 0; i--) {
        const uint64_t bit = (i >= 64 ? n.high >> (i - 64) : n.low >> i) & 1;
        const bool carry = rest >> 63;
        rest = rest << 1 | bit;
        quotient <<= 1;
        if (carry || rest >= c) {
            rest -= c;
            quotient |= 1;
        }
    }
    return quotient > INT64_MAX ? INT64_MAX : (int64_t)quotient;
}

/* Over both tolerances, up or down; with a baseline of zero the absolute one decides. Values are not negative. */
static bool compare_exceeds(int64_t base, int64_t candidate, int64_t absolute, int64_t relative_bps) {
    const uint64_t delta = candidate > base ? (uint64_t)(candidate - base) : (uint64_t)(base - candidate);
    if (delta <= (uint64_t)absolute) return false;
    return base == 0 || compare_greater(compare_product(delta, 10000), compare_product((uint64_t)base, (uint64_t)relative_bps));
}

/* From the worst on: the order of the table. */
typedef enum { VERDICT_REGRESSION, VERDICT_MISSING, VERDICT_NEW, VERDICT_NOISE, VERDICT_WITHIN, VERDICT_IMPROVEMENT } compare_verdict;
static const char *const compare_words[] = {"regression", "missing", "new", "noise", "within_tolerance", "improvement"};

/* What the runs of one side say about a key. */
typedef struct { int64_t median, low, high, calls; size_t runs; } compare_spread;

typedef struct {
    const compare_row *key;
    compare_spread base, candidate;
    compare_verdict verdict;
    int64_t delta, change_bps; /* change_bps: of a baseline that is not 0 */
} compare_line;

static int compare_i64(const void *a, const void *b) {
    int64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/* Medians by nearest rank, as in the summary: of two runs the lower. */
static compare_spread compare_spread_of(const compare_side *side, const compare_row *key, int64_t *work) {
    compare_spread s = {0, 0, 0, 0, 0};
    int64_t *const calls = work + side->count;
    for (size_t i = 0; i < side->count; i++) {
        const compare_run *const run = &side->run[i];
        const compare_row *const row = bsearch(key, run->rows, run->count, sizeof *run->rows, compare_order_void);
        if (!row) continue;
        work[s.runs] = row->value;
        calls[s.runs++] = row->calls;
    }
    if (!s.runs) return s;
    qsort(work, s.runs, sizeof *work, compare_i64);
    qsort(calls, s.runs, sizeof *calls, compare_i64);
    s.low = work[0];
    s.high = work[s.runs - 1];
    s.median = work[(s.runs - 1) / 2];
    s.calls = calls[(s.runs - 1) / 2];
    return s;
}

static void compare_judge(compare_line *l, const compare_options *o) {
    l->delta = l->candidate.median - l->base.median; /* both are from 0 to 2^63-1 */
    if (l->base.median > 0) {
        const uint64_t size = l->delta < 0 ? (uint64_t)-l->delta : (uint64_t)l->delta;
        const int64_t bps = compare_ratio(size, 10000, (uint64_t)l->base.median);
        l->change_bps = l->delta < 0 ? -bps : bps;
    }
    if (!l->candidate.runs) l->verdict = VERDICT_MISSING;
    else if (!l->base.runs) l->verdict = VERDICT_NEW;
    else if (!compare_exceeds(l->base.median, l->candidate.median, o->absolute, o->relative_bps)) l->verdict = VERDICT_WITHIN;
    else if (l->base.runs > 1 && l->candidate.median >= l->base.low && l->candidate.median <= l->base.high) l->verdict = VERDICT_NOISE;
    else l->verdict = l->delta < 0 ? VERDICT_IMPROVEMENT : VERDICT_REGRESSION;
}

/* Worst first: by verdict, then by how much it costs, then by key. */
static int compare_line_order(const void *a, const void *b) {
    const compare_line *const x = a, *const y = b;
    if (x->verdict != y->verdict) return x->verdict < y->verdict ? -1 : 1;
    if (x->delta != y->delta) return x->delta > y->delta ? -1 : 1;
    return compare_order(x->key, y->key);
}

typedef struct { compare_line *list; size_t count, counts[VERDICT_IMPROVEMENT + 1]; } compare_result;

/* Every key of any run, once. */
static compare_result compare_lines(const compare_options *o) {
    const compare_side *const sides[2] = {&o->base, &o->candidate};
    int64_t *const work = must_alloc(2 * (o->base.count + o->candidate.count), sizeof *work);
    compare_result r;
    compare_row *keys;
    size_t n = 0;
    memset(&r, 0, sizeof r);
    for (int s = 0; s < 2; s++)
        for (size_t i = 0; i < sides[s]->count; i++) n += sides[s]->run[i].count;
    keys = must_alloc(n, sizeof *keys);
    r.list = must_alloc(n, sizeof *r.list);
    n = 0;
    for (int s = 0; s < 2; s++)
        for (size_t i = 0; i < sides[s]->count; i++) {
            memcpy(keys + n, sides[s]->run[i].rows, sides[s]->run[i].count * sizeof *keys);
            n += sides[s]->run[i].count;
        }
    qsort(keys, n, sizeof *keys, compare_order_void);
    for (size_t i = 0; i < n; i++) {
        compare_line *const l = &r.list[r.count];
        if (i && compare_order(&keys[i - 1], &keys[i]) == 0) continue;
        l->base = compare_spread_of(&o->base, &keys[i], work);
        l->candidate = compare_spread_of(&o->candidate, &keys[i], work);
        /* A key that lives as long as its run. */
        for (int s = 0; s < 2 && !l->key; s++)
            for (size_t k = 0; k < sides[s]->count && !l->key; k++)
                l->key = bsearch(&keys[i], sides[s]->run[k].rows, sides[s]->run[k].count, sizeof *keys, compare_order_void);
        compare_judge(l, o);
        r.counts[l->verdict]++;
        r.count++;
    }
    qsort(r.list, r.count, sizeof *r.list, compare_line_order);
    free(work);
    free(keys);
    return r;
}

/* ---- outputs ------------------------------------------------------------------------------------------------------- */

static void compare_json_key(textbuf *t, const compare_row *key) {
    text_str(t, "{\"key\":{");
    for (int i = 0; i < KEY_FIELDS; i++) {
        text_form(t, "%s\"%s\":", i ? "," : "", compare_fields[i]);
        if (key->field[i].p) text_json(t, key->field[i]);
        else text_str(t, "null");
    }
    if (key->process.p) {
        text_str(t, ",\"process\":");
        text_json(t, key->process);
        text_form(t, ",\"process_ordinal\":%" PRId64, key->ordinal);
    }
    text_byte(t, '}');
    if (slice_is(key->kind, SLICE("span"))) return;
    text_str(t, ",\"kind\":");
    text_json(t, key->kind);
}

static void compare_json_spread(textbuf *t, const char *side, const compare_spread *s) {
    text_form(t, ",\"%s_runs\":%zu,\"%s_min\":%" PRId64 ",\"%s_max\":%" PRId64, side, s->runs, side, s->low, side, s->high);
}

static void compare_json(textbuf *t, const compare_options *o, const compare_result *r, bool failed) {
    static const struct { const char *name; compare_verdict verdict; } lists[] = {{"missing", VERDICT_MISSING}, {"new", VERDICT_NEW}};
    const bool several = o->base.count > 1 || o->candidate.count > 1;
    bool first = true;
    text_form(t, "{\"schema_version\":1,\"metric\":\"%s\",\"absolute_tolerance\":%" PRId64 ",\"relative_tolerance_bps\":%" PRId64,
              o->metric, o->absolute, o->relative_bps);
    text_form(t, ",\"has_regression\":%s,\"policy_failed\":%s,\"matched\":[", r->counts[VERDICT_REGRESSION] ? "true" : "false",
              failed ? "true" : "false");
    for (size_t i = 0; i < r->count; i++) {
        const compare_line *const l = &r->list[i];
        if (l->verdict == VERDICT_MISSING || l->verdict == VERDICT_NEW) continue;
        text_str(t, first ? "\n" : ",\n");
        first = false;
        compare_json_key(t, l->key);
        text_form(t, ",\"status\":\"%s\",\"baseline\":%" PRId64 ",\"candidate\":%" PRId64 ",\"delta\":%" PRId64 ",\"change_bps\":",
                  compare_words[l->verdict], l->base.median, l->candidate.median, l->delta);
        if (l->base.median) text_form(t, "%" PRId64, l->change_bps);
        else text_str(t, "null");
        text_form(t, ",\"baseline_calls\":%" PRId64 ",\"candidate_calls\":%" PRId64, l->base.calls, l->candidate.calls);
        if (several) {
            compare_json_spread(t, "baseline", &l->base);
            compare_json_spread(t, "candidate", &l->candidate);
        }
        text_byte(t, '}');
    }
    for (size_t k = 0; k < 2; k++) {
        text_form(t, "],\n\"%s\":[", lists[k].name);
        first = true;
        for (size_t i = 0; i < r->count; i++) {
            const compare_line *const l = &r->list[i];
            const compare_spread *const s = l->base.runs ? &l->base : &l->candidate;
            if (l->verdict != lists[k].verdict) continue;
            text_str(t, first ? "\n" : ",\n");
            first = false;
            compare_json_key(t, l->key);
            text_form(t, ",\"value\":%" PRId64 ",\"calls\":%" PRId64 "}", s->median, s->calls);
        }
    }
    text_str(t, "]}\n");
}

static bool compare_is_time(const char *metric) {
    const size_t n = strlen(metric);
    return n > 3 && strcmp(metric + n - 3, "_ns") == 0;
}

/* Figures as people read them: times by unit, the rest in groups of nothing. */
static void compare_figure(textbuf *t, const char *metric, int64_t v) {
    static const struct { int64_t size; const char *unit; } units[] = {
        {INT64_C(1000000000), "s"}, {INT64_C(1000000), "ms"}, {INT64_C(1000), "us"}};
    const bool time = compare_is_time(metric);
    const uint64_t size = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    if (v < 0) text_byte(t, '-');
    for (size_t i = 0; time && i < 3; i++) {
        const uint64_t unit = (uint64_t)units[i].size;
        if (size < unit) continue;
        text_form(t, "%" PRIu64 ".%03" PRIu64 " %s", size / unit, size % unit / (unit / 1000), units[i].unit);
        return;
    }
    text_form(t, "%" PRIu64 "%s", size, time ? " ns" : "");
}

static void compare_side_text(textbuf *t, const char *metric, const compare_spread *s, size_t files) {
    if (!s->runs) {
        text_str(t, "-");
        return;
    }
    compare_figure(t, metric, s->median);
    if (files < 2) return;
    text_str(t, " [");
    compare_figure(t, metric, s->low);
    text_str(t, " .. ");
    compare_figure(t, metric, s->high);
    text_form(t, "] %zu/%zu", s->runs, files);
}

static void compare_change_text(textbuf *t, const compare_line *l) {
    const uint64_t bps = l->change_bps < 0 ? (uint64_t)-l->change_bps : (uint64_t)l->change_bps;
    if (!l->base.runs || !l->candidate.runs) text_str(t, "-");
    else if (l->base.median) text_form(t, "%c%" PRIu64 ".%02" PRIu64 " %%", l->delta < 0 ? '-' : '+', bps / 100, bps % 100);
    else text_str(t, l->delta ? "from 0" : "0");
}

/* "name [phase=forward, device=cuda] (async) @process #2" */
static void compare_name_text(textbuf *t, const compare_row *key) {
    bool some = false;
    text_plain(t, key->field[KEY_NAME]);
    for (int i = KEY_NAME + 1; i < KEY_FIELDS; i++) {
        if (!key->field[i].p) continue;
        text_form(t, "%s%s=", some ? ", " : " [", compare_fields[i]);
        text_plain(t, key->field[i]);
        some = true;
    }
    if (some) text_byte(t, ']');
    if (!slice_is(key->kind, SLICE("span"))) {
        text_str(t, " (");
        text_plain(t, key->kind);
        text_byte(t, ')');
    }
    if (!key->process.p) return;
    text_str(t, " @");
    text_plain(t, key->process);
    if (key->ordinal) text_form(t, " #%" PRId64, key->ordinal + 1);
}

/* Columns a terminal shows: bytes that do not continue a character. */
static size_t compare_columns(slice s) {
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) n += ((unsigned char)s.p[i] & 0xc0) != 0x80;
    return n;
}

static void compare_table(textbuf *t, const compare_options *o, const compare_result *r) {
    enum { COLUMNS = 5 };
    static const char *const heads[COLUMNS] = {"name", "baseline", "candidate", "change", "verdict"};
    textbuf *const cell = must_alloc((r->count + 1) * COLUMNS, sizeof *cell);
    size_t width[COLUMNS] = {0};
    for (int c = 0; c < COLUMNS; c++) text_str(&cell[c], heads[c]);
    for (size_t i = 0; i < r->count; i++) {
        textbuf *const row = cell + (i + 1) * COLUMNS;
        const compare_line *const l = &r->list[i];
        compare_name_text(&row[0], l->key);
        compare_side_text(&row[1], o->metric, &l->base, o->base.count);
        compare_side_text(&row[2], o->metric, &l->candidate, o->candidate.count);
        compare_change_text(&row[3], l);
        text_str(&row[4], l->verdict == VERDICT_WITHIN ? (l->delta ? "within tolerance" : "same") : compare_words[l->verdict]);
    }
    for (size_t i = 0; i <= r->count; i++)
        for (int c = 0; c < COLUMNS; c++) {
            const size_t n = compare_columns((slice){cell[i * COLUMNS + (size_t)c].p, cell[i * COLUMNS + (size_t)c].n});
            if (n > width[c]) width[c] = n;
        }
    for (size_t i = 0; i <= r->count; i++) {
        for (int c = 0; c < COLUMNS; c++) {
            textbuf *const one = &cell[i * COLUMNS + (size_t)c];
            const size_t pad = width[c] - compare_columns((slice){one->p, one->n});
            const bool right = c >= 1 && c <= 3;
            for (size_t k = 0; right && k < pad; k++) text_byte(t, ' ');
            text_put(t, one->p, one->n);
            for (size_t k = 0; !right && c < COLUMNS - 1 && k < pad; k++) text_byte(t, ' ');
            text_str(t, c < COLUMNS - 1 ? "  " : "\n");
            if (one->failed) t->failed = true;
            text_free(one);
        }
    }
    free(cell);
}

/* ---- the command --------------------------------------------------------------------------------------------------- */

#define COMPARE_OPTIONS                                                                                                     \
    "      --metric NAME     calls, self_ns, total_ns, min_ns, mean_ns (default), median_ns, p95_ns, p99_ns, max_ns,\n"        \
    "                        alloc_bytes, peak_live_bytes\n"                                                                   \
    "      --absolute-tolerance N      a regression or improvement is larger than N (ns or 10us, 1.5ms, 2s; bytes; calls;\n"     \
    "                                  default 0)\n"                                                                              \
    "      --relative-tolerance-bps N  and larger than N/100 percent of the baseline (default 0)\n"                            \
    "      --fail-on-new     a row of the candidate alone fails as well\n"                                                     \
    "      --fail-on-missing a row of the baseline alone fails as well\n"                                                      \
    "      --allow-incomplete  compare summaries with dropped events or validation issues\n"                                   \
    "      --json FILE       the result as JSON (- is standard output, without the table)\n"

static const char compare_usage[] =
    "usage: trace2summary compare BASE CANDIDATE [options]\n"
    "       trace2summary compare BASE... -- CANDIDATE... [options]\n"
    "\n"
    "Compares two summaries; a dump or a trace is summarised first. Of several runs a side the medians are compared, and a\n"
    "change inside the baseline's own spread is noise.\n"
    "\n"
    COMPARE_OPTIONS
    "  -q, --quiet           no notes and no progress on standard error\n"
    "\n"
    "exit status: 0 passed; 1 a regression; 2 wrong usage; 3 an input was refused; 4 FILE could not be written.\n";

/* is_time: set when the text has a unit; NULL: none may be there. */
static bool compare_tolerance(const char *name, const char *text, int64_t *value, bool *is_time) {
    const slice s = slice_of(text);
    const char *end;
    uint64_t time;
    bool digits = s.n != 0;
    for (size_t i = 0; i < s.n; i++) digits = digits && s.p[i] >= '0' && s.p[i] <= '9';
    if (digits && json_integer(s, value)) return true;
    if (!digits && is_time && parse_time(text, &time, &end) && !*end) {
        *value = (int64_t)time;
        return *is_time = true;
    }
    diag(NULL, NO_OFFSET, "%s takes a whole number from 0 to 2^63-1%s, not \"%s\"", name, is_time ? " or a time of whole ns like 10us, 1.5ms, 2s" : "", text);
    return false;
}

static void compare_add_file(compare_side *side, const char *file) {
    must_grow(&side->run, &side->room, side->count + 1, sizeof *side->run);
    memset(&side->run[side->count], 0, sizeof *side->run);
    side->run[side->count++].file = file;
}

/* An option with a value, as "--name value" or "--name=value". */
static const char *compare_value(char **argv, int argc, int *i, const char *name) {
    const size_t n = strlen(name);
    if (strncmp(argv[*i], name, n) != 0) return NULL;
    if (argv[*i][n] == '=') return argv[*i] + n + 1;
    return argv[*i][n] == '\0' && *i + 1 < argc ? argv[++*i] : NULL;
}

static bool compare_option(compare_options *o, int argc, char **argv, int *i) {
    const char *const word = argv[*i], *value;
    if (strcmp(word, "--fail-on-new") == 0) return o->fail_on_new = true;
    if (strcmp(word, "--fail-on-missing") == 0) return o->fail_on_missing = true;
    if (strcmp(word, "--allow-incomplete") == 0) return o->allow_incomplete = true;
    if (strcmp(word, "-q") == 0 || strcmp(word, "--quiet") == 0) return o->quiet = true;
    if ((value = compare_value(argv, argc, i, "--absolute-tolerance")) != NULL)
        return compare_tolerance("--absolute-tolerance", value, &o->absolute, &o->is_time);
    if ((value = compare_value(argv, argc, i, "--relative-tolerance-bps")) != NULL)
        return compare_tolerance("--relative-tolerance-bps", value, &o->relative_bps, NULL);
    if ((value = compare_value(argv, argc, i, "--json")) != NULL) {
        o->json_file = value;
        return *value != '\0';
    }
    if ((value = compare_value(argv, argc, i, "--metric")) != NULL) {
        for (size_t k = 0; k < sizeof compare_metrics / sizeof *compare_metrics; k++)
            if (strcmp(value, compare_metrics[k]) == 0) o->metric = compare_metrics[k];
        if (strcmp(o->metric, value) == 0) return true;
        diag(NULL, NO_OFFSET, "there is no metric \"%s\"", value);
        return false;
    }
    diag(NULL, NO_OFFSET, "compare: unknown option or missing value: %s", word);
    return false;
}

/* Files and options in any order; "--" stands between the sides and is needed when they are more than two files. */
static bool compare_arguments(compare_options *o, int argc, char **argv) {
    compare_side *side = &o->base;
    bool split = false;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            if (split) return diag(NULL, NO_OFFSET, "compare: a second --"), false;
            split = true;
            side = &o->candidate;
        } else if (argv[i][0] == '-' && argv[i][1]) {
            if (!compare_option(o, argc, argv, &i)) return false;
        } else {
            compare_add_file(side, argv[i]);
        }
    }
    if (!split && o->base.count == 2) {
        compare_add_file(&o->candidate, o->base.run[1].file);
        o->base.count = 1;
    }
    if (o->json_file) {
        const compare_side *const sides[2] = {&o->base, &o->candidate};
        const char *why = NULL;
        for (int k = 0; k < 2; k++)
            for (size_t i = 0; i < sides[k]->count && !why; i++) why = output_refusal(o->json_file, &sides[k]->run[i].file, 1, NULL, 0);
        if (why) return diag(NULL, NO_OFFSET, "compare: %s is not written: %s", o->json_file, why), false;
    }
    if (o->is_time && !compare_is_time(o->metric)) return diag(NULL, NO_OFFSET, "compare: a tolerance in time for %s", o->metric), false;
    if (o->base.count && o->candidate.count) return true;
    diag(NULL, NO_OFFSET, "compare takes BASE and CANDIDATE, or BASE... -- CANDIDATE...");
    return false;
}

static bool compare_load_side(compare_side *side, const compare_options *o, compare_summarise summarise) {
    bool good = true;
    for (size_t i = 0; i < side->count; i++)
        if (!compare_load(&side->run[i], o, summarise)) good = false; /* go on: every refusal is worth knowing */
    return good;
}

static void compare_free_side(compare_side *side) {
    for (size_t i = 0; i < side->count; i++) {
        free(side->run[i].rows);
        doc_free(&side->run[i].json);
    }
    free(side->run);
}

static int compare_print(const compare_options *o, const compare_result *r, bool failed) {
    textbuf table = {NULL, 0, 0, false}, json = {NULL, 0, 0, false};
    int code = failed || r->counts[VERDICT_REGRESSION] ? 1 : 0;
    compare_table(&table, o, r);
    text_form(&table, "%s: %zu regression(s), %zu improvement(s), %zu noise, %zu missing, %zu new; metric %s\n",
              code ? "FAILED" : "passed", r->counts[VERDICT_REGRESSION], r->counts[VERDICT_IMPROVEMENT], r->counts[VERDICT_NOISE],
              r->counts[VERDICT_MISSING], r->counts[VERDICT_NEW], o->metric);
    if (o->json_file) compare_json(&json, o, r, failed);
    if (!text_end(&table) || !text_end(&json)) out_of_memory();
    if ((!o->json_file || strcmp(o->json_file, "-") != 0) && !save_text("-", &table)) code = 4;
    if (o->json_file && !save_text(o->json_file, &json)) code = 4;
    text_free(&table);
    text_free(&json);
    return code;
}

static int compare_main(int argc, char **argv, compare_summarise summarise) {
    compare_options o;
    compare_result r;
    int code = 0;
    memset(&o, 0, sizeof o);
    o.metric = "mean_ns";
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0) return fputs(compare_usage, stdout) < 0 ? 4 : 0;
    if (!compare_arguments(&o, argc, argv)) {
        fputs(compare_usage, stderr);
        code = 2;
    } else {
        const bool base = compare_load_side(&o.base, &o, summarise);
        if (!compare_load_side(&o.candidate, &o, summarise) || !base) code = 3;
    }
    if (code == 0) {
        r = compare_lines(&o);
        code = compare_print(&o, &r, (o.fail_on_new && r.counts[VERDICT_NEW]) || (o.fail_on_missing && r.counts[VERDICT_MISSING]));
        free(r.list);
    }
    compare_free_side(&o.base);
    compare_free_side(&o.candidate);
    return code;
}

#ifndef _WIN32

/* ==== run ========================================================================================================== */

/* trace2summary run: records a command and its children, converts what they left, exits as the command did.
 *
 *     run_command(argv, &setup)   argv is CMD ARGS NULL; returns the exit code
 *
 * Each process records into a file of its own in a fresh private folder, which is removed at the end. What the command
 * sees is unchanged but for SPANPROF and SPANPROF_OUT: its stdio, signal dispositions and mask are those of the caller.
 */

typedef struct {
    const char *beside; /* a file the folder is made next to, so that dumps lie on a disk meant for data; NULL: TMPDIR */
    int (*convert)(void *user, char **paths, int count); /* all dumps, in the order of their names; an exit code */
    void *user;
} run_setup;

enum { RUN_NOT_EXECUTABLE = 126, RUN_NOT_FOUND = 127, RUN_SIGNAL = 128, RUN_OUTPUT = 4 };

/* Sent to us alone, they go on to the command. The terminal sends its own to the whole group, command included. */
static const int run_forwarded[] = {SIGHUP, SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2};
enum { RUN_FORWARDED = sizeof run_forwarded / sizeof *run_forwarded };

static volatile sig_atomic_t run_child; /* 0: none */

static void run_on_signal(int number, siginfo_t *info, void *context) {
    const int saved = errno;
    (void)context;
    /* SI_KERNEL comes from the terminal; a process that sends has a code that is not positive. */
    if (run_child > 0 && info && info->si_code <= 0) kill((pid_t)run_child, number);
    errno = saved;
}

/* ---- the folder ---------------------------------------------------------------------------------------------------- */

/* A new folder of mode 0700, as an absolute path: the command may change its folder. NULL with errno set. */
static char *run_make_folder(const char *beside) {
    textbuf t = {NULL, 0, 0, false};
    const char *const slash = beside ? strrchr(beside, '/') : NULL;
    const char *const temporary = getenv("TMPDIR");
    char *real, *folder = NULL;
    if (slash) text_put(&t, beside, slash == beside ? 1 : (size_t)(slash - beside));
    else text_str(&t, beside ? "." : temporary && *temporary ? temporary : "/tmp");
    if (!text_end(&t)) out_of_memory();
    real = realpath(t.p, NULL);
    if (real) {
        t.n = 0;
        text_str(&t, real);
        text_str(&t, "/.spanprof-run-XXXXXX");
        if (!text_end(&t)) out_of_memory();
        folder = mkdtemp(t.p);
    }
    free(real);
    if (!folder) {
        free(t.p);
        return NULL;
    }
    return t.p;
}

static int run_path_order(const void *a, const void *b) {
    const char *x, *y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return strcmp(x, y);
}

/* The files in the folder, in the order of their names; NULL-terminated, the caller's. */
static char **run_list_folder(const char *folder, int *count) {
    char **list = NULL;
    size_t n = 0, room = 0;
    struct dirent *entry;
    DIR *const dir = opendir(folder);
    must_grow(&list, &room, 1, sizeof *list);
    while (dir && (entry = readdir(dir)) != NULL) {
        textbuf path = {NULL, 0, 0, false};
        struct stat st;
        text_str(&path, folder);
        text_byte(&path, '/');
        text_str(&path, entry->d_name);
        if (!text_end(&path)) out_of_memory();
        if (lstat(path.p, &st) != 0 || !S_ISREG(st.st_mode) || n >= INT_MAX - 1) {
            text_free(&path);
            continue;
        }
        must_grow(&list, &room, n + 2, sizeof *list);
        list[n++] = path.p;
    }
    if (dir) closedir(dir);
    qsort(list, n, sizeof *list, run_path_order);
    list[n] = NULL;
    *count = (int)n;
    return list;
}

/* Removes the folder and the files in it; a folder that the command put there stays, and is said. */
static void run_remove_folder(const char *folder) {
    DIR *const dir = opendir(folder);
    struct dirent *entry;
    while (dir && (entry = readdir(dir)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir) closedir(dir);
    if (rmdir(folder) != 0 && errno != ENOENT) diag(folder, NO_OFFSET, "cannot be removed: %s", strerror(errno));
}

/* ---- the command --------------------------------------------------------------------------------------------------- */

/* SPANPROF=1 and SPANPROF_OUT for the command; every other SPANPROF_ variable stays as the user set it. */
static bool run_set_environment(const char *folder) {
    textbuf out = {NULL, 0, 0, false};
    bool good;
    for (const char *p = folder; *p; p++) {
        if (*p == '%') text_byte(&out, '%'); /* %% stands for a percent sign there */
        text_byte(&out, *p);
    }
    text_str(&out, "/%p.dump");
    good = text_end(&out) && setenv("SPANPROF", "1", 1) == 0 && setenv("SPANPROF_OUT", out.p, 1) == 0;
    text_free(&out);
    return good;
}

/* In the child, between fork and exec: only what is safe there. Tells why exec failed through the pipe. */
static void run_exec(char **argv, const sigset_t *mask, const struct sigaction *before, int tell) {
    int error;
    for (int i = 0; i < RUN_FORWARDED; i++) sigaction(run_forwarded[i], &before[i], NULL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(argv[0], argv);
    error = errno;
    while (write(tell, &error, sizeof error) < 0 && errno == EINTR) {}
    _exit(RUN_NOT_FOUND);
}

/* Waits for the command. It stays a zombie until run_child is cleared, so that no signal goes to a stranger of its id. */
static int run_wait(pid_t child) {
    siginfo_t info;
    int status = 0, got;
    do {
        memset(&info, 0, sizeof info);
        got = waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT);
    } while (got < 0 && errno == EINTR);
    run_child = 0;
    do got = (int)waitpid(child, &status, 0);
    while (got < 0 && errno == EINTR);
    if (got < 0) {
        diag(NULL, NO_OFFSET, "cannot wait for the command: %s", strerror(errno));
        return RUN_NOT_EXECUTABLE;
    }
    return WIFSIGNALED(status) ? RUN_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Runs the command to its end. *started is false when it could not be executed. */
static int run_child_process(char **argv, bool *started) {
    struct sigaction before[RUN_FORWARDED], forward;
    sigset_t blocked, mask;
    int pipes[2], error = 0, code = RUN_NOT_EXECUTABLE;
    ssize_t got = 0;
    pid_t child;
    *started = false;
    if (pipe(pipes) != 0) return diag(NULL, NO_OFFSET, "no pipe: %s", strerror(errno)), code;
    fcntl(pipes[0], F_SETFD, FD_CLOEXEC);
    fcntl(pipes[1], F_SETFD, FD_CLOEXEC);
    memset(&forward, 0, sizeof forward);
    forward.sa_sigaction = run_on_signal;
    forward.sa_flags = SA_SIGINFO | SA_RESTART;
    sigemptyset(&forward.sa_mask);
    sigemptyset(&blocked);
    for (int i = 0; i < RUN_FORWARDED; i++) sigaddset(&blocked, run_forwarded[i]);
    sigprocmask(SIG_BLOCK, &blocked, &mask); /* until the id to forward to is known */
    for (int i = 0; i < RUN_FORWARDED; i++) {
        sigaction(run_forwarded[i], NULL, &before[i]);
        if (before[i].sa_flags & SA_SIGINFO || before[i].sa_handler != SIG_IGN) sigaction(run_forwarded[i], &forward, NULL);
    }
    fflush(NULL);
    child = fork();
    if (child == 0) run_exec(argv, &mask, before, pipes[1]);
    close(pipes[1]);
    run_child = child > 0 ? (sig_atomic_t)child : 0;
    sigprocmask(SIG_SETMASK, &mask, NULL);
    if (child < 0) {
        diag(NULL, NO_OFFSET, "cannot start a process: %s", strerror(errno));
    } else {
        do got = read(pipes[0], &error, sizeof error);
        while (got < 0 && errno == EINTR);
        code = run_wait(child);
        *started = got != (ssize_t)sizeof error;
        if (!*started) {
            diag(argv[0], NO_OFFSET, "cannot be executed: %s", strerror(error));
            code = error == ENOENT || error == ENOTDIR ? RUN_NOT_FOUND : RUN_NOT_EXECUTABLE;
        }
    }
    close(pipes[0]);
    for (int i = 0; i < RUN_FORWARDED; i++) sigaction(run_forwarded[i], &before[i], NULL);
    return code;
}

/* ---- afterwards ---------------------------------------------------------------------------------------------------- */

/* True when the command's file runs under another identity, in which spanprof ignores the environment. */
static bool run_is_set_id(const char *command) {
    const char *path = strchr(command, '/') ? "" : getenv("PATH");
    struct stat st;
    if (!path) path = "/bin:/usr/bin";
    for (;;) {
        const size_t n = strcspn(path, ":");
        textbuf file = {NULL, 0, 0, false};
        bool found;
        text_put(&file, path, n);
        if (n) text_byte(&file, '/');
        text_str(&file, command);
        if (!text_end(&file)) out_of_memory();
        found = stat(file.p, &st) == 0 && S_ISREG(st.st_mode) && access(file.p, X_OK) == 0;
        text_free(&file);
        if (found) return (st.st_mode & S_ISUID && st.st_uid != getuid()) || (st.st_mode & S_ISGID && st.st_gid != getgid());
        if (!path[n]) return false;
        path += n + 1;
    }
}

static void run_say_nothing(const char *command) {
    if (run_is_set_id(command))
        diag(command, NO_OFFSET, "recorded nothing: it is a set-user-ID or set-group-ID program, which spanprof never records");
    else
        diag(command, NO_OFFSET, "recorded nothing: no span began in it or its children. Is it built with spanprof.h, one file with "
                                 "SPANPROF_IMPLEMENTATION, none with SPANPROF_DISABLE?");
}

static int run_command(char **argv, const run_setup *setup) {
    char *folder = run_make_folder(setup->beside);
    char **dumps = NULL;
    int count = 0, code, converted;
    bool started;
    if (!folder && setup->beside) folder = run_make_folder(NULL);
    if (!folder) {
        diag(NULL, NO_OFFSET, "no folder for the dumps: %s", strerror(errno));
        return RUN_OUTPUT;
    }
    if (!run_set_environment(folder)) {
        diag(NULL, NO_OFFSET, "cannot set the environment: %s", strerror(errno));
        run_remove_folder(folder);
        free(folder);
        return RUN_OUTPUT;
    }
    code = run_child_process(argv, &started);
    dumps = run_list_folder(folder, &count);
    if (count) {
        converted = setup->convert(setup->user, dumps, count);
        if (converted == RUN_OUTPUT && code == 0) code = RUN_OUTPUT;
    } else if (started) {
        run_say_nothing(argv[0]);
    }
    run_remove_folder(folder);
    for (int i = 0; i < count; i++) free(dumps[i]);
    free(dumps);
    free(folder);
    return code;
}

#endif /* _WIN32 */

/* ---- reading all inputs ----------------------------------------------------------------------------------------- */

/* The process of a dump: that of an earlier dump with the same key, or a new one. */
static uint32_t process_of(session *s, const dump_input *d) {
    process_entry *p;
    size_t i;
    for (i = 0; i < s->process_count && !d->is_json; i++)
        if (!s->processes[i].is_json && s->processes[i].key == d->head.process_key) return (uint32_t)i;
    must_grow(&s->processes, &s->process_room, s->process_count + 1, sizeof *s->processes);
    p = &s->processes[s->process_count];
    memset(p, 0, sizeof *p);
    p->key = d->head.process_key;
    p->pid = d->head.pid;
    p->rank = d->is_json ? -1 : d->head.rank;
    p->host = name_number(&s->names, slice_of(d->head.host));
    p->is_json = d->is_json;
    p->name = name_number(&s->names, slice_of(d->head.process_name[0] ? d->head.process_name : "(unnamed process)"));
    return (uint32_t)s->process_count++;
}

/* ---- foreign JSON as dumps in memory ---------------------------------------------------------------------------- */

/* Each process of a JSON file becomes a dump whose blocks lie in memory, with a lane for each thread, so that all that
 * follows is the same for both kinds of input. Its sites are the keys of the file's spans. */

/* Threads that one such dump takes; a process with more gets several. */
#define FOREIGN_LANES 4096u
#define FOREIGN_BLOCK_WORDS 65536u

static void foreign_time(foreign_load *l, int64_t from, int64_t to) {
    if (from < l->first) l->first = from;
    if (to > l->last) l->last = to;
}

/* The slot of the name of a process (tid NULL) or thread. */
static size_t foreign_name_slot(foreign_load *l, const json_id *pid, const json_id *tid, uint64_t *hash) {
    size_t at;
    *hash = foreign_hash_id(pid) * 31 + (tid ? foreign_hash_id(tid) + 1 : 0);
    for (at = foreign_first_slot(&l->name_index, *hash); l->name_index.number[at]; at = foreign_next_slot(&l->name_index, at)) {
        const foreign_names *n = &l->names[l->name_index.number[at] - 1];
        if (foreign_same_id(&n->pid, pid) && n->of_process == (tid == NULL) && (!tid || foreign_same_id(&n->tid, tid))) break;
    }
    return at;
}

static void foreign_name_event(foreign_load *l, const json_event *e) {
    const bool of_process = slice_is(e->name, SLICE("process_name"));
    textbuf text = { NULL, 0, 0, false };
    foreign_names *n;
    slice value;
    if (!of_process && !slice_is(e->name, SLICE("thread_name"))) return;
    if (json_find(e->args, "name", &value) && json_string(value, &text)) {
        uint64_t hash;
        const size_t at = foreign_name_slot(l, &e->pid, of_process ? NULL : &e->tid, &hash);
        if (!l->name_index.number[at]) {
            must_grow(&l->names, &l->name_room, l->name_count + 1, sizeof *l->names);
            n = &l->names[l->name_count++];
            n->pid = foreign_copy_id(e->pid);
            n->tid = foreign_copy_id(e->tid);
            n->of_process = of_process;
            foreign_fill_slot(&l->name_index, at, hash, l->name_count);
        }
        /* The last name given counts. */
        l->names[l->name_index.number[at] - 1].name = name_number(&l->s->names, (slice){ text.p ? text.p : "", text.n });
    }
    text_free(&text);
}

/* Takes an event of a device in a trace of ours; false when it is none. */
static bool foreign_device_event(foreign_load *l, const json_event *e) {
    enum { LOOK_BACK = 4096 };
    const uint32_t id = e->id.n ? name_number(&l->s->names, e->id) : 0;
    foreign_device *d;
    uint32_t track;
    slice value;
    size_t i;
    if (e->ph != 'X' && e->ph != 'b' && e->ph != 'e') return false;
    track = (uint32_t)foreign_track_of(&l->f, &e->pid, &e->tid);
    if (e->ph == 'e') {
        for (i = l->device_count; i > 0 && l->device_count - i < LOOK_BACK; i--) {
            d = &l->devices[i - 1];
            if (d->duration != FOREIGN_OPEN || d->id != id || d->track != track || e->ts_ns < d->ts) continue;
            d->duration = e->ts_ns - d->ts;
            break;
        }
        return true;
    }
    must_grow(&l->devices, &l->device_room, l->device_count + 1, sizeof *l->devices);
    d = &l->devices[l->device_count++];
    *d = (foreign_device){ e->ts_ns, e->ph == 'X' ? e->dur_ns : FOREIGN_OPEN, -1, name_number(&l->s->names, e->name.p ? e->name : SLICE("")), id, track };
    if (json_find(e->args, "queue_ns", &value) && (!json_integer(value, &d->queue) || d->queue < 0)) d->queue = -1;
    return true;
}

static int foreign_on_event(void *user, const json_event *e) {
    foreign_load *l = user;
    foreign_event *o;
    slice value;
    if (e->ph == 'M') {
        foreign_name_event(l, e);
        return 0;
    }
    foreign_time(l, e->ts_ns, e->has_dur && e->dur_ns > 0 && e->ts_ns <= INT64_MAX - e->dur_ns ? e->ts_ns + e->dur_ns : e->ts_ns);
    if (l->report.is_own && slice_is(e->cat, SLICE(DEVICE_CATEGORY)) && foreign_device_event(l, e)) return 0;
    if (e->ph == 'X' && e->args.n >= 17 && json_find(e->args, "unfinished", &value) && slice_is(value, SLICE("true"))) {
        /* Our own trace says so of a span that never ended. */
        json_event begin = *e;
        begin.ph = 'B';
        foreign_add(&l->f, &begin);
        return 0;
    }
    if (e->ph == 'X' || e->ph == 'B' || e->ph == 'E') {
        foreign_add(&l->f, e);
        return 0;
    }
    must_grow(&l->events, &l->event_room, l->event_count + 1, sizeof *l->events);
    o = &l->events[l->event_count++];
    memset(o, 0, sizeof *o);
    o->ts = e->ts_ns;
    o->phase = e->ph;
    o->scope = e->scope;
    o->id_kind = e->id_kind;
    o->name = name_number(&l->s->names, e->name.p ? e->name : SLICE(""));
    o->category = e->cat.n ? name_number(&l->s->names, e->cat) : 0;
    o->id = e->id.n ? name_number(&l->s->names, e->id) : 0;
    o->args = foreign_args_of(&l->f, e->args);
    o->track = (uint32_t)foreign_track_of(&l->f, &e->pid, &e->tid);
    return 0;
}

/* Closes a block of a foreign lane: a copy of exactly the words it has. */
static void foreign_block(dump_input *d, uint32_t lane, uint64_t seq, const uint64_t *words, size_t count, uint64_t base) {
    spanprof_dump_block *head = must_alloc(1, sizeof *head + count * 8);
    block_entry b;
    memset(&b, 0, sizeof b);
    if (count) memcpy(head + 1, words, count * 8);
    head->magic = SPANPROF_BLOCK_MAGIC;
    head->state = SPANPROF_BLOCK_DONE;
    head->lane = lane;
    head->thread = lane;
    head->seq = seq;
    head->base_ticks = base;
    b.head = head;
    b.words = (const uint64_t *)(const void *)(head + 1);
    b.seq = seq;
    b.lane = lane;
    b.count = (uint32_t)count;
    must_grow(&d->blocks, &d->block_room, d->block_count + 1, sizeof *d->blocks);
    d->blocks[d->block_count++] = b;
    must_grow(&d->copies, &d->copy_room, d->copy_count + 1, sizeof *d->copies);
    d->copies[d->copy_count++] = head;
}

/* A track's spans as the words of a lane. A long span has one word more than in a file: the number of its args. */
static void foreign_lane(foreign_load *l, dump_input *d, size_t track, uint32_t lane) {
    const foreign_track *t = &l->f.tracks[track];
    uint64_t *words = l->words;
    uint64_t seq = 0, base = 0, last = 0, ticks = 0;
    size_t n = 0, i;
    d->lanes[lane].first = d->block_count;
    for (i = 0; i < t->count; i++) {
        const foreign_record *r = &t->spans[i];
        uint64_t duration = r->duration < 0 ? 0 : (uint64_t)r->duration + 1;
        ticks = (uint64_t)r->start - (uint64_t)l->first;
        if (ticks > TIME_MAX) ticks = TIME_MAX;
        if (duration > TIME_MAX) duration = TIME_MAX;
        if (n + 4 > FOREIGN_BLOCK_WORDS) {
            foreign_block(d, lane, seq++, words, n, base);
            n = 0;
        }
        if (n == 0) base = last = ticks;
        if (!r->args && r->key <= SPANPROF_SHORT_SITE_MAX && ticks - last <= SPANPROF_SHORT_START_MAX &&
            duration - 1 <= SPANPROF_SHORT_DURATION_MAX) {
            words[n++] = duration << SPANPROF_SHORT_DURATION_SHIFT | (ticks - last) << SPANPROF_SHORT_START_SHIFT
                | (uint64_t)r->key << SPANPROF_SHORT_SITE_SHIFT | 1u;
            last = ticks;
            continue;
        }
        last = ticks;
        words[n++] = SPANPROF_RECORD(SPANPROF_RECORD_SPAN, 0, 4, r->key);
        words[n++] = ticks;
        words[n++] = duration;
        words[n++] = r->args;
    }
    foreign_block(d, lane, seq++, words, n, base);
    d->lanes[lane].count = (size_t)seq;
}

/* The sites of a foreign dump: one a key, with its row. */
static void foreign_sites(foreign_load *l, dump_input *d) {
    session *s = l->s;
    size_t i;
    d->site_count = l->f.key_count;
    d->sites = must_alloc(d->site_count, sizeof *d->sites);
    for (i = 1; i < d->site_count; i++) {
        const foreign_key *k = &l->f.keys[i];
        row_key key = plain_key(s, d, k->field[KEY_NAME]);
        memcpy(key.field, k->field, sizeof key.field);
        d->sites[i].name = k->field[KEY_NAME];
        d->sites[i].category = k->category;
        d->sites[i].row = row_number(&s->rows, &key) + 1;
    }
}

/* What the metadata of the file's spans adds to their rows. */
static void foreign_sums(foreign_load *l, const dump_input *d) {
    size_t i;
    for (i = 1; i < l->f.key_count; i++) {
        const foreign_extra *x = &l->f.keys[i].sum;
        figures *f = &l->s->rows.list[d->sites[i].row - 1].sum;
        f->alloc_bytes += (uint64_t)x->alloc_bytes;
        f->alloc_delta_bytes += (uint64_t)x->alloc_delta_bytes;
        f->hook_errors += x->hook_errors;
        if (x->peak_live_bytes > 0 && (uint64_t)x->peak_live_bytes > f->peak_live_bytes) f->peak_live_bytes = (uint64_t)x->peak_live_bytes;
    }
}

static uint32_t foreign_name_of(foreign_load *l, const json_id *pid, const json_id *tid) {
    uint64_t hash;
    const size_t at = foreign_name_slot(l, pid, tid, &hash);
    return l->name_index.number[at] ? l->names[l->name_index.number[at] - 1].name : 0;
}

/* A new dump in memory for the process of a track. */
static size_t foreign_dump(foreign_load *l, const foreign_track *t, size_t process) {
    session *s = l->s;
    dump_input *d;
    must_grow(&s->dumps, &s->dump_room, s->dump_count + 1, sizeof *s->dumps);
    d = &s->dumps[s->dump_count];
    memset(d, 0, sizeof *d);
    d->path = l->path;
    d->is_json = 1;
    d->foreign = l;
    d->aligned = "none: the clock base of foreign JSON is unknown, its times are kept";
    d->head.rank = -1;
    d->head.clock = SPANPROF_CLOCK_MONOTONIC;
    d->head.pid = t->pid.kind == JSON_ID_NUMBER && t->pid.number > 0 && t->pid.number <= INT32_MAX ? (uint32_t)t->pid.number : 0;
    d->words_in_block = FOREIGN_BLOCK_WORDS;
    d->end_ticks = (uint64_t)l->last - (uint64_t)l->first;
    if (d->end_ticks > TIME_MAX) d->end_ticks = TIME_MAX;
    d->shift_ns = l->first > 0 ? (uint64_t)l->first : 0;
    if (process == SIZE_MAX) {
        const uint32_t name = foreign_name_of(l, &t->pid, NULL);
        const char *slash = strrchr(l->path, '/');
        d->process = process_of(s, d);
        s->processes[d->process].name = name ? name : t->pid.kind == JSON_ID_TEXT ? name_number(&s->names,
            t->pid.text) : name_number(&s->names, slice_of(slash ? slash + 1 : l->path));
    } else {
        d->process = (uint32_t)process;
    }
    if (s->dump_count && s->dumps[s->dump_count - 1].foreign == l && !s->opt->by_process) {
        d->sites = s->dumps[s->dump_count - 1].sites;
        d->site_count = s->dumps[s->dump_count - 1].site_count;
        d->shares_sites = 1;
    } else {
        foreign_sites(l, d);
    }
    clock_build(s, d);
    return s->dump_count++;
}

/* One more lane and thread of a foreign dump. */
static uint32_t foreign_lane_new(dump_input *d) {
    must_grow(&d->lanes, &d->lane_room, d->lane_count + 1, sizeof *d->lanes);
    must_grow(&d->threads, &d->thread_room, d->lane_count + 1, sizeof *d->threads);
    memset(&d->lanes[d->lane_count], 0, sizeof *d->lanes);
    memset(&d->threads[d->lane_count], 0, sizeof *d->threads);
    d->thread_count = d->lane_count + 1;
    return (uint32_t)d->lane_count++;
}

/* Spans of devices become those of tracks again, under the process that a device is in a trace. */
static void foreign_devices(foreign_load *l) {
    session *s = l->s;
    size_t i;
    for (i = 0; i < l->device_count; i++) {
        const foreign_device *e = &l->devices[i];
        dump_input *const d = &s->dumps[l->dumps[e->track]];
        process_entry *const p = &s->processes[d->process];
        thread_entry *const thread = &d->threads[l->lanes[e->track]];
        const slice name = name_raw(&s->names, p->name);
        track_entry *track;
        track_event *t;
        size_t number;
        s->events++;
        if (e->duration == FOREIGN_OPEN) {
            s->async_unfinished++;
            continue;
        }
        number = track_get(p, e->track); /* moves the list */
        track = &p->tracks[number];
        thread->is_track = 1;
        track->name = thread->name;
        track->dump = l->dumps[e->track];
        track->lane = l->lanes[e->track];
        /* A device without a name got this one. */
        track->process_name = name.n > 7 && memcmp(name.p, "device ", 7) == 0 && name.p[7] >= '0' && name.p[7] <= '9' ? 0 : p->name;
        must_grow(&s->tracks, &s->track_room, s->track_count + 1, sizeof *s->tracks);
        t = &s->tracks[s->track_count++];
        memset(t, 0, sizeof *t);
        t->start = (uint64_t)e->ts - (uint64_t)l->first;
        t->duration = (uint64_t)e->duration;
        t->queue = e->queue;
        t->name = e->name;
        t->process = d->process;
        t->dump = track->dump;
        t->track = (uint32_t)number;
    }
}

/* Gives every track its dump and lane. */
static void foreign_place(foreign_load *l) {
    session *s = l->s;
    const size_t first_dump = s->dump_count;
    size_t i, j;
    l->dumps = must_alloc(l->f.track_count, sizeof *l->dumps);
    l->lanes = must_alloc(l->f.track_count, sizeof *l->lanes);
    l->words = must_alloc(FOREIGN_BLOCK_WORDS, sizeof *l->words);
    for (i = 0; i < l->f.track_count; i++) {
        const foreign_track *t = &l->f.tracks[i];
        const uint64_t hash = foreign_hash_id(&t->pid) * UINT64_C(0x9e3779b97f4a7c15) >> 16;
        size_t process = SIZE_MAX, at = SIZE_MAX;
        thread_entry *thread;
        uint32_t lane;
        for (j = foreign_first_slot(&l->process_index, hash); l->process_index.number[j]; j = foreign_next_slot(&l->process_index, j)) {
            at = l->process_index.number[j] - 1;
            process = s->dumps[at].process;
            if (foreign_same_id((const json_id *)s->dumps[at].foreign_pid, &t->pid)) break;
            at = process = SIZE_MAX;
        }
        if (at == SIZE_MAX || s->dumps[at].lane_count == FOREIGN_LANES) {
            at = foreign_dump(l, t, process);
            s->dumps[at].foreign_pid = &l->f.tracks[i].pid;
            if (process == SIZE_MAX) foreign_fill_slot(&l->process_index, j, hash, at + 1);
            else l->process_index.number[j] = (uint32_t)at + 1;
        }
        lane = foreign_lane_new(&s->dumps[at]);
        l->dumps[i] = (uint32_t)at;
        l->lanes[i] = lane;
        foreign_lane(l, &s->dumps[at], i, lane);
        thread = &s->dumps[at].threads[lane];
        thread->system_id = t->tid.kind == JSON_ID_NUMBER && t->tid.number > 0 ? (uint64_t)t->tid.number : 0;
        thread->name = foreign_name_of(l, &t->pid, &t->tid);
        if (!thread->name && t->tid.kind == JSON_ID_TEXT) thread->name = name_number(&s->names, t->tid.text);
    }
    foreign_devices(l);
    for (i = 0; i < l->event_count; i++) {
        thread_entry *const thread = &s->dumps[l->dumps[l->events[i].track]].threads[l->lanes[l->events[i].track]];
        if (!thread->is_track) thread->used = 1;
    }
    if (s->dump_count > first_dump) foreign_sums(l, &s->dumps[first_dump]);
}

/* Asynchronous events of the file, for the statistics. */
static void foreign_asyncs(foreign_load *l) {
    session *s = l->s;
    size_t i;
    for (i = 0; i < l->event_count; i++) {
        const foreign_event *e = &l->events[i];
        async_event *a;
        s->events++;
        if (e->phase != 'b' && e->phase != 'e') continue;
        must_grow(&s->asyncs, &s->async_room, s->async_count + 1, sizeof *s->asyncs);
        a = &s->asyncs[s->async_count++];
        a->ns = (uint64_t)e->ts - (uint64_t)l->first;
        a->id = (uint64_t)e->category << 32 | e->id;
        a->name = e->name;
        a->process = l->dumps[e->track];
        a->is_end = e->phase == 'e';
        a->is_named = 1;
    }
}

static void foreign_free(foreign_load *l) {
    foreign *f = &l->f;
    size_t i;
    for (i = 0; i < f->track_count; i++) {
        foreign_id_free(&f->tracks[i].pid);
        foreign_id_free(&f->tracks[i].tid);
        free(f->tracks[i].spans);
        free(f->tracks[i].halves);
    }
    for (i = 1; i < f->args_count; i++) slice_free(f->args[i]);
    for (i = 0; i < l->name_count; i++) {
        foreign_id_free(&l->names[i].pid);
        foreign_id_free(&l->names[i].tid);
    }
    free(f->tracks);
    free(f->keys);
    free(f->args);
    free(f->extras);
    free(f->track_index.hash);
    free(f->track_index.number);
    free(f->key_index.hash);
    free(f->key_index.number);
    free(f->args_index.hash);
    free(f->args_index.number);
    free(l->name_index.hash);
    free(l->name_index.number);
    free(l->process_index.hash);
    free(l->process_index.number);
    free(l->events);
    free(l->devices);
    free(l->names);
    free(l->words);
    free(l->dumps);
    free(l->lanes);
    free(l);
}

/* Events that are in no row: counted, so that nobody takes the figures for whole. An end before its begin is an issue as well. */
static void foreign_rejects(session *s, const json_report *r) {
    static const json_note rejected[] = { JSON_NO_TS, JSON_BAD_TS, JSON_NO_DUR, JSON_BAD_DUR, JSON_NEGATIVE_DUR };
    size_t i;
    for (i = 0; i < sizeof rejected / sizeof *rejected; i++) s->dropped += r->note[rejected[i]].count;
    s->orphan_ends += r->note[JSON_UNMATCHED_E].count;
    if (r->note[JSON_NEGATIVE_DUR].count)
        report_issue(s, 0, 0, UINT64_MAX, "byte %" PRIu64 ": %" PRIu64 " %s", r->note[JSON_NEGATIVE_DUR].first,
            r->note[JSON_NEGATIVE_DUR].count, json_note_texts[JSON_NEGATIVE_DUR]);
}

/* Reads a file of Trace Event JSON. */
static int read_json(session *s, const char *path) {
    foreign_load *l = must_alloc(1, sizeof *l);
    size_t i, first_dump;
    int status;
    l->s = s;
    l->path = path;
    l->first = INT64_MAX;
    l->last = INT64_MIN;
    foreign_init(&l->f, &s->names, &l->report, s->opt->trace != NULL && s->opt->args != ARGS_NONE);
    status = json_trace_read(path, foreign_on_event, l, &l->report);
    if (l->first > l->last) l->first = l->last = 0;
    if (status < 0 && !l->report.damaged) {
        complain(s, path, 0, "%s", l->report.why ? l->report.why : "not readable");
        foreign_free(l);
        return EXIT_DAMAGED;
    }
    foreign_finish(&l->f);
    if (l->report.damaged || !s->opt->quiet) json_report_print(path, &l->report);
    for (i = 0; i < JSON_NOTE_COUNT; i++)
        if (l->report.note[i].count && json_note_damage[i])
            damage_note(s, l->report.note[i].first, json_note_texts[i]);
    if (l->report.own_damaged) complain(s, path, NO_OFFSET, "this trace was made of a damaged input");
    s->dropped += l->report.own_dropped;
    foreign_rejects(s, &l->report);
    first_dump = s->dump_count;
    foreign_place(l);
    foreign_asyncs(l);
    if (s->dump_count == first_dump) foreign_free(l); /* no event, so nobody refers to it */
    return 0;
}

/* ---- reading dumps ---------------------------------------------------------------------------------------------- */

/* A note on a dump whose process ended without closing it. */
static void dump_note(const session *s, const dump_input *d) {
    if (s->opt->quiet) return;
    if (d->head.state == SPANPROF_DUMP_RECORDING && !(d->head.flags & SPANPROF_DUMP_SNAPSHOT))
        diag(d->path, NO_OFFSET, "note: the process was killed or still records; what it had not ended is shown as unfinished");
    if (d->head.orphan_ends) diag(d->path, NO_OFFSET, "note: %" PRIu64 " ends without a begin", d->head.orphan_ends);
    if (d->head.write_error) diag(d->path, NO_OFFSET, "note: recording stopped early: %s", strerror((int)(d->head.write_error & 0xffff)));
}

/* Do these hold the same recording? A program and its libraries that each record are one process, with sessions of one number
 * that began at other times. */
static bool same_recording(const dump_input *a, const dump_input *b) {
    const spanprof_dump_header *const x = &a->head, *const y = &b->head;
    return !a->is_json && !b->is_json && x->process_key && x->process_key == y->process_key && x->pid == y->pid && x->session == y->session &&
           x->first.ticks == y->first.ticks && x->first.mono_ns == y->first.mono_ns;
}

/* Is everything of `part` in `whole` too? */
static bool dump_holds(const dump_input *whole, const dump_input *part) {
    size_t i, j = 0;
    for (i = 0; i < part->block_count; i++) {
        const block_entry *const b = &part->blocks[i];
        while (j < whole->block_count && (whole->blocks[j].lane < b->lane || (whole->blocks[j].lane == b->lane && whole->blocks[j].seq < b->seq))) j++;
        if (j == whole->block_count || whole->blocks[j].lane != b->lane || whole->blocks[j].seq != b->seq) return false;
        if (whole->blocks[j].count < b->count || whole->blocks[j].head->base_ticks != b->head->base_ticks) return false;
    }
    return true;
}

/* Takes the events of a dump out again. */
static void dump_empty(session *s, dump_input *d) {
    const size_t number = (size_t)(d - s->dumps);
    size_t i, kept = 0;
    for (i = 0; i < s->async_count; i++)
        if (s->asyncs[i].process != number) s->asyncs[kept++] = s->asyncs[i];
    s->async_count = kept;
    kept = 0;
    for (i = 0; i < s->track_count; i++)
        if (s->tracks[i].dump != number) s->tracks[kept++] = s->tracks[i];
    s->track_count = kept;
    for (i = 0; i < d->lane_count; i++) d->lanes[i].count = d->lanes[i].ref_count = d->lanes[i].cut_count = 0;
    d->block_count = 0;
    d->dropped = d->overwritten = 0;
    d->head.orphan_ends = d->head.max_events = 0;
    d->head.usage_valid = 0;
}

/* One recording counts once: a dump that is given twice, or a ring and a copy of it that spanprof_flush made. Where each has
 * what the other lacks, both stay. */
static void dump_once(session *s, dump_input *d) {
    static const char again[] = "note: the same recording as %s, which has all of it; it is left out";
    size_t i;
    for (i = 0; &s->dumps[i] < d && d->block_count; i++) {
        dump_input *const o = &s->dumps[i];
        if (!o->block_count || !same_recording(o, d)) continue;
        if (dump_holds(o, d)) {
            if (!s->opt->quiet) diag(d->path, NO_OFFSET, again, o->path);
            dump_empty(s, d);
        } else if (dump_holds(d, o)) {
            if (!s->opt->quiet) diag(o->path, NO_OFFSET, again, d->path);
            s->dropped -= o->dropped;
            s->overwritten -= o->overwritten;
            s->orphan_ends -= o->head.orphan_ends;
            dump_empty(s, o);
        } else if (!s->opt->quiet) {
            diag(d->path, NO_OFFSET, "note: a part of the same recording as %s: what both have counts twice", o->path);
        }
    }
}

static int read_dump(session *s, const char *path, int fd, unsigned char *data, size_t size, int mapped) {
    dump_input *d;
    struct stat st;
    int status;
    must_grow(&s->dumps, &s->dump_room, s->dump_count + 1, sizeof *s->dumps);
    d = &s->dumps[s->dump_count];
    memset(d, 0, sizeof *d);
    d->path = path;
    d->data = data;
    d->size = size;
    d->mapped = mapped;
    d->aligned = "none needed";
    status = header_read(s, d);
    if (status > 0) {
        unload_input(data, size, mapped);
        d->data = NULL;
        return status;
    }
    d->file_size = mapped && fstat(fd, &st) == 0 && st.st_size > 0 ? (uint64_t)st.st_size : d->size + d->moved;
    d->process = process_of(s, d);
    s->dump_count++;
    d->releasable = d->mapped && status == 0 && d->size > RELEASE_FROM;
    if (d->head.state == SPANPROF_DUMP_RECORDING && status == 0) dump_freeze(d, fd);
    dump_index(s, d, status < 0);
    dump_note(s, d);
    dump_once(s, d);
    s->dropped += d->dropped;
    s->overwritten += d->overwritten;
    s->orphan_ends += d->head.orphan_ends;
    return 0;
}

/* Brings the dumps onto the clock of the first. */
static void align_clocks(session *s) {
    const dump_input *first = NULL;
    bool any_json = false;
    size_t i;
    for (i = 0; i < s->dump_count; i++) {
        dump_input *d = &s->dumps[i];
        int64_t offset, base;
        if (d->is_json) {
            any_json = true;
            continue;
        }
        if (!first) first = d;
        if (d == first || d->head.process_key == first->head.process_key) continue;
        base = (int64_t)(first->head.first.real_ns - first->head.first.mono_ns);
        offset = (int64_t)(d->head.first.real_ns - d->head.first.mono_ns);
        if (d->head.first.real_ns > TIME_MAX || first->head.first.real_ns > TIME_MAX || !d->head.first.real_ns ||
            !first->head.first.real_ns) {
            d->aligned = "none: a clock base is unknown";
            diag(d->path, NO_OFFSET, "note: its clock can't be aligned with %s", first->path);
        } else if (strcmp(d->head.host, first->head.host) == 0 && offset - base < 1000000000 && base - offset < 1000000000) {
            d->aligned = "monotonic clock of the same host";
        } else {
            d->aligned = "realtime clocks of the hosts";
            d->shift_ns = (uint64_t)(offset - base);
        }
    }
    for (i = 0; first && any_json && i < s->dump_count; i++) {
        dump_input *d = &s->dumps[i];
        if (!d->is_json) continue;
        d->aligned = "none: the clock base of foreign JSON is unknown, it begins with the first dump";
        d->shift_ns = first->head.first.mono_ns;
        if (!s->opt->quiet && (i == 0 || s->dumps[i - 1].foreign != d->foreign))
            diag(d->path, NO_OFFSET, "note: its clock base is unknown; it is placed at the begin of %s", first->path);
    }
}

/* A dump whose begin is damaged can be told by its blocks. */
static bool has_block(unsigned char *data, size_t size) {
    dump_input probe;
    size_t at = 0;
    int swap;
    memset(&probe, 0, sizeof probe);
    probe.data = data;
    probe.size = size;
    return block_search(&probe, &at, &swap);
}

static int read_input(session *s, const char *path) {
    unsigned char *data = NULL;
    size_t size = 0;
    struct stat st;
    bool more = false, is_dump;
    int fd = strcmp(path, "-") == 0 ? 0 : open(path, O_RDONLY | OPEN_FLAGS), mapped, error, status;
    if (fd < 0 || fstat(fd, &st) != 0 || S_ISDIR(st.st_mode)) {
        diag(path, NO_OFFSET, "%s", fd < 0 ? strerror(errno) : "not a file");
        if (fd > 0) close(fd);
        return EXIT_USAGE;
    }
    error = load_file(fd, &st, &data, &size, &mapped, &more);
    is_dump = (size >= 8 && memcmp(data, SPANPROF_DUMP_MAGIC, 8) == 0) ||
              (size >= sizeof(spanprof_dump_header) && !memchr("{[\x1f\xef \t\r\n", data[0], 8) && has_block(data, size));
    if (is_dump && more) error = load_file(fd, &st, &data, &size, &mapped, &more);
    if (error) complain(s, path, size, "%s", strerror(error));
    if (!is_dump && !mapped) { /* can be read only once */
        json_ahead.path = path;
        json_ahead.text = (slice){ (const char *)data, size };
        json_ahead.fd = fd;
        status = read_json(s, path);
        json_ahead.path = NULL;
        free(data);
        return status;
    }
    if (is_dump) {
        status = read_dump(s, path, fd, data, size, mapped);
    } else {
        unload_input(data, size, mapped);
        status = read_json(s, path);
    }
    if (fd) close(fd);
    return status;
}

static void session_begin(session *s, const options *opt) {
    memset(s, 0, sizeof *s);
    s->opt = opt;
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->names.lock, NULL);
    pthread_mutex_init(&s->rows.lock, NULL);
    s->progress_shown = !opt->quiet && isatty(2);
}

static void dump_free(dump_input *d) {
    size_t i, j;
    for (i = 0; i < d->lane_count; i++) {
        lane_entry *l = &d->lanes[i];
        for (j = 0; j < l->point_count; j++) free(l->points[j].open);
        free(l->points);
        free(l->refs);
        free(l->cuts);
    }
    for (i = 0; i < d->copy_count; i++) free(d->copies[i]);
    for (i = 0; i < d->site_count && !d->shares_sites; i++) slice_free(d->sites[i].head);
    for (i = 0; i < d->thread_count; i++) slice_free(d->threads[i].ids);
    free(d->copies);
    free(d->lanes);
    free(d->blocks);
    if (!d->shares_sites) free(d->sites);
    free(d->threads);
    free(d->modules);
    free(d->clock);
    if (d->data) unload_input(d->data, d->size + d->moved, d->mapped);
}

static void session_end(session *s) {
    size_t i;
    for (i = 0; i < s->dump_count; i++)
        if (s->dumps[i].foreign && (i + 1 == s->dump_count || s->dumps[i + 1].foreign != s->dumps[i].foreign))
            foreign_free(s->dumps[i].foreign);
    for (i = 0; i < s->dump_count; i++) dump_free(&s->dumps[i]);
    for (i = 0; i < s->process_count; i++) {
        free(s->processes[i].tracks);
        free(s->processes[i].track_slots);
        free(s->processes[i].groups);
    }
    for (i = 1; i < s->names.count; i++) {
        slice_free(s->names.list[i].raw);
        slice_free(s->names.list[i].json);
    }
    for (i = 0; i < s->rows.count; i++) figures_free(&s->rows.list[i].sum);
    free(s->dumps);
    free(s->processes);
    free(s->process_order);
    free(s->names.list);
    free(s->names.slots);
    free(s->rows.list);
    free(s->rows.slots);
    free(s->asyncs);
    free(s->async_stack);
    free(s->tracks);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->names.lock);
    pthread_mutex_destroy(&s->rows.lock);
}

/* ---- usage and options ------------------------------------------------------------------------------------------ */

static const char usage_text[] =
    "usage: trace2summary [options] INPUT...\n"
    "       trace2summary run [options] -- COMMAND [ARGUMENTS]\n"
    "       trace2summary compare BASE CANDIDATE [options]\n"
    "\n"
    "Converts dumps of spanprof and Trace Event JSON (.json, .json.gz; - is standard input). By default writes\n"
    "INPUT.trace.json and INPUT.summary.json beside the first input and prints a table.\n"
    "\n"
    "  -t, --trace FILE      trace JSON for Perfetto, chrome://tracing, speedscope (- is standard output)\n"
    "  -s, --summary FILE    summary JSON; naming only one of -t and -s writes only that one\n"
    "      --folded FILE     folded stacks of self time in ns, for flame graph tools\n"
    "      --svg FILE        a still picture of the time line: threads, depth, the widest spans named\n"
    "      --csv FILE        the rows of the summary as CSV\n"
    "      --spans FILE      one CSV line a span, for DuckDB, ClickHouse, Spark\n"
    "      --no-table        no table on standard output\n"
    "      --top N           rows in the table (0: all)\n"
    "      --sort KEY        order of the table: self (default), total, calls, p95\n"
    "      --min-duration NS leave shorter spans (10us, 1.5ms, 2s) out of the trace; the summary keeps them\n"
    "      --window A:B      leave out of the trace what lies outside A to B, ns from its origin (s, ms, us may follow)\n"
    "      --args MODE       args of spans in the trace: none, set (default: what they carry), full\n"
    "      --event-timings   list every span's inclusive and self time in the summary\n"
    "      --by-process      keep the rows of each process apart\n"
    "      --cycle N         only what cycle N of a schedule recorded\n"
    "      --jobs N          threads to use (default: one a processor); the outputs are the same\n"
    "  -q, --quiet           no notes and no progress on standard error\n"
    "  -V, --version         print the version\n"
    "  -h, --help            print this text\n"
    "\n"
    "Several inputs become one trace: clocks are aligned, processes kept apart. Dumps of one process share its threads'\n"
    "tracks; self time is by dump: a span is not reduced by what another dump recorded inside it.\n"
    "\n"
    "run records the command and the processes it starts and converts what they leave, however they end; its options are\n"
    "those above (-t and -s: spanprof.trace.json and spanprof.summary.json in the current folder). compare takes -q and:\n"
    "\n"
    COMPARE_OPTIONS
    "\n"
    "exit status: 0 done; 1 a regression (compare); 2 wrong usage; 3 an input was damaged, the readable part was\n"
    "converted; 4 an output could not be written. run exits as the command did.\n";

/* Prints the text, or the error and where the text is, and ends the program. */
PRINTF_LIKE(1, 2) static void usage(const char *error, ...) {
    va_list arguments;
    if (!error) {
        fputs(usage_text, stdout);
        exit(fflush(stdout) == 0 ? EXIT_DONE : EXIT_OUTPUT);
    }
    fputs("trace2summary: ", stderr);
    va_start(arguments, error);
    vfprintf(stderr, error, arguments);
    va_end(arguments);
    fputs("; -h shows the usage\n", stderr);
    exit(EXIT_USAGE);
}

enum option_id { OPT_TRACE, OPT_SUMMARY, OPT_FOLDED, OPT_SVG, OPT_CSV, OPT_SPANS, OPT_NO_TABLE, OPT_TOP, OPT_SORT, OPT_MIN, OPT_WINDOW,
                 OPT_ARGS, OPT_TIMINGS, OPT_BY_PROCESS, OPT_CYCLE, OPT_JOBS, OPT_QUIET, OPT_VERSION, OPT_HELP };

static const struct option_form {
    const char *name;
    char letter, takes_value;
} option_forms[] = {
    [OPT_TRACE] = { "trace", 't', 1 },     [OPT_SUMMARY] = { "summary", 's', 1 },         [OPT_FOLDED] = { "folded", 0, 1 },
    [OPT_SVG] = { "svg", 0, 1 },           [OPT_CSV] = { "csv", 0, 1 },                   [OPT_SPANS] = { "spans", 0, 1 },
    [OPT_NO_TABLE] = { "no-table", 0, 0 }, [OPT_TOP] = { "top", 0, 1 },                   [OPT_SORT] = { "sort", 0, 1 },
    [OPT_MIN] = { "min-duration", 0, 1 },  [OPT_WINDOW] = { "window", 0, 1 },             [OPT_ARGS] = { "args", 0, 1 },
    [OPT_TIMINGS] = { "event-timings", 0, 0 }, [OPT_BY_PROCESS] = { "by-process", 0, 0 }, [OPT_CYCLE] = { "cycle", 0, 1 },
    [OPT_JOBS] = { "jobs", 'j', 1 },       [OPT_QUIET] = { "quiet", 'q', 0 },             [OPT_VERSION] = { "version", 'V', 0 },
    [OPT_HELP] = { "help", 'h', 0 },
};
#define OPTION_COUNT (sizeof option_forms / sizeof *option_forms)

/* Index of a word in a list that ends with NULL, or -1. */
static int word_index(const char *word, const char *const *list) {
    int i;
    for (i = 0; list[i]; i++)
        if (strcmp(word, list[i]) == 0) return i;
    return -1;
}

static void parse_window(options *o, const char *value) {
    const char *p = value;
    o->window_from = 0;
    o->window_to = UINT64_MAX;
    if (*p != ':' && !parse_time(p, &o->window_from, &p)) usage("--window %s: not A:B, times of whole ns", value);
    if (*p++ != ':') usage("--window %s: not A:B, times of whole ns", value);
    if (*p && (!parse_time(p, &o->window_to, &p) || *p)) usage("--window %s: not A:B, times of whole ns", value);
    if (o->window_from > o->window_to) usage("--window %s: ends before it begins", value);
}

static void option_set(options *o, unsigned id, const char *value) {
    static const char *const sorts[] = { "self", "total", "calls", "p95", NULL };
    static const char *const modes[] = { "none", "set", "full", NULL };
    const char *end;
    uint64_t number = 0;
    int word;
    if ((id == OPT_TOP || id == OPT_CYCLE || id == OPT_JOBS) && !parse_u64(value, &number, NULL))
        usage("--%s %s: not a number", option_forms[id].name, value);
    switch (id) {
    case OPT_TRACE: o->trace = value; break;
    case OPT_SUMMARY: o->summary = value; break;
    case OPT_FOLDED: o->folded = value; break;
    case OPT_SVG: o->svg = value; break;
    case OPT_CSV: o->csv = value; break;
    case OPT_SPANS: o->spans = value; break;
    case OPT_NO_TABLE: o->no_table = 1; break;
    case OPT_TOP: o->top = number; break;
    case OPT_SORT:
        if ((word = word_index(value, sorts)) < 0) usage("--sort %s: not one of self, total, calls, p95", value);
        o->sort = (sort_key)word;
        break;
    case OPT_MIN:
        if (!parse_time(value, &o->min_duration, &end) || *end) usage("--min-duration %s: not a time of whole ns", value);
        break;
    case OPT_WINDOW: parse_window(o, value); break;
    case OPT_ARGS:
        if ((word = word_index(value, modes)) < 0) usage("--args %s: not one of none, set, full", value);
        o->args = (args_mode)word;
        break;
    case OPT_TIMINGS: o->event_timings = 1; break;
    case OPT_BY_PROCESS: o->by_process = 1; break;
    case OPT_CYCLE:
        if (number == 0 || number > UINT32_MAX) usage("--cycle %s: cycles count from 1", value);
        o->cycle = number;
        break;
    case OPT_JOBS:
        if (number == 0) usage("--jobs 0: at least one");
        o->jobs = number < JOBS_MAX ? (unsigned)number : JOBS_MAX;
        break;
    case OPT_QUIET: o->quiet = 1; break;
    default: break;
    }
}

/* Reads one argument that begins with '-'; returns how many it took. */
static int option_read(options *o, int count, char **arguments) {
    const char *a = arguments[0], *value = NULL;
    const size_t length = strcspn(a + (a[1] == '-' ? 2 : 0), "=");
    unsigned id;
    int used = 1;
    for (id = 0; id < OPTION_COUNT; id++) {
        const struct option_form *f = &option_forms[id];
        if (a[1] == '-' && strlen(f->name) == length && strncmp(a + 2, f->name, length) == 0) {
            if (a[2 + length] == '=') value = a + 3 + length;
            break;
        }
        if (a[1] != '-' && f->letter && a[1] == f->letter) {
            if (a[2] && !f->takes_value) usage("%s: unknown option", a);
            if (a[2]) value = a + 2;
            break;
        }
    }
    if (id == OPTION_COUNT) usage("%s: unknown option", a);
    if (id == OPT_HELP) usage(NULL);
    if (id == OPT_VERSION) {
        printf("trace2summary %s\n", SPANPROF_VERSION);
        exit(fflush(stdout) == 0 ? EXIT_DONE : EXIT_OUTPUT);
    }
    if (!option_forms[id].takes_value && value) usage("%s: takes no value", a);
    if (option_forms[id].takes_value && !value) {
        if (count < 2) usage("%s: needs a value", a);
        value = arguments[1];
        used = 2;
    }
    option_set(o, id, value);
    return used;
}

/* Processors that this process may run on: a container or a batch system may have left it few of the machine's. */
static long processors(void) {
    long n = 0;
#ifdef SYS_sched_getaffinity
    unsigned char set[1024];
    const long bytes = syscall(SYS_sched_getaffinity, 0, sizeof set, set);
    long i, bit;
    for (i = 0; i < bytes; i++)
        for (bit = 0; bit < 8; bit++) n += set[i] >> bit & 1;
#endif
#ifdef _SC_NPROCESSORS_ONLN
    if (n < 1) n = sysconf(_SC_NPROCESSORS_ONLN);
#endif
    return n < 1 ? 1 : n;
}

static void options_default(options *o) {
    const long n = processors();
    memset(o, 0, sizeof *o);
    o->window_to = UINT64_MAX;
    o->args = ARGS_SET;
    o->jobs = n < (long)JOBS_MAX ? (unsigned)n : JOBS_MAX;
}

/* INPUT without its extension plus another one. */
static char *default_output(const char *input, const char *extension) {
    static const char *const known[] = { ".dump", ".json.gz", ".json", ".gz" };
    const size_t length = strlen(input);
    size_t keep = length, i;
    char *path;
    if (strcmp(input, "-") == 0) return default_output("spanprof", extension);
    for (i = 0; i < sizeof known / sizeof *known && keep == length; i++) {
        const size_t n = strlen(known[i]);
        if (length > n && input[length - n - 1] != '/' && strcmp(input + length - n, known[i]) == 0) keep = length - n;
    }
    path = must_alloc(keep + strlen(extension) + 1, 1);
    memcpy(path, input, keep);
    memcpy(path + keep, extension, strlen(extension));
    return path;
}

static void options_finish(options *o) {
    if (o->input_count == 0) usage("no input");
    if (!o->trace && !o->summary) {
        o->trace = o->own[0] = default_output(o->inputs[0], ".trace.json");
        o->summary = o->own[1] = default_output(o->inputs[0], ".summary.json");
    }
}

/* Nothing may be written over an input, over a dump, or twice to one place. The table is no such output: it gives way. */
static void options_check(const options *o) {
    const char *const outputs[] = { o->trace, o->summary, o->folded, o->csv, o->svg, o->spans };
    size_t i;
    for (i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        const char *const why = outputs[i] ? output_refusal(outputs[i], o->inputs, o->input_count, outputs, i) : NULL;
        if (why) usage("%s is not written: %s", strcmp(outputs[i], "-") == 0 ? "standard output" : outputs[i], why);
    }
}

/* ---- main ------------------------------------------------------------------------------------------------------- */

typedef void (*write_function)(session *s, output *o);

/* Reads the inputs and counts; 0, or an exit code when there is nothing to write. */
static int summarise(session *s) {
    const options *o = s->opt;
    size_t i, j;
    int status = 0;
    for (i = 0; i < o->input_count; i++) {
        const int one = read_input(s, o->inputs[i]);
        if (one == EXIT_USAGE) return EXIT_USAGE;
        if (one > status) status = one;
    }
    if (s->complaint_count > COMPLAINTS_SHOWN) diag(NULL, NO_OFFSET, "%" PRIu64 " damaged places in all", s->complaint_count);
    if (s->dump_count == 0 && status) return status;
    clocks_build(s);
    align_clocks(s);
    for (i = 0; i < s->dump_count; i++)
        for (j = 0; j < s->dumps[i].block_count; j++) s->all_words += s->dumps[i].blocks[j].count;
    count_all(s);
    processes_order(s);
    ids_assign(s);
    return 0;
}

/* Reads the inputs, counts, writes; the exit code. */
static int convert(session *s) {
    const options *o = s->opt;
    const struct { const char *path; write_function write; } outputs[] = {
        { o->trace, write_trace }, { o->summary, write_summary }, { o->folded, write_folded }, { o->csv, write_csv },
        { o->svg, write_svg }, { o->spans, write_spans }, { o->no_table ? NULL : "-", write_table },
    };
    size_t i;
    int to_stdout = 0, status = summarise(s);
    if (status) return status;
    for (i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        output out;
        const bool is_stdout = outputs[i].path && strcmp(outputs[i].path, "-") == 0;
        /* The table gives way to an output that goes where it would. */
        if (!outputs[i].path || (is_stdout && to_stdout)) continue;
        to_stdout |= is_stdout;
        if (output_open(&out, s, outputs[i].path) != 0) continue;
        outputs[i].write(s, &out);
        output_close(&out);
    }
    if (s->output_failed) return EXIT_OUTPUT;
    return s->damaged ? EXIT_DAMAGED : EXIT_DONE;
}

/* The summary of one input as text, for compare. */
static int summary_text(const char *path, bool quiet, textbuf *text) {
    session *s = must_alloc(1, sizeof *s);
    options *opt = must_alloc(1, sizeof *opt);
    output out;
    int status;
    options_default(opt);
    opt->quiet = quiet;
    opt->inputs = must_alloc(1, sizeof *opt->inputs);
    opt->inputs[0] = path;
    opt->input_count = 1;
    session_begin(s, opt);
    status = summarise(s);
    memset(&out, 0, sizeof out);
    out.s = s;
    out.path = path;
    out.fd = OUTPUT_MEMORY;
    if (status == 0) {
        write_summary(s, &out);
        text_put(text, out.text.p, out.text.n);
    }
    text_free(&out.text);
    session_end(s);
    free(s);
    free(opt->inputs);
    free(opt);
    return status;
}

#ifndef _WIN32
/* Converts what a command recorded. */
static int run_convert(void *user, char **paths, int count) {
    options *o = user;
    session s;
    int i, status;
    o->inputs = must_alloc((size_t)count, sizeof *o->inputs);
    for (i = 0; i < count; i++) o->inputs[i] = paths[i];
    o->input_count = (size_t)count;
    session_begin(&s, o);
    status = convert(&s);
    session_end(&s);
    free(o->inputs);
    return status;
}

/* trace2summary run [options] -- COMMAND [ARGUMENTS] */
static int run_main(int argc, char **argv) {
    static options o;
    run_setup setup;
    int i = 0;
    options_default(&o);
    while (i < argc && argv[i][0] == '-' && argv[i][1] && strcmp(argv[i], "--") != 0) i += option_read(&o, argc - i, argv + i);
    if (i < argc && strcmp(argv[i], "--") == 0) i++;
    if (i == argc) usage("run: no command");
    if (!o.trace && !o.summary) {
        o.trace = "spanprof.trace.json";
        o.summary = "spanprof.summary.json";
    }
    options_check(&o);
    memset(&setup, 0, sizeof setup);
    setup.beside = o.trace && strcmp(o.trace, "-") != 0 ? o.trace : NULL;
    setup.convert = run_convert;
    setup.user = &o;
    return run_command(argv + i, &setup);
}
#endif

#ifndef TRACE2SUMMARY_NO_MAIN
int main(int argc, char **argv) {
    options o;
    session s;
    int i, status, only_inputs = 0;
#ifndef _WIN32
    /* A closed pipe is an output that could not be written, not a death by signal. */
    signal(SIGPIPE, SIG_IGN);
    if (argc > 1 && strcmp(argv[1], "run") == 0) {
        signal(SIGPIPE, SIG_DFL);
        return run_main(argc - 2, argv + 2);
    }
#endif
    if (argc > 1 && strcmp(argv[1], "compare") == 0) return compare_main(argc - 2, argv + 2, summary_text);
    options_default(&o);
    o.inputs = must_alloc((size_t)argc + 1, sizeof *o.inputs);
    for (i = 1; i < argc;) {
        if (!only_inputs && strcmp(argv[i], "--") == 0) {
            only_inputs = 1;
            i++;
        } else if (!only_inputs && argv[i][0] == '-' && argv[i][1]) {
            i += option_read(&o, argc - i, argv + i);
        } else {
            o.inputs[o.input_count++] = argv[i++];
        }
    }
    options_finish(&o);
    options_check(&o);
    session_begin(&s, &o);
    status = convert(&s);
    session_end(&s);
    free(o.inputs);
    free(o.own[0]);
    free(o.own[1]);
    return status;
}
#endif
