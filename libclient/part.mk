# SPDX-License-Identifier: MIT
# librivulet: the shared library for everybody, the static one for daemon, tool and tests.
LIBCLIENT_SOURCES := $(wildcard libclient/*.c)
LIBRIVULET := $(BUILD)/librivulet.so.1.0.0
$(eval $(call static_lib,client,$(LIBCLIENT_SOURCES)))

# Symbols that uapi/ does not export stay inside the library: the map lists the whole interface.
$(LIBRIVULET): $(BUILD)/libclient.a $(BUILD)/libuapi.a libclient/librivulet.map
	@echo "  LD      $@"
	@$(CC) $(LDFLAGS_ALL) -shared -Wl,-soname,librivulet.so.1 -Wl,--version-script=libclient/librivulet.map \
		-Wl,-z,defs -Wl,-z,relro,-z,now -o $@ -Wl,--whole-archive $(BUILD)/libclient.a \
		-Wl,--no-whole-archive $(BUILD)/libuapi.a $(shell pkg-config --libs libdrm) -lm
	@ln -sf librivulet.so.1.0.0 $(BUILD)/librivulet.so.1
	@ln -sf librivulet.so.1 $(BUILD)/librivulet.so

$(BUILD)/librivulet.pc: libclient/librivulet.pc.in
	@sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' $< >$@

PROGRAMS += $(LIBRIVULET) $(BUILD)/librivulet.pc

.PHONY: install-libclient check-abi check-examples
check-examples: $(LIBRIVULET) $(BUILD)/rivuletd $(BUILD)/librivulet.pc
	@BUILD=$(BUILD) scripts/check-examples
check-abi: $(LIBRIVULET)
	@BUILD=$(BUILD) scripts/check-abi
install-libclient: $(LIBRIVULET) $(BUILD)/librivulet.pc
	install -D -m 755 $(LIBRIVULET) $(DESTDIR)$(LIBDIR)/librivulet.so.1.0.0
	ln -sf librivulet.so.1.0.0 $(DESTDIR)$(LIBDIR)/librivulet.so.1
	ln -sf librivulet.so.1 $(DESTDIR)$(LIBDIR)/librivulet.so
	install -D -m 644 -t $(DESTDIR)$(LIBDIR)/pkgconfig $(BUILD)/librivulet.pc
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/include/rivulet libclient/rivulet.h libclient/rivulet.hpp uapi/rivulet_accel.h \
		uapi/rivulet_types.h

# The tables of docs/uapi.md come from the header.
.PHONY: docs-uapi check-docs-uapi
docs: docs-uapi
docs-uapi:
	@awk -f libclient/gen/uapi.awk uapi/rivulet_accel.h docs/uapi.md >$(BUILD)/uapi.md
	@cmp -s $(BUILD)/uapi.md docs/uapi.md || cp $(BUILD)/uapi.md docs/uapi.md
check-docs: check-docs-uapi
check-docs-uapi:
	@awk -f libclient/gen/uapi.awk uapi/rivulet_accel.h docs/uapi.md | diff -u docs/uapi.md - || \
		{ echo "docs/uapi.md: tables differ from uapi/rivulet_accel.h: make docs" >&2; exit 1; }
