#!/bin/bash
# SPDX-License-Identifier: MIT
#
# install-deps.sh [--oracle] [--kernel-style] [--headers] [--arm64] [--arm64-user] [--debug-kernel]
# [--fuzz] [--search] [--browser]
#
# Installs what `make`, `make demo` and `make check` need on a Debian 12 that has only git and make.
# Returns at once where all of it is installed. --oracle adds a Python environment with onnxruntime
# in build/venv, which only the scripts that record test data use; --kernel-style adds the tools of
# `make check-kernel-style` (300 MB, mostly the kernel's source); --headers adds dkms for `make
# check-headers`; --arm64 compiler, kernel source and machine of `make check-arm64`; --arm64-user
# compiler and emulator of `make check-arm64-kernels`; --debug-kernel
# the source and tools for the kernel of `make check-debug`; --fuzz clang with libFuzzer for `make
# fuzz`; --search PyTorch, for `make bench-rrsc` alone (540 MB); --browser Chromium, for `make
# check-report` alone (400 MB).

set -euo pipefail
export LC_ALL=C.UTF-8	# the output of tools is parsed

top=$(cd "$(dirname "$0")/.." && pwd)

packages=(
	gcc g++ libc6-dev make pkg-config binutils
	# the kernel module and the VM; meta-packages, so that a newer kernel of the archive works
	# too
	linux-image-6.12-amd64 linux-headers-6.12-amd64 kmod
	qemu-system-x86 mmdebstrap fakeroot uidmap e2fsprogs busybox-static cpio xz-utils zstd
	acpica-tools
	# libraries of the daemon, the client, the compiler and the tool
	libdrm-dev libsystemd-dev libudev-dev libseccomp-dev libpng-dev zlib1g-dev
	nettle-dev libjson-c-dev
	# tests
	check libumockdev-dev umockdev sparse python3 python3-numpy systemd systemd-container locales-all tzdata
	dt-schema device-tree-compiler universal-ctags lcov
	libonnx-testdata dataset-fashion-mnist
	# the float network of the demo is fetched by pip
	python3-pip
)
kernel_style_packages=(linux-source-6.12 coccinelle ocaml-nox perl)
header_packages=(dkms)
arm64_user_packages=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)
arm64_packages=(
	linux-source-6.12 gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-system-arm
	bc bison flex libssl-dev libelf-dev
)
debug_kernel_packages=(linux-source-6.12 flex bison bc libelf-dev patch xz-utils)
fuzz_packages=(clang libclang-rt-14-dev)
search_packages=(python3-torch)
browser_packages=(chromium)
oracle_packages=(python3-venv python3-pip)

die() {
	echo "install-deps: $*" >&2
	exit 1
}

# Lists the packages of the arguments that are not installed.
missing() {
	local p
	for p in "$@"; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || echo "$p"
	done
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		sudo "$@"
	fi
}

# Prints one line: the file that could not be fetched, or else the first error of apt.
die_of_log() {
	local why
	why=$(grep -aE '^(Err:|W: Failed to fetch|E: Failed to fetch)' "$log" | tail -n 1) ||
		why=$(grep -m 1 -aE '^(E|dpkg: error)' "$log") || why=$(tail -n 1 "$log")
	mkdir -p "$top/build"
	cp "$log" "$top/build/install-deps.log"
	die "$1: $why (all of it: build/install-deps.log)"
}

# It is no error if a package source cannot be reached and the packages can be installed without it.
install_packages() {
	local want
	want=$(missing "$@")
	[ -n "$want" ] || return 0
	[ "$(id -u)" = 0 ] || command -v sudo >/dev/null ||
		die "packages are missing, and this is not root and has no sudo: as root run $top/scripts/install-deps.sh"
	echo "install-deps: installing" ${want//$'\n'/ }
	as_root apt-get -q update >"$log" 2>&1 || die_of_log "apt-get update failed"
	# shellcheck disable=SC2086 # one word per package
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends \
		$want >>"$log" 2>&1 </dev/null || die_of_log "apt-get could not install what is missing"
}

install_oracle() {
	local venv=$top/build/venv
	install_packages "${oracle_packages[@]}"
	"$venv/bin/python" -c 'import numpy, onnx, onnxruntime' 2>/dev/null && return
	mkdir -p "$top/build"
	python3 -m venv "$venv" || die "python3 -m venv failed"
	"$venv/bin/pip" -q install numpy onnx onnxruntime || die "pip could not install onnxruntime"
}

main() {
	command -v dpkg-query >/dev/null || die "this is no Debian system"
	[ "$(dpkg --print-architecture)" = amd64 ] || die "the demo's kernel and VM are amd64 only"
	case $top in
	*[[:space:]:]*) die "'$top' holds a blank or a colon, and Kbuild builds nothing below such a path: clone elsewhere" ;;
	esac
	log=$(mktemp)
	trap 'rm -f "$log"' EXIT
	install_packages "${packages[@]}"
	while [ $# -gt 0 ]; do
		case $1 in
		--oracle) install_oracle ;;
		--kernel-style) install_packages "${kernel_style_packages[@]}" ;;
		--headers) install_packages "${header_packages[@]}" ;;
		--arm64) install_packages "${arm64_packages[@]}" ;;
		--arm64-user) install_packages "${arm64_user_packages[@]}" ;;
		--debug-kernel) install_packages "${debug_kernel_packages[@]}" ;;
		--fuzz) install_packages "${fuzz_packages[@]}" ;;
		--search) install_packages "${search_packages[@]}" ;;
		--browser) install_packages "${browser_packages[@]}" ;;
		*) die "usage: install-deps.sh [--oracle] [--kernel-style] [--headers] [--arm64] [--arm64-user] [--debug-kernel] [--fuzz] [--search] [--browser]" ;;
		esac
		shift
	done
}

main "$@"
