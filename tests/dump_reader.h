/* dump_reader.h - a second reader of dumps, for the tests of the recorder: written from section 9 of spanprof.h alone, so
 * that the recorder's tests do not lean on trace2summary. It reads the whole dump into memory and stops at the first thing
 * that section 9 does not allow: error then says what and where.
 *
 *     dr_dump *d = dr_load("x.dump");
 *     CHECK_STR("", d->error);
 *     CHECK_U64(3, dr_count(d, "load"));               finished spans of a name; NULL: of any name
 *     CHECK_U64(0, dr_unfinished(d, NULL));            the others
 *     const dr_span *s = dr_find(d, "load", 0);        the first one, in the order of lanes and starts
 *     CHECK_STR("main", dr_name(d, dr_parent(d, s)));
 *     dr_free(d);
 * SPDX-License-Identifier: MIT */
#ifndef DUMP_READER_H
#define DUMP_READER_H

#if defined(__GNUC__) && defined(__cplusplus)
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define SPANPROF_DUMP_FORMAT
#include "spanprof.h"

enum { DR_DYN = 1, DR_LONG = 2, DR_ABANDONED = 4, DR_FOREIGN_END = 8, DR_FINISHED = 16, DR_HOOKED = 32 };

typedef struct dr_span {
    uint64_t pos, start, end; /* ticks; end 0: unfinished */
    int64_t step;
    uint32_t name;            /* index of dr_dump.names */
    uint32_t site;            /* 0: name known only at run time */
    uint32_t lane, thread, cycle, parent; /* parent: 1 + index of dr_dump.spans, 0: none */
    unsigned flags, has_step;
} dr_span;

typedef struct dr_value {
    uint64_t pos;
    int kind; /* SPANPROF_VALUE_* */
    uint32_t key;
    union { int64_t i64; uint64_t u64; double f64; } as;
    char *text;
} dr_value;

typedef struct dr_meta {
    uint64_t pos;
    uint32_t bits;
    int64_t number[SPANPROF_META_COUNT];
    char *text[SPANPROF_META_COUNT];
} dr_meta;

typedef struct dr_mark { /* instant, counter, async begin and end, flow out and in */
    unsigned type;       /* SPANPROF_RECORD_* */
    uint32_t name, thread, lane;
    uint64_t ticks, id, pos;
    double value;
} dr_mark;

typedef struct dr_track {
    uint64_t pos, track, start_ns, duration_ns;
    int64_t queue_ns;
    uint32_t name;
} dr_track;

typedef struct dr_site { uint32_t id, line, name, file, function; uint64_t address; } dr_site;
typedef struct dr_thread { uint32_t id; uint64_t system_id; char *name; } dr_thread;
typedef struct dr_label { uint64_t track, group; char *process, *name; } dr_label;

typedef struct dr_block { const spanprof_dump_block *head; const uint64_t *words; uint64_t seq, count; size_t offset; int cut; } dr_block;
typedef struct dr_lane { dr_block *blocks; size_t count, room; uint64_t dropped; } dr_lane;
typedef struct dr_end { uint64_t pos, ticks; uint32_t lane; int abandoned; } dr_end;

#define DR_LIST(type, name) type *name; size_t name##_count, name##_room
typedef struct dr_dump {
    char error[256];
    unsigned char *bytes;
    size_t size;
    spanprof_dump_header header;
    dr_lane *lanes;
    size_t lane_count;
    DR_LIST(char *, names);
    DR_LIST(dr_site, sites);
    DR_LIST(dr_thread, threads);
    DR_LIST(dr_label, labels);
    DR_LIST(dr_span, spans);
    DR_LIST(dr_value, values);
    DR_LIST(dr_meta, metas);
    DR_LIST(dr_mark, marks);
    DR_LIST(dr_track, tracks);
    DR_LIST(dr_end, ends);
    uint64_t stray_ends;  /* END records without their span, or a second one of a span */
    uint64_t tombs;       /* blocks that hold nothing: given out, never written */
} dr_dump;

