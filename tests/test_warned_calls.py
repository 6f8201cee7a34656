"""Which calls warn, of what category, and whose line the warning names: the caller's."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import flambeau

CALLS = [
    "F.dropout2d(torch.ones(2,3), 0.5)",
    "F.dropout2d(torch.ones(2,3,4), 0.5)",
    "F.dropout2d(torch.ones(2,3,4,5,6), 0.5)",
    "F.dropout3d(torch.ones(2,3,4), 0.5)",
    "F.dropout3d(torch.ones(2,3,4,5,6,7), 0.5)",
    "torch.frombuffer(b'abcd', dtype=torch.uint8)",
    "F.softmax(torch.ones(2,3))",
    "F.log_softmax(torch.ones(2,3))",
    "F.softmin(torch.ones(2,3))",
    "F.mse_loss(torch.ones(2,3), torch.ones(3))",
    "F.l1_loss(torch.ones(2,1), torch.ones(2))",
    "F.smooth_l1_loss(torch.ones(2,1), torch.ones(2))",
    "F.huber_loss(torch.ones(2,1), torch.ones(2))",
    "F.kl_div(torch.zeros(2,3), torch.ones(2,3))",
    "F.upsample(torch.ones(1,1,4), 8)",
    "F.upsample_nearest(torch.ones(1,1,4), 8)",
    "F.upsample_bilinear(torch.ones(1,1,4,4), 8)",
    "torch.tensor(torch.ones(2))",
    "torch.ones(1).std()",
    "torch.ones(0).var()",
    "torch.ones(2,3).var(1, correction=3)",
    "torch.range(0, 3)",
    "torch.view_as_complex(torch.ones(3,2)).to(torch.float32)",
    "torch.where(torch.ones(2, dtype=torch.uint8), 1., 2.)",
    "torch.ones(4).expand(2,4).index_put_((torch.tensor([0]),), torch.ones(4))",
    "torch.nn.init.xavier_normal(torch.empty(2,2))",
    "torch.nn.init.uniform(torch.empty(2))",
    "torch.nn.init.kaiming_uniform_(torch.empty(0,3))",
    "torch.nn.utils.clip_grad_norm(torch.nn.Linear(1,1).parameters(), 1.)",
    "torch.cholesky(torch.eye(2))",
    "torch.qr(torch.eye(2))",
    "torch.triangular_solve(torch.ones(2,1), torch.eye(2))",
    "torch.ones(2, requires_grad=True).mul(2).grad",
    "torch.autograd.Variable(torch.ones(2), volatile=True)",
    "(lambda s: (s.step(), 1))(torch.optim.lr_scheduler.StepLR(torch.optim.SGD([torch.ones(1)], 0.1), 1))",
    "(lambda s: (s.optimizer.step(), s.step(3), 1))(torch.optim.lr_scheduler.StepLR(torch.optim.SGD([torch.ones(1)], 0.1), 1))",
    "torch.cpu.amp.autocast()",
    "torch.GradScaler('cuda')",
    "torch.nn.utils.stateless.functional_call(torch.nn.Linear(1,1), {}, torch.ones(1))",
    "torch.from_numpy(__import__('numpy').broadcast_to(__import__('numpy').ones(3), (2,3)))",
    "torch.quantize_per_tensor(torch.ones(2), 1., 0, torch.qint8)",
    # and what is like them, without a warning
    "F.dropout1d(torch.ones(2,3), 0.5)",
    "F.dropout1d(torch.ones(2,3,4), 0.5)",
    "F.dropout2d(torch.ones(2,3,4,5), 0.5)",
    "F.dropout3d(torch.ones(2,3,4,5), 0.5)",
    "F.dropout3d(torch.ones(2,3,4,5,6), 0.5)",
    "pickle.dumps(torch.ones(2, requires_grad=True))",
    "F.gumbel_softmax(torch.ones(2,3), hard=True)",
    "F.kl_div(torch.zeros(2,3), torch.ones(2,3), reduction='batchmean')",
    "F.tanh(torch.ones(2))",
    "F.sigmoid(torch.ones(2))",
    "F.interpolate(torch.ones(1,1,4), scale_factor=2.0, mode='linear', recompute_scale_factor=True)",
    "torch.ones(2,3).T",
    "torch.ones(2,3,4).mT",
    "torch.ones(3).std()",
    "torch.ones(3).norm()",
    "torch.meshgrid(torch.ones(2), torch.ones(3), indexing='ij')",
    "torch.stft(torch.ones(64), 16, window=torch.hann_window(16), return_complex=True)",
    "torch.ones(2, dtype=torch.complex64).real",
    "torch.nn.GRU(2,3,2,dropout=0.5)",
    "torch.nn.KLDivLoss()",
    "torch.nn.init.zeros_(torch.empty(0))",
    "torch.ones(2, requires_grad=True).grad",
    "torch.ones(1, requires_grad=True).item()",
    "torch.ones(2).data",
    "torch.utils.checkpoint.checkpoint(lambda x: x * 2, torch.ones(1, requires_grad=True), use_reentrant=False)",
    "torch.ones(2).__array__()",
    "copy.deepcopy(torch.ones(2))",
    "torch.div(torch.ones(2), 2, rounding_mode='floor')",
    "F.scaled_dot_product_attention(torch.ones(1,1,2,2), torch.ones(1,1,2,2), torch.ones(1,1,2,2))",
    "F.ctc_loss(torch.zeros(2,1,3), torch.tensor([[1]]), torch.tensor([2]), torch.tensor([1]))",
    "F.hardtanh(torch.ones(1))",
    "F.pad(torch.ones(2),(1,1))",
    "F.adaptive_max_pool1d_with_indices(torch.ones(1,1,4), 2)",
    "F.lp_pool1d(torch.ones(1,1,4),2,2)",
    "F.unfold(torch.ones(1,1,3,3),2)",
    "F.local_response_norm(torch.ones(1,2,3),2)",
    "F.max_pool2d(torch.ones(1,1,4,4), 2)",
    "F.batch_norm(torch.ones(2,2), None, None, training=True)",
    "F.cosine_embedding_loss(torch.ones(2,2), torch.ones(2,2), torch.ones(2))",
    "F.triplet_margin_loss(torch.ones(2,2), torch.ones(2,2), torch.ones(2,2))",
    "F.gaussian_nll_loss(torch.ones(2), torch.ones(2), torch.ones(2))",
    "F.poisson_nll_loss(torch.ones(2), torch.ones(2))",
    "F.binary_cross_entropy(torch.ones(2), torch.ones(2))",
]
E, B = "torch.eye(3)", "torch.ones(3, 1)"
LU = f"*torch.linalg.lu_factor({E})"
# Here the caller's line is named, in PyTorch one of its own; and names that PyTorch no longer has.
OWN = [
    "pickle.dumps((lambda x: (x.register_hook(print), x))(torch.ones(2, requires_grad=True))[1])",
    "torch.nn.Softmax()(torch.ones(2, 3))",
    *(f"torch.{name}({E})" for name in ("potrf", "potri", "pstrf", "btrifact", "btrifact_with_info", "symeig", "eig", "matrix_rank", "lu")),
    *(f"torch.{name}({B}, {E})" for name in ("solve", "gesv", "trtrs", "lstsq", "gels", "potrs")),
    *(f"torch.{call}" for call in (f"btriunpack({LU})", f"btrisolve({B}, {LU})", f"lu_solve({B}, {LU})")),
]


PROGRAM = """
import copy, pickle, sys, warnings
import flambeau as torch
torch.set_warn_always(True)
space = {"torch": torch, "F": torch.nn.functional, "pickle": pickle, "copy": copy}
for call in sys.stdin.read().splitlines():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        eval(call, space)
    print(call, *[each.filename for each in caught], sep=" -> ")
"""


def warned(torch: Any, call: str) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.set_warn_always(True)
        try:
            eval(call, {"torch": torch, "F": torch.nn.functional, "pickle": pickle, "copy": copy})
        finally:
            torch.set_warn_always(False)
    return [each.category.__name__ for each in caught]


@pytest.mark.parametrize("call", CALLS)
def test_a_call_warns_where_pytorch_does(call: str, of_pytorch: Callable[..., Any]) -> None:
    assert warned(flambeau, call) == of_pytorch(lambda torch: warned(torch, call))


@pytest.mark.parametrize("call", OWN)
def test_old_names_warn(call: str) -> None:
    assert warned(flambeau, call) == ["UserWarning"]


def test_warnings_name_the_callers_line() -> None:
    """In a process of its own, in which no mode and no device of other tests sends calls the long way."""
    calls = "\n".join([*CALLS, *OWN])
    done = subprocess.run([sys.executable, "-c", PROGRAM], input=calls, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) == len(CALLS) + len(OWN), done.stderr
    assert not [line for line in lines if any(name != "<string>" for name in line.split(" -> ")[1:])]
