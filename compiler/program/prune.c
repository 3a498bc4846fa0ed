/* SPDX-License-Identifier: MIT */
/* Pruning from end to end: read, prune, measure, write. */
#include "onnx/export.h"
#include "pass/passes.h"
#include "program/program.h"
#include "quant/measure.h"
#include "quant/prune.h"

#include <errno.h>

/* The worst SNR of the outputs of @pruned against those of @dense, over all examples. */
static int measure(struct rvl_graph *dense, const struct rvl_graph *pruned,
		   const struct rivulet_quantise *q, struct rivulet_prune_report *r, struct rvl_err *err)
{
	struct rvl_reference ref = { 0 };
	struct rvl_graph *copy = NULL;
	struct rvl_samples s;
	int rc = rvl_samples_bind(dense, q, &s, err);

	if (rc)
		return rc;
	r->runs = s.runs;
	rc = rvl_reference_make(&s, s.runs, &ref, err);
	if (!rc)
		rc = rvl_graph_clone(pruned, &copy, err);
	if (!rc)
		rc = rvl_optimise(copy, err);
	if (!rc)
		rc = rvl_measure(&s, copy, &ref, &r->snr_db, err);
	rvl_graph_free(copy);
	rvl_reference_free(&s, &ref);
	return rc;
}

static int prune(struct rvl_graph *g, const struct rivulet_compile_options *opt,
		 const struct rivulet_prune *p, struct rivulet_blob *out,
		 struct rivulet_prune_report *report, struct rvl_err *err)
{
	struct rvl_graph *dense = NULL;
	struct rvl_bytes b = { 0 };
	int rc = rvl_shape_infer(g, err);

	if (!rc) /* an If whose condition depends on the data is supported once it is expanded */
		rc = rvl_graph_check_supported(g, err);
	if (!rc && opt->quantise.n_examples)
		rc = rvl_graph_clone(g, &dense, err);
	if (!rc)
		rc = rvl_prune(g, p, report, err);
	if (!rc && dense)
		rc = measure(dense, g, &opt->quantise, report, err);
	if (!rc)
		rc = rvl_onnx_export(g, &b, err);
	if (rc)
		rvl_bytes_free(&b);
	else
		*out = (struct rivulet_blob){ .data = b.data, .size = b.size };
	rvl_graph_free(dense);
	return rc;
}

int rivulet_prune(const void *onnx, size_t size, const struct rivulet_compile_options *opt,
		  const struct rivulet_prune *p, struct rivulet_blob *out,
		  struct rivulet_prune_report *report, struct rvl_err *err)
{
	struct rvl_graph *g = NULL;
	int rc;

	*report = (struct rivulet_prune_report){ 0 };
	if (!(p->sparsity > 0 && p->sparsity < 100))
		return rvl_fail(err, -EINVAL, "a sparsity is between 0 and 100 %%");
	rc = rvl_read_model(onnx, size, opt, &g, err);
	if (!rc)
		rc = prune(g, opt, p, out, report, err);
	rvl_graph_free(g);
	return rc;
}
