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
	int file;			/* sealed memfd of the model, to load it again */
	uint32_t connection;		/* that @id belongs to */
	struct rivulet_msg_load load;	/* as it was asked for */
	int timeout_ms;
	struct rivulet_model_info info;
	struct rvl_model_tensor *tensor;
};

/** rvl_model_ready() - the daemon has the model; loads it again on a new connection, or with @anew */
int rvl_model_ready(struct rivulet_model *m, bool anew);

#endif
