"""PyTorch's own database of optimizers as a yardstick: its arguments and its error inputs, given to both libraries."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from oracle import pytorch

import flambeau

torch = pytorch()
pytest.importorskip("expecttest")  # torch.testing._internal needs it

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    theirs = pytorch("torch.testing._internal.common_optimizers")

    from conformance.database import Converter

pytestmark = pytest.mark.oracle

ENTRIES = {entry.optim_cls.__name__: entry for entry in theirs.optim_db}
STEPS = 3


class WithGradients(Converter):
    """Tensors with the gradients that they have already; the same one each time."""

    def __init__(self):
        super().__init__()
        self.known = {}

    def tensor(self, value):
        if value.layout is not torch.strided:
            return self.leaf(self.sparse(value.detach()), value)
        if id(value) not in self.known:
            tensor = flambeau.from_numpy(value.detach().numpy().copy()).requires_grad_(value.requires_grad)
            if value.grad is not None:
                tensor.grad = self.tensor(value.grad)
            self.known[id(value)] = tensor
        return self.known[id(value)]


def test_all_are_there():
    assert all(hasattr(flambeau.optim, name) for name in ENTRIES)


def trained(library, cls, kwargs):
    """What an optimizer prints, and two parameters after some steps."""
    generator = np.random.default_rng(0)
    parameters = [library.nn.Parameter(library.tensor(generator.standard_normal(shape).astype(np.float32))) for shape in ((3, 4), (2, 2))]
    # A learning rate that is a tensor belongs to the database, and an optimizer may change it.
    kwargs = {key: value.clone() if isinstance(value, library.Tensor) else value for key, value in kwargs.items()}
    optimizer = cls(parameters, **kwargs)

    def closure():
        optimizer.zero_grad()
        loss = sum((p**2 * library.linspace(0.5, 1.5, p.numel()).view(p.shape)).sum() for p in parameters)
        loss.backward()
        if cls.__name__ == "SparseAdam":
            for p in parameters:
                p.grad = p.grad.to_sparse(1)
        return loss

    printed = repr(optimizer)
    for _ in range(STEPS):
        optimizer.step(closure)
    return printed, [p.detach().numpy() for p in parameters]


@pytest.mark.parametrize("name", ENTRIES)
def test_every_set_of_arguments_gives_the_same_steps(name):
    entry = ENTRIES[name]
    for given in entry.optim_inputs_func(device="cpu", dtype=torch.float32):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted, parameters = trained(torch, entry.optim_cls, given.kwargs)
            printed, ours = trained(flambeau, getattr(flambeau.optim, name), WithGradients()(given.kwargs))
        assert printed == wanted
        for got, want in zip(ours, parameters):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-7, err_msg=f"{given.kwargs}")


@pytest.mark.parametrize("name", ENTRIES)
def test_error_inputs(name):
    entry = ENTRIES[name]
    for given in entry.optim_error_inputs_func(device="cpu", dtype=torch.float32):
        sample, convert = given.optimizer_error_input, WithGradients()
        params = [flambeau.nn.Parameter(flambeau.ones(1))] if sample.params is None else convert(sample.params)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(given.error_type) as raised:
                optimizer = getattr(flambeau.optim, name)(params, **convert(sample.kwargs))
                optimizer.step()
        assert re.search(given.error_regex, str(raised.value)) or given.error_regex in str(raised.value), sample.desc
