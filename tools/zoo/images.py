# SPDX-License-Identifier: MIT
"""Networks that detect objects (SSD-MobileNetV1, one like YOLOv8n) or label pixels (U-Net)."""
import itertools
import math

from classify import MOBILENETV1, separable
from wire import FLOAT, INT64

# ---- SSD ----

CLASSES = 21             # of VOC, the background first
BACKGROUND = 6.5         # of its score before softmax, so that few boxes pass, as behind training
SSD_EXTRA = ((256, 512), (128, 256), (128, 256), (64, 128))
SSD_SIZES = ((60, None), (105, 150), (150, 195), (195, 240), (240, 285), (285, 300))    # least, most
SCORE, OVERLAP, MOST = 0.25, 0.45, 100
VARIANCE = (0.1, 0.2)    # of centres and of sizes


def anchor_shapes(least, most):
    """(width, height) of the boxes of one place; the first level has fewer."""
    shapes = [(least, least)]
    if most:
        shapes.append((math.sqrt(least * most),) * 2)
    for ratio in (2, 3) if most else (2,):
        r = math.sqrt(ratio)
        shapes += [(least * r, least / r), (least / r, least * r)]
    return shapes


def grid(net, feature, axis, size):
    """Centres along one axis: a running sum of ones, made from a channel of the feature map.

    ONNX has no operator for prior boxes. This form reads the map, as the frameworks' operator does,
    and so it is a float consumer of the convolution that makes the map.
    """
    one = net.op("Slice", [feature, net.ints(0), net.ints(1), net.ints(1)])
    ones = net.op("Add", [net.op("Sub", [one, one]), net.floats([1], [1])])
    index = net.op("CumSum", [ones, net.scalar(INT64, axis)])
    centre = net.op("Add", [index, net.floats([1], [-0.5])])
    centre = net.op("Mul", [centre, net.floats([1], [1 / size])])
    return net.op("Reshape", [centre, net.ints(1, -1, 1)])


def prior_boxes(net, feature, size, sizes, image):
    """[1, places * shapes, 4]: centre, width, height, in parts of the image."""
    shapes = anchor_shapes(*sizes)
    centres = net.op("Concat", [grid(net, feature, axis, size) for axis in (3, 2)], axis=2)
    extent = net.floats([1, 1, 4 * len(shapes)],
                        (v / image for w, h in shapes for v in (0, 0, w, h)))
    pad = net.op("Concat", [centres, net.floats([1, size * size, 2], [0] * (2 * size * size))], axis=2)
    tiled = net.op("Concat", [pad] * len(shapes), axis=2) if len(shapes) > 1 else pad
    return net.op("Reshape", [net.op("Add", [tiled, extent]), net.ints(1, -1, 4)])


def head(net, feature, values, anchors, shift=(0,)):
    """Predictions of one level, [1, places * anchors, values]. The convolution is not quantised."""
    y, _ = net.conv_float(feature, values * anchors, 1, shift=shift)
    return net.op("Reshape", [net.op("Transpose", [y], perm=[0, 2, 3, 1]), net.ints(1, -1, values)])


def decode(net, offsets, priors):
    """Corners of the boxes: centres move by parts of the prior box, sizes change by exp()."""
    move, grow = net.ops("Split", [offsets, net.ints(2, 2)], 2, axis=2)
    centre, size = net.ops("Split", [priors, net.ints(2, 2)], 2, axis=2)
    move = net.op("Mul", [net.op("Mul", [move, net.floats([1], [VARIANCE[0]])]), size])
    grow = net.op("Exp", [net.op("Mul", [grow, net.floats([1], [VARIANCE[1]])])])
    centre = net.op("Add", [centre, move])
    half = net.op("Mul", [net.op("Mul", [size, grow]), net.floats([1], [0.5])])
    corners = [net.op(op, [centre, half]) for op in ("Sub", "Add")]
    return net.op("Concat", corners, axis=2)


def ssd_detections(net, offsets, logits, priors, count):
    boxes = decode(net, offsets, priors)
    scores = net.op("Transpose", [net.op("Softmax", [logits], axis=2)], perm=[0, 2, 1])
    scores = net.op("Slice", [scores, net.ints(1), net.ints(CLASSES), net.ints(1)])
    chosen = net.op("NonMaxSuppression", [boxes, scores, net.ints(MOST), net.floats([1], [OVERLAP]),
                                          net.floats([1], [SCORE])])
    net.output(boxes, [1, count, 4])
    net.output(scores, [1, CLASSES - 1, count])
    net.output(chosen, ["detections", 3], INT64)


def ssd_features(net):
    """Six pairs (quantised value, the float that the convolution makes)."""
    x = net.conv(net.image(), 32, 3, "Clip", stride=2)
    for i, (m, stride) in enumerate(MOBILENETV1):
        x = separable(net, x, m, stride)
        if i in (10, 12):
            yield x, net.float_of(x)
    for squeeze, m in SSD_EXTRA:
        x = net.conv(net.conv(x, squeeze, 1, "Clip"), m, 3, "Clip", stride=2)
        yield x, net.float_of(x)


