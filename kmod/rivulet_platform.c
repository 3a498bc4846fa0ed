// SPDX-License-Identifier: GPL-2.0-only
/*
 * The platform attachment: Device Tree names window, interrupt, clocks, reset line, supply and
 * operating points (dts/npu/rivulet,npu.yaml), and all but the window may be absent. Where there
 * is a clock, the system owns it, and its rate is always that of the level in force.
 */
#include <linux/clk.h>
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/interrupt.h>
#include <linux/mod_devicetable.h>
#include <linux/platform_device.h>
#include <linux/pm_opp.h>
#include <linux/reset.h>

#include "rivulet_drv.h"
#include "rivulet_hw.h"
#include "rivulet_job.h"

/* Long enough for any reset line of a programmable device. */
#define RVL_RESET_US	10

struct rvl_platform {
	struct clk_bulk_data *clks;
	int clk_count;
	struct reset_control *reset;
};

/* The reset line, where there is one, drops whatever runs: the window is as after power on. */
static void rvl_platform_master(struct rvl_device *rdev, bool on)
{
	struct rvl_platform *plat = rdev->bus_data;

	if (on)
		return;
	reset_control_assert(plat->reset);
	fsleep(RVL_RESET_US);
	reset_control_deassert(plat->reset);
	fsleep(RVL_RESET_US);
}

static int rvl_platform_power(struct rvl_device *rdev, bool on)
{
	struct rvl_platform *plat = rdev->bus_data;

	if (on)
		return clk_bulk_prepare_enable(plat->clk_count, plat->clks);
	clk_bulk_disable_unprepare(plat->clk_count, plat->clks);
	return 0;
}

static int rvl_platform_irq_setup(struct rvl_device *rdev)
{
	int irq = platform_get_irq_optional(to_platform_device(rdev->drm.dev), 0), ret;

	if (irq == -ENXIO)
		return 0;
	if (irq < 0)
		return irq;
	ret = request_irq(irq, rvl_irq, 0, "rivulet", rdev);
	if (!ret)
		rdev->irq = irq;
	return ret;
}

static void rvl_platform_irq_teardown(struct rvl_device *rdev)
{
	free_irq(rdev->irq, rdev);
}

static int rvl_platform_set_rate(struct rvl_device *rdev, u32 level)
{
	return dev_pm_opp_set_rate(rdev->drm.dev, rdev->info.level[level].hz);
}

static const struct rvl_bus_ops rvl_platform_bus = {
	.irq_setup = rvl_platform_irq_setup,
	.irq_teardown = rvl_platform_irq_teardown,
	.master = rvl_platform_master,
	.power = rvl_platform_power,
	.set_rate = rvl_platform_set_rate,
};

/* Operating points of the tree; without them those of the device are used. */
static int rvl_platform_opps(struct device *dev)
{
	static const char *const supplies[] = { "core", NULL };
	int ret;

	ret = devm_pm_opp_set_regulators(dev, supplies);
	if (!ret || ret == -ENODEV)
		ret = devm_pm_opp_of_add_table(dev);
	return ret == -ENODEV ? 0 : ret;
}

static int rvl_platform_get(struct device *dev, struct rvl_platform *plat)
{
	int ret;

	plat->clk_count = devm_clk_bulk_get_all(dev, &plat->clks);
	if (plat->clk_count < 0)
		return dev_err_probe(dev, plat->clk_count, "no clocks\n");
	plat->reset = devm_reset_control_get_optional_exclusive(dev, NULL);
	if (IS_ERR(plat->reset))
		return dev_err_probe(dev, PTR_ERR(plat->reset), "no reset line\n");
	ret = rvl_platform_opps(dev);
	return ret ? dev_err_probe(dev, ret, "no operating points\n") : 0;
}

static int rvl_platform_start(struct rvl_device *rdev)
{
	int ret;

	ret = rvl_platform_power(rdev, true);
	if (ret)
		return ret;
	rvl_platform_master(rdev, false);
	ret = rvl_hw_identify(rdev->win, RIVULET_WINDOW_SIZE);
	if (ret)
		dev_err(rdev->drm.dev, "no NPU answers: is the programmable logic loaded?\n");
	ret = ret ?: rvl_device_start(rdev);
	if (ret)
		rvl_platform_power(rdev, false);
	return ret;
}

static int rvl_platform_probe(struct platform_device *pdev)
{
	struct rvl_platform *plat;
	struct rvl_device *rdev;
	struct resource *res;
	int ret;

	plat = devm_kzalloc(&pdev->dev, sizeof(*plat), GFP_KERNEL);
	if (!plat)
		return -ENOMEM;
	ret = rvl_platform_get(&pdev->dev, plat);
	if (ret)
		return ret;
	rdev = rvl_device_alloc(&pdev->dev, &rvl_platform_bus);
	if (IS_ERR(rdev))
		return PTR_ERR(rdev);
	rdev->bus_data = plat;
	rdev->clocked = plat->clk_count;
	rdev->rate_level = -1;
	rdev->win = devm_platform_get_and_ioremap_resource(pdev, 0, &res);
	if (IS_ERR(rdev->win))
		return PTR_ERR(rdev->win);
	if (resource_size(res) < RIVULET_WINDOW_SIZE)
		return dev_err_probe(&pdev->dev, -EINVAL, "%pR is too small a window\n", res);
	ret = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	return ret ?: rvl_platform_start(rdev);
}

static void rvl_platform_remove(struct platform_device *pdev)
{
	struct rvl_device *rdev = platform_get_drvdata(pdev);

	rvl_device_remove(rdev);
	rvl_platform_power(rdev, false);
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

static struct platform_driver rvl_platform_driver = {
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

/**
 * rvl_platform_register - offer the driver to the platform bus
 */
int __init rvl_platform_register(void)
{
	return platform_driver_register(&rvl_platform_driver);
}

/**
 * rvl_platform_unregister - undo rvl_platform_register(); removes all devices
 */
void rvl_platform_unregister(void)
{
	platform_driver_unregister(&rvl_platform_driver);
}
