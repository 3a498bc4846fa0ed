# SPDX-License-Identifier: MIT
#
#   make          build everything but the kernel module
#   make demo     install what is needed, build, boot a VM with driver and daemon, classify images
#   make check    install what is needed, build, run all tests
#   make modules  build rivulet.ko for the running or newest installed 6.12 headers
#   make install  DESTDIR=... PREFIX=/usr
#   make help     this text
#
#   make check-STAGE runs one stage of make check: unit fresh asan model plan conv onnx models docs
#   layout abi examples dts rrsc style rooms kernel-style pipeline security nspawn bounce service
#   arm64-kernels attacks switch. scripts/vm-check.sh runs the stage vm.
#
#   Tests that make check does not run: check-int8 check-float check-binary check-ibtf check-cycles check-onnx-newest
#   check-microsoft check-compile check-large check-quantised check-quantised-operators check-graphs
#   check-real check-headers check-render check-arm64 check-kexec check-debug fuzz fuzz-ioctl
#   check-reconstruct check-repairs check-zoo coverage mutants mutants-kmod.
#   Benches and experiments: demo-battery bench-npu bench-pipeline bench-views bench-layouts bench-sc eval-sc
#   eval-cnn eval-bits eval-binary bench-ibtf bench-ibtf-cpu bench-choice eval-ibtf bench-driver bench-switch bench-policy
#   bench-rrsc bench-cpu bench-binary
#   bench-binary-cpu count-binary-cycles bench-float bench-float-models bench-peers bench-runs count-arm64-kernels.
#
# Each folder has a part.mk that calls the macros below; objects go to $(BUILD). BUILD=build/asan
# SAN=1 and BUILD=build/cov COV=1 build the same with sanitizers or coverage. A folder sees only the
# headers that docs/architecture.md allows: INC_<folder>.

BUILD ?= build
PREFIX ?= /usr
LIBDIR ?= $(PREFIX)/lib/$(shell $(CC) -print-multiarch 2>/dev/null || echo x86_64-linux-gnu)
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
MAKEFLAGS += --no-builtin-rules

VERSION := 0.1.0
OPT ?= -O2
WARN := -Wall -Wextra -Werror -Wvla -Wmissing-prototypes -Wundef -Wshadow=local
CFLAGS_ALL := -std=gnu11 -g $(OPT) $(WARN) -fPIC -fvisibility=hidden -ffp-contract=off -fno-math-errno -pthread
CPPFLAGS_ALL := -D_GNU_SOURCE -DRIVULET_VERSION='"$(VERSION)"'
# Cancelling a run leaves a kernel by longjmp() at any instruction (runtime/workers.c), so that no
# function may be resolved at its first call: the dynamic linker would be left with its lock held.
LDFLAGS_ALL := -pthread -Wl,-z,relro,-z,now $(LDFLAGS)
# Test programs take longer to compile than most of them run.
$(BUILD)/obj/tests/unit/%.o: CFLAGS_ALL += -O1
ifdef SAN
# Reports need lines, not variables; with -g1 the build takes a quarter less time.
CFLAGS_ALL += -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
LDFLAGS_ALL += -fsanitize=address,undefined
# Test programs compile four times as fast without optimisation, but test_core has a model of its own
# in which it spends its time.
$(BUILD)/obj/tests/unit/%.o: CFLAGS_ALL += -O0
$(BUILD)/obj/tests/unit/test_core.o: CFLAGS_ALL += -O1
endif
ifdef COV
CFLAGS_ALL += --coverage
LDFLAGS_ALL += --coverage
endif

INC_uapi := -Iuapi
INC_sim := -Iuapi -Isim
INC_kernels := -Iuapi -Ikernels
INC_libclient := -Iuapi -Ilibclient
INC_compiler := -Iuapi -Ikernels -Icompiler
INC_plan := -Iuapi -Ikernels -Icompiler -Iplan
INC_runtime := -Iuapi -Ikernels -Icompiler -Isim -Ilibclient -Iruntime
INC_daemon := $(INC_runtime) -Idaemon -Idaemon/policy
INC_tool := $(INC_runtime) -Iplan -Idaemon/policy -Itool
INC_tests := $(INC_runtime) -Iplan -Idaemon -Idaemon/policy -Itool -Itests

PKGS := libdrm
CPPFLAGS_ALL += $(shell pkg-config --cflags $(PKGS) 2>/dev/null)

# $(call objects,sources): their object files
objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
# $(call static_lib,NAME,sources): $(BUILD)/libNAME.a
define static_lib
$(BUILD)/lib$(1).a: $(call objects,$(2))
	@mkdir -p $$(@D)
	@rm -f $$@
	@echo "  AR      $$@"
	@ar rcs $$@ $$^
ALL_SOURCES += $(2)
LIBS_ALL += $(BUILD)/lib$(1).a
endef
# The compiler hashes models with libnettle; every program that links it needs that library.
NETTLE_LIBS := $(shell pkg-config --libs nettle 2>/dev/null || echo -lnettle)
# $(call program,PATH,sources,static libs by name,linker flags): $(BUILD)/PATH
define program
$(BUILD)/$(1): $(call objects,$(2)) $(foreach l,$(3),$(BUILD)/lib$(l).a) $(filter %.o,$(4))
	@mkdir -p $$(@D)
	@echo "  LD      $$@"
	@$$(CC) $$(LDFLAGS_ALL) -o $$@ $(call objects,$(2)) -Wl,--start-group $(foreach l,$(3),$(BUILD)/lib$(l).a) -Wl,--end-group $(if $(filter compiler,$(3)),$(NETTLE_LIBS)) $(4)
