"""Scaling of losses, so that small gradients do not vanish in narrow dtypes."""

from __future__ import annotations

import inspect
import warnings
from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import Any

from ..autograd import no_grad
from ..core.dtype import float16, float32
from ..core.tensor import Tensor
from ..ops import full, isfinite

__all__ = ["GradScaler", "OptState"]


class OptState(Enum):
    """The state of an optimizer's gradients since the last ``update``: untouched, unscaled, or used for a step.

    Source: torch.amp.grad_scaler.OptState.
    Example:
        >>> [state.name for state in OptState]
        ['READY', 'UNSCALED', 'STEPPED']
    """

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _refresh_per_optimizer_state() -> dict[str, Any]:
    """Initial state of an optimizer in a scaler: its stage, and by device whether a gradient was not finite (1, otherwise 0)."""
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """Multiplies losses by a scale, divides gradients by it before a step, and skips steps whose gradients are not finite.

    The scale shrinks after a skipped step and grows after ``growth_interval`` steps in a row that were none.

    Args:
        device: type of the device of losses. Without a CUDA device a scaler for ``'cuda'`` is switched off, with a warning.
        init_scale: the scale at first.
        growth_factor, backoff_factor: by what it grows (above 1) and shrinks (below 1).
        growth_interval: number of steps in a row after which it grows.
        enabled: False for a scaler that changes nothing.
    Raises:
        AssertionError: a factor out of its range; methods in another order than scale, unscale_, step, update.
    Source: torch.amp.GradScaler.
    Example:
        >>> x = torch.nn.Parameter(torch.ones(1))
        >>> scaler, optimizer = GradScaler("cpu", init_scale=8.0), torch.optim.SGD([x], lr=0.5)
        >>> scaler.scale(x.sum()).backward()
        >>> _ = scaler.step(optimizer), scaler.update()
        >>> x.data, x.grad, scaler.get_scale()
        (tensor([0.5000]), tensor([1.]), 8.0)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        if enabled and device == "cuda":
            from ..cuda import is_available

            if not is_available():
                warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", UserWarning, stacklevel=2)
                enabled = False
        self._enabled = enabled
        if not enabled:
            return
        if not growth_factor > 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if not backoff_factor < 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale, self._growth_factor, self._backoff_factor = init_scale, growth_factor, backoff_factor
        self._growth_interval, self._growth_tracker = growth_interval, 0
        self._scale: Tensor | None = None  # made at the first loss, where that lies
        self._per_optimizer_states: defaultdict[int, dict[str, Any]] = defaultdict(_refresh_per_optimizer_state)  # by its id

    def _current(self, method: str) -> Tensor:
        if self._scale is None:
            raise AssertionError(
                f"Attempted {method} but _scale is None.  This may indicate your script did not use scaler.scale(loss or outputs) "
                "earlier in the iteration."
            )
        return self._scale

    def scale(self, outputs: Any) -> Any:
        """``outputs``, a tensor or an iterable of them at any depth, multiplied by the scale.

        Args:
            outputs: the tensor, or an iterable.
        Returns: the same structure.
        Raises:
            ValueError: something else.
        Source: torch.amp.GradScaler.scale.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._scale = full((), self._init_scale, dtype=float32, device=outputs.device)
            return outputs * self._scale.to(outputs.device, non_blocking=True)
        if isinstance(outputs, Iterable):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, for instance before they are clipped.

        Args:
            optimizer: whose ``param_groups`` have the parameters.
        Raises:
            RuntimeError: it was done since the last ``update``.
            ValueError: float16 gradients.
        Source: torch.amp.GradScaler.unscale_.
        """
        if not self._enabled:
            return
        scale = self._current("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        self._unscale(optimizer, scale.double().reciprocal().float().item(), allow_float16=False)
        state["stage"] = OptState.UNSCALED

    def _unscale(self, optimizer: Any, factor: float, allow_float16: bool) -> None:
        """Multiply an optimizer's gradients and note whether all are finite; a ``factor`` of 1 leaves them as they are."""
        grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if not allow_float16 and any(grad.dtype is float16 for grad in grads):
            raise ValueError("Attempting to unscale FP16 gradients.")
        overflowed: dict[Any, bool] = {}
        with no_grad():
            for grad in grads:
                values = grad._values() if grad.is_sparse else grad
                overflowed[grad.device] = overflowed.get(grad.device, False) or not bool(isfinite(values).all())
                if factor != 1:
                    values.mul_(factor)
        found = {device: full((), float(value), dtype=float32, device=device) for device, value in overflowed.items()}
        self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = found

    def _check_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        """Note whether an optimizer's gradients, left as they are, are finite."""
        self._unscale(optimizer, 1.0, allow_float16=True)
        return self._found_inf_per_device(optimizer)

    def _found_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]

    def _overflowed(self, optimizer: Any) -> bool:
        return any(bool(found) for found in self._found_inf_per_device(optimizer).values())

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """``optimizer.step(*args, **kwargs)``, its gradients unscaled, unless one of them is not finite.

        An optimizer whose ``_step_supports_amp_scaling`` is true does both itself: its ``step`` is called in any case and finds the tensors
        ``self.grad_scale``, None for gradients that are unscaled already, and ``self.found_inf``.

        Args:
            optimizer: the optimizer.
            args, kwargs: of its ``step``.
        Returns:
            What the optimizer returned; None if the step was skipped.
        Raises:
            RuntimeError: a closure, or a second step since the last ``update``.
        Source: torch.amp.GradScaler.step.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._current("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            return self._let_step(optimizer, args, kwargs)
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not state["found_inf_per_device"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = self._maybe_opt_step(optimizer, state, *args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def _maybe_opt_step(self, optimizer: Any, optimizer_state: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """The optimizer's step, unless a gradient is not finite."""
        return None if self._overflowed(optimizer) else optimizer.step(*args, **kwargs)

    def _let_step(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        """The step of an optimizer that unscales gradients itself."""
        if "grad_scaler" in inspect.signature(optimizer.step).parameters:
            warnings.warn(
                "GradScaler is going to stop passing itself as a keyword argument to the passed optimizer. In the near future GradScaler "
                "registers `grad_scale: Tensor` and `found_inf: Tensor` to the passed optimizer and let the optimizer use them directly.",
                FutureWarning,
                stacklevel=3,
            )
            result = optimizer.step(*args, **kwargs, grad_scaler=self)
        else:
            scale, is_unscaled = self._current("step"), self._per_optimizer_states[id(optimizer)]["stage"] is OptState.UNSCALED
            if not is_unscaled:
                self._unscale(optimizer, 1.0, allow_float16=True)
            optimizer.grad_scale = None if is_unscaled else scale * getattr(optimizer, "grad_scale", 1)
            optimizer.found_inf = full((), float(self._overflowed(optimizer)), dtype=float32, device=scale.device)
            try:
                result = optimizer.step(*args, **kwargs)
            finally:
                del optimizer.grad_scale, optimizer.found_inf
        self._per_optimizer_states[id(optimizer)]["stage"] = OptState.STEPPED
        return result

    def update(self, new_scale: Any = None) -> None:
        """Adapts the scale to what the steps since the last call met, or sets it.

        Args:
            new_scale: a float or a tensor of one element.
        Raises:
            AssertionError: anything else, or no gradients that were looked at since the last call.
        Source: torch.amp.GradScaler.update.
        """
        if not self._enabled:
            return
        scale = self._current("update")
        if new_scale is not None:
            if isinstance(new_scale, Tensor) and new_scale.numel() == 1 and not new_scale.requires_grad:
                new_scale = new_scale.item()
            elif not isinstance(new_scale, float):
                raise AssertionError(
                    "new_scale should be a float or a 1-element torch.cuda.FloatTensor or torch.FloatTensor with requires_grad=False."
                )
            scale.fill_(new_scale)
        else:
            found = [found for state in self._per_optimizer_states.values() for found in state["found_inf_per_device"].values()]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            self._adapt(scale, any(map(bool, found)))
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def _adapt(self, scale: Tensor, overflowed: bool) -> None:
        if overflowed:
            scale.copy_(scale.double() * self._backoff_factor)
            self._growth_tracker = 0
            return
        self._growth_tracker += 1
        if self._growth_tracker == self._growth_interval:
            grown = (scale.double() * self._growth_factor).float()
            if bool(isfinite(grown)):
                scale.copy_(grown)
            self._growth_tracker = 0

    def get_scale(self) -> float:
        """The scale; 1 for a scaler that is switched off."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale.item())

    def get_growth_factor(self) -> float:
        """The factor by which the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets the factor by which the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """The factor by which the scale shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets the factor by which the scale shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Number of steps in a row after which the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets the number of steps in a row after which the scale grows."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether the scaler does anything."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale and how it changes; empty for a scaler that is switched off.

        Returns: a dict of numbers.
        Source: torch.amp.GradScaler.state_dict.
        """
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what ``state_dict`` gave.

        Args:
            state_dict: the dict.
        Raises:
            RuntimeError: it is empty.
        Source: torch.amp.GradScaler.load_state_dict.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler.")
        self._init_scale = state_dict["scale"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError(
                    "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after scaler.update()."
                )
            state["_init_scale"], state["_scale"] = self.get_scale(), None
        return state
