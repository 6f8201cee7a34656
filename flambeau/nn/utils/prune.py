"""Pruning: masks over parameters, by several criteria.

A pruned parameter ``weight`` becomes the parameter ``weight_orig`` and the buffer ``weight_mask``; a hook computes their product
before each call. Masks of later prunings apply to what earlier ones left.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from ... import ops
from ...core.layout import contiguous_format
from .convert_parameters import parameters_to_vector


class BasePruningMethod(ABC):
    """A method of pruning, and the forward hook of a parameter that is pruned by it.

    A subclass defines ``compute_mask``, and states in ``PRUNING_TYPE`` what its masks are computed from (``"unstructured"``: the elements
    that are left, ``"structured"``: the channels that are left, ``"global"``: everything).

    Source: torch.nn.utils.prune.BasePruningMethod.
    Example:
        >>> class Negative(nn.utils.prune.BasePruningMethod):
        ...     PRUNING_TYPE = "unstructured"
        ...     def compute_mask(self, t, default_mask):
        ...         return default_mask * (t > 0)
        >>> print(Negative().prune(torch.tensor([-1.0, 2.0])))
        tensor([-0., 2.])
    """

    _tensor_name: str
    PRUNING_TYPE: str

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The new mask.

        Args:
            t: importance of each element.
            default_mask: the mask so far, of ``t``'s shape.
        """

    def apply_mask(self, module: Any) -> Any:
        """The parameter times its mask."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        mask, original = getattr(module, f"{self._tensor_name}_mask"), getattr(module, f"{self._tensor_name}_orig")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any) -> Any:
        """Prune a parameter of a module; on top of earlier prunings.

        Args:
            module: changed in place.
            name: of the parameter.
            importance_scores: what elements are chosen by; the parameter's values when None.
            *args, **kwargs: of the method's constructor.
        Returns:
            The method, in a ``PruningContainer`` with earlier ones.
        """
        method = cls(*args, **kwargs)
        method._tensor_name = name
        method = _with_earlier(method, module)
        original = getattr(module, name)
        if importance_scores is None:
            importance_scores = original
        elif importance_scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, got {importance_scores.shape} vs "
                f"{original.shape}"
            )
        is_first = not isinstance(method, PruningContainer)
        if is_first:
            module.register_parameter(f"{name}_orig", original)
            del module._parameters[name]
            default_mask = ops.ones_like(original)
        else:
            default_mask = getattr(module, f"{name}_mask").detach().clone(memory_format=contiguous_format)
        try:
            mask = method.compute_mask(importance_scores, default_mask=default_mask)
            module.register_buffer(f"{name}_mask", mask)
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if is_first:
                module.register_parameter(name, getattr(module, f"{name}_orig"))
                del module._parameters[f"{name}_orig"]
            raise
        return method

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """A tensor times the mask that the method computes for it.

        Args:
            t: the tensor.
            default_mask: the mask so far; ones when None.
            importance_scores: what elements are chosen by; ``t`` when None.
        """
        if importance_scores is None:
            importance_scores = t
        elif importance_scores.shape != t.shape:
            raise AssertionError(f"importance_scores should have the same shape as tensor t, got {importance_scores.shape} vs {t.shape}")
        return t * self.compute_mask(importance_scores, default_mask=ops.ones_like(t) if default_mask is None else default_mask)

    def remove(self, module: Any) -> None:
        """Make the pruned tensor the parameter."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        name, weight = self._tensor_name, self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters.pop(f"{name}_orig")
        original.data = weight.data
        del module._buffers[f"{name}_mask"]
        setattr(module, name, original)


