"""A module's operations as a graph with symbolic sizes: the work of ``torch.export.export``.

inputs, parameters      fakes (``aten.fake_tensor``), with symbols for the sizes that may be others
forward                 runs on them, and every operation becomes a node (``fx.experimental``)
constants               tensors of the program itself become inputs of the graph, too
checks                  what the program assumed about sizes must follow from what was declared, and tracing with other sizes of the
                        example must give the same graph: so nothing of the example is left in it
"""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Collection, Iterator
from typing import Any

from ..aten.fake_tensor import FakeTensor, FakeTensorMode
from ..aten.overloads import OpOverload
from ..aten.symbolic_fakes import symbolize
from ..core.calls.dispatch import IN_PLACE, IN_PLACE_VIEW
from ..core.expressions import as_expr, symbol
from ..core.symbolic import SymbolicInt, expression_of
from ..core.tensor import Tensor
from ..func import functional_call
from ..fx.experimental.impure import is_impure
from ..fx.experimental.proxy_tensor import ProxyTorchDispatchMode, PythonKeyTracer
from ..fx.experimental.recorder import add_inputs
from ..fx.experimental.symbolic_shapes import UNBOUNDED, ConstraintViolationError, GuardOnDataDependentSymNode, ShapeEnv
from ..fx.graph import Graph
from ..fx.node import Node
from ..nn import Module
from ..utils._pytree import tree_flatten, tree_unflatten
from .dynamic_shapes import Dim, DimHint, UserError, expression, root_size
from .graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from .module_calls import ModuleCalls, argument_of
from .operators import GETITEM

_ADVICE = (
    "\n\nThe error above occurred when calling torch.export.export. If you would like to view some more information about this error, and "
    "get a list of all other errors that may occur in your export call, you can replace your `export()` call with `draft_export()`."
)


class Traced:
    """The outcome of a trace.

    Attributes:
        graph, signature: the graph, and what its placeholders and results are. root: what its ``get_attr`` nodes name.
        constants: tensors of the program that are neither parameters nor buffers, by name.
        inputs: the inputs with symbolic sizes. env: their symbols. out_spec: the result's structure. names: of the symbols' dims.
        calls: what is known of calls of modules.
    """

    __slots__ = ("calls", "constants", "env", "graph", "inputs", "names", "out_spec", "root", "signature")

    graph: Graph
    root: Module
    signature: ExportGraphSignature
    constants: dict[str, Any]
    inputs: list[Any]
    env: ShapeEnv
    out_spec: Any
    names: dict[str, str]
    calls: ModuleCalls


