/* unit_env.c - the environment variables, in processes of their own: what each value does, and that a bad one is one line on
 * stderr. SPDX-License-Identifier: MIT */
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include "check.h"
#include "child.h"
#include "dump_reader.h"

#include <sys/stat.h>
#include <unistd.h>

/* The program under test: three spans and an instant; prints its pid and its exit status is 7. */
static int program(int spans) {
    SPANPROF_SPAN("program");
    while (spans--) SPANPROF_BLOCK("work") {}
    SPANPROF_INSTANT("done");
    printf("%d", (int)getpid());
    return 7;
}

static int run(const char *env) {
    remove("spanprof.dump");
    return child_run(env, "program");
}

static void switches(void) {
    static const struct { const char *value; int records, lines; } cases[] = {
        { "1", 1, 0 }, { "0", 0, 0 }, { "", 0, 0 }, { "false", 0, 0 }, { "off", 0, 0 }, { "no", 0, 0 },
        { "true", 1, 0 }, { "on", 1, 0 }, { "yes", 1, 0 }, { "maybe", 0, 1 }, { "2", 0, 1 }, { "1x", 0, 1 }
    };
    size_t i;
    char env[64];
    CHECK_INT(7, run(""));
    CHECK_STR("", child_err);
    CHECK(!child_exists("spanprof.dump"));
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(env, sizeof env, "SPANPROF='%s'", cases[i].value);
        CHECK_INT(7, run(env));
        if (!CHECK_INT(cases[i].records, child_exists("spanprof.dump")) + !CHECK_INT(cases[i].lines, child_lines(child_err)))
            printf("    SPANPROF=%s: %s\n", cases[i].value, child_err);
        if (cases[i].lines) CHECK_CONTAINS("SPANPROF", child_err);
    }
}

/* A bad value is one line that names the variable and says what is used instead, and the program is recorded. */
static void bad_values(void) {
    static const struct { const char *env, *variable; int lines; } cases[] = {
        { "SPANPROF_MAX_EVENTS=abc", "SPANPROF_MAX_EVENTS", 1 },
        { "SPANPROF_MAX_EVENTS=-1", "SPANPROF_MAX_EVENTS", 1 },
        { "SPANPROF_MAX_EVENTS=99999999999999999999999", "SPANPROF_MAX_EVENTS", 1 },
        { "SPANPROF_MAX_EVENTS=1e6", "SPANPROF_MAX_EVENTS", 1 },
        { "SPANPROF_MAX_EVENTS=1000000", "", 0 },
        { "SPANPROF_MAX_EVENTS=", "", 0 },
        { "SPANPROF_MAX_MB=big", "SPANPROF_MAX_MB", 1 },
        { "SPANPROF_MAX_MB=100", "", 0 },
        { "SPANPROF_MODE=loop", "SPANPROF_MODE", 1 },
        { "SPANPROF_MODE=stream", "", 0 },
        { "SPANPROF_MODE=", "", 0 },
        { "SPANPROF_MODE=ring SPANPROF_RING_MB=x", "SPANPROF_RING_MB", 1 },
        { "SPANPROF_CLOCK=sundial", "SPANPROF_CLOCK", 1 },
        { "SPANPROF_CLOCK=auto", "", 0 },
        { "SPANPROF_SCHEDULE=1,2", "SPANPROF_SCHEDULE", 1 },
        { "SPANPROF_SCHEDULE=a,b,c,d,e", "SPANPROF_SCHEDULE", 1 },
        { "SPANPROF_SCHEDULE=0,0,0,0,0", "SPANPROF_SCHEDULE", 1 },
        { "SPANPROF_SCHEDULE=0,0,0,1,0", "", 0 },
        { "SPANPROF_MAX_EVENTS=x SPANPROF_CLOCK=y", "SPANPROF_CLOCK", 2 },
    };
    size_t i;
    char env[128];
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        dr_dump *d;
        snprintf(env, sizeof env, "SPANPROF=1 %s", cases[i].env);
        CHECK_INT(7, run(env));
        if (!CHECK_INT(cases[i].lines, child_lines(child_err)) + !CHECK_CONTAINS(cases[i].variable, child_err))
            printf("    %s: %s\n", cases[i].env, child_err);
        d = dr_load("spanprof.dump");
        CHECK_STR("", d->error);
        if (!CHECK_U64(4, dr_count(d, NULL))) printf("    %s\n", cases[i].env);
        dr_free(d);
    }
}

/* name: the file that the pattern must lead to, with %d for the process id. */
static void path(const char *env, const char *name) {
    char expected[256];
    CHECK_INT(7, run(env));
    snprintf(expected, sizeof expected, name, atoi(child_out));
    if (!CHECK(child_exists(expected))) printf("    %s: no file %s; stderr: %s\n", env, expected, child_err);
    CHECK_STR("", child_err);
    remove(expected);
}

