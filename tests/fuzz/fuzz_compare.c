/* fuzz_compare.c - any bytes as two summaries (a zero byte between them): what compare writes is strict JSON, wider tolerances
 * never find more regressions, and a summary has none against itself. SPDX-License-Identifier: MIT */
#include "fuzz.h"

static size_t regressions(compare_options *o, int64_t absolute, int64_t bps) {
    compare_result r;
    textbuf t = { NULL, 0, 0, false };
    size_t n;
    o->absolute = absolute;
    o->relative_bps = bps;
    r = compare_lines(o);
    n = r.counts[VERDICT_REGRESSION];
    compare_table(&t, o, &r);
    t.n = 0;
    compare_json(&t, o, &r, false);
    fuzz_strict(t.p, t.n);
    text_free(&t);
    free(r.list);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const int64_t tolerance[] = { 0, 1, 100, INT64_MAX };
    const uint8_t *split = size ? memchr(data, 0, size) : NULL;
    const size_t first = split ? (size_t)(split - data) : size;
    compare_options o;
    bool good;
    int i, k;
    memset(&o, 0, sizeof o);
    o.metric = compare_metrics[size % 11];
    o.allow_incomplete = size & 1;
    compare_add_file(&o.base, fuzz_file(0, data, first));
    compare_add_file(&o.candidate, split ? fuzz_file(1, split + 1, size - first - 1) : fuzz_file(0, data, first));
    good = compare_load_side(&o.base, &o, NULL);
    if (compare_load_side(&o.candidate, &o, NULL) && good) {
        for (i = 0; i < 3; i++)
            for (k = 0; k < 3; k++) {
                const size_t n = regressions(&o, tolerance[i], tolerance[k]);
                FUZZ_CHECK(regressions(&o, tolerance[i + 1], tolerance[k]) <= n && regressions(&o, tolerance[i], tolerance[k + 1]) <= n);
                if (!split) FUZZ_CHECK(n == 0);
            }
    }
    compare_free_side(&o.base);
    compare_free_side(&o.candidate);
    return 0;
}
