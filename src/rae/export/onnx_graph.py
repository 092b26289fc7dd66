"""An ONNX graph, built node by node: inputs with what they mean, operations, outputs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from rae.errors import FileError, needed_library
from rae.export.contract import PART_OF_A_GRAPH
from rae.progress import size
from rae.version import __version__

OPSET, IR = 17, 9  # what onnxruntime 1.15 and later read
MOST_BYTES = 2**31 - 1  # of an ONNX file without files beside it


class GraphBuilder:
    """A graph of rows: every input and output has one row per node, but for those that hold for all nodes."""

    def __init__(self, name: str, about: str) -> None:
        self._onnx, self._name, self._about = needed_library("onnx", "onnx", "a model as ONNX"), name, about
        self._nodes: list[Any] = []
        self._inputs: dict[str, Any] = {}
        self._constants: dict[str, Any] = {}
        self._outputs: list[Any] = []

    def input(self, name: str, width: int, about: str) -> str:
        """Rows of numbers that the caller gives; an input that is there already is the same one.  -> (n, width)"""
        if name not in self._inputs:
            self._inputs[name] = self._value(name, ("nodes", width), about)
        return name

    def default(self, name: str, value: Any, about: str) -> str:
        """An input that the caller may give, and that otherwise has this value."""
        array = np.ascontiguousarray(value, np.float32)
        self._inputs[name] = self._value(name, array.shape, about)
        self._constants[name] = self._onnx.numpy_helper.from_array(array, name)
        return name

    def output(self, name: str, value: str, width: int, about: str) -> None:
        """Rows of numbers that come back.  -> (n, width)"""
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._value(name, ("nodes", width), about))

    def constant(self, value: Any, kind: Any = np.float32) -> str:
        """The name of an array that the graph holds."""
        name = f"constant_{len(self._constants)}"
        self._constants[name] = self._onnx.numpy_helper.from_array(np.ascontiguousarray(value, kind), name)
        return name

    def op(self, kind: str, *values: str, **attributes: Any) -> str:
        """The name of what an operation of ONNX gives."""
        name = f"value_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, list(values), [name], **attributes))
        return name

    def columns(self, rows: str, index: Any) -> str:
        """Some columns of rows."""
        return self.op("Gather", rows, self.constant(index, np.int64), axis=1)

    def side_by_side(self, parts: list[str]) -> str:
        """Rows joined: the columns of the first, then of the next."""
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=1)

    def file(self, about: Mapping[str, Any]) -> bytes:
        """The graph as the bytes of a file, checked; `about` is kept in its metadata."""
        helper = self._onnx.helper
        graph = helper.make_graph(
            self._nodes,
            self._name,
            list(self._inputs.values()),
            self._outputs,
            list(self._constants.values()),
            doc_string=f"{self._about}\n{PART_OF_A_GRAPH}",
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR,
            producer_name="rae",
            producer_version=__version__,
        )
        helper.set_model_props(model, {"rae": json.dumps(dict(about), sort_keys=True)})
        if (total := model.ByteSize()) > MOST_BYTES:
            raise FileError(f"an ONNX file holds {size(MOST_BYTES)} at most, and this model takes {size(total)}")
        self._onnx.checker.check_model(model, full_check=True)
        written: bytes = model.SerializeToString(deterministic=True)
        return written

    def _value(self, name: str, shape: tuple[Any, ...], about: str) -> Any:
        return self._onnx.helper.make_tensor_value_info(name, self._onnx.TensorProto.FLOAT, shape, doc_string=about)
