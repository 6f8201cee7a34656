"""Shapes, dtypes and strides of a graph's values. Source: torch.fx.passes.shape_prop."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...core.layout import channels_last, channels_last_3d, contiguous_format
from ...core.tensor import Tensor
from ..graph_module import GraphModule
from ..interpreter import Interpreter
from ..node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """The notes about a tensor.

    Args:
        shape, dtype, requires_grad, stride, memory_format, is_quantized, qparams: the attributes.
    Source: torch.fx.passes.shape_prop.TensorMetadata.

    Attributes:
        shape, dtype, requires_grad, stride: of the tensor. memory_format: of the formats that it has, the first; None of none.
        is_quantized, qparams: of quantized tensors: False and empty.
    Example:
        >>> from flambeau.fx.passes.shape_prop import TensorMetadata
        >>> TensorMetadata(torch.Size([2]), torch.float32, False, (1,), None, False, {}).stride
        (1,)
    """

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Any, include_contiguity: bool = True) -> TensorMetadata:
    memory_format = None
    if include_contiguity:
        formats = [contiguous_format, *{4: [channels_last], 5: [channels_last_3d]}.get(result.dim(), [])]
        memory_format = next((each for each in formats if result.is_contiguous(memory_format=each)), None)
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, result.stride(), memory_format, False, {})


class ShapeProp(Interpreter):
    """Runs a graph and notes the shape, dtype and strides of each value in ``node.meta["tensor_meta"]``, its type in ``meta["type"]``.

    Args:
        gm: the module whose graph is run. fake_mode: run on fake tensors of this mode, which compute nothing.
    Source: torch.fx.passes.shape_prop.ShapeProp.
    Example:
        >>> from flambeau.fx.passes.shape_prop import ShapeProp
        >>> module = torch.fx.symbolic_trace(lambda x: x.sum(0))
        >>> _ = ShapeProp(module).propagate(torch.ones(2, 3))
        >>> [tuple(node.meta["tensor_meta"].shape) for node in module.graph.nodes]
        [(2, 3), (3,), (3,)]
    """

    def __init__(self, gm: GraphModule, fake_mode: Any = None):
        super().__init__(gm)
        self.fake_mode = fake_mode
        self.fake_module: Any = None
        if fake_mode is not None:
            self.fake_module = _fake_copy(gm, fake_mode)
            self.module = self.fake_module
        self.real_module = gm

    def run_node(self, n: Node) -> Any:
        """The value of a node, noted."""
        try:
            result = super().run_node(n) if self.fake_mode is None else self._on_fakes(n)
        except Exception as error:
            raise RuntimeError(f"ShapeProp error for: node={n.format_node()} with meta={n.meta}") from error
        found = False

        def note(leaf: Any) -> Any:
            nonlocal found
            if isinstance(leaf, Tensor):
                found = True
                return _extract_tensor_metadata(leaf)
            return leaf

        meta = map_aggregate(result, note)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def _on_fakes(self, n: Node) -> Any:
        with self.fake_mode:
            return super().run_node(n)

    def propagate(self, *args: Any) -> Any:
        """Run the graph on inputs; what it returns. Source: torch.fx.passes.shape_prop.ShapeProp.propagate."""
        if self.fake_mode is not None:
            args = tuple([self.fake_mode.from_tensor(arg) if isinstance(arg, Tensor) else arg for arg in args])
        return super().run(*args)


def _fake_copy(module: Any, mode: Any) -> Any:
    import copy

    copied = copy.deepcopy(module)
    for inner in copied.modules():
        for registry in (inner._parameters, inner._buffers):
            for name, value in registry.items():
                if value is not None:
                    registry[name] = mode.from_tensor(value)
    return copied
