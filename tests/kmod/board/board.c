// SPDX-License-Identifier: GPL-2.0-only
/*
 * Providers that a board has for an NPU in the Device Tree: a clock of any rate, a supply, a reset
 * line, a power domain and an FPGA manager. Each records the requests that it gets in debugfs,
 * rivulet-board/events, one line for each. A change of rate also records whether the NPU was held
 * at that moment. A name written to rivulet-board/overlay applies that overlay, and 0 or 1 written
 * to rivulet-board/configured sets what the FPGA manager reports.
 */
#include <linux/clk-provider.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/firmware.h>
#include <linux/fpga/fpga-mgr.h>
#include <linux/io.h>
#include <linux/mod_devicetable.h>
#include <linux/module.h>
#include <linux/of.h>
#include <linux/platform_device.h>
#include <linux/pm_domain.h>
#include <linux/regulator/driver.h>
#include <linux/regulator/of_regulator.h>
#include <linux/reset-controller.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>

#include "rivulet_dev.h"

#define EVENTS		4096
#define FIRST_HZ	50000000	/* initial rate, which is no level of any board */

struct event {
	const char *what;
	unsigned long value;
	u32 held;
};

struct board {
	void __iomem *win;
	struct clk_hw clk;
	unsigned long hz;
	u32 rate_delay_ms;	/* duration of a change of the rate */
	u32 clock_fails;	/* the clock cannot be enabled */
	u32 reset_fails;	/* the reset line cannot be asserted */
	struct reset_controller_dev reset;
	struct generic_pm_domain domain;
	struct regulator_desc supply;
	int microvolt;
	struct device *dev;
	struct fpga_manager *fpga;
	int overlay;		/* changeset, 0: none applied */
	struct dentry *dir;

	spinlock_t lock;	/* guards @count and @events */
	u32 count;
	struct event events[EVENTS];
};

static void note(struct board *b, const char *what, unsigned long value)
{
	unsigned long flags;

	spin_lock_irqsave(&b->lock, flags);
	if (b->count < EVENTS)
		b->events[b->count++] = (struct event){ what, value,
						       readl(b->win + RIVULET_REG_HELD) };
	spin_unlock_irqrestore(&b->lock, flags);
}

