/* unit_parts.c - the JSON reader, foreign spans, inflate, compare and run of trace2summary.
 * SPDX-License-Identifier: MIT */
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#define TRACE2SUMMARY_NO_MAIN
#include "../../tools/trace2summary.c"
#include "../check.h"

static char folder[] = "/tmp/unit_parts.XXXXXX";

/* A file of the test's folder with this text; the path lives until the next call with the same slot. */
static const char *file_of(int slot, const char *text, size_t n) {
    static char path[4][128];
    FILE *f;
    snprintf(path[slot], sizeof path[slot], "%s/%d.json", folder, slot);
    f = fopen(path[slot], "wb");
    if (!CHECK(f != NULL)) return path[slot];
    CHECK(fwrite(text, 1, n, f) == n);
    CHECK(fclose(f) == 0);
    return path[slot];
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

typedef struct {
    json_report report;
    foreign_load *load;
    session session; /* its names serve both ways of reading */
    options options;
    textbuf log;    /* one line an event */
    textbuf rows;   /* one line a finished span, innermost first */
    int rc;
} reading;

static int log_event(void *user, const json_event *e) {
    reading *r = user;
    text_form(&r->log, "%c ", e->ph);
    text_slice(&r->log, e->name);
    if (e->has_ts) text_form(&r->log, " ts=%" PRId64, e->ts_ns);
    if (e->has_dur) text_form(&r->log, " dur=%" PRId64, e->dur_ns);
    if (e->pid.kind == JSON_ID_NUMBER) text_form(&r->log, " pid=%" PRId64, e->pid.number);
    if (e->tid.kind == JSON_ID_TEXT) text_form(&r->log, " tid='%.*s'", (int)e->tid.text.n, e->tid.text.p);
    if (e->id.n) text_form(&r->log, " id=%.*s%c", (int)e->id.n, e->id.p, e->id_kind ? e->id_kind : ' ');
    if (e->bp) text_form(&r->log, " bp=%c", e->bp);
    if (e->ph == 'i') text_form(&r->log, " s=%c", e->scope);
    text_byte(&r->log, '\n');
    foreign_add(&r->load->f, e);
    return 0;
}
static void log_span(walk *w, const span_view *v) { w->node = site_name(w->s, w->d, v->site); }
static void log_closed(walk *w, const open_span *o) {
    reading *r = w->user;
    const uint64_t duration = o->end_ns - o->start_ns;
    if (o->unfinished) return;
    text_slice(&r->rows, name_raw(&w->s->names, (uint32_t)o->node));
    text_form(&r->rows, " %" PRIu64 "+%" PRIu64 " self %" PRIu64 " depth %u%s\n", o->start_ns - w->s->first_ns, duration, duration - o->covered,
              (unsigned)(o - w->open) - 1, o->crossing ? " crosses" : "");
}

/* Reads the text twice: event by event, and as an input of the tool. */
static void read_bytes(reading *r, const char *text, size_t n) {
    static const visitor visit = { log_span, log_closed, NULL, NULL };
    const char *path = file_of(0, text, n);
    memset(r, 0, sizeof *r);
    options_default(&r->options);
    r->options.quiet = 1;
    r->options.inputs = &path;
    r->options.input_count = 1;
    session_begin(&r->session, &r->options);
    r->load = must_alloc(1, sizeof *r->load);
    foreign_init(&r->load->f, &r->session.names, &r->report, true);
    r->rc = json_trace_read(path, log_event, r, &r->report);
    foreign_finish(&r->load->f);
    if (r->rc == 0 && summarise(&r->session) == 0) walk_all(&r->session, &visit, r);
    text_end(&r->log);
    text_end(&r->rows);
}
static void read_text(reading *r, const char *text) { read_bytes(r, text, strlen(text)); }
static void done(reading *r) {
    foreign_free(r->load);
    session_end(&r->session);
    text_free(&r->log);
    text_free(&r->rows);
}

static void expect_log(const char *json, const char *log) {
    reading r;
    read_text(&r, json);
    CHECK_INT(0, r.rc);
    CHECK_STR(log, r.log.p);
    done(&r);
}
static void expect_note(const char *json, json_note note, uint64_t count, uint64_t first, uint64_t events, bool damaged) {
    reading r;
    read_text(&r, json);
    if (!CHECK_U64(count, r.report.note[note].count) || !CHECK_U64(first, r.report.note[note].first) ||
        !CHECK_U64(events, r.report.events) || !CHECK_INT(damaged, r.report.damaged))
        printf("    for %s\n", json);
    done(&r);
}
static void expect_spans(const char *json, const char *rows) {
    reading r;
    read_text(&r, json);
    if (!CHECK_STR(rows, r.rows.p)) printf("    for %s\n", json);
    done(&r);
}

static void test_decimals(void) {
    static const struct { const char *text; int64_t ns; bool good; } t[] = {
        {"0", 0, true}, {"1", 1000, true}, {"1.5", 1500, true}, {"1.2345", 1235, true}, {"1.23449999999999999999", 1234, true},
        {"-0.0005", 0, true}, {"-0.00050001", -1, true}, {"-1.5", -1500, true}, {"1e3", 1000000, true}, {"1.5E-3", 2, true},
        {"1.4999e-3", 1, true}, {"0.000000001e9", 1000, true}, {"9223372036854775.807", INT64_MAX, true},
        {"9223372036854775.8074", INT64_MAX, true}, {"9223372036854775.8075", 0, false}, {"9223372036854775.808", 0, false},
        {"-9223372036854775.808", INT64_MIN, true}, {"1e400", 0, false}, {"0e400", 0, true}, {"1e-400", 0, true},
        {"1e99999999999999999999", 0, false}, {"00012", 12000, true}, {"", 0, false}, {".", 0, false}, {"1e", 0, false},
        {"NaN", 0, false}, {"1.2.3", 0, false}, {"+7", 7000, true}, {"4503599627370497.123", INT64_C(4503599627370497123), true}};
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        int64_t ns = 0;
        const bool good = json_decimal_integer(slice_of(t[i].text), 3, &ns);
        if (!CHECK_INT(t[i].good, good) || (good && !CHECK_INT(t[i].ns, ns))) printf("    for \"%s\"\n", t[i].text);
    }
}

