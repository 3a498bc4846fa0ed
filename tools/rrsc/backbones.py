# SPDX-License-Identifier: MIT
"""Trains the backbones of a space with the same settings and writes them as QDQ ONNX files.

    python tools/rrsc/backbones.py mlp -o build/rrsc

Needs tools/train/requirements.txt. A file that exists is not trained again.
"""
import argparse
import os
import pathlib
import sys
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "train"))
import onnx  # noqa: E402
import torch  # noqa: E402
import train_sc  # noqa: E402
from train_sc import Layer, Net  # noqa: E402

import space  # noqa: E402


def mlp(hidden1, hidden2):
    return Net(Layer(784, hidden1), Layer(hidden1, hidden2), Layer(hidden2, 10))


def lenet(kernel1, channels1, kernel2, channels2):
    """The network of RR-SC: convolution, Pool(1, 2), convolution, Pool(1, 2), 32, 128 and 10 neurons."""
    side = (28 - kernel1 + 2) // 2
    side = (side - kernel2 + 2) // 2
    return Net(Layer(1, channels1, kernel1), "pool", Layer(channels1, channels2, kernel2), "pool",
               Layer(channels2 * side * side, 32), Layer(32, 128), Layer(128, 10))


MAKE = {"mlp": mlp, "lenet": lenet}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("space", choices=list(space.SPACES))
    ap.add_argument("-o", "--output", type=pathlib.Path, required=True, help="folder; NAME.onnx in SPACE/ of it")
    ap.add_argument("--threads", type=int, default=1)
    opt = ap.parse_args()
    which = space.SPACES[opt.space]
    folder = opt.output / which.name
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(opt.threads)
    data = train_sc.load()
    names = which.backbones()
    for i, (name, options) in enumerate(names.items()):
        path = folder / f"{name}.onnx"
        print(f"{which.name} {name}: {i + 1} of {len(names)}" + (", is there" if path.exists() else ""), flush=True)
        if path.exists():
            continue
        torch.manual_seed(train_sc.SEED)
        net = MAKE[which.name](*options)
        train_sc.train(net, types.SimpleNamespace(seed=train_sc.SEED, lr=2e-3, epochs=which.epochs, batch=128,
                                                  length=0, share=0), data)
        part = path.with_suffix(".part")
        onnx.save(train_sc.export(net, name, data[0][:2000]), part)
        os.replace(part, path)


if __name__ == "__main__":
    main()
