"""PyTorch's database of operations, and its arguments and functions as flambeau's."""

from __future__ import annotations

import functools
import random
import types
import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import torch
from records.record import numpy_dtype

import flambeau

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal import common_methods_invocations as theirs, common_utils
    from torch.testing._internal.opinfo import core


def seed(value: int = 0) -> None:
    """Seed what draws PyTorch's numbers on the CPU. ``torch.manual_seed`` writes down its call stack for each accelerator, for 3 ms."""
    torch.default_generator.manual_seed(value)


def seed_samples(value: int = 1234) -> None:
    """Seed what the database draws samples from, which it does before each of them."""
    seed(value)
    random.seed(value)
    np.random.seed(value)


common_utils.set_rng_seed = seed_samples
common_utils.extract_test_fn = core.extract_test_fn = lambda: None  # which looks for a TestCase among the callers, by their files


def array_of(tensor: Any) -> np.ndarray:
    """The values of a PyTorch tensor, strides and all; shares its memory. Of a sparse one, those of the dense tensor."""
    if tensor.layout in SPARSE:
        return array_of(tensor.detach().to_dense())
    tensor = torch.zeros_like(tensor) if tensor._is_zerotensor() else tensor.detach().resolve_conj().resolve_neg()
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(numpy_dtype("bfloat16"))
    if str(tensor.dtype).startswith("torch.float8"):
        return tensor.view(torch.uint8).numpy().view(getattr(ml_dtypes, str(tensor.dtype).removeprefix("torch.")))
    if tensor.dtype is torch.complex32:  # which NumPy does not have
        return tensor.to(torch.complex64).numpy()
    return tensor.numpy()


SPARSE = {torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc}


def parts_of(tensor: Any) -> list[Any]:
    """Indices and values of a sparse tensor of either library."""
    form = str(tensor.layout)
    if form == "torch.sparse_coo":
        return [tensor._indices(), tensor._values()]
    if form in ("torch.sparse_csr", "torch.sparse_bsr"):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]


class Unsupported(Exception):
    """The sample has something that both libraries cannot have: a sparse tensor, another device."""


