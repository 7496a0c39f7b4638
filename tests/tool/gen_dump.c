/* gen_dump.c - writes a random valid dump and, by a computation of its own, the CSV that trace2summary has to give for it.
 *
 *     gen_dump SEED DUMP CSV [swap]     even seeds: monotonic clock, odd: counter; swap: in the other byte order; prints how many spans are marked as abandoned
 *
 * Times are nanoseconds, of a monotonic clock or of a counter of that rate, so that every figure is known exactly. Spans nest, end in their own word, in
 * an END record of the same block or of a later one, or never; names come from sites or from the span; lanes change their
 * threads; windows are open, flushed, or have a copy that was cut short.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPANPROF_DUMP_FORMAT
#include "../../spanprof.h"

enum { BLOCK = 65536, WORDS = (BLOCK - 128) / 8, LANES = 4, SITES = 30, HIGH_SITE = 9000, DEPTH = 40, ROWS = 128 };

typedef struct { uint64_t *d; size_t n, room; uint64_t self; char name[64], phase[16]; } row;
typedef struct { uint64_t start, pos, children; row *r; size_t word; uint64_t block; int is_long; } open_span;
typedef struct {
    uint64_t words[WORDS];
    size_t n;
    uint64_t seq, events, last, now, base;
    uint32_t lane, thread, first_thread; /* first: of the block's first word */
    open_span open[DEPTH];
    int depth;
} lane;

static row rows[ROWS];
static size_t row_count;
static FILE *file;
static uint64_t block_count = LANES + 2, state;
static lane lanes[LANES + 1];
static uint64_t seed, abandoned;
static int swap;

static uint64_t random_bits(void) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (state ^ state >> 29) * 0xbf58476d1ce4e5b9ull >> 16;
}
static uint64_t below(uint64_t n) { return random_bits() % n; }

static void die(const char *what) {
    perror(what);
    exit(1);
}

static uint64_t turned(uint64_t v, unsigned bytes) {
    uint64_t out = 0;
    unsigned i;
    if (!swap) return v;
    for (i = 0; i < bytes; i++) out |= (v >> 8 * i & 255) << 8 * (bytes - 1 - i);
    return out;
}
static void turn32(uint32_t *p, size_t n) { for (; n; n--, p++) *p = (uint32_t)turned(*p, 4); }
static void turn64(void *at, size_t n) {
    uint64_t *p = at;
    for (; n; n--, p++) *p = turned(*p, 8);
}

static row *row_of(const char *name, const char *phase) {
    size_t i;
    for (i = 0; i < row_count; i++)
        if (!strcmp(rows[i].name, name) && !strcmp(rows[i].phase, phase)) return &rows[i];
    if (row_count == ROWS) exit(1);
    strcpy(rows[row_count].name, name);
    strcpy(rows[row_count].phase, phase);
    return &rows[row_count++];
}

static void count(row *r, uint64_t duration, uint64_t children) {
    if (r->n == r->room) {
        r->room = r->room ? r->room * 2 : 64;
        r->d = realloc(r->d, r->room * sizeof *r->d);
        if (!r->d) die("memory");
    }
    r->d[r->n++] = duration;
    r->self += duration - children;
}

/* Writes the lane's words as a block of the file; at 0: appended. */
static void put_block(lane *l, uint64_t at, uint32_t block_state, size_t words) {
    spanprof_dump_block b;
    memset(&b, 0, sizeof b);
    b.magic = SPANPROF_BLOCK_MAGIC;
    b.lane = l->lane;
    b.seq = l->seq;
    b.base_ticks = b.base_ns = l->base;
    b.events = l->events;
    b.thread = l->first_thread;
    b.words = block_state == SPANPROF_BLOCK_DONE ? (uint32_t)l->n : 0;
    b.state = block_state;
    turn32(&b.magic, 2);
    turn64(&b.seq, 5);
    turn32(&b.has_step, 4);
    turn32(&b.state, 1);
    b.sum = turned(spanprof_dump_sum(&b, offsetof(spanprof_dump_block, sum)), 8);
    if (fseek(file, (long)(4096 + (at ? at : block_count++) * BLOCK), SEEK_SET) || fwrite(&b, sizeof b, 1, file) != 1 ||
        fwrite(l->words, 8, words, file) != words) die("write");
}

static void next_block(lane *l) {
    put_block(l, 0, SPANPROF_BLOCK_DONE, WORDS);
    memset(l->words, 0, sizeof l->words);
    l->seq++;
    l->n = 0;
    l->events = 1; /* not zero, and nobody adds them up */
    l->base = l->last = l->now;
    l->first_thread = l->thread;
}

/* Words for a record of that many; its head in the writer's order. */
static uint64_t *record(lane *l, unsigned type, unsigned flags, size_t words, uint64_t argument) {
    uint64_t *r;
    if (l->n + words > WORDS) next_block(l);
    r = l->words + l->n;
    l->n += words;
    r[0] = turned(SPANPROF_RECORD(type, flags, words, argument), 8);
    return r;
}

