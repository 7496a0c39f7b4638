/* check.h - the checks of the tests: a failing one prints where, what it expected and what it got, and the test goes on.
 *
 *     CHECK(cond)                     CHECK_INT(expected, got)       CHECK_U64(expected, got)
 *     CHECK_STR(expected, got)        CHECK_CONTAINS(part, text)     CHECK_RANGE(low, high, got)
 *     SKIP("why")                     return CHECK_DONE();           prints "NAME: N passed, N failed, N skipped"
 *
 * C99 and C++11. The counts are plain variables: check on one thread, and in a forked child only through its exit status.
 * SPDX-License-Identifier: MIT */
#ifndef CHECK_H
#define CHECK_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* 1 in a program with a sanitizer, which keeps memory of its own for each thread. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CHECK_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CHECK_SANITIZED 1
#endif
#endif
#ifndef CHECK_SANITIZED
#define CHECK_SANITIZED 0
#endif

static unsigned check_passed, check_failed, check_skipped;

static inline int check_report(int good, const char *file, int line, const char *what) {
    if (good) {
        check_passed++;
    } else {
        check_failed++;
        printf("%s:%d: failed: %s\n", file, line, what);
        fflush(stdout); /* a crash that follows must not hide it */
    }
    return good;
}
static inline int check_int(const char *file, int line, const char *what, intmax_t expected, intmax_t got) {
    if (!check_report(expected == got, file, line, what)) printf("    expected %" PRIdMAX "\n    got      %" PRIdMAX "\n", expected, got);
    return expected == got;
}
static inline int check_u64(const char *file, int line, const char *what, uint64_t expected, uint64_t got) {
    if (!check_report(expected == got, file, line, what)) printf("    expected %" PRIu64 "\n    got      %" PRIu64 "\n", expected, got);
    return expected == got;
}
static inline int check_str(const char *file, int line, const char *what, const char *expected, const char *got) {
    const int good = expected && got ? !strcmp(expected, got) : expected == got;
    if (!check_report(good, file, line, what))
        printf("    expected \"%s\"\n    got      \"%s\"\n", expected ? expected : "(null)", got ? got : "(null)");
    return good;
}
static inline int check_contains(const char *file, int line, const char *what, const char *part, const char *text) {
    const int good = text && strstr(text, part);
    if (!check_report(good, file, line, what)) printf("    expected \"...%s...\"\n    got      \"%s\"\n", part, text ? text : "(null)");
    return good;
}
static inline int check_range(const char *file, int line, const char *what, double low, double high, double got) {
    const int good = got >= low && got <= high;
    if (!check_report(good, file, line, what)) printf("    expected %.17g .. %.17g\n    got      %.17g\n", low, high, got);
    return good;
}
static inline void check_skip(const char *file, int line, const char *why) {
    check_skipped++;
    printf("%s:%d: SKIP: %s\n", file, line, why);
}
static inline int check_done(const char *file) {
    const char *name = file;
    const char *at;
    int length;
    for (at = file; *at; at++)
        if (*at == '/' || *at == '\\') name = at + 1;
    for (length = 0; name[length] && name[length] != '.'; length++) {}
    printf("%.*s: %u passed, %u failed, %u skipped\n", length, name, check_passed, check_failed, check_skipped);
    fflush(stdout);
    return check_failed != 0;
}

/* Each is 1 when it held, so that a test can leave out what would crash. */
#define CHECK(cond) check_report((cond) ? 1 : 0, __FILE__, __LINE__, #cond)
#define CHECK_INT(expected, got) check_int(__FILE__, __LINE__, #got, (expected), (got))
#define CHECK_U64(expected, got) check_u64(__FILE__, __LINE__, #got, (expected), (got))
#define CHECK_STR(expected, got) check_str(__FILE__, __LINE__, #got, (expected), (got))
#define CHECK_CONTAINS(part, text) check_contains(__FILE__, __LINE__, #text, (part), (text))
#define CHECK_RANGE(low, high, got) check_range(__FILE__, __LINE__, #got, (low), (high), (got))
#define SKIP(why) check_skip(__FILE__, __LINE__, why)
#define CHECK_DONE() check_done(__FILE__)

#endif
