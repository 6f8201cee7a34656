"""nflows and normflows: normalizing flows of several kinds, trained, asked for densities, and sampled."""

import normflows
import torch
from nflows.distributions.normal import ConditionalDiagonalNormal, StandardNormal
from nflows.flows.base import Flow
from nflows.transforms import (
    CompositeTransform,
    LULinear,
    MaskedAffineAutoregressiveTransform,
    MaskedPiecewiseRationalQuadraticAutoregressiveTransform,
    RandomPermutation,
)

PACKAGES = ["nflows", "normflows"]


def steps(parameters, loss, count=8):
    optimizer = torch.optim.Adam(parameters, lr=5e-3)
    losses = []
    for _ in range(count):
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


def results():
    torch.manual_seed(0)
    angle = torch.rand(64) * 3.1
    points = torch.stack([angle.cos(), angle.sin()], 1) + 0.1 * torch.randn(64, 2)
    given = {}
    layers = [
        RandomPermutation(2),
        MaskedAffineAutoregressiveTransform(2, 16),
        LULinear(2),
        MaskedPiecewiseRationalQuadraticAutoregressiveTransform(2, 16, tails="linear", tail_bound=3.0),
    ]
    flow = Flow(CompositeTransform(layers), StandardNormal([2]))
    given["nflows losses"] = steps(flow.parameters(), lambda: -flow.log_prob(points).mean())
    with torch.no_grad():
        given |= {"nflows densities": flow.log_prob(points[:5]), "nflows samples": flow.sample(4)}
    conditional = Flow(
        MaskedAffineAutoregressiveTransform(2, 16, context_features=1), ConditionalDiagonalNormal([2], torch.nn.Linear(1, 4))
    )
    context = angle.unsqueeze(1)
    given["conditional losses"] = steps(conditional.parameters(), lambda: -conditional.log_prob(points, context).mean())
    blocks = []
    for _ in range(3):
        blocks += [
            normflows.flows.AffineCouplingBlock(normflows.nets.MLP([1, 16, 2])),
            normflows.flows.Permute(2, mode="swap"),
            normflows.flows.ActNorm(2),
        ]
    model = normflows.NormalizingFlow(normflows.distributions.DiagGaussian(2), blocks, normflows.distributions.TwoMoons())
    given["forward losses"] = steps(model.parameters(), lambda: model.forward_kld(points))
    with torch.no_grad():
        given["normflows samples"] = model.sample(4)
    given["reverse losses"] = steps(model.parameters(), lambda: model.reverse_kld(32), count=4)
    return given
