"""Forward mode's interpreter: a value is a tensor with its tangent, both recorded on the tape as any other.

No operation has a rule for this. The tangent of a result is found in the first of these ways that the operation allows:

    view           the view of the tangent
    linear         the operation, applied to the tangent                                 } ``Op.forward``
    bilinear       the operation, applied to the tangent of each operand in turn         }
    selects        the tangent at the places that were found                             }
    rule           element-wise: the derivative is diagonal, so the reverse rule is the forward rule; conjugated around for complex numbers
    reduces        slopes from the reverse rule at ones, their products with the tangent summed
    symmetric      the reverse rule
    two passes     the rest: ``u -> rule(u)`` is linear in ``u``, and its own reverse derivative at the tangent is the tangent of the result

Views of a value are views of its tangent too, so that writes in place reach both through whatever they view. A tensor without a tangent
that one with a tangent is written into takes one, together with all that share its memory (``Dual.adopt``).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..autograd.grad_mode import enable_grad, inference_mode
from ..core.arrays.kinds import perhaps
from ..core.calls.dispatch import Call
from ..core.layout import contiguous_format, strided
from ..core.shape import element_strides
from ..core.state import INFERENCE, grad_enabled, thread
from ..core.tape.derivatives import argument_names, fact_of, rule_inputs
from ..core.tape.history import check_writable
from ..core.tensor import Parameter, Tensor, storage_of
from ._adoption import extent_of, family_of, put_inside, release, swap, take
from ._levels import Interpreter, Wrapped, call_entry, forward, invoke, invoke_in_place, mapped, needs_grad, unrecorded
from ._reverse import alias, batches_below, batches_in, gradients, spread, wrapped_at, zeros_of

on_way: Callable[[Any, str], None] | None = None  # called with each operation and the way that it took; for tests


class Dual(Interpreter):
    """One ``jvp`` that is running."""

    holds_in_inference = True  # whether tangents go on in inference mode

    # -- values -----------------------------------------------------------------------------------------------------------------------
    def wrap(self, inner: Tensor, tangent: Any = None) -> Any:
        """``inner`` with its tangent; ``inner`` itself where there is none."""
        return inner if tangent is None else self._wrapped(inner, tangent, 0)

    def item(self, value: Any) -> Any:
        return value._inner.item()

    def truth(self, value: Any) -> Any:
        return bool(value._inner)

    def shown(self, value: Any) -> str:
        return f"DualTensor(lvl={self.level}, value={value._inner!r}, tangent={value._tangent!r})"

    def primal(self, value: Any) -> Any:
        """Value to compute with in place of an argument."""
        if value.__class__ is Tensor or value.__class__ is int:
            return value
        if value.__class__ is list or value.__class__ is tuple:
            return type(value)([self.primal(each) for each in value])
        return value._inner if self.has(value) else value

    def tangent(self, value: Any) -> Any:
        return value._tangent if self.has(value) else None

    def zeros(self, value: Tensor) -> Tensor:
        """A tangent of zeros for ``value``, laid out as it is, which tangents over any batch below can be written into."""
        return self._own(value.detach().new_empty_strided(value._array.shape, _strides(value)).zero_())

    def _own(self, tangent: Any) -> Any:
        """A new tangent over all batches that run below: those that are written into it may belong to any of them."""
        if batches := batches_below(self):
            tangent = spread(tangent, batches).clone(memory_format=contiguous_format)
        for each in thread.levels:
            if isinstance(each, Dual) and each.level < self.level and not has_level(tangent, each):
                tangent = wrapped_at(each, tangent, tangent.clone())
        below = thread.levels[self.level - 2 : self.level - 1]
        return below[0].constant(tangent) if below and below[0].records else tangent

    def detached(self, value: Any) -> Any:
        self.lend(value._inner)
        return value._inner.detach()

    def lend(self, tensor: Any) -> None:
        """Remember that somebody has a tensor without a tangent that shows the memory of one with a tangent."""
        if tensor.__class__ is not Wrapped:
            self.lent.append(weakref.ref(storage_of(tensor)))

    # -- calls ------------------------------------------------------------------------------------------------------------------------
    def call(self, op: Any, values: tuple[Any, ...]) -> Any:
        if not self.runs():
            return invoke(op, [self.primal(each) for each in values])
        way = _ways.get(op)
        if way is None:
            way = _ways[op] = _way_of(op)
        made = NotImplemented
        if way is not two_passes:
            primals = [self.primal(each) for each in values]
            made = way(self, op, values, primals, invoke(op, primals))
        if made is NotImplemented:
            way, made = two_passes, two_passes(self, op, values)
        if on_way is not None:
            on_way(op, way.__name__.strip("_"))
        return made

    def runs(self) -> bool:
        """Whether tangents are computed now."""
        return thread.forward_grad and (self.holds_in_inference or thread.grad is not INFERENCE)

    def paired(self, made: Any, tangents: Any) -> Any:
        """Results with their tangents."""
        if not isinstance(made, tuple) and made.__class__ is not list:
            return self.wrap(made, tangents)
        parts = [self.wrap(each, tangent) for each, tangent in zip(made, tangents, strict=True)]
        return parts if made.__class__ is list else type(made)(parts)

    def composite_rule(self, call: Call) -> Any:
        name, values = call.op.name, call.values
        if name in ("as_strided", "as_strided_") and self.has(values[0]):
            value = values[0]
            _align(value)
            made = self.rewrapped(value, lambda each: each.as_strided(*values[1:]))
            if name == "as_strided":
                return made
            value._inner, value._tangent, value._array = made._inner, made._tangent, made._array
            return value
        if name == "index_put_" and self.runs() and any(self.has(values[i]) for i in (0, 2)):
            indices = mapped(values[1], self.primal)
            return self.put(values[0], values[2], lambda part, value: part.index_put_(indices, value, values[3]))
        if call.op.draws in ("numbers", "rows") and any(self.has(each) for each in call.operands):
            made = call_entry(call.op, [self.primal(each) for each in values])
            if call.op.namespace != "Tensor":
                return made
            if self.has(values[0]):
                values[0]._tangent.zero_()
            return values[0]
        return NotImplemented

    def factory(self, call: Call) -> Any:
        """Result of a factory, with a zero tangent if it follows an outer transform's tensor with one: ``adopt`` cannot add one."""
        entry = call.op
        if entry.name in ("normal", "tensor"):  # whose derivative is zero
            return call_entry(entry, [self.primal(each) for each in call.values])
        model: Any = None if entry.model is None else call.values[entry.model]
        if not self.has(model) or model._inner.__class__ is not Wrapped or not self.runs():
            return NotImplemented
        made = call_entry(entry, [self.primal(each) for each in call.values])
        return self.wrap(made, self.zeros(made) if _is_differentiable(made) else None)

    def composite(self, call: Call) -> Any:
        name = call.op.name
        if name.endswith("_") and not name.startswith("_"):
            raise unsupported(name)
        return self.twice(call.op.name, lambda *each: call_entry(call.op, each), call.values)

    def twice(self, name: str, function: Callable[..., Any], values: Sequence[Any], start: float = 0) -> Any:
        """``function(*values)`` with tangents by two reverse passes.

        Args:
            start: the first pass's gradients, which the tangents do not depend on, since rules are linear.

        Raises:
            NotImplementedError: a derivative that cannot be differentiated.
        """
        batches = batches_in([self.primal(each) for each in flat(values)])
        recorded, inference = grad_enabled(), thread.inference
        fresh: list[Any] = []
        tangents: list[Any] = []

        def variable(value: Any) -> Any:
            if value.__class__ is list or value.__class__ is tuple:
                return type(value)([variable(each) for each in value])
            if not self.has(value):
                return ours(value) if isinstance(value, Tensor) else value
            fresh.append(alias(spread(ours(value._inner), batches)))
            tangents.append(ours(value._tangent))
            return fresh[-1]

        def ours(tensor: Any) -> Any:
            """A tensor that may be recorded here, and is connected to somebody's variables only if calls are recorded outside."""
            return tensor if recorded else tensor.clone() if inference else unrecorded(tensor) if needs_grad(tensor) else tensor

        with inference_mode(False), enable_grad():
            made = function(*[variable(each) for each in values])
            results = [each for each in flat((made,)) if isinstance(each, Tensor) and _is_differentiable(each) and needs_grad(each)]
            if any(each.layout is not strided for each in results):
                raise unsupported(name)
            seeds = [alias(spread(zeros_of(each) + start if start else zeros_of(each), batches)) for each in results]
            first = gradients(results, fresh, seeds, record=True)
            pairs = []
            for gradient, tangent in zip(first, tangents, strict=True):
                if gradient is not None and needs_grad(gradient):
                    pairs.append((gradient, tangent.to(gradient.dtype)))
                elif gradient is not None:
                    _check_constant(name, results, fresh, gradients)
            outside = recorded and any(needs_grad(each) for each in (*flat(values), *tangents) if isinstance(each, Tensor))
            found = gradients([g for g, _ in pairs], seeds, [t for _, t in pairs], outside) if pairs else [None] * len(seeds)
        at = {id(each): tangent for each, tangent in zip(results, found, strict=True)}

        def result(each: Any) -> Any:
            if not isinstance(each, Tensor):
                return each
            tangent = at.get(id(each))
            plain = each if outside else unrecorded(each)
            if tangent is None:
                return self.wrap(plain, self.zeros(plain)) if id(each) in at else plain
            return self.wrap(plain, tangent if tangent.dtype is plain.dtype else tangent.to(plain.dtype))

        return mapped(made, result)

    # -- in place ---------------------------------------------------------------------------------------------------------------------
    def write(self, op: Any, values: tuple[Any, ...]) -> Any:
        """The value and the tangent, each through whatever it is a view of."""
        target = values[0]
        if not self.runs() or not (self.has(target) or _is_differentiable(target)):
            return self._without_tangent(op, values)
        if op.name == "copy":
            made: Any = values[1]
        else:
            if any(needs_grad(each) for each in flat(values) if isinstance(each, Tensor)):  # it may need what is about to be overwritten
                old = self.wrap(target._inner.clone(), target._tangent.clone()) if self.has(target) else target.clone()
                values = tuple([old if each is target else each for each in values])
            if "inplace" in op.names:  # an argument that asks for this form
                values = tuple([False if name == "inplace" else each for name, each in zip(op.names, values, strict=True)])
            made = self.call(op, values)
        return self.put(target, made, lambda part, value: part.copy_(value))

    def _without_tangent(self, op: Any, values: tuple[Any, ...]) -> Any:
        invoke_in_place(op, [self.primal(each) for each in values])
        return values[0]

    def put(self, target: Any, value: Any, write: Callable[[Any, Any], Any]) -> Any:
        """``target`` with ``value`` written into it by ``write``, which gets (where to, what) for the value and for the tangent."""
        if not self.has(target):
            if not self.has(value):
                write(target, value)
                return target
            if not _is_differentiable(target):
                write(target, self.primal(value))
                return target
            self.adopt(target)
        tangent = self.tangent(value)
        write(target._inner, self.primal(value))
        if tangent is None:
            write(target._tangent, 0 if not isinstance(value, Tensor) else value.detach().new_zeros(()))
        else:
            write(target._tangent, tangent)
        return target

    def adopt(self, tensor: Any) -> None:
        """Give a tensor without a tangent one of zeros, and all that share its memory parts of it, where they stand.

        Raises:
            RuntimeError: a leaf that requires grad, while gradients are recorded; memory of a tensor that has a tangent at this level.
            NotImplementedError: memory that other levels' tensors show too, or that is read as several dtypes.
        """
        if tensor.__class__ is Wrapped:
            self._adopt_wrapped(tensor)
            return
        if grad_enabled() and needs_grad(tensor):
            check_writable(tensor, True)
        sharing, start, stop = extent_of(self.plain_ones(tensor), "jvp", "tangent")
        tangents = self._own(tensor.detach().new_zeros(stop - start))
        for each in sharing:
            part = tangents.as_strided(each._array.shape, element_strides(each._array), each.storage_offset() - start)
            self.adopted.append((weakref.ref(each), each.__class__))
            inner = object.__new__(each.__class__)
            swap(each, inner)
            take(each, self, inner, part)

    def plain_ones(self, tensor: Any) -> list[Any]:
        """The tensors that share ``tensor``'s memory, among them none that is inside of one of this level."""
        storage = storage_of(tensor)
        if any(reference() is storage for reference in self.lent):
            raise RuntimeError(
                "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation that would "
                "mutate a captured Tensor. This is not supported; please rewrite the function being transformed to explicitly accept the "
                "mutated Tensor(s) as inputs."
            )
        sharing = list(storage._live_aliases())
        if not any(each is tensor for each in sharing):  # whose place in the list another level's tensor has taken
            storage._add_alias(tensor)
            sharing.append(tensor)
        return sharing

    def _adopt_wrapped(self, tensor: Any) -> None:
        """``adopt`` for a tensor of a lower level."""
        inside: dict[int, Any] = {}
        for member, parent, view in family_of(tensor):
            inner = put_inside(member, inside, parent, view)
            tangent = self.zeros(inner) if parent is None else view(parent._tangent)
            self.adopted.append((weakref.ref(member), Wrapped))
            take(member, self, inner, tangent)

    def __enter__(self) -> Any:
        self.adopted: list[tuple[Any, type]] = []
        self.lent: list[Any] = []
        return super().__enter__()

    def __exit__(self, *exc_info: object) -> None:
        super().__exit__(*exc_info)
        for reference, kind in self.adopted:
            tensor = reference()
            if tensor is not None and tensor.__class__ is Wrapped and tensor._owner is self:
                release(tensor, kind)

    # -- indexing ---------------------------------------------------------------------------------------------------------------------
    def getitem(self, tensor: Any, key: Any) -> Any:
        plain = mapped(key, self.primal)
        if not self.has(tensor):
            return tensor[plain]
        _align(tensor)
        return self.wrap(tensor._inner[plain], tensor._tangent[plain] if self.runs() else None)

    def setitem(self, tensor: Any, key: Any, value: Any) -> None:
        plain = mapped(key, self.primal)
        if not self.runs():
            self.primal(tensor)[plain] = self.primal(value)
            return

        def write(part: Any, what: Any) -> None:
            part[plain] = what

        self.put(tensor, value, write)


