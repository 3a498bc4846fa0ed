#!/bin/bash
# SPDX-License-Identifier: MIT
#
# debug-kernel.sh: builds, below build/debug-kernel, the kernel of `make check-debug`: Debian's 6.12 sources
# with tests/vm/debug.config and tests/vm/debug.patch.
#
#   root/vmlinux, root/lib/modules/VERSION   what the VM boots (RIVULET_VM_KERNEL of vm-rootfs.sh)
#   obj                                      what a module is built against (KDIR of make modules)
#
# The result is kept until the source package or one of these files changes. The last line of output is the version.

set -euo pipefail
export LC_ALL=C.UTF-8	# the output of tools is parsed

top=$(cd "$(dirname "$0")/.." && pwd)
out=$top/build/debug-kernel
config=$top/tests/vm/debug.config
patch=$top/tests/vm/debug.patch
tar=/usr/src/linux-source-6.12.tar.xz

die() {
	echo "debug-kernel: $*" >&2
	exit 1
}

# Kconfig silently drops options that it does not know or whose dependencies are not met.
check_config() {
	local line name
	while read -r line; do
		case $line in
		CONFIG_*) grep -qxF "$line" "$out/obj/.config" || die "the kernel's Kconfig does not take $line" ;;
		'# CONFIG_'*) name=${line#\# } name=${name%% *}
			! grep -q "^$name=" "$out/obj/.config" || die "something selects $name" ;;
		esac
	done <"$config"
}

build() {
	local make=(env -u MAKEFLAGS -u MFLAGS make -C "$out/src" "O=$out/obj" ARCH=x86_64)
	rm -rf "$out/src" "$out/obj" "$out/root"
	mkdir -p "$out/src" "$out/obj"
	tar -C "$out/src" --strip-components=1 -xf "$tar"
	patch -d "$out/src" -p1 <"$patch"
	"${make[@]}" KCONFIG_ALLCONFIG="$config" allnoconfig
	check_config
	"${make[@]}" -j"$(nproc)" vmlinux modules
	"${make[@]}" INSTALL_MOD_PATH="$out/root" modules_install
	cp "$out/obj/vmlinux" "$out/root/vmlinux"
	# Building a module needs only headers and scripts; the rest takes 2 GB.
	find "$out/obj" \( -name '*.o' -o -name '*.a' -o -name '.*.cmd' \) -not -path '*/scripts/*' -not -path '*/tools/*' -delete
}

main() {
	local key
	[ -r "$tar" ] || die "no $tar: run scripts/install-deps.sh --debug-kernel"
	mkdir -p "$out"
	exec 9>"$out/.lock"
	flock 9
	key=$(cat "$0" "$config" "$patch" <(dpkg-query -W linux-source-6.12 gcc) | sha256sum | cut -c1-32)
	if [ "$(cat "$out/key" 2>/dev/null)" != "$key" ]; then
		rm -f "$out/key"
		echo "debug-kernel: building (once, some 20 minutes; log in build/debug-kernel/log)" >&2
		"$0" --build >"$out/log" 2>&1 || { tail -n 30 "$out/log" >&2; die "the kernel does not build"; }
		echo "$key" >"$out/key"
	fi
	cat "$out/obj/include/config/kernel.release"
}

# main starts this script again with --build, because bash ignores -e in a function called in a condition.
if [ "${1:-}" = --build ]; then
	build
else
	main
fi
