// SPDX-License-Identifier: MIT
#include "config.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "policy.h"

#define FILE_MAX_BYTES (1u << 20)
#define DROPINS_MAX 256

enum kind {
	KIND_COUNT, KIND_SIZE, KIND_SECONDS, KIND_TIME, KIND_PERCENT, KIND_SWITCH, KIND_FOREIGN,
	KIND_ADMITS, KIND_USERS, KIND_NODE, KIND_PATH, KIND_MODE, KIND_NUMBERS, KIND_PERCENTS,
	KIND_RECONFIGURE,
};

/* The words of enumerated kinds; a value is the index of its word. */
static const char *const words[][5] = {
	[KIND_SWITCH] = { "no", "yes" },
	[KIND_FOREIGN] = { "yield", "reassert" },
	[KIND_ADMITS] = { "high", "none", "all" },
	[KIND_RECONFIGURE] = { "both", "hardware", "software", "none" },
};

struct key {
	const char *section, *name;
	enum kind kind;
	size_t offset;
	const char *def;
	uint64_t lo, hi;
	const char *doc;
};

static const struct key keys[] = {
#define KEY_ROW(section, key, member, kind, def, lo, hi, doc)                                      \
	{ #section, #key, KIND_##kind, offsetof(struct rvl_config, member), def, lo, hi, doc },
	RVL_CONFIG_KEYS(KEY_ROW)
};

static const struct {
	char suffix;
	unsigned int shift;
} units[] = { { 'K', 10 }, { 'M', 20 }, { 'G', 30 } };

static int parse_number(const struct key *k, const char *value, uint64_t *out, struct rvl_text *err)
{
	unsigned long long v;
	unsigned int shift = 0;
	char *end;

	errno = 0;
	v = strtoull(value, &end, 10);
	if (!isdigit((unsigned char)*value) || errno)
		return rvl_say(err, -EINVAL, "%s=%s is no number", k->name, value);
	for (size_t i = 0; k->kind == KIND_SIZE && i < ARRAY_SIZE(units); i++)
		if (*end == units[i].suffix)
			shift = units[i].shift;
	end += shift != 0 || (k->kind == KIND_SECONDS && *end == 's');
	if (*end)
		return rvl_say(err, -EINVAL, "%s=%s: what is \"%s\"?", k->name, value, end);
	if (v > UINT64_MAX >> shift || v << shift < k->lo || v << shift > k->hi)
		return rvl_say(err, -EINVAL, "%s=%s is not within %llu to %llu", k->name, value,
			       (unsigned long long)k->lo, (unsigned long long)k->hi);
	*out = v << shift;
	return 0;
}

/* A decimal number times @unit. More decimals than @unit resolves are an error, not rounded. */
static int parse_fraction(const char *s, uint64_t unit, uint64_t *out, const char **end)
{
	uint64_t v = 0, scale = unit;
	bool point = false, digit = false;

	for (; isdigit((unsigned char)*s) || (*s == '.' && !point); s++) {
		uint64_t d = (uint64_t)(*s - '0');

		if (*s == '.') {
			point = true;
			continue;
		}
		digit = true;
		if (point && scale % 10)
			return -EINVAL;
		scale = point ? scale / 10 : scale;
		if ((!point && __builtin_mul_overflow(v, 10, &v)) ||
		    __builtin_add_overflow(v, d * scale, &v))
			return -EINVAL;
	}
	*end = s;
	*out = v;
	return digit ? 0 : -EINVAL;
}

static int parse_time(const struct key *k, const char *value, uint64_t *out, struct rvl_text *err)
{
	const char *end;

	if (parse_fraction(value, NSEC_PER_SEC, out, &end))
		return rvl_say(err, -EINVAL, "%s=%s is no time", k->name, value);
	if (!strcmp(end, "ms"))
		*out /= 1000;
	else if (*end && strcmp(end, "s"))
		return rvl_say(err, -EINVAL, "%s=%s: what is \"%s\"?", k->name, value, end);
	if (*out < k->lo || *out > k->hi)
		return rvl_say(err, -EINVAL, "%s=%s is not within %gs to %gs", k->name, value,
			       (double)k->lo / 1e9, (double)k->hi / 1e9);
	return 0;
}

static int parse_percent(const struct key *k, const char *value, uint64_t *out,
			 struct rvl_text *err)
{
	const char *end;

	if (parse_fraction(value, 10000, out, &end) || (*end && strcmp(end, "%")))
		return rvl_say(err, -EINVAL, "%s=%s is no percentage", k->name, value);
	if (*out < k->lo || *out > k->hi)
		return rvl_say(err, -EINVAL, "%s=%s is not within %g to %g %%", k->name, value,
			       (double)k->lo / 1e4, (double)k->hi / 1e4);
	return 0;
}

static int parse_word(const struct key *k, const char *value, uint64_t *out, struct rvl_text *err)
{
	const char *const *list = words[k->kind];
	char all[64] = "";

	for (uint64_t i = 0; list[i]; i++) {
		if (!strcmp(list[i], value)) {
			*out = i;
			return 0;
		}
		snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", i ? ", " : "",
			 list[i]);
	}
	return rvl_say(err, -EINVAL, "%s=%s is none of: %s", k->name, value, all);
}

