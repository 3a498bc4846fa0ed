# SPDX-License-Identifier: MIT
"""Writes MobileNetV2 with random int8 weights as a QDQ model (standard library only)."""
import argparse

import onnx_writer

BLOCKS = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
          (6, 160, 3, 2), (6, 320, 1, 1)]    # expansion, channels, repeats, first stride


def bottleneck(net, x, cin, cout, expand, stride):
    hidden, y = cin * expand, x
    if expand != 1:
        y = net.conv(y, cin, hidden, 1, "Clip")
    y = net.conv(y, hidden, hidden, 3, "Clip", stride=stride, group=hidden)
    y = net.conv(y, hidden, cout, 1, None)
    return net.add(x, y) if stride == 1 and cin == cout else y


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("-o", "--output", required=True)
    ap.add_argument("--size", type=int, default=224, help="a multiple of 32 (default 224)")
    ap.add_argument("--type", choices=["int8", "uint8"], default="int8", help="of activations")
    ap.add_argument("--image", help="also write an input of this model as .npy")
    ap.add_argument("--quantised", action="store_true", help="end before the last DequantizeLinear")
    ap.add_argument("--seed", type=int, default=20261121)
    opt = ap.parse_args()
    net = onnx_writer.Net(opt.seed, opt.type, [1, 3, opt.size, opt.size])
    x, cin = net.conv(net.image(), 3, 32, 3, "Clip", stride=2), 32
    for expand, cout, repeats, stride in BLOCKS:
        for i in range(repeats):
            x, cin = bottleneck(net, x, cin, cout, expand, stride if i == 0 else 1), cout
    x = net.conv(x, 320, 1280, 1, "Clip")
    x = net.same("GlobalAveragePool", x, x[2] * 0.6, net.qmin)
    x = net.same("Flatten", x, x[2], net.qmin)
    x = net.layer("Gemm", x, 1000, [1000, 1280], None, transB=1)
    size = net.save(opt.output, x[0], [1, 1000], "mobilenet_v2", opt.quantised)
    if opt.image:
        onnx_writer.write_image(opt.image, net.dims, opt.seed)
    print(f"{opt.output}: {size} bytes")


if __name__ == "__main__":
    main()
