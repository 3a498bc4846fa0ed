#!/bin/bash
# SPDX-License-Identifier: MIT
#
# arm64-kernel.sh: builds the small arm64 kernel of `make check-arm64`, from Debian's
# linux-source-6.12, below build/arm64/:
#
#   linux/          the build tree: Image, and what a module is built against (KDIR)
#   dtb/*.dtb       ZCU102 and a Cyclone V board with symbols (-@), for overlays
#   key             identifies the inputs of the build
#
# The result is kept until the source package, the compiler or scripts/arm64/config change.

set -euo pipefail
export LC_ALL=C.UTF-8	# the output of tools is parsed
umask 022

here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")
out=${RIVULET_ARM64_DIR:-$top/build/arm64}
tar=/usr/src/linux-source-6.12.tar.xz
jobs=${JOBS:-$(nproc)}

die() {
	echo "arm64-kernel: $*" >&2
	exit 1
}

kmake() {
	env -u MAKEFLAGS -u MFLAGS make -C "$out/src" O="$out/linux" ARCH=arm64 \
		CROSS_COMPILE=aarch64-linux-gnu- -j "$jobs" "$@"
}

# The old tree is removed, because unpacking over it would mix files of two versions.
unpack() {
	rm -rf "$out/src" "$out/linux" "$out/dtb"
	mkdir -p "$out/src" "$out/linux" "$out/dtb"
	echo "arm64-kernel: unpacking $(basename $tar)"
	tar -C "$out/src" --strip-components=1 -xf "$tar"
}

# A requested option that is missing after Kconfig resolved the dependencies is an error.
configure() {
	local want bad=0
	kmake -s KCONFIG_ALLCONFIG="$here/arm64/config" allnoconfig
	while read -r want; do
		grep -qxF "$want" "$out/linux/.config" && continue
		echo "arm64-kernel: $want is missing from the resolved configuration" >&2
		bad=1
	done < <(grep '^CONFIG_' "$here/arm64/config")
	[ $bad = 0 ] || die "the config asks for what this source does not give"
}

# device_tree NAME ARCH FILE: compiles a board's tree from the kernel source, with symbols.
device_tree() {
	cpp -nostdinc -undef -D__DTS__ -x assembler-with-cpp -I "$out/src/include" \
		-I "$out/src/arch/$2/boot/dts" -I "$(dirname "$3")" "$3" |
		dtc -q -@ -I dts -O dtb -i "$(dirname "$3")" -o "$out/dtb/$1.dtb"
}

main() {
	local key dts

	[ -r $tar ] || die "no $tar: run scripts/install-deps.sh --arm64"
	command -v aarch64-linux-gnu-gcc >/dev/null ||
		die "no aarch64-linux-gnu-gcc: run scripts/install-deps.sh --arm64"
	key=$( (cat "$here/arm64/config"
		dpkg-query -W linux-source-6.12 gcc-aarch64-linux-gnu) | sha256sum | cut -c1-32)
	mkdir -p "$out"
	exec 9>"$out/.lock"
	flock 9
	[ "$(cat "$out/key" 2>/dev/null)" != "$key" ] || return 0
	rm -f "$out/key"
	unpack
	configure
	echo "arm64-kernel: building (once; about ten minutes on two processors)"
	kmake -s Image modules_prepare modules >"$out/kernel.log" 2>&1 ||
		{ tail -n 30 "$out/kernel.log" >&2; die "the kernel does not build: $out/kernel.log"; }
	dts=$out/src/arch/arm64/boot/dts/xilinx
	device_tree zcu102 arm64 "$dts/zynqmp-zcu102-rev1.0.dts"
	# Mainline has no tree of the DE10-Nano; this board has the same chip and the same bridges.
	dts=$out/src/arch/arm/boot/dts/intel/socfpga
	device_tree cyclone5 arm "$dts/socfpga_cyclone5_de0_nano_soc.dts"
	echo "$key" >"$out/key"
}

main "$@"
