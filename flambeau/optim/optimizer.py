"""The base class of all optimizers: parameter groups, per-parameter state, hooks, saving and loading."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from copy import deepcopy
from itertools import chain
from typing import Any, TypeAlias

from ..core.calls.machine_calls import when_there
from ..core.dtype import float32
from ..core.profiling import profiled
from ..core.state import profiling, thread
from ..core.tape.hooks import RemovableHandle
from ..core.tensor import Parameter, Tensor
from ._arrays import Plans

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

ParamsT: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
StateDict: TypeAlias = dict[str, Any]
Args: TypeAlias = tuple[Any, ...]
Kwargs: TypeAlias = dict[str, Any]
GlobalOptimizerPreHook: TypeAlias = Callable[["Optimizer", Args, Kwargs], tuple[Args, Kwargs] | None]
GlobalOptimizerPostHook: TypeAlias = Callable[["Optimizer", Args, Kwargs], None]
DeviceDict: TypeAlias = dict[Any, Tensor]
DeviceDtypeDict: TypeAlias = dict[tuple[Any, Any], Tensor] | None

_global_step_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_step_post_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()


class _RequiredParameter:
    """The default of an option that every parameter group has to give itself."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()
forget: list[Any] = []  # the function of machine code that takes the gradients off all groups' parameters, once it is there
when_there("forget gradients", forget.append)

_HOOK_REGISTRIES = tuple(
    f"_optimizer_{event}_{time}_hooks" for event in ("step", "state_dict", "load_state_dict") for time in ("pre", "post")
)


def register_optimizer_step_pre_hook(hook: GlobalOptimizerPreHook) -> RemovableHandle:
    """Call ``hook`` before every step of every optimizer.

    Args:
        hook: ``hook(optimizer, args, kwargs)``; returns None or the ``(args, kwargs)`` to step with instead.
    Returns:
        A handle whose ``remove()`` takes the hook away.
    Source: torch.optim.optimizer.register_optimizer_step_pre_hook.
    Example:
        >>> handle = torch.optim.optimizer.register_optimizer_step_pre_hook(lambda *args: print("before"))
        >>> torch.optim.SGD([nn.Parameter(torch.zeros(1))]).step()
        before
        >>> handle.remove()
    """
    return RemovableHandle.add(_global_step_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: GlobalOptimizerPostHook) -> RemovableHandle:
    """Call ``hook`` after every step of every optimizer.

    Args:
        hook: ``hook(optimizer, args, kwargs)``; what it returns is dropped.
    Returns:
        A handle whose ``remove()`` takes the hook away.
    Source: torch.optim.optimizer.register_optimizer_step_post_hook.
    Example:
        >>> handle = torch.optim.optimizer.register_optimizer_step_post_hook(lambda *args: print("after"))
        >>> torch.optim.SGD([nn.Parameter(torch.zeros(1))]).step()
        after
        >>> handle.remove()
    """
    return RemovableHandle.add(_global_step_post_hooks, hook)


def _type_name(value: object) -> str:
    """The dotted type name used in error texts; tensors are named by their legacy type."""
    if isinstance(value, Tensor):
        return value.type()
    cls = type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