static void paths(void) {
    char host[64] = "", name[128];
    gethostname(host, sizeof host - 1);
    path("SPANPROF=1", "spanprof.dump");
    path("SPANPROF=1 SPANPROF_OUT=", "spanprof.dump");
    path("SPANPROF=1 SPANPROF_OUT=other.dump", "other.dump");
    path("SPANPROF=1 SPANPROF_OUT=a-%p.dump", "a-%d.dump");
    snprintf(name, sizeof name, "b-%.60s.dump", host);
    path("SPANPROF=1 SPANPROF_OUT=b-%h.dump", name);
    path("SPANPROF=1 SPANPROF_OUT=c-%p-%p-%%p.dump", "c-%1$d-%1$d-%%p.dump");
    path("SPANPROF=1 RANK=3 SPANPROF_OUT=d-%r.dump", "d-3.dump");
    path("SPANPROF=1 RANK=3 SLURM_PROCID=4 SPANPROF_OUT=d-%r.dump", "d-4.dump");
    path("SPANPROF=1 RANK=3 SLURM_PROCID=4 PMI_RANK=5 SPANPROF_OUT=d-%r.dump", "d-5.dump");
    path("SPANPROF=1 RANK=3 SLURM_PROCID=4 PMI_RANK=5 OMPI_COMM_WORLD_RANK=6 SPANPROF_OUT=d-%r.dump", "d-6.dump");
    path("SPANPROF=1 SPANPROF_OUT='a name with spaces.dump'", "a name with spaces.dump");
}

static void header(void) {
    dr_dump *d;
    CHECK_INT(7, run("SPANPROF=1 RANK=12 SPANPROF_PROCESS_NAME='the label' SPANPROF_CLOCK=monotonic SPANPROF_MAX_EVENTS=2"));
    CHECK_INT(1, child_lines(child_err)); /* the limit */
    d = dr_load("spanprof.dump");
    CHECK_STR("", d->error);
    CHECK_STR("the label", d->header.process_name);
    CHECK_INT(SPANPROF_CLOCK_MONOTONIC, d->header.clock);
    CHECK_U64(2, dr_events(d));
    CHECK_U64(3, dr_dropped(d));
    CHECK_INT(12, d->header.rank);
    CHECK_U64((uint64_t)atoi(child_out), d->header.pid);
    CHECK_INT(SPANPROF_DUMP_EXITED, d->header.state);
    CHECK_U64(1000000000, d->header.ticks_per_second);
    dr_free(d);
    CHECK_INT(7, run("SPANPROF=1"));
    d = dr_load("spanprof.dump");
    CHECK_STR("", d->error);
    CHECK_CONTAINS("unit_env", d->header.process_name);
    CHECK_INT(-1, d->header.rank);
    dr_free(d);
    /* The dump tells nothing to other users. */
    {
        struct stat status;
        CHECK_INT(0, stat("spanprof.dump", &status));
        CHECK_INT(0, status.st_mode & 0077);
    }
}

/* A set-user-ID program is not told by its caller's environment where to write. */
static void set_user_id(void) {
    char command[4096];
    if (getuid() || getenv("TEST_RUNNER") || CHECK_SANITIZED) {
        SKIP("set-user-ID: needs root on the machine itself, and no sanitizer");
        return;
    }
    snprintf(command, sizeof command,
             "set -e; mkdir -m 777 suid; cp '%s' suid/program; chown 65534 suid/program; chmod 4755 suid/program; cd suid; "
             "exec env SPANPROF=1 SPANPROF_OUT=out.dump ./program program",
             child_self);
    CHECK_INT(7, child_command(command));
    CHECK(!child_exists("suid/out.dump"));
    CHECK_STR("", child_err);
}

/* What can't be written is one line, and the program goes on. */
static void unwritable(void) {
    CHECK_INT(7, run("SPANPROF=1 SPANPROF_OUT=no/such/folder/x.dump"));
    CHECK_INT(1, child_lines(child_err));
    CHECK_CONTAINS("no/such/folder/x.dump", child_err);
    CHECK_INT(7, run("SPANPROF=1 SPANPROF_OUT=/dev/full"));
    CHECK_INT(1, child_lines(child_err));
    CHECK_INT(7, run("SPANPROF=1 SPANPROF_OUT=."));
    CHECK_INT(1, child_lines(child_err));
    CHECK_INT(7, child_run("SPANPROF=1", "many 2>&-")); /* no stderr to complain to */
}

int main(int argc, char **argv) {
    child_self = argv[0];
    if (argc > 1) return program(!strcmp(argv[1], "many") ? 100000 : 3);
    switches();
    bad_values();
    paths();
    header();
    set_user_id();
    unwritable();
    return CHECK_DONE();
}