static inline void *dr_check(void *memory) {
    if (!memory) {
        fputs("dump_reader: out of memory\n", stderr);
        abort();
    }
    return memory;
}
/* One more zeroed element at the end of a list. */
static inline void dr_grow(void *list, size_t count, size_t *room, size_t size) {
    void *memory;
    memcpy(&memory, list, sizeof memory);
    if (count == *room) {
        *room = *room ? 2 * *room : 64;
        memory = dr_check(realloc(memory, *room * size));
        memcpy(list, &memory, sizeof memory);
    }
    memset((char *)memory + count * size, 0, size);
}
#define DR_PUSH(d, list) (dr_grow(&(d)->list, (d)->list##_count, &(d)->list##_room, sizeof *(d)->list), &(d)->list[(d)->list##_count++])

static inline void dr_fail(dr_dump *d, const char *what, size_t offset) {
    if (!d->error[0]) snprintf(d->error, sizeof d->error, "%s at byte %" PRIu64, what, (uint64_t)offset);
}

static inline char *dr_copy(const char *text, size_t length) {
    char *copy = (char *)dr_check(malloc(length + 1));
    memcpy(copy, text, length);
    copy[length] = 0;
    return copy;
}

/* Index of a name, added when new; few names, so a plain search is enough. */
static inline uint32_t dr_intern(dr_dump *d, char *name) {
    size_t i;
    for (i = 0; i < d->names_count; i++)
        if (!strcmp(d->names[i], name)) {
            free(name);
            return (uint32_t)i;
        }
    *DR_PUSH(d, names) = name;
    return (uint32_t)(d->names_count - 1);
}

/* The next text of a record: 16-bit length and bytes. */
static inline char *dr_text(dr_dump *d, const unsigned char **at, const unsigned char *end, size_t offset) {
    uint16_t length = 0;
    if (end - *at < 2) {
        dr_fail(d, "text is missing", offset);
        return dr_copy("", 0);
    }
    memcpy(&length, *at, 2);
    *at += 2;
    if (end - *at < length || length > SPANPROF_TEXT_MAX) {
        dr_fail(d, "text is longer than its record", offset);
        return dr_copy("", 0);
    }
    *at += length;
    return dr_copy((const char *)*at - length, length);
}

static inline const dr_site *dr_site_of(const dr_dump *d, uint32_t id) {
    size_t i;
    if (id && id <= d->sites_count && d->sites[id - 1].id == id) return &d->sites[id - 1];
    for (i = 0; i < d->sites_count; i++)
        if (d->sites[i].id == id) return &d->sites[i];
    return NULL;
}
static inline uint32_t dr_site_name(dr_dump *d, uint32_t id, size_t offset) {
    const dr_site *site = dr_site_of(d, id);
    if (site) return site->name;
    dr_fail(d, "site is not defined", offset);
    return 0;
}

static inline int dr_by_seq(const void *a, const void *b) {
    const dr_block *x = (const dr_block *)a, *y = (const dr_block *)b;
    if (x->seq != y->seq) return x->seq < y->seq ? -1 : 1;
    return (x->head->state == SPANPROF_BLOCK_OPEN) - (y->head->state == SPANPROF_BLOCK_OPEN); /* the window last */
}
static inline int dr_by_pos(const void *a, const void *b) {
    const uint64_t x = ((const dr_span *)a)->pos, y = ((const dr_span *)b)->pos;
    return x < y ? -1 : x > y;
}

