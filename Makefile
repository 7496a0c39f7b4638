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

HEADERS = $(wildcard spanprof*.h)
TEST_HEADERS = $(wildcard tests/*.h)
TOOL = $(O)/trace2summary

.PHONY: all demo test check-deep check-matrix bench install clean help FORCE
.DELETE_ON_ERROR:
.SUFFIXES:

all: $(TOOL) examples

# Holds the commands, and changes only when they do: other flags in the same folder build again.
$(O)/commands: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(C) | $(CPP) | $(LINK))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(C) | $(CPP) | $(LINK))' > $@
FORCE:

# ---- the tool ----

$(TOOL): tools/trace2summary.c $(HEADERS) $(O)/commands
	$(C) $< -o $@ $(LINK)

# ---- examples ----

EXAMPLES = hello nested threads async_completion scheduled_steps hooks_bridge indexer
EXAMPLE_PROGRAMS = $(EXAMPLES:%=$(O)/examples/%) $(O)/examples/multi_file
.PHONY: examples
examples: $(EXAMPLE_PROGRAMS)

$(EXAMPLES:%=$(O)/examples/%): $(O)/examples/%: examples/%.c $(HEADERS) $(O)/commands
	@mkdir -p $(@D)
	$(C) $< -o $@ $(LINK)

$(O)/examples/multi_file: $(wildcard examples/multi_file/*) $(HEADERS) $(O)/commands
	@mkdir -p $(@D)
	$(C) $(filter %.c,$^) -o $@ $(LINK)

demo: $(TOOL) $(O)/examples/indexer
	SPANPROF=1 SPANPROF_OUT=$(O)/demo.dump $(O)/examples/indexer --index $(O)/demo.idx
	$(TOOL) $(O)/demo.dump
	@echo
	@echo "trace:   $(O)/demo.trace.json"
	@echo "summary: $(O)/demo.summary.json"
	@echo "To look at the trace, open that file in https://ui.perfetto.dev, in chrome://tracing or in https://www.speedscope.app"

# ---- tests ----

TEST_C = $(patsubst tests/%.c,%,$(wildcard tests/unit_*.c tests/life_*.c))
TEST_CXX = $(patsubst tests/%.cpp,%,$(wildcard tests/unit_*.cpp tests/life_*.cpp))
TEST_PROGRAMS = $(TEST_C:%=$(O)/tests/%) $(TEST_CXX:%=$(O)/tests/%)
TEST_SCRIPTS = $(sort $(wildcard tests/compile_*.sh tests/link_*.sh tests/check_*.sh))
TEST_TOOLS = $(O)/tests/jget $(O)/tests/dcount

$(TEST_C:%=$(O)/tests/%) $(TEST_TOOLS): $(O)/tests/%: tests/%.c $(TEST_HEADERS) $(HEADERS) $(O)/commands
	@mkdir -p $(@D)
	$(C) $< -o $@ $(LINK)

$(TEST_CXX:%=$(O)/tests/%): $(O)/tests/%: tests/%.cpp $(TEST_HEADERS) $(HEADERS) $(O)/commands
	@mkdir -p $(@D)
	$(CPP) $< -o $@ $(LINK)

test: $(TOOL) $(EXAMPLE_PROGRAMS) $(TEST_PROGRAMS) $(TEST_TOOLS)
	@CC='$(CC)' CXX='$(CXX)' CFLAGS='$(CFLAGS) $(SAN_FLAGS)' CXXFLAGS='$(CXXFLAGS) $(SAN_FLAGS)' LDFLAGS='$(LDFLAGS)' SAN='$(SAN)' \
	sh tests/run.sh $(O) $(TEST_PROGRAMS) $(TEST_SCRIPTS) $(wildcard tests/tool/run.sh)

# Slower, with tools that not every machine has; what is missing is skipped and counted. STRICT=1: it is a failure.
check-deep check-matrix:
	@CC='$(CC)' CXX='$(CXX)' MAKE='$(MAKE)' STRICT='$(STRICT)' sh tests/$(@:check-%=%).sh $(O)

# ---- benchmarks ----

bench: $(TOOL)
	@CC='$(CC)' CFLAGS='$(CFLAGS)' sh tests/bench/run.sh $(O)

# ---- the rest ----

MAN = $(wildcard tools/*.1 man/*.1)
install: $(TOOL)
	mkdir -p $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/pkgconfig
	cp $(HEADERS) $(DESTDIR)$(PREFIX)/include/
	cp $(TOOL) $(DESTDIR)$(PREFIX)/bin/
	printf '%s\n' 'prefix=$(PREFIX)' 'includedir=$${prefix}/include' '' 'Name: spanprof' \
	    'Description: span profiler for C, C++ and CUDA, one header' 'Version: $(VERSION)' 'Cflags: -I$${includedir} -pthread' 'Libs: -pthread' \
	    > $(DESTDIR)$(PREFIX)/lib/pkgconfig/spanprof.pc
	$(if $(MAN),mkdir -p $(DESTDIR)$(PREFIX)/share/man/man1 && cp $(MAN) $(DESTDIR)$(PREFIX)/share/man/man1/)

clean:
	rm -rf $(O)

help:
	@echo "make               the tool and the examples, in O (build)"
	@echo "make demo          records a real program, converts, prints the table and how to open the trace"
	@echo "make test          the tests; needs a C compiler, make and sh; what else is missing is skipped and counted"
	@echo "make check-deep    sanitizers, valgrind, static checks, long runs"
	@echo "make check-matrix  compilers, standards and platforms"
	@echo "make bench         what recording and converting cost, against the budgets"
	@echo "make install       PREFIX=/usr/local DESTDIR="
	@echo "make clean         removes O"
	@echo "variables          O CC CXX CFLAGS CXXFLAGS LDFLAGS SAN=address,undefined|thread CUDA=1 LIBTORCH_HOME=dir"
