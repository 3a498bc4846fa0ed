// SPDX-License-Identifier: GPL-2.0-only
/*
 * The PCI attachment. 1af4:1110 is the id of every ivshmem device. Probe therefore reads the magic
 * before it writes anything, and leaves another device as it was found.
 */
#include <linux/pci.h>

#include "rivulet_device.h"

#define IVSHMEM_VENDOR		0x1af4
#define IVSHMEM_DEVICE		0x1110
#define IVSHMEM_REGS		0	/* BAR of the doorbell */
#define IVSHMEM_MEMORY		2	/* BAR of the shared memory */
#define IVSHMEM_REGS_SIZE	256

/* Read the magic through a temporary mapping, and restore the command register afterwards. */
static int rvl_pci_look(struct pci_dev *pdev)
{
	size_t size = pci_resource_len(pdev, IVSHMEM_MEMORY);
	void __iomem *win;
	u16 command;
	int ret;

	if (pdev->class >> 8 != PCI_CLASS_MEMORY_RAM || size < RIVULET_WINDOW_SIZE ||
	    pci_resource_len(pdev, IVSHMEM_REGS) != IVSHMEM_REGS_SIZE ||
	    !(pci_resource_flags(pdev, IVSHMEM_MEMORY) & IORESOURCE_MEM))
		return -ENODEV;
	pci_read_config_word(pdev, PCI_COMMAND, &command);
	if (!(command & PCI_COMMAND_MEMORY) && pci_enable_device_mem(pdev))
		return -ENODEV;
	win = ioremap(pci_resource_start(pdev, IVSHMEM_MEMORY), RIVULET_WINDOW_SIZE);
	ret = -ENODEV;
	if (win) {
		ret = rvl_hw_identify(win, size);
		iounmap(win);
	}
	if (!(command & PCI_COMMAND_MEMORY)) {
		pci_disable_device(pdev);
		pci_write_config_word(pdev, PCI_COMMAND, command);
	}
	return ret;
}

static int rvl_pci_map(struct rvl_device *rdev)
{
	struct pci_dev *pdev = to_pci_dev(rdev->drm.dev);
	int ret;

	ret = pcim_enable_device(pdev);
	if (ret)
		return ret;
	ret = pcim_iomap_regions(pdev, BIT(IVSHMEM_REGS) | BIT(IVSHMEM_MEMORY), "rivulet");
	if (ret)
		return ret;
	rdev->bell = pcim_iomap_table(pdev)[IVSHMEM_REGS];
	rdev->win = pcim_iomap_table(pdev)[IVSHMEM_MEMORY];
	return rvl_power_on(rdev);
}

/* The vectors are managed: pcim_enable_device() was called before. */
static int rvl_pci_irq(struct rvl_device *rdev)
{
	struct pci_dev *pdev = to_pci_dev(rdev->drm.dev);
	int ret;

	ret = pci_alloc_irq_vectors(pdev, 1, 1, PCI_IRQ_MSIX | PCI_IRQ_MSI);
	if (ret < 0)
		return ret;
	return pci_irq_vector(pdev, 0);
}

static bool rvl_pci_master(struct rvl_device *rdev, bool on)
{
	if (on)
		pci_set_master(to_pci_dev(rdev->drm.dev));
	else
		pci_clear_master(to_pci_dev(rdev->drm.dev));
	return !on;
}

static const struct rvl_bus_ops rvl_pci_bus = {
	.irq = rvl_pci_irq,
	.master = rvl_pci_master,
};

static int rvl_pci_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct rvl_device *rdev;
	int ret;

	ret = rvl_pci_look(pdev);
	if (ret)
		return ret;
	rdev = rvl_device_alloc(&pdev->dev, &rvl_pci_bus);
	if (IS_ERR(rdev))
		return PTR_ERR(rdev);
	ret = rvl_pci_map(rdev);
	if (ret)
		return ret;
	return rvl_device_start(rdev);
}

static void rvl_pci_remove(struct pci_dev *pdev)
{
	rvl_device_remove(pci_get_drvdata(pdev));
}

static void rvl_pci_shutdown(struct pci_dev *pdev)
{
	rvl_device_shutdown(pci_get_drvdata(pdev));
}

static const struct pci_device_id rvl_pci_ids[] = {
	{ PCI_DEVICE_SUB(IVSHMEM_VENDOR, IVSHMEM_DEVICE, IVSHMEM_VENDOR, 0x1100) },
	{ }
};
MODULE_DEVICE_TABLE(pci, rvl_pci_ids);

struct pci_driver rvl_pci_driver = {
	.name = "rivulet",
	.id_table = rvl_pci_ids,
	.probe = rvl_pci_probe,
	.remove = rvl_pci_remove,
	.shutdown = rvl_pci_shutdown,
	.dev_groups = rvl_groups,
	.driver.pm = pm_ptr(&rvl_pm_ops),
};
