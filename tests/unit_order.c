/* unit_order.c - ends in the wrong order, ends without a begin, ends on other threads, scopes left by longjmp, deep nesting.
 * SPDX-License-Identifier: MIT */
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include "session.h"

#include <pthread.h>
#include <setjmp.h>
#include <time.h>

static spanprof_site site_a = SPANPROF_I_SITE("a", NULL), site_b = SPANPROF_I_SITE("b", NULL), site_c = SPANPROF_I_SITE("c", NULL);

/* ---- order ---- */

static void crossing(void) {
    spanprof_span a, b, c;
    dr_dump *d;
    session_open("crossing.dump");
    a = spanprof_begin(&site_a);
    b = spanprof_begin(&site_b);
    spanprof_end(a);
    c = spanprof_begin(&site_c);
    CHECK_U64(c.pos, spanprof_current().pos);
    spanprof_end(b);
    spanprof_end(c);
    CHECK_U64(0, spanprof_current().pos);
    /* A pair that ends inside the scope that it began outside of. */
    SPANPROF_BEGIN("pair");
    {
        SPANPROF_SPAN("scope");
        SPANPROF_END();
        SPANPROF_INSTANT("between");
    }
    CHECK_U64(0, spanprof_current().pos);
    d = session_close();
    CHECK_U64(5, dr_count(d, NULL));
    CHECK(dr_find(d, "a", 0)->end > dr_find(d, "b", 0)->start);
    CHECK(dr_find(d, "a", 0)->end < dr_find(d, "b", 0)->end);
    CHECK(dr_find(d, "b", 0)->end > dr_find(d, "c", 0)->start);
    CHECK(dr_find(d, "pair", 0)->end < dr_find(d, "scope", 0)->end);
    CHECK_U64(0, d->header.orphan_ends);
    dr_free(d);
}

static void too_many(void) {
    dr_dump *d;
    int i;
    session_open("too_many.dump");
    SPANPROF_END();
    SPANPROF_BEGIN("a");
    SPANPROF_END();
    SPANPROF_END();
    {
        SPANPROF_SPAN("scope");
        SPANPROF_END(); /* no pair is open: the scope is not one */
        SPANPROF_BEGIN("b");
        SPANPROF_END();
    }
    /* A loop that leaves its pair open. */
    for (i = 0; i < 3; i++) {
        SPANPROF_BEGIN("left open");
        if (i == 1) continue;
        SPANPROF_END();
    }
    SPANPROF_BEGIN("last");
    SPANPROF_END();
    d = session_close();
    CHECK_U64(3, d->header.orphan_ends);
    CHECK_U64(1, dr_count(d, "a"));
    CHECK_U64(1, dr_count(d, "b"));
    CHECK_U64(1, dr_count(d, "scope"));
    CHECK_U64(2, dr_count(d, "left open"));
    CHECK_U64(1, dr_unfinished(d, "left open"));
    CHECK_U64(1, dr_count(d, "last"));
    dr_free(d);
}

/* ---- threads ---- */

static spanprof_span handed;

static void *end_it(void *unused) {
    SPANPROF_THREAD_NAME("other");
    {
        SPANPROF_SPAN("on the other");
        spanprof_end(handed);
    }
    return unused;
}

static void another_thread(void) {
    pthread_t thread;
    dr_dump *d;
    session_open("another_thread.dump");
    handed = spanprof_begin(&site_a);
    {
        SPANPROF_SPAN("inside");
        pthread_create(&thread, NULL, end_it, NULL);
        pthread_join(thread, NULL);
    }
    {
        SPANPROF_SPAN("later");
    }
    spanprof_end(handed); /* it ended over there */
    CHECK_U64(0, spanprof_current().pos);
    d = session_close();
    CHECK_U64(4, dr_count(d, NULL));
    CHECK(dr_find(d, "a", 0)->flags & DR_FOREIGN_END);
    CHECK(dr_find(d, "a", 0)->end > dr_find(d, "on the other", 0)->start);
    CHECK(dr_find(d, "a", 0)->end < dr_find(d, "on the other", 0)->end);
    CHECK_STR("", dr_name(d, dr_parent(d, dr_find(d, "on the other", 0))));
    dr_free(d);
}

/* ---- longjmp ---- */

static jmp_buf back;

