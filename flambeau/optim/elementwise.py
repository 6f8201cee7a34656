"""Optimizers that work element by element: each is one rule, which runs on tensors, on arrays, and as a kernel.

A class names the entries of its state (``_moments``, ``_counters``), and defines how options and counters become a step's numbers
(``_numbers``) and how a parameter's new value follows from them (``_rule``). docs/kernels.md has a complete example. One rule is executed
in three modes (``f`` has the functions that are no operators, see ``_words``):

    usual tensors, large or often    numbers and arrays are symbols, the rule is run once and becomes a kernel of kernels;
                                     numbers are its arguments, so that another learning rate or count needs no other kernel
    usual tensors otherwise          it becomes calls of NumPy's functions, which run block by block
    any other tensor                 on tensors: half precision, complex, subclasses, ``differentiable``
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, ClassVar

from .. import ops
from ..autograd.graph import increment_version
from ..core.state import run_ignoring_fp
from ..core.tensor import Tensor
from ._arrays import Rows, note_writes, update
from ._stepping import GroupOptimizer, check_capturable, check_steps, new_scalar, number, refuse_scaling, scalar
from ._words import Arrays, Tensors

NUMBER = "number"  # stands for any number, where None and truth values stand for themselves


class Form:
    """A rule of which everything is decided but its numbers.

    Args:
        optimizer_class: class of the optimizer.
        kept: which of its moments there are.
        names: of what ``_numbers`` gives, and of the decays that all optimizers have.
        terms: what they are: ``NUMBER``, or the value itself, which decides what the rule does at all.
    Attributes:
        names: the numbers' names.
    """

    __slots__ = ("fixed", "names", "present", "rule")

    def __init__(self, optimizer_class: type[ElementwiseOptimizer], kept: tuple[str, ...], names: tuple[str, ...], terms: tuple[Any, ...]):
        self.rule, self.present = optimizer_class._rule, [name in kept for name in optimizer_class._moments]
        self.names = [name for name, term in zip(names, terms, strict=True) if term is NUMBER]
        self.fixed = {name: term for name, term in zip(names, terms, strict=True) if term is not NUMBER}

    def __call__(self, f: Any, param: Any, grad: Any, entries: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        """The new parameter and state entries. What all optimizers have, ``maximize`` and the weight decays, is done here."""
        n = SimpleNamespace(**self.fixed)
        n.__dict__.update(zip(self.names, numbers, strict=True))
        if n.maximize:
            grad = -grad
        if n.shrink is not None:
            param = param * n.shrink
        if n.weight_decay is not None:
            grad = f.add(grad, param, n.weight_decay)
        following = iter(entries)
        results = self.rule(f, n, param, grad, *[next(following) if there else None for there in self.present])
        return [result for result in results if result is not None]

    def on_arrays(self, arrays: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        """The new parameter and state entries of ``(param, grad, *entries)``, arrays or symbols."""
        return self(Arrays, arrays[0], arrays[1], arrays[2:], numbers)


form_of: Callable[..., Form] = lru_cache(maxsize=256)(Form)


class ElementwiseOptimizer(GroupOptimizer):
    """An optimizer that is a rule over single elements; the module's text has an example.

    Attributes:
        _counters: 0-d state entries with their first values; the first counts the steps.
        _moments: the entries shaped like the parameter, in the order in which ``_rule`` takes and returns them.
        _late: those of them that the rule makes itself where it gets None.
    """

    _counted: Callable[..., dict[str, Any]] | None = None  # those of ``_numbers`` that change from step to step, where few do
    _moments: ClassVar[tuple[str, ...]] = ()
    _late: ClassVar[tuple[str, ...]] = ()

    @staticmethod
    def _numbers(group: dict[str, Any], *counters: Any) -> dict[str, Any]:
        """The rule's constants by name: numbers, and None or truth values that decide which terms there are.

        Args:
            group: its options; ``lr`` has no dimensions.
            counters: how many steps there are with this one, then the other counters, to be changed in place.
        """
        raise NotImplementedError

    @staticmethod
    def _rule(f: Any, n: Any, param: Any, grad: Any, *moments: Any) -> tuple[Any, ...]:
        """The new parameter and the new moments, without changing anything in place; ``n`` has the numbers as attributes."""
        raise NotImplementedError

    @classmethod
    def _kept(cls, group: dict[str, Any]) -> tuple[str, ...]:
        """Names of the moments that exist under the group's options."""
        return cls._moments

    def _check_group(self, group: dict[str, Any]) -> None:
        """Raise for options that were changed to what cannot be."""

    def _initial_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state = {name: new_scalar(value, param, group) for name, value in self._counters.items()}
        state.update({name: ops.zeros_like(param) for name in self._kept(group) if name not in self._late})
        return state

    def _update_group(self, group: dict[str, Any]) -> None:
        self._check_group(group)
        if not self._update_arrays(group):
            if self._update_sparse is not None:
                group = self._without_sparse(group)
            params, grads, states = self._gather(group)
            self._update_tensors(group, params, grads, states)
            for param, state in zip(params, states, strict=True):
                if state:
                    self.state[param] = state

    _update_sparse: Callable[..., None] | None = None  # updates a parameter whose gradient is sparse, where the optimizer can

    def _without_sparse(self, group: dict[str, Any]) -> dict[str, Any]:
        """Update the group's parameters with sparse gradients; the group of the others."""
        of_sparse = [param for param in group["params"] if param.grad is not None and param.grad.is_sparse]
        for param in of_sparse:
            if not self.state.get(param) and (state := self._initial_state(param, group)):
                self.state[param] = state
            grad = -param.grad if group["maximize"] else param.grad
            self._update_sparse(group, param, grad, self.state[param])  # type: ignore[misc]
        known = {id(param) for param in of_sparse}
        return {**group, "params": [param for param in group["params"] if id(param) not in known]} if of_sparse else group

    @classmethod
    def _advance(cls, group: dict[str, Any], counters: Sequence[Any]) -> tuple[Form, list[Any]]:
        """Count a step; the form of the rule for it, and its numbers: Python's, or tensors where the update is recorded."""
        lr, is_recorded = group.get("lr"), group.get("differentiable")
        if isinstance(lr, Tensor):
            group = {**group, "lr": scalar(lr)}
        if counters:
            step, *others = counters
            step += 1
            counters = [step.item(), *others]
        return cls._formed(group, counters, not is_recorded)

    @classmethod
    def _formed(cls, group: dict[str, Any], counters: Sequence[Any], plain: bool = False) -> tuple[Form, list[Any]]:
        """The form of the rule for a group's options, and its numbers, as they are computed or ``plain``; the first counter is a number."""
        lr, weight_decay = group.get("lr"), group.get("weight_decay", 0)
        decays = weight_decay != 0
        decoupled = decays and bool(group.get("decoupled_weight_decay"))
        given = {
            "maximize": bool(group["maximize"]),
            "weight_decay": weight_decay if decays and not decoupled else None,
            "shrink": 1 - lr * weight_decay if decoupled else None,
            **cls._numbers(group, *counters),
        }
        terms: list[Any] = []
        numbers = []
        for value in given.values():
            is_term = value is None or value is True or value is False
            terms.append(value if is_term else NUMBER)
            if not is_term:
                numbers.append(float(number(value)) if plain and value.__class__ is not float else value)
        return form_of(cls, cls._kept(group), tuple(given), tuple(terms)), numbers

    def _update_arrays(self, group: dict[str, Any]) -> bool:
        """Update a usual group through raw arrays (see ``_arrays``); False where nothing was done, and any tensor may come."""
        if group.get("differentiable") or group.get("capturable"):
            return False
        rows = self._plans.rows(self, group, (*self._kept(group), *self._counters))
        if rows:
            run_ignoring_fp(self._update_rows, group, rows)
            self._plans.groups_done += 1
        return rows is not None

    def _update_rows(self, group: dict[str, Any], rows: Rows) -> None:
        """Count a step for each row, and update all rows of one form together."""
        by_form: dict[Form, list[tuple[Rows, Any]]] = {}
        for alike in rows.by_counters(len(self._counters)):
            counters = alike[0][0].counters
            form, numbers = self._advance(group, counters)
            for j, counter in enumerate(counters):
                value = counter.item()
                for plan, _ in alike:
                    plan.counters[j][()] = value
            by_form.setdefault(form, []).append((alike, tuple(numbers)))
        for form, parts in by_form.items():
            if len(parts) == 1:
                together, values_of_rows = parts[0][0], [parts[0][1]] * len(parts[0][0])
            else:
                together = rows.joined([alike for alike, _ in parts])
                values_of_rows = [values for alike, values in parts for _ in alike]
            update(form, together, values_of_rows)
        note_writes(rows)

    @classmethod
    def _update_tensors(
        cls, group: dict[str, Any], params: Sequence[Tensor], grads: Sequence[Tensor], states: Sequence[dict[str, Any]]
    ) -> None:
        """Update any parameters by operations on tensors."""
        counters = [[state[name] for name in cls._counters] for state in states]
        if group.get("capturable"):
            check_capturable(params, counters)
        is_recorded = bool(group.get("differentiable"))
        if is_recorded and any(counter.requires_grad for own in counters for counter in own):
            raise RuntimeError("`requires_grad` is not supported for `step` in differentiable mode")
        kept = cls._kept(group)
        grad: Any
        for param, grad, state, own in zip(params, grads, states, counters, strict=True):
            form, numbers = cls._advance(group, own)
            targets: list[Any] = [param, *[state.get(name) if name in cls._late else state[name] for name in kept]]
            parts = None if is_recorded else _own_parts([grad, *targets])
            if parts is not None:
                increment_version(targets)
                grad, *targets = parts
            is_complex = param.is_complex()
            if is_complex:  # each part is a parameter of its own
                grad, *targets = [None if tensor is None else ops.view_as_real(tensor) for tensor in (grad, *targets)]
            # What autograd keeps must not be what is overwritten below.
            given = [tensor.clone() if is_recorded and tensor is not None else tensor for tensor in targets]
            results = form(Tensors, given[0], grad, given[1:], numbers)
            results = [tensor.clone() if any(tensor is old for old in (grad, *given)) else tensor for tensor in results]
            for i, (target, result) in enumerate(zip(targets, results, strict=True)):
                if target is not None:
                    target.copy_(result)
                else:
                    state[kept[i - 1]] = ops.view_as_complex(result) if is_complex else result