static void test_forms(void) {
#define EVENT "{\"name\":\"a\",\"ph\":\"X\",\"pid\":1,\"tid\":2,\"ts\":1.5,\"dur\":2}"
#define LINE "X a ts=1500 dur=2000 pid=1\n"
    expect_log("[" EVENT "]", LINE);
    expect_log("[" EVENT ",\n" EVENT, LINE LINE);
    expect_log("{\"traceEvents\":[" EVENT "]}", LINE);
    expect_log("\xef\xbb\xbf{\"traceEvents\":[" EVENT "]}", LINE);
    expect_log("{\"other\":{\"traceEvents\":[{\"ph\":\"X\"}]},\"s\":\"]}\\\"\",\"n\":-1.5e3,\"traceEvents\":[" EVENT "],\"z\":[[]]}", LINE);
    expect_log("[]", "");
    expect_log("{\"traceEvents\":[]}", "");
    expect_log("[" EVENT ",{}]", LINE);
    expect_log("[{\"ph\":\"X\",\"ts\":\"10.25\",\"dur\":\"1e1\",\"tid\":\"stream 7\",\"pid\":\"12\",\"name\":\"b\"}]",
               "X b ts=10250 dur=10000 pid=12 tid='stream 7'\n");
    expect_log("[{\"name\":\"one\",\"name\":\"two\",\"ts\":1,\"ts\":2,\"ph\":\"i\"}]", "i two ts=2000 s=t\n");
    expect_log("[{\"n\\u0061me\":\"esc\",\"ts\":1,\"ph\":\"i\",\"s\":\"g\"}]", "i esc ts=1000 s=g\n");
    expect_log("[{\"ph\":\"b\",\"name\":\"r\",\"cat\":\"c\",\"ts\":1,\"id2\":{\"local\":\"0x1f\"}},{\"ph\":\"f\",\"ts\":1,\"id\":42,\"bp\":\"e\"}]",
               "b r ts=1000 id=0x1fl\nf  ts=1000 id=42  bp=e\n");
    expect_log("[{\"name\":\"\\u00e4\\ud83d\\ude00\\n\\/\",\"ph\":\"M\"}]", "M \xc3\xa4\xf0\x9f\x98\x80\n/\n");
    expect_log("[{\"name\":\"\\ud83dx\",\"ph\":\"M\"}]", "M \xef\xbf\xbdx\n");
    expect_log("[{\"name\":\"raw \001\t\",\"ph\":\"M\"}]", "M raw \001\t\n");
    expect_log("[{\"name\":\"n\",\"ph\":\"M\",\"args\":{\"a\":NaN,\"b\":[-Infinity,{}],\"c\":\"}\"}}]", "M n\n");
}

