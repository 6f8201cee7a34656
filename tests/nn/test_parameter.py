"""Parameter and Buffer."""

from __future__ import annotations

import flambeau
from flambeau import nn


def test_parameter_shares_memory_and_requires_grad():
    data = flambeau.ones(2)
    parameter = nn.Parameter(data)
    assert isinstance(parameter, flambeau.Tensor) and parameter.requires_grad
    assert parameter.data_ptr() == data.data_ptr()
    assert not nn.Parameter(data, requires_grad=False).requires_grad
    assert repr(parameter).startswith("Parameter containing:\ntensor([1., 1.], requires_grad=True)")


def test_buffer_is_a_plain_tensor_with_a_mark():
    buffer = nn.Buffer(flambeau.ones(2), persistent=False)
    assert type(buffer) is flambeau.Tensor
    assert isinstance(buffer, nn.Buffer) and not isinstance(flambeau.ones(2), nn.Buffer)
    module = nn.Module()
    module.b = buffer
    module.kept = nn.Buffer(flambeau.ones(1))
    assert list(module._buffers) == ["b", "kept"] and list(module.state_dict()) == ["kept"]
    assert nn.Buffer().numel() == 0
