# SPDX-License-Identifier: MIT
"""Writes a network of the zoo with seeded random weights as ONNX (standard library only)."""
import argparse

import binary
import classify
import images
import net

CHANNELS = {"vgg16-classifier": 512}    # of the input, where they are not those of an image

# name: (function, size of its images, multiple that sizes must be)
MODELS = {
    "vgg16": (classify.vgg16, 224, 32),
    "vgg16-features": (classify.vgg16_features, 224, 1),
    "vgg16-classifier": (classify.vgg16_classifier, 7, 7),
    "resnet18": (classify.resnet18, 224, 32),
    "resnet50": (classify.resnet50, 224, 32),
    "mobilenetv1": (classify.mobilenetv1, 224, 32),
    "mobilenetv2": (classify.mobilenetv2, 224, 32),
    "mobilenetv3-small": (classify.mobilenetv3_small, 224, 32),
    "squeezenet": (classify.squeezenet, 224, 1),
    "ssd-mobilenetv1": (images.ssd_mobilenetv1, 300, 1),
    "yolov8n": (images.yolov8n, 640, 32),
    "unet": (images.unet, 256, 16),
    "birealnet18-int8": (binary.birealnet18_int8, 224, 32),
    "birealnet18": (binary.birealnet18, 224, 32),
    "reactnet-a": (binary.reactnet_a, 224, 32),
    "quicknet": (binary.quicknet, 224, 32),
}


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("model", choices=MODELS, nargs="?", help="without: print the names")
    ap.add_argument("-o", "--output", help="the model's file")
    ap.add_argument("--size", type=int, help="of the images (default: the network's own)")
    ap.add_argument("--type", choices=["int8", "uint8"], default="int8", help="of activations")
    ap.add_argument("--float", action="store_true", help="the same weights without quantisers")
    ap.add_argument("--sparsity", type=float, default=0, metavar="PERCENT",
                    help="of convolutions and matrix products, but the first layer and depthwise "
                         "ones; 75 keeps 4 of 16 input channels at random in each row")
    ap.add_argument("--image", help="also write an input of this model as .npy")
    ap.add_argument("--quantised", action="store_true", help="end before the last DequantizeLinear")
    ap.add_argument("--sign", choices=binary.SIGNS, help="form of the signs of a binary network "
                    "(default: its own)")
    ap.add_argument("--weights", choices=net.WEIGHTS, default="uniform",
                    help="their distribution; laplace is like that of trained ones (binary networks: uniform)")
    ap.add_argument("--seed", type=int, default=20261121)
    opt = ap.parse_args()
    if not opt.model:
        print("\n".join(MODELS))
        return
    if not opt.output:
        ap.error("--output is missing")
    build, size, multiple = MODELS[opt.model]
    size = opt.size or size
    if size % multiple:
        ap.error(f"the size of {opt.model} is a multiple of {multiple}")
    n = net.Net(opt.seed, opt.type, CHANNELS.get(opt.model, 3), size, not opt.float, opt.sparsity)
    n.sign, n.weights = opt.sign, opt.weights
    build(n)
    written = n.save(opt.output, opt.model.replace("-", "_"), opt.quantised)
    if opt.image:
        net.write_image(opt.image, n.dims, opt.seed)
    print(f"{opt.output}: {written} bytes")


if __name__ == "__main__":
    main()
