"""Modules that hold modules or parameters: Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

from __future__ import annotations

import operator
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import chain
from typing import Any, Self, overload

from ..core.state import changes
from ..core.tensor import Parameter, Tensor
from .module import Module, _indented, _typename

__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]

sequence: list[Any] = []  # the function of machine code that calls a dictionary's modules one after the other, once it is there


class Container(Module):
    """A module of the keyword arguments' modules, deprecated: subclass ``Module`` instead.

    Args:
        **kwargs: the modules under their names.
    Raises:
        TypeError: an argument that is neither a module nor None.
    Source: torch.nn.Container.
    Example:
        >>> [name for name, _ in nn.Container(first=nn.ReLU(), last=nn.Tanh()).named_children()]
        ['first', 'last']
    """

    def __init__(self, **kwargs: Any) -> None:
        warnings.warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in `nn.Module`. Subclass that instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


def _position(idx: Any, length: int) -> int:
    """``idx`` as a position from 0.

    Raises:
        IndexError: out of range.
    """
    idx = operator.index(idx)
    if not -length <= idx < length:
        raise IndexError(f"index {idx} is out of range")
    return idx % length


def _number(modules: dict[str, Any], items: list[Any]) -> None:
    """Make ``modules`` hold ``items`` under "0", "1", ..."""
    changes.count += 1
    modules.clear()
    modules.update((str(position), item) for position, item in enumerate(items))


def _require_iterable(owner: str, what: str, value: Any) -> None:
    if not isinstance(value, Iterable):
        raise TypeError(f"{owner} should be called with an {what}, but got {type(value).__name__}")


def _pairs(owner: str, entries: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """The key and value of each entry of a sequence of pairs."""
    for position, entry in enumerate(entries):
        if not isinstance(entry, Iterable):
            raise TypeError(f"{owner} update sequence element #{position} should be Iterable; is {type(entry).__name__}")
        pair = tuple(entry)
        if len(pair) != 2:
            raise ValueError(f"{owner} update sequence element #{position} has length {len(pair)}; 2 is required")
        yield pair[0], pair[1]


def _dir_without_numbers(module: Module) -> list[str]:
    return [name for name in Module.__dir__(module) if not name.isdigit()]


class Sequential(Module):
    """Modules that are called one after the other, each with the result of the one before.

    Args:
        *args: modules, named "0", "1", ...; or one ``OrderedDict`` of named modules.
    Shape:
        What the first module takes, and what the last one gives.
    Raises:
        TypeError: an argument that is neither a module nor None.
    Source: torch.nn.Sequential.
    Example:
        >>> network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> network(torch.zeros(3, 4)).shape
        torch.Size([3, 2])
        >>> network[-1]
        Linear(in_features=8, out_features=2, bias=True)
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for position, module in enumerate(args):
                self.add_module(str(position), module)

    def forward(self, input: Any) -> Any:
        if sequence and self.__class__ is Sequential and self._modules.__class__ is dict:
            return sequence[0](self._modules, input)
        for module in self:
            input = module(input)
        return input

    def _key(self, idx: Any) -> str:
        return list(self._modules)[_position(idx, len(self._modules))]

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return self.__class__(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._key(idx)]

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._key(idx), module)

    def __delitem__(self, idx: int | slice) -> None:
        for key in list(self._modules)[idx] if isinstance(idx, slice) else [self._key(idx)]:
            delattr(self, key)
        _number(self._modules, list(self._modules.values()))  # so that append finds the next free name

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __add__(self, other: Any) -> Sequential:
        return Sequential(*self, *self._same_kind(other))

    def __iadd__(self, other: Any) -> Self:
        return self.extend(list(self._same_kind(other)))

    def _same_kind(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return other

    def __mul__(self, other: int) -> Sequential:
        return Sequential(*self._repeated(other))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Self:
        return self.extend(self._repeated(other)[len(self) :])

    def _repeated(self, times: int) -> list[Module]:
        if not isinstance(times, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(times)}")
        if times <= 0:
            raise ValueError(f"Non-positive multiplication factor {times} for {type(self)}")
        return list(self) * times

    def append(self, module: Module) -> Self:
        """Add a module at the end. Source: torch.nn.Sequential.append."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Add modules at the end. Source: torch.nn.Sequential.extend."""
        for module in sequential:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Put a module before position ``index``, which may be negative.

        Raises:
            AssertionError: ``module`` is not a Module.
            IndexError: ``index`` out of range.
        Source: torch.nn.Sequential.insert.
        """
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")  # PyTorch's type
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        modules = list(self)
        modules.insert(index, module)
        _number(self._modules, modules)
        return self

    def pop(self, key: int | slice) -> Any:
        """Remove and return the module at a position. Source: torch.nn.Sequential.pop."""
        module = self[key]
        del self[key]
        return module

    def __dir__(self) -> list[str]:
        return _dir_without_numbers(self)


class ModuleList(Module):
    """A list of modules that registers them.

    Args:
        modules: the modules; an entry may be None.
    Raises:
        TypeError: ``modules`` is not iterable, or an entry is neither a module nor None.
    Source: torch.nn.ModuleList.
    Example:
        >>> layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        >>> len(layers), len(list(layers.parameters()))
        (3, 6)
        >>> layers[1]
        Linear(in_features=4, out_features=4, bias=True)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    @overload
    def __getitem__(self, idx: int) -> Any: ...
    @overload
    def __getitem__(self, idx: slice) -> ModuleList: ...
    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return self.__class__(list(self._modules.values())[idx])
        return self._modules[str(_position(idx, len(self)))]

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, str(_position(idx, len(self))), module)

    def __delitem__(self, idx: int | slice) -> None:
        modules = list(self._modules.values())
        if not isinstance(idx, slice):
            idx = _position(idx, len(modules))
        del modules[idx]
        _number(self._modules, modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList(chain(self, other))

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def append(self, module: Module | None) -> Self:
        """Add a module at the end. Source: torch.nn.ModuleList.append."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end.

        Raises:
            TypeError: ``modules`` is not iterable.
        Source: torch.nn.ModuleList.extend.
        """
        _require_iterable("ModuleList.extend", "iterable", modules)
        for module in modules:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> None:
        """Put a module before position ``index``. Source: torch.nn.ModuleList.insert."""
        modules = list(self._modules.values())
        modules.insert(index, module)
        _number(self._modules, modules)

    def pop(self, key: int | slice) -> Any:
        """Remove and return the module at a position. Source: torch.nn.ModuleList.pop."""
        module = self[key]
        del self[key]
        return module

    def __repr__(self) -> str:
        """As any module's, but neighbours that print alike share a line: ``(0-2): 3 x Linear(...)``."""
        groups: list[list[Any]] = []  # first position, last position, text
        for position, module in enumerate(self):
            text = repr(module)
            if groups and groups[-1][2] == text:
                groups[-1][1] = position
            else:
                groups.append([position, position, text])
        if not groups:
            return f"{self._get_name()}()"
        lines = []
        for first, last, text in groups:
            label = f"({first}): " if first == last else f"({first}-{last}): {last - first + 1} x "
            lines.append(_indented(label + text))
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"

    def __dir__(self) -> list[str]:
        return _dir_without_numbers(self)


class ModuleDict(Module):
    """A dictionary of modules that registers them, in the order of insertion.

    Args:
        modules: a mapping, or pairs, of names and modules. A name may not be that of an attribute of Module.
    Raises:
        TypeError: ``modules`` is neither a mapping nor pairs.
        ValueError: an entry that is not a pair.
        KeyError: a name that is taken, empty or has a dot.
    Source: torch.nn.ModuleDict.
    Example:
        >>> choices = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})
        >>> choices["relu"](torch.tensor([-1.0, 1.0]))
        tensor([0., 1.])
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module | None) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        changes.count += 1
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all modules. Source: torch.nn.ModuleDict.clear."""
        changes.count += 1
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Remove and return a module. Source: torch.nn.ModuleDict.pop."""
        module = self[key]
        del self[key]
        return module

    def keys(self) -> KeysView[str]:
        """The names. Source: torch.nn.ModuleDict.keys."""
        return self._modules.keys()

    def items(self) -> Any:
        """Pairs of name and module. Source: torch.nn.ModuleDict.items."""
        return self._modules.items()

    def values(self) -> ValuesView[Any]:
        """The modules. Source: torch.nn.ModuleDict.values."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add or replace modules.

        Args:
            modules: a mapping, or pairs, of names and modules.
        Raises:
            TypeError: neither.
            ValueError: an entry is not a pair.
        Source: torch.nn.ModuleDict.update.
        """
        _require_iterable("ModuleDict.update", "iterable of key/value pairs", modules)
        is_mapping = isinstance(modules, (Mapping, ModuleDict))
        for key, module in modules.items() if is_mapping else _pairs("ModuleDict", modules):
            self[key] = module


def _as_parameter(value: Any) -> Any:
    """A tensor as a Parameter; anything else as it is."""
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _describe(key: Any, value: Any, kind: str) -> str:
    """One line of a printed ParameterList or ParameterDict."""
    if not isinstance(value, Tensor):
        return f"  ({key}): Object of type: {type(value).__name__}"
    size = "x".join(str(length) for length in value.size())
    label = "Parameter" if isinstance(value, Parameter) else "Tensor"
    where = "" if value.device.type in ("cpu", "meta") else f" ({value.device})"
    return f"  ({key}): {label} containing: [{kind} of size {size}{where}]"


class ParameterList(Module):
    """A list of parameters that registers them. A tensor becomes a Parameter; other values are kept as they are.

    Args:
        values: the entries.
    Raises:
        TypeError: ``values`` is not iterable, or is a single tensor.
    Source: torch.nn.ParameterList.
    Example:
        >>> weights = nn.ParameterList([torch.zeros(2), torch.zeros(2, 3)])
        >>> [tuple(weight.shape) for weight in weights.parameters()]
        [(2,), (2, 3)]
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    @overload
    def __getitem__(self, idx: int) -> Any: ...
    @overload
    def __getitem__(self, idx: slice) -> ParameterList: ...
    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return self.__class__([self[position] for position in range(*idx.indices(len(self)))])
        return getattr(self, str(_position(idx, len(self))))

    def __setitem__(self, idx: int, param: Any) -> None:
        setattr(self, str(_position(idx, len(self))), _as_parameter(param))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[position] for position in range(len(self))])

    def __iadd__(self, parameters: Iterable[Any]) -> Self:
        return self.extend(parameters)

    def append(self, value: Any) -> Self:
        """Add an entry at the end. Source: torch.nn.ParameterList.append."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add entries at the end.

        Raises:
            TypeError: ``values`` is not iterable, or is a single tensor.
        Source: torch.nn.ParameterList.extend.
        """
        if isinstance(values, Tensor) or not isinstance(values, Iterable):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(
            _describe(position, value, str(value.dtype) if isinstance(value, Tensor) else "") for position, value in enumerate(self)
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")

    def __dir__(self) -> list[str]:
        return _dir_without_numbers(self)


class ParameterDict(Module):
    """A dictionary of parameters that registers them. A tensor becomes a Parameter; other values are kept as they are.

    Args:
        parameters: a mapping, or pairs, of names and values.
    Raises:
        TypeError: ``parameters`` is neither a mapping nor pairs, or a name is not a string.
        ValueError: an entry that is not a pair.
    Source: torch.nn.ParameterDict.
    Example:
        >>> weights = nn.ParameterDict({"scale": torch.ones(2), "shift": torch.zeros(2)})
        >>> [name for name, _ in weights.named_parameters()]
        ['scale', 'shift']
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    @staticmethod
    def _attribute(key: Any) -> str:
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string "
                f"(type is '{type(key).__name__}'): parameters are registered by name"
            )
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._attribute(key))

    def __setitem__(self, key: str, value: Any) -> None:
        name = self._attribute(key)
        setattr(self, name, _as_parameter(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._attribute(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """A new dictionary of the same parameters. Source: torch.nn.ParameterDict.copy."""
        return ParameterDict(OrderedDict((key, self[key]) for key in self._keys))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of ``key``, which becomes ``default`` if there is none. Source: torch.nn.ParameterDict.setdefault."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove all entries. Source: torch.nn.ParameterDict.clear."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove and return a value. Source: torch.nn.ParameterDict.pop."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the last entry. Source: torch.nn.ParameterDict.popitem."""
        key, _ = self._keys.popitem()
        self._keys[key] = None
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of ``key``, or ``default``. Source: torch.nn.ParameterDict.get."""
        return self[key] if key in self else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new dictionary with ``default`` under every key. Source: torch.nn.ParameterDict.fromkeys."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> KeysView[str]:
        """The names. Source: torch.nn.ParameterDict.keys."""
        return self._keys.keys()

    def items(self) -> Iterator[tuple[str, Any]]:
        """Pairs of name and value. Source: torch.nn.ParameterDict.items."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterator[Any]:
        """The values. Source: torch.nn.ParameterDict.values."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Add or replace entries; those of a mapping without order (a plain ``dict``) in the order of the keys.

        Args:
            parameters: a mapping, or pairs, of names and values.
        Raises:
            TypeError: neither.
            ValueError: an entry is not a pair.
        Source: torch.nn.ParameterDict.update.
        """
        _require_iterable("ParametersDict.update", "iterable of key/value pairs", parameters)
        if isinstance(parameters, (OrderedDict, ParameterDict)):
            entries: Iterable[tuple[Any, Any]] = parameters.items()
        elif isinstance(parameters, Mapping):
            entries = sorted(parameters.items())
        else:
            entries = _pairs("ParameterDict", parameters)
        for key, value in entries:
            self[key] = value

    def __or__(self, other: Any) -> ParameterDict:
        merged = self.copy()
        merged.update(other)
        return merged

    def __ror__(self, other: Any) -> Any:
        merged = other.copy()
        merged.update(self)
        return merged

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self

    def extra_repr(self) -> str:
        return "\n".join(_describe(key, value, _typename(value)) for key, value in self.items())

    def __call__(self, input: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")
