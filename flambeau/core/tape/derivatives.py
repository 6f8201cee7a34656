"""From an operation's derivative rules to the class of its tape nodes.

A rule is a function of ``grad`` and of whatever it needs, and the names of its arguments say what is saved:

    mul = op(..., grad={"input": lambda grad, other: grad * conj(other), "other": lambda grad, input: grad * conj(input)})

    grad                the gradient of the result (of the first result where there are several; ``grads`` is the list of all)
    input, other, ...   an operand or attribute of the call, by its name in the signature
    result, result1     a result (the first, or the one with that index)
    input_shape         an operand's shape; ``input_dtype`` its dtype (for a list of operands, one per operand)
    needs               for a rule of several inputs ("input, weight"): which of them need a gradient

Rules are Tensor code, so they can be recorded again.  They need not undo broadcasting, casts, or real inputs of complex results:
the engine brings every gradient to the shape and dtype of the input it belongs to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ..arrays import native
from ..calls.interruption import GENERATED
from ..calls.machine_calls import Offer, offer
from ..dtype import BY_NUM
from ..tensor import Tensor, new_storage, wrap
from .node import Node, complain_freed
from .saved import SavedTensor, unpack, unpack_result

if TYPE_CHECKING:
    from ..calls.operation import Op


class Item:
    """One thing that a node keeps: where it comes from, and for which inputs' gradients it is needed."""

    __slots__ = ("name", "needed_for", "position", "source")

    def __init__(self, name: str, source: str, position: int, needed_for: set[str]):
        self.name, self.source, self.position, self.needed_for = name, source, position, needed_for


class OpNode(Node):
    """A recorded call of a declared operation; ``make_node_class`` derives one class per operation.

    Attributes:
        op: the operation.
        inputs: names of the operands that edges lead to, in the signature's order.
        tensors, others: what ``saved`` and ``attrs`` hold.
        saves_inputs: names of the operands among ``tensors``.
    """

    __slots__ = ()
    op: ClassVar[Op]
    inputs: ClassVar[tuple[str, ...]]
    tensors: ClassVar[list[Item]]
    others: ClassVar[list[Item]]
    saves_inputs: ClassVar[frozenset[str]]

    @classmethod
    def collect(cls, values: Any, required: dict[str, bool], results: list[Tensor]) -> tuple[Any, Any]:
        """Values that a node for this call keeps: (tensors, other values)."""
        saved: list[Any] = []
        for item in cls.tensors:
            for name in item.needed_for:
                if required.get(name):
                    break
            else:
                saved.append(None)
                continue
            if item.source == "result":
                result = results[item.position]
                saved.append((result._array, new_storage(result), item.position if cls.is_multi_output else None))
            else:
                value = values[item.position]
                saved.append(tuple(value) if isinstance(value, list) else value)
        attrs: list[Any] = []
        for item in cls.others:
            value = values[item.position]
            attrs.append(value if item.source == "attr" else fact_of(value, item.source))
        return tuple(saved), tuple(attrs)


def rule_inputs(key: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in key.split(","))


def argument_names(rule: Any) -> tuple[str, ...]:
    code = rule.__code__
    return code.co_varnames[: code.co_argcount]


def plan_items(op: Op) -> list[Item]:
    """Values that nodes of ``op`` keep, in order of first use."""
    items: dict[str, Item] = {}
    for key, rule in (op.rules or {}).items():
        for name in argument_names(rule):
            if name in ("grad", "grads", "needs", "node"):
                continue
            if name not in items:
                source, position = _source_of(op, name)
                items[name] = Item(name, source, position, set())
            items[name].needed_for.update(rule_inputs(key))
    return list(items.values())


def _source_of(op: Op, name: str) -> tuple[str, int]:
    if name in op.names:
        position = op.names.index(name)
        return ("attr" if op.params[position].kind == "attr" else "operand"), position
    if (name.startswith("result") and name[6:].isdigit()) or name == "result":
        return "result", int(name[6:] or 0)
    for suffix in ("shape", "dtype", "strides"):
        base = name.removesuffix("_" + suffix)
        if base != name and base in op.names:
            return suffix, op.names.index(base)
    raise TypeError(f"{op.name}: a derivative asks for '{name}', which is neither an argument nor a result")