class Shapes:
    """The sizes of the inputs that are symbols, as far as it is known; tracing may find that some are not.

    Args:
        leaves: the inputs. dims: of each, a ``Dim`` or a ``DimHint`` by dimension.
    """

    def __init__(self, leaves: list[Any], dims: list[dict[int, Any]]):
        self.leaves, self.dims = leaves, dims
        # Dimensions that were found to be others' linear functions: the other one, factor and shift.
        self.same: dict[tuple[int, int], tuple[tuple[int, int], int, int]] = {}
        # And those that were found to be sums: the others with factors, and a shift.
        self.sums: dict[tuple[int, int], tuple[list[tuple[Any, int]], int]] = {}

    def made(self, env: ShapeEnv, mode: FakeTensorMode) -> tuple[list[Any], dict[str, Any]]:
        """Fakes of the inputs, and by symbol the ``Dim``, or the place of the dimension where it is a hint."""
        roots: dict[str, SymbolicInt] = {}
        hinted: dict[tuple[int, int], SymbolicInt] = {}
        owners: dict[str, Any] = {}

        def symbolic(place: tuple[int, int], dim: Any, size: int) -> Any:
            if isinstance(dim, DimHint):
                if place in self.sums:
                    terms, shift = self.sums[place]
                    return env.number(sum([expr_of(other) * factor for other, factor in terms], as_expr(shift)))
                first, factor, shift = self.same.get(place, (place, 1, 0))
                if first not in hinted:
                    bounds, root = self.dims[first[0]][first[1]], self.leaves[first[0]]
                    size = root.shape[first[1]] if isinstance(root, Tensor) else root
                    hinted[first] = env.create_size(size, bounds.min or 0, bounds.max)
                    owners[str(hinted[first])] = first
                return hinted[first] if (factor, shift) == (1, 0) else env.number(hinted[first].expr * factor + shift)
            root = dim.root
            if root.__name__ not in roots:
                made = env.create_size(root_size(dim, size), root.min, root.max)
                roots[root.__name__] = made
                owners[str(made)] = root
            return env.number(expression(dim, roots[root.__name__].expr))

        def expr_of(owner: Any) -> Any:
            if isinstance(owner, Dim):
                k, d = next((k, d) for k, dims in enumerate(self.dims) for d, dim in dims.items() if getattr(dim, "root", None) is owner)
                symbolic((k, d), self.dims[k][d], self.leaves[k].shape[d] if d >= 0 else self.leaves[k])
                return roots[owner.__name__].expr
            leaf, dim = self.leaves[owner[0]], owner[1]
            if dim not in self.dims[owner[0]]:  # fixed since
                return as_expr(leaf.shape[dim] if dim >= 0 else leaf)
            return as_expr(expression_of(symbolic(owner, self.dims[owner[0]][dim], 0)))

        found: list[Any] = []
        for k, (leaf, dims) in enumerate(zip(self.leaves, self.dims, strict=True)):
            if isinstance(leaf, Tensor):
                fake = mode.from_tensor(leaf.detach() if leaf._base is None else leaf.detach().clone(), static_shapes=True)
                sizes = [symbolic((k, d), dims[d], n) if d in dims else n for d, n in enumerate(leaf.shape)]
                found.append(symbolize(fake, sizes))
            elif -1 in dims:
                found.append(symbolic((k, -1), dims[-1], leaf))
            else:
                found.append(leaf)
        return found, owners

    def refine(self, error: ConstraintViolationError, owners: dict[str, Any]) -> bool:
        """Have dimensions with hints be fixed or equal where a trace needs them to be. Whether that changes anything."""
        changed = False
        for a, b, factor, shift in error.equal:
            first, second = owners.get(a), owners.get(b)
            if isinstance(first, tuple) and isinstance(second, tuple):
                self.relate(second, first, factor, shift)
                changed = True
        for name, terms, shift in error.sums:
            place = owners.get(name)
            if isinstance(place, tuple):
                self.sums[place] = ([(owners[each], factor) for each, factor in terms], shift)
                changed = True
        points = {name for name, (lower, upper) in error.ranges.items() if lower == upper}
        for name, (lower, upper) in error.ranges.items():
            place = owners.get(name)
            if isinstance(place, tuple) and name not in points:
                hint = self.dims[place[0]][place[1]]
                self.dims[place[0]][place[1]] = DimHint(hint.type, lower, None if upper == UNBOUNDED else upper)
                changed = True
        for name in error.fixed | points:
            place = owners.get(name)
            if isinstance(place, tuple):
                for k, dim in [place, *[each for each, (first, _, _) in self.same.items() if first == place]]:
                    if self.dims[k][dim].type == "DYNAMIC":
                        raise UserError(
                            _violated({name}, owners, f"  - You marked a dimension as dynamic but your code specialized it: {error}")
                        )
                    del self.dims[k][dim]
                changed = True
        return changed

    def relate(self, place: tuple[int, int], other: tuple[int, int], factor: int, shift: int) -> None:
        """Have a dimension, and those that follow from it, be a linear function of another one."""
        self.same[place] = (other, factor, shift)
        for each, (root, times, plus) in list(self.same.items()):
            if root == place:
                self.same[each] = (other, times * factor, times * shift + plus)


