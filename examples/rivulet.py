# SPDX-License-Identifier: MIT
"""librivulet by ctypes: models of the daemon rivuletd as functions of numpy arrays.

    with Client() as client:
        model = client.load("lenet.onnx")
        scores = model.run(image=pixels)["scores"]

rivulet.h documents the calls. A failure raises RivuletError with the errno and the library's line.
"""
import ctypes
import ctypes.util
import math
import os

import numpy as np

_lib = ctypes.CDLL(os.environ.get("LIBRIVULET", "librivulet.so.1"))
_DTYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 4: np.int32, 5: np.int64, 6: np.bool_}


class _TensorInfo(ctypes.Structure):
    """struct rivulet_tensor_info"""
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("dtype", ctypes.c_int),
                ("output", ctypes.c_bool), ("ndim", ctypes.c_uint32), ("dim", ctypes.c_uint64 * 8),
                ("bytes", ctypes.c_uint64), ("scale", ctypes.c_float), ("zero_point", ctypes.c_int32),
                ("bounded", ctypes.c_bool)]


class _RunOptions(ctypes.Structure):
    """struct rivulet_run_options"""
    _fields_ = [("size", ctypes.c_size_t), ("deadline", ctypes.c_int64), ("hard", ctypes.c_bool),
                ("priority", ctypes.c_int32), ("min_accuracy", ctypes.c_uint32)]


def _declare(name, result, *arguments):
    function = getattr(_lib, name)
    function.restype = result
    function.argtypes = arguments
    return function


_P, _U32, _INT = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int
_last_error = _declare("rivulet_last_error", ctypes.c_char_p)
_open = _declare("rivulet_open", _INT, ctypes.c_char_p, ctypes.POINTER(_P))
_client_unref = _declare("rivulet_client_unref", _P, _P)
_model_load = _declare("rivulet_model_load", _INT, _P, ctypes.c_char_p, _P, ctypes.POINTER(_P))
_model_unref = _declare("rivulet_model_unref", _P, _P)
_model_inputs = _declare("rivulet_model_inputs", _U32, _P)
_model_outputs = _declare("rivulet_model_outputs", _U32, _P)
_model_tensor = _declare("rivulet_model_tensor", _INT, _P, _U32, ctypes.POINTER(_TensorInfo))
_request_new = _declare("rivulet_request_new", _INT, _P, ctypes.POINTER(_P))
_request_unref = _declare("rivulet_request_unref", _P, _P)
_bind_memory = _declare("rivulet_bind_memory", _INT, _P, _U32, _P, ctypes.c_size_t)
_request_run = _declare("rivulet_request_run", _INT, _P, ctypes.POINTER(_RunOptions))
_request_tensor = _declare("rivulet_request_tensor", _INT, _P, _U32, ctypes.POINTER(_TensorInfo))


class RivuletError(OSError):
    """errno is the library's, strerror its line"""


def _check(result):
    if result < 0:
        raise RivuletError(-result, _last_error().decode(errors="replace"))
    return result


class Tensor:
    """An input or output: name, dtype, shape, and scale and zero point if it is quantised.

    bounded: each run finds the shape of this output; shape is its upper bound.
    """

    def __init__(self, info):
        self.name = info.name.decode()
        self.dtype = np.dtype(_DTYPES[info.dtype])
        self.shape = tuple(info.dim[:info.ndim])
        self.output = info.output
        self.scale = info.scale
        self.zero_point = info.zero_point
        self.bounded = info.bounded


class Model:
    """A loaded model. run() is one inference; the object serves one thread at a time."""

    def __init__(self, client, path):
        self._client = client
        self._model, self._request = _P(), _P()
        _check(_model_load(client._client, os.fsencode(path), None, ctypes.byref(self._model)))
        _check(_request_new(self._model, ctypes.byref(self._request)))
        count = _model_inputs(self._model) + _model_outputs(self._model)
        self.tensors = [self._tensor(i) for i in range(count)]
        # The library copies from and to these arrays, which therefore live as long as the request.
        self._arrays = [np.zeros(t.shape, t.dtype) for t in self.tensors]
        for i, array in enumerate(self._arrays):
            _check(_bind_memory(self._request, i, array.ctypes.data, array.nbytes))

    def _tensor(self, number):
        info = _TensorInfo(size=ctypes.sizeof(_TensorInfo))
        _check(_model_tensor(self._model, number, ctypes.byref(info)))
        return Tensor(info)

    def _result(self, number):
        """A copy of an output, in the shape that the last run found."""
        info = _TensorInfo(size=ctypes.sizeof(_TensorInfo))
        _check(_request_tensor(self._request, number, ctypes.byref(info)))
        shape = tuple(info.dim[:info.ndim])
        return self._arrays[number].reshape(-1)[:math.prod(shape)].reshape(shape).copy()

    def run(self, priority=0, deadline=0, **inputs):
        """Every input by name; returns a dict of copies of the outputs by name."""
        wanted = {t.name for t in self.tensors if not t.output}
        if set(inputs) != wanted:
            raise ValueError(f"the model's inputs are {sorted(wanted)}, not {sorted(inputs)}")
        for tensor, array in zip(self.tensors, self._arrays):
            if not tensor.output:
                array[...] = inputs[tensor.name]
        options = _RunOptions(size=ctypes.sizeof(_RunOptions), priority=priority, deadline=deadline)
        _check(_request_run(self._request, ctypes.byref(options)))
        return {t.name: self._result(i) for i, t in enumerate(self.tensors) if t.output}

    def close(self):
        self._request = _P(_request_unref(self._request))
        self._model = _P(_model_unref(self._model))


class Client:
    """A connection to the daemon; socket: its path, by default the system's or $RIVULETD_SOCKET."""

    def __init__(self, socket=None):
        self._client = _P()
        self._models = []
        _check(_open(os.fsencode(socket) if socket else None, ctypes.byref(self._client)))

    def load(self, path):
        model = Model(self, path)
        self._models.append(model)
        return model

    def close(self):
        for model in self._models:
            model.close()
        self._models = []
        self._client = _P(_client_unref(self._client))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
