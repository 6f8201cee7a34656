"""Derivatives of PyTorch's kernels as modes and classes below the tape see them: in PyTorch's calls, one by one.

A rule is written as those of ``ops`` are, and by the kernel's own names of arguments (``core/tape/derivatives.py``):

    RULES["hypot"] = {"self": lambda grad, self, result: grad * self / result, "other": ...}
    RULES["glu"] = {"self": "glu_backward(grad, self, dim)"}

The second form is for a rule that is one call of a kernel: the text is PyTorch's, as in its ``derivatives.yaml``. Rules are called in
the alphabetical order of the arguments, as PyTorch calls its own. A kernel without an entry here has the rules of our primitive. The
tape's node is an ordinary one, made for a ``Kernel`` in an operation's place. Nothing of this file runs without modes and classes that
look.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from ..autograd.function import Function
from ..autograd.grad_mode import enable_grad
from ..core.calls.registry import resolve
from ..core.late import made_once
from ..core.state import PARTS, grad_enabled, modes, thread
from ..core.tape.derivatives import make_node_class, rule_inputs
from ..core.tape.history import is_differentiable
from ..core.tensor import Tensor
from .calls import IMPLEMENTED, bound_arguments, overload_named, pruned
from .overloads import OpOverload, tensors_in

RULES: dict[str, dict[str, Callable[..., Any] | str]] = {}  # a kernel, or one overload of it -> its derivatives
WHOLE: dict[str, Callable[..., Any]] = {}  # kernels that are one call for modes and classes -> what computes them


class Argument:
    """An argument of a kernel, as ``make_node_class`` wants a parameter."""

    __slots__ = ("kind", "name")

    def __init__(self, name: str, text: str):
        self.name = name
        self.kind = "attr" if not text.startswith("Tensor") else "list" if "[" in text else "optional" if "?" in text else "tensor"


class Kernel:
    """One overload of PyTorch's with derivatives of its own, where the tape expects an operation."""

    elementwise = together = False
    in_order = True
    together = False

    def __init__(self, found: OpOverload, rules: dict[str, Callable[..., Any] | str]):
        schema = found._schema
        self.name = found._opname
        self.params = [Argument(argument.name, argument.real_type.text()) for argument in schema.arguments]
        self.names = tuple([param.name for param in self.params])
        operands = {param.name for param in self.params if param.kind != "attr"}
        self.rules = {names: _rule(rules[names]) for names in sorted(rules) if operands.issuperset(rule_inputs(names))}
        self.is_multi_output = len(schema.returns) > 1 or schema.returns[0].real_type.text().endswith("[]")
        self.is_multi_view = found.is_view and self.is_multi_output
        words = [word[:1].upper() + word[1:] for word in self.name.rstrip("_").split("_")]
        self.node_name = "".join(words).replace("1d", "1D").replace("2d", "2D").replace("3d", "3D") + "Backward0"

    @made_once
    def node(self) -> Any:
        """The class of its nodes."""
        return make_node_class(self)  # type: ignore[arg-type]


def _rule(rule: Callable[..., Any] | str) -> Callable[..., Any]:
    """A rule as a function; the names in a text, ``list`` excepted, are its arguments."""
    if not isinstance(rule, str):
        return rule
    name, _, arguments = rule.partition("(")
    named = [node.id for node in ast.walk(ast.parse(f"_({arguments}", mode="eval")) if isinstance(node, ast.Name)]
    asked = dict.fromkeys(word for word in named if word not in ("_", "list"))
    made: Callable[..., Any] = eval(f"lambda {', '.join(asked)}: call({name!r}, {arguments}", {"call": call})
    return made


_KERNELS: dict[OpOverload, Kernel | None] = {}


def kernel_of(found: OpOverload) -> Kernel | None:
    """The kernel with derivatives of its own that an overload is; None for one that has none here."""
    if found not in _KERNELS:
        name = found._opname
        overload = f"{name}.{found._overloadname}"
        rules = RULES.get(overload) or RULES.get(name) or RULES.get(overload.replace("_.", ".")) or RULES.get(name.removesuffix("_"))
        _KERNELS[found] = None if rules is None or found._namespace != "aten" else Kernel(found, rules)
    return _KERNELS[found]


