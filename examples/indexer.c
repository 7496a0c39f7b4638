/* indexer.c - a real program under the profiler: indexes the identifiers of a folder of C and C++ sources with worker
 * threads, and writes a list of them with their counts.
 *
 *     indexer [--threads N] [--files N] [--index FILE] [--slow N] [FOLDER]
 *
 * FOLDER is searched with what lies below it; without one, the system's C headers (/usr/include), else the current folder.
 * --threads (2) workers; --files (3000) stops the search after so many; --index (indexer.idx) is the output; --slow repeats
 * the tokenizer N times, to have something for a regression gate to find. Exit status: 0, 1 failed, 2 wrong usage.
 *
 *     cc -O2 -I.. indexer.c -o indexer -pthread && SPANPROF=1 ./indexer && trace2summary spanprof.dump
 *
 * What it shows: named threads, nested spans, metadata (phase and module), attributes, a counter.
 *
 *     main       indexer > scan, index (waits for the workers), merge > merge.worker, sort, write
 *     worker N   file > read, tokenize, count
 *
 * SPDX-License-Identifier: MIT */
#ifndef _WIN32
#define _GNU_SOURCE /* lstat, in strict C99 too */
#endif
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { THREADS_MAX = 64, DEPTH_MAX = 16, FILE_BYTES_MAX = 4 << 20 };

static void *checked(void *memory) {
    if (!memory) {
        fputs("indexer: out of memory\n", stderr);
        exit(1);
    }
    return memory;
}

/* ---- counts of words: open addressing, the words in one growing text ---- */

typedef struct { uint32_t hash, word, length, count, files, last_file; } entry;
typedef struct {
    entry *entries; /* count 0: free */
    size_t used, room;
    char *text;
    size_t text_used, text_room;
} table;

static uint32_t hash_of(const char *word, size_t length) {
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < length; i++) h = (h ^ (unsigned char)word[i]) * 16777619u;
    return h;
}

static entry *table_slot(const table *t, uint32_t hash, const char *word, size_t length) {
    size_t at = hash & (t->room - 1);
    while (t->entries[at].count) {
        const entry *e = &t->entries[at];
        if (e->hash == hash && e->length == length && !memcmp(t->text + e->word, word, length)) break;
        at = (at + 1) & (t->room - 1);
    }
    return &t->entries[at];
}

static void table_grow(table *t) {
    entry *old = t->entries;
    const size_t room = t->room;
    t->room = room ? 2 * room : 4096;
    t->entries = checked(calloc(t->room, sizeof *t->entries));
    for (size_t i = 0; i < room; i++)
        if (old[i].count) *table_slot(t, old[i].hash, t->text + old[i].word, old[i].length) = old[i];
    free(old);
}

/* The entry of a word, new or not; its counts are the caller's to raise. */
static entry *table_at(table *t, uint32_t hash, const char *word, size_t length) {
    if (4 * t->used >= 3 * t->room) table_grow(t);
    entry *e = table_slot(t, hash, word, length);
    if (!e->count) {
        if (t->text_used + length > t->text_room) t->text = checked(realloc(t->text, t->text_room = 2 * t->text_room + length + 65536));
        memcpy(t->text + t->text_used, word, length);
        *e = (entry){ hash, (uint32_t)t->text_used, (uint32_t)length, 0, 0, 0 };
        t->text_used += length;
        t->used++;
    }
    return e;
}

static void table_free(table *t) {
    free(t->entries);
    free(t->text);
}

/* ---- the files ---- */

static char **paths;
static size_t path_count, path_room, path_limit = 3000;

static int is_source(const char *name) {
    static const char *const endings[] = { ".c", ".h", ".cc", ".hh", ".cpp", ".hpp", ".cxx", ".hxx" };
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        if (!strcmp(dot, endings[i])) return 1;
    return 0;
}

static int stat_of(const char *path, struct stat *status) {
#ifdef _WIN32
    return stat(path, status);
#else
    return lstat(path, status); /* no links, so no circles */
#endif
}

/* 0: the folder could not be opened. */
static int scan(const char *folder, int depth) {
    DIR *dir = opendir(folder);
    if (!dir) return 0;
    for (struct dirent *item; path_count < path_limit && (item = readdir(dir)) != NULL;) {
        struct stat status;
        if (item->d_name[0] == '.') continue;
        char *path = checked(malloc(strlen(folder) + strlen(item->d_name) + 2));
        sprintf(path, "%s/%s", folder, item->d_name);
        const int known = !stat_of(path, &status);
        if (known && S_ISREG(status.st_mode) && status.st_size <= FILE_BYTES_MAX && is_source(item->d_name)) {
            if (path_count == path_room) paths = checked(realloc(paths, (path_room = 2 * path_room + 256) * sizeof *paths));
            paths[path_count++] = path;
            continue;
        }
        if (known && S_ISDIR(status.st_mode) && depth < DEPTH_MAX) scan(path, depth + 1);
        free(path);
    }
    closedir(dir);
    return 1;
}

