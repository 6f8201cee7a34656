"""Forward mode's interpreter: a value is a tensor with its tangent, both recorded on the tape as any other.

Tangents of element-wise operations come from the reverse rules themselves (their Jacobian is diagonal, so that ``rule(tangent)`` is the
tangent); linear operations are applied to the tangent; everything else is differentiated twice: ``u -> rule(u)`` is linear in ``u``, and
its own reverse derivative at the tangent is the tangent of the result.
"""

from __future__ import annotations

from typing import Any

from ..autograd.grad_mode import enable_grad
from ..core.calls.dispatch import Call
from ..core.tape.derivatives import argument_names, fact_of, rule_inputs
from ..core.tensor import Tensor
from ._levels import Interpreter, NoValues, call_entry, flat, invoke, mapped, needs_grad

_LINEAR = frozenset(  # of one operand, and linear in it: the tangent is what the operation makes of the tangent
    "_real _imag _conj _view _expand view_as_real view_as_complex _select _slice _exact_select _exact_slice _index_unsqueeze _alias unfold "
    "t transpose permute squeeze unsqueeze diagonal sum mean _flip roll cumsum diag_embed cat stack clone _to_copy tril triu trace "
    "_reshaped_copy _sum_to_size _repeat _index _pad_by_copy _im2col _col2im _avg_pool1d _avg_pool2d _avg_pool3d _adaptive_avg_pool1d "
    "_adaptive_avg_pool2d neg index_select _resample _scatter_part _put_parts".split()
)


