"""A reader of pickles that can make data and nothing else.

Pickle is a small program for a stack machine, and two of its instructions reach the outside: GLOBAL fetches an object by name, REDUCE
(also NEWOBJ and BUILD) calls it. Here GLOBAL looks in a table and never imports, and only what the table marks as callable is called. An
instruction that PyTorch's files do not need is an error. Source: Python's pickletools documents the instructions.
"""

from __future__ import annotations

import pickle
import struct
import warnings
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections import Counter, OrderedDict
from collections.abc import Callable
from types import TracebackType
from typing import IO, Any

from ..core.protocols.rebuild import shown
from ..core.shape import Size
from ..core.tensor import Parameter, Tensor
from .homes import spelling
from .names import CALLABLE, DATA, OWN_DATA

# Never to be had, not even where a program lists them as safe.
BLOCKED_MODULES = frozenset(("sys", "os", "posix", "nt"))

# Items of a tuple that is a key, inner tuples' included. Hashing goes through all of them, however often one object stands in it, in
# calls of the C stack: a few bytes can make a tuple of 2**60 items, or one that is nested too deeply to be hashed.
KEY_ITEMS = 256
AT_ONCE = 1 << 20  # bytes; a file that is cut off, or was never as long as it says, must not have memory set aside for all of it

_marked_safe: list[Any] = []
_CALLABLE_IDS = {id(function) for function in CALLABLE.values()}


def _full_name(entry: Any) -> tuple[str, Any]:
    """Name in the file and object of an entry of the list of safe globals."""
    if not isinstance(entry, tuple):
        return f"{entry.__module__}.{entry.__qualname__}", entry
    if len(entry) != 2:
        raise ValueError(f"add_safe_globals: expected pairs (object, name in the file), got a tuple of length {len(entry)}")
    if type(entry[1]) is not str:
        raise TypeError(f"add_safe_globals: expected the second item of a pair to be the name in the file, got {type(entry[1]).__name__}")
    return entry[1], entry[0]


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Let ``load(weights_only=True)`` use these classes and functions: files may then call them with any arguments.

    Args:
        safe_globals: classes and functions, or pairs (object, full name that the file uses for it).
    Source: torch.serialization.add_safe_globals.
    Example:
        >>> import fractions
        >>> torch.serialization.add_safe_globals([fractions.Fraction])
        >>> fractions.Fraction in torch.serialization.get_safe_globals()
        True
        >>> torch.serialization.clear_safe_globals()
    """
    _marked_safe.extend(value for value in safe_globals if value not in _marked_safe)


def get_safe_globals() -> list[Any]:
    """The classes and functions that were added by ``add_safe_globals`` and not taken back.

    Returns: a list.
    Source: torch.serialization.get_safe_globals.
    Example:
        >>> torch.serialization.get_safe_globals()
        []
    """
    return list(_marked_safe)


def clear_safe_globals() -> None:
    """Forget all that was added by ``add_safe_globals``.

    Source: torch.serialization.clear_safe_globals.
    Example:
        >>> torch.serialization.clear_safe_globals()
    """
    _marked_safe.clear()


class safe_globals:
    """Lets ``load(weights_only=True)`` use further classes and functions inside a ``with`` block.

    Args:
        safe_globals: as for ``add_safe_globals``.
    Source: torch.serialization.safe_globals.
    Example:
        >>> import fractions
        >>> with torch.serialization.safe_globals([fractions.Fraction]):
        ...     torch.serialization.get_safe_globals()
        [<class 'fractions.Fraction'>]
    """

    def __init__(self, safe_globals: list[Any]) -> None:
        self.safe_globals = safe_globals

    def __enter__(self) -> None:
        add_safe_globals(self.safe_globals)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _marked_safe[:] = [value for value in _marked_safe if value not in self.safe_globals]


def current_name(module: str, name: str) -> tuple[str, str]:
    """A name of Python 2, as protocol 2 writes it, in its spelling of today."""
    if (module, name) in NAME_MAPPING:
        return NAME_MAPPING[module, name]
    return IMPORT_MAPPING.get(module, module), name


def allowed_names() -> set[str]:
    """Every name that a restricted load accepts at this moment."""
    return {*DATA, *OWN_DATA, *_names_of_marked()}


def _names_of_marked() -> dict[str, Any]:
    """Objects marked as safe, by their names in files: flambeau's Linear is torch.nn.modules.linear.Linear as well."""
    named = dict(_full_name(entry) for entry in _marked_safe)
    for entry in _marked_safe:
        spelled = None if isinstance(entry, tuple) else spelling(entry)
        if spelled is not None:
            named[".".join(spelled)] = entry
    return named


def _no_persistent_load(pid: Any) -> Any:
    raise pickle.UnpicklingError("unsupported persistent id encountered")