static void test_notes(void) {
    expect_note("{\"traceEvents\":[" EVENT "," EVENT, JSON_CUT, 1, 125, 2, true);
    expect_note("{\"traceEvents\":[" EVENT ",{\"name\":\"b", JSON_CUT, 1, 71, 1, true);
    expect_note("[" EVENT, JSON_UNCLOSED, 1, 55, 1, false);
    expect_note("[" EVENT ",]", JSON_COMMA, 1, 56, 1, false);
    expect_note("[" EVENT EVENT "]", JSON_COMMA, 1, 55, 2, false);
    expect_note("[null," EVENT "]", JSON_NOT_EVENT, 1, 1, 1, false);
    expect_note("[{\"ph\":\"X\",\"ts\":1}]", JSON_NO_DUR, 1, 1, 0, false);
    expect_note("[{\"ph\":\"X\",\"dur\":1}]", JSON_NO_TS, 1, 1, 0, false);
    expect_note("[{\"ph\":\"X\",\"ts\":1,\"dur\":-1}]", JSON_NEGATIVE_DUR, 1, 1, 0, false);
    expect_note("[{\"ph\":\"X\",\"ts\":1e30,\"dur\":1}]", JSON_BAD_TS, 1, 1, 0, true);
    expect_note("[{\"ph\":\"X\",\"ts\":1,\"dur\":NaN}]", JSON_BAD_DUR, 1, 1, 0, true);
    expect_note("[{\"ph\":\"X\",\"ts\":9223372036854775,\"dur\":1}]", JSON_BAD_DUR, 1, 1, 0, true);
    expect_note("[{\"name\":\"x\"}]", JSON_NO_PHASE, 1, 1, 0, false);
    expect_note("[{\"ph\":\"P\",\"ts\":1}]", JSON_OTHER_PHASE, 1, 1, 0, false);
    expect_note("[{\"a\" 1}," EVENT "]", JSON_BROKEN, 1, 6, 1, true);
    expect_note("[{\"name\":\"no end,\"ph\":\"X\"}," EVENT "]", JSON_BROKEN, 1, 18, 1, true);
    expect_note("[" EVENT "] x", JSON_TRAILING, 1, 57, 1, true);
    expect_note("[{\"name\":\"\\udc00\",\"ph\":\"M\"}]", JSON_SURROGATE, 1, 1, 1, false);
}

static void test_refused(void) {
    static const char *const t[][2] = {{"", "is empty"}, {" \n", "is empty"}, {"{\"a\":1}", "holds no traceEvents"}, {"hello", "is neither a dump nor JSON"}};
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        reading r;
        read_text(&r, t[i][0]);
        CHECK_INT(-1, r.rc);
        CHECK_STR(t[i][1], r.report.why);
        done(&r);
    }
}

static void test_sizes(void) {
    textbuf t = {NULL, 0, 0, false};
    reading r;
    text_str(&t, "[{\"ph\":\"X\",\"name\":\"\",\"ts\":1,\"dur\":1},{\"ph\":\"X\",\"ts\":1,\"dur\":1,\"name\":\"");
    for (int i = 0; i < 70000; i++) text_byte(&t, 'n');
    text_str(&t, "\",\"args\":{\"deep\":");
    for (int i = 0; i < 100000; i++) text_byte(&t, '[');
    for (int i = 0; i < 100000; i++) text_byte(&t, ']');
    text_str(&t, "}}]");
    read_bytes(&r, t.p, t.n);
    CHECK_U64(2, r.report.events);
    CHECK_INT(0, r.report.damaged);
    CHECK_U64(70000, name_raw(&r.session.names, r.load->f.keys[2].field[KEY_NAME]).n);
    CHECK_U64(200000 + sizeof "{\"deep\":}" - 1, r.load->f.args[1].n);
    done(&r);
    text_free(&t);
}

