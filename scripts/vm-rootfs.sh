#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Builds the virtual machine that tests and demo boot, below build/vm/:
#
#   vmlinux      the installed Debian kernel, unpacked so that QEMU enters it by PVH at once
#   initrd       busybox, a few modules and an init that mounts the root and installs build/stage
#   root.ext4    a Debian root made by mmdebstrap, with only the kernel modules that we need
#
# RIVULET_VM_KERNEL=DIR takes DIR/vmlinux and DIR/lib/modules instead of an installed kernel, and
# RIVULET_VM_DIR=DIR puts the result elsewhere.
#
# The result is kept until this script, the files in scripts/vm-files/, the package list, the
# Debian release or the kernel version change.  Neither root nor loop devices are needed.

set -euo pipefail
export LC_ALL=C.UTF-8	# the output of tools is parsed
umask 022

here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")
out=${RIVULET_VM_DIR:-$top/build/vm}
given=${RIVULET_VM_KERNEL:-}	# as if it were /
tar=$top/build/vm/root.tar	# the same for every kernel
suite=bookworm

packages=(systemd-sysv udev kmod libudev1 libdrm2 libpng16-16 libsystemd0 libseccomp2
	libnettle8 libjson-c5)

# Modules that udev and the tests load. Their dependencies are added.
modules=(virtio_blk ext4 9p 9pnet_virtio virtio-rng gpu-sched drm_shmem_helper drm_exec libcrc32c
	governor_simpleondemand battery ac uhid vgem)
# Modules that the initrd inserts before it mounts the root.
early=(virtio_blk ext4 9p 9pnet_virtio)

die() {
	echo "vm-rootfs: $*" >&2
	exit 1
}

# Finds the newest suitable installed kernel. The cloud flavour lacks DRM and devfreq.
find_kernel() {
	local v
	if [ -n "$given" ]; then
		ls "$given/lib/modules"
		return
	fi
	for v in $(find /lib/modules -mindepth 1 -maxdepth 1 -printf "%f\n" | sort -rV); do
		[ -e "/boot/vmlinuz-$v" ] && [ -e "/lib/modules/$v/modules.dep" ] &&
			grep -q '/gpu-sched\.ko' "/lib/modules/$v/modules.dep" &&
			echo "$v" && return
	done
	die "no kernel with DRM in /boot: install linux-image-6.12-amd64 (scripts/install-deps.sh)"
}

# u32_at FILE OFFSET: prints a little-endian word of the boot header.
u32_at() {
	od -An -tu4 -j "$2" -N 4 "$1" | tr -d ' '
}

# A bzImage is setup sectors, then a boot stub whose header says where the packed ELF file lies
# (Documentation/arch/x86/boot.rst, payload_offset and payload_length).
unpack_kernel() {
	local image=$1 elf=$2 sectors start length magic
	[ "$(od -An -tx4 -j 514 -N 4 "$image" | tr -d ' ')" = 53726448 ] ||
		die "$image is no bzImage"
	sectors=$(od -An -tu1 -j 497 -N 1 "$image" | tr -d ' ')
	start=$(((sectors + 1) * 512 + $(u32_at "$image" 584)))
	length=$(u32_at "$image" 588)
	magic=$(od -An -tx1 -j "$start" -N 4 "$image" | tr -d ' ')
	# The last four bytes of the payload are the unpacked size, not data.
	tail -c +$((start + 1)) "$image" | head -c $((length - 4)) >"$elf.packed" || true
	case $magic in
	28b52ffd) zstd -q -dc "$elf.packed" >"$elf" ;;
	fd377a58) xz -dc --single-stream "$elf.packed" >"$elf" ;;
	1f8b*) gzip -dc "$elf.packed" >"$elf" ;;
	*) die "$image: unknown compression $magic" ;;
	esac
	rm -f "$elf.packed"
	[ "$(head -c 4 "$elf" | tail -c 3)" = ELF ] || die "$image holds no ELF kernel"
}

# with_deps MODULE...: prints paths below /lib/modules/VERSION in the order of insertion, each once.
with_deps() {
	local m
	for m in "$@"; do
		modprobe ${given:+-d "$given"} -S "$kernel" --show-depends "$m" 2>/dev/null |
			awk '$1 == "insmod" { print $2 }' || die "no module $m for $kernel"
	done | awk '!seen[$0]++'
}

# Modules are stored unpacked, because xz is slow under emulation.
unpack_module() {
	case $1 in
	*.ko.xz) xz -dc "$1" >"$2" ;;
	*.ko.zst) zstd -q -dc "$1" >"$2" ;;
	*) cp "$1" "$2" ;;
	esac
}