def flat(values: Any) -> Iterator[Any]:
    """``values`` one by one, with the elements of lists, tuples and named tuples among them."""
    for each in values:
        if isinstance(each, (list, tuple)):
            yield from flat(each)
        else:
            yield each


# -- tensors --------------------------------------------------------------------------------------------------------------------------
def _is_differentiable(tensor: Any) -> bool:
    return tensor._array.dtype.kind in "fcV" and (tensor.dtype.is_floating_point or tensor.dtype.is_complex)


def _strides(tensor: Any) -> tuple[int, ...]:
    """Strides for a tensor of its own that lies as ``tensor`` does; row-major where elements of that one share memory."""
    strides = element_strides(tensor._array)
    shape = tensor._array.shape
    order = sorted((step, n) for step, n in zip(strides, shape, strict=True) if n != 1)
    reached = 1
    for step, n in order:
        if step < reached:
            return tuple([int(np.prod(shape[i + 1 :])) for i in range(len(shape))])
        reached = step * (n - 1) + reached
    return strides


def _align(value: Any) -> None:
    """Have the tangent lie in memory as the value does, so that whatever is a view of the one is a view of the other."""
    inner, tangent = value._inner, value._tangent
    if inner._array.strides != tangent._array.strides:
        laid_out = tangent.new_empty_strided(inner._array.shape, _strides(inner))
        value._tangent = laid_out.copy_(tangent)


