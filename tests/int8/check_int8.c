// SPDX-License-Identifier: MIT
/* check_int8 N: compares N random shapes, without the libraries of the unit tests. */
#include <stdio.h>
#include <stdlib.h>

#include "int8/shapes.h"
#include "rivulet_kernels.h"

int main(int argc, char **argv)
{
	long shapes = argc > 1 ? strtol(argv[1], NULL, 10) : 2000, failed = 0;
	struct rvl_cpu_set set;

	for (long i = 0; i < shapes; i++) {
		const char *differs = int8_compare(i);

		if (!differs)
			continue;
		printf("not ok - shape %ld differs with %s\n", i, differs);
		failed++;
	}
	for (unsigned int i = 0; rvl_cpu_set(i, &set); i++)
		printf("%s %s\n", set.available ? "tried" : "not on this processor:", set.name);
	printf("%ld passed, %ld failed\n", shapes - failed, failed);
	return failed != 0;
}
