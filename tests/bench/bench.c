/* bench.c - what recording and converting cost, against the budgets. bench BUILD [quick]
 *
 * Everything is measured in one run, interleaved, and told as medians and as ratios to a floor taken in the same round: an
 * absolute time on a shared machine is worth little. The floor f0 of a span is two reads of the time stamp counter. A warm-up
 * file is written first. Nothing here fails a build: a budget that is missed says so in its line, and the exit status is 0.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS_MAX = 15, TREE_DEPTH = 19 }; /* the tree is 20 calls deep and has 2^20 - 1 spans */

static const char *build;
static char file[512];
static int rounds = 11;
static long flat_spans = 4000000, off_spans = 40000000, stall_spans = 100000000, convert_spans = 20000000, trace_spans = 8000000;
static int first_cpu = -1, second_cpu = -1;

static double seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static inline uint64_t ticks(void) {
#if defined(__x86_64__) || defined(__i386__)
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
#elif defined(__aarch64__)
    uint64_t value;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
#else
    return spanprof_i_monotonic_ns();
#endif
}

static void pin(int cpu) {
    cpu_set_t set;
    if (cpu < 0) return;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    if (pthread_setaffinity_np(pthread_self(), sizeof set, &set)) perror("bench: affinity");
}

/* ---- the loops ---- */

static __thread uint64_t accumulated;

__attribute__((noinline)) static long floor_flat(long count) {
    long i;
    for (i = 0; i < count; i++) {
        accumulated -= ticks();
        __asm__ volatile("" ::: "memory");
        accumulated += ticks();
    }
    return count;
}
__attribute__((noinline)) static long spans_flat(long count) {
    long i;
    for (i = 0; i < count; i++) {
        SPANPROF_SPAN("flat");
        __asm__ volatile("" ::: "memory");
    }
    return count;
}
__attribute__((noinline)) static long empty_flat(long count) {
    long i;
    for (i = 0; i < count; i++) __asm__ volatile("" ::: "memory");
    return count;
}
__attribute__((noinline)) static long floor_tree(long depth) {
    long spans = 1;
    accumulated -= ticks();
    if (depth) {
        spans += floor_tree(depth - 1);
        spans += floor_tree(depth - 1);
    }
    __asm__ volatile("" : "+r"(spans));
    accumulated += ticks();
    return spans;
}
__attribute__((noinline)) static long spans_tree(long depth) {
    SPANPROF_SPAN("tree");
    long spans = 1;
    if (depth) {
        spans += spans_tree(depth - 1);
        spans += spans_tree(depth - 1);
    }
    __asm__ volatile("" : "+r"(spans));
    return spans;
}

/* ---- one sample: ns a span ---- */

static void session(spanprof_mode mode, const char *name) {
    spanprof_config config;
    memset(&config, 0, sizeof config);
    snprintf(file, sizeof file, "%s/bench/files/%s", build, name);
    config.path = file;
    config.mode = mode;
    if (spanprof_start(&config) != SPANPROF_OK) exit(1);
}

static double per_span(long (*loop)(long), long argument) {
    const double from = seconds();
    const long spans = loop(argument);
    return (seconds() - from) * 1e9 / (double)spans;
}

static double recorded(long (*loop)(long), long argument, spanprof_mode mode, double *bytes) {
    spanprof_session_stats stats;
    double ns;
    session(mode, "bench.dump");
    loop == spans_tree ? spans_tree(6) : loop(1000);
    ns = per_span(loop, argument);
    spanprof_stats(&stats);
    spanprof_stop();
    spanprof_stats(&stats);
    if (stats.dropped) fprintf(stderr, "bench: %llu events dropped\n", (unsigned long long)stats.dropped);
    if (bytes) *bytes = (double)stats.bytes / (double)stats.recorded;
    remove(file);
    return ns;
}

typedef struct { pthread_barrier_t *start; long (*loop)(long); long argument; double ns; int cpu; } worker;
static void *work(void *argument) {
    worker *w = argument;
    pin(w->cpu);
    w->loop(w->loop == spans_tree || w->loop == floor_tree ? 6 : 1000);
    pthread_barrier_wait(w->start);
    w->ns = per_span(w->loop, w->argument);
    return NULL;
}

