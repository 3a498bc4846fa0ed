// SPDX-License-Identifier: GPL-2.0-only
/*
 * Functions of the kernel that tests of the driver need and userspace does not have: adding fences
 * of any usage to the reservation of a dma-buf, counting such fences, occupying a device number,
 * and delaying a worker at one point. Closing the file undoes what it has done.
 */
#include <linux/clocksource.h>
#include <linux/delay.h>
#include <linux/device.h>
#include <linux/dma-buf.h>
#include <linux/dma-fence.h>
#include <linux/dma-resv.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/slab.h>
#include <linux/stacktrace.h>
#include <linux/uaccess.h>

#include "harness.h"

/* One open file. Not more than one thread may use it. */
struct harness {
	struct dma_fence *fence;	/* not signalled yet, or NULL */
	struct device *device;		/* a device that occupies a number, or NULL */
	bool late;			/* it has registered the delaying clock */
};

static struct class *harness_class;
static DEFINE_SPINLOCK(harness_lock);	/* of all fences */

static const char *harness_name(struct dma_fence *fence)
{
	return "harness";
}

static const struct dma_fence_ops harness_fence_ops = {
	.get_driver_name = harness_name,
	.get_timeline_name = harness_name,
};

static int harness_add_to(struct harness *h, struct dma_buf *buf, u32 usage)
{
	int ret;

	ret = dma_resv_lock_interruptible(buf->resv, NULL);
	if (ret)
		return ret;
	ret = dma_resv_reserve_fences(buf->resv, 1);
	if (!ret)
		dma_resv_add_fence(buf->resv, h->fence, usage);
	dma_resv_unlock(buf->resv);
	return ret;
}

static int harness_add(struct harness *h, const struct harness_fence *args)
{
	struct dma_buf *buf;
	int ret;

	if (h->fence)
		return -EBUSY;
	if (args->usage > DMA_RESV_USAGE_BOOKKEEP)
		return -EINVAL;
	buf = dma_buf_get(args->dmabuf);
	if (IS_ERR(buf))
		return PTR_ERR(buf);
	h->fence = kzalloc(sizeof(*h->fence), GFP_KERNEL);
	if (!h->fence) {
		dma_buf_put(buf);
		return -ENOMEM;
	}
	dma_fence_init(h->fence, &harness_fence_ops, &harness_lock, dma_fence_context_alloc(1), 1);
	ret = harness_add_to(h, buf, args->usage);
	dma_buf_put(buf);
	return ret;
}

static void harness_signal(struct harness *h)
{
	if (!h->fence)
		return;
	dma_fence_signal(h->fence);
	dma_fence_put(h->fence);
	h->fence = NULL;
}

static int harness_count(struct harness_fence *args)
{
	struct dma_resv_iter cursor;
	struct dma_fence *fence;
	struct dma_buf *buf;

	buf = dma_buf_get(args->dmabuf);
	if (IS_ERR(buf))
		return PTR_ERR(buf);
	args->count = 0;
	dma_resv_lock(buf->resv, NULL);
	dma_resv_for_each_fence(&cursor, buf->resv, args->usage, fence)
		args->count += dma_resv_iter_usage(&cursor) == args->usage &&
			       !dma_fence_is_signaled(fence);
	dma_resv_unlock(buf->resv);
	dma_buf_put(buf);
	return 0;
}

static int harness_devt(struct harness *h, const struct harness_devt *args)
{
	struct device *device;

	if (h->device)
		return -EBUSY;
	device = device_create(harness_class, NULL, MKDEV(args->major, args->minor), NULL,
			       "rivulet-harness-%u-%u", args->major, args->minor);
	if (IS_ERR(device))
		return PTR_ERR(device);
	h->device = device;
	return 0;
}

/* The delay of the one file that has @late set. */
static char late_function[sizeof_field(struct harness_late, function) + 1];
static u32 late_ms;
static atomic_t late_armed, late_begun;
static DEFINE_MUTEX(late_lock);		/* held to begin and to end the use of the delaying clock */
static bool late_used;

/* Is a function of this name, or one that it called, reading the time? */
static bool late_called(void)
{
	unsigned long entry[32];
	char name[80];
	u32 i, n;

	n = stack_trace_save(entry, ARRAY_SIZE(entry), 2);
	for (i = 0; i < n; i++) {
		/* The name of the module follows, after a space. */
		snprintf(name, sizeof(name), "%ps ", (void *)entry[i]);
		if (!strncmp(name, late_function, strlen(late_function)))
			return true;
	}
	return false;
}

/*
 * QEMU without KVM stretches the turns of a delay loop as much as its host is busy. Where the clock
 * stands still without interrupts, the wait ends after as many turns as it has milliseconds.
 */
