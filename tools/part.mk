# SPDX-License-Identifier: MIT
# Nothing in tools/ is built. The tests of the search that need no PyTorch are a stage of make
# check. bench-rrsc runs those that need it, with Debian's PyTorch; RRSC_PYTHON=... selects another
# Python that has PyTorch.
RRSC_PYTHON ?= /usr/bin/python3
.PHONY: check-rrsc bench-rrsc
check-rrsc:
	@$(RRSC_PYTHON) -B tools/rrsc/test_rrsc.py
bench-rrsc: $(BUILD)/rivulet
	@scripts/install-deps.sh --search
	@$(RRSC_PYTHON) -B tools/rrsc/test_search.py
	@$(RRSC_PYTHON) -B tools/rrsc/bench.py --tool $(BUILD)/rivulet