__attribute__((noinline)) static void escape(int depth) {
    SPANPROF_SPAN("escaped");
    SPANPROF_BEGIN("escaped pair");
    if (depth) escape(depth - 1);
    else if (*SPANPROF_VERSION) longjmp(back, 1); /* always; the compiler must not see through it */
    SPANPROF_END();
}
__attribute__((noinline)) static void normal(void) {
    SPANPROF_SPAN("after");
    SPANPROF_BEGIN("after pair");
    SPANPROF_END();
}

/* The scopes that longjmp left are found by the next spans, and the pairs in them go with them. A scope whose place on the stack
 * a later frame has taken over may be found late; the depth stays bounded. */
static void longjmps(void) {
    static volatile unsigned round, deepest;
    dr_dump *d;
    size_t i;
    session_open("longjmp.dump");
    {
        SPANPROF_SPAN("root");
        for (round = 0; round < 1000; round++) {
            if (!setjmp(back)) escape((int)(round % 3));
            normal();
        }
    }
    CHECK_U64(0, spanprof_current().pos);
    d = session_close();
    CHECK_U64(1999, dr_count(d, "escaped"));
    CHECK_U64(1999, dr_count(d, "escaped pair"));
    CHECK_U64(1000, dr_count(d, "after"));
    CHECK_U64(1000, dr_count(d, "after pair"));
    CHECK_U64(1, dr_count(d, "root"));
    CHECK_U64(0, dr_unfinished(d, NULL));
    for (i = 0; i < d->spans_count; i++) {
        const dr_span *s = &d->spans[i];
        const unsigned depth = dr_depth(d, s);
        if (depth > deepest) deepest = depth;
        if (!strcmp(dr_name(d, s), "after") && !CHECK(depth <= 20)) break;
        if (!strncmp(dr_name(d, s), "escaped", 7) && !CHECK(s->flags & DR_ABANDONED)) break;
    }
    CHECK_RANGE(4, 20, deepest);
    dr_free(d);
}

/* Functions that were inlined into one frame: nothing there is gone but the scopes themselves. */
#define INLINED __attribute__((always_inline)) static inline
INLINED void innermost(void) {
    SPANPROF_SPAN("innermost");
    if (*SPANPROF_VERSION) longjmp(back, 1);
}
INLINED void middle(void) {
    SPANPROF_SPAN("middle");
    innermost();
}
INLINED void outermost(void) {
    SPANPROF_SPAN("outermost");
    middle();
}
static void inlined(void) {
    static volatile unsigned round;
    static unsigned deepest;
    dr_dump *d;
    size_t i;
    session_open("inlined.dump");
    for (round = 0; round < 20000; round++)
        if (!setjmp(back)) outermost();
    {
        SPANPROF_SPAN("after");
    }
    d = session_close();
    CHECK_U64(1, dr_count(d, "after"));
    CHECK_U64(0, dr_dropped(d));
    CHECK(dr_unfinished(d, NULL) <= 3);
    for (i = 0; i < d->spans_count; i++) {
        const unsigned depth = dr_depth(d, &d->spans[i]);
        if (depth > deepest) deepest = depth;
    }
    CHECK(deepest < 5);
    dr_free(d);
}

/* A mark where the jump lands ends what it left; so does an attribute, which belongs to the span around it. */
__attribute__((noinline)) static void fall(void) {
    SPANPROF_SPAN("fallen");
    if (*SPANPROF_VERSION) longjmp(back, 1);
}
static void landings(void) {
    static volatile int attribute;
    const dr_span *fallen;
    dr_dump *d;
    session_open("landing.dump");
    {
        SPANPROF_SPAN("root");
        for (attribute = 0; attribute < 2; attribute++) {
            if (!setjmp(back)) fall();
            else if (attribute) SPANPROF_ATTR_I64("landed", 1);
            else SPANPROF_INSTANT("landed");
        }
    }
    d = session_close();
    CHECK_U64(2, dr_count(d, "fallen"));
    fallen = dr_find(d, "fallen", 0);
    CHECK(fallen->end <= d->marks[0].ticks);
    fallen = dr_find(d, "fallen", 1);
    CHECK(fallen->end < dr_find(d, "root", 0)->end);
    CHECK(dr_attr(d, dr_find(d, "root", 0)->pos, "landed") != NULL);
    dr_free(d);
}

