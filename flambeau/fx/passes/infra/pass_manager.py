"""Passes one after another, in an order that follows from constraints. Source: torch.fx.passes.infra.pass_manager."""

from __future__ import annotations

import functools
import inspect
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from ....nn import Module
from ...graph_module import GraphModule
from ..pass_manager import Constraint, Pass, check_order, this_before_that_pass_constraint
from .pass_base import PassResult

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]

logger = logging.getLogger(__name__)


def pass_result_wrapper(fn: Pass) -> Pass:
    """A pass that gives a ``PassResult`` where ``fn`` gives a module, or None for the one that it changes.

    Args:
        fn: the pass.
    Returns: the pass.
    Source: torch.fx.passes.infra.pass_manager.pass_result_wrapper.
    Example:
        >>> torch.fx.passes.infra.pass_manager.pass_result_wrapper(lambda module: None)(nn.Identity()).modified
        True
    """
    if fn is None:
        return None

    @functools.wraps(fn)
    def wrapped(gm: Any) -> Any:
        result = fn(gm)
        if isinstance(result, PassResult):
            return result
        return PassResult(gm, True) if result is None else PassResult(result, True) if isinstance(result, Module) else None

    if not inspect.isfunction(fn):
        wrapped.__name__ = type(fn).__name__
    return wrapped


def _sorted(passes: list[Pass], constraints: list[Constraint]) -> list[Pass]:
    """The passes in an order that the constraints allow.

    Raises:
        RuntimeError: there is none.
    """
    if not constraints:
        return passes
    after: dict[Pass, list[Pass]] = {each: [] for each in passes}
    waiting = dict.fromkeys(passes, 0)
    for first in passes:
        for second in passes:
            if first != second and not all(constraint(first, second) for constraint in constraints):  # so the second comes first
                after[second].append(first)
                waiting[first] += 1
    queue = deque(each for each in passes if not waiting[each])
    order: list[Pass] = []
    while queue:
        each = queue.popleft()
        order.append(each)
        for other in after[each]:
            waiting[other] -= 1
            if not waiting[other]:
                queue.append(other)
    if len(order) < len(waiting):
        raise RuntimeError(
            f"Circular dependency detected within the following passes: {[each for each, count in waiting.items() if count]}"
        )
    return order


class PassManager:
    """Runs passes, which give ``PassResult``s, until none changes the module, ``steps`` times at most.

    Args:
        passes: the passes. constraints: called with two of them: whether the first may come before the second.
        steps: once when None.
        run_checks_after_each_pass: whether the checks that were added run after each pass.
        suppress_check_failures: whether these are then left out all the same.
    Source: torch.fx.passes.infra.pass_manager.PassManager.
    Example:
        >>> from flambeau.fx.passes.infra.pass_manager import PassManager, pass_result_wrapper
        >>> manager = PassManager([pass_result_wrapper(lambda module: module.graph.lint())])
        >>> manager(torch.fx.symbolic_trace(lambda x: x)).modified
        True
    """

    def __init__(
        self,
        passes: list[Pass] | None = None,
        constraints: list[Constraint] | None = None,
        steps: int | None = None,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
    ):
        self.passes, self.constraints, self.steps = passes or [], constraints or [], steps or 1
        self.run_checks_after_each_pass, self.suppress_check_failures = run_checks_after_each_pass, suppress_check_failures
        self._validated = False
        self._checks: list[Callable[[Any], Any]] = []

    def add_pass(self, _pass: Pass) -> None:
        """Add a pass at the end. Source: torch.fx.passes.infra.pass_manager.PassManager.add_pass."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Constraint) -> None:
        """Add a constraint. Source: torch.fx.passes.infra.pass_manager.PassManager.add_constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self) -> None:
        """RuntimeError unless the order is one that the constraints allow. Source: torch.fx.passes.infra.pass_manager.PassManager."""
        if not self._validated:
            for constraint in self.constraints:
                check_order(constraint, self.passes)
            self._validated = True

    def solve_constraints(self) -> None:
        """Bring the passes into an order that the constraints allow.

        Raises:
            RuntimeError: there is none.
        Source: torch.fx.passes.infra.pass_manager.PassManager.solve_constraints.
        """
        self.passes = _sorted(self.passes, self.constraints)
        self._validated = True

    def add_checks(self, check: Callable[[Any], Any]) -> None:
        """Add a function of a module that raises if something is wrong with it.

        Raises:
            TypeError: a function of more than one argument.
        Source: torch.fx.passes.infra.pass_manager.PassManager.add_checks.
        """
        if len(inspect.signature(check).parameters) != 1:
            raise TypeError("PassManager check function should only take in one variable, a module")
        self._checks.append(check)

    def check(self, module: Module) -> None:
        """Run the checks. Source: torch.fx.passes.infra.pass_manager.PassManager.check."""
        for each in self._checks:
            each(module)

    def __call__(self, module: Module) -> PassResult:
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        modified = False
        for _ in range(self.steps):
            changed = False
            for place, each in enumerate(self.passes):
                result = self._run(place, each, module)
                module, changed = result.graph_module, changed or result.modified
                if isinstance(module, GraphModule):
                    module.recompile()
                if self.run_checks_after_each_pass and not self.suppress_check_failures:
                    self.check(module)
            modified = modified or changed
            if not changed:
                break
        return PassResult(module, modified)

    def _run(self, place: int, each: Pass, module: Module) -> PassResult:
        """The result of one pass.

        Raises:
            Exception: it raised, or gave no ``PassResult``.
        """
        name = each.__name__ if inspect.isfunction(each) else type(each).__name__
        logger.debug("Running pass '%s'", name)
        try:
            result = each(module)
            if not isinstance(result, PassResult):
                raise TypeError(f"The result of the pass {name} should be type PassResult. Please wrap it with pass_result_wrapper()")
        except Exception as error:
            before = [other.__name__ if inspect.isfunction(other) else type(other).__name__ for other in self.passes[:place]]
            message = f"An error occurred when running the '{name}' pass after the following passes: {before}"
            raise Exception(message) from error
        return result