build_modules() {
	local root=$1/lib/modules/$kernel path rel
	for path in $(with_deps "${modules[@]}"); do
		rel=${path#*/lib/modules/"$kernel"/}
		rel=${rel%.xz}
		mkdir -p "$root/$(dirname "$rel")"
		unpack_module "$path" "$root/${rel%.zst}"
	done
	cp "$given/lib/modules/$kernel"/modules.{builtin,builtin.modinfo,order} "$root/"
	/sbin/depmod -b "$1" "$kernel"
}

build_initrd() {
	local dir=$tmp/initrd path name
	mkdir -p "$dir"/{bin,dev,host,lib,proc,root,sys}
	cp "$(command -v busybox)" "$dir/bin/busybox"
	: >"$dir/lib/order"
	for path in $(with_deps "${early[@]}"); do
		name=$(basename "$path" .xz)
		name=${name%.zst}
		unpack_module "$path" "$dir/lib/$name"
		echo "$name" >>"$dir/lib/order"
	done
	install -m 755 "$here/vm-files/init" "$dir/init"
	(cd "$dir" && find . -print0 | cpio -0 -o -H newc --quiet -R 0:0) >"$tmp/initrd.cpio"
}

# The packages are kept as a tar of their own, so that a changed script does not fetch them again.
build_tar() {
	local list key
	list=$(IFS=,; echo "${packages[*]}")
	key="$suite $list"
	mkdir -p "$(dirname "$tar")"
	exec 8>"$tar.lock"
	flock 8
	[ "$(cat "$tar.key" 2>/dev/null)" != "$key" ] || return 0
	echo "vm-rootfs: unpacking a $suite root (once; kept in $(dirname "$tar"))"
	mmdebstrap --quiet --variant=minbase --include="$list" \
		--dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		"$suite" "$tmp/root.tar" || die "mmdebstrap failed: see above"
	mv "$tmp/root.tar" "$tar"
	echo "$key" >"$tar.key"
}

build_root() {
	local dir=$tmp/root
	build_tar
	mkdir "$dir"
	build_modules "$tmp/mod"
	# fakeroot keeps the tar's owners and device nodes in the image although the user is not root.
	# Arguments instead of exported variables, because fakeroot is a shell script with variables of its own.
	fakeroot bash -euo pipefail -c '
		root=$1 tmp=$2 kernel=$3 files=$4 tar=$5
		tar -C "$root" --exclude="./dev/*" -xf "$tar"
		mkdir -p "$root/usr/lib/modules" "$root/host"
		cp -r "$tmp/mod/lib/modules/$kernel" "$root/usr/lib/modules/"
		# Only root could copy files of mode 0.
		find "$root" -type f ! -perm -u=r -exec chmod u+r {} +
		"$files/customise" "$root"
		rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/*
		mke2fs -q -t ext4 -L rivulet -O ^has_journal,^metadata_csum -E lazy_itable_init=1 \
			-d "$root" "$tmp/root.ext4" 1G >/dev/null' - "$dir" "$tmp" "$kernel" "$here/vm-files" "$tar"
}

main() {
	local key

	for t in mmdebstrap fakeroot mke2fs busybox cpio xz zstd modprobe; do
		PATH=$PATH:/sbin:/usr/sbin command -v $t >/dev/null ||
			die "$t is missing: run scripts/install-deps.sh"
	done
	PATH=$PATH:/sbin:/usr/sbin
	kernel=$(find_kernel)
	image=${given:+$given/vmlinux}
	image=${image:-/boot/vmlinuz-$kernel}
	key=$( (cat "$0" "$here"/vm-files/*; echo "$suite $kernel"
		sha256sum "$image") | sha256sum | cut -c1-32)
	mkdir -p "$out"
	exec 9>"$out/.lock"
	flock 9
	[ "$(cat "$out/key" 2>/dev/null)" != "$key" ] || return 0
	rm -f "$out/key"
	tmp=$(mktemp -d "$out/tmp.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	build_root
	build_initrd
	if [ -n "$given" ]; then
		cp "$image" "$tmp/vmlinux"
	else
		unpack_kernel "$image" "$tmp/vmlinux"
	fi
	mv "$tmp/root.ext4" "$out/root.ext4"
	mv "$tmp/initrd.cpio" "$out/initrd"
	mv "$tmp/vmlinux" "$out/vmlinux"
	echo "$kernel" >"$out/kernel"
	echo "$key" >"$out/key"
}

main "$@"
