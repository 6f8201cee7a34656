"""``torch.library``: operations that programs define, by decorated functions (``custom_op``) or by schemas and kernels (``Library``)."""

from __future__ import annotations

import contextlib
import re
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from .aten.library import custom_ops as _custom_ops, definitions as _definitions
from .aten.library.autograd import Formula as _Formula
from .aten.library.custom_ops import CustomOpDef, custom_op
from .aten.library.definitions import get_ctx
from .aten.library.infer_schema import infer_schema
from .aten.library.opcheck import opcheck
from .aten.library.operation import Operation as _Operation
from .aten.overloads import OpOverload
from .aten.schema import parse_schema as _parse_schema
from .aten.tags import Tag
from .core.device import device as _device
from .facades import unsupported

__all__ = [
    "CustomOpDef", "Library", "custom_op", "define", "fallthrough_kernel", "get_ctx", "get_kernel", "impl", "impl_abstract", "infer_schema",
    "opcheck", "register_autocast", "register_autograd", "register_fake", "register_kernel", "register_torch_dispatch", "register_vmap",
    "triton_op", "wrap_triton",
]  # fmt: skip

_RESERVED = frozenset(("prim",))
_defining: set[str] = {"aten"}  # namespaces that have a library of kind DEF
_kept: list[Any] = []  # libraries behind the functions of this module, which are never taken away

NAMELESS_SCHEMA = re.compile(r"\(.*\) -> .*")


