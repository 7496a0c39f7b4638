/* quickstart_mlp_kernels.cu - the CUDA part of quickstart_mlp: plain kernels, CUDA Runtime only.
 *
 * Each phase has a device span around its kernels: it does not wait, and lands on the stream's track. Parameters and samples are
 * buffers that spanprof_cuda_malloc counts. The activations are parts of a workspace that this file owns: it counts them
 * itself, from forward, which needs them, to backward, which is done with them.
 * SPDX-License-Identifier: MIT */
#define SPANPROF_CUDA
#include "spanprof.h"

#include "quickstart_mlp.h"

#include <cuda_runtime.h>
#include <stdio.h>

enum { THREADS = 256 };

static cudaError_t first_error; /* of the work since open */
static char error_text[256];

static bool good(cudaError_t error) {
    if (first_error == cudaSuccess) first_error = error;
    return error == cudaSuccess;
}
static const char *explain(cudaError_t error) {
    snprintf(error_text, sizeof error_text, "%s: %s", cudaGetErrorName(error), cudaGetErrorString(error));
    return error_text;
}
static unsigned blocks(size_t threads) { return static_cast<unsigned>((threads + THREADS - 1) / THREADS); }
static cudaStream_t stream_of(const mlp *m) { return static_cast<cudaStream_t>(m->stream); }

/* ---- kernels ---- */

/* Sum over the block, for all its threads. */
__device__ static float block_sum(float value) {
    __shared__ float part[THREADS];
    part[threadIdx.x] = value;
    __syncthreads();
    for (unsigned half = THREADS / 2; half; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    const float sum = part[0];
    __syncthreads();
    return sum;
}

/* h = tanh(x w1 + b1): a thread for each sample and unit. */
__global__ static void forward_hidden(mlp m) {
    const size_t at = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= static_cast<size_t>(m.batch) * m.hidden) return;
    const int i = static_cast<int>(at / m.hidden), j = static_cast<int>(at % m.hidden);
    const float *w1 = m.params, *b1 = w1 + 2 * m.hidden;
    m.h[at] = tanhf(m.x[2 * i] * w1[2 * j] + m.x[2 * i + 1] * w1[2 * j + 1] + b1[j]);
}
/* out = h w2 + b2: a block for each sample. */
__global__ static void forward_output(mlp m) {
    const float *w2 = m.params + 3 * m.hidden, *h = m.h + static_cast<size_t>(blockIdx.x) * m.hidden;
    float sum = 0;
    for (int j = threadIdx.x; j < m.hidden; j += THREADS) sum += h[j] * w2[j];
    sum = block_sum(sum);
    if (threadIdx.x == 0) m.out[blockIdx.x] = sum + w2[m.hidden];
}
/* loss and dout: one block. */
__global__ static void mean_square(mlp m) {
    float sum = 0;
    for (int i = threadIdx.x; i < m.batch; i += THREADS) {
        const float error = m.out[i] - m.y[i];
        m.dout[i] = 2 * error / m.batch;
        sum += error * error;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) *m.loss = sum / m.batch;
}
/* Gradients of a unit's weights: a block for each unit, and one for b2. */
__global__ static void gradients(mlp m) {
    const int j = static_cast<int>(blockIdx.x);
    const bool unit = j < m.hidden;
    const float w2 = unit ? m.params[3 * m.hidden + j] : 0;
    float gw2 = 0, gb1 = 0, gx0 = 0, gx1 = 0;
    for (int i = threadIdx.x; i < m.batch; i += THREADS) {
        const float h = unit ? m.h[static_cast<size_t>(i) * m.hidden + j] : 1;
        const float dh = m.dout[i] * w2 * (1 - h * h);
        gw2 += m.dout[i] * h;
        gb1 += dh;
        gx0 += dh * m.x[2 * i];
        gx1 += dh * m.x[2 * i + 1];
    }
    gw2 = block_sum(gw2);
    gb1 = block_sum(gb1);
    gx0 = block_sum(gx0);
    gx1 = block_sum(gx1);
    if (threadIdx.x) return;
    m.grads[3 * m.hidden + j] = gw2; /* of b2 when j is hidden */
    if (!unit) return;
    m.grads[2 * m.hidden + j] = gb1;
    m.grads[2 * j] = gx0;
    m.grads[2 * j + 1] = gx1;
}
__global__ static void descend(float *params, const float *grads, int count, float rate) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) params[i] -= rate * grads[i];
}

/* ---- the phases ---- */

