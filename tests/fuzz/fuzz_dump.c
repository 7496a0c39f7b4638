/* fuzz_dump.c - dumps of any content. A dump's sums would stop most mutations at the door, so the input is a recipe:
 *
 *     byte 0        bit 0: the rest is the dump itself, sums and all; bit 1: the sums are left wrong
 *     bytes 1-3     how many (0 to 7) patches of the header follow, of 2 bytes place and 8 bytes value; clock; flags
 *     then blocks   state, lane, seq, words (of 8 bytes, that follow), number of patches of the block's header, and these
 *
 * Two thread counts give the same outputs, and all JSON is strict. SPDX-License-Identifier: MIT */
#include "fuzz.h"

enum { FUZZ_BLOCK = 4096, FUZZ_HEADER = 4096, FUZZ_BLOCKS = 40 };

typedef struct { const uint8_t *p; size_t left; } bytes;
static uint64_t take(bytes *b, size_t n) {
    uint64_t v = 0;
    if (n > b->left) n = b->left;
    memcpy(&v, b->p, n);
    b->p += n;
    b->left -= n;
    return v;
}

static void patch(bytes *b, unsigned char *at, size_t room, uint64_t count) {
    while (count-- && b->left) {
        const size_t place = (size_t)take(b, 2) % (room - 7);
        const uint64_t value = take(b, 8);
        memcpy(at + place, &value, 8);
    }
}

static size_t make_dump(bytes *b, unsigned char *out) {
    spanprof_dump_header h;
    const uint64_t mode = take(b, 1), patches = take(b, 1) & 7;
    size_t n = FUZZ_HEADER;
    int i;
    memset(&h, 0, sizeof h);
    memcpy(h.magic, SPANPROF_DUMP_MAGIC, 8);
    h.endian = SPANPROF_DUMP_ENDIAN;
    h.version = SPANPROF_DUMP_VERSION;
    h.header_bytes = FUZZ_HEADER;
    h.block_bytes = FUZZ_BLOCK;
    h.block_header_bytes = SPANPROF_BLOCK_HEADER_BYTES;
    h.clock = take(b, 1) & 1 ? SPANPROF_CLOCK_MONOTONIC : SPANPROF_CLOCK_TSC;
    h.flags = (uint32_t)take(b, 1) & 15;
    h.session = 1;
    h.rank = -1;
    h.pid = 7;
    h.process_key = 7;
    h.ring_blocks = h.flags & SPANPROF_DUMP_RING ? 4 : 0;
    h.first.ticks = h.first.mono_ns = h.first.real_ns = 1000000;
    h.ticks_per_second = 1000000000;
    h.last_valid = 1;
    h.last[0].ticks = h.last[0].mono_ns = h.last[0].real_ns = 2000000;
    h.blocks = FUZZ_BLOCKS;
    h.lanes = 8;
    memset(out, 0, FUZZ_HEADER + FUZZ_BLOCKS * FUZZ_BLOCK);
    memcpy(out, &h, sizeof h);
    patch(b, out, sizeof h, patches);
    memcpy(&h, out, sizeof h);
    if (!(mode & 2)) h.sum = spanprof_dump_sum(&h, offsetof(spanprof_dump_header, sum));
    memcpy(out, &h, sizeof h);
    for (i = 0; i < FUZZ_BLOCKS && b->left; i++) {
        unsigned char *at = out + n;
        spanprof_dump_block k;
        uint64_t words, place;
        memset(&k, 0, sizeof k);
        k.magic = SPANPROF_BLOCK_MAGIC;
        k.state = (uint32_t)take(b, 1) % 5;
        k.lane = (uint32_t)take(b, 1) & 7;
        k.seq = take(b, 1);
        k.base_ticks = k.base_ns = 1000000 + k.seq * 1000;
        k.thread = k.lane;
        words = take(b, 1) % ((FUZZ_BLOCK - sizeof k) / 8 + 1);
        k.words = k.state == SPANPROF_BLOCK_DONE ? (uint32_t)words : 0;
        memcpy(at, &k, sizeof k);
        patch(b, at, sizeof k, take(b, 1) & 3);
        memcpy(&k, at, sizeof k);
        if (!(mode & 2)) k.sum = spanprof_dump_sum(&k, offsetof(spanprof_dump_block, sum));
        memcpy(at, &k, sizeof k);
        for (place = 0; place < words && b->left; place++) {
            const uint64_t word = take(b, 8);
            memcpy(at + sizeof k + place * 8, &word, 8);
        }
        n += FUZZ_BLOCK;
    }
    if (mode & 4) n -= (size_t)mode * 7;
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static unsigned char dump[FUZZ_HEADER + FUZZ_BLOCKS * FUZZ_BLOCK];
    textbuf a[FUZZ_OUTPUTS], b[FUZZ_OUTPUTS];
    int damaged[2], status[2], i;
    const char *path;
    bytes input = { data, size };
    if (size < 4) return 0;
    if (data[0] & 1) path = fuzz_file(0, data + 1, size - 1);
    else path = fuzz_file(0, dump, make_dump(&input, dump));
    status[0] = fuzz_convert(path, 1, ARGS_FULL, a, &damaged[0]);
    if (!status[0]) {
        fuzz_strict(a[0].p, a[0].n);
        fuzz_strict(a[1].p, a[1].n);
        status[1] = fuzz_convert(path, 3, ARGS_FULL, b, &damaged[1]);
        FUZZ_CHECK(status[0] == status[1] && damaged[0] == damaged[1]);
        for (i = 0; i < FUZZ_OUTPUTS; i++) FUZZ_CHECK(a[i].n == b[i].n && (!a[i].n || memcmp(a[i].p, b[i].p, a[i].n) == 0));
        fuzz_free(b);
    }
    fuzz_free(a);
    return 0;
}
