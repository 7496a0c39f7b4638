/* unit_macros.c - every macro of section 7, in every place where a statement can stand. SPDX-License-Identifier: MIT */
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include "session.h"

#include <errno.h>
#include <math.h>

/* ---- scopes ---- */

static int early_return(int way) {
    SPANPROF_SPAN("early");
    if (way == 0) return 0;
    {
        SPANPROF_SPAN("early.inner");
        if (way == 1) return 1;
    }
    return 2;
}

static int jump(int again) {
    int rounds = 0;
again:
    {
        SPANPROF_SPAN("jump");
        if (++rounds < again) goto again;
    }
    return rounds;
}

static void two_in_one_scope(void) {
    SPANPROF_SPAN("first");
    SPANPROF_SPAN("second"); SPANPROF_SPAN("third");
}

static void branches(int value) {
    if (value) {
        SPANPROF_SPAN("if");
    } else {
        SPANPROF_SPAN("else");
    }
    switch (value) {
    case 0: {
        SPANPROF_SPAN("case 0");
        break;
    }
    case 1: SPANPROF_BLOCK("case 1") {} break;
    default:
        SPANPROF_BEGIN("default");
        SPANPROF_END();
    }
    /* Statement macros are one statement each. */
    if (value) SPANPROF_INSTANT("then"); else SPANPROF_INSTANT("otherwise");
    if (value) SPANPROF_BEGIN("unbraced"); else SPANPROF_INSTANT("not");
    if (value) SPANPROF_END();
    if (value) SPANPROF_BLOCK("unbraced block") value++;
}

static inline void in_an_inline_function(void) { SPANPROF_FUNCTION(); }

static void scopes(void) {
    dr_dump *d;
    int i;
    session_open("scopes.dump");
    CHECK_INT(0, early_return(0));
    CHECK_INT(1, early_return(1));
    CHECK_INT(2, early_return(2));
    CHECK_INT(3, jump(3));
    two_in_one_scope();
    branches(0);
    branches(1);
    branches(2);
    for (i = 0; i < 10; i++) {
        SPANPROF_SPAN("loop");
        if (i % 2) continue;
        if (i == 8) break;
    }
    in_an_inline_function();
    CHECK_U64(0, spanprof_current().pos);
    d = session_close();
    CHECK_U64(3, dr_count(d, "early"));
    CHECK_U64(2, dr_count(d, "early.inner"));
    CHECK_STR("early", dr_name(d, dr_parent(d, dr_find(d, "early.inner", 0))));
    CHECK_U64(3, dr_count(d, "jump"));
    CHECK_STR("", dr_name(d, dr_parent(d, dr_find(d, "jump", 2))));
    CHECK_STR("first", dr_name(d, dr_parent(d, dr_find(d, "second", 0))));
    CHECK_STR("second", dr_name(d, dr_parent(d, dr_find(d, "third", 0))));
    CHECK(dr_find(d, "third", 0)->end <= dr_find(d, "second", 0)->end);
    CHECK(dr_find(d, "second", 0)->end <= dr_find(d, "first", 0)->end);
    CHECK_U64(2, dr_count(d, "if"));
    CHECK_U64(1, dr_count(d, "else"));
    CHECK_U64(1, dr_count(d, "case 0"));
    CHECK_U64(1, dr_count(d, "case 1"));
    CHECK_U64(1, dr_count(d, "default"));
    CHECK_U64(2, dr_count(d, "unbraced"));
    CHECK_U64(2, dr_count(d, "unbraced block"));
    CHECK_U64(2, dr_marks(d, SPANPROF_RECORD_INSTANT, "then"));
    CHECK_U64(1, dr_marks(d, SPANPROF_RECORD_INSTANT, "otherwise"));
    CHECK_U64(9, dr_count(d, "loop"));
    CHECK_U64(1, dr_count(d, "in_an_inline_function"));
    CHECK_U64(0, dr_unfinished(d, NULL));
    dr_free(d);
}

/* ---- blocks ---- */

static int return_from_block(void) {
    SPANPROF_BLOCK("left by return") { return 7; }
    return 0;
}