/* Both cores at once; the slower of the two. */
static double on_two(long (*loop)(long), long argument) {
    pthread_barrier_t start;
    pthread_t thread[2];
    worker w[2];
    int i;
    pthread_barrier_init(&start, NULL, 2);
    for (i = 0; i < 2; i++) {
        w[i].start = &start;
        w[i].loop = loop;
        w[i].argument = argument;
        w[i].cpu = i ? second_cpu : first_cpu;
        if (pthread_create(&thread[i], NULL, work, &w[i])) exit(1);
    }
    for (i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&start);
    return w[0].ns > w[1].ns ? w[0].ns : w[1].ns;
}

static double recorded_on_two(long (*loop)(long), long argument) {
    double ns;
    session(SPANPROF_MODE_STREAM, "bench2.dump");
    ns = on_two(loop, argument);
    spanprof_stop();
    remove(file);
    return ns;
}

/* ---- medians and the table ---- */

typedef struct { double value[ROUNDS_MAX]; int count; } series;

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
static double median(const series *s) {
    double sorted[ROUNDS_MAX];
    memcpy(sorted, s->value, sizeof sorted);
    qsort(sorted, (size_t)s->count, sizeof *sorted, by_value);
    return s->count ? sorted[s->count / 2] : 0;
}
static void add(series *s, double value) {
    if (s->count < ROUNDS_MAX) s->value[s->count++] = value;
}

static void head(const char *what) { printf("\n%-52s %14s  %-22s %s\n", what, "measured", "budget", ""); }
/* at_most 1: the value may not exceed the budget, 0: not fall below it; -1: no budget. */
static void row(const char *what, double value, const char *unit, int at_most, double budget, const char *note) {
    char text[48] = "";
    const char *verdict = "";
    if (at_most >= 0) {
        snprintf(text, sizeof text, "%s %g %s", at_most ? "<=" : ">=", budget, unit);
        verdict = (at_most ? value <= budget : value >= budget) ? "ok" : "MISSED";
    }
    printf("%-52s %9.4g %-5s %-22s %-6s %s\n", what, value, unit, text, verdict, note);
    fflush(stdout);
}

/* ---- recording ---- */

static void warm_up(void) {
    static char zeros[1 << 20];
    char path[512];
    FILE *out;
    int i;
    snprintf(path, sizeof path, "%s/bench/files/warm-up", build);
    out = fopen(path, "wb");
    for (i = 0; out && i < 512; i++) fwrite(zeros, 1, sizeof zeros, out);
    if (out) fclose(out);
    remove(path);
}

static void recording(void) {
    static series f0, flat, tree0, tree, two0, two, two_flat, ring, off, off_library, flat_ns, tree_ns;
    void (*library_spans)(long) = NULL, (*library_empty)(long) = NULL;
    double bytes = 0, bytes_tree = 0;
    char note[96], path[512];
    void *library;
    int i;
    snprintf(path, sizeof path, "%s/bench/library.so", build);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library) {
        void *symbol = dlsym(library, "library_spans");
        memcpy(&library_spans, &symbol, sizeof symbol);
        symbol = dlsym(library, "library_empty");
        memcpy(&library_empty, &symbol, sizeof symbol);
    } else {
        fprintf(stderr, "bench: %s\n", dlerror());
    }
    for (i = 0; i < rounds; i++) {
        const double floor_ns = per_span(floor_flat, flat_spans), span_ns = recorded(spans_flat, flat_spans, SPANPROF_MODE_STREAM, &bytes);
        const double tree_floor = per_span(floor_tree, TREE_DEPTH), tree_span = recorded(spans_tree, TREE_DEPTH, SPANPROF_MODE_STREAM, &bytes_tree);
        add(&f0, floor_ns);
        add(&flat_ns, span_ns);
        add(&flat, span_ns / floor_ns);
        add(&tree0, tree_floor);
        add(&tree_ns, tree_span);
        add(&tree, tree_span / tree_floor);
        add(&ring, recorded(spans_flat, flat_spans, SPANPROF_MODE_RING, NULL) / floor_ns);
        if (second_cpu >= 0) {
            const double floor_two = on_two(floor_flat, flat_spans), ns = recorded_on_two(spans_flat, flat_spans);
            add(&two0, floor_two);
            add(&two, ns / span_ns);
            add(&two_flat, ns / floor_two);
        }
        {
            const double empty = per_span(empty_flat, off_spans), with = per_span(spans_flat, off_spans);
            add(&off, with - empty);
        }
        if (library_spans && library_empty) {
            double from = seconds(), empty;
            library_empty(off_spans);
            empty = seconds() - from;
            from = seconds();
            library_spans(off_spans);
            add(&off_library, (seconds() - from - empty) * 1e9 / (double)off_spans);
        }
    }
    head("recording");
    row("f0: two reads of the time stamp counter", median(&f0), "ns", -1, 0, "");
    snprintf(note, sizeof note, "%.1f ns", median(&flat_ns));
    row("recorded span, flat, 1 thread", median(&flat), "x f0", 1, 1.15, note);
    snprintf(note, sizeof note, "%.1f ns; its f0 in the same calls: %.1f ns", median(&tree_ns), median(&tree0));
    row("recorded span, tree 20 deep, 1 thread", median(&tree), "x f0", 1, 1.15, note);
    if (second_cpu >= 0) {
        /* Each against its own f0, as a shared machine gives two threads less than twice what it gives one. */
        snprintf(note, sizeof note, "plainly %.2f x; f0 on both cores: %.1f ns", median(&two), median(&two0));
        row("2 threads on 2 cores, against 1", median(&two_flat) / median(&flat), "x", 1, 1.10, note);
    }
    row("ring mode, flat, 1 thread", median(&ring), "x f0", 1, 1.15, "");
    row("off at run time, in an executable", median(&off), "ns", 1, 0.5, "");
    if (library) row("off at run time, in a shared library", median(&off_library), "ns", 1, 1, "");
    row("bytes a span, flat", bytes, "B", 1, 9, "");
    row("bytes a span, tree", bytes_tree, "B", 1, 9, "");
}