static size_t text_put(unsigned char *at, const char *text) {
    const uint16_t n = (uint16_t)strlen(text), stored = (uint16_t)turned(n, 2);
    memcpy(at, &stored, 2);
    memcpy(at + 2, text, n);
    return 2u + n;
}

static void put_site(uint32_t number, const char *name) {
    uint64_t *r = record(&lanes[0], SPANPROF_RECORD_SITE, 0, 3 + (strlen(name) + 6 + 6 + 7) / 8, number);
    size_t at = 24;
    r[1] = turned(7, 8);
    at += text_put((unsigned char *)r + at, name);
    at += text_put((unsigned char *)r + at, "file.c");
    text_put((unsigned char *)r + at, "");
}

static void site_name(char *name, uint32_t site) {
    static const char *const odd[] = { "a \"quoted\" name", "comma, name", "back\\slash", "caf\xc3\xa9" };
    if (site < 4) strcpy(name, odd[site]);
    else sprintf(name, "site %u", site);
}

static void begin(lane *l) {
    const uint32_t site = (uint32_t)below(SITES);
    const int form = (int)below(20);
    open_span *o = &l->open[l->depth];
    char name[64];
    uint64_t *r;
    site_name(name, site);
    if (form == 0) { /* a name of its own */
        r = record(l, SPANPROF_RECORD_SPAN_DYN, 0, 3 + 2, 0);
        strcpy(name, "dynamic ");
        name[8] = (char)('a' + below(3));
        name[9] = '\0';
        text_put((unsigned char *)(r + 3), name);
    } else if (form <= 2 || l->now - l->last > SPANPROF_SHORT_START_MAX) {
        r = record(l, SPANPROF_RECORD_SPAN, 0, 3, site + 1 + HIGH_SITE);
    } else {
        if (l->n == WORDS) next_block(l);
        r = l->words + l->n++;
        *r = turned((l->now - l->last) << SPANPROF_SHORT_START_SHIFT | (uint64_t)(site + 1) << SPANPROF_SHORT_SITE_SHIFT | 1u, 8);
    }
    o->is_long = (turned(*r, 8) & 1) == 0;
    if (o->is_long) r[1] = turned(l->now, 8);
    o->word = (size_t)(r - l->words);
    o->block = l->seq;
    o->pos = 1ull << 54 | (uint64_t)l->lane << 40 | (l->seq * WORDS + o->word);
    o->start = l->last = l->now;
    o->children = 0;
    o->r = row_of(name, "");
    l->depth++;
}

static void end(lane *l) {
    open_span *o = &l->open[--l->depth];
    const uint64_t duration = l->now - o->start;
    uint64_t *r;
    if (below(30) == 0) {
        static const char *const phases[] = { "forward", "backward" };
        const char *phase = phases[below(2)];
        r = record(l, SPANPROF_RECORD_META, 0, 4 + 2, 1u << SPANPROF_META_phase | 1u << SPANPROF_META_alloc_delta_bytes);
        r[1] = turned(o->pos, 8);
        r[2] = turned((uint64_t)-3, 8);
        text_put((unsigned char *)(r + 3), phase);
        o->r = row_of(o->r->name, phase);
    }
    if (o->block == l->seq && (o->is_long || duration <= SPANPROF_SHORT_DURATION_MAX) && below(50)) {
        r = l->words + o->word;
        if (o->is_long) r[2] = turned(duration + 1, 8);
        else *r = turned(turned(*r, 8) + ((duration + 1) << SPANPROF_SHORT_DURATION_SHIFT), 8);
    } else {
        const uint32_t is_abandoned = !below(4);
        r = record(l, SPANPROF_RECORD_END, is_abandoned, 3, 0);
        abandoned += is_abandoned;
        r[1] = turned(o->pos, 8);
        r[2] = turned(l->now, 8);
    }
    count(o->r, duration, o->children);
    if (l->depth) l->open[l->depth - 1].children += duration;
}

static void run_lane(lane *l, int events) {
    static const uint64_t steps[] = { 3, 100, 5000, 1000000 };
    for (; events; events--) {
        l->now += 1 + below(steps[below(40) ? below(2) : 2 + below(2)]);
        if (below(5000) == 0) l->now += 200000000;
        if (l->depth == 0 || (l->depth < DEPTH && below(2))) begin(l);
        else end(l);
        if (below(3000) == 0) { /* the thread ends, another takes the lane */
            uint64_t *r;
            while (l->depth) {
                l->now += 1 + below(9);
                end(l);
            }
            r = record(l, SPANPROF_RECORD_THREAD, 0, 2, ++l->thread);
            r[1] = turned(l->now, 8);
            l->last = l->now;
        }
    }
    /* What is still open stays so; its children were counted, it is not. */
}

