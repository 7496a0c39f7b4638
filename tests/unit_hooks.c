/* unit_hooks.c - hooked spans: when each hook runs, how failures are joined, what hooks may change.
 * SPDX-License-Identifier: MIT */
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include "session.h"

#include <errno.h>
#include <time.h>

static char order[256];
static int fail_prepare, fail_complete, fail_enrich, dirty;

static void note(const char *what, const spanprof_hook_call *call) {
    snprintf(order + strlen(order), sizeof order - strlen(order), "%s:%s ", what, call->name);
}
static void pause_ms(long ms) {
    const struct timespec time = { 0, ms * 1000000 };
    nanosleep(&time, NULL);
}

static const char *prepare(void *user, spanprof_hook_call *call) {
    size_t i;
    note("prepare", call);
    for (i = 0; i < sizeof call->scratch / sizeof *call->scratch; i++) dirty += call->scratch[i] != 0;
    call->scratch[0] = 41;
    if (user) pause_ms(*(int *)user);
    return fail_prepare ? "first" : NULL;
}
static const char *complete_timing(void *user, spanprof_hook_call *call) {
    note("complete", call);
    call->scratch[0]++;
    if (user) pause_ms(*(int *)user);
    errno = 77; /* whatever a hook does, the program's errno is the hook's business, not ours */
    return fail_complete ? "second" : NULL;
}
static const char *enrich(void *user, spanprof_hook_call *call) {
    note("enrich", call);
    call->meta.set |= SPANPROF_META_BIT(alloc_delta_bytes);
    call->meta.alloc_delta_bytes = 0;
    call->meta.alloc_live_bytes = call->scratch[0];
    snprintf(call->text, sizeof call->text, "device of %s", call->name);
    call->meta.device = call->text;
    if (user) pause_ms(*(int *)user);
    return fail_enrich ? "third" : NULL;
}

static const spanprof_hooks hooks = { NULL, prepare, complete_timing, enrich };
static const spanprof_hooks no_hooks = { NULL, NULL, NULL, NULL };

static void run(void) {
    SPANPROF_SPAN_HOOKED("run", &hooks, .phase = "forward", .step = 0);
    SPANPROF_ATTR_I64("inside", 1);
}

static void order_and_metadata(void) {
    dr_dump *d;
    const dr_span *s;
    order[0] = 0;
    run();
    CHECK_STR("", order); /* hooks run only while recording */
    session_open("hooks.dump");
    {
        SPANPROF_SPAN_HOOKED("outer", &hooks);
        run();
    }
    CHECK_STR("prepare:outer prepare:run complete:run enrich:run complete:outer enrich:outer ", order);
    CHECK_INT(0, dirty);
    {
        SPANPROF_SPAN_HOOKED("none", &no_hooks, .module = "m");
    }
    CHECK_U64(0, spanprof_current().pos);
    d = session_close();
    s = dr_find(d, "run", 0);
    CHECK(s->flags & DR_HOOKED);
    CHECK_STR("outer", dr_name(d, dr_parent(d, s)));
    CHECK_STR("forward", dr_meta_text(d, s, SPANPROF_META_phase));
    CHECK_STR("device of run", dr_meta_text(d, s, SPANPROF_META_device));
    CHECK_INT(0, dr_meta_number(d, s, SPANPROF_META_step));
    CHECK_INT(42, dr_meta_number(d, s, SPANPROF_META_alloc_live_bytes));
    CHECK_INT(0, dr_meta_number(d, s, SPANPROF_META_alloc_delta_bytes));
    CHECK_STR(NULL, dr_meta_text(d, s, SPANPROF_META_hook_error));
    CHECK(dr_attr(d, s->pos, "inside") != NULL);
    CHECK_STR("device of outer", dr_meta_text(d, dr_find(d, "outer", 0), SPANPROF_META_device));
    CHECK(dr_find(d, "none", 0)->flags & DR_HOOKED);
    CHECK_STR("m", dr_meta_text(d, dr_find(d, "none", 0), SPANPROF_META_module));
    CHECK_U64(3, dr_count(d, NULL));
    dr_free(d);
}

static void errors(void) {
    static const char *const expected[8] = {
        NULL, "prepare: first", "complete_timing: second", "prepare: first; complete_timing: second", "enrich: third",
        "prepare: first; enrich: third", "complete_timing: second; enrich: third",
        "prepare: first; complete_timing: second; enrich: third"
    };
    dr_dump *d;
    unsigned i;
    session_open("hook_errors.dump");
    for (i = 0; i < 8; i++) {
        fail_prepare = i & 1;
        fail_complete = i >> 1 & 1;
        fail_enrich = i >> 2 & 1;
        order[0] = 0;
        run();
        CHECK_STR("prepare:run complete:run enrich:run ", order); /* a failure stops no later hook */
    }
    fail_prepare = fail_complete = fail_enrich = 0;
    d = session_close();
    CHECK_U64(8, dr_count(d, "run"));
    for (i = 0; i < 8; i++) CHECK_STR(expected[i], dr_meta_text(d, dr_find(d, "run", i), SPANPROF_META_hook_error));
    dr_free(d);
}

/* Only complete_timing is in the duration. */
static void timing(void) {
    static int ms = 20;
    static spanprof_hooks slow = { &ms, prepare, NULL, enrich }, waits = { &ms, NULL, complete_timing, NULL };
    dr_dump *d;
    order[0] = 0;
    session_open("hook_timing.dump");
    {
        SPANPROF_SPAN_HOOKED("outside", &slow);
    }
    {
        SPANPROF_SPAN_HOOKED("within", &waits);
    }
    d = session_close();
    CHECK_RANGE(0, 15e6, dr_ns(d, dr_find(d, "outside", 0)->start, dr_find(d, "outside", 0)->end));
    CHECK_RANGE(19e6, 5e9, dr_ns(d, dr_find(d, "within", 0)->start, dr_find(d, "within", 0)->end));
    dr_free(d);
}

/* The functions behind the macro, and a session that ends inside a hooked span. */
static const char *stop_it(void *user, spanprof_hook_call *call) {
    (void)user;
    (void)call;
    spanprof_stop();
    return NULL;
}

static void functions(void) {
    static spanprof_site site = SPANPROF_I_SITE("by function", NULL);
    static const spanprof_hooks stopper = { NULL, stop_it, NULL, NULL };
    spanprof_session_stats stats;
    spanprof_hooked h;
    spanprof_meta meta;
    dr_dump *d;
    memset(&meta, 0, sizeof meta);
    meta.backend = "cpu";
    order[0] = 0;
    session_open("hook_functions.dump");
    spanprof_hooked_begin(&h, &site, &hooks, &meta);
    spanprof_hooked_end(&h);
    spanprof_hooked_begin(&h, &site, &hooks, NULL);
    spanprof_hooked_end(&h);
    d = session_close();
    CHECK_U64(2, dr_count(d, "by function"));
    CHECK_STR("cpu", dr_meta_text(d, dr_find(d, "by function", 0), SPANPROF_META_backend));
    dr_free(d);

    session_open("hook_stops.dump");
    {
        SPANPROF_SPAN_HOOKED("stopped", &stopper);
    }
    CHECK_INT(0, spanprof_recording());
    CHECK_INT(SPANPROF_OK, spanprof_stats(&stats));
    session_open("hook_next.dump");
    {
        SPANPROF_SPAN("next");
    }
    d = session_close();
    CHECK_U64(1, d->spans_count);
    dr_free(d);
}

int main(void) {
    order_and_metadata();
    errors();
    timing();
    functions();
    return CHECK_DONE();
}
