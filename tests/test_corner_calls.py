"""Calls at the edges of what functions take, one expression each: PyTorch's values, dtypes and shapes, or its type of error."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import flambeau

M, M3 = "torch.ones(2, 3, device='meta')", "torch.ones(2, 3, 4, device='meta')"
ROWS = "torch.arange(12.).reshape(3, 4)"
Y = "torch.ones(2, 4, 4, 4)"
PARTS = (("select_copy", "1"), ("slice_copy", "1, 2"), ("narrow_copy", "0, 1"), ("select", "-1"), ("narrow", "-1, 1"))
FLAGS = ("sparse", "sparse_csr", "mkldnn", "nested", "quantized", "cuda", "cpu", "meta", "leaf")
X = "torch.arange(-3., 3.).requires_grad_()"
# 64 of each, by PyTorch's vectorised loops: those over the rest may give others at NaN
EDGES = "torch.tensor([float('nan'), float('inf'), -float('inf'), 0., -0., 1e-40, -1e-40, 3e38, 1., -1., 3., -3., 6., .5, -.5])"
# rows 1 and 0, and row 1 once more
ROWS_OVER = "torch.sparse_coo_tensor([[1, 0, 1]], [[0., 0, 1], [0, 1, 0], [1, 1, 1]], (2, 3))"
PIECES = ("hardtanh relu6 hardsigmoid hardswish hardshrink softshrink elu selu celu leaky_relu").split()
LIMITS = (("-0.0", "min=0"), ("0.0", "min=-0.0"), ("-0.0", "max=0"), ("0.0", "max=-0.0"), ("-0.0", "0, 1"), ("0.0", "-1, -0.0"))
WRITTEN = {
    "addcmul": ("x[:-1]", "one"), "addcdiv": ("x[:-1]", "one"), "lerp": ("one", "x[:-1]"),
    **dict.fromkeys(("fmod", "remainder", "pow", "add", "mul", "true_divide"), ("x[:-1]",)),
}  # fmt: skip
SQUARES = {"addcmul": "x, x", "addcdiv": "x, x", "lerp": "x, 0.5", "fmod": "x", "remainder": "x", "pow": "x"}
_SQUARE = "torch.tensor([[2., 1.], [1., 3.]])"
OUTS = (
    *(
        (f"{way}({_SQUARE}, 0", dtypes)
        for way in ("max", "min")
        for dtypes in (("float64", "int64"), ("float32", "int32"), ("float32", "int64"))
    ),
    *((f"{way}({_SQUARE}", ("float64",)) for way in ("max", "linalg.det", "linalg.inv", "linalg.svdvals", "linalg.norm", "histc", "tril")),
    *((f"{way}({_SQUARE}, {_SQUARE}", ("float64",)) for way in ("mm", "linalg.solve", "linalg.vecdot", "inner", "heaviside", "maximum")),
    *((f"linalg.lu_factor({_SQUARE}", dtypes) for dtypes in (("float64", "int32"), ("float32", "int64"), ("float32", "int32"))),
    (f"linalg.lu_factor_ex({_SQUARE}", ("float32", "int32", "int64")),
    (f"addmm({_SQUARE}, {_SQUARE}, {_SQUARE}", ("float64",)),
    *((f"{way}({_SQUARE}", (dtype,)) for way in ("any", "all") for dtype in ("bool", "uint8", "int64")),
    *((f"{way}({_SQUARE}.byte()", (dtype,)) for way in ("any", "all") for dtype in ("bool", "uint8", "int8")),
)
CALLS = [
    # reductions and shapes
    "torch.scatter_reduce(torch.ones(3), 0, torch.tensor([1]), torch.tensor([2], dtype=torch.int64), 'sum')",
    "torch.scatter_reduce(torch.ones(3), 0, torch.tensor([1, 1]), torch.tensor([2., 3.]), 'prod', include_self=False)",
    "torch.median(torch.ones(2, dtype=torch.complex64))",
    "torch.nanmedian(torch.ones(2, dtype=torch.complex64), 0)",
    "torch.max_pool1d_with_indices(torch.arange(12.).reshape(1, 1, 12), 3)",
    "torch.max_pool1d_with_indices(torch.arange(12.).reshape(1, 1, 12), 3, 2, 1)",
    "F.max_pool1d(torch.arange(12.).reshape(1, 1, 12), 3, 1)",
    "F.max_pool1d(torch.arange(12.).reshape(1, 12), 3, padding=2)",
    "F.max_pool2d(torch.arange(12.).reshape(1, 3, 4), 2, padding=2)",
    "torch.tril(torch.ones(2, 3), 1)",
    "torch.triu(torch.arange(24).reshape(2, 3, 4), -1)",
    "torch.tril(torch.ones(3))",
    f"torch.squeeze({ROWS}[:, :1], 1)",
    f"torch.squeeze({ROWS}, -3)",
    f"torch.squeeze({ROWS}, 2)",
    "torch.squeeze(torch.tensor(1.), 0)",
    "torch.squeeze(torch.tensor(1.), 1)",
    # numbers and dtypes
    "torch.mean(torch.full((70000,), 1.0, dtype=torch.float16))",
    "torch.mean(torch.arange(4))",
    "torch.isneginf(torch.tensor([1., -float('inf'), float('nan'), float('inf')]))",
    "torch.isneginf(torch.tensor([1, -1]))",
    "torch.isnan(torch.tensor([complex(1, float('nan')), complex(1, 2)]))",
    "torch.isnan(torch.tensor([1, 2]))",
    "torch.linspace(0, 1, 7, dtype=torch.bfloat16)",
    "torch.logspace(0, 1, 5, dtype=torch.float16)",
    "torch.linspace(-2, 3, 6, dtype=torch.int32)",
    "torch.special.chebyshev_polynomial_t(torch.linspace(-1, 1, 5), 3)",
    "torch.special.hermite_polynomial_h(torch.linspace(-1, 1, 5), torch.arange(5.))",
    "torch.bucketize(torch.tensor([0.1, 0.5, 0.9]), torch.tensor([0., 0.5, 1.]), out_int32=True, right=True)",
    "torch.empty(2, dtype=torch.complex64).bernoulli_(0.5)",
    "torch.empty(2, dtype=torch.float32).bernoulli_(1.5)",
    "torch.normal(0., 1., (2,), dtype=torch.int64)",
    "torch.normal(torch.zeros(2), torch.tensor([1., -1.]))",
    "torch.normal('a', 1.)",
    "torch.geqrf(torch.ones(2, 2, dtype=torch.int64))",
    "torch.quantize_per_tensor(torch.tensor([0.05, 0.15, 0.25, -0.35]), 0.1, 0, torch.qint8).int_repr()",
    "torch.fake_quantize_per_tensor_affine(torch.tensor([0.05, 0.15, 0.25, -0.35]), 0.1, 0, -128, 127)",
    # layers' functions
    "F.dropout3d(torch.ones(2, 3, 4, 5), 0.5).flatten(1).std(1)",
    "F.dropout2d(torch.ones(2, 3, 4, 5), 0.5).flatten(2).std(2)",
    "F.dropout1d(torch.ones(2, 3, 4), 0.5).std(2)",
    "F.rrelu(torch.tensor([-1., 2., -4.]), 0.5, 0.5, True, True)",
    "(lambda x: (F.rrelu(x, 0.25, 0.25, False, True) is x, x))(torch.tensor([-1., 2.]))",
    "F.interpolate(torch.arange(12.).reshape(1, 3, 4), 7, mode='linear')",
    "F.interpolate(torch.arange(12.).reshape(1, 3, 4), 7, mode='linear', align_corners=True)",
    "F.interpolate(torch.arange(12.).reshape(1, 3, 4), scale_factor=1.7, mode='linear', recompute_scale_factor=False)",
    "F.interpolate(torch.arange(48.).reshape(1, 1, 6, 8), (3, 5), mode='bilinear', antialias=True)",
    "F.interpolate(torch.arange(48.).reshape(1, 1, 6, 8), (3, 5), mode='bicubic', antialias=True)",
    "F.grid_sample(torch.arange(12.).reshape(1, 1, 3, 4), torch.linspace(-2.5, 2.5, 20).reshape(1, 2, 5, 2), padding_mode='reflection')",
    "F.grid_sample(torch.arange(12.).reshape(1, 1, 3, 4), torch.linspace(-9, 9, 20).reshape(1, 2, 5, 2), 'nearest', 'reflection', True)",
    "F.log_softmax(torch.tensor([-float('inf')] * 3), 0)",
    "F.log_softmax(torch.tensor([[1.], [float('inf')]]), 1)",
    "F.one_hot(torch.tensor([0, 2]))",
    "torch.vmap(lambda x: F.one_hot(x, 4))(torch.tensor([[0, 2], [3, 1]]))",
    "torch.vmap(lambda x: F.one_hot(x))(torch.tensor([[0, 2], [3, 1]]))",
    "torch.vmap(lambda x: F.rms_norm(x, (3, 4)))(torch.arange(24.).reshape(2, 3, 4))",
    "torch.vmap(lambda x: F.rms_norm(x, (4,), torch.arange(4.)))(torch.arange(24.).reshape(2, 3, 4))",
    "torch.vmap(lambda x, w: F.rms_norm(x, (4,), w))(torch.arange(24.).reshape(2, 3, 4), torch.ones(2, 4))",
    # writes by keys of bools: a bool alone is a view, in a tuple an index
    *(
        f"(lambda x: (x.__setitem__({key}, {value}), x))(torch.zeros(2))"
        for key in ("True", "False", "(True,)", "(False,)", "(True, 0)", "torch.tensor(True)", "(torch.tensor([True, False]),)")
        for value in ("torch.tensor(3)", "torch.ones(1)", "2.5")
    ),
    # derivatives
    "(lambda x: (x.backward(torch.ones(2, 3)), x.data.t_(), x.backward(torch.ones(3, 2))))(torch.ones(2, 3, requires_grad=True))",
    "torch.func.grad(lambda x: (x * x.data).sum())(torch.tensor(3.))",
    "torch.autograd.functional.hvp(lambda x, y: (x + y).sum(), (torch.ones(2), torch.ones(3, 2)), (torch.ones(2), torch.ones(3, 2)))",
    "torch.autograd.functional.vhp(lambda x, y: (x * x).sum() + y.sum(), (torch.ones(2), torch.ones(3)), (torch.ones(2), torch.ones(3)))",
    "torch.autograd.functional.jvp(lambda x, y: torch.ones(2), (torch.ones(2), torch.ones(3)), (torch.ones(2), torch.ones(3)))",
    "torch.autograd.functional.vjp(lambda x, y: torch.ones(2), (torch.ones(2), torch.ones(3)), torch.ones(2))",
    "torch.autograd.functional.jacobian(lambda x, y: torch.ones(2), (torch.ones(2), torch.ones(3)))",
    f"torch.autograd.grad(torch.poisson({X}.abs()).sum(), {X}, allow_unused=True)",
    "(lambda x: (x.map_(torch.tensor([10., 20.]), lambda a, b: a - 2 * b), x))(torch.tensor([1., 2.]))",
    "(lambda v: (torch.zeros(3, 2).index_put((torch.tensor([0, 2]),), v).sum().backward(), v.grad))(torch.ones(1, 2, requires_grad=True))",
    "(lambda v, x: (x.__setitem__(torch.tensor([0, 2]), v), x.sum().backward(), v.grad))"
    "(torch.ones(1, 1, 2, requires_grad=True), torch.zeros(3, 2))",
    "torch.autograd.forward_ad.unpack_dual(torch.ones(2))",
    "(torch.autograd.forward_ad.exit_dual_level(), 1)",
    "(lambda lv: (torch.autograd.forward_ad.exit_dual_level(level=lv), torch.autograd.forward_ad.make_dual(torch.ones(1), torch.ones(1))))"
    "(torch.autograd.forward_ad.enter_dual_level())",
    "(lambda g: (g.__enter__(), torch.is_grad_enabled(), g.__exit__(None, None, None), torch.is_grad_enabled())[1::2])"
    "(torch.set_grad_enabled(False))",
    "(torch.set_grad_enabled(False), torch.is_grad_enabled(), torch.set_grad_enabled(True), torch.is_grad_enabled())[1::2]",
    # numbers, layouts and derivatives
    *(f"torch.view_as_complex(torch.arange(5, dtype=torch.{dtype})[1:].reshape(2, 2))" for dtype in ("int64", "float32", "bfloat16")),
    *(f"torch.{name}(torch.eye({n}).to_sparse(), torch.ones({n}, 2)).is_coalesced()" for name in ("hspmm", "smm") for n in (1, 2, 4)),
    *(
        f"{made}.to(torch.{dtype}).stride()"
        for made in (
            "torch.ones(1, 3).t()",
            "torch.ones(3, 1)",
            "torch.ones(2, 1, 3).transpose(0, 1)",
            "torch.ones(0, 1, 3).transpose(1, 2)",
        )
        for dtype in ("float64", "float16", "int32")
    ),
    "(lambda x: (x.register_hook(lambda g: g * 3), (x * 2).sum().backward(), x.grad)[1:])(torch.ones(2, requires_grad=True))",
    "(lambda x: (x.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(5)), (x * 2).sum().backward(), x.grad)[1:])"
    "(torch.ones(2, requires_grad=True))",
    *(
        f"(lambda a, b: (torch.{name}(a, b).requires_grad, torch.{name}(a, b).sum().backward()))"
        f"(torch.eye(2).to_sparse(){first}, torch.ones(2, 2){second})"
        for name in ("hspmm", "smm")
        for first, second in (("", ".requires_grad_()"), (".requires_grad_()", ""))
    ),
    *(
        f"({number} * torch.eye(2, dtype=torch.{dtype}).to_sparse{form}()).dtype.is_complex"
        for number in ("torch.tensor(2 + 1j)", "(2 + 1j)", "2.5", "torch.tensor(2.0, dtype=torch.float64)")
        for dtype in ("float16", "float32", "int64")
        for form in ("", "_csr")
    ),
    *(f"(lambda x: x.{name}_(x.double()).to_dense())(torch.eye(2, dtype=torch.float16).to_sparse())" for name in ("add", "sub", "mul")),
    *(
        f"torch.eye(2).to_sparse_{form}({size}).values()"
        for form in ("bsr", "bsc")
        for size in ("1", "2", "(1, 2)", "[2, 2]", "(1,)", "0", "1.0", "None")
    ),
    *(
        f"F.cross_entropy(torch.arange({n * 3}.).reshape({n}, 3) / 7, torch.arange({n}) % 3, ignore_index={ignored})"
        for n in (2, 60)
        for ignored in (0, 1, 2, -100)
    ),
    *(f"torch.{name}(torch.arange(24.).reshape(2, 3, 4), {dim}, {more})" for name, more in PARTS for dim in (0, -1, -3, 2)),
    *(f"torch.tensor(7.).{name}_copy(0, 0)" for name in ("select", "unsqueeze", "slice")),
    *(
        f"(lambda x: [getattr(x, 'is_' + name) for name in {FLAGS}])({made})"
        for made in (
            "torch.eye(2)",
            *(f"torch.eye(2).to_sparse{form}()" for form in ("", "_csr", "_csc")),
            "torch.eye(2).to_sparse_bsr((1, 1))",
        )
    ),
    "(lambda s: (s.share_memory_(), s.is_shared())[1])(torch.ones(2).storage())",
    "(lambda s: (s.is_shared(), s.share_memory_().is_shared()))(torch.ones(2).untyped_storage())",
    "type((1,) + torch.ones(2, 3).shape).__name__",
    "type(torch.ones(2, 3).shape + (1,)).__name__",
    "[1] + torch.ones(2, 3).shape",
    "torch.ones(2, 3).shape + [1]",
    *(f"(lambda x: x.add_(x{other}))(torch.ones({size}))" for size in ("2, 2", "3, 3", "1, 1", "2") for other in (".t()", "", "[:1]")),
    "torch.logaddexp(torch.tensor(complex(-float('inf'), 1)), torch.tensor(complex(-float('inf'), 2)))",
    "torch.logaddexp(torch.tensor(complex(float('inf'), 1)), torch.tensor(complex(3, 2)))",
    *(
        f"torch.where(torch.ones({shape}) > 0, torch.masked.masked_tensor(torch.ones(1, 3), torch.tensor([[True, False, True]])), "
        "torch.ones(3)).get_mask()"
        for shape in ("3", "2, 3", "4, 1, 3")
    ),
    *(
        f"(lambda a, b: [(c := a @ b)._nnz(), c.to_dense().sum().backward(), a.grad.to_dense(), b.grad.to_dense()])"
        f"(torch.tensor([[1., 1.], [0., 1.]]).to_sparse{form}().requires_grad_(), "
        f"torch.tensor([[1., 0.], [-1., 1.]]).to_sparse{form}().requires_grad_())"
        for form in ("", "_csr")
    ),
    f"repr(torch.nn.ParameterList([{M}, torch.ones(2)]))",
    f"repr(torch.nn.ParameterDict({{'a': {M}}}))",
    *(
        f"F.{name}(torch.linspace(0, 1, 64, dtype=torch.float64).reshape(1, 4, 4, 4).to(memory_format=torch.{form}), 2)"
        for name in ("pixel_shuffle", "pixel_unshuffle", "channel_shuffle")
        for form in ("contiguous_format", "channels_last")
    ),
    *(
        f"torch.sparse_coo_tensor(torch.arange({n}).expand(2, {n}), torch.ones({n}), (2, 2)){coalesced}{call}.is_coalesced()"
        for n in (0, 1, 2)
        for coalesced in ("", ".coalesce()")
        for call in (".t()", ".transpose(0, 0)", ".permute(1, 0)", ".permute(1, 0).t()", ".permute(1, 0).transpose(0, 0)", ".mT")
    ),
    *(
        f"(lambda x: x.copy_(x.detach()).to_dense())(torch.tensor({x}).to_sparse{form}())"
        for x in ("[[1., 0.]]", "[[]]")
        for form in ("", "_csr", "_csc")
    ),
    *(f"torch.tensor({x}).to_sparse().any()" for x in ("0.", "1.", "[0., 2.]", "[[1, 0], [0, 0]]", "[]")),
    *(
        f"[x.stride() for x in (F.{name}({x}, {r}), F.{name}({x}.transpose(-1, -3), {r}))]"
        for name in ("pixel_shuffle", "pixel_unshuffle", "channel_shuffle")
        for x in (
            "torch.ones(2, 4, 4, 4)",
            "torch.ones(2, 4, 4, 4).to(memory_format=torch.channels_last)",
            "torch.ones(2, 4, 4, 8)[..., ::2]",
        )
        for r in (1, 2)
    ),
    "(lambda x: (F.channel_shuffle(x, 1).zero_(), x))(torch.ones(1, 2, 3))",
    *(f"F.{name}(torch.tensor(-0.7), torch.ones(2, dtype=torch.bfloat16) / 3)" for name in ("huber_loss", "smooth_l1_loss", "mse_loss")),
    *(
        f"(lambda x: torch.autograd.grad(torch.{name}(x), x))(torch.empty({shape}, dtype=torch.{dtype}, requires_grad=True))"
        for name in ("median", "nanmedian")
        for shape in ("0", "2, 0")
        for dtype in ("float32", "bfloat16")
    ),
    *(f"torch.{name}(torch.empty(0, 3, dtype=torch.{dtype}))" for name in ("median", "nanmedian") for dtype in ("int64", "uint8", "bool")),
    "torch.ops.aten.upsample_linear1d(torch.arange(6.).reshape(1,2,3), [9], False, 0.5)",
    "torch.ops.aten.upsample_linear1d(torch.arange(6.).reshape(1,2,3), [9], False, 5.0)",
    "torch.isclose(torch.tensor([1,2,9]), torch.tensor([1,3,9]), rtol=0, atol=1)",
    "torch.isclose(torch.tensor([1,2,9]), torch.tensor([1,3,10]), rtol=0.5, atol=0)",
    "torch.isclose(torch.tensor([1,2,9]), torch.tensor([1,3,10]), rtol=0, atol=0)",
    "(lambda w: ((F.embedding(torch.zeros(3, dtype=torch.long), w) * 1e5).sum().backward(), w.grad))"
    "(torch.zeros(2, 2, dtype=torch.bfloat16, requires_grad=True))",
    "torch.linspace(0.1, 7.3, 1001).view(torch.int32)",
    "torch.linspace(-0.3, 1.7, 600, dtype=torch.float64).view(torch.int64)",
    "torch.linspace(-0.3, 1.7, 300, dtype=torch.float16).view(torch.int16)",
    "torch.linspace(-0.3, 1.7, 300, dtype=torch.bfloat16).view(torch.int16)",
    "torch.empty_strided((2,0,3),(1,7,9)).stride()",
    "torch.zeros(2,0,3).stride()",
    "torch.zeros(2,0,3).transpose(0,2).stride()",
    "torch.zeros(2,0,3)[:, :, ::2].stride()",
    "torch.zeros(0, 3).expand(4, 0, 3).stride()",
    "torch.zeros(1, 3).expand(0, 3).stride()",
    "[1 / (torch.ones(2) * z) for z in (0.0, -0.0, 0.0)]",
    "[1 / (torch.ones(2, dtype=torch.float64) * z) for z in (-0.0, 0.0, -0.0)]",
    "[torch.ones(2) / z for z in (0.0, -0.0, 0.0)]",
    "[torch.copysign(torch.ones(2), z) for z in (0.0, -0.0, 0.0)]",
    "[torch.full((2,), 1.).div_(z) for z in (0.0, -0.0, 0.0)]",
    "torch.autograd.functional.vhp(lambda a,b: (a+b).sum(), (torch.ones(2),torch.ones(2)),(torch.ones(2),torch.ones(2)))",
    "torch.autograd.functional.hvp(lambda a, b, c: (a + b + c).sum(), (torch.ones(2),) * 3, (torch.ones(2),) * 3)",
    "torch.func.grad(lambda x: (x.data * x).sum())(torch.arange(3.))",
    "torch.func.jvp(lambda x: x.data * x, (torch.arange(3.),), (torch.ones(3),))",
    "torch.func.vmap(torch.func.grad(lambda x: (x.data * x).sum()))(torch.arange(6.).reshape(2,3))",
    "torch.vmap(lambda x: F.one_hot(x, 0))(torch.tensor([[0, 2], [3, 1]]))",
    "F.conv2d(torch.ones(2,3,4,5).to(memory_format=torch.channels_last), torch.ones(2,3,2,2)).stride()",
    "F.conv2d(torch.ones(2,3,4,5), torch.ones(2,3,2,2).to(memory_format=torch.channels_last)).stride()",
    "F.conv3d(torch.ones(2,3,4,5,3).to(memory_format=torch.channels_last_3d), torch.ones(2,3,2,2,2)).stride()",
    "F.conv2d(torch.ones(2,4,4,5).to(memory_format=torch.channels_last), torch.ones(4,2,2,2), groups=2).stride()",
    "F.conv2d(torch.ones(2,4,4,5).to(memory_format=torch.channels_last), torch.ones(4,1,2,2), groups=4).stride()",
    "F.conv1d(torch.ones(2,4,6), torch.ones(4,2,1), groups=2).stride()",
    "torch.tensor([1.,2.]).polygamma_(1)",
    "(lambda x: (x.polygamma_(1) is x, x))(torch.tensor([1.,2.]))",
    "(lambda x: (torch._foreach_add_([x], 1), x))(torch.ones(2))",
    "(lambda x: (F.max_pool2d(x, 2, return_indices=True)[0].sum().backward(), x.grad))(torch.ones(1, 4, 4).requires_grad_())",
    "(lambda x: (F.max_pool1d(x, 2, return_indices=True)[0].pow(2).sum().backward(), x.grad))"
    "(torch.arange(16.).reshape(1, 16).requires_grad_())",
    # gradients at NaN, infinity, zeros and numbers beyond the normal ones, and beside them
    *(
        f"(lambda x: torch.autograd.grad({call}.sum(), x))({EDGES}.to(torch.{dtype}).repeat_interleave(64).requires_grad_())"
        for dtype in ("float32", "float64")
        for call in (
            *(f"F.{name}(x)" for name in PIECES if dtype == "float32" or name != "hardsigmoid"),  # its slope there is float32's
            "F.threshold(x, 0.5, 2.0)",
            "torch.sinc(x)",
            "torch.special.i1e(x[320:])",
            "torch.logit(x)",
            "torch.logit(x, 0.1)",
        )
    ),
    "(lambda x: torch.autograd.grad(torch.sinc(x).sum().real, x))(torch.tensor([1e-40, 0.3 + 0.1j, 0]).requires_grad_())",
    *(
        f"(lambda x, y: torch.autograd.grad((torch.{name}(x, y) * 0).sum(), (x, y)))(torch.tensor([1., 0., 2., float('inf'), "
        "float('nan')]).requires_grad_(), torch.tensor([-1.5, -1., 0., float('inf'), 1.]).requires_grad_())"
        for name in ("xlogy", "special.xlog1py")
    ),
    "(lambda x, y: torch.autograd.grad(F.kl_div(x, y), (x, y)))"
    "(torch.ones(0, requires_grad=True), torch.tensor([-0.6], requires_grad=True))",
    "(lambda x: torch.autograd.grad(F.poisson_nll_loss(x, x), x))(torch.tensor([3e38], requires_grad=True))",
    *(
        "(lambda x: torch.autograd.grad(torch.logsumexp(x, 0).sum(), x))"
        f"(torch.tensor([[-float('inf'), 1., float('inf')], [-float('inf'), {other}, 2.]], dtype=torch.{dtype}).requires_grad_())"
        for other in ("2.", "-float('inf')", "float('nan')")
        for dtype in ("float32", "float64")
    ),
    *(
        f"(lambda x, y, z: torch.autograd.grad(torch.{name}(z, y, x, value=0.3).sum(), (x, y, z), torch.tensor(1 + 0j)))"
        "(torch.tensor([-float('inf'), float('nan'), 3.]).requires_grad_(), torch.tensor([1., 2., 0.]).requires_grad_(), "
        "torch.tensor([1 + 0j]).requires_grad_())"
        for name in ("addcmul", "addcdiv")
    ),
    # sums of gradients have the dtype of the result, not the operand's
    *(
        f"(lambda x, y: torch.autograd.grad((x {sign} y).sum(), (x, y)))(torch.tensor([[1.349], [1.659], [1000.1], [-999.1]])"
        f".requires_grad_(), torch.tensor([0.0149], dtype=torch.{dtype}).requires_grad_())"
        for sign in ("+", "*", "/")
        for dtype in ("bfloat16", "float16", "float64")
    ),
    # what passes beyond the largest number, or below the least, on the way
    *(
        f"torch.{name}(torch.tensor([3e38, 0.4665, 2.2]{more}))"
        for name in ("std", "var")
        for more in ("", ", dtype=torch.float64", ", dtype=torch.bfloat16")
    ),
    *(
        f"torch.std({rows}, {dim})"
        for rows in ("torch.tensor([[3e38, 1.5] * 20] * 400)", "torch.tensor([[3e38, 1.5]] * 3)")
        for dim in (0, 1)
    ),
    *(
        f"torch.{name}(torch.tensor([{values}], dtype=torch.{dtype}), 0)"
        for name, values in (("cumprod", "3e38, 3e38, 1e-38, 1e-38"), ("cumprod", "1e-40, .55, 3e38"), ("cumsum", "1., " + "3e-8, " * 9))
        for dtype in ("float32", "float64", "complex64", "bfloat16")
    ),
    "torch.cumsum(torch.tensor([3e38, 3e38, -3e38, -3e38]), 0)",
    # a bool to the power of a bool
    *(
        f"torch.tensor({base}, dtype=torch.bool){power}"
        for base in ("[True, False]", "[]")
        for power in (
            *(f"{form}" for value in ("True", "False") for form in (f" ** {value}", f".pow({value})", f".pow_({value})")),
            " ** torch.tensor(True)",
            " ** 1",
            ".__rpow__(True)",
        )
    ),
    *(f"torch.pow(torch.tensor([True, False]), True, out=torch.empty(2, dtype=torch.{dtype}))" for dtype in ("bool", "float32")),
    *(
        f"F.binary_cross_entropy_with_logits(torch.tensor([3.052], dtype=torch.{dtype}), torch.tensor([1.322 + 0j]), "
        f"reduction='{reduction}')"
        for dtype in ("float64", "float32", "bfloat16")
        for reduction in ("none", "mean")
    ),
    # places that a mask names more than once, and a tensor as its own mask
    *(
        f"(lambda x, m: [(y := x.sparse_mask(m))._indices(), y._values(), y.is_coalesced()])({x}{coalesced}, {ROWS_OVER} * 2)"
        for x in (ROWS_OVER, f"{ROWS_OVER}.to_dense()")
        for coalesced in ("", ".coalesce()" if "dense" not in x else ".clone()")
    ),
    f"(lambda x: [x.sparse_mask(x) is x, (m := x * 2).sparse_mask(m) is m])({ROWS_OVER}.requires_grad_())",
    *(f"(lambda x: x.sparse_mask(x) is x)(torch.eye(2).to_sparse{form})" for form in ("()", "_csr()", "_csc()", "_bsr((1, 1))")),
    f"(lambda x, v: (torch.sparse_coo_tensor(x._indices(), v).sparse_mask(x).to_dense().mul(torch.arange(6.).reshape(2, 3)).sum()"
    f".backward(), v.grad))({ROWS_OVER}, torch.ones(3, 3, requires_grad=True))",
    # products of integers, of nothing, of vectors and of batches
    *(
        f"torch.sparse.addmm(torch.arange(4).reshape(2, 2), torch.eye(2, dtype=torch.int64), torch.arange(4).reshape(2, 2), {factors})"
        for factors in ("beta=0.5", "beta=2.5", "alpha=1.5", "beta=0")
    ),
    *(
        f"torch.sparse.sampled_addmm(torch.tensor([[1., 0, 2], [0, 3, 0]]).to_sparse_csr(), torch.ones({lead}2, 4), torch.ones({lead}4, 3))"
        f".{part}()"
        for lead in ("", "2, ", "1, 2, ")
        for part in ("crow_indices", "col_indices", "values")
    ),
    *(f"(torch.ones({shape}) * torch.zeros(2, 3).to_sparse()).shape" for shape in ("2, 3", "1, 2, 3", "4, 2, 3", "0, 2, 3")),
    "(torch.ones(1, 0) * torch.tensor([]).to_sparse())._indices()",
    "(lambda x: ((x @ torch.tensor([0., 1, 2]).to_sparse()).sum().backward(), x.grad.to_dense()))(torch.ones(1, 3, requires_grad=True))",
    "(lambda x: ((x @ torch.tensor([0., 0, 0]).to_sparse()).sum().backward(), x.grad.to_dense()))(torch.ones(2, 3, requires_grad=True))",
    "torch.tensor([1., 0, 2, 1]).to_sparse().requires_grad_() @ torch.arange(24.).reshape(2, 4, 3)",
    "torch.tensor(2.).to_sparse().transpose(0, 0).to_dense()",
    *(
        f"(lambda x, y: x.copy_(y).values())(torch.eye(2).to_sparse{form}, torch.tensor([[{values}], [0., 3.]]).to_sparse{form})"
        for form in ("_csr()", "_csc()", "_bsr((1, 1))")
        for values in ("2., 0.", "0., 0.", "1., 2.")
    ),
    *(
        f"(lambda x: [x.{parts}_indices() for x in (x,)] + [x.values()])"
        f"((torch.tensor([[[1., 2], [0, 3]], [[0, 1], [1, 1]]]).to_sparse_{form}() * 0).to_sparse_{other}())"
        for form, other, names in (("csr", "csc", ("ccol", "row")), ("csc", "csr", ("crow", "col")), ("csr", "csr", ("crow", "col")))
        for parts in names
    ),
    *(
        f"(lambda x: [x.fill_({value}).values(), x.zero_().values()])(torch.eye(2, dtype=torch.{dtype}).to_sparse{form})"
        for form in ("_csr()", "_csc()", "_bsr((1, 2))")
        for value, dtype in (("0", "float32"), ("2.5", "int64"), ("True", "float64"), ("0.3", "bfloat16"), ("0", "bool"))
    ),
    "torch.eye(2).to_sparse().fill_(0)",
    "torch.eye(2).to_sparse_csr().fill_(torch.tensor(0.))",
    # in place, factors may show parts of what is written
    *(
        f"(lambda x: {call})(torch.arange(16.).reshape(4, 4))"
        for call in (
            "x.addmm_(x, x.t())",
            "x.t().addmm_(x, x.t())",
            "x.addmm_(x.t(), torch.ones(4, 4), beta=0)",
            "x[:2].addmm_(x[1:3], torch.ones(4, 4))",
            "x[0].addmv_(x.t(), torch.ones(4))",
            "x.addbmm_(x.t()[None], torch.ones(1, 4, 4))",
            "x.addr_(x[0], x[:, 1])",
        )
    ),
]

CALLS += [
    "torch.linalg.eigh(torch.ones(2,3,3,device='meta'))",
    "torch.linalg.eigvalsh(torch.ones(2,3,3,device='meta', dtype=torch.complex64))",
    "torch.linalg.svdvals(torch.ones(2,3,4,device='meta', dtype=torch.complex64))",
    f"torch.linalg.qr({M3})",
    "torch.linalg.slogdet(torch.ones(2,3,3,device='meta', dtype=torch.complex64))",
    "torch.linalg.cholesky_ex(torch.ones(2,3,3,device='meta'))",
    f"torch.linalg.lu_factor_ex({M3})",
    f"torch.linalg.pinv({M3})",
    "torch.fft.rfft2(torch.ones(2,3,5,device='meta', dtype=torch.float64))",
    "torch.fft.hfft(torch.ones(2,3,4,device='meta', dtype=torch.complex64), 5, 1)",
    f"torch.fft.fft2({M3})",
    "torch.stft(torch.ones(2,64,device='meta'), 16, return_complex=True)",
    f"{M3}.permute(2,1,0) + 1",
    f"{M3}.permute(2,0,1).clone()",
    f"{M3}.permute(2,0,1).exp()",
    f"{M3}.permute(1,2,0).reshape(3,8)",
    f"{M3}.permute(2,0,1).contiguous()",
    "torch.ones(2,3,4,5,device='meta').contiguous(memory_format=torch.channels_last) * 2",
    f"{M}.ravel()",
    f"{M}.t().flatten()",
    f"{M}.var(0)",
    "torch.ones(2,3,device='meta', dtype=torch.complex64).var(0)",
    "torch.ones(2,3,device='meta', dtype=torch.complex64).std(1, keepdim=True)",
    f"{M}.cumsum(0, dtype=torch.float64)",
    "torch.ones(2,3,device='meta', dtype=torch.int32).sum()",
    "torch.ones(2,3,device='meta', dtype=torch.int32).prod(1)",
    "torch.ones(2,3,device='meta', dtype=torch.bool).sum(0)",
    f"{M}.mean((0,1), keepdim=True)",
    f"{M}.argmax(1)",
    f"{M}.sort(0, descending=True)",
    f"{M}.topk(2)",
    f"{M}.kthvalue(2)",
    f"{M}.repeat_interleave(2, 1)",
    "torch.arange(12).reshape(2, 3, 2)[1:1, [3]]",
    "torch.zeros(0, 3)[:, torch.tensor([-9])]",
    "torch.zeros(0, 3)[torch.tensor([5])]",
    "torch.zeros(3, 4)[torch.tensor([7]), torch.zeros(1, 0, dtype=torch.long)]",
    "torch.zeros(3, 0).index_put((torch.tensor([5]),), torch.tensor(1.0))",
    "torch.arange(6).reshape(1, 2, 3, 1).clone(memory_format=torch.channels_last).unsqueeze(-1).roll(1, -4).stride()",
    "torch.arange(4).reshape(2, 1, 1, 2).permute(1, 3, 2, 0).roll((-1, 1), (3, 1)).stride()",
    "torch.zeros(2, 3).index_put((torch.tensor([False, True]),), torch.tensor([1 + 2j]))",
    "torch.zeros(2, 3, dtype=torch.int8).__setitem__((torch.tensor([False, True]), 1), torch.tensor([300]))",
    "torch.zeros(2, 3).__setitem__(torch.tensor([False, True]), torch.tensor([1e300], dtype=torch.float64))",
    "torch.zeros(2, 3).index_put((torch.tensor([False, True]),), 1 + 2j)",
    "torch.zeros(2, 2, dtype=torch.int8).index_fill(0, torch.tensor([1]), torch.tensor(300))",
    "torch.zeros(2, 2).index_fill(0, torch.tensor([1]), torch.tensor(1j))",
    "torch.nn.functional.dropout((1.0,), 0.5, False)",
    "torch.nn.functional.instance_norm(torch.arange(6.0).reshape(1, 2, 3), *[torch.ones(2).half()] * 2, use_input_stats=False)",
    "torch.nn.functional.batch_norm(torch.ones(2, 3).half(), torch.zeros(3).half(), torch.ones(3).half(), torch.ones(3))",
    "torch.linalg.solve_ex(torch.zeros(1, 2, 2), torch.ones(3, 2, 2))",
    "torch.linalg.solve_ex(torch.zeros(2, 2), torch.ones(3, 2, 1)).info",
    f"{M}.take(torch.zeros(4, dtype=torch.long, device='meta'))",
    f"torch.searchsorted(torch.ones(5,device='meta'), {M}, out_int32=True)",
    f"{M}.clip(0, 1)",
    f"{M}.round(decimals=1)",
    f"{M}.all(1)",
    f"{M}.any()",
    f"{M}.amax(0)",
    f"{M}.aminmax(dim=1)",
    "torch.ones(3,device='meta').dot(torch.ones(3,device='meta'))",
    f"{M}.median(1)",
    f"{M}.logcumsumexp(1)",
    f"{M}.cummax(1)",
    f"{M}.quantile(0.5, dim=1)",
    f"{M}.unfold(1,2,1)",
    f"{M}.roll(1,0)",
    f"{M}.flip(0)",
    f"{M}.rot90()",
    f"torch.cat([{M}, torch.ones(1,3,device='meta', dtype=torch.float64)])",
    f"torch.stack([{M}]*2, 1)",
    "torch.where(torch.ones(2,1,device='meta')>0, torch.ones(1,3,device='meta'), 2)",
    f"{M}.masked_fill(torch.ones(3,device='meta')>0, 2)",
    "torch.tril_indices(3,3,device='meta')",
    f"{M}.bernoulli()",
    f"{M}.multinomial(2)",
    f"{M}.tolist()",
    f"{M}.sum().item()",
    "bool(torch.ones(1,device='meta'))",
    f"{M}.numpy()",
    f"{M}.to('cpu')",
    "torch.ones(2,3).to('meta')",
    f"{M}.nonzero()",
    f"{M}.unique()",
]  # fmt: skip

INTS = "torch.ones(1, 2, 2, dtype=torch.{})"
OUT_OF = "torch.empty(0, dtype=torch.{})"
CALLS += [
    # results of another dtype than asked for
    *(
        f"torch.{call}, out={OUT_OF.format(dtype)})"
        for call in (
            "nonzero(torch.ones(3)",
            "nonzero_static(torch.ones(3), size=3",
            "argmax(torch.ones(3)",
            "argmin(torch.ones(3), 0",
            "searchsorted(torch.ones(3), torch.ones(3)",
            "bucketize(torch.ones(3), torch.ones(3)",
            "index_select(torch.ones(3), 0, torch.tensor([1])",
            "take(torch.ones(3), torch.tensor([1])",
            "masked_select(torch.ones(3), torch.ones(3) > 0",
            "msort(torch.ones(3)",
        )
        for dtype in ("int32", "float64", "int64")
    ),
    *(
        f"torch.{call}, out=({OUT_OF.format(values)}, {OUT_OF.format(places)}))"
        for call in (
            "sort(torch.ones(3)",
            "topk(torch.ones(3), 2",
            "kthvalue(torch.ones(3), 2",
            "median(torch.arange(3.), 0",
            "mode(torch.tensor([1., 2.]), 0",
            "cummax(torch.ones(3), 0",
            "cummin(torch.ones(3), 0",
            "frexp(torch.ones(3)",
        )
        for values, places in (("float32", "int32"), ("float64", "int64"), ("float32", "int64"))
    ),
    # dimensions, steps and shapes
    *(f"torch.slice_copy(torch.ones({size}), {dim})" for size in ("3", "3, 2", "()") for dim in (-3, -2, 0, 1, 2)),
    *(
        f"{call}(torch.ones(3), {more}0, 0, 3, {step})"
        for call, more in (("torch.ops.aten.slice", ""), ("torch.slice_copy", ""), ("torch.slice_scatter", "torch.ones(3), "))
        for step in (-1, 0, 1)
    ),
    "torch.ops.aten.slice(torch.tensor(1.), 0)",
    *(
        f"torch.ops.aten.max_pool2d_with_indices_backward(torch.ones({grad}), torch.ones(1, 4, 4), [2, 2], [2, 2], [0, 0], [1, 1], False, "
        f"torch.zeros({at}, dtype=torch.int64))"
        for grad in ("1, 2, 2", "1, 3, 2", "1, 3, 3", "2, 2")
        for at in ("1, 2, 2", "1, 3, 2", "1, 3, 3", "2, 2")
    ),
    "torch.ops.aten.max_pool3d_with_indices_backward(torch.ones(1, 2, 2, 2), torch.ones(1, 4, 4, 4), [2, 2, 2], [2, 2, 2], [0, 0, 0], "
    "[1, 1, 1], False, torch.zeros(1, 3, 2, 2, dtype=torch.int64))",
    "torch.ops.aten.adaptive_max_pool2d_backward(torch.ones(1, 2, 2), torch.ones(1, 4, 4), torch.zeros(1, 3, 2, dtype=torch.int64))",
    *(
        f"torch.linalg.vecdot(torch.ones({x}), torch.ones({y}), dim={dim})"
        for x, y in (("2", "2"), ("1", "2"), ("2, 2", "2"))
        for dim in (-3, 0, 1)
    ),
    *(
        f"torch.linalg.vecdot(torch.ones(2, dtype=torch.{x}), torch.ones(2, dtype=torch.{y}))"
        for x, y in (("int64", "int64"), ("bool", "bool"), ("float32", "float64"))
    ),
    *(f"torch.fft.{name}({n})" for name in ("fftfreq", "rfftfreq") for n in (-5, -4, -3, -1, 0)),
    *(
        f"torch.index_select(torch.ones({size}), {dim}, torch.tensor([5]))"
        for size, dim in (("0", 0), ("0, 3", 0), ("3, 0", 0), ("3, 0", 1), ("3, 2", 0))
    ),
    *(f"torch.ones(2).expand(2, 2)[{part}].dim_order(ambiguity_check=True)" for part in (":", ":, :1")),
    *(f"torch.ones({size}).dim_order(ambiguity_check=True)" for size in ("2, 3", "2, 1", "2")),
    "torch.ones(2, 1).expand(2, 2).dim_order(ambiguity_check=True)",
    # what is no tensor
    *(
        f"torch.{call}"
        for call in (
            "kron(torch.ones(2), 1.)",
            "kron(2, 3)",
            "dequantize(3)",
            "dequantize([3.5])",
            *(f"atleast_{n}d({x})" for n in (1, 2, 3) for x in ("3", "3, 4", "[torch.ones(1), 4]", "None")),
            "block_diag(torch.ones(2), 3)",
            "cartesian_prod(3)",
            "broadcast_tensors(3, 4)",
            "chain_matmul(3)",
            "vstack((3,))",
            "einsum('i', 3)",
            "from_dlpack(3)",
            "from_dlpack(None)",
            "frombuffer(3, dtype=torch.float32)",
            "frombuffer([1], dtype=torch.float32)",
            "asarray(torch)",
            *(f"set_num_{kind}threads({count})" for kind in ("", "interop_") for count in ("'a'", "1.5", "None", "0")),
        )
    ),
    *(
        f"torch.ones(2).{name}({other})"
        for name in ("type_as", "is_set_to", "expand_as", "reshape_as", "view_as", "equal")
        for other in ("5", "None")
    ),
    # arguments that are not among those there are
    "torch.scatter(torch.ones(3), 0, torch.tensor([0]), 2., inplace=True)",
    "torch.ones(3).scatter(0, torch.tensor([0]), 2., inplace=True)",
    *(f"torch.cdist(torch.ones(2, 2), torch.ones(2, 2), compute_mode={mode})" for mode in ("'x'", "None", "'use_mm_for_euclid_dist'")),
    *(
        f"torch.zeros(3).{name}({at}, torch.tensor(1.))"
        for name in ("index_put", "index_put_")
        for at in ("torch.tensor([0])", "3", "(3,)", "[torch.tensor([0])]")
    ),
    *(
        f"torch.ones(2).{call}"
        for call in ("cpu(5)", "float(torch.preserve_format)", "float(memory_format=5)", "clone(memory_format=5)", "long(5)")
    ),
    *(
        f"torch.ones(2).to({kind})"
        for kind in ("3.0", "True", "3j", "float", "int", "bool", "complex", "dtype=float", "'cpu', float", "2.5, copy=True", "str")
    ),
    *(f"torch.ones(2).to({name}=3.0)" for name in ("other", "dtype")),
    # formats and dtypes
    *(f"torch.ones(2, 3){part}.contiguous(memory_format=torch.preserve_format)" for part in ("", ".t()", "[:, ::2]")),
    *(f"torch.ones(2, 3){part}.is_contiguous(memory_format=torch.preserve_format)" for part in ("", ".t()")),
    *(f"torch.{name}(torch.ones({size}, dtype=torch.complex64), 0)" for name in ("cummax", "cummin") for size in ("2", "0", "()")),
    *(
        f"F.adaptive_{kind}_pool2d({INTS.format(dtype)}, {size})"
        for kind in ("avg", "max")
        for dtype in ("int64", "uint8", "bool")
        for size in (1, 2)
    ),
    *(f"F.adaptive_avg_pool1d({INTS.format(dtype)}, {size})" for dtype in ("int64", "complex64") for size in (1, 2)),
    *(f"F.dropout3d(torch.ones({size}), 0.5)" for size in ("3", "3, 3", "3, 3, 3", "2, 3, 2, 2", "2, 3, 2, 2, 2")),
    # Python functions of elements
    *(f"torch.ones(2).map_({other}, lambda a, b: a)" for other in ("torch.ones(3)", "torch.ones(2, 2)", "torch.ones(2).double()", "3")),
    *(
        f"torch.ones(2).map2_({x}, {y}, lambda a, b, c: a)"
        for x, y in (("torch.ones(3)", "torch.ones(2)"), ("torch.ones(2)", "torch.ones(2, 2)"), ("torch.ones(2)", "torch.ones(2).long()"))
    ),
    *(f"torch.ones(2).map_(torch.ones(2), lambda a, b: {made})" for made in ("'x'", "None", "2", "True")),
    "torch.ones(2).map_(torch.ones(2, requires_grad=True), lambda a, b: a)",
    "torch.ones(2).apply_(lambda a: None)",
    "torch.ones(2).reinforce(3)",
    # signs of zeros
    "torch.arange(0, -3, -1.0).signbit()",
    "torch.arange(0, -20000, -1.0).signbit()[:2]",
    "torch.fft.fftfreq(4, -1.0).signbit()",
    "torch.fft.fftfreq(20000, -1.0).signbit()[:2]",
    *(f"torch.full((n,), {zero}).clamp({limits}).signbit()[:2]" for zero, limits in LIMITS for n in (2, 5000, 70000)),
    # operands that show a part of what is written to
    *(
        f"(lambda x, one: x{target}.{written}_({', '.join(operands)}))(torch.arange(1., 6.), torch.ones(4))"
        for written, operands in WRITTEN.items()
        for target in ("[1:]", "[:-1]", "[1:].clone()")
    ),
    *(f"(lambda x: x.t().{written}_({operands}))(torch.arange(1., 5.).view(2, 2))" for written, operands in SQUARES.items()),
    "(lambda x: x.addcmul_(x, x))(torch.arange(3.))",
    "(lambda x: x.lerp_(x, x))(torch.arange(3.))",
    # ``out`` of another dtype
    *(
        f"torch.{call}, out={'' if len(dtypes) == 1 else '('}{', '.join(f'torch.empty(0, dtype=torch.{dtype})' for dtype in dtypes)}"
        f"{'' if len(dtypes) == 1 else ')'})"
        for call, dtypes in OUTS
    ),
    # gradients of another shape than the padded tensor's
    *(
        f"torch.ops.aten.{way}_pad{rank}d_backward({size(rank)}, torch.ones(1{', 4' * rank}), {[1] * (2 * rank)})"
        for way in ("reflection", "replication")
        for rank in (1, 2, 3)
        for size in (
            lambda rank: f"torch.ones(1{', 6' * rank})",
            lambda rank: f"torch.ones(1{', 6' * (rank - 1)}, 5)",
            lambda rank: f"torch.ones(1, 7{', 6' * (rank - 1)})",
            lambda rank: f"torch.ones(1, 1{', 6' * rank})",
        )
    ),
    # other types than the signature's
    *(f"torch.ones(3).{call}" for call in ("is_same_size(3)", "set_(3)", "set_('a')", "requires_grad_(5)", "requires_grad_(None)")),
    *(f"torch.ones(3).numpy(force={force})" for force in ("5", "None", "0", "True", "__import__('numpy').True_")),
    "setattr(torch.ones(3), 'requires_grad', 1)",
    *(f"F.max_pool1d(torch.arange(6).to(torch.{dtype}).view(1, 1, 6), 2)" for dtype in ("int32", "int64", "int8", "bool", "complex64")),
    "F.max_pool1d(torch.arange(6).view(1, 1, 6), 2, return_indices=True)",
    # functions of elements that nobody has
    "torch.ones(2, device='meta').map_(torch.ones(2, device='meta'), lambda a, b: a + b)",
    "torch.ones(2).map_(torch.ones(2, device='meta'), lambda a, b: a)",
    "torch.ones(2, device='meta').apply_(lambda a: a + 1)",
    # how results lie in memory
    *(
        f"torch.addr(torch.arange(6.){start}, torch.ones(2), torch.ones(3), beta={beta}, alpha={alpha}).stride()"
        for start in (".view(3, 2).t()", "[:3]", "[:1]", ".view(2, 3)", "[:2].view(2, 1)")
        for beta, alpha in ((1, 1), (0.5, 1), (0, 2))
    ),
    "torch.addr(torch.arange(6).view(3, 2).t(), torch.arange(2), torch.arange(3)).stride()",
    "torch.addr(torch.ones(3, 2, dtype=torch.bool).t(), torch.ones(2) > 0, torch.ones(3) > 0).stride()",
]


def outcome(torch: Any, call: str) -> Any:
    torch.manual_seed(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return described(eval(call, {"torch": torch, "F": torch.nn.functional}))
    except Exception as error:
        return next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins")
    finally:
        torch.set_grad_enabled(True)


def described(value: Any) -> Any:
    if getattr(value, "is_meta", False):
        return str(value.dtype), list(value.shape), list(value.stride())
    if hasattr(value, "tolist"):
        return str(value.dtype), list(value.shape), value.detach().resolve_conj().tolist()
    if isinstance(value, (tuple, list)):
        return [described(each) for each in value]
    return value


def agree(got: Any, want: Any, near: float = 1e-6) -> bool:
    if isinstance(got, (tuple, list)) and isinstance(want, (tuple, list)):
        near = 1e-13 if want and want[0] in ("torch.float64", "torch.complex128") else near
        return len(got) == len(want) and all(agree(a, b, near) for a, b in zip(got, want, strict=True))
    return got == pytest.approx(want, rel=near, abs=near, nan_ok=True) if isinstance(got, (float, complex)) else got == want


def parameters_that_overlap(torch: Any) -> Any:
    """They are updated one after the other, each from what the one before left."""
    found = []
    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.Adagrad):
        memory = torch.arange(1.0, 7)
        parts = [memory[:4].requires_grad_(), memory[2:].requires_grad_()]
        optimizer = kind(parts, lr=0.1, weight_decay=0.5)
        for part in parts:
            part.grad = torch.ones(4)
        optimizer.step()
        optimizer.step()
        found.append(memory.detach())
    return found


def tensors_of_a_file_move_together(torch: Any) -> Any:
    """``share_memory_`` moves the storage, and every tensor that shows it."""
    memory, buffer = torch.arange(4.0), io.BytesIO()
    torch.save([memory, memory[1:]], buffer)
    buffer.seek(0)
    one, other = torch.load(buffer)
    one.share_memory_()
    one[2] = 9
    other[0] = 8
    return one, other, other.is_shared()


@pytest.mark.parametrize("program", [parameters_that_overlap, tensors_of_a_file_move_together])
def test_a_program_gives_what_pytorch_gives(program: Callable[[Any], Any], of_pytorch: Callable[..., Any]) -> None:
    got, want = described(program(flambeau)), of_pytorch(lambda torch: described(program(torch)))
    assert agree(got, want), (got, want)


@pytest.mark.parametrize("call", CALLS)
def test_a_call_gives_what_pytorch_gives(call: str, of_pytorch: Callable[..., Any]) -> None:
    got, want = outcome(flambeau, call), of_pytorch(lambda torch: outcome(torch, call))
    if got == "NotImplementedError":
        got = "RuntimeError"  # which it is
    assert agree(got, "RuntimeError" if want == "NotImplementedError" else want), (got, want)
