"""Changes that no test can notice, or need not: path, function, what stood there, what it became; and why."""

from __future__ import annotations

EXPLAINED: dict[tuple[str, str, str, str], str] = {
    (
        "ops/convolution_kernels.py",
        "correlate",
        "1",
        "(1 + 1)",
    ): "Which of two ways computes a dense convolution of channels-last images; the wrapper gives the result their layout.",
    (
        "ops/conversion.py",
        "pinned_copy",
        "pinned(input)",
        "__rounded__(pinned(input))",
    ): "Only an accelerator has pinned memory: the tests of its stand-in run in processes of their own (tests/devices/test_cuda.py).",
    ("ops/polynomials.py", "_by_recurrence", "np.int64", "np.int32"): "A degree of 2**31 and more would take so many steps.",
    (
        "func/_dual.py",
        "has_level",
        "has_level(tensor._inner, level)",
        "has_level(level, tensor._inner)",
    ): "A tangent of zeros that has a level gets it a second time: zeros again.",
    ("func/_batch_index.py", "Key.__init__", "at + 1", "(at)"): "An ellipsis that stays in the key stands for no dimension.",
    (
        "func/_batch_rules.py",
        "_one_hot",
        "num_classes > 0",
        "(num_classes) >= (0)",
    ): "No classes are an error, of the batch or of its first element.",
    (
        "kernels/families/normalization.py",
        "_gradients",
        "np.float32",
        "np.float16",
    ): "The sums are float64 anyway; stored as float32 they are rounded twice, which half precision rarely shows.",
    ("kernels/families/blas.py", "_loaded", '".so" in path', '(".so") not in (path)'): "Without the library NumPy multiplies.",
    (
        "core/arrays/kinds.py",
        "register",
        "native.foreign.add(kind.array_class)",
        "pass",
    ): "Who is asked first: a launch refuses what is no plain array anyway.",
    ("kernels/families/recurrent.py", "lstm_layer_backward", "1", "(1 + 1)"): "Both stand for a tensor of no elements and the same type.",
    ("ops/exponential.py", "complex_logaddexp", "0", "(0 + 1)"): "Only infinite real parts come here.",
    (
        "ops/reduction.py",
        "any_",
        "_truth(np.logical_or, input, dim, keepdim)",
        "__rounded__(_truth(np.logical_or, input, dim, keepdim))",
    ): "The result is of bools.",
    (
        "ops/random.py",
        "geometric_",
        '_fill(input, lambda array: samplers.fill_geometric(stream, array, chance), "GeometricBackward0")',
        '__rounded__(_fill(input, lambda array: samplers.fill_geometric(stream, array, chance), "GeometricBackward0"))',
    ): "Whole numbers, as float32 has them too.",
    (
        "ops/special.py",
        "_floats_only",
        'a.dtype.kind == "f"',
        '(a.dtype.kind) != ("f")',
    ): "A fast path that leaves its work to the slow one.",
    (
        "core/calls/wrappers.py",
        "_add_written_inplace",
        'f"fits and (b{k}.__class__ is float or b{k}.__class__ is int)" if p.kind == "number" else "False"',
        '(("False") if p.kind == "number" else (f"fits and (b{k}.__class__ is float or b{k}.__class__ is int)"))',
    ): "A fast path that leaves its work to the slow one.",
}
