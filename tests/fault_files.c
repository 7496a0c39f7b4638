/* fault_files.c - full disks, limits, paths that are taken, folders that can't be written to or go away: recording stops or goes
 * elsewhere with one line on stderr, the counts are exact, the program goes on. And what a dump must not do: follow links, be
 * readable by others, obey the environment of a set-user-ID program, hold what the environment or the command line say.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include "check.h"
#include "child.h"
#include "fault_program.h"

#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { NOBODY = 65534, KIB = 1024, MIB = 1024 * 1024 };

static void skip(const char *why) {
    fault_got->skipped = 1;
    snprintf(fault_got->note, sizeof fault_got->note, "%s", why);
}

/* ---- disks that fill up ---- */

static int small_disk(long kib) {
    char size[32];
    snprintf(size, sizeof size, "size=%ldk", kib);
    mkdir("disk", 0700);
    if (unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && mount("spanprof", "disk", "tmpfs", 0, size) == 0) return 1;
    skip("a small tmpfs: mounting is not allowed");
    return 0;
}
static void full_disk(long kib) {
    if (!small_disk(kib)) return;
    fault_program("disk/x.dump", NULL);
    fault_look("disk/x.dump");
}
/* Somebody else takes the rest of the disk while the program records. */
static void fill_disk(void) {
    static char block[4096];
    const int file = open("disk/other", O_WRONLY | O_CREAT, 0600);
    while (write(file, block, sizeof block) > 0) {}
    close(file);
}
static void filling_disk(long kib) {
    if (!small_disk(kib)) return;
    fault_program("disk/x.dump", fill_disk);
    fault_look("disk/x.dump");
}
static void no_inodes(long inodes) {
    char options[64];
    snprintf(options, sizeof options, "size=4m,nr_inodes=%ld", inodes);
    mkdir("disk", 0700);
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("spanprof", "disk", "tmpfs", 0, options)) skip("a tmpfs without inodes: mounting is not allowed");
    else fault_program("disk/x.dump", NULL);
}

/* ---- limits ---- */

static void limit_to(__rlimit_resource_t what, rlim_t most) {
    struct rlimit limit;
    getrlimit(what, &limit);
    limit.rlim_cur = most;
    setrlimit(what, &limit);
}
static void file_size(long kib) {
    limit_to(RLIMIT_FSIZE, (rlim_t)kib * KIB);
    fault_program("size.dump", NULL);
    fault_look("size.dump");
}
static uint64_t own_bytes(void) {
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%lu", &pages) != 1) pages = 0;
    if (file) fclose(file);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}
static void memory_size(long kib) {
    struct rlimit before;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip("RLIMIT_AS: a sanitizer needs the whole address space");
    return;
#endif
    getrlimit(RLIMIT_AS, &before);
    limit_to(RLIMIT_AS, own_bytes() + (rlim_t)kib * KIB);
    fault_program("memory.dump", NULL);
    setrlimit(RLIMIT_AS, &before);
    fault_look("memory.dump");
}
static void no_descriptors(long left) {
    struct rlimit before;
    int file, last = 2;
    getrlimit(RLIMIT_NOFILE, &before);
    limit_to(RLIMIT_NOFILE, 64);
    while ((file = open("/dev/null", O_RDONLY)) >= 0) last = file;
    while (left-- > 0) close(last--);
    fault_program("descriptors.dump", NULL);
    setrlimit(RLIMIT_NOFILE, &before);
    fault_look("descriptors.dump");
}
static void use_up_descriptors(void) {
    limit_to(RLIMIT_NOFILE, 64);
    while (open("/dev/null", O_RDONLY) >= 0) {}
}
static void no_more_descriptors(long unused) {
    struct rlimit before;
    (void)unused;
    getrlimit(RLIMIT_NOFILE, &before);
    fault_program("later.dump", use_up_descriptors);
    setrlimit(RLIMIT_NOFILE, &before);
    fault_look("later.dump");
}

