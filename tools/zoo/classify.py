# SPDX-License-Identifier: MIT
"""Networks that classify images of 224 x 224, in the form of inference: normalisations are folded."""


def divisible(v):
    """The multiple of 8 that MobileNetV3 takes for @v channels."""
    near = max(8, int(v + 4) // 8 * 8)
    return near + 8 if near < 0.9 * v else near


def vgg16_features(net):
    """The thirteen convolutions and five pools of VGG16 (configuration D)."""
    x = net.image()
    for m, n in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(n):
            x = net.conv(x, m, 3, "Relu")
        if x.size > 1:
            x = net.max_pool(x, 2, 2, grow=1.15)
    net.result(x)


def vgg16_classifier(net):
    """The three matrix products behind them."""
    classify(net, net.image())


def vgg16(net):
    vgg16_features(net)
    classify(net, net.last)


def classify(net, x):
    x = net.flatten(x)
    for m, act in ((4096, "Relu"), (4096, "Relu"), (1000, None)):
        x = net.gemm(x, m, act)
    net.result(x)


def basic(net, x, width, stride):
    y = net.conv(x, width, 3, "Relu", stride=stride)
    y = net.conv(y, width, 3, None)
    if stride != 1 or x.channels != width:
        x = net.conv(x, width, 1, None, stride=stride)
    return net.add(x, y, "Relu")


def bottleneck(net, x, width, stride):
    y = net.conv(x, width, 1, "Relu")
    y = net.conv(y, width, 3, "Relu", stride=stride)
    y = net.conv(y, 4 * width, 1, None)
    if stride != 1 or x.channels != 4 * width:
        x = net.conv(x, 4 * width, 1, None, stride=stride)
    return net.add(x, y, "Relu")


def resnet(net, block, repeats):
    x = net.conv(net.image(), 64, 7, "Relu", stride=2)
    x = net.max_pool(x, 3, 2, 1, grow=1.05)
    for i, n in enumerate(repeats):
        for j in range(n):
            x = block(net, x, 64 << i, 2 if i and not j else 1)
    net.result(net.gemm(net.flatten(net.average(x)), 1000))


def resnet18(net):
    resnet(net, basic, (2, 2, 2, 2))


def resnet50(net):
    """The stride of a block is that of its 3 x 3 convolution (version 1.5)."""
    resnet(net, bottleneck, (3, 4, 6, 3))


MOBILENETV1 = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1), (512, 1), (512, 1),
               (512, 1), (512, 1), (1024, 2), (1024, 1))    # channels, stride


def separable(net, x, m, stride):
    x = net.conv(x, x.channels, 3, "Clip", stride=stride, group=x.channels)
    return net.conv(x, m, 1, "Clip")


def mobilenetv1(net):
    x = net.conv(net.image(), 32, 3, "Clip", stride=2)
    for m, stride in MOBILENETV1:
        x = separable(net, x, m, stride)
    net.result(net.gemm(net.flatten(net.average(x)), 1000))


MOBILENETV2 = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
               (6, 160, 3, 2), (6, 320, 1, 1))    # expansion, channels, repeats, first stride


def inverted(net, x, m, expand, stride):
    hidden, y = x.channels * expand, x
    if expand != 1:
        y = net.conv(y, hidden, 1, "Clip")
    y = net.conv(y, hidden, 3, "Clip", stride=stride, group=hidden)
    y = net.conv(y, m, 1, None)
    return net.add(x, y) if stride == 1 and x.channels == m else y


def mobilenetv2(net):
    x = net.conv(net.image(), 32, 3, "Clip", stride=2)
    for expand, m, repeats, stride in MOBILENETV2:
        for i in range(repeats):
            x = inverted(net, x, m, expand, 1 if i else stride)
    x = net.conv(x, 1280, 1, "Clip")
    net.result(net.gemm(net.flatten(net.average(x)), 1000))


MOBILENETV3 = ((3, 16, 16, True, "Relu", 2), (3, 72, 24, False, "Relu", 2),
               (3, 88, 24, False, "Relu", 1), (5, 96, 40, True, "HardSwish", 2),
               (5, 240, 40, True, "HardSwish", 1), (5, 240, 40, True, "HardSwish", 1),
               (5, 120, 48, True, "HardSwish", 1), (5, 144, 48, True, "HardSwish", 1),
               (5, 288, 96, True, "HardSwish", 2), (5, 576, 96, True, "HardSwish", 1),
               (5, 576, 96, True, "HardSwish", 1))    # kernel, hidden, channels, gate, act, stride


def squeeze_excite(net, x):
    g = net.conv(net.average(x), divisible(x.channels / 4), 1, "Relu")
    return net.gate(x, net.conv(g, x.channels, 1, "HardSigmoid"))


def inverted3(net, x, k, hidden, m, gate, act, stride):
    y = net.conv(x, hidden, 1, act) if hidden != x.channels else x
    y = net.conv(y, hidden, k, act, stride=stride, group=hidden)
    y = net.conv(squeeze_excite(net, y) if gate else y, m, 1, None)
    return net.add(x, y) if stride == 1 and x.channels == m else y


def mobilenetv3_small(net):
    x = net.conv(net.image(), 16, 3, "HardSwish", stride=2)
    for row in MOBILENETV3:
        x = inverted3(net, x, *row)
    x = net.conv(x, 576, 1, "HardSwish")
    x = net.gemm(net.flatten(net.average(x)), 1024, "HardSwish")
    net.result(net.gemm(x, 1000))


def fire(net, x, squeeze, expand):
    s = net.conv(x, squeeze, 1, "Relu")
    return net.concat([net.conv(s, expand, 1, "Relu"), net.conv(s, expand, 3, "Relu")])


def squeezenet(net):
    """SqueezeNet 1.1."""
    x = net.max_pool(net.conv(net.image(), 64, 3, "Relu", stride=2, pad=0), 3, 2, grow=1.05)
    for squeeze, expand, pool in ((16, 64, False), (16, 64, True), (32, 128, False), (32, 128, True),
                                  (48, 192, False), (48, 192, False), (64, 256, False),
                                  (64, 256, False)):
        x = fire(net, x, squeeze, expand)
        x = net.max_pool(x, 3, 2, grow=1.05) if pool else x
    net.result(net.flatten(net.average(net.conv(x, 1000, 1, "Relu"))))
