/* soak.c - soak [SECONDS [SEED]]: sessions of four threads that record at random - scopes, pairs, handles that end out of order or
 * on another thread, attributes, instants, jumps out of scopes - while threads die and others take their place, fork, pause, flush
 * and ask for figures. Every thread keeps account of what was recorded and what has ended; dump, figures and account must agree
 * exactly, thread by thread. Sessions take turns: free, with a bound of events, with a bound of size, without the tick counter.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include "session.h"

#include <pthread.h>
#include <setjmp.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, LIVES = 40, STEPS = 2500, BOXES = 8, HELD = 4 };
enum { SCOPE, PAIR, HANDLE, META, LEFT, KINDS };
static const char *const kinds[KINDS] = { "scope", "pair", "handle", "meta", "left" };

/* One thread's life, as it was seen by whoever began and ended its spans. */
typedef struct account { uint64_t open[KINDS], finished[KINDS], attributes, marks, refused; } account;

typedef struct life {
    account *account;
    uint64_t random;
    jmp_buf out;
    spanprof_span held[HELD];
    int number, kept_pair, fallen;
} life;

/* A span on its way to another thread. */
typedef struct box { uint64_t pos; account *account; } box;

static account accounts[LIVES];
static box boxes[BOXES];
static pthread_mutex_t box_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t pause_lock = PTHREAD_RWLOCK_INITIALIZER; /* read: it is not the moment for pause or resume */
static int is_paused, next_life, bounded, no_room, stop_forking;
static uint64_t forks, forked_spans, fork_faults, all_spans, all_events, all_lives, sessions, pauses, flushes, jumps, handed, refused, ends_without_room;
static char path[64];

static uint64_t next(life *l) {
    l->random ^= l->random << 13;
    l->random ^= l->random >> 7;
    l->random ^= l->random << 17;
    return l->random;
}
static uint64_t below(life *l, uint64_t n) { return (next(l) >> 11) % n; }
static void add(uint64_t *to, uint64_t n) { __atomic_fetch_add(to, n, __ATOMIC_RELAXED); }

static void began(life *l, int kind, int was_recorded) {
    if (was_recorded) add(&l->account->open[kind], 1);
    else add(&l->account->refused, 1);
}
static void ended(account *a, int kind) {
    add(&a->open[kind], UINT64_MAX);
    add(&a->finished[kind], 1);
}

/* The innermost open span. A begin was recorded if it is another one then; a pair that was not recorded shows as 0. */
static uint64_t innermost(void) { return spanprof_current().pos; }
static int is_new(uint64_t before) {
    const uint64_t now = innermost();
    return now != 0 && now != before;
}

static void steps(life *l, int depth, int count);