#define B(name, ts) "{\"ph\":\"B\",\"name\":\"" name "\",\"pid\":1,\"tid\":1,\"ts\":" #ts "}"
#define E(name, ts) "{\"ph\":\"E\",\"name\":\"" name "\",\"pid\":1,\"tid\":1,\"ts\":" #ts "}"
#define X(name, ts, dur) "{\"ph\":\"X\",\"name\":\"" name "\",\"pid\":1,\"tid\":1,\"ts\":" #ts ",\"dur\":" #dur "}"

static void test_spans(void) {
    expect_spans("[" B("a", 0) "," B("b", 1) "," E("b", 2) "," E("", 4) "]", "b 1000+1000 self 1000 depth 1\na 0+4000 self 3000 depth 0\n");
    expect_spans("[" E("a", 4) "," B("a", 0) "]", "a 0+4000 self 4000 depth 0\n");
    expect_spans("[" X("in", 2, 1) "," X("out", 0, 9) "]", "in 2000+1000 self 1000 depth 1\nout 0+9000 self 8000 depth 0\n");
    expect_spans("[" X("a", 0, 10) "," X("b", 5, 10) "]", "b 5000+10000 self 10000 depth 1 crosses\na 0+10000 self 5000 depth 0\n");
    expect_spans("[" X("a", 0, 10) "," X("b", 1, 3) "," X("c", 2, 5) "]",
                 "c 2000+5000 self 5000 depth 2 crosses\nb 1000+3000 self 1000 depth 1\na 0+10000 self 4000 depth 0\n");
    expect_spans("[" X("a", 0, 0) "," X("a", 0, 0) "," X("r", 0, 5) "]", "a 0+0 self 0 depth 1\na 0+0 self 0 depth 1\nr 0+5000 self 5000 depth 0\n");
    /* An E of an outer name closes that one; the inner stays open. */
    expect_spans("[" B("o", 0) "," B("i", 1) "," E("o", 4) "]", "o 0+4000 self 1000 depth 0\n");
    expect_note("[" B("o", 0) "," B("i", 1) "," E("o", 4) "]", JSON_OUT_OF_ORDER_E, 1, 91, 3, false);
    expect_note("[" B("o", 0) "," B("i", 1) "," E("o", 4) "]", JSON_UNFINISHED_B, 1, 46, 3, false);
    expect_note("[" B("o", 0) "," E("x", 4) "]", JSON_UNMATCHED_E, 1, 46, 2, false);
    expect_note("[" E("", 4) "]", JSON_UNMATCHED_E, 1, 1, 1, false);
}

static void test_metadata(void) {
    reading r;
    foreign_key *k;
    read_text(&r, "[{\"ph\":\"X\",\"name\":\"m\",\"cat\":\"lean,x\",\"ts\":0,\"dur\":1,\"args\":{\"metadata\":{\"phase\":\"forward\",\"device\":\"cuda\",\"step\":3,"
                  "\"alloc_bytes\":7,\"alloc_delta_bytes\":-2,\"alloc_live_bytes\":5,\"alloc_peak_bytes\":9,\"hook_error\":\"e\",\"dtype\":null}}},"
                  "{\"ph\":\"X\",\"name\":\"m\",\"cat\":\"kernel\",\"ts\":0,\"dur\":1,\"args\":{\"device\":0}},"
                  "{\"ph\":\"X\",\"name\":\"m\",\"cat\":\"span\",\"ts\":0,\"dur\":1,\"args\":{\"device\":\"cuda\",\"ph\\u0061se\":\"x\"}}]");
    CHECK_U64(4, r.load->f.key_count);
    k = r.load->f.keys;
    CHECK_STR("forward", name_raw(&r.session.names, k[1].field[KEY_PHASE]).p);
    CHECK_STR("cuda", name_raw(&r.session.names, k[1].field[KEY_DEVICE]).p);
    CHECK_U64(0, k[1].field[KEY_DTYPE]);
    CHECK_U64(0, k[1].field[KEY_ACTIVITY]);
    CHECK_INT(7, k[1].sum.alloc_bytes);
    CHECK_INT(-2, k[1].sum.alloc_delta_bytes);
    CHECK_INT(9, k[1].sum.peak_live_bytes);
    CHECK_U64(1, k[1].sum.hook_errors);
    CHECK_STR("kernel", name_raw(&r.session.names, k[2].field[KEY_ACTIVITY]).p);
    CHECK_U64(0, k[2].field[KEY_DEVICE]);
    CHECK_STR("cuda", name_raw(&r.session.names, k[3].field[KEY_DEVICE]).p);
    CHECK_U64(0, k[3].field[KEY_ACTIVITY]);
    done(&r);
}