static void blocks(void) {
    dr_dump *d;
    int i, runs = 0;
    session_open("blocks.dump");
    for (i = 0; i < 3; i++) {
        SPANPROF_BLOCK("outer") {
            SPANPROF_BLOCK("inner") {
                if (i == 1) break; /* leaves the block, not the loop */
                if (i == 2) continue;
                runs++;
            }
            runs += 10;
        }
    }
    CHECK_INT(31, runs);
    CHECK_INT(7, return_from_block());
    SPANPROF_BLOCK("left by goto") { goto out; }
out:
    d = session_close();
    CHECK_U64(3, dr_count(d, "outer"));
    CHECK_U64(3, dr_count(d, "inner"));
    /* What begins and ends in one tick of a coarse clock has no parent that a reader could know. */
    if (dr_find(d, "outer", 2)->end > dr_find(d, "inner", 2)->start) CHECK_STR("outer", dr_name(d, dr_parent(d, dr_find(d, "inner", 2))));
    CHECK_U64(1, dr_count(d, "left by return"));
    CHECK_U64(1, dr_count(d, "left by goto"));
    CHECK_STR("", dr_name(d, dr_parent(d, dr_find(d, "left by goto", 0))));
    CHECK_U64(8, d->spans_count);
    dr_free(d);
}

/* ---- pairs and handles ---- */

static void pairs(void) {
    dr_dump *d;
    char name[16];
    int i;
    session_open("pairs.dump");
    SPANPROF_BEGIN("a");
    for (i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "dynamic %d", i);
        SPANPROF_BEGIN_DYN(name);
        SPANPROF_BEGIN_META("b", .phase = "forward", .step = i);
        SPANPROF_END();
        SPANPROF_END();
    }
    SPANPROF_END();
    d = session_close();
    CHECK_U64(1, dr_count(d, "a"));
    CHECK_U64(1, dr_count(d, "dynamic 0"));
    CHECK_U64(1, dr_count(d, "dynamic 1"));
    CHECK_U64(2, dr_count(d, "b"));
    CHECK_STR("dynamic 1", dr_name(d, dr_parent(d, dr_find(d, "b", 1))));
    CHECK_STR("a", dr_name(d, dr_parent(d, dr_find(d, "dynamic 1", 0))));
    CHECK_STR("forward", dr_meta_text(d, dr_find(d, "b", 1), SPANPROF_META_phase));
    CHECK_INT(0, dr_meta_number(d, dr_find(d, "b", 0), SPANPROF_META_step));
    CHECK_INT(1, dr_meta_number(d, dr_find(d, "b", 1), SPANPROF_META_step));
    dr_free(d);
}

static spanprof_site site_a = SPANPROF_I_SITE("handle a", NULL);
static spanprof_site site_b = SPANPROF_I_SITE("handle b", NULL);

static void handles(void) {
    spanprof_span a, b, c, none;
    spanprof_meta meta;
    dr_dump *d;
    size_t i;
    memset(&meta, 0, sizeof meta);
    memset(&none, 0, sizeof none);
    spanprof_end(none);
    CHECK_U64(0, spanprof_begin(&site_a).pos);
    session_open("handles.dump");
    CHECK_U64(0, spanprof_current().pos);
    a = spanprof_begin(&site_a);
    CHECK(a.pos != 0);
    CHECK_U64(a.pos, spanprof_current().pos);
    meta.module = "m";
    meta.alloc_bytes = 12;
    b = spanprof_begin_meta(&site_b, &meta);
    CHECK_U64(b.pos, spanprof_current().pos);
    c = spanprof_begin_dyn(NULL);
    spanprof_end(c);
    meta.module = "n";
    meta.alloc_bytes = 0;
    meta.alloc_delta_bytes = -5;
    spanprof_set_meta(b, &meta);
    spanprof_end(b);
    spanprof_end(b); /* ended already: nothing */
    CHECK_U64(a.pos, spanprof_current().pos);
    meta.phase = "late";
    spanprof_set_meta(a, &meta);
    spanprof_end(a);
    spanprof_end(none);
    d = session_close();
    CHECK_U64(1, dr_count(d, "handle a"));
    CHECK_U64(1, dr_count(d, "handle b"));
    CHECK_U64(1, dr_count(d, "(null)"));
    CHECK_U64(3, d->spans_count);
    CHECK_STR("n", dr_meta_text(d, dr_find(d, "handle b", 0), SPANPROF_META_module));
    CHECK_INT(12, dr_meta_number(d, dr_find(d, "handle b", 0), SPANPROF_META_alloc_bytes));
    CHECK_INT(-5, dr_meta_number(d, dr_find(d, "handle b", 0), SPANPROF_META_alloc_delta_bytes));
    CHECK_STR("late", dr_meta_text(d, dr_find(d, "handle a", 0), SPANPROF_META_phase));
    for (i = 0; i < d->sites_count; i++)
        if (!strcmp(d->names[d->sites[i].name], "handle b")) {
            CHECK_CONTAINS("unit_macros.c", d->names[d->sites[i].file]);
            CHECK_U64(site_b.line, d->sites[i].line);
        }
    dr_free(d);
    /* A handle of a session that is over ends nothing in the next one. */
    session_open("handles2.dump");
    b = spanprof_begin(&site_b);
    spanprof_end(a);
    spanprof_end(b);
    d = session_close();
    CHECK_U64(1, dr_count(d, NULL));
    dr_free(d);
}