def _violated(names: Any, owners: dict[str, Any], reasons: str, fixes: str = "") -> str:
    shown = ", ".join(sorted(_name_of(owners.get(name), name) for name in names))
    suggested = f"\nSuggested fixes:\n{fixes}\n" if fixes else ""
    return f'Constraints violated ({shown})! For more information, run with TORCH_LOGS="+dynamic".\n{reasons}{suggested}{_ADVICE}'


_SPECIALIZED = (
    "  - You marked {} as dynamic but your code specialized it to be a constant ({}). If you're using mark_dynamic, either remove it or "
    "use maybe_mark_dynamic. If you're using Dim.DYNAMIC, replace it with either Dim.STATIC or Dim.AUTO."
)


def _fixed(error: ConstraintViolationError, owners: dict[str, Any]) -> str:
    """The message about sizes that must be those of the example, or equal."""
    reasons, fixes = [], []
    for first, second, factor, shift in sorted(error.equal):
        a, b = (_name_of(owners.get(name), name) for name in (first, second))
        reason, fix = _related(a, b, factor, shift)
        reasons.append(f"{reason} ({error})")
        fixes.append(fix)
    for name, terms, shift in sorted(error.sums):
        shown = _name_of(owners.get(name), name)
        others = {each: _name_of(owners.get(each), each) for each, _ in terms}
        text = " + ".join([*[_times(others[each], factor) for each, factor in terms], *([str(shift)] if shift else [])])
        related = " and ".join(others.values())
        reasons.append(f"  - The values of {shown} must always be related to the values of {related} by {shown} = {text}. ({error})")
        fixes.append(f"  {shown} = {text}")
    for name in sorted(error.fixed):
        shown, size = _name_of(owners.get(name), name), error.hints.get(name)
        reasons.append(f"{_SPECIALIZED.format(shown, size)} ({error})")
        fixes.append(f"  {shown} = {size}")
    names = error.fixed | {second for _, second, _, _ in error.equal} | {name for name, _, _ in error.sums}
    return _violated(names, owners, "\n".join(reasons), "\n".join(fixes))


def _times(name: str, factor: int) -> str:
    return name if factor == 1 else f"{factor}*{name}"


def _related(first: str, second: str, factor: int, shift: int) -> tuple[str, str]:
    """A reason and a remedy for a size that must be a linear function of another one."""
    times = _times(first, factor)
    text = times if not shift else f"{times} {'+' if shift > 0 else '-'} {abs(shift)}"
    if text == first:
        return f"  - The values of {second} and {first} must always be equal.", f"  {second} = {first}"
    return f"  - The values of {second} must always be related to the values of {first} by {second} = {text}.", f"  {second} = {text}"


def _linear(relation: Any, truth: bool, known: Collection[str]) -> tuple[str, str, int, int] | None:
    """Two symbols of which a relation says that the second is a linear function of the first: both, the factor and the shift."""
    names = sorted(relation.symbols, key=lambda name: (len(name), name))
    if relation.name not in ("==", "!=") or truth is not (relation.name == "==") or len(names) != 2 or not {*names} <= {*known}:
        return None
    difference = as_expr(relation.args[0]) - as_expr(relation.args[1])
    constant = difference.terms.get((), 0)
    weights = {name: difference.terms.get(((name, 1),), 0) for name in names}
    if difference != symbol(names[0]) * weights[names[0]] + symbol(names[1]) * weights[names[1]] + constant:
        return None
    for first, second in (names, names[::-1]):
        if weights[second] and not weights[first] % weights[second] and not constant % weights[second]:
            factor, shift = -weights[first] // weights[second], -constant // weights[second]
            if factor > 1 or (factor == 1 and shift >= 0):
                return first, second, factor, shift
    return None


