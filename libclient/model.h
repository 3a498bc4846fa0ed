/* SPDX-License-Identifier: MIT */
#ifndef RVL_LIBCLIENT_MODEL_H
#define RVL_LIBCLIENT_MODEL_H

#include "session.h"

struct rvl_model_tensor {
	struct rivulet_tensor_info info;
	char name[256];
};

struct rivulet_model {
	int refs;
	struct rivulet_client *client;	/* referenced */
	uint32_t id;
	uint32_t inputs;
	uint32_t count;			/* inputs + outputs */
	int program;			/* or -1 */
	struct rivulet_model_info info;
	struct rvl_model_tensor *tensor;
};

#endif
