"""Tables of all operations by namespace, and the decorators that fill them.

    @op(...)          a primitive: a kernel over arrays with its derivative
    @composite(...)   a plain function over other operations, no derivative of its own
    @functional(...)  ... in ``torch.nn.functional`` and in ``torch``
    @factory(...)     a function that makes an array from sizes, numbers or data
    @method(...)      a function that exists as a Tensor method only

``TABLES['torch']['add']`` is the entry behind ``flambeau.add``.  Wrappers are generated when a name is first used, so importing a
family costs a table row per operation.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypeVar

from ..dtype import can_cast
from ..late import made_once
from ..state import active, modes, overriding, thread, wrappers as wrapper_classes
from ..tape.derivatives import OpNode, make_node_class
from ..tape.history import check_overlap
from ..tensor import Tensor
from . import wrappers
from .creation import OPTIONS
from .dispatch import COMPOSITE, check_elements, check_operands
from .operation import BOOL, Op, Param, Sheet, pop_autocast
from .out import SILENT
from .override import call_override, default_torch_function, plainly
from .tables import TABLES, import_late, imported, late_families
from .wrapper_source import Source, add_other_keywords, inplace_doc, is_plain, no_mode, signature_of, tuple_source

# What a decorator for operations is to type checkers. With a callable as its result they know every declared operation from the
# start, also in the rules of decorators that stand above its definition.
Declare: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
_Function = TypeVar("_Function", bound=Callable[..., Any])


class Declared(Sheet):
    """A declaration that its family's module may call."""

    wrapper: Any
    is_settled = False  # whether the module has the wrapper; other modules go on calling the entry

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A call by a function of the family: the wrapper takes this entry's place in its module, and the next call finds it there."""
        if not self.is_settled:
            scope = sys.modules[self.module].__dict__
            for name, value in list(scope.items()):
                if value is self:
                    scope[name] = self.wrapper
            self.is_settled = True
        return self.wrapper(*args, **kwargs)


class Entry(Declared, Op):
    """A declared primitive and its wrappers."""

    @made_once
    def wrapper(self) -> Any:
        """The public function."""
        return wrappers.make_wrapper(self)

    @made_once
    def reduced_wrapper(self) -> Any:
        """The fast path of operands in half precision; None where there is none."""
        return wrappers.make_reduced(self) if wrappers.is_widened(self) else None

    @made_once
    def inplace_wrapper(self) -> Any:
        return wrappers.make_inplace(self, self.name + "_")

    @property
    def public_inplace_wrapper(self) -> Any:
        """The in-place form as users see it."""
        return self.public_inplace or self.inplace_wrapper

    @made_once
    def node(self) -> type[OpNode]:
        """The class of this operation's tape nodes."""
        return make_node_class(self)