/* Sorts the blocks into lanes: the copies in order of seq, then the window. */
static inline void dr_collect(dr_dump *d) {
    const size_t header = d->header.header_bytes, block = d->header.block_bytes, head = d->header.block_header_bytes;
    size_t offset, i, k;
    for (offset = header; offset + head <= d->size; offset += block) {
        const spanprof_dump_block *b = (const spanprof_dump_block *)(const void *)(d->bytes + offset);
        dr_lane *lane;
        dr_block *to;
        if (!b->magic) {
            d->tombs++;
            continue;
        }
        if (b->magic != SPANPROF_BLOCK_MAGIC) {
            dr_fail(d, "block without its magic number", offset);
            return;
        }
        /* A process may have ended between two stores of a window's header: it was being opened, again or for the first time. */
        if (b->state == SPANPROF_BLOCK_FLUSHED || (b->state == 0 && d->header.state == SPANPROF_DUMP_RECORDING)) {
            if (b->lane < d->lane_count && b->dropped > d->lanes[b->lane].dropped) d->lanes[b->lane].dropped = b->dropped;
            continue;
        }
        if (b->sum != spanprof_dump_sum(b, offsetof(spanprof_dump_block, sum))) dr_fail(d, "block header does not match its sum", offset);
        if (b->lane >= d->header.lanes + (d->header.state == SPANPROF_DUMP_RECORDING)) { /* a lane is counted after its window is open */
            dr_fail(d, "block of a lane that does not exist", offset);
            return;
        }
        while (d->lane_count <= b->lane) {
            d->lanes = (dr_lane *)dr_check(realloc(d->lanes, (d->lane_count + 1) * sizeof *d->lanes));
            memset(&d->lanes[d->lane_count++], 0, sizeof *d->lanes);
        }
        lane = &d->lanes[b->lane];
        if (b->dropped > lane->dropped) lane->dropped = b->dropped;
        if (lane->count == lane->room) {
            lane->room = lane->room ? 2 * lane->room : 16;
            lane->blocks = (dr_block *)dr_check(realloc(lane->blocks, lane->room * sizeof *lane->blocks));
        }
        to = &lane->blocks[lane->count++];
        to->head = b;
        to->words = (const uint64_t *)(const void *)(d->bytes + offset + head);
        to->seq = b->seq;
        to->offset = offset;
        to->cut = 0;
        to->count = (block - head) / 8;
        if (offset + block > d->size) to->count = (d->size - offset - head) / 8;
        if (b->state == SPANPROF_BLOCK_DONE) {
            to->cut = b->words > to->count; /* the process ended while it was written: the window must have all of it */
            if (!to->cut) to->count = b->words;
        } else if (b->state != SPANPROF_BLOCK_OPEN) {
            dr_fail(d, "block in an unknown state", offset);
        }
    }
    for (i = 0; i < d->lane_count; i++) {
        dr_lane *lane = &d->lanes[i];
        size_t kept = 0;
        if (lane->count) qsort(lane->blocks, lane->count, sizeof *lane->blocks, dr_by_seq);
        for (k = 0; k < lane->count; k++) {
            if (kept && lane->blocks[kept - 1].seq == lane->blocks[k].seq) { /* a copy that was cut short, and its window */
                if (lane->blocks[kept - 1].head->state == lane->blocks[k].head->state) dr_fail(d, "two blocks with one number", lane->blocks[k].offset);
                if (lane->blocks[k].head->state == SPANPROF_BLOCK_OPEN) lane->blocks[kept - 1] = lane->blocks[k];
                continue;
            }
            if (lane->blocks[k].cut && !(k + 1 < lane->count && lane->blocks[k + 1].seq == lane->blocks[k].seq)) dr_fail(d, "block with more words than it holds", lane->blocks[k].offset);
            if (kept && lane->blocks[kept - 1].seq + 1 != lane->blocks[k].seq) dr_fail(d, "a block of a lane is missing", lane->blocks[k].offset);
            lane->blocks[kept++] = lane->blocks[k];
        }
        lane->count = kept;
    }
}

