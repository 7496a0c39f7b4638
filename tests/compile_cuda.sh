#!/bin/sh
# compile_cuda.sh BUILD - spanprof_cuda.h in every form it is used in: standards and compilers with all warnings as errors, with
# toolkits of other versions (the fake one), stub, disabled, in several files, and by nvcc where there is one.
# SPDX-License-Identifier: MIT
BUILD=${1:-build}
SOURCE=${SOURCE:-$(cd "$(dirname "$0")/.." && pwd)}
passed=0 failed=0 skipped=0
ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "failed: $*"; }
# try COMMAND...: passes when it succeeds and prints nothing
try() {
    out=$("$@" 2>&1)
    if [ $? -eq 0 ] && [ -z "$out" ]; then ok; else bad "$*"; printf '%s\n' "$out" | head -n 12; fi
}
W="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wcast-qual -Werror"
FAKE="-isystem $SOURCE/tests/fake_cuda"

cat > use.c <<'X'
#ifdef IMPLEMENT
#define SPANPROF_IMPLEMENTATION
#endif
#define SPANPROF_CUDA
#include "spanprof.h"
#include "spanprof_cuda.h"
#include "spanprof.h"
struct CUstream_st;
int NAME(struct CUstream_st *stream, int way);
int NAME(struct CUstream_st *stream, int way) {
    SPANPROF_CUDA_SPAN("one");
    SPANPROF_CUDA_SPAN("two"); /* two in a scope */
    if (way) {
        SPANPROF_CUDA_SPAN_META("meta", .phase = "forward", .step = 1);
        SPANPROF_CUDA_STREAM_SPAN("stream", stream);
        SPANPROF_CUDA_STREAM_SPAN("stream again", stream);
        SPANPROF_CUDA_STREAM_SPAN_META("stream meta", stream, .dtype = "float32");
        if (way > 1) return way;
    }
    switch (way) {
    case 0: {
        SPANPROF_CUDA_DEVICE_SPAN("device", stream);
        SPANPROF_CUDA_DEVICE_SPAN("device too", stream);
        break;
    }
    default: break;
    }
    spanprof_cuda_capture_begin();
    spanprof_cuda_capture_end();
    spanprof_buffer_acquire(0, 1);
    spanprof_buffer_release(0, 1);
    (void)stream;
    return 0;
}
X
cp use.c use.cpp
cat > main.c <<'X'
struct CUstream_st;
#ifdef __cplusplus
extern "C" {
#endif
int first(struct CUstream_st *stream, int way);
int second(struct CUstream_st *stream, int way);
#ifdef __cplusplus
}
#endif
int main(void) { return first(0, 0) + first(0, 1) + second(0, 1); }
X

compilers=
for c in "${CC:-cc}" clang; do
    command -v "$c" >/dev/null 2>&1 || continue
    case " $compilers " in *" $c "*) ;; *) compilers="$compilers $c" ;; esac
done
for c in $compilers; do
    for form in "" "$FAKE" "-DSPANPROF_CUDA_STUB" "-DSPANPROF_DISABLE" "$FAKE -DSPANPROF_DISABLE"; do
        try "$c" -std=c99 -O1 $W -Wstrict-prototypes -I"$SOURCE" $form -DNAME=first -c use.c -o use.o
    done
    for form in "" "$FAKE" "-DSPANPROF_CUDA_STUB" "$FAKE -DSPANPROF_INLINE=0" "$FAKE -DSPANPROF_NO_TLS=1"; do
        try "$c" -std=c99 -O1 $W -Wstrict-prototypes -I"$SOURCE" $form -DIMPLEMENT -DNAME=first -c use.c -o use.o
    done
    for std in gnu99 c11 gnu17 c2x; do
        try "$c" -std=$std $W -Wstrict-prototypes -I"$SOURCE" $FAKE -DIMPLEMENT -DNAME=first -fsyntax-only use.c
    done
    for version in 10020 11030 12000 12050; do
        try "$c" -std=c99 $W -I"$SOURCE" $FAKE -DFAKE_CUDART_VERSION=$version -DIMPLEMENT -DNAME=first -fsyntax-only use.c
    done