static int by_path(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* ---- the workers ---- */

typedef struct { uint32_t at, length; } token;
typedef struct {
    pthread_t thread;
    int number;
    table words;
    char *text; /* of the current file */
    size_t text_room;
    token *tokens;
    size_t token_count, token_room;
    uint64_t bytes, identifiers, unreadable;
} worker;

static pthread_mutex_t next_mutex = PTHREAD_MUTEX_INITIALIZER;
static size_t next_path;
static int slow = 1;

static int read_file(worker *w, const char *path, size_t *length) {
    SPANPROF_SPAN_META("read", .phase = "input", .module = "file");
    FILE *file = fopen(path, "rb");
    *length = 0;
    if (!file) return 0;
    for (size_t got = 1; got; *length += got) {
        if (*length == w->text_room) w->text = checked(realloc(w->text, w->text_room = 2 * w->text_room + 65536));
        got = fread(w->text + *length, 1, w->text_room - *length, file);
    }
    const int good = !ferror(file);
    fclose(file);
    SPANPROF_ATTR_U64("bytes", *length);
    return good;
}

/* Finds the identifiers; leaves out comments, strings and numbers. */
static void tokenize(worker *w, size_t length) {
    SPANPROF_SPAN_META("tokenize", .phase = "index", .module = "tokenizer");
    const char *p = w->text, *const end = w->text + length;
    w->token_count = 0;
    while (p < end) {
        const unsigned char c = (unsigned char)*p;
        if (isalpha(c) || c == '_') {
            const char *from = p;
            while (p < end && (isalnum((unsigned char)*p) || *p == '_')) p++;
            if (w->token_count == w->token_room) w->tokens = checked(realloc(w->tokens, (w->token_room = 2 * w->token_room + 4096) * sizeof *w->tokens));
            w->tokens[w->token_count++] = (token){ (uint32_t)(from - w->text), (uint32_t)(p - from) };
        } else if (isdigit(c)) {
            while (p < end && (isalnum((unsigned char)*p) || *p == '.')) p++;
        } else if (c == '/' && p + 1 < end && p[1] == '/') {
            while (p < end && *p != '\n') p++;
        } else if (c == '/' && p + 1 < end && p[1] == '*') {
            for (p += 2; p < end && !(p[0] == '/' && p[-1] == '*'); p++) {}
            p += p < end;
        } else if (c == '"' || c == '\'') {
            for (p++; p < end && *p != (char)c && *p != '\n'; p++)
                if (*p == '\\' && p + 1 < end) p++;
            p += p < end;
        } else {
            p++;
        }
    }
    SPANPROF_ATTR_U64("identifiers", w->token_count);
}

static void count(worker *w, uint32_t file) {
    SPANPROF_SPAN_META("count", .phase = "index", .module = "table");
    for (size_t i = 0; i < w->token_count; i++) {
        const char *word = w->text + w->tokens[i].at;
        const size_t length = w->tokens[i].length;
        entry *e = table_at(&w->words, hash_of(word, length), word, length);
        e->count++;
        if (e->last_file != file + 1) {
            e->last_file = file + 1;
            e->files++;
        }
    }
    w->identifiers += w->token_count;
}

static void *work(void *argument) {
    worker *w = argument;
    char name[32];
    snprintf(name, sizeof name, "worker %d", w->number);
    SPANPROF_THREAD_NAME(name);
    for (;;) {
        pthread_mutex_lock(&next_mutex);
        const size_t at = next_path < path_count ? next_path++ : path_count;
        pthread_mutex_unlock(&next_mutex);
        if (at == path_count) break;
        SPANPROF_SPAN_META("file", .phase = "index", .module = "worker");
        SPANPROF_ATTR_STR("path", paths[at]);
        size_t length;
        if (!read_file(w, paths[at], &length)) {
            w->unreadable++;
            SPANPROF_INSTANT("unreadable");
            continue;
        }
        w->bytes += length;
        for (int i = 0; i < slow; i++) tokenize(w, length);
        count(w, (uint32_t)at);
        SPANPROF_COUNTER("files.taken", at + 1);
    }
    free(w->text);
    free(w->tokens);
    return NULL;
}

/* ---- the index ---- */

static const table *sorting;
static int by_count(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->count != y->count) return x->count < y->count ? 1 : -1;
    const size_t shorter = x->length < y->length ? x->length : y->length;
    const int order = memcmp(sorting->text + x->word, sorting->text + y->word, shorter);
    return order ? order : x->length < y->length ? -1 : x->length > y->length;
}