/* The longest time from one span of a long run to the next; what the system itself takes away shows in the floor's. */
static void stalls(void) {
    uint64_t worst = 0, worst_floor = 0, before, from_ticks;
    double from, hz;
    char note[96];
    long i;
    before = ticks();
    for (i = 0; i < stall_spans / 4; i++) {
        uint64_t now;
        floor_flat(1);
        now = ticks();
        if (now - before > worst_floor) worst_floor = now - before;
        before = now;
    }
    sync(); /* a quiet disk: what the runs before this one wrote is not its matter */
    session(SPANPROF_MODE_STREAM, "stall.dump");
    spans_flat(1000);
    from = seconds();
    from_ticks = before = ticks();
    for (i = 0; i < stall_spans; i++) {
        uint64_t now;
        {
            SPANPROF_SPAN("stall");
            __asm__ volatile("" ::: "memory");
        }
        now = ticks();
        if (now - before > worst) worst = now - before;
        before = now;
    }
    hz = (double)(before - from_ticks) / (seconds() - from);
    spanprof_stop();
    remove(file);
    snprintf(note, sizeof note, "%ld M spans; without recording: %.2f ms", stall_spans / 1000000, (double)worst_floor / hz * 1e3);
    row("worst stall", (double)worst / hz * 1e3, "ms", 1, 2, note);
}

/* ---- conversion ---- */

/* Seconds that a command takes; the least of three. What it makes (NULL: nothing) is removed before each: who writes beside
 * an old file would pay for fresh memory, who writes over it for its freeing. */
static double command(const char *format, const char *a, const char *b, const char *makes) {
    char text[2048];
    double best = 0;
    int i;
    snprintf(text, sizeof text, format, a, b);
    for (i = 0; i < 3; i++) {
        double from, took;
        if (makes) remove(makes);
        from = seconds();
        if (system(text)) {
            fprintf(stderr, "bench: failed: %s\n", text);
            return 0;
        }
        took = seconds() - from;
        if (!i || took < best) best = took;
    }
    return best;
}

static double size_of(const char *path) {
    struct stat status;
    return stat(path, &status) ? 0 : (double)status.st_size;
}

/* A dump like a program's: nested, flat, with pauses. */
static void dump_of(const char *name, long spans) {
    session(SPANPROF_MODE_STREAM, name);
    while (spans > 0) spans -= spans_tree(10) + spans_flat(2000);
    spanprof_stop();
}

