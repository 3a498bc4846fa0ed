/* SPDX-License-Identifier: MIT */
/* The table of a function of one value, by the CPU's kernels. */
#include "npu/function.h"

#include "rivulet_kernels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void rvl_function_of(const struct rvl_node *n, struct rvl_function *f)
{
	*f = (struct rvl_function){ .x = n->in[0], .y = n->out[0], .node = { n }, .n = 1 };
}

/* A line of bytes: neither the values of a constant nor the form of an image. */
static void as_line(struct rvl_kernel_arg *a, int64_t n)
{
	a->shape = (struct rvl_shape){ .rank = 1, .dim = { n } };
	a->layout = RIVULET_LAYOUT_PLAIN;
	a->pitched = false;
}

static int tabulate(const struct rvl_function *f, const struct rvl_node *n, uint8_t (*value)[256],
		    uint8_t *result)
{
	const void *in[RVL_MAX_IN] = { NULL };
	void *out[RVL_MAX_OUT] = { result };
	struct rvl_kernel_desc d;
	struct rvl_kernel *k;
	void *scratch;
	int rc;

	rvl_node_desc(n, &d);
	for (uint32_t i = 0; i < n->n_in; i++) {
		int v = n->in[i] ? rvl_function_value(f, n->in[i]) : -1;

		in[i] = v < 0 ? d.in[i].data : value[v];
		if (v >= 0) {
			as_line(&d.in[i], 256);
			d.in[i].data = NULL;
		} else if (n->in[i] && rvl_is_quant8_tensor(n->in[i])) { /* of one value */
			as_line(&d.in[i], 1);
		}
	}
	as_line(&d.out[0], 256);
	rc = rvl_kernel_new(&d, true, &k, NULL);
	if (rc)
		return rc;
	scratch = malloc(rvl_kernel_scratch(k) + 1);
	rc = scratch ? rvl_kernel_run(k, in, out, scratch, NULL) : -ENOMEM;
	free(scratch);
	rvl_kernel_free(k);
	return rc;
}

int rvl_function_table(const struct rvl_function *f, uint8_t table[256])
{
	uint8_t value[RVL_FUNCTION_NODES + 1][256];
	int rc = 0;

	for (int i = 0; i < 256; i++)
		value[0][i] = (uint8_t)i;
	for (uint32_t i = 0; i < f->n && !rc; i++)
		rc = tabulate(f, f->node[i], value, value[i + 1]);
	if (!rc)
		memcpy(table, value[rvl_function_value(f, f->y)], 256);
	return rc;
}
