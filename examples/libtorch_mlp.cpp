/* libtorch_mlp.cpp - the training of quickstart_mlp through LibTorch: the same data and first weights give the same losses.
 *
 *     make CUDA=1 LIBTORCH_HOME=dir build/libtorch_mlp        dir: the folder with LibTorch's include and lib
 *     SPANPROF=1 SPANPROF_OUT=libtorch.dump build/libtorch_mlp --device cuda --steps 3 && trace2summary libtorch.dump
 *
 * SPANPROF_LIBTORCH gives the hooks LibTorch's allocator figures: each synchronized span carries libtorch_allocated_bytes,
 * _reserved_bytes and _peak_bytes as attributes. alloc_live_bytes stays 0 here: it counts buffers that the program registers,
 * and these tensors are LibTorch's own. Built without LibTorch it only says so.
 * SPDX-License-Identifier: MIT */
#define SPANPROF_CUDA
#define SPANPROF_IMPLEMENTATION
#ifdef __has_include
#if __has_include(<torch/torch.h>)
#define WITH_LIBTORCH
#define SPANPROF_LIBTORCH
#endif
#endif
#include "spanprof.h"

#include "quickstart_mlp.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#ifndef WITH_LIBTORCH

static const char *not_built(void *, spanprof_hook_call *call) {
    call->meta.timing = "host";
    return "LibTorch support not built in (make CUDA=1 LIBTORCH_HOME=dir)";
}
int main() {
    static const spanprof_hooks hooks = { nullptr, not_built, nullptr, nullptr };
    SPANPROF_SPAN_HOOKED("train", &hooks, .phase = "train");
    std::fputs("libtorch_mlp: built without LibTorch; make CUDA=1 LIBTORCH_HOME=dir\n", stderr);
    return 0;
}

#else

#include <torch/torch.h>

static int usage(const char *wrong) {
    std::fprintf(stderr, "libtorch_mlp: %s\nusage: libtorch_mlp [--device cpu|cuda|gpu] [--steps N] [--hidden N] [--batch N]\n", wrong);
    return 2;
}

/* A weight of the network, with gradients. */
static torch::Tensor weight(const float *values, std::vector<int64_t> shape, torch::Device device) {
    return torch::from_blob(const_cast<float *>(values), shape, torch::kFloat32).clone().to(device).requires_grad_(true);
}

static void show_memory() {
    spanprof_cuda_memory_info m;
    if (spanprof_cuda_memory(&m) != SPANPROF_OK) return;
    if (m.has & SPANPROF_CUDA_MEMORY_DEVICE)
        std::printf("device %d: %.1f of %.1f MiB free (all processes)\n", m.device, static_cast<double>(m.device_free) / 1048576, static_cast<double>(m.device_total) / 1048576);
    if (m.has & SPANPROF_CUDA_MEMORY_POOL)
        std::printf("memory pool: %llu bytes used, %llu reserved\n", static_cast<unsigned long long>(m.pool_used), static_cast<unsigned long long>(m.pool_reserved));
    if (m.has & SPANPROF_CUDA_MEMORY_LIBTORCH)
        std::printf("LibTorch: %llu bytes allocated, %llu reserved, %llu at most\n", static_cast<unsigned long long>(m.libtorch_allocated),
                    static_cast<unsigned long long>(m.libtorch_reserved), static_cast<unsigned long long>(m.libtorch_peak));
}

