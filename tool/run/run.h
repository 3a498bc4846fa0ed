/* SPDX-License-Identifier: MIT */
/* rivulet run, between its files: cmd_run.c, run_pictures.c, run_report.c. */
#ifndef RVL_TOOL_RUN_H
#define RVL_TOOL_RUN_H

#include "data/array.h"
#include "data/picture_input.h"
#include "device/engine.h"
#include "progress.h"
#include "rivulet_snr.h"

#define RVL_RUN_INPUTS 64
#define RVL_RUN_FILES 256
#define RVL_RUN_WALLS 65536	/* latencies kept */
#define RVL_RUN_SHOWN 16	/* pictures shown at most */
#define RVL_RUN_DEPTH 64	/* frames in flight at most */

/** struct rvl_class - one class of an answer; @confidence is its share in a softmax */
struct rvl_class {
	uint32_t class;
	double confidence;
};

/**
 * struct rvl_answer - what the model says of one picture or of the tensors: the best classes, the best
 * first
 */
struct rvl_answer {
	const char *file;	/* of --image or --input, else NULL */
	uint64_t index;		/* of --images */
	int truth;		/* its label, or -1 */
	uint32_t w, h;		/* of the picture before it was fitted */
	uint32_t n;
	struct rvl_class *top;
	struct rvl_class *reference;	/* the best one of --reference, or NULL */
};

/** struct rvl_shown - a picture kept for display, with its answer */
struct rvl_shown {
	uint8_t *grey;
	char label[64];
};

struct rvl_run {
	/* options */
	const char *model, *device, *images, *labels, *names, *output, *expect, *priority, *pictures;
	const char *figures, *reference;
	const char *input[RVL_RUN_INPUTS], *file[RVL_RUN_FILES];
	uint32_t n_inputs, n_files;
	uint64_t first, count, level, deadline_ms, batch, top, seed, frames, depth;
	struct rvl_dims dims;
	bool require_npu;
	struct rvl_mode mode;
	/* state */
	struct rvl_engine *engine;
	uint32_t instance;		/* of the frame that was taken last: where its outputs are */
	uint64_t fed;			/* inputs that have data */
	struct rvl_array *kept;		/* by output */
	char *names_text;
	const char *class_name[256];
	uint32_t n_names;
	/* results */
	struct rvl_run_stats sum;
	uint64_t runs, failed;		/* frames that ended well, and those that did not */
	uint64_t series_ns;		/* from the first start to the last end */
	uint64_t *wall;			/* latencies, at most RVL_RUN_WALLS of them */
	bool have_labels, have_expect, have_scores;
	uint32_t want_w, want_h;	/* of the input */
	bool random;		/* the inputs were drawn from @seed */
	bool tensors;		/* the outputs are reported */
	bool classes;		/* --top or --names is given: the classes are reported */
	struct rvl_snr *snr;	/* of each output against --reference, or NULL */
	struct rvl_answer *answer;	/* of each --image; of --images with --top */
	uint32_t n_answers;
	uint64_t right, right_top, exact, first_wrong;	/* first_wrong: picture whose bytes differ */
	struct rvl_shown shown[RVL_RUN_SHOWN];
	uint32_t n_shown, shown_w, shown_h;
};

/**
 * struct rvl_series - frames that run one behind the other, several in flight
 * @feed: fills the inputs of frame @frame, in instance @instance; NULL: they are filled already
 * @take: the outputs of frame @frame are in r->instance; called in the order of the frames; may be
 * NULL. Both return 0 or an enum rvl_exit, which ends the series.
 */
struct rvl_series {
	uint64_t count;
	int (*feed)(struct rvl_run *r, void *ctx, uint64_t frame, uint32_t instance);
	int (*take)(struct rvl_run *r, void *ctx, uint64_t frame);
	void *ctx;
	struct rvl_progress *progress;	/* NULL: none */
	bool each_alone;		/* a frame that fails is counted, and the series goes on */
};

/**
 * rvl_run_series() - run the frames, as many in flight as the engine has instances, and sum their
 * statistics. 0 or an enum rvl_exit; after an interrupt, the frames in flight are taken
 */
int rvl_run_series(struct rvl_run *r, const struct rvl_series *s);
/** rvl_run_keep() - keep the outputs of run @run of @runs for --output */
int rvl_run_keep(struct rvl_run *r, uint64_t run, uint64_t runs);
/** rvl_run_pictures() - --images and --image */
int rvl_run_pictures(struct rvl_run *r);
/** rvl_run_classes() - the best classes of the first output of a run on tensors */
int rvl_run_classes(struct rvl_run *r);
/** rvl_run_reference() - compare the outputs of a run on tensors with those in --reference */
int rvl_run_reference(struct rvl_run *r);
/** rvl_run_output_path() - the file of an output in a folder of --output */
void rvl_run_output_path(char *out, size_t size, const char *dir, const char *tensor);
/** rvl_run_rank() - the best @count of the @n scores; @out is allocated. 0 or an enum rvl_exit */
int rvl_run_rank(const float *scores, uint32_t n, uint32_t count, struct rvl_class **out);
/** rvl_run_answers_clear() - free the answers */
void rvl_run_answers_clear(struct rvl_run *r);
/** rvl_run_name() - name of a class, "class N" without one; @out is returned */
const char *rvl_run_name(const struct rvl_run *r, uint32_t class, char *out, size_t size);

/**
 * rvl_run_report() - pictures, table, JSON, figures. RVL_EXIT_DIFFERENT when --expect was not met
 */
int rvl_run_report(struct rvl_run *r);

#endif
