"""Tensors of a module that are computed from others at each access: ``module.weight`` is ``parametrization(original)``.

    module.weight --> property of the class ParametrizedLinear --> module.parametrizations.weight() --> f(original)

The class is made for the one module whose tensor is parametrized, since a property belongs to a class.
"""

from __future__ import annotations

import copy
import copyreg
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...autograd.grad_mode import no_grad
from ...core.tensor import Parameter, Tensor
from ..containers import ModuleDict, ModuleList
from ..module import Module

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
    "transfer_parametrizations_and_params", "type_before_parametrizations",
]  # fmt: skip

_cache_enabled = 0  # how many ``cached`` blocks are open
_cache: dict[tuple[int, str], Tensor | None] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrized tensor once only, inside ``with``.

    Returns:
        A context manager, which gives None.
    Source: torch.nn.utils.parametrize.cached.
    Example:
        >>> layer = nn.utils.parametrize.register_parametrization(nn.Linear(2, 1), "weight", nn.Tanh())
        >>> with nn.utils.parametrize.cached():
        ...     print(layer.weight is layer.weight)
        True
        >>> layer.weight is layer.weight
        False
    """
    global _cache_enabled
    _cache_enabled += 1
    try:
        yield
    finally:
        _cache_enabled -= 1
        if not _cache_enabled:
            _cache.clear()


def _register_parameter_or_buffer(module: Module, name: str, X: Any) -> None:
    if isinstance(X, Parameter):
        module.register_parameter(name, X)
    else:
        module.register_buffer(name, X)


def _maybe_set(dest: Any, src: Tensor) -> None:
    """Let ``dest`` show the memory of ``src``, unless it does."""
    if dest is not src:
        dest.data = src.detach()


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied one after the other, and the tensors that they start from.

    Args:
        modules: the parametrizations.
        original: the tensor, which their ``right_inverse`` are applied to, last one first, where they have one.
        unsafe: whether the result may have another shape or dtype than ``original``.
    Shape:
        No arguments, to the parametrized tensor.
    Attributes:
        original: what the first one is called with; ``original0``, ``original1``, ... where its ``right_inverse`` gives several.
    Raises:
        ValueError: a parametrization that returns no tensor, or one of another shape or dtype.
    Source: torch.nn.utils.parametrize.ParametrizationList.
    Example:
        >>> layer = nn.utils.parametrize.register_parametrization(nn.Linear(2, 1), "weight", nn.Tanh())
        >>> len(layer.parametrizations.weight), layer.parametrizations.weight.original.shape
        (1, torch.Size([1, 2]))
    """

    original: Tensor
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Tensor | Parameter, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        start = self._inverted(original)
        self.is_tensor = isinstance(start, Tensor)
        self.ntensors = 1 if self.is_tensor else len(start)
        if self.is_tensor:
            self._keep_one(original, start)
        else:
            self._keep_several(original, start)
        if not unsafe:
            _check_result(self(), shape, dtype)

    def _inverted(self, original: Tensor) -> Any:
        """The arguments of the first parametrization that give ``original``."""
        start: Any = original
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    try:
                        start = module.right_inverse(start)
                    except NotImplementedError:
                        pass  # an inverse that is declared only: as if there were none
        if not isinstance(start, (Tensor, Sequence)):
            raise ValueError(f"'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got {type(start).__name__}")
        return start

    def _keep_one(self, original: Any, start: Any) -> None:
        for what in ("dtype", "device"):
            before, after = getattr(original, what), getattr(start, what)
            if before != after:
                raise ValueError(
                    f"When `right_inverse` outputs one tensor, it may not change the {what}.\n"
                    f"original.{what}: {before}\nright_inverse(original).{what}: {after}"
                )
        _maybe_set(original, start)
        _register_parameter_or_buffer(self, "original", original)

    def _keep_several(self, original: Any, start: Sequence[Any]) -> None:
        for i, tensor in enumerate(start):
            if not isinstance(tensor, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                    f"Got element {i} of the sequence with type {type(tensor).__name__}."
                )
            if isinstance(original, Parameter):
                tensor = Parameter(tensor, original.requires_grad)
            tensor.requires_grad_(original.requires_grad)
            _register_parameter_or_buffer(self, f"original{i}", tensor)

    def right_inverse(self, value: Tensor) -> None:
        """Change what the parametrizations start from so that they give ``value``.

        Raises:
            RuntimeError: a parametrization without ``right_inverse``.
            ValueError: ``right_inverse`` returns something else than tensors of the registered number and dtypes.
        """
        start: Any = value
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                start = module.right_inverse(start)
            if self.is_tensor:
                if not isinstance(start, Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(start).__name__}")
                if start.dtype != self.original.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {start.dtype} while `original` has dtype {self.original.dtype}"
                    )
                _maybe_set(self.original, start)
                return
            self._set_several(start)

    def _set_several(self, start: Any) -> None:
        if not isinstance(start, Sequence):
            raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(start).__name__}.")
        if len(start) != self.ntensors:
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of length {len(start)}."
            )
        for i, tensor in enumerate(start):
            original = getattr(self, f"original{i}")
            if not isinstance(tensor, Tensor):
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors or reference-type opaques. "
                    f"Got element {i} of type {type(tensor).__name__}."
                )
            if original.dtype != tensor.dtype:
                raise ValueError(
                    f"Tensor {i} returned by `right_inverse` has dtype {tensor.dtype} while `original{i}` has dtype {original.dtype}"
                )
            _maybe_set(original, tensor)

    def forward(self) -> Tensor:
        first, *others = self
        if self.is_tensor:
            result = first(self.original)
        else:
            result = first(*[getattr(self, f"original{i}") for i in range(self.ntensors)])
        for module in others:
            result = module(result)
        return result