class Optimizer:
    """Base class of all optimizers.

    Args:
        params: tensors, ``(name, tensor)`` pairs, or dicts with a ``"params"`` entry and options of their own (one
            parameter group each). The order must be the same in every run, so sets are refused.
        defaults: option values for groups that do not set them.
    Attributes:
        defaults: ``defaults`` as given.
        param_groups: one dict per group: ``"params"``, ``"param_names"`` where names were given, and all options.
        state: per-parameter state, a ``defaultdict(dict)`` keyed by the parameter.
    Raises:
        TypeError: ``params`` is one tensor, or a group holds something else than tensors.
        ValueError: no parameter at all, a non-leaf tensor, or a parameter in two groups.
    Source: torch.optim.Optimizer.
    Example:
        >>> layer = nn.Linear(3, 2)
        >>> groups = [{"params": layer.weight, "weight_decay": 0.1}, {"params": layer.bias}]
        >>> optimizer = torch.optim.Adam(groups, lr=0.01)
        >>> [(group["lr"], group["weight_decay"]) for group in optimizer.param_groups]
        [(0.01, 0.1), (0.01, 0)]
    """

    OptimizerPreHook: TypeAlias = Callable[["Optimizer", Args, Kwargs], tuple[Args, Kwargs] | None]
    OptimizerPostHook: TypeAlias = Callable[["Optimizer", Args, Kwargs], None]

    _optimizer_step_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_step_post_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._canonicalize_hooks()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got " + _type_name(params)
            )
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []

        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def __getstate__(self) -> dict[str, Any]:
        # Hooks are left out: they are functions of the running program, not of the optimization.
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._canonicalize_hooks()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        parts = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            options = "".join(f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params")
            parts.append(f"\nParameter Group {i}\n{options}")
        return "".join(parts) + ")"

    # ---- hooks ---------------------------------------------------------------------------------------------------

    def _canonicalize_hooks(self) -> None:
        """Make the missing hook registries and the plans, and put the hooks around the class's own ``step``, once per class."""
        for name in _HOOK_REGISTRIES:
            self.__dict__.setdefault(name, OrderedDict())
        self._plans = Plans()
        kind = type(self)
        if not getattr(kind.step, "hooked", False):
            kind.step = self.profile_hook_step(kind.step)  # type: ignore[method-assign]
            kind.step.hooked = True  # type: ignore[attr-defined]

    @staticmethod
    def profile_hook_step(func: Callable[..., Any]) -> Callable[..., Any]:
        """``func``, a ``step`` method, with the step hooks called around it."""

        @functools.wraps(func)
        def step(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
            if thread.recorder is not None and not thread.recorder.is_paused:
                return thread.recorder.step(step, self, args, kwargs)
            hooks = self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks or _global_step_pre_hooks or _global_step_post_hooks
            if not hooks and not profiling:
                return func(self, *args, **kwargs)
            with profiled(f"Optimizer.step#{type(self).__name__}.step") as inside:
                result = with_hooks(self, args, kwargs) if hooks else func(self, *args, **kwargs)
                inside.stepped(self)
            return result

        def with_hooks(self: Optimizer, args: Args, kwargs: Kwargs) -> Any:
            arguments: tuple[Any, ...] = (self, *args)
            for hook in chain(_global_step_pre_hooks.values(), self._optimizer_step_pre_hooks.values()):
                changed = hook(self, arguments, kwargs)
                if changed is None:
                    continue
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(f"{func} must return None or a tuple of (new_args, new_kwargs), but got {changed}.")
                arguments, kwargs = changed
            result = func(*arguments, **kwargs)
            for hook in chain(self._optimizer_step_post_hooks.values(), _global_step_post_hooks.values()):
                hook(self, arguments, kwargs)
            return result

        return step

    def register_step_pre_hook(self, hook: OptimizerPreHook) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before each step; it may return new ``(args, kwargs)``.

        Returns:
            A handle whose ``remove()`` takes the hook away.
        """
        return RemovableHandle.add(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: OptimizerPostHook) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after each step.

        Returns:
            A handle whose ``remove()`` takes the hook away.
        """
        return RemovableHandle.add(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[[Optimizer], None], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` before :meth:`state_dict` collects anything.

        Args:
            hook: what it returns is dropped.
            prepend: run before the hooks registered so far instead of after them.
        Returns:
            A handle whose ``remove()`` takes the hook away.
        """
        return RemovableHandle.add(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[[Optimizer, StateDict], StateDict | None], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` on the result of :meth:`state_dict`.

        Args:
            hook: changes the dict in place, or returns the one to use instead.
            prepend: run before the hooks registered so far instead of after them.
        Returns:
            A handle whose ``remove()`` takes the hook away.
        """
        return RemovableHandle.add(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[[Optimizer, StateDict], StateDict | None], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before :meth:`load_state_dict` looks at a shallow copy of its argument.

        Args:
            hook: changes the dict in place, or returns the one to load instead.
            prepend: run before the hooks registered so far instead of after them.
        Returns:
            A handle whose ``remove()`` takes the hook away.
        """
        return RemovableHandle.add(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[[Optimizer], None], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` when :meth:`load_state_dict` has finished.

        Args:
            hook: what it returns is dropped.
            prepend: run before the hooks registered so far instead of after them.
        Returns:
            A handle whose ``remove()`` takes the hook away.
        """
        return RemovableHandle.add(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # ---- saving and loading --------------------------------------------------------------------------------------

    def state_dict(self) -> StateDict:
        """The state as plain data: parameters are replaced by their position over all groups.

        Returns:
            ``{"state": {position: {...}}, "param_groups": [{..., "params": [positions]}]}``. The state's tensors are
            the optimizer's own, not copies.
        Source: torch.optim.Optimizer.state_dict.
        """
        for before in self._optimizer_state_dict_pre_hooks.values():
            before(self)

        positions: dict[int, int] = {}
        groups = []
        start = 0
        for group in self.param_groups:
            params = group["params"]
            for position, param in enumerate(params, start):
                positions.setdefault(id(param), position)
            start += len(params)
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [positions[id(param)] for param in params]
            groups.append(packed)
        state = {positions[id(key)] if isinstance(key, Tensor) else key: value for key, value in self.state.items()}

        result: StateDict = {"state": state, "param_groups": groups}
        for after in self._optimizer_state_dict_post_hooks.values():
            changed = after(self, result)
            if changed is not None:
                result = changed
        return result

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Take over a state made by :meth:`state_dict`; parameters are matched by position.

        State tensors go to the parameter's device and, for floating-point parameters, to its dtype; ``"step"`` keeps
        its own dtype. Tensors that need no change are shared with ``state_dict``.

        Args:
            state_dict: what :meth:`state_dict` returned, perhaps after saving and loading.
        Raises:
            ValueError: another number of groups, or of parameters in a group.
        Source: torch.optim.Optimizer.load_state_dict.
        """
        state_dict = state_dict.copy()
        for before in self._optimizer_load_state_dict_pre_hooks.values():
            changed = before(self, state_dict)
            if changed is not None:
                state_dict = changed

        saved_groups = deepcopy(state_dict["param_groups"])
        if len(saved_groups) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(new["params"]) != len(old["params"]) for new, old in zip(saved_groups, self.param_groups, strict=True)):
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of optimizer's group")

        params = dict(zip(_all_params(saved_groups), _all_params(self.param_groups), strict=True))
        keeps_float_step = {
            position: group.get("capturable", False) or group.get("fused", False)
            for group in reversed(saved_groups)
            for position in group["params"]
        }
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in params:
                state[params[key]] = _fitted(value, params[key], keeps_float_step[key])
            else:
                state[key] = value

        for new, old in zip(saved_groups, self.param_groups, strict=True):
            new["params"] = old["params"]
            if "param_names" in old:
                new.setdefault("param_names", old["param_names"])
        self.__setstate__({"state": state, "param_groups": saved_groups})

        for after in self._optimizer_load_state_dict_post_hooks.values():
            after(self)

    # ---- stepping ------------------------------------------------------------------------------------------------

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters.

        Args:
            set_to_none: set ``.grad`` to None, so that a parameter without a new gradient is skipped by the next step;
                False fills the gradients with zeros in place.
        Source: torch.optim.Optimizer.zero_grad.
        """
        if set_to_none is True and forget and not profiling and forget[0](self.param_groups):
            return
        region = profiled(f"Optimizer.zero_grad#{type(self).__name__}.zero_grad") if profiling else None
        if region is not None:
            region.__enter__()
        try:
            for group in self.param_groups:
                for param in group["params"]:
                    if set_to_none:
                        if param.__class__ is not Parameter:
                            param.grad = None
                        elif hasattr(param, "_grad"):  # what the property does, without the calls
                            del param._grad
                        continue
                    grad = param.grad
                    if grad is None:
                        continue
                    if grad.grad_fn is not None:
                        grad.detach_()
                    else:
                        grad.requires_grad_(False)
                    grad.zero_()
        finally:
            if region is not None:
                region.__exit__()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once.

        Args:
            closure: computes the loss anew with its gradients and returns it.
        Returns:
            What ``closure`` returned, or None.
        """
        raise NotImplementedError(f"{type(self).__name__} has to define step")

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own, for example a layer that is unfrozen during training.

        Args:
            param_group: ``"params"`` (a tensor, or an ordered collection of tensors or ``(name, tensor)`` pairs) and
                options; options it lacks are filled in from ``defaults``, in this very dict.
        Raises:
            TypeError: not a dict, parameters in a set, or not tensors.
            ValueError: a non-leaf tensor, a missing required option, names for some parameters only, or a parameter
                that another group has already.
        Source: torch.optim.Optimizer.add_param_group.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params, names = _params_and_names(param_group["params"])
        param_group["params"] = params
        if names:
            param_group["param_names"] = names

        for param in params:
            if not isinstance(param, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {_type_name(param)}")
            if not self.defaults.get("differentiable") and not (param.is_leaf or param.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        if len({id(param) for param in params}) != len(params):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; "
                "see github.com/pytorch/pytorch/issues/40967 for more information",
                stacklevel=3,
            )

        named = "param_names" in param_group
        if any(named != ("param_names" in group) for group in self.param_groups):
            raise ValueError(
                "all optimizer param groups should be with/without names. "
                f"cannot add param group {'with' if named else 'without'} names to the optimizer"
            )
        known = {id(param) for param in _all_params(self.param_groups)}
        if any(id(param) in known for param in params):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)


def _all_params(groups: list[dict[str, Any]]) -> Iterator[Any]:
    return chain.from_iterable(group["params"] for group in groups)


def _params_and_names(params: Any) -> tuple[list[Any], list[str]]:
    """The parameters of a group as a list, and their names where they came as pairs."""
    if isinstance(params, Tensor):
        return [params], []
    if isinstance(params, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but "
            "the ordering of tensors in sets will change between runs. Please use a list instead."
        )
    entries = list(params)
    names = [entry[0] for entry in entries if isinstance(entry, tuple)]
    if names and len(names) != len(entries):
        raise ValueError("all optimizer params should be with/without names. Some param names are missing")
    return [entry[1] if isinstance(entry, tuple) else entry for entry in entries], names


def _fitted(value: Any, param: Tensor, float_step: bool, key: Hashable = None) -> Any:
    """A saved state value with all its tensors moved to what ``param`` needs."""
    if isinstance(value, Tensor):
        if key == "step":
            # A bfloat16 or float16 counter would stop counting at 256 or 2048, so it never takes the parameter's dtype.
            return value.to(dtype=float32, device=param.device) if float_step else value
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)
    if isinstance(value, dict):
        return {name: _fitted(entry, param, float_step, name) for name, entry in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return type(value)(_fitted(entry, param, float_step) for entry in value)  # type: ignore[call-arg]
    return value