/* stderr is a pipe that nobody reads: the line is lost, the program is not. */
static void deaf_stderr(long unused) {
    int ends[2];
    (void)unused;
    if (pipe(ends) || dup2(ends[1], 2) < 0) _exit(9);
    close(ends[0]);
    close(ends[1]);
    fault_program("missing/x.dump", NULL);
    _exit(fault_got->start == SPANPROF_ERR_OPEN ? 0 : 8);
}

/* ---- folders and paths ---- */

static int drop_rights(void) {
    return geteuid() != 0 || (setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
}
static void read_only_folder(long unused) {
    (void)unused;
    if (!drop_rights()) skip("a read-only folder: root can't become somebody else");
    else fault_program("locked/x.dump", NULL);
}
static void path_long(long length) {
    static char path[5000];
    memset(path, 'x', (size_t)length);
    fault_program(path, NULL);
}
/* A folder of that depth of names of 200 bytes. */
static void path_deep(long unused) {
    static char path[1100] = "deep";
    (void)unused;
    mkdir(path, 0700);
    while (strlen(path) < 800) {
        snprintf(path + strlen(path), sizeof path - strlen(path), "/%0200d", 0);
        mkdir(path, 0700);
    }
    strcat(path, "/x.dump");
    fault_program(path, NULL);
    fault_look(fault_got->path);
}
static void path_given(long number) {
    static const char *const paths[] = { "missing/x.dump", "a_folder", "a_fifo", "a_file", "a_link", "a_loop", "a_socket", "/dev/full", "/proc/x.dump", "a_file/x.dump", "to_nowhere" };
    fault_program(paths[number], NULL);
    if (fault_got->start == SPANPROF_OK) fault_look(fault_got->path);
}
static void remove_folder(void) {
    if (unlink("going/x.dump") || rmdir("going")) snprintf(fault_got->note, sizeof fault_got->note, "could not remove");
}
static void folder_goes(long unused) {
    (void)unused;
    mkdir("going", 0700);
    fault_program("going/x.dump", remove_folder);
}
static void move_dump(void) { rename("moved.dump", "there.dump"); }
static void dump_moves(long unused) {
    (void)unused;
    fault_program("moved.dump", move_dump);
    fault_look("there.dump");
}

static void paths(void) {
    struct sockaddr_un address;
    struct stat info;
    char text[64];
    FILE *file = fopen("a_file", "w");
    int server = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(file && fputs("mine", file) >= 0 && fclose(file) == 0);
    CHECK_INT(0, mkdir("a_folder", 0700));
    CHECK_INT(0, mkfifo("a_fifo", 0600));
    CHECK_INT(0, symlink("a_file", "a_link"));
    CHECK_INT(0, symlink("a_loop", "a_loop"));
    CHECK_INT(0, symlink("not_there", "to_nowhere"));
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    snprintf(address.sun_path, sizeof address.sun_path, "a_socket");
    CHECK_INT(0, bind(server, (const struct sockaddr *)&address, sizeof address));
    close(server);
    fault_run(path_given, 0);
    fault_check("a folder that is not there", 0, 0);
    CHECK_CONTAINS("missing/x.dump", fault_said);
    fault_run(path_given, 1);
    fault_check("a folder in the dump's place", 1, 1);
    CHECK_CONTAINS("a_folder.", fault_got->path);
    fault_run(path_given, 2);
    fault_check("a FIFO in the dump's place", 1, 1);
    CHECK_CONTAINS("a_fifo.", fault_got->path);
    fault_run(path_given, 3);
    fault_check("another file in the dump's place", 1, 1);
    CHECK_CONTAINS("a_file is not a spanprof dump", fault_said);
    fault_run(path_given, 4);
    fault_check("a link to a file in the dump's place", 1, 1);
    CHECK_CONTAINS("a_link.", fault_got->path);
    fault_run(path_given, 5);
    fault_check("a link to itself in the dump's place", 1, 1);
    fault_run(path_given, 6);
    fault_check("a socket in the dump's place", 1, 1);
    fault_run(path_given, 7);
    fault_check("a device in the dump's place", -1, 1);
    if (fault_got->start == SPANPROF_OK) unlink(fault_got->path);
    fault_run(path_given, 8);
    fault_check("a file system that takes no files", 0, 0);
    fault_run(path_given, 9);
    fault_check("a file where a folder should be", 0, 0);
    fault_run(path_given, 10);
    fault_check("a link to nowhere in the dump's place", 1, 1);
    CHECK(lstat("not_there", &info) != 0);
    CHECK_STR("mine", child_slurp("a_file", text, sizeof text));
    CHECK(lstat("a_link", &info) == 0 && S_ISLNK(info.st_mode));
    fault_run(path_long, 255);
    fault_check("a name of 255 bytes", 1, 0);
    fault_run(path_long, 256);
    fault_check("a name of 256 bytes", 0, 0);
    fault_run(path_long, 4500);
    fault_check("a path of 4,500 bytes", 0, 0);
    fault_run(path_deep, 0);
    fault_check("a path of 1,000 bytes", 1, 1);
    fault_run(folder_goes, 0);
    fault_check("the folder is removed", 1, 0);
    CHECK_STR("", fault_got->note);
    CHECK_U64(0, fault_got->dropped);
    fault_run(dump_moves, 0);
    fault_check("the dump is moved", 1, 1);
    CHECK_U64(0, fault_got->dropped);
    mkdir("locked", 0555);
    fault_run(read_only_folder, 0);
    fault_check("a folder that can't be written to", 0, 0);
}

/* ---- what a dump must not do ---- */

static void short_spans(void) {
    int i;
    for (i = 0; i < 10; i++) {
        SPANPROF_SPAN("leaf");
        SPANPROF_ATTR_I64("i", i);
    }
}

/* Once more after an exec of itself: two dumps of one process. */
static int program(int argc, char **argv) {
    short_spans();
    if (argc > 2 && !strcmp(argv[2], "again")) {
        char *arguments[] = { argv[0], argv[1], NULL };
        execv(argv[0], arguments);
        return 1;
    }
    return 0;
}

static int holds(const char *path, const char *text) {
    static char bytes[MIB];
    FILE *file = fopen(path, "rb");
    const size_t n = file ? fread(bytes, 1, sizeof bytes, file) : 0, length = strlen(text);
    size_t i;
    if (file) fclose(file);
    for (i = 0; i + length <= n; i++)
        if (!memcmp(bytes + i, text, length)) return 1;
    return 0;
}

static void kept_apart(void) {
    struct stat info;
    mode_t mask = umask(0);
    char command[400];
    dr_dump *d;
    CHECK_INT(0, child_run("SPANPROF=1 SPANPROF_OUT=mode.dump A_SECRET=bluebottle42 SPANPROF_PROCESS_NAME=shown", "program greenfinch43"));
    umask(mask);
    CHECK_INT(0, stat("mode.dump", &info));
    CHECK_INT(0600, info.st_mode & 07777);
    CHECK_INT(1, holds("mode.dump", "shown"));
    CHECK_INT(0, holds("mode.dump", "bluebottle42"));
    CHECK_INT(0, holds("mode.dump", "A_SECRET"));
    CHECK_INT(0, holds("mode.dump", "greenfinch43"));
    if (getenv("HOME")) CHECK_INT(0, holds("mode.dump", getenv("HOME")));
    snprintf(command, sizeof command, "SPANPROF=1 SPANPROF_OUT=exec.dump %s '%s' program again; echo $?; echo exec.dump.*", getenv("TEST_RUNNER") ? getenv("TEST_RUNNER") : "", child_self);
    if (getenv("TEST_RUNNER")) {
        SKIP("exec of the program itself: it needs its runner");
        return;
    }
    CHECK_INT(0, child_command(command));
    CHECK_CONTAINS("0\nexec.dump.", child_out);
    CHECK_INT(1, child_lines(child_err));
    d = dr_load("exec.dump");
    CHECK_STR("", d->error);
    CHECK_U64(10, dr_count(d, "leaf"));
    dr_free(d);
    child_out[strcspn(child_out + 2, "\n") + 2] = 0;
    d = dr_load(child_out + 2);
    CHECK_STR("", d->error);
    CHECK_U64(10, dr_count(d, "leaf"));
    dr_free(d);
}

static void run_by_nobody(long unused) {
    (void)unused;
    if (chdir("open") || !drop_rights()) _exit(9);
    setenv("SPANPROF", "1", 1);
    setenv("SPANPROF_OUT", "env.dump", 1);
    execl("../raised", "raised", "program", (char *)NULL);
    _exit(8);
}
/* A set-user-ID copy of this program, run by somebody else. */
static void raised_rights(void) {
    char command[600];
    if (geteuid() != 0) {
        SKIP("a set-user-ID program: only root can make one for another user");
        return;
    }
    mkdir("open", 0777);
    chmod("open", 0777);
    snprintf(command, sizeof command, "cp '%s' raised && chmod 755 raised && chmod a+x . .. 2>/dev/null", child_self);
    CHECK_INT(0, child_command(command));
    fault_run(run_by_nobody, 0);
    if (!WIFEXITED(fault_status) || WEXITSTATUS(fault_status) != 0 || !child_exists("open/env.dump")) {
        SKIP("a set-user-ID program: nobody can't run programs here");
        return;
    }
    unlink("open/env.dump");
    chmod("raised", 04755);
    fault_run(run_by_nobody, 0);
    CHECK_INT(0, fault_status);
    CHECK_STR("", fault_said);
    CHECK_INT(0, child_exists("open/env.dump"));
    CHECK_INT(0, child_exists("open/spanprof.dump"));
    unlink("raised");
}

int main(int argc, char **argv) {
    static const long disks[] = { 1, 4, 64, 68, 128, 132, 192, 196, 256, 300, 384, 512, 700 };
    size_t i;
    long size;
    if (argc > 1 && !strcmp(argv[1], "program")) return program(argc, argv);
    child_self = argv[0];
    for (i = 0; i < sizeof disks / sizeof *disks; i++) {
        fault_run(full_disk, disks[i]);
        fault_check("a disk too small", -1, 1);
        if (!fault_got->skipped) CHECK(fault_got->dropped > 0 || fault_got->start != SPANPROF_OK);
    }
    fault_run(filling_disk, 4096);
    fault_check("a disk that fills up", 1, 1);
    fault_run(no_inodes, 1);
    fault_check("a disk without inodes", 0, 0);
    fault_run(file_size, 0); /* not even stderr's file may grow */
    CHECK_INT(0, fault_status);
    CHECK_INT(1, fault_got->finished);
    CHECK_INT(SPANPROF_ERR_OPEN, fault_got->start);
    for (i = 0; i < sizeof disks / sizeof *disks; i++) {
        unlink("size.dump");
        fault_run(file_size, disks[i]);
        fault_check("RLIMIT_FSIZE", -1, 1);
        CHECK(fault_got->dropped > 0 || fault_got->start != SPANPROF_OK);
    }
    for (size = 0; size < 1024; size += size < 128 ? 16 : 128) {
        unlink("memory.dump");
        fault_run(memory_size, size);
        fault_check("RLIMIT_AS", -1, 1);
        if (fault_got->skipped) break;
    }
    for (size = 0; size < 4; size++) {
        unlink("descriptors.dump");
        fault_run(no_descriptors, size);
        fault_check("descriptors used up", -1, 1);
    }
    fault_run(no_more_descriptors, 0);
    fault_check("descriptors used up while recording", 1, 1);
    CHECK_U64(0, fault_got->dropped);
    fault_run(deaf_stderr, 0);
    CHECK_INT(0, fault_status);
    CHECK_INT(1, fault_got->finished);
    paths();
    kept_apart();
    raised_rights();
    return CHECK_DONE();
}
