# SPDX-License-Identifier: MIT
# Nothing here is built. The tests of the search that need no PyTorch are a stage of make check; what needs it is
# bench-rrsc, with Debian's: RRSC_PYTHON=... takes another Python that has it.
RRSC_PYTHON ?= /usr/bin/python3
.PHONY: check-rrsc bench-rrsc
check-rrsc:
	@$(RRSC_PYTHON) -B tools/rrsc/test_rrsc.py
bench-rrsc: $(BUILD)/rivulet
	@scripts/install-deps.sh --search
	@$(RRSC_PYTHON) -B tools/rrsc/test_search.py
	@$(RRSC_PYTHON) -B tools/rrsc/bench.py --tool $(BUILD)/rivulet
