#!/bin/bash
# SPDX-License-Identifier: MIT
#
# vm-check.sh [PATTERN]: everything that needs our kernel, in one boot of the VM: driver, daemon and
# client together, then the driver alone.  With PATTERN, only the driver's tests whose name holds it.
# The last line is "N passed, N failed".

set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")
stage=$top/build/stage-vm

build() {
	make --no-print-directory -s all modules build/tests/vm/kmod_test \
		build/tests/vm/fuzz_ioctl build/tests/vm/stranger build/tests/vm/client_test build/tests/vm/qconv.rvp
	rm -rf "$stage"
	make --no-print-directory -s install "DESTDIR=$stage" >/dev/null
	mkdir -p build/vm-data
	cp -u /usr/share/datasets/fashion-mnist/t10k-*-ubyte.gz build/vm-data/
}

main() {
	local start status=0 passed failed log

	cd "$top"
	build
	start=$SECONDS
	log=$(mktemp)
	# shellcheck disable=SC2064 # the name as it is now
	trap "rm -f '$log'" EXIT
	# The verdict comes last, after what the host has to say.
	scripts/vm-run.sh --stage build/stage-vm --pace real --foreign --timeout 400 check \
		tests/vm/guest-check "$@" | tee "$log" |
		sed -uE '/^[0-9]+ passed, [0-9]+ failed$/d' || status=$?
	echo "figure vm.check.time $((SECONDS - start)) s"
	read -r passed _ failed _ < <(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -1 ||
		echo 0 passed, 0)
	# A machine that died, or a stranger's device that was touched, is a failure of its own.
	[ $status = 0 ] || [ "$failed" != 0 ] || failed=1
	echo "$passed passed, $failed failed"
	exit $status
}

main "$@"