static void conversion(void) {
    char tool[600], dump[600], small[600], json[600], copy[600], note[128], line[1400];
    double took, bytes, cat;
    dump_of("convert.dump", convert_spans);
    dump_of("trace.dump", trace_spans);
    snprintf(tool, sizeof tool, "%s/trace2summary", build);
    snprintf(dump, sizeof dump, "%s/bench/files/convert.dump", build);
    snprintf(small, sizeof small, "%s/bench/files/trace.dump", build);
    snprintf(json, sizeof json, "%s/bench/files/trace.json", build);
    snprintf(copy, sizeof copy, "%s/bench/files/copy.json", build);
    head("conversion");
    bytes = size_of(dump);
    took = command("%s -q --no-table --jobs 1 -s /dev/null %s", tool, dump, NULL);
    snprintf(note, sizeof note, "%.0f MB/s of dump", bytes / took * 1e-6);
    row("summary from a dump, 1 core", (double)convert_spans / took * 1e-6, "M/s", 0, 80, note);
    cat = command("cat %s >%s", dump, copy, copy);
    snprintf(note, sizeof note, "cat of the dump: %.0f MB/s", bytes / cat * 1e-6);
    took = command("%s -q --no-table -s /dev/null %s", tool, dump, NULL);
    row("summary from a dump, all cores", (double)convert_spans / took * 1e-6, "M/s", -1, 0, note);

    snprintf(line, sizeof line, "%%s -q --no-table --jobs 1 -t %s %%s", json);
    took = command(line, tool, small, json);
    bytes = size_of(json);
    snprintf(note, sizeof note, "%.0f MB/s, %.0f bytes a span", bytes / took * 1e-6, bytes / (double)trace_spans);
    row("trace JSON from a dump, 1 core", (double)trace_spans / took * 1e-6, "M/s", 0, 15, note);
    cat = command("cat %s >%s", json, copy, copy);
    snprintf(note, sizeof note, "cat: %.0f MB/s", bytes / cat * 1e-6);
    row("trace JSON, 1 core, against cat of the same bytes", took / cat, "x", -1, 0, note);
    snprintf(line, sizeof line, "%%s -q --no-table -t %s %%s", json);
    took = command(line, tool, small, json);
    snprintf(note, sizeof note, "%.1f M spans/s", (double)trace_spans / took * 1e-6);
    row("trace JSON, all cores, against cat", took / cat, "x", 1, 2, note);

    took = command("%s -q --no-table --jobs 1 -s /dev/null %s", tool, json, NULL);
    row("foreign JSON in, 1 core", bytes / took * 1e-6, "MB/s", 0, 500, "");
    remove(dump);
    remove(small);
    remove(json);
    remove(copy);
}

/* ---- compiling ---- */

static void header(void) {
    char plain[600], with[600], line[2048];
    const char *cc = getenv("CC");
    series base = { { 0 }, 0 }, cost = { { 0 }, 0 };
    FILE *out;
    int i;
    snprintf(plain, sizeof plain, "%s/bench/files/plain.c", build);
    snprintf(with, sizeof with, "%s/bench/files/with.c", build);
    out = fopen(plain, "w");
    if (out) {
        fputs("int x;\n", out);
        fclose(out);
    }
    out = fopen(with, "w");
    if (out) {
        fputs("#include \"spanprof.h\"\nint x;\n", out);
        fclose(out);
    }
    snprintf(line, sizeof line, "%s -O2 -I. -c %%s -o %%s.o", cc && *cc ? cc : "cc");
    for (i = 0; i < 5; i++) {
        const double empty = command(line, plain, plain, NULL);
        add(&base, empty * 1e3);
        add(&cost, (command(line, with, with, NULL) - empty) * 1e3);
    }
    head("compiling");
    snprintf(line, sizeof line, "an empty file: %.1f ms", median(&base));
    row("including spanprof.h", median(&cost), "ms", 1, 20, line);
}

int main(int argc, char **argv) {
    cpu_set_t set;
    int cpu;
    if (argc < 2) {
        fputs("usage: bench BUILD [quick]\n", stderr);
        return 2;
    }
    build = argv[1];
    if (argc > 2 && !strcmp(argv[2], "quick")) {
        rounds = 3;
        flat_spans /= 4;
        off_spans /= 4;
        stall_spans /= 20;
        convert_spans /= 10;
        trace_spans /= 8;
    }
    if (!sched_getaffinity(0, sizeof set, &set))
        for (cpu = CPU_SETSIZE; cpu-- > 0;)
            if (CPU_ISSET((size_t)cpu, &set)) {
                if (first_cpu < 0) first_cpu = cpu;
                else if (second_cpu < 0) second_cpu = cpu;
            }
    setenv("SPANPROF_OUT", "/nonexistent", 1); /* nothing is recorded but in the sessions below */
    unsetenv("SPANPROF");
    warm_up();
    pin(first_cpu);
    recording();
    stalls();
    if (!sched_setaffinity(0, sizeof set, &set)) conversion();
    header();
    return 0;
}
