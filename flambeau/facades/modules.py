"""Modules under PyTorch's names whose contents this package defines in other modules.

``ELSEWHERE`` has whole modules: ``flambeau._ops`` is ``flambeau.aten.namespaces``. ``NAMES`` has modules that re-export what others define:
``from flambeau._functorch.apis import vmap`` gives ``flambeau.func.vmap``. Importing the package puts a ``Facade`` into ``sys.modules`` for
each. A facade imports its module when a name is first looked up.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["ELSEWHERE", "NAMES", "Facade", "install", "module"]

_PACKAGE = __name__.partition(".")[0]

# Modules that lie elsewhere in this package, by their names.
ELSEWHERE = {
    "_functorch.make_functional": "facades.functorch",
    "_functorch.vmap": "func._vmap",
    "_jit_internal": "jit._internal",
    "_library": "aten.library",
    "_ops": "aten.namespaces",
    "_subclasses.fake_tensor": "aten.fake_tensor",
    "compiler.config": "facades._dynamo.config",
    "horovod.torch": "facades.horovod",
    **{f"_library.{name}": f"aten.library.{name}" for name in "autograd custom_ops infer_schema opcheck".split()},
    **dict.fromkeys(("distributed.tensor.device_mesh", "distributed._tensor.device_mesh"), "distributed.device_mesh"),
    "distributed._tensor.placement_types": "distributed.tensor.placement_types",
    "distributed.tensor._utils": "distributed.tensor._spec",
    "distributed._tensor.api": "distributed.tensor._api",
    **{
        name: f"facades.{name}"
        for name in (
            "_C _C._functorch _C._nn _C._profiler _VF __config__ __future__ _dynamo _dynamo._trace_wrapped_higher_order_op "
            "_dynamo.config _dynamo.eval_frame _dynamo.exc _dynamo.testing _dynamo.utils _guards _inductor "
            "_inductor.compile_fx _inductor.config _tensor_str _utils _vmap_internals apex apex.amp apex.parallel classes "
            "cpu cpu.amp futures horovod mps quasirandom return_types spaces torch_version visdom"
        ).split()
    },
}

# Modules of nothing but names: which they have from which modules of this package.
NAMES: dict[str, dict[str, str]] = {
    "_dynamo.backends": {},
    "_dynamo.backends.debugging": {"compiler.explanation": "ExplainOutput"},
    "_logging": {"compiler.logs": "set_logs"},
    "_functorch": {},
    "_functorch.apis": {"func": "grad grad_and_value vmap"},
    "_functorch.eager_transforms": {"func": "debug_unwrap functionalize hessian jacfwd jacrev jvp linearize vjp"},
    "_functorch.functional_call": {"func": "functional_call stack_module_state"},
    "_higher_order_ops": {"fx.control_flow": "cond cond_op while_loop while_loop_op"},
    "utils.benchmark.utils": {},
    "utils.benchmark.utils.common": {
        "utils.benchmark": "Measurement TaskSpec ordered_unique select_unit set_torch_threads trim_sigfig unit_to_english"
    },
    "utils.benchmark.utils.compare": {"utils.benchmark": "Colorize Compare"},
    "utils.benchmark.utils.fuzzer": {"utils.benchmark": "FuzzedParameter FuzzedTensor Fuzzer ParameterAlias"},
    "utils.benchmark.utils.timer": {"utils.benchmark": "Language Timer timer"},
    "utils.benchmark.utils.sparse_fuzzer": {"utils.benchmark": "FuzzedSparseTensor"},
    "utils.benchmark.utils.valgrind_wrapper": {},
    "utils.benchmark.utils.valgrind_wrapper.timer_interface": {
        "utils.benchmark": "CallgrindStats CopyIfCallgrind FunctionCount FunctionCounts"
    },
    "_subclasses": {"aten.fake_tensor": "DynamicOutputShapeException FakeTensor FakeTensorMode UnsupportedFakeTensorException"},
    "export.decomp_utils": {"export.decompositions": "CustomDecompTable"},
    "_tensor": {"core.tensor": "Tensor", "core.protocols.rebuild": "_rebuild_from_type_v2"},
    "functional": {
        "": "atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors cartesian_prod cdist chain_matmul einsum istft "
        "lu meshgrid norm pca_lowrank split stft svd_lowrank tensordot unique unique_consecutive unravel_index"
    },
}


def module(name: str) -> Any:
    """The module of that name below the package: the one elsewhere, or one of names."""
    place = ELSEWHERE.get(name)
    return sys.modules[f"{_PACKAGE}.{name}"] if place is None else importlib.import_module(f"{_PACKAGE}.{place}")


class Facade(ModuleType):
    """Module whose names lie elsewhere, or are only names: it looks them up where they are."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        super().__init__(f"{_PACKAGE}.{path}", f"``torch.{path}``: names that are defined elsewhere; see ``{__name__}``.")
        self._path = path
        self.__spec__ = ModuleSpec(self.__name__, None, is_package=path in _PACKAGES)
        if path in _PACKAGES:
            self.__path__: list[str] = []

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        return vars(module(self._path)) if self._path in ELSEWHERE else {name: getattr(self, name) for name in dir(self)}

    def __getattr__(self, name: str) -> Any:
        path = self._path
        if f"{path}.{name}" in ELSEWHERE or f"{path}.{name}" in NAMES:
            return module(f"{path}.{name}")
        if name == "__all__":
            return getattr(module(path), name) if path in ELSEWHERE else dir(self)
        if not name.startswith("__"):  # programs that walk over all modules look such names up, which must import nothing
            if path in ELSEWHERE:
                return getattr(module(path), name)
            for place, names in NAMES[path].items():
                if name in names.split():
                    return getattr(importlib.import_module(f"{_PACKAGE}.{place}".rstrip(".")), name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        """Setting a name, which programs do with ``torch._dynamo.config``, sets it in the module itself."""
        if name != "_path" and not name.startswith("__") and self._path in ELSEWHERE:
            setattr(module(self._path), name, value)
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        delattr(module(self._path), name) if self._path in ELSEWHERE else super().__delattr__(name)

    def __dir__(self) -> list[str]:
        if self._path in ELSEWHERE:
            return dir(module(self._path))
        children = {name.removeprefix(f"{self._path}.") for name in NAMES if name.startswith(f"{self._path}.")}
        return sorted(children.union(*(names.split() for names in NAMES[self._path].values())))


_PACKAGES = {name.rpartition(".")[0] for name in (*ELSEWHERE, *NAMES)}


def install() -> None:
    """Put the facades where imports find them."""
    for path in (*ELSEWHERE, *NAMES):
        sys.modules[f"{_PACKAGE}.{path}"] = Facade(path)