class Unpickler:
    """Reads one pickled object.

    Attributes:
        persistent_load: from an id to the object that lies outside the pickle; set by the reader of the file.

    Args:
        file: has ``read`` and ``readline``.
        encoding: of Python 2's strings; ``"bytes"`` leaves them as bytes.
    Raises:
        pickle.UnpicklingError: the pickle asks for something that is not on the list, or is damaged.
        EOFError: it ends too early.
    """

    def __init__(self, file: IO[bytes], *, encoding: str = "bytes") -> None:
        self._file = file
        self._encoding = encoding
        self._memo: dict[int, Any] = {}
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []
        self.persistent_load: Callable[[Any], Any] = _no_persistent_load
        # Fixed for the whole load, so that nothing the file makes can widen it.
        self._user = _names_of_marked()
        self._user_ids = {id(value) for value in self._user.values()}

    def load(self) -> Any:
        """Run the pickle to its end and return what it made."""
        read = self._file.read
        while True:
            code = read(1) or self._read(1)
            if code == pickle.STOP:
                return self._pop()
            if code in _INSTRUCTIONS:
                _INSTRUCTIONS[code](self)
            elif code in _WITH_NUMBER:
                number, instruction = _WITH_NUMBER[code]
                data = read(number.size)
                if len(data) != number.size:
                    data = self._rest(data, number.size)
                instruction(self, number.unpack(data)[0])
            else:
                raise pickle.UnpicklingError(f"Unsupported operand {code[0]}")

    # -- the machine ------------------------------------------------------------------------------------------------------
    def _read(self, count: int) -> bytes:
        data = self._file.read(min(count, AT_ONCE))
        return data if len(data) == count else self._rest(data, count)

    def _rest(self, start: bytes, count: int) -> bytes:
        data = bytearray(start)
        while len(data) < count:
            more = self._file.read(min(count - len(data), AT_ONCE))
            if not more:
                raise EOFError("Ran out of input: the pickle ends in the middle")
            data += more
        return bytes(data)

    def _line(self) -> str:
        line = self._file.readline(4096)
        if not line.endswith(b"\n"):
            raise pickle.UnpicklingError("expected the name of a global on a line of its own")
        return str(line[:-1], "utf-8", "backslashreplace")

    def _pop(self) -> Any:
        if not self._stack:
            raise pickle.UnpicklingError("pickle damaged: it takes an item from an empty stack")
        return self._stack.pop()

    def _top(self) -> Any:
        if not self._stack:
            raise pickle.UnpicklingError("pickle damaged: it uses an item of an empty stack")
        return self._stack[-1]

    def _pop_mark(self) -> list[Any]:
        if not self._below:
            raise pickle.UnpicklingError("pickle damaged: it goes back to a mark that it never set")
        items, self._stack = self._stack, self._below.pop()
        return items

    def _mark(self) -> None:
        self._below.append(self._stack)
        self._stack = []

    # -- names and calls --------------------------------------------------------------------------------------------------
    def _global(self) -> None:
        module, name = current_name(self._line(), self._line())
        full_name = f"{module}.{name}"
        if module.partition(".")[0] in BLOCKED_MODULES:
            raise pickle.UnpicklingError(f"Trying to load unsupported GLOBAL {full_name:.200} whose module {module:.200} is blocked.")
        for table in (DATA, OWN_DATA, self._user):
            if full_name in table:
                self._stack.append(table[full_name])
                return
        shown = f"{full_name.removeprefix('builtins.'):.200}"
        raise pickle.UnpicklingError(
            f"Unsupported global: GLOBAL {shown} was not an allowed global by default. Please use "
            f"`torch.serialization.add_safe_globals([{shown}])` or the `torch.serialization.safe_globals([{shown}])` context manager to "
            "allowlist this global if you trust this class/function."
        )

    def _reduce(self) -> None:
        args, function = self._pop(), self._pop()
        if type(args) is not tuple:
            raise pickle.UnpicklingError(f"expected the arguments of a call in a tuple, got {type(args).__name__}")
        if id(function) in self._user_ids:
            self._stack.append(function(*args))
            return
        if id(function) not in _CALLABLE_IDS:
            raise pickle.UnpicklingError(f"Trying to call reduce for unrecognized function {shown(function)}")
        if function in (OrderedDict, Counter, set, Size) and args:
            _check_contents(function, args[0])
        try:
            self._stack.append(function(*args))
        except (TypeError, ValueError, AttributeError, LookupError, OverflowError) as error:
            raise pickle.UnpicklingError(f"pickle damaged: {function.__name__} cannot be called like this: {error}") from error

    def _new_object(self) -> None:
        args, cls = self._pop(), self._pop()
        if type(args) is not tuple:
            raise pickle.UnpicklingError(f"expected the arguments of a new object in a tuple, got {type(args).__name__}")
        if cls is Parameter and args and isinstance(args[0], Tensor):
            try:
                self._stack.append(Parameter(*args))
            except (TypeError, RuntimeError) as error:
                raise pickle.UnpicklingError(f"pickle damaged: Parameter cannot be made like this: {error}") from error
        elif cls in (OrderedDict, Counter) or (isinstance(cls, type) and id(cls) in self._user_ids):
            self._stack.append(cls.__new__(cls, *args))
        else:
            raise pickle.UnpicklingError(
                f"Can only create new object for nn.Parameter or classes allowlisted via `add_safe_globals` but got {shown(cls)}"
            )

    def _build(self) -> None:
        state, target = self._pop(), self._top()
        self._set_state(target, state)

    def _set_state(self, target: Any, state: Any) -> None:
        """Give an object that was made its state."""
        kind = type(target)
        if kind in (OrderedDict, Counter):
            _set_attributes(target, state)
        elif id(kind) not in self._user_ids:
            raise pickle.UnpicklingError(
                f"Can only build OrderedDict or types allowlisted via `add_safe_globals`, but got {kind.__module__}.{kind.__qualname__}"
            )
        elif hasattr(kind, "__setstate__"):
            target.__setstate__(state)
        else:
            attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
            target.__dict__.update(attributes or {})
            for name, value in (slots or {}).items():
                setattr(target, name, value)

    def _persistent(self) -> None:
        pid = self._pop()
        if type(pid) is not tuple and type(pid) is not int:
            raise pickle.UnpicklingError(f"persistent_load id must be tuple or int, but got {type(pid).__name__}")
        # Only texts are compared: a tensor in a file's place would compare all its elements, of which there may be any number.
        if type(pid) is tuple and (not pid or type(pid[0]) not in (str, bytes) or pid[0] not in ("storage", b"storage")):
            raise pickle.UnpicklingError(f"Only persistent_load of storage is allowed, but got {shown(pid[:1])}")
        self._stack.append(self.persistent_load(pid))

    # -- containers -------------------------------------------------------------------------------------------------------
    def _list(self) -> list[Any]:
        target = self._top()
        if type(target) is not list:
            raise pickle.UnpicklingError(f"Can only append to lists, but got {type(target).__name__}")
        return target

    def _append(self) -> None:
        item = self._pop()
        self._list().append(item)

    def _appends(self) -> None:
        items = self._pop_mark()
        self._list().extend(items)

    def _set_items(self, items: list[Any]) -> None:
        target = self._top()
        if type(target) not in (dict, OrderedDict, Counter):
            raise pickle.UnpicklingError(
                f"Can only set items of dict, collections.OrderedDict, collections.Counter, but got {type(target).__name__}"
            )
        if len(items) % 2:
            raise pickle.UnpicklingError("pickle damaged: a key without a value")
        for key, value in zip(items[::2], items[1::2], strict=True):
            _check_key(key)
            try:
                target[key] = value
            except TypeError as error:
                raise pickle.UnpicklingError(f"expected a hashable key, got {type(key).__name__}") from error

    def _set_item(self) -> None:
        value, key = self._pop(), self._pop()
        self._set_items([key, value])

    def _marked_tuple(self) -> None:
        items = self._pop_mark()
        self._stack.append(tuple(items))

    # -- values -----------------------------------------------------------------------------------------------------------
    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _long(self, length: int) -> None:
        self._stack.append(pickle.decode_long(self._read(length)))

    def _text(self, length: int) -> None:
        data = self._read(length)
        try:
            self._stack.append(str(data, "utf-8", "surrogatepass"))
        except UnicodeDecodeError as error:
            raise pickle.UnpicklingError(f"pickle damaged: text that is not UTF-8 ({error})") from None

    def _python2_text(self, length: int) -> None:
        data = self._read(length)
        try:
            self._stack.append(data if self._encoding == "bytes" else data.decode(self._encoding, "strict"))
        except UnicodeDecodeError as error:
            raise pickle.UnpicklingError(f"pickle damaged: text that is not {self._encoding} ({error})") from None

    def _recall(self, index: int) -> None:
        if index not in self._memo:
            raise pickle.UnpicklingError(f"Memo value not found at index {index}")
        self._stack.append(self._memo[index])

    def _memorize(self, index: int) -> None:
        self._memo[index] = self._stack[-1] if self._stack else self._top()  # no call: every third instruction is this one

    def _protocol(self, protocol: int) -> None:
        if protocol != 2:
            warnings.warn(
                f"Detected pickle protocol {protocol} in the checkpoint, which was not the default pickle protocol used by `torch.load` "
                "(2). A load with weights_only=True knows the instructions of protocol 2 only.",
                UserWarning,
                stacklevel=4,
            )