/* One record; w points at its head. */
static inline void dr_record(dr_dump *d, uint32_t lane, const uint64_t *w, size_t words, size_t offset, uint64_t pos, uint64_t *previous,
                             uint32_t *thread, uint32_t *cycle, int64_t *step, uint32_t *has_step) {
    const unsigned type = (unsigned)SPANPROF_RECORD_TYPE(w[0]), flags = (unsigned)SPANPROF_RECORD_FLAGS(w[0]);
    const uint32_t argument = (uint32_t)SPANPROF_RECORD_ARGUMENT(w[0]);
    const unsigned char *end = (const unsigned char *)(w + words);
    const unsigned char *at;
    size_t need = 1, i;
    switch (type) {
    case SPANPROF_RECORD_TIME: case SPANPROF_RECORD_INSTANT: case SPANPROF_RECORD_THREAD: case SPANPROF_RECORD_CYCLE: case SPANPROF_RECORD_STEP: need = 2; break;
    case SPANPROF_RECORD_SPAN: case SPANPROF_RECORD_END: case SPANPROF_RECORD_ATTR: case SPANPROF_RECORD_COUNTER:
    case SPANPROF_RECORD_ASYNC_BEGIN: case SPANPROF_RECORD_ASYNC_END: need = 3; break;
    case SPANPROF_RECORD_SPAN_DYN: case SPANPROF_RECORD_FLOW_OUT: case SPANPROF_RECORD_FLOW_IN: case SPANPROF_RECORD_SITE:
    case SPANPROF_RECORD_THREAD_NAME: case SPANPROF_RECORD_TRACK_NAME: need = 4; break;
    case SPANPROF_RECORD_MODULE: need = 5; break;
    case SPANPROF_RECORD_TRACK_SPAN: need = 6; break;
    case SPANPROF_RECORD_META: need = 2; break;
    default: dr_fail(d, "record of an unknown type", offset); return;
    }
    if (words < need) {
        dr_fail(d, "record is shorter than its type", offset);
        return;
    }
    if ((type >= SPANPROF_RECORD_SITE) != (lane == 0)) dr_fail(d, "record on the wrong kind of lane", offset);
    switch (type) {
    case SPANPROF_RECORD_TIME: *previous = w[1]; break;
    case SPANPROF_RECORD_CYCLE: *cycle = argument; break;
    case SPANPROF_RECORD_STEP: *has_step = flags & 1u; *step = (int64_t)w[1]; break;
    case SPANPROF_RECORD_THREAD: *thread = argument; *previous = w[1]; break;
    case SPANPROF_RECORD_SPAN: case SPANPROF_RECORD_SPAN_DYN: {
        dr_span *s = DR_PUSH(d, spans);
        s->pos = pos;
        s->start = *previous = w[1];
        s->flags = DR_LONG;
        if (w[2]) {
            s->end = w[1] + w[2] - 1;
            s->flags |= DR_FINISHED;
        }
        s->lane = lane;
        s->thread = *thread;
        s->cycle = *cycle;
        s->step = *step;
        s->has_step = *has_step;
        if (type == SPANPROF_RECORD_SPAN_DYN) {
            at = (const unsigned char *)(w + 3);
            s->flags |= DR_DYN;
            s->name = dr_intern(d, dr_text(d, &at, end, offset));
        } else {
            s->site = argument;
            s->name = dr_site_name(d, argument, offset);
        }
        break;
    }
    case SPANPROF_RECORD_END: {
        dr_end *e = DR_PUSH(d, ends);
        e->pos = w[1];
        e->ticks = w[2];
        e->lane = lane;
        e->abandoned = (int)(flags & 1u);
        break;
    }
    case SPANPROF_RECORD_META: {
        dr_meta *m = DR_PUSH(d, metas);
        static const char kinds[] = {
#define DR_X(name, kind) #kind[0],
            SPANPROF_META_LIST(DR_X)
#undef DR_X
        };
        m->pos = w[1];
        m->bits = argument | (flags & 1u) << 31; /* bit 31: hooked */
        for (i = 0, need = 2; i < SPANPROF_META_COUNT; i++)
            if ((argument >> i & 1u) && kinds[i] != 'S') {
                if (need < words) m->number[i] = (int64_t)w[need++];
                else dr_fail(d, "metadata without its number", offset);
            }
        at = (const unsigned char *)(w + need);
        for (i = 0; i < SPANPROF_META_COUNT; i++)
            if ((argument >> i & 1u) && kinds[i] == 'S') m->text[i] = dr_text(d, &at, end, offset);
        break;
    }
    case SPANPROF_RECORD_ATTR: {
        dr_value *v = DR_PUSH(d, values);
        v->pos = w[1];
        v->kind = (int)flags;
        v->key = dr_site_name(d, argument, offset);
        at = (const unsigned char *)(w + 2);
        if (flags == SPANPROF_VALUE_STR) v->text = dr_text(d, &at, end, offset);
        else memcpy(&v->as, w + 2, 8);
        break;
    }
    case SPANPROF_RECORD_INSTANT: case SPANPROF_RECORD_COUNTER: case SPANPROF_RECORD_ASYNC_BEGIN: case SPANPROF_RECORD_ASYNC_END:
    case SPANPROF_RECORD_FLOW_OUT: case SPANPROF_RECORD_FLOW_IN: {
        dr_mark *m = DR_PUSH(d, marks);
        m->type = type;
        m->lane = lane;
        m->thread = *thread;
        m->ticks = w[1];
        if (type == SPANPROF_RECORD_COUNTER) memcpy(&m->value, w + 2, 8);
        else if (type != SPANPROF_RECORD_INSTANT) m->id = w[2];
        if (type == SPANPROF_RECORD_FLOW_OUT || type == SPANPROF_RECORD_FLOW_IN) m->pos = w[3];
        else m->name = dr_site_name(d, argument, offset);
        break;
    }
    case SPANPROF_RECORD_TRACK_SPAN: {
        dr_track *t = DR_PUSH(d, tracks);
        t->pos = w[1];
        t->track = w[2];
        t->start_ns = w[3];
        t->duration_ns = w[4];
        t->queue_ns = (int64_t)w[5];
        t->name = dr_site_name(d, argument, offset);
        break;
    }
    case SPANPROF_RECORD_SITE: {
        dr_site *s = DR_PUSH(d, sites);
        s->id = argument;
        s->line = (uint32_t)w[1];
        s->address = w[2];
        at = (const unsigned char *)(w + 3);
        s->name = dr_intern(d, dr_text(d, &at, end, offset));
        s->file = dr_intern(d, dr_text(d, &at, end, offset));
        s->function = dr_intern(d, dr_text(d, &at, end, offset));
        break;
    }
    case SPANPROF_RECORD_THREAD_NAME: {
        dr_thread *t = DR_PUSH(d, threads);
        t->id = argument;
        t->system_id = w[1];
        at = (const unsigned char *)(w + 3);
        t->name = dr_text(d, &at, end, offset);
        break;
    }
    case SPANPROF_RECORD_TRACK_NAME: {
        dr_label *l = DR_PUSH(d, labels);
        l->track = w[1];
        l->group = w[2];
        at = (const unsigned char *)(w + 3);
        l->process = dr_text(d, &at, end, offset);
        l->name = dr_text(d, &at, end, offset);
        break;
    }
    default: break;
    }
}

