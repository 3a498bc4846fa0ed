// SPDX-License-Identifier: MIT
/*
 * A kernel that is started by kexec, without a power cycle or a reset of the machine:
 *
 *   kexec leave FILE KERNEL INITRD WORD...   queues jobs, one of which runs for minutes, and starts
 *                                            the next kernel with the same command line and WORDs
 *   kexec look FILE                          in the next kernel, without a driver: checks the state
 *                                            of the device
 *   kexec after FILE                         in the next kernel, with its driver: checks that jobs
 *                                            run
 *
 * FILE keeps the state that "leave" recorded. "leave" returns only when it fails.
 */
#include "vm.h"

#include <fcntl.h>
#include <linux/reboot.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LONG_MS		600000	/* of the running job; longer than both boots */
#define JOBS		4	/* two in the device, the others behind them */

/* The device's state when the first kernel ends. */
struct before {
	char device[64];
	long epoch, started, done;
};

static void keep(const char *path, const struct before *b)
{
	FILE *f = fopen(path, "we");

	OK(f);
	OK(fprintf(f, "%s %ld %ld %ld\n", b->device, b->epoch, b->started, b->done) > 0);
	OK(!fclose(f));
}

static void recall(const char *path, struct before *b)
{
	FILE *f = fopen(path, "re");

	OK(f);
	EQ(fscanf(f, "%63s %ld %ld %ld", b->device, &b->epoch, &b->started, &b->done), 4);
	fclose(f);
}

static int open_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		vm_fail(__FILE__, __LINE__, "%s: %s", path, strerror(errno));
	return fd;
}

/* Load the next kernel and its initrd. Its command line is the present one with @words appended. */
static void load_kernel(const char *kernel, const char *initrd, char **words)
{
	char line[2048];
	FILE *f = fopen("/proc/cmdline", "re");
	size_t n;

	OK(f && fgets(line, sizeof(line), f));
	fclose(f);
	n = strcspn(line, "\n");
	for (; *words; words++) {
		OK(n + strlen(*words) + 2 < sizeof(line));
		n += (size_t)snprintf(line + n, sizeof(line) - n, " %s", *words);
	}
	OK(!syscall(SYS_kexec_file_load, open_file(kernel), open_file(initrd), n + 1, line, 0ul));
}

/* A client that submits without pause. No job may reach the device after its shutdown. */
static void submit_for_ever(void)
{
	struct vm_client c = vm_client();
	struct vm_job j;

	vm_client_job(&c, &j);
	for (;;)
		if (vm_submit(c.fd, &j))
			usleep(1000);
}

/* One job runs at the lowest level, one is next in the device, the others wait in the driver. */
static void fill_device(struct vm_client *c, struct before *b)
{
	struct drm_rivulet_device info;
	char command[64];

	vm_param("cap_ms", "900000");
	vm_info(c->fd, &info);
	OK(info.level_count > 1);
	vm_pin_level(c->fd, 0);
	vm_client_submit(c, 1);
	vm_client_good(c);
	vm_device_name(b->device);
	b->epoch = (long)vm_epoch(c->fd);
	snprintf(command, sizeof(command), "inject slow@+1:%d", LONG_MS);
	vm_control(command);
	b->started = vm_control_stat("started");
	b->done = vm_control_stat("done_seq");
	for (int i = 0; i < JOBS; i++)
		vm_client_submit(c, (uint64_t)i);
	OK(vm_queue_holds(2));
	for (int i = 0; i < VM_WAIT_MS / 10 && vm_control_stat("started") == b->started; i++)
		usleep(10000);
	EQ(vm_control_stat("started"), ++b->started);
	EQ(vm_control_stat("current_seq"), b->done + 1);
	EQ(vm_control_stat("level"), 0);
}

static void leave(const char *path, char **args)
{
	struct vm_client c = vm_client();
	struct before b = {};
	pid_t pid;

	fill_device(&c, &b);
	keep(path, &b);
	load_kernel(args[0], args[1], args + 2);
	/* The driver has not reset the device, and the long job has not ended. */
	EQ(vm_epoch(c.fd), b.epoch);
	EQ(vm_control_stat("done_seq"), b.done);
	OK(vm_queue_holds(2));
	fflush(stdout);
	pid = fork();
	OK(pid >= 0);
	if (!pid)
		submit_for_ever();
	sync();
	syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_KEXEC, NULL);
	vm_fail(__FILE__, __LINE__, "no kexec: %s", strerror(errno));
}

static uint16_t pci_command(const char *device)
{
	char path[128];
	uint8_t two[2];
	int fd;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/config", device);
	fd = open_file(path);
	EQ(pread(fd, two, 2, 4), 2);
	close(fd);
	return (uint16_t)(two[0] | two[1] << 8);
}

/* Enable the device's memory space, so that its registers can be read without a driver. */
static void enable(const char *device)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/enable", device);
	vm_sysfs_write(path, "1");
}

/*
 * The shutdown has reset the device once. No job has started since, none runs, and the device
 * cannot master the bus.
 */
static void look(const char *path)
{
	const volatile uint32_t *reg;
	struct before b;

	recall(path, &b);
	OK(!vm_node());
	EQ(pci_command(b.device) & 4, 0);
	enable(b.device);
	reg = vm_window(b.device);
	EQ(reg[RIVULET_REG_MAGIC / 4], RIVULET_MAGIC);
	EQ(reg[RIVULET_REG_EPOCH / 4], b.epoch + 1);
	EQ(reg[RIVULET_REG_IRQ_ENABLE / 4], 0);
	EQ(reg[RIVULET_REG_HELD / 4], 0);
	EQ(reg[RIVULET_REG_FROZEN / 4], 0);
	EQ(vm_control_stat("started"), b.started);
	/* The reset set DONE_SEQ to the last seq that was issued, and the device had two jobs. */
	EQ(vm_control_stat("done_seq"), b.done + 2);
	EQ(vm_control_stat("current_seq"), b.done + 2);
}

/* The new driver has reset the device, and jobs run at each level that is requested. */
static void after(const char *path)
{
	struct vm_client c = vm_client();
	struct drm_rivulet_device info;
	struct before b;
	char name[64];

	recall(path, &b);
	vm_device_name(name);
	OK(!strcmp(name, b.device));
	OK((long)vm_epoch(c.fd) >= b.epoch + 2);
	EQ(vm_objects("jobs"), 0);
	OK(pci_command(b.device) & 4);
	vm_info(c.fd, &info);
	for (uint32_t level = info.level_count; level-- > 0;) {
		vm_pin_level(c.fd, level);
		vm_client_submit(&c, level);
		vm_client_good(&c);
		EQ(vm_control_stat("level"), level);
	}
	vm_unpin_level(c.fd);
	EQ(vm_control_stat("held"), 0);
	EQ(vm_control_stat("frozen"), 0);
	EQ(vm_control_stat("started"), b.started + (long)info.level_count);
}

int main(int argc, char **argv)
{
	if (argc > 4 && !strcmp(argv[1], "leave"))
		leave(argv[2], argv + 3);
	else if (argc == 3 && !strcmp(argv[1], "look"))
		look(argv[2]);
	else if (argc == 3 && !strcmp(argv[1], "after"))
		after(argv[2]);
	else
		vm_fail(__FILE__, __LINE__,
			"kexec leave FILE KERNEL INITRD [WORD]... | look FILE | after FILE");
	return EXIT_SUCCESS;
}