done
for c in "${CXX:-c++}" clang++; do
    command -v "$c" >/dev/null 2>&1 || continue
    designators=
    case $("$c" --version 2>/dev/null) in *clang*) designators=-Wno-c++20-designator ;; *) designators=-Wuseless-cast ;; esac
    for form in "" "-DSPANPROF_CUDA_STUB" "-DSPANPROF_DISABLE"; do
        try "$c" -std=c++11 $W -Wold-style-cast $designators -I"$SOURCE" $form -DNAME=first -fsyntax-only use.cpp
    done
    for std in c++11 gnu++14 c++17 c++20; do
        try "$c" -std=$std $W -Wold-style-cast $designators -I"$SOURCE" $FAKE -DIMPLEMENT -DNAME=first -fsyntax-only use.cpp
    done
    try "$c" -std=c++11 -O1 $W -Wold-style-cast $designators -I"$SOURCE" $FAKE -DIMPLEMENT -DNAME=first -c use.cpp -o use.o
done

# Two files, one implementation; mixed with a C++ file; and the tests of the fake runtime as older toolkits see it.
cc=${CC:-cc}
try "$cc" -I"$SOURCE" -DIMPLEMENT -DNAME=first -c use.c -o first.o
try "$cc" -I"$SOURCE" -DNAME=second -c use.c -o second.o
try "$cc" first.o second.o main.c -o two -pthread
if ./two; then ok; else bad ./two; fi
for version in 11030 12000 12050; do
    mkdir -p fake$version
    try "$cc" -std=gnu99 -O1 -fPIC -shared -I"$SOURCE" $FAKE -DFAKE_CUDART_VERSION=$version -Wl,-soname,libcudart.so.$version "$SOURCE/tests/fake_cudart.c" -o fake$version/libcudart.so.$version -pthread
    for test in cuda_fake_hooks cuda_fake_device; do
        try "$cc" -std=gnu99 -O1 -I"$SOURCE" $FAKE -DFAKE_CUDART_VERSION=$version "$SOURCE/tests/$test.c" -o $test-$version fake$version/libcudart.so.$version -Wl,-rpath,"$PWD/fake$version" -pthread
        if ./$test-$version > $test-$version.log 2>&1; then ok; else bad "$test with toolkit $version"; tail -n 12 $test-$version.log; fi
    done
done

# An implementation file that took the stub, in a program whose other files use the runtime: their memory comes from it.
cat > memory.c <<'X'
#ifdef IMPLEMENT
#define SPANPROF_IMPLEMENTATION
#define SPANPROF_CUDA_STUB
#endif
#define SPANPROF_CUDA
#include "spanprof.h"
#ifndef IMPLEMENT
int main(void) {
    void *p = 0;
    int device;
    SPANPROF_CUDA_SPAN("span");
    (void)cudaGetDevice(&device);
    return (int)spanprof_cuda_malloc(&p, 100) == 801 || (int)spanprof_cuda_free(p) == 801; /* not supported; without a driver it fails otherwise */
}
#endif
X
try "$cc" -I"$SOURCE" -DIMPLEMENT -c memory.c -o memory_stub.o
try "$cc" -I"$SOURCE" $FAKE -c memory.c -o memory_main.o
try "$cc" memory_main.o memory_stub.o fake12000/libcudart.so.12000 -Wl,-rpath,"$PWD/fake12000" -o memory -pthread
if ./memory; then ok; else bad "memory with the stub"; fi
if SPANPROF=1 SPANPROF_OUT=memory.dump ./memory 2> memory.err && grep -q 'CUDA support not built in' memory.err; then ok; else bad "memory with the stub, recording"; fi

# nvcc: host and device code in one file.
if nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null); then
    sed 's/int NAME(/extern "C" int NAME(/' use.c > use.cu
    printf '%s\n' '__global__ void kernel(int *p) { *p = 1; }' 'void launch(int *p, cudaStream_t s) { SPANPROF_CUDA_DEVICE_SPAN("kernel", s); kernel<<<1, 1, 0, s>>>(p); }' >> use.cu
    for form in "-std=c++20" "-default-stream per-thread" "-DSPANPROF_CUDA_STUB" "-DSPANPROF_DISABLE"; do
        try "$nvcc" -Xcompiler -Wall,-Wextra -I"$SOURCE" $form -DIMPLEMENT -DNAME=first -c use.cu -o use.o
    done
    try "$nvcc" -I"$SOURCE" -DIMPLEMENT -DNAME=first -c use.cu -o first.o
    sed 's/^void launch/void launch_too/; s/^__global__ void/__global__ static void/' use.cu > use2.cu
    try "$nvcc" -I"$SOURCE" -DNAME=second -c use2.cu -o second.o
    try "$nvcc" -x c++ -c main.c -o main.o
    try "$nvcc" first.o second.o main.o -o nvcc_two
    if ./nvcc_two; then ok; else bad ./nvcc_two; fi
else
    skipped=$((skipped + 1))
    echo "compile_cuda.sh: SKIP: no nvcc"
fi
echo "compile_cuda: $passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
