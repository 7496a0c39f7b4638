/* fuzz_inflate.c - gzip input in pieces of any size gives the same as in one piece. SPDX-License-Identifier: MIT */
#include "fuzz.h"

enum { FUZZ_MOST = 4000000 };
typedef struct { const uint8_t *p; size_t left, piece; } memory;

static size_t take(void *user, unsigned char *buf, size_t n) {
    memory *m = user;
    if (n > m->piece) n = m->piece;
    if (n > m->left) n = m->left;
    memcpy(buf, m->p, n);
    m->p += n;
    m->left -= n;
    return n;
}

static uint64_t decode(gz *z, const uint8_t *data, size_t size, size_t piece, size_t want, uint64_t *length) {
    static unsigned char buf[70000];
    memory m = { data, size, piece };
    uint64_t hash = 1;
    size_t n, i;
    gz_open(z, take, &m);
    *length = 0;
    while (*length < FUZZ_MOST && (n = gz_read(z, buf, want)) != 0) {
        for (i = 0; i < n; i++) hash = (hash ^ buf[i]) * UINT64_C(1099511628211);
        *length += n;
    }
    return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static gz a, b;
    uint64_t la, lb, ha, hb;
    if (size < 1) return 0;
    ha = decode(&a, data + 1, size - 1, SIZE_MAX, 65536, &la);
    hb = decode(&b, data + 1, size - 1, 1u + data[0] % 13u, 1u + data[0] * 7u, &lb);
    if (la < FUZZ_MOST && lb < FUZZ_MOST) {
        FUZZ_CHECK(la == lb && ha == hb && a.error == b.error && a.error_offset == b.error_offset);
        FUZZ_CHECK(!a.error || a.error_offset <= size - 1);
    }
    return 0;
}