def _check_key(key: Any) -> None:
    """Whether a key can be hashed, and in no time."""
    if not isinstance(key, tuple):
        return
    waiting, count = [key], 0
    while waiting:
        items = waiting.pop()
        count += len(items)
        if count > KEY_ITEMS:
            raise pickle.UnpicklingError(f"expected at most {KEY_ITEMS} items in a tuple that is a key")
        waiting.extend(item for item in items if isinstance(item, tuple))


def _check_contents(function: Any, source: Any) -> None:
    """Whether a container can be made of ``source``: not of a tensor, which may have any number of elements in a few bytes."""
    if type(source) not in (list, tuple, set, Size, dict, OrderedDict, Counter):
        raise pickle.UnpicklingError(f"expected the items of {function.__name__} in a list, got {type(source).__name__}")
    if function is Size or isinstance(source, dict):
        return
    for item in source:
        if function is OrderedDict and (type(item) not in (list, tuple) or len(item) != 2):
            raise pickle.UnpicklingError(f"expected pairs of key and value for OrderedDict, got {type(item).__name__}")
        _check_key(item[0] if function is OrderedDict else item)


def _set_attributes(target: Any, state: Any) -> None:
    """Attributes of a dictionary, such as a state_dict's ``_metadata``."""
    if type(state) is not dict or not all(type(name) is str for name in state):
        raise pickle.UnpicklingError(f"expected the attributes of {type(target).__name__} in a dict of names, got {type(state).__name__}")
    shadowed = [name for name in state if hasattr(type(target), name)]
    if shadowed:
        given = shown(shadowed[0])
        raise pickle.UnpicklingError(f"expected attributes beside those of {type(target).__name__}, got {given}, which replaces one")
    target.__dict__.update(state)


