/* cuda_stub.c - cuda_real.c in a build without CUDA. SPDX-License-Identifier: MIT */
#ifndef SPANPROF_CUDA_STUB
#define SPANPROF_CUDA_STUB
#endif
#include "cuda_real.c"