static void test_clean(void) {
    static const char *const t[][2] = {
        {" { \"a\" : [ 1 , 2.50 , -0 ] } ", "{\"a\":[1,2.50,-0]}"}, {"{\"a\":NaN,\"b\":-Infinity,\"c\":undefined,\"d\":01}", "{\"a\":null,\"b\":null,\"c\":null,\"d\":null}"},
        {"{\"a\":[1,],}", "{\"a\":[1]}"}, {"{\"\\ud83d\\ude00\":\"\\ud83d\\u000a\"}", "{\"\xf0\x9f\x98\x80\":\"\xef\xbf\xbd\\u000A\"}"},
        {"{\"a\":\"\001\xff\"}", "{\"a\":\"\\u0001\xef\xbf\xbd\"}"}, {"{\"a\":}", NULL}, {"{\"a\":1]", NULL}, {"{\"a\":1}}", NULL}, {"{\"a\"", NULL},
        {"{a:1}", NULL}, {"[1 2]", NULL}, {"{}", "{}"}, {"{,}", NULL}, {"", NULL}};
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        textbuf out = {NULL, 0, 0, false};
        const bool good = json_clean(&out, slice_of(t[i][0]));
        CHECK_STR(t[i][1], good ? text_end(&out) : NULL);
        text_free(&out);
    }
}

/* ---- compare ------------------------------------------------------------------------------------------------------- */

#define ROW(name, value) "{\"key\":{\"name\":\"" name "\",\"phase\":null},\"calls\":2,\"mean_ns\":" #value "}"
#define SUMMARY(rows) "{\"schema_version\":1,\"dropped_events\":0,\"validation_issues\":[],\"rows\":[" rows "]}"

/* The exit code; what was written with --json, in *json. */
static int compare_texts(const char *base, const char *candidate, const char *options, textbuf *json) {
    char copy[256], out[128];
    char *argv[20];
    int argc = 0, code, keep, null;
    union { const char *text; char *word; } file;
    file.text = file_of(1, base, strlen(base));
    argv[argc++] = file.word;
    file.text = file_of(2, candidate, strlen(candidate));
    argv[argc++] = file.word;
    snprintf(copy, sizeof copy, "%s", options);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) argv[argc++] = word;
    snprintf(out, sizeof out, "--json=%s/out.json", folder);
    argv[argc++] = out;
    fflush(stdout);
    keep = dup(1);
    null = open("/dev/null", O_WRONLY);
    dup2(null, 1);
    code = compare_main(argc, argv, NULL);
    fflush(stdout);
    dup2(keep, 1);
    close(keep);
    close(null);
    if (json && code < 2) {
        json_in in;
        CHECK(json_open(&in, out + 7));
        while (json_more(&in, in.end)) text_put(json, in.buf, (size_t)(in.end - in.buf));
        text_end(json);
        json_close(&in);
    }
    return code;
}