class Library:
    """A set of operations and kernels of one namespace, which go when it does.

    Args:
        ns: the namespace.
        kind: 'DEF' for the one library that defines most of a namespace, 'FRAGMENT' for further definitions, 'IMPL' for kernels alone.
        dispatch_key: for kernels that name none.
    Raises:
        ValueError: another kind, or a reserved namespace. RuntimeError: a second library of kind 'DEF'.
    Example:
        >>> lib = torch.library.Library("pages_library", "DEF")
        >>> lib.define("twice(Tensor x) -> Tensor")
        'twice'
        >>> lib.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")
        >>> torch.ops.pages_library.twice(torch.ones(2))
        tensor([2., 2.])

    Source: torch.library.Library.
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = ""):
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in _RESERVED and kind in ("DEF", "FRAGMENT"):
            raise ValueError(f"{ns} is a reserved namespace. Please try creating a library with another name.")
        if kind == "DEF" and ns in _defining:
            raise RuntimeError(
                f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; please put all of your definitions in a single "
                "TORCH_LIBRARY block.  If you were trying to specify implementations, consider using TORCH_LIBRARY_IMPL (which can be "
                "duplicated).  If you really intended to define operators for a single namespace in a distributed way, you can use "
                "TORCH_LIBRARY_FRAGMENT to explicitly indicate this."
            )
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        if kind == "DEF":
            _defining.add(ns)
        self._op_defs: set[str] = set()
        self._undo: list[Callable[[], Any]] = [lambda: _defining.discard(ns)] if kind == "DEF" else []
        self._finalizer = weakref.finalize(self, _take_away, self._undo, self._op_defs)
        self._finalizer.atexit = False

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define an operation by its schema; its name is returned.

        Args:
            schema: ``'name(Tensor x, *, float scale=1.0) -> Tensor'``; ``'name.overload(...)'`` defines one overload.
            alias_analysis: '' or 'CONSERVATIVE'; for compilers.
            tags: ``torch.Tag``, or several of them.
        Raises:
            RuntimeError: no schema, an overload that is defined already, or a library for kernels alone.
        """
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        listed = (tags,) if isinstance(tags, Tag) else tuple(tags)
        if not all(isinstance(tag, Tag) for tag in listed):
            raise TypeError(f"define(): incompatible function arguments: tags must be torch.Tag, got {tags!r}")
        parsed = _parse_schema(schema)
        if self.kind == "IMPL":
            raise RuntimeError(
                f'def("{parsed.full_name}"): Cannot define an operator inside of a TORCH_LIBRARY_IMPL block.  All def()s should be placed '
                "in the (unique) TORCH_LIBRARY block for their namespace."
            )
        if "::" not in parsed.name:
            parsed.name = f"{self.ns}::{parsed.name}"
        self._check_namespace("def", parsed.full_name)
        overload = _definitions.define(parsed, _Operation(), listed)
        self._op_defs.add(parsed.full_name)
        self._undo.append(lambda: _definitions.undefine(overload))
        return parsed.full_name.removeprefix(f"{self.ns}::") if "::" not in schema.partition("(")[0] else parsed.full_name

    def _check_namespace(self, function: str, name: str) -> None:
        namespace = name.partition("::")[0]
        if namespace != self.ns:
            raise RuntimeError(
                f'{function}("{name}", ...): Explicitly provided namespace ({namespace}) in operator name does not match namespace of '
                f"enclosing TORCH_LIBRARY block ({self.ns}).  Move this definition to the TORCH_LIBRARY block corresponding to this "
                "namespace (and consider deleting the namespace from your schema string.)"
            )

    def impl(
        self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", *, with_keyset: bool = False, allow_override: bool = False
    ) -> None:
        """Register a kernel of an operation, which may be defined later.

        Args:
            op_name: name, with the overload behind a dot where there are several, or an overload.
            fn: called with the schema's arguments, without those at the end that have their defaults; or ``fallthrough_kernel``.
            dispatch_key: 'CPU', 'CUDA', 'Meta', 'Autograd', 'AutocastCPU', 'CompositeExplicitAutograd' (all devices), or, by default, that
                of the library, or 'CompositeImplicitAutograd' (all devices, made of operations that have derivatives).
            with_keyset: not supported.
            allow_override: changes nothing, as in PyTorch: a kernel that is there already is called again when this library goes.
        Raises:
            TypeError: no function. RuntimeError: an unknown dispatch key, or another namespace.
            NotImplementedError: an operation of flambeau, or ``with_keyset``.
        """
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        if with_keyset:
            raise NotImplementedError("torch.library.Library.impl: with_keyset is not supported, there are no sets of dispatch keys")
        key = _definitions.checked_key(dispatch_key or self.dispatch_key or "CompositeImplicitAutograd")
        name = op_name if isinstance(op_name, str) else op_name.name()
        if "::" not in name:
            name = f"{self.ns}::{name}"
        self._check_namespace("impl", name)
        if self.ns == "aten":
            _definitions.find(name)
        _definitions.add_kernel(name, key, fn)
        self._undo.append(lambda: _definitions.remove_kernel(name, key, fn))

    def fallback(self, fn: Callable[..., Any], dispatch_key: str = "", *, with_keyset: bool = False) -> NoReturn:
        """A kernel for all operations of a dispatch key: not supported.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("torch.library.Library.fallback: a kernel for all operations of a dispatch key is not supported")

    def _register_fake(self, op_name: str, fn: Callable[..., Any], _stacklevel: int = 1, *, allow_override: bool = True) -> None:
        register_fake(f"{self.ns}::{op_name}" if "::" not in op_name else op_name, fn, lib=self, allow_override=allow_override)

    def _destroy(self) -> None:
        """Take away what the library defined and registered."""
        self._finalizer()


def _take_away(undo: list[Callable[[], Any]], names: set[str]) -> None:
    while undo:
        undo.pop()()
    names.clear()


@contextlib.contextmanager
def _scoped_library(*args: Any, **kwargs: Any) -> Iterator[Library]:
    """A library that goes at the end of the block."""
    lib = Library(*args, **kwargs)
    try:
        yield lib
    finally:
        lib._destroy()


def _fragment(namespace: str) -> Library:
    lib = Library(namespace, "FRAGMENT")
    _kept.append(lib)
    return lib


# -- functions --------------------------------------------------------------------------------------------------------------------
def define(qualname: Any, schema: Any = None, alias_analysis: Any = "", *, lib: Library | None = None, tags: Any = ()) -> Any:
    """Define an operation: ``define('NAMESPACE::NAME', '(Tensor x) -> Tensor')``; kernels come by ``impl``.

    The old form ``@define(lib, 'name(Tensor x) -> Tensor')`` takes the function as the kernel for all devices.

    Args:
        qualname: namespace and name; in the old form a ``Library``.
        schema: arguments and results.
        alias_analysis: '' or 'CONSERVATIVE'; for compilers.
        lib: the library that the definition goes with; it stays for ever when None.
        tags: ``torch.Tag``, or several of them.
    Returns: None; in the old form a decorator.
    Raises:
        ValueError: no text, no namespace or a schema with a name. RuntimeError: see ``Library.define``.
    Source: torch.library.define.
    Example:
        >>> torch.library.define("pages_library_3::less", "(Tensor x) -> Tensor")
        >>> torch.library.impl("pages_library_3::less", "cpu", lambda x: x - 1)
        >>> torch.ops.pages_library_3.less(torch.ones(1))
        tensor([0.])
    """
    if isinstance(qualname, Library):

        def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
            qualname.impl(qualname.define(schema, alias_analysis), function)
            return function

        return wrap
    if not isinstance(qualname, str):
        raise ValueError(f"define(qualname, schema): expected qualname to be instance of str, got {type(qualname)}")
    namespace, name = qualname.split("::", 1) if "::" in qualname else _definitions.split_name(qualname)
    if not NAMELESS_SCHEMA.fullmatch(schema):
        raise ValueError(f'define(qualname, schema, ...): expected schema to look like e.g. "(Tensor x) -> Tensor" but got "{schema}"')
    (lib or _fragment(namespace)).define(name + schema, alias_analysis="", tags=tags)
    return None


def impl(qualname: Any, types: Any = "", func: Any = None, *, lib: Library | None = None) -> Any:
    """Register a kernel for some kinds of devices, ``impl('NAMESPACE::NAME', 'cpu', function)``; also a decorator.

    Args:
        qualname: namespace and name; in the old form a ``Library``, with the name in place of ``types``.
        types: a kind of device, several of them, a dispatch key, or 'default' for all devices.
        func: the kernel.
        lib: the library that the kernel goes with; it stays for ever when None.
    Returns: None; a decorator without ``func``.
    Raises:
        RuntimeError: no such kind of device.
    Source: torch.library.impl.
    Example:
        >>> torch.library.define("pages_library_4::more", "(Tensor x) -> Tensor")
        >>> torch.library.impl("pages_library_4::more", "default", lambda x: x + 1)
        >>> torch.ops.pages_library_4.more(torch.ones(1))
        tensor([2.])
    """
    if isinstance(qualname, Library):

        def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
            qualname.impl(types, function, func or "")
            return function

        return wrap
    listed = (types,) if isinstance(types, str) else tuple(types)
    keys = ["CompositeExplicitAutograd" if kind == "default" else _definitions.device_key(kind) for kind in listed]

    def register(function: Callable[..., Any]) -> None:
        namespace = _definitions.split_name(qualname.partition(".")[0])[0]
        library = lib or _fragment(namespace)
        for key in keys:
            library.impl(qualname, function, key)

    return register if func is None else register(func)


def fallthrough_kernel() -> NoReturn:
    """Given to ``Library.impl`` in place of a function: the dispatch key is passed by.

    Raises:
        NotImplementedError: when it is called.
    Source: torch.library.fallthrough_kernel.
    Example:
        >>> lib = torch.library.Library("pages_library_5", "DEF")
        >>> name = lib.define("same(Tensor x) -> Tensor")
        >>> lib.impl(name, torch.library.fallthrough_kernel, "AutocastCPU")
    """
    raise NotImplementedError("fallthrough_kernel() should never be called.")


fallthrough_kernel.is_fallthrough = True  # type: ignore[attr-defined]


def _check_operation(function: str, op: Any) -> None:
    if not isinstance(op, (str, OpOverload, CustomOpDef)):
        raise ValueError(f"{function}({op}): got unexpected type for op: {type(op)}")


def _goes_with(lib: Library | None, undo: Callable[[], Any]) -> None:
    """Have what was registered taken away with a library, if one was named."""
    if lib is not None:
        lib._undo.append(undo)


def _clear(operation: Any, name: str, value: Any) -> None:
    """Make an attribute None, if it has a value still."""
    if getattr(operation, name) is value:
        setattr(operation, name, None)


def _forget(table: dict[Any, Any], value: Any) -> None:
    """Remove the entries with a value."""
    for key in [key for key, other in table.items() if other is value]:
        del table[key]


def register_kernel(op: Any, device_types: Any, func: Any = None, /, *, lib: Library | None = None) -> Any:
    """Register a kernel for some kinds of devices, for all when None; also a decorator.

    Args:
        op: ``'NAMESPACE::NAME'``, an overload, or what ``custom_op`` returned.
        device_types: a kind of device such as 'cpu', or several.
        func: the kernel.
        lib: the library that the kernel goes with; it stays for ever when None.
    Returns: a decorator without ``func``.
    Source: torch.library.register_kernel.
    Example:
        >>> torch.library.define("pages_library_6::half", "(Tensor x) -> Tensor")
        >>> torch.library.register_kernel("pages_library_6::half", "cpu", lambda x: x / 2)
        >>> torch.ops.pages_library_6.half(torch.ones(1))
        tensor([0.5000])
    """
    _check_operation("register_kernel", op)
    if func is None:
        return lambda function: register_kernel(op, device_types, function, lib=lib)
    name = op.name() if isinstance(op, OpOverload) else op
    definition = op if isinstance(op, CustomOpDef) else _custom_ops.OPERATIONS.get(name)
    if definition is not None:
        return definition.register_kernel(device_types, func)
    return impl(name, "default" if device_types is None else device_types, func, lib=lib)


def register_fake(op: Any, func: Any = None, /, *, lib: Library | None = None, _stacklevel: int = 1, allow_override: bool = True) -> Any:
    """Use a function for tensors without values, those of the device ``meta`` and fake ones; also a decorator.

    Args:
        op: ``'NAMESPACE::NAME'``, an overload, or what ``custom_op`` returned.
        func: gets the operation's arguments and returns tensors of the right shapes, strides and dtypes, such as ``torch.empty_like(x)``.
        lib: the library that the function goes with; it stays for ever when None.
        allow_override: whether there may be one already.
    Returns: ``func``; a decorator without it.
    Raises:
        RuntimeError: no such operation, or a kernel that is there already.
    Source: torch.library.register_fake.
    Example:
        >>> torch.library.define("pages_library_7::pair", "(Tensor x) -> Tensor")
        >>> shapes = torch.library.register_fake("pages_library_7::pair", lambda x: x.new_empty((2, *x.shape)))
        >>> torch.ops.pages_library_7.pair(torch.ones(3, device="meta")).shape
        torch.Size([2, 3])
    """
    _check_operation("register_fake", op)
    if func is None:
        return lambda function: register_fake(op, function, lib=lib, allow_override=allow_override)
    try:
        overload = _definitions.find(op)
    except AttributeError:
        raise RuntimeError(f"operator {op} does not exist") from None
    there = overload._op.kernels.get("Meta")
    if there is not None and not allow_override:
        what = "a fake impl" if getattr(there, "is_fake", False) else "an DispatchKey::Meta implementation"
        raise RuntimeError(f"register_fake(...): the operator {overload._name} already has {what} registered.")
    operation, kernel = overload._op, _definitions.fake_kernel(overload._op, func)
    _definitions.add_kernel(overload._name, "Meta", kernel)
    _goes_with(lib, lambda: _definitions.remove_kernel(operation.schema.full_name, "Meta", kernel))
    return func


def impl_abstract(qualname: Any, func: Any = None, *, lib: Library | None = None, _stacklevel: int = 1) -> Any:
    """The old name of ``register_fake``.

    Args:
        qualname, func, lib: as ``op``, ``func`` and ``lib`` there.
    Returns: ``func``; a decorator without it.
    Source: torch.library.impl_abstract.
    Example:
        >>> torch.library.define("pages_library_8::one", "(Tensor x) -> Tensor")
        >>> shapes = torch.library.impl_abstract("pages_library_8::one", lambda x: x.new_empty(()))
        >>> torch.ops.pages_library_8.one(torch.ones(3, device="meta")).shape
        torch.Size([])
    """
    return register_fake(qualname, func, lib=lib)


def register_autograd(
    op: Any, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None, lib: Library | None = None
) -> None:
    """Give an operation a derivative; see ``CustomOpDef.register_autograd``.

    Args:
        op: ``'NAMESPACE::NAME'``, an overload, or what ``custom_op`` returned.
        backward: called with the context and a gradient of each result; gives a gradient of each argument, or None.
        setup_context: called with the context, the arguments and the results, to keep what ``backward`` needs.
        lib: the library that the derivative goes with; it stays for ever when None.
    Raises:
        RuntimeError: the operation writes to its arguments, or its results are views of them.
    Example:
        >>> torch.library.define("pages_library_2::cube", "(Tensor x) -> Tensor")
        >>> torch.library.impl("pages_library_2::cube", "default", lambda x: x**3)
        >>> torch.library.register_autograd(
        ...     "pages_library_2::cube",
        ...     lambda ctx, grad: 3 * ctx.saved_tensors[0] ** 2 * grad,
        ...     setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
        ... )
        >>> x = torch.tensor(2.0, requires_grad=True)
        >>> torch.ops.pages_library_2.cube(x).backward()
        >>> x.grad
        tensor(12.)

    Source: torch.library.register_autograd.
    """
    _check_operation("register_autograd", op)
    overload = _definitions.find(op)
    definition = _custom_ops.OPERATIONS.get(overload._name)
    if definition is not None and definition._opoverload is overload:
        definition.register_autograd(backward, setup_context=setup_context)
        return
    if overload._schema.is_mutable or overload.is_view:
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {overload} with schema {overload._schema}. Please create a "
            "functional operator and register an autograd formula for that."
        )
    operation, formula = overload._op, _Formula(backward, setup_context)
    operation.formula = formula
    _goes_with(lib, lambda: _clear(operation, "formula", formula))


def register_vmap(op: Any, func: Any = None, /, *, lib: Library | None = None) -> Any:
    """Use a rule inside ``vmap``; also a decorator. See ``CustomOpDef.register_vmap``.

    Args:
        op: ``'NAMESPACE::NAME'``, an overload, or what ``custom_op`` returned.
        func: called with ``info``, the batch dimension of each argument, and the arguments; gives the results and their batch dimensions.
        lib: the library that the rule goes with; it stays for ever when None.
    Returns: a decorator without ``func``.
    Source: torch.library.register_vmap.
    Example:
        >>> torch.library.define("pages_library_9::twice", "(Tensor x) -> Tensor")
        >>> torch.library.impl("pages_library_9::twice", "default", lambda x: 2 * x)
        >>> torch.library.register_vmap("pages_library_9::twice", lambda info, in_dims, x: (2 * x, in_dims[0]))
        >>> torch.vmap(torch.ops.pages_library_9.twice)(torch.ones(2))
        tensor([2., 2.])
    """
    _check_operation("register_vmap", op)
    operation = _definitions.find(op)._op

    def register(function: Callable[..., Any]) -> None:
        operation.vmap = function
        _goes_with(lib, lambda: _clear(operation, "vmap", function))

    return register if func is None else register(func)


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *, lib: Library | None = None) -> Any:
    """Cast floating point arguments to a dtype inside ``autocast`` regions, which the operation does not see itself.

    Args:
        op: ``'NAMESPACE::NAME'``, an overload, or what ``custom_op`` returned.
        device_type: the kind of device whose regions are meant.
        cast_inputs: the dtype.
        lib: the library that the rule goes with; it stays for ever when None.
    Returns: the kernel that casts.
    Source: torch.library.register_autocast.
    Example:
        >>> torch.library.define("pages_library_10::same", "(Tensor x) -> Tensor")
        >>> torch.library.impl("pages_library_10::same", "default", lambda x: x.clone())
        >>> kernel = torch.library.register_autocast("pages_library_10::same", "cpu", torch.bfloat16)
        >>> with torch.autocast("cpu"):
        ...     torch.ops.pages_library_10.same(torch.ones(1)).dtype
        torch.bfloat16
    """
    _check_operation("register_autocast", op)
    kind = _device(device_type).type
    operation = _definitions.find(op)._op
    kernel = _custom_ops.register_autocast(operation, kind, cast_inputs)
    _goes_with(lib, lambda: _forget(operation.kernels, kernel))
    return kernel


def register_torch_dispatch(op: Any, torch_dispatch_class: Any, func: Any = None, /, *, lib: Library | None = None) -> Any:
    """Use a rule where a mode or a tensor subclass with ``__torch_dispatch__`` sees the operation; also a decorator.

    Args:
        op: ``'NAMESPACE::NAME'``, an overload, or what ``custom_op`` returned.
        torch_dispatch_class: the mode's class, or the subclass.
        func: called with the mode (or the subclass), the operation, ``types``, ``args`` and ``kwargs``.
        lib: the library that the rule goes with; it stays for ever when None.
    Returns: ``func``; a decorator without it.
    Source: torch.library.register_torch_dispatch.
    Example:
        >>> Mode = torch.utils._python_dispatch.BaseTorchDispatchMode
        >>> torch.library.define("pages_library_11::same", "(Tensor x) -> Tensor")
        >>> rule = torch.library.register_torch_dispatch("pages_library_11::same", Mode, lambda mode, op, types, args, kwargs: -args[0])
        >>> with Mode():
        ...     torch.ops.pages_library_11.same(torch.ones(1))
        tensor([-1.])
    """
    _check_operation("register_torch_dispatch", op)
    rules = _definitions.find(op)._op.rules

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        rules[torch_dispatch_class] = function
        _goes_with(lib, lambda: _forget(rules, function))
        return function

    return register if func is None else register(func)


get_kernel = unsupported.function("library", "get_kernel")
triton_op = unsupported.function("library", "triton_op")
wrap_triton = unsupported.function("library", "wrap_triton")