static int parse_list(const struct key *k, const char *value, struct rvl_numbers *out,
		      struct rvl_text *err)
{
	_cleanup_free_ char *copy = strdup(value);
	struct rvl_numbers list = { .n = 0 };
	char *save = NULL;
	uint64_t v;
	int r = 0;

	if (!copy)
		return rvl_say(err, -ENOMEM, "out of memory");
	for (char *w = strcmp(copy, "auto") ? strtok_r(copy, " \t,", &save) : NULL; w && !r;
	     w = strtok_r(NULL, " \t,", &save)) {
		if (list.n == ARRAY_SIZE(list.v))
			return rvl_say(err, -EINVAL, "%s= has more than %zu numbers", k->name,
				       ARRAY_SIZE(list.v));
		r = k->kind == KIND_PERCENTS ? parse_percent(k, w, &v, err) :
					       parse_number(k, w, &v, err);
		list.v[list.n++] = (uint32_t)v;
	}
	if (!r)
		*out = list;
	return r;
}

static int parse_mode(const struct key *k, const char *value, struct rvl_mode *out,
		      struct rvl_text *err)
{
	if (rvl_policy_mode_parse(value, &out->mode, &out->fixed))
		return rvl_say(err, -EINVAL,
			       "%s=%s is not auto, performance, balanced, powersave or a level",
			       k->name, value);
	return 0;
}

static int parse_path(const struct key *k, const char *value, struct rvl_node *out,
		      struct rvl_text *err)
{
	if (strcmp(value, "auto") && strcmp(value, "off") && *value != '/')
		return rvl_say(err, -EINVAL, "%s=%s is neither auto, nor off, nor a path", k->name,
			       value);
	if (strlen(value) >= sizeof(out->s))
		return rvl_say(err, -EINVAL, "%s= is longer than %zu bytes", k->name,
			       sizeof(out->s) - 1);
	memset(out, 0, sizeof(*out));
	strcpy(out->s, value);
	return 0;
}

static int parse_user(const char *word, uid_t *uid)
{
	struct passwd *pw;
	char *end;
	unsigned long v = strtoul(word, &end, 10);

	if (isdigit((unsigned char)*word) && !*end && v < UINT32_MAX) {
		*uid = (uid_t)v;
		return 0;
	}
	/* No lookup for root: the name service may be slow, or unavailable in the sandbox. */
	if (!strcmp(word, "root")) {
		*uid = 0;
		return 0;
	}
	pw = getpwnam(word);
	if (!pw)
		return -ENOENT;
	*uid = pw->pw_uid;
	return 0;
}

static int parse_users(const struct key *k, const char *value, struct rvl_users *out,
		       struct rvl_text *err)
{
	_cleanup_free_ char *copy = strdup(value);
	struct rvl_users u = { .n = 0 };
	char *save = NULL;

	if (!copy)
		return rvl_say(err, -ENOMEM, "out of memory");
	for (char *w = strtok_r(copy, " \t,", &save); w; w = strtok_r(NULL, " \t,", &save)) {
		if (u.n == RVL_CONFIG_USERS)
			return rvl_say(err, -EINVAL, "%s= has more than %d users", k->name,
				       RVL_CONFIG_USERS);
		if (parse_user(w, &u.uid[u.n]))
			return rvl_say(err, -EINVAL, "%s=: no user \"%s\"", k->name, w);
		u.n++;
	}
	*out = u;
	return 0;
}

