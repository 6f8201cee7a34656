"""Mixed precision by Apex's calls: ``initialize`` once, ``scale_loss`` around each backward pass.

    level   forward computes in                         parameters   optimizer steps on       losses are scaled
    O0      float32                                     float32      the parameters           no
    O1      what autocast chooses                       float32      the parameters           by a scale that adapts
    O2      ``cast_model_type``, batch norm in float32  narrow       float32 copies of them   by a scale that adapts
    O3      ``cast_model_type``                         narrow       the parameters           no

Inputs of a model are cast as its level needs, and its outputs come back as float32, so that losses are computed in float32. After the
``with`` block the gradients are unscaled; where one is not finite, the next step of the optimizer is skipped.

Source: apex.amp, https://nvidia.github.io/apex/amp.html. Micikevicius et al. 2018.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MethodType
from typing import Any

from ...amp.autocast_mode import autocast
from ...autograd.grad_mode import no_grad
from ...core.dtype import dtype as DType, float16, float32
from ...core.tensor import Parameter, Tensor
from ...nn import Module
from ...nn.normalization import _BatchNorm
from ...ops import isfinite

__all__ = ["initialize", "load_state_dict", "master_params", "scale_loss", "state_dict"]


@dataclass(slots=True)
class _Level:
    """Settings of a level; each can be chosen on its own."""

    cast_model_type: DType | None
    autocasts: bool
    keep_batchnorm_fp32: bool | None
    master_weights: bool
    loss_scale: float | str


_LEVELS = {
    "O0": lambda: _Level(float32, False, None, False, 1.0),
    "O1": lambda: _Level(None, True, None, False, "dynamic"),
    "O2": lambda: _Level(float16, False, True, True, "dynamic"),
    "O3": lambda: _Level(float16, False, False, False, 1.0),
}


class _LossScaler:
    """A scale; an adapting one halves after an overflow and doubles after 2000 steps without."""

    def __init__(self, scale: float | str, lowest: float | None = None, highest: float = 2.0**24) -> None:
        self.adapts = scale == "dynamic"
        self.scale = min(highest, 2.0**16) if self.adapts else float(scale)
        self.lowest, self.highest, self.unskipped = lowest, highest, 0

    def update(self, overflowed: bool) -> bool:
        """Adapt to what a backward pass met; whether the step is to be skipped."""
        if not self.adapts:
            return False
        self.unskipped = 0 if overflowed else self.unskipped + 1
        if overflowed:
            self.scale = self.scale / 2 if self.lowest is None else max(self.lowest, self.scale / 2)
        elif self.unskipped == 2000:
            self.scale, self.unskipped = min(self.highest, self.scale * 2), 0
        return overflowed


class _State:
    """State that ``initialize`` sets up: the scalers, one for each loss; none if it is switched off or was not called."""

    def __init__(self) -> None:
        self.scalers: list[_LossScaler] = []
        self.verbosity = 1


_state = _State()


def _through(method: Callable[..., Any]) -> Callable[..., Any]:
    return lambda optimizer, *args, **kwargs: method(*args, **kwargs)


class _Stepper:
    """Handling of scaled gradients by an optimizer.

    Attributes:
        pairs: the parameters of models that have a float32 copy, each with it.
        is_scaled: whether gradients still are, because unscaling was delayed.
        stash: gradients of earlier backward passes, unscaled.
        skips: whether the next step is to be skipped.
    """

    def __init__(self, optimizer: Any, with_copies: bool) -> None:
        self.optimizer, self.is_scaled, self.skips = optimizer, False, False
        self.stash: list[tuple[Tensor, Tensor]] = []
        self.pairs: list[tuple[Tensor, Tensor]] = []
        if with_copies:
            for group in optimizer.param_groups:
                group["params"] = [self._copied(param) for param in group["params"]]
        self._step, self._zero_grad = optimizer.step, optimizer.zero_grad
        for name, method in (("step", self.step), ("zero_grad", self.zero_grad)):
            setattr(optimizer, name, MethodType(_through(method), optimizer))  # a method of the optimizer, as schedulers expect

    def _copied(self, param: Tensor) -> Tensor:
        if param.dtype is float32 or not param.is_floating_point():
            return param
        master = Parameter(param.detach().float())
        if param in self.optimizer.state:
            self.optimizer.state[master] = self.optimizer.state.pop(param)
        self.pairs.append((param, master))
        return master

    def params(self) -> list[Tensor]:
        """Parameters that the optimizer steps on."""
        return [param for group in self.optimizer.param_groups for param in group["params"]]

    def prepare(self) -> None:
        """Put earlier gradients aside before a backward pass brings scaled ones."""
        if self.is_scaled:
            return
        self.stash = [(param, param.grad) for param in self.params() if param.grad is not None]
        for param in (*self.params(), *(param for param, _ in self.pairs)):
            param.grad = None

    def unscale(self, scale: float) -> bool:
        """Divide the gradients by the scale, add the earlier ones; whether one was not finite."""
        with no_grad():
            for param, master in self.pairs:
                if param.grad is not None:
                    master.grad = param.grad.float()
            overflowed = False
            for param in self.params():
                if param.grad is not None:
                    values = param.grad.coalesce()._values() if param.grad.is_sparse else param.grad
                    overflowed = overflowed or not bool(isfinite(values).all())
                    param.grad.mul_(1.0 / scale)
            for param, grad in self.stash:
                param.grad = grad if param.grad is None else grad + param.grad
        self.stash, self.is_scaled = [], False
        return overflowed

    def step(self, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's step, unless gradients overflowed; then the parameters take the values of their copies."""
        if self.skips:
            self.skips = False
            return None
        result = self._step(*args, **kwargs)
        with no_grad():
            for param, master in self.pairs:
                param.copy_(master)
        return result

    def zero_grad(self, set_to_none: bool = True) -> None:
        """The optimizer's, and the gradients of the parameters that have a copy."""
        self._zero_grad(set_to_none)
        for param, _ in self.pairs:
            param.grad = None


