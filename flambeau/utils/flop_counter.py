"""Counting floating-point operations of products and convolutions, forward and backward. Source: torch.utils.flop_counter."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from ..core.state import observing, thread
from ..core.tensor import Tensor
from ..nn.module import Module, register_module_forward_hook, register_module_forward_pre_hook

__all__ = ["FlopCounterMode"]

Shape = tuple[int, ...]
SUFFIXES = ("", "K", "M", "B", "T")


def _product(a: Shape, b: Shape, result: Shape) -> tuple[str, int] | None:
    if len(a) < 2 or len(b) < 2:
        return None  # PyTorch counts no products with vectors
    return "aten.bmm" if len(a) > 2 and len(b) > 2 else "aten.mm", 2 * math.prod(result) * a[-1]


def _linear(input: Shape, weight: Shape, *rest: Any) -> tuple[str, int] | None:
    *bias, result = rest
    if len(input) == 1 and not bias:
        return None
    return "aten.addmm" if bias else "aten.mm", 2 * math.prod(result) * weight[-1]


def _added(name: str) -> Callable[..., tuple[str, int]]:
    return lambda added, a, b, result: (name, 2 * math.prod(result) * a[-1])


def _convolution(input: Shape, weight: Shape, *rest: Any) -> tuple[str, int]:
    *_, result, transposed = rest
    places = (input if transposed else result)[2:]
    name = "aten.convolution" if thread.running is None else "aten.convolution_backward"
    return name, 2 * input[0] * math.prod(places) * math.prod(weight)


def _convolution_weight(larger: Shape, smaller: Shape, result: Shape) -> tuple[str, int]:
    # Groups are not taken into account, as in PyTorch.
    return "aten.convolution_backward", 2 * larger[0] * larger[1] * smaller[1] * math.prod(smaller[2:]) * math.prod(result[2:])


FORMULAS: dict[str, Callable[..., tuple[str, int] | None]] = {
    "mm": _product,
    "bmm": _product,
    "matmul": _product,
    "linear": _linear,
    "addmm": _added("aten.addmm"),
    "baddbmm": _added("aten.baddbmm"),
    "convolution": _convolution,
    "_convolution_weight": _convolution_weight,
}


def _tensors(values: Any) -> Iterator[Tensor]:
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from _tensors(value)
    elif isinstance(values, dict):
        yield from _tensors(tuple(values.values()))


class FlopCounterMode:
    """Counts the floating-point operations of what runs inside the ``with`` block: two for each multiplication and addition.

    Products of matrices and convolutions are counted, backward passes included, as PyTorch counts them on a CPU: fused attention and
    recurrent layers are not.

    Args:
        mods: not needed any more.
        depth: how many levels of modules ``get_table`` shows.
        display: print the table at the end.
        custom_mapping: from further functions, such as ``torch.add``, to ``f(*args, out_val=result)`` that counts their operations.

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
        self.flop_counts: dict[str, dict[str, int]] = {}
        self._custom = {function.__name__: function_flops for function, function_flops in (custom_mapping or {}).items()}
        self._inside: list[str] = []
        self._names: dict[int, str] = {}
        self._kept: list[Module] = []  # so that no other module gets the id of one that is known

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts = defaultdict(lambda: defaultdict(int))
        self.flop_counts["Global"] = defaultdict(int)
        self._inside = ["Global"]
        with ExitStack() as stack:
            stack.enter_context(observing(self._observe))
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
        for tensor in _tensors(args):
            if tensor.requires_grad and tensor.grad_fn is not None:
                tensor.register_hook(lambda grad: self._drop(name))

    def _leave_module(self, module: Module, args: Any, result: Any) -> None:
        name = self._name(module)
        self._drop(name)
        for tensor in _tensors(result):
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
    def _observe(self, op: Any, values: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        results, is_tuple = run()
        counted = None
        if op.name in self._custom:
            out_val = tuple(results) if is_tuple else results[0]
            counted = f"aten.{op.name}", self._custom[op.name](*values, out_val=out_val)
        elif op.name in FORMULAS:
            shapes: list[Any] = [tuple(value.shape) for value in values if isinstance(value, Tensor)]
            shapes.append(results[0].shape)
            if op.name == "convolution":
                shapes.append(values[op.names.index("transposed")])
            counted = FORMULAS[op.name](*shapes)
        if counted is not None:
            for name in dict.fromkeys(self._inside):
                self.flop_counts[name][counted[0]] += counted[1]
        return results, is_tuple

    # -- results ------------------------------------------------------------------------------------------------------------
    def get_total_flops(self) -> int:
        """Operations of all that ran.

        Source: torch.utils.flop_counter.FlopCounterMode.get_total_flops.
        """
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """Operations by module (``"Global"`` for all) and by the name of PyTorch's kernel, such as ``"aten.mm"``.

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
