/* cuda_libtorch.cpp - CUDA spans in a program that is linked with LibTorch: its captures are seen, its allocator figures read
 * once there are any. Skipped in a build without LibTorch or a CUDA device. SPDX-License-Identifier: MIT */
#define SPANPROF_CUDA
#define SPANPROF_IMPLEMENTATION
#if defined(__has_include) && !defined(SPANPROF_CUDA_STUB)
#if __has_include(<torch/torch.h>)
#define WITH_LIBTORCH
#define SPANPROF_LIBTORCH
#endif
#endif
#include "spanprof.h"

#include "session.h"

#ifndef WITH_LIBTORCH

int main() {
    SKIP("built without LibTorch (make CUDA=1 LIBTORCH_HOME=dir)");
    return CHECK_DONE();
}

#else

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/torch.h>

static const char *text_of(const dr_dump *d, const char *name, spanprof_meta_index member) { return dr_meta_text(d, dr_find(d, name, 0), member); }

int main() {
    spanprof_cuda_memory_info m;
    if (!torch::cuda::is_available()) {
        SKIP("no CUDA device");
        return CHECK_DONE();
    }
    session_open("libtorch.dump");
    { SPANPROF_CUDA_SPAN("no context"); }
    CHECK_INT(cudaSuccess, cudaFree(nullptr));
    { SPANPROF_CUDA_SPAN("allocator not started"); }
    CHECK_INT(SPANPROF_OK, spanprof_cuda_memory(&m));
    CHECK_INT(0, int(m.has & SPANPROF_CUDA_MEMORY_LIBTORCH));

    torch::Tensor a = torch::ones({ 1024, 1024 }, torch::kCUDA), b = torch::zeros({ 1024, 1024 }, torch::kCUDA);
    { SPANPROF_CUDA_SPAN("started"); b = a + a; }
    CHECK_INT(SPANPROF_OK, spanprof_cuda_memory(&m));
    CHECK_INT(SPANPROF_CUDA_MEMORY_DEVICE | SPANPROF_CUDA_MEMORY_POOL | SPANPROF_CUDA_MEMORY_LIBTORCH, int(m.has));
    CHECK(m.libtorch_allocated >= 8u << 20);
    CHECK(m.libtorch_reserved >= m.libtorch_allocated);
    CHECK(m.libtorch_peak >= m.libtorch_allocated);

    {
        const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
        const c10::cuda::CUDAStreamGuard guard(stream);
        at::cuda::CUDAGraph graph;
        graph.capture_begin();
        { SPANPROF_CUDA_SPAN("capture"); b.add_(a); }
        { SPANPROF_CUDA_STREAM_SPAN("capture, stream", stream.stream()); b.add_(a); }
        { SPANPROF_CUDA_DEVICE_SPAN("capture, device", stream.stream()); b.add_(a); }
        graph.capture_end();
        graph.replay();
        graph.replay();
        { SPANPROF_CUDA_SPAN("replayed"); }
    }
    CHECK_RANGE(8, 8, b.max().item<double>()); /* 2 + 2 x 3 */
    CHECK_INT(cudaSuccess, cudaPeekAtLastError());
    dr_dump *d = session_close();
    CHECK_STR(nullptr, text_of(d, "no context", SPANPROF_META_hook_error));
    CHECK_STR("device-synchronized", text_of(d, "allocator not started", SPANPROF_META_timing));
    CHECK(dr_attr(d, dr_find(d, "allocator not started", 0)->pos, "libtorch_allocated_bytes") == nullptr);
    CHECK_STR("device-synchronized", text_of(d, "started", SPANPROF_META_timing));
    CHECK_STR(nullptr, text_of(d, "started", SPANPROF_META_hook_error));
    CHECK(dr_attr(d, dr_find(d, "started", 0)->pos, "libtorch_allocated_bytes") != nullptr);
    CHECK(dr_attr(d, dr_find(d, "started", 0)->pos, "libtorch_reserved_bytes") != nullptr);
    CHECK(dr_attr(d, dr_find(d, "started", 0)->pos, "libtorch_peak_bytes") != nullptr);
    CHECK_STR("complete_timing: stream capture in progress", text_of(d, "capture", SPANPROF_META_hook_error));
    CHECK_STR("complete_timing: stream capture in progress", text_of(d, "capture, stream", SPANPROF_META_hook_error));
    CHECK_STR("prepare: stream capture in progress", text_of(d, "capture, device", SPANPROF_META_hook_error));
    CHECK_STR("device-synchronized", text_of(d, "replayed", SPANPROF_META_timing));
    dr_free(d);
    return CHECK_DONE();
}

#endif
