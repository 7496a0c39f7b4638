/* life_static.cpp - spans in constructors before main and in destructors after it, and in the thread-local objects of C++.
 * SPDX-License-Identifier: MIT */
#include "spanprof.h"

#include "child.h"
#include "session.h"

#include <cstdlib>
#include <thread>

namespace {

struct Early {
    const char *name;
    explicit Early(const char *n) : name(n) {
        SPANPROF_SPAN("constructor");
        SPANPROF_BEGIN_DYN(name);
        SPANPROF_END();
    }
    ~Early() {
        SPANPROF_SPAN("destructor");
        SPANPROF_BEGIN_DYN(name);
        SPANPROF_END();
    }
    Early(const Early &) = delete;
    Early &operator=(const Early &) = delete;
};

Early early_one("first object"), early_two("second object");

__attribute__((constructor(101))) void very_early() { SPANPROF_BLOCK("very early") {} }
__attribute__((destructor(101))) void very_late() { SPANPROF_BLOCK("very late") {} }

thread_local Early local("thread-local object");

Early &on_demand() {
    static Early object("static in a function");
    return object;
}

int program() {
    SPANPROF_SPAN("main");
    on_demand();
    local.name = "thread-local object";
    std::thread([] { local.name = "thread-local object"; }).join();
    return 0;
}

void test() {
    CHECK_INT(0, child_run("SPANPROF=1 SPANPROF_OUT=static.dump", "program"));
    CHECK_STR("", child_err);
    dr_dump *d = dr_load("static.dump");
    CHECK_STR("", d->error);
    CHECK_U64(5, dr_count(d, "constructor"));
    CHECK_U64(2, dr_count(d, "first object"));
    CHECK_U64(2, dr_count(d, "second object"));
    CHECK_U64(2, dr_count(d, "static in a function"));
    CHECK_U64(1, dr_count(d, "main"));
    CHECK_U64(1, dr_count(d, "very early"));
    /* The other thread's object dies with its thread; that may be after the thread's window was given back. */
    CHECK_U64(10, dr_count(d, "constructor") + dr_count(d, "destructor") + dr_dropped(d) / 2);
    CHECK(dr_count(d, "very late") <= 1);
    CHECK_U64(0, dr_unfinished(d, nullptr));
    CHECK_INT(SPANPROF_DUMP_EXITED, static_cast<int>(d->header.state));
    dr_free(d);
    CHECK_INT(0, child_run("SPANPROF=0", "program"));
    CHECK(!child_exists("spanprof.dump"));
}

} // namespace

int main(int argc, char **argv) {
    child_self = argv[0];
    if (argc > 1) return program();
    test();
    return CHECK_DONE();
}

/* The implementation after its users: its own statics are the last to be constructed. */
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"
