# SPDX-License-Identifier: MIT
"""bench_lce.py RATES: the layers of bench_binary_cpu.c with Larq Compute Engine on one thread.

RATES is what bench_binary_cpu has printed in the same run; the ratios to it are printed. A layer is
a binary convolution with a normalisation behind it, float in and out, so that it has the signs in front
of the convolution; only the convolution's products are counted. Median of the processor time. The
ratio of like to like is that of our layers from float to float, binary.cpu.SET.float.lce.
"""
import os
import re
import sys
import time

os.environ.update(TF_USE_LEGACY_KERAS="1", CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")

import larq
import larq_compute_engine as lce
import numpy as np
import tensorflow as tf
from larq_compute_engine.tflite.python.interpreter import Interpreter

# Channels, outputs, side of the input, stride, times in the network.
LAYERS = [(64, 64, 56, 1, 4), (64, 128, 56, 2, 1), (128, 128, 28, 1, 3), (128, 256, 28, 2, 1),
          (256, 256, 14, 1, 3), (256, 512, 14, 2, 1), (512, 512, 7, 1, 3)]
RUNS = 15


def layer(c, m, side, stride):
    x = tf.keras.Input((side, side, c))
    y = larq.layers.QuantConv2D(m, 3, strides=stride, padding="same", pad_values=1, use_bias=False,
                                input_quantizer="ste_sign", kernel_quantizer="ste_sign",
                                kernel_constraint="weight_clip")(x)
    return tf.keras.Model(x, tf.keras.layers.BatchNormalization(scale=False)(y))


def seconds(model, c, side):
    run = Interpreter(lce.convert_keras_model(model), num_threads=1).predict
    x = np.random.default_rng(0).standard_normal((1, side, side, c)).astype(np.float32)
    times = []
    for _ in range(RUNS):
        start = time.process_time()
        run(x)
        times.append(time.process_time() - start)
    return sorted(times)[RUNS // 2]


def main():
    total = macs = 0
    for c, m, side, stride, times in LAYERS:
        total += times * seconds(layer(c, m, side, stride), c, side)
        macs += times * (side // stride) ** 2 * m * c * 9
    rate = macs / total * 1e-9
    print(f"figure binary.lce.rate {rate:.1f} Gbit-MAC/s")
    with open(sys.argv[1], encoding="utf-8") as f:
        for name, ours in re.findall(r"figure binary\.cpu\.(\S+)\.rate (\S+)", f.read()):
            print(f"figure binary.cpu.{name}.lce {float(ours) / rate:.1f} times")


main()