static void train(bool cuda, int steps, int hidden, int batch) {
    static const spanprof_hooks no_hooks = { nullptr, nullptr, nullptr, nullptr };
    const spanprof_hooks *const hooks = cuda ? &spanprof_cuda_hooks : &no_hooks;
    const bool gpu = cuda && torch::cuda::is_available();
    const torch::Device device(gpu ? torch::kCUDA : torch::kCPU);
    const char *const name = gpu ? "cuda" : "cpu";
    if (cuda && !gpu) std::fputs("libtorch_mlp: no CUDA device: training on the CPU\n", stderr);
    std::vector<float> x(2 * static_cast<size_t>(batch)), y(static_cast<size_t>(batch)), params(MLP_PARAMS(static_cast<size_t>(hidden)));
    float minutes = 0, last = 0;
    mlp_samples(x.data(), y.data(), batch, &minutes);
    mlp_first_params(params.data(), hidden);
    const float *at = params.data();
    torch::Tensor w1 = weight(at, { hidden, 2 }, device), b1 = weight(at + 2 * hidden, { hidden }, device);
    torch::Tensor w2 = weight(at + 3 * hidden, { 1, hidden }, device), b2 = weight(at + 4 * hidden, { 1 }, device);
    const torch::Tensor inputs = torch::from_blob(x.data(), { batch, 2 }, torch::kFloat32).clone().to(device);
    const torch::Tensor targets = torch::from_blob(y.data(), { batch, 1 }, torch::kFloat32).clone().to(device);
    torch::optim::SGD optimizer({ w1, b1, w2, b2 }, 0.05);
    std::printf("2-%d-1 network, batch %d, %d steps on %s through LibTorch\n", hidden, batch, steps, name);
    SPANPROF_SPAN("train");
    for (int step = 0; step < steps; step++) {
        SPANPROF_STEP(step);
        SPANPROF_SPAN("train.step");
        torch::Tensor out, loss;
        {
            SPANPROF_SPAN_HOOKED("model.forward", hooks, .phase = "forward", .backend = "libtorch", .dtype = "float32", .device = name);
            out = torch::linear(torch::tanh(torch::linear(inputs, w1, b1)), w2, b2);
        }
        {
            SPANPROF_SPAN_HOOKED("loss.mse", hooks, .phase = "loss", .backend = "libtorch", .dtype = "float32", .device = name);
            loss = torch::mse_loss(out, targets);
            last = loss.item<float>();
        }
        {
            SPANPROF_SPAN_HOOKED("model.backward", hooks, .phase = "backward", .backend = "libtorch", .dtype = "float32", .device = name);
            optimizer.zero_grad();
            loss.backward();
        }
        {
            SPANPROF_SPAN_HOOKED("optimizer.sgd", hooks, .phase = "optimizer", .backend = "libtorch", .dtype = "float32", .device = name);
            optimizer.step();
        }
        if (steps <= 10 || step % (steps / 10) == 0 || step == steps - 1) std::printf("step %d loss %.9g\n", step, static_cast<double>(last));
    }
    std::printf("root mean square error %.4g minutes\n", std::sqrt(static_cast<double>(last)) * static_cast<double>(minutes));
    show_memory();
}

int main(int argc, char **argv) {
    bool cuda = false;
    int numbers[3] = { 200, 8, MLP_SAMPLES };
    for (int i = 1; i < argc; i += 2) {
        static const char *const names[] = { "--steps", "--hidden", "--batch" };
        if (i + 1 == argc) return usage("a value is missing");
        if (!std::strcmp(argv[i], "--device")) {
            cuda = !std::strcmp(argv[i + 1], "cuda") || !std::strcmp(argv[i + 1], "gpu");
            if (!cuda && std::strcmp(argv[i + 1], "cpu")) return usage("not a device");
            continue;
        }
        int known = 0;
        while (known < 3 && std::strcmp(argv[i], names[known])) known++;
        if (known == 3) return usage("unknown option");
        char *end;
        const long value = std::strtol(argv[i + 1], &end, 10);
        if (*end || value < 1 || value > 1000000) return usage("not a number from 1 to 1000000");
        numbers[known] = static_cast<int>(value);
    }
    try {
        train(cuda, numbers[0], numbers[1], numbers[2]);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "libtorch_mlp: %s\n", error.what());
        return 1;
    }
    return 0;
}

#endif
