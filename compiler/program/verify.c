/* SPDX-License-Identifier: MIT */
/* Runs the static checker on every stream before it leaves the compiler. */
#include "npu/isa_check.h"
#include "program/program.h"

#include <errno.h>
#include <stdlib.h>

static void io_slots(const struct rvl_backend *be, struct rvl_isa_slot *slot)
{
	for (uint32_t i = 0; i < be->g->n_tensors; i++) {
		const struct rvl_store *s = be->store[i];

		if (!s || s->slot >= RIVULET_SLOTS ||
		    (s->place != RIVULET_PLACE_INPUT && s->place != RIVULET_PLACE_OUTPUT))
			continue;
		slot[s->slot].size = rvl_max(slot[s->slot].size, s->size);
		slot[s->slot].write = s->place == RIVULET_PLACE_OUTPUT;
	}
}

int rvl_check_stream(const struct rvl_backend *be, const struct rvl_bstep *step,
		     const struct rvl_bcmd *cmd)
{
	struct rvl_isa_slot slot[RIVULET_SLOTS] = {
		[RIVULET_SLOT_PROGRAM] = { be->const_off + be->const_size, false },
		[RIVULET_SLOT_ARENA] = { be->arena_size, true },
		[RIVULET_SLOT_PROF] = { cmd->len / sizeof(struct rivulet_insn) *
						sizeof(struct rivulet_prof),
					true },
	};
	struct rvl_isa_report *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return -ENOMEM;
	io_slots(be, slot);
	rc = rvl_isa_check(be->board, (const void *)(be->cmds.data + cmd->off),
			   cmd->len / sizeof(struct rivulet_insn), slot, r);
	if (rc == -EINVAL)
		rvl_fail(be->err, rc, "internal: step \"%.60s\": %s", step->name, r->text);
	free(r);
	return rc;
}
