/* fuzz.h - what the fuzz targets share: the tool without its main, inputs that are files in memory, outputs in memory.
 *
 * A target is one LLVMFuzzerTestOneInput for libFuzzer (tests/fuzz/run.sh builds and runs all). Built with FUZZ_REPLAY it has
 * a main that runs it over the files it is given, for compilers without libFuzzer. SPDX-License-Identifier: MIT */
#ifndef FUZZ_H
#define FUZZ_H

#define _GNU_SOURCE
#define TRACE2SUMMARY_NO_MAIN
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wunused-function"
#elif defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#include "../../tools/trace2summary.c"

#define FUZZ_CHECK(cond)                                                     \
    do {                                                                     \
        if (!(cond)) {                                                       \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);       \
            abort();                                                         \
        }                                                                    \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The bytes as a file that has a path. Two of them at a time. */
static inline const char *fuzz_file(int slot, const uint8_t *data, size_t size) {
    static char path[2][40];
    static int file[2] = { -1, -1 };
    if (file[slot] < 0) file[slot] = memfd_create("fuzz", 0);
    if (file[slot] < 0 || ftruncate(file[slot], 0) != 0 || pwrite(file[slot], data, size, 0) != (ssize_t)size) abort();
    snprintf(path[slot], sizeof path[slot], "/proc/self/fd/%d", file[slot]);
    return path[slot];
}

/* The text is one strict JSON document. */
static inline void fuzz_strict(const char *p, size_t n) {
    textbuf copy = { NULL, 0, 0, false };
    doc d;
    text_put(&copy, p, n);
    text_end(&copy);
    memset(&d, 0, sizeof d);
    d.text = copy.p;
    FUZZ_CHECK(doc_parse(&d, n) || strcmp(d.error, "nested too deep") == 0);
    doc_free(&d);
}

/* Everything that the tool makes of an input, in memory: out[0] the trace, out[1] the summary, the last one the table. 0, or the exit
 * code of an input that gives nothing. */
#define FUZZ_OUTPUTS 7
static inline int fuzz_convert(const char *path, unsigned jobs, args_mode args, textbuf out[FUZZ_OUTPUTS], int *damaged) {
    static const write_function writers[FUZZ_OUTPUTS] = { write_trace, write_summary, write_folded, write_csv, write_svg, write_spans, write_table };
    session s;
    options o;
    int i, status;
    options_default(&o);
    o.quiet = 1;
    o.jobs = jobs;
    o.args = args;
    o.event_timings = 1;
    o.by_process = 1;
    o.trace = o.summary = o.folded = o.csv = o.svg = o.spans = "memory";
    o.inputs = &path;
    o.input_count = 1;
    session_begin(&s, &o);
    status = summarise(&s);
    for (i = 0; i < FUZZ_OUTPUTS; i++) {
        output to;
        memset(&to, 0, sizeof to);
        memset(&out[i], 0, sizeof out[i]);
        if (status) continue;
        to.s = &s;
        to.path = "memory";
        to.fd = OUTPUT_MEMORY;
        writers[i](&s, &to);
        out[i] = to.text;
    }
    *damaged = s.damaged != 0;
    session_end(&s);
    return status;
}
static inline void fuzz_free(textbuf out[FUZZ_OUTPUTS]) {
    int i;
    for (i = 0; i < FUZZ_OUTPUTS; i++) text_free(&out[i]);
}

#ifdef FUZZ_REPLAY
int main(int argc, char **argv) {
    static uint8_t data[1 << 20];
    int i;
    for (i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        size_t n = 0;
        if (!file) return 2;
        n = fread(data, 1, sizeof data, file);
        fclose(file);
        LLVMFuzzerTestOneInput(data, n);
    }
    printf("%d inputs\n", argc - 1);
    return 0;
}
#endif
#endif