/* ---- metadata and attributes ---- */

static void metadata(void) {
    dr_dump *d;
    const dr_span *s;
    int i;
    session_open("metadata.dump");
    {
        SPANPROF_SPAN_META("all", .phase = "p", .activity = "a", .backend = "b", .dtype = "t", .device = "d", .timing = "host", .module = "m",
                           .graph_node = "g", .step = -3, .input_shapes = "[1, 2]", .output_shapes = "[3]", .alloc_bytes = UINT64_MAX,
                           .alloc_live_bytes = 1, .alloc_peak_bytes = 2, .alloc_delta_bytes = INT64_MIN, .hook_error = "e", .device_index = -2);
    }
    {
        SPANPROF_SPAN_META("zeros", .step = 0, .alloc_bytes = 0, .alloc_delta_bytes = 0, .device_index = 0);
    }
    {
        SPANPROF_SPAN_META("one", .phase = NULL, .module = "");
    }
    {
        SPANPROF_SPAN_META("none");
    }
    {
        const struct { int step; struct { int alloc_bytes; } of[1]; } config = { 0, { { 0 } } };
        SPANPROF_SPAN_META("expressions", .phase = config.step > 0 ? "later" : "first", .alloc_live_bytes = (uint64_t)(config.of[0].alloc_bytes + config.step));
    }
    d = session_close();
    s = dr_find(d, "all", 0);
    CHECK_STR("p", dr_meta_text(d, s, SPANPROF_META_phase));
    CHECK_STR("a", dr_meta_text(d, s, SPANPROF_META_activity));
    CHECK_STR("b", dr_meta_text(d, s, SPANPROF_META_backend));
    CHECK_STR("t", dr_meta_text(d, s, SPANPROF_META_dtype));
    CHECK_STR("d", dr_meta_text(d, s, SPANPROF_META_device));
    CHECK_STR("host", dr_meta_text(d, s, SPANPROF_META_timing));
    CHECK_STR("m", dr_meta_text(d, s, SPANPROF_META_module));
    CHECK_STR("g", dr_meta_text(d, s, SPANPROF_META_graph_node));
    CHECK_INT(-3, dr_meta_number(d, s, SPANPROF_META_step));
    CHECK_STR("[1, 2]", dr_meta_text(d, s, SPANPROF_META_input_shapes));
    CHECK_STR("[3]", dr_meta_text(d, s, SPANPROF_META_output_shapes));
    CHECK_INT(-1, dr_meta_number(d, s, SPANPROF_META_alloc_bytes));
    CHECK_INT(1, dr_meta_number(d, s, SPANPROF_META_alloc_live_bytes));
    CHECK_INT(2, dr_meta_number(d, s, SPANPROF_META_alloc_peak_bytes));
    CHECK_INT(INT64_MIN, dr_meta_number(d, s, SPANPROF_META_alloc_delta_bytes));
    CHECK_STR("e", dr_meta_text(d, s, SPANPROF_META_hook_error));
    CHECK_INT(-2, dr_meta_number(d, s, SPANPROF_META_device_index));
    /* A number that the macro names is recorded though it is zero; one that it does not name is not. */
    s = dr_find(d, "zeros", 0);
    CHECK(dr_has(d, s, SPANPROF_META_step));
    CHECK(dr_has(d, s, SPANPROF_META_alloc_bytes));
    CHECK(dr_has(d, s, SPANPROF_META_alloc_delta_bytes));
    CHECK(dr_has(d, s, SPANPROF_META_device_index));
    CHECK(!dr_has(d, s, SPANPROF_META_alloc_live_bytes));
    CHECK(!dr_has(d, s, SPANPROF_META_alloc_peak_bytes));
    CHECK(!dr_has(d, s, SPANPROF_META_phase));
    s = dr_find(d, "one", 0);
    CHECK(!dr_has(d, s, SPANPROF_META_phase));
    CHECK_STR("", dr_meta_text(d, s, SPANPROF_META_module));
    for (i = 0; i < SPANPROF_META_COUNT; i++) CHECK(!dr_has(d, dr_find(d, "none", 0), (spanprof_meta_index)i));
    /* Members that only an expression names. */
    s = dr_find(d, "expressions", 0);
    CHECK(!dr_has(d, s, SPANPROF_META_step));
    CHECK(!dr_has(d, s, SPANPROF_META_alloc_bytes));
    CHECK(dr_has(d, s, SPANPROF_META_alloc_live_bytes));
    CHECK_U64(5, dr_count(d, NULL));
    dr_free(d);
}

