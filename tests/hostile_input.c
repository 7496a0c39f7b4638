/* hostile_input.c - what a hostile or broken input does to trace2summary: dumps and JSON cut at every byte, with every field
 * flipped or as large as it goes, sizes that overflow, references to nowhere, deep nesting, names that fit nowhere. It must come
 * back with exit code 0 or 3, with a message that names a byte when it is 3, with strict JSON, without a control character on a
 * terminal, and within bounds of time and memory. The tool runs in this process, many times: sanitizers see all of it.
 *
 *     hostile_input [all]    all: every byte and every value; else a part of them
 * SPDX-License-Identifier: MIT */
#include "fuzz/fuzz.h"

#include "check.h"

#include <sys/resource.h>

enum { BLOCK = 4096, HEADER = 4096, BLOCKS = 6, SIZE = HEADER + BLOCKS * BLOCK, WORDS = (BLOCK - SPANPROF_BLOCK_HEADER_BYTES) / 8 };

static int all, inputs, damaged_inputs;
static char said[1 << 16];
static int said_file, own_stderr;

/* ---- one input ---- */

static int has_control(const char *p, size_t n) {
    size_t i;
    for (i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)p[i];
        if ((c < 32 && c != '\n') || c == 127 || (c == 0xc2 && i + 1 < n && (unsigned char)p[i + 1] >= 0x80 && (unsigned char)p[i + 1] < 0xa0)) return 1;
    }
    return 0;
}

/* The exit code that the tool would end with; out, where wanted, takes the outputs. */
static int convert_bytes(const void *data, size_t size, textbuf *keep) {
    textbuf out[FUZZ_OUTPUTS];
    const char *path = fuzz_file(0, data, size);
    int damage = 0, status;
    ssize_t n;
    ftruncate(said_file, 0);
    lseek(said_file, 0, SEEK_SET);
    fflush(stderr);
    dup2(said_file, 2);
    status = fuzz_convert(path, 1 + (unsigned)inputs % 3, ARGS_FULL, out, &damage);
    fflush(stderr);
    dup2(own_stderr, 2);
    n = pread(said_file, said, sizeof said - 1, 0);
    said[n > 0 ? n : 0] = 0;
    inputs++;
    if (status == 0) {
        fuzz_strict(out[0].p, out[0].n);
        fuzz_strict(out[1].p, out[1].n);
        if (has_control(out[FUZZ_OUTPUTS - 1].p, out[FUZZ_OUTPUTS - 1].n)) status = 99;
        if (damage) status = EXIT_DAMAGED;
    }
    if (has_control(said, strlen(said))) status = 98;
    if (keep) memcpy(keep, out, sizeof out);
    else fuzz_free(out);
    return status;
}

/* 0 or 3; and a message with file and byte when it is 3. */
static int survives(const char *what, size_t at, uint64_t value, const void *data, size_t size) {
    const int status = convert_bytes(data, size, NULL);
    const int good = (status == 0 || status == EXIT_DAMAGED) && (status == 0 || (strstr(said, "/proc/self/fd/") && strstr(said, "byte ")));
    damaged_inputs += status == EXIT_DAMAGED;
    if (!check_report(good, __FILE__, __LINE__, what)) printf("    at %lu, value 0x%" PRIx64 ": code %d, said: %.200s\n", (unsigned long)at, value, status, said[0] ? said : "nothing\n");
    return status;
}

/* ---- a dump with every type of record ---- */

static unsigned char dump[SIZE], spoilt[SIZE];

