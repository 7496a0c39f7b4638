/* quickstart_mlp.h - the data, the network and what the host part and the CUDA part of quickstart_mlp share. SPDX-License-Identifier: MIT */
#ifndef QUICKSTART_MLP_H
#define QUICKSTART_MLP_H

#include <math.h>
#include <stdint.h>

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

/* 25 deliveries to vending machines: minutes taken, cases carried, feet walked (Montgomery, Peck, Vining, Introduction to Linear
 * Regression Analysis, example 3.1). */
enum { MLP_SAMPLES = 25 };
static const float mlp_deliveries[MLP_SAMPLES][3] = {
    { 16.68f, 7, 560 },   { 11.50f, 3, 220 },  { 12.03f, 3, 340 },   { 14.88f, 4, 80 },  { 13.75f, 6, 150 },
    { 18.11f, 7, 330 },   { 8.00f, 2, 110 },   { 17.83f, 7, 210 },   { 79.24f, 30, 1460 }, { 21.50f, 5, 605 },
    { 40.33f, 16, 688 },  { 21.00f, 10, 215 }, { 13.50f, 4, 255 },   { 19.75f, 6, 462 }, { 24.00f, 9, 448 },
    { 29.00f, 10, 776 },  { 15.35f, 6, 200 },  { 19.00f, 7, 132 },   { 9.50f, 3, 36 },   { 35.10f, 17, 770 },
    { 17.90f, 10, 140 },  { 52.32f, 26, 810 }, { 18.75f, 9, 450 },   { 19.83f, 8, 635 }, { 10.75f, 4, 150 },
};

/* Samples in units of their standard deviation; a batch of more than 25 takes them again and again. minutes: that unit. */
static inline void mlp_samples(float *x, float *y, int batch, float *minutes) {
    double mean[3] = { 0, 0, 0 }, deviation[3] = { 0, 0, 0 };
    int i, k;
    for (k = 0; k < 3; k++) {
        for (i = 0; i < MLP_SAMPLES; i++) mean[k] += mlp_deliveries[i][k] / MLP_SAMPLES;
        for (i = 0; i < MLP_SAMPLES; i++) deviation[k] += (mlp_deliveries[i][k] - mean[k]) * (mlp_deliveries[i][k] - mean[k]) / MLP_SAMPLES;
        deviation[k] = sqrt(deviation[k]);
    }
    for (i = 0; i < batch; i++) {
        const float *delivery = mlp_deliveries[i % MLP_SAMPLES];
        y[i] = (float)((delivery[0] - mean[0]) / deviation[0]);
        for (k = 0; k < 2; k++) x[2 * i + k] = (float)((delivery[k + 1] - mean[k + 1]) / deviation[k + 1]);
    }
    *minutes = (float)deviation[0];
}
/* The same first weights in every run. */
static inline void mlp_first_params(float *params, int hidden) {
    const float width = 1 / sqrtf((float)hidden);
    uint32_t seed = 20240229u;
    int i;
    for (i = 0; i < MLP_PARAMS(hidden); i++) {
        seed = seed * 1664525u + 1013904223u;
        params[i] = ((float)(seed >> 8) / 8388608.0f - 1) * (i < 2 * hidden ? 0.7f : width);
    }
}

#ifdef __cplusplus
}
#endif
#endif