class Composite(Sheet):
    """A declared composite: its body is the function itself; the wrapper adds overrides and ``out=``."""

    overloads = ()
    any_device = False

    def __init__(self, body: Callable[..., Any], options: dict[str, Any]):
        super().__init__(body, options)
        self.body = body
        self.method: bool = options.pop("method", True)
        self.out: Any = options.pop("out", False)
        self.inplace: bool = options.pop("inplace", False)
        self.shorten: Callable[[Any], Any] | None = None  # puts a fast path in front of the wrapper
        self.rules = self.returns = None
        self.in_library: bool = options.pop("in_library", False)  # PyTorch's library composes it: numbers stay numbers in it
        self.pointwise: bool = options.pop("pointwise", False)
        self.moves: bool = options.pop("moves", False)
        pop_autocast(self, options)
        self.refuse(options)

    @made_once
    def is_placed(self) -> bool:
        """Whether callers say on which device the result lies: then it is not the operands' kind that its body is bound to."""
        return any(p.name == "device" for p in self.params)

    @made_once
    def general(self) -> Any:
        """Wrapper that looks for overrides; the body itself if there is nothing to look at."""
        return _composite_wrapper(self)

    @made_once
    def wrapper(self) -> Any:
        return self.general if self.shorten is None else self.shorten(self.general)

    @made_once
    def inplace_wrapper(self) -> Any:
        body = self.wrapper

        def inplace(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            if self.pointwise and isinstance(input, Tensor):
                check_overlap(input, (*args, *kwargs.values()))
            return overwritten(input, body(input, *args, **kwargs))

        inplace.__name__ = inplace.__qualname__ = self.name + "_"
        inplace.__doc__ = inplace_doc(self)
        return inplace


class Factory(Declared):
    """A declared factory.

    Attributes:
        body: function (a ``Creation``, own arguments) -> array, or a tensor where it makes that itself.
        option_names: which of ``creation.OPTIONS`` it takes. Those that the body's signature does not place come last, by keyword.
        out: whether it takes ``out``.
        follows: the parameter from which device and dtype are taken where they are not given, if it is a tensor.
        fast: expression for the array of a plain call, whose result may be None: over the parameters, ``dtype``, the array ``a`` of a
            tensor that comes first, and names of the family's module. Other options but ``requires_grad`` are at their defaults then.
        asked: what machine code is given of a call whose other arguments are at their defaults, as source like ``fast``.
        part: the part (``core.arrays.native``) of which ``fast`` writes the choice out: ``large`` and ``THRESHOLD`` are that part's.
        keeps: whether a tensor for ``follows`` is the result itself where no option is given.
    """

    returns = rules = None
    overloads = ()
    inplace = False
    is_placed = True
    autocast: dict[str, str] = {}

    def __init__(self, body: Callable[..., Any], given: dict[str, Any]):
        super().__init__(body, given)
        self.body = body
        self.option_names: tuple[str, ...] = given.pop("options", tuple(OPTIONS))
        out = given.pop("out", False)
        self.out: Any = SILENT if out is True else out or None
        self.follows: str = given.pop("follows", "input")
        self.fast: str | None = given.pop("fast", None)
        self.asked: str | None = given.pop("asked", None)
        self.part: Any = given.pop("part", None)
        self.keeps: bool = given.pop("keeps", False)
        self.method = self.namespace == "Tensor"
        self.refuse(given)

    @made_once
    def params(self) -> tuple[Param, ...]:
        own = [Param.of(p) for p in list(inspect.signature(self.body).parameters.values())[1:]]
        placed = {p.name for p in own}
        return (*own, *[Param(name, "", OPTIONS[name], True) for name in self.option_names if name not in placed])

    @made_once
    def model(self) -> int | None:
        """The place of the parameter ``follows``."""
        return self.names.index(self.follows) if self.follows in self.names else None

    @made_once
    def arguments(self) -> tuple[int, int | None, list[tuple[str, int]]]:
        """Arguments of the body: number of positional ones, position of any number of further ones, names and positions of keywords."""
        own = [(p, i) for i, p in enumerate(self.params) if p.name not in self.option_names]
        rest = next((i for p, i in own if p.kind == "rest"), None)
        return (
            sum(not p.keyword_only and p.kind != "rest" for p, _ in own),
            rest,
            [(p.name, i) for p, i in own if p.keyword_only],
        )

    @made_once
    def _places(self) -> list[tuple[str, int]]:
        return [(name, self.names.index(name)) for name in self.option_names]

    def options_of(self, values: tuple[Any, ...]) -> dict[str, Any]:
        """Those of the options that are not at their defaults."""
        return {name: values[i] for name, i in self._places if values[i] is not OPTIONS[name]}

    @made_once
    def wrapper(self) -> Any:
        """The public function."""
        return wrappers.make_factory(self)


def overwritten(input: Tensor, result: Tensor) -> Tensor:
    """``input`` with the values of ``result``, for in-place forms.

    Raises:
        RuntimeError: ``result``'s dtype is of a wider kind.
    """
    if not can_cast(result.dtype, input.dtype):
        raise RuntimeError(f"result type {result.dtype.legacy} can't be cast to the desired output type {input.dtype.legacy}")
    return input.copy_(result)


def overrides(*operands: Any) -> bool:
    """Whether the class of an operand, or of one in a list of them, may take a call over."""
    for operand in operands:
        for value in operand if isinstance(operand, (tuple, list)) else (operand,):
            kind = value.__class__
            if kind is not Tensor and getattr(kind, "__torch_function__", plainly) is not plainly:
                return True
    return False


def _composite_wrapper(entry: Composite) -> Any:
    """The body itself where it has no tensor to look at; otherwise a function that looks for overrides first."""
    body = entry.body
    signature = list(inspect.signature(body).parameters.values())
    variadic = any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in signature)
    params = entry.params
    operands = [p.name for p in params if p.kind in ("tensor", "number", "optional")]
    first = operands[0] if operands else None
    others_asked = operands[1:] + [p.name for p in params if p.kind == "list"]
    if signature and signature[0].kind is inspect.Parameter.VAR_POSITIONAL and not entry.method:
        return _variadic_wrapper(body)
    if variadic or (first is None and not others_asked and not entry.out and not entry.renamed):
        return body
    source = Source(entry)
    source.env.update(body=body, COMPOSITE=COMPOSITE, check_operands=check_operands, overriding=overriding, overrides=overrides)
    source.add(0, f"def {entry.name}({signature_of(entry, source, bool(entry.out))}):")
    add_other_keywords(entry, source, "COMPOSITE")
    for name in source.unchecked:
        source.add(1, f"if {name} is REQUIRED: complain_missing(op, {name!r})")
    conditions = [is_plain(first), f"{first}._array.__class__ is ndarray"] if first else []
    conditions += [no_mode(entry, source.env), *(["out is None"] if entry.out else [])]
    if others_asked:
        conditions.append(f"not (overriding and overrides({', '.join(others_asked)}))")
    source.offer(1, "whole", ", ".join(entry.names), "out is None" if entry.out else "")
    values = tuple_source([p.name for p in params])
    call = f"return body({', '.join(f'{p.name}={p.name}' if p.keyword_only else p.name for p in params)})"
    source.add(1, f"if {' and '.join(conditions)}:")
    if entry.namespace != "nn.functional" and any(p.kind in ("tensor", "list") and p.name != first for p in params):
        # PyTorch looks at the operands before it begins; here the body finds out, and on one line the ``try`` costs nothing
        source.add(2, f"try: {call}", "except AttributeError:", f"    check_operands(op, {values})", "    raise")
    else:
        source.add(2, call)
    source.add(1, f"return dispatch(op, {values}, {'out' if entry.out else 'None'}, COMPOSITE)")
    wrapper = source.compile(entry.name)
    wrapper.__wrapped__ = body
    return wrapper


