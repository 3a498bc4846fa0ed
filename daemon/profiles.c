// SPDX-License-Identifier: MIT
/*
 * The active profile of power-profiles-daemon, which many desktops run, selects the mode while the
 * configuration says auto. All calls are asynchronous; the bus and the daemon may be absent.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "power.h"

struct face {
	const char *name, *path;	/* the interface has the name of the bus name */
};

/* The name since version 0.20, and the name before. */
static const struct face faces[] = {
	{ "org.freedesktop.UPower.PowerProfiles", "/org/freedesktop/UPower/PowerProfiles" },
	{ "net.hadess.PowerProfiles", "/net/hadess/PowerProfiles" },
};

struct rvl_profiles {
	struct rvl_power *pw;
	sd_bus *bus;
};

static uint32_t mode_of(const char *profile)
{
	if (!strcmp(profile, "performance"))
		return RIVULET_POLICY_PERFORMANCE;
	if (!strcmp(profile, "power-saver"))
		return RIVULET_POLICY_POWERSAVE;
	/* "balanced" is the default of power-profiles-daemon; the default here is auto. */
	return RIVULET_POLICY_AUTO;
}

static int on_value(sd_bus_message *m, void *data, sd_bus_error *error)
{
	struct rvl_profiles *p = data;
	const char *profile;

	(void)error;
	if (!sd_bus_message_is_method_error(m, NULL) &&
	    sd_bus_message_read(m, "v", "s", &profile) >= 0)
		rvl_power_set_profile(p->pw, mode_of(profile));
	return 0;
}

static int ask(struct rvl_profiles *p, const struct face *f)
{
	sd_bus_message *m = NULL;
	int r = sd_bus_message_new_method_call(p->bus, &m, f->name, f->path,
					       "org.freedesktop.DBus.Properties", "Get");

	/* A power-profiles-daemon that does not run must not be started by this call. */
	r = r < 0 ? r : sd_bus_message_set_auto_start(m, false);
	r = r < 0 ? r : sd_bus_message_append(m, "ss", f->name, "ActiveProfile");
	r = r < 0 ? r : sd_bus_call_async(p->bus, NULL, m, on_value, p, 0);
	sd_bus_message_unref(m);
	return r;
}

static const struct face *face_of(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(faces); i++)
		if (!strcmp(faces[i].name, name))
			return &faces[i];
	return NULL;
}

static int on_changed(sd_bus_message *m, void *data, sd_bus_error *error)
{
	const struct face *f;
	const char *name;

	(void)error;
	if (sd_bus_message_read(m, "s", &name) < 0)
		return 0;
	f = face_of(name);
	return f ? ask(data, f) : 0;
}

static int on_owner(sd_bus_message *m, void *data, sd_bus_error *error)
{
	const char *name, *old, *now;
	struct rvl_profiles *p = data;
	const struct face *f;

	(void)error;
	if (sd_bus_message_read(m, "sss", &name, &old, &now) < 0)
		return 0;
	f = face_of(name);
	if (f && *now)
		return ask(p, f);
	if (f)
		rvl_power_set_profile(p->pw, RIVULET_POLICY_KEEP);
	return 0;
}

static int listen_to(struct rvl_profiles *p, const struct face *f)
{
	char match[256];
	int r;

	snprintf(match, sizeof(match),
		 "type='signal',interface='org.freedesktop.DBus',member='NameOwnerChanged',arg0='%s'",
		 f->name);
	r = sd_bus_add_match_async(p->bus, NULL, match, on_owner, NULL, p);
	snprintf(match, sizeof(match), "type='signal',path='%s',member='PropertiesChanged',"
		 "interface='org.freedesktop.DBus.Properties'", f->path);
	r = r < 0 ? r : sd_bus_add_match_async(p->bus, NULL, match, on_changed, NULL, p);
	return r < 0 ? r : ask(p, f);
}

struct rvl_profiles *rvl_profiles_start(struct rvl_power *pw)
{
	struct rvl_profiles *p = calloc(1, sizeof(*p));
	int r = p ? sd_bus_open_system(&p->bus) : -ENOMEM;

	if (p)
		p->pw = pw;
	r = r < 0 ? r : sd_bus_attach_event(p->bus, sd_event_source_get_event(pw->timer), 0);
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(faces); i++)
		r = listen_to(p, &faces[i]);
	if (r >= 0)
		return p;
	rvl_log(LOG_DEBUG, RVL_LOG_NONE, NULL, "no power profiles: %s", strerror(-r));
	return rvl_profiles_stop(p);
}

struct rvl_profiles *rvl_profiles_stop(struct rvl_profiles *p)
{
	if (!p)
		return NULL;
	sd_bus_detach_event(p->bus);
	sd_bus_close_unref(p->bus);
	free(p);
	return NULL;
}
