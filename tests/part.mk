# SPDX-License-Identifier: MIT
# One line per Check binary: $(eval $(call unit_test,AREA,static libs by name,linker flags)) builds
# tests/unit/test_AREA.c. Other test programs follow below.
comma := ,
$(eval $(call unit_test,serve,sim uapi,-lm))
$(BUILD)/unit/test_serve: | $(BUILD)/rivulet-sim
$(eval $(call unit_test,drain,sim uapi,-lm))
$(eval $(call unit_test,sim_parts,sim uapi,-lm))
$(eval $(call unit_test,sc,uapi))
$(eval $(call unit_test,stochastic,plan compiler kernels sim uapi,-lm))
$(eval $(call unit_test,core,sim uapi,-lm))
$(eval $(call unit_test,boundary,sim uapi,-lm))
$(eval $(call unit_test,core_faults,sim uapi,-lm))
include tests/kmod/part.mk
include tests/battery/part.mk
include tests/mutants/part.mk
include tests/attacks/part.mk
include tests/vm/part.mk
include tests/cycle/part.mk
include tests/modes/part.mk
include tests/fuzz/part.mk
include tests/graphs/part.mk
include tests/ibtf/part.mk
include tests/zoo/part.mk
$(eval $(call unit_test,isa_check,compiler sim uapi,-lm))
$(eval $(call unit_test,kept_check,compiler sim uapi,-lm))
$(eval $(call unit_test,sparse,compiler kernels sim uapi,-lm))
$(eval $(call unit_test,reconstruct,compiler kernels sim uapi,-lm -lnettle))
$(eval $(call unit_test,function,compiler kernels sim uapi,-lm -lnettle))
$(eval $(call unit_test,lines,compiler kernels sim uapi,-lm -lnettle))
$(eval $(call unit_test,host_copies,compiler kernels sim uapi,-lm -lnettle))
$(eval $(call unit_test,transposed,compiler kernels sim uapi,-lm -lnettle))
$(eval $(call unit_test,gather,compiler kernels sim uapi,-lm))
$(eval $(call unit_test,taps,compiler kernels sim uapi,-lm))
$(eval $(call unit_test,tile,compiler kernels sim uapi,-lm))
$(eval $(call unit_test,tokens,compiler kernels sim uapi,-lm))
$(eval $(call unit_test,planes,compiler kernels sim uapi,-lm))
$(eval $(call unit_test,mode_binary,compiler kernels sim uapi,-lm))
$(eval $(call unit_test,proto,uapi,))
$(eval $(call unit_test,config,daemon policy uapi,$(DAEMON_LIBS)))
$(eval $(call unit_test,policy,policy uapi,-lm))
$(eval $(call unit_test,gauge,policy uapi,-lm))
$(eval $(call unit_test,loop,$(DAEMON_STATIC),$(DAEMON_LIBS)))
$(eval $(call unit_test,level,$(DAEMON_STATIC),$(DAEMON_LIBS)))
$(eval $(call unit_test,log,daemon uapi,-Wl$(comma)--wrap=sd_journal_sendv $(DAEMON_LIBS)))
$(eval $(call unit_test,report,$(DAEMON_STATIC),$(DAEMON_LIBS) $(shell pkg-config --libs json-c 2>/dev/null)))
$(eval $(call unit_test,devfreq,$(DAEMON_STATIC),$(DAEMON_LIBS)))
$(eval $(call unit_test,power,$(DAEMON_STATIC),$(DAEMON_LIBS)))
$(eval $(call unit_test,profiles,$(DAEMON_STATIC),$(DAEMON_LIBS)))
$(eval $(call unit_test,isa,uapi))
$(eval $(call unit_test,timeline,sim uapi,-lm))
$(eval $(call unit_test,daemon,$(DAEMON_STATIC),$(DAEMON_LIBS) $(shell pkg-config --libs json-c 2>/dev/null)))
$(eval $(call program,check-queue,tests/model/check_queue.c,sim uapi,-lm))
.PHONY: check-model
check-model: $(BUILD)/check-queue
	@$<