def _own_parts(tensors: Sequence[Any]) -> list[Any] | None:
    """This process's parts of tensors that are all spread in one way, on which a rule over single elements may work; None otherwise."""
    specs = [getattr(tensor, "_spec", None) for tensor in tensors]
    if specs[0] is None or any(placement.is_partial() for placement in specs[0].placements):
        return None
    if any(spec is None or (spec.mesh, spec.placements) != (specs[0].mesh, specs[0].placements) for spec in specs):
        return None
    return [tensor._local_tensor for tensor in tensors]


def moment_numbers(beta1: Any, beta2: Any) -> dict[str, Any]:
    """The numbers of :func:`moments`."""
    return {**weight_numbers(1 - beta1), "kept": beta2, "taken": 1 - beta2}


def weight_numbers(weight: Any) -> dict[str, Any]:
    """The numbers of ``f.lerp``, which starts from the nearer end, so that weight 1 gives the end itself."""
    return {"weight": weight, "is_near": bool(abs(weight) < 0.5)}


def moments(f: Any, n: Any, grad: Any, exp_avg: Any, exp_avg_sq: Any) -> tuple[Any, Any]:
    """Adam's decayed means of the gradient and of its square."""
    return f.lerp(exp_avg, grad, n.weight, n.is_near), f.addcmul(exp_avg_sq * n.kept, grad, grad, n.taken)