def has_level(tensor: Any, level: Any) -> bool:
    """Whether a tensor, or what is inside of it, belongs to a level."""
    return tensor.__class__ is Wrapped and (tensor._owner is level or has_level(tensor._inner, level))


def _check_constant(name: str, results: Any, fresh: Any, gradients: Any) -> None:
    """Raise where a gradient that cannot be differentiated is not zero everywhere."""
    rng = np.random.default_rng(0)
    seeds = [each.detach().new_tensor(rng.uniform(0.5, 1.5, each._array.shape)) for each in results]
    for gradient in gradients(results, fresh, seeds, record=True):
        if gradient is not None and not needs_grad(gradient) and perhaps((gradient != 0).any()):
            raise unsupported(name)


def unsupported(name: str) -> NotImplementedError:
    return NotImplementedError(f"Trying to use forward AD with {name} that does not support it because it has not been implemented yet.")


def check_tangent(tensor: Any, tangent: Any) -> None:
    """Raise where ``tangent`` can be none of ``tensor``'s.

    Raises:
        ValueError: integers or bools. RuntimeError: different shapes.
    """
    for name, value in (("primal", tensor), ("tangent", tangent)):
        if not _is_differentiable(value):
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {value.dtype}")
    if tangent._array.shape != tensor._array.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not supported. Tensor "
            f"is of size {list(tensor._array.shape)} while the given forward gradient is of size {list(tangent._array.shape)}."
        )