typedef struct { uint64_t word[WORDS]; size_t n; } words;
static void put(words *w, uint64_t word) { w->word[w->n++] = word; }
static size_t record(words *w, unsigned type, unsigned flags, uint32_t argument, const uint64_t *values, size_t count, const char *const *texts, size_t text_count) {
    const size_t at = w->n;
    unsigned char bytes[2048];
    size_t n = 0, i;
    memset(bytes, 0, sizeof bytes);
    for (i = 0; i < text_count; i++) {
        const uint16_t length = (uint16_t)strlen(texts[i]);
        memcpy(bytes + n, &length, 2);
        memcpy(bytes + n + 2, texts[i], length);
        n += 2u + length;
    }
    put(w, SPANPROF_RECORD(type, flags, 1 + count + (n + 7) / 8, argument));
    for (i = 0; i < count; i++) put(w, values[i]);
    for (i = 0; i < (n + 7) / 8; i++) {
        uint64_t word;
        memcpy(&word, bytes + 8 * i, 8);
        put(w, word);
    }
    return at;
}
#define RECORD(w, type, flags, argument, ...) \
    record(w, SPANPROF_RECORD_##type, flags, argument, (const uint64_t[]){ __VA_ARGS__ }, sizeof((const uint64_t[]){ __VA_ARGS__ }) / 8, NULL, 0)
static uint64_t short_span(uint64_t site, uint64_t start, uint64_t duration) {
    return 1 | site << SPANPROF_SHORT_SITE_SHIFT | start << SPANPROF_SHORT_START_SHIFT | duration << SPANPROF_SHORT_DURATION_SHIFT;
}
static uint64_t position(uint64_t lane, uint64_t word) { return UINT64_C(1) << (SPANPROF_POS_WORD_BITS + SPANPROF_POS_LANE_BITS) | lane << SPANPROF_POS_WORD_BITS | word; }

static void fix_sums(unsigned char *to) {
    spanprof_dump_header h;
    spanprof_dump_block b;
    int i;
    memcpy(&h, to, sizeof h);
    h.sum = spanprof_dump_sum(&h, offsetof(spanprof_dump_header, sum));
    memcpy(to, &h, sizeof h);
    for (i = 0; i < BLOCKS; i++) {
        memcpy(&b, to + HEADER + i * BLOCK, sizeof b);
        if (!b.magic) continue;
        b.sum = spanprof_dump_sum(&b, offsetof(spanprof_dump_block, sum));
        memcpy(to + HEADER + i * BLOCK, &b, sizeof b);
    }
}

static void block(int number, uint32_t lane, uint64_t seq, uint32_t state, const words *w) {
    spanprof_dump_block b;
    memset(&b, 0, sizeof b);
    b.magic = SPANPROF_BLOCK_MAGIC;
    b.lane = b.thread = lane;
    b.seq = seq;
    b.base_ticks = b.base_ns = 1000000 + seq * 1000000;
    b.state = state;
    if (state == SPANPROF_BLOCK_DONE) b.words = (uint32_t)w->n;
    memcpy(dump + HEADER + number * BLOCK, &b, sizeof b);
    memcpy(dump + HEADER + number * BLOCK + sizeof b, w->word, w->n * 8);
}

static void make_dump(void) {
    static const char *const site[] = { "load \x1b[31m\x07\"\\", "file.c", "main" }, *const key[] = { "key\x01\x7f", "", "" }, *const thread[] = { "worker\n1" };
    static const char *const track[] = { "GPU\t0", "stream 7" }, *const value[] = { "\xff\xfe\xc0\x80" }, *const dyn[] = { "at run time \xc2\x9b" }, *const module[] = { "/bin/program" };
    static words text, first, second, other;
    spanprof_dump_header h;
    union { double f; uint64_t u; } number;
    memset(&h, 0, sizeof h);
    memcpy(h.magic, SPANPROF_DUMP_MAGIC, 8);
    h.endian = SPANPROF_DUMP_ENDIAN;
    h.version = SPANPROF_DUMP_VERSION;
    h.header_bytes = HEADER;
    h.block_bytes = BLOCK;
    h.block_header_bytes = SPANPROF_BLOCK_HEADER_BYTES;
    h.clock = SPANPROF_CLOCK_MONOTONIC;
    h.session = 1;
    h.rank = -1;
    h.pid = 7;
    h.process_key = 7;
    h.first.ticks = h.first.mono_ns = h.first.real_ns = 1000000;
    h.ticks_per_second = 1000000000;
    h.last_valid = 1;
    h.last[0].ticks = h.last[0].mono_ns = h.last[0].real_ns = 9000000;
    h.blocks = BLOCKS;
    h.lanes = 3;
    snprintf(h.producer, sizeof h.producer, "spanprof 1.0.0");
    snprintf(h.host, sizeof h.host, "host\x1b[2J");
    snprintf(h.process_name, sizeof h.process_name, "program\r");
    memcpy(dump, &h, sizeof h);
    record(&text, SPANPROF_RECORD_SITE, 0, 1, (const uint64_t[]){ 12, 0 }, 2, site, 3);
    record(&text, SPANPROF_RECORD_SITE, 0, 2, (const uint64_t[]){ 13, 0x1010 }, 2, key, 3);
    record(&text, SPANPROF_RECORD_THREAD_NAME, 0, 1, (const uint64_t[]){ 77, 1000001 }, 2, thread, 1);
    record(&text, SPANPROF_RECORD_TRACK_NAME, 0, 0, (const uint64_t[]){ 5, 0 }, 2, track, 2);
    record(&text, SPANPROF_RECORD_MODULE, 0, 0, (const uint64_t[]){ 0, 0x1000, 0x2000 }, 3, module, 1);
    put(&first, short_span(1, 10, 0));
    put(&first, short_span(1, 5, 101));
    RECORD(&first, STEP, 1, 0, 4);
    RECORD(&first, SPAN, 0, 1, 1000200, 51);
    record(&first, SPANPROF_RECORD_SPAN_DYN, 0, 0, (const uint64_t[]){ 1000220, 21 }, 2, dyn, 1);
    record(&first, SPANPROF_RECORD_META, 1, 0x1 | 1 << 8 | 1 << 11, (const uint64_t[]){ position(1, 1), 7, 9 }, 3, value, 1);
    RECORD(&first, ATTR, SPANPROF_VALUE_I64, 2, position(1, 0), 5);
    number.f = -1.0 / 0.0;
    RECORD(&first, ATTR, SPANPROF_VALUE_F64, 2, position(1, 0), number.u);
    record(&first, SPANPROF_RECORD_ATTR, SPANPROF_VALUE_STR, 2, (const uint64_t[]){ position(1, 1) }, 1, value, 1);
    RECORD(&first, INSTANT, 0, 1, 1000400);
    RECORD(&first, COUNTER, 0, 2, 1000410, number.u);
    RECORD(&first, ASYNC_BEGIN, 0, 1, 1000420, 9);
    RECORD(&first, ASYNC_END, 0, 1, 1000430, 9);
    RECORD(&first, FLOW_OUT, 0, 0, 1000440, 3, position(1, 1));
    RECORD(&first, FLOW_IN, 0, 0, 1000450, 3, position(1, 0));
    RECORD(&first, CYCLE, 0, 1, 1000510);
    RECORD(&first, TRACK_SPAN, 0, 1, position(1, 0), 5, 1000000, 50, 3);
    RECORD(&first, TIME, 0, 0, 1000600);
    put(&first, short_span(1, 1, 5));
    RECORD(&second, END, 0, 0, position(1, 0), 2000100);
    RECORD(&second, THREAD, 0, 2, 2000200);
    put(&second, short_span(1, 7, 8));
    put(&other, short_span(1, 100, 200));
    RECORD(&other, END, 0, 0, position(1, WORDS + 5), 2000300);
    block(0, 0, 0, SPANPROF_BLOCK_OPEN, &text);
    block(1, 1, 1, SPANPROF_BLOCK_OPEN, &second);
    block(2, 1, 0, SPANPROF_BLOCK_DONE, &first);
    block(3, 2, 0, SPANPROF_BLOCK_OPEN, &other);
    fix_sums(dump);
}

/* ---- dumps ---- */

static void cut_dumps(void) {
    size_t size;
    for (size = 0; size <= HEADER + 4 * BLOCK; size += all || size < 1024 || size % BLOCK < 160 || size % BLOCK > BLOCK - 10 ? 1 : 61) {
        memcpy(spoilt, dump, size);
        if (size == HEADER + 4 * BLOCK) CHECK_INT(0, convert_bytes(spoilt, size, NULL));
        else survives("cut", size, 0, spoilt, size);
    }
}

static const uint64_t values[] = { 0, 1, 2, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xffffffff, UINT64_C(0x100000000),
                                   UINT64_C(0x7fffffffffffffff), UINT64_C(0x8000000000000000), UINT64_MAX, UINT64_C(1) << 40, UINT64_C(1) << 62 };

/* Every field of a header, 4 or 8 bytes at a time, as every value, its sum put right or left wrong. */
static void spoil_range(const char *what, size_t from, size_t to, int bytes) {
    size_t at, v;
    for (at = from; at < to; at += (size_t)bytes) {
        for (v = 0; v < sizeof values / sizeof *values; v++) {
            if (!all && (at / 4 + v) % 3) continue;
            memcpy(spoilt, dump, SIZE);
            memcpy(spoilt + at, &values[v], (size_t)bytes);
            survives(what, at, values[v], spoilt, SIZE);
            fix_sums(spoilt);
            survives(what, at, values[v], spoilt, SIZE);
        }
    }
}

/* Every word of the records: other types, sizes, arguments, and all bits. */
static void spoil_words(void) {
    size_t number, at, v;
    for (number = 0; number < 4; number++) {
        const size_t from = HEADER + number * BLOCK + SPANPROF_BLOCK_HEADER_BYTES;
        for (at = from; at < from + 8 * 90; at += 8) {
            uint64_t word, odd[12];
            memcpy(&word, dump + at, 8);
            if (!word && at > from + 8) break;
            odd[0] = word ^ 1;                                  /* a span for a record */
            odd[1] = word | UINT64_C(0xffff) << 16;             /* as long as it goes */
            odd[2] = word & ~(UINT64_C(0xffff) << 16);          /* of no words */
            odd[3] = word | UINT64_C(0xffffffff) << 32;         /* the last site, thread, ... */
            odd[4] = (word & ~UINT64_C(255)) | 254;             /* a type that is none */
            odd[5] = (word & ~UINT64_C(255)) | SPANPROF_RECORD_SITE;
            odd[6] = (word & ~UINT64_C(255)) | SPANPROF_RECORD_META;
            odd[7] = word | UINT64_C(0xff00);
            odd[8] = word + (UINT64_C(1) << 16);
            odd[9] = word - (UINT64_C(1) << 16);
            odd[10] = word ^ UINT64_MAX;
            odd[11] = position(1, at / 8);                      /* of itself, or near */
            for (v = 0; v < 12 + sizeof values / sizeof *values; v++) {
                const uint64_t value = v < 12 ? odd[v] : values[v - 12];
                if (!all && v >= 12 && (at / 8 + v) % 4) continue;
                memcpy(spoilt, dump, SIZE);
                memcpy(spoilt + at, &value, 8);
                survives("word", at, value, spoilt, SIZE);
            }
        }
    }
}

/* A kilobyte that claims terabytes. */
static void claims(void) {
    static const struct { size_t at; uint64_t value; int bytes; } claim[] = {
        { offsetof(spanprof_dump_header, header_bytes), 0xfffffff8u, 4 }, { offsetof(spanprof_dump_header, block_bytes), 0x80000000u, 4 },
        { offsetof(spanprof_dump_header, block_bytes), 129, 4 },          { offsetof(spanprof_dump_header, block_header_bytes), 0xffffffffu, 4 },
        { offsetof(spanprof_dump_header, blocks), UINT64_C(1) << 40, 8 }, { offsetof(spanprof_dump_header, lanes), UINT64_C(1) << 60, 8 },
        { offsetof(spanprof_dump_header, ring_blocks), 0xffffffffu, 4 },  { offsetof(spanprof_dump_header, dropped), UINT64_MAX, 8 },
        { offsetof(spanprof_dump_header, ticks_per_second), 0, 8 },       { offsetof(spanprof_dump_header, ticks_per_second), UINT64_MAX, 8 },
        { offsetof(spanprof_dump_header, last_valid), 0xffffffffu, 4 },   { offsetof(spanprof_dump_header, version), 2, 4 },
        { offsetof(spanprof_dump_header, version), 0xffffffffu, 4 },      { offsetof(spanprof_dump_header, endian), 0x01020305, 4 },
    };
    size_t i;
    for (i = 0; i < sizeof claim / sizeof *claim; i++) {
        memcpy(spoilt, dump, SIZE);
        memcpy(spoilt + claim[i].at, &claim[i].value, (size_t)claim[i].bytes);
        fix_sums(spoilt);
        survives("claim", claim[i].at, claim[i].value, spoilt, HEADER + 4 * BLOCK);
        survives("claim in a kilobyte", claim[i].at, claim[i].value, spoilt, 1024);
    }
}

/* 100,000 open spans inside each other; sites with the highest numbers; a thread's number 2^32 - 1. */
static void depths(void) {
    enum { LOTS = 210, BYTES = HEADER + (LOTS + 2) * BLOCK };
    unsigned char *deep = (unsigned char *)calloc(1, BYTES);
    spanprof_dump_block b;
    size_t i, k;
    if (!CHECK(deep != NULL)) return;
    memcpy(deep, dump, HEADER + BLOCK);
    for (i = 0; i < LOTS; i++) {
        memset(&b, 0, sizeof b);
        b.magic = SPANPROF_BLOCK_MAGIC;
        b.lane = 1;
        b.thread = 0xffffffffu;
        b.seq = i;
        b.base_ticks = b.base_ns = 1000000 + i * 1000;
        b.state = i + 1 == LOTS ? SPANPROF_BLOCK_OPEN : SPANPROF_BLOCK_DONE;
        b.words = i + 1 == LOTS ? 0 : WORDS;
        b.sum = spanprof_dump_sum(&b, offsetof(spanprof_dump_block, sum));
        memcpy(deep + HEADER + (i + 1) * BLOCK, &b, sizeof b);
        for (k = 0; k < (i + 1 == LOTS ? 10 : WORDS); k++) {
            const uint64_t word = short_span(i % 7 ? 1 : SPANPROF_SHORT_SITE_MAX, 1, 0);
            memcpy(deep + HEADER + (i + 1) * BLOCK + sizeof b + 8 * k, &word, 8);
        }
    }
    survives("100,000 open spans", LOTS, 0, deep, BYTES);
    free(deep);
}

/* A killed process is not a damaged dump: windows that it was about to open again, or for the first time. */
static void torn(void) {
    spanprof_dump_block b;
    uint32_t state;
    memcpy(spoilt, dump, SIZE);
    memcpy(&b, spoilt + HEADER + 3 * BLOCK, sizeof b);
    b.state = SPANPROF_BLOCK_FLUSHED;
    b.seq++;
    memcpy(spoilt + HEADER + 3 * BLOCK, &b, sizeof b);
    CHECK_INT(0, convert_bytes(spoilt, SIZE, NULL));
    memset(&b, 0, sizeof b);
    b.magic = SPANPROF_BLOCK_MAGIC;
    b.lane = 3;
    memcpy(spoilt, dump, SIZE);
    memcpy(spoilt + HEADER + 4 * BLOCK, &b, sizeof b);
    CHECK_INT(0, convert_bytes(spoilt, SIZE, NULL));
    /* One that another thread was about to open again when the process exited or the recording stopped. */
    for (state = SPANPROF_DUMP_RECORDING; state <= SPANPROF_DUMP_EXITED; state++) {
        spanprof_dump_header h;
        const uint64_t none = 0;
        memcpy(spoilt, dump, SIZE);
        memcpy(&h, spoilt, sizeof h);
        h.state = state;
        memcpy(spoilt, &h, sizeof h);
        memcpy(spoilt + HEADER + 4 * BLOCK, spoilt + HEADER + BLOCK, BLOCK);
        memcpy(&b, spoilt + HEADER + BLOCK, sizeof b);
        b.state = SPANPROF_BLOCK_DONE;
        b.words = 6;
        memcpy(spoilt + HEADER + 4 * BLOCK, &b, sizeof b);
        fix_sums(spoilt);
        b.state = SPANPROF_BLOCK_FLUSHED;
        b.seq++;
        b.sum++;
        memcpy(spoilt + HEADER + BLOCK, &b, sizeof b);
        memcpy(spoilt + HEADER + BLOCK + sizeof b, &none, 8);
        CHECK_INT(0, convert_bytes(spoilt, HEADER + 5 * BLOCK, NULL));
        CHECK_STR("", said);
    }
    /* A copy that was being written; its window still has all of it. */
    memcpy(spoilt, dump, SIZE);
    memcpy(&b, spoilt + HEADER + BLOCK, sizeof b);
    b.state = SPANPROF_BLOCK_DONE;
    b.words = 5;
    memcpy(spoilt + HEADER + 4 * BLOCK, &b, sizeof b);
    fix_sums(spoilt);
    CHECK_INT(0, convert_bytes(spoilt, HEADER + 4 * BLOCK + 140, NULL));
}

/* ---- JSON ---- */

static const char trace[] =
    "{\"traceEvents\":[{\"ph\":\"X\",\"name\":\"a\\u00e9\\ud83d\\ude00\",\"ts\":1.5,\"dur\":2.25,\"pid\":1,\"tid\":2,\"cat\":\"c\",\"args\":{\"metadata\":{\"phase\":\"p\"},\"k\":[1,{\"z\":null}]}},"
    "{\"ph\":\"B\",\"name\":\"b\",\"ts\":\"3\",\"pid\":1,\"tid\":2},{\"ph\":\"E\",\"ts\":4,\"pid\":1,\"tid\":2},{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":2,\"args\":{\"name\":\"t\\u001b[31m\"}},"
    "{\"ph\":\"C\",\"name\":\"c\",\"ts\":1,\"pid\":1,\"args\":{\"v\":1e3}},{\"ph\":\"b\",\"name\":\"s\",\"cat\":\"x\",\"id\":\"0x1\",\"ts\":1,\"pid\":1,\"tid\":2},{\"ph\":\"e\",\"name\":\"s\",\"cat\":\"x\",\"id\":\"0x1\",\"ts\":2,\"pid\":1,\"tid\":2},"
    "{\"ph\":\"s\",\"name\":\"f\",\"id\":1,\"ts\":1,\"pid\":1,\"tid\":2},{\"ph\":\"f\",\"bp\":\"e\",\"name\":\"f\",\"id\":1,\"ts\":2,\"pid\":1,\"tid\":2}],\"displayTimeUnit\":\"ns\"}";

static void survives_json(const char *what, size_t at, const char *text, size_t size) {
    const int status = convert_bytes(text, size, NULL);
    damaged_inputs += status == EXIT_DAMAGED;
    /* Not JSON at all is wrong usage. */
    if (!check_report(status == 0 || status == EXIT_DAMAGED || status == EXIT_USAGE, __FILE__, __LINE__, what) || (status && !check_report(strstr(said, "/proc/self/fd/") != NULL, __FILE__, __LINE__, what)))
        printf("    at %lu: code %d, said: %.200s\n", (unsigned long)at, status, said[0] ? said : "nothing\n");
}

static void json_inputs(void) {
    static const char odd[] = "\"{}[]\\,:0-e.u\x01\xff\xc3n ";
    char text[sizeof trace];
    size_t at, k;
    for (at = 0; at < sizeof trace; at++) survives_json("cut JSON", at, trace, at);
    for (at = 0; at + 1 < sizeof trace; at++)
        for (k = 0; k < sizeof odd; k++) {
            if (!all && (at + k) % 5) continue;
            memcpy(text, trace, sizeof trace);
            text[at] = odd[k];
            survives_json("changed JSON", at, text, sizeof trace - 1);
        }
}

/* head, then a part many times over, then tail. */
static void repeated(const char *what, const char *head, const char *part, size_t times, const char *tail) {
    const size_t h = strlen(head), p = strlen(part), t = strlen(tail), size = h + p * times + t;
    char *text = (char *)malloc(size + 1);
    size_t i;
    if (!CHECK(text != NULL)) return;
    memcpy(text, head, h);
    for (i = 0; i < times; i++) memcpy(text + h + i * p, part, p);
    memcpy(text + h + times * p, tail, t + 1);
    survives_json(what, size, text, size);
    free(text);
}
static void large_json(void) {
    static const char event[] = "{\"traceEvents\":[{\"ph\":\"X\",\"name\":\"";
    static const char end[] = "\",\"ts\":1,\"dur\":2,\"pid\":1,\"tid\":1}]}";
    repeated("100,000 open arrays", "", "[", 100000, "");
    repeated("100,000 open objects", "{\"traceEvents\":[", "{\"a\":", 100000, "");
    repeated("args 100,000 deep", "{\"traceEvents\":[{\"ph\":\"X\",\"name\":\"n\",\"ts\":1,\"dur\":2,\"pid\":1,\"tid\":1,\"args\":{\"a\":", "[{\"a\":", 100000, "");
    repeated("100,000 spans begun", "{\"traceEvents\":[", "{\"ph\":\"B\",\"name\":\"n\",\"ts\":1,\"pid\":1,\"tid\":1},", 100000, "{}]}");
    repeated("no name", event, "", 0, end);
    repeated("a name of 70,000 bytes", event, "x", 70000, end);
    repeated("a name of 70,000 escapes", event, "\\u001b", 70000, end);
    repeated("invalid UTF-8", event, "\xff\xc0\x80\xed\xa0\x80\xf5", 1000, end);
    repeated("lone surrogates", event, "\\ud800", 1000, end);
    repeated("a number of 10,000 digits", "{\"traceEvents\":[{\"ph\":\"X\",\"name\":\"n\",\"dur\":2,\"pid\":1,\"tid\":1,\"ts\":", "9", 10000, "}]}");
    repeated("an exponent of 10,000 digits", "{\"traceEvents\":[{\"ph\":\"X\",\"name\":\"n\",\"dur\":2,\"pid\":1,\"tid\":1,\"ts\":1e", "9", 10000, "}]}");
    repeated("100,000 processes", "{\"traceEvents\":[", "{\"ph\":\"X\",\"name\":\"n\",\"ts\":1,\"dur\":1,\"pid\":\"p\",\"tid\":[1]},", 100000, "{}]}");
}

int main(int argc, char **argv) {
    struct rusage usage;
    FILE *file = tmpfile();
    all = argc > 1 && !strcmp(argv[1], "all");
    own_stderr = dup(2);
    if (!file) return 1;
    said_file = fileno(file);
    make_dump();
    CHECK_INT(0, convert_bytes(dump, SIZE, NULL));
    torn();
    cut_dumps();
    spoil_range("header", 0, sizeof(spanprof_dump_header), 4);
    spoil_range("block header", HEADER, HEADER + SPANPROF_BLOCK_HEADER_BYTES, 8);
    spoil_range("block header", HEADER + BLOCK, HEADER + BLOCK + SPANPROF_BLOCK_HEADER_BYTES, 4);
    spoil_range("block header", HEADER + 2 * BLOCK, HEADER + 2 * BLOCK + SPANPROF_BLOCK_HEADER_BYTES, 4);
    spoil_words();
    claims();
    depths();
    json_inputs();
    large_json();
    getrusage(RUSAGE_SELF, &usage);
    printf("%d inputs, %d of them damaged, %ld MiB of memory at most\n", inputs, damaged_inputs, usage.ru_maxrss / 1024);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !(defined(__has_feature) && defined(__clang__))
    CHECK(usage.ru_maxrss < 512 * 1024);
#endif
    return CHECK_DONE();
}