$(eval $(call unit_test,rivuletd,$(DAEMON_STATIC),$(DAEMON_LIBS)))
$(eval $(call unit_test,worker,$(DAEMON_STATIC),$(DAEMON_LIBS)))
$(eval $(call unit_test,cache,$(DAEMON_STATIC),$(DAEMON_LIBS)))
# Work of a client's size: the wrappers note which thread does it.
OFFLOAD_WRAPS := $(addprefix -Wl$(comma)--wrap=,rvl_program_read rivulet_image_load_within rivulet_exec_new \
	rivulet_exec_bind_fd rvl_rt_cpu_run rvl_rt_mem_free)
$(eval $(call unit_test,offload,$(DAEMON_STATIC),$(OFFLOAD_WRAPS) $(DAEMON_LIBS)))
$(eval $(call unit_test,lifetime,$(DAEMON_STATIC),$(DAEMON_LIBS)))
$(eval $(call unit_test,limits,$(DAEMON_STATIC),$(DAEMON_LIBS)))
$(eval $(call unit_test,fair,daemon uapi,))
$(eval $(call unit_test,share,$(DAEMON_STATIC),$(DAEMON_LIBS)))
$(eval $(call unit_test,overdue,$(DAEMON_STATIC),$(DAEMON_LIBS)))
$(eval $(call unit_test,stream,$(DAEMON_STATIC),$(DAEMON_LIBS)))
$(eval $(call unit_test,found,$(DAEMON_STATIC),$(DAEMON_LIBS)))
$(BUILD)/unit/test_found: | $(BUILD)/rivulet
$(eval $(call unit_test,sched,$(DAEMON_STATIC),$(DAEMON_LIBS)))
$(BUILD)/unit/test_cancel: | $(BUILD)/rivuletd $(BUILD)/rivulet
$(eval $(call unit_test,cancel,runtime client compiler kernels sim uapi,$(TOOL_LIBS)))
$(eval $(call unit_test,untrusted,runtime client compiler kernels sim uapi,$(TOOL_LIBS)))
$(eval $(call unit_test,runtime,runtime client compiler kernels sim uapi,$(TOOL_LIBS)))
$(eval $(call unit_test,workers,runtime client compiler kernels sim uapi,$(addprefix -Wl$(comma)--wrap=,sched_getaffinity rvl_rt_now) $(TOOL_LIBS)))
# Calls of the client library that tests/unit/fake_npu.h answers instead of the driver.
NPU_WRAPS := $(addprefix -Wl$(comma)--wrap=,ioctl drmIoctl drmGetVersion drmFreeVersion drmPrimeFDToHandle drmSyncobjCreate \
	drmSyncobjDestroy drmSyncobjWait drmSyncobjExportSyncFile)
$(eval $(call unit_test,backend,runtime client compiler kernels sim uapi,$(NPU_WRAPS) $(TOOL_LIBS)))
$(eval $(call unit_test,early_steps,runtime client compiler kernels sim uapi,$(NPU_WRAPS) $(TOOL_LIBS)))
$(eval $(call unit_test,fences,runtime client compiler kernels sim uapi,$(NPU_WRAPS) $(TOOL_LIBS)))
NOMEM_WRAPS := $(addprefix -Wl$(comma)--wrap=,malloc calloc realloc reallocarray aligned_alloc posix_memalign strdup strndup \
	vasprintf open_memstream free)
$(eval $(call unit_test,nomem,runtime client plan compiler kernels sim uapi,$(NOMEM_WRAPS) $(TOOL_LIBS)))
$(eval $(call unit_test,refusals,compiler kernels uapi,-lm -lnettle))
$(eval $(call unit_test,rewrites,compiler kernels uapi,-lm -lnettle))
$(eval $(call unit_test,placement,compiler kernels uapi,-lm -lnettle))
$(eval $(call unit_test,greedy,compiler kernels uapi,-lm -lnettle))
$(eval $(call unit_test,view_life,compiler kernels uapi,-lm -lnettle))
$(eval $(call unit_test,edit,compiler kernels uapi,-lm -lnettle))
$(eval $(call unit_test,reader,compiler kernels uapi,-lm -lnettle))
$(eval $(call unit_test,calibrate,compiler kernels uapi,-lm -lnettle))
$(eval $(call unit_test,bits,compiler kernels uapi,-lm -lnettle))
$(eval $(call unit_test,prune,compiler kernels uapi,-lm -lnettle))
$(eval $(call unit_test,quantised,compiler kernels uapi,-lm -lnettle))
$(eval $(call unit_test,operators,kernels uapi,-lm))
$(eval $(call unit_test,operands,kernels uapi,-lm))
$(eval $(call unit_test,accuracy,plan compiler kernels uapi,-lm -lnettle))
$(eval $(call unit_test,starved,compiler kernels uapi,$(addprefix -Wl$(comma)--wrap=rvl_arena_,alloc array strndup) \
	-lm -lnettle))
