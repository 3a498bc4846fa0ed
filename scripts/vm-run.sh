#!/bin/bash
# SPDX-License-Identifier: MIT
#
# vm-run.sh [OPTION]... check|debug|demo SCRIPT [ARG]...
#
# Boots Debian's kernel under QEMU (TCG, two processors) with the model of the NPU, and runs SCRIPT
# (a path below the repository) as root in it, with the repository read-only at /host. Prints the
# script's output and exits with its status.
#
#   check   with the kernel's checkers; a warning panics
#   debug   on the kernel of scripts/debug-kernel.sh; the kernel's reports are counted at the end
#   demo    without the kernel's checkers
#
#   --board NAME     board profile, a name or a path (default zu3eg-64)
#   --beside NAME    adds a second NPU of this board, which the guest finds behind the first one
#   --stage DIR      installed into the guest before systemd starts (default build/stage)
#   --pace real|fast jobs take the device's time, or end at once (default real)
#   --battery SPEC   an ACPI battery that the NPU drains: mwh=N[,factor=X][,charge=PERCENT]; the
#                    guest loads the module battery to see it
#   --no-npu         no model
#   --foreign        adds two ivshmem devices that are no NPU: a plain one and one of another server
#   --memory MIB     memory of the guest (default 1024, with debug 2048); from 2816 on, what exceeds
#                    2048 lies above 4 GiB
#   --slow F         multiplies --timeout and the timeouts of the tests by F
#   --timeout S      give up after S seconds (default 300)
#
# 124 = timed out, 125 = the machine could not be started or died without a status.
# ARGs must not contain blanks or commas, because they are passed on the kernel command line.

set -euo pipefail
export LC_ALL=C.UTF-8	# the output of tools is parsed

here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")
vm=${RIVULET_VM_DIR:-$top/build/vm}
sim=${RIVULET_SIM:-$top/build/rivulet-sim}
board=zu3eg-64
beside=
stage=build/stage
pace=real
npu=1
foreign=0
battery=
limit=300
slow=1
memory=
# QEMU loads the initrd to the end of memory and the kernel to its start. battery.asl has the same
# address.
battery_page=0x20000000
sim_pid='' beside_pid='' foreign_pid='' qemu_pid='' status=125

die() {
	echo "vm-run: $*" >&2
	exit 125
}

usage() {
	sed -n '4,28s/^# \{0,1\}//p' "$0" >&2
	exit 125
}

parse() {
	while [ $# -gt 0 ]; do
		case $1 in
		--board) board=$2; shift ;;
		--beside) beside=$2; shift ;;
		--stage) stage=${2#"$top"/}; shift ;;
		--pace) pace=$2; shift ;;
		--timeout) limit=$2; shift ;;
		--battery) battery=$2; shift ;;
		--memory) memory=$2; shift ;;
		--slow) slow=$2; shift ;;
		--no-npu) npu=0 ;;
		--foreign) foreign=1 ;;
		-*) usage ;;
		*) break ;;
		esac
		shift
	done
	[ $# -ge 2 ] || usage
	mode=$1
	script=${2#"$top"/}
	shift 2
	case $* in *,*) die "an ARG must not contain a comma: $*" ;; esac
	args=$(IFS=,; echo "$*")
	[ -r "$top/$script" ] || die "no script $script below $top"
	case $mode in
	check) extra='kfence.sample_interval=10 slub_debug=FZPU panic_on_warn=1' ;;
	debug)
		extra='kasan_multi_shot hung_task_panic=0'
		debug_kernel
		;;
	demo) extra= ;;
	*) usage ;;
	esac
	memory=${memory:-1024}
	limit=$((limit * slow))
}

# KASAN's shadow memory, lockdep and kmemleak need additional memory.
debug_kernel() {
	memory=${memory:-2048}
	vm=${RIVULET_VM_DIR:-$top/build/vm-debug}
	export RIVULET_VM_DIR=$vm RIVULET_VM_KERNEL=$top/build/debug-kernel/root
}

# A pid can be reused once it was waited for, so it is removed from the list there.
stop() {
	[ -n "$1" ] || return 0
	kill "$1" 2>/dev/null || true
	wait "$1" 2>/dev/null || true
}

