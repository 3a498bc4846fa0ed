#!/bin/bash
# SPDX-License-Identifier: MIT
#
# vm-check.sh [PATTERN]: all tests of the driver in one boot of the VM; with PATTERN, only those
# whose name holds it.  The last line is "N passed, N failed".

set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")
stage=$top/build/stage-kmod

cd "$top"
make --no-print-directory -s modules build/rivulet-sim build/tests/vm/kmod_test \
	build/tests/vm/stranger
rm -rf "$stage"
make --no-print-directory -s modules-install "DESTDIR=$stage"
install -D -m 644 daemon/udev/70-rivulet.rules "$stage/usr/lib/udev/rules.d/70-rivulet.rules"
start=$SECONDS
status=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The verdict comes last, after what the host has to say.
scripts/vm-run.sh --stage build/stage-kmod --pace real --foreign --timeout 400 check \
	tests/vm/guest-check "$@" | tee "$log" | sed -uE '/^[0-9]+ passed, [0-9]+ failed$/d' ||
	status=$?
echo "figure vm.check.time $((SECONDS - start)) s"
read -r passed _ failed _ < <(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -1 ||
	echo 0 passed, 0)
# A machine that died, or a stranger's device that was touched, is a failure of its own.
[ $status = 0 ] || [ "$failed" != 0 ] || failed=1
echo "$passed passed, $failed failed"
exit $status