$(eval $(call unit_test,release,runtime client compiler kernels sim uapi,$(TOOL_LIBS)))
$(eval $(call unit_test,isolation,sim uapi,-lm))
CPPFLAGS_tests/unit/test_discovery := $(shell pkg-config --cflags umockdev-1.0 2>/dev/null)
$(eval $(call unit_test,discovery,$(DAEMON_STATIC),-Wl$(comma)--wrap=rvl_cache_forget_times $(DAEMON_LIBS) $(shell pkg-config --libs umockdev-1.0 2>/dev/null)))
CPPFLAGS_tests/unit/test_battery := $(shell pkg-config --cflags umockdev-1.0 2>/dev/null)
$(eval $(call unit_test,battery,$(DAEMON_STATIC),$(DAEMON_LIBS) $(shell pkg-config --libs umockdev-1.0 2>/dev/null)))
$(eval $(call unit_test,device,sim uapi,-lm))
CPPFLAGS_tests/unit/test_libclient := $(shell pkg-config --cflags umockdev-1.0 2>/dev/null) \
	-DRVL_LIBRIVULET='"$(LIBRIVULET)"'
$(eval $(call unit_test,libclient,client uapi,$(shell pkg-config --libs umockdev-1.0 libdrm 2>/dev/null)))
$(BUILD)/unit/test_libclient: $(LIBRIVULET)
CPPFLAGS_tests/unit/test_async := $(shell pkg-config --cflags umockdev-1.0 2>/dev/null)
$(eval $(call unit_test,async,client uapi,$(shell pkg-config --libs libdrm 2>/dev/null)))
CPPFLAGS_tests/unit/test_reconnect := $(shell pkg-config --cflags umockdev-1.0 2>/dev/null)
$(eval $(call unit_test,reconnect,client uapi,$(shell pkg-config --libs umockdev-1.0 libdrm 2>/dev/null)))
$(eval $(call unit_test,board,uapi))
$(eval $(call unit_test,external,tool $(TOOL_STATIC),$(TOOL_LIBS)))
$(eval $(call unit_test,tool,tool $(TOOL_STATIC),$(TOOL_LIBS)))
CPPFLAGS_tests/unit/test_reports := $(shell pkg-config --cflags umockdev-1.0 2>/dev/null)
$(eval $(call unit_test,reports,tool $(TOOL_STATIC),$(TOOL_LIBS)))
CPPFLAGS_tests/unit/test_node := $(shell pkg-config --cflags umockdev-1.0 2>/dev/null)
$(eval $(call unit_test,node,tool $(TOOL_STATIC),$(TOOL_LIBS) $(shell pkg-config --libs umockdev-1.0 2>/dev/null)))
$(eval $(call unit_test,files,tool $(TOOL_STATIC),$(TOOL_LIBS)))
$(eval $(call unit_test,scores,tool $(TOOL_STATIC),$(TOOL_LIBS)))
$(eval $(call unit_test,plan_report,tool $(TOOL_STATIC),$(TOOL_LIBS)))
CPPFLAGS_tests/unit/test_doctor := $(shell pkg-config --cflags umockdev-1.0 2>/dev/null)
$(eval $(call unit_test,doctor,tool $(TOOL_STATIC),$(addprefix -Wl$(comma)--wrap=,getgrnam getpwuid geteuid getegid getgroups) \
	$(TOOL_LIBS)))