static void test_compare(void) {
    static const struct { int code; const char *base, *candidate, *options; } t[] = {
        {0, SUMMARY(ROW("a", 100)), SUMMARY(ROW("a", 100)), ""},
        {1, SUMMARY(ROW("a", 100)), SUMMARY(ROW("a", 101)), ""},
        {0, SUMMARY(ROW("a", 100)), SUMMARY(ROW("a", 101)), "--absolute-tolerance 1"},
        {0, SUMMARY(ROW("a", 100)), SUMMARY(ROW("a", 101)), "--relative-tolerance-bps=100"},
        {1, SUMMARY(ROW("a", 100)), SUMMARY(ROW("a", 102)), "--relative-tolerance-bps 100 --absolute-tolerance 1"},
        {1, SUMMARY(ROW("a", 0)), SUMMARY(ROW("a", 1001)), "--absolute-tolerance 1us"},
        {0, SUMMARY(ROW("a", 0)), SUMMARY(ROW("a", 1000)), "--absolute-tolerance=1us"},
        {2, SUMMARY(ROW("a", 0)), SUMMARY(ROW("a", 1000)), "--absolute-tolerance 1us --metric calls"},
        {2, SUMMARY(ROW("a", 0)), SUMMARY(ROW("a", 1000)), "--absolute-tolerance 1h"},
        {2, SUMMARY(ROW("a", 0)), SUMMARY(ROW("a", 1000)), "--relative-tolerance-bps 1us"},
        {1, SUMMARY(ROW("a", 0)), SUMMARY(ROW("a", 2)), "--relative-tolerance-bps 9000000000000000000 --absolute-tolerance 1"},
        {0, SUMMARY(ROW("a", 0)), SUMMARY(ROW("a", 1)), "--absolute-tolerance 1"},
        {1, SUMMARY(ROW("a", 4611686018427387904)), SUMMARY(ROW("a", 9223372036854775807)), "--relative-tolerance-bps 9999"},
        {0, SUMMARY(ROW("a", 4611686018427387904)), SUMMARY(ROW("a", 9223372036854775807)), "--relative-tolerance-bps 10000"},
        {0, SUMMARY(ROW("a", 1)), SUMMARY(ROW("b", 1)), ""},
        {1, SUMMARY(ROW("a", 1)), SUMMARY(ROW("b", 1)), "--fail-on-new"},
        {1, SUMMARY(ROW("a", 1)), SUMMARY(ROW("b", 1)), "--fail-on-missing"},
        {3, SUMMARY(""), SUMMARY(ROW("a", 1)), ""},
        {3, SUMMARY(ROW("a", 1)), SUMMARY(""), "--allow-incomplete"},
        {3, SUMMARY(ROW("a", 1)), "", ""},
        {3, SUMMARY(ROW("a", 1)), "{", ""},
        {3, SUMMARY(ROW("a", 1) "," ROW("a", 2)), SUMMARY(ROW("a", 1)), ""},
        {3, SUMMARY(ROW("a", 1)), "{\"schema_version\":2,\"dropped_events\":0,\"validation_issues\":[],\"rows\":[" ROW("a", 1) "]}", ""},
        {3, SUMMARY(ROW("a", 1)), "{\"schema_version\":1,\"dropped_events\":5,\"validation_issues\":[],\"rows\":[" ROW("a", 1) "]}", ""},
        {0, SUMMARY(ROW("a", 1)), "{\"schema_version\":1,\"dropped_events\":5,\"validation_issues\":[],\"rows\":[" ROW("a", 1) "]}", "--allow-incomplete"},
        {3, SUMMARY(ROW("a", 1)), "{\"schema_version\":1,\"dropped_events\":0,\"validation_issues\":[{\"m\":1}],\"rows\":[" ROW("a", 1) "]}", ""},
        {3, SUMMARY(ROW("a", 1)), SUMMARY(ROW("a", 1.5)), ""},
        {3, SUMMARY(ROW("a", 1)), SUMMARY(ROW("a", -1)), ""},
        {3, SUMMARY(ROW("a", 1)), SUMMARY(ROW("a", 1)), "--metric p99_ns"},
        {0, SUMMARY(ROW("a", 1)), SUMMARY(ROW("a", 9)), "--metric calls"},
        {2, SUMMARY(ROW("a", 1)), SUMMARY(ROW("a", 1)), "--metric speed"},
        {2, SUMMARY(ROW("a", 1)), SUMMARY(ROW("a", 1)), "--absolute-tolerance -1"},
        {2, SUMMARY(ROW("a", 1)), SUMMARY(ROW("a", 1)), "--frob"},
        {2, SUMMARY(ROW("a", 1)), SUMMARY(ROW("a", 1)), "third"},
        {3, SUMMARY(ROW("a", 1)), SUMMARY(ROW("a", 1)), "-- /nonexistent/x"}};
    textbuf json = {NULL, 0, 0, false};
    for (size_t i = 0; i < sizeof t / sizeof *t; i++)
        if (!CHECK_INT(t[i].code, compare_texts(t[i].base, t[i].candidate, t[i].options, NULL)))
            printf("    for %s | %s | %s\n", t[i].base, t[i].candidate, t[i].options);
    CHECK_INT(0, compare_texts(SUMMARY(ROW("a", 100) "," ROW("b", 100)), SUMMARY(ROW("a", 90) "," ROW("b", 80)), "--absolute-tolerance 10", &json));
    CHECK_CONTAINS("\"status\":\"within_tolerance\",\"baseline\":100,\"candidate\":90,", json.p);
    CHECK_CONTAINS("\"status\":\"improvement\",\"baseline\":100,\"candidate\":80,", json.p);
    text_free(&json);
    CHECK_INT(1, compare_texts(SUMMARY(ROW("a", 100) "," ROW("b", 5) "," ROW("gone", 7)), SUMMARY(ROW("a", 250) "," ROW("b", 4) "," ROW("n\\u00e4w", 1)), "", &json));
    CHECK_STR("{\"schema_version\":1,\"metric\":\"mean_ns\",\"absolute_tolerance\":0,\"relative_tolerance_bps\":0,\"has_regression\":true,\"policy_failed\":false,\"matched\":[\n"
              "{\"key\":{\"name\":\"a\",\"phase\":null,\"activity\":null,\"backend\":null,\"dtype\":null,\"device\":null,\"module\":null},\"status\":\"regression\",\"baseline\":100,"
              "\"candidate\":250,\"delta\":150,\"change_bps\":15000,\"baseline_calls\":2,\"candidate_calls\":2},\n"
              "{\"key\":{\"name\":\"b\",\"phase\":null,\"activity\":null,\"backend\":null,\"dtype\":null,\"device\":null,\"module\":null},\"status\":\"improvement\",\"baseline\":5,"
              "\"candidate\":4,\"delta\":-1,\"change_bps\":-2000,\"baseline_calls\":2,\"candidate_calls\":2}],\n\"missing\":[\n"
              "{\"key\":{\"name\":\"gone\",\"phase\":null,\"activity\":null,\"backend\":null,\"dtype\":null,\"device\":null,\"module\":null},\"value\":7,\"calls\":2}],\n\"new\":[\n"
              "{\"key\":{\"name\":\"n\xc3\xa4w\",\"phase\":null,\"activity\":null,\"backend\":null,\"dtype\":null,\"device\":null,\"module\":null},\"value\":1,\"calls\":2}]}\n", json.p);
    text_free(&json);
}

