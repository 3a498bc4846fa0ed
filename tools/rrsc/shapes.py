# SPDX-License-Identifier: MIT
"""The backbones of a space with random weights: cycles and energy depend on their shapes alone.

Needs the standard library only, and tools/zoo, which builds the networks.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "zoo"))
from net import Net  # noqa: E402

SIDE = 28   # of an image


def dense(net, x, *neurons):
    """Layers with Relu, but the last one."""
    for n in neurons[:-1]:
        x = net.gemm(x, n, "Relu")
    return net.gemm(x, neurons[-1])


def mlp(net, hidden1, hidden2):
    return dense(net, net.flatten(net.image()), hidden1, hidden2, 10)


def lenet(net, kernel1, channels1, kernel2, channels2):
    """The network of RR-SC: convolution, Pool(1, 2), convolution, Pool(1, 2), 32, 128 and 10 neurons."""
    x = net.image()
    for kernel, channels in ((kernel1, channels1), (kernel2, channels2)):
        x = net.conv(x, channels, kernel, "Relu", pad=0)
        x = net.max_pool(x, 1, 2)
    return dense(net, net.flatten(x), 32, 128, 10)


MAKE = {"mlp": mlp, "lenet": lenet}


def write(space, folder):
    """Writes folder/NAME.onnx for every backbone of the space."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, options in space.backbones().items():
        net = Net(1, "uint8", 1, SIDE)
        net.result(MAKE[space.name](net, *options))
        net.save(folder / f"{name}.onnx", name)
