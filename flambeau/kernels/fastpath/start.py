"""Loading the machine code of fast paths, and what it can do for an operation."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ...core.arrays.native import NoKernel, switch
from ...core.calls.machine_calls import CHOSEN, take_over
from ...core.calls.registry import primitive
from . import (
    attention,
    backward,
    bounds,
    broadcasts,
    casts,
    class_rules,
    elementwise,
    endings,
    extremes,
    forms,
    formulas,
    indices,
    joins,
    launching,
    list_rules,
    losses,
    numbers,
    parts,
    pools,
    products,
    programs,
    quotients,
    ranks,
    records,
    reductions,
    rules,
    softmaxes,
    spreads,
    steps,
    taking,
    view_rules,
    views,
    weighted,
    writes,
)
from .code import builtin, kept, loaded
from .interpreter import Unsupported
from .kept_codes import kept_codes
from .recipes import looked_at_once

# Forms, and operations whose whole calls they do with the records that these functions make.
_FORMS = (
    elementwise.unary,
    elementwise.binary,
    forms.result,
    views.view,
    views.transposed,
    views.turned,
    views.unsqueezed,
    views.reshaped,
    indices.indexed,
    products.product,
    products.linear,
    reductions.reduced,
    reductions.folded,
    reductions.truths,
    spreads.spread,
    spreads.length,
    quotients.divided,
    weighted.weighted,
    weighted.weighted_there,
    softmaxes.softmax,
    softmaxes.log_softmax,
    reductions.summed,
    forms.above,
    forms.copied,
    forms.reflected,
    forms.written,
    rules.linear_rule,
    rules.product_rule,
    formulas.formula,
    formulas.passed_rule,
    class_rules.softmax_rule,
    class_rules.log_softmax_rule,
    class_rules.likelihood_rule,
    class_rules.squares_rule,
    list_rules.cat_rule,
    list_rules.stack_rule,
    list_rules.parts_rule,
    view_rules.spread_rule,
    view_rules.shape_rule,
    view_rules.turn_rule,
    view_rules.part_rule,
    joins.joined,
    joins.stacked,
    numbers.number,
    numbers.made,
    numbers.alike,
    numbers.counting,
    numbers.listed,
    casts.converted,
    casts.contiguous,
    casts.here,
    extremes.position,
    extremes.extreme_of_all,
    extremes.extreme_along,
    views.squeezed,
    views.permuted,
    views.reversed_,
    views.expanded,
    views.flattened,
    views.detached,
    writes.put,
    programs.program,
    parts.parted,
    taking.rows,
    taking.gathered,
    taking.scattered_there,
    numbers.sizes,
    numbers.address,
    numbers.steps,
    numbers.alike_values,
    numbers.gradient,
    broadcasts.broadcast,
    broadcasts.filled,
    broadcasts.filled_there,
    bounds.limited,
    bounds.limited_there,
    ranks.leading,
    writes.overwritten,
    writes.copied_into,
    broadcasts.chosen,
    backward.backward,
    steps.step,
    steps.forget,
    losses.class_loss,
    losses.class_slope,
    losses.likelihood,
    losses.squared_loss,
    launching.layer_norm,
    attention.attention,
    *endings.ENDINGS,
)
_WHOLE: dict[str, tuple[str, Callable[[Any], records.Record]]] = {
    "transpose": ("transposed", records.of_views),
    "t": ("turned", records.of_views),
    "unsqueeze": ("unsqueezed", records.of_views),
    "squeeze": ("squeezed", records.of_views),
    "permute": ("permuted", records.of_views),
    "flatten": ("flattened", lambda op: records.of_views(primitive("_view"))),
    "Tensor.expand_as": ("expanded", lambda op: records.of_views(primitive("_expand"))),
    "_view": ("reshaped", records.of_views),
    **dict.fromkeys(("mm", "bmm", "matmul"), ("product", products.of_matrices)),
    "nn.functional.linear": ("linear", products.of_linear),
    "cat": ("joined", joins.of_joins),
    "stack": ("stacked", joins.of_joins),
    "softmax": ("softmax", softmaxes.of_softmaxes),
    "log_softmax": ("log_softmax", softmaxes.of_softmaxes),
    **dict.fromkeys(("relu", "nn.functional.relu"), ("above", records.of_relu)),
    "clone": ("copied", records.of_copies),
    "sum": ("reduced", reductions.of_sums),
    "mean": ("reduced", reductions.of_sums),
    "_sum_to_size": ("summed", reductions.of_sums),
    **dict.fromkeys(("amax", "amin", "prod"), ("folded", reductions.of_folds)),
    **dict.fromkeys(("any", "all"), ("truths", reductions.of_truths)),
    "linalg.vector_norm": ("length", spreads.of_lengths),
    **dict.fromkeys(("var", "std"), ("spread", spreads.of_spreads)),
    "max": ("extreme_along", extremes.of_extremes_along),
    "min": ("extreme_along", extremes.of_extremes_along),
    "_max_of_all": ("extreme_of_all", extremes.of_extremes),
    "_min_of_all": ("extreme_of_all", extremes.of_extremes),
    "masked_fill": ("filled", broadcasts.of_fills),
    "where": ("chosen", broadcasts.of_choices),
    **dict.fromkeys(("unbind", "split", "Tensor.split", "chunk"), ("parted", parts.of_parts)),
    "embedding": ("rows", taking.of_embedding),
    "equal": ("alike_values", numbers.of_nothing),
    **dict.fromkeys(("remainder", "floor_divide"), ("divided", quotients.of_quotients)),
    "gather": ("gathered", records.of_views),
    "topk": ("leading", ranks.of_leading),
    "clamp": ("limited", bounds.of_bounds),
    "argmax": ("position", extremes.of_positions),
    "argmin": ("position", extremes.of_positions),
    **{name: ("made", numbers.of_made(filled)) for name, filled in numbers.FACTORIES.items()},
    **{f"{name}_like": ("alike", numbers.of_made(filled)) for name, filled in numbers.FACTORIES.items() if name != "full"},
    "arange": ("counting", numbers.of_nothing),
    **dict.fromkeys(("tensor", "as_tensor"), ("listed", numbers.of_nothing)),
    "nn.functional.cross_entropy": ("class_loss", losses.of_class_loss),
    "nn.functional.nll_loss": ("likelihood", losses.of_mean_loss),
    "nn.functional.mse_loss": ("squared_loss", losses.of_mean_loss),
    "Tensor.cpu": ("here", numbers.of_nothing),
    "Tensor.contiguous": ("contiguous", lambda op: records.of_copies(primitive("clone"))),
    "nn.functional.layer_norm": ("layer_norm", launching.of_layer_norm),
    "nn.functional.scaled_dot_product_attention": ("attention", attention.of_attention),
}
# Operations that write into their first argument.
_INPLACE: dict[str, tuple[str, Callable[[Any], records.Record]]] = {
    "clamp": ("limited_there", bounds.of_bounds),
    "_scatter": ("scattered_there", taking.of_scatters),
    **dict.fromkeys(("add", "sub"), ("weighted_there", weighted.of_weighted)),
    "masked_fill": ("filled_there", broadcasts.of_fills),
}

_RULES: dict[str, tuple[str, Callable[[Any, Any], records.Record]]] = {
    "nn.functional.linear": ("linear_rule", rules.of_product_rules),
    **dict.fromkeys(("mm", "matmul"), ("product_rule", rules.of_product_rules)),
    **dict.fromkeys(formulas.FORMULAS, ("formula", formulas.of_formulas)),
    **dict.fromkeys(("add", "clone", "_expand"), ("passed_rule", formulas.of_passed)),
    "softmax": ("softmax_rule", class_rules.of_class_rules),
    "log_softmax": ("log_softmax_rule", class_rules.of_class_rules),
    "nn.functional._nll_loss": ("likelihood_rule", class_rules.of_class_rules),
    "nn.functional._mse_loss": ("squares_rule", class_rules.of_class_rules),
    "cat": ("cat_rule", list_rules.of_lists),
    "stack": ("stack_rule", list_rules.of_lists),
    **dict.fromkeys(("sum", "mean"), ("spread_rule", view_rules.of_spreads)),
    **dict.fromkeys(("_view", "squeeze", "unsqueeze"), ("shape_rule", view_rules.of_shapes)),
    **dict.fromkeys(("t", "transpose"), ("turn_rule", view_rules.of_turns)),
    **dict.fromkeys(("_select", "_slice"), ("part_rule", view_rules.of_parts)),
    "nn.functional._cross_entropy": ("class_slope", losses.of_class_slope),
}
# Functions that belong to no operation.
_ALONE: dict[str, tuple[str, Callable[..., records.Record]]] = {
    "optimizer step": ("step", steps.of_steps),
    "forget gradients": ("forget", records.Record),
    "number": ("number", numbers.of_numbers),
    "converted": ("converted", lambda name: casts.of_casts(primitive("_to_copy"))),
    "detached": ("detached", numbers.of_nothing),
    "permuted": ("permuted", lambda name: records.of_views(primitive("permute"))),
    "reversed_": ("reversed_", lambda name: records.of_views(primitive("permute"))),
    "expanded": ("expanded", lambda name: records.of_views(primitive("_expand"))),
    **{name: (name, numbers.of_nothing) for name in ("sizes", "address", "steps")},
    "gradient": ("gradient", numbers.of_nothing),
    "put": ("put", numbers.of_nothing),
    "overwritten": ("overwritten", numbers.of_nothing),
    "copied_into": ("copied_into", numbers.of_nothing),
}
# Element-wise operations that are one ufunc, where not all but the operands have their defaults.
_ATTRIBUTES: dict[str, tuple[str, Callable[[Any], records.Record]]] = dict.fromkeys(("add", "sub"), ("weighted", weighted.of_weighted))
_TABLES: dict[str, dict[str, Any]] = {"whole": _WHOLE, "attributes": _ATTRIBUTES, "inplace": _INPLACE, "rule": _RULES}


def _found(op: Any, form: str, more: tuple[Any, ...]) -> tuple[str, records.Record]:
    """The form that does calls of an operation, and the record of them.

    Raises:
        Unfit: there is none.
    """
    if form == "alone":
        name, record_alone = _ALONE[op]
        return name, record_alone(*more)
    if form == "pointwise":
        record, operands = elementwise.of_pointwise(op)
        return "unary" if operands == 1 else "binary", record
    if form == "rows":
        return form, taking.of_taking(op)
    if form == "broadcast":
        return form, broadcasts.of_broadcasts(op)
    if form == "program":
        return form, programs.of_programs(op)
    if form in _TABLES:
        table = _TABLES[form]
        key = getattr(op, "key", "")  # PyTorch's kernels as operations have rules, and none
        if key not in table:
            raise records.Unfit(op.name)
        name, record_of = table[key]
        return name, record_of(op, *more)
    if form == "reflected":
        return form, records.of_reflected(op)
    if form == "written":
        return form, records.of_written(op)
    if form == "indexed":
        return form, records.of_indexing(op, *more)
    return "view" if op.is_view else "result", records.of_results(op, *more)


def start(compiles: bool = True) -> bool:
    """Have machine code take over; nothing where it cannot be had.

    Args:
        compiles: whether to compile what is not on disk.
    Returns:
        False where it has to be compiled, and is not.
    """
    if not switch.on and CHOSEN != "machine":  # without kernels only where it is asked for by name: what it calls are NumPy's loops
        return True
    try:
        with looked_at_once():
            found = loaded("operations", _FORMS) if compiles else kept("operations")
            if found is not None:
                _take_over(found[1])
            return found is not None
    except (Unsupported, NoKernel, ImportError, OSError):  # no such interpreter, no compiler, no memory that may be executed
        return True


def _take_over(addresses: dict[str, int]) -> None:
    with suppress(Unsupported):
        pools.take_over({owner: addresses[name] for owner, name in endings.NAMES.items()})
    table = backward.RuleTable()
    for key in ("_split", "_split_with_sizes", "_unbind"):  # whose wrappers in Python stay as they are
        op = primitive(key)
        parts = list_rules.of_parts(op, op.node)
        builtin(key, addresses["parts_rule"], parts)
        table.put(op.node, addresses["parts_rule"], parts)

    def find(op: Any, form: str, *more: Any) -> Any:
        try:
            name, record = _found(op, form, more)
        except (records.Unfit, Unsupported):  # the latter where NumPy's loops of this operation lie otherwise
            return None
        for kind in record.kept:
            pools.adopt(kind)
        made = builtin(getattr(op, "name", op), addresses[name], record)
        if form == "rule":
            table.put(more[0], addresses[name], record)
        return made

    engine: tuple[Any, ...] = ()
    with suppress(records.Unfit, Unsupported):
        engine = (builtin("backward", addresses["backward"], backward.of_passes(table)),)
    with kept_codes():
        take_over(find, *engine)
