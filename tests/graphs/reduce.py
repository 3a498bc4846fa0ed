# SPDX-License-Identifier: MIT
"""Finds a smaller model that is wrong, too."""
import numpy as np
import onnx
from onnx import helper, numpy_helper


def pruned(model, outputs, feeds, given):
    """The model that computes `outputs` only; values of `given` are inputs."""
    need, nodes = set(outputs), []
    for node in reversed(model.graph.node):
        if any(o in need and o not in given for o in node.output):
            nodes.append(node)
            need.update(i for i in node.input if i)
            for a in node.attribute:
                if a.HasField("g"):
                    need.update(i for n in a.g.node for i in n.input)
    info = {v.name: v for v in list(model.graph.input) + list(model.graph.output)}
    inputs, data = [], {}
    for name, array in list(feeds.items()) + list(given.items()):
        if name in need:
            inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype), np.shape(array)))
            data[name] = np.asarray(array)
    outs = [info.get(o) or onnx.ValueInfoProto(name=o) for o in outputs]
    graph = helper.make_graph(nodes[::-1], "reduced", inputs, outs, [t for t in model.graph.initializer if t.name in need])
    new = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    return new, data


def all_values(model, feeds, run):
    """name -> array of every value that onnxruntime can be asked for."""
    names = [o for n in model.graph.node for o in n.output if o]
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    del probe.graph.output[:]
    probe.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names)
    try:
        return dict(zip(names, run(probe, feeds)))
    except Exception:  # pylint: disable=broad-except
        return {}


def typed(model, values):
    """Gives outputs without a type theirs."""
    for i, out in enumerate(model.graph.output):
        if not out.HasField("type") and out.name in values:
            array = np.asarray(values[out.name])
            model.graph.output[i].CopyFrom(helper.make_tensor_value_info(out.name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape))
    return model


def reduce_model(model, feeds, wrong, run):
    """(model, feeds) with fewer nodes, for which `wrong` holds as for the given ones."""
    values = all_values(model, feeds, run)
    # One output: the first value that is wrong.
    for name in list(values):
        small, data = pruned(model, [name], feeds, {})
        small = typed(small, values)
        if len(small.graph.node) < len(model.graph.node) + 1 and wrong(small, data):
            model, feeds = small, data
            break
    # Fewer outputs.
    for name in [o.name for o in model.graph.output]:
        rest = [o.name for o in model.graph.output if o.name != name]
        if not rest:
            break
        small, data = pruned(model, rest, feeds, {})
        if wrong(small, data):
            model, feeds = small, data
    # Inputs nearer to the output.
    changed = True
    while changed:
        changed = False
        for node in list(model.graph.node):
            for name in node.output:
                if name in [o.name for o in model.graph.output] or name not in values or node.op_type == "Constant":
                    continue
                small, data = pruned(model, [o.name for o in model.graph.output], feeds, {name: values[name]})
                if len(small.graph.node) < len(model.graph.node) and wrong(small, data):
                    model, feeds, changed = small, data, True
                    break
            if changed:
                break
    return model, feeds