/* Several runs of the baseline: a change inside their spread is noise. */
static void test_compare_runs(void) {
    compare_options o;
    compare_result r;
    memset(&o, 0, sizeof o);
    o.metric = "mean_ns";
    compare_add_file(&o.base, file_of(0, SUMMARY(ROW("a", 100) "," ROW("b", 1)), strlen(SUMMARY(ROW("a", 100) "," ROW("b", 1)))));
    compare_add_file(&o.base, file_of(1, SUMMARY(ROW("a", 130) "," ROW("b", 1)), strlen(SUMMARY(ROW("a", 130) "," ROW("b", 1)))));
    compare_add_file(&o.base, file_of(2, SUMMARY(ROW("a", 110)), strlen(SUMMARY(ROW("a", 110)))));
    compare_add_file(&o.candidate, file_of(3, SUMMARY(ROW("a", 125) "," ROW("b", 2)), strlen(SUMMARY(ROW("a", 125) "," ROW("b", 2)))));
    CHECK(compare_load_side(&o.base, &o, NULL));
    CHECK(compare_load_side(&o.candidate, &o, NULL));
    r = compare_lines(&o);
    CHECK_U64(2, r.count);
    CHECK_INT(VERDICT_REGRESSION, r.list[0].verdict);
    CHECK_U64(2, r.list[0].base.runs);
    CHECK_INT(VERDICT_NOISE, r.list[1].verdict);
    CHECK_INT(110, r.list[1].base.median);
    CHECK_INT(130, r.list[1].base.high);
    free(r.list);
    compare_free_side(&o.base);
    compare_free_side(&o.candidate);
}