def _sum_of(relation: Any, truth: bool, known: Collection[str]) -> tuple[str, tuple[tuple[str, int], ...], int] | None:
    """A symbol of which a relation says that it is a sum of several others: itself, these with their factors, and the shift."""
    names = sorted(relation.symbols, key=lambda name: (len(name), name))
    if relation.name not in ("==", "!=") or truth is not (relation.name == "==") or len(names) < 3 or not {*names} <= {*known}:
        return None
    difference = as_expr(relation.args[0]) - as_expr(relation.args[1])
    constant = difference.terms.get((), 0)
    weights = {name: difference.terms.get(((name, 1),), 0) for name in names}
    if difference != sum([symbol(name) * weight for name, weight in weights.items()], as_expr(constant)):
        return None
    for total in names[::-1]:
        sign = weights[total]
        terms = tuple([(name, -sign * weight) for name, weight in weights.items() if name != total])
        if sign in (1, -1) and all(factor > 0 for _, factor in terms):
            return total, terms, -sign * constant
    return None


def _name_of(owner: Any, name: str) -> str:
    return owner.__name__ if isinstance(owner, Dim) else name if owner is None else f"inputs[{owner[0]}].shape[{owner[1]}]"


def check_guards(env: ShapeEnv, owners: dict[str, Any]) -> None:
    """Raise for what the program assumed about sizes beyond what was declared.

    Raises:
        ConstraintViolationError: of sizes that are only hinted at.
        UserError: of ``Dim``s.
    """
    if not env.guards:
        return
    hinted = {name for relation, _ in env.guards for name in relation.symbols if isinstance(owners.get(name), tuple)}
    if hinted:
        error = _needed_of_hints(env, hinted)
        error.owners, error.hints = owners, dict(env.hints)
        raise error
    reasons, fixes, names = [], [], set()
    for relation, truth in env.guards:
        involved, reason, fix = _violation(env, relation, truth, owners)
        names |= involved
        reasons.append(reason)
        fixes += fix
    raise UserError(_violated(names, owners, "\n".join(reasons), "\n".join(dict.fromkeys(fixes))))


def _violation(env: ShapeEnv, relation: Any, truth: bool, owners: dict[str, Any]) -> tuple[set[str], str, list[str]]:
    """The symbols that a guard is about, a reason and remedies."""
    if truth is (relation.name == "==") and relation.name in ("==", "!=") and len(relation.symbols) == 1:
        (name,) = relation.symbols
        owner = _name_of(owners.get(name), name)
        return {name}, _SPECIALIZED.format(owner, env.hints[name]), [f"  {owner} = {env.hints[name]}"]
    related = _linear(relation, truth, [name for name, owner in owners.items() if isinstance(owner, Dim)])
    if related is not None:
        first, second, factor, shift = related
        reason, fix = _related(_name_of(owners.get(first), first), _name_of(owners.get(second), second), factor, shift)
        return {second}, reason, [fix]
    shown = str(relation) if truth else f"Not({relation})"
    for name in relation.symbols:
        shown = re.sub(rf"\b{name}\b", _name_of(owners.get(name), name), shown)
    listed = ", ".join(_name_of(owners.get(name), name) for name in sorted(relation.symbols))
    reason = f"  - Not all values of {listed} in the specified range satisfy the generated guard {shown}"
    return set(relation.symbols), reason, _bounds_of(env, relation if truth else relation.negated, owners)


def _needed_of_hints(env: ShapeEnv, hinted: set[str]) -> ConstraintViolationError:
    """The error that says what sizes that are only hinted at have to be: equal to another one, in a smaller range, or fixed."""
    for relation, truth in env.guards:
        related = _linear(relation, truth, hinted)
        if related is not None:
            return ConstraintViolationError(str(relation), equal={related})
        total = _sum_of(relation, truth, hinted)
        if total is not None:
            error = ConstraintViolationError(str(relation))
            error.sums = {total}
            return error
    error = ConstraintViolationError("a size is assumed to be what it is in the example")
    for relation, truth in env.guards:
        before = {name: env.var_to_range[name] for name in relation.symbols}
        env.narrow(relation if truth else relation.negated)
        changed = {name: env.var_to_range[name] for name in before if env.var_to_range[name] != before[name]}
        error.ranges.update({name: (values.lower, values.upper) for name, values in changed.items() if name in hinted})
        if not changed:
            error.fixed |= relation.symbols & hinted
    return error


