/* SPDX-License-Identifier: MIT */
/* The modes that make found, one for each file mode_NAME.c. */
#include "npu/layer.h"

#define RVL_MODE(name) extern const struct rvl_mode rvl_mode_##name;
#include "npu_modes.inc"
#undef RVL_MODE

const struct rvl_mode *rvl_mode_of(const struct rvl_node *n)
{
	static const struct rvl_mode *const modes[] = {
#define RVL_MODE(name) &rvl_mode_##name,
#include "npu_modes.inc"
#undef RVL_MODE
	};
	const struct rvl_mode *dense = NULL;

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (modes[i]->isa == RIVULET_MODE_DENSE)
			dense = modes[i];
		else if (modes[i]->takes(n))
			return modes[i];
	}
	return dense;
}
