"""``torch.func`` as loops over PyTorch's reverse mode: what transforms are compared with where PyTorch refuses them."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

from oracle import pytorch


@cache
def loops() -> Any:
    """A namespace of transforms of one argument."""
    torch = pytorch()
    vjp = torch.func.vjp

    def vmap(f: Any, in_dims: Any = 0, out_dims: int = 0, chunk_size: Any = None) -> Any:
        def run(*args: Any) -> Any:
            dims = in_dims if isinstance(in_dims, tuple) else (in_dims,) * len(args)
            made = [f(*[x.select(dim, i) for x, dim in zip(args, dims, strict=True)]) for i in range(args[0].shape[dims[0]])]
            if isinstance(made[0], tuple):
                return tuple([torch.stack(each, out_dims) for each in zip(*made, strict=True)])
            return torch.stack(made, out_dims)

        return run

    def jvp(f: Any, primals: Any, tangents: Any) -> Any:
        """By two reverse passes: a product with cotangents is linear in them."""
        value, back = vjp(f, *primals)
        return value, vjp(lambda seed: back(seed)[0], torch.zeros_like(value))[1](*tangents)[0]

    def linearize(f: Any, x: Any) -> Any:
        return f(x), lambda tangent: jvp(f, (x,), (tangent,))[1]

    def jacrev(f: Any, chunk_size: Any = None) -> Any:
        def run(x: Any) -> Any:
            value, back = vjp(f, x)
            seeds = torch.eye(value.numel(), dtype=value.dtype).reshape(-1, *value.shape)
            return torch.stack([back(seed)[0] for seed in seeds]).reshape(*value.shape, *x.shape)

        return run

    return SimpleNamespace(
        vmap=vmap,
        jvp=jvp,
        linearize=linearize,
        jacrev=jacrev,
        jacfwd=jacrev,
        hessian=lambda f: jacrev(jacrev(f)),
        vjp=vjp,
        grad=torch.func.grad,
        functional_call=torch.func.functional_call,
    )


@cache
def with_products_by_jvp() -> Any:
    """``torch.func``, whose ``linearize`` does not cut its products off the tape."""
    func = pytorch().func
    return SimpleNamespace(**vars(func) | {"linearize": lambda f, x: (f(x), lambda tangent: func.jvp(f, (x,), (tangent,))[1])})


@cache
def functions() -> Any:
    """``torch.nn.functional``, with formulas where derivatives there are wrong by finite differences.

    Those are second ones of norms; and of ``celu`` and ``hardsigmoid`` in float64, whose constants are float32's there.
    """
    torch = pytorch()
    made = SimpleNamespace(**vars(pytorch("torch.nn.functional")))

    def normalized(x: Any, dims: list[int]) -> Any:
        return (x - x.mean(dims, keepdim=True)) / (x.var(dims, correction=0, keepdim=True) + 1e-5).sqrt()

    def layer_norm(x: Any, shape: Any, weight: Any = None, bias: Any = None) -> Any:
        made = normalized(x, list(range(-len(shape), 0)))
        made = made if weight is None else made * weight
        return made if bias is None else made + bias

    def instance_norm(x: Any) -> Any:
        return normalized(x, list(range(2, x.dim())))

    def batch_norm(x: Any, mean: Any, var: Any, weight: Any = None, bias: Any = None, training: bool = False) -> Any:
        made = normalized(x, [i for i in range(x.dim()) if i != 1])
        return made if weight is None else made * weight.reshape(-1, *(1,) * (x.dim() - 2)) + bias.reshape(-1, *(1,) * (x.dim() - 2))

    def rms_norm(x: Any, shape: Any, weight: Any = None) -> Any:
        return x / (x.square().mean(-1, keepdim=True) + torch.finfo(x.dtype).eps).sqrt() * (1 if weight is None else weight)

    def celu(x: Any, alpha: float = 1.0) -> Any:
        return torch.where(x > 0, x, alpha * (x / alpha).expm1())

    def hardsigmoid(x: Any) -> Any:
        return (x / 6 + 0.5).clamp(0, 1)

    made.celu, made.hardsigmoid = celu, hardsigmoid
    made.layer_norm, made.instance_norm, made.batch_norm, made.rms_norm = layer_norm, instance_norm, batch_norm, rms_norm
    return made