def _tuple_of(count: int) -> Callable[[Unpickler], None]:
    """The instruction that makes a tuple of the last items."""

    def make(self: Unpickler) -> None:
        if len(self._stack) < count:
            raise pickle.UnpicklingError("pickle damaged: it takes an item from an empty stack")
        self._stack[-count:] = [tuple(self._stack[-count:])]

    return make


_INSTRUCTIONS: dict[bytes, Callable[[Unpickler], Any]] = {
    pickle.GLOBAL: Unpickler._global,
    pickle.REDUCE: Unpickler._reduce,
    pickle.NEWOBJ: Unpickler._new_object,
    pickle.BUILD: Unpickler._build,
    pickle.BINPERSID: Unpickler._persistent,
    pickle.MARK: Unpickler._mark,
    pickle.APPEND: Unpickler._append,
    pickle.APPENDS: Unpickler._appends,
    pickle.SETITEM: Unpickler._set_item,
    pickle.SETITEMS: lambda self: self._set_items(self._pop_mark()),
    pickle.TUPLE: Unpickler._marked_tuple,
    pickle.TUPLE1: _tuple_of(1),
    pickle.TUPLE2: _tuple_of(2),
    pickle.TUPLE3: _tuple_of(3),
    pickle.NONE: lambda self: self._stack.append(None),
    pickle.NEWFALSE: lambda self: self._stack.append(False),
    pickle.NEWTRUE: lambda self: self._stack.append(True),
    pickle.EMPTY_TUPLE: lambda self: self._stack.append(()),
    pickle.EMPTY_LIST: lambda self: self._stack.append([]),
    pickle.EMPTY_DICT: lambda self: self._stack.append({}),
    pickle.EMPTY_SET: lambda self: self._stack.append(set()),
}
_BYTE, _SHORT, _UNSIGNED = struct.Struct("<B"), struct.Struct("<H"), struct.Struct("<I")
# Instructions that are followed by a number, with the form of that.
_WITH_NUMBER: dict[bytes, tuple[struct.Struct, Callable[[Unpickler, Any], Any]]] = {
    pickle.PROTO: (_BYTE, Unpickler._protocol),
    pickle.BININT: (struct.Struct("<i"), Unpickler._push),
    pickle.BININT1: (_BYTE, Unpickler._push),
    pickle.BININT2: (_SHORT, Unpickler._push),
    pickle.BINFLOAT: (struct.Struct(">d"), Unpickler._push),
    pickle.LONG1: (_BYTE, Unpickler._long),
    pickle.BINUNICODE: (_UNSIGNED, Unpickler._text),
    pickle.SHORT_BINSTRING: (_BYTE, Unpickler._python2_text),
    pickle.BINGET: (_BYTE, Unpickler._recall),
    pickle.LONG_BINGET: (_UNSIGNED, Unpickler._recall),
    pickle.BINPUT: (_BYTE, Unpickler._memorize),
    pickle.LONG_BINPUT: (_UNSIGNED, Unpickler._memorize),
}
