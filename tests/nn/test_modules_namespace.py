"""nn.modules: the names of PyTorch's files, and its small helpers."""

from __future__ import annotations

import importlib
from collections import OrderedDict

from flambeau import nn


def test_files_are_found_under_pytorchs_names():
    assert importlib.import_module("flambeau.nn.modules.batchnorm")._BatchNorm in nn.BatchNorm2d.__mro__
    assert importlib.import_module("flambeau.nn.modules.conv").Conv2d is nn.Conv2d
    assert nn.modules.container.Sequential is nn.Sequential is nn.modules.Sequential
    assert nn.modules.module.Module is nn.Module


def test_every_class_is_where_pytorch_has_it(oracle):
    for name in dir(nn):
        cls = getattr(nn, name)
        if isinstance(cls, type) and issubclass(cls, nn.Module):
            path = getattr(oracle.nn, name).__module__.replace("torch.", "flambeau.", 1)
            assert getattr(importlib.import_module(path), name) is cls


def test_tuples_of_sizes():
    from flambeau.nn.modules.utils import _pair, _single, _triple

    assert (_single(3), _pair(3), _triple((1, 2, 3))) == ((3,), (3, 3), (1, 2, 3))


def test_a_prefix_is_taken_off(same):
    def program(torch):
        wrapped = torch.nn.Module()
        wrapped.module = torch.nn.Sequential(torch.nn.Linear(1, 1))
        wrapped.other = torch.nn.Linear(1, 1)
        state = wrapped.state_dict()
        torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
        bare = {"module.a": 1, "b": 2}
        torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(bare, "module.")
        return [list(state), sorted(state._metadata), list(bare), isinstance(state, OrderedDict)]

    same(program)