static void scope(life *l, int depth) {
    const uint64_t before = innermost();
    SPANPROF_SPAN("scope");
    const int recorded = is_new(before);
    began(l, SCOPE, recorded);
    if (depth < 6) steps(l, depth + 1, (int)below(l, 4));
    if (recorded) ended(l->account, SCOPE);
}
static void meta(life *l, int depth) {
    const uint64_t before = innermost();
    SPANPROF_SPAN_META("meta", .phase = "soak", .step = depth, .alloc_bytes = 7);
    const int recorded = is_new(before);
    began(l, META, recorded);
    if (depth < 6) steps(l, depth + 1, (int)below(l, 3));
    if (recorded) ended(l->account, META);
}
static void pair(life *l, int depth) {
    const uint64_t before = innermost();
    int recorded;
    if (below(l, 2)) SPANPROF_BEGIN("pair");
    else SPANPROF_BEGIN_DYN("pair");
    recorded = is_new(before);
    began(l, PAIR, recorded);
    if (depth < 6) steps(l, depth + 1, (int)below(l, 3));
    SPANPROF_END();
    if (recorded) ended(l->account, PAIR);
}
static spanprof_span handle(life *l) {
    static spanprof_site site = SPANPROF_SITE("handle");
    const spanprof_span span = spanprof_begin(&site);
    began(l, HANDLE, span.pos != 0);
    return span;
}
static void held(life *l) {
    spanprof_span *at = &l->held[below(l, HELD)];
    if (at->pos) {
        spanprof_end(*at);
        ended(l->account, HANDLE);
        at->pos = 0;
    } else {
        *at = handle(l);
    }
}
static void hand_over(life *l) {
    box *b = &boxes[below(l, BOXES)], taken;
    spanprof_span span = handle(l);
    pthread_mutex_lock(&box_lock);
    taken = *b;
    b->pos = span.pos;
    b->account = l->account;
    pthread_mutex_unlock(&box_lock);
    if (!taken.pos) return;
    span.pos = taken.pos;
    spanprof_end(span);
    ended(taken.account, HANDLE);
    add(&handed, 1);
}
static void attribute(life *l) {
    pthread_rwlock_rdlock(&pause_lock);
    if (!is_paused) { /* of a span of its own: another thread may be ending the one around it */
        const uint64_t before = innermost();
        SPANPROF_SPAN("scope");
        const int recorded = is_new(before);
        began(l, SCOPE, recorded);
        SPANPROF_ATTR_I64("key", 1);
        if (recorded) add(&l->account->attributes, 1);
        if (recorded) ended(l->account, SCOPE);
    }
    pthread_rwlock_unlock(&pause_lock);
}
static void mark(life *l) {
    pthread_rwlock_rdlock(&pause_lock);
    if (!is_paused) {
        switch (below(l, 5)) {
        case 0: SPANPROF_INSTANT("mark"); break;
        case 1: SPANPROF_COUNTER("level", 3); break;
        case 2: SPANPROF_ASYNC_BEGIN("task", 1); break;
        case 3: SPANPROF_ASYNC_END("task", 1); break;
        default: SPANPROF_FLOW_OUT(1); break;
        }
        add(&l->account->marks, 1);
    }
    pthread_rwlock_unlock(&pause_lock);
}

static void leap(life *l) { longjmp(l->out, 1); }
static void (*volatile leave_all)(life *) = leap; /* so that no compiler sees that fall never returns */

/* Scopes that are left by a jump end when that is found: with the scope around them at the latest, if it was recorded. */
static void fall(life *l, int depth) {
    const uint64_t before = innermost();
    SPANPROF_SPAN("left");
    const int recorded = is_new(before);
    began(l, LEFT, recorded);
    l->fallen += recorded;
    if (depth == 0) leave_all(l);
    else fall(l, depth - 1);
}
static void jump(life *l) {
    const uint64_t before = innermost();
    SPANPROF_SPAN("scope");
    const int recorded = is_new(before);
    began(l, SCOPE, recorded);
    add(&jumps, 1);
    l->fallen = 0;
    if (!setjmp(l->out)) fall(l, 2);
    if (!recorded) return;
    ended(l->account, SCOPE);
    while (l->fallen-- > 0) ended(l->account, LEFT);
}

static void change_pause(life *l) {
    if (bounded) return;
    pthread_rwlock_wrlock(&pause_lock);
    is_paused = below(l, 3) == 0;
    if (is_paused) spanprof_pause();
    else spanprof_resume();
    pauses++;
    pthread_rwlock_unlock(&pause_lock);
}

/* The child has a dump of its own, with its own spans alone. */
static void fork_one(life *l) {
    char name[96];
    int status = 0;
    pid_t pid;
    dr_dump *d;
    if (__atomic_load_n(&stop_forking, __ATOMIC_RELAXED)) return;
    pid = fork();
    if (!pid) {
        int i, recorded = 0;
        for (i = 0; i < 40; i++) {
            const uint64_t before = innermost();
            SPANPROF_SPAN("child");
            recorded += is_new(before);
        }
        _exit(recorded);
    }
    if (pid < 0) return;
    waitpid(pid, &status, 0);
    add(&forks, 1);
    (void)l;
    snprintf(name, sizeof name, "%s.%ld", path, (long)pid);
    if (!WIFEXITED(status)) {
        add(&fork_faults, 1);
    } else if (WEXITSTATUS(status)) {
        d = dr_load(name);
        if (d->error[0] || dr_count(d, "child") != (uint64_t)WEXITSTATUS(status) || dr_events(d) != (uint64_t)WEXITSTATUS(status)) {
            printf("    child %ld: \"%s\", expected %d, got %" PRIu64 " of %" PRIu64 " events\n", (long)pid, d->error, WEXITSTATUS(status), dr_count(d, "child"), dr_events(d));
            add(&fork_faults, 1);
        }
        add(&forked_spans, (uint64_t)WEXITSTATUS(status));
        dr_free(d);
    }
    unlink(name);
}

