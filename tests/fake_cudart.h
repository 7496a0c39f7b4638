/* fake_cudart.h - controls of tests/fake_cudart.c, a library that is loaded in place of the CUDA runtime and plays devices,
 * contexts, streams, captures, events and errors as CUDA does, without a GPU.
 *
 * Environment: FAKE_CUDA_DEVICES=n (2), FAKE_CUDA_START=error: what a call that starts the runtime returns, FAKE_CUDA_PENDING=error:
 * the first last error of the main thread, FAKE_CUDA_MISSING=name: a function that the driver does not have.
 * SPDX-License-Identifier: MIT */
#ifndef FAKE_CUDART_H
#define FAKE_CUDART_H

#include <stdint.h>

struct CUstream_st;

/* The calls so far, "cuCtxGetDevice cuCtxSynchronize ", and how often one was made. */
const char *fake_log(void);
void fake_clear_log(void);
int fake_calls(const char *function);

/* The next times calls of a function do nothing and return result; times -1: all. */
void fake_fail(const char *function, int result, int times);
/* A sticky error: from now on every call that touches a context returns it. 0 ends it. */
void fake_stick(int error);
void fake_unload(void);             /* as at exit: every call returns 4 (cudaErrorCudartUnloading) */
void fake_set_last_error(int error); /* of the calling thread, as a bad launch of the program does */

int fake_contexts_made(void);   /* primary contexts made so far, by whom ever */
int fake_context_depth(void);   /* contexts that the calling thread has pushed and not popped */
int fake_retained(void);        /* retains without their release */
int fake_invalidated(void);     /* captures that a call broke */
int fake_orphan_calls(void);    /* calls made in a forked child of a process that had started CUDA */

/* Streams of a device; making one makes the device's context and makes it current, as the program's first CUDA work does. */
struct CUstream_st *fake_stream(int device, int non_blocking);
void fake_reset_device(int device); /* destroys the primary context with all that is in it */

enum { FAKE_GLOBAL = 0, FAKE_THREAD_LOCAL = 1, FAKE_RELAXED = 2 };
void fake_begin_capture(struct CUstream_st *stream, int mode);
int fake_end_capture(struct CUstream_st *stream); /* 0, or 901 when it was broken */

/* Device time, ns; runs with CLOCK_MONOTONIC until set, then stands still. Work on a held stream takes place when released. */
void fake_set_time(uint64_t ns);
void fake_hold(struct CUstream_st *stream);
void fake_release(struct CUstream_st *stream);
int fake_events(void); /* events made and not destroyed */

#endif