# -- models ------------------------------------------------------------------------------------------------------------------------
def _cast(value: Any, dtype: DType) -> Any:
    """``value`` with the floating point tensors in it, at any depth, as ``dtype``."""
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, Mapping):
        return type(value)({key: _cast(item, dtype) for key, item in value.items()})  # type: ignore[call-arg]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[_cast(item, dtype) for item in value])
    if isinstance(value, (list, tuple)):
        return type(value)([_cast(item, dtype) for item in value])
    return value


def _prepare(model: Any, level: _Level, output_type: DType | None) -> None:
    """Cast a model, and its inputs and outputs whenever it is called."""
    narrow = level.cast_model_type
    if narrow is not None:
        for module in model.modules():
            if level.keep_batchnorm_fp32 and isinstance(module, _BatchNorm):
                continue
            for tensors in (module._parameters, module._buffers):
                for tensor in tensors.values():
                    if tensor is not None and tensor.is_floating_point():
                        tensor.data = tensor.data.to(narrow)
    forward: Callable[..., Any] = model.forward
    first = next(iter(model.parameters()), None)
    kind = "cpu" if first is None else first.device.type

    @functools.wraps(forward)
    def cast_forward(*args: Any, **kwargs: Any) -> Any:
        if narrow is not None:
            args, kwargs = _cast(args, narrow), _cast(kwargs, narrow)
        with autocast(kind, enabled=level.autocasts):
            result = forward(*args, **kwargs)
        return _cast(result, output_type or float32)

    if narrow is not float32 or output_type is not None:
        model.forward = cast_forward
    if level.master_weights:
        model.register_state_dict_post_hook(_as_float32)
    if level.keep_batchnorm_fp32:
        for module in model.modules():
            if isinstance(module, _BatchNorm):
                _in_float32(module)


def _in_float32(module: Any) -> None:
    """Have a batch norm compute in float32 inside a narrow model, whose next layer gets the model's dtype again."""
    forward = module.forward

    @functools.wraps(forward)
    def wide_forward(input: Tensor) -> Tensor:
        return forward(input.float()).to(input.dtype)

    module.forward = wide_forward


