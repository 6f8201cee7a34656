"""Curvature of a network by two packages: BackPACK's quantities beside a backward pass, and curvlinops' products with large matrices."""

import torch
from backpack import backpack, extend, extensions
from curvlinops import EFLinearOperator, GGNLinearOperator, HessianLinearOperator
from torch import nn

PACKAGES = ["backpack-for-pytorch", "curvlinops-for-pytorch"]


def results():
    torch.manual_seed(0)
    found = {}
    images, labels = torch.randn(6, 1, 6, 6), torch.randint(0, 3, (6,))
    network = extend(nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)))
    loss = extend(nn.CrossEntropyLoss())(network(images), labels)
    kinds = (extensions.BatchGrad(), extensions.BatchL2Grad(), extensions.Variance(), extensions.DiagGGNExact(), extensions.DiagGGNMC())
    with backpack(*kinds, extensions.KFAC(), extensions.KFLR(), extensions.DiagHessian()):
        loss.backward()
    for name, weight in network.named_parameters():
        found[name] = [weight.grad, weight.grad_batch, weight.batch_l2, weight.variance, weight.diag_ggn_exact, weight.diag_ggn_mc]
        found[f"{name}, factors"] = [*weight.kfac, *weight.kflr, weight.diag_h]
    points = torch.randn(24, 4)
    classes = torch.randint(0, 3, (24,))
    classifier = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    weights = [*classifier.parameters()]
    batches = [(points[:12], classes[:12]), (points[12:], classes[12:])]
    for kind in (HessianLinearOperator, GGNLinearOperator, EFLinearOperator):
        matrix = kind(classifier, nn.CrossEntropyLoss(), weights, batches)
        found[kind.__name__] = matrix @ torch.linspace(-1, 1, matrix.shape[1])
    return found