static inline void dr_walk(dr_dump *d, uint32_t lane) {
    const uint64_t per_block = (d->header.block_bytes - d->header.block_header_bytes) / 8;
    size_t k, i;
    for (k = 0; k < d->lanes[lane].count && !d->error[0]; k++) {
        const dr_block *b = &d->lanes[lane].blocks[k];
        uint64_t previous = b->head->base_ticks;
        uint32_t thread = b->head->thread, cycle = b->head->cycle, has_step = b->head->has_step;
        int64_t step = b->head->step;
        for (i = 0; i < b->count && !d->error[0];) {
            const uint64_t w = b->words[i];
            const uint64_t pos = (uint64_t)(d->header.session & 1023u) << (SPANPROF_POS_WORD_BITS + SPANPROF_POS_LANE_BITS) |
                                 (uint64_t)lane << SPANPROF_POS_WORD_BITS | (b->seq * per_block + i);
            const size_t offset = b->offset + d->header.block_header_bytes + 8 * i;
            if (w & 1u) {
                dr_span *s = DR_PUSH(d, spans);
                const uint64_t duration = w >> SPANPROF_SHORT_DURATION_SHIFT;
                s->pos = pos;
                s->start = previous += w >> SPANPROF_SHORT_START_SHIFT & SPANPROF_SHORT_START_MAX;
                if (duration) {
                    s->end = s->start + duration - 1;
                    s->flags = DR_FINISHED;
                }
                s->site = (uint32_t)(w >> SPANPROF_SHORT_SITE_SHIFT) & SPANPROF_SHORT_SITE_MAX;
                s->name = dr_site_name(d, s->site, offset);
                s->lane = lane;
                s->thread = thread;
                s->cycle = cycle;
                s->step = step;
                s->has_step = has_step;
                i++;
                continue;
            }
            if (!w) {
                if (b->head->state == SPANPROF_BLOCK_DONE) dr_fail(d, "empty word in a finished block", offset);
                break;
            }
            if (!SPANPROF_RECORD_WORDS(w) || i + SPANPROF_RECORD_WORDS(w) > b->count) {
                dr_fail(d, "record is longer than its block", offset);
                break;
            }
            dr_record(d, lane, b->words + i, SPANPROF_RECORD_WORDS(w), offset, pos, &previous, &thread, &cycle, &step, &has_step);
            i += SPANPROF_RECORD_WORDS(w);
        }
    }
}

