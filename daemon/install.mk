# SPDX-License-Identifier: MIT
# make install DESTDIR=... PREFIX=/usr: everything a machine needs but the packages. The kernel module
# goes with it when it has been built (make modules), for the kernels it was built for.
SYSTEMD_UNITS := $(PREFIX)/lib/systemd/system
INSTALL_MODULES := $(wildcard $(BUILD)/kmod/rivulet.ko kmod/rivulet.ko)

.PHONY: install install-daemon install-tool install-boards install-man install-module
install: install-daemon install-tool install-boards install-man install-module install-libclient
	@[ -n "$(DESTDIR)" ] || echo "Next, as root: systemd-sysusers && udevadm control --reload &&" \
		"systemctl daemon-reload && systemctl enable --now rivuletd.socket && ldconfig"

$(BUILD)/units/%: daemon/systemd/%.in
	@mkdir -p $(@D)
	@sed -e 's|@PREFIX@|$(PREFIX)|g' $< >$@

INSTALL_UNITS := $(BUILD)/units/rivuletd.service $(BUILD)/units/rivuletd.socket

install-daemon: $(BUILD)/rivuletd $(INSTALL_UNITS)
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/sbin $(BUILD)/rivuletd
	install -D -m 644 -t $(DESTDIR)$(SYSTEMD_UNITS) $(INSTALL_UNITS)
	install -D -m 644 daemon/systemd/rivulet.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/rivulet.conf
	install -D -m 644 daemon/systemd/rivulet.tmpfiles $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/rivulet.conf
	install -D -m 644 daemon/systemd/rivulet.preset $(DESTDIR)$(PREFIX)/lib/systemd/system-preset/60-rivulet.preset
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/systemd/catalog daemon/systemd/rivulet.catalog
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/udev/rules.d daemon/udev/70-rivulet.rules
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/rivuletd daemon/conf/rivuletd.conf
	install -d -m 755 $(DESTDIR)/etc/rivuletd/rivuletd.conf.d

# sim: the model for QEMU; rivulet: the command. Either is skipped with a word where it is not built.
install-tool:
	@for p in rivulet rivulet-sim; do \
		if [ -x $(BUILD)/$$p ]; then \
			echo "install -D -m 755 -t $(DESTDIR)$(PREFIX)/bin $(BUILD)/$$p"; \
			install -D -m 755 -t $(DESTDIR)$(PREFIX)/bin $(BUILD)/$$p; \
		else \
			echo "$$p is not built: left out"; \
		fi; \
	done
	@if [ -f tool/completion/rivulet.bash ]; then \
		install -D -m 644 tool/completion/rivulet.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/rivulet; \
	fi

install-boards:
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/rivulet/boards $(sort $(wildcard sim/boards/*.board))

install-man:
	@for page in $(sort $(wildcard docs/man/*.[1-8])); do \
		install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man$${page##*.} $$page; \
	done

install-module:
	@for ko in $(firstword $(INSTALL_MODULES)); do \
		release=$$(modinfo -F vermagic $$ko | cut -d' ' -f1); \
		install -D -m 644 -t $(DESTDIR)/usr/lib/modules/$$release/updates $$ko; \
		[ -n "$(DESTDIR)" ] || depmod $$release; \
	done
	@[ -n "$(INSTALL_MODULES)" ] || echo "rivulet.ko is not built (make modules): left out"
