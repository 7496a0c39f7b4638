/* unit_cpp.cpp - the implementation in a C++ file, and the macros in C++'s own places. SPDX-License-Identifier: MIT */
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include "session.h"

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

void thrower(int depth) {
    SPANPROF_SPAN("thrower");
    if (depth == 0) throw std::runtime_error("thrown");
    SPANPROF_BLOCK("thrower.block") { thrower(depth - 1); }
}

struct Widget {
    explicit Widget(int n) { SPANPROF_FUNCTION(); SPANPROF_ATTR_I64("n", n); }
    ~Widget() { SPANPROF_SPAN("~Widget"); }
    Widget(const Widget &) = delete;
    Widget &operator=(const Widget &) = delete;
    static inline int size() { SPANPROF_SPAN("Widget::size"); return 3; }
};

template <typename T> T twice(T value) {
    SPANPROF_SPAN("twice");
    return value + value;
}

const char *fail(void *user, spanprof_hook_call *call) {
    call->meta.device = static_cast<const char *>(user);
    return "failed";
}

void scopes() {
    session_open("cpp_scopes.dump");
    int caught = 0;
    for (int i = 0; i < 100; i++) {
        SPANPROF_SPAN("try");
        try {
            thrower(3);
        } catch (const std::exception &) {
            SPANPROF_SPAN("catch");
            caught++;
        }
    }
    CHECK_INT(100, caught);
    {
        Widget widget(4);
        CHECK_INT(3, Widget::size());
    }
    CHECK_INT(4, twice(2));
    CHECK(twice(0.5) == 1.0);
    const auto lambda = [](int x) { SPANPROF_SPAN("lambda"); return x + 1; };
    CHECK_INT(3, lambda(2));
    SPANPROF_SPAN("open at the end");
    CHECK(spanprof_current().pos != 0);
    dr_dump *d = session_close();
    CHECK_U64(400, dr_count(d, "thrower"));
    CHECK_U64(300, dr_count(d, "thrower.block"));
    CHECK_U64(100, dr_count(d, "catch"));
    CHECK_STR("try", dr_name(d, dr_parent(d, dr_find(d, "catch", 99))));
    CHECK_U64(1, dr_count(d, "Widget"));
    CHECK_U64(1, dr_count(d, "~Widget"));
    CHECK_U64(2, dr_count(d, "twice"));
    CHECK_U64(1, dr_count(d, "lambda"));
    CHECK_U64(1, dr_unfinished(d, NULL));
    dr_free(d);
}

void metadata() {
    static const spanprof_hooks hooks = { const_cast<char *>("cuda"), nullptr, nullptr, fail };
    session_open("cpp_metadata.dump");
    const std::string module = "mod" + std::to_string(1);
    {
        SPANPROF_STEP(11);
        SPANPROF_SPAN_META("meta", .phase = "forward", .module = module.c_str(), .alloc_bytes = 0);
        SPANPROF_SPAN_META("plain");
        SPANPROF_SPAN_HOOKED("hooked", &hooks, .phase = "p");
        SPANPROF_SPAN_HOOKED("hooked plain", &hooks);
        SPANPROF_BEGIN_META("pair", .step = 12);
        SPANPROF_END();
        SPANPROF_BEGIN_DYN(module.c_str());
        SPANPROF_END();
    }
    SPANPROF_INSTANT("i");
    SPANPROF_COUNTER("c", 1u);
    SPANPROF_ASYNC_BEGIN("a", 1);
    SPANPROF_ASYNC_END("a", 1);
    dr_dump *d = session_close();
    CHECK_STR("forward", dr_meta_text(d, dr_find(d, "meta", 0), SPANPROF_META_phase));
    CHECK_STR("mod1", dr_meta_text(d, dr_find(d, "meta", 0), SPANPROF_META_module));
    CHECK_INT(0, dr_meta_number(d, dr_find(d, "meta", 0), SPANPROF_META_alloc_bytes));
    CHECK_INT(11, dr_find(d, "plain", 0)->step);
    CHECK_STR("enrich: failed", dr_meta_text(d, dr_find(d, "hooked", 0), SPANPROF_META_hook_error));
    CHECK_STR("cuda", dr_meta_text(d, dr_find(d, "hooked plain", 0), SPANPROF_META_device));
    CHECK_STR("p", dr_meta_text(d, dr_find(d, "hooked", 0), SPANPROF_META_phase));
    CHECK_INT(12, dr_meta_number(d, dr_find(d, "pair", 0), SPANPROF_META_step));
    CHECK_U64(1, dr_count(d, "mod1"));
    CHECK_U64(4, d->marks_count);
    dr_free(d);
}

void threads() {
    session_open("cpp_threads.dump");
    std::vector<std::thread> all;
    for (int i = 0; i < 8; i++)
        all.emplace_back([i] {
            SPANPROF_THREAD_NAME(("thread " + std::to_string(i)).c_str());
            for (int k = 0; k < 1000; k++) SPANPROF_SPAN("in a thread");
        });
    for (std::thread &thread : all) thread.join();
    dr_dump *d = session_close();
    CHECK_U64(8000, dr_count(d, "in a thread"));
    dr_free(d);
}

} // namespace

int main() {
    scopes();
    metadata();
    threads();
    return CHECK_DONE();
}