static inline dr_span *dr_span_at(const dr_dump *d, uint64_t pos) {
    dr_span key;
    if (!d->spans_count) return NULL;
    memset(&key, 0, sizeof key);
    key.pos = pos;
    return (dr_span *)bsearch(&key, d->spans, d->spans_count, sizeof key, dr_by_pos);
}

/* Ends that stand apart from their spans, and the nesting of the spans that began and ended on one thread. */
static inline void dr_match(dr_dump *d) {
    uint32_t *stack = (uint32_t *)dr_check(malloc((d->spans_count + 1) * sizeof *stack));
    size_t i, depth = 0;
    if (d->spans_count) qsort(d->spans, d->spans_count, sizeof *d->spans, dr_by_pos);
    for (i = 0; i < d->ends_count; i++) {
        dr_span *s = dr_span_at(d, d->ends[i].pos);
        if (!s || s->flags & DR_FINISHED) {
            d->stray_ends++;
            continue;
        }
        s->end = d->ends[i].ticks;
        s->flags |= DR_FINISHED;
        if (d->ends[i].abandoned) s->flags |= DR_ABANDONED;
        if (d->ends[i].lane != s->lane) s->flags |= DR_FOREIGN_END;
        if (s->flags & DR_FOREIGN_END && s->end < s->start && s->start - s->end <= d->header.ticks_per_second / 100000) s->end = s->start;
        if (s->end < s->start) dr_fail(d, "a span ends before it starts", 0);
    }
    for (i = 0; i < d->metas_count; i++) {
        dr_span *s = dr_span_at(d, d->metas[i].pos);
        if (!s) d->stray_ends++;
        else if (d->metas[i].bits >> 31) s->flags |= DR_HOOKED;
    }
    for (i = 0; i < d->spans_count; i++) {
        dr_span *s = &d->spans[i];
        if (i && (s->lane != d->spans[i - 1].lane || s->thread != d->spans[i - 1].thread)) depth = 0;
        else if (i && s->start < d->spans[i - 1].start) dr_fail(d, "spans are not in the order of their start", 0);
        while (depth && (d->spans[stack[depth - 1]].flags & DR_FINISHED) && d->spans[stack[depth - 1]].end <= s->start) depth--;
        s->parent = depth ? stack[depth - 1] + 1 : 0;
        if (!(s->flags & DR_FOREIGN_END)) stack[depth++] = (uint32_t)i;
    }
    free(stack);
}