ALL_SOURCES += $(2)
endef
# $(call unit_test,AREA,static libs,linker flags): tests/unit/test_AREA.c, run by make unit
define unit_test
$(call program,unit/test_$(1),tests/unit/test_$(1).c,$(2),$(3) $(CHECK_LIBS))
UNIT_TESTS += $(BUILD)/unit/test_$(1)
endef
CHECK_LIBS := -Wl,--wrap=_mark_point $(BUILD)/obj/tests/unit/marks.o $(shell pkg-config --libs check 2>/dev/null)
ALL_SOURCES += tests/unit/marks.c

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC      $<"
	@$(CC) $(CPPFLAGS_ALL) $(INC_$(firstword $(subst /, ,$<))) $(CPPFLAGS_$(basename $<)) $(CFLAGS_ALL) $(CFLAGS_$(basename $<)) -MMD -MP -c -o $@ $<

PARTS := uapi sim kernels compiler plan libclient runtime daemon tool kmod tests tools
-include $(PARTS:%=%/part.mk)

# Flags of one file have its path in their name, CFLAGS_kernels/op_norm.
FLAGS_OF_NONE := $(foreach v,$(filter-out %_ALL,$(filter CFLAGS_% CPPFLAGS_%,$(.VARIABLES))),$(if \
	$(and $(filter file,$(origin $(v))),$(if $(wildcard $(v:CFLAGS_%=%.c) $(v:CPPFLAGS_%=%.c)),,none)),$(v)))
$(if $(strip $(FLAGS_OF_NONE)),$(error no source for $(strip $(FLAGS_OF_NONE))))

DEPS := $(patsubst %.c,$(BUILD)/obj/%.d,$(ALL_SOURCES))
-include $(DEPS)

.PHONY: all clean help unit demo check check-unit check-fresh check-asan check-models check-man check-driver-checks check-layout check-dts check-style check-rooms check-kernel-style coverage
all: $(LIBS_ALL) $(PROGRAMS)

# The scripts run make again, because pkg-config must see the packages that were just installed.
demo:
	@scripts/install-deps.sh
	@scripts/demo

check:
	@scripts/install-deps.sh --kernel-style --arm64-user
	@scripts/check

coverage:
	@scripts/install-deps.sh
	@scripts/coverage

# What the stages of scripts/check build in $(BUILD). It builds all of it before it starts stages in
# parallel, because two of them must not compile the same file at the same time.
STAGE_PROGRAMS := $(addprefix $(BUILD)/,check-queue gen/docgen $(addprefix tests/,check_attacks check_conv check_onnx \
	check_share bench_plan bench_switch))
.PHONY: check-programs check-pipeline
check-programs: $(PROGRAMS) $(INSTALL_UNITS) $(LIBRIVULET) $(BUILD)/librivulet.pc $(VM_TESTS) $(MACHINE) $(HARNESS) \
	$(UNIT_TESTS) $(STAGE_PROGRAMS)
check-pipeline:
	@scripts/check-pipeline
check-unit: unit
check-asan:
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/asan SAN=1 OPT=-O1 unit
check-models: all
	@BUILD=$(BUILD) scripts/check-models
check-docs: check-man check-driver-checks
check-driver-checks:
	@scripts/check-driver-checks
check-man: $(PROGRAMS)
	@BUILD=$(BUILD) scripts/check-man
check-layout:
	@scripts/check-layout
check-dts:
	@scripts/check-dts
check-style: check-kernel-style
	@scripts/check-style
check-rooms: all
	@scripts/check-rooms $(BUILD)/obj
check-kernel-style:
	@scripts/check-kernel-style

# Compares the kernels of the CPU operators for arm64 with the scalar reference, under qemu-user.
.PHONY: check-arm64-kernels count-arm64-kernels
check-arm64-kernels:
	@scripts/check-arm64-kernels
# Instructions of an arm64 processor for each product of quantised layers, counted under qemu-user.
count-arm64-kernels:
	@scripts/install-deps.sh --arm64-user
	@scripts/count-arm64-kernels

# Tests the driver with a Device Tree on an emulated ZCU102. The kernel is built by the first run.
.PHONY: check-arm64
check-arm64:
	@scripts/install-deps.sh --arm64
	@scripts/check-arm64 $(PATTERN)

# Prints a line for each test program. A program that fails does not keep the others from running.
unit: $(UNIT_TESTS)
	@scripts/run-unit $(UNIT_TESTS)
# Runs the same tests as another user, with an uptime of some seconds and with one of 400 days.

check-fresh: $(PROGRAMS) $(UNIT_TESTS) $(INSTALL_UNITS)
	@BUILD=$(BUILD) scripts/check-fresh $(UNIT_TESTS)

clean:
	rm -rf $(BUILD)/obj $(BUILD)/unit $(BUILD)/asan $(BUILD)/cov $(LIBS_ALL) $(PROGRAMS)

help:
	@sed -n '3,19s/^# \{0,1\}//p' Makefile
