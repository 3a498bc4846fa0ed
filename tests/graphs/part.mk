# SPDX-License-Identifier: MIT
# Random graphs of all operators: results of the interpreter, the CPU and the device model against onnxruntime's.
$(eval $(call program,tests/graph_runner,tests/graphs/runner.c,compiler kernels sim uapi,-lm))
$(eval $(call unit_test,graphs,compiler kernels sim uapi,-lm))
.PHONY: check-graphs
check-graphs: $(BUILD)/tests/graph_runner
	@scripts/install-deps.sh --oracle
	@build/venv/bin/python tests/graphs/check_graphs.py $< $(BUILD)/graphs $(if $(filter file,$(origin N)),100000,$(or $(N),100000)) $(or $(SEED),1)
