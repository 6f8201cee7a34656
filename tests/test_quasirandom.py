"""Sobol' sequences, whose numbers PyTorch's engine gives too; modules that packages import by PyTorch's private or older names."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau.quasirandom import SobolEngine


@pytest.mark.parametrize("options", [{}, {"scramble": True, "seed": 3}, {"scramble": True}])
@pytest.mark.parametrize("dimension", [1, 2, 7, 200])
def test_points_are_pytorchs(oracle: Any, dimension: int, options: dict[str, Any]) -> None:
    def points(library: Any) -> list[Any]:
        library.manual_seed(11)
        engine = library.quasirandom.SobolEngine(dimension, **options)
        drawn = [engine.draw(5), engine.draw(), engine.draw(3, dtype=library.float64), engine.quasi.clone(), engine.shift]
        drawn += [engine.sobolstate, engine.fast_forward(7).draw(2), engine.reset().draw_base2(3), engine.draw_base2(3), library.rand(2)]
        drawn += [library.quasirandom.SobolEngine(dimension, **options).fast_forward(9).draw(4), engine.draw(out=library.empty(0))]
        return [part.numpy() for part in drawn] + [engine.num_generated, repr(engine)]

    for ours, theirs in zip(points(torch), points(oracle), strict=True):
        if isinstance(ours, np.ndarray):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)
        else:
            assert ours == theirs


def test_points_fill_the_square_evenly() -> None:
    cells = (SobolEngine(2, scramble=True, seed=0).draw(256) * 16).long()
    assert torch.bincount(cells[:, 0] * 16 + cells[:, 1], minlength=256).eq(1).all()


def test_what_an_engine_refuses() -> None:
    for dimension in (0, SobolEngine.MAXDIM + 1):
        with pytest.raises(ValueError, match="dimensionality"):
            SobolEngine(dimension)
    engine = SobolEngine(2)
    with pytest.raises(NotImplementedError, match="Half"):
        engine.draw(1, dtype=torch.float16)
    with pytest.raises(RuntimeError, match="negative dimension"):
        engine.draw(0)
    engine.draw(3)
    with pytest.raises(ValueError, match="power of 2"):
        engine.draw_base2(2)
    assert engine.draw(0).shape == (0, 2)


def test_functions_under_the_name_of_their_module() -> None:
    from flambeau import functional

    assert functional.einsum is torch.einsum and set(functional.__all__) <= set(dir(functional))
    with pytest.raises(AttributeError, match="sin"):
        functional.sin  # noqa: B018


def test_the_first_vmap_under_its_private_name() -> None:
    from flambeau._vmap_internals import _vmap

    assert torch.equal(_vmap(lambda x: x.sum())(torch.ones(3, 2)), torch.full((3,), 2.0))
    with pytest.raises(NotImplementedError, match="allow_none_pass_through"):
        _vmap(torch.sin, allow_none_pass_through=True)


def test_tensors_are_grouped_by_device_and_dtype(oracle: Any) -> None:
    def groups(library: Any) -> list[Any]:
        from importlib import import_module

        module = import_module(f"{library.__name__}.utils._foreach_utils")
        assert module._has_foreach_support([library.ones(1)], library.device("cpu"))
        lists = [[library.ones(1), library.ones(2).double(), library.ones(3)], [library.ones(3), None, library.ones(2)]]
        found = []
        for indices in (False, True):
            for key, (parts, places) in module._group_tensors_by_device_and_dtype(lists, indices).items():
                shown = [[None if tensor is None else tensor.tolist() for tensor in part] for part in parts]
                found.append(([str(word) for word in key], shown, list(places)))
        return sorted(found, key=str)

    assert groups(torch) == groups(oracle)


def test_names_that_packages_import() -> None:
    from flambeau.jit.annotations import List
    from flambeau.utils.data._utils.collate import np_str_obj_array_pattern
    from flambeau.utils.data._utils.worker import _generate_state

    assert List[int] == list[int] or List[int].__origin__ is list
    assert np_str_obj_array_pattern.search("U") and not np_str_obj_array_pattern.search("f")
    assert _generate_state(5, 1) == [3025039489, 3528014902, 3507927383, 2601490367]
    assert re.compile(torch.hub.HASH_REGEX).search("resnet-0a1b2c.pth").group(1) == "0a1b2c"  # type: ignore[union-attr]
