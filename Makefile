# Makefile of spanprof. GNU make, sh and a C compiler are enough for `make demo` and `make test`. `make help` lists the targets.
#
#   O=dir                 build folder (build); nothing is written outside it
#   CC CXX CFLAGS CXXFLAGS LDFLAGS   as usual
#   SAN=address,undefined or thread  builds with these sanitizers
#   CUDA=1                builds what needs the CUDA toolkit (nvcc)
#   LIBTORCH_HOME=dir     builds what needs LibTorch
#   PREFIX=dir DESTDIR=dir           where `make install` puts things (/usr/local)
# SPDX-License-Identifier: MIT

O ?= build
CFLAGS ?= -O2 -g
CXXFLAGS ?= $(CFLAGS)
PREFIX ?= /usr/local
SAN ?=
CUDA ?=
LIBTORCH_HOME ?=
LDLIBS ?= -pthread

VERSION := $(shell sed -n 's/^.define SPANPROF_VERSION "\(.*\)"/\1/p' spanprof.h)
WARN = -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wcast-qual
WARN_C = $(WARN) -Wstrict-prototypes
WARN_CXX = $(WARN) -Wold-style-cast
SAN_FLAGS = $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer)
C = $(CC) -std=gnu99 $(CFLAGS) $(WARN_C) $(SAN_FLAGS) $(CPPFLAGS) -I.
CPP = $(CXX) -std=gnu++11 $(CXXFLAGS) $(WARN_CXX) $(SAN_FLAGS) $(CPPFLAGS) -I.
LINK = $(SAN_FLAGS) $(LDFLAGS) $(LDLIBS)

comma := ,
# CUDA=1: the toolkit of nvcc; else the stub of spanprof_cuda.h, though the system may have the toolkit's headers.
NVCC ?= $(or $(shell command -v nvcc 2>/dev/null),/usr/local/cuda/bin/nvcc)
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(NVCC))
CUDA_LINK = -L$(CUDA_HOME)/lib64 -lcudart -Wl,-rpath,$(CUDA_HOME)/lib64
CUDA_FLAGS = $(if $(CUDA),-isystem $(CUDA_HOME)/include,-DSPANPROF_CUDA_STUB)
NVCC_LINK = -cudart shared -Xcompiler -pthread -lm -Xlinker -rpath=$(CUDA_HOME)/lib64
LIBTORCH_FLAGS = $(if $(LIBTORCH_HOME),-isystem $(LIBTORCH_HOME)/include -isystem $(LIBTORCH_HOME)/include/torch/csrc/api/include)
LIBTORCH_LINK = $(if $(LIBTORCH_HOME),-L$(LIBTORCH_HOME)/lib -Wl$(comma)--no-as-needed -ltorch -ltorch_cpu $(if $(CUDA),-ltorch_cuda -lc10_cuda) -lc10 \
                -Wl$(comma)-rpath$(comma)$(LIBTORCH_HOME)/lib)