def _bounds_of(env: ShapeEnv, relation: Any, owners: dict[str, Any]) -> list[str]:
    """The ``Dim`` with which a relation is true."""
    names = relation.symbols
    name = next(iter(names))
    owner = owners.get(name)
    if len(names) != 1 or not isinstance(owner, Dim):
        return []
    before = env.var_to_range[name]
    env.narrow(relation)
    after, env.var_to_range[name] = env.var_to_range[name], before
    lower = f", min={after.lower}" if after.lower != before.lower or owner.min else ""
    upper = f", max={after.upper}" if after.upper != UNBOUNDED else ""
    return [] if after == before else [f"  {owner.__name__} = Dim('{owner.__name__}'{lower}{upper})"]


# ---- one trace
class _ExportMode(ProxyTorchDispatchMode):
    """Notes operations before they are divided, with the modules and the lines of the program that called them."""

    def __init__(self, tracer: Any, mod: Module, preserved: tuple[str, ...], notes: bool):
        super().__init__(tracer, "symbolic", pre_dispatch=True)
        self.calls = ModuleCalls(mod, preserved, self.recorder.argument)
        if notes:
            self.recorder.notes = self.calls.note

    def takes(self, call: Any) -> Any:
        self.calls.function_called(call.op, call.form in (IN_PLACE, IN_PLACE_VIEW))
        return super().takes(call)


def trace(
    mod: Module, args_spec: Any, shapes: Shapes, names: list[str], preserved: tuple[str, ...] = (), turn: int = 0
) -> tuple[Traced, dict[str, Any]]:
    """Run ``forward`` once on inputs without values.

    Args:
        mod: the module. args_spec: the structure of (args, kwargs), whose leaves are in ``shapes``. names: of their placeholders.
        preserved: paths of modules whose calls' signatures are kept. turn: which sizes of the symbols are the example's.
    Returns:
        The trace, and the owners of its symbols.
    """
    env = ShapeEnv(turn=turn)
    fake_mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=env, static_shapes=True)
    inputs, owners = shapes.made(env, fake_mode)
    state = _State(mod, fake_mode)
    tracer = PythonKeyTracer()
    mode = _ExportMode(tracer, mod, preserved, notes=turn == 0)
    leaves = [*state.fakes, *inputs]
    add_inputs(mode.recorder, leaves, unique_names([*state.names, *names]), hoisted=True)
    args, kwargs = tree_unflatten(inputs, args_spec)
    try:
        with _attributes_kept(mod, state), mode.calls.seen(), fake_mode, mode:
            result = functional_call(mod, state.by_path, args, kwargs)
    except (ConstraintViolationError, NotImplementedError) as error:
        check_guards(env, owners)
        if isinstance(error, ConstraintViolationError):
            error.owners, error.hints = owners, dict(env.hints)
        raise
    results, out_spec = tree_flatten(result)
    tracer.graph.output(tuple([mode.recorder.argument(each) for each in results]))
    traced = Traced()
    traced.root, traced.calls = tracer.root, mode.calls
    traced.graph, traced.inputs, traced.env, traced.out_spec = tracer.graph, inputs, env, out_spec
    tracer.graph.eliminate_dead_code(_is_kept)
    lifted = _lift_constants(tracer, mod, len(state.names))
    traced.constants = {name: value for _, name, value in lifted}
    specs = [*state.specs(tracer.graph), *[InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node), name) for node, name, _ in lifted]]
    placeholders = tracer.graph.find_nodes(op="placeholder")[len(specs) :]
    specs += [InputSpec(InputKind.USER_INPUT, argument_of(node, leaf), None) for node, leaf in zip(placeholders, inputs, strict=True)]
    output = tracer.graph.output_node()
    outputs = [
        OutputSpec(OutputKind.USER_OUTPUT, argument_of(node, value), None) for node, value in zip(output.args[0], results, strict=True)
    ]
    traced.signature = ExportGraphSignature(specs, outputs)
    traced.names = {name: _name_of(owner, name) for name, owner in owners.items()}
    return traced, owners


