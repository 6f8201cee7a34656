"""torchopt and posteriors: optimizers as functions and as parts of a graph, meta-learned weights, samples of a posterior."""

import posteriors
import torch
import torchopt
from torch import nn

PACKAGES = ["torchopt", "posteriors", "optree"]


def functional():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    x, y = torch.randn(32, 4), torch.randn(32, 1)
    found = {}
    for name, optimizer in {
        "adam": torchopt.adam(0.05),
        "rmsprop": torchopt.rmsprop(0.01),
        "chain": torchopt.chain(
            torchopt.clip.clip_grad_norm(1.0), torchopt.sgd(torchopt.schedule.linear_schedule(0.1, 0.01, 5), momentum=0.9)
        ),
    }.items():
        params = {name: p.detach().clone().requires_grad_() for name, p in net.named_parameters()}
        state = optimizer.init(params)
        losses = []
        for _ in range(5):
            loss = nn.functional.mse_loss(torch.func.functional_call(net, params, x), y)
            grads = dict(zip(params, torch.autograd.grad(loss, params.values()), strict=True))
            updates, state = optimizer.update(grads, state, params=params, inplace=False)
            params = torchopt.apply_updates(params, updates, inplace=False)
            losses.append(loss.item())
        found[name] = losses
    return found


def meta():
    torch.manual_seed(1)
    net = nn.Linear(3, 1)
    weight = torch.ones((), requires_grad=True)
    x, y = torch.randn(16, 3), torch.randn(16, 1)
    optimizer = torchopt.MetaAdam(net, lr=0.1)
    for _ in range(3):
        optimizer.step(weight * nn.functional.mse_loss(net(x), y))
    outer = nn.functional.mse_loss(net(x), y)
    return {"outer": outer, "of the weight": torch.autograd.grad(outer, weight)[0]}


def sampled():
    torch.manual_seed(2)
    x = torch.randn(40, 2)
    y = (x @ torch.tensor([1.0, -2.0]) > 0).float()

    def log_posterior(params, batch):
        logits = batch[0] @ params["w"]
        likelihood = -nn.functional.binary_cross_entropy_with_logits(logits, batch[1]) * 40
        return likelihood - params["w"].square().sum() / 2, logits

    params = {"w": torch.zeros(2)}
    map_ = posteriors.torchopt.build(log_posterior, torchopt.adam(0.05, maximize=True))
    state = map_.init(params)
    for _ in range(20):
        state, _ = map_.update(state, (x, y))
    chain = posteriors.sgmcmc.sghmc.build(log_posterior, lr=1e-2, temperature=1.0)
    walk = chain.init(state.params)
    visited = []
    for _ in range(10):
        walk, _ = chain.update(walk, (x, y))
        visited.append(walk.params["w"].clone())
    return {"map": state.params["w"], "visited": torch.stack(visited), "log posterior": walk.log_posterior}


def results():
    return {**functional(), **meta(), **sampled()}
