// SPDX-License-Identifier: MIT
/*
 * A device that contradicts its specification: probe refuses it and undoes what it did, and accepts
 * the device once it is correct.
 */
#include "../kmod/harness/harness.h"
#include "vm.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define LEVEL(n, field)                                                                            \
	(RIVULET_REG_LEVEL_TABLE + (n) * sizeof(struct rivulet_level) +                            \
	 offsetof(struct rivulet_level, field))

/* The errno of binding the device while a register has another value. */
static int bind_with(const char *device, uint32_t reg, uint32_t value)
{
	int fd = open("/sys/bus/pci/drivers/rivulet/bind", O_WRONLY | O_CLOEXEC), error = 0;
	volatile uint32_t *at = vm_window(device) + reg / 4;
	uint32_t truth = *at;

	OK(fd >= 0 && truth != value);
	*at = value;
	if (write(fd, device, strlen(device)) < 0)
		error = errno;
	close(fd);
	if (!error)
		vm_driver_file("unbind", device);
	vm_window(device)[reg / 4] = truth;
	return error;
}

/* Each register with a value that the device must not have, and the errno of probe for it. */
static void lies(void)
{
	static const struct {
		uint32_t reg, value;
		int error;
	} lie[] = {
		{ RIVULET_REG_MAGIC, ~RIVULET_MAGIC, ENODEV },
		{ RIVULET_REG_MAGIC, ~0u, ENODEV },
		{ RIVULET_REG_VERSION, RIVULET_DEV_VERSION + (1u << 16), ENODEV },
		{ RIVULET_REG_WINDOW_SIZE, 2 * RIVULET_WINDOW_SIZE, ENODEV },
		{ RIVULET_REG_ID_CRC, 0, ENODEV },
		{ RIVULET_REG_LEVEL_COUNT, 0, EPROTO },
		{ RIVULET_REG_LEVEL_COUNT, RIVULET_LEVELS + 1, EPROTO },
		{ RIVULET_REG_LEVEL_COUNT, 0x80000001u, EPROTO },
		{ RIVULET_REG_LEVEL_COUNT, ~0u, EPROTO },
		{ LEVEL(0, hz_lo), 0, EPROTO },
		{ LEVEL(0, hz_hi), ~0u, EPROTO },
		{ LEVEL(1, hz_lo), 1, EPROTO },
		{ RIVULET_REG_DMA_BITS, 0, EPROTO },
		{ RIVULET_REG_DMA_BITS, 31, EPROTO },
		{ RIVULET_REG_DMA_BITS, 65, EPROTO },
	};
	struct vm_client c;
	char device[64];
	int bad = 0;

	if (!vm_on_pci())
		vm_skip("PCI only");
	vm_device_name(device);
	vm_driver_file("unbind", device);
	for (size_t i = 0; i < sizeof(lie) / sizeof(lie[0]); i++) {
		int error = bind_with(device, lie[i].reg, lie[i].value);

		if (error != lie[i].error)
			printf("# register 0x%x = 0x%x: %s\n", lie[i].reg, lie[i].value,
			       strerror(error));
		bad += error != lie[i].error || vm_node();
	}
	vm_driver_file("bind", device);
	c = vm_client();
	vm_client_submit(&c, 1);
	vm_client_good(&c);
	EQ(bad, 0);
}

/* A name that fills its field is cut, and does not run on into what follows. */
static void long_name(void)
{
	struct drm_rivulet_device info;
	volatile uint32_t *name;
	uint32_t truth[8];
	char device[64];

	if (!vm_on_pci())
		vm_skip("PCI only");
	vm_device_name(device);
	vm_driver_file("unbind", device);
	name = vm_window(device) + RIVULET_REG_NAME / 4;
	for (int i = 0; i < 8; i++) {
		truth[i] = name[i];
		name[i] = 0x78787878;
	}
	vm_driver_file("bind", device);
	vm_info(vm_open(), &info);
	vm_driver_file("unbind", device);
	name = vm_window(device) + RIVULET_REG_NAME / 4;
	for (int i = 0; i < 8; i++)
		name[i] = truth[i];
	vm_driver_file("bind", device);
	EQ(strnlen(info.name, sizeof(info.name)), sizeof(info.name) - 1);
	EQ(info.name[30], 'x');
}

/* Bits of the DMA mask that the kernel holds for a PCI device. */
static unsigned int mask_bits(const char *device)
{
	char path[128];
	unsigned int bits = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/dma_mask_bits", device);
	f = fopen(path, "re");
	OK(f);
	EQ(fscanf(f, "%u", &bits), 1);
	fclose(f);
	return bits;
}

