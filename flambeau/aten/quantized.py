"""``torch.ops.quantized``: linear layers of quantized weights, which are packed first. Source: torch.ops.quantized.

What a layer packs is a ``torch.ScriptObject``, as PyTorch's objects of C++ classes are. It unpacks to the tensors that it was made of;
this is how it is saved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays.panels import PackedLinear
from ..core.protocols.quantized import QuantizedTensor
from ..core.quantizer import Quantizer, per_channel_affine, per_tensor_affine
from ..core.state import thread
from ..core.tensor import Parameter, Tensor, wrap
from ..ops.integer_products import quantized_linear, quantized_linear_dynamic
from .overloads import OpOverload, OpOverloadPacket, _OpNamespace, overridden, tensors_in
from .schema import FunctionSchema, parse_schema

_CLASS = "__torch__.torch.classes.quantized.LinearPackedParamsBase"


class ScriptObject:
    """The packed weights of a quantized linear layer. Source: torch.ScriptObject.

    Args:
        weight: ``(n, k)``, qint8, quantized as a whole or by rows.
        bias: ``(n,)``, or None.
    Example:
        >>> weight = torch._make_per_tensor_quantized_tensor(torch.tensor([[1, -2]], dtype=torch.int8), 0.5, 0)
        >>> packed = torch.ops.quantized.linear_prepack(weight, torch.tensor([1.0]))
        >>> packed.unpack()[0].int_repr()
        tensor([[ 1, -2]], dtype=torch.int8)
    """

    def __init__(self, weight: QuantizedTensor, bias: Tensor | None = None) -> None:
        self._set(weight, bias)

    def _set(self, weight: QuantizedTensor, bias: Tensor | None) -> None:
        quantizer = weight._quantizer
        scales, points = np.asarray(quantizer.scale), np.asarray(quantizer.zero_point)
        steps = scales.astype(np.float32).astype(np.float64)  # which are kept in float32
        self._packed = PackedLinear(weight._inner._array, steps, points, None if bias is None else bias.detach()._array)
        self._bias = bias
        of_rows = quantizer.axis is not None
        parts = (steps, points.astype(np.int64), 0) if of_rows else (float(steps), int(points), None)
        self._quantizer = Quantizer(per_channel_affine if of_rows else per_tensor_affine, dtypes.qint8, *parts)

    def _type(self) -> str:
        return _CLASS

    def unpack(self) -> tuple[QuantizedTensor, Tensor | None]:
        """The weight and the bias that were packed."""
        return QuantizedTensor(wrap(np.ascontiguousarray(self._packed.panels.rows())), self._quantizer), self._bias

    def bias(self) -> Tensor | None:
        """The bias that was packed."""
        return self._bias

    def __getstate__(self) -> Any:
        return self.unpack(), _CLASS

    def __setstate__(self, state: Any) -> None:
        """Pack what a file has.

        Raises:
            RuntimeError: it is something else than such a layer.
        """
        if not (isinstance(state, tuple) and len(state) == 2 and state[1] == _CLASS):
            raise RuntimeError(f"ScriptObject: expected the state of a {_CLASS}, got {type(state).__name__}")
        _checked(*state[0])
        self._set(*state[0])

    def __reduce_ex__(self, protocol: Any) -> Any:
        return object.__reduce_ex__(self, 2)

    def __deepcopy__(self, memo: dict[int, Any]) -> ScriptObject:
        weight, bias = self.unpack()
        return memo.setdefault(id(self), ScriptObject(weight, None if bias is None else bias.__deepcopy__(memo)))

    def __repr__(self) -> str:
        return f"<torch.ScriptObject object at {id(self):#x}>"

    def __str__(self) -> str:
        return f"ScriptObject <{_CLASS}>"


# -- checks ------------------------------------------------------------------------------------------------------------------------------
def _require(condition: bool, message: str) -> None:
    if not condition:
        raise RuntimeError(message)


def _on_plain(name: str, tensor: Any, quantized: bool) -> None:
    """Whether a tensor is one, and quantized or not, as an operation has a kernel for.

    Raises:
        RuntimeError: no tensor. NotImplementedError: the other kind.
    """
    _require(isinstance(tensor, Tensor), f"quantized::{name}() Expected a value of type 'Tensor', got {type(tensor).__name__}")
    if tensor.is_quantized is not quantized:
        found = "QuantizedCPU" if tensor.is_quantized else "CPU"
        raise NotImplementedError(f"Could not run 'quantized::{name}' with arguments from the '{found}' backend.")


def _checked(weight: Any, bias: Any) -> None:
    """Raises:
    RuntimeError: weights or a bias that cannot be packed. NotImplementedError: of the meta device.
    """
    word = "linear_prepack"
    _on_plain(word, weight, True)
    _require(weight.dtype is dtypes.qint8, f"expected scalar type QInt8 but found {weight.dtype.legacy}")
    _require(weight.ndim == 2, "The weight tensor for quantized::linear_prepack (fbgemm) should be 2-dimensional.")
    quantizer = weight._quantizer
    _require(quantizer.axis in (None, 0), "linear_prepack: expected a weight that is quantized as a whole, or by rows (axis 0)")
    _require(np.asarray(quantizer.zero_point).dtype.kind != "f", "linear_prepack: expected zero points that are integers")
    if bias is not None:
        _on_plain(word, bias, False)
        _require(bias.dtype is dtypes.float32, f"expected scalar type Float but found {bias.dtype.legacy}")
        _require(bias.ndim == 1, "bias should be a vector (1D Tensor)")
        if bias.is_meta:
            raise NotImplementedError("Could not run 'quantized::linear_prepack' with arguments from the 'Meta' backend.")
        _require(len(bias) == weight.shape[0], f"bias should have N elements: {weight.shape[0]}")


def _layer(name: str, packed: Any) -> PackedLinear:
    """The packed weights of an argument."""
    if not isinstance(packed, ScriptObject):
        raise RuntimeError(
            f"quantized::{name}() Expected a value of type '{_CLASS} (of Python compilation unit at: 0)' for argument 'W_prepack' but "
            f"instead found type '{type(packed).__name__}'."
        )
    return packed._packed


def _fits(input: Any, layer: PackedLinear) -> None:
    _require(input.ndim >= 2, "The dimension of input tensor should be larger than or equal to 2")
    columns = input.shape[-1]
    _require(columns == layer.panels.inner, f"The number of rows in the packB should be equal to K: {columns}")


# -- operations --------------------------------------------------------------------------------------------------------------------------
def linear_prepack(W: Tensor, B: Tensor | None) -> ScriptObject:
    """The weights of a linear layer, packed."""
    _checked(W, B)
    return ScriptObject(W, B)  # type: ignore[arg-type]


def linear_unpack(W_prepack: Any) -> tuple[Any, Any]:
    """The weight and the bias of packed weights."""
    _layer("linear_unpack", W_prepack)
    return W_prepack.unpack()


def _dynamic(name: str, relu: bool) -> Any:
    def run(X: Tensor, W_prepack: Any, reduce_range: bool) -> Any:
        layer = _layer(name, W_prepack)
        _on_plain(name, X, False)
        _fits(X, layer)
        _require(X.dtype is dtypes.float32, f"expected scalar type Float but found {X.dtype.legacy}")
        return quantized_linear_dynamic(X, layer, reduce_range, relu)

    return run


def _static(name: str, relu: bool) -> Any:
    def run(X: Any, W_prepack: Any, Y_scale_i: float, Y_zero_point_i: int) -> Any:
        layer = _layer(name, W_prepack)
        _on_plain(name, X, True)
        _require(X.dtype is dtypes.quint8, f"Expected input data type QUInt8 but got {X.dtype.legacy}")
        _fits(X, layer)
        made = quantized_linear(X._inner, layer, X.q_scale(), X.q_zero_point(), Y_scale_i, Y_zero_point_i, relu)
        return QuantizedTensor(made, Quantizer(per_tensor_affine, dtypes.quint8, Y_scale_i, Y_zero_point_i))

    return run


_OPERATIONS = {
    f"linear_prepack(Tensor W, Tensor? B=None) -> {_CLASS} W_prepack": linear_prepack,
    f"linear_unpack({_CLASS} W_prepack) -> (Tensor W_origin, Tensor? B_origin)": linear_unpack,
    **{
        f"{name}(Tensor X, {_CLASS} W_prepack, bool reduce_range=False) -> Tensor Y": _dynamic(name, "relu" in name)
        for name in ("linear_dynamic", "linear_relu_dynamic")
    },
    **{
        f"{name}(Tensor X, {_CLASS} W_prepack, float Y_scale_i, int Y_zero_point_i) -> Tensor Y": _static(name, "relu" in name)
        for name in ("linear", "linear_relu")
    },
}


_TAKEN = frozenset((Tensor, Parameter, QuantizedTensor))
_USUAL = _TAKEN | {ScriptObject, bool, int, float}


class _Packet(OpOverloadPacket):
    """An operation that takes quantized tensors, which other functions refuse, as they are."""

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        values = (*args, *kwargs.values()) if kwargs else args
        usual = _USUAL.issuperset(map(type, values))
        if thread.function_modes or not (usual or _TAKEN.issuperset(map(type, tensors_in(values)))):
            result = overridden(self, args, kwargs)
            if result is not NotImplemented:
                return result
        return self.default._op(*args, **kwargs)


def fill(namespace: _OpNamespace) -> None:
    """Define the operations in their namespace."""
    for text, function in _OPERATIONS.items():
        schema = parse_schema(f"quantized::{text}")
        name = schema.name.partition("::")[2]
        packet = namespace._packets[name] = _Packet("quantized", name)
        packet.define(OpOverload(packet, _bound(function, schema), schema, []))


def _bound(function: Callable[..., Any], schema: FunctionSchema) -> Callable[..., Any]:
    """A function of any call's arguments, which are converted as the schema says."""
    return lambda *args, **kwargs: function(*schema.bind(args, kwargs))
