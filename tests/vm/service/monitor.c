// SPDX-License-Identifier: MIT
/*
 * monitor COMMAND...: each a line for QEMU's monitor. monitor -c COMMAND...: for the model's control
 * socket. monitor -s NAME: a number of the model's state. Exit status 0: nobody objected. QEMU's "not
 * yet" is 75: ask again.
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
