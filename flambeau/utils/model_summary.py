"""A table of a module's layers: what shapes go through it, how many parameters, multiplications and bytes it takes."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from ..autograd import no_grad
from ..core.state import observing
from ..core.tensor import Tensor
from ..nn import Module
from ..nn.module import register_module_forward_hook, register_module_forward_pre_hook
from ..ops.creation import zeros
from ._forward_graph import arguments_of, evaluating, tensors_in

__all__ = ["LayerSummary", "ModelSummary", "summary"]

RECURRENT = frozenset(("_lstm_layer", "_gru_layer", "_rnn_layer"))
HEADINGS = ("Layer (type)", "Input shape", "Output shape", "Parameters", "Multiply-adds")

Shape = tuple[int, ...]


def _product(a: Shape, b: Shape, result: Shape) -> int:
    return math.prod(result) * a[-1] if len(a) > 1 and len(b) > 1 else math.prod(a)


def _added_product(added: Shape, a: Shape, b: Shape, result: Shape) -> int:
    return _product(a, b, result)


def _linear(input: Shape, weight: Shape, *rest: Any) -> int:
    *bias, result = rest
    return math.prod(result) * weight[-1] if bias or len(input) > 1 else 0  # PyTorch counts no products with vectors


def _convolution(input: Shape, weight: Shape, *rest: Any) -> int:
    *_, result, transposed = rest
    return input[0] * math.prod((input if transposed else result)[2:]) * math.prod(weight)


# By our primitives, from the shapes of tensors and of the result: multiplications, each with an addition.
FORMULAS: dict[str, Callable[..., int]] = {
    **dict.fromkeys(("mm", "bmm", "matmul"), _product),
    **dict.fromkeys(("addmm", "baddbmm"), _added_product),
    "linear": _linear,
    "convolution": _convolution,
}


@dataclass(slots=True)
class LayerSummary:
    """One call of one module.

    Attributes:
        name: the module's name in its parent; the class for the outermost.
        kind: the module's class.
        depth: how many modules are around it.
        path: the module's name in the outermost one.
        input_shapes, output_shapes: of the tensors that go in and come out.
        parameters: elements of the parameters of the module and those below it; 0 where an earlier row has them.
        trainable: how many of them require a gradient.
        multiply_adds: of the call, those of the modules below it included.
        output_bytes: of the results.
        is_leaf: whether no module was called inside of it.
        is_repeated: whether the module was called before and has parameters.
    Args: the attributes.
    Source: torchinfo.layer_info.LayerInfo, which it is like.
    Example:
        >>> torch.utils.summary(torch.nn.Linear(4, 3), (2, 4)).layers[0].output_shapes
        [(2, 3)]
    """

    name: str
    kind: str
    depth: int
    path: str
    input_shapes: list[tuple[int, ...]] = field(default_factory=list)
    output_shapes: list[tuple[int, ...]] = field(default_factory=list)
    parameters: int = 0
    trainable: int = 0
    multiply_adds: int = 0
    output_bytes: int = 0
    is_leaf: bool = True
    is_repeated: bool = False


def _shape_text(shapes: Sequence[tuple[int, ...]]) -> str:
    return ", ".join(str(list(shape)) for shape in shapes) or "-"


def _bytes_of(tensors: Any) -> int:
    return sum(tensor.numel() * tensor.itemsize for tensor in tensors)


@dataclass(slots=True)
class ModelSummary:
    """Result of :func:`summary`; its text is the table.

    Attributes:
        layers: every call of every module in the order of the calls, a module before those inside of it.
        depth: levels of modules that the table shows.
        total_parameters, trainable_parameters: each parameter counted once.
        multiply_adds: one multiplication and one addition each: of products, convolutions, attention and recurrent layers.
        input_bytes, parameter_bytes: of the arguments; of parameters and buffers.
        output_bytes: of the results of all modules that call no other.
    Args: the attributes, up to the last.
    Source: torchinfo.ModelStatistics, which it is like.
    Example:
        >>> torch.utils.summary(torch.nn.Linear(4, 3), (2, 4)).total_parameters
        15
    """

    layers: list[LayerSummary]
    depth: int
    total_parameters: int
    trainable_parameters: int
    multiply_adds: int
    input_bytes: int
    parameter_bytes: int

    @property
    def output_bytes(self) -> int:
        return sum(layer.output_bytes for layer in self.layers if layer.is_leaf)

    @property
    def total_bytes(self) -> int:
        return self.input_bytes + self.output_bytes + self.parameter_bytes

    def rows(self) -> Iterator[tuple[str, ...]]:
        """The cells of the table below its headings."""
        shown = [layer for layer in self.layers if layer.depth <= self.depth]
        for place, layer in enumerate(shown):
            name = layer.kind if layer.depth == 0 else f"{_branch(shown, place)}{layer.name} ({layer.kind})"
            holds_shown = not layer.is_leaf and layer.depth < self.depth
            parameters = "(again)" if layer.is_repeated and layer.parameters == 0 else f"{layer.parameters:,}"
            cells = (parameters, f"{layer.multiply_adds:,}")
            yield (name, _shape_text(layer.input_shapes), _shape_text(layer.output_shapes), *(("-", "-") if holds_shown else cells))

    def totals(self) -> list[tuple[str, str]]:
        """Lines below the table: a name and a number each."""
        megabytes = 1e6
        return [
            ("Parameters", f"{self.total_parameters:,}"),
            ("Trainable parameters", f"{self.trainable_parameters:,}"),
            ("Multiply-adds", f"{self.multiply_adds:,}"),
            ("Input (MB)", f"{self.input_bytes / megabytes:,.2f}"),
            ("Results of layers (MB)", f"{self.output_bytes / megabytes:,.2f}"),
            ("Parameters and buffers (MB)", f"{self.parameter_bytes / megabytes:,.2f}"),
            ("Together (MB)", f"{self.total_bytes / megabytes:,.2f}"),
        ]

    def __str__(self) -> str:
        rows = [HEADINGS, *self.rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
        lines = ["  ".join(cell.rjust(width) if column > 2 else cell.ljust(width) for column, (cell, width) in enumerate(zip(row, widths)))
                 for row in rows]  # fmt: skip
        rule = "=" * max(map(len, lines))
        totals = [f"{name}: {number}" for name, number in self.totals()]
        return "\n".join([rule, lines[0].rstrip(), rule, *(line.rstrip() for line in lines[1:]), rule, *totals, rule])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The table for a notebook."""
        head = "".join(f"<th>{heading}</th>" for heading in HEADINGS)
        left = " style='text-align:left;white-space:pre'"
        body = "".join(
            "<tr>" + "".join(f"<td{left if column < 3 else ''}>{html.escape(cell)}</td>" for column, cell in enumerate(row)) + "</tr>"
            for row in self.rows()
        )
        totals = "<br>".join(f"{html.escape(name)}: {number}" for name, number in self.totals())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{totals}</p>"


