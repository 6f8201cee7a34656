"""Counting floating-point operations of products and convolutions, forward and backward. Source: torch.utils.flop_counter."""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from ..aten.namespaces import ops
from ..aten.overloads import OpOverloadPacket
from ..core.state import thread
from ..core.tensor import Tensor
from ..nn import Module
from ..nn.module import register_module_forward_hook, register_module_forward_pre_hook
from ._forward_graph import tensors_in
from ._python_dispatch import TorchDispatchMode
from ._pytree import tree_map

__all__ = ["FlopCounterMode", "flop_registry", "register_flop_formula"]

Shape = tuple[int, ...]
SUFFIXES = ("", "K", "M", "B", "T")


# -- formulas ---------------------------------------------------------------------------------------------------------------------
flop_registry: dict[Any, Callable[..., int]] = {}  # by kernel: a function of the call's arguments and ``out_val``


def _shapes(value: Any) -> Any:
    """Shapes in place of tensors."""
    return tree_map(lambda item: tuple(item.shape) if isinstance(item, Tensor) else item, value)


def shape_wrapper(f: Callable[..., int]) -> Callable[..., int]:
    """A formula over shapes (``out_shape=``) as one over tensors (``out_val=``)."""

    @functools.wraps(f)
    def over_tensors(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        args, kwargs, out_shape = _shapes((args, kwargs, out_val))
        return f(*args, out_shape=out_shape, **kwargs)

    return over_tensors


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Decorator: count the operations of kernels by a formula.

    Args:
        targets: kernels such as ``torch.ops.aten.mm``, one or a list.
        get_raw: whether the formula takes tensors and ``out_val``; it takes shapes and ``out_shape`` otherwise.
    Returns: the decorator, which returns the formula.
    Raises:
        ValueError: a target that is no kernel. RuntimeError: one that has a formula.
    Source: torch.utils.flop_counter.register_flop_formula.
    Example:
        >>> @register_flop_formula(torch.ops.aten.erfinv)
        ... def four_each(shape, out_shape=None, **kwargs):
        ...     return 4 * math.prod(shape)
        >>> flop_registry.pop(torch.ops.aten.erfinv)(torch.zeros(3))
        12
    """

    def register(formula: Callable[..., int]) -> Callable[..., int]:
        for target in targets if isinstance(targets, (list, tuple)) else (targets,):
            if not isinstance(target, OpOverloadPacket):
                raise ValueError(
                    f"register_flop_formula(targets): expected each target to be OpOverloadPacket (i.e. torch.ops.mylib.foo), got {target} "
                    f"which is of type {type(target)}"
                )
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = formula if get_raw else shape_wrapper(formula)
        return formula

    return register


aten = ops.namespace("aten")


@register_flop_formula(aten.mm)
def mm_flop(a_shape: Shape, b_shape: Shape, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Two operations for each of ``m * k * n`` products."""
    return 2 * a_shape[0] * a_shape[1] * b_shape[1]


@register_flop_formula(aten.addmm)
def addmm_flop(self_shape: Shape, a_shape: Shape, b_shape: Shape, out_shape: Any = None, **kwargs: Any) -> int:
    """Those of the product."""
    return mm_flop(a_shape, b_shape)


@register_flop_formula(aten.bmm)
def bmm_flop(a_shape: Shape, b_shape: Shape, out_shape: Any = None, **kwargs: Any) -> int:
    """Those of a product for each of the batch."""
    return a_shape[0] * mm_flop(a_shape[1:], b_shape[1:])


@register_flop_formula(aten.baddbmm)
def baddbmm_flop(self_shape: Shape, a_shape: Shape, b_shape: Shape, out_shape: Any = None, **kwargs: Any) -> int:
    """Those of the products."""
    return bmm_flop(a_shape, b_shape)


def conv_flop_count(x_shape: Shape, w_shape: Shape, out_shape: Shape, transposed: bool = False) -> int:
    """Two operations for each element of the kernel at each place; groups are not taken into account, as in PyTorch."""
    return 2 * x_shape[0] * math.prod((x_shape if transposed else out_shape)[2:]) * math.prod(w_shape)


@register_flop_formula(aten.convolution)
def conv_flop(
    x_shape: Shape, w_shape: Shape, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, *args: Any, out_shape: Any = None
) -> int:
    """Those of a convolution."""
    return conv_flop_count(x_shape, w_shape, out_shape, transposed)


@register_flop_formula(aten.convolution_backward)
def conv_backward_flop(
    grad_out_shape: Shape,
    x_shape: Shape,
    w_shape: Shape,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    output_mask: Any,
    out_shape: Any,
) -> int:
    """A convolution for each gradient that is asked for."""
    count = 0
    if output_mask[0]:
        count += conv_flop_count(grad_out_shape, w_shape, out_shape[0], not transposed)
    if output_mask[1]:
        larger, smaller = (grad_out_shape, x_shape) if transposed else (x_shape, grad_out_shape)
        count += conv_flop_count(_turned(larger), _turned(smaller), _turned(out_shape[1]))
    return count


def _turned(shape: Shape) -> Shape:
    return (shape[1], shape[0], *shape[2:])


class _Counting(TorchDispatchMode):
    """Shows a counter each kernel's call."""

    def __init__(self, counter: FlopCounterMode):
        super().__init__()
        self.counter = counter

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        self.counter._count_flops(func._overloadpacket, out, args, kwargs)
        return out


class FlopCounterMode:
    """Counts the floating-point operations of what runs inside the ``with`` block: two for each multiplication and addition.

    Products of matrices and convolutions are counted, backward passes included, as PyTorch counts them on a CPU: fused attention and
    recurrent layers are not.

    Args:
        mods: not needed any more.
        depth: how many levels of modules ``get_table`` shows.
        display: print the table at the end.
        custom_mapping: from further kernels, such as ``torch.ops.aten.sin``, to ``f(*shapes, out_shape=shape)`` that counts their
            operations; to ``f(*args, out_val=result)`` where that has the attribute ``_get_raw``.

    Example:
        >>> from flambeau.utils.flop_counter import FlopCounterMode
        >>> with FlopCounterMode(display=False) as counter:
        ...     product = torch.ones(3, 4) @ torch.ones(4, 5)
        >>> counter.get_total_flops()
        120

    Source: torch.utils.flop_counter.FlopCounterMode.
    """

    def __init__(self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: dict[Any, Any] | None = None) -> None:
        self.depth, self.display = depth, display
        self.flop_counts: dict[str, dict[Any, int]] = {"Global": {}}
        custom = {kernel: f if getattr(f, "_get_raw", False) else shape_wrapper(f) for kernel, f in (custom_mapping or {}).items()}
        self.flop_registry = {**flop_registry, **custom}
        self._inside: list[str] = []
        self._names: dict[int, str] = {}
        self._kept: list[Module] = []  # so that no other module gets the id of one that is known

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts = defaultdict(lambda: defaultdict(int))
        self.flop_counts["Global"] = defaultdict(int)
        self._inside = ["Global"]
        with ExitStack() as stack:
            stack.enter_context(_Counting(self))
            stack.enter_context(register_module_forward_pre_hook(self._enter_module))
            stack.enter_context(register_module_forward_hook(self._leave_module, always_call=True))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()
        if self.display:
            print(self.get_table(self.depth))

    # -- modules ------------------------------------------------------------------------------------------------------------
    def _name(self, module: Module) -> str:
        if id(module) not in self._names:  # an outermost module names those below it
            kind = type(module).__name__
            for path, child in module.named_modules():
                self._names.setdefault(id(child), f"{kind}.{path}" if path else kind)
                self._kept.append(child)
        return self._names[id(module)]

    def _enter_module(self, module: Module, args: Any) -> None:
        name = self._name(module)
        self._inside.append(name)
        for tensor in tensors_in(args):
            if tensor.requires_grad and tensor.grad_fn is not None:
                tensor.register_hook(lambda grad: self._drop(name))

    def _leave_module(self, module: Module, args: Any, result: Any) -> None:
        name = self._name(module)
        self._drop(name)
        for tensor in tensors_in(result):
            if tensor.requires_grad:
                tensor.register_hook(lambda grad: self._enter_backward(name))

    def _enter_backward(self, name: str) -> None:
        if name not in self._inside:
            self._inside.append(name)
            if thread.running is not None:  # a module whose inputs need no gradient is left when the pass ends
                thread.running.at_end.append(lambda: self._drop(name))

    def _drop(self, name: str) -> None:
        if name in self._inside:
            self._inside.remove(name)

    # -- counting -----------------------------------------------------------------------------------------------------------
    def _count_flops(self, packet: Any, out: Any, args: Any, kwargs: dict[str, Any]) -> None:
        if packet in self.flop_registry:
            count = self.flop_registry[packet](*args, **kwargs, out_val=out)
            for name in dict.fromkeys(self._inside):
                self.flop_counts[name][packet] += count

    # -- results ------------------------------------------------------------------------------------------------------------
    def get_total_flops(self) -> int:
        """Operations of all that ran.

        Source: torch.utils.flop_counter.FlopCounterMode.get_total_flops.
        """
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Operations by module (``"Global"`` for all) and by kernel, such as ``torch.ops.aten.mm``.

        Source: torch.utils.flop_counter.FlopCounterMode.get_flop_counts.
        """
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The counts of modules and kernels as a table.

        Args:
            depth: levels of modules; that of the constructor when None.
        Source: torch.utils.flop_counter.FlopCounterMode.get_table.
        """
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        rows = [("Module", "FLOP", "% Total")]
        for name in sorted(self.flop_counts, key=lambda name: (name != "Global", name)):
            level = 0 if name == "Global" else name.count(".") + 1
            counts = self.flop_counts[name]
            if level > depth or not counts:
                continue
            indent = " " * level
            lines = [(f"{indent}{name}", sum(counts.values())), *[(f"{indent} - {kernel}", count) for kernel, count in counts.items()]]
            rows += [(text, _short(count), f"{100 * count / max(total, 1):.2f}%") for text, count in lines]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines_of_text = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]
        return "\n".join([lines_of_text[0], "  ".join("-" * width for width in widths), *lines_of_text[1:]])


def _short(count: int) -> str:
    """A number with three decimals and a letter: 17.664K."""
    power = min(max(len(str(abs(count))) - 1, 0) // 3, len(SUFFIXES) - 1)
    return f"{count / 1000**power:.3f}{SUFFIXES[power]}" if power else str(count)
