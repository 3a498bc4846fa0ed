# SPDX-License-Identifier: MIT
# Mutation testing of the host's C code, no part of check: see README.
N ?= 60
JOBS ?= 2
.PHONY: mutants
mutants:
	@scripts/install-deps.sh
	@python3 tests/mutants/mutants.py --number $(N) --jobs $(JOBS) $(if $(SEED),--seed $(SEED)) \
		$(if $(FOLDERS),--folders $(FOLDERS)) $(if $(RETEST),--retest $(RETEST)) $(if $(SANITIZE),--sanitize)

# The driver's mutants: one boot of the VM suite each.
.PHONY: mutants-kmod
mutants-kmod:
	@scripts/install-deps.sh
	@python3 tests/mutants/kmod.py --number $(if $(filter file,$(origin N)),24,$(N)) $(if $(SEED),--seed $(SEED))

# Takes out each repair of repairs.txt; the tests named for it must fail. POINT=3.1, POINT=3: only
# these.
.PHONY: check-repairs
check-repairs:
	@scripts/install-deps.sh
	@python3 tests/mutants/repairs.py $(if $(POINT),--point $(POINT))
