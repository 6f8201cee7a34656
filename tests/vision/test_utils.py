"""Grids, image files and drawings, pixel by pixel as torchvision makes them."""

from __future__ import annotations

import io
import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from oracle import pytorch
from oracle_vision import torchvision
from PIL import Image

import flambeau
from flambeau.vision import utils

FONT = "DejaVuSans.ttf"
TYPES = {"uint8": np.uint8, "float32": np.float32, "float64": np.float64}


@pytest.fixture(scope="module")
def theirs() -> ModuleType:
    return torchvision().utils


def numbers(*shape: int, dtype: str = "float32") -> Any:
    values = np.random.default_rng(len(shape)).random(shape)
    return (values * 256).astype(np.uint8) if dtype == "uint8" else values.astype(TYPES[dtype])


def both(theirs: ModuleType, name: str, *arrays: Any, **options: Any) -> tuple[Any, Any]:
    """The result, as an array, or the error of our function and of theirs; arrays become tensors of each library."""

    def call(library: Any, function: Any) -> Any:
        def convert(value: Any) -> Any:
            if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
                return [convert(item) for item in value]
            return library.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result = function(*map(convert, arrays), **{key: convert(value) for key, value in options.items()})
            except (TypeError, ValueError) as error:
                return type(error).__name__, str(error)
        return result.numpy(), [str(warning.message) for warning in caught if "NumPy" not in str(warning.message)]

    torch = pytorch()

    return call(flambeau, getattr(utils, name)), call(torch, getattr(theirs, name))


def assert_equal(found: Any, expected: Any) -> None:
    if isinstance(found[0], str) or isinstance(expected[0], str):
        assert found == expected
        return
    assert found[1] == expected[1]
    assert found[0].dtype == expected[0].dtype
    # Its palette is float32 where the image is float64.
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-8 if found[0].dtype == np.float64 else 0, atol=0)


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((5, 3, 4, 6), {}),
        ((5, 3, 4, 6), {"nrow": 2, "padding": 1, "pad_value": 0.5}),
        ((4, 1, 3, 3), {"nrow": 3, "normalize": True}),
        ((4, 3, 3, 3), {"normalize": True, "scale_each": True}),
        ((4, 2, 3, 3), {"normalize": True, "value_range": (0.2, 0.7)}),
        ((1, 3, 4, 4), {"padding": 3}),
        ((3, 4, 4), {}),
        ((1, 4, 4), {"normalize": True}),
        ((4, 4), {}),
        ((4, 3, 3, 3), {"normalize": True, "value_range": [0, 1]}),
    ],
)
def test_grids(theirs, shape, options):
    assert_equal(*both(theirs, "make_grid", numbers(*shape), **options))


@pytest.mark.oracle
def test_grids_of_lists_and_of_something_else(theirs):
    assert_equal(*both(theirs, "make_grid", [numbers(3, 4, 4), numbers(3, 4, 4)]))
    assert_equal(*both(theirs, "make_grid", [numbers(1, 4, 4, dtype="uint8")] * 3, pad_value=7))
    found, expected = both(theirs, "make_grid", 3)
    assert found == expected == ("TypeError", "tensor or list of tensors expected, got <class 'int'>")


def test_the_older_name_of_value_range_warns():
    images = flambeau.rand(4, 3, 2, 2)
    with pytest.warns(UserWarning, match="use 'value_range' instead"):
        grid = utils.make_grid(images, normalize=True, range=(0.2, 0.8))
    assert flambeau.equal(grid, utils.make_grid(images, normalize=True, value_range=(0.2, 0.8)))


def test_grids_leave_the_images_alone():
    images = flambeau.rand(4, 3, 2, 2, requires_grad=True)
    before = images.detach().clone()
    assert not utils.make_grid(images, normalize=True, scale_each=True).requires_grad
    assert flambeau.equal(images, before)


@pytest.mark.oracle
def test_image_files(theirs, tmp_path):
    torch = pytorch()

    images = numbers(5, 3, 6, 7) * 1.2 - 0.1
    for name, format in (("grid.png", None), ("grid.unknown", "bmp")):
        utils.save_image(flambeau.from_numpy(images), tmp_path / name, format=format, nrow=3)
        theirs.save_image(torch.from_numpy(images), tmp_path / f"theirs-{name}", format=format, nrow=3)
        assert (tmp_path / name).read_bytes() == (tmp_path / f"theirs-{name}").read_bytes()
    memory = io.BytesIO()
    utils.save_image([flambeau.ones(1, 2, 3)], memory, format="png")
    assert Image.open(memory).getpixel((0, 0)) == (255, 255, 255)
    with pytest.raises(ValueError, match="unknown file extension"):
        utils.save_image(flambeau.ones(3, 2, 2), tmp_path / "x.unknown")


