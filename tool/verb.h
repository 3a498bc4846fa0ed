/* SPDX-License-Identifier: MIT */
/* A verb of the command: its table of options, its arguments, and the one error that it reports. */
#ifndef RVL_TOOL_VERB_H
#define RVL_TOOL_VERB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit codes, documented in rivulet(1). X(NAME, value, meaning) */
#define RVL_EXITS(X)                                                                               \
	X(OK, 0, "all went well")                                                                  \
	X(FAILED, 1, "a run, the device or the system failed")                                     \
	X(USAGE, 2, "wrong usage")                                                                 \
	X(DIFFERENT, 3, "done, but a result is not what was expected, or doctor found a problem")  \
	X(ABSENT, 4, "no device, no daemon, or no right to use it")                                \
	X(REFUSED, 5, "a file was refused: model, program, tensor, picture, board")

#define RVL_EXIT_ENUM(name, value, doc) RVL_EXIT_##name = (value),
enum rvl_exit { RVL_EXITS(RVL_EXIT_ENUM) };
#undef RVL_EXIT_ENUM

/* ---- options ---- */

enum rvl_option_kind {
	RVL_VALUE_SWITCH, /* a bool becomes true */
	RVL_VALUE_TEXT,	  /* a const char * points to the value */
	RVL_VALUE_NUMBER, /* a uint64_t: a whole number, with suffix k or M */
	RVL_VALUE_TIME,	  /* a struct rvl_time: a decimal with us, ms, s, min or h */
	RVL_VALUE_CALL,	  /* a function stores the value; the option may be given several times */
};

/** struct rvl_time - the value of an option that is a duration */
struct rvl_time {
	uint64_t ns;
};

/** struct rvl_option - one option --NAME of a verb; a table of them ends with an empty entry */
struct rvl_option {
	const char *name;
	char letter;	   /* -X, or 0 */
	const char *value; /* what --help calls the value; NULL for a switch */
	const char *help;
	size_t at; /* offset of the value in the verb's arguments */
	enum rvl_option_kind kind;
	uint64_t least, most; /* limits of a number; @most 0: UINT64_MAX */
	/** @call: stores a value; @member is at @at. Returns 0 or an enum rvl_exit */
	int (*call)(void *member, const char *value);
};

/* The member of the arguments that an option sets; its type decides how the value is parsed. */
#define RVL_MEMBER(type, member)                                                                   \
	.at = offsetof(type, member),                                                              \
	.kind = _Generic(((type *)NULL)->member, const char *: RVL_VALUE_TEXT,                     \
			 uint64_t: RVL_VALUE_NUMBER, bool: RVL_VALUE_SWITCH,                       \
			 struct rvl_time: RVL_VALUE_TIME)
#define RVL_CALL(type, member, fn) .at = offsetof(type, member), .kind = RVL_VALUE_CALL, .call = fn

/**
 * struct rvl_verb - one verb: tool/verbs/cmd_NAME.c defines rvl_verb_NAME, which is all that adds
 * it
 * @order: place in --help
 * @operands: as --help prints them
 * @least, @most: how many operands there may be; @takes says it in the error
 * @args_size, @defaults: the arguments that options set; NULL: all zero
 * @run: returns an enum rvl_exit; @operand has @n entries
 * @clear: releases what options and run() put into the arguments; called in any case; may be NULL
 */
struct rvl_verb {
	const char *name;
	const char *summary;
	int order;
	const char *operands;
	int least, most;
	const char *takes;
	const struct rvl_option *options;
	size_t args_size;
	const void *defaults;
	int (*run)(void *args, int n, char **operand);
	void (*clear)(void *args);
};

/**
 * rvl_tool_main() - main() of the command: parses, runs the verb, reports its error
 * Returns the exit status, which is 128 + N when the verb stopped early because of signal N.
 */
int rvl_tool_main(int argc, char **argv);
/** rvl_verb_find() - NULL when there is none of that name */
const struct rvl_verb *rvl_verb_find(const char *name);
/** rvl_verb_has() - whether a verb has --@option */
bool rvl_verb_has(const struct rvl_verb *v, const char *option);

/**
 * rvl_options_parse() - store options into @args, move operands to the front of @argv
 * Options and operands may be mixed. --json is understood by every verb; --help prints the table.
 * Returns the number of operands, or -1 - enum rvl_exit when the verb must not run.
 */
int rvl_options_parse(const struct rvl_verb *v, int argc, char **argv, void *args);
/** rvl_time_parse() - "1.5s", "200ms", "2min" */
bool rvl_time_parse(const char *s, struct rvl_time *out);

/* ---- errors: the first failure is kept and reported once, when the verb has ended ---- */

/**
 * rvl_tool_fail() - note what failed. Returns @code, an enum rvl_exit; a second call changes
 * nothing
 */
int rvl_tool_fail(enum rvl_exit code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/**
 * rvl_tool_advise() - append "; ADVICE" to the noted error if the running verb has --@option
 * Code that several verbs share names an option only through this, so that no verb advises an
 * option that it lacks.
 */
void rvl_tool_advise(const char *option, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** rvl_tool_error - the noted text, "" while there is none; rvl_tool_error_clear() forgets it */
extern char rvl_tool_error[1200];
void rvl_tool_error_clear(void);
/** rvl_tool_json - --json was given */
extern bool rvl_tool_json;

#endif