def _is_kept(node: Node) -> bool:
    """Whether a node stays although nobody uses it: one of an operation with tensors as results, constants of the program excepted."""
    if is_impure(node):
        return True
    target: Any = node.target
    is_operation = node.op == "call_function" and isinstance(target, OpOverload)
    return (is_operation and target.name() not in ("aten::lift_fresh_copy", "aten::sym_size.int")) or target is GETITEM


def unique_names(names: list[str]) -> list[str]:
    """Names with numbers behind those that were there before."""
    found: list[str] = []
    for name in names:
        tried, number = name, 0
        while tried in found:
            number += 1
            tried = f"{name}_{number}"
        found.append(tried)
    return found


class _State:
    """Parameters and buffers of a module as fakes. One that has several names is several inputs, of which the last is used."""

    def __init__(self, mod: Module, mode: FakeTensorMode):
        self.fakes: list[Any] = []
        self.by_path: dict[str, Any] = {}
        self.kinds: list[tuple[str, InputKind, bool | None]] = []
        self.names: list[str] = []
        persistent = set(mod.state_dict(keep_vars=True))
        kinds = ((InputKind.PARAMETER, mod.named_parameters), (InputKind.BUFFER, mod.named_buffers))
        for kind, named in kinds:
            for path, tensor in named(remove_duplicate=False):
                fake = self.by_path[path] = mode.from_tensor(tensor, static_shapes=True)
                self.fakes.append(fake)
                self.kinds.append((path, kind, None if kind is InputKind.PARAMETER else path in persistent))
                self.names.append(("p_" if kind is InputKind.PARAMETER else "b_") + placeholder_name(path))

    def write_assigned(self, mod: Module) -> None:
        """Write to the buffers that ``forward`` set to other tensors, as long as it is traced."""
        for path, fake in self.by_path.items():
            owner, _, name = path.rpartition(".")
            now = mod.get_submodule(owner)._buffers.get(name)
            if now is not None and now is not fake:
                fake.copy_(now)

    def specs(self, graph: Graph) -> list[InputSpec]:
        nodes = graph.find_nodes(op="placeholder")
        return [
            InputSpec(kind, TensorArgument(node.name), path, persistent)
            for node, (path, kind, persistent) in zip(nodes[: len(self.kinds)], self.kinds, strict=True)
        ]


def placeholder_name(path: str) -> str:
    """The name of a placeholder for an attribute of the module."""
    return re.sub(r"[^a-zA-Z0-9]", "_", path.removeprefix("self_")).lower()


@contextlib.contextmanager
def _attributes_kept(mod: Module, state: _State) -> Iterator[None]:
    """Write buffers that ``forward`` sets to others, and put back other attributes, whose tensors without values are no use later."""
    before = [(path, module, dict(vars(module))) for path, module in mod.named_modules()]
    hook = mod.register_forward_hook(lambda *_: state.write_assigned(mod))
    try:
        yield
    finally:
        hook.remove()
        lost = []
        for path, module, attributes in before:
            for name, value in list(vars(module).items()):
                if isinstance(value, FakeTensor) and attributes.get(name) is not value:
                    lost.append(f"self.{path}.{name}" if path else f"self.{name}")
                    if name in attributes:
                        vars(module)[name] = attributes[name]
                    else:
                        del vars(module)[name]
    if lost:
        many = f"s {', '.join(lost)} were" if len(lost) > 1 else f" {lost[0]} was"
        warnings.warn(
            f"The tensor attribute{many} assigned during export. Such attributes must be registered as buffers using the `register_buffer` "
            "API (https://pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_buffer).",
            UserWarning,
            stacklevel=5,
        )