class Dual(Interpreter):
    """One ``jvp`` that is running."""

    def wrap(self, inner: Tensor, tangent: Any = None) -> Any:
        """``inner`` with its tangent; ``inner`` itself where there is none."""
        return inner if tangent is None else self._wrapped(inner, tangent, 0)

    def requires(self, value: Any) -> Any:
        return True

    def item(self, value: Any) -> Any:
        return value._inner.item()

    def truth(self, value: Any) -> Any:
        return bool(value._inner)

    def shown(self, value: Any) -> str:
        return f"DualTensor(lvl={self.level}, value={value._inner!r}, tangent={value._tangent!r})"

    def primal(self, value: Any) -> Any:
        """What is computed with in place of an argument."""
        if value.__class__ is list or value.__class__ is tuple:
            return type(value)([self.primal(each) for each in value])
        return value._inner if self.has(value) else value

    def tangent(self, value: Any) -> Any:
        return value._tangent if self.has(value) else None

    def call(self, op: Any, values: tuple[Any, ...]) -> Any:
        primals = [self.primal(each) for each in values]
        if op.rules is None:
            return invoke(op, primals)
        if op.name in _LINEAR:
            made = invoke(op, primals)
            return self.wrap(made, invoke(op, [self._linear_part(op, i, each) for i, each in enumerate(values)]))
        made = invoke(op, primals)
        if op.elementwise and not op.is_multi_output and made._array.dtype.kind in "fc":
            return self.wrap(made, self._pointwise(op, values, primals, made))
        return self._twice(op, values, primals, made)

    def _linear_part(self, op: Any, i: int, value: Any) -> Any:
        """An operand's tangent, zeros where it has none."""
        if op.params[i].kind == "list":
            return [each._tangent if self.has(each) else each.new_zeros(each._array.shape) for each in value]
        return value._tangent if self.has(value) else value

    def _pointwise(self, op: Any, values: Any, primals: Any, made: Tensor) -> Any:
        """Tangent of an element-wise result: the reverse rules at the tangents, conjugated around for complex numbers."""
        total = None
        is_complex = made._array.dtype.kind == "c"
        for key, rule in op.rules.items():
            names = rule_inputs(key)
            if len(names) > 1:
                return self._twice_tangent(op, values, primals)
            value = values[op.names.index(names[0])]
            if not self.has(value):
                continue
            tangent = value._tangent
            if tangent._array.shape != made._array.shape:
                tangent = tangent.expand(made._array.shape)
            if tangent._array.dtype != made._array.dtype:
                tangent = tangent.to(made.dtype)
            found = called_rule(op, rule, primals, made, tangent.conj() if is_complex else tangent)
            found = found.conj() if is_complex else found
            total = found if total is None else total + found
        return total

    def _twice(self, op: Any, values: Any, primals: Any, made: Any) -> Any:
        tangents = self._twice_tangent(op, values, primals)
        if not isinstance(made, tuple):
            return self.wrap(made, tangents)
        parts = [self.wrap(each, t) for each, t in zip(made, tangents, strict=True)]
        return type(made)(parts)

    def _twice_tangent(self, op: Any, values: Any, primals: Any) -> Any:
        """The tangent by two reverse passes over the one operation."""
        from ._reverse import alias, gradients, spread, zeros_of

        with enable_grad():
            fresh: list[Any] = []
            tangents: list[Any] = []

            def freshly(value: Any, primal: Any) -> Any:
                if value.__class__ in (list, tuple):
                    return type(value)([freshly(v, p) for v, p in zip(value, primal, strict=True)])
                if not self.has(value):
                    return primal
                fresh.append(alias(spread(primal)))
                tangents.append(value._tangent)
                return fresh[-1]

            given = [freshly(v, p) for v, p in zip(values, primals, strict=True)]
            again = invoke(op, given)
            several = isinstance(again, tuple)
            outs = [each for each in (again if several else (again,)) if each.dtype.is_floating_point or each.dtype.is_complex]
            seeds = [alias(spread(zeros_of(each))) for each in outs]
            first = gradients(outs, fresh, seeds, record=True)
            pairs = [(g, t) for g, t in zip(first, tangents, strict=True) if g is not None and needs_grad(g)]
            outside = any(needs_grad(each) for each in (*flat(primals), *tangents) if isinstance(each, Tensor))  # somebody's variables
            found = gradients([g for g, _ in pairs], seeds, [t.to(g.dtype) for g, t in pairs], outside) if pairs else [None] * len(seeds)
        filled = iter([out.new_zeros(out._array.shape) if t is None else t for t, out in zip(found, outs, strict=True)])
        if several:
            return [next(filled) if each.dtype.is_floating_point or each.dtype.is_complex else None for each in again]
        return next(filled, None)

    def write(self, op: Any, values: tuple[Any, ...]) -> Any:
        """The value and the tangent, each through whatever it is a view of."""
        target = values[0]
        if op.name == "copy":
            made = values[1]
        else:
            if needs_grad(target):  # the derivative may need what is about to be overwritten
                values = tuple([target.clone() if each is target else each for each in values])
            made = self.call(op, values)
        if not self.has(target):
            raise RuntimeError("jvp: a tensor without a tangent cannot be written in place with one that has")
        target._inner.copy_(self.primal(made))
        tangent = self.tangent(made)
        if tangent is None:
            target._tangent.zero_()
        else:
            target._tangent.copy_(tangent)
        return target

    def composite_rule(self, call: Call) -> Any:
        if call.op.name == "as_strided" and self.has(call.values[0]):
            return self.rewrapped(call.values[0], lambda each: each.as_strided(*call.values[1:]))
        return NotImplemented

    def factory(self, call: Call) -> Any:
        """What follows a tensor with a tangent gets one too, of zeros, so that it can be written to."""
        entry = call.op
        model = None if entry.model is None else call.values[entry.model]
        if not self.has(model):
            return NotImplemented
        made = call_entry(entry, [self.primal(each) for each in call.values])
        return self.wrap(made, made.detach().new_zeros(made._array.shape) if made._array.dtype.kind in "fc" else None)

    def composite(self, call: Call) -> Any:
        raise NoValues(f"jvp: {call.op.name} asks for values, and has no forward derivative")

    def getitem(self, tensor: Any, key: Any) -> Any:
        plain = mapped(key, self.primal)
        return self.wrap(tensor._inner[plain], tensor._tangent[plain]) if self.has(tensor) else tensor[plain]

    def setitem(self, tensor: Any, key: Any, value: Any) -> Any:
        if not self.has(tensor):
            raise RuntimeError("jvp: a tensor without a tangent cannot be written in place with one that has")
        plain = mapped(key, self.primal)
        tensor._inner[plain] = self.primal(value)
        tangent = self.tangent(value)
        tensor._tangent[plain] = 0 if tangent is None else tangent
        return None


def called_rule(op: Any, rule: Any, values: Any, made: Any, grad: Any) -> Any:
    """A reverse rule, called with what its argument names ask for."""
    found = []
    for name in argument_names(rule):
        if name == "grad":
            found.append(grad)
        elif name == "result":
            found.append(made)
        elif name in op.names:
            found.append(values[op.names.index(name)])
        else:
            base, _, fact = name.rpartition("_")
            found.append(fact_of(values[op.names.index(base)], fact))
    return rule(*found)
