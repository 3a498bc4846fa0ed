#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests of operators of com.microsoft in the layout of ONNX's backend tests, one folder for
each: a model of one node, random inputs, and the outputs that onnxruntime computes.

microsoft.py FOLDER
"""
import multiprocessing
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

MS = "com.microsoft"
rng = np.random.default_rng(5)


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def array(value, dtype=np.float32):
    return np.array(value, dtype)


def ints(low, high, dtype, *shape):
    return rng.integers(low, high, shape).astype(dtype)


def write(folder, kind, values):
    for i, value in enumerate(values):
        with open(os.path.join(folder, f"{kind}_{i}.pb"), "wb") as f:
            f.write(numpy_helper.from_array(np.asarray(value)).SerializeToString())


def computed(model, feeds):
    """
    onnxruntime's results, from a process of their own: 1.31 crashes at an Attention without bias. None:
    it crashed.
    """
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.x64quantprecision", "1")
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe(duplex=False)

    def run():
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        there.send(session.run(None, feeds))

    process = fork.Process(target=run)
    process.start()
    there.close()
    try:
        values = here.recv()
    except EOFError:
        values = None
    process.join()
    if process.exitcode > 0:
        raise RuntimeError("onnxruntime refuses the model")
    return values


def make(root, name, op, inputs, outputs=1, fixed=(), domain=MS, **attributes):
    """@inputs: an array or None each; those of index @fixed are initializers. @outputs: a number, or
    a list of which ones the node has."""
    wanted = list(range(outputs)) if isinstance(outputs, int) else outputs
    names = [f"i{i}" if v is not None else "" for i, v in enumerate(inputs)]
    results = [f"o{i}" if i in wanted else "" for i in range(max(wanted) + 1)]
    node = helper.make_node(op, names, results, domain=domain, **attributes)
    run = [(n, v) for i, (n, v) in enumerate(zip(names, inputs)) if v is not None and i not in fixed]
    graph = helper.make_graph(
        [node], name,
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in run],
        [onnx.ValueInfoProto(name=n) for n in results if n],
        [numpy_helper.from_array(inputs[i], names[i]) for i in fixed if inputs[i] is not None])
    model = helper.make_model(graph, ir_version=8, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)])
    values = computed(model.SerializeToString(), dict(run))
    if values is None:
        print(f"# {name}: onnxruntime {ort.__version__} crashes; left out")
        return
    folder = os.path.join(root, f"test_{name}")
    os.makedirs(os.path.join(folder, "test_data_set_0"), exist_ok=True)
    with open(os.path.join(folder, "model.onnx"), "wb") as f:
        f.write(model.SerializeToString())
    write(os.path.join(folder, "test_data_set_0"), "input", [v for _, v in run])
    write(os.path.join(folder, "test_data_set_0"), "output", values)


def quantised(root):
    """Element-wise operators and reductions between two scales, uint8 and int8."""
    for dtype, low, high, zero in ((np.uint8, 0, 256, 120), (np.int8, -128, 128, -5)):
        tag = np.dtype(dtype).name
        x, z = ints(low, high, dtype, 2, 3, 4, 5), array(zero, dtype)
        least = array(low, dtype)
        make(root, f"qlinear_sigmoid_{tag}", "QLinearSigmoid",
             [x, array(0.05), z, array(1 / 256), least], fixed=(1, 2, 3, 4))
        make(root, f"qlinear_leaky_relu_{tag}", "QLinearLeakyRelu",
             [x, array(0.05), z, array(0.04), z], fixed=(1, 2, 3, 4), alpha=0.2)
        make(root, f"qlinear_leaky_relu_default_{tag}", "QLinearLeakyRelu",
             [x, array(0.05), z, array(0.04), z], fixed=(1, 2, 3, 4))
        make(root, f"qlinear_softmax_{tag}", "QLinearSoftmax",
             [x, array(0.03), z, array(1 / 256), least], fixed=(1, 2, 3, 4), axis=-1, opset=13)
        make(root, f"qlinear_softmax_flat_{tag}", "QLinearSoftmax",
             [x, array(0.03), z, array(1 / 256), least], fixed=(1, 2, 3, 4), axis=2, opset=12)
        y = ints(low, high, dtype, 2, 1, 4, 5)
        make(root, f"qlinear_concat_{tag}", "QLinearConcat",
             [array(0.06), z, x, array(0.05), z, y, array(0.02), array(zero + 7, dtype)],
             fixed=(0, 1, 3, 4, 6, 7), axis=1)
        c = rng.random((2, 3, 4, 5)) > 0.5
        make(root, f"qlinear_where_{tag}", "QLinearWhere",
             [c, x, array(0.05), z, ints(low, high, dtype, 2, 3, 4, 5), array(0.02), z, array(0.04), z],
             fixed=(2, 3, 5, 6, 7, 8))


def channels_last(root):
    """What onnxruntime makes of quantised images: channels behind the pixels."""
    for dtype, low, high, zero in ((np.uint8, 0, 256, 120), (np.int8, -128, 128, -5)):
        tag = np.dtype(dtype).name
        x, z = ints(low, high, dtype, 2, 7, 6, 4), array(zero, dtype)
        w, bias = ints(low, high, dtype, 6, 4, 3, 3), ints(-500, 500, np.int32, 6)
        quantised_by = [array(0.02), z, w, array(0.03), z, array(0.5), z]
        if dtype == np.uint8:   # onnxruntime has no kernel for int8 here
            make(root, "qlinear_conv_nhwc", "QLinearConv", [x] + quantised_by + [bias],
                 fixed=range(1, 9), channels_last=1, kernel_shape=[3, 3], strides=[2, 1], pads=[1, 0, 1, 2])
            make(root, "qlinear_conv_nchw", "QLinearConv", [ints(low, high, dtype, 2, 4, 7, 6)] + quantised_by,
                 fixed=range(1, 8), channels_last=0, kernel_shape=[3, 3], dilations=[2, 2])
            d = ints(low, high, dtype, 4, 1, 3, 3)
            make(root, "qlinear_conv_nhwc_depthwise", "QLinearConv",
                 [x, array(0.02), z, d, array(0.03), z, array(0.3), z], fixed=range(1, 8), channels_last=1,
                 kernel_shape=[3, 3], group=4, auto_pad="SAME_UPPER")
        make(root, f"nhwc_max_pool_{tag}", "NhwcMaxPool", [x], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1],
             ceil_mode=1)
        make(root, f"qlinear_average_pool_nhwc_{tag}", "QLinearAveragePool", [x, array(0.02), z, array(0.03), z],
             fixed=range(1, 5), channels_last=1, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
        make(root, f"qlinear_global_average_pool_nhwc_{tag}", "QLinearGlobalAveragePool",
             [x, array(0.02), z, array(0.01), z], fixed=range(1, 5), channels_last=1)


def products(root):
    a, b = floats(2, 5, 16), ints(0, 256, np.uint8, 16, 7)
    bias, scales = floats(7), rng.random(7, dtype=np.float32) * 0.1
    zeros = ints(100, 140, np.uint8, 7)
    make(root, "dynamic_quantize_matmul", "DynamicQuantizeMatMul", [a, b, array(0.02), array(130, np.uint8)],
         fixed=(1, 2, 3))
    make(root, "dynamic_quantize_matmul_bias", "DynamicQuantizeMatMul", [a, b, scales, zeros, bias],
         fixed=(1, 2, 3, 4))
    q = ints(0, 256, np.uint8, 5, 16)
    make(root, "matmul_integer_to_float", "MatMulIntegerToFloat",
         [q, b, array(0.03), array(0.02), array(120, np.uint8), array(130, np.uint8)], fixed=(1, 2, 3, 4, 5))
    make(root, "matmul_integer_to_float_bias", "MatMulIntegerToFloat",
         [q, b, array(0.03), scales, array(120, np.uint8), zeros, bias], fixed=(1, 2, 3, 4, 5, 6))
    for ta in (0, 1):
        for tb in (0, 1):
            x = floats(2, 1, 6, 4) if ta else floats(2, 1, 4, 6)
            y = floats(3, 5, 6) if tb else floats(3, 6, 5)
            make(root, f"fused_matmul_{ta}{tb}", "FusedMatMul", [x, y], alpha=0.5, transA=ta, transB=tb)
    for act, extra in (("Relu", {}), ("Sigmoid", {}), ("Tanh", {}), ("LeakyRelu", {"activation_alpha": 0.1})):
        make(root, f"fused_gemm_{act.lower()}", "FusedGemm", [floats(4, 6), floats(5, 6), floats(5)],
             transB=1, alpha=0.5, beta=2.0, activation=act, **extra)
    for bits, k, block in ((4, 64, 32), (4, 40, 16), (8, 64, 32)):
        blocks = -(-k // block)
        packed = ints(0, 256, np.uint8, 6, blocks, block * bits // 8)
        scale = rng.random((6, blocks), dtype=np.float32) * 0.1
        zero = ints(0, 256, np.uint8, 6, -(-blocks * bits // 8))
        for tag, z, w in (("", None, None), ("_zero", zero, None), ("_bias", zero, floats(6))):
            make(root, f"matmul_{bits}bits_{k}{tag}", "MatMulNBits",
                 [floats(2, 3, k), packed, scale.ravel(), None if z is None else z.ravel(), None, w],
                 fixed=(1, 2, 3, 5), K=k, N=6, bits=bits, block_size=block)


def activations(root):
    x, bias = floats(2, 3, 8), floats(8)
    make(root, "gelu", "Gelu", [x])
    make(root, "fast_gelu", "FastGelu", [x])
    make(root, "fast_gelu_bias", "FastGelu", [x, bias])
    make(root, "bias_gelu", "BiasGelu", [x, bias])
    make(root, "quick_gelu", "QuickGelu", [x])
    make(root, "quick_gelu_alpha", "QuickGelu", [x], alpha=0.7)
    conv = [floats(1, 3, 6, 6), floats(4, 3, 3, 3), floats(4)]
    make(root, "fused_conv_relu", "FusedConv", conv, activation="Relu", pads=[1, 1, 1, 1])
    make(root, "fused_conv_sum", "FusedConv", conv + [floats(1, 4, 6, 6)], activation="Relu", pads=[1, 1, 1, 1])


def normalisations(root):
    x, skip, gamma, beta, bias = floats(2, 3, 8), floats(2, 3, 8), floats(8), floats(8), floats(8)
    make(root, "skip_layer_norm", "SkipLayerNormalization", [x, skip, gamma, beta])
    make(root, "skip_layer_norm_bias_sum", "SkipLayerNormalization", [x, skip, gamma, beta, bias],
         outputs=[0, 3], epsilon=1e-5)
    make(root, "skip_layer_norm_no_beta", "SkipLayerNormalization", [x, skip, gamma, None, bias])
    make(root, "skip_simplified_layer_norm", "SkipSimplifiedLayerNormalization", [x, skip, gamma], outputs=[0, 3])
    make(root, "skip_simplified_layer_norm_bias", "SkipSimplifiedLayerNormalization",
         [x, skip, gamma, bias], epsilon=1e-3)
    make(root, "simplified_layer_norm", "SimplifiedLayerNormalization", [x, gamma], domain="", axis=-1)
    ids, segments = ints(0, 10, np.int32, 2, 3), ints(0, 2, np.int32, 2, 3)
    mask = array([[1, 1, 0], [1, 1, 1]], np.int32)
    tables = [floats(10, 8), floats(5, 8)]
    make(root, "embed_layer_norm", "EmbedLayerNormalization",
         [ids, segments, *tables, floats(2, 8), gamma, beta, mask], outputs=2)
    bytes_ = lambda *dims: ints(0, 256, np.uint8, *dims)
    scales = [array(v) for v in (0.02, 0.01, 0.03, 0.015, 0.012)]
    zeros = [array(v, np.uint8) for v in (120, 130, 128, 7, 140)]
    quantised_tables = [bytes_(10, 8), bytes_(5, 8), bytes_(2, 8), bytes_(8), bytes_(8)]
    make(root, "q_embed_layer_norm", "QEmbedLayerNormalization",
         [ids, segments, *quantised_tables, mask, *scales, *zeros], outputs=2)
    make(root, "q_embed_layer_norm_plain", "QEmbedLayerNormalization",
         [ids, None, *quantised_tables[:2], None, *quantised_tables[3:], None, *scales[:2], None, *scales[3:],
          *zeros[:2], None, *zeros[3:]], outputs=2, epsilon=1e-5)
    make(root, "embed_layer_norm_first_segment", "EmbedLayerNormalization",
         [ids, None, *tables, floats(2, 8), gamma, beta, mask], outputs=2)
    make(root, "embed_layer_norm_plain", "EmbedLayerNormalization",
         [ids, None, *tables, None, gamma, beta], outputs=2)
    make(root, "embed_layer_norm_placed", "EmbedLayerNormalization",
         [ids, segments, *tables, floats(2, 8), gamma, beta, None, ints(0, 5, np.int32, 2, 3)], outputs=2)


def attention(root):
    x, w, b = floats(2, 4, 8), floats(8, 24), floats(24)
    mask = array([[1, 1, 1, 0], [1, 1, 1, 1]], np.int32)
    make(root, "attention", "Attention", [x, w, b], num_heads=2)
    make(root, "attention_no_bias", "Attention", [x, w], num_heads=2)
    make(root, "attention_causal", "Attention", [x, w, b], num_heads=2, unidirectional=1)
    make(root, "attention_masked", "Attention", [x, w, b, mask], num_heads=2)
    make(root, "attention_mask_values", "Attention", [x, w, b, array([[2, 1, 0, 3], [-1, 1, 1, 0]], np.int32)], num_heads=2)
    make(root, "attention_biased", "Attention", [x, w, b, mask, None, floats(2, 2, 4, 4)], num_heads=2, scale=0.3)
    lengths, queries = array([3, 4], np.int32), ints(0, 2, np.int32, 2, 4, 4)
    queries[:, :, 0] = 1
    make(root, "attention_lengths", "Attention", [x, w, b, lengths], num_heads=2)
    make(root, "attention_filter", "Attention", [x, w, b, lengths], num_heads=2, mask_filter_value=-1.5)
    make(root, "attention_filter_lowest", "Attention", [x, w, b, mask], num_heads=2, unidirectional=1,
         mask_filter_value=float(np.finfo(np.float32).min))
    make(root, "attention_lengths_1", "Attention", [x[:1], w, b, lengths[:1]], num_heads=2)
    make(root, "attention_mask_queries", "Attention", [x, w, b, queries], num_heads=2)
    make(root, "attention_mask_queries_causal", "Attention", [x, w, b, queries], num_heads=2, unidirectional=1)
    past, long_mask = floats(2, 2, 2, 3, 4), array([[1] * 7, [1] * 5 + [0] * 2], np.int32)
    make(root, "attention_past", "Attention", [x, w, b, None, past], outputs=2, num_heads=2, unidirectional=1)
    make(root, "attention_past_masked", "Attention", [x, w, b, long_mask, past], outputs=2, num_heads=2)
    make(root, "attention_present", "Attention", [x, w, b], outputs=2, num_heads=2, unidirectional=1)
    xq, scale, zero = ints(0, 256, np.uint8, 2, 4, 8), array(0.02), array(120, np.uint8)
    # Weights up to 64, beyond which onnxruntime's sums saturate on processors without VNNI.
    wq, columns = ints(-64, 65, np.int8, 8, 24), rng.random(24, dtype=np.float32) * 0.02 + 0.005
    make(root, "q_attention", "QAttention", [xq, wq, b, scale, array(0.01), mask, zero, array(0, np.int8)],
         fixed=(1,), num_heads=2)
    make(root, "q_attention_lengths", "QAttention", [xq, wq, b, scale, array(0.01), lengths, zero, array(0, np.int8)],
         fixed=(1,), num_heads=2)
    make(root, "q_attention_columns", "QAttention", [xq, wq, b, scale, columns, None, zero, np.zeros(24, np.int8)],
         fixed=(1, 4, 7), num_heads=2, unidirectional=1)
    make(root, "q_attention_past", "QAttention", [xq, wq, b, scale, array(0.01), long_mask, zero, array(0, np.int8), past],
         outputs=2, fixed=(1,), num_heads=2, unidirectional=1)
    heads, places = floats(2, 3, 4, 8), ints(0, 9, np.int64, 2, 4)
    for interleaved in (0, 1):
        make(root, f"rotary_embedding_{interleaved}", "RotaryEmbedding", [heads, places, floats(9, 4), floats(9, 4)],
             interleaved=interleaved)
    make(root, "rotary_embedding_offset", "RotaryEmbedding", [heads, array([3], np.int64), floats(9, 4), floats(9, 4)])
    make(root, "rotary_embedding_offset_packed", "RotaryEmbedding",
         [floats(2, 4, 16), array([1], np.int64), floats(9, 4), floats(9, 4)], num_heads=2)
    q, k, v = floats(2, 4, 8), floats(2, 6, 8), floats(2, 6, 12)
    make(root, "multi_head_attention", "MultiHeadAttention", [q, k, v], num_heads=2)
    make(root, "multi_head_attention_biased", "MultiHeadAttention",
         [q, k, v, None, None, floats(2, 2, 4, 6)], num_heads=2, scale=0.2)


def recurrent(root):
    for dirs, dtype, per_row in ((1, np.uint8, False), (2, np.int8, True), (2, np.uint8, True)):
        unsigned = dtype == np.uint8
        # int8 up to 64, beyond which onnxruntime's sums saturate on processors without VNNI.
        w, r = (ints(0 if unsigned else -64, 90 if unsigned else 65, dtype, dirs, n, 32) for n in (5, 8))
        shape = (dirs, 32) if per_row else (dirs,)
        scale = [rng.random(shape, dtype=np.float32) * 0.02 + 0.005 for _ in range(2)]
        zero = np.full(shape, 44 if unsigned else 0, dtype)
        make(root, f"dynamic_quantize_lstm_{dirs}_{np.dtype(dtype).name}", "DynamicQuantizeLSTM",
             [floats(6, 1, 5), w, r, floats(dirs, 64), None, None, None, None, scale[0], zero, scale[1], zero],
             outputs=3, fixed=(1, 2, 3, 8, 9, 10, 11), hidden_size=8,
             direction="bidirectional" if dirs == 2 else "forward")


def main():
    root = sys.argv[1]
    for family in (quantised, channels_last, products, activations, normalisations, attention, recurrent):
        family(root)


if __name__ == "__main__":
    main()
