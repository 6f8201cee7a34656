"""pytorch-minimize: minima of a function by seven methods, with bounds and constraints, least squares."""

import torch
import torchmin
from torchmin import least_squares, minimize, minimize_constr
from torchmin.benchmarks import rosen

PACKAGES = ["pytorch-minimize"]
TOLERANCE = (1e-3, 1e-4)


def results():
    start = torch.tensor([1.0, 8.0, -0.5, 1.2], dtype=torch.float64)
    found = {"version": torchmin.__version__ if hasattr(torchmin, "__version__") else ""}
    for method in ("bfgs", "l-bfgs", "cg", "newton-cg", "newton-exact", "trust-ncg", "trust-exact"):
        made = minimize(rosen, start, method=method, tol=1e-6, max_iter=200)
        found[method] = [made.x, made.fun < 1e-4, bool(made.success)]
    ball = {"fun": lambda x: x.square().sum(), "lb": 0.0, "ub": 2.0}
    bounded = minimize_constr(rosen, start.clamp(-0.5, 1.0), max_iter=60, constr=ball)
    found["constrained"] = [bounded.x.square().sum(), bounded.fun]
    t = torch.linspace(0, 2, 20, dtype=torch.float64)
    y = 2.0 * torch.exp(-1.3 * t) + 0.5
    fitted = least_squares(lambda p: p[0] * torch.exp(-p[1] * t) + p[2] - y, torch.ones(3, dtype=torch.float64))
    found["fitted"] = [fitted.x, fitted.cost]
    return found
