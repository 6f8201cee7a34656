"""Operations that programs write in ONNX themselves: ``torch.onnx.register_custom_op_symbolic``.

A function gets the graph, which has ``op``, and the operation's arguments: tensors as values of the graph, numbers and lists as they are.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.tensor import Tensor
from .builder import ELEMENT_TYPES, Builder, Value, initializer
from .errors import OnnxExporterError

_NAME = re.compile(r"[a-zA-Z0-9-_]+::[a-zA-Z-_]+[a-zA-Z0-9-_]*")
_ATTRIBUTE = re.compile(r"(.+)_([ifstg])")
_DTYPES = {number: dtypes.ALL[name] for name, number in ELEMENT_TYPES.items()}

REGISTERED: dict[str, dict[int, Callable[..., Any]]] = {}  # by the operation's name and the first operator set


def checked(name: str) -> str:
    """The name of an operation; one without a namespace is of ``aten``.

    Raises:
        OnnxExporterError: it is no name. ValueError: its namespace is ONNX's own.
    """
    name = f"aten{name}" if name.startswith("::") else name
    if not _NAME.fullmatch(name):
        raise OnnxExporterError(
            f"Failed to register operator {name}. The symbolic name must match the format domain::name, and should start with a letter "
            "and contain only alphanumerical characters"
        )
    if name.startswith("onnx::"):
        raise ValueError(f"Failed to register operator {name}. onnx domain cannot be modified.")
    return name


def symbolic_of(func: Any, opset: int) -> Callable[..., Any] | None:
    """The row of an operation that a program registered, for an operator set; None where there is none."""
    versions = REGISTERED.get(f"{func.namespace}::{func._opname}", {})
    found = [version for version in versions if version <= opset]
    if not found:
        return None
    function = versions[max(found)]

    def row(b: Builder, *args: Any, **options: Any) -> Any:
        with writing(b):
            made = function(Graph(b), *_all_arguments(func, args, options))
        results = b.result if isinstance(b.result, (tuple, list)) else [b.result]
        for value, result in zip(made if isinstance(made, (tuple, list)) else [made], results, strict=True):
            value.dtype, value.shape = result.dtype, tuple(result.shape)
        return list(made) if isinstance(made, (tuple, list)) else made

    return row


def _all_arguments(func: Any, args: tuple[Any, ...], options: dict[str, Any]) -> list[Any]:
    """Arguments in the schema's order, those by keyword and those that are left out among them."""
    named = dict(zip([argument.name for argument in func._schema.arguments], args, strict=False)) | options
    return [named.get(argument.name, argument.default_value) for argument in func._schema.arguments if not argument.is_out]


class _Writing(threading.local):
    builder: Builder | None = None


_state = _Writing()


def current() -> Any:
    """The graph that is written in this thread; None where there is none."""
    return _state.builder


@contextlib.contextmanager
def writing(builder: Builder) -> Iterator[None]:
    """Context in which ``current`` is a graph."""
    before, _state.builder = _state.builder, builder
    try:
        yield
    finally:
        _state.builder = before


class Graph:
    """The graph that is written, for a function that a program registered.

    Attributes:
        opset: the version of the operator set.
    """

    def __init__(self, builder: Builder):
        self._builder, self.opset = builder, builder.opset

    def op(self, opname: str, *raw_args: Any, outputs: int = 1, **kwargs: Any) -> Any:
        """Add a node.

        Args:
            opname: its kind; of another domain ``my_domain::Kind``. raw_args: values, tensors and numbers; None for one that is left out.
            outputs: how many results it has. kwargs: attributes, with their types behind: ``axis_i``, ``pads_i``, ``alpha_f``, ``mode_s``,
                ``value_t``.
        Returns:
            Its result, or several.
        Raises:
            ValueError: an attribute without a type.
        """
        domain, _, kind = opname.rpartition("::")
        attributes = {}
        for key, value in kwargs.items():
            match = _ATTRIBUTE.fullmatch(key)
            if match is None:
                raise ValueError(f"Invalid attribute specifier '{key}' names must be suffixed with type, e.g. 'dim_i' or 'dims_i'")
            attributes[match[1]] = self._attribute(match[2], value)
        if kind == "Constant" and not domain and "value_t" in kwargs:
            return self._value(kwargs["value_t"])
        dtype = _DTYPES.get(attributes.get("to", 0)) if kind == "Cast" else None
        if domain and domain != "onnx":
            self._builder.domains.add(domain)
            attributes["domain"] = domain
        return self._builder.op(kind, *[self._value(arg) for arg in raw_args], count=outputs, dtype=dtype, **attributes)

    def _attribute(self, kind: str, value: Any) -> Any:
        several = isinstance(value, (tuple, list))
        converters: dict[str, Callable[[Any], Any]] = {
            "i": int,
            "f": float,
            "s": str,
            "t": lambda each: initializer(self._builder.onnx, self._tensor(each)._array, ""),
            "g": lambda each: each,
        }
        convert = converters[kind]
        return [convert(each) for each in value] if several else convert(value)

    def _value(self, value: Any) -> Any:
        if value is None or isinstance(value, Value):
            return value
        tensor = self._tensor(value)
        return self._builder.constant(tensor._array, tensor.dtype)

    def _tensor(self, value: Any) -> Tensor:
        if isinstance(value, Tensor):
            return value.detach().cpu()
        from ..core.tensor import wrap

        return wrap(np.asarray(value, np.float32 if isinstance(value, float) else None))
