"""Small names of ``torch.serialization`` that programs ask for and files need nothing of."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeAlias

from ..core.device import device
from ..core.protocols.legacy import CONSTRUCTORS, STORAGES
from ..core.storage import TypedStorage, UntypedStorage

DEFAULT_PROTOCOL = 2

STORAGE: TypeAlias = TypedStorage | UntypedStorage
MAP_LOCATION: TypeAlias = Callable[[STORAGE, str], STORAGE] | device | str | dict[str, str] | None


@contextmanager
def mkdtemp() -> Iterator[str]:
    """A new folder, which is deleted at the end of the ``with`` block.

    Returns: the context, which gives the folder's name.
    Source: torch.serialization.mkdtemp.
    Example:
        >>> import os
        >>> with mkdtemp() as folder:
        ...     os.path.isdir(folder)
        True
    """
    with tempfile.TemporaryDirectory() as path:
        yield path


def check_module_version_greater_or_equal(module: ModuleType, req_version_tuple: tuple[int, ...], error_if_malformed: bool = True) -> bool:
    """Whether a module's ``__version__`` is at least ``req_version_tuple``.

    Args:
        module: has ``__version__``.
        req_version_tuple: such as ``(1, 2)``; as many numbers of the module's version are compared.
        error_if_malformed: raise where the version has something else than numbers; otherwise warn, and say yes.
    Returns: a bool.
    Raises:
        RuntimeError: a version without numbers where they are compared.
    Source: torch.serialization.check_module_version_greater_or_equal.
    Example:
        >>> check_module_version_greater_or_equal(np, (1, 20))
        True
    """
    try:
        version = tuple(type(wanted)(part) for wanted, part in zip(req_version_tuple, module.__version__.split("."), strict=False))
    except ValueError as error:
        message = (
            f"'{module.__name__}' module version string is malformed '{module.__version__}' and cannot be compared with tuple "
            f"{req_version_tuple}"
        )
        if error_if_malformed:
            raise RuntimeError(message) from error
        warnings.warn(f"{message}, but continuing assuming that requirement is met", stacklevel=2)
        return True
    return version >= req_version_tuple


def normalize_storage_type(storage_type: Any) -> Any:
    """The storage class of the CPU of the same name.

    Args:
        storage_type: a storage class.
    Returns: a class.
    Source: torch.serialization.normalize_storage_type.
    Example:
        >>> normalize_storage_type(torch.cuda.FloatStorage).__name__
        'FloatStorage'
    """
    return STORAGES[storage_type.__name__]


def storage_to_tensor_type(storage: Any) -> Any:
    """The old tensor class for a storage's dtype.

    Args:
        storage: a typed storage.
    Returns: a class.
    Source: torch.serialization.storage_to_tensor_type.
    Example:
        >>> storage_to_tensor_type(torch.DoubleStorage(2))
        <class 'torch.DoubleTensor'>
    """
    return CONSTRUCTORS[f"{storage.dtype.legacy}Tensor"]