class _Again(Function):
    """A kernel without rules: its gradient is that of the operations that compute it."""

    @staticmethod
    def forward(ctx: Any, found: OpOverload, kwargs: dict[str, Any], *args: Any) -> Any:
        tensors = [arg for arg in args if isinstance(arg, Tensor)]
        ctx.save_for_backward(*tensors)
        ctx.call = found, kwargs, tuple([None if isinstance(arg, Tensor) else (arg,) for arg in args])
        return modes.below.ask(found, args, kwargs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        found, kwargs, others = ctx.call
        tensors = ctx.saved_tensors

        def again(*given: Any) -> Any:
            parts = iter(given)
            compute = WHOLE.get(found.__name__) or WHOLE[found._opname]
            return compute(*[next(parts) if other is None else other[0] for other in others], **kwargs)

        mask = [needed for needed, other in zip(ctx.needs_input_grad[2:], others, strict=True) if other is None]
        was, thread.in_library = thread.in_library, PARTS
        try:
            found_grads = iter(gradients_of(again, list(tensors), list(grads), mask))
        finally:
            thread.in_library = was
        return None, None, *[next(found_grads) if other is None else None for other in others]


def again(found: OpOverload, args: Any, kwargs: Any) -> Any:
    """A call of a kernel without rules, recorded."""
    return _Again.apply(found, kwargs, *args)


def values_of(found: OpOverload, args: Any, kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """A call's arguments in the schema's order."""
    bound = bound_arguments(found._schema, args, kwargs)
    return tuple([bound[argument.name] for argument in found._schema.arguments])


def is_handled(*values: Any) -> bool:
    """Whether a mode or a class takes calls with these arguments."""
    return modes.below is not None and modes.below.is_handled(tensors_in(values))


def call(name: str, *args: Any, **kwargs: Any) -> Any:
    """``torch.ops.aten.NAME(*args)``, recorded; where somebody looks, trailing defaults are left out."""
    found = overload_named(name)
    if found.is_view or thread.in_library is PARTS:
        return found(*args, **kwargs)
    if (name in WHOLE or found._opname in WHOLE or kernel_of(found) is not None) and is_handled(*args, *kwargs.values()):
        run = modes.below.write_call if found._opname.endswith("_") else modes.below.kernel_call
        return run(found, *pruned(found, args, kwargs))
    return found(*args, **kwargs)


def torch(name: str, *args: Any, **kwargs: Any) -> Any:
    """``torch.NAME(*args)``."""
    return resolve("torch", name)(*args, **kwargs)


def kernel(name: str) -> Callable[[Any], Any]:
    """Decorator for what computes a kernel that modes and classes see as one call."""

    def register(function: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            if thread.in_library is not PARTS and is_handled(*args, *kwargs.values()):
                return call(name, *args, **kwargs)
            return function(*args, **kwargs)

        WHOLE[name] = function
        IMPLEMENTED[name] = run
        return function

    return register


def gradients_of(function: Callable[..., Any], tensors: list[Any], grads: list[Any], mask: Any) -> tuple[Any, ...]:
    """Gradients of ``function(*tensors)`` where ``mask`` says so: what a kernel's backward kernel computes."""
    from ..autograd.engine import run_backward

    records = grad_enabled()
    mask = [bool(wanted) and tensor is not None and is_differentiable(tensor._array) for tensor, wanted in zip(tensors, mask, strict=True)]
    leaves = [
        None if tensor is None else tensor if records and tensor.requires_grad and wanted else tensor.detach().requires_grad_(wanted)
        for tensor, wanted in zip(tensors, mask, strict=True)
    ]
    with enable_grad():
        results = function(*leaves)
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    wanted = [leaf for leaf, needed in zip(leaves, mask, strict=True) if leaf is not None and needed]
    pairs = [(result, grad) for result, grad in zip(results, grads, strict=False) if grad is not None and result.requires_grad]
    if not wanted or not pairs:
        return tuple([None] * len(tensors))
    found = iter(run_backward([r for r, _ in pairs], [g for _, g in pairs], records, records, wanted, accumulates=False))
    return tuple([next(found) if leaf is not None and needed else None for leaf, needed in zip(leaves, mask, strict=True)])


def slope(name: str, function: Callable[..., Any]) -> None:
    """A kernel ``NAME(grad, self, *rest)`` that computes the gradient of ``function(self, *rest)`` for ``self``."""
    kernel(name)(lambda grad, self, *rest, **named: gradients_of(lambda x: function(x, *rest, **named), [self], [grad], [True])[0])


def slopes(name: str, function: Callable[..., Any], count: int) -> None:
    """``slope`` for the first ``count`` arguments; the last one of a call says for which."""

    def run(grad: Any, *rest: Any) -> Any:
        *values, mask = rest
        tensors, options = values[:count], values[count:]
        return gradients_of(lambda *given: function(*given, *options), list(tensors), [grad], mask)

    kernel(name)(run)
