"""Tensors and modules of a module by dotted names, looked up, set and exchanged. Source: torch.nn.utils._named_member_accessor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...core.state import changes
from ...core.tensor import Tensor
from ..module import Module

__all__ = ["NamedMemberAccessor", "set_tensor", "swap_submodule", "swap_tensor"]

_MISSING: Any = object()


def _check_owner(module: Any, name: str, kind: str) -> None:
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if "." in name:
        raise KeyError(f'{kind} name can\'t contain "."')
    if name == "":
        raise KeyError(f'{kind} name can\'t be empty string ""')


def _check_tensor(tensor: Any) -> None:
    if tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")


def _place_of(module: Module, name: str) -> dict[str, Any]:
    """The dictionary that has, or will have, a module's tensor of that name."""
    return next((own for own in (module._parameters, module._buffers) if name in own), module.__dict__)


def set_tensor(module: Module, name: str, tensor: Tensor | None) -> None:
    """Put a tensor under a module's own name, in the place of a parameter or buffer where one is called so.

    Args:
        module: its owner.
        name: without dots.
        tensor: what stands there from now on, as it is: a plain tensor may stand in a parameter's place.
    Raises:
        TypeError: no module, or no tensor. KeyError: a name with dots, or none.
    """
    _check_owner(module, name, "tensor")
    _check_tensor(tensor)
    _place_of(module, name)[name] = tensor