static void test_wide(void) {
    const compare_wide p = compare_product(UINT64_MAX, UINT64_MAX);
    CHECK_U64(UINT64_MAX - 1, p.high);
    CHECK_U64(1, p.low);
    CHECK_INT(INT64_MAX, compare_ratio(UINT64_MAX, UINT64_MAX, 1));
    CHECK_INT(333, compare_ratio(1000, 1, 3));
    CHECK_INT(INT64_MAX, compare_ratio((uint64_t)INT64_MAX, 10000, 10000));
}

/* ---- run ----------------------------------------------------------------------------------------------------------- */

static int converted_count, converted_code;
static int count_dumps(void *user, char **paths, int count) {
    (void)user;
    (void)paths;
    converted_count = count;
    return converted_code;
}
static int run_shell(const char *script) {
    static char sh[] = "sh", c[] = "-c";
    char beside[64], text[512];
    char *argv[] = {sh, c, text, NULL};
    run_setup setup = {beside, count_dumps, NULL};
    snprintf(beside, sizeof beside, "%s/spanprof.trace.json", folder);
    snprintf(text, sizeof text, "%s", script);
    converted_count = 0;
    return run_command(argv, &setup);
}

static void test_run(void) {
    static char missing[] = "/nonexistent/command", plain[] = "/etc/passwd";
    char *none[] = {missing, NULL}, *denied[] = {plain, NULL};
    const run_setup setup = {NULL, count_dumps, NULL};
#define DUMP "echo x > \"$(echo \"$SPANPROF_OUT\" | sed s/%p/$$/)\"; "
    CHECK_INT(0, run_shell("exit 0"));
    CHECK_INT(0, converted_count);
    CHECK_INT(7, run_shell(DUMP "test \"$SPANPROF\" = 1 && exit 7"));
    CHECK_INT(1, converted_count);
    CHECK_INT(128 + SIGKILL, run_shell(DUMP "kill -9 $$"));
    CHECK_INT(1, converted_count);
    CHECK_INT(128 + SIGTERM, run_shell("kill -TERM $PPID; sleep 5"));
    CHECK_INT(0, run_shell("trap 'exit 0' INT; kill -INT $PPID; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2; done; exit 9"));
    CHECK_INT(3, run_shell("cd /; " DUMP "sh -c '" DUMP "'; sh -c '" DUMP "'; exit 3"));
    CHECK_INT(3, converted_count);
    CHECK_INT(0, run_shell("test \"$(stat -c %a $(dirname \"$SPANPROF_OUT\"))\" = 700"));
    CHECK_INT(127, run_command(none, &setup));
    CHECK_INT(126, run_command(denied, &setup));
    converted_code = 4;
    CHECK_INT(4, run_shell(DUMP "exit 0"));
    CHECK_INT(5, run_shell(DUMP "exit 5"));
    converted_code = 3;
    CHECK_INT(0, run_shell(DUMP "exit 0"));
    signal(SIGINT, SIG_IGN);
    CHECK_INT(0, run_shell("kill -INT $$; exit 0"));
    signal(SIGINT, SIG_DFL);
}

/* What inflate makes of a file, for gen_gzip.py. */
static int gunzip(const char *file) {
    static unsigned char buffer[50000];
    static json_in in;
    static gz z;
    size_t n;
    in.fd = open(file, O_RDONLY);
    if (in.fd < 0) return 2;
    gz_open(&z, json_read_file, &in);
    while ((n = gz_read(&z, buffer, sizeof buffer)) != 0) fwrite(buffer, 1, n, stdout);
    if (z.error) fprintf(stderr, "%" PRIu64 " %s\n", z.error_offset, z.error);
    return z.error != NULL;
}

int main(int argc, char **argv) {
    char command[64];
    if (argc == 3 && strcmp(argv[1], "gunzip") == 0) return gunzip(argv[2]);
    if (!mkdtemp(folder)) return 1;
    test_decimals();
    test_forms();
    test_notes();
    test_refused();
    test_sizes();
    test_spans();
    test_metadata();
    test_clean();
    test_compare();
    test_compare_runs();
    test_wide();
    test_run();
    snprintf(command, sizeof command, "ls -A %s | grep -v json", folder); /* no folder of run is left behind */
    CHECK(system(command) != 0);
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK(system(command) == 0);
    return CHECK_DONE();
}