def _check_result(result: Any, shape: Any, dtype: Any) -> None:
    if not isinstance(result, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
    for what, before, after in (("dtype", dtype, result.dtype), ("shape", shape, result.shape)):
        if before != after:
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless `unsafe` flag is enabled.\n"
                f"unparametrized {what}: {before}\nparametrized {what}: {after}"
            )


# -- the class of a parametrized module ----------------------------------------------------------------------------------------
def _getstate(self: Module) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(). See:\n"
        "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
        "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
    )


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    """A copy of the same class; the default ``copy.deepcopy`` would call ``__getstate__``, which raises."""
    if id(self) in memo:
        return memo[id(self)]
    replica = self.__new__(type(self))
    memo[id(self)] = replica
    replica.__dict__ = copy.deepcopy(self.__dict__, memo)
    for slot in copyreg._slotnames(type(self)):  # type: ignore[attr-defined]
        if hasattr(self, slot):
            setattr(replica, slot, copy.deepcopy(getattr(self, slot), memo))
    return replica


def _inject_new_class(module: Module) -> None:
    """Give ``module`` a class of its own."""
    cls = type(module)
    body: dict[str, Any] = {"__getstate__": _getstate}
    if not hasattr(cls, "__deepcopy__"):
        body["__deepcopy__"] = _deepcopy
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), body)


def _inject_property(module: Module, tensor_name: str) -> None:
    """Let ``module.<tensor_name>`` call the parametrizations."""
    if hasattr(module, tensor_name):
        raise AssertionError(f"Module already has an attribute named '{tensor_name}'")

    def get_parametrized(self: Any) -> Tensor:
        parametrization = self.parametrizations[tensor_name]
        if not _cache_enabled:
            return parametrization()
        key = (id(self), tensor_name)
        tensor = _cache.get(key)
        if tensor is None:
            tensor = _cache[key] = parametrization()
        return tensor

    def set_original(self: Any, value: Tensor) -> None:
        self.parametrizations[tensor_name].right_inverse(value)

    setattr(type(module), tensor_name, property(get_parametrized, set_original))


