"""A module as an ONNX file, as programs write and check it."""

from __future__ import annotations

import os
import tempfile
import warnings

import pytest

import flambeau as torch


def test_a_file_passes_the_checker_and_prints_a_graph() -> None:
    onnx = pytest.importorskip("onnx")
    nn = torch.nn
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 5)).eval()
    with tempfile.TemporaryDirectory() as d:
        p = os.path.join(d, "m.onnx")
        torch.onnx.export(net, torch.rand(1, 1, 8, 8), p)
        m = onnx.load(p)
        onnx.checker.check_model(m)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # onnx has another name for it since 1.19
            assert onnx.helper.printable_graph(m.graph)
