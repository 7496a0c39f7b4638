/* session.h - for tests that record in this process and read the dump back. SPDX-License-Identifier: MIT */
#ifndef SESSION_H
#define SESSION_H

#include "check.h"
#include "dump_reader.h"

static inline void session_open_with(spanprof_config config, const char *path) {
    config.path = path;
    CHECK_INT(SPANPROF_OK, spanprof_start(&config));
    CHECK_INT(1, spanprof_recording());
}
static inline void session_open(const char *path) {
    spanprof_config config;
    memset(&config, 0, sizeof config);
    session_open_with(config, path);
}

/* Stops the session and reads its dump; what spanprof_stats says must be what is in it. */
static inline dr_dump *session_close(void) {
    spanprof_session_stats stats;
    dr_dump *d;
    CHECK_INT(SPANPROF_OK, spanprof_stop());
    CHECK_INT(SPANPROF_OK, spanprof_stats(&stats));
    CHECK_INT(0, stats.recording);
    d = dr_load(stats.path);
    CHECK_STR("", d->error);
    CHECK_U64(dr_events(d), stats.recorded);
    CHECK_U64(dr_dropped(d), stats.dropped);
    CHECK_U64(dr_unfinished(d, NULL), stats.unfinished);
    CHECK_U64(d->size, stats.bytes);
    CHECK_U64(0, d->stray_ends);
    CHECK_U64(0, d->tombs);
    CHECK_INT(SPANPROF_DUMP_STOPPED, d->header.state);
    return d;
}

#endif