HEADERS = $(wildcard spanprof*.h)
TEST_HEADERS = $(wildcard tests/*.h)
TOOL = $(O)/trace2summary

.PHONY: all demo test fuzz check-deep check-matrix bench pictures install clean help FORCE
.DELETE_ON_ERROR:
.SUFFIXES:

all: $(TOOL) examples

# Holds the commands, and changes only when they do: other flags in the same folder build again.
$(O)/commands: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(C) | $(CPP) | $(LINK) | $(CUDA_FLAGS) | $(LIBTORCH_FLAGS))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(C) | $(CPP) | $(LINK) | $(CUDA_FLAGS) | $(LIBTORCH_FLAGS))' > $@
FORCE:

# ---- the tool ----

$(TOOL): tools/trace2summary.c $(HEADERS) $(O)/commands
	$(C) $< -o $@ $(LINK)

# ---- examples ----

EXAMPLES = hello nested threads async_completion scheduled_steps hooks_bridge indexer
HAVE_CXX := $(shell command -v $(firstword $(CXX)) 2>/dev/null)
EXAMPLE_PROGRAMS = $(EXAMPLES:%=$(O)/examples/%) $(O)/examples/multi_file $(O)/quickstart_mlp $(if $(HAVE_CXX),$(O)/libtorch_mlp)
.PHONY: examples
examples: $(EXAMPLE_PROGRAMS)

$(EXAMPLES:%=$(O)/examples/%): $(O)/examples/%: examples/%.c $(HEADERS) $(O)/commands
	@mkdir -p $(@D)
	$(C) $< -o $@ $(LINK)

$(O)/examples/multi_file: $(wildcard examples/multi_file/*) $(HEADERS) $(O)/commands
	@mkdir -p $(@D)
	$(C) $(filter %.c,$^) -o $@ $(LINK)

# A small network trained on the CPU, and on the GPU with CUDA=1.
ifdef CUDA
$(O)/quickstart_mlp: $(O)/obj/quickstart_mlp.o $(O)/obj/quickstart_mlp_kernels.o
	$(NVCC) $^ -o $@ $(NVCC_LINK)
$(O)/obj/quickstart_mlp.o $(O)/obj/quickstart_mlp_part.o: examples/quickstart_mlp.c examples/quickstart_mlp.h $(HEADERS) $(O)/commands
	@mkdir -p $(@D)
	$(C) $(CUDA_FLAGS) -DQUICKSTART_MLP_CUDA $(if $(findstring part,$@),-DQUICKSTART_MLP_NO_MAIN) -c $< -o $@
$(O)/obj/quickstart_mlp_kernels.o: examples/quickstart_mlp_kernels.cu examples/quickstart_mlp.h $(HEADERS) $(O)/commands
	@mkdir -p $(@D)
	$(NVCC) -O2 -I. -c $< -o $@
else
$(O)/quickstart_mlp: examples/quickstart_mlp.c examples/quickstart_mlp.h $(HEADERS) $(O)/commands
	$(C) $(CUDA_FLAGS) $< -o $@ $(LINK) -lm
endif

# LibTorch's own headers are not clean under our warnings.
$(O)/libtorch_mlp: examples/libtorch_mlp.cpp examples/quickstart_mlp.h
$(O)/tests/cuda_libtorch: tests/cuda_libtorch.cpp $(TEST_HEADERS)
$(O)/libtorch_mlp $(O)/tests/cuda_libtorch: $(HEADERS) $(O)/commands
	@mkdir -p $(@D)
	$(CXX) -std=gnu++17 $(CXXFLAGS) $(SAN_FLAGS) $(CPPFLAGS) -I. $(CUDA_FLAGS) $(LIBTORCH_FLAGS) $(filter %.cpp,$^) -o $@ $(LINK) $(LIBTORCH_LINK) $(if $(CUDA),$(CUDA_LINK))

demo: $(TOOL) $(O)/examples/indexer
	SPANPROF=1 SPANPROF_OUT=$(O)/demo.dump $(O)/examples/indexer --index $(O)/demo.idx
	$(TOOL) $(O)/demo.dump
	@echo
	@echo "trace:   $(O)/demo.trace.json"
	@echo "summary: $(O)/demo.summary.json"
	@echo "To look at the trace, open that file in https://ui.perfetto.dev, in chrome://tracing or in https://www.speedscope.app"

# ---- tests ----

TEST_C = $(patsubst tests/%.c,%,$(wildcard tests/unit_*.c tests/life_*.c tests/fault_*.c))
TEST_HOSTILE = $(O)/tests/hostile_input
TEST_CXX = $(patsubst tests/%.cpp,%,$(wildcard tests/unit_*.cpp tests/life_*.cpp))
TEST_PROGRAMS = $(TEST_C:%=$(O)/tests/%) $(if $(HAVE_CXX),$(TEST_CXX:%=$(O)/tests/%))
TEST_SCRIPTS = $(sort $(wildcard tests/compile_*.sh tests/link_*.sh tests/check_*.sh))
TEST_TOOLS = $(O)/tests/jget $(O)/tests/dcount
TEST_LONG = $(O)/tests/soak

$(TEST_C:%=$(O)/tests/%) $(TEST_TOOLS) $(TEST_LONG): $(O)/tests/%: tests/%.c $(TEST_HEADERS) $(HEADERS) $(O)/commands
	@mkdir -p $(@D)
	$(C) $< -o $@ $(LINK)

# These have the tool inside.
$(TEST_HOSTILE): $(O)/tests/%: tests/%.c tools/trace2summary.c $(wildcard tests/fuzz/*.h) $(TEST_HEADERS) $(HEADERS) $(O)/commands
	@mkdir -p $(@D)
	$(C) $< -o $@ $(LINK) -lm

$(TEST_CXX:%=$(O)/tests/%): $(O)/tests/%: tests/%.cpp $(TEST_HEADERS) $(HEADERS) $(O)/commands
	@mkdir -p $(@D)
	$(CPP) $< -o $@ $(LINK)

# Against a runtime library that plays devices, errors and captures by a script; and against the real one, where there is one.
CUDA_FAKE = $(patsubst tests/%.c,$(O)/tests/%,$(wildcard tests/cuda_fake_*.c))
CUDA_REAL = $(patsubst tests/%.c,$(O)/tests/%,$(wildcard tests/cuda_stub.c tests/cuda_real.c))
CUDA_TESTS = $(CUDA_FAKE) $(CUDA_REAL) $(if $(HAVE_CXX),$(O)/tests/cuda_libtorch) $(O)/spanprof_cuda_tests
FAKE_CUDART = $(O)/fake/libcudart.so.13

$(FAKE_CUDART): tests/fake_cudart.c $(TEST_HEADERS) $(wildcard tests/fake_cuda/*) $(O)/commands
	@mkdir -p $(@D)
	$(C) -fPIC -shared -Itests/fake_cuda -Wl,-soname,$(@F) $< -o $@ $(LINK)

$(CUDA_FAKE): $(O)/tests/%: tests/%.c $(FAKE_CUDART) $(TEST_HEADERS) $(HEADERS) $(O)/commands
	@mkdir -p $(@D)
	$(C) -isystem tests/fake_cuda $< -o $@ $(FAKE_CUDART) -Wl,-rpath,'$$ORIGIN/../fake' $(LINK)

$(CUDA_REAL): $(O)/tests/%: tests/%.c $(TEST_HEADERS) $(HEADERS) $(O)/commands
	@mkdir -p $(@D)
	$(C) $(if $(findstring stub,$@),-DSPANPROF_CUDA_STUB,$(CUDA_FLAGS)) $< -o $@ $(LINK) $(if $(CUDA),$(CUDA_LINK))

ifdef CUDA
$(O)/spanprof_cuda_tests: tests/spanprof_cuda_tests.cu $(O)/obj/quickstart_mlp_part.o $(O)/obj/quickstart_mlp_kernels.o $(TEST_HEADERS) $(HEADERS) $(O)/commands
	$(NVCC) -O2 -std=c++17 -I. $(filter %.cu %.o,$^) -o $@ $(NVCC_LINK)
else
$(O)/spanprof_cuda_tests: tests/spanprof_cuda_tests.cu $(TEST_HEADERS) $(HEADERS) $(O)/commands
	$(C) $(CUDA_FLAGS) -x c $< -o $@ $(LINK)
endif

test: $(TOOL) $(EXAMPLE_PROGRAMS) $(TEST_PROGRAMS) $(TEST_LONG) $(TEST_HOSTILE) $(TEST_TOOLS) $(CUDA_TESTS)
	@CC='$(CC)' CXX='$(CXX)' CFLAGS='$(CFLAGS) $(SAN_FLAGS)' CXXFLAGS='$(CXXFLAGS) $(SAN_FLAGS)' LDFLAGS='$(LDFLAGS)' SAN='$(SAN)' WITHOUT_CXX='$(if $(HAVE_CXX),,$(TEST_CXX))' \
	sh tests/run.sh $(O) $(TEST_PROGRAMS) $(TEST_LONG) $(TEST_HOSTILE) $(CUDA_TESTS) $(TEST_SCRIPTS) $(wildcard tests/tool/run.sh tests/fuzz/run.sh)

# Slower, with tools that not every machine has; what is missing is skipped and counted. STRICT=1: it is a failure.
check-deep check-matrix:
	@CC='$(CC)' CXX='$(CXX)' MAKE='$(MAKE)' STRICT='$(STRICT)' sh tests/$(@:check-%=%).sh $(O)

# A search by each fuzz target, with libFuzzer: make fuzz FUZZ_SECONDS=3600
FUZZ_SECONDS ?= 60
fuzz:
	@CC='$(CC)' sh tests/fuzz/run.sh $(O) $(FUZZ_SECONDS)

# ---- benchmarks ----

BENCH = $(O)/bench/bench $(O)/bench/library.so $(if $(CUDA),$(O)/bench/bench_cuda)
bench: $(TOOL) $(BENCH)
	@mkdir -p $(O)/bench/files
	@CC='$(CC)' $(O)/bench/bench $(O) $(BENCH_ARGS)
	$(if $(CUDA),@$(O)/bench/bench_cuda)

$(O)/bench/bench: tests/bench/bench.c $(HEADERS) $(O)/commands
	@mkdir -p $(@D)
	$(C) $< -o $@ $(LINK) -ldl
$(O)/bench/library.so: tests/bench/library.c $(HEADERS) $(O)/commands
	@mkdir -p $(@D)
	$(C) -fPIC -shared $< -o $@ $(LINK)
$(O)/bench/bench_cuda: tests/bench/bench_cuda.cu $(HEADERS) $(O)/commands
	@mkdir -p $(@D)
	$(NVCC) -O2 -std=c++17 -I. $< -o $@ $(NVCC_LINK)

# ---- the rest ----

MAN1 = $(wildcard tools/*.1)
MAN3 = $(wildcard tools/*.3)
install: $(TOOL)
	mkdir -p $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/pkgconfig
	cp $(HEADERS) $(DESTDIR)$(PREFIX)/include/
	cp $(TOOL) $(DESTDIR)$(PREFIX)/bin/
	printf '%s\n' 'prefix=$(PREFIX)' 'includedir=$${prefix}/include' '' 'Name: spanprof' \
	    'Description: span profiler for C, C++ and CUDA, one header' 'Version: $(VERSION)' 'Cflags: -I$${includedir} -pthread' 'Libs: -pthread' \
	    > $(DESTDIR)$(PREFIX)/lib/pkgconfig/spanprof.pc
	$(if $(MAN1),mkdir -p $(DESTDIR)$(PREFIX)/share/man/man1 && cp $(MAN1) $(DESTDIR)$(PREFIX)/share/man/man1/)
	$(if $(MAN3),mkdir -p $(DESTDIR)$(PREFIX)/share/man/man3 && cp $(MAN3) $(DESTDIR)$(PREFIX)/share/man/man3/)

# The time line of README, from a real run; copy it to examples/captures when it is to stay.
pictures: $(TOOL) $(O)/examples/indexer
	SPANPROF=1 SPANPROF_OUT=$(O)/pictures.dump $(O)/examples/indexer --files 400 --index $(O)/pictures.idx
	$(TOOL) -q --no-table --svg $(O)/indexer.svg -s $(O)/pictures.summary.json $(O)/pictures.dump

clean:
	rm -rf $(O)

help:
	@echo "make               the tool and the examples, in O (build)"
	@echo "make demo          records a real program, converts, prints the table and how to open the trace"
	@echo "make test          the tests; needs a C compiler, make and sh; what else is missing is skipped and counted"
	@echo "make check-deep    sanitizers, valgrind, static checks, long runs, the model of the windows"
	@echo "make fuzz          FUZZ_SECONDS=60 of libFuzzer for each reader of the tool"
	@echo "make check-matrix  compilers, standards and platforms"
	@echo "make bench         what recording and converting cost, against the budgets"
	@echo "make pictures      the time line of README, from a real run"
	@echo "make install       PREFIX=/usr/local DESTDIR="
	@echo "make clean         removes O"
	@echo "variables          O CC CXX CFLAGS CXXFLAGS LDFLAGS SAN=address,undefined|thread CUDA=1 LIBTORCH_HOME=dir"