# -- the ways -------------------------------------------------------------------------------------------------------------------------
_ways: dict[Any, Callable[..., Any]] = {}


def _way_of(op: Any) -> Callable[..., Any]:
    """Function that computes the tangents of an operation's results."""
    if op.rules is None:
        return constant
    if op.is_view:
        return view
    from . import _batch_layers, _batch_rules

    del _batch_layers, _batch_rules  # which declare rules
    found = forward.of(op)
    if found is not None:
        return found
    word = op.forward
    if callable(word):
        return formula
    if word in ("linear", "bilinear", "selects"):
        return {"linear": linear, "bilinear": bilinear, "selects": selects}[word]
    keys = [rule_inputs(key) for key in op.rules]
    simple = not op.is_multi_output and all(len(key) == 1 for key in keys)
    asked = {name for each in op.rules.values() for name in argument_names(each)}
    if not simple or asked & {"grads", "needs", "node"} or any(p.kind == "list" for p in op.params):
        return two_passes
    if word in ("reduces", "symmetric") and len(keys) == 1:
        return {"reduces": reduces, "symmetric": symmetric}[word]
    return rule if op.elementwise else two_passes


def constant(dual: Dual, op: Any, values: Any, primals: Any, made: Any) -> Any:
    """No derivative: integers and bools. What is none of these depends on its operands all the same."""
    if op.forward != "constant" and any(isinstance(each, Tensor) and _is_differentiable(each) for each in flat((made,))):
        raise unsupported(op.name)
    return made