def fact_of(value: Any, fact: str) -> Any:
    """``shape``, ``dtype`` or ``strides`` of an operand; a tuple of them for a list of operands."""
    if isinstance(value, (list, tuple)):
        return tuple([fact_of(item, fact) for item in value])
    if not isinstance(value, Tensor):
        return () if fact == "shape" else None
    if fact == "shape":
        return value._array.shape
    return BY_NUM[value._array.dtype.num] if fact == "dtype" else value.stride()


def make_node_class(op: Op) -> type[OpNode]:
    """The class ``AddBackward0`` for operation ``add``: what it keeps, and ``apply`` generated from the rules."""
    items = plan_items(op)
    tensors = [i for i in items if i.source in ("operand", "result")]
    others = [i for i in items if i.source not in ("operand", "result")]
    covered = [name for key in op.rules or {} for name in rule_inputs(key)]
    for name in covered:
        if name not in op.names or op.params[op.names.index(name)].kind == "attr":
            raise TypeError(f"{op.name}: derivative given for '{name}', which is no operand")
    inputs = tuple(name for name in op.names if name in covered)
    name = op.node_name or "".join(part.title() for part in op.name.split("_")) + "Backward0"
    apply, lines = _generate_apply(op, inputs, tensors, others)
    body = {
        "__slots__": (),
        "__module__": "flambeau.autograd",
        "op": op,
        "inputs": inputs,
        "tensors": tensors,
        "others": others,
        "saves_inputs": frozenset(i.name for i in tensors if i.source == "operand"),
        "frees": bool(tensors) or _any_uses(op, "node"),
        "is_multi_output": op.is_multi_output,
        "is_multi_view": op.is_multi_view,
        "apply": apply,
    }
    if _keeps_numbers(op) or (tensors and not _any_uses(op, "node") and any(all(n not in i.needed_for for i in tensors) for n in inputs)):
        body["release"] = release_tensors
    kind = type(name, (OpNode,), body)
    for item in items:
        _add_saved_property(kind, item, tensors, others)
    if not op.is_multi_output:
        offer(apply, lines, [Offer(1, 1, op, "rule", "node, grad", "", (kind,))])
    return kind


def _keeps_numbers(op: Op) -> bool:
    return op.name == "lerp"  # whose weight is an attribute in PyTorch where it is a number


_NUMBERS = (bool, int, float, complex)


def release_tensors(node: OpNode) -> None:
    """``release`` where a node may have no tensor to drop: one whose input's gradient needs none can be gone through again."""
    for item in node.saved or ():
        if item is not None and item.__class__ not in _NUMBERS:
            node.saved = None
            return


def _generate_apply(op: Op, inputs: tuple[str, ...], tensors: list[Item], others: list[Item]) -> tuple[Any, list[str]]:
    """``apply`` and the lines of its source: unpack what was saved, with the check against later writes inline, and call the rules."""
    lines = [f"def apply(node, {'grads' if op.is_multi_output else 'grad'}):"]
    env: dict[str, Any] = {
        "complain_freed": complain_freed,
        "unpack": unpack,
        "unpack_result": unpack_result,
        "Tensor": Tensor,
        "wrap": wrap,
    }
    uses_grad = any("grad" in argument_names(rule) for rule in (op.rules or {}).values())
    if op.is_multi_output and uses_grad:
        lines += [
            "    grad = grads[0]",
            f"    if grad is None and {not _any_uses(op, 'grads')}:",
            f"        return (None,) * {len(inputs)}",
        ]
    if tensors:
        lines += ["    saved = node.saved", "    if saved is None:", "        complain_freed(node)"]
        lines.append(f"    {', '.join(i.name for i in tensors)}, = saved")
        for item in tensors:
            n = item.name
            if item.source == "result":
                lines.append(f"    if {n} is not None: {n} = unpack_result(node, {n})")
                continue
            lines += [
                f"    if {n}.__class__ is Tensor:",
                f"        storage = {n}._storage",
                "        if storage is not None and storage.changed > node.seq:",
                f"            unpack(node, {n})",
                f"    elif {n} is not None:",
                f"        {n} = unpack(node, {n})",
            ]
    if others:
        lines.append(f"    {', '.join(i.name for i in others)}, = node.attrs")
    is_list = [p.kind == "list" for p in op.params if p.name in inputs]
    if any(is_list):
        if len(inputs) != 1:
            raise TypeError(f"{op.name}: an operation that takes a list of tensors can have a derivative for that list only")
        lines.append(f"    return {_rule_call(op, inputs[0], 0)}")
    else:
        lines.append("    edges = node.edges")
        if op.together:
            threshold, env["together"] = native.gradients_together(op)
            lines += _lines_of_all(inputs, tensors, threshold)
        lines += _rule_lines(op, inputs)
    for k, rule in enumerate((op.rules or {}).values()):
        env[f"rule{k}"] = rule
        env[f"large{k}"] = native.fused_rule(rule)
    exec(compile("\n".join(lines), f"{GENERATED}{op.name}'s node>", "exec"), env)
    return env["apply"], lines