static int parse_node(const struct key *k, const char *value, struct rvl_node *out,
		      struct rvl_text *err)
{
	if (strcmp(value, "auto") && *value != '/' && strncmp(value, "sim:", 4))
		return rvl_say(err, -EINVAL, "%s=%s is neither auto, nor a path, nor sim:BOARD",
			       k->name, value);
	if (strlen(value) >= sizeof(out->s))
		return rvl_say(err, -EINVAL, "%s= is longer than %zu bytes", k->name,
			       sizeof(out->s) - 1);
	memset(out, 0, sizeof(*out));
	strcpy(out->s, value);
	return 0;
}

static int set_key(struct rvl_config *c, const struct key *k, const char *value,
		   struct rvl_text *err)
{
	void *field = (char *)c + k->offset;

	if (!*value)
		value = k->def;
	switch (k->kind) {
	case KIND_USERS:
		return parse_users(k, value, field, err);
	case KIND_NODE:
		return parse_node(k, value, field, err);
	case KIND_PATH:
		return parse_path(k, value, field, err);
	case KIND_MODE:
		return parse_mode(k, value, field, err);
	case KIND_NUMBERS:
	case KIND_PERCENTS:
		return parse_list(k, value, field, err);
	case KIND_TIME:
		return parse_time(k, value, field, err);
	case KIND_PERCENT:
		return parse_percent(k, value, field, err);
	case KIND_SWITCH:
	case KIND_FOREIGN:
	case KIND_ADMITS:
	case KIND_RECONFIGURE:
		return parse_word(k, value, field, err);
	default:
		return parse_number(k, value, field, err);
	}
}

void rvl_config_default(struct rvl_config *c)
{
	struct rvl_text err;

	memset(c, 0, sizeof(*c));
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (set_key(c, &keys[i], keys[i].def, &err))
			abort();	/* the table contradicts itself */
}

bool rvl_users_have(const struct rvl_users *u, uid_t uid)
{
	for (uint32_t i = 0; i < u->n; i++)
		if (u->uid[i] == uid)
			return true;
	return false;
}

/* State of the parser in one file. */
struct reader {
	const char *origin;
	unsigned int line;
	char section[64];
	bool section_known;
	rvl_config_warn_fn warn;
	void *data;
};

static void warn_key(const struct reader *rd, const char *name)
{
	struct rvl_text t;

	rvl_say(&t, 0, "%s:%u: unknown key \"%.64s\", ignored", rd->origin, rd->line, name);
	if (rd->warn)
		rd->warn(RVL_SKIPPED_KEY, t.s, rd->data);
}

/* Section names are case sensitive: a name that differs in case only is suggested. */
static void warn_section(const struct reader *rd)
{
	const char *meant = NULL;
	struct rvl_text t;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (!strcasecmp(keys[i].section, rd->section))
			meant = keys[i].section;
	rvl_say(&t, 0, "%s:%u: unknown section \"%.64s\", ignored with its keys%s%s%s", rd->origin,
		rd->line, rd->section, meant ? ": did you mean [" : "", meant ? meant : "",
		meant ? "]?" : "");
	if (rd->warn)
		rd->warn(RVL_SKIPPED_SECTION, t.s, rd->data);
}

static char *strip(char *s)
{
	size_t n;

	while (isspace((unsigned char)*s))
		s++;
	for (n = strlen(s); n && isspace((unsigned char)s[n - 1]); n--)
		s[n - 1] = 0;
	return s;
}

static int refuse_line(const struct reader *rd, struct rvl_text *err, const char *why)
{
	return rvl_say(err, -EINVAL, "%s:%u: %s", rd->origin, rd->line, why);
}

static int enter_section(struct reader *rd, char *s, struct rvl_text *err)
{
	size_t n = strlen(s);

	if (s[n - 1] != ']' || n < 3 || n - 2 >= sizeof(rd->section))
		return refuse_line(rd, err, "a section is [Name]");
	memcpy(rd->section, s + 1, n - 2);
	rd->section[n - 2] = 0;
	rd->section_known = false;
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		rd->section_known |= !strcmp(keys[i].section, rd->section);
	if (!rd->section_known)
		warn_section(rd);
	return 0;
}

static int assign(struct rvl_config *c, struct reader *rd, const char *name, const char *value,
		  struct rvl_text *err)
{
	struct rvl_text why;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strcmp(keys[i].section, rd->section) || strcmp(keys[i].name, name))
			continue;
		r = set_key(c, &keys[i], value, &why);
		return r ? rvl_say(err, r, "%s:%u: %.380s", rd->origin, rd->line, why.s) : 0;
	}
	if (rd->section_known)
		warn_key(rd, name);
	return 0;
}

