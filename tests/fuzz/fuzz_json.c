/* fuzz_json.c - any bytes as Trace Event JSON: the size of the reader's buffer and the number of threads change nothing, what
 * comes out is strict JSON, and the trace that it gives is read back to the same figures. SPDX-License-Identifier: MIT */
#include <stddef.h>
static size_t fuzz_chunk = 1 << 16;
#define JSON_CHUNK fuzz_chunk
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    textbuf a[FUZZ_OUTPUTS], b[FUZZ_OUTPUTS];
    int damaged[2], status[2], i;
    const char *path;
    if (size >= 8 && memcmp(data, SPANPROF_DUMP_MAGIC, 8) == 0) return 0;
    path = fuzz_file(0, data, size);
    fuzz_chunk = 1 << 16;
    status[0] = fuzz_convert(path, 1, ARGS_SET, a, &damaged[0]);
    fuzz_chunk = 16;
    status[1] = fuzz_convert(path, 1, ARGS_SET, b, &damaged[1]);
    FUZZ_CHECK(status[0] == status[1] && damaged[0] == damaged[1]);
    if (!status[0]) {
        for (i = 0; i < FUZZ_OUTPUTS; i++) FUZZ_CHECK(a[i].n == b[i].n && (!a[i].n || memcmp(a[i].p, b[i].p, a[i].n) == 0));
        fuzz_strict(a[0].p, a[0].n);
        fuzz_strict(a[1].p, a[1].n);
    }
    fuzz_free(a);
    fuzz_free(b);
    fuzz_chunk = 1 << 16;
    json_kind_of(path);
    return 0;
}