static void put_header(uint64_t end_ns) {
    spanprof_dump_header h;
    memset(&h, 0, sizeof h);
    memcpy(h.magic, SPANPROF_DUMP_MAGIC, 8);
    h.endian = SPANPROF_DUMP_ENDIAN;
    h.version = SPANPROF_DUMP_VERSION;
    h.header_bytes = 4096;
    h.block_bytes = BLOCK;
    h.block_header_bytes = 128;
    h.clock = seed % 2 ? SPANPROF_CLOCK_TSC : SPANPROF_CLOCK_MONOTONIC;
    h.session = 1;
    h.rank = -1;
    h.pid = 4242;
    h.process_key = 99;
    h.first.ticks = h.first.mono_ns = 1000;
    h.last_valid = 1;
    h.last[0].ticks = h.last[0].mono_ns = end_ns;
    h.blocks = block_count;
    h.lanes = LANES + 1;
    strcpy(h.process_name, "generated");
    turn32(&h.endian, 12);
    turn64(&h.process_key, 1);
    turn64(&h.first, 3);
    h.sum = turned(spanprof_dump_sum(&h, offsetof(spanprof_dump_header, sum)), 8);
    turn32(&h.state, 2);
    turn64(h.last, 6);
    turn64(&h.blocks, 2);
    if (fseek(file, 0, SEEK_SET) || fwrite(&h, sizeof h, 1, file) != 1) die("write");
}

static int by_value(const void *a, const void *b) {
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}
static int by_self(const void *a, const void *b) {
    const row *x = a, *y = b;
    if (x->self != y->self) return x->self > y->self ? -1 : 1;
    return strcmp(x->name, y->name) ? strcmp(x->name, y->name) : strcmp(x->phase, y->phase);
}
static uint64_t percentile(const row *r, unsigned percent) { return r->d[(r->n * percent + 99) / 100 - 1]; }

static void put_field(FILE *out, const char *text) {
    if (!strpbrk(text, ",\"")) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++) fprintf(out, *text == '"' ? "\"\"" : "%c", *text);
    fputc('"', out);
}

static void put_csv(const char *path) {
    FILE *out = fopen(path, "w");
    uint64_t self = 0;
    size_t i, j;
    if (!out) die(path);
    for (i = 0; i < row_count; i++) self += rows[i].self;
    qsort(rows, row_count, sizeof *rows, by_self);
    fputs("name,phase,activity,backend,dtype,device,module,process,pid,kind,calls,self_ns,total_ns,min_ns,mean_ns,median_ns,p95_ns,p99_ns,"
          "max_ns,share_permille,hook_errors,alloc_bytes,peak_live_bytes,alloc_delta_bytes\n", out);
    for (i = 0; i < row_count; i++) {
        row *r = &rows[i];
        uint64_t total = 0;
        if (!r->n) continue;
        qsort(r->d, r->n, sizeof *r->d, by_value);
        for (j = 0; j < r->n; j++) total += r->d[j];
        put_field(out, r->name);
        fprintf(out, ",%s,,,,,,,,span,%zu,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu,0,0,0,%lld\n", r->phase, r->n, (unsigned long long)r->self,
                (unsigned long long)total, (unsigned long long)r->d[0], (unsigned long long)(total / r->n), (unsigned long long)percentile(r, 50),
                (unsigned long long)percentile(r, 95), (unsigned long long)percentile(r, 99), (unsigned long long)r->d[r->n - 1],
                (unsigned long long)(r->self * 1000 / self), *r->phase ? -3LL * (long long)r->n : 0LL);
    }
    if (fclose(out)) die(path);
}

int main(int argc, char **argv) {
    uint64_t end_ns = 0;
    uint32_t i;
    if (argc < 4) return 2;
    seed = strtoull(argv[1], NULL, 10);
    state = seed * 7919 + 1;
    swap = argc > 4;
    file = fopen(argv[2], "wb");
    if (!file) die(argv[2]);
    for (i = 0; i <= LANES; i++) {
        lanes[i].lane = i;
        lanes[i].thread = lanes[i].first_thread = i * 1000;
        lanes[i].last = lanes[i].now = lanes[i].base = 1000 + below(1000);
    }
    for (i = 0; i < SITES; i++) {
        char name[64];
        site_name(name, i);
        put_site(i + 1, name);
        put_site(i + 1 + HIGH_SITE, name);
    }
    for (i = 1; i <= LANES; i++) run_lane(&lanes[i], (int)below(60000));
    for (i = 0; i <= LANES; i++) {
        const uint32_t how = (uint32_t)below(3);
        if (lanes[i].now > end_ns) end_ns = lanes[i].now;
        if (how == 1) put_block(&lanes[i], 0, SPANPROF_BLOCK_DONE, lanes[i].n / 2); /* cut short; the window has all */
        if (how == 2) put_block(&lanes[i], 0, SPANPROF_BLOCK_DONE, WORDS);
        /* Blocks 1 to LANES + 1 are the windows; block 0 is never used and stays zero. */
        put_block(&lanes[i], i + 1u, how == 2 ? SPANPROF_BLOCK_FLUSHED : SPANPROF_BLOCK_OPEN, WORDS);
    }
    put_header(end_ns + 5);
    if (fclose(file)) die(argv[2]);
    put_csv(argv[3]);
    printf("%llu\n", (unsigned long long)abandoned);
    return 0;
}
