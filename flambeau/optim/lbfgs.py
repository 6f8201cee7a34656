"""L-BFGS: a quasi-Newton method with a short memory, and the strong Wolfe line search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import ops
from ..autograd.grad_mode import enable_grad, no_grad
from ..core.tensor import Tensor
from ._stepping import check_lr, scalar
from .optimizer import Optimizer, ParamsT

__all__ = ["LBFGS"]


class LBFGS(Optimizer):
    """Limited-memory BFGS over all parameters as one vector.

    A step runs up to ``max_iter`` iterations, so its closure is called many times. The memory is
    ``history_size + 1`` times the parameters.

    Args:
        params: parameters; one group only.
        lr: step length (its first guess with a line search), a number or a tensor of one element.
        max_iter: most iterations in a step.
        max_eval: most closure calls in a step; ``max_iter * 5 // 4`` when None.
        tolerance_grad: stop when no gradient element is larger.
        tolerance_change: stop when neither loss nor parameters change by more.
        history_size: how many past steps approximate the Hessian.
        line_search_fn: None for steps of fixed length, or ``"strong_wolfe"``.
    Attributes:
        state: all of it belongs to the first parameter: ``func_evals``, ``n_iter``, ``d``, ``t``, ``old_dirs``, ``old_stps``,
            ``ro``, ``H_diag``, ``prev_flat_grad``, ``prev_loss``, ``al``.
    Raises:
        ValueError: a negative learning rate, or more than one parameter group.
        RuntimeError: an unknown line search (at the first step).
    Source: torch.optim.LBFGS. Nocedal and Wright 2006, algorithms 7.4, 3.5 and 3.6.
    Example:
        >>> point = nn.Parameter(torch.tensor([4.0, -3.0]))
        >>> def loss():
        ...     point.grad = 2 * (point.detach() - 1)
        ...     return ((point - 1) ** 2).sum()
        >>> print(torch.optim.LBFGS([point]).step(loss).item(), point.data)
        25.0 tensor([1.0000, 1.0000])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_lr(lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @property
    def _params(self) -> list[Tensor]:
        return self.param_groups[0]["params"]

    def _flat_grad(self) -> Tensor:
        """All gradients as one real vector, zeros where a parameter has none."""
        pieces = []
        for param in self._params:
            if param.grad is None:
                piece = ops.zeros(param.numel(), dtype=param.dtype, device=param.device)
            else:
                piece = (param.grad.to_dense() if param.grad.is_sparse else param.grad).reshape(-1)
            pieces.append(ops.view_as_real(piece).reshape(-1) if piece.is_complex() else piece)
        return ops.cat(pieces, 0)

    def _move(self, length: Any, direction: Tensor) -> None:
        """Add ``length * direction`` to the parameters."""
        offset = 0
        for param in self._params:
            target = ops.view_as_real(param) if param.is_complex() else param
            end = offset + target.numel()
            target.add_(direction[offset:end].view_as(target), alpha=length)
            offset = end

    def _line_search(self, closure: Callable[[], Any], here: _Point, direction: Tensor, max_evals: int) -> tuple[_Point, int]:
        """The point that the strong Wolfe search finds along ``direction`` (the parameters stay), and its closure calls."""
        start = [param.clone() for param in self._params]

        def evaluate(length: Any) -> _Point:
            self._move(length, direction)
            loss = float(closure())
            grad = self._flat_grad()
            for param, value in zip(self._params, start, strict=True):
                param.copy_(value)
            return _Point(length, loss, grad, grad.dot(direction))

        first_length = here.length
        here.length = 0
        return _searched(evaluate, here, first_length, direction.abs().max(), max_evals)

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Run up to ``max_iter`` iterations.

        Args:
            closure: computes the loss anew with its gradients (autograd is on inside) and returns it.
        Returns:
            The loss before the step, as ``closure`` returned it.
        """
        with no_grad():
            return self._step(enable_grad()(closure))

    def _step(self, closure: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        lr = scalar(group["lr"])
        tolerance_change = group["tolerance_change"]
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")
        # The state is global, but as the first parameter's it is cast with it when loaded.
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)

        first_loss = closure()
        loss = float(first_loss)
        evals = 1
        state["func_evals"] += 1
        grad = self._flat_grad()
        if grad.abs().max() <= group["tolerance_grad"]:
            return first_loss

        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            first = state["n_iter"] == 1
            direction = state["d"] = _first_direction(state, grad) if first else _direction(state, grad, group["history_size"])
            state["prev_flat_grad"] = grad.clone()
            previous_loss = state["prev_loss"] = loss

            state["t"] = min(1.0, 1.0 / grad.abs().sum()) * lr if first else lr
            slope = grad.dot(direction)
            if slope > -tolerance_change:
                break
            new_evals = 0
            if group["line_search_fn"] is not None:
                here = _Point(state["t"], loss, grad, slope)
                search, new_evals = self._line_search(closure, here, direction, group["max_eval"] - evals)
                state["t"], loss, grad = search.length, search.loss, search.grad
                self._move(state["t"], direction)
            else:
                self._move(state["t"], direction)
                if iteration != group["max_iter"]:  # the next step evaluates there anyway
                    loss = float(closure())
                    grad = self._flat_grad()
                    new_evals = 1
            evals += new_evals
            state["func_evals"] += new_evals

            if (
                evals >= group["max_eval"]
                or grad.abs().max() <= group["tolerance_grad"]
                or direction.mul(state["t"]).abs().max() <= tolerance_change
                or abs(loss - previous_loss) < tolerance_change
            ):
                break
        return first_loss


def _first_direction(state: dict[str, Any], grad: Tensor) -> Tensor:
    state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
    return grad.neg()


def _direction(state: dict[str, Any], grad: Tensor, history_size: int) -> Tensor:
    """``-H grad`` by the two-loop recursion, after remembering the last step."""
    grad_changes, steps, inverses = state["old_dirs"], state["old_stps"], state["ro"]
    change = grad.sub(state["prev_flat_grad"])
    step = state["d"].mul(state["t"])
    curvature = change.dot(step)
    if curvature > 1e-10:
        if len(grad_changes) == history_size:
            for memory in (grad_changes, steps, inverses):
                memory.pop(0)
        grad_changes.append(change)
        steps.append(step)
        inverses.append(1.0 / curvature)
        state["H_diag"] = curvature / change.dot(change)

    weights = state.setdefault("al", [None] * history_size)
    vector = grad.neg()
    for i in reversed(range(len(grad_changes))):
        weights[i] = steps[i].dot(vector) * inverses[i]
        vector.add_(grad_changes[i], alpha=-weights[i])
    direction = ops.mul(vector, state["H_diag"])
    for i in range(len(grad_changes)):
        direction.add_(steps[i], alpha=weights[i] - grad_changes[i].dot(direction) * inverses[i])
    return direction


@dataclass(slots=True)
class _Point:
    """A point on the search line: how far, the loss, the gradient, and the slope along the line."""

    length: Any
    loss: Any
    grad: Tensor
    slope: Any


def _cubic_minimum(a: _Point, b: _Point, bounds: tuple[Any, Any] | None = None) -> Any:
    """The minimum of the cubic through two points with their slopes, within ``bounds`` (default: between the points)."""
    low, high = bounds if bounds is not None else ((a.length, b.length) if a.length <= b.length else (b.length, a.length))
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.length - b.length)
    square = d1**2 - a.slope * b.slope
    if not square >= 0:  # also NaN
        return (low + high) / 2.0
    d2 = square.sqrt()
    if a.length > b.length:
        a, b = b, a
    minimum = b.length - (b.length - a.length) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    return min(max(minimum, low), high)


def _length_inside(bracket: list[_Point], made_little_progress: bool) -> tuple[Any, bool]:
    """The next length to try within the bracket, and whether it is close to an end, where the interval may hardly shrink."""
    length = _cubic_minimum(bracket[0], bracket[1])
    shortest = min(bracket[0].length, bracket[1].length)
    longest = max(bracket[0].length, bracket[1].length)
    margin = 0.1 * (longest - shortest)
    if not min(longest - length, length - shortest) < margin:  # also NaN
        return length, False
    if made_little_progress or length >= longest or length <= shortest:  # for the second time, or on the end: move inwards
        return longest - margin if abs(length - longest) < abs(length - shortest) else shortest + margin, False
    return length, True


def _searched(
    evaluate: Callable[[Any], _Point],
    start: _Point,
    length: Any,
    direction_norm: Tensor,
    max_iters: int,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
) -> tuple[_Point, int]:
    """A point with enough decrease (``c1``) and a flat enough slope (``c2``), or the best found; and how often it evaluated."""
    previous, new = start, evaluate(length)
    evals, iters = 1, 0
    bracket: list[_Point] = []
    while iters < max_iters and not bracket:
        if new.loss > start.loss + c1 * new.length * start.slope or (iters > 1 and new.loss >= previous.loss):
            bracket = [previous, new]
        elif abs(new.slope) <= -c2 * start.slope:
            return new, evals
        elif new.slope >= 0:
            bracket = [previous, new]
        else:
            bounds = (new.length + 0.01 * (new.length - previous.length), new.length * 10)
            length = _cubic_minimum(previous, new, bounds)
            previous, new = new, evaluate(length)
            evals += 1
            iters += 1
    if not bracket:
        bracket = [start, new]

    low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
    made_little_progress = False
    while iters < max_iters:
        if abs(bracket[1].length - bracket[0].length) * direction_norm < tolerance_change:
            break
        length, made_little_progress = _length_inside(bracket, made_little_progress)
        new = evaluate(length)
        evals += 1
        iters += 1
        if new.loss > start.loss + c1 * new.length * start.slope or new.loss >= bracket[low].loss:
            bracket[high] = new
            low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
            continue
        if abs(new.slope) <= -c2 * start.slope:
            return new, evals
        if new.slope * (bracket[high].length - bracket[low].length) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = new
    return bracket[low], evals


# -- under PyTorch's names, for packages that search lines with them ------------------------------------------------------------------
def _cubic_interpolate(x1: Any, f1: Any, g1: Any, x2: Any, f2: Any, g2: Any, bounds: tuple[Any, Any] | None = None) -> Any:
    """The minimum of the cubic through two points with these values and slopes. Source: torch.optim.lbfgs._cubic_interpolate."""
    g1, g2 = (slope if isinstance(slope, Tensor) else ops.resolve("torch", "as_tensor")(slope) for slope in (g1, g2))
    return _cubic_minimum(_Point(x1, f1, g1, g1), _Point(x2, f2, g2, g2), bounds)


def _strong_wolfe(
    obj_func: Callable[[Any, Any, Tensor], tuple[Any, Tensor]],
    x: Any,
    t: Any,
    d: Tensor,
    f: Any,
    g: Tensor,
    gtd: Any,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
    max_ls: int = 25,
) -> tuple[Any, Tensor, Any, int]:
    """Loss, gradient and length that the search finds, and how often it evaluated. Source: torch.optim.lbfgs._strong_wolfe.

    Args:
        obj_func: of ``x``, a length and ``d``, the loss there and its gradient.
        x, d: where the line begins, and its direction. t: the first length.
        f, g, gtd: at the beginning: the loss, its gradient, and its slope along ``d``.
        c1, c2, tolerance_change, max_ls: see ``_searched``.
    """

    def evaluate(length: Any) -> _Point:
        loss, grad = obj_func(x, length, d)
        return _Point(length, loss, grad.clone(), grad.dot(d))

    found, evals = _searched(evaluate, _Point(0, f, g, gtd), t, d.abs().max(), max_ls, c1, c2, tolerance_change)
    return found.loss, found.grad, found.length, evals