# Options that a function takes apart, as PyTorch's do.
_PARTS = {"betas": ("beta1", "beta2"), "etas": ("etaminus", "etaplus"), "step_sizes": ("step_size_min", "step_size_max")}
# What such functions take besides, and what it does.
_UNUSED = {
    **dict.fromkeys(("foreach", "fused", "has_complex", "has_sparse_grad"), "changes nothing."),
    **dict.fromkeys(("grad_scale", "found_inf"), "None: not supported."),
}


def functional(optimizer_class: type[ElementwiseOptimizer], entries: str) -> Callable[[Any], Callable[..., None]]:
    """A decorator that makes the function under which PyTorch has one step of an optimizer over lists of tensors.

    What is decorated has the signature (parameters, gradients, lists of state entries, flags, ``*``, options) and, as its docstring, an
    example; the optimizer does the rest.

    Args:
        optimizer_class: class of the optimizer.
        entries: which state entries the lists have, in their order.
    """

    def stepping(form: Any) -> Callable[..., None]:
        signature, names = inspect.signature(form), entries.split()
        lists = list(signature.parameters)[: 2 + len(names)]

        def update(*args: Any, **kwargs: Any) -> None:
            call = signature.bind(*args, **kwargs)
            call.apply_defaults()
            given = call.arguments
            refuse_scaling(given.get("grad_scale"), given.get("found_inf"))
            params, grads, *columns = [given[name] for name in lists]
            for whole, parts in _PARTS.items():  # after the lists: Rprop has one of the name of an option
                if parts[0] in given:
                    given[whole] = tuple([given[part] for part in parts])
            check_steps(given.get("state_steps", ()))
            states = [{name: column[i] for name, column in zip(names, columns, strict=True) if column} for i in range(len(params))]
            optimizer_class._update_tensors(given, params, grads, states)
            for name, column in zip(names, columns, strict=True):
                for i in range(len(column)):
                    column[i] = states[i][name]

        update.__name__ = update.__qualname__ = form.__name__
        update.__module__ = form.__module__
        update.__signature__ = signature  # type: ignore[attr-defined]
        update.__doc__ = _described(form, optimizer_class.__name__, lists, list(signature.parameters))
        return update

    return stepping


def _described(form: Any, class_name: str, lists: list[str], names: list[str]) -> str:
    """The docstring of a function of that name over lists: its arguments, and its example."""
    rows = {
        ", ".join(lists[:2]): "the tensors to update, and their gradients of the same shapes.",
        ", ".join(lists[2:]): "a list for each entry of the state, in the order of the tensors.",
        ", ".join(name for name in names if name not in (*lists, *_UNUSED)): f"as in :class:`{class_name}`.",
        **{name: text for name, text in _UNUSED.items() if name in names},
    }
    described = "\n    ".join(f"{name}: {text}" for name, text in rows.items())
    return f"""Update ``params``, their state and the counters in place by one step of {class_name}.

Args:
    {described}
Raises:
    NotImplementedError: ``grad_scale`` or ``found_inf``, where there are such arguments, is not None.
    RuntimeError: ``state_steps``, where there are any, are not tensors.
Source: {form.__module__.replace("flambeau", "torch")}.{form.__name__}.
{inspect.cleandoc(form.__doc__ or "")}"""