def _with_earlier(method: Any, module: Any) -> Any:
    """``method`` after the one that the parameter has, whose hook is taken off."""
    name, hooks = method._tensor_name, module._forward_pre_hooks
    keys = [key for key, hook in hooks.items() if isinstance(hook, BasePruningMethod) and hook._tensor_name == name]
    if len(keys) > 1:
        raise AssertionError(f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. Use a PruningContainer.")
    if not keys:
        return method
    earlier = hooks[keys[0]]
    del hooks[keys[0]]
    container = earlier if isinstance(earlier, PruningContainer) else PruningContainer(earlier)
    container.add_pruning_method(method)
    return container


class PruningContainer(BasePruningMethod):
    """Several methods on one parameter, in the order in which they were applied.

    Args:
        *args: methods.
    Raises:
        TypeError: one of several entries is not a ``BasePruningMethod``.
        ValueError: a method of another parameter.
    Source: torch.nn.utils.prune.PruningContainer.
    Example:
        >>> layer = nn.utils.prune.random_unstructured(nn.Linear(4, 2), "weight", amount=2)
        >>> layer = nn.utils.prune.random_unstructured(layer, "weight", amount=2)
        >>> [len(hook) for hook in layer._forward_pre_hooks.values()], (layer.weight == 0).sum()
        ([2], tensor(4))
    """

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a method.

        Raises:
            TypeError: no method.
            ValueError: one for another parameter.
        """
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to PruningContainer {self}. "
                f"Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)  # None stands for no method

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """``default_mask`` with the last method's mask where that method looks."""
        method: Any = self._pruning_methods[-1]
        mask = default_mask.to(dtype=t.dtype)
        where = _looked_at(method, t, default_mask)
        mask[where] = method.compute_mask(t[where], default_mask=default_mask[where]).to(dtype=mask.dtype)
        return mask


def _looked_at(method: Any, t: Any, mask: Any) -> Any:
    """The index of what a method computes its mask from."""
    if method.PRUNING_TYPE == "unstructured":
        return mask == 1
    everything: list[Any] = [slice(None)] * t.dim()
    if method.PRUNING_TYPE == "global":
        return tuple(everything)
    if method.PRUNING_TYPE != "structured":
        raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
    if not hasattr(method, "dim"):
        raise AttributeError('Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.')
    dim = method.dim + t.dim() if method.dim < 0 else method.dim
    if dim < 0:
        raise IndexError(f"Index is out of bounds for tensor with dimensions {t.dim()}")
    everything[dim] = mask.sum(dim=[d for d in range(t.dim()) if d != dim]) != 0
    return tuple(everything)


# -- methods -------------------------------------------------------------------------------------------------------------------
class Identity(BasePruningMethod):
    """A method that prunes nothing, but makes the mask.

    Source: torch.nn.utils.prune.Identity.
    Example:
        >>> nn.utils.prune.Identity().prune(torch.tensor([0.5, -2.0]))
        tensor([ 0.5000, -2.0000])
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        return default_mask

    @classmethod
    def apply(cls, module: Any, name: str) -> Any:  # type: ignore[override]
        return super().apply(module, name)


class _Amount(BasePruningMethod):
    """Prunes a number of elements or channels, or a share of them."""

    amount: Any

    def __init__(self, amount: Any) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _count(self, size: int) -> int:
        count = _compute_nparams_toprune(self.amount, size)
        _validate_pruning_amount(count, size)
        return count


class RandomUnstructured(_Amount):
    """Prunes elements at random.

    Args:
        amount: an int, how many are pruned; or a float between 0 and 1, which part of them.
    Raises:
        ValueError: ``amount`` is negative or a float above 1; at the call, an int above the number of elements.
        TypeError: ``amount`` is not a number.
    Source: torch.nn.utils.prune.RandomUnstructured.
    Example:
        >>> (nn.utils.prune.RandomUnstructured(amount=0.25).prune(torch.ones(8)) == 0).sum()
        tensor(2)
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        count = self._count(t.nelement())
        mask = default_mask.clone(memory_format=contiguous_format)
        if count:
            mask.view(-1)[ops.topk(ops.rand_like(t).view(-1), k=count).indices] = 0
        return mask

    @classmethod
    def apply(cls, module: Any, name: str, amount: Any) -> Any:  # type: ignore[override]
        return super().apply(module, name, amount=amount)


class L1Unstructured(_Amount):
    """Prunes the elements of least absolute value.

    Args:
        amount: an int, how many are pruned; or a float between 0 and 1, which part of them.
    Raises:
        ValueError: ``amount`` is negative or a float above 1; at the call, an int above the number of elements.
        TypeError: ``amount`` is not a number.
    Source: torch.nn.utils.prune.L1Unstructured.
    Example:
        >>> nn.utils.prune.L1Unstructured(amount=2).prune(torch.tensor([0.1, -3.0, 0.5, 2.0]))
        tensor([ 0., -3.,  0.,  2.])
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        count = self._count(t.nelement())
        mask = default_mask.clone(memory_format=contiguous_format)
        if count:
            mask.view(-1)[ops.topk(ops.abs(t).view(-1), k=count, largest=False).indices] = 0
        return mask

    @classmethod
    def apply(cls, module: Any, name: str, amount: Any, importance_scores: Any = None) -> Any:  # type: ignore[override]
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class _Channels(_Amount):
    """Prunes whole channels along ``dim``."""

    dim: int
    PRUNING_TYPE = "structured"

    def _channels_to_prune(self, t: Any) -> int:
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        return self._count(t.shape[self.dim])

    def _mask_of(self, t: Any, kept: Any, default_mask: Any) -> Any:
        mask = ops.zeros_like(t)
        where: list[Any] = [slice(None)] * t.dim()
        where[self.dim] = kept
        mask[tuple(where)] = 1
        mask *= default_mask.to(dtype=mask.dtype)
        return mask


class RandomStructured(_Channels):
    """Prunes channels at random.

    Args:
        amount: an int, how many are pruned; or a float between 0 and 1, which part of them.
        dim: dimension of the channels.
    Raises:
        ValueError: ``amount`` is negative or a float above 1; at the call, an int above the number of channels.
        TypeError: ``amount`` is not a number.
    Source: torch.nn.utils.prune.RandomStructured.
    Example:
        >>> nn.utils.prune.RandomStructured(amount=1, dim=0).prune(torch.ones(3, 2)).sum()
        tensor(4.)
    """

    def __init__(self, amount: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        count = self._channels_to_prune(t)
        if not count:
            return default_mask
        draws = ops.rand(t.shape[self.dim])
        return self._mask_of(t, draws > ops.kthvalue(draws, k=count).values, default_mask)

    @classmethod
    def apply(cls, module: Any, name: str, amount: Any, dim: int = -1) -> Any:  # type: ignore[override]
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(_Channels):
    """Prunes the channels of least norm.

    Args:
        amount: an int, how many are pruned; or a float between 0 and 1, which part of them.
        n: order of the norm.
        dim: dimension of the channels.
    Raises:
        ValueError: ``amount`` is negative or a float above 1; at the call, an int above the number of channels.
        TypeError: ``amount`` is not a number.
    Source: torch.nn.utils.prune.LnStructured.
    Example:
        >>> nn.utils.prune.LnStructured(amount=1, n=2, dim=0).prune(torch.tensor([[0.1, 0.2], [3.0, 4.0]]))
        tensor([[0., 0.],
                [3., 4.]])
    """

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.n = n
        self.dim = dim

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        count = self._channels_to_prune(t)
        kept = ops.topk(_compute_norm(t, self.n, self.dim), k=t.shape[self.dim] - count, largest=True).indices
        return self._mask_of(t, kept, default_mask) if count else default_mask

    @classmethod
    def apply(cls, module: Any, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None) -> Any:  # type: ignore[override]
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """Prunes the elements where a given mask is zero.

    Args:
        mask: ones where elements stay, of the parameter's shape.
    Raises:
        AssertionError: at the call, a mask of another shape than the parameter's.
    Source: torch.nn.utils.prune.CustomFromMask.
    Example:
        >>> nn.utils.prune.CustomFromMask(torch.tensor([1.0, 0.0])).prune(torch.tensor([5.0, 6.0]))
        tensor([5., 0.])
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}")
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module: Any, name: str, mask: Any) -> Any:  # type: ignore[override]
        return super().apply(module, name, mask=mask)


