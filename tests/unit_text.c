/* unit_text.c - names, keys and values with any bytes in them: the dump holds them as they are, and the strict JSON of the
 * tool gives them back. SPDX-License-Identifier: MIT */
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include "child.h"
#include "json.h"
#include "session.h"

static const char *const hostile[] = {
    "\"quoted\"", "back\\slash", "operator\"\"_x", "{\"name\":\"x\",\"dur\":1}", "\"},{\"", "a\tb\nc\rd", "\x01\x02\x03\x04\x05\x06\x07\x08\x0b\x0c\x0e\x0f",
    "\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x7f", "%s%n%d%%", "</script><!--", "", " ", "caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x94\xa5",
    "\xe2\x80\xa8 line separator", "null", "a,b;c=d", "'single'", "\\u0041", "\xef\xbb\xbf bom"
};
/* Not UTF-8: the dump keeps the bytes, JSON can't. */
static const char *const broken[] = { "\xff\xfe", "cut \xc3", "\xed\xa0\x80 surrogate", "\xc0\x80 overlong" };
enum { HOSTILE = sizeof hostile / sizeof *hostile, BROKEN = sizeof broken / sizeof *broken };

static void record(const char *text) {
    /* The site and its text are gone when the dump is read. */
    char copy[64];
    static spanprof_site sites[HOSTILE + BROKEN];
    static unsigned used;
    spanprof_site *site = &sites[used++];
    spanprof_span span;
    snprintf(copy, sizeof copy, "%s", text);
    site->name = copy;
    site->file = __FILE__;
    span = spanprof_begin(site);
    SPANPROF_BEGIN_DYN(text);
    SPANPROF_ATTR_STR("value", text);
    SPANPROF_END();
    {
        spanprof_meta meta;
        memset(&meta, 0, sizeof meta);
        meta.module = text;
        spanprof_set_meta(span, &meta);
    }
    spanprof_end(span);
    memset(copy, '#', sizeof copy - 1);
    site->name = "overwritten";
}

/* How often a name stands in the trace, and in whose metadata or attributes. */
static void check_json(json *trace, const char *text) {
    size_t i;
    int names = 0, values = 0, modules = 0;
    for (i = 1; i + 1 < trace->count; i++) {
        const json_node *key = &trace->nodes[i], *value = &trace->nodes[i + 1];
        if (key->type != '"' || value->type != '"' || !json_same(trace, value, text, strlen(text))) continue;
        names += json_same(trace, key, "name", 4);
        values += json_same(trace, key, "value", 5);
        modules += json_same(trace, key, "module", 6);
    }
    if (!CHECK_INT(2, names) + !CHECK_INT(1, values) + !CHECK_INT(1, modules)) printf("    text %s\n", text);
}

static void bytes(void) {
    dr_dump *d;
    json *trace, *summary;
    size_t i;
    char command[512];
    session_open("text.dump");
    SPANPROF_THREAD_NAME("thread \"\\\x01\n\xc3\xa9");
    for (i = 0; i < HOSTILE; i++) record(hostile[i]);
    for (i = 0; i < BROKEN; i++) record(broken[i]);
    d = session_close();
    for (i = 0; i < HOSTILE + BROKEN; i++) {
        const char *text = i < HOSTILE ? hostile[i] : broken[i - HOSTILE];
        const dr_span *outer = dr_find(d, text, 0), *inner = dr_find(d, text, 1);
        const dr_value *v = dr_attr(d, inner->pos, "value");
        CHECK_U64(2, dr_count(d, text));
        CHECK(inner->flags & DR_DYN);
        CHECK_STR(text, dr_name(d, dr_parent(d, inner)));
        CHECK_STR(text, dr_meta_text(d, outer, SPANPROF_META_module));
        CHECK_STR(text, v ? v->text : NULL);
    }
    CHECK_STR("thread \"\\\x01\n\xc3\xa9", dr_thread_name(d, dr_find(d, hostile[0], 0)->thread));
    CHECK_U64(0, dr_count(d, "overwritten"));
    dr_free(d);
    if (!child_tool()) return;
    snprintf(command, sizeof command, "%s --no-table -t text.json -s text.summary.json text.dump", child_tool());
    CHECK_INT(0, child_command(command));
    trace = json_load("text.json");
    summary = json_load("text.summary.json");
    CHECK_STR("", trace->error);
    CHECK_STR("", summary->error);
    for (i = 0; i < HOSTILE; i++)
        if (*hostile[i]) check_json(trace, hostile[i]);
    CHECK_STR("thread \"\\\x01\n\xc3\xa9", json_get(trace, "traceEvents[name=thread_name].args.name"));
    json_free(trace);
    json_free(summary);
}

