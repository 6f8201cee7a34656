"""entmax: sparse alternatives of softmax, their losses, and gradients of both."""

import torch
from entmax import EntmaxBisect, entmax15, entmax15_loss, entmax_bisect, normmax_bisect, sparsemax, sparsemax_loss

PACKAGES = ["entmax"]


def results():
    torch.manual_seed(0)
    scores, targets = torch.randn(5, 7), torch.tensor([0, 3, 2, 6, 1])
    weights = torch.randn(5, 7)
    found = {}
    for name, mapping in {"sparsemax": sparsemax, "entmax15": entmax15, "bisect": lambda x, dim: entmax_bisect(x, 1.3, dim)}.items():
        x = scores.clone().requires_grad_()
        probabilities = mapping(x, dim=-1)
        (probabilities * weights).sum().backward()
        found[name], found[f"{name} gradient"] = probabilities, x.grad
    for name, function in {"sparsemax loss": sparsemax_loss, "entmax15 loss": entmax15_loss}.items():
        x = scores.clone().requires_grad_()
        loss = function(x, targets)
        loss.sum().backward()
        found[name], found[f"{name} gradient"] = loss, x.grad
    alpha = torch.tensor(1.6, requires_grad=True)
    (EntmaxBisect(alpha, dim=-1)(scores) * weights).sum().backward()
    found["alpha's gradient"] = alpha.grad
    found["normmax"] = normmax_bisect(scores, alpha=3, dim=-1)
    return found