static int events_show(struct seq_file *m, void *data)
{
	struct board *b = m->private;
	u32 i;

	for (i = 0; i < b->count; i++)
		seq_printf(m, "%s %lu held %u\n", b->events[i].what, b->events[i].value,
			   b->events[i].held);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(events);

static int clock_prepare(struct clk_hw *hw)
{
	struct board *b = container_of(hw, struct board, clk);

	if (READ_ONCE(b->clock_fails))
		return -EIO;
	note(b, "clock", 1);
	return 0;
}

static void clock_unprepare(struct clk_hw *hw)
{
	note(container_of(hw, struct board, clk), "clock", 0);
}

static unsigned long clock_rate(struct clk_hw *hw, unsigned long parent)
{
	return container_of(hw, struct board, clk)->hz;
}

/*
 * Drivers of clocks that firmware or a bus controls allocate memory here. might_alloc() makes
 * lockdep report a caller in a fence-signalling path. The lock of the clock framework does not,
 * because it is taken by trylock first.
 */
static int clock_determine(struct clk_hw *hw, struct clk_rate_request *req)
{
	might_alloc(GFP_KERNEL);
	return 0;
}

static int clock_set(struct clk_hw *hw, unsigned long hz, unsigned long parent)
{
	struct board *b = container_of(hw, struct board, clk);

	might_alloc(GFP_KERNEL);
	msleep(READ_ONCE(b->rate_delay_ms));
	b->hz = hz;
	note(b, "rate", hz);
	return 0;
}

static const struct clk_ops clock_ops = {
	.prepare = clock_prepare,
	.unprepare = clock_unprepare,
	.recalc_rate = clock_rate,
	.determine_rate = clock_determine,
	.set_rate = clock_set,
};

static int board_clock(struct device *dev, struct board *b)
{
	struct clk_init_data init = { .name = "npu-core", .ops = &clock_ops };
	int ret;

	b->hz = FIRST_HZ;
	b->clk.init = &init;
	ret = devm_clk_hw_register(dev, &b->clk);
	return ret ?: devm_of_clk_add_hw_provider(dev, of_clk_hw_simple_get, &b->clk);
}

static int reset_assert(struct reset_controller_dev *r, unsigned long id)
{
	struct board *b = container_of(r, struct board, reset);

	if (READ_ONCE(b->reset_fails))
		return -EIO;
	note(b, "reset", 1);
	return 0;
}

static int reset_deassert(struct reset_controller_dev *r, unsigned long id)
{
	note(container_of(r, struct board, reset), "reset", 0);
	return 0;
}

static const struct reset_control_ops reset_ops = {
	.assert = reset_assert,
	.deassert = reset_deassert,
};

static int reset_xlate(struct reset_controller_dev *r, const struct of_phandle_args *args)
{
	return 0;
}

static int board_reset(struct device *dev, struct board *b)
{
	b->reset.ops = &reset_ops;
	b->reset.owner = THIS_MODULE;
	b->reset.of_node = dev->of_node;
	b->reset.of_xlate = reset_xlate;
	b->reset.nr_resets = 1;
	return devm_reset_controller_register(dev, &b->reset);
}

static int domain_on(struct generic_pm_domain *d)
{
	note(container_of(d, struct board, domain), "power", 1);
	return 0;
}

static int domain_off(struct generic_pm_domain *d)
{
	note(container_of(d, struct board, domain), "power", 0);
	return 0;
}

static int board_domain(struct device *dev, struct board *b)
{
	int ret;

	b->domain.name = "npu";
	b->domain.power_on = domain_on;
	b->domain.power_off = domain_off;
	ret = pm_genpd_init(&b->domain, NULL, true);
	return ret ?: of_genpd_add_provider_simple(dev->of_node, &b->domain);
}

static int supply_set(struct regulator_dev *r, int low, int high, unsigned int *selector)
{
	struct board *b = rdev_get_drvdata(r);

	b->microvolt = low;
	note(b, "volt", low);
	return 0;
}

static int supply_get(struct regulator_dev *r)
{
	struct board *b = rdev_get_drvdata(r);

	return b->microvolt;
}

static const struct regulator_ops supply_ops = {
	.set_voltage = supply_set,
	.get_voltage = supply_get,
};

static int board_supply(struct device *dev, struct board *b)
{
	struct regulator_config config = { .dev = dev, .driver_data = b };

	b->microvolt = 700000;
	b->supply.name = "npu-core";
	b->supply.of_match = "regulator";
	b->supply.ops = &supply_ops;
	b->supply.type = REGULATOR_VOLTAGE;
	b->supply.owner = THIS_MODULE;
	b->supply.continuous_voltage_range = true;
	return PTR_ERR_OR_ZERO(devm_regulator_register(dev, &b->supply, &config));
}

static int fpga_write_init(struct fpga_manager *mgr, struct fpga_image_info *info,
			   const char *buf, size_t count)
{
	return 0;
}

static int fpga_write(struct fpga_manager *mgr, const char *buf, size_t count)
{
	note(mgr->priv, "program", count);
	return 0;
}

static int fpga_write_complete(struct fpga_manager *mgr, struct fpga_image_info *info)
{
	return 0;
}

static enum fpga_mgr_states fpga_state(struct fpga_manager *mgr)
{
	return FPGA_MGR_STATE_POWER_OFF;
}

static const struct fpga_manager_ops fpga_ops = {
	.state = fpga_state,
	.write_init = fpga_write_init,
	.write = fpga_write,
	.write_complete = fpga_write_complete,
};

static int board_fpga(struct device *dev, struct board *b)
{
	b->fpga = devm_fpga_mgr_register(dev, "npu-logic", &fpga_ops, b);
	return PTR_ERR_OR_ZERO(b->fpga);
}

static int configured_set(void *data, u64 on)
{
	struct board *b = data;

	b->fpga->state = on ? FPGA_MGR_STATE_OPERATING : FPGA_MGR_STATE_POWER_OFF;
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(configured_fops, NULL, configured_set, "%llu\n");

/*
 * Write the name of an overlay on the firmware path. The overlay stays applied until the machine
 * stops.
 */
static ssize_t overlay_write(struct file *file, const char __user *from, size_t size, loff_t *at)
{
	struct board *b = file->private_data;
	const struct firmware *fw;
	char name[64] = "";
	ssize_t ret;

	ret = simple_write_to_buffer(name, sizeof(name) - 1, at, from, size);
	if (ret < 0)
		return ret;
	if (b->overlay)
		return -EBUSY;
	ret = request_firmware(&fw, strim(name), b->dev);
	if (ret)
		return ret;
	ret = of_overlay_fdt_apply(fw->data, fw->size, &b->overlay, NULL);
	release_firmware(fw);
	return ret ?: size;
}

static const struct file_operations overlay_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = overlay_write,
};

static int board_probe(struct platform_device *pdev)
{
	struct resource *res = platform_get_resource(pdev, IORESOURCE_MEM, 0);
	struct device *dev = &pdev->dev;
	struct board *b = devm_kzalloc(dev, sizeof(*b), GFP_KERNEL);
	int ret;

	if (!b || !res)
		return b ? -EINVAL : -ENOMEM;
	spin_lock_init(&b->lock);
	/* The window is mapped without a request for its region, which the NPU's driver makes. */
	b->win = devm_ioremap(dev, res->start, resource_size(res));
	if (!b->win)
		return -ENOMEM;
	b->dev = dev;
	ret = board_clock(dev, b) ?: board_reset(dev, b) ?: board_supply(dev, b) ?:
	      board_domain(dev, b) ?: board_fpga(dev, b);
	if (ret)
		return dev_err_probe(dev, ret, "no board\n");
	b->dir = debugfs_create_dir("rivulet-board", NULL);
	debugfs_create_file("events", 0400, b->dir, b, &events_fops);
	debugfs_create_u32("rate_delay_ms", 0600, b->dir, &b->rate_delay_ms);
	debugfs_create_u32("clock_fails", 0600, b->dir, &b->clock_fails);
	debugfs_create_u32("reset_fails", 0600, b->dir, &b->reset_fails);
	debugfs_create_file("overlay", 0200, b->dir, b, &overlay_fops);
	debugfs_create_file_unsafe("configured", 0200, b->dir, b, &configured_fops);
	return 0;
}

static const struct of_device_id board_ids[] = {
	{ .compatible = "rivulet,test-board" },
	{ }
};
MODULE_DEVICE_TABLE(of, board_ids);

/* The providers are in use until the machine stops, so that the driver cannot be unbound. */
static struct platform_driver board_driver = {
	.probe = board_probe,
	.driver = {
		.name = "rivulet-board",
		.of_match_table = board_ids,
		.suppress_bind_attrs = true,
	},
};

static int __init board_init(void)
{
	return platform_driver_register(&board_driver);
}
module_init(board_init);

MODULE_DESCRIPTION("A board for the Rivulet NPU, for tests");
MODULE_LICENSE("GPL");
