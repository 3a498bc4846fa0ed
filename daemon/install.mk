# SPDX-License-Identifier: MIT
# make install DESTDIR=... PREFIX=/usr: installs everything that a machine needs except the
# packages. The kernel module is installed if it was built (make modules), for the kernels it was
# built for.
SYSTEMD_UNITS := $(PREFIX)/lib/systemd/system

.PHONY: install install-daemon install-tool install-boards install-peers install-man install-module
install: install-daemon install-tool install-boards install-peers install-man install-module install-libclient
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

install-tool: $(BUILD)/rivulet $(BUILD)/rivulet-sim
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/bin $^
	install -D -m 644 tool/completion/rivulet.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/rivulet

install-peers:
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/rivulet/peers $(sort $(wildcard tools/peers/*.py))
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/rivulet/zoo $(sort $(wildcard tools/zoo/*.py))
install-boards:
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/rivulet/boards $(sort $(wildcard sim/boards/*.board))

install-man:
	@for page in $(sort $(wildcard docs/man/*.[1-8])); do \
		install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man$${page##*.} $$page; \
	done

install-module:
	@set -e; if [ -f $(KMOD) ]; then \
		release=$$(modinfo -F vermagic $(KMOD) | cut -d' ' -f1); \
		install -D -m 644 -t $(DESTDIR)/usr/lib/modules/$$release/updates $(KMOD); \
		[ -n "$(DESTDIR)" ] || depmod $$release; \
	else \
		echo "rivulet.ko is not built (make modules): left out"; \
	fi
