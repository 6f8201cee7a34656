"""Passes one after another, in an order that is checked. Source: torch.fx.passes.pass_manager."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from itertools import combinations
from typing import Any

__all__ = [
    "PassManager", "inplace_wrapper", "log_hook", "loop_pass", "these_before_those_pass_constraint", "this_before_that_pass_constraint",
]  # fmt: skip

logger = logging.getLogger(__name__)

Pass = Callable[..., Any]
Constraint = Callable[[Pass, Pass], bool]


def inplace_wrapper(fn: Pass) -> Pass:
    """A pass that gives back the module that ``fn`` changes where it stands.

    Args:
        fn: a pass whose result is dropped.
    Returns: the pass.
    Source: torch.fx.passes.pass_manager.inplace_wrapper.
    Example:
        >>> torch.fx.passes.pass_manager.inplace_wrapper(lambda module: None)("module")
        'module'
    """

    @functools.wraps(fn)
    def wrapped(gm: Any, *args: Any, **kwargs: Any) -> Any:
        fn(gm, *args, **kwargs)
        return gm

    return wrapped


def log_hook(fn: Pass, level: int = logging.INFO) -> Pass:
    """A pass that logs what ``fn`` returns.

    Args:
        fn: the pass. level: of the message.
    Returns: the pass.
    Source: torch.fx.passes.pass_manager.log_hook.
    Example:
        >>> torch.fx.passes.pass_manager.log_hook(lambda module: module)("module")
        'module'
    """

    @functools.wraps(fn)
    def wrapped(gm: Any, *args: Any, **kwargs: Any) -> Any:
        result = fn(gm, *args, **kwargs)
        logger.log(level, "Ran pass %s\t Return value: %s", fn, result)
        return result

    return wrapped


def loop_pass(base_pass: Pass, n_iter: int | None = None, predicate: Callable[[Any], bool] | None = None) -> Pass:
    """A pass that runs another one several times.

    Args:
        base_pass: the pass. n_iter: how often; or predicate: as long as that holds of the result.
    Returns: the pass.
    Raises:
        AssertionError: neither of the two, or both.
    Source: torch.fx.passes.pass_manager.loop_pass.
    Example:
        >>> torch.fx.passes.pass_manager.loop_pass(lambda n: n + 1, n_iter=3)(0)
        3
    """
    if (n_iter is None) is (predicate is None):
        raise AssertionError("Exactly one of `n_iter`or `predicate` must be specified.")

    @functools.wraps(base_pass)
    def looped(source: Any) -> Any:
        result, count = source, 0
        while count < n_iter if predicate is None else predicate(result):  # type: ignore[operator]
            result, count = base_pass(result), count + 1
        return result

    return looped


def this_before_that_pass_constraint(this: Pass, that: Pass) -> Constraint:
    """The constraint that one pass comes before another.

    Args:
        this, that: the passes.
    Returns: a function of two passes: whether the first may come before the second.
    Source: torch.fx.passes.pass_manager.this_before_that_pass_constraint.
    Example:
        >>> torch.fx.passes.pass_manager.this_before_that_pass_constraint(abs, len)(len, abs)
        False
    """
    return lambda a, b: a != that or b != this


def these_before_those_pass_constraint(these: Pass, those: Pass) -> Constraint:
    """The constraint that passes made by one decorator come before those made by another.

    Args:
        these, those: what the passes' ``__wrapped__`` was made of, or the passes themselves.
    Returns: a function of two passes: whether the first may come before the second.
    Source: torch.fx.passes.pass_manager.these_before_those_pass_constraint.
    Example:
        >>> torch.fx.passes.pass_manager.these_before_those_pass_constraint(abs, len)(len, abs)
        False
    """
    return lambda a, b: inspect.unwrap(a) != those or inspect.unwrap(b) != these


class PassManager:
    """Runs passes in their order.

    Args:
        passes: functions from a module to a module. constraints: called with each pass and each one after it.
    Source: torch.fx.passes.pass_manager.PassManager.
    Example:
        >>> torch.fx.passes.pass_manager.PassManager([lambda n: n + 1, lambda n: n * 2])(3)
        8
    """

    def __init__(self, passes: list[Pass] | None = None, constraints: list[Constraint] | None = None):
        self.passes, self.constraints = passes or [], constraints or []
        self._validated = False

    @classmethod
    def build_from_passlist(cls, passes: list[Pass]) -> PassManager:
        """One with these passes. Source: torch.fx.passes.pass_manager.PassManager.build_from_passlist."""
        return cls(passes)

    def add_pass(self, _pass: Pass) -> None:
        """Add a pass at the end. Source: torch.fx.passes.pass_manager.PassManager.add_pass."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Constraint) -> None:
        """Add a constraint. Source: torch.fx.passes.pass_manager.PassManager.add_constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def remove_pass(self, _passes: list[str]) -> None:
        """Take the passes of these names out. Source: torch.fx.passes.pass_manager.PassManager.remove_pass."""
        self.passes = [each for each in self.passes if each.__name__ not in _passes]
        self._validated = False

    def replace_pass(self, _target: Pass, _replacement: Pass) -> None:
        """Put a pass in another's place. Source: torch.fx.passes.pass_manager.PassManager.replace_pass."""
        self.passes = [_replacement if each.__name__ == _target.__name__ else each for each in self.passes]
        self._validated = False

    def validate(self) -> None:
        """Check the order.

        Raises:
            RuntimeError: a constraint does not hold.
        Source: torch.fx.passes.pass_manager.PassManager.validate.
        """
        if not self._validated:
            for constraint in self.constraints:
                check_order(constraint, self.passes)
            self._validated = True

    def __call__(self, source: Any) -> Any:
        self.validate()
        return functools.reduce(lambda result, each: each(result), self.passes, source)


def check_order(constraint: Constraint, passes: list[Pass]) -> None:
    """RuntimeError where a constraint does not hold for two passes in this order."""
    for (i, first), (j, second) in combinations(enumerate(passes), 2):
        if not constraint(first, second):
            raise RuntimeError(
                f"pass schedule constraint violated. Expected {first} before {second} but found {first} at index {i} and {second} at "
                f"index {j} in pass list."
            )