# -- the public functions ------------------------------------------------------------------------------------------------------
def register_parametrization(module: Any, tensor_name: str, parametrization: Any, *, unsafe: bool = False) -> Any:
    """Replace a parameter or buffer by ``parametrization`` of its present value, after those that are registered already.

    Args:
        module: changed in place, its class too.
        tensor_name: of the parameter or buffer.
        parametrization: a module that makes a tensor of a tensor. Its ``right_inverse``, if there is one, is applied to the present
            value and to what is assigned later.
        unsafe: whether it may change shape and dtype.
    Returns:
        ``module``.
    Raises:
        ValueError: there is no such tensor, or the parametrization changes shape or dtype.
    Source: torch.nn.utils.parametrize.register_parametrization.
    Example:
        >>> class Symmetric(nn.Module):
        ...     def forward(self, X):
        ...         return X.triu() + X.triu(1).T
        >>> layer = nn.utils.parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
        >>> torch.equal(layer.weight, layer.weight.T)
        True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_further(module, tensor_name, parametrization)
        present = module.parametrizations[tensor_name]
        present.append(parametrization)
        present.unsafe |= unsafe
        return module
    if tensor_name not in module._buffers and tensor_name not in module._parameters:
        raise ValueError(f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'")
    parametrizations = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _inject_new_class(module)
        module.parametrizations = ModuleDict()
    _inject_property(module, tensor_name)
    module.parametrizations[tensor_name] = parametrizations
    return module


def _check_further(module: Any, name: str, parametrization: Any) -> None:
    """Check a parametrization on top of others."""
    before = getattr(module, name)
    after = parametrization(before)
    if not isinstance(after, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(after).__name__}.")
    for what in ("dtype", "shape"):
        old, new = getattr(before, what), getattr(after, what)
        if old != new:
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless the `unsafe` flag is enabled.\n"
                f"module.{name}.{what}: {old}\nparametrization(module.{name}).{what}: {new}"
            )
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        inverse = parametrization.right_inverse(after)
    except NotImplementedError:
        return
    if not isinstance(inverse, Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(inverse).__name__}")
    for what in ("dtype", "shape"):
        old, new = getattr(before, what), getattr(inverse, what)
        if old != new:
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {what} as module.{name}, unless the "
                f"`unsafe` flag is enabled.\nmodule.{name}.{what}: {old}\nreturned {what}: {new}"
            )


def is_parametrized(module: Any, tensor_name: str | None = None) -> bool:
    """Whether a tensor of ``module``, or any if no name is given, is parametrized.

    Args:
        module: any module.
        tensor_name: of the tensor; all when None.
    Returns:
        A bool.
    Source: torch.nn.utils.parametrize.is_parametrized.
    Example:
        >>> layer = nn.utils.parametrize.register_parametrization(nn.Linear(2, 1), "weight", nn.Tanh())
        >>> nn.utils.parametrize.is_parametrized(layer), nn.utils.parametrize.is_parametrized(layer, "bias")
        (True, False)
    """
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Any:
    """Take all parametrizations off a tensor.

    Args:
        module: changed in place.
        tensor_name: of the tensor.
        leave_parametrized: keep the parametrized value; otherwise the original one.
    Returns:
        ``module``.
    Raises:
        ValueError: the tensor is not parametrized, or has several originals and ``leave_parametrized`` is False.
    Source: torch.nn.utils.parametrize.remove_parametrizations.
    Example:
        >>> layer = nn.utils.parametrize.register_parametrization(nn.Linear(2, 1), "weight", nn.Tanh())
        >>> nn.utils.parametrize.remove_parametrizations(layer, "weight")
        Linear(in_features=2, out_features=1, bias=True)
        >>> type(layer.weight).__name__
        'Parameter'
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parametrizations = module.parametrizations[tensor_name]
    original: Any
    if parametrizations.is_tensor:
        original = parametrizations.original
        if leave_parametrized:
            with no_grad():
                _maybe_set(original, getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register_parameter_or_buffer(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Any) -> type:
    """The class that ``module`` had before its tensors were parametrized.

    Args:
        module: any module.
    Returns:
        The class; the module's own where nothing is parametrized.
    Source: torch.nn.utils.parametrize.type_before_parametrizations.
    Example:
        >>> layer = nn.utils.parametrize.register_parametrization(nn.Linear(2, 1), "weight", nn.Tanh())
        >>> type(layer).__name__, nn.utils.parametrize.type_before_parametrizations(layer).__name__
        ('ParametrizedLinear', 'Linear')
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module: Any, to_module: Any, tensor_name: str | None = None) -> Any:
    """Parametrize tensors of one module as those of another are, sharing their originals.

    Args:
        from_module: has the parametrizations.
        to_module: gets them; a tensor that it lacks is created.
        tensor_name: of one tensor; all when None.
    Returns:
        ``to_module``.
    Source: torch.nn.utils.parametrize.transfer_parametrizations_and_params.
    Example:
        >>> layer = nn.utils.parametrize.register_parametrization(nn.Linear(2, 1), "weight", nn.Tanh())
        >>> other = nn.utils.parametrize.transfer_parametrizations_and_params(layer, nn.Linear(2, 1))
        >>> torch.equal(other.weight, layer.weight)
        True
    """
    if not is_parametrized(from_module):
        return to_module
    for name in list(from_module.parametrizations) if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        source = from_module.parametrizations[name]
        for parametrization in source:
            register_parametrization(to_module, name, parametrization)
        target = to_module.parametrizations[name]
        for original in ["original"] if source.is_tensor else [f"original{i}" for i in range(source.ntensors)]:
            setattr(target, original, getattr(source, original))
    return to_module