static void merge(table *all, worker *workers, int threads) {
    SPANPROF_SPAN_META("merge", .phase = "merge", .module = "table");
    for (int i = 0; i < threads; i++) {
        SPANPROF_SPAN_META("merge.worker", .phase = "merge", .module = "table");
        const table *from = &workers[i].words;
        for (size_t k = 0; k < from->room; k++) {
            const entry *e = &from->entries[k];
            if (!e->count) continue;
            entry *to = table_at(all, e->hash, from->text + e->word, e->length);
            to->count += e->count;
            to->files += e->files;
        }
        table_free(&workers[i].words);
    }
}

/* Leaves the entries packed and in order; the table can't be searched any more. */
static void sort(table *all) {
    SPANPROF_SPAN_META("sort", .phase = "merge", .module = "table");
    size_t kept = 0;
    for (size_t i = 0; i < all->room; i++)
        if (all->entries[i].count) all->entries[kept++] = all->entries[i];
    sorting = all;
    if (kept) qsort(all->entries, kept, sizeof *all->entries, by_count);
}

static int write_index(const table *all, const char *path) {
    SPANPROF_SPAN_META("write", .phase = "output", .module = "file");
    FILE *file = fopen(path, "wb");
    if (!file) return 0;
    for (size_t i = 0; i < all->used; i++) {
        const entry *e = &all->entries[i];
        fprintf(file, "%10u %8u %.*s\n", (unsigned)e->count, (unsigned)e->files, (int)e->length, all->text + e->word);
    }
    const int good = !ferror(file);
    return !fclose(file) && good;
}

/* ---- the program ---- */

static int usage(void) {
    fputs("usage: indexer [--threads N] [--files N] [--index FILE] [--slow N] [FOLDER]\n", stderr);
    return 2;
}

/* A number from 1 to max, or 0. */
static size_t number(const char *text, size_t max) {
    char *end;
    errno = 0;
    const unsigned long value = text && isdigit((unsigned char)*text) ? strtoul(text, &end, 10) : 0;
    return value && !errno && !*end && value <= max ? value : 0;
}

static int run(const char *folder, const char *index, int threads) {
    static worker workers[THREADS_MAX];
    table all = { NULL, 0, 0, NULL, 0, 0 };
    uint64_t bytes = 0, identifiers = 0, unreadable = 0;
    SPANPROF_SPAN_META("indexer", .phase = "all", .module = "main");
    SPANPROF_BLOCK("scan") {
        if (!scan(folder, 0)) {
            fprintf(stderr, "indexer: %s can't be read\n", folder);
            return 1;
        }
        if (path_count) qsort(paths, path_count, sizeof *paths, by_path);
        SPANPROF_ATTR_U64("files", path_count);
    }
    SPANPROF_BLOCK("index") {
        for (int i = 0; i < threads; i++) {
            workers[i].number = i + 1;
            if (pthread_create(&workers[i].thread, NULL, work, &workers[i])) {
                fputs("indexer: no thread could be started\n", stderr);
                exit(1);
            }
        }
        for (int i = 0; i < threads; i++) pthread_join(workers[i].thread, NULL);
    }
    for (int i = 0; i < threads; i++) {
        bytes += workers[i].bytes;
        identifiers += workers[i].identifiers;
        unreadable += workers[i].unreadable;
    }
    merge(&all, workers, threads);
    sort(&all);
    if (!write_index(&all, index)) {
        fprintf(stderr, "indexer: %s can't be written\n", index);
        return 1;
    }
    printf("%zu files, %llu bytes, %llu identifiers, %zu distinct, %llu unreadable; index: %s\n", path_count, (unsigned long long)bytes,
           (unsigned long long)identifiers, all.used, (unsigned long long)unreadable, index);
    table_free(&all);
    for (size_t i = 0; i < path_count; i++) free(paths[i]);
    free(paths);
    return 0;
}

int main(int argc, char **argv) {
    const char *folder = NULL, *index = "indexer.idx";
    size_t threads = 2;
    struct stat status;
    for (int i = 1; i < argc; i++) {
        size_t value = 1;
        if (!strcmp(argv[i], "--threads")) threads = value = number(argv[++i], THREADS_MAX);
        else if (!strcmp(argv[i], "--files")) path_limit = value = number(argv[++i], 1000000);
        else if (!strcmp(argv[i], "--slow")) slow = (int)(value = number(argv[++i], 1000));
        else if (!strcmp(argv[i], "--index") && i + 1 < argc) index = argv[++i];
        else if (argv[i][0] == '-' || folder) return usage();
        else folder = argv[i];
        if (!value) return usage();
    }
    if (!folder) folder = stat("/usr/include", &status) ? "." : "/usr/include";
    SPANPROF_THREAD_NAME("main");
    return run(folder, index, (int)threads);
}
