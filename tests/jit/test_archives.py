"""Programs that are scripted and traced: they compute what the program does, and archives go both ways with PyTorch."""

from __future__ import annotations

import io
import json
import lzma
import tarfile
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import oracle_vision
import pytest
from jit_programs import made, programs_of
from oracle import HAS_ORACLE, pytorch

import flambeau as torch
from flambeau import nn, vision
from flambeau.utils._pytree import tree_leaves

RECORDED = Path(__file__).parents[1] / "recorded" / "torchscript.tar.xz"
CASES = [(name, way) for name, program in programs_of(torch).items() for way in program.ways]


def plain(value: Any) -> Any:
    """A result without the library that made it: lists of numbers."""
    if hasattr(value, "detach"):
        return value.detach().numpy().tolist()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def assert_alike(found: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        found, expected = list(found.values()), list(expected.values())
    if isinstance(expected, list) and any(isinstance(part, (list, dict, str)) for part in expected):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_alike(one, other)
    elif isinstance(expected, str):
        assert found == expected
    else:
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small"])
def test_models_for_images_go_both_ways(name: str) -> None:
    real, torchvision = pytorch(), oracle_vision.torchvision()
    ours, theirs = getattr(torch.vision.models, name)().eval(), getattr(torchvision.models, name)().eval()
    x = torch.randn(2, 3, 64, 64)
    with torch.no_grad(), real.no_grad():
        for compiled in (torch.jit.script(ours), torch.jit.trace(ours, x[:1])):
            found = real.jit.load(saved(compiled))(real.tensor(x.numpy()))
            np.testing.assert_allclose(found.numpy(), ours(x).numpy(), rtol=1e-4, atol=1e-5)
        for compiled in (real.jit.script(theirs), real.jit.trace(theirs, real.tensor(x.numpy())[:1])):
            file = io.BytesIO()
            real.jit.save(compiled, file)
            file.seek(0)
            np.testing.assert_allclose(torch.jit.load(file)(x).numpy(), theirs(real.tensor(x.numpy())).numpy(), rtol=1e-4, atol=1e-5)


def saved(compiled: Any) -> io.BytesIO:
    return io.BytesIO(compiled.save_to_buffer())


@pytest.mark.parametrize("name", ["googlenet", pytest.param("inception_v3", marks=pytest.mark.slow)])
def test_scripted_models_with_auxiliary_classifiers_return_their_tuple(name: str) -> None:
    torch.manual_seed(0)
    make = getattr(torch.vision.models, name)
    model = make(weights=None, init_weights=False, transform_input=True, num_classes=3).eval()
    compiled, x = torch.jit.script(model), torch.randn(2, 3, 75, 75)
    wanted = model(x)
    found = compiled(x)
    torch.testing.assert_close(found.logits, wanted)
    assert found[1] is None and type(found).__name__ in ("GoogLeNetOutputs", "InceptionOutputs")
    if HAS_ORACLE:
        real = pytorch()
        theirs = real.jit.load(saved(compiled))(real.tensor(x.numpy()))
        np.testing.assert_allclose(theirs[0].detach().numpy(), wanted.detach().numpy(), rtol=1e-3, atol=1e-4)


def small_models() -> dict[str, Callable[[], Any]]:
    """Models of windows and of maps, with dicts and methods of base classes, as small as they can be."""
    swin, video, maps = vision.models.swin_transformer, vision.models.video, vision.models.segmentation
    settings: Any = ([1, 2], [2, 4], [4, 4])

    def segmentation() -> Any:
        layers = vision.models._utils.IntermediateLayerGetter(
            nn.Sequential(OrderedDict(a=nn.Conv2d(3, 8, 3, 2, 1), b=nn.Conv2d(8, 8, 1))), {"b": "out"}
        )
        return maps.DeepLabV3(layers, maps.deeplabv3.DeepLabHead(8, 3, (2,)))

    return {
        "swin": lambda: swin.SwinTransformer([4, 4], 16, *settings, num_classes=3),
        "swin v2": lambda: swin.SwinTransformer(
            [4, 4], 16, *settings, num_classes=3, block=swin.SwinTransformerBlockV2, downsample_layer=swin.PatchMergingV2
        ),
        "swin 3d": lambda: video.swin_transformer.SwinTransformer3d([2, 4, 4], 16, [2, 1], [2, 4], [4, 3, 3], num_classes=3),
        "segmentation": segmentation,
    }


@pytest.mark.parametrize("name", small_models())
def test_scripted_models_of_windows_and_maps(name: str) -> None:
    torch.manual_seed(0)
    model = small_models()[name]().eval()
    compiled = torch.jit.script(model)
    loaded = torch.jit.load(saved(compiled))
    for side in (34, 56):
        x = torch.randn(2, 3, *([5] if name == "swin 3d" else []), side, side + 2)
        with torch.no_grad():
            wanted = tree_leaves(model(x))
            for found in (compiled(x), loaded(x)):
                for a, b in zip(tree_leaves(found), wanted, strict=True):
                    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
        if HAS_ORACLE:
            real = pytorch()
            theirs = tree_leaves(real.jit.load(saved(compiled))(real.tensor(x.numpy())))
            found = [each.detach().numpy() if hasattr(each, "detach") else each for each in _flat(theirs)]
            for a, b in zip(found, wanted, strict=True):
                np.testing.assert_allclose(a, b.numpy(), rtol=1e-3, atol=1e-4)


def _flat(leaves: Any) -> Any:
    return [leaf for each in leaves for leaf in (each.values() if isinstance(each, dict) else [each])]


@pytest.mark.parametrize(("name", "way"), CASES)
def test_compiled_programs_compute_what_the_programs_do(name: str, way: str) -> None:
    program, compiled, _ = made(torch, name, way)
    inputs = programs_of(torch)[name].inputs
    loaded = torch.jit.load(saved(compiled))
    again = torch.jit.load(saved(loaded))
    expected = plain(program(*inputs()))
    if not programs_of(torch)[name].training:
        assert_alike(plain(compiled(*inputs())), expected)
    assert_alike(plain(loaded(*inputs())), expected)
    assert_alike(plain(again(*inputs())), expected)
    other = programs_of(torch)[name].other
    if other is not None:
        assert_alike(plain(loaded(*other())), plain(program(*other())))


@pytest.mark.parametrize(("name", "way"), CASES)
def test_pytorch_runs_archives_written_here(name: str, way: str) -> None:
    real = pytorch()
    program, compiled, inputs = made(torch, name, way)
    theirs = real.jit.load(saved(compiled))
    expected = plain(program(*inputs))
    assert_alike(plain(theirs(*programs_of(real)[name].inputs())), expected)
    if isinstance(program, torch.nn.Module):
        assert [key for key, _ in theirs.named_parameters()] == [key for key, _ in program.named_parameters()]


@cache
def recorded() -> dict[str, bytes]:
    """Archives that PyTorch wrote, with what its programs gave."""
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(RECORDED.read_bytes()))) as tar:
        return {entry.name: tar.extractfile(entry).read() for entry in tar}  # type: ignore[union-attr]


@pytest.mark.parametrize(("name", "way"), CASES)
def test_archives_written_by_pytorch_run_here(name: str, way: str) -> None:
    expected = json.loads(recorded()["outcomes.json"])[f"{name}.{way}"]
    loaded = torch.jit.load(io.BytesIO(recorded()[f"{name}.{way}.pt"]))
    inputs = programs_of(torch)[name].inputs()
    assert_alike(plain(loaded(*inputs)), expected)
    inputs = programs_of(torch)[name].inputs()  # some programs write to them
    if HAS_ORACLE:
        program, compiled, given = made(pytorch(), name, way)
        buffer = io.BytesIO()
        pytorch().jit.save(compiled, buffer)
        buffer.seek(0)
        assert_alike(plain(torch.jit.load(buffer)(*inputs)), plain(program(*given)))
