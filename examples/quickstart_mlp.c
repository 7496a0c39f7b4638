/* quickstart_mlp.c - trains a small network on real data, on the CPU or on a GPU, with spans around the phases of a step.
 *
 *     cc -O2 -I.. quickstart_mlp.c -o quickstart_mlp -pthread -lm                              CPU
 *     make -C .. CUDA=1                                                                        and GPU
 *     SPANPROF=1 SPANPROF_OUT=mlp.dump ./quickstart_mlp --device cuda --steps 3 && trace2summary mlp.dump
 *
 * On a GPU the spans of the phases are SPANPROF_CUDA_SPANs: each ends when the device has done its work, and says so (timing
 * "device-synchronized"); the kernels have device spans on the GPU's own track (quickstart_mlp_kernels.cu). Without a
 * device the same spans time the CPU path, with timing "host", and hook_error says why.
 * SPDX-License-Identifier: MIT */
#define SPANPROF_CUDA
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include "quickstart_mlp.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the network on the CPU ---- */

static float *floats(size_t count) { return (float *)calloc(count, sizeof(float)); }

static const char *cpu_close(mlp *m) {
    float *const all[] = { m->params, m->grads, m->x, m->y, m->h, m->out, m->dout, m->loss };
    size_t i;
    for (i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    return NULL;
}
static const char *cpu_open(mlp *m, const float *params, const float *x, const float *y) {
    const size_t batch = (size_t)m->batch, hidden = (size_t)m->hidden, count = MLP_PARAMS(hidden);
    m->params = floats(count);
    m->grads = floats(count);
    m->x = floats(2 * batch);
    m->y = floats(batch);
    m->h = floats(batch * hidden);
    m->out = floats(batch);
    m->dout = floats(batch);
    m->loss = floats(1);
    if (!m->params || !m->grads || !m->x || !m->y || !m->h || !m->out || !m->dout || !m->loss) {
        cpu_close(m);
        return "out of memory";
    }
    memcpy(m->params, params, count * sizeof *params);
    memcpy(m->x, x, 2 * batch * sizeof *x);
    memcpy(m->y, y, batch * sizeof *y);
    return NULL;
}
static void cpu_forward(mlp *m) {
    const float *w1 = m->params, *b1 = w1 + 2 * m->hidden, *w2 = b1 + m->hidden, *b2 = w2 + m->hidden;
    int i, j;
    for (i = 0; i < m->batch; i++) {
        float *h = m->h + (size_t)i * (size_t)m->hidden;
        float sum = *b2;
        for (j = 0; j < m->hidden; j++) {
            h[j] = tanhf(m->x[2 * i] * w1[2 * j] + m->x[2 * i + 1] * w1[2 * j + 1] + b1[j]);
            sum += h[j] * w2[j];
        }
        m->out[i] = sum;
    }
}
static float cpu_loss(mlp *m) {
    float sum = 0;
    int i;
    for (i = 0; i < m->batch; i++) {
        const float error = m->out[i] - m->y[i];
        m->dout[i] = 2 * error / (float)m->batch;
        sum += error * error;
    }
    return *m->loss = sum / (float)m->batch;
}
static void cpu_backward(mlp *m) {
    const float *w2 = m->params + 3 * m->hidden;
    float *gw1 = m->grads, *gb1 = gw1 + 2 * m->hidden, *gw2 = gb1 + m->hidden, *gb2 = gw2 + m->hidden;
    int i, j;
    memset(m->grads, 0, MLP_PARAMS((size_t)m->hidden) * sizeof(float));
    for (i = 0; i < m->batch; i++) {
        const float *h = m->h + (size_t)i * (size_t)m->hidden;
        *gb2 += m->dout[i];
        for (j = 0; j < m->hidden; j++) {
            const float dh = m->dout[i] * w2[j] * (1 - h[j] * h[j]);
            gw2[j] += m->dout[i] * h[j];
            gb1[j] += dh;
            gw1[2 * j] += dh * m->x[2 * i];
            gw1[2 * j + 1] += dh * m->x[2 * i + 1];
        }
    }
}
static void cpu_update(mlp *m, float rate) {
    int i;
    for (i = 0; i < MLP_PARAMS(m->hidden); i++) m->params[i] -= rate * m->grads[i];
}
static void cpu_read(mlp *m, float *params, float *grads, float *out) {
    const size_t bytes = MLP_PARAMS((size_t)m->hidden) * sizeof(float);
    if (params) memcpy(params, m->params, bytes);
    if (grads) memcpy(grads, m->grads, bytes);
    if (out) memcpy(out, m->out, (size_t)m->batch * sizeof(float));
}
const mlp_backend mlp_cpu = { cpu_open, cpu_forward, cpu_loss, cpu_backward, cpu_update, cpu_read, cpu_close, "cpu" };

/* ---- training ---- */

#ifndef QUICKSTART_MLP_NO_MAIN

typedef struct options { int cuda, steps, hidden, batch; } options;

static const spanprof_hooks no_hooks = { NULL, NULL, NULL, NULL };

static int train(const options *o) {
    const spanprof_hooks *const hooks = o->cuda ? &spanprof_cuda_hooks : &no_hooks;
    const mlp_backend *backend = &mlp_cpu;
    const char *device = NULL, *timing = NULL, *why = NULL; /* on a GPU the hooks tell device and timing */
    char x_shape[32], y_shape[32], h_shape[64], p_shape[32];
    float *params = (float *)malloc(MLP_PARAMS((size_t)o->hidden) * sizeof *params), *x = floats(2 * (size_t)o->batch), *y = floats((size_t)o->batch);
    float minutes = 0, loss = 0;
    mlp m;
    int step;
    memset(&m, 0, sizeof m);
    m.hidden = o->hidden;
    m.batch = o->batch;
    snprintf(x_shape, sizeof x_shape, "[%d,2]", o->batch);
    snprintf(y_shape, sizeof y_shape, "[%d,1]", o->batch);
    snprintf(h_shape, sizeof h_shape, "[%d,%d];[%d,1]", o->batch, o->hidden, o->batch);
    snprintf(p_shape, sizeof p_shape, "[%d]", MLP_PARAMS(o->hidden));
    if (!params || !x || !y) why = "out of memory";
    if (!why) {
        mlp_samples(x, y, o->batch, &minutes);
        mlp_first_params(params, o->hidden);
        if (o->cuda) {
#ifdef QUICKSTART_MLP_CUDA
            backend = &mlp_cuda;
            why = backend->open(&m, params, x, y);
#else
            why = "built without CUDA; make CUDA=1";
#endif
            if (why) fprintf(stderr, "quickstart_mlp: no CUDA device (%s): training on the CPU\n", why);
        }
        if (!o->cuda || why) {
            backend = &mlp_cpu;
            device = "cpu";
            timing = "host";
            why = backend->open(&m, params, x, y);
        }
    }
    if (why) {
        fprintf(stderr, "quickstart_mlp: %s\n", why);
        free(params), free(x), free(y);
        return 1;
    }
    printf("2-%d-1 network, batch %d, %d steps on %s\n", o->hidden, o->batch, o->steps, backend->name);
    {
        SPANPROF_SPAN("train");
        for (step = 0; step < o->steps; step++) {
            SPANPROF_STEP(step);
            SPANPROF_SPAN("train.step");
            {
                SPANPROF_SPAN_HOOKED("model.forward", hooks, .phase = "forward", .activity = "compute", .backend = "native", .dtype = "float32",
                                     .device = device, .timing = timing, .module = "mlp", .input_shapes = x_shape, .output_shapes = h_shape);
                backend->forward(&m);
            }
            {
                SPANPROF_SPAN_HOOKED("loss.mse", hooks, .phase = "loss", .activity = "compute", .backend = "native", .dtype = "float32",
                                     .device = device, .timing = timing, .module = "mlp", .input_shapes = y_shape, .output_shapes = "[1]");
                loss = backend->loss(&m);
            }
            {
                SPANPROF_SPAN_HOOKED("model.backward", hooks, .phase = "backward", .activity = "compute", .backend = "native", .dtype = "float32",
                                     .device = device, .timing = timing, .module = "mlp", .input_shapes = h_shape, .output_shapes = p_shape);
                backend->backward(&m);
            }
            {
                SPANPROF_SPAN_HOOKED("optimizer.sgd", hooks, .phase = "optimizer", .activity = "compute", .backend = "native", .dtype = "float32",
                                     .device = device, .timing = timing, .module = "mlp", .input_shapes = p_shape, .output_shapes = p_shape);
                backend->update(&m, 0.05f);
            }
            if (o->steps <= 10 || step % (o->steps / 10) == 0 || step == o->steps - 1) printf("step %d loss %.9g\n", step, (double)loss);
        }
    }
    printf("root mean square error %.4g minutes\n", sqrt((double)loss) * (double)minutes);
    why = backend->close(&m);
    free(params), free(x), free(y);
    if (why) fprintf(stderr, "quickstart_mlp: %s\n", why);
    return why != NULL;
}

/* ---- options ---- */

static const char usage[] =
    "usage: quickstart_mlp [options]\n"
    "  --device cpu|cuda|gpu   where to train (cpu); cuda and gpu are the same, and train on the CPU where there is none\n"
    "  --arithmetic native     float32 as the device has it\n"
    "  --steps N               steps of gradient descent (200)\n"
    "  --hidden N              units of the hidden layer (8)\n"
    "  --batch N               samples of a step (25, the data; more takes them again)\n"
    "SPANPROF=1 in the environment records spans.\n";

static int wrong(const char *what, const char *option) {
    fprintf(stderr, "quickstart_mlp: %s %s\n%s", what, option, usage);
    return 2;
}
static int number(const char *text, long most, int *out) {
    char *end;
    long value;
    errno = 0;
    value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < 1 || value > most) return 0;
    *out = (int)value;
    return 1;
}

