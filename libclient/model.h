/* SPDX-License-Identifier: MIT */
#ifndef RVL_LIBCLIENT_MODEL_H
#define RVL_LIBCLIENT_MODEL_H

#include "session.h"

/** rvl_check_tensor() - 0 if a TENSOR reply's size is what its shape and type say, else -EBADMSG */
int rvl_check_tensor(const struct rivulet_msg_tensor_reply *t);

struct rvl_model_tensor {
	struct rivulet_tensor_info info;
	char name[256];
};

/** struct rvl_file - a model file on its way into a sealed memfd, copied piece by piece */
struct rvl_file {
	int source;			/* the file to copy from, or -1 when all is in @memfd */
	int memfd;			/* kept while the model lives, to load it again */
	bool sealed;
	uint64_t size;
	uint64_t copied;
};

/** rvl_file_open() - @path, to be copied. Nothing is read yet */
int rvl_file_open(struct rvl_file *f, const char *path);
/** rvl_file_memory() - @size bytes of @data, copied at once */
int rvl_file_memory(struct rvl_file *f, const void *data, size_t size);
/** rvl_file_continue() - copy one piece. 0: all is copied and sealed; -EINPROGRESS: call again */
int rvl_file_continue(struct rvl_file *f);
void rvl_file_close(struct rvl_file *f);

struct rivulet_model {
	int refs;
	struct rivulet_client *client;	/* referenced */
	struct rivulet_model *next;	/* of the client's list */
	struct rvl_file file;
	struct rivulet_msg_load load;	/* as the program gave it; each LOAD gets its own header */
	int timeout_ms;
	struct rvl_call call;		/* LOAD, then TENSOR after TENSOR */
	uint32_t id;			/* on the daemon, or 0 */
	uint32_t connection;		/* that @id belongs to */
	uint32_t generation;		/* counts loads: instances belong to one */
	uint32_t inputs;
	uint32_t count;			/* inputs + outputs */
	uint32_t described;		/* of them, with known properties */
	bool bounded;			/* an output has a shape that is known at run time only */
	struct rvl_model_tensor *tensor;
	int program;			/* or -1 */
	struct rivulet_model_info info;
	bool loading;			/* the first load is under way */
	bool undelivered;		/* it ended, the program was not called back yet */
	int result;
	char error[512];
	void (*done)(struct rivulet_model *m, void *data);
	void *data;
};

/**
 * rvl_model_ready() - the daemon has the model and its tensors are known
 * 0, or -EINPROGRESS after sending the next request for that, or an error. Loads the model again on
 * a new connection.
 */
int rvl_model_ready(struct rivulet_model *m);
/**
 * rvl_model_reload() - the daemon's program does not fit the device: the next ready() loads again
 */
void rvl_model_reload(struct rivulet_model *m);

/** rvl_requests_model_failed() - request.c: @m could not be loaded again; ends who waits for it */
void rvl_requests_model_failed(struct rivulet_model *m, int error, const char *text);

#endif