def formula(dual: Dual, op: Any, values: Any, primals: Any, made: Any) -> Any:
    """By the declaration's own, in which sums are those of wide numbers."""
    if made._array.dtype.kind != "f":
        return NotImplemented
    named = {**dict(zip(op.names, primals, strict=True)), "tangent": values[op.positions[0]]._tangent, "result": made}
    return dual.wrap(made, op.forward(**{name: named[name] for name in argument_names(op.forward)}))


def view(dual: Dual, op: Any, values: Any, primals: Any, made: Any) -> Any:
    viewed = values[op.positions[0]]
    if not dual.has(viewed):
        return made
    _align(viewed)
    tangents = invoke(op, [each._tangent if each is viewed else primal for each, primal in zip(values, primals, strict=True)])
    return dual.paired(made, tangents)


def linear(dual: Dual, op: Any, values: Any, primals: Any, made: Any) -> Any:
    if not _is_differentiable(made):
        return made
    given = list(primals)
    some = False
    inputs = op.node.inputs
    for i in op.positions:
        if op.names[i] not in inputs:
            continue
        value = values[i]
        if value.__class__ is list or value.__class__ is tuple:
            some = some or any(dual.has(each) for each in value)
            given[i] = type(value)([each._tangent if dual.has(each) else each.detach().new_zeros(each._array.shape) for each in value])
        elif dual.has(value):
            some = True
            given[i] = value._tangent
        elif isinstance(value, Tensor):
            given[i] = value.detach().new_zeros(value._array.shape)
        elif value is not None:
            given[i] = 0
    return dual.wrap(made, invoke(op, given)) if some else made


def bilinear(dual: Dual, op: Any, values: Any, primals: Any, made: Any) -> Any:
    total = None
    for i in op.positions:
        if not dual.has(values[i]):
            continue
        tangent = values[i]._tangent
        if op.names[i] == "bias":
            part = tangent.reshape(-1, *(1,) * (made._array.ndim - 2)) if op.name == "convolution" else tangent
            part = part.expand(made._array.shape) if total is None else part
        else:
            dtype = made.dtype
            part = invoke(
                op,
                [
                    (tangent if tangent.dtype is dtype else tangent.to(dtype)) if j == i else None if op.names[j] == "bias" else each
                    for j, each in enumerate(primals)
                ],
            )
        total = part if total is None else total + part
    return dual.wrap(made, total)


def selects(dual: Dual, op: Any, values: Any, primals: Any, made: Any) -> Any:
    if not dual.has(values[0]):
        return NotImplemented
    tangent, places = values[0]._tangent, made[1]
    rank = tangent._array.ndim
    if not rank:
        return dual.paired(made, (tangent.clone(), None))
    dim = values[op.names.index("dim")]
    dim = -1 if dim is None else dim
    if places._array.ndim == rank:
        found = tangent.gather(dim, places)
    else:
        found = tangent.gather(dim, places.unsqueeze(dim)).squeeze(dim)
    return dual.paired(made, (found, None))


