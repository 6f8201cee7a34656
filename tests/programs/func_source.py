"""What compositions of ``torch.func``'s transforms stand on: numbers that are the same for each library, and how results are compared."""

from __future__ import annotations

import importlib

import numpy as np

COMPOSITIONS = {}


def composition(function):
    COMPOSITIONS[function.__name__] = function
    return function


class Source:
    """A library, and numbers that are the same for each."""

    def __init__(self, torch, seed=0):
        self.torch, self.func, self.F = torch, torch.func, importlib.import_module(f"{torch.__name__}.nn.functional")
        self.rng = np.random.default_rng(seed)

    def normal(self, *shape):
        return self.torch.from_numpy(np.array(self.rng.standard_normal(shape)))

    def positive(self, *shape):
        return self.torch.from_numpy(np.array(self.rng.random(shape) + 0.5))

    def complex(self, *shape):
        return self.torch.from_numpy(np.array(self.rng.standard_normal(shape) + 1j * self.rng.standard_normal(shape)))

    def integers(self, below, *shape):
        return self.torch.from_numpy(np.array(self.rng.integers(0, below, shape)))

    def definite(self, *shape, n=3):
        """Well-conditioned symmetric matrices."""
        a = self.rng.standard_normal((*shape, n, n))
        return self.torch.from_numpy(a @ a.swapaxes(-1, -2) + 2 * np.eye(n))

    def filled(self, module):
        """A module with its parameters and buffers in float64, filled from here."""
        module = module.double()
        for tensor in module.parameters():
            tensor.data.copy_(self.normal(*tensor.shape) * 0.3)
        for name, tensor in module.named_buffers():
            if tensor.dtype.is_floating_point:
                tensor.copy_(self.positive(*tensor.shape) if "var" in name else self.normal(*tensor.shape))
        return module

    def state(self, module):
        return {name: tensor.detach() for name, tensor in module.named_parameters()}


def bumpy(torch):
    """A function of a vector with a dense third derivative."""
    return lambda x: (x.sin() * x.exp()).sum() + (x @ x) ** 2 + x.prod()


def bumps(torch):
    """A function from vectors to vectors of three."""
    return lambda x: torch.stack([x.sin().sum(), (x * x).prod(), torch.logsumexp(x, 0)])


def written(torch):
    def f(x):
        y = x.clone()
        y[1:3].mul_(2)
        y.add_(x)
        y[0] = x.sum()
        z = y.view(2, 2)
        z.t()[0].sin_()
        return (y * y).sum()

    return f


def flattened(value, path=""):
    """(path, value) for each leaf of what a composition returned; containers are told apart by their paths."""
    if isinstance(value, dict):
        return [leaf for key, each in value.items() for leaf in flattened(each, f"{path}.{key}")]
    if isinstance(value, (list, tuple)):
        return [leaf for i, each in enumerate(value) for leaf in flattened(each, f"{path}{'[' if isinstance(value, list) else '('}{i}")]
    return [(path, value)]


def as_array(value):
    return value.resolve_conj().resolve_neg().numpy() if hasattr(value, "numpy") else np.asarray(value)


def compare(ours, theirs):
    """The largest difference of two results, relative to their size.

    Raises:
        AssertionError: another structure, shape, dtype, or a tensor that requires grad in one only.
    """
    a, b = flattened(ours), flattened(theirs)
    assert [path for path, _ in a] == [path for path, _ in b], f"{[path for path, _ in a]} and {[path for path, _ in b]}"
    worst = 0.0
    for (path, mine), (_, other) in zip(a, b, strict=True):
        assert getattr(mine, "requires_grad", None) == getattr(other, "requires_grad", None), f"requires_grad at {path}: {mine}, {other}"
        x, y = as_array(mine), as_array(other)
        assert (x.shape, x.dtype) == (y.shape, y.dtype), f"at {path}: {x.shape} {x.dtype}, {y.shape} {y.dtype}"
        if x.size:
            worst = max(worst, float(np.max(np.abs(x * 1.0 - y * 1.0) / (1 + np.abs(y)))))
    return worst
