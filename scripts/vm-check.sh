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
scripts/vm-run.sh --stage build/stage-kmod --pace real --foreign --timeout 400 check \
	tests/vm/guest-check "$@" || status=$?
echo "figure vm.check.time $((SECONDS - start)) s"
exit $status