# -- functions -----------------------------------------------------------------------------------------------------------------
def identity(module: Any, name: str) -> Any:
    """Give a parameter a mask of ones.

    Args:
        module: changed in place: ``name`` becomes the pruned tensor, ``<name>_orig`` the parameter, ``<name>_mask`` a buffer.
        name: of the parameter.
    Returns:
        ``module``.
    Source: torch.nn.utils.prune.identity.
    Example:
        >>> layer = nn.Linear(4, 1)
        >>> layer.weight.data = torch.tensor([[0.1, -3.0, 0.5, 2.0]])
        >>> nn.utils.prune.identity(layer, "weight").weight_mask
        tensor([[1., 1., 1., 1.]])
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: Any) -> Any:
    """Prune elements of a parameter at random.

    Args:
        module: changed in place: ``name`` becomes the pruned tensor, ``<name>_orig`` the parameter, ``<name>_mask`` a buffer.
        name: of the parameter.
        amount: an int, how many are pruned; or a float between 0 and 1, which part of them.
    Returns:
        ``module``.
    Raises:
        ValueError: ``amount`` is negative, or above the number of elements or 1.
        TypeError: ``amount`` is not a number.
    Source: torch.nn.utils.prune.random_unstructured.
    Example:
        >>> layer = nn.utils.prune.random_unstructured(nn.Linear(4, 2), "weight", amount=0.5)
        >>> (layer.weight == 0).sum(), sorted(layer.state_dict())
        (tensor(4), ['bias', 'weight_mask', 'weight_orig'])
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Any, name: str, amount: Any, importance_scores: Any = None) -> Any:
    """Prune the elements of a parameter of least absolute value.

    Args:
        module: changed in place: ``name`` becomes the pruned tensor, ``<name>_orig`` the parameter, ``<name>_mask`` a buffer.
        name: of the parameter.
        amount: an int, how many are pruned; or a float between 0 and 1, which part of them.
        importance_scores: of the parameter's shape, what is compared in place of its values; those when None.
    Returns:
        ``module``.
    Raises:
        ValueError: ``amount`` is negative, or above the number of elements or 1.
        TypeError: ``amount`` is not a number.
    Source: torch.nn.utils.prune.l1_unstructured.
    Example:
        >>> layer = nn.Linear(4, 1)
        >>> layer.weight.data = torch.tensor([[0.1, -3.0, 0.5, 2.0]])
        >>> nn.utils.prune.l1_unstructured(layer, "weight", amount=2).weight.detach()
        tensor([[ 0., -3.,  0.,  2.]])
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: Any, dim: int) -> Any:
    """Prune channels of a parameter along ``dim`` at random.

    Args:
        module: changed in place: ``name`` becomes the pruned tensor, ``<name>_orig`` the parameter, ``<name>_mask`` a buffer.
        name: of the parameter.
        amount: an int, how many are pruned; or a float between 0 and 1, which part of them.
        dim: dimension of the channels.
    Returns:
        ``module``.
    Raises:
        ValueError: ``amount`` is negative, or above the number of channels or 1.
        TypeError: ``amount`` is not a number.
    Source: torch.nn.utils.prune.random_structured.
    Example:
        >>> layer = nn.utils.prune.random_structured(nn.Linear(4, 3), "weight", amount=1, dim=0)
        >>> (layer.weight == 0).all(dim=1).sum()
        tensor(1)
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: Any, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None) -> Any:
    """Prune the channels of a parameter along ``dim`` whose norm of order ``n`` is least.

    Args:
        module: changed in place: ``name`` becomes the pruned tensor, ``<name>_orig`` the parameter, ``<name>_mask`` a buffer.
        name: of the parameter.
        amount: an int, how many are pruned; or a float between 0 and 1, which part of them.
        n: order of the norm.
        dim: dimension of the channels.
        importance_scores: of the parameter's shape, what is compared in place of its values; those when None.
    Returns:
        ``module``.
    Raises:
        ValueError: ``amount`` is negative, or above the number of channels or 1.
        TypeError: ``amount`` is not a number.
    Source: torch.nn.utils.prune.ln_structured.
    Example:
        >>> layer = nn.Linear(2, 2)
        >>> layer.weight.data = torch.tensor([[0.1, 0.2], [3.0, 4.0]])
        >>> nn.utils.prune.ln_structured(layer, "weight", amount=1, n=2, dim=0).weight.detach()
        tensor([[0., 0.],
                [3., 4.]])
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(parameters: Any, pruning_method: Any, importance_scores: Any = None, **kwargs: Any) -> None:
    """Prune elements of several parameters as if they were one.

    Args:
        parameters: pairs of a module and the name of its parameter.
        pruning_method: a class of methods whose ``PRUNING_TYPE`` is ``"unstructured"``.
        importance_scores: by such pairs, what elements are chosen by; the parameter's values for others.
        **kwargs: of the method's constructor.
    Raises:
        TypeError: ``parameters`` or ``importance_scores`` of another kind, or a method of another type.
    Source: torch.nn.utils.prune.global_unstructured.
    Example:
        >>> layer = nn.Linear(8, 8)
        >>> pairs = [(layer, "weight"), (layer, "bias")]
        >>> nn.utils.prune.global_unstructured(pairs, nn.utils.prune.L1Unstructured, amount=0.5)
        >>> (layer.weight == 0).sum() + (layer.bias == 0).sum()
        tensor(36)
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    importance_scores = {} if importance_scores is None else importance_scores
    if not isinstance(importance_scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    pairs: list[tuple[Any, str]] = list(parameters)
    scores = parameters_to_vector([importance_scores.get((module, name), getattr(module, name)) for module, name in pairs])
    present = [getattr(module, f"{name}_mask", ops.ones_like(getattr(module, name))) for module, name in pairs]
    container, method = PruningContainer(), pruning_method(**kwargs)
    container._tensor_name = method._tensor_name = "temp"  # any name: the two must agree
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for '
            f"the `pruning_method`. Found method {pruning_method} of type {method.PRUNING_TYPE}"
        )
    container.add_pruning_method(method)
    whole = container.compute_mask(scores, parameters_to_vector(present))
    start = 0
    for module, name in pairs:
        parameter = getattr(module, name)
        stop = start + parameter.numel()
        custom_from_mask(module, name, mask=whole[start:stop].view_as(parameter))
        start = stop


