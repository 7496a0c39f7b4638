/* link_implementation.c - the implementation alone; a C and a C++ file. SPDX-License-Identifier: MIT */
#define SPANPROF_IMPLEMENTATION
#include "spanprof.h"
