/* trace2summary.c - turns spanprof dumps and Trace Event JSON into a trace, a summary and a table.
 * SPDX-License-Identifier: MIT. Part of spanprof; the dump format is that of ../spanprof.h, section 9.
 *
 * In:    dumps of spanprof; Trace Event JSON, plain or gzipped (.json, .json.gz); - is standard input.
 * Out:   trace JSON (Perfetto, chrome://tracing, speedscope), summary JSON, a table; on request folded stacks, a flame
 *        graph, CSV. An output is written beside its place and renamed, so it appears whole or not at all.
 * Exit:  0 done; 1 a regression (compare); 2 wrong usage; 3 an input was damaged, the readable part was converted;
 *        4 an output could not be written, or memory ran out.
 *
 * How a dump is read. It is mapped, and a first look at each block collects the names, checks every record and notes the
 * records that speak of a span in an earlier block (its end, its metadata). After that each span's end is known where the
 * span begins, so that every later pass, over a lane in order, needs no more than a stack of open spans. Memory grows
 * with names, threads, depth and spans that cross a block's end, never with the number of events. (Two exceptions keep
 * some 40 bytes each: asynchronous operations and spans on tracks of their own, whose parts may lie in any lane.)
 *
 * Contents: includes and limits; types; memory, text and diagnostics; inputs; dump reader; clock; names and threads; rows
 * and statistics; span matching; passes; sorting and the table; writers; compare; run; usage and options; main.
 */
#define _DEFAULT_SOURCE 1
#define _DARWIN_C_SOURCE 1
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64

#include <errno.h>
#include <fcntl.h>
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
#else
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
#define ISSUES_KEPT 100u
#define COMPLAINTS_SHOWN 8u
#define JOBS_MAX 64u
/* Blocks of one unit of parallel work. */
#define TASK_BLOCKS 8u
/* Anchors of the clock closer than this say more about their own jitter than about the clock. */
#define ANCHOR_GAP_NS UINT64_C(50000000)
#define ANCHORS_MAX 4096u
/* First pid of the tracks that are no threads; Linux has no higher thread id than OS_TID_MAX. */
#define TRACK_PID 1000000u
#define OS_TID_MAX 4194304u

enum { EXIT_DONE = 0, EXIT_REGRESSION = 1, EXIT_USAGE = 2, EXIT_DAMAGED = 3, EXIT_OUTPUT = 4 };

#if defined(__GNUC__) || defined(__clang__)
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
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
#define LARGE_KEPT 4096u

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
#define RANGE_CELLS 16384u
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
    uint32_t row;                  /* 1 + row of its plain spans */
    uint64_t line, address;
    slice head; /* begin of the event of a plain span */
} site_entry;

typedef struct thread_entry {
    uint64_t system_id, ticks;
    uint32_t name;  /* 0: none given */
    uint32_t tid;   /* in the trace */
    uint32_t used;  /* wrote an event */
    slice ids;      /* "pid":P,"tid":T, */
} thread_entry;

typedef struct track_entry {
    uint64_t number;
    uint32_t group, process_name, name;
    uint32_t pid, tid;
} track_entry;

typedef struct module_entry {
    uint64_t bias, low, high;
    uint32_t path;
} module_entry;

