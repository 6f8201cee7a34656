"""Steps in one call of machine code, where nothing but gradients and learning rates is new since the last one.

After a step over arrays everything that it went by is written down in a launch (``kernels/fastpath/launches.py``). The next steps ask
machine code first, which compares all of it with what is there now, and leaves the step to Python where anything is different; that makes
another launch, later and later if launches are good for nothing.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from ..core.arrays import native
from ..core.calls.machine_calls import when_there
from ..core.tensor import Tensor

_MOST = 1 << 15  # elements: more of them are worth several threads, and the price of a launch from Python vanishes
_LONGEST = 256  # steps until another launch is tried

found: list[Any] = []  # the function of machine code, once it is there
when_there("optimizer step", found.append)


def prepare(optimizer: Any) -> None:
    """After a step in Python: write down what it went by, if machine code can make those that follow."""
    plans = optimizer._plans
    is_usual = plans.groups_done == len(optimizer.param_groups)
    plans.groups_done = 0
    if plans.launch is not None:  # it was good for nothing this time
        plans.wait = 1 if plans.launch.taken else min(2 * plans.wait, _LONGEST)
        plans.waited, plans.launch = 0, None
    plans.waited += 1
    if is_usual and native.switch.on and plans.waited >= plans.wait:
        plans.waited = 0
        plans.launch = _launch(optimizer)


def _launch(optimizer: Any) -> Any:
    """The launch of an optimizer's steps; None where they are not for machine code."""
    from ..kernels.fastpath.launches import Launch, Undecided

    if optimizer.state.__class__ not in (defaultdict, dict) or optimizer.param_groups.__class__ is not list:
        return None
    if len(optimizer._counters) > 1:
        return None
    try:
        groups = [_group(optimizer, group) for group in optimizer.param_groups]
    except Undecided:
        return None
    return None if None in groups else Launch(optimizer, groups)


def _group(optimizer: Any, group: dict[str, Any]) -> Any:
    """The words of a group; None where it is not for machine code."""
    from ..kernels.families.optimizer import prepared
    from ..kernels.fastpath.launches import Group, Program, Row

    if group.__class__ is not dict or group["params"].__class__ is not list or group.get("lr").__class__ is not float:
        return None
    if not all(_stays(value) for key, value in group.items() if key not in ("params", "param_names")):
        return None
    names = (*optimizer._kept(group), *optimizer._counters)
    rows = optimizer._plans.rows(optimizer, group, names)
    if not rows or sum([grad.size for _, grad in rows]) > _MOST or len(rows.by_counters(len(optimizer._counters))) > 1:
        return None
    program = Program()
    counted = [program.count] if optimizer._counters else []
    form, numbers = optimizer._formed({**group, "lr": program.lr}, counted)
    found = prepared(form, rows)
    if found is None:
        return None
    by_param: dict[int, Row | None] = {id(param): None for param in group["params"]}
    if len(by_param) < len(group["params"]):
        return None
    for plan, _ in rows:
        state = optimizer.state.get(plan.param) if names else {}
        counter = plan.counters[0] if plan.counters else None
        if state.__class__ is not dict or (counter is not None and counter.dtype != rows[0][0].counters[0].dtype):
            return None
        by_param[id(plan.param)] = Row(plan.array, state, {name: array for name, _, array in plan.watched}, counter)
    return Group(group, list(by_param.values()), program, numbers, *found)


def _stays(value: Any) -> bool:
    """Whether an option that is the same object has the same value."""
    if value.__class__ is tuple:
        return all(map(_stays, value))
    return value is None or not isinstance(value, Tensor | list | dict | set)