def ssd_mobilenetv1(net):
    """SSD of 300 x 300 on MobileNetV1: 47 convolutions.

    Its 12 heads end in Transpose and its six feature maps are read by prior boxes, as floats. Where a
    convolution on the NPU must end in a quantiser that alone reads it, 18 stay on the CPU, and the
    others form six segments.
    """
    parts = {"box": [], "class": [], "prior": []}
    count = 0
    for (x, raw), sizes in zip(ssd_features(net), SSD_SIZES):
        anchors = len(anchor_shapes(*sizes))
        count += x.size ** 2 * anchors
        parts["box"].append(head(net, x, 4, anchors))
        parts["class"].append(head(net, x, CLASSES, anchors, [BACKGROUND] + [0] * (CLASSES - 1)))
        parts["prior"].append(prior_boxes(net, raw, x.size, sizes, net.dims[2]))
    joined = [net.op("Concat", parts[k], axis=1) for k in ("box", "class", "prior")]
    ssd_detections(net, *joined, count)


# ---- like YOLOv8n ----

YOLO_CLASSES, BINS = 80, 16


def silu(net, x, m, k=1, stride=1):
    return net.conv(x, m, k, "Silu", stride=stride)


def halves(net, x):
    names = net.ops("Split", [x.name, net.ints(x.channels // 2, x.channels // 2)], 2, axis=1)
    return [net.qdq(n, x.scale, x.zp, x.rms, x.mean, x.channels // 2, x.size) for n in names]


def c2f(net, x, m, n, shortcut):
    parts = halves(net, silu(net, x, m))
    for _ in range(n):
        y = silu(net, silu(net, parts[-1], m // 2, 3), m // 2, 3)
        parts.append(net.add(parts[-1], y) if shortcut else y)
    return silu(net, net.concat(parts), m)


def sppf(net, x):
    parts = [silu(net, x, x.channels // 2)]
    for _ in range(3):
        parts.append(net.max_pool(parts[-1], 5, 1, 2, grow=1.5))
    return silu(net, net.concat(parts), x.channels)


def yolo_backbone(net):
    """Feature maps of an eighth, a sixteenth and a 32nd of the image's size."""
    x, maps = silu(net, net.image(), 16, 3, 2), []
    for m, n in ((32, 1), (64, 2), (128, 2), (256, 1)):
        x = c2f(net, silu(net, x, m, 3, 2), m, n, True)
        maps.append(x)
    return maps[1], maps[2], sppf(net, x)


def yolo_neck(net, small, middle, large):
    up = c2f(net, net.concat([net.upsample(large), middle]), 128, 1, False)
    first = c2f(net, net.concat([net.upsample(up), small]), 64, 1, False)
    second = c2f(net, net.concat([silu(net, first, 64, 3, 2), up]), 128, 1, False)
    return first, second, c2f(net, net.concat([silu(net, second, 128, 3, 2), large]), 256, 1, False)


def yolo_head(net, x):
    """[1, 64 + 80, places]: distributions of four distances, and classes."""
    box = net.conv(silu(net, silu(net, x, 64, 3), 64, 3), 4 * BINS, 1, None)
    names = net.conv(silu(net, silu(net, x, 80, 3), 80, 3), YOLO_CLASSES, 1, None)
    joined = net.concat([box, names])
    return net.op("Reshape", [joined.name, net.ints(1, joined.channels, -1)])


def yolo_distances(net, box, count):
    """The mean of each distribution, [1, 4, places]."""
    x = net.op("Reshape", [box, net.ints(1, 4, BINS, count)])
    x = net.op("Softmax", [net.op("Transpose", [x], perm=[0, 2, 1, 3])], axis=1)
    y = net.op("Conv", [x, net.floats([1, BINS, 1, 1], range(BINS))], kernel_shape=[1, 1])
    return net.op("Reshape", [y, net.ints(1, 4, count)])


def yolov8n(net):
    """YOLOv8n with 80 classes: boxes as centre and size in pixels, and scores, [1, 84, places]."""
    levels = yolo_neck(net, *yolo_backbone(net))
    cells = [(x + 0.5, y + 0.5, net.dims[2] // v.size) for v in levels
             for y, x in itertools.product(range(v.size), repeat=2)]
    heads = net.op("Concat", [yolo_head(net, v) for v in levels], axis=2)
    box, names = net.ops("Split", [heads, net.ints(4 * BINS, YOLO_CLASSES)], 2, axis=1)
    near, far = net.ops("Split", [yolo_distances(net, box, len(cells)), net.ints(2, 2)], 2, axis=1)
    points = net.floats([1, 2, len(cells)], [c[i] for i in (0, 1) for c in cells])
    corners = net.op("Sub", [points, near]), net.op("Add", [points, far])
    centre = net.op("Mul", [net.op("Add", corners), net.floats([1], [0.5])])
    boxes = net.op("Concat", [centre, net.op("Sub", corners[::-1])], axis=1)
    boxes = net.op("Mul", [boxes, net.floats([1, 1, len(cells)], [c[2] for c in cells])])
    scores = net.op("Sigmoid", [names])
    net.output(net.op("Concat", [boxes, scores], axis=1), [1, 4 + YOLO_CLASSES, len(cells)])


# ---- U-Net ----

UNET_WIDTH, UNET_DEPTH, UNET_LABELS = 32, 4, 2


def twice(net, x, m):
    return net.conv(net.conv(x, m, 3, "Relu"), m, 3, "Relu")


def unet(net):
    """Four levels of 32 to 512 channels, padded convolutions, transposed convolutions of 2 x 2."""
    x, skips = twice(net, net.image(), UNET_WIDTH), []
    for i in range(1, UNET_DEPTH + 1):
        skips.append(x)
        x = twice(net, net.max_pool(x, 2, 2, grow=1.05), UNET_WIDTH << i)
    for skip in reversed(skips):
        x = twice(net, net.concat([skip, net.upconv(x, skip.channels)]), skip.channels)
    net.result(net.conv(x, UNET_LABELS, 1, None))