cleanup() {
	stop "$qemu_pid"
	stop "$sim_pid"
	stop "$beside_pid"
	stop "$foreign_pid"
	rm -rf "$dir"
}

# wait_for SOCKET PID NAME
wait_for() {
	local n
	for n in $(seq 1 200); do
		[ -S "$1" ] && return
		kill -0 "$2" 2>/dev/null || break
		sleep 0.05
	done
	cat "$dir"/*.log >&2
	die "$3 did not open $1"
}

start_model() {
	[ -x "$sim" ] || die "no $sim: build it first (make)"
	"$sim" --board "$board" --socket "$dir/npu.sock" --mem "$dir/ram" --pace "$pace" \
		--control "$dir/control.sock" \
		${battery:+--battery "$battery,at=$battery_page"} >"$dir/sim.log" 2>&1 &
	sim_pid=$!
	wait_for "$dir/npu.sock" "$sim_pid" rivulet-sim
	devices+=(-device pcie-root-port,id=rp0,chassis=1
		-chardev socket,id=npu,path=npu.sock
		-device ivshmem-doorbell,id=npu0,bus=rp0,chardev=npu,vectors=1
		-chardev "socket,id=control,path=$dir/control.sock"
		-device virtserialport,chardev=control,name=rivulet.control
		-chardev "socket,id=monitor,path=$dir/monitor.sock,server=on,wait=off"
		-mon chardev=monitor,mode=readline
		-chardev "socket,id=monport,path=$dir/monitor.sock"
		-device virtserialport,chardev=monport,name=rivulet.monitor)
}

# The second NPU shares the guest's memory with the first one, and has no control port.
start_beside() {
	"$sim" --board "$beside" --socket "$dir/beside.sock" --mem "$dir/ram" --pace "$pace" \
		>"$dir/beside.log" 2>&1 &
	beside_pid=$!
	wait_for "$dir/beside.sock" "$beside_pid" rivulet-sim
	devices+=(-device pcie-root-port,id=rp1,chassis=2
		-chardev socket,id=beside,path=beside.sock
		-device ivshmem-doorbell,id=npu-beside,bus=rp1,chardev=beside,vectors=1)
}

# Reserves a page of guest memory and makes the ACPI table of the battery whose state is in it.
start_battery() {
	command -v iasl >/dev/null || die "iasl is missing: run scripts/install-deps.sh"
	iasl -p "$dir/battery" "$here/vm-files/battery.asl" >"$dir/iasl.log" ||
		{ cat "$dir/iasl.log" >&2; die "battery.asl does not compile"; }
	devices+=(-acpitable "file=$dir/battery.aml")
	# The kernel must not cache readings for a second, because the battery drains in compressed
	# time.
	extra+=" memmap=4K\$$battery_page battery.cache_time=0 modprobe.blacklist=battery"
}

# Foreign devices with the PCI id of the NPU: ivshmem-plain, and ivshmem-doorbell of another server.
start_foreign() {
	"$top/build/tests/vm/foreign" "$dir/foreign.sock" "$dir/plain" >"$dir/foreign.log" 2>&1 &
	foreign_pid=$!
	wait_for "$dir/foreign.sock" "$foreign_pid" foreign
	devices+=(-object "memory-backend-file,id=plain,size=1M,mem-path=$dir/plain,share=on"
		-device ivshmem-plain,memdev=plain
		-chardev "socket,id=other,path=$dir/foreign.sock"
		-device ivshmem-doorbell,chardev=other,vectors=1)
}

# The file of the guest's memory, which the model maps too, should be in a tmpfs. Its blocks are
# allocated when they are written: without room for them, QEMU is killed by SIGBUS.
make_dir() {
	local base=/dev/shm lack
	if ! lack=$("$here/space" $((memory + 64)) $base); then
		base=${TMPDIR:-/tmp}
		lack+="; "$("$here/space" $((memory + 64)) "$base") || die "no room for the guest's memory: $lack"
	fi
	dir=$(mktemp -d "$base/rivulet-vm.XXXXXX")
	trap cleanup EXIT
	trap 'exit 125' INT TERM
	truncate -s ${memory}M "$dir/ram"
}

# The kernel measures the frequency of the time-stamp counter against emulated timers. On a loaded
# machine the result can be wrong by a factor, and with it all of the guest's timeouts. So it is
# measured here, if the program for it was built.
clock_option() {
	local khz=
	[ ! -x "$top/build/tests/vm/tsc_khz" ] || khz=$("$top/build/tests/vm/tsc_khz")
	echo "${khz:+tsc_early_khz=$khz}"
}

# The second processor is started by the initrd's init. While the kernel patches its own code, as it does
# during boot, QEMU before 8.1 may translate an instruction that another processor replaces and keep the
# translation: the processor that executes the stale breakpoint dies ("Oops: int3").
start_machine() {
	# The input never ends, because QEMU closes the guest's port at its end.
	mkfifo "$dir/input"
	exec 3<>"$dir/input"
	# QEMU runs in the directory, because a test that plugs the NPU in again names the socket
	# without a path.
	cd "$dir"
	qemu-system-x86_64 -M q35,memory-backend=ram -accel tcg,thread=multi -cpu max -smp 2 \
		-m $memory -object "memory-backend-file,id=ram,size=${memory}M,mem-path=$dir/ram,share=on" \
		-nodefaults -no-reboot -display none -monitor none \
		-kernel "$vm/vmlinux" -initrd "$vm/initrd" \
		-drive "file=$vm/root.ext4,if=none,id=root,format=raw,snapshot=on" \
		-device virtio-blk-pci,drive=root -device virtio-rng-pci \
		-virtfs "local,path=$top,mount_tag=host,security_model=none,readonly=on,multidevs=remap" \
		-serial "file:$dir/console.log" -device virtio-serial-pci \
		-chardev stdio,id=out,signal=off -device virtserialport,chardev=out,name=rivulet.out \
		-chardev "file,id=status,path=$dir/status" \
		-device virtserialport,chardev=status,name=rivulet.status \
		"${devices[@]}" \
		-append "console=ttyS0 quiet loglevel=4 panic=-1 oops=panic mitigations=off nokaslr \
maxcpus=1 tsc=reliable $(clock_option) no_timer_check random.trust_cpu=on ${RIVULET_VM_APPEND:-systemd.show_status=false} $extra \
rvvm.stage=$stage rvvm.mode=$mode rvvm.slow=$slow rvvm.script=$script${args:+ rvvm.args=$args}" \
		<&3 2>"$dir/qemu.log" &
	qemu_pid=$!
	cd "$top"
}

wait_machine() {
	local end=$((SECONDS + limit))
	while kill -0 "$qemu_pid" 2>/dev/null; do
		if [ $SECONDS -ge $end ]; then
			echo "vm-run: timed out after $limit s" >&2
			status=124
			return
		fi
		sleep 0.2
	done
	wait "$qemu_pid" || true
	qemu_pid=
	status=$(tr -cd 0-9 <"$dir/status" 2>/dev/null) || true
	status=${status:-125}
}

# Fails if the guest touched the foreign devices.
stop_foreign() {
	local verdict=0
	[ -n "$foreign_pid" ] || return 0
	kill "$foreign_pid"
	wait "$foreign_pid" || verdict=$?
	foreign_pid=
	cat "$dir/foreign.log"
	[ $verdict = 0 ] || status=1
}

report_failure() {
	local log
	for log in console qemu sim beside foreign; do
		[ -s "$dir/$log.log" ] || continue
		echo "--- $log (last lines)" >&2
		tail -n 200 "$dir/$log.log" | tr -d '\r' >&2
	done
}

main() {
	parse "$@"
	command -v qemu-system-x86_64 >/dev/null || die "qemu-system-x86 is missing: run scripts/install-deps.sh"
	"$here/vm-rootfs.sh" >&2
	make_dir
	devices=()
	[ $foreign = 0 ] || start_foreign
	[ -z "$battery" ] || start_battery
	[ $npu = 0 ] || start_model
	[ -z "$beside" ] || start_beside
	start_machine
	wait_machine
	stop_foreign
	mkdir -p "$vm"
	cat "$dir/console.log" >"$vm/console.log" 2>/dev/null || true
	[ -z "$sim_pid" ] || cp "$dir/sim.log" "$vm/sim.log"
	[ "$status" = 0 ] || report_failure
	exit "$status"
}

main "$@"
