// SPDX-License-Identifier: GPL-2.0-only
/*
 * The platform attachment. The Device Tree (dts/npu/rivulet,npu.yaml) names window, interrupt,
 * clocks, reset line, supply and operating points. A clock always has the rate of the level in
 * force.
 */
#include <linux/clk.h>
#include <linux/delay.h>
#include <linux/fpga/fpga-mgr.h>
#include <linux/mod_devicetable.h>
#include <linux/of.h>
#include <linux/platform_device.h>
#include <linux/pm_opp.h>
#include <linux/reset.h>

#include "rivulet_device.h"

/*
 * A platform bus cannot prevent mastering, so that the device is stopped by its reset line. The
 * registers then have their values after power on. Without a reset line nothing proves that the
 * device is stopped: its clocks may have other users, and an IOMMU may translate an address for
 * some time after it was unmapped.
 */
static bool rvl_platform_master(struct rvl_device *rdev, bool on)
{
	int ret;

	if (on || !rdev->reset)
		return false;
	/* This is long enough for any reset line of a programmable device. */
	ret = reset_control_assert(rdev->reset);
	fsleep(10);
	reset_control_deassert(rdev->reset);
	fsleep(10);
	if (ret)
		drm_err(&rdev->drm, "the reset line cannot be asserted (%d)\n", ret);
	return !ret;
}

static int rvl_platform_power(struct rvl_device *rdev, bool on)
{
	if (on)
		return clk_bulk_prepare_enable(rdev->clk_count, rdev->clks);
	clk_bulk_disable_unprepare(rdev->clk_count, rdev->clks);
	return 0;
}

static int rvl_platform_irq(struct rvl_device *rdev)
{
	int irq;

	irq = platform_get_irq_optional(to_platform_device(rdev->drm.dev), 0);
	return irq == -ENXIO ? 0 : irq;
}

static int rvl_platform_set_rate(struct rvl_device *rdev, u32 level)
{
	return dev_pm_opp_set_rate(rdev->drm.dev, rdev->info.level[level].hz);
}

static const struct rvl_bus_ops rvl_platform_bus = {
	.irq = rvl_platform_irq,
	.master = rvl_platform_master,
	.power = rvl_platform_power,
	.set_rate = rvl_platform_set_rate,
};

/* Add the operating points of the Device Tree. Without any, those of the device are used. */
static int rvl_platform_opps(struct device *dev)
{
	static const char *const supplies[] = { "core", NULL };
	int ret;

	ret = devm_pm_opp_set_regulators(dev, supplies);
	if (!ret || ret == -ENODEV)
		ret = devm_pm_opp_of_add_table(dev);
	return ret == -ENODEV ? 0 : ret;
}

/*
 * The FPGA manager of the region that holds @np. It is the region's own, or that of the nearest
 * enclosing region. NULL where the node is in no region. The caller puts it.
 */
static struct fpga_manager *rvl_platform_fpga(struct device_node *np)
{
	struct device_node *region, *manager;
	struct fpga_manager *mgr = NULL;

	for (region = of_get_parent(np); region && !mgr; region = of_get_next_parent(region)) {
		if (!of_device_is_compatible(region, "fpga-region"))
			continue;
		manager = of_parse_phandle(region, "fpga-mgr", 0);
		if (!manager)
			continue;
		mgr = of_fpga_mgr_get(manager);
		of_node_put(manager);
	}
	of_node_put(region);
	return mgr;
}

/*
 * Does the Device Tree say that the logic around @np was configured before the system booted? The
 * FPGA manager did not program it in this case, and may not be able to read its state.
 */
static bool rvl_platform_external(struct device_node *np)
{
	struct device_node *region;
	bool external = false;

	for (region = of_get_parent(np); region && !external; region = of_get_next_parent(region))
		external = of_device_is_compatible(region, "fpga-region") &&
			   of_property_read_bool(region, "external-fpga-config");
	of_node_put(region);
	return external;
}

/*
 * Is the programmable logic configured? On many parts a read of the window would otherwise stall
 * the bus, and with it the processor, for ever. Returns 0, -EPROBE_DEFER before the FPGA manager is
 * there, or -ENODEV. The logic of a node outside of any FPGA region is taken to be configured.
 */