def custom_from_mask(module: Any, name: str, mask: Any) -> Any:
    """Prune the elements of a parameter where ``mask`` is 0.

    Args:
        module: changed in place: ``name`` becomes the pruned tensor, ``<name>_orig`` the parameter, ``<name>_mask`` a buffer.
        name: of the parameter.
        mask: ones where elements stay, of the parameter's shape.
    Returns:
        ``module``.
    Raises:
        AssertionError: a mask of another shape.
    Source: torch.nn.utils.prune.custom_from_mask.
    Example:
        >>> layer = nn.Linear(4, 1)
        >>> layer.weight.data = torch.tensor([[0.1, -3.0, 0.5, 2.0]])
        >>> nn.utils.prune.custom_from_mask(layer, "weight", torch.tensor([[1, 0, 0, 1]])).weight.detach()
        tensor([[0.1000, -0.0000, 0.0000, 2.0000]])
    """
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Any, name: str) -> Any:
    """Make the pruned tensor the parameter; the pruning itself stays.

    Args:
        module: changed in place.
        name: of the parameter.
    Returns:
        ``module``.
    Raises:
        ValueError: the parameter is not pruned.
    Source: torch.nn.utils.prune.remove.
    Example:
        >>> layer = nn.utils.prune.l1_unstructured(nn.Linear(4, 1), "weight", amount=2)
        >>> layer = nn.utils.prune.remove(layer, "weight")
        >>> sorted(layer.state_dict()), (layer.weight == 0).sum()
        (['bias', 'weight'], tensor(2))
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Any) -> bool:
    """Whether a parameter of the module or of a descendant is pruned.

    Args:
        module: any module.
    Returns:
        A bool.
    Source: torch.nn.utils.prune.is_pruned.
    Example:
        >>> layer = nn.Linear(4, 1)
        >>> nn.utils.prune.is_pruned(layer), nn.utils.prune.is_pruned(nn.utils.prune.identity(layer, "weight"))
        (False, True)
    """
    return any(isinstance(hook, BasePruningMethod) for part in module.modules() for hook in part._forward_pre_hooks.values())


# -- checks --------------------------------------------------------------------------------------------------------------------
def _validate_pruning_amount_init(amount: Any) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    whole = isinstance(amount, numbers.Integral)
    if amount < 0 or (not whole and float(amount) > 1.0):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _validate_pruning_amount(amount: Any, tensor_size: int) -> None:
    if isinstance(amount, numbers.Integral) and int(amount) > tensor_size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}")


def _validate_structured_pruning(t: Any) -> None:
    if t.dim() <= 1:
        raise ValueError(
            f"Structured pruning can only be applied to multidimensional tensors. Found tensor of shape {t.shape} with {t.dim()} dims"
        )


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> Any:
    return amount if isinstance(amount, numbers.Integral) else round(amount * tensor_size)


def _validate_pruning_dim(t: Any, dim: int) -> None:
    if dim >= t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


def _compute_norm(t: Any, n: Any, dim: int) -> Any:
    """The norm over all dimensions but ``dim``."""
    dims = list(range(t.dim()))
    del dims[dim]
    return ops.norm(t, p=n, dim=dims)