class Converter:
    """PyTorch's arguments as flambeau's; the same tensor twice stays the same tensor."""

    def __init__(self) -> None:
        self.leaves: list[tuple[Any, Any]] = []
        self.made: dict[int, tuple[Any, Any]] = {}
        self.memory: dict[tuple[int, Any], tuple[Any, Any]] = {}

    def __call__(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if id(value) not in self.made:
                self.made[id(value)] = value, self.tensor(value)
            return self.made[id(value)][1]
        if isinstance(value, torch.Size):
            return flambeau.Size(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(self, value))
        if isinstance(value, (list, tuple)):
            return type(value)([self(item) for item in value])
        if isinstance(value, dict):
            return {key: self(item) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(self(value.start), self(value.stop), self(value.step))
        if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
            return getattr(flambeau, str(value).removeprefix("torch."))
        if isinstance(value, torch.device):
            return flambeau.device(str(value))
        if isinstance(value, torch.Generator):
            return flambeau.Generator().manual_seed(value.initial_seed())
        if isinstance(value, torch.nn.Module):  # one without parameters, such as a distance
            module = getattr(flambeau.nn, type(value).__name__)()
            module.__dict__.update({key: item for key, item in vars(value).items() if isinstance(item, (int, float, str))})
            return module
        return rebound(value) if is_written_for_tests(value) else value

    def tensor(self, value: Any) -> Any:
        if value.layout in SPARSE and value.device.type == "cpu":
            return self.leaf(self.sparse(value.detach()), value)
        if value.layout is not torch.strided or value.device.type != "cpu":
            raise Unsupported(f"{value.layout} tensor on {value.device}")
        plain = value.detach().resolve_conj().resolve_neg()
        if plain.dtype is torch.complex32:
            return self.leaf(flambeau.view_as_complex(self.tensor(torch.view_as_real(plain))).detach(), value)
        storage = plain.untyped_storage()
        place = storage.data_ptr() or id(value), plain.dtype
        if place not in self.memory:  # what shares memory there shares it here
            self.memory[place] = flambeau.core.tensor.wrap(array_of(torch.empty(0, dtype=plain.dtype).set_(storage)).copy()), plain
        offset = plain.storage_offset() if plain.numel() else 0
        try:
            result = self.memory[place][0].as_strided(plain.shape, plain.stride(), offset).detach()
        except (RuntimeError, ValueError) as error:  # memory that was given up, or more dimensions than NumPy has
            raise Unsupported(str(error)) from error
        return self.leaf(result, value)

    def sparse(self, value: Any) -> Any:
        """A sparse tensor of the same indices and values."""
        parts = [self.tensor(part) for part in parts_of(value)]
        if value.layout is torch.sparse_coo:
            return flambeau.sparse_coo_tensor(*parts, tuple(value.shape), is_coalesced=value.is_coalesced())
        return flambeau.sparse_compressed_tensor(*parts, tuple(value.shape), layout=self(value.layout))

    def leaf(self, result: Any, value: Any) -> Any:
        """``result``, which requires grad if ``value`` does."""
        if value.requires_grad:
            result.requires_grad_()
            self.leaves.append((result, value))
        return result


def seeded(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What the database calls random operations through."""
    flambeau.manual_seed(42)
    return function(*args, **kwargs)


@functools.cache
def rebound(function: Any) -> Any:
    """A function of the database over flambeau instead of PyTorch."""
    scope = dict(function.__globals__)
    scope.update(torch=flambeau, wrapper_set_seed=seeded, F=flambeau.nn.functional)
    for name in function.__code__.co_names:
        value = scope.get(name)
        if value is not function and value is not seeded and is_written_for_tests(value):
            scope[name] = rebound(value)
    function_copy = types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, function.__closure__)
    function_copy.__kwdefaults__ = function.__kwdefaults__
    return function_copy


def is_written_for_tests(function: Any) -> bool:
    return isinstance(function, types.FunctionType) and (function.__module__ or "").startswith("torch.testing")


def attribute(root: Any, dotted: str) -> Any:
    """``root.a.b`` for 'a.b', or None where there is none."""
    try:
        for part in dotted.split("."):
            root = getattr(root, part)
    except (AttributeError, ImportError):
        return None
    return root


def our_function(entry: Any) -> Callable[..., Any] | None:
    """flambeau's counterpart of an entry's function; None where flambeau lacks the name."""
    if isinstance(entry.op, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):  # torch.ops.aten.slice.Tensor
        return attribute(flambeau.ops.aten, entry.op.__name__.partition(".")[0])
    if entry.name.startswith(("_segment_reduce", "torch._")):  # the function's name is another one
        return attribute(flambeau, entry.op.__name__)
    candidate = attribute(flambeau, entry.name) or attribute(flambeau, f"ops.aten.{entry.name}")
    if not callable(candidate):  # a dtype's name may be a method's too
        candidate = attribute(flambeau.Tensor, entry.name)
    if candidate is None and is_written_for_tests(entry.op):  # such as 'uniform', which exists in place only
        candidate = attribute(flambeau.Tensor, entry.name + "_")
    if candidate is None:
        return None
    if is_written_for_tests(entry.op):
        return rebound(entry.op)
    return candidate if attribute(torch, entry.name) or attribute(torch.Tensor, entry.name) else None


def our_variant(entry: Any, variant: Any) -> Callable[..., Any] | None:
    """flambeau's counterpart of a method."""
    if isinstance(variant, functools.partial):  # an in-place form by `inplace=True`
        function = getattr(flambeau.nn.functional, variant.func.__name__, None)
        return function and functools.partial(function, *variant.args, **variant.keywords)
    return rebound(variant) if is_written_for_tests(variant) else getattr(flambeau.Tensor, variant.__name__, None)


def full_name(entry: Any) -> str:
    return f"{entry.name}.{entry.variant_test_name}" if entry.variant_test_name else entry.name


ENTRIES = {full_name(entry): entry for entry in theirs.op_db if entry.op is not None}
FUNCTIONS = {name: found for name, entry in ENTRIES.items() if (found := our_function(entry)) is not None}


def copied(value: Any) -> Any:
    """The same arguments with tensors of their own, outside any graph, strides kept."""
    if isinstance(value, torch.Tensor):
        if value.layout in SPARSE:
            return value.detach().clone()
        if value.layout is not torch.strided:
            raise Unsupported(str(value.layout))
        plain = value.detach()
        storage = plain.untyped_storage().clone()
        copy = torch.empty(0, dtype=plain.dtype).set_(storage, plain.storage_offset(), plain.size(), plain.stride())
        copy = copy.conj() if plain.is_conj() else copy
        return torch._neg_view(copy) if plain.is_neg() else copy
    if type(value) in (list, tuple):
        return type(value)([copied(item) for item in value])
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return value