BOXES = np.array([[2, 3, 20, 18], [10, 8, 30, 36], [0, 0, 39, 39]], np.float32)
TURNED = np.array([[5, 9, 20, 3, 26, 21, 11, 27], [30, 5, 38, 20, 30, 30, 22, 20]], np.float32)


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("boxes", "options"),
    [
        (BOXES, {}),
        (BOXES, {"colors": "red", "width": 3}),
        (BOXES, {"colors": (12, 200, 3), "fill": True}),
        (BOXES, {"colors": ["red", "#00ff80", (1, 2, 3)], "labels": ["a", "bc", None]}),
        (BOXES, {"labels": ["cat", "dog", "tree"], "fill_labels": True}),
        (BOXES, {"labels": ["cat", "dog", "tree"], "fill_labels": True, "label_background_colors": "yellow", "label_colors": "blue"}),
        (BOXES, {"labels": ["cat", "dog", "tree"], "label_colors": ["blue", "red", "green", "white"], "colors": "white"}),
        (BOXES, {"labels": ["x", "y", "z"], "font_size": 20}),
        (TURNED, {"colors": "lime", "width": 2}),
        (TURNED, {"fill": True, "labels": ["front", "b"]}),
        (BOXES[:0], {}),
        (BOXES, {"labels": ["one"]}),
        (BOXES, {"colors": ["red"]}),
        (BOXES, {"colors": (1, 2)}),
        (BOXES, {"colors": 5}),
        (BOXES[:, ::-1].copy(), {}),
    ],
)
def test_boxes(theirs, boxes, options):
    for shape, dtype in (((3, 40, 40), "uint8"), ((1, 40, 40), "float32")):
        assert_equal(*both(theirs, "draw_bounding_boxes", numbers(*shape, dtype=dtype), boxes, **options))


@pytest.mark.oracle
def test_labels_in_a_font_of_their_own(theirs):
    matplotlib = pytest.importorskip("matplotlib")
    font = f"{matplotlib.get_data_path()}/fonts/ttf/{FONT}"
    for options in ({"font_size": 14}, {"fill_labels": True}):
        assert_equal(
            *both(
                theirs,
                "draw_bounding_boxes",
                numbers(3, 40, 40, dtype="uint8"),
                BOXES,
                labels=["one", "two", "three"],
                font=font,
                **options,
            )
        )


@pytest.mark.oracle
@pytest.mark.parametrize("image", [numbers(2, 8, 8), numbers(1, 3, 8, 8), numbers(3, 8, 8).astype(np.int32), numbers(8, 8), 3])
def test_images_that_cannot_be_drawn_on(theirs, image):
    points, masks = np.zeros((1, 1, 2), np.float32), np.zeros((8, 8), bool)
    for name, argument in (("draw_bounding_boxes", BOXES), ("draw_segmentation_masks", masks), ("draw_keypoints", points)):
        found, expected = both(theirs, name, image, argument)
        assert isinstance(found[0], str) and found == expected


def masks(count: int, height: int = 20, width: int = 24) -> Any:
    return np.random.default_rng(count).random((count, height, width)) < 0.4


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("drawn", "options"),
    [
        (masks(3), {}),
        (masks(1)[0], {"alpha": 0.3, "colors": "blue"}),
        (masks(2), {"alpha": 1.0, "colors": ["#123456", (255, 0, 7)]}),
        (masks(2), {"alpha": 0.5, "colors": (255, 128, 7)}),
        (masks(0), {}),
        (masks(2), {"colors": ["red"]}),
        (masks(2, 5, 5), {}),
        (masks(2).astype(np.uint8), {}),
        (masks(2)[None], {}),
    ],
)
def test_masks(theirs, drawn, options):
    for dtype in TYPES:
        assert_equal(*both(theirs, "draw_segmentation_masks", numbers(3, 20, 24, dtype=dtype), drawn, **options))


POINTS = np.array([[[3, 4], [20, 9], [12.7, 30.2]], [[25, 25], [8, 33], [36, 2]]], np.float32)
SEEN = np.array([[True, True, False], [True, True, True]])


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("points", "options"),
    [
        (POINTS, {}),
        (POINTS, {"colors": "red", "radius": 4, "connectivity": [(0, 1), (1, 2)]}),
        (POINTS, {"colors": (1, 200, 90), "connectivity": [(0, 2), (0, 1)], "width": 1, "visibility": SEEN}),
        (POINTS, {"visibility": SEEN[..., None].astype(np.float32)}),
        (POINTS[0], {}),
        (POINTS, {"visibility": SEEN[0]}),
        (POINTS, {"visibility": SEEN[:, :2]}),
    ],
)
def test_key_points(theirs, points, options):
    for dtype in TYPES:
        assert_equal(*both(theirs, "draw_keypoints", numbers(3, 40, 40, dtype=dtype), points, **options))


@pytest.mark.oracle
@pytest.mark.parametrize(
    "flow", [numbers(2, 2, 20, 30) - 0.5, numbers(2, 9, 9) * 7, numbers(1, 3, 4, 4), numbers(2, 9, 9, dtype="float64")]
)
def test_flows(theirs, flow):
    assert_equal(*both(theirs, "flow_to_image", flow))


@pytest.mark.oracle
def test_the_names_and_signatures_are_torchvisions(theirs):
    import inspect

    assert set(utils.__all__) == {name for name in theirs.__all__ if not name.startswith("_")}
    for name in utils.__all__:
        ours = inspect.signature(getattr(utils, name)).parameters
        expected = inspect.signature(getattr(theirs, name)).parameters
        assert [(key, value.default) for key, value in ours.items() if key != "range"] == [(k, v.default) for k, v in expected.items()]
