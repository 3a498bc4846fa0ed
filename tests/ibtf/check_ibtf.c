// SPDX-License-Identifier: MIT
/* usage: check_ibtf CASES: compares random exact products with integer products. */
#include <stdio.h>
#include <stdlib.h>

#include "ibtf/cases.h"

int main(int argc, char **argv)
{
	uint64_t cases = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000, wrong = 0;

	for (uint64_t i = 0; i < cases; i++) {
		const char *why = ibtf_random_case(i);

		if (why && ++wrong <= 10)
			printf("not ok - case %llu: %s\n", (unsigned long long)i, why);
	}
	printf("figure ibtf.cases %llu cases\n", (unsigned long long)cases);
	printf("figure ibtf.wrong %llu cases\n", (unsigned long long)wrong);
	return wrong != 0;
}
