// SPDX-License-Identifier: MIT
/*
 * monitor COMMAND...: sends each command to QEMU's monitor. monitor -c COMMAND...: sends them to the
 * model's control socket. monitor -s NAME: prints a number of the model's state. The exit status is
 * 0 if all commands were accepted, and 75 if QEMU refused one, which may be repeated.
 */
#include "../vm.h"

#define AGAIN	75

int main(int argc, char **argv)
{
	bool model = argc > 1 && !strcmp(argv[1], "-c");

	if (argc == 3 && !strcmp(argv[1], "-s"))
		return printf("%ld\n", vm_control_stat(argv[2])) < 0;
	for (int i = 1 + model; i < argc; i++) {
		if (model)
			vm_control(argv[i]);
		else if (!vm_monitor(argv[i]))
			return AGAIN;
	}
	return 0;
}
