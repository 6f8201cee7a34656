"""Words for compilers and for dispatch: ``torch.Tag`` and ``torch._C.DispatchKey``."""

from __future__ import annotations

import enum


class Tag(enum.Enum):
    """Property of an operation for compilers. Source: torch.Tag."""

    core = 0
    cudagraph_unsafe = 1
    data_dependent_output = 2
    dynamic_output_shape = 3
    flexible_layout = 4
    generated = 5
    inplace = 6
    inplace_view = 7
    maybe_aliasing_or_mutating = 8
    needs_contiguous_strides = 9
    needs_exact_strides = 10
    needs_fixed_stride_order = 11
    nondeterministic_bitwise = 12
    nondeterministic_seeded = 13
    out = 14
    out_variant = 15
    pointwise = 16
    pt2_compliant_tag = 17
    reduction = 18
    view_copy = 19

    def __repr__(self) -> str:
        return f"<Tag.{self.name}: {self.value}>"


_BACKENDS = "CPU CUDA HIP XLA MPS IPU XPU HPU VE Lazy MTIA MAIA PrivateUse1 PrivateUse2 PrivateUse3 Meta".split()
_KEYS = (
    ["Undefined", "Dense", *_BACKENDS]
    + [f"{kind}{backend}" for kind in ("Quantized", "Sparse", "SparseCsr", "NestedTensor") for backend in ("", *_BACKENDS)]
    + "BackendSelect Python Fake FuncTorchDynamicLayerBackMode Functionalize Conjugate Negative ZeroTensor ADInplaceOrView".split()
    + ["AutogradOther", "AutogradFunctionality", *[f"Autograd{backend}" for backend in _BACKENDS], "AutogradNestedTensor", "Tracer"]
    + [f"Autocast{backend}" for backend in "CPU CUDA XPU MPS MTIA MAIA XLA IPU HPU PrivateUse1".split()]
    + "FuncTorchBatched FuncTorchBatchedDecomposition FuncTorchVmapMode Batched VmapMode FuncTorchGradWrapper".split()
    + "PythonTLSSnapshot FuncTorchDynamicLayerFrontMode PreDispatch PythonDispatcher Autograd CompositeImplicitAutograd".split()
    + "CompositeImplicitAutogradNestedTensor CompositeExplicitAutograd CompositeExplicitAutogradNonFunctional".split()
)
DispatchKey = enum.Enum("DispatchKey", _KEYS, module=__name__)  # type: ignore[misc]