def _branch(layers: Sequence[LayerSummary], place: int) -> str:
    """The lines of a tree before a layer's name."""
    depth = layers[place].depth
    text = ""
    for level in range(1, depth + 1):
        later = next((layer.depth for layer in layers[place + 1 :] if layer.depth <= level), 0)
        goes_on = later == level
        text += ("├─ " if goes_on else "└─ ") if level == depth else ("│  " if goes_on else "   ")
    return text


class _Observer:
    """Makes a row of each call of a module, and counts what its operations multiply."""

    def __init__(self, model: Module) -> None:
        self.layers: list[LayerSummary] = []
        self.multiply_adds = 0
        self._open: list[LayerSummary] = []
        self._places: list[int] = []
        self._paths = {id(module): path for path, module in model.named_modules()}
        self._seen: set[int] = set()
        self._counted: set[int] = set()

    def enter(self, module: Module, args: Any) -> None:
        kind, path = type(module).__name__, self._paths.get(id(module), "")
        layer = LayerSummary(path.rpartition(".")[2] or kind, kind, len(self._open), path)
        layer.is_repeated = id(module) in self._seen and any(True for _ in module.parameters())
        self._seen.add(id(module))
        self._places.append(len(self.layers))
        layer.input_shapes = [tuple(tensor.shape) for tensor in tensors_in(args)]
        if self._open:
            self._open[-1].is_leaf = False
        self.layers.append(layer)
        self._open.append(layer)

    def leave(self, module: Module, args: Any, result: Any) -> None:
        layer = self._open.pop()
        tensors = list(tensors_in(result))
        layer.output_shapes = [tuple(tensor.shape) for tensor in tensors]
        layer.output_bytes = _bytes_of(tensors)
        # Parameters of the modules below count as theirs, which were asked first, and here again as parts of the whole.
        below = self.layers[self._places.pop() + 1 :]
        own = [parameter for parameter in module.parameters() if id(parameter) not in self._counted]
        inside = [layer_below for layer_below in below if layer_below.depth == layer.depth + 1]
        layer.parameters = sum(parameter.numel() for parameter in own) + sum(one.parameters for one in inside)
        layer.trainable = sum(parameter.numel() for parameter in own if parameter.requires_grad) + sum(one.trainable for one in inside)
        self._counted.update(id(parameter) for parameter in own)

    def operation(self, op: Any, values: tuple[Any, ...], run: Any) -> Any:
        results, is_tuple = run()
        count = _multiply_adds(op, values, results[0].shape)
        self.multiply_adds += count
        for layer in self._open:
            layer.multiply_adds += count
        return results, is_tuple


