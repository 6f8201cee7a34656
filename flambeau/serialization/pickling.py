"""Picklers and unpicklers for storages and PyTorch's names."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from types import FunctionType
from typing import IO, Any

from ..core.calls.return_types import NamedResult
from ..core.dtype import dtype, uint8
from ..core.layout import layout, memory_format
from ..core.protocols.rebuild import shown
from ..core.random.generator import Generator
from ..core.storage import TypedStorage, UntypedStorage
from ..core.tensor import wrap
from .homes import is_foreign, public_object, spelling
from .locations import location_tag
from .names import DATA, STORAGE_TYPES, StorageType, _get_layout


class SavedStorages:
    """The storages that a pickle mentions, numbered in the order of their first mention."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[UntypedStorage, dtype]] = {}
        self._keys: dict[Any, str] = {}

    def identify(self, value: Any) -> tuple[Any, ...] | None:
        """Persistent identifier of a storage in the pickle; None for anything else.

        Raises:
            RuntimeError: the same memory was mentioned with another dtype, which the format cannot say.
        """
        if isinstance(value, TypedStorage):
            storage: UntypedStorage = value._untyped_storage
            element: dtype | None = value.dtype
        elif isinstance(value, UntypedStorage):
            storage, element = value, None  # no dtype of its own
        else:
            return None
        kind: Any = UntypedStorage if element is None else STORAGE_TYPES.get(element, UntypedStorage)
        if element is None or kind is UntypedStorage:
            element = uint8
        nbytes = storage.nbytes()
        # x and x.data have a storage object each: memory decides, not the object.
        identity = (storage.data_ptr(), nbytes) if nbytes else id(storage)
        key = self._keys.setdefault(identity, str(len(self._keys)))
        known = self.found.setdefault(key, (storage, element))
        if nbytes and known[1] is not element:
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different types: expected "
                f"{known[1]} as before, got {element}; save a clone of one of them"
            )
        return ("storage", kind, key, location_tag(storage), nbytes // element.itemsize)


# Python's pickler in Python, of which its documentation does not speak, but on which dill and cloudpickle build as well.
PYTHON_PICKLER: Any = pickle._Pickler
_PUT = [pickle.BINPUT + bytes((index,)) for index in range(256)]


class NamingPickler(PYTHON_PICKLER):
    """Names this package's types of data as PyTorch does. The pickler in C cannot: it insists that a name can be imported."""

    def __init__(self, file: IO[bytes], protocol: int) -> None:
        super().__init__(file, protocol=protocol)
        if self.proto < 4:
            self.write = file.write  # there are no frames before protocol 4

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        """Write an object: by its class where that has a function in ``dispatch``, which no storage and no result with names has."""
        if self.proto >= 4:
            super().save(obj, save_persistent_id)
        elif id(obj) in self.memo:
            self.write(self.get(self.memo[id(obj)][0]))
        elif (write := self.dispatch.get(type(obj))) is not None:
            write(self, obj)
        else:
            super().save(obj, save_persistent_id)

    def memoize(self, obj: Any) -> None:
        """Number what was just written, so that it can be named again."""
        index = len(self.memo)
        if self.proto in (2, 3) and index < len(_PUT):
            self.write(_PUT[index])
            self.memo[id(obj)] = index, obj
        else:
            super().memoize(obj)

    def save_global(self, obj: Any, name: str | None = None) -> None:
        spelled = spelling(obj)
        if spelled is None:
            super().save_global(obj, name)
            return
        module, qualified = spelled
        owner, _, last = qualified.rpartition(".")
        if self.proto >= 4:
            self.save(module)
            self.save(qualified)
            self.write(pickle.STACK_GLOBAL)
            self.memoize(obj)
        elif owner:  # protocol 2 knows names without dots
            self.save_reduce(getattr, (public_object(module, owner), last), obj=obj)
        else:
            self.write(pickle.GLOBAL + f"{module}\n{last}\n".encode())
            self.memoize(obj)

    def reducer_override(self, obj: Any) -> Any:
        """Reduce results with names, and generators, whose state is a tensor, as PyTorch's files do."""
        if isinstance(obj, NamedResult):
            return type(obj), (tuple(obj), {})
        if isinstance(obj, Generator):
            function, _, (seed, offset, state) = obj.__reduce__()
            return function, (obj.device,), (seed, offset, wrap(state))
        return NotImplemented

    def _save_layout(self, obj: Any) -> None:
        self.save_reduce(_get_layout, (str(obj),), obj=obj)

    dispatch = {
        **PYTHON_PICKLER.dispatch,
        FunctionType: save_global,
        dtype: save_global,
        StorageType: save_global,
        memory_format: save_global,
        layout: _save_layout,
    }


def dump(value: Any, file: IO[bytes], pickle_module: Any, protocol: int, identify: Callable[[Any], Any]) -> None:
    """Pickle an object, with storages replaced by what ``identify`` gives.

    Another pickle module than Python's own names flambeau's types as flambeau's, and PyTorch cannot read them.
    """
    base = NamingPickler if pickle_module is pickle else pickle_module.Pickler

    class FilePickler(base):  # type: ignore[misc,valid-type]
        persistent_id = staticmethod(identify)

    FilePickler(file, protocol=protocol).dump(value)


def unrestricted(pickle_module: Any, file: IO[bytes], persistent_load: Callable[[Any], Any], arguments: dict[str, Any]) -> Any:
    """Read one object with an unpickler that may import and call anything, as the caller asked for."""

    class FileUnpickler(pickle_module.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            # from protocol 4 on a memory format's name is whole, and its module any that has torch, a program's own among them
            value = DATA.get(name) if name.startswith("torch.") else None
            if value is None and not is_foreign(module):
                return super().find_class(module, name)
            if value is None:
                value = DATA.get(f"{module}.{name}")
            if value is None:
                value = public_object(module, name)
            if value is None:
                raise pickle.UnpicklingError(f"load: the file needs {module}.{name}, for which there is no counterpart here")
            # PyTorch's files give them a dictionary of further fields, which has no items
            return value._from_file if isinstance(value, type) and issubclass(value, NamedResult) else value

        def persistent_load(self, pid: Any) -> Any:
            return persistent_load(pid)

    return FileUnpickler(file, **arguments).load()


def checked_storage_id(pid: Any, length: int) -> Any:
    """The parts of a storage's persistent id after the word ``storage``, with texts as ``str``.

    Raises:
        RuntimeError: it is something else.
    """
    if isinstance(pid, tuple) and len(pid) == length:
        word, kind, key, location, numel, *rest = [part.decode("ascii", "replace") if isinstance(part, bytes) else part for part in pid]
        if (
            type(word) is str
            and word == "storage"
            and isinstance(key, str)
            and isinstance(location, str)
            and type(numel) is int
            and numel >= 0
        ):
            if kind is UntypedStorage or isinstance(kind, StorageType):
                return kind, key, location, numel, *rest
    raise RuntimeError(f"load: expected the id of a storage, got {shown(pid)}")