static void wait_busily(unsigned int ms)
{
	u64 end = local_clock() + (u64)ms * NSEC_PER_MSEC;

	for (; ms && local_clock() < end; ms--)
		mdelay(1);
}

/*
 * A clock source is used, because it is the only function that the driver calls between reading the
 * device's state and taking the lock, and that a module may replace without a change of running
 * code.
 */
static u64 late_read(struct clocksource *clock)
{
	if (atomic_read(&late_armed) && in_task() && current->flags & PF_WQ_WORKER &&
	    late_called() && atomic_xchg(&late_armed, 0)) {
		atomic_set(&late_begun, 1);
		wait_busily(late_ms);
	}
	return local_clock();
}

/* Its rating makes it the kernel's clock while it is registered. */
static struct clocksource late_clock = {
	.name = "rivulet-harness",
	.rating = 499,
	.read = late_read,
	.mask = CLOCKSOURCE_MASK(64),
	.flags = CLOCK_SOURCE_IS_CONTINUOUS,
	.owner = THIS_MODULE,
};

static int harness_late(struct harness *h, const struct harness_late *args)
{
	int ret;

	if (args->ms > 10000 || !args->function[0] ||
	    strnlen(args->function, sizeof(args->function)) == sizeof(args->function))
		return -EINVAL;
	guard(mutex)(&late_lock);
	if (late_used)
		return -EBUSY;
	/* The module's name, or nothing for a function of the kernel, follows the space. */
	snprintf(late_function, sizeof(late_function), "%s ", args->function);
	late_ms = args->ms;
	atomic_set(&late_begun, 0);
	ret = clocksource_register_hz(&late_clock, NSEC_PER_SEC);
	if (ret)
		return ret;
	atomic_set(&late_armed, 1);
	late_used = true;
	h->late = true;
	return 0;
}

static void harness_in_time(struct harness *h)
{
	int ret;

	if (!h->late)
		return;
	guard(mutex)(&late_lock);
	atomic_set(&late_armed, 0);
	ret = clocksource_unregister(&late_clock);
	if (ret)
		pr_warn("rivulet-harness: the clock source stays registered (%d)\n", ret);
	late_used = ret;
}

static int harness_open(struct inode *inode, struct file *file)
{
	file->private_data = kzalloc(sizeof(struct harness), GFP_KERNEL);
	return file->private_data ? 0 : -ENOMEM;
}

static int harness_release(struct inode *inode, struct file *file)
{
	struct harness *h = file->private_data;

	harness_signal(h);
	harness_in_time(h);
	if (h->device)
		device_unregister(h->device);
	kfree(h);
	return 0;
}

static long harness_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct harness *h = file->private_data;
	void __user *user = (void __user *)arg;
	struct harness_fence fence = {};
	struct harness_devt devt = {};
	struct harness_late late = {};
	int ret;

	switch (cmd) {
	case HARNESS_ADD:
		if (copy_from_user(&fence, user, sizeof(fence)))
			return -EFAULT;
		return harness_add(h, &fence);
	case HARNESS_SIGNAL:
		harness_signal(h);
		return 0;
	case HARNESS_COUNT:
		if (copy_from_user(&fence, user, sizeof(fence)))
			return -EFAULT;
		ret = harness_count(&fence);
		if (!ret && copy_to_user(user, &fence, sizeof(fence)))
			ret = -EFAULT;
		return ret;
	case HARNESS_DEVT:
		if (copy_from_user(&devt, user, sizeof(devt)))
			return -EFAULT;
		return harness_devt(h, &devt);
	case HARNESS_LATE:
		if (copy_from_user(&late, user, sizeof(late)))
			return -EFAULT;
		return harness_late(h, &late);
	case HARNESS_BEGUN:
		return atomic_read(&late_begun);
	default:
		return -ENOTTY;
	}
}

static const struct file_operations harness_fops = {
	.owner = THIS_MODULE,
	.open = harness_open,
	.release = harness_release,
	.unlocked_ioctl = harness_ioctl,
};

static struct miscdevice harness_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "rivulet-harness",
	.mode = 0600,
	.fops = &harness_fops,
};

static int __init harness_init(void)
{
	int ret;

	harness_class = class_create("rivulet-harness");
	if (IS_ERR(harness_class))
		return PTR_ERR(harness_class);
	ret = misc_register(&harness_device);
	if (ret)
		class_destroy(harness_class);
	return ret;
}
module_init(harness_init);

static void __exit harness_exit(void)
{
	misc_deregister(&harness_device);
	class_destroy(harness_class);
}
module_exit(harness_exit);

MODULE_DESCRIPTION("What tests of the Rivulet NPU's driver need of the kernel");
MODULE_LICENSE("GPL");
MODULE_IMPORT_NS(DMA_BUF);
