/* SPDX-License-Identifier: MIT */
/* The page docs/operators.md. */
#ifndef RVL_OPERATORS_DOC_H
#define RVL_OPERATORS_DOC_H

/** Text of docs/operators.md, made from the tables; freed by the caller, NULL without memory. */
char *rvl_operators_doc(void);

#endif