static inline dr_dump *dr_load(const char *path) {
    dr_dump *d = (dr_dump *)dr_check(calloc(1, sizeof *d));
    FILE *file = fopen(path, "rb");
    size_t got, room = 1 << 20, lane;
    if (!file) {
        snprintf(d->error, sizeof d->error, "%.200s can't be opened", path);
        return d;
    }
    d->bytes = (unsigned char *)dr_check(malloc(room));
    while ((got = fread(d->bytes + d->size, 1, room - d->size, file)) > 0)
        if ((d->size += got) == room) d->bytes = (unsigned char *)dr_check(realloc(d->bytes, room *= 2));
    fclose(file);
    if (d->size < sizeof d->header) {
        dr_fail(d, "no whole header", d->size);
        return d;
    }
    memcpy(&d->header, d->bytes, sizeof d->header);
    if (memcmp(d->header.magic, SPANPROF_DUMP_MAGIC, 8)) dr_fail(d, "not a dump", 0);
    else if (d->header.endian != SPANPROF_DUMP_ENDIAN) dr_fail(d, "another byte order", 8);
    else if (d->header.version != SPANPROF_DUMP_VERSION) dr_fail(d, "another version", 12);
    else if (d->header.sum != spanprof_dump_sum(&d->header, offsetof(spanprof_dump_header, sum))) dr_fail(d, "header does not match its sum", 0);
    else if (d->header.header_bytes < sizeof d->header || d->header.block_header_bytes < sizeof(spanprof_dump_block) ||
             d->header.block_bytes <= d->header.block_header_bytes)
        dr_fail(d, "sizes in the header are wrong", 16);
    if (d->error[0]) return d;
    dr_collect(d);
    for (lane = 0; lane < d->lane_count && !d->error[0]; lane++) dr_walk(d, (uint32_t)lane);
    dr_match(d);
    return d;
}

static inline void dr_free(dr_dump *d) {
    size_t i, k;
    for (i = 0; i < d->names_count; i++) free(d->names[i]);
    for (i = 0; i < d->threads_count; i++) free(d->threads[i].name);
    for (i = 0; i < d->labels_count; i++) {
        free(d->labels[i].process);
        free(d->labels[i].name);
    }
    for (i = 0; i < d->values_count; i++) free(d->values[i].text);
    for (i = 0; i < d->metas_count; i++)
        for (k = 0; k < SPANPROF_META_COUNT; k++) free(d->metas[i].text[k]);
    for (i = 0; i < d->lane_count; i++) free(d->lanes[i].blocks);
    free(d->lanes);
    free(d->names);
    free(d->sites);
    free(d->threads);
    free(d->labels);
    free(d->spans);
    free(d->values);
    free(d->metas);
    free(d->marks);
    free(d->tracks);
    free(d->ends);
    free(d->bytes);
    free(d);
}

/* ---- queries ---- */

static inline uint64_t dr_spans_of(const dr_dump *d, const char *name, int finished) {
    uint64_t count = 0;
    size_t i;
    for (i = 0; i < d->spans_count; i++)
        if (!!(d->spans[i].flags & DR_FINISHED) == finished && (!name || !strcmp(d->names[d->spans[i].name], name))) count++;
    return count;
}
static inline uint64_t dr_count(const dr_dump *d, const char *name) { return dr_spans_of(d, name, 1); }
static inline uint64_t dr_unfinished(const dr_dump *d, const char *name) { return dr_spans_of(d, name, 0); }