static int parse_line(struct rvl_config *c, struct reader *rd, char *line, struct rvl_text *err)
{
	char *s = strip(line), *eq;

	if (!*s || *s == '#' || *s == ';')
		return 0;
	if (*s == '[')
		return enter_section(rd, s, err);
	eq = strchr(s, '=');
	if (!eq || eq == s)
		return refuse_line(rd, err, "neither [Section] nor Key=value");
	if (!*rd->section)
		return refuse_line(rd, err, "a key before the first [Section]");
	*eq = 0;
	return assign(c, rd, strip(s), strip(eq + 1), err);
}

int rvl_config_parse(struct rvl_config *c, const char *origin, const char *text, size_t len,
		     rvl_config_warn_fn warn, void *data, struct rvl_text *err)
{
	struct reader rd = { .origin = origin, .warn = warn, .data = data };
	const char *end = text + len;
	int r = 0;

	while (!r && text < end) {
		const char *nl = memchr(text, '\n', (size_t)(end - text));
		size_t n = (size_t)((nl ? nl : end) - text);
		char line[1024];

		rd.line++;
		if (n >= sizeof(line))
			return refuse_line(&rd, err, "the line is longer than 1023 bytes");
		if (memchr(text, 0, n))
			return refuse_line(&rd, err, "a NUL byte");
		memcpy(line, text, n);
		line[n] = 0;
		r = parse_line(c, &rd, line, err);
		text += n + 1;
	}
	return r;
}

static int read_all(const char *path, char **text, size_t *len, struct rvl_text *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return errno == ENOENT ? -ENOENT : rvl_say(err, -errno, "%s: %m", path);
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > FILE_MAX_BYTES)
		return rvl_say(err, -EINVAL, "%s: no regular file, or above 1 MiB", path);
	*text = malloc((size_t)st.st_size + 1);
	if (!*text)
		return rvl_say(err, -ENOMEM, "out of memory");
	n = read(fd, *text, (size_t)st.st_size);
	if (n < 0)
		return rvl_say(err, -errno, "%s: %m", path);
	*len = (size_t)n;
	return 0;
}

static int apply_file(struct rvl_config *c, const char *path, rvl_config_warn_fn warn, void *data,
		      struct rvl_text *err)
{
	_cleanup_free_ char *text = NULL;
	size_t len = 0;
	int r = read_all(path, &text, &len, err);

	if (r)
		return r == -ENOENT ? 0 : r;
	return rvl_config_parse(c, path, text, len, warn, data, err);
}

/* Drop-ins by base name; a later directory replaces a file of the same name. */
struct dropins {
	char *path[DROPINS_MAX];
	int n;
};

static const char *base_name(const char *path)
{
	return strrchr(path, '/') + 1;
}

static int add_dropin(struct dropins *d, const char *dir, const char *name, struct rvl_text *err)
{
	char *path;

	if (asprintf(&path, "%s/%s", dir, name) < 0)
		return rvl_say(err, -ENOMEM, "out of memory");
	for (int i = 0; i < d->n; i++)
		if (!strcmp(base_name(d->path[i]), name)) {
			free(d->path[i]);
			d->path[i] = path;
			return 0;
		}
	if (d->n == DROPINS_MAX) {
		free(path);
		return rvl_say(err, -E2BIG, "%s: more than %d drop-ins", dir, DROPINS_MAX);
	}
	d->path[d->n++] = path;
	return 0;
}

static int scan_dir(struct dropins *d, const char *dir, struct rvl_text *err)
{
	DIR *dp = opendir(dir);
	struct dirent *e;
	size_t n;
	int r = 0;

	if (!dp)
		return errno == ENOENT ? 0 : rvl_say(err, -errno, "%s: %m", dir);
	while (!r && (e = readdir(dp))) {
		n = strlen(e->d_name);
		if (n > 5 && *e->d_name != '.' && !strcmp(e->d_name + n - 5, ".conf"))
			r = add_dropin(d, dir, e->d_name, err);
	}
	closedir(dp);
	return r;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(base_name(*(char *const *)a), base_name(*(char *const *)b));
}

static bool masked(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISCHR(st.st_mode);
}

