# SPDX-License-Identifier: MIT
# The programs of make demo-battery: one discharges the VM's battery, one prints tables and charts.
$(eval $(call program,tests/battery/discharge,tests/battery/discharge.c,client uapi,$(shell pkg-config --libs libdrm 2>/dev/null) -lm))
$(eval $(call program,tests/battery/report,tests/battery/report.c tests/battery/draw.c,,-lm))
.PHONY: demo-battery
demo-battery: # RUNS=N: of 64 bits at the highest level that a charge lasts
	@scripts/install-deps.sh
	@scripts/demo-battery $(RUNS)