#if defined(__GLIBC__) && !CHECK_SANITIZED
#include <ucontext.h>

/* A coroutine's scopes wait with it: the scopes that resumed it end without them, and it ends without those around it. */
static ucontext_t caller, coroutine;
static void body(void) {
    SPANPROF_SPAN("coroutine");
    int i;
    for (i = 0; i < 3; i++) {
        SPANPROF_SPAN("part");
        SPANPROF_BEGIN("pair");
        swapcontext(&coroutine, &caller);
        SPANPROF_END();
    }
}
static void coroutines(void) {
    static char stack[65536];
    dr_dump *d;
    size_t i;
    int round;
    session_open("coroutine.dump");
    getcontext(&coroutine);
    coroutine.uc_stack.ss_sp = stack;
    coroutine.uc_stack.ss_size = sizeof stack;
    coroutine.uc_link = &caller;
    makecontext(&coroutine, body, 0);
    {
        SPANPROF_SPAN("root");
        for (round = 0; round < 4; round++) {
            SPANPROF_SPAN("resume");
            swapcontext(&caller, &coroutine);
        }
    }
    d = session_close();
    CHECK_U64(12, d->spans_count);
    CHECK_U64(0, dr_unfinished(d, NULL));
    CHECK_U64(0, d->header.orphan_ends);
    for (i = 0; i < d->spans_count; i++) CHECK(!(d->spans[i].flags & DR_ABANDONED));
    for (round = 0; round < 3; round++) {
        CHECK(dr_find(d, "part", (size_t)round)->end > dr_find(d, "resume", (size_t)round + 1)->start);
        CHECK(dr_find(d, "pair", (size_t)round)->end <= dr_find(d, "part", (size_t)round)->end);
    }
    CHECK(dr_find(d, "coroutine", 0)->end < dr_find(d, "resume", 3)->end);
    dr_free(d);
}
/* Coroutines that are never resumed: the depth stays bounded. */
static void given_up(void) {
    static char stack[65536];
    spanprof_session_stats stats;
    int round;
    session_open("given_up.dump");
    for (round = 0; round < 40000; round++) {
        SPANPROF_SPAN("resume");
        getcontext(&coroutine);
        coroutine.uc_stack.ss_sp = stack + round % 4 * 16384;
        coroutine.uc_stack.ss_size = 16384;
        coroutine.uc_link = &caller;
        makecontext(&coroutine, body, 0);
        swapcontext(&caller, &coroutine);
    }
    CHECK_INT(SPANPROF_OK, spanprof_stats(&stats));
    CHECK_U64(0, stats.dropped);
    CHECK(stats.unfinished <= 256);
    dr_free(session_close());
}
#else
static void coroutines(void) { SKIP("coroutines: no ucontext, or a sanitizer that does not know it"); }
static void given_up(void) {}
#endif

/* A pair belongs to no frame: it may begin in one function, and end in another. */
__attribute__((noinline)) static void wrapped_begin(const char *name) {
    SPANPROF_BEGIN_DYN(name);
    SPANPROF_INSTANT("wrapped");
}
__attribute__((noinline)) static void wrapped_end(void) {
    SPANPROF_END();
    SPANPROF_INSTANT("wrapped");
}
__attribute__((noinline)) static void wrapped_deeper(int depth) {
    if (depth) wrapped_deeper(depth - 1);
    else wrapped_begin("deeper");
    SPANPROF_INSTANT("wrapped");
}

static void wrapped(void) {
    dr_dump *d;
    int i;
    session_open("wrapped.dump");
    wrapped_begin("a");
    wrapped_begin("b");
    wrapped_deeper(5);
    {
        SPANPROF_SPAN("scope");
    }
    SPANPROF_BEGIN("innermost");
    SPANPROF_END();
    for (i = 0; i < 3; i++) wrapped_end();
    CHECK_U64(0, spanprof_current().pos);
    for (i = 0; i < 100; i++) SPANPROF_BEGIN("iterated");
    for (i = 0; i < 100; i++) SPANPROF_END();
    d = session_close();
    CHECK_STR("a", dr_name(d, dr_parent(d, dr_find(d, "b", 0))));
    CHECK_STR("b", dr_name(d, dr_parent(d, dr_find(d, "deeper", 0))));
    CHECK_STR("deeper", dr_name(d, dr_parent(d, dr_find(d, "scope", 0))));
    CHECK_STR("deeper", dr_name(d, dr_parent(d, dr_find(d, "innermost", 0))));
    CHECK_INT(99, dr_depth(d, dr_find(d, "iterated", 99)));
    CHECK_U64(105, dr_count(d, NULL));
    CHECK_U64(0, d->header.orphan_ends);
    dr_free(d);
}