static const char *gpu_close(mlp *m) {
    float *const counted[] = { m->params, m->grads, m->x, m->y, m->dout, m->loss };
    if (m->stream) good(cudaStreamSynchronize(stream_of(m)));
    for (float *memory : counted) good(spanprof_cuda_free(memory));
    good(cudaFree(m->workspace));
    if (m->stream) good(cudaStreamDestroy(stream_of(m)));
    const cudaError_t error = first_error;
    first_error = cudaSuccess;
    m->params = m->grads = m->x = m->y = m->h = m->out = m->dout = m->loss = m->workspace = nullptr;
    m->stream = nullptr;
    return error == cudaSuccess ? nullptr : explain(error);
}
/* The first use of a kernel loads it, and compiles it when the program was built for another GPU: not in a span. */
static bool load_kernels() {
    const void *const kernels[] = { reinterpret_cast<const void *>(forward_hidden), reinterpret_cast<const void *>(forward_output),
                                    reinterpret_cast<const void *>(mean_square), reinterpret_cast<const void *>(gradients), reinterpret_cast<const void *>(descend) };
    cudaFuncAttributes attributes;
    for (const void *kernel : kernels)
        if (!good(cudaFuncGetAttributes(&attributes, kernel))) return false;
    return true;
}
static const char *gpu_open(mlp *m, const float *params, const float *x, const float *y) {
    const size_t batch = static_cast<size_t>(m->batch), hidden = static_cast<size_t>(m->hidden), count = MLP_PARAMS(hidden);
    cudaStream_t stream = nullptr;
    const bool opened = good(cudaGetDevice(&m->device)) && good(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)) && load_kernels();
    m->stream = stream;
    if (!opened || !good(spanprof_cuda_malloc(&m->params, count * sizeof(float))) || !good(spanprof_cuda_malloc(&m->grads, count * sizeof(float))) ||
        !good(spanprof_cuda_malloc(&m->x, 2 * batch * sizeof(float))) || !good(spanprof_cuda_malloc(&m->y, batch * sizeof(float))) ||
        !good(spanprof_cuda_malloc(&m->dout, batch * sizeof(float))) || !good(spanprof_cuda_malloc(&m->loss, sizeof(float))) ||
        !good(cudaMalloc(&m->workspace, batch * (hidden + 1) * sizeof(float))) ||
        !good(cudaMemcpyAsync(m->params, params, count * sizeof(float), cudaMemcpyHostToDevice, stream)) ||
        !good(cudaMemcpyAsync(m->x, x, 2 * batch * sizeof(float), cudaMemcpyHostToDevice, stream)) ||
        !good(cudaMemcpyAsync(m->y, y, batch * sizeof(float), cudaMemcpyHostToDevice, stream)) || !good(cudaStreamSynchronize(stream))) {
        const char *const why = gpu_close(m);
        cudaGetLastError();
        return why;
    }
    return nullptr;
}
static size_t activation_bytes(const mlp *m) { return static_cast<size_t>(m->batch) * static_cast<size_t>(m->hidden + 1) * sizeof(float); }

static void gpu_forward(mlp *m) {
    SPANPROF_CUDA_DEVICE_SPAN("forward kernels", stream_of(m));
    spanprof_buffer_acquire(m->device, activation_bytes(m));
    m->h = m->workspace;
    m->out = m->workspace + static_cast<size_t>(m->batch) * m->hidden;
    forward_hidden<<<blocks(static_cast<size_t>(m->batch) * m->hidden), THREADS, 0, stream_of(m)>>>(*m);
    forward_output<<<static_cast<unsigned>(m->batch), THREADS, 0, stream_of(m)>>>(*m);
    good(cudaGetLastError());
}
static float gpu_loss(mlp *m) {
    float loss = 0;
    {
        SPANPROF_CUDA_DEVICE_SPAN("loss kernel and copy", stream_of(m));
        mean_square<<<1, THREADS, 0, stream_of(m)>>>(*m);
        good(cudaGetLastError());
        good(cudaMemcpyAsync(&loss, m->loss, sizeof loss, cudaMemcpyDeviceToHost, stream_of(m)));
    }
    good(cudaStreamSynchronize(stream_of(m)));
    return loss;
}
static void gpu_backward(mlp *m) {
    SPANPROF_CUDA_DEVICE_SPAN("backward kernel", stream_of(m));
    gradients<<<static_cast<unsigned>(m->hidden) + 1, THREADS, 0, stream_of(m)>>>(*m);
    good(cudaGetLastError());
    spanprof_buffer_release(m->device, activation_bytes(m)); /* the stream's order keeps them until the kernel is done */
}
static void gpu_update(mlp *m, float rate) {
    const int count = MLP_PARAMS(m->hidden);
    SPANPROF_CUDA_DEVICE_SPAN("update kernel", stream_of(m));
    descend<<<blocks(static_cast<size_t>(count)), THREADS, 0, stream_of(m)>>>(m->params, m->grads, count, rate);
    good(cudaGetLastError());
}
static void gpu_read(mlp *m, float *params, float *grads, float *out) {
    const size_t bytes = MLP_PARAMS(static_cast<size_t>(m->hidden)) * sizeof(float);
    if (params) good(cudaMemcpyAsync(params, m->params, bytes, cudaMemcpyDeviceToHost, stream_of(m)));
    if (grads) good(cudaMemcpyAsync(grads, m->grads, bytes, cudaMemcpyDeviceToHost, stream_of(m)));
    if (out) good(cudaMemcpyAsync(out, m->out, static_cast<size_t>(m->batch) * sizeof(float), cudaMemcpyDeviceToHost, stream_of(m)));
    good(cudaStreamSynchronize(stream_of(m)));
}
extern "C" const mlp_backend mlp_cuda = { gpu_open, gpu_forward, gpu_loss, gpu_backward, gpu_update, gpu_read, gpu_close, "cuda" };