static void attributes(void) {
    dr_dump *d;
    const dr_span *outer, *inner;
    const dr_value *v;
    session_open("attributes.dump");
    SPANPROF_ATTR_I64("no span", 1); /* goes nowhere */
    {
        SPANPROF_SPAN("outer");
        SPANPROF_ATTR_I64("i64", INT64_MIN);
        SPANPROF_ATTR_U64("u64", UINT64_MAX);
        SPANPROF_ATTR_F64("f64", 0.1);
        {
            SPANPROF_SPAN("inner");
            SPANPROF_ATTR_STR("str", "text");
            SPANPROF_ATTR_STR("null", NULL);
            SPANPROF_ATTR_STR("empty", "");
            SPANPROF_ATTR_F64("nan", NAN);
            SPANPROF_ATTR_F64("inf", -INFINITY);
            SPANPROF_ATTR_I64("twice", 1);
            SPANPROF_ATTR_I64("twice", 2);
        }
        SPANPROF_ATTR_I64("after", -1); /* the innermost open span is the outer one again */
    }
    d = session_close();
    outer = dr_find(d, "outer", 0);
    inner = dr_find(d, "inner", 0);
    v = dr_attr(d, outer->pos, "i64");
    if (CHECK(v != NULL)) {
        CHECK_INT(SPANPROF_VALUE_I64, v->kind);
        CHECK_INT(INT64_MIN, v->as.i64);
    }
    v = dr_attr(d, outer->pos, "u64");
    if (CHECK(v != NULL)) {
        CHECK_INT(SPANPROF_VALUE_U64, v->kind);
        CHECK_U64(UINT64_MAX, v->as.u64);
    }
    v = dr_attr(d, outer->pos, "f64");
    if (CHECK(v != NULL)) {
        CHECK_INT(SPANPROF_VALUE_F64, v->kind);
        CHECK(v->as.f64 == 0.1);
    }
    v = dr_attr(d, inner->pos, "str");
    if (CHECK(v != NULL)) {
        CHECK_INT(SPANPROF_VALUE_STR, v->kind);
        CHECK_STR("text", v->text);
    }
    v = dr_attr(d, inner->pos, "null");
    if (CHECK(v != NULL)) CHECK_STR("(null)", v->text);
    v = dr_attr(d, inner->pos, "empty");
    if (CHECK(v != NULL)) CHECK_STR("", v->text);
    v = dr_attr(d, inner->pos, "nan");
    if (CHECK(v != NULL)) CHECK(isnan(v->as.f64));
    v = dr_attr(d, inner->pos, "inf");
    if (CHECK(v != NULL)) CHECK(isinf(v->as.f64) && v->as.f64 < 0);
    v = dr_attr(d, inner->pos, "twice");
    if (CHECK(v != NULL)) CHECK_INT(2, v->as.i64);
    CHECK(dr_attr(d, outer->pos, "after") != NULL);
    CHECK(dr_attr(d, inner->pos, "after") == NULL);
    dr_free(d);
}

/* ---- steps ---- */

static void child_of_step(void) { SPANPROF_SPAN("child"); }

static void steps(void) {
    dr_dump *d;
    session_open("steps.dump");
    child_of_step();
    {
        SPANPROF_STEP(5);
        child_of_step();
        {
            SPANPROF_STEP(-1);
            child_of_step();
        }
        child_of_step();
        {
            SPANPROF_SPAN_META("own", .step = 9);
            child_of_step();
        }
    }
    child_of_step();
    d = session_close();
    CHECK_U64(7, dr_count(d, NULL));
    CHECK_INT(0, dr_find(d, "child", 0)->has_step);
    CHECK_INT(1, dr_find(d, "child", 1)->has_step);
    CHECK_INT(5, dr_find(d, "child", 1)->step);
    CHECK_INT(-1, dr_find(d, "child", 2)->step);
    CHECK_INT(5, dr_find(d, "child", 3)->step);
    CHECK_INT(9, dr_meta_number(d, dr_find(d, "own", 0), SPANPROF_META_step));
    CHECK_INT(5, dr_find(d, "child", 4)->step);
    CHECK_INT(0, dr_find(d, "child", 5)->has_step);
    dr_free(d);
}

/* ---- other events ---- */