def rule(dual: Dual, op: Any, values: Any, primals: Any, made: Any) -> Any:
    array = made._array
    if array.dtype.kind not in "fcV" or not _is_differentiable(made):
        return made
    is_complex = array.dtype.kind == "c"
    if is_complex and op.forward != "holomorphic":
        return NotImplemented
    total = None
    for key, reverse in op.rules.items():
        value = values[op.names.index(key)]
        if not dual.has(value):
            continue
        tangent = value._tangent
        if not is_complex and tangent._array.dtype.kind == "c":  # a real function of complex numbers
            slopes = called_rule(op, reverse, primals, made, made.detach().new_ones(array.shape))
            found = (slopes.conj() * tangent).real
            total = found if total is None else total + found
            continue
        if tangent._array.dtype is not array.dtype and tangent.dtype is not made.dtype:
            tangent = tangent.to(made.dtype)
        if tangent._array.shape != array.shape:
            tangent = tangent.expand(array.shape)
        found = called_rule(op, reverse, primals, made, tangent.conj() if is_complex else tangent)
        if found is None:
            continue
        if found._array.shape != array.shape:  # a rule that sums, for an operand of one element
            return NotImplemented
        found = found.conj() if is_complex else found
        total = found if total is None else total + found
    if total is None:
        return made
    return dual.wrap(made, total if total.dtype is made.dtype else total.to(made.dtype))


def reduces(dual: Dual, op: Any, values: Any, primals: Any, made: Any) -> Any:
    if not _is_differentiable(made):
        return made
    (reverse,) = op.rules.values()
    slopes = called_rule(op, reverse, primals, made, made.detach().new_ones(made._array.shape))
    dim, keepdim = (values[op.names.index(name)] if name in op.names else None for name in ("dim", "keepdim"))
    if made._array.dtype.kind == "c" or slopes._array.dtype.kind != "c":
        product = (slopes.conj() if slopes._array.dtype.kind == "c" else slopes) * values[0]._tangent
    else:
        product = (slopes.conj() * values[0]._tangent).real  # a real function of complex numbers
    whole = dim is None or dim == () or dim == []
    total = (
        product.sum() if whole and not keepdim else product.sum(list(range(product._array.ndim)) if whole else dim, keepdim=bool(keepdim))
    )
    return dual.wrap(made, total if total.dtype is made.dtype else total.to(made.dtype))


def symmetric(dual: Dual, op: Any, values: Any, primals: Any, made: Any) -> Any:
    if values[0]._array.dtype.kind != "f" or not dual.has(values[0]):
        return NotImplemented
    (reverse,) = op.rules.values()
    tangent = values[0]._tangent
    found = called_rule(op, reverse, primals, made, tangent if tangent.dtype is made.dtype else tangent.to(made.dtype))
    return dual.wrap(made, found if found.dtype is made.dtype else found.to(made.dtype))


def two_passes(dual: Dual, op: Any, values: Any) -> Any:
    start = op.name == "logcumsumexp"  # whose reverse rule is linear on either side of 0 only
    return dual.twice(op.name, lambda *each: invoke(op, each), values, start)


_plans: dict[Any, tuple[Any, ...]] = {}


def called_rule(op: Any, reverse: Any, values: Any, made: Any, grad: Any) -> Any:
    """A reverse rule, called with what its argument names ask for."""
    plan = _plans.get(reverse)
    if plan is None:
        plan = _plans[reverse] = tuple([_source(op, name) for name in argument_names(reverse)])
    return reverse(
        *[
            grad if where < -1 else made if where < 0 else values[where] if not fact else fact_of(values[where], fact)
            for where, fact in plan
        ]
    )


def _source(op: Any, name: str) -> tuple[int, str]:
    """Source of an argument of a rule: (position among the values, or below 0 for ``grad`` and ``result``; which of its facts)."""
    if name in ("grad", "result"):
        return (-2 if name == "grad" else -1), ""
    if name in op.names:
        return op.names.index(name), ""
    base, _, fact = name.rpartition("_")
    return op.names.index(base), fact


__all__ = ["Dual", "Parameter"]
