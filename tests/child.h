/* child.h - for tests that look at a program from outside: run this program again, or any command, and read what it wrote.
 *
 * A test's working folder is its own (tests/run.sh makes it). TEST_RUNNER in the environment is put before the program's
 * path: an emulator's name when the program is not for this machine.
 * SPDX-License-Identifier: MIT */
#ifndef CHILD_H
#define CHILD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>

static const char *child_self = "";
static char child_out[1 << 16], child_err[1 << 16];

/* Text of a file, cut to the room there is; "" when it can't be read. */
static inline char *child_slurp(const char *path, char *text, size_t room) {
    FILE *file = fopen(path, "rb");
    size_t length = 0;
    if (file) {
        length = fread(text, 1, room - 1, file);
        fclose(file);
    }
    text[length] = 0;
    return text;
}

/* Runs a shell command; its output is in child_out and child_err. Exit status, or 128 + signal. */
static inline int child_command(const char *command) {
    static char line[8192];
    int status;
    if (snprintf(line, sizeof line, "{ %s\n} >child.out 2>child.err", command) >= 8192) return -1;
    fflush(stdout);
    status = system(line);
    child_slurp("child.out", child_out, sizeof child_out);
    child_slurp("child.err", child_err, sizeof child_err);
    if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Runs this program again with arguments, in an environment without any SPANPROF variable but those of env ("A=1 B=2"). */
static inline int child_run(const char *env, const char *arguments) {
    static char line[4096];
    const char *runner = getenv("TEST_RUNNER");
    snprintf(line, sizeof line,
             "unset SPANPROF SPANPROF_OUT SPANPROF_MODE SPANPROF_RING_MB SPANPROF_MAX_EVENTS SPANPROF_MAX_MB SPANPROF_PROCESS_NAME "
             "SPANPROF_CLOCK SPANPROF_SCHEDULE; exec env %s %s '%s' %s",
             env, runner ? runner : "", child_self, arguments);
    return child_command(line);
}

/* Path of trace2summary, or NULL when there is none for this machine. */
static inline const char *child_tool(void) {
    const char *tool = getenv("TOOL");
    return tool && *tool ? tool : NULL;
}

/* Lines of a text. */
static inline int child_lines(const char *text) {
    int lines = 0;
    for (; *text; text++) lines += *text == '\n';
    return lines;
}

static inline int child_exists(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file) fclose(file);
    return file != NULL;
}

#endif
