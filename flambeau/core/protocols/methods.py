"""Methods of tensors and storages that stand above them: printing, pickling, copying, old constructors.

``tensor`` and ``storage`` do not import these modules, so that imports point downwards.  They are put on the classes here, and each is
imported when one of its methods is first called.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from ..storage import UntypedStorage
from ..tensor import Parameter, Tensor


def _late(module: str, name: str) -> Callable[..., Any]:
    """A method whose body is function ``name`` of ``module``."""

    @functools.cache
    def body() -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(importlib.import_module(f".{module}", __package__), name)
        return function

    def method(*args: Any, **kwargs: Any) -> Any:
        return body()(*args, **kwargs)

    return method


def _parameter_repr(self: Parameter, *, tensor_contents: str | None = None) -> str:
    return f"Parameter containing:\n{Tensor.__repr__(self)}"


_METHODS: dict[type, dict[str, Any]] = {
    Tensor: {
        "__new__": staticmethod(_late("legacy", "construct_default")),
        "__repr__": _late("printing", "tensor_repr"),
        "__format__": _late("printing", "tensor_format"),
        "_repr_html_": _late("notebook", "tensor_html"),
        "__reduce_ex__": _late("rebuild", "reduce_tensor"),
        "__deepcopy__": _late("rebuild", "deepcopy_tensor"),
        "module_load": _late("rebuild", "module_load"),
        "storage_type": _late("legacy", "storage_class_of"),
        "_make_subclass": staticmethod(_late("hollow", "make_subclass")),
        "_make_wrapper_subclass": staticmethod(_late("hollow", "make_wrapper_subclass")),
    },
    Parameter: {"__repr__": _parameter_repr, "__reduce_ex__": _late("rebuild", "reduce_parameter")},
    UntypedStorage: {"__reduce_ex__": _late("rebuild", "reduce_storage")},
}

for _class, _methods in _METHODS.items():
    for _name, _method in _methods.items():
        if not isinstance(_method, staticmethod):
            _method.__name__, _method.__qualname__ = _name, f"{_class.__name__}.{_name}"
        setattr(_class, _name, _method)