def _any_uses(op: Op, name: str) -> bool:
    return any(name in argument_names(rule) for rule in (op.rules or {}).values())


def _rule_call(op: Op, key: str, k: int, needs: str = "()") -> str:
    arguments = argument_names((op.rules or {})[key])
    passed = [needs if name == "needs" else name for name in arguments]
    rule = f"rule{k}"
    threshold = native.fused_threshold(op, (op.rules or {})[key]) if arguments[:1] == ("grad",) else None
    if threshold is not None:
        rule = f"(rule{k} if grad._array.size < {threshold} else large{k})"
    return f"{rule}({', '.join(passed)})"


def _lines_of_all(inputs: tuple[str, ...], tensors: list[Item], threshold: int) -> list[str]:
    """Ask the kernel for the gradients of all operands, if there is much to do."""
    needs = ", ".join(f"edges[{place}] is not None" for place in range(len(inputs)))
    saved = ", ".join(f"{item.name}={item.name}" for item in tensors)
    return [
        f"    if grad._array.size >= {threshold} and grad.__class__ is Tensor:",
        f"        made = together(({needs},), grad, {saved})",
        "        if made is not None:",
        "            return [None if array is None else wrap(array) for array in made]",
    ]


def _rule_lines(op: Op, inputs: tuple[str, ...]) -> list[str]:
    lines, results = [], {}
    for k, key in enumerate(op.rules or {}):
        names = rule_inputs(key)
        if len(names) == 1:
            results[key] = f"({_rule_call(op, key, k)} if edges[{inputs.index(key)}] is not None else None)"
            if getattr(op, "in_order", False):  # the rules' own, not that of the operands
                lines.append(f"    grad_of_{key} = {results[key]}")
                results[key] = f"grad_of_{key}"
            continue
        needs = ", ".join(f"edges[{inputs.index(name)}] is not None" for name in names)
        lines.append(f"    {', '.join(f'grad_of_{name}' for name in names)} = {_rule_call(op, key, k, f'({needs})')}")
        results.update({name: f"grad_of_{name}" for name in names})
    lines.append(f"    return ({', '.join(results[name] for name in inputs)},)")
    return lines


def _add_saved_property(kind: Any, item: Item, tensors: list[Item], others: list[Item]) -> None:
    """``grad_fn._saved_<name>``, as PyTorch shows what a node keeps ('self' stands for the first operand)."""
    shown = {"input": "self"}.get(item.name, item.name)
    if item in tensors:
        index = tensors.index(item)

        def read(node: Any) -> Any:
            if node.saved is None:
                complain_freed(node)
            return unpack(node, node.saved[index])
    else:
        index = others.index(item)

        def read(node: Any) -> Any:
            return node.attrs[index]

    setattr(kind, f"_saved_{shown}", property(read))
    if item in tensors:
        setattr(kind, f"_raw_saved_{shown}", property(lambda node: SavedTensor(node, index)))