def _as_float32(module: Any, state: dict[str, Any], prefix: str, local_metadata: Any) -> None:
    """Have the state of a narrow model be float32, as that of the model before."""
    for name, value in state.items():
        if isinstance(value, Tensor) and value.is_floating_point():
            state[name] = value.float()


def _truth(value: Any) -> Any:
    return {"True": True, "False": False}.get(value, value)


def initialize(
    models: Any,
    optimizers: Any = None,
    enabled: bool = True,
    opt_level: str = "O1",
    cast_model_type: DType | None = None,
    patch_torch_functions: bool | None = None,
    keep_batchnorm_fp32: bool | str | None = None,
    master_weights: bool | None = None,
    loss_scale: float | str | None = None,
    cast_model_outputs: DType | None = None,
    num_losses: int = 1,
    verbosity: int = 1,
    min_loss_scale: float | None = None,
    max_loss_scale: float = 2.0**24,
) -> Any:
    """Set models and optimizers up for mixed precision; called once, before the models are wrapped for several processes.

    Args:
        models: a model or a list of models, changed in place.
        optimizers: an optimizer or a list of optimizers, changed in place.
        enabled: False for leaving everything as it is.
        opt_level: one of the levels ``"O0"`` to ``"O3"``; see the module's table.
        cast_model_type, patch_torch_functions, keep_batchnorm_fp32, master_weights, loss_scale: override the level's settings: the
            models' dtype; whether autocast chooses dtypes; whether batch norm stays in float32; whether the optimizers step on float32
            copies; ``"dynamic"`` or a number.
        cast_model_outputs: dtype of what the models return; float32 when None.
        num_losses: how many losses have a scale of their own; see ``scale_loss``.
        verbosity: 0 for not printing that a step is skipped.
        min_loss_scale, max_loss_scale: limits of an adapting scale.
    Returns:
        The models, and the optimizers if there are any, each as a list if it was given as one.
    Raises:
        RuntimeError: an unknown level; options that do not go together.
    Example:
        >>> import flambeau as torch
        >>> from flambeau.apex import amp
        >>> net = torch.nn.Linear(2, 1)
        >>> optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        >>> net, optimizer = amp.initialize(net, optimizer, opt_level="O1")
        >>> with amp.scale_loss(net(torch.ones(1, 2)).sum(), optimizer) as scaled_loss:
        ...     scaled_loss.backward()
        >>> optimizer.step()

    Source: apex.amp.initialize.
    """
    global _state
    _state = _State()
    if enabled:
        level = _chosen(opt_level, cast_model_type, patch_torch_functions, _truth(keep_batchnorm_fp32), master_weights, loss_scale)
        for model in models if isinstance(models, Sequence) and not isinstance(models, Module) else [models]:
            _prepare(model, level, cast_model_outputs)
        for optimizer in _listed(optimizers):
            if hasattr(optimizer, "_amp_stash"):
                raise RuntimeError("A given optimizer should only be passed through amp.initialize once.")
            optimizer._amp_stash = _Stepper(optimizer, level.master_weights)
        _state.verbosity = verbosity
        _state.scalers = [_LossScaler(level.loss_scale, min_loss_scale, max_loss_scale) for _ in range(num_losses)]
    return models if optimizers is None else (models, optimizers)


def _chosen(opt_level: str, dtype: Any, patches: Any, keeps_norm: Any, copies: Any, loss_scale: Any) -> _Level:
    """A level with the caller's own choices."""
    if opt_level not in _LEVELS:
        raise RuntimeError(
            f"Unexpected optimization level {opt_level}. Options are 'O0', 'O1', 'O2', 'O3'. Note that in `O0`, `O1`, etc., the prefix O "
            "is the letter O, not the number zero."
        )
    level = _LEVELS[opt_level]()
    if dtype is not None:
        level.cast_model_type = dtype
    if patches is not None:
        level.autocasts = patches
    if keeps_norm is not None:
        level.keep_batchnorm_fp32 = keeps_norm
    if copies is not None:
        level.master_weights = copies
    if loss_scale is not None:
        level.loss_scale = loss_scale
    if level.autocasts and (level.cast_model_type not in (None, float32) or level.keep_batchnorm_fp32 or level.master_weights):
        raise RuntimeError(
            "With opt_level O1, batchnorm functions are automatically patched to run in FP32, so keep_batchnorm_fp32 should be None; "
            "models and master weights are not cast, so cast_model_type and master_weights should be None too."
        )
    return level