static int apply_dropins(struct rvl_config *c, const char *root, rvl_config_warn_fn warn,
			 void *data, struct rvl_text *err)
{
	static const char *const dirs[] = { "/usr/lib", "/run", "/etc" };
	struct dropins d = { .n = 0 };
	char dir[512];
	int r = 0;

	for (size_t i = 0; !r && i < ARRAY_SIZE(dirs); i++) {
		snprintf(dir, sizeof(dir), "%s%s/rivuletd/rivuletd.conf.d", root, dirs[i]);
		r = scan_dir(&d, dir, err);
	}
	qsort(d.path, (size_t)d.n, sizeof(*d.path), by_name);
	for (int i = 0; i < d.n; i++) {
		if (!r && !masked(d.path[i]))
			r = apply_file(c, d.path[i], warn, data, err);
		free(d.path[i]);
	}
	return r;
}

int rvl_config_load(struct rvl_config *c, const char *root, rvl_config_warn_fn warn, void *data,
		    struct rvl_text *err)
{
	static const char *const files[] = { "/usr/lib", "/etc" };
	struct rvl_config fresh;
	char path[512];
	int r = 0;

	rvl_config_default(&fresh);
	for (size_t i = 0; !r && i < ARRAY_SIZE(files); i++) {
		snprintf(path, sizeof(path), "%s%s/rivuletd/rivuletd.conf", root, files[i]);
		r = apply_file(&fresh, path, warn, data, err);
	}
	if (!r)
		r = apply_dropins(&fresh, root, warn, data, err);
	if (!r)
		*c = fresh;
	return r;
}

static void add_name(struct rvl_text *names, const char *name)
{
	size_t n = strlen(names->s);

	snprintf(names->s + n, sizeof(names->s) - n, "%s%s=", n ? ", " : "", name);
}

void rvl_config_keep_fixed(struct rvl_config *c, const struct rvl_config *old, struct rvl_text *names)
{
	names->s[0] = 0;
#define KEEP_FIXED(key, member)                                                                    \
	if (memcmp(&c->member, &old->member, sizeof(c->member))) {                                 \
		c->member = old->member;                                                           \
		add_name(names, #key);                                                             \
	}
	RVL_CONFIG_FIXED(KEEP_FIXED)
}

static void print_mode(const struct rvl_mode *mode, FILE *out)
{
	if (mode->mode == RIVULET_POLICY_FIXED)
		fprintf(out, "%u", mode->fixed);
	else
		fprintf(out, "%s", rvl_policy_mode_name(mode->mode));
}

static void print_list(const struct key *k, const struct rvl_numbers *list, FILE *out)
{
	if (!list->n)
		fprintf(out, "auto");
	for (uint32_t i = 0; i < list->n; i++)
		fprintf(out, "%s%g", i ? " " : "",
			k->kind == KIND_PERCENTS ? list->v[i] / 1e4 : list->v[i]);
}

static void print_users(const struct rvl_users *u, FILE *out)
{
	for (uint32_t i = 0; i < u->n; i++)
		fprintf(out, "%s%u", i ? " " : "", u->uid[i]);
}

static void print_value(const struct rvl_config *c, const struct key *k, FILE *out)
{
	const void *field = (const char *)c + k->offset;

	switch (k->kind) {
	case KIND_NODE:
	case KIND_PATH:
		fprintf(out, "%s", ((const struct rvl_node *)field)->s);
		break;
	case KIND_USERS:
		print_users(field, out);
		break;
	case KIND_MODE:
		print_mode(field, out);
		break;
	case KIND_NUMBERS:
	case KIND_PERCENTS:
		print_list(k, field, out);
		break;
	case KIND_SWITCH:
	case KIND_FOREIGN:
	case KIND_ADMITS:
	case KIND_RECONFIGURE:
		fprintf(out, "%s", words[k->kind][*(const uint64_t *)field]);
		break;
	case KIND_PERCENT:
		fprintf(out, "%.10g", (double)*(const uint64_t *)field / 1e4);
		break;
	case KIND_TIME:
		fprintf(out, "%.12gs", (double)*(const uint64_t *)field / 1e9);
		break;
	default:
		fprintf(out, "%llu", (unsigned long long)*(const uint64_t *)field);
	}
}

void rvl_config_print(const struct rvl_config *c, FILE *out)
{
	const char *section = "";

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strcmp(section, keys[i].section))
			fprintf(out, "%s[%s]\n", i ? "\n" : "", keys[i].section);
		section = keys[i].section;
		fprintf(out, "# %s\n%s=", keys[i].doc, keys[i].name);
		print_value(c, &keys[i], out);
		fputc('\n', out);
	}
}