int main(int argc, char **argv) {
    options o = { 0, 200, 8, MLP_SAMPLES };
    int i;
    for (i = 1; i < argc; i++) {
        static const char *const names[] = { "--device", "--arithmetic", "--steps", "--hidden", "--batch" };
        const size_t length = strcspn(argv[i], "=");
        const char *value;
        int known;
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            fputs(usage, stdout);
            return 0;
        }
        for (known = 0; known < 5 && (strlen(names[known]) != length || strncmp(argv[i], names[known], length)); known++) {}
        if (known == 5) return wrong("unknown option", argv[i]);
        value = argv[i][length] ? argv[i] + length + 1 : i + 1 < argc ? argv[++i] : NULL;
        if (!value) return wrong("a value is missing for", names[known]);
        switch (known) {
        case 0:
            o.cuda = !strcmp(value, "cuda") || !strcmp(value, "gpu");
            if (!o.cuda && strcmp(value, "cpu")) return wrong("not a device:", value);
            break;
        case 1:
            if (strcmp(value, "native")) return wrong("not an arithmetic:", value);
            break;
        case 2:
            if (!number(value, 1000000000, &o.steps)) return wrong("not a number of steps:", value);
            break;
        case 3:
            if (!number(value, 65536, &o.hidden)) return wrong("not a number of units (1 to 65536):", value);
            break;
        default:
            if (!number(value, 1048576, &o.batch)) return wrong("not a batch (1 to 1048576):", value);
        }
    }
    return train(&o);
}

#endif /* QUICKSTART_MLP_NO_MAIN */