/* Texts are cut to SPANPROF_TEXT_MAX, here and there they say the same. */
static void lengths(void) {
    static char text[3 * SPANPROF_TEXT_MAX];
    static const size_t length[] = { 1, 2, 5, 6, 7, 8, 13, 14, 15, SPANPROF_TEXT_MAX - 1, SPANPROF_TEXT_MAX, SPANPROF_TEXT_MAX + 1, 2 * SPANPROF_TEXT_MAX + 100 };
    dr_dump *d;
    size_t i;
    session_open("lengths.dump");
    for (i = 0; i < sizeof length / sizeof *length; i++) {
        memset(text, 'a' + (int)i, sizeof text - 1);
        text[length[i]] = 0;
        SPANPROF_BEGIN_DYN(text);
        SPANPROF_ATTR_STR("text", text);
        SPANPROF_BEGIN_META("meta", .phase = text, .activity = text, .backend = text, .dtype = text, .device = text, .timing = text, .module = text,
                            .graph_node = text, .input_shapes = text, .output_shapes = text, .hook_error = text);
        SPANPROF_END();
        SPANPROF_END();
    }
    d = session_close();
    for (i = 0; i < sizeof length / sizeof *length; i++) {
        const dr_value *v;
        memset(text, 'a' + (int)i, sizeof text - 1);
        text[length[i] < SPANPROF_TEXT_MAX ? length[i] : SPANPROF_TEXT_MAX] = 0;
        v = dr_attr(d, dr_find(d, text, 0)->pos, "text");
        CHECK_U64(1, dr_count(d, text));
        CHECK_STR(text, v ? v->text : NULL);
        CHECK_STR(text, dr_meta_text(d, dr_find(d, "meta", i), SPANPROF_META_phase));
        CHECK_STR(text, dr_meta_text(d, dr_find(d, "meta", i), SPANPROF_META_hook_error));
    }
    dr_free(d);
}

/* Texts of every length, begun at every place of a word. */
static void places(void) {
    enum { LENGTHS = 18 };
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
    char first[LENGTHS + 1], second[LENGTHS + 1];
    dr_dump *d;
    size_t i, k;
    session_open("places.dump");
    for (i = 0; i < LENGTHS; i++)
        for (k = 0; k < LENGTHS; k++) {
            snprintf(first, sizeof first, "%.*s", (int)i, letters);
            snprintf(second, sizeof second, "%.*s", (int)k, letters + 5);
            SPANPROF_BEGIN_META("places", .phase = first, .activity = second, .backend = "end");
            SPANPROF_ATTR_STR("text", second);
            SPANPROF_END();
        }
    d = session_close();
    for (i = 0; i < LENGTHS; i++)
        for (k = 0; k < LENGTHS; k++) {
            const dr_span *s = dr_find(d, "places", i * LENGTHS + k);
            const dr_value *v = dr_attr(d, s->pos, "text");
            snprintf(first, sizeof first, "%.*s", (int)i, letters);
            snprintf(second, sizeof second, "%.*s", (int)k, letters + 5);
            CHECK_STR(first, dr_meta_text(d, s, SPANPROF_META_phase));
            CHECK_STR(second, dr_meta_text(d, s, SPANPROF_META_activity));
            CHECK_STR("end", dr_meta_text(d, s, SPANPROF_META_backend));
            CHECK_STR(second, v ? v->text : NULL);
        }
    dr_free(d);
}

/* More sites than a short span has numbers for. */
static void many_sites(void) {
    enum { SITES = SPANPROF_SHORT_SITE_MAX + 500 };
    static spanprof_site sites[SITES];
    static char names[SITES][16];
    dr_dump *d;
    int i, round, wrong = 0;
    session_open("sites.dump");
    for (i = 0; i < SITES; i++) {
        snprintf(names[i], sizeof names[i], "site %d", i);
        sites[i].name = names[i];
        sites[i].file = __FILE__;
    }
    for (round = 0; round < 2; round++)
        for (i = 0; i < SITES; i++) spanprof_end(spanprof_begin(&sites[i]));
    d = session_close();
    CHECK_U64(2 * SITES, dr_count(d, NULL));
    if (CHECK_U64(2 * SITES, d->spans_count))
        for (i = 0; i < 2 * SITES; i++) wrong += strcmp(names[i % SITES], dr_name(d, &d->spans[i])) != 0;
    CHECK_INT(0, wrong);
    dr_free(d);
}

int main(void) {
    bytes();
    lengths();
    places();
    many_sites();
    return CHECK_DONE();
}