static void steps(life *l, int depth, int count) {
    spanprof_session_stats stats;
    while (count-- > 0) {
        const uint64_t what = below(l, 6000);
        if (what < 2000) scope(l, depth);
        else if (what < 2600) meta(l, depth);
        else if (what < 3400) pair(l, depth);
        else if (what < 4000) held(l);
        else if (what < 4400) hand_over(l);
        else if (what < 5000) attribute(l);
        else if (what < 5700) mark(l);
        else if (what < 5900) jump(l);
        else if (what < 5930) change_pause(l);
        else if (what < 5935) { spanprof_flush(); add(&flushes, 1); }
        else if (what < 5960) spanprof_stats(&stats);
        else if (what < 5962) fork_one(l);
        else if (what < 5964) usleep(6000);
        else if (what == 5964) usleep(80000);
    }
}

static void live(int number, uint64_t seed) {
    char name[16];
    life l;
    memset(&l, 0, sizeof l);
    l.account = &accounts[number];
    l.number = number;
    l.random = seed * 0x9e3779b97f4a7c15ull + 1;
    snprintf(name, sizeof name, "life %d", number);
    SPANPROF_THREAD_NAME(name);
    steps(&l, 0, 100 + (int)below(&l, STEPS));
    /* What is held now stays open. */
}

typedef struct slot { pthread_t thread; uint64_t seed; } slot;
static void *lives(void *argument);
/* A thread lives once, and the next one takes its place. */
static void *one_life(void *argument) {
    const uint64_t *both = (const uint64_t *)argument;
    live((int)both[0], both[1]);
    return NULL;
}
static void *lives(void *argument) {
    const slot *s = (const slot *)argument;
    uint64_t both[2];
    pthread_t thread;
    for (;;) {
        both[0] = (uint64_t)__atomic_fetch_add(&next_life, 1, __ATOMIC_RELAXED);
        both[1] = s->seed + both[0];
        if (both[0] >= LIVES) return NULL;
        if (pthread_create(&thread, NULL, one_life, both)) return NULL;
        pthread_join(thread, NULL);
    }
}

static void compare(dr_dump *d) {
    static account found[LIVES];
    uint64_t marks = 0, attributes = 0;
    int *life_of = (int *)calloc(LIVES * 4, sizeof *life_of);
    size_t i;
    int k, number;
    memset(found, 0, sizeof found);
    for (i = 0; i < d->threads_count; i++)
        if (d->threads[i].id < LIVES * 4 && sscanf(d->threads[i].name, "life %d", &number) == 1) life_of[d->threads[i].id] = number + 1;
    for (i = 0; i < d->spans_count; i++) {
        const dr_span *s = &d->spans[i];
        number = s->thread < LIVES * 4 ? life_of[s->thread] - 1 : -1;
        for (k = 0; k < KINDS && strcmp(kinds[k], dr_name(d, s)) != 0; k++) {}
        if (!CHECK(number >= 0 && k < KINDS)) break;
        if (s->flags & DR_FINISHED) found[number].finished[k]++;
        else found[number].open[k]++;
    }
    for (i = 0; i < LIVES; i++) {
        for (k = 0; k < KINDS; k++) {
            const uint64_t finished = accounts[i].finished[k], open = accounts[i].open[k];
            /* Without room, the end of a span that was written out may find no place: the span stays unfinished. */
            if (no_room     ? !CHECK_U64(finished + open, found[i].finished[k] + found[i].open[k]) || !CHECK(k == LEFT || found[i].finished[k] <= finished)
                : k == LEFT ? !CHECK_U64(finished + open, found[i].finished[k] + found[i].open[k]) || !CHECK(found[i].finished[k] >= finished)
                            : !CHECK_U64(finished, found[i].finished[k]) || !CHECK_U64(open, found[i].open[k]))
                printf("    life %d, %s\n", (int)i, kinds[k]);
            if (k != LEFT) ends_without_room += finished - found[i].finished[k];
            all_spans += found[i].finished[k];
        }
        marks += accounts[i].marks;
        attributes += accounts[i].attributes;
        refused += accounts[i].refused;
    }
    if (!bounded) {
        CHECK_U64(marks, d->marks_count);
        CHECK_U64(attributes, d->values_count);
        CHECK_U64(0, dr_dropped(d));
    } else { /* a mark that was refused is in no account of its own */
        uint64_t tried = marks;
        for (i = 0; i < LIVES; i++) {
            tried += accounts[i].refused;
            for (k = 0; k < KINDS; k++) tried += accounts[i].finished[k] + accounts[i].open[k];
        }
        CHECK_U64(tried, dr_events(d) + dr_dropped(d));
    }
    all_events += dr_events(d);
    free(life_of);
}