/* Each width that the device may report becomes the kernel's DMA mask, and jobs run with it. */
static void dma_width(void)
{
	static const uint32_t widths[] = { 32, 33, 40, 64 };
	volatile uint32_t *reg;
	struct vm_client c;
	char device[64];
	uint32_t truth;

	if (!vm_on_pci())
		vm_skip("PCI only");
	vm_device_name(device);
	vm_driver_file("unbind", device);
	reg = vm_window(device) + RIVULET_REG_DMA_BITS / 4;
	truth = *reg;
	for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
		vm_window(device)[RIVULET_REG_DMA_BITS / 4] = widths[i];
		vm_driver_file("bind", device);
		EQ(mask_bits(device), widths[i]);
		c = vm_client();
		vm_client_submit(&c, 1);
		vm_client_good(&c);
		close(c.fd);
		vm_driver_file("unbind", device);
	}
	vm_window(device)[RIVULET_REG_DMA_BITS / 4] = truth;
	vm_driver_file("bind", device);
	EQ(mask_bits(device), truth);
}

/* The errno of binding the driver to a PCI device, or 0. */
static int bind_error(const char *device)
{
	int fd = open("/sys/bus/pci/drivers/rivulet/bind", O_WRONLY | O_CLOEXEC), error = 0;

	OK(fd >= 0);
	if (write(fd, device, strlen(device)) < 0)
		error = errno;
	close(fd);
	return error;
}

/* Bits of the PCI command register. */
enum { DECODES = 2, MASTERS = 4 };

/* The file of a PCI device's configuration space, and where the command register is in it. */
static int config_space(const char *device)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/config", device);
	fd = open(path, O_RDWR | O_CLOEXEC);
	OK(fd >= 0);
	return fd;
}
#define COMMAND	4

static uint16_t command_of(const char *device)
{
	int fd = config_space(device);
	uint16_t command = 0;

	EQ(pread(fd, &command, sizeof(command), COMMAND), sizeof(command));
	close(fd);
	return command;
}

static void set_command(const char *device, uint16_t command)
{
	int fd = config_space(device);

	EQ(pwrite(fd, &command, sizeof(command), COMMAND), sizeof(command));
	close(fd);
}

static bool is_master(const char *device)
{
	return command_of(device) & MASTERS;
}

/*
 * A device whose memory is not decoded, as after a boot without firmware. The driver enables
 * decoding to compare the magic. A device that is no NPU gets its command register back; an NPU is
 * bound.
 */
static void undecoded(void)
{
	volatile uint32_t *magic;
	struct vm_client c;
	char device[64];
	uint16_t command;

	if (!vm_on_pci())
		vm_skip("PCI only");
	vm_device_name(device);
	vm_driver_file("unbind", device);
	magic = vm_window(device) + RIVULET_REG_MAGIC / 4;
	command = command_of(device);
	OK(command & DECODES);
	*magic = ~RIVULET_MAGIC;
	set_command(device, command & ~DECODES);
	EQ(bind_error(device), ENODEV);
	EQ(command_of(device), command & ~DECODES);
	set_command(device, command);
	*magic = RIVULET_MAGIC;
	set_command(device, command & ~DECODES);
	vm_driver_file("bind", device);
	vm_await_node(true);
	c = vm_client();
	vm_client_submit(&c, 1);
	vm_client_good(&c);
}

#define NUMBERS	32	/* device numbers that are occupied */
#define RANGE	64	/* the nodes of a kind have numbers from a multiple of this on */

/*
 * The registration of the node fails, because other devices have the numbers that the node may get.
 * Probe undoes all that it did: no interrupts, no bus mastering. The next probe succeeds.
 */
static void unregistered(void)
{
	int harness[NUMBERS], error;
	struct harness_devt number;
	struct vm_client c;
	uint32_t irqs;
	char device[64];
	struct stat st;

	if (!vm_on_pci())
		vm_skip("PCI only");
	for (int i = 0; i < NUMBERS; i++)
		harness[i] = vm_harness();
	vm_device_name(device);
	OK(!stat(vm_node(), &st));
	/*
	 * The next registration takes the lowest number that is free, which may be below the
	 * node's.
	 */
	number = (struct harness_devt){ major(st.st_rdev), minor(st.st_rdev) / RANGE * RANGE };
	vm_driver_file("unbind", device);
	/* vgem or another driver may have some of the numbers already. */
	for (int i = 0; i < NUMBERS; i++, number.minor++)
		OK(!ioctl(harness[i], HARNESS_DEVT, &number) || errno == EEXIST);
	error = bind_error(device);
	irqs = error ? vm_window(device)[RIVULET_REG_IRQ_ENABLE / 4] : 1;
	for (int i = 0; i < NUMBERS; i++)
		close(harness[i]);
	EQ(error, EEXIST);
	EQ(irqs, 0);
	OK(!is_master(device));
	vm_driver_file("bind", device);
	vm_await_node(true);
	c = vm_client();
	vm_client_submit(&c, 1);
	vm_client_good(&c);
}

const struct vm_test vm_probe_tests[] = {
	{ "probe_dma_width", "the DMA mask is as wide as the device reports", dma_width },
	{ "probe_unregistered",
	  "when its node cannot be registered, the device is stopped, and a later bind succeeds",
	  unregistered },
	{ "probe_undecoded",
	  "a device that is no NPU is left as it was, also if its memory was not decoded",
	  undecoded },
	{ "probe_lies",
	  "a window that contradicts the specification is "
	  "refused, and accepted once it is correct",
	  lies },
	{ "probe_long_name", "a name without a terminator is cut", long_name },
	{ 0 },
};
