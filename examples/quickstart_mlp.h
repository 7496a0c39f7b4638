/* quickstart_mlp.h - what the host part and the CUDA part of quickstart_mlp share. SPDX-License-Identifier: MIT */
#ifndef QUICKSTART_MLP_H
#define QUICKSTART_MLP_H

#ifdef __cplusplus
extern "C" {
#endif

/* A 2-HIDDEN-1 network, the samples it learns, and its work space; arrays of the host or of the device. */
typedef struct mlp {
    int hidden, batch;
    float *params;    /* w1[hidden][2], b1[hidden], w2[hidden], b2 */
    float *grads;     /* the same */
    float *x, *y;     /* [batch][2], [batch] */
    float *h, *out;   /* activations: [batch][hidden], [batch] */
    float *dout;      /* of the loss by out: [batch] */
    float *loss;      /* [1] */
    float *workspace; /* CUDA: the block that h and out are parts of */
    void *stream;     /* CUDA: cudaStream_t */
    int device;
} mlp;

#define MLP_PARAMS(hidden) (4 * (hidden) + 1)

/* One way to compute. Each works on what open set up; open returns NULL, or why it could not and nothing is left over. */
typedef struct mlp_backend {
    const char *(*open)(mlp *m, const float *params, const float *x, const float *y);
    void (*forward)(mlp *m);
    float (*loss)(mlp *m); /* mean square error; sets dout */
    void (*backward)(mlp *m);
    void (*update)(mlp *m, float rate);
    void (*read)(mlp *m, float *params, float *grads, float *out); /* to the host; any may be NULL */
    const char *(*close)(mlp *m); /* NULL, or the first error of the work */
    const char *name;
} mlp_backend;

extern const mlp_backend mlp_cpu;
extern const mlp_backend mlp_cuda; /* quickstart_mlp_kernels.cu */

#ifdef __cplusplus
}
#endif
#endif
