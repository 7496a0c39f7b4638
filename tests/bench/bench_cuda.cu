/* bench_cuda.cu - what CUDA spans cost on an idle device, against the CUDA calls that they cannot do without.
 *
 *     make CUDA=1 bench
 *
 * Ratios of one run: the parts are timed in turn, 25 rounds of 2,000, and the medians compared. SPDX-License-Identifier: MIT */
#define SPANPROF_CUDA
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>
#include <string>
#include <vector>

enum { ROUNDS = 25, CALLS = 2000 };

static cudaStream_t stream;
static cudaEvent_t from, to;

static void nothing() {}
static void plain_span() { SPANPROF_SPAN("plain"); }
static void device_sync() { cudaDeviceSynchronize(); }
static void wide_span() { SPANPROF_CUDA_SPAN("wide"); }
static void stream_sync() { cudaStreamSynchronize(stream); }
static void stream_span() { SPANPROF_CUDA_STREAM_SPAN("stream", stream); }
static void event_pair() {
    cudaEventRecord(from, stream);
    cudaEventRecord(to, stream);
}
static void device_span() { SPANPROF_CUDA_DEVICE_SPAN("device", stream); }

struct part {
    const char *name;
    void (*run)();
    int calls;
    std::vector<double> ns;
};
static part parts[] = {
    { "nothing", nothing, CALLS, {} },          { "a plain span", plain_span, CALLS, {} },
    { "cudaDeviceSynchronize", device_sync, CALLS, {} }, { "SPANPROF_CUDA_SPAN", wide_span, CALLS, {} },
    { "cudaStreamSynchronize", stream_sync, CALLS, {} }, { "SPANPROF_CUDA_STREAM_SPAN", stream_span, CALLS, {} },
    { "two cudaEventRecord", event_pair, 500, {} },      { "SPANPROF_CUDA_DEVICE_SPAN", device_span, 500, {} },
};
static double median(int i) {
    std::vector<double> &ns = parts[i].ns;
    std::nth_element(ns.begin(), ns.begin() + static_cast<long>(ns.size() / 2), ns.end());
    return ns[ns.size() / 2];
}
static void row(const char *what, double value, double budget) {
    std::printf("%-60s %6.2f  <= %-6.2f %s\n", what, value, budget, value <= budget ? "ok" : "OVER");
}

int main(int argc, char **argv) {
    const std::string self = argv[0];
    const std::string beside = self.find('/') == std::string::npos ? "." : self.substr(0, self.rfind('/'));
    const std::string dump = (argc > 1 ? argv[1] : beside) + "/bench_cuda.dump"; /* its folder, or one that is named */
    spanprof_config config;
    spanprof_session_stats stats;
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || !devices) {
        std::printf("bench_cuda: SKIP: no CUDA device (%s)\n", cudaGetErrorName(cudaGetLastError()));
        return 0;
    }
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaEventCreate(&from);
    cudaEventCreate(&to);
    std::memset(&config, 0, sizeof config);
    config.path = dump.c_str();
    if (spanprof_start(&config) != SPANPROF_OK) return 1;
    for (int round = -3; round < ROUNDS; round++) /* the first three warm up */
        for (part &p : parts) {
            cudaDeviceSynchronize();
            const uint64_t begin = spanprof_i_monotonic_ns();
            for (int i = 0; i < p.calls; i++) p.run();
            const uint64_t end = spanprof_i_monotonic_ns();
            if (round >= 0) p.ns.push_back(static_cast<double>(end - begin) / p.calls);
        }
    cudaDeviceSynchronize();
    const bool stopped = spanprof_stop() == SPANPROF_OK;
    spanprof_stats(&stats);
    for (int i = 0; i < 8; i++) std::printf("%-60s %8.1f ns\n", parts[i].name, median(i));
    const double span = median(1) - median(0);
    row("CUDA span / (1.3 cudaDeviceSynchronize + a plain span)", median(3) / (1.3 * median(2) + span), 1);
    std::printf("%-60s %6.2f  (no budget)\n", "stream span / (1.3 cudaStreamSynchronize + a plain span)", median(5) / (1.3 * median(4) + span));
    row("device span / two cudaEventRecord", median(7) / median(6), 1.5);
    const unsigned long long expected = (ROUNDS + 3ull) * (3ull * CALLS + 2 * 500);
    std::printf("%llu events recorded, %llu dropped\n", static_cast<unsigned long long>(stats.recorded), static_cast<unsigned long long>(stats.dropped));
    std::remove(stats.path);
    return !stopped || stats.dropped || stats.recorded != expected || cudaGetLastError() != cudaSuccess;
}