def swap_tensor(module: Module, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """``set_tensor`` that returns what was there.

    Args:
        module, name: see ``set_tensor``.
        tensor: the new one; ``_MISSING`` takes the old one away.
        allow_missing: whether there may be none; ``_MISSING`` is returned then.
    Raises:
        TypeError: no module, or no tensor, here or there. KeyError: a name with dots, or none. AttributeError: nothing is called so.
    """
    _check_owner(module, name, "tensor")
    if tensor is not _MISSING:
        _check_tensor(tensor)
    place = _place_of(module, name)
    before = place.get(name, _MISSING)
    if before is _MISSING:
        before = getattr(module, name, _MISSING)
        if before is _MISSING and not allow_missing:
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    if before is not _MISSING and before is not None and not isinstance(before, Tensor):
        raise TypeError(f"attribute `{name}`: {before} is not an instance of torch.Tensor")
    changes.count += 1
    if tensor is not _MISSING:
        place[name] = tensor
    elif before is not _MISSING:
        place.pop(name, None)
    return before


def swap_submodule(module: Module, name: str, submodule: Module) -> Module:
    """Put a module under a module's own name; the one that was there.

    Raises:
        TypeError: something is no module. KeyError: a name with dots, or none, or one that no module has.
    """
    if not isinstance(submodule, Module):
        raise TypeError(f"{submodule} is not an instance of torch.nn.Module")
    _check_owner(module, name, "submodule")
    if name not in module._modules:
        raise KeyError(f"submodule {name} does not exist")
    before = module._modules[name]
    if not isinstance(before, Module):
        raise TypeError(f"{name} attribute is not an instance of torch.nn.Module")
    module._modules[name] = submodule
    changes.count += 1
    return before


class NamedMemberAccessor:
    """Tensors and modules below a module by dotted names; modules that were found are remembered.

    Args:
        module: the root.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.memo: dict[str, Module] = {}

    # -- modules ----------------------------------------------------------------------------------------------------------------------
    def get_submodule(self, name: str) -> Module:
        """The module of that name.

        Raises:
            AttributeError: there is none. TypeError: it is none.
        """
        if not name:
            return self.module
        found = self.memo.get(name)
        if found is None:
            path, _, attribute = name.rpartition(".")
            owner = self.get_submodule(path)
            try:
                found = getattr(owner, attribute)
            except AttributeError as error:
                raise AttributeError(f"{owner._get_name()} has no attribute `{attribute}`") from error
            if not isinstance(found, Module):
                raise TypeError(f"submodule `{name}`: {found} is not an instance of torch.nn.Module")
            self.memo[name] = found
        return found

    def swap_submodule(self, path: str, value: Module) -> Module:
        """Put another module there; the one that was there."""
        owner, _, attribute = path.rpartition(".")
        self.memo.clear()
        return swap_submodule(self.get_submodule(owner), attribute, value)

    # -- tensors ----------------------------------------------------------------------------------------------------------------------
    def _split(self, name: str) -> tuple[Module, str]:
        path, _, attribute = name.rpartition(".")
        return self.get_submodule(path), attribute

    def get_tensor(self, name: str) -> Any:
        """The tensor of that name.

        Raises:
            AttributeError: there is none. TypeError: it is none.
        """
        owner, attribute = self._split(name)
        try:
            tensor = getattr(owner, attribute)
        except AttributeError as error:
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`") from error
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"{tensor} is not an instance of torch.Tensor")
        return tensor

    def set_tensor(self, name: str, value: Tensor) -> None:
        """``set_tensor`` on the module that the name leads to."""
        owner, attribute = self._split(name)
        set_tensor(owner, attribute, value)

    def del_tensor(self, name: str) -> None:
        """Take a tensor away.

        Raises:
            AttributeError: there is none.
        """
        owner, attribute = self._split(name)
        try:
            delattr(owner, attribute)
        except AttributeError as error:
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`") from error

    def swap_tensor(self, name: str, value: Any, allow_missing: bool = False) -> Any:
        """``swap_tensor`` on the module that the name leads to."""
        owner, attribute = self._split(name)
        return swap_tensor(owner, attribute, value, allow_missing)

    # -- several of them --------------------------------------------------------------------------------------------------------------
    def get_tensors(self, names: Iterable[str]) -> list[Any]:
        """``get_tensor`` of each."""
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names: Iterable[str], values: Iterable[Tensor]) -> None:
        """``set_tensor`` of each. Raises AssertionError for lists of several lengths."""
        for name, value in zip(*_as_long(names, values), strict=True):
            self.set_tensor(name, value)

    def set_tensors_dict(self, named_tensors: dict[str, Tensor]) -> None:
        """``set_tensor`` of each."""
        for name, value in named_tensors.items():
            self.set_tensor(name, value)

    def del_tensors(self, names: Iterable[str]) -> None:
        """``del_tensor`` of each."""
        for name in names:
            self.del_tensor(name)

    def swap_tensors(self, names: Iterable[str], values: Iterable[Any], allow_missing: bool = False) -> list[Any]:
        """``swap_tensor`` of each. Raises AssertionError for lists of several lengths."""
        return [self.swap_tensor(name, value, allow_missing) for name, value in zip(*_as_long(names, values), strict=True)]

    def swap_tensors_dict(self, named_tensors: dict[str, Any], allow_missing: bool = False) -> tuple[dict[str, Any], list[str]]:
        """``swap_tensor`` of each: what was there by name, and the names that were not there.

        Raises:
            RuntimeError: names that are not there, without ``allow_missing``; nothing is exchanged then.
        """
        before: dict[str, Any] = {}
        missing = []
        try:
            for name, value in named_tensors.items():
                try:
                    before[name] = self.swap_tensor(name, value, allow_missing=True)
                except AttributeError:
                    missing.append(name)
                    continue
                if before[name] is _MISSING:
                    missing.append(name)
            if missing and not allow_missing:
                raise RuntimeError(f"Missing key(s): {', '.join(map(repr, missing))}.")
        except Exception:
            for name, value in before.items():
                self.swap_tensor(name, value, allow_missing=True)
            raise
        return before, missing

    def check_keys(self, keys: Iterable[str]) -> tuple[list[str], list[str]]:
        """Names of tensors that are not among ``keys``, and keys that no tensor has, each sorted."""
        given, own = set(keys), {name for name, _ in self.named_tensors(remove_duplicate=False)}
        return sorted(own - given), sorted(given - own)

    # -- what there is ----------------------------------------------------------------------------------------------------------------
    def named_parameters(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """All parameters with their names."""
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """All buffers with their names."""
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Parameters, then buffers."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """All modules with their names, the root among them."""
        yield from self.module.named_modules(remove_duplicate=remove_duplicate)


def _as_long(names: Iterable[str], values: Iterable[Any]) -> tuple[list[str], list[Any]]:
    names, values = list(names), list(values)
    if len(names) != len(values):
        raise AssertionError(f"names and values must have the same length, got {len(names)} names and {len(values)} values")
    return names, values