static void events(void) {
    dr_dump *d;
    const dr_mark *m;
    session_open("events.dump");
    SPANPROF_THREAD_NAME("the main thread");
    SPANPROF_INSTANT("now");
    SPANPROF_COUNTER("level", 1.5);
    SPANPROF_COUNTER("level", -3);
    SPANPROF_ASYNC_BEGIN("request", 77);
    {
        SPANPROF_SPAN("from");
        SPANPROF_FLOW_OUT(1);
    }
    {
        SPANPROF_SPAN("to");
        SPANPROF_FLOW_IN(1);
        SPANPROF_ASYNC_END("request", 77);
    }
    d = session_close();
    CHECK_U64(1, dr_marks(d, SPANPROF_RECORD_INSTANT, "now"));
    CHECK_U64(2, dr_marks(d, SPANPROF_RECORD_COUNTER, "level"));
    m = dr_mark_of(d, SPANPROF_RECORD_COUNTER, "level", 0);
    if (CHECK(m != NULL)) CHECK(m->value == 1.5);
    m = dr_mark_of(d, SPANPROF_RECORD_COUNTER, "level", 1);
    if (CHECK(m != NULL)) CHECK(m->value == -3);
    m = dr_mark_of(d, SPANPROF_RECORD_ASYNC_BEGIN, "request", 0);
    if (CHECK(m != NULL)) CHECK_U64(77, m->id);
    m = dr_mark_of(d, SPANPROF_RECORD_ASYNC_END, "request", 0);
    if (CHECK(m != NULL)) CHECK_U64(77, m->id);
    m = dr_mark_of(d, SPANPROF_RECORD_FLOW_OUT, NULL, 0);
    if (CHECK(m != NULL)) {
        CHECK_U64(1, m->id);
        CHECK_U64(dr_find(d, "from", 0)->pos, m->pos);
    }
    m = dr_mark_of(d, SPANPROF_RECORD_FLOW_IN, NULL, 0);
    if (CHECK(m != NULL)) CHECK_U64(dr_find(d, "to", 0)->pos, m->pos);
    CHECK_STR("the main thread", dr_thread_name(d, dr_find(d, "from", 0)->thread));
    dr_free(d);
}

static void tracks(void) {
    static spanprof_site kernel = SPANPROF_I_SITE("kernel", NULL);
    spanprof_span none;
    dr_dump *d;
    memset(&none, 0, sizeof none);
    session_open("tracks.dump");
    spanprof_track_name(7, "GPU 0", 1, "stream 7");
    {
        SPANPROF_SPAN("launch");
        spanprof_track_span(&kernel, 7, 1000, 250, 40, spanprof_current());
        spanprof_track_span(&kernel, 7, 2000, 0, -1, none);
    }
    d = session_close();
    if (CHECK_U64(2, d->tracks_count)) {
        CHECK_U64(dr_find(d, "launch", 0)->pos, d->tracks[0].pos);
        CHECK_U64(7, d->tracks[0].track);
        CHECK_U64(1000, d->tracks[0].start_ns);
        CHECK_U64(250, d->tracks[0].duration_ns);
        CHECK_INT(40, d->tracks[0].queue_ns);
        CHECK_STR("kernel", d->names[d->tracks[0].name]);
        CHECK_U64(0, d->tracks[1].pos);
        CHECK_INT(-1, d->tracks[1].queue_ns);
    }
    if (CHECK_U64(1, d->labels_count)) {
        CHECK_STR("GPU 0", d->labels[0].process);
        CHECK_STR("stream 7", d->labels[0].name);
        CHECK_U64(1, d->labels[0].group);
    }
    dr_free(d);
}

/* ---- the program is not disturbed ---- */

static void arguments(void) {
    int i = 0;
    dr_dump *d;
    /* Off: arguments of metadata, attributes and events are not evaluated. */
    SPANPROF_ATTR_I64("i", i++);
    SPANPROF_COUNTER("i", i++);
    SPANPROF_BEGIN_META("i", .step = i++);
    SPANPROF_END();
    CHECK_INT(0, i);
    session_open("arguments.dump");
    errno = 1234;
    SPANPROF_BEGIN_META("i", .step = i++);
    SPANPROF_ATTR_I64("i", i++);
    SPANPROF_COUNTER("i", i++);
    SPANPROF_END();
    CHECK_INT(1234, errno);
    CHECK_INT(3, i);
    d = session_close();
    dr_free(d);
}

int main(void) {
    scopes();
    blocks();
    pairs();
    handles();
    metadata();
    attributes();
    steps();
    events();
    tracks();
    arguments();
    return CHECK_DONE();
}