/* A block that takes part, in the order of its lane. */
typedef struct block_entry {
    const spanprof_dump_block *head;
    const uint64_t *words;
    uint64_t seq;
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

typedef struct dump_input {
    const char *path;
    unsigned char *data;
    size_t size;
    int mapped;
    spanprof_dump_header head;
    uint64_t words_in_block;
    block_entry *blocks;
    size_t block_count, block_room;
    lane_entry *lanes;
    size_t lane_count;
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
    uint64_t overwritten, undefined_sites, dropped;
    uint32_t is_json;
    void **copies; /* blocks that were copied out of a file still being written */
    size_t copy_count, copy_room;
} dump_input;

typedef struct process_entry {
    uint64_t key;
    uint32_t pid, name, is_json;
    const char *host;
    int32_t rank;
    track_entry *tracks;
    size_t track_count, track_room;
    uint32_t *groups; /* pairs of group and its pid */
    size_t group_count, group_room;
} process_entry;

typedef struct async_event {
    uint64_t ns, id;
    uint32_t name, process, is_end;
} async_event;

typedef struct track_event {
    uint64_t start, duration;
    int64_t queue;
    uint32_t name, process, track, dump;
    const uint64_t *record;
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
    uint64_t events, spans, unfinished, crossing, threads, depth_max, dropped, overwritten;
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

/* The shortest of three forms that reads back the same; null where JSON has no number. */
static void text_double(textbuf *t, double v) {
    char line[40];
    int digits;
    if (!isfinite(v)) {
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

/* The inside of a JSON string: raw UTF-8, what is none of it becomes U+FFFD. */
static void text_json_inside(textbuf *t, slice s) {
    size_t i = 0;
    while (i < s.n) {
        const unsigned char c = (unsigned char)s.p[i];
        unsigned char sequence[4] = { 0, 0, 0, 0 };
        size_t length, left = s.n - i;
        memcpy(sequence, s.p + i, left < 4 ? left : 4);
        length = utf8_length(sequence, left);
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
        unsigned char sequence[4] = { 0, 0, 0, 0 };
        size_t length, left = s.n - i;
        memcpy(sequence, s.p + i, left < 4 ? left : 4);
        length = utf8_length(sequence, left);
        /* U+0080 .. U+009F are controls as well. */
        if (c < 0x20 || c == 0x7f || length == 0 || (c == 0xc2 && sequence[1] < 0xa0)) {
            text_form(t, "\\x%02x", (unsigned)c);
            i++;
        } else {
            text_put(t, s.p + i, length);
            i += length;
        }
    }
}

/* A field of CSV: quoted where it has to be. */
static void text_csv(textbuf *t, slice s) {
    size_t i;
    int quote = 0;
    for (i = 0; i < s.n && !quote; i++) quote = s.p[i] == ',' || s.p[i] == '"' || (unsigned char)s.p[i] < 0x20;
    if (!quote) {
        text_slice(t, s);
        return;
    }
    text_byte(t, '"');
    for (i = 0; i < s.n; i++) {
        if (s.p[i] == '"') text_byte(t, '"');
        text_byte(t, s.p[i]);
    }
    text_byte(t, '"');
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
    pthread_mutex_lock(&s->lock);
    s->damaged = 1;
    if (s->complaint_count++ < COMPLAINTS_SHOWN) diag(path, offset, "%s", line);
    if (s->issue_count < ISSUES_KEPT) {
        issue_entry *i = &s->issues[s->issue_count];
        i->index = UINT64_MAX;
        if (offset == NO_OFFSET) snprintf(i->message, sizeof i->message, "damaged input: %.120s", line);
        else snprintf(i->message, sizeof i->message, "damaged input: byte %" PRIu64 ": %.100s", offset, line);
    }
    s->issue_count++;
    pthread_mutex_unlock(&s->lock);
}

/* Order of issues: by event, those of no event first. */
static int issue_order(const issue_entry *a, const issue_entry *b) {
    const int none_a = a->index == UINT64_MAX, none_b = b->index == UINT64_MAX;
    if (none_a || none_b) return none_b - none_a;
    if (a->dump != b->dump) return a->dump < b->dump ? -1 : 1;
    if (a->lane != b->lane) return a->lane < b->lane ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
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

/* The bytes of an input: mapped where that is possible. 0, or the exit code that says why not. */
static int load_input(session *s, const char *path, unsigned char **data, size_t *size, int *mapped) {
    const int is_stdin = strcmp(path, "-") == 0;
    struct stat st;
    size_t room = 0;
    int fd = is_stdin ? 0 : open(path, O_RDONLY
#ifdef O_CLOEXEC
                                                | O_CLOEXEC
#endif
                            );
    *data = NULL;
    *size = 0;
    *mapped = 0;
    if (fd < 0 || fstat(fd, &st) != 0 || S_ISDIR(st.st_mode)) {
        diag(path, NO_OFFSET, "%s", fd < 0 ? strerror(errno) : "not a file");
        if (fd > 0) close(fd);
        return EXIT_USAGE;
    }
#ifndef _WIN32
    if (S_ISREG(st.st_mode) && st.st_size > 0 && (uintmax_t)st.st_size < SIZE_MAX) {
        /* Private and writable: a dump of the other byte order is turned round in place. */
        void *map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
        if (map != MAP_FAILED) {
            *data = map;
            *size = (size_t)st.st_size;
            *mapped = 1;
            if (!is_stdin) close(fd);
            return 0;
        }
    }
#endif
    for (;;) {
        ssize_t got;
        must_grow(data, &room, *size + 65536, 1);
        got = read(fd, *data + *size, room - *size);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) complain(s, path, *size, "%s", strerror(errno));
        if (got <= 0) break;
        *size += (size_t)got;
    }
    if (!is_stdin) close(fd);
    return 0;
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

/* Bits of the metadata that are numbers. */
#define META_KIND_S 0u
#define META_KIND_U 1u
#define META_KIND_I 1u
#define SPANPROF_I_X(name, kind) | (uint32_t)(META_KIND_##kind << SPANPROF_META_##name)
#define META_NUMBERS (0u SPANPROF_META_LIST(SPANPROF_I_X))
static const uint32_t meta_numbers = META_NUMBERS;
#undef SPANPROF_I_X
#define META_ALL ((1u << SPANPROF_META_COUNT) - 1u)
#define SPANPROF_I_X(name, kind) #name,
static const char *const meta_names[SPANPROF_META_COUNT] = { SPANPROF_META_LIST(SPANPROF_I_X) };
#undef SPANPROF_I_X
#define META_IS_SIGNED(index) ((index) == SPANPROF_META_step || (index) == SPANPROF_META_alloc_delta_bytes)

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

/* Reads and checks the header; 0, or an exit code when nothing of the file can be read. */
static int header_read(session *s, dump_input *d) {
    spanprof_dump_header *h = &d->head;
    uint64_t sum;
    int swap;
    if (d->size < sizeof *h) {
        complain(s, d->path, d->size, "the header is cut off");
        return EXIT_DAMAGED;
    }
    memcpy(h, d->data, sizeof *h);
    sum = spanprof_dump_sum(h, offsetof(spanprof_dump_header, sum));
    swap = h->endian != SPANPROF_DUMP_ENDIAN;
    if (swap) header_swap(h);
    if (h->endian != SPANPROF_DUMP_ENDIAN) {
        complain(s, d->path, offsetof(spanprof_dump_header, endian), "unknown byte order");
        return EXIT_DAMAGED;
    }
    if (h->version != SPANPROF_DUMP_VERSION) {
        complain(s, d->path, offsetof(spanprof_dump_header, version), "dump version %" PRIu32 ", this program reads version %u: %s",
                 h->version, SPANPROF_DUMP_VERSION, h->version > SPANPROF_DUMP_VERSION ? "a newer trace2summary is needed" : "not a dump");
        return EXIT_DAMAGED;
    }
    if (sum != h->sum) complain(s, d->path, offsetof(spanprof_dump_header, sum), "the header's checksum is wrong");
    if (h->header_bytes < sizeof *h || h->header_bytes % 8 || h->block_header_bytes < sizeof(spanprof_dump_block) ||
        h->block_header_bytes % 8 || h->block_bytes < BLOCK_BYTES_MIN || h->block_bytes > BLOCK_BYTES_MAX ||
        h->block_bytes % 8 || h->block_header_bytes >= h->block_bytes) {
        complain(s, d->path, offsetof(spanprof_dump_header, header_bytes), "impossible sizes in the header");
        return EXIT_DAMAGED;
    }
    if (h->first.ticks > TIME_MAX || h->first.mono_ns > TIME_MAX) {
        complain(s, d->path, offsetof(spanprof_dump_header, first), "impossible time in the header");
        h->first.ticks = h->first.mono_ns = 0;
    }
    h->producer[sizeof h->producer - 1] = h->host[sizeof h->host - 1] = h->process_name[sizeof h->process_name - 1] = '\0';
    d->words_in_block = (h->block_bytes - h->block_header_bytes) / 8;
    return swap ? -1 : 0;
}

static uint64_t dump_offset(const dump_input *d, const void *p) {
    const unsigned char *at = p;
    return at >= d->data && at < d->data + d->size ? (uint64_t)(at - d->data) : NO_OFFSET;
}

/* Takes up the block at that byte, of which `size` bytes are there. */
static void block_take(session *s, dump_input *d, size_t offset, size_t size, int swap) {
    unsigned char *at = d->data + offset;
    const spanprof_dump_block *h;
    spanprof_dump_block copy;
    block_entry b;
    const size_t words = size > d->head.block_header_bytes ? (size - d->head.block_header_bytes) / 8 : 0;
    memcpy(&copy, at, sizeof copy);
    if (copy.magic == 0 && copy.seq == 0 && copy.sum == 0 && copy.state == 0) return; /* given out, not yet used */
    if (d->head.state == SPANPROF_DUMP_RECORDING && copy.state == SPANPROF_BLOCK_OPEN && !swap) {
        /* The program may still be running: every pass has to see the same window. */
        unsigned char *still = must_alloc(size, 1);
        memcpy(still, at, size);
        must_grow(&d->copies, &d->copy_room, d->copy_count + 1, sizeof *d->copies);
        d->copies[d->copy_count++] = still;
        at = still;
    }
    h = (const spanprof_dump_block *)(const void *)at;
    memset(&b, 0, sizeof b);
    b.words = (const uint64_t *)(const void *)(at + d->head.block_header_bytes);
    if (spanprof_dump_sum(h, offsetof(spanprof_dump_block, sum)) != (swap ? swapped64(h->sum) : h->sum)) {
        /* A copy that was being written over an older one when the process ended; its window has all of it. */
        if (!(d->head.flags & SPANPROF_DUMP_RING && d->head.state == SPANPROF_DUMP_RECORDING))
            complain(s, d->path, offset, "the block's checksum is wrong, the block is left out");
        return;
    }
    if (swap) block_swap((spanprof_dump_block *)(void *)at, (uint64_t *)(void *)(at + d->head.block_header_bytes), words);
    if (h->magic != SPANPROF_BLOCK_MAGIC || h->lane >= LANES_MAX || h->state < SPANPROF_BLOCK_OPEN || h->state > SPANPROF_BLOCK_FLUSHED ||
        h->base_ticks > TIME_MAX || h->base_ns > TIME_MAX || h->seq > (UINT64_C(1) << SPANPROF_POS_WORD_BITS) / d->words_in_block) {
        complain(s, d->path, offset, "impossible values in the block's header, the block is left out");
        return;
    }
    b.head = h;
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
    return (x->head > y->head) - (x->head < y->head);
}

/* Finds the blocks and brings them in order; one of each sequence number stays. */
static void blocks_find(session *s, dump_input *d, int swap) {
    const uint64_t header = d->head.header_bytes, size = d->head.block_bytes;
    uint64_t at;
    size_t i, kept = 0;
    for (at = header; at < d->size && d->size - at >= size; at += size) block_take(s, d, (size_t)at, (size_t)size, swap);
    if (at < d->size && d->size - at >= d->head.block_header_bytes) {
        /* The last block is cut off. A copy that its window replaces is dropped below without a word. */
        block_take(s, d, (size_t)at, (size_t)(d->size - at), swap);
    }
    if (d->block_count) qsort(d->blocks, d->block_count, sizeof *d->blocks, block_order);
    for (i = 0; i < d->block_count; i++) {
        block_entry *b = &d->blocks[i];
        block_entry *before = kept ? &d->blocks[kept - 1] : NULL;
        if (before && before->lane == b->lane && before->seq == b->seq) {
            if (before->head->state == b->head->state) complain(s, d->path, dump_offset(d, b->head), "lane %" PRIu32 " has block %" PRIu64 " twice", b->lane, b->seq);
            continue;
        }
        if (b->head->state == SPANPROF_BLOCK_FLUSHED && d->head.state != SPANPROF_DUMP_RECORDING)
            complain(s, d->path, dump_offset(d, b->head), "lane %" PRIu32 ": the copy of block %" PRIu64 " is missing", b->lane, b->seq);
        if (b->head->state == SPANPROF_BLOCK_DONE) {
            if (b->head->words > b->count) complain(s, d->path, dump_offset(d, b->words + b->count), "the block is cut off");
            else b->count = b->head->words;
        }
        d->blocks[kept++] = *b;
    }
    d->block_count = kept;
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
        const uint64_t offset = dump_offset(d, b->head);
        if (l->count == 0) {
            l->first = i;
            if (b->head->events && ring) d->overwritten += b->head->events < TIME_MAX ? b->head->events : 0;
            else if (b->head->events) complain(s, d->path, offset, "lane %" PRIu32 ": the blocks before block %" PRIu64 " are missing", b->lane, b->seq);
        } else if (b->seq != d->blocks[i - 1].seq + 1) {
            b->is_cut = 1;
            if (!ring || b->lane == 0)
                complain(s, d->path, offset, "lane %" PRIu32 ": blocks %" PRIu64 " to %" PRIu64 " are missing", b->lane, d->blocks[i - 1].seq + 1, b->seq - 1);
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
    /* A process that was killed may have been about to write its first block of a lane. */
    if (missing > (d->head.state == SPANPROF_DUMP_RECORDING ? 1u : 0u))
        complain(s, d->path, d->size, "%zu of %" PRIu64 " lanes have no block", missing, d->head.lanes);
}

/* ---- dump reader: definitions and references -------------------------------------------------------------------- */

/* Numbers of sites and threads are given in sequence, each with a definition, so a file of that size has no higher ones. */
static bool number_is_sane(const dump_input *d, uint64_t number) { return number <= d->size / 16 + SPANPROF_SHORT_SITE_MAX; }

static void site_define(session *s, dump_input *d, const uint64_t *r, size_t words) {
    const uint64_t number = SPANPROF_RECORD_ARGUMENT(r[0]);
    slice name = { NULL, 0 }, file = { NULL, 0 }, function = { NULL, 0 };
    size_t at = 24;
    site_entry *site;
    if (!number_is_sane(d, number)) {
        complain(s, d->path, dump_offset(d, r), "impossible number of a site: %" PRIu64, number);
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

static thread_entry *thread_get(session *s, dump_input *d, uint64_t number) {
    if (!number_is_sane(d, number)) {
        complain(s, d->path, NO_OFFSET, "impossible number of a thread: %" PRIu64, number);
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

static void thread_define(session *s, dump_input *d, const uint64_t *r, size_t words) {
    thread_entry *t = thread_get(s, d, SPANPROF_RECORD_ARGUMENT(r[0]));
    slice name;
    size_t at = 24;
    t->system_id = r[1];
    t->ticks = r[2];
    if (record_text(r, words, &at, &name) && name.n) t->name = name_number(&s->names, name);
}

/* The track of that number in a process, made when it is new. */
static size_t track_get(process_entry *p, uint64_t number) {
    size_t i;
    for (i = p->track_count; i > 0; i--)
        if (p->tracks[i - 1].number == number) return i - 1;
    must_grow(&p->tracks, &p->track_room, p->track_count + 1, sizeof *p->tracks);
    memset(&p->tracks[p->track_count], 0, sizeof *p->tracks);
    p->tracks[p->track_count].number = number;
    return p->track_count++;
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
    lane_entry *l = &d->lanes[b->lane];
    if (at && r[at]) ref_note(d, b, r, r[at]);
    if (time_word && r[time_word] > d->end_ticks) d->end_ticks = r[time_word];
    switch (type) {
    case SPANPROF_RECORD_SITE: site_define(s, d, r, size); break;
    case SPANPROF_RECORD_THREAD_NAME: thread_define(s, d, r, size); break;
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
        thread_get(s, d, SPANPROF_RECORD_ARGUMENT(*r));
        must_grow(&l->cuts, &l->cut_room, l->cut_count + 1, sizeof *l->cuts);
        l->cuts[l->cut_count++] = (lane_cut){ b->seq * d->words_in_block + (uint64_t)(r - b->words), r[1] };
        break;
    default: break;
    }
}

/* Checks a block's records, keeps the valid beginning and collects what they say to the rest of the dump. */
static void block_index(session *s, dump_input *d, block_entry *b) {
    const int ends_at_zero = b->head->state != SPANPROF_BLOCK_DONE;
    const uint64_t *words = b->words;
    uint64_t cycle = b->head->cycle;
    uint32_t i = 0;
    thread_get(s, d, b->head->thread);
    while (i < b->count) {
        const char *wrong;
        while (b->count - i >= 8 && words[i] & words[i + 1] & words[i + 2] & words[i + 3] & words[i + 4] & words[i + 5] & words[i + 6] & words[i + 7] & 1) i += 8;
        while (i < b->count && words[i] & 1) i++;
        if (i == b->count || (words[i] == 0 && ends_at_zero)) break;
        wrong = record_check(words + i, b->count - i);
        if (wrong) {
            complain(s, d->path, dump_offset(d, words + i), "%s (type %u), the rest of the block is left out", wrong, (unsigned)SPANPROF_RECORD_TYPE(words[i]));
            break;
        }
        record_index(s, d, b, words + i, &cycle);
        i += (uint32_t)SPANPROF_RECORD_WORDS(words[i]);
    }
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

/* Names of places that have none, from their address. */
static void sites_name(session *s, dump_input *d) {
    size_t i, m;
    for (i = 0; i < d->site_count; i++) {
        site_entry *site = &d->sites[i];
        char line[64];
        textbuf t = { NULL, 0, 0, false };
        if (!site->address || name_raw(&s->names, site->name).n) continue;
        for (m = 0; m < d->module_count && !(site->address >= d->modules[m].low && site->address < d->modules[m].high); m++) {}
        if (m < d->module_count) text_slice(&t, name_raw(&s->names, d->modules[m].path));
        snprintf(line, sizeof line, "%s0x%" PRIx64, t.n ? "+" : "", site->address - (m < d->module_count ? d->modules[m].bias : 0));
        text_str(&t, line);
        site->name = name_number(&s->names, (slice){ t.p, t.n });
        text_free(&t);
    }
}

/* Reads all but the events of a dump whose header is read. */
static void dump_index(session *s, dump_input *d, int swap) {
    size_t i;
    blocks_find(s, d, swap);
    lanes_build(s, d);
    for (i = 0; i < d->block_count; i++) block_index(s, d, &d->blocks[i]);
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
    const clock_part line = clock_stretch(all[first].ticks, all[first].mono_ns, all[last].ticks - all[first].ticks, all[last].mono_ns - all[first].mono_ns);
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

/* Builds the conversion from ticks to nanoseconds. */
static void clock_build(session *s, dump_input *d) {
    const spanprof_dump_header *h = &d->head;
    spanprof_dump_anchor *all = must_alloc(d->block_count * 2 + 8, sizeof *all);
    size_t count = 0, i, n = 0, last;
    clock_part *part;
    all[count++] = h->first;
    for (i = 0; i < d->block_count; i++)
        if (d->blocks[i].head->base_ticks > h->first.ticks && d->blocks[i].head->base_ns > h->first.mono_ns)
            all[count++] = (spanprof_dump_anchor){ d->blocks[i].head->base_ticks, d->blocks[i].head->base_ns, 0 };
    if (h->last_valid >= 1 && h->last_valid <= 2) {
        const spanprof_dump_anchor *a = &h->last[h->last_valid - 1];
        if (a->ticks > h->first.ticks && a->mono_ns > h->first.mono_ns && a->ticks <= TIME_MAX && a->mono_ns <= TIME_MAX) all[count++] = *a;
    }
    qsort(all, count, sizeof *all, anchor_order);
    for (last = count - 1; last > 0 && all[last].mono_ns <= all[0].mono_ns; last--) {}
    d->clock = must_alloc(ANCHORS_MAX + 8, sizeof *d->clock);
    if (h->clock == SPANPROF_CLOCK_MONOTONIC) {
        d->clock[d->clock_count++] = clock_stretch(0, 0, 1, 1);
    } else if (last > 0 && all[last].mono_ns - all[0].mono_ns >= ANCHOR_GAP_NS) {
        const spanprof_dump_anchor *kept = all + count;
        n = anchors_choose(all, count, 0, last);
        for (i = 0; i + 1 < n && d->clock_count < ANCHORS_MAX + 4; i++) {
            size_t next = i + 1;
            while (next + 1 < n && (kept[next].ticks <= kept[i].ticks || kept[next].mono_ns <= kept[i].mono_ns)) next++;
            if (kept[next].ticks <= kept[i].ticks || kept[next].mono_ns <= kept[i].mono_ns) break;
            d->clock[d->clock_count++] = clock_stretch(kept[i].ticks, kept[i].mono_ns, kept[next].ticks - kept[i].ticks, kept[next].mono_ns - kept[i].mono_ns);
            i = next - 1;
        }
    } else if (h->ticks_per_second) {
        d->clock[d->clock_count++] = clock_stretch(h->first.ticks, h->first.mono_ns, h->ticks_per_second, UINT64_C(1000000000));
    } else if (last > 0) {
        d->clock[d->clock_count++] = clock_stretch(all[0].ticks, all[0].mono_ns, all[last].ticks - all[0].ticks, all[last].mono_ns - all[0].mono_ns);
    }
    if (d->clock_count == 0) {
        if (d->block_count) complain(s, d->path, offsetof(spanprof_dump_header, first), "the dump does not tell the rate of its clock; its ticks are taken as nanoseconds");
        d->clock[d->clock_count++] = clock_stretch(0, 0, 1, 1);
    }
    /* The last stretch goes on as long as its products fit. */
    part = &d->clock[d->clock_count - 1];
    part->length = part->factor >> part->shift >= 1 ? TIME_MAX / ((part->factor >> part->shift) + 1) : TIME_MAX;
    part->quick = part->shift == QUICK_SHIFT ? part->length : 0;
    free(all);
}

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
    size_t next_ref, next_cut;
    uint64_t span_index;
    size_t node; /* set by the visitor for the span that begins */
    uint32_t thread, cycle, has_step, lane;
    int64_t step;
    uint32_t *heads; /* per word of the block: 1 + first of links */
    struct walk_link { const uint64_t *record; uint32_t next, foreign; } *links;
    size_t link_count, link_room;
    const uint64_t **chain;
    size_t chain_room;
    uint64_t ticks;   /* the previous start */
    uint64_t counted; /* events when walk_thread_used was last called */
    clock_part part; /* of the clock, where the walk is */
};

/* What one thread of ours counts. */
typedef struct worker {
    session *s;
    figures **rows; /* by row number */
    size_t row_room;
    figures ***sites; /* by dump and site: the figures of plain spans */
    figures none;     /* of unfinished spans, which belong to no row */
    figures roots;    /* holds the outermost spans: its self falls by their time */
    wanted_range *ranges;
    size_t range_count;
    uint64_t events, spans, unfinished, crossing, depth_max, first_ns, last_ns;
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
    return d->site_count > SPANPROF_SHORT_SITE_MAX ? d->site_count : SPANPROF_SHORT_SITE_MAX + 1;
}

/* The figures of a site's plain spans; asked for once a site and worker. */
NOINLINE static figures *site_figures(walk *w, uint32_t site) {
    const size_t dump = (size_t)(w->d - w->s->dumps);
    const row_key key = plain_key(w->s, w->d, site_name(w->s, w->d, site));
    figures *f = worker_row(w->worker, row_number(&w->s->rows, &key));
    if (site < sites_room(w->d)) w->worker->sites[dump][site] = f;
    if ((site >= w->d->site_count || !w->d->sites[site].name) && !w->d->undefined_sites++)
        complain(w->s, w->d->path, NO_OFFSET, "a span's site %" PRIu32 " is not defined", site);
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
    while (i > 0 && (w->open[i].crossing || w->open[i].end <= start)) i--;
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
        return f ? f : site_figures(w, v->site);
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

/* Makes the span ready whose end its own word does not give, or which other records speak of. */
static void span_resolve(walk *w, uint32_t index, span_view *v) {
    const open_span *top;
    v->ref_count = 0;
    v->refs = NULL;
    if (w->heads && w->link_count && w->heads[index]) walk_chain(w, index, v);
    walk_pop_to(w, v->start);
    top = &w->open[w->open_count - 1];
    if (v->unfinished) {
        while (w->next_cut < w->l->cut_count && w->l->cuts[w->next_cut].word <= v->pos) w->next_cut++;
        v->end = w->next_cut < w->l->cut_count ? w->l->cuts[w->next_cut].ticks : w->d->end_ticks;
        if (v->end > top->end) v->end = top->end;
        if (v->end < v->start) v->end = v->start;
    }
    if (v->end < v->start) {
        if (w->worker && !w->worker->range_count && !w->visit)
            report_issue(w->s, (uint32_t)(w->d - w->s->dumps), w->lane, v->index, "the span ends before it starts");
        v->end = v->start;
    }
    v->unfinished |= v->abandoned;
    v->start_ns = walk_start_ns(w, v->start);
    v->end_ns = walk_end_ns(w, v->end);
    v->crossing = v->elsewhere;
    if (!v->crossing && v->end > top->shown_end) v->crossing = walk_crosses(w, v->start, v->end);
    v->depth = (uint32_t)w->open_count - 1;
    v->parent = top->index;
}

/* A span in full generality; word `index` of the block is its first. */
NOINLINE static void walk_span(walk *w, const block_entry *b, uint32_t index, uint32_t site, slice name, uint64_t duration, const walk_mode mode) {
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
    span_resolve(w, index, &v);
    if (mode == WALK_VISIT) {
        if (w->visit->span) w->visit->span(w, &v);
    } else {
        f = span_figures(w, &v);
        if (v.unfinished) f = &k->none;
        else if (mode == WALK_RANGES) ranges_add(k, f, v.end_ns - v.start_ns);
        else figures_add(f, v.end_ns - v.start_ns);
        k->unfinished += v.unfinished;
        k->crossing += v.crossing;
        if (v.start_ns < k->first_ns) k->first_ns = v.start_ns;
        if (v.end_ns > k->last_ns) k->last_ns = v.end_ns;
        if (v.crossing && mode == WALK_STATS)
            report_issue(w->s, (uint32_t)(w->d - w->s->dumps), w->lane, v.index, v.elsewhere ? "the span ended on another thread" : "the span ends after the span that holds it");
    }
    if (v.elsewhere) return; /* belongs to neither thread's nesting */
    top = &w->open[w->open_count - 1];
    clip = (v.end < top->end ? v.end_ns : top->end_ns) - v.start_ns;
    top->covered += clip;
    if (mode != WALK_VISIT) top->figures->self -= clip;
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
    const bool plain = mode != WALK_VISIT && !w->s->opt->cycle;
    const slice none = { NULL, 0 };
    worker *k = w->worker;
    figures *const *sites = k->sites[w->d - w->s->dumps];
    clock_part part = w->part;
    open_span *top = &w->open[w->open_count - 1], *deepest = w->open + k->depth_max, *last = w->open + w->open_room - 2;
    uint64_t ticks = w->ticks, index = w->span_index, last_ns = k->last_ns;
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
        f = sites[site];
        if (!LIKELY(end <= top->shown_end && top < last && f && ticks - part.ticks < part.quick && end - part.ticks < part.quick)) goto general;
        start_ns = part.ns + quick_ns(ticks - part.ticks, part.factor);
        end_ns = part.ns + quick_ns(end - part.ticks, part.factor);
        if (mode == WALK_STATS) {
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
        k->depth_max = (uint64_t)(deepest - w->open);
        if (word & 1) {
            walk_span(w, b, i++, site, none, duration, mode);
        } else {
            walk_record(w, b, i, mode);
            i += (uint32_t)SPANPROF_RECORD_WORDS(word);
        }
        part = w->part;
        top = &w->open[w->open_count - 1];
        deepest = w->open + k->depth_max;
        last = w->open + w->open_room - 2;
        ticks = w->ticks;
        index = w->span_index;
    }
    w->open_count = (size_t)(top - w->open) + 1;
    w->ticks = ticks;
    w->span_index = index;
    k->depth_max = (uint64_t)(deepest - w->open);
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
        w->links[w->link_count++] = (struct walk_link){ l->refs[first_far].record, (uint32_t)(l->refs[first_far].target - begin), l->refs[first_far].lane != b->lane };
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
        for (j = 0; j < s->dump_count; j++) workers[i].sites[j] = must_alloc(sites_room(&s->dumps[j]), sizeof **workers[i].sites);
    }
    return workers;
}

static void workers_free(session *s, worker *workers) {
    size_t i, j;
    for (i = 0; i < s->opt->jobs; i++) {
        for (j = 0; j < s->dump_count; j++) free(workers[i].sites[j]);
        free(workers[i].sites);
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
        a->name = site_name(s, d, a->name);
        a->process = d->process;
    }
    for (i = 0; i < s->track_count; i++) {
        track_event *t = &s->tracks[i];
        t->start += s->dumps[t->dump].shift_ns;
        t->name = site_name(s, &s->dumps[t->dump], t->name);
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
        s->crossing += k->crossing;
        s->thread_time += 0 - k->roots.self;
        if (k->depth_max > s->depth_max) s->depth_max = k->depth_max;
        if (k->first_ns < s->first_ns) s->first_ns = k->first_ns;
        if (k->last_ns > s->last_ns) s->last_ns = k->last_ns;
        for (j = 0; j < k->row_room; j++)
            if (k->rows[j]) figures_merge(&s->rows.list[j].sum, k->rows[j]);
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
    workers_merge(s, p.workers);
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
        if (p->groups[i * 2] == group) return p->groups[i * 2 + 1];
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

/* Gives every process, thread and track its ids. */
static void ids_assign(session *s) {
    id_set set = { NULL, 0, 0 };
    uint32_t next_pid = OS_TID_MAX + 1;
    size_t i, j;
    for (i = 0; i < s->process_count; i++) s->processes[i].pid = id_give(&set, 0, s->processes[i].pid, &next_pid);
    for (i = 0; i < s->process_count; i++) {
        process_entry *p = &s->processes[i];
        uint32_t next_tid = OS_TID_MAX + 1;
        for (j = 0; j < s->dump_count; j++) {
            dump_input *d = &s->dumps[j];
            size_t k;
            if (d->process != i) continue;
            for (k = 0; k < d->thread_count; k++) {
                thread_entry *t = &d->threads[k];
                if (!t->used) continue;
                t->tid = id_give(&set, i + 1, t->system_id, &next_tid);
                t->ids = ids_text(p->pid, t->tid);
            }
        }
        for (j = 0; j < p->track_count; j++) {
            track_entry *t = &p->tracks[j];
            uint32_t next_track = 1;
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

static void output_fail(output *o, const char *what) {
    if (!o->failed) diag(o->path, NO_OFFSET, "%s: %s", what, strerror(errno));
    o->failed = 1;
    o->s->output_failed = 1;
}

static void write_all(output *o, const char *p, size_t n) {
    while (n && !o->failed) {
        const ssize_t put = write(o->fd, p, n < (1u << 30) ? n : (1u << 30));
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
    if (fd < 0 || read(fd, &bits, sizeof bits) != (ssize_t)sizeof bits) bits = (uint64_t)time(NULL) * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)getpid() << 32;
    if (fd >= 0) close(fd);
    return bits;
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
        return 0;
    }
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        o->fd = open(path, O_WRONLY);
    } else {
        o->temporary = must_alloc(room, 1);
        o->fd = -1;
        for (attempt = 0; attempt < 16 && o->fd < 0; attempt++) {
            snprintf(o->temporary, room, "%s.%08" PRIx32 ".tmp", path, (uint32_t)(random_bits() >> 16));
            o->fd = open(o->temporary, O_WRONLY | O_CREAT | O_EXCL, 0666);
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
    write_all(o, o->text.p, o->text.n);
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
        if (!o->failed && rename(o->temporary, o->path) != 0) output_fail(o, "can't be put in its place");
        if (o->failed) unlink(o->temporary);
        for (i = 0; i < sizeof unfinished_files / sizeof *unfinished_files; i++)
            if (unfinished_files[i] == o->temporary) unfinished_files[i] = NULL;
        free(o->temporary);
    }
    text_free(&o->text);
}

/* ---- trace JSON ------------------------------------------------------------------------------------------------- */

/* What a walk that writes needs. */
typedef struct span_writer {
    textbuf *text;
    uint64_t zero_ns;    /* start of the last event */
    size_t zero_at;      /* where it begins if it lasts no time, else SIZE_MAX */
    bool any;
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
    } else if (META_IS_SIGNED(i)) {
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

/* Is there a later attribute of the same key? The last one counts. */
static bool attr_is_last(const walk *w, const span_view *v, size_t at) {
    const uint32_t name = site_name(w->s, w->d, SPANPROF_RECORD_ARGUMENT(*v->refs[at]));
    size_t i;
    /* Of very many attributes on one span, the repeats stay. */
    for (i = at + 1; i < v->ref_count && i < at + 256; i++)
        if (SPANPROF_RECORD_TYPE(*v->refs[i]) == SPANPROF_RECORD_ATTR && site_name(w->s, w->d, SPANPROF_RECORD_ARGUMENT(*v->refs[i])) == name) return false;
    return true;
}

static void args_attributes(walk *w, textbuf *t, bool *any, const span_view *v) {
    size_t i;
    for (i = 0; i < v->ref_count; i++) {
        if (SPANPROF_RECORD_TYPE(*v->refs[i]) != SPANPROF_RECORD_ATTR || !attr_is_last(w, v, i)) continue;
        args_key(t, any, name_json(&w->s->names, site_name(w->s, w->d, SPANPROF_RECORD_ARGUMENT(*v->refs[i]))));
        attr_value(t, v->refs[i]);
    }
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

/* The args of a span, with the brace that ends them; nothing where there is nothing to say. */
static void span_args(walk *w, textbuf *t, const span_view *v) {
    const args_mode mode = w->s->opt->args;
    bool any = false;
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
    if (mode == ARGS_FULL) args_full(w, t, &any, v, &m);
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
    if (v->unfinished) {
        args_plain(t, &any, "unfinished");
        text_str(t, "true");
    }
    if (v->crossing) {
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
        text_form(t, ",\n{\"ph\":\"%s\",\"cat\":\"crossing\",\"id2\":{\"local\":\"0x%" PRIx64 "\"},\"name\":", end ? "e" : "b", w->l->first_index + v->index + 1);
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
    if (v->ref_count || w->has_step || w->cycle || v->unfinished || w->s->opt->args == ARGS_FULL) span_args(w, t, v);
    text_byte(t, '}');
    x->any = true;
    x->zero_ns = v->start_ns;
    x->zero_at = v->end_ns == v->start_ns ? begin : SIZE_MAX;
    if (tie && x->zero_at != SIZE_MAX) zero_to_instant(t, begin);
    if (v->ref_count && w->s->opt->min_duration == 0 && w->s->opt->window_to == UINT64_MAX) span_flows(w, t, v, ts);
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
        if (!isfinite(value)) return;
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
    span_writer x = { text, 0, SIZE_MAX, false };
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

static slice thread_label(session *s, const process_entry *p, const thread_entry *t, char *line, size_t room) {
    if (t->name) return name_json(&s->names, t->name);
    if (t->system_id == p->pid && t->tid == p->pid) return SLICE("\"main\"");
    snprintf(line, room, "\"thread %" PRIu64 "\"", t->system_id ? t->system_id : t->tid);
    return slice_of(line);
}

/* Names and order of processes, threads and tracks. */
static void write_trace_names(session *s, output *o) {
    textbuf *t = &o->text;
    char line[64];
    const size_t first = t->n;
    size_t i, j, k, order = 0;
    for (i = 0; i < s->process_count; i++) {
        process_entry *p = &s->processes[i];
        uint64_t place = 0;
        write_metadata(t, "process_name", p->pid, 0, name_json(&s->names, p->name), "name");
        if (i == 0 && !t->failed) t->p[first] = ' '; /* each event brings the comma before it, the first needs none */
        write_metadata_number(t, "process_sort_index", p->pid, 0, order++);
        if (p->rank >= 0) {
            snprintf(line, sizeof line, "\"rank %" PRId32 "\"", p->rank);
            write_metadata(t, "process_labels", p->pid, 0, slice_of(line), "labels");
        }
        for (j = 0; j < s->dump_count; j++) {
            dump_input *d = &s->dumps[j];
            for (k = 0; d->process == i && k < d->thread_count; k++) {
                const thread_entry *thread = &d->threads[k];
                if (!thread->used) continue;
                write_metadata(t, "thread_name", p->pid, thread->tid, thread_label(s, p, thread, line, sizeof line), "name");
                write_metadata_number(t, "thread_sort_index", p->pid, thread->tid, place++);
                output_room(o);
            }
        }
    }
    for (i = 0; i < s->process_count; i++) {
        process_entry *p = &s->processes[i];
        for (j = 0; j < p->group_count; j++) {
            slice name = { NULL, 0 };
            for (k = 0; k < p->track_count && !name.p; k++)
                if (p->tracks[k].group == p->groups[j * 2] && p->tracks[k].process_name) name = name_json(&s->names, p->tracks[k].process_name);
            snprintf(line, sizeof line, "\"device %" PRIu32 "\"", p->groups[j * 2]);
            write_metadata(t, "process_name", p->groups[j * 2 + 1], 0, name.p ? name : slice_of(line), "name");
            write_metadata_number(t, "process_sort_index", p->groups[j * 2 + 1], 0, 1000 + order++);
        }
        for (j = 0; j < p->track_count; j++) {
            const track_entry *track = &p->tracks[j];
            snprintf(line, sizeof line, "\"track %" PRIu64 "\"", track->number);
            write_metadata(t, "thread_name", track->pid, track->tid, track->name ? name_json(&s->names, track->name) : slice_of(line), "name");
            write_metadata_number(t, "thread_sort_index", track->pid, track->tid, j);
        }
    }
}

/* The spans of tracks, in order; one that overlaps another partly becomes asynchronous. */
static void write_tracks(session *s, output *o) {
    textbuf *t = &o->text;
    size_t i;
    uint64_t last_end = 0;
    for (i = 0; i < s->track_count; i++) {
        const track_event *e = &s->tracks[i];
        const process_entry *p = &s->processes[e->process];
        const track_entry *track = &p->tracks[e->track];
        const slice name = name_json(&s->names, e->name);
        const uint64_t ts = e->start - s->first_ns, end = e->start + e->duration;
        char line[64];
        slice ids;
        bool overlaps;
        if (!i || e[-1].process != e->process || e[-1].track != e->track) last_end = 0;
        if (is_thinned(s, e->start, end)) continue;
        snprintf(line, sizeof line, "\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 ",\"ts\":", track->pid, track->tid);
        ids = slice_of(line);
        overlaps = e->start < last_end && end > last_end;
        if (end > last_end && !overlaps) last_end = end;
        text_form(t, ",\n{\"ph\":\"%s\",\"name\":", overlaps ? "b" : "X");
        text_slice(t, name);
        text_byte(t, ',');
        text_slice(t, ids);
        text_us(t, ts);
        if (!overlaps) {
            text_str(t, ",\"dur\":");
            text_us(t, e->duration);
        } else {
            text_form(t, ",\"cat\":\"crossing\",\"id2\":{\"local\":\"0x%zx\"}", i + 1);
        }
        if (s->opt->args != ARGS_NONE && e->queue >= 0) text_form(t, ",\"args\":{\"queue_ns\":%" PRId64 "}", e->queue);
        text_byte(t, '}');
        if (overlaps) {
            text_form(t, ",\n{\"ph\":\"e\",\"cat\":\"crossing\",\"id2\":{\"local\":\"0x%zx\"},\"name\":", i + 1);
            text_slice(t, name);
            text_byte(t, ',');
            text_slice(t, ids);
            text_us(t, end - s->first_ns);
            text_byte(t, '}');
        } else if (e->record[1] && s->opt->min_duration == 0 && s->opt->window_to == UINT64_MAX) {
            write_flow(t, "f", "launch", launch_id(e->record), ids, ts);
        }
        output_room(o);
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
            if (t.failed) out_of_memory();
            site->head = slice_copy((slice){ t.p, t.n });
            text_free(&t);
        }
}

static void write_trace(session *s, output *o) {
    static const visitor visit = { trace_span, NULL, trace_record };
    sites_prepare(s);
    text_str(&o->text, "{\"displayTimeUnit\":\"ns\",");
    write_other_data(s, &o->text);
    text_str(&o->text, ",\"traceEvents\":[");
    write_trace_names(s, o);
    write_lanes(s, o, &visit);
    write_tracks(s, o);
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
        text_plain(t, name_raw(&s->names, s->processes[r->key.process - 1].name));
        text_form(t, "/%" PRIu32, s->processes[r->key.process - 1].pid);
    }
}

/* Cuts a label to `width` characters, with dots where something is missing. */
static slice label_cut(slice s, size_t width) {
    size_t i, n = 0;
    for (i = 0; i < s.n; i++) {
        n += ((unsigned char)s.p[i] & 0xc0) != 0x80;
        if (n > width) break;
    }
    return (slice){ s.p, i };
}

static void table_totals(session *s, textbuf *t, size_t shown, size_t rows) {
    char line[32];
    time_text(line, sizeof line, s->last_ns - s->first_ns);
    text_form(t, "%" PRIu64 " events, %" PRIu64 " threads, %" PRIu64 " processes, %s", s->events, s->threads, (uint64_t)s->process_count, line);
    if (shown < rows) text_form(t, "; %zu of %zu rows shown", shown, rows);
    if (s->unfinished + s->async_unfinished) text_form(t, "; %" PRIu64 " unfinished", s->unfinished + s->async_unfinished);
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
        text_padded(t, label_cut((slice){ label.p, label.n }, label_width), label_width, false);
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
        text_slice(t, name_json(&s->names, s->processes[key->process - 1].name));
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
        text_form(t, "\"total\":%" PRIu64 ",\"min\":%" PRIu64 ",\"mean\":%" PRIu64 ",\"median\":%" PRIu64 ",\"p95\":%" PRIu64 ",\"p99\":%" PRIu64 ",\"max\":%" PRIu64 "}",
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

/* One line of event_timings, when the span and all it holds are over. */
static void timing_closed(walk *w, const open_span *o) {
    span_writer *x = w->user;
    const uint64_t inclusive = o->end_ns - o->start_ns;
    text_form(x->text, "%s\n{\"event_index\":%" PRIu64 ",\"inclusive_ns\":%" PRIu64 ",\"self_ns\":%" PRIu64 "%s}", x->any ? "," : "", w->l->first_index + o->index,
              inclusive, inclusive - o->covered, o->unfinished ? ",\"unfinished\":true" : "");
    x->any = true;
}

static void write_timings(session *s, output *o) {
    static const visitor visit = { NULL, timing_closed, NULL };
    span_writer x = { &o->text, 0, SIZE_MAX, false };
    size_t count, i;
    lane_task *tasks = tasks_by_lane(s, &count);
    worker *workers = workers_new(s);
    text_str(&o->text, ",\n\"event_timings\":[");
    for (i = 0; i < count; i++) {
        dump_input *d = &s->dumps[tasks[i].dump];
        walk w;
        size_t b;
        walk_begin(&w, s, d, tasks[i].lane, &workers[0]);
        w.visit = &visit;
        w.user = &x;
        for (b = 0; b < w.l->count; b++) {
            walk_block(&w, &d->blocks[w.l->first + b], WALK_VISIT);
            output_room(o);
        }
        walk_pop_all(&w);
        walk_end(&w);
    }
    text_byte(&o->text, ']');
    workers_free(s, workers);
    free(tasks);
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
    text_form(t, "\"clock\":\"%s\",\"time_unit\":\"ns\",\n\"event_count\":%" PRIu64 ",\"span_count\":%" PRIu64 ",\"thread_count\":%" PRIu64 ",\"process_count\":%zu,\"max_depth\":%" PRIu64 ",",
              tsc ? "tsc" : "monotonic", s->events, s->spans, s->threads, s->process_count, s->depth_max);
    text_form(t, "\n\"trace_origin_ns\":%" PRIu64 ",\"trace_window_ns\":%" PRIu64 ",\"recorded_thread_time_ns\":%" PRIu64 ",\n\"event_limit\":",
              s->first_ns, s->last_ns - s->first_ns, s->thread_time);
    if (limit) text_u64(t, limit);
    else text_str(t, "null");
    text_form(t, ",\"dropped_events\":%" PRIu64 ",\"overwritten_events\":%" PRIu64 ",\"unfinished_events\":%" PRIu64 ",\"damaged\":%s,\n\"process_resources\":",
              s->dropped, s->overwritten, s->unfinished + s->async_unfinished, s->damaged ? "true" : "false");
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

/* ---- reading all inputs ----------------------------------------------------------------------------------------- */

/* The process of a dump: that of an earlier dump with the same key, or a new one. */
static uint32_t process_of(session *s, const dump_input *d) {
    process_entry *p;
    size_t i;
    for (i = 0; i < s->process_count; i++)
        if (!s->processes[i].is_json && !d->is_json && s->processes[i].key == d->head.process_key) return (uint32_t)i;
    must_grow(&s->processes, &s->process_room, s->process_count + 1, sizeof *s->processes);
    p = &s->processes[s->process_count];
    memset(p, 0, sizeof *p);
    p->key = d->head.process_key;
    p->pid = d->head.pid;
    p->rank = d->head.rank;
    p->is_json = d->is_json;
    p->name = name_number(&s->names, slice_of(d->head.process_name[0] ? d->head.process_name : "(unnamed process)"));
    return (uint32_t)s->process_count++;
}

/* A note on a dump whose process ended without closing it. */
static void dump_note(const session *s, const dump_input *d) {
    if (s->opt->quiet) return;
    if (d->head.state == SPANPROF_DUMP_RECORDING && !(d->head.flags & SPANPROF_DUMP_SNAPSHOT))
        diag(d->path, NO_OFFSET, "note: the process was killed or still records; what it had not ended is shown as unfinished");
    if (d->head.write_error) diag(d->path, NO_OFFSET, "note: recording stopped early: %s", strerror((int)(d->head.write_error & 0xffff)));
}

static int read_dump(session *s, const char *path, unsigned char *data, size_t size, int mapped) {
    dump_input *d;
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
        return status;
    }
    d->process = process_of(s, d);
    s->dump_count++;
    dump_index(s, d, status < 0);
    clock_build(s, d);
    dump_note(s, d);
    s->dropped += d->dropped;
    s->overwritten += d->overwritten;
    return 0;
}

/* Brings the dumps onto the clock of the first. */
static void align_clocks(session *s) {
    const dump_input *first = NULL;
    size_t i;
    for (i = 0; i < s->dump_count; i++) {
        dump_input *d = &s->dumps[i];
        int64_t offset, base;
        if (d->is_json) continue;
        if (!first) first = d;
        if (d == first || d->head.process_key == first->head.process_key) continue;
        base = (int64_t)(first->head.first.real_ns - first->head.first.mono_ns);
        offset = (int64_t)(d->head.first.real_ns - d->head.first.mono_ns);
        if (d->head.first.real_ns > TIME_MAX || first->head.first.real_ns > TIME_MAX || !d->head.first.real_ns || !first->head.first.real_ns) {
            d->aligned = "none: a clock base is unknown";
            diag(d->path, NO_OFFSET, "note: its clock can't be aligned with %s", first->path);
        } else if (strcmp(d->head.host, first->head.host) == 0 && offset - base < 1000000000 && base - offset < 1000000000) {
            d->aligned = "monotonic clock of the same host";
        } else {
            d->aligned = "realtime clocks of the hosts";
            d->shift_ns = (uint64_t)(offset - base);
        }
    }
}

static int read_input(session *s, const char *path) {
    unsigned char *data;
    size_t size;
    int mapped, status = load_input(s, path, &data, &size, &mapped);
    if (status) return status;
    if (size >= 8 && memcmp(data, SPANPROF_DUMP_MAGIC, 8) == 0) return read_dump(s, path, data, size, mapped);
    complain(s, path, 0, "not a dump of spanprof");
    unload_input(data, size, mapped);
    return EXIT_DAMAGED;
}

static void session_begin(session *s, const options *opt) {
    memset(s, 0, sizeof *s);
    s->opt = opt;
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->names.lock, NULL);
    pthread_mutex_init(&s->rows.lock, NULL);
    s->progress_shown = !opt->quiet && isatty(2);
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
    "      --svg FILE        flame graph\n"
    "      --csv FILE        the rows of the summary as CSV\n"
    "      --spans FILE      one CSV line a span\n"
    "      --no-table        no table on standard output\n"
    "      --top N           rows in the table (0: all)\n"
    "      --sort KEY        order of the table: self (default), total, calls, p95\n"
    "      --min-duration NS leave shorter spans out of the trace; the summary keeps them\n"
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

/* A time in ns with an optional unit. */
static bool parse_time(const char *text, uint64_t *value, const char **end) {
    static const struct { const char *unit; uint64_t ns; } units[] = { { "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 } };
    size_t i;
    if (!parse_u64(text, value, end)) return false;
    for (i = 0; i < sizeof units / sizeof *units; i++) {
        const size_t n = strlen(units[i].unit);
        if (strncmp(*end, units[i].unit, n) != 0) continue;
        if (*value > TIME_MAX / units[i].ns) return false;
        *value *= units[i].ns;
        *end += n;
        break;
    }
    return true;
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
    if (*p != ':' && !parse_time(p, &o->window_from, &p)) usage("--window %s: not A:B", value);
    if (*p++ != ':') usage("--window %s: not A:B", value);
    if (*p && (!parse_time(p, &o->window_to, &p) || *p)) usage("--window %s: not A:B", value);
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
        if (!parse_time(value, &o->min_duration, &end) || *end) usage("--min-duration %s: not a time", value);
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

static void options_default(options *o) {
    memset(o, 0, sizeof *o);
    o->window_to = UINT64_MAX;
    o->args = ARGS_SET;
    o->jobs = 1;
#ifdef _SC_NPROCESSORS_ONLN
    {
        const long processors = sysconf(_SC_NPROCESSORS_ONLN);
        if (processors > 1) o->jobs = processors < (long)JOBS_MAX ? (unsigned)processors : JOBS_MAX;
    }
#endif
}

/* INPUT without its extension plus another one. */
static const char *default_output(const char *input, const char *extension) {
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
        o->trace = default_output(o->inputs[0], ".trace.json");
        o->summary = default_output(o->inputs[0], ".summary.json");
    }
}

/* ---- main ------------------------------------------------------------------------------------------------------- */

typedef void (*write_function)(session *s, output *o);

static void write_output(session *s, const char *path, write_function write_it, int *to_stdout) {
    output o;
    if (!path) return;
    if (strcmp(path, "-") == 0) *to_stdout = 1;
    if (output_open(&o, s, path) == 0) {
        write_it(s, &o);
        output_close(&o);
    }
}

/* Reads the inputs, counts, writes; the exit code. */
static int convert(session *s) {
    const options *o = s->opt;
    size_t i, j;
    int to_stdout = 0, status = 0;
    for (i = 0; i < o->input_count; i++) {
        const int one = read_input(s, o->inputs[i]);
        if (one > status) status = one;
        if (one == EXIT_USAGE) return EXIT_USAGE;
    }
    if (s->complaint_count > COMPLAINTS_SHOWN) diag(NULL, NO_OFFSET, "%" PRIu64 " damaged places in all", s->complaint_count);
    if (s->dump_count == 0) return status ? status : EXIT_DAMAGED;
    align_clocks(s);
    for (i = 0; i < s->dump_count; i++)
        for (j = 0; j < s->dumps[i].block_count; j++) s->all_words += s->dumps[i].blocks[j].count;
    count_all(s);
    ids_assign(s);
    write_output(s, o->trace, write_trace, &to_stdout);
    write_output(s, o->summary, write_summary, &to_stdout);
    if (!o->no_table && !to_stdout) write_output(s, "-", write_table, &to_stdout);
    if (s->output_failed) return EXIT_OUTPUT;
    return s->damaged ? EXIT_DAMAGED : EXIT_DONE;
}

#ifndef TRACE2SUMMARY_NO_MAIN
int main(int argc, char **argv) {
    options o;
    session s;
    int i, only_inputs = 0;
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
    session_begin(&s, &o);
    return convert(&s);
}
#endif
