"""Calls that machine code does, and some that it leaves: of a tensor and a second operand, which may be a number."""

from __future__ import annotations

from typing import Any

import numpy as np

import flambeau
from flambeau.core.storage import UntypedStorage
from flambeau.core.tensor import Tensor

F = flambeau.nn.functional


def shown(thing: Any) -> Any:
    """What can be compared of a result, of what a node keeps, and of edges."""
    if isinstance(thing, (tuple, list)):
        return type(thing), [shown(each) for each in thing]
    if isinstance(thing, np.ndarray):
        return thing.shape, thing.strides, str(thing.dtype), thing.tobytes()
    if isinstance(thing, UntypedStorage):
        return "storage", thing.version, thing.changed > 0, thing.uneven, sum(ref() is not None for ref in thing._aliases)
    if isinstance(thing, Tensor):
        return "tensor", type(thing), shown(thing._array), type(thing._requires_grad), thing._requires_grad  # False and 0 are two marks
    return repr(thing) if isinstance(thing, (int, float, complex, str, type(None), type(...), slice)) else type(thing)


def changed(a: Any, b: Any) -> Any:
    a[:1].mul_(2)
    a *= b
    return a


def parts(tensors: Any) -> Any:
    """Facts of several tensors."""
    return [
        (
            type(tensors).__name__,
            shown(tensor),
            type(tensor._view_of).__name__,
            getattr(tensor._view_of, "creation_meta", None),
            type(tensor.grad_fn).__name__,
        )
        for tensor in tensors
    ]


def gradient(result: Any, a: Any) -> Any:
    return flambeau.autograd.grad(result.sum(), a)[0] if a.requires_grad else None


def numbers(one: Any) -> Any:
    """A tensor's only element in every way; no function is made, as Python 3.13.0 crashes where memory for one runs out."""
    return one.item(), float(one), int(one), bool(one)


def written(a: Any, key: Any, value: Any) -> Any:
    own = a.detach().clone()
    own.view(own.shape)  # has its storage and its list
    shown = own.transpose(0, -1) if a._is_view() and a.dim() else own
    assert shown.__setitem__(key, value) is None
    return shown


def own(a: Any) -> Any:
    made = a.detach().clone()
    made.view(made.shape)  # has its storage and its list
    return made


def changed_part(a: Any, change: Any) -> Any:
    whole = own(a)
    change(whole[1:])
    return whole


def unrecorded(call: Any) -> Any:
    with flambeau.no_grad():
        return call()