/* ---- depth ---- */

__attribute__((noinline)) static unsigned recurse(unsigned depth) {
    SPANPROF_SPAN("recurse");
    return depth ? 1 + recurse(depth - 1) : 0;
}

static void *deep_thread(void *unused) {
    recurse(9999);
    return unused;
}

static void deep(void) {
    enum { OPEN = SPANPROF_MAX_DEPTH + 7000 };
    static spanprof_span spans[OPEN];
    pthread_attr_t attributes;
    pthread_t thread;
    dr_dump *d;
    size_t i;
    session_open("deep.dump");
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64u << 20);
    pthread_create(&thread, &attributes, deep_thread, NULL);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    d = session_close();
    CHECK_U64(10000, dr_count(d, "recurse"));
    CHECK_INT(9999, dr_depth(d, dr_find(d, "recurse", 9999)));
    dr_free(d);

    session_open("too_deep.dump");
    for (i = 0; i < OPEN; i++) spans[i] = spanprof_begin(&site_a);
    while (i--) spanprof_end(spans[i]);
    {
        SPANPROF_SPAN("afterwards");
    }
    for (i = 0; i < OPEN; i++) SPANPROF_BEGIN("pair");
    while (i--) SPANPROF_END();
    d = session_close();
    CHECK_U64(SPANPROF_MAX_DEPTH, dr_count(d, "a"));
    CHECK_U64(SPANPROF_MAX_DEPTH, dr_count(d, "pair"));
    CHECK_U64(2 * 7000, dr_dropped(d));
    CHECK_U64(0, d->header.orphan_ends);
    CHECK_U64(1, dr_count(d, "afterwards"));
    dr_free(d);
}

/* ---- recording switched on and off at every depth ---- */

static int toggling; /* atomic */

static void *toggle(void *unused) {
    const struct timespec pause = { 0, 200000 };
    while (__atomic_load_n(&toggling, __ATOMIC_RELAXED)) {
        spanprof_pause();
        nanosleep(&pause, NULL);
        spanprof_resume();
        nanosleep(&pause, NULL);
    }
    return unused;
}

__attribute__((noinline)) static unsigned churn(unsigned depth, unsigned seed) {
    unsigned i;
    SPANPROF_SPAN("churn");
    SPANPROF_BEGIN("churn pair");
    if (depth)
        for (i = 0; i < 2; i++) seed = churn(depth - 1, seed * 1103515245u + 12345u);
    SPANPROF_END();
    return seed;
}

static void toggled(void) {
    pthread_t thread;
    dr_dump *d;
    size_t i, crossed = 0;
    unsigned seed = 1;
    session_open("toggled.dump");
    __atomic_store_n(&toggling, 1, __ATOMIC_RELAXED);
    pthread_create(&thread, NULL, toggle, NULL);
    for (i = 0; i < 40; i++) seed = churn(12, seed);
    __atomic_store_n(&toggling, 0, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    spanprof_resume();
    CHECK_U64(0, spanprof_current().pos);
    d = session_close();
    for (i = 0; i < d->spans_count; i++) {
        const dr_span *parent = dr_parent(d, &d->spans[i]);
        crossed += parent && d->spans[i].end > parent->end;
        if (!strcmp(dr_name(d, &d->spans[i]), "churn pair") && parent && !strcmp(dr_name(d, parent), "churn pair") && d->spans[i].end == parent->end) crossed++;
    }
    CHECK_U64(0, crossed);
    CHECK_U64(0, dr_unfinished(d, NULL));
    CHECK(d->spans_count > 1000);
    CHECK_U64(0, d->header.orphan_ends);
    dr_free(d);
    (void)seed;
}

int main(void) {
    crossing();
    too_many();
    another_thread();
    longjmps();
    inlined();
    landings();
    coroutines();
    given_up();
    wrapped();
    deep();
    toggled();
    return CHECK_DONE();
}
