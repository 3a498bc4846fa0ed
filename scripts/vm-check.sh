#!/bin/bash
# SPDX-License-Identifier: MIT
#
# vm-check.sh [--render] [PATTERN]: runs all tests that need the driver, in one boot of the VM:
# driver, daemon and client together, then the driver alone.  With PATTERN, only the driver's tests
# whose name contains it.  --render builds the driver as for a kernel without CONFIG_DRM_ACCEL, with
# a render node. The last line is "N passed, N failed".

set -euo pipefail
export LC_ALL=C.UTF-8	# the output of tools is parsed
here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")
stage=$top/build/stage-vm

build() {
	make --no-print-directory -s all modules build/tests/vm/kmod_test build/tests/vm/tsc_khz build/tests/kmod/harness/harness.ko \
		build/tests/vm/fuzz_ioctl build/tests/vm/foreign build/tests/vm/client_test build/tests/vm/qconv.rvp \
		build/tests/vm/zu3eg-64.board
	rm -rf "$stage"
	make --no-print-directory -s install "DESTDIR=$stage" >/dev/null
	if [ -n "$render" ]; then
		make --no-print-directory -s modules BUILD=build/render RVL_RENDER_NODE=1
		make --no-print-directory -s install-module BUILD=build/render "DESTDIR=$stage" >/dev/null
	fi
	mkdir -p build/vm-data
	cp -u /usr/share/datasets/fashion-mnist/t10k-*-ubyte.gz build/vm-data/
}

main() {
	local start status=0 passed failed log render=''

	if [ "${1:-}" = --render ]; then
		render=$1
		shift
	fi
	cd "$top"
	build
	start=$SECONDS
	log=$(mktemp)
	# shellcheck disable=SC2064 # the name as it is now
	trap "rm -f '$log'" EXIT
	# The host adds figures and failures, so the guest's last line is removed here and printed
	# at the end.
	scripts/vm-run.sh --stage build/stage-vm --board "$top/build/tests/vm/zu3eg-64.board" --pace real --foreign \
		--battery mwh=20000,factor=0 --timeout 900 check \
		tests/vm/guest-check $render "$@" | tee "$log" |
		sed -uE '/^[0-9]+ passed, [0-9]+ failed$/d' || status=$?
	[ -n "$render" ] || echo "figure vm.check.time $((SECONDS - start)) s"
	read -r passed _ failed _ < <(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -1 ||
		echo 0 passed, 0)
	# A crash, and an access to a foreign device, are failures that the guest cannot count.
	[ $status = 0 ] || [ "$failed" != 0 ] || failed=1
	[ -z "$render" ] || echo "figure render.tests $passed tests"
	echo "$passed passed, $failed failed"
	exit $status
}

main "$@"