def _listed(optimizers: Any) -> list[Any]:
    return [] if optimizers is None else list(optimizers) if isinstance(optimizers, (list, tuple)) else [optimizers]


# -- training ----------------------------------------------------------------------------------------------------------------------
@contextmanager
def scale_loss(
    loss: Any, optimizers: Any, loss_id: int = 0, model: Any = None, delay_unscale: bool = False, delay_overflow_check: bool = False
) -> Iterator[Any]:
    """Inside the ``with`` block the loss, multiplied by its scale; at its end the optimizers' gradients are unscaled.

    Gradients of earlier blocks are added to, as a backward pass does.

    Args:
        loss: the loss.
        optimizers: those that step on its gradients, one or a list.
        loss_id: number of the loss, for its own scale.
        model: not used, as in Apex.
        delay_unscale: leave the gradients scaled: further backward passes are to be added before the step. The last of these blocks
            must not delay.
        delay_overflow_check: False.
    Raises:
        RuntimeError: ``initialize`` was not called with these optimizers.
        NotImplementedError: ``delay_overflow_check``.
    Source: apex.amp.scale_loss.
    """
    if delay_overflow_check:
        raise NotImplementedError("scale_loss: delay_overflow_check=True is not supported: gradients are looked at when they are unscaled")
    if not _state.scalers:
        yield loss
        return
    steppers = [getattr(optimizer, "_amp_stash", None) for optimizer in _listed(optimizers)]
    if None in steppers:
        raise RuntimeError("Invoked 'with amp.scale_loss`, but an optimizer was not passed through `amp.initialize`.")
    scaler = _state.scalers[loss_id]
    for stepper in steppers:
        stepper.prepare()  # type: ignore[union-attr]
    yield loss.float() * scaler.scale
    if delay_unscale:
        for stepper in steppers:
            stepper.is_scaled = True  # type: ignore[union-attr]
        return
    overflowed = False
    for stepper in steppers:
        overflowed = stepper.unscale(scaler.scale) or overflowed  # type: ignore[union-attr]
    if scaler.update(overflowed):
        for stepper in steppers:
            stepper.skips = True  # type: ignore[union-attr]
        if _state.verbosity:
            print(f"Gradient overflow.  Skipping step, loss scaler {loss_id} reducing loss scale to {scaler.scale}")


def master_params(optimizer: Any) -> Iterator[Tensor]:
    """Parameters that an optimizer steps on, float32 copies if there are any: clip their gradients. Source: apex.amp.master_params."""
    for group in optimizer.param_groups:
        yield from group["params"]


def state_dict(destination: dict[str, Any] | None = None) -> dict[str, Any]:
    """The scale of each loss, and for how many steps it has held. Source: apex.amp.state_dict."""
    made = {} if destination is None else destination
    for number, scaler in enumerate(_state.scalers):
        made[f"loss_scaler{number}"] = {"loss_scale": scaler.scale, "unskipped": scaler.unskipped}
    return made


def load_state_dict(state_dict: Mapping[str, Any]) -> None:
    """Take over what ``state_dict`` gave, after ``initialize``.

    Raises:
        RuntimeError: an entry that is not a scaler's. A number of losses that is another one is printed, and the rest is taken.
    Source: apex.amp.load_state_dict.
    """
    if len(state_dict) != len(_state.scalers):
        print(f"Warning: state_dict contains {len(state_dict)} entries, while {len(_state.scalers)} loss_scalers are used")
    for number, (name, values) in enumerate(state_dict.items()):
        if "loss_scaler" not in name:
            raise RuntimeError(f"Unexpected key in state_dict: {name}")
        if number < len(_state.scalers):
            _state.scalers[number].scale, _state.scalers[number].unskipped = values["loss_scale"], values["unskipped"]