CALLS: dict[str, Any] = {
    "a + b": lambda a, b: a + b,
    "b - a": lambda a, b: b - a,
    "a * b": lambda a, b: a * b,
    "a / b": lambda a, b: a / b,
    "a ** b": lambda a, b: abs(a) ** b,
    "a < b": lambda a, b: a < b,
    "a == b": lambda a, b: a == b,
    "maximum": lambda a, b: flambeau.maximum(a, b),
    "atan2": lambda a, b: flambeau.atan2(a, b),
    "exp": lambda a, b: a.exp(),
    "tanh": lambda a, b: flambeau.tanh(a),
    "sqrt": lambda a, b: a.sqrt(),
    "neg": lambda a, b: -a,
    "relu": lambda a, b: a.relu(),
    "relu of nn.functional": lambda a, b: F.relu(a),
    "relu in place": lambda a, b: F.relu(a.detach().clone(), inplace=True),
    "sigmoid": lambda a, b: a.sigmoid(),
    "gelu": lambda a, b: F.gelu(a),
    "silu": lambda a, b: F.silu(a),
    "mish": lambda a, b: F.mish(a),
    "leaky_relu": lambda a, b: F.leaky_relu(a),
    "hardswish": lambda a, b: F.hardswish(a),
    "addcmul": lambda a, b: flambeau.addcmul(a, b, a),
    "rsqrt": lambda a, b: a.rsqrt(),
    "reciprocal": lambda a, b: a.reciprocal(),
    "fmod": lambda a, b: flambeau.fmod(a, b),
    "round": lambda a, b: a.round(),
    "sigmoid and back": lambda a, b: gradient(a.sigmoid(), a),
    "softmax": lambda a, b: a.softmax(-1),
    "softmax of the first": lambda a, b: a.softmax(0),
    "softmax inside": lambda a, b: F.softmax(a[None, :, :], 1),
    "log_softmax": lambda a, b: F.log_softmax(a, -1),
    "log_softmax of the first": lambda a, b: a.log_softmax(0),
    "log_softmax of rows of several": lambda a, b: flambeau.log_softmax(flambeau.stack([a, a]), dim=2),
    "sum": lambda a, b: a.sum(),
    "mean of all": lambda a, b: a.mean(),
    "sum of rows": lambda a, b: a.sum(1),
    "sum of a stack's columns": lambda a, b: flambeau.stack([a, a * 2]).sum(1),
    "sum of two dimensions": lambda a, b: a[None].sum((0, 1)),
    "sum of the last two, kept": lambda a, b: a[:, None].sum([-2, -1], keepdim=True),
    "mean of two dimensions": lambda a, b: flambeau.stack([a, a]).mean(dim=(1, 2)),
    "mean of others": lambda a, b: a[None].mean((2, 0)),
    "sum of whole numbers": lambda a, b: a.long().sum(),
    "sum of truths": lambda a, b: (a > 0).sum(-1),
    "sum of truths, kept": lambda a, b: (a > 0).sum(0, keepdim=True),
    "std": lambda a, b: a.std(),
    "std of rows": lambda a, b: flambeau.std(a, -1),
    "std of the first, kept": lambda a, b: a.std(0, keepdim=True),
    "norm of rows": lambda a, b: a.norm(dim=-1),
    "norm of the first, kept": lambda a, b: flambeau.linalg.vector_norm(a, 2, 0, True),
    "normalize": lambda a, b: F.normalize(a, dim=-1),
    "var": lambda a, b: a.var(unbiased=False),
    "var of the first": lambda a, b: a.var(0),
    "var with a correction": lambda a, b: a.var(dim=-1, correction=2),
    "amax": lambda a, b: a.amax(-1),
    "amax of all": lambda a, b: a.amax(),
    "amin of the first, kept": lambda a, b: flambeau.amin(a, 0, True),
    "amax of several": lambda a, b: a[None].amax((0, 1)),
    "amax of NaN": lambda a, b: (a / (a > 0)).amax(0),
    "prod": lambda a, b: a.prod(),
    "prod of rows": lambda a, b: flambeau.prod(a, -1),
    "prod of the first, kept": lambda a, b: a.prod(0, keepdim=True),
    "any": lambda a, b: (a > 2).any(),
    "any of the first": lambda a, b: (a > 2).any(0),
    "any of numbers": lambda a, b: a.any(-1, keepdim=True),
    "all": lambda a, b: (a == a).all(),
    "all of rows": lambda a, b: a.all(dim=1),
    "linear with bias": lambda a, b: F.linear(a, a, a[0]),
    "clone": lambda a, b: a.clone(),
    "cat": lambda a, b: flambeau.cat([a.detach(), b * 1]),
    "cat of three": lambda a, b: flambeau.cat((a.detach(), a[1:].detach(), a.detach()), 0),
    "cat along the last": lambda a, b: flambeau.cat([a, a], -1),
    "stack": lambda a, b: flambeau.stack([a.detach(), a.detach() + b]),
    "stack of three": lambda a, b: flambeau.stack([a.detach(), a.detach() * 2, a.detach()], dim=0),
    "stack recorded": lambda a, b: flambeau.stack([a, a]),
    "cat recorded": lambda a, b: flambeau.cat([a, b]),
    "cat of columns": lambda a, b: flambeau.cat((a, b, a), dim=1),
    "stack behind": lambda a, b: flambeau.stack([a, b * 1], -1),
    "stack inside": lambda a, b: flambeau.stack((a, a, a), 1),
    "max": lambda a, b: a.max(),
    "max of rows": lambda a, b: flambeau.max(a, 1),
    "max of the last, kept": lambda a, b: a.max(-1, keepdim=True),
    "min of the first": lambda a, b: a.min(dim=0),
    "max of two": lambda a, b: flambeau.max(a, b),
    "argmax": lambda a, b: a.argmax(),
    "argmax of the last": lambda a, b: a.argmax(-1),
    "argmin of the first, kept": lambda a, b: flambeau.argmin(a, 0, keepdim=True),
    "topk": lambda a, b: a.topk(2),
    "topk of the first": lambda a, b: flambeau.topk(a, 1, dim=0, largest=False),
    "topk of many equal": lambda a, b: a.round().topk(3, -1),
    "topk of NaN": lambda a, b: (a / (a > 0)).topk(3, 0, False),
    "item": lambda a, b: numbers(a),
    "item of one": lambda a, b: numbers(a.reshape(-1)[0]),
    "detach": lambda a, b: a.detach(),
    "detach of a view": lambda a, b: a[1:].detach(),
    "to float64": lambda a, b: a.to(flambeau.float64),
    "float": lambda a, b: a.float(),
    "long": lambda a, b: a.long(),
    "bool": lambda a, b: a.bool(),
    "to itself": lambda a, b: a.to(a.dtype) is a,
    "to the CPU": lambda a, b: (a.to("cpu") is a, a.to(a.device) is a, a.to(device="cpu") is a),
    "shape": lambda a, b: (a.shape, a.size(), a[0].shape, b.shape),
    "one size": lambda a, b: (a.size(-1), a.size(1)),
    "address": lambda a, b: (a.data_ptr() > 0, a[1:].data_ptr() - a.data_ptr()),
    "stride": lambda a, b: (a.stride(), a.T.stride(), a[:1].stride(), a.stride(-1)),
    "equal": lambda a, b: (flambeau.equal(a, b), a.equal(a.clone()), flambeau.equal(a, a[0])),
    "dimension in front": lambda a, b: a[None],
    "dimension inside": lambda a, b: a[:, None, 1:].detach(),
    "dimension behind": lambda a, b: unrecorded(lambda: a[..., None]),
    "ellipsis": lambda a, b: a.detach()[..., 0],
    "ellipsis inside": lambda a, b: a.detach()[0, ..., 1:],
    "ellipsis alone": lambda a, b: a.detach()[...],
    "steps of both": lambda a, b: a.detach()[1::2, ::3],
    "steps and a place": lambda a, b: unrecorded(lambda: a[-1, :5:2]),
    "None, steps and an ellipsis": lambda a, b: a.detach()[None, ::2, ..., None, -1],
    "write steps": lambda a, b: written(a, slice(None, None, 2), b),
    "write behind an ellipsis": lambda a, b: written(a, (..., 1), 2.5),
    "grad": lambda a, b: (a.grad, (a * b).detach().grad),
    "cpu": lambda a, b: (a.cpu() is a, a.T.cpu()),
    "to as another": lambda a, b: a.to(b),
    "contiguous": lambda a, b: a.contiguous(),
    "contiguous of a turned one": lambda a, b: a.transpose(0, -1).contiguous(),
    "contiguous of a part": lambda a, b: a[..., 1:].contiguous(),
    "contiguous of an expanded one": lambda a, b: a[..., :1].expand(*a.shape[:-1], 3).contiguous(),
    "zeros": lambda a, b: flambeau.zeros(*a.shape, dtype=a.dtype),
    "ones of a shape": lambda a, b: flambeau.ones(a.shape),
    "zeros like": lambda a, b: flambeau.zeros_like(a),
    "ones like": lambda a, b: flambeau.ones_like(a),
    "full": lambda a, b: flambeau.full((2, 3), b),
    "full of a dtype": lambda a, b: flambeau.full([a.dim()], b, dtype=a.dtype),
    "full of a shape": lambda a, b: flambeau.full(a.shape, 1.5),
    "arange": lambda a, b: flambeau.arange(b),
    "arange of three": lambda a, b: flambeau.arange(3),
    "arange from": lambda a, b: flambeau.arange(a.dim(), b),
    "arange of floats": lambda a, b: flambeau.arange(0.0, 2, 0.3),
    "arange to b by steps": lambda a, b: flambeau.arange(7, b, -2),
    "arange of a dtype": lambda a, b: flambeau.arange(a.dim(), 9, 3, dtype=a.dtype),
    "arange to b of a dtype": lambda a, b: flambeau.arange(b, dtype=flambeau.float64),
    "tensor of a dtype": lambda a, b: flambeau.tensor([[1, 2], [b, 3]], dtype=a.dtype),
    "tensor of floats of a dtype": lambda a, b: flambeau.tensor([1.5, b], dtype=a.dtype),
    "tensor": lambda a, b: flambeau.tensor(b),
    "as_tensor": lambda a, b: (flambeau.as_tensor([1.5, b]), flambeau.as_tensor(a) is a),
    "tensor of two": lambda a, b: flambeau.tensor([b, b]),
    "tensor of a list": lambda a, b: flambeau.tensor(a.tolist()),
    "write a number": lambda a, b: written(a, 0, b),
    "write rows": lambda a, b: written(a, slice(1, None), b),
    "write a column": lambda a, b: written(a, (slice(None), -1), b),
    "write a part": lambda a, b: written(a, (slice(1, 3), slice(None, 2)), 1.5),
    "write places": lambda a, b: written(a, (0, 1), 2),
    "write all": lambda a, b: written(a, slice(None), b),
    "backward of linear": lambda a, b: (
        F.linear(a, a.clone(), a[0]).pow(2).sum().backward() if a.requires_grad and a.is_leaf and a.dim() == 2 else None
    ),
    "backward of linear of stacks": lambda a, b: (
        F.linear(a[:, None], a.clone(), a[0]).pow(2).sum().backward() if a.requires_grad and a.is_leaf and a.dim() == 2 else None
    ),
    "number - a": lambda a, b: 2.5 - a,
    "number / a": lambda a, b: 3 / a,
    "a += b": lambda a, b: a.detach().clone().add_(b),
    "a *= b": lambda a, b: changed(a.detach().clone(), b),
    "a -= a": lambda a, b: (lambda own: own.sub_(own))(a.detach().clone()),
    "a /= number": lambda a, b: a.detach().clone().div_(3.5),
    "sum of a dimension": lambda a, b: a.sum(-1, keepdim=True),
    "mean": lambda a, b: a.mean(0),
    "clamp": lambda a, b: a.clamp(-1, b),
    "clamp from below": lambda a, b: flambeau.clamp(a, min=b),
    "clamp from above": lambda a, b: a.clamp(max=1.5),
    "clamp, exchanged": lambda a, b: a.clip(2, -0.5),
    "clamp in place": lambda a, b: own(a).clamp_(-1, 1),
    "clamp to b in place": lambda a, b: own(a).clamp_(min=b),
    "fill in place": lambda a, b: own(a).fill_(b),
    "fill by a number in place": lambda a, b: own(a).fill_(1.5),
    "zero in place": lambda a, b: own(a).zero_(),
    "zero a part": lambda a, b: changed_part(a, lambda part: part.zero_()),
    "fill a part": lambda a, b: changed_part(a, lambda part: part.fill_(1.5)),
    "copy in place": lambda a, b: own(a).copy_(b),
    "copy of itself": lambda a, b: (lambda own: own.copy_(own))(own(a)),
    "masked_fill in place": lambda a, b: own(a).masked_fill_(a > 0, b),
    "masked_fill of rows in place": lambda a, b: own(a).masked_fill_(a[:, :1] > 0, 0.5),
    "masked_fill of too few": lambda a, b: own(a[:1]).masked_fill_(a > 0, 1),
    "masked_fill by a number in place": lambda a, b: own(a).masked_fill_(a > 0, 0.5),
    "write a number where": lambda a, b: written(a, a > 0, 0.5),
    "write where": lambda a, b: written(a, a > 0, b),
    "write rows where": lambda a, b: written(a, a[:, 0] > 0, -1.5),
    "where": lambda a, b: flambeau.where(a > 0, a, b),
    "where of a number": lambda a, b: flambeau.where(a > 0, a, 0.5),
    "where of the other number": lambda a, b: flambeau.where(a == a, 2, a),
    "where of a row": lambda a, b: flambeau.where(a[:1] > 0, b, a),
    "masked_fill": lambda a, b: a.masked_fill(a > 0, b),
    "masked_fill of a row": lambda a, b: a.masked_fill(a[:1] > 0, -float("inf")),
    "row and column": lambda a, b: a[:1] * a[..., :1],
    "column below": lambda a, b: a[..., -1:] - a,
    "means subtracted": lambda a, b: a - a.mean(-1, keepdim=True),
    "whole numbers and a": lambda a, b: a.long() * b,
    "a and truths": lambda a, b: a * (a > 0),
    "truths and b": lambda a, b: (a > 0) + b,
    "remainder": lambda a, b: a % b,
    "quotient": lambda a, b: a // b,
    "remainder by a number": lambda a, b: a.remainder(-0.7),
    "quotient by a number": lambda a, b: (a * 1e3) // 0.1,
    "quotient by zeros": lambda a, b: a // (a > 0).to(a.dtype),
    "remainder of whole numbers": lambda a, b: (a * 5).long() % b,
    "quotient of whole numbers": lambda a, b: (a * 5).long() // 3,
    "remainder by whole numbers": lambda a, b: (a * 9).long().remainder((a * 5).long().abs() - 4),
    "quotient by whole numbers": lambda a, b: flambeau.floor_divide((a * 9).long(), flambeau.tensor(-4)),
    "whole numbers divided": lambda a, b: a.long() / b,
    "a and a number of another dtype": lambda a, b: a.double() * flambeau.tensor(2.5) + flambeau.tensor(3) * a,
    "whole numbers compared": lambda a, b: a.long() < 1.5,
    "whole numbers and b compared": lambda a, b: a.long() == b,
    "broadcast comparison": lambda a, b: a[:, None] < b,
    "unbind": lambda a, b: parts(a.unbind()),
    "unbind the last": lambda a, b: parts(flambeau.unbind(a, -1)),
    "split": lambda a, b: parts(a.split(2)),
    "split the last": lambda a, b: parts(flambeau.split(a, 3, dim=-1)),
    "chunk": lambda a, b: parts(a.chunk(3, -1)),
    "chunk of a view": lambda a, b: parts(flambeau.chunk(a[1:], 2)),
    "rows": lambda a, b: parts((a[flambeau.tensor([0, 1])], a[flambeau.tensor([[-1], [0]])])),
    "rows beyond": lambda a, b: a[flambeau.tensor([7])],
    "masked": lambda a, b: unrecorded(lambda: a[a > 0]),
    "masked by all": lambda a, b: a.detach()[a.detach() > 0],
    "masked rows": lambda a, b: a.detach()[a[:, 0] > 0],
    "masked, recorded": lambda a, b: a[a > 0],
    "gather": lambda a, b: a.gather(0, flambeau.zeros_like(a).long()),
    "gather of the last": lambda a, b: flambeau.gather(a, -1, (a[:2, :1] > 0).long()),
    "scatter a number in place": lambda a, b: own(a).scatter_(-1, (a[..., :1] > 0).long(), 1.5),
    "scatter b in place": lambda a, b: own(a).scatter_(0, flambeau.zeros_like(a[:2]).long(), b),
    "scatter in place": lambda a, b: own(a).scatter_(0, (a > 0).long(), -a.detach()),
    "gather inside": lambda a, b: a[None].gather(1, (a[None] > b).long()),
    "embedding": lambda a, b: F.embedding(flambeau.tensor([[1, 0]]), a),
    "transpose": lambda a, b: a.transpose(0, -1),
    "first": lambda a, b: a[0],
    "part": lambda a, b: a[1:],
    "pair": lambda a, b: a[..., 0],
    "view": lambda a, b: a.view(-1),
    "reshape": lambda a, b: a.reshape(-1, 1),
    "unsqueeze": lambda a, b: a.unsqueeze(0),
    "unsqueeze behind": lambda a, b: a.unsqueeze(-1),
    "unsqueeze of a view": lambda a, b: a.T.unsqueeze(1),
    "turn": lambda a, b: a.t(),
    "transpose of a view": lambda a, b: a[1:].transpose(-1, -2),
    "two slices": lambda a, b: a[:, 1:3],
    "reshape of two": lambda a, b: flambeau.reshape(a, (-1,)),
    "slices from behind": lambda a, b: a[-2:, :-1],
    "slice and place": lambda a, b: a[1:, -1],
    "place and slice": lambda a, b: a[0, 2:9],
    "places": lambda a, b: a[0, 1],
    "whole": lambda a, b: a[:, :],
    "whole first": lambda a, b: a[:],
    "beyond all integers": lambda a, b: a[1 << 80 :],
    "steps": lambda a, b: a[::2],
    "view in rows": lambda a, b: a.view(-1, 2),
    "view as it is": lambda a, b: a.view(*a.shape),
    "reshape of a view": lambda a, b: a[1:].reshape(2, -1),
    "squeeze": lambda a, b: a[:1].squeeze(),
    "squeeze of one": lambda a, b: flambeau.squeeze(a[..., :1], -1),
    "squeeze of the first": lambda a, b: a.squeeze(0),
    "permute": lambda a, b: a.permute(*range(a.dim())[::-1]),
    "permute of a tuple": lambda a, b: flambeau.permute(a, (-1, *range(a.dim() - 1))),
    "T": lambda a, b: a.T,
    "flatten": lambda a, b: a.flatten(),
    "flatten from the second": lambda a, b: flambeau.flatten(a, 1),
    "flatten to the last but one": lambda a, b: a.flatten(0, -2),
    "expand of a row": lambda a, b: a[:1].expand(3, -1),
    "expand of sizes": lambda a, b: a.expand((2, *a.shape)),
    "expand as": lambda a, b: a[..., :1].expand_as(a),
    "expand": lambda a, b: a.expand(2, *a.shape),
    "view of a view": lambda a, b: a.T[1:].T,
    "transpose without grad": lambda a, b: unrecorded(lambda: a.transpose(0, -1)),
    "part without grad": lambda a, b: unrecorded(lambda: a[1:]),
    "view of a view without grad": lambda a, b: unrecorded(lambda: a[1:].transpose(-1, 0)),
    "view of it": lambda a, b: unrecorded(lambda: a.detach()[1:])[:, 0],
    "reshape without grad": lambda a, b: unrecorded(lambda: a.view(-1)),
    "expand without grad": lambda a, b: unrecorded(lambda: a.expand(2, *a.shape)),
    "matmul": lambda a, b: a @ b,
    "linear": lambda a, b: F.linear(a, b),
    "add with alpha": lambda a, b: flambeau.add(a, b, alpha=2),
    "sub with alpha": lambda a, b: a.sub(a * 2, alpha=0.3),
    "add of one with alpha": lambda a, b: flambeau.add(a, a.detach().sum(), alpha=-1.5),
    "add in place with alpha": lambda a, b: own(a).add_(b, alpha=-0.1),
    "sub of itself in place with alpha": lambda a, b: (lambda own: own.sub_(own, alpha=3))(own(a)),
    "out": lambda a, b: flambeau.add(a.detach(), b, out=flambeau.empty(0)),
}
