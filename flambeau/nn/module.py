"""``Module``, the base class of all networks: registration of members, attribute access, calls, traversal and printing.

Hooks, conversion and state dictionaries are in ``_module_hooks``, ``_module_convert`` and ``_module_state``.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Self

from ..core.calls.machine_calls import when_there
from ..core.state import changes
from ..core.tensor import Parameter, Tensor
from . import _module_hooks as hooks
from ._member_slots import BufferSlot, MemberSlot, ModuleSlot, ParameterSlot, install, is_class_attribute
from ._module_convert import ConvertMethods
from ._module_hooks import (  # noqa: F401 - packages name some of them here
    HookDict,
    HookMethods,
    _global_buffer_registration_hooks,
    _global_module_registration_hooks,
    _global_parameter_registration_hooks,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from ._module_state import (  # noqa: F401 - files and packages name them here
    EXTRA_STATE as _EXTRA_STATE_KEY_SUFFIX,
    StateMethods,
    _IncompatibleKeys,
    _WrappedHook,
)

__all__ = [
    "Module", "register_module_backward_hook", "register_module_buffer_registration_hook", "register_module_forward_hook",
    "register_module_forward_pre_hook", "register_module_full_backward_hook", "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook", "register_module_parameter_registration_hook",
]  # fmt: skip


_NOTHING: dict[str, Any] = {}
quick_class: Any = None  # the class of modules that machine code calls, once it is there, and its function of module and arguments
call_quickly: Any = None
forget: list[Any] = []  # the function of machine code that takes the gradients off the parameters of optimizers' groups
when_there("forget gradients", forget.append)


def _fresh_state() -> dict[str, Any]:
    """The instance attributes of a module without members."""
    return {
        "training": True,
        "_parameters": {},
        "_buffers": {},
        "_non_persistent_buffers_set": set(),
        "_backward_pre_hooks": HookDict(),
        "_backward_hooks": HookDict(),
        "_is_full_backward_hook": None,
        "_forward_hooks": HookDict(),
        "_forward_hooks_with_kwargs": OrderedDict(),
        "_forward_hooks_always_called": OrderedDict(),
        "_forward_pre_hooks": HookDict(),
        "_forward_pre_hooks_with_kwargs": OrderedDict(),
        "_state_dict_hooks": OrderedDict(),
        "_state_dict_pre_hooks": OrderedDict(),
        "_load_state_dict_pre_hooks": OrderedDict(),
        "_load_state_dict_post_hooks": OrderedDict(),
        "_modules": {},
    }


class Module(HookMethods, ConvertMethods, StateMethods):
    """Base class of all networks.

    A subclass calls ``super().__init__()``, assigns parameters and submodules as attributes, and defines ``forward``. An assigned
    ``Parameter`` or ``Module`` is registered: ``parameters()``, ``to()``, ``state_dict()`` and ``train()`` find it.

    Args:
        *args, **kwargs: only for a subclass that sets ``call_super_init``, which hands them on.
    Shape:
        What ``forward`` of the subclass takes, to what it gives.
    Attributes:
        training: True at first; switched by ``train`` and ``eval`` for the module and its descendants.
    Raises:
        TypeError: arguments without ``call_super_init``.
        NotImplementedError: at the call, a subclass without ``forward``.
    Source: torch.nn.Module.
    Example:
        >>> class Scale(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.factor = nn.Parameter(torch.tensor(2.0))
        >>> [name for name, _ in Scale().named_parameters()]
        ['factor']
    """

    training: bool
    dump_patches: bool = False
    call_super_init: bool = False
    _version: int = 1  # of the layout of this class's state; saved with it, so that a later layout can read it
    __constants__: ClassVar[list[str]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            call = f"{type(self).__name__}.__init__()"
            if kwargs:
                raise TypeError(f"{call} got an unexpected keyword argument '{next(iter(kwargs))}'")
            raise TypeError(f"{call} takes 1 positional argument but {len(args) + 1} were given")
        self.__dict__.update(_fresh_state())
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # -- the call ---------------------------------------------------------------------------------------------------------
    def forward(self, *input: Any) -> Any:
        """Compute the result; every subclass defines it. Call the module, not this method: hooks run around the call."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if hooks.registered:
            return hooks.call(self, args, kwargs)
        if kwargs:
            return self.forward(*args, **kwargs)
        if type(self) is quick_class:
            result = call_quickly(self, args)
            if result is not None:
                return result
        return self.forward(*args)  # a call without ** spares two dictionaries

    _call_impl = _wrapped_call_impl = __call__

    # -- registration -----------------------------------------------------------------------------------------------------
    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, which is then an attribute.

        Args:
            name: may not contain a dot.
            param: None registers the name only: the parameter is in no ``state_dict`` and ``named_parameters``.
        Raises:
            TypeError: ``param`` is not a ``Parameter``, ``name`` not a string.
            KeyError: the name is empty, has a dot, or is taken by another attribute.
            ValueError: ``param`` was computed from other tensors.
        Source: torch.nn.Module.register_parameter.
        """
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, self._parameters)
        if param is not None:
            if not _is_parameter(param):
                raise TypeError(f"cannot assign '{_typename(param)}' object to parameter '{name}' (torch.nn.Parameter or None required)")
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. To express "
                    f"'{name}' as a function of another Tensor, compute the value in the forward() method."
                )
            param = _run_registration_hooks(hooks._global_parameter_registration_hooks, self, name, param)
        self._parameters[name] = param
        changes.count += 1
        install(ParameterSlot, name, type(self), Module.__getattr__)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a buffer: state that is moved with the module, but no parameter.

        Args:
            name: may not contain a dot.
            tensor: None registers the name only.
            persistent: whether ``state_dict`` holds it.
        Raises:
            TypeError: ``tensor`` is not a tensor, ``name`` not a string.
            KeyError: the name is empty, has a dot, or is taken by another attribute.
        Source: torch.nn.Module.register_buffer.
        """
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, self._buffers)
        if tensor is not None:
            if not isinstance(tensor, Tensor):
                raise TypeError(f"cannot assign '{_typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)")
            tensor = _run_registration_hooks(hooks._global_buffer_registration_hooks, self, name, tensor)
        self._buffers[name] = tensor
        changes.count += 1
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)
        install(BufferSlot, name, type(self), Module.__getattr__)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule, which is then an attribute.

        Raises:
            TypeError: ``module`` is neither a Module nor None, ``name`` not a string.
            KeyError: the name is empty, has a dot, or is taken by another attribute.
        Source: torch.nn.Module.add_module.
        """
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{_typename(module)} is not a Module subclass")
        self._check_name("module", name, self._modules)
        self._set_module(name, module)

    register_module = add_module

    def _set_module(self, name: str, module: Module | None) -> None:
        changes.count += 1
        self._modules[name] = _run_registration_hooks(hooks._global_module_registration_hooks, self, name, module)
        install(ModuleSlot, name, type(self), Module.__getattr__)

    def _check_name(self, kind: str, name: Any, registry: dict[str, Any]) -> None:
        """Complain about a name under which nothing can be registered."""
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {_typename(name)}")
        if "." in name:
            got = f", got: {name}" if kind == "module" else ""
            raise KeyError(f'{kind} name can\'t contain "."{got}')
        if not name:
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if name not in registry and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    # -- attributes -------------------------------------------------------------------------------------------------------
    def __getattr__(self, name: str) -> Any:
        # The usual reads go through a slot, see _member_slots; this finds the rest.
        members = self.__dict__
        for registry in ("_parameters", "_buffers", "_modules"):
            if registry in members and name in members[registry]:
                return members[registry][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'", name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        changes.count += 1
        members = self.__dict__
        parameters = members.get("_parameters", _NOTHING)  # missing before __init__
        if isinstance(value, Tensor) and _is_parameter(value):
            if "_parameters" not in members:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, members, self._buffers, self._modules)
            self.register_parameter(name, value)  # type: ignore[arg-type]  # perhaps of a tensor subclass
        elif name in parameters:
            if value is not None:
                raise TypeError(f"cannot assign '{_typename(value)}' as parameter '{name}' (torch.nn.Parameter or None expected)")
            self.register_parameter(name, None)
        elif isinstance(value, Module):
            if "_modules" not in members:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, members, self._buffers)
            self._set_module(name, value)
        elif name in members.get("_modules", _NOTHING):
            if value is not None:
                raise TypeError(f"cannot assign '{_typename(value)}' as child module '{name}' (torch.nn.Module or None expected)")
            self._set_module(name, None)
        elif name in members.get("_buffers", _NOTHING) or (isinstance(value, Tensor) and getattr(value, "_is_buffer", False)):
            self._assign_buffer(name, value)
        else:
            super().__setattr__(name, value)

    def _assign_buffer(self, name: str, value: Any) -> None:
        """``self.name = value`` where ``name`` is a buffer or ``value`` is an ``nn.Buffer``."""
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(f"cannot assign '{_typename(value)}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or None expected)")
        if value is not None and getattr(value, "_is_buffer", False):
            persistent = value.persistent
        else:
            persistent = name not in self._non_persistent_buffers_set
        if name not in self._buffers:
            self._forget(name, self.__dict__, self._parameters, self._modules)
        self.register_buffer(name, value, persistent)

    def _forget(self, name: str, *registries: dict[str, Any]) -> None:
        """Remove ``name`` from the given registries and the set of non-persistent buffers, before it is registered again."""
        for registry in registries:
            registry.pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name: str) -> None:
        changes.count += 1
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            super().__delattr__(name)

    def __dir__(self) -> list[str]:
        own = [*self.__dict__, *self._parameters, *self._modules, *self._buffers]
        cls = type(self)
        inherited = [name for name in dir(cls) if name in own or not _is_slot_only(cls, name)]
        return sorted(name for name in {*inherited, *own} if not name[:1].isdigit())

    # -- state of the object ----------------------------------------------------------------------------------------------
    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        members = self.__dict__
        members.update(state)
        for name, value in _fresh_state().items():
            present = members.setdefault(name, value)
            if isinstance(value, HookDict) and present.__class__ is not HookDict:
                if present:  # kept as it is: handles refer to it
                    hooks.registered = True
                else:
                    members[name] = value
        for kind, registry in ((ParameterSlot, "_parameters"), (BufferSlot, "_buffers"), (ModuleSlot, "_modules")):
            for name in members[registry]:
                install(kind, name, type(self), Module.__getattr__)

    # -- members by path --------------------------------------------------------------------------------------------------
    def get_submodule(self, target: str) -> Module:
        """The submodule under a path such as ``"encoder.layers.0"``; the module itself for ``""``.

        Raises:
            AttributeError: a step of the path does not exist or is not a Module.
        Source: torch.nn.Module.get_submodule.
        """
        module = self
        for step in target.split(".") if target else ():
            if not hasattr(module, step):
                raise AttributeError(f"{module._get_name()} has no attribute `{step}`")
            module = getattr(module, step)
            if not isinstance(module, Module):
                raise AttributeError(f"`{step}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put ``module`` under a path whose parent exists.

        Args:
            strict: only replace a submodule, never add one.
        Raises:
            ValueError: the path is empty, or ``module`` is not a Module.
            AttributeError: the parent does not exist, the path names something else, or, if ``strict``, nothing.
        Source: torch.nn.Module.set_submodule.
        """
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if hasattr(parent, name):
            if not isinstance(getattr(parent, name), Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        elif strict:
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter under a path such as ``"encoder.weight"``.

        Raises:
            AttributeError: the path does not exist or names something else.
        Source: torch.nn.Module.get_parameter.
        """
        _, name, parameter = self._find(target)
        if not _is_parameter(parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return parameter

    def get_buffer(self, target: str) -> Tensor:
        """The buffer under a path such as ``"norm.running_mean"``.

        Raises:
            AttributeError: the path does not exist or names something else.
        Source: torch.nn.Module.get_buffer.
        """
        parent, name, buffer = self._find(target)
        if name not in parent._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return buffer

    def _find(self, target: str) -> tuple[Module, str, Any]:
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        return parent, name, getattr(parent, name)

    # -- traversal --------------------------------------------------------------------------------------------------------
    def named_modules(self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """The module itself and all its descendants, each after its parent, with their paths.

        Args:
            memo: modules that were given already, and are left out.
            prefix: put before each path.
            remove_duplicate: give a module that is registered twice once only.
        Source: torch.nn.Module.named_modules.
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """The module itself and all its descendants, each after its parent. Source: torch.nn.Module.modules."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The direct submodules with their names, each once. Source: torch.nn.Module.named_children."""
        given: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in given:
                given.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """The direct submodules, each once. Source: torch.nn.Module.children."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self,
        get_members_fn: Callable[[Module], Iterable[tuple[str, Any]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        """Paths and members that ``get_members_fn`` finds in each module, except None."""
        given: set[Any] = set()
        for path, module in self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]:
            for name, member in get_members_fn(module):
                if member is None or member in given:
                    continue
                if remove_duplicate:
                    given.add(member)
                yield (f"{path}.{name}" if path else name), member

    def named_parameters(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        """All parameters with their paths.

        Args:
            prefix: put before each path.
            recurse: those of descendants too.
            remove_duplicate: give a shared parameter once only.
        Source: torch.nn.Module.named_parameters.
        """
        return self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True, memo: Any = None) -> Iterator[Parameter]:
        """All parameters, a shared one once; ``memo`` is an old argument without meaning. Source: torch.nn.Module.parameters."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """All buffers with their paths; arguments as in ``named_parameters``. Source: torch.nn.Module.named_buffers."""
        return self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers, a shared one once. Source: torch.nn.Module.buffers."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    # -- modes ------------------------------------------------------------------------------------------------------------
    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call ``fn`` on every descendant, children first, then on the module itself. Source: torch.nn.Module.apply."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Set ``training`` of the module and its descendants.

        Raises:
            ValueError: ``mode`` is not a bool.
        Source: torch.nn.Module.train.
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Set ``training`` of the module and its descendants to False. Source: torch.nn.Module.eval."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Switch recording of operations on all parameters on or off. Source: torch.nn.Module.requires_grad_."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of all parameters.

        Args:
            set_to_none: remove them; otherwise fill them with zeros, outside the graph.
        Source: torch.nn.Module.zero_grad.
        """
        if getattr(self, "_is_replica", False):
            warnings.warn(
                "Calling .zero_grad() from a module created with nn.DataParallel() has no effect. The parameters are copied (in a "
                "differentiable manner) from the original module. This means they are not leaf nodes in autograd and so don't accumulate "
                "gradients. If you need gradients in your forward method, consider using autograd.grad instead.",
                stacklevel=2,
            )
        if set_to_none is True and forget and (found := _parameters_of(self)) is not None and forget[0]([{"params": found}]):
            return
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
                continue
            grad = parameter.grad
            if grad is None:
                continue
            if grad.grad_fn is not None:
                grad.detach_()
            else:
                grad.requires_grad_(False)
            grad.zero_()

    def _replicate_for_data_parallel(self) -> Self:
        """A module with the same attributes and hooks, without parameters, and with registries of buffers and submodules of its own."""
        replica = self.__new__(type(self))
        replica.__dict__.update(
            self.__dict__, _parameters={}, _buffers=self._buffers.copy(), _modules=self._modules.copy(), _is_replica=True
        )
        return replica

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Have calls of this module compiled, hooks included.

        Args:
            args, kwargs: those of ``torch.compile`` but the first.
        Raises:
            RuntimeError: as ``torch.compile`` does.
        Source: torch.nn.Module.compile.
        """
        from ..compiler.entry import compile

        def called(*given: Any, **named: Any) -> Any:
            return hooks.plain_call(self, given, named)

        self.__dict__["_compiled_call_impl"] = compile(called, *args, **kwargs)
        hooks.registered = True

    # -- printing ---------------------------------------------------------------------------------------------------------
    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """The text between the parentheses of the printed module, before its submodules; for subclasses to define."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        children = [f"({name}): {_indented(repr(module))}" for name, module in self._modules.items()]
        lines = extra_lines + children
        if not lines:
            return f"{self._get_name()}()"
        if len(extra_lines) == 1 and not children:
            return f"{self._get_name()}({extra_lines[0]})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"

    def _repr_html_(self) -> str:
        """HTML for a notebook: a tree that opens and closes."""
        from .notebook import module_html

        return module_html(self)


def _parameters_of(module: Module) -> list[Parameter] | None:
    """All parameters, without their paths, some perhaps twice; None where a class defines itself what they are."""
    kind = type(module)
    if kind.parameters is not _parameters or kind.named_parameters is not _named_parameters or kind._named_members is not _named_members:
        return None
    found: list[Any] = []
    waiting, seen = [module], {module}
    for each in waiting:
        if type(each).named_modules is not _named_modules:
            return None
        found += each._parameters.values()
        for child in each._modules.values():
            if child is not None and child not in seen:
                seen.add(child)
                waiting.append(child)
    return [parameter for parameter in found if parameter is not None]


_parameters, _named_parameters = Module.parameters, Module.named_parameters
_named_members, _named_modules = Module._named_members, Module.named_modules


def _indented(text: str) -> str:
    """``text`` with every line but the first moved in by two spaces."""
    return text.replace("\n", "\n  ")


def _run_registration_hooks(registration_hooks: dict[int, Any], module: Module, name: str, value: Any) -> Any:
    """Call the hooks with a new member; ``value``, or what the last hook that returned something replaced it by."""
    for hook in registration_hooks.values():
        replaced = hook(module, name, value)
        if replaced is not None:
            value = replaced
    return value


def _is_parameter(value: Any) -> bool:
    """Whether ``value`` is a Parameter, or a parameter made of a tensor subclass."""
    return isinstance(value, Parameter) or (isinstance(value, Tensor) and getattr(value, "_is_param", False))


def _is_slot_only(cls: type, name: str) -> bool:
    """Whether ``name`` is on the class for the sake of other instances' members only."""
    return any(isinstance(base.__dict__.get(name), MemberSlot) for base in cls.__mro__) and not is_class_attribute(cls, name)


def _typename(value: Any) -> str:
    """The type as error messages name it."""
    if isinstance(value, Tensor):
        return value.type()
    kind = value if isinstance(value, type) else type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