$(eval $(call unit_test,on_node,tool $(TOOL_STATIC),$(NPU_WRAPS) $(TOOL_LIBS)))
$(eval $(call unit_test,compare,tool $(TOOL_STATIC),$(TOOL_LIBS)))
$(eval $(call unit_test,inputs,tool $(TOOL_STATIC),$(TOOL_LIBS)))
$(eval $(call unit_test,plot,tool $(TOOL_STATIC),$(TOOL_LIBS)))
$(BUILD)/unit/test_verbs: | $(BUILD)/rivulet
$(eval $(call unit_test,verbs,tool plan $(DAEMON_STATIC),$(DAEMON_LIBS) $(TOOL_LIBS)))
include tests/vm/client/part.mk
include tests/vm/service/part.mk
$(eval $(call unit_test,picture,tool $(TOOL_STATIC),$(TOOL_LIBS)))
$(eval $(call unit_test,explain,tool $(TOOL_STATIC),$(TOOL_LIBS)))
$(eval $(call unit_test,profile,tool $(TOOL_STATIC),$(TOOL_LIBS)))
$(eval $(call unit_test,progress,tool $(TOOL_STATIC),$(TOOL_LIBS)))
$(BUILD)/unit/test_progress: | $(BUILD)/rivulet
$(eval $(call unit_test,asm,tool $(TOOL_STATIC),$(TOOL_LIBS)))
$(eval $(call program,unit/test_fuzz_program,tests/unit/test_fuzz_program.c tests/fuzz/change.c,runtime client compiler kernels sim uapi,$(TOOL_LIBS) $(CHECK_LIBS)))
UNIT_TESTS += $(BUILD)/unit/test_fuzz_program

# The stochastic mode: errors and accuracies, speed and memory.
$(eval $(call program,tests/sc_rmse,tests/sc/rmse.c,uapi,-lm))
$(eval $(call program,tests/bench_sc,tests/bench/bench_sc.c,compiler kernels sim uapi,-lm))
$(eval $(call program,tests/bench_cpu,tests/bench/bench_cpu.c,kernels uapi,-lm))
$(eval $(call program,tests/bench_float,tests/bench/bench_float.c,kernels uapi,-lm))
$(eval $(call program,tests/bench_binary_cpu,tests/bench/bench_binary_cpu.c,kernels uapi,-lm))
# The binary convolutions of BiRealNet-18 on one core.
.PHONY: bench-binary-cpu
bench-binary-cpu: $(BUILD)/tests/bench_binary_cpu $(BUILD)/lce/installed
	@$< > $(BUILD)/lce/rates || { cat $(BUILD)/lce/rates; exit 1; }
	@cat $(BUILD)/lce/rates
	@$(BUILD)/lce/venv/bin/python tests/bench/bench_lce.py $(BUILD)/lce/rates 2>$(BUILD)/lce/log
# The same with VPOPCNTDQ, as llvm-mca models it: no processor is needed for that.
.PHONY: count-binary-cycles
count-binary-cycles: kernels/binary/avx512.c
	@mkdir -p $(BUILD)/tests
	@$(CC) $(CPPFLAGS_ALL) $(INC_kernels) $(CFLAGS_ALL) -S -g0 -o $(BUILD)/tests/binary_avx512.s $<
	@python3 -B tests/bench/mca_binary.py $(BUILD)/tests/binary_avx512.s sapphirerapids znver4
$(BUILD)/lce/installed:
	@mkdir -p $(@D)
	@python3 -m venv $(@D)/venv
	@$(@D)/venv/bin/pip install -q larq-compute-engine==0.16.0 tensorflow-cpu==2.16.2 tf-keras==2.16.0 larq
	@touch $@
$(eval $(call program,tests/bench_memory,tests/bench/bench_memory.c,compiler kernels sim uapi,-lm))
.PHONY: bench-cpu bench-float bench-peers bench-memory bench-runs check-int8 check-float
bench-cpu: $(BUILD)/tests/bench_cpu bench-memory bench-float bench-peers bench-runs
	@$<
# What networks on the CPU allocate, over their weights and live values.
bench-memory: $(BUILD)/tests/bench_memory
	@$<
# Several runs of a network at once.
bench-runs: $(BUILD)/rivulet
	@scripts/bench-runs
# The CPU operators against libraries from PyPI.
bench-peers: $(BUILD)/rivulet
	@XDG_CACHE_HOME=$(abspath $(BUILD))/cache $< bench --device cpu --compare onnxruntime,xnnpack
# The same for float operators, in ratio to onnxruntime.
bench-float: $(BUILD)/tests/bench_float
	@scripts/install-deps.sh --oracle
	@build/venv/bin/python tests/bench/bench_float.py $<
