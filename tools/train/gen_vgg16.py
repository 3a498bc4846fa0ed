# SPDX-License-Identifier: MIT
"""Writes the thirteen 3x3 layers of VGG16 with random int8 weights as a QDQ model.

The first layer has three channels and cannot fill an array by itself; --from 1
leaves it out (input: 64 channels). Standard library only.
"""
import argparse

import onnx_writer

LAYERS = [(3, 64), (64, 64), (64, 128), (128, 128), (128, 256), (256, 256), (256, 256), (256, 512),
          (512, 512), (512, 512), (512, 512), (512, 512), (512, 512)]
POOL_AFTER = (1, 3, 6, 9, 12)


def main():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("-o", "--output", required=True)
    ap.add_argument("--size", type=int, default=224, help="of the picture (default 224)")
    ap.add_argument("--from", dest="first", type=int, default=0, help="first layer (default 0)")
    ap.add_argument("--to", dest="last", type=int, default=12, help="last layer (default 12)")
    ap.add_argument("--type", choices=["int8", "uint8"], default="int8", help="of activations")
    ap.add_argument("--image", help="also write an input of this model as .npy")
    ap.add_argument("--quantised", action="store_true", help="end before the last DequantizeLinear")
    ap.add_argument("--seed", type=int, default=20261121)
    opt = ap.parse_args()
    if not 0 <= opt.first <= opt.last < len(LAYERS):
        ap.error(f"layers are 0..{len(LAYERS) - 1}")
    side = opt.size >> sum(p < opt.first for p in POOL_AFTER)
    net = onnx_writer.Net(opt.seed, opt.type, [1, LAYERS[opt.first][0], side, side])
    x = net.image()
    for i in range(opt.first, opt.last + 1):
        cin, cout = LAYERS[i]
        x = net.conv(x, cin, cout, 3, "Relu")
        if i in POOL_AFTER and side > 1:
            x = net.same("MaxPool", x, x[2] * 1.5, net.qmin, kernel_shape=[2, 2], strides=[2, 2])
            side //= 2
    size = net.save(opt.output, x[0], [1, LAYERS[opt.last][1], side, side], "vgg16", opt.quantised)
    if opt.image:
        onnx_writer.write_image(opt.image, net.dims, opt.seed)
    print(f"{opt.output}: {size} bytes")


if __name__ == "__main__":
    main()