def _variadic_wrapper(body: Any) -> Any:
    """A function of any number of tensors (``meshgrid``, ``einsum``) that looks for overrides first."""

    @functools.wraps(body)
    def function(*args: Any, **kwargs: Any) -> Any:
        asked = bool(active and thread.function_modes)
        if not asked:
            for arg in args:
                if arg.__class__ is not Tensor and arg.__class__ is not str:
                    asked = True
                    break
        if asked:
            result = _overridden(function, args, kwargs)
            if result is not NotImplemented:
                return result
        try:
            return body(*args, **kwargs)
        except AttributeError:
            check_elements(args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args)
            raise

    return function


def _overridden(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Result of a mode or an operand's class; NotImplemented if none takes the call. Tensors around tensors see its parts."""
    operands: list[Any] = []
    for arg in args:
        operands += arg if isinstance(arg, (tuple, list)) else (arg,)
    if thread.function_modes or thread.function_override:
        operands = [
            operand for operand in operands if hasattr(type(operand), "__torch_function__") and type(operand) not in wrapper_classes
        ]
        if not thread.function_modes and len(args) == 2 and isinstance(args[0], str) and isinstance(args[1], (tuple, list)):
            args = (args[0], *args[1])  # an equation's operands come one by one, as PyTorch's function calls itself with those of a list
        if operands or thread.function_modes:
            return call_override(function, operands, args, kwargs)
    return NotImplemented


@functools.cache
def methods_without_wrapper() -> tuple[str, ...]:
    """Names of methods whose body is the method itself, without a test for overrides."""
    listed = []
    for namespace in ("torch", "Tensor"):
        for name, entry in list(TABLES[namespace].items()):  # another thread may import a late family meanwhile
            if isinstance(entry, Composite) and entry.method and entry.general is entry.body:
                first = next(iter(inspect.signature(entry.body).parameters), None)
                if first == "input":
                    listed.append(name)
    return tuple(listed)


def _shown(name: str) -> Any:
    """The method ``name`` of a subclass: ``Tensor``'s, after the override machinery."""
    function = getattr(Tensor, name)

    @functools.wraps(function)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = call_override(getattr(Tensor, name), (self, *args), (self, *args), kwargs)
        return function(self, *args, **kwargs) if result is NotImplemented else result

    return method


def show_methods(cls: type, **kwargs: Any) -> None:
    """Give a new subclass of Tensor the methods that, on plain tensors, are not worth the question who overrides them.

    These are the ones with any number of arguments (``view(2, 3)``) and indexing; they call private operations.
    """
    super(Tensor, cls).__init_subclass__(**kwargs)  # type: ignore[misc]
    for name in ("__getitem__", "__setitem__", *methods_without_wrapper()):
        if all(name not in base.__dict__ for base in cls.__mro__[: cls.__mro__.index(Tensor)]):
            setattr(cls, name, _shown(name))
    own = cls.__dict__.get("__torch_function__")
    if isinstance(own, classmethod) and cls.__module__.partition(".")[0] != __name__.partition(".")[0]:  # ours have methods of their own
        from . import getters  # late: few programs have such a class

        getters.show_getters(cls)
        overriding.append(None)
    if getattr(cls, "__torch_dispatch__", None) is not None:
        learn(cls)


def learn(cls: Any) -> None:
    """Let a class with ``__torch_dispatch__`` see calls below the tape."""
    modes.find_below().know(cls)
    if getattr(cls.__torch_function__, "__func__", None) is default_torch_function:
        cls.__torch_function__ = staticmethod(plainly)  # what it returns from below is the result


Tensor.__init_subclass__ = classmethod(show_methods)  # type: ignore[assignment, method-assign]


class LazyMethod:
    """A Tensor method whose function is made when it is first looked up."""

    def __init__(self, name: str, make: Callable[[], Any]):
        self.name, self.make = name, make

    @made_once
    def function(self) -> Any:
        return self.make()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        function = self.function
        setattr(Tensor, self.name, function)
        return function if instance is None else function.__get__(instance, owner)


def add_method(name: str, make: Callable[[], Any]) -> None:
    setattr(Tensor, name, LazyMethod(name, make))


def _register(entry: Any) -> None:
    table = TABLES[entry.namespace]
    is_late = any(entry.module == module or entry.module.startswith(f"{module}.") for module in late_families)
    for name in (entry.name, *entry.aliases):
        if table.declared(name) and not (is_late and table[name].module == entry.module):  # not a second try after an interruption
            raise TypeError(f"operation {entry.namespace}.{name} is declared twice")
        table[name] = entry
        if entry.method and entry.namespace in ("torch", "Tensor") and not is_late:
            add_method(name, lambda: entry.wrapper)
        if entry.inplace:
            if entry.namespace != "nn.functional":
                add_method(name + "_", lambda: entry.inplace_wrapper)
            if entry.namespace in ("torch", "nn.functional"):
                table[name + "_"] = InplaceEntry(entry)


def declare_late(module: str, methods: str = "") -> None:
    """Leave a family's import to the first use of one of its names.

    Args:
        methods: the Tensor methods that it declares; attributes of a class cannot be looked for as names of a namespace can.
    """
    late_families[module] = frozenset(methods.split())

    def method_of(name: str) -> Any:
        imported(module)
        return resolve("Tensor" if TABLES["Tensor"].declared(name) else "torch", name)

    for name in late_families[module]:
        add_method(name, functools.partial(method_of, name))


class InplaceEntry:
    """``torch.abs_`` and the like: the in-place form as a function."""

    def __init__(self, entry: Any):
        self.entry = entry
        self.name, self.doc, self.namespace, self.module = entry.name + "_", None, entry.namespace, entry.module
        self.key = f"{entry.key}_"

    @property
    def wrapper(self) -> Any:
        return self.entry.inplace_wrapper


def op(**options: Any) -> Declare:
    """Declare a primitive; see ``operation.Op`` for the options. ``grad`` must be given: rules, or None if not differentiable.

    ``ufunc=np.f`` names the NumPy ufunc that is the kernel when every attribute has its default.  ``fast`` is a kernel for the fast
    path, True for the declared kernel itself; a ufunc is one by itself.
    """

    def declare(kernel: Callable[..., Any]) -> Any:
        if "grad" not in options:
            raise TypeError(f"{kernel.__name__}: state the derivative; grad=None says that there is none")
        given = dict(options)
        if given.get("ufunc") is not None:
            given.setdefault("fast", given["ufunc"])
        if given.get("fast") is True:
            given["fast"] = kernel
        entry = Entry(kernel, **given)
        _register(entry)
        if entry.operator:
            _register_operator(entry, entry.operator)
        return entry

    return declare


def documented(**words: Any) -> Callable[[_Function], _Function]:
    """Put words in the places of their names, in braces, in a docstring that several operations share."""

    def fill(function: _Function) -> _Function:
        if function.__doc__ is not None:  # Python may leave docstrings out
            function.__doc__ = inspect.cleandoc(function.__doc__).format(**words)
        return function

    return fill


def overload(name: str) -> Declare:
    """Declare an overload that the slow path of operation ``name`` tries first.

    The function (op, *values) returns the operation for a call of these types with the same arguments, or None.
    """

    def declare(function: Callable[..., Any]) -> Any:
        primitive(name).overloads.append(function)
        return function

    return declare


def old_order(*names: str) -> Declare:
    """Declare an order of arguments of PyTorch's first versions, with more arguments by position than the operations have now.

    The function (op, *arguments) returns the arguments as they stand now, by position and by keyword, or None where this is not its order.
    """

    def declare(function: Callable[..., Any]) -> Any:
        parameters = inspect.signature(function).parameters.values()
        count = None if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(parameters) - 1
        for name in names:
            primitive(name).old_orders.append((count, function))
        return function

    return declare


def other_names(name: str, namespace: str = "torch", **names: str) -> None:
    """Declare further keywords of operation ``name`` and the parameters they stand for: PyTorch's old ones, those of its overloads, and
    those that its documentation calls by another name.  ``axis`` and ``keepdims`` are understood everywhere.
    """
    primitive(name, namespace).renamed.update(names)


def pointwise(**options: Any) -> Declare:
    """Declare an element-wise primitive: operands are promoted ('default' unless told) and broadcast; it has ``f_`` and ``out=``."""
    options.setdefault("promotion", "default")
    options.setdefault("broadcasts", True)
    options.setdefault("inplace", not options.get("name", "").startswith("_"))
    return op(**options)


def holomorphic(**options: Any) -> Declare:
    """Declare a holomorphic function, of which an integer's value is a float: one rule serves both directions, and complex numbers."""
    return pointwise(promotion="int_to_float", forward="holomorphic", **options)


def _register_operator(entry: Entry, word: str) -> None:
    """``__add__``, and for arithmetic ``__radd__`` and ``__iadd__`` too."""
    add_method(f"__{word}__", lambda: wrappers.make_wrapper(entry, f"__{word}__", operator=True))
    if entry.promotion == BOOL or len([p for p in entry.params if p.kind != "attr"]) < 2:
        return
    add_method(f"__r{word}__", lambda: wrappers.make_reflected(entry, f"__r{word}__"))
    if entry.inplace:
        add_method(f"__i{word}__", lambda: wrappers.make_inplace(entry, f"__i{word}__", operator=True))


def view(**options: Any) -> Declare:
    """Declare an operation whose kernel returns a view of its first operand's array."""
    return op(view=True, **options)


def composite(**options: Any) -> Declare:
    """Declare a function over other operations; returns the function unchanged."""

    def declare(body: Callable[..., Any]) -> Any:
        _register(entry := Composite(body, dict(options)))
        body.__name__ = entry.name
        return body

    return declare


def functional(**options: Any) -> Declare:
    """Declare a composite of ``nn.functional`` that is a function of ``torch`` too."""

    def declare(body: Callable[..., Any]) -> Any:
        composite(method=False, **options)(body)
        return composite(namespace="nn.functional", **options)(body)

    return declare


def factory(**options: Any) -> Declare:
    """Declare a function that makes a tensor; see ``Factory``."""

    def declare(body: Callable[..., Any]) -> Any:
        _register(entry := Factory(body, dict(options)))
        return entry

    return declare


def method(**options: Any) -> Declare:
    """Declare a function that exists as a Tensor method only; its first parameter is the tensor."""
    return composite(namespace="Tensor", **options)


def resolve(namespace: str, name: str) -> Any:
    """The public function of that name.

    Raises:
        AttributeError: there is none.
    """
    entry = TABLES[namespace].get(name)
    if entry is None:
        raise AttributeError(f"module 'torch{'' if namespace == 'torch' else '.' + namespace}' has no attribute '{name}'")
    return entry.wrapper


def primitive(name: str, namespace: str = "torch") -> Entry:
    """The declaration of that name; its family's module shows a plain callable there, and the wrapper once it was made."""
    return TABLES[namespace][name]


@functools.cache
def declared_as(name: str) -> Any:
    """The declaration of a function or method of that name, of its in-place form too; None where there is none."""
    plain = name.removesuffix("_")
    found = (table[plain] for table in (TABLES["torch"], TABLES["Tensor"], TABLES["nn.functional"], TABLES["special"]) if plain in table)
    return next(found, None)


def is_moving(name: str) -> bool:
    """Whether a function or method of that name only moves elements, to a result of its own: no in-place form does."""
    declared = None if name.endswith("_") else declared_as(name)
    return declared is not None and declared.moves


def names(namespace: str) -> list[str]:
    import_late()
    return sorted(TABLES[namespace])


def entries() -> Iterator[Any]:
    """Every primitive and composite once, those of late families too."""
    import_late()
    seen = set()
    for table in TABLES.values():
        for entry in list(table.values()):
            if id(entry) not in seen and not isinstance(entry, InplaceEntry):
                seen.add(id(entry))
                yield entry


__all__ = [
    "TABLES", "composite", "documented", "entries", "factory", "import_late", "method", "names", "old_order", "op", "other_names",
    "overload", "overwritten", "pointwise", "primitive", "resolve", "view",
]  # fmt: skip