static int rvl_platform_loaded(struct device *dev)
{
	enum fpga_mgr_states state;
	struct fpga_manager *mgr;

	if (!IS_ENABLED(CONFIG_OF_FPGA_REGION))
		return 0;
	mgr = rvl_platform_fpga(dev->of_node);
	if (IS_ERR(mgr))
		return dev_err_probe(dev, -EPROBE_DEFER, "no FPGA manager\n");
	if (!mgr)
		return 0;
	state = mgr->state;
	fpga_mgr_put(mgr);
	if (state == FPGA_MGR_STATE_OPERATING)
		return 0;
	if (state == FPGA_MGR_STATE_UNKNOWN) {
		if (rvl_platform_external(dev->of_node))
			return 0;
		return dev_err_probe(dev, -ENODEV,
				     "the state of the programmable logic is unknown\n");
	}
	return dev_err_probe(dev, -ENODEV, "the programmable logic is not configured\n");
}

static int rvl_platform_get(struct device *dev, struct rvl_device *rdev)
{
	int ret;

	rdev->clk_count = devm_clk_bulk_get_all(dev, &rdev->clks);
	if (rdev->clk_count < 0)
		return dev_err_probe(dev, rdev->clk_count, "no clocks\n");
	rdev->reset = devm_reset_control_get_optional_exclusive(dev, NULL);
	if (IS_ERR(rdev->reset))
		return dev_err_probe(dev, PTR_ERR(rdev->reset), "no reset line\n");
	ret = rvl_platform_opps(dev);
	if (ret)
		return dev_err_probe(dev, ret, "no operating points\n");
	return 0;
}

/*
 * devm does not disable runtime PM here, because it would first suspend the device, after this
 * function has disabled the clocks.
 */
static void rvl_platform_stop(struct rvl_device *rdev)
{
	pm_runtime_disable(rdev->drm.dev);
	pm_runtime_put_noidle(rdev->drm.dev);
	rvl_power_off(rdev);
}

static int rvl_platform_start(struct rvl_device *rdev)
{
	int ret;

	ret = rvl_power_on(rdev);
	if (ret)
		return ret;
	rvl_platform_master(rdev, false);
	pm_runtime_get_noresume(rdev->drm.dev);
	pm_runtime_set_active(rdev->drm.dev);
	pm_runtime_enable(rdev->drm.dev);
	ret = rvl_hw_identify(rdev->win, RIVULET_WINDOW_SIZE);
	if (ret)
		dev_err(rdev->drm.dev, "no NPU answers: is the programmable logic loaded?\n");
	else
		ret = rvl_device_start(rdev);
	if (ret)
		rvl_platform_stop(rdev);
	return ret;
}

static int rvl_platform_probe(struct platform_device *pdev)
{
	struct rvl_device *rdev = rvl_device_alloc(&pdev->dev, &rvl_platform_bus);
	struct resource *res;
	int ret;

	if (IS_ERR(rdev))
		return PTR_ERR(rdev);
	rdev->rate_level = -1;
	ret = rvl_platform_loaded(&pdev->dev);
	if (ret)
		return ret;
	ret = rvl_platform_get(&pdev->dev, rdev);
	if (ret)
		return ret;
	rdev->win = devm_platform_get_and_ioremap_resource(pdev, 0, &res);
	if (IS_ERR(rdev->win))
		return PTR_ERR(rdev->win);
	if (resource_size(res) < RIVULET_WINDOW_SIZE)
		return dev_err_probe(&pdev->dev, -EINVAL, "%pR is too small a window\n", res);
	return rvl_platform_start(rdev);
}

static void rvl_platform_remove(struct platform_device *pdev)
{
	struct rvl_device *rdev = platform_get_drvdata(pdev);

	rvl_device_remove(rdev);
	rvl_platform_stop(rdev);
}

static void rvl_platform_shutdown(struct platform_device *pdev)
{
	rvl_device_shutdown(platform_get_drvdata(pdev));
}

static const struct of_device_id rvl_platform_ids[] = {
	{ .compatible = "rivulet,npu-1.0" },
	{ }
};
MODULE_DEVICE_TABLE(of, rvl_platform_ids);

struct platform_driver rvl_platform_driver = {
	.probe = rvl_platform_probe,
	.remove = rvl_platform_remove,
	.shutdown = rvl_platform_shutdown,
	.driver = {
		.name = "rivulet",
		.of_match_table = rvl_platform_ids,
		.dev_groups = rvl_groups,
		.pm = pm_ptr(&rvl_pm_ops),
	},
};
