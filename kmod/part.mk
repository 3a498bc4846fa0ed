# SPDX-License-Identifier: MIT
# Kbuild writes beside its sources, so they are copied to $(BUILD)/kmod first.

KVER ?= $(shell ls /lib/modules 2>/dev/null | sort -rV | while read v; do \
	[ -d /lib/modules/$$v/build/include ] && echo $$v && break; done)
KDIR ?= /lib/modules/$(KVER)/build
KMOD_SOURCES := $(wildcard kmod/*.c kmod/*.h) kmod/Kbuild
KMOD_UAPI := uapi/rivulet_accel.h uapi/rivulet_dev.h
KMOD := $(BUILD)/kmod/rivulet.ko
# Kbuild counts its own jobs: the jobserver of this make would only make it warn.
KBUILD = env -u MAKEFLAGS -u MFLAGS $(MAKE) -C $(KDIR) M=$(abspath $(dir $(KMOD))) RVL_VERSION=$(VERSION)

$(KMOD): $(KMOD_SOURCES) $(KMOD_UAPI)
	@test -n "$(KVER)" || { echo "no kernel headers: run scripts/install-deps.sh" >&2; exit 1; }
	@mkdir -p $(@D)/uapi
	@cp -u $(KMOD_SOURCES) $(@D)/
	@cp -u $(KMOD_UAPI) $(@D)/uapi/
	@echo "  KBUILD  $@ ($(KVER))"
	@$(KBUILD) W=1 modules >$(@D)/log 2>&1 || { \
		sed -n 's/.*\(rivulet cannot be built .*\)  Stop\.$$/\1/p' $(@D)/log | grep . >&2 || cat $(@D)/log >&2; exit 1; }
	@! grep -E 'rivulet_[a-z]+\.[ch]:.*warning:' $(@D)/log || exit 1

.PHONY: modules modules-install check-sparse
modules: $(KMOD)

modules-install: $(KMOD)
	@$(MAKE) --no-print-directory install-module

# sparse must have nothing to say; the render-node build must compile too. The limit of a stack
# frame is that of 32-bit kernels.
check-sparse: $(KMOD_SOURCES) $(KMOD_UAPI)
	@for node in '' 1; do \
		rm -rf $(BUILD)/kmod-sparse && mkdir -p $(BUILD)/kmod-sparse/uapi && \
		cp $(KMOD_SOURCES) $(BUILD)/kmod-sparse/ && \
		cp $(KMOD_UAPI) $(BUILD)/kmod-sparse/uapi/ && \
		$(MAKE) -C $(KDIR) M=$(abspath $(BUILD)/kmod-sparse) RVL_VERSION=$(VERSION) \
			RVL_RENDER_NODE=$$node MAKEFLAGS= W=1 C=2 KCFLAGS=-Wframe-larger-than=1024 modules \
			>$(BUILD)/kmod-sparse.log 2>&1 || \
			{ cat $(BUILD)/kmod-sparse.log >&2; exit 1; }; \
		! grep -E 'warning:|error:' $(BUILD)/kmod-sparse.log || exit 1; \
	done

# The sources in the layout that DKMS builds from at every new kernel. Into the running system they are
# also given to it, which builds, signs and installs at once; a package's postinst does that with DESTDIR.
DKMS := $(DESTDIR)/usr/src/rivulet-$(VERSION)
.PHONY: install-dkms check-headers
install-dkms: $(KMOD_SOURCES) $(KMOD_UAPI) kmod/dkms.conf.in
	@[ -n "$(DESTDIR)" ] || command -v dkms >/dev/null || { echo "DKMS is not installed: apt install dkms" >&2; exit 1; }
	rm -rf $(DKMS)
	install -D -m 644 -t $(DKMS) $(KMOD_SOURCES)
	install -D -m 644 -t $(DKMS)/uapi $(KMOD_UAPI)
	sed 's/@VERSION@/$(VERSION)/' kmod/dkms.conf.in >$(DKMS)/dkms.conf
	@[ -n "$(DESTDIR)" ] || dkms install --force rivulet/$(VERSION)

check-headers:
	@scripts/install-deps.sh --headers
	@scripts/check-headers