def _multiply_adds(op: Any, values: tuple[Any, ...], result: tuple[int, ...]) -> int:
    """Multiplications, each with an addition, of one operation."""
    if op.name in FORMULAS:
        shapes: list[Any] = [tuple(value.shape) for value in values if isinstance(value, Tensor)]
        shapes.append(result)
        if op.name == "convolution":
            shapes.append(values[op.names.index("transposed")])
        return FORMULAS[op.name](*shapes)
    if op.name == "_attention":
        query, key, value = (tuple(operand.shape) for operand in values[:3])
        return math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])
    if op.name in RECURRENT:
        weights = [values[op.names.index(name)] for name in ("weight_ih", "weight_hh", "weight_hr") if name in op.names]
        return math.prod(values[0].shape[:-1]) * sum(weight.numel() for weight in weights if weight is not None)
    return 0


def inputs_of(model: Module, input_size: Any, input_data: Any, dtypes: Any, device: Any) -> tuple[Any, ...]:
    """The arguments of a pass: given, or zeros of the given sizes."""
    if (input_size is None) == (input_data is None):
        raise ValueError("expected either input_size or input_data")
    if input_data is not None:
        return arguments_of(input_data)
    sizes = [tuple(input_size)] if all(isinstance(size, int) for size in input_size) else [tuple(size) for size in input_size]
    kinds = list(dtypes) if isinstance(dtypes, (list, tuple)) else [dtypes] * len(sizes)
    if len(kinds) != len(sizes):
        raise ValueError(f"expected one dtype for each of {len(sizes)} sizes, got {len(kinds)}")
    device = next((parameter.device for parameter in model.parameters()), None) if device is None else device
    return tuple(zeros(size, dtype=dtype, device=device) for size, dtype in zip(sizes, kinds))


def summary(
    model: Module, input_size: Any = None, input_data: Any = None, dtypes: Any = None, device: Any = None, depth: int = 3
) -> ModelSummary:
    """Layers, shapes, parameters, multiply-adds and memory of a module, from one forward pass without gradients in evaluation mode.

    Args:
        model: the module; its mode and buffers are afterwards what they were.
        input_size: shape of the argument, dimension of the batch included, or a list of shapes of several arguments, filled with zeros.
        input_data: instead of it the argument, or a tuple of arguments.
        dtypes: of the arguments; or a list of them. The default dtype when None.
        device: where the zeros lie; the parameters' device when None. On ``"meta"`` nothing is computed.
        depth: levels of modules in the table.
    Returns:
        The numbers; printed they are a table.
    Raises:
        ValueError: neither ``input_size`` nor ``input_data``, or both.
    Example:
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
        >>> torch.utils.summary(net, (2, 4)).multiply_adds
        24

    Source: torchsummary and torchinfo, which show such tables for PyTorch.
    """
    arguments = inputs_of(model, input_size, input_data, dtypes, device)
    observer = _Observer(model)
    with ExitStack() as stack:
        stack.enter_context(evaluating(model))
        stack.enter_context(no_grad())
        stack.enter_context(register_module_forward_pre_hook(observer.enter))
        stack.enter_context(register_module_forward_hook(observer.leave, always_call=True))
        stack.enter_context(observing(observer.operation))
        model(*arguments)
    parameters = list(model.parameters())
    return ModelSummary(
        observer.layers,
        depth,
        total_parameters=sum(parameter.numel() for parameter in parameters),
        trainable_parameters=sum(parameter.numel() for parameter in parameters if parameter.requires_grad),
        multiply_adds=observer.multiply_adds,
        input_bytes=_bytes_of(tensors_in(arguments)),
        parameter_bytes=_bytes_of(parameters) + _bytes_of(model.buffers()),
    )
