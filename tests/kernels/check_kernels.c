// SPDX-License-Identifier: MIT
/* check_kernels N: compares N random shapes of each type, without the libraries of the unit tests. */
#include <stdio.h>
#include <stdlib.h>

#include "binary/layers.h"
#include "binary/signs.h"
#include "float/shapes.h"
#include "int8/shapes.h"
#include "rivulet_kernels.h"

static long compare(const char *type, const char *(*differs)(long i), long shapes)
{
	long failed = 0;

	for (long i = 0; i < shapes; i++) {
		const char *set = differs(i);

		if (!set)
			continue;
		printf("not ok - %s shape %ld differs with %s\n", type, i, set);
		failed++;
	}
	return failed;
}

int main(int argc, char **argv)
{
	long shapes = argc > 1 ? strtol(argv[1], NULL, 10) : 2000, failed;
	struct rvl_cpu_set set;

	failed = compare("int8", int8_compare, shapes) + compare("float", float_compare, shapes) +
		 compare("binary", binary_compare, shapes) + compare("sign", sign_compare, shapes);
	for (unsigned int i = 0; rvl_cpu_set(i, &set); i++)
		printf("%s %s\n", set.available ? "tried" : "not on this processor:", set.name);
	printf("%ld passed, %ld failed\n", 4 * shapes - failed, failed);
	return failed != 0;
}