# The float models of check-real, whole. OPTIONS: of tools/peers/compare.py.
.PHONY: bench-float-models
bench-float-models: $(BUILD)/rivulet
	@scripts/install-deps.sh --oracle
	@build/venv/bin/python -B tests/bench/bench_float_models.py $< $(BUILD)/real $(OPTIONS)
# The shapes of test_int8, and 98,000 more, in ten parts that make -j runs at the same time.
INT8_PARTS = $(addprefix check-int8-,0 1 2 3 4 5 6 7 8 9)
.PHONY: $(INT8_PARTS)
check-int8: $(INT8_PARTS)
$(INT8_PARTS): check-int8-%: $(BUILD)/unit/test_int8
	@echo "shapes $*0000 to $*9999 of 100000"
	@CK_RUN_CASE=shapes RVL_INT8_SHAPES=$*0000:$$(($*0000 + 10000)) $<
check-float: $(BUILD)/unit/test_float
	@RVL_FLOAT_SHAPES=100000 $<
.PHONY: eval-sc bench-sc
eval-sc: $(BUILD)/tests/sc_rmse $(BUILD)/rivulet
	@BUILD=$(BUILD) scripts/eval-sc
bench-sc: $(BUILD)/tests/bench_sc
	@$<

# Compares the planner with an exhaustive search on the linked device model.
$(eval $(call program,tests/bench_plan,tests/bench/bench_plan.c,runtime client plan compiler kernels sim uapi,$(TOOL_LIBS)))
.PHONY: bench-plan check-plan
bench-plan check-plan: $(BUILD)/tests/bench_plan
	@$<

# 10,000 switches of the level with a full queue. make check makes 1,000.
$(eval $(call program,tests/bench_switch,tests/bench/bench_switch.c,plan $(DAEMON_STATIC),$(DAEMON_LIBS)))
.PHONY: bench-switch check-switch
check-switch:
	@scripts/bench-switch 1000
bench-switch:
	@scripts/install-deps.sh
	@scripts/bench-switch $(SWITCHES)

# The share of the device that a user has beside floods, which check-attacks runs, too.
CPPFLAGS_tests/attacks/share := -Itests/unit
$(eval $(call program,tests/check_share,tests/attacks/share.c,$(DAEMON_STATIC),$(DAEMON_LIBS) $(CHECK_LIBS)))
.PHONY: check-reconstruct
check-reconstruct: $(BUILD)/unit/test_reconstruct # 1,000 random graphs with float consumers
	@RIVULET_GRAPHS=$(or $(N),1000) RIVULET_BOARD_PATH=sim/boards $<
.PHONY: check-share check-attacks
check-share: $(BUILD)/tests/check_share
	@$<
check-attacks: check-share

# Pages of rivulet explain in a browser: not in make check, which has no browser to install.
.PHONY: check-report
check-report: $(BUILD)/rivulet
	@BUILD=$(BUILD) scripts/check-report

# Frames a second with CPU steps beside NPU steps. MODEL=FILE; by default the SSD of the zoo, whose
# heads become int8 by --calibrate, so that no convolution is left on the CPU.
$(eval $(call program,tests/bench_pipeline,tests/bench/bench_pipeline.c,runtime client compiler kernels sim uapi,-Wl$(comma)--wrap=rvl_rt_cpu_run $(TOOL_LIBS)))
PIPELINE_MODEL := $(BUILD)/tests/pipeline.onnx
$(PIPELINE_MODEL): tools/zoo/zoo.py | $(BUILD)/rivulet
	@mkdir -p $(@D)
	@python3 $< ssd-mobilenetv1 --sparsity 75 -o $@.float --image $(@:.onnx=.npy) >/dev/null
	@$(BUILD)/rivulet compile --quiet $@.float --calibrate $(@:.onnx=.npy) -o $(@:.onnx=.rvp) --export $@
.PHONY: bench-pipeline
bench-pipeline: $(BUILD)/tests/bench_pipeline $(if $(MODEL),,$(PIPELINE_MODEL))
	@$< $(or $(MODEL),$(PIPELINE_MODEL)) zu3eg-64 a53
	@$< $(or $(MODEL),$(PIPELINE_MODEL)) zu3eg-256 host