def _lift_constants(tracer: Any, mod: Module, before: int) -> list[tuple[str, str, Any]]:
    """Make inputs of the tensors that the program itself has. Returns the node, the name and the value of each."""
    graph: Graph = tracer.graph
    placeholders = graph.find_nodes(op="placeholder")
    known = _tensor_attributes(mod)
    nodes = [node for node in graph.nodes if node.op == "get_attr" and isinstance(getattr(tracer.root, str(node.target), None), Tensor)]
    by_value: dict[int, list[Node]] = {}
    for node in nodes:
        by_value.setdefault(id(getattr(tracer.root, str(node.target))), []).append(node)
    found: list[tuple[str, str, Any, list[Node]]] = []
    count = 0
    for group in by_value.values():
        value = getattr(tracer.root, str(group[0].target))
        path = known.get(id(value))
        if path is None:
            path, count = f"lifted_tensor_{count}", count + 1
        found.append((f"c_{placeholder_name(path)}", path, value, group))
    found.sort(key=lambda each: not each[1].startswith("lifted_tensor_"))
    lifted = []
    anchor = placeholders[before] if before < len(placeholders) else next(iter(node for node in graph.nodes if node.op != "placeholder"))
    for name, path, value, group in found:
        with graph.inserting_before(anchor):
            made = graph.placeholder(name)
        made.meta["val"] = group[0].meta.get("val")
        for node in group:
            node.replace_all_uses_with(made)
            graph.erase_node(node)
        lifted.append((made.name, path, value))
    return lifted


def _tensor_attributes(mod: Module) -> dict[int, str]:
    """Tensors that are plain attributes of a module, by identity."""
    found: dict[int, str] = {}
    for path, module in mod.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, Tensor):
                found.setdefault(id(value), f"{path}.{name}" if path else name)
    return found


# ---- as often as needed
def traced_program(
    mod: Module, args_spec: Any, leaves: list[Any], dims: list[dict[int, Any]], names: list[str], preserved: tuple[str, ...] = ()
) -> Traced:
    """The trace of a module; sizes that are only hinted at become fixed where the program needs them to be.

    Raises:
        UserError: the program assumes more of a ``Dim`` than was declared.
    """
    shapes = Shapes(leaves, [dict(each) for each in dims])
    while True:
        owners: dict[str, Any] = {}
        try:
            traced, owners = trace(mod, args_spec, shapes, names, preserved)
            check_guards(traced.env, owners)
            if traced.env.hints:
                _check_again(mod, args_spec, shapes, names, traced)
            return traced
        except ConstraintViolationError as error:
            owners = owners or error.owners
            if not shapes.refine(error, owners):
                raise UserError(_fixed(error, owners)) from error
        except GuardOnDataDependentSymNode as error:
            raise UserError(f"{error}{_ADVICE}") from error


def _check_again(mod: Module, args_spec: Any, shapes: Shapes, names: list[str], traced: Traced) -> None:
    """Trace with other sizes of the example: what differs then was taken from the example."""
    try:
        other, owners = trace(mod, args_spec, shapes, names, turn=1)
    except ConstraintViolationError:
        raise
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        raise ConstraintViolationError(f"for other sizes it fails: {error}", set(traced.names)) from error
    first, second = (graph_outline(graph) for graph in (traced.graph, other.graph))
    for a, b in zip(first, second, strict=False):
        if a != b:
            raise ConstraintViolationError(f"for other sizes the graph is another one: {a} becomes {b}", set(owners))
    if len(first) != len(second):
        raise ConstraintViolationError(f"for other sizes the graph has {len(second)} nodes in place of {len(first)}", set(owners))


def graph_outline(graph: Graph) -> list[str]:
    """The nodes as text."""
    return [f"{node.name} = {node.target}({node.args}, {node.kwargs})" for node in graph.nodes]
