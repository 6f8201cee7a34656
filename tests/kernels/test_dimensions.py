"""A dimension that a tensor has not is the same error of large tensors, which kernels take, as of PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau

NAMES = (
    "sum mean prod amax amin max min argmax argmin all any var std var_mean std_mean norm logsumexp softmax log_softmax cumsum cumprod "
    "cummax cummin logcumsumexp sort argsort kthvalue median nanmedian mode nansum nanmean aminmax count_nonzero "
    "squeeze unsqueeze unbind diff"
).split()
GIVEN = {"kthvalue": "1, {}", "aminmax": "dim={}", "diff": "dim={}", "norm": "dim={}"}
CALLS = [f"torch.{name}(x, {GIVEN.get(name, '{}')})" for name in NAMES] + [
    "torch.cat([x, x], {})",
    "torch.cat([x, x.t()], {})",
    "torch.stack([x, x], {})",
    "torch.topk(x, 1, {})",
    "torch.index_select(x, {}, i)",
    "torch.index_add(x, {}, i, x[:1])",
    "torch.index_copy(x, {}, i, x[:1])",
    "torch.index_fill(x, {}, i, 1.)",
    "torch.gather(x, {}, i[:, None])",
    "torch.scatter(x, {}, i[:, None], x)",
    "torch.scatter_add(x, {}, i[:, None], x)",
    "torch.narrow(x, {}, 0, 1)",
    "torch.select(x, {}, 0)",
    "torch.split(x, 1, {})",
    "torch.chunk(x, 2, {})",
    "torch.roll(x, 1, {})",
    "torch.renorm(x, 2, {}, 1.)",
    "torch.quantile(x, 0.5, {})",
    "torch.repeat_interleave(x, 2, {})",
    "torch.take_along_dim(x, i[:, None], {})",
    "torch.flip(x, ({},))",
    "torch.cross(x, x, dim={})",
    "torch.transpose(x, 0, {})",
    "torch.movedim(x, 0, {})",
    "torch.nn.functional.normalize(x, dim={})",
    "torch.nn.functional.glu(x, {})",
    "torch.nn.functional.cosine_similarity(x, x, {})",
    "torch.nn.functional.softmin(x, {})",
]


def kind_of_error(torch: Any, call: str) -> str:
    x, i = torch.ones(300, 400), torch.zeros(1, dtype=torch.int64)
    try:
        eval(call, {"torch": torch, "x": x, "i": i})
    except (IndexError, RuntimeError, ValueError) as error:
        return type(error).__name__
    return "none"


@pytest.mark.parametrize("dim", [2, 3, -3, -4])
@pytest.mark.parametrize("call", CALLS)
def test_a_dimension_out_of_range_is_pytorchs_error(call: str, dim: int, of_pytorch: Callable[..., Any]) -> None:
    text = call.format(dim)
    assert kind_of_error(flambeau, text) == of_pytorch(lambda torch: kind_of_error(torch, text))
