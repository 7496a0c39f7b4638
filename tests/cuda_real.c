/* cuda_real.c - the fallback with the real runtime library where there is no driver or no device, and (cuda_stub.c) without the
 * toolkit: the program runs the same, every span says why it is host time. SPDX-License-Identifier: MIT */
#define SPANPROF_CUDA
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include "child.h"
#include "session.h"

static void program(void) {
    void *p = NULL;
    int i;
    for (i = 0; i < 3; i++) {
        SPANPROF_CUDA_SPAN_META("forward", .phase = "forward", .step = i);
        { SPANPROF_CUDA_STREAM_SPAN("stream", NULL); }
        { SPANPROF_CUDA_STREAM_SPAN_META("stream meta", NULL, .phase = "backward"); }
        { SPANPROF_CUDA_DEVICE_SPAN("device", NULL); }
    }
    spanprof_cuda_capture_begin();
    { SPANPROF_CUDA_SPAN("declared capture"); }
    spanprof_cuda_capture_end();
    CHECK((int)spanprof_cuda_malloc(&p, 100) != 0);
    CHECK(p == NULL);
    CHECK_INT(0, (int)spanprof_cuda_free(NULL) && !SPANPROF_I_CUDA);
}

static void check_spans(const char *path, const char *why) {
    char error[512];
    static const char *const names[] = { "forward", "stream", "stream meta", "device", "declared capture" };
    size_t i;
    dr_dump *d = dr_load(path);
    CHECK_STR("", d->error);
    snprintf(error, sizeof error, "prepare: %s", why);
    for (i = 0; i < 5; i++) {
        const dr_span *s = dr_find(d, names[i], 0);
        CHECK_U64(i < 4 ? 3 : 1, dr_count(d, names[i]));
        CHECK_STR("host", dr_meta_text(d, s, SPANPROF_META_timing));
        CHECK_STR(error, dr_meta_text(d, s, SPANPROF_META_hook_error));
        CHECK_STR(NULL, dr_meta_text(d, s, SPANPROF_META_device));
        CHECK_INT(0, dr_has(d, s, SPANPROF_META_alloc_live_bytes));
    }
    CHECK_STR("forward", dr_meta_text(d, dr_find(d, "forward", 0), SPANPROF_META_phase));
    CHECK_U64(0, d->tracks_count);
    CHECK_U64(0, dr_dropped(d));
    dr_free(d);
}

static void test_counters(void) {
    spanprof_cuda_memory_info m;
    spanprof_buffer_acquire(3, 100);
    spanprof_buffer_acquire(3, 50);
    spanprof_buffer_release(3, 100);
    CHECK_U64(50, spanprof_buffer_live(3));
    CHECK_U64(150, spanprof_buffer_peak(3));
    spanprof_buffer_reset_peak(3);
    CHECK_U64(50, spanprof_buffer_peak(3));
    spanprof_buffer_release(3, 50);
    CHECK_U64(0, spanprof_buffer_live(3));
    CHECK_U64(0, spanprof_buffer_live(0));
    CHECK_INT(SPANPROF_ERR_STATE, spanprof_cuda_memory(&m));
    CHECK_U64(0, m.has);
    CHECK_INT(SPANPROF_ERR_ARGUMENT, spanprof_cuda_memory(NULL));
}

int main(int argc, char **argv) {
    char why[256], text[512];
    const char *status;
    child_self = argv[0];
    if (argc > 1) {
        program();
        return check_failed ? 1 : 42;
    }
    status = spanprof_cuda_status();
    if (!status) {
        SKIP("there is a CUDA device");
        return CHECK_DONE();
    }
    snprintf(why, sizeof why, "%s", status);
#if !SPANPROF_I_CUDA
    CHECK_STR(SPANPROF_I_CUDA_WHY, why);
    CHECK_CONTAINS("CUDA support not built in (", why);
#else
    CHECK_CONTAINS("cudaError", why);
    CHECK_CONTAINS(": ", why);
#endif
    test_counters();
    session_open("here.dump");
    program();
    dr_free(session_close());
    check_spans("here.dump", why);
    snprintf(text, sizeof text, "spanprof: CUDA spans are not synchronized with the device: %s\n", why);
    CHECK_INT(42, child_run("SPANPROF=1 SPANPROF_OUT=child.dump", "program"));
    CHECK_STR(text, child_err);
    CHECK_STR("", child_out);
    check_spans("child.dump", why);
    CHECK_INT(42, child_run("SPANPROF=1 SPANPROF_OUT=hidden.dump CUDA_VISIBLE_DEVICES=99", "program"));
    CHECK_INT(1, child_lines(child_err));
    CHECK_INT(42, child_run("", "program"));
    CHECK_STR("", child_err);
    return CHECK_DONE();
}