static void session(uint64_t seed) {
    slot slots[THREADS];
    spanprof_config config;
    dr_dump *d;
    int i;
    memset(&config, 0, sizeof config);
    memset(accounts, 0, sizeof accounts);
    memset(boxes, 0, sizeof boxes);
    is_paused = next_life = 0;
    snprintf(path, sizeof path, "soak.dump");
    config.path = path;
    bounded = seed % 4 == 1 || seed % 4 == 2;
    no_room = seed % 4 == 2;
    if (seed % 4 == 1) config.max_events = 1 + seed * 7919 % 60000;
    if (seed % 4 == 2) config.max_mb = 1;
    if (seed % 4 == 3) config.clock = SPANPROF_CLOCK_MONOTONIC;
    CHECK_INT(SPANPROF_OK, spanprof_start(&config));
    for (i = 0; i < THREADS; i++) {
        slots[i].seed = seed * 1000003 + 1; /* 0: no thread */
        if (pthread_create(&slots[i].thread, NULL, lives, &slots[i])) slots[i].seed = 0;
    }
    for (i = 0; i < THREADS; i++)
        if (slots[i].seed) pthread_join(slots[i].thread, NULL);
    {
        spanprof_session_stats stats;
        const spanprof_status status = spanprof_stop();
        uint64_t open = 0;
        size_t k;
        CHECK(status == SPANPROF_OK);
        CHECK_INT(SPANPROF_OK, spanprof_stats(&stats));
        d = dr_load(stats.path);
        CHECK_STR("", d->error);
        CHECK_U64(dr_events(d), stats.recorded);
        CHECK_U64(dr_dropped(d), stats.dropped);
        for (k = 0; k < d->spans_count; k++) open += !(d->spans[k].flags & DR_FINISHED);
        CHECK_U64(open, stats.unfinished);
        CHECK_U64(d->size, stats.bytes);
        CHECK_U64(0, d->stray_ends);
        CHECK_U64(0, d->header.orphan_ends);
    }
    compare(d);
    dr_free(d);
    sessions++;
    all_lives += LIVES;
}

int main(int argc, char **argv) {
    const double seconds = argc > 1 ? atof(argv[1]) : 5;
    const uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL) % 1000000 * 4;
    const time_t end = time(NULL) + (time_t)seconds;
    uint64_t seed = first;
    do {
        const unsigned before = check_failed;
        session(seed);
        if (check_failed != before) printf("    in the session of seed %" PRIu64 "\n", seed);
        seed++;
    } while ((time(NULL) < end || seed < first + 4) && check_failed < 200);
    CHECK_U64(0, fork_faults);
    printf("%" PRIu64 " sessions from seed %" PRIu64 ": %" PRIu64 " events, %" PRIu64 " finished spans, %" PRIu64 " refused, %" PRIu64 " threads, %" PRIu64 " forks with %" PRIu64
           " spans, %" PRIu64 " pauses and resumes, %" PRIu64 " flushes, %" PRIu64 " jumps, %" PRIu64 " spans ended elsewhere, %" PRIu64 " ends without room\n",
           sessions, first, all_events, all_spans, refused, all_lives, forks, forked_spans, pauses, flushes, jumps, handed, ends_without_room);
    return CHECK_DONE();
}
