/* SPDX-License-Identifier: MIT */
/* Compiled by scripts/check-abi as C99, C11 and C++ against the installed headers; never run. */
#include <rivulet.h>

#define IS_TRUE(condition) ((condition) ? 1 : -1)
#define SIZE_FIRST(type)                                                                           \
	typedef char size_of_##type##_is_first[IS_TRUE(offsetof(struct type, size) == 0)];         \
	typedef char size_of_##type##_is_size_t[IS_TRUE(sizeof(((struct type *)0)->size) ==        \
							sizeof(size_t))]

SIZE_FIRST(rivulet_submit_options);
SIZE_FIRST(rivulet_daemon_info);
SIZE_FIRST(rivulet_level_state);
SIZE_FIRST(rivulet_policy_state);
SIZE_FIRST(rivulet_load_options);
SIZE_FIRST(rivulet_tensor_info);
SIZE_FIRST(rivulet_model_info);
SIZE_FIRST(rivulet_run_options);
SIZE_FIRST(rivulet_run_stats);

const char *use_the_header(struct rivulet_request *r, int *result);

const char *use_the_header(struct rivulet_request *r, int *result)
{
	struct rivulet_run_options o = { sizeof(struct rivulet_run_options), 0, false, 0, 0 };

	*result = rivulet_request_run(r, &o);
	return rivulet_last_error();
}
