# SPDX-License-Identifier: MIT
"""Writes ResNet50 with random int8 weights as a QDQ model (standard library only)."""
import argparse

import onnx_writer

STAGES = [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)]    # width, blocks, first stride


def bottleneck(net, x, cin, width, stride):
    y = net.conv(x, cin, width, 1, "Relu")
    y = net.conv(y, width, width, 3, "Relu", stride=stride)
    y = net.conv(y, width, 4 * width, 1, None)
    if stride != 1 or cin != 4 * width:
        x = net.conv(x, cin, 4 * width, 1, None, stride=stride)
    return net.add(x, y)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("-o", "--output", required=True)
    ap.add_argument("--size", type=int, default=224, help="a multiple of 32 (default 224)")
    ap.add_argument("--type", choices=["int8", "uint8"], default="int8", help="of activations")
    ap.add_argument("--seed", type=int, default=20261121)
    opt = ap.parse_args()
    net = onnx_writer.Net(opt.seed, opt.type, [1, 3, opt.size, opt.size])
    x = net.conv(net.image(), 3, 64, 7, "Relu", stride=2)
    x = net.same("MaxPool", x, x[2], net.qmin, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    cin = 64
    for width, blocks, stride in STAGES:
        for i in range(blocks):
            x, cin = bottleneck(net, x, cin, width, stride if i == 0 else 1), 4 * width
    x = net.same("GlobalAveragePool", x, x[2] * 0.6, net.mid)
    x = net.same("Flatten", x, x[2], net.mid)
    x = net.layer("Gemm", x, 1000, [1000, 2048], None, transB=1)
    print(f"{opt.output}: {net.save(opt.output, x[0], [1, 1000], 'resnet50')} bytes")


if __name__ == "__main__":
    main()