/* The nth span of a name, finished or not; a span of zeros when there is none. */
static inline const dr_span *dr_find(const dr_dump *d, const char *name, size_t nth) {
    static dr_span none;
    size_t i;
    for (i = 0; i < d->spans_count; i++)
        if (!strcmp(d->names[d->spans[i].name], name) && !nth--) return &d->spans[i];
    return &none;
}
static inline const char *dr_name(const dr_dump *d, const dr_span *s) { return s && s->pos ? d->names[s->name] : ""; }
static inline const dr_span *dr_parent(const dr_dump *d, const dr_span *s) { return s && s->parent ? &d->spans[s->parent - 1] : NULL; }
static inline unsigned dr_depth(const dr_dump *d, const dr_span *s) {
    unsigned depth = 0;
    while ((s = dr_parent(d, s)) != NULL) depth++;
    return depth;
}

/* The last attribute of a span (pos 0: of none) under a key, or NULL. */
static inline const dr_value *dr_attr(const dr_dump *d, uint64_t pos, const char *key) {
    size_t i;
    for (i = d->values_count; i-- > 0;)
        if (d->values[i].pos == pos && !strcmp(d->names[d->values[i].key], key)) return &d->values[i];
    return NULL;
}

/* Metadata of a span: the last record that has the member wins. */
static inline int dr_has(const dr_dump *d, const dr_span *s, spanprof_meta_index member) {
    size_t i;
    for (i = d->metas_count; i-- > 0;)
        if (d->metas[i].pos == s->pos && d->metas[i].bits >> member & 1u) return (int)i + 1;
    return 0;
}
static inline const char *dr_meta_text(const dr_dump *d, const dr_span *s, spanprof_meta_index member) {
    const int at = dr_has(d, s, member);
    return at ? d->metas[at - 1].text[member] : NULL;
}
static inline int64_t dr_meta_number(const dr_dump *d, const dr_span *s, spanprof_meta_index member) {
    const int at = dr_has(d, s, member);
    return at ? d->metas[at - 1].number[member] : -999999;
}

static inline const char *dr_thread_name(const dr_dump *d, uint32_t thread) {
    size_t i;
    for (i = d->threads_count; i-- > 0;)
        if (d->threads[i].id == thread) return d->threads[i].name;
    return NULL;
}

/* The nth instant, counter, async or flow record of a type and name (NULL: any); NULL when there is none. */
static inline const dr_mark *dr_mark_of(const dr_dump *d, unsigned type, const char *name, size_t nth) {
    size_t i;
    for (i = 0; i < d->marks_count; i++)
        if (d->marks[i].type == type && (!name || !strcmp(d->names[d->marks[i].name], name)) && !nth--) return &d->marks[i];
    return NULL;
}
static inline uint64_t dr_marks(const dr_dump *d, unsigned type, const char *name) {
    uint64_t count = 0;
    while (dr_mark_of(d, type, name, (size_t)count)) count++;
    return count;
}

/* Events as spanprof_stats counts them. */
static inline uint64_t dr_events(const dr_dump *d) { return d->spans_count + d->marks_count + d->tracks_count; }
static inline uint64_t dr_dropped(const dr_dump *d) {
    uint64_t dropped = d->header.dropped;
    size_t i;
    for (i = 0; i < d->lane_count; i++) dropped += d->lanes[i].dropped;
    return dropped;
}

/* Nanoseconds between two ticks, by the header's first and last anchors. */
static inline double dr_ns(const dr_dump *d, uint64_t from, uint64_t to) {
    const spanprof_dump_anchor *a = &d->header.first, *b = &d->header.last[d->header.last_valid ? d->header.last_valid - 1 : 0];
    double scale = d->header.ticks_per_second ? 1e9 / (double)d->header.ticks_per_second : 1.0;
    if (d->header.last_valid && b->ticks > a->ticks) scale = (double)(b->mono_ns - a->mono_ns) / (double)(b->ticks - a->ticks);
    return (double)(to - from) * scale;
}

#endif
