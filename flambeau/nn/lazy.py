"""``LazyModuleMixin``: modules that take the sizes of their parameters from their first input."""

from __future__ import annotations

import inspect
import itertools
from typing import Any

from ..autograd.grad_mode import no_grad
from .module import Module
from .parameter import is_lazy

__all__ = ["LazyModuleMixin"]

_DOC = """A{n} ``{name}`` whose ``{sizes}`` is taken from its first input, when it becomes a{n} ``{name}``.

    Args:
        {arguments}: as in ``{name}``{note}.
    Shape:
        As of ``{name}``.
    Attributes:
        {attributes}: without a shape until the first call, then as in ``{name}``.
    Source: torch.nn.Lazy{name}.
    Example:
        >>> layer = nn.Lazy{name}({example})
        >>> type(layer(torch.zeros({shape}))).__name__, type(layer).__name__
        ('Tensor', '{name}')
        >>> layer.{sizes}
        3
    """


class LazyModuleMixin(Module):
    """A module whose parameters get their shapes at the first call; then it becomes a ``cls_to_become``.

    A subclass makes uninitialized parameters and buffers, and defines ``initialize_parameters``, which is called with the arguments of the
    first call. Until then such a module can be moved, cast, saved and loaded; a state that has shapes gives them to it.

    Args:
        *args, **kwargs: those of the class that it is mixed into.
    Attributes:
        cls_to_become: the class of the module after its first call; None where it stays what it is.
    Raises:
        RuntimeError: at the first call, ``initialize_parameters`` leaves a tensor without a shape.
    Source: torch.nn.modules.lazy.LazyModuleMixin.
    Example:
        >>> layer = nn.LazyLinear(3)
        >>> layer(torch.ones(2, 5)).shape
        torch.Size([2, 3])
        >>> layer
        Linear(in_features=5, out_features=3, bias=True)
    """

    cls_to_become: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their shapes and values; gets the arguments of the first call. A subclass defines it."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or a buffer of the module itself has no shape yet."""
        return any(is_lazy(tensor) for tensor in (*self._parameters.values(), *self._buffers.values()))

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Uninitialized tensors are saved as they are: they cannot be detached."""
        tensors = itertools.chain(
            self._parameters.items(),
            ((name, buffer) for name, buffer in self._buffers.items() if name not in self._non_persistent_buffers_set),
        )
        for name, tensor in tensors:
            if tensor is not None:
                destination[prefix + name] = tensor if keep_vars or is_lazy(tensor) else tensor.detach()

    def _lazy_load_hook(self, state_dict: Any, prefix: str, *args: Any) -> None:
        """Give uninitialized tensors the shapes of those in a state."""
        for name, tensor in itertools.chain(self._parameters.items(), self._buffers.items()):
            loaded = state_dict.get(prefix + name)
            if is_lazy(tensor) and loaded is not None and not is_lazy(loaded):
                with no_grad():
                    tensor.materialize(loaded.shape)  # type: ignore[union-attr]

    def _infer_parameters(self, module: Any, args: Any, kwargs: Any = None) -> None:
        """The hook before the first call.

        Raises:
            RuntimeError: ``initialize_parameters`` left a tensor without a shape.
        """
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become
            module.__setstate__({})  # the new class learns the names of the members

    def _replicate_for_data_parallel(self) -> Any:
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy forward pass to correctly initialize "
            "the modules"
        )


def lazy_variant(kind: type[Module], bases: tuple[type, ...], sizes: str, **attributes: Any) -> Any:
    """The class ``Lazy<kind>``, whose instances become a ``kind`` at their first call; ``sizes`` names the argument that it gives."""
    name, init = kind.__name__, next(vars(base)["__init__"] for base in bases[0].__mro__ if "__init__" in vars(base))
    doc = _DOC.format(
        n="n" if name[0] in "AEIOU" else "",
        name=name,
        sizes=sizes,
        arguments=", ".join([argument for argument in inspect.signature(init).parameters if argument != "self"]),
        attributes="weight, bias" if "Conv" in name else "weight, bias, running_mean, running_var",
        note="; ``affine`` and ``track_running_stats`` are True where they are not given" if "Instance" in name else "",
        example="8, kernel_size=3" if "Conv" in name else "",
        shape=", ".join(["2, 3", *"5" * int(name[-2])]),
    )
    return type(f"Lazy{name}", bases, {"__doc__": doc, "__module__": kind.__module__, "cls_to_become": kind, **attributes})
