"""``python -m tests.programs.vision_models [NAME ...]``: models for images against real torchvision's, one after the other.

Compared are the keys, shapes and dtypes of the state and the number of parameters; the initial weights after the same seed, to the
bit; the results with the oracle's weights, in evaluation and in training (which draws for dropout and stochastic depth). A model of
600 million parameters is there twice: 5 GB. The largest are not compared in training, for which they are in double precision.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
from oracle import pytorch
from oracle_vision import torchvision

import flambeau
from flambeau.vision import models

IMAGE_SIZES = {"inception_v3": 299, "vit_h_14": 224, "maxvit_t": 224, "alexnet": 64}
RELATIVE = 1e-4
LARGE = 300_000_000  # parameters


def image_size(name: str) -> int:
    """Height and width of images for a model: small ones, where it takes any."""
    return IMAGE_SIZES.get(name, 224 if name.startswith("vit") else 64)


def options(name: str) -> dict[str, Any]:
    return {"init_weights": True} if name in ("googlenet", "inception_v3") else {}


def classification_models() -> list[str]:
    return models.list_models(module=models)


@contextmanager
def stages_on_cpu() -> Iterator[None]:
    """The oracle's RegNets compute their widths with tensors, for which they need a device with values."""
    regnet = torchvision().models.regnet
    original = regnet.BlockParams.from_init_params

    def from_init_params(**arguments: Any) -> Any:
        torch = pytorch()

        with torch.device("cpu"):
            return original(**arguments)

    with mock.patch.object(regnet.BlockParams, "from_init_params", from_init_params):
        yield


def shapes(library: Any, package: Any, name: str) -> dict[str, tuple[Any, ...]]:
    """The state of a model that has no values: shape and dtype by key, and the parameters that are trained."""
    with library.device("meta"):
        model = package.get_model(name, **options(name))
    state = {key: (tuple(value.shape), str(value.dtype).rpartition(".")[2]) for key, value in model.state_dict().items()}
    return {
        **state,
        "parameters": tuple(key for key, _ in model.named_parameters()),
        "parts": tuple(key for key, _ in model.named_modules()),
    }


def built(library: Any, package: Any, name: str) -> Any:
    library.manual_seed(2026)
    return package.get_model(name, **options(name))


def unequal_weights(ours: Any, theirs: Any) -> list[str]:
    """Keys of the states whose values differ."""
    own = ours.state_dict()
    return [key for key, value in theirs.state_dict().items() if not np.array_equal(own[key].numpy(), value.numpy())]


def stir(model: Any) -> None:
    """Give the oracle's model weights with which every part counts: zeros and ones are replaced by numbers around them."""
    torch = pytorch()

    torch.manual_seed(3)
    with torch.no_grad():
        for key, value in model.state_dict().items():
            if not value.is_floating_point() or key.endswith(("relative_coords_table", "logit_scale")):
                continue
            if key.endswith("running_var"):
                value.uniform_(0.5, 1.5)
            elif key.endswith("layer_scale"):
                value.uniform_(0.1, 0.3)
            elif value.dim() == 1 or not value.any():
                value.add_(torch.randn_like(value) * 0.05)


def state_of(model: Any) -> OrderedDict[str, Any]:
    """The state of the oracle's model in flambeau's tensors, with the versions of its modules."""
    state = model.state_dict()
    converted = OrderedDict((key, flambeau.from_numpy(value.numpy())) for key, value in state.items())
    converted._metadata = state._metadata  # type: ignore[attr-defined]  # as state_dict has it
    return converted


def relative_difference(ours: Any, theirs: Any) -> float:
    """The largest difference of results, over the largest result; results in tuples one by one."""
    if isinstance(theirs, tuple):
        return max(relative_difference(*pair) for pair in zip(ours, theirs, strict=True))
    values, expected = ours.detach().numpy(), theirs.detach().numpy()
    assert values.shape == expected.shape
    return float(np.abs(values - expected).max() / np.abs(expected).max())


def differences(ours: Any, theirs: Any, name: str, training: bool) -> float:
    """How far the results are from the oracle's, which has the same weights.

    In training in double precision: the statistics of a batch of two amplify what single precision rounds.
    """
    torch = pytorch()

    size = image_size(name)
    dtype = np.float64 if training else np.float32
    images = np.random.default_rng(1).standard_normal((2 if training else 1, 3, size, size), dtype=dtype)
    results = []
    for library, model in ((flambeau, ours), (torch, theirs)):
        model.train(training)
        if training:
            model.double()
        library.manual_seed(7)
        with library.no_grad():
            results.append(model(library.from_numpy(images)))
    return relative_difference(*results)


def compare(name: str, parts: set[str]) -> tuple[str, bool]:
    """A line about a model, and whether all is well."""
    torch = pytorch()

    oracle = torchvision().models
    words, good = [], True
    if "keys" in parts:
        with stages_on_cpu():
            same = shapes(flambeau, models, name) == shapes(torch, oracle, name)
        words.append(f"keys and shapes {'equal' if same else 'DIFFER'}")
        good &= same
    if parts - {"keys"}:
        begin = time.perf_counter()
        ours = built(flambeau, models, name)
        seconds = time.perf_counter() - begin
        theirs = built(torch, oracle, name)
        words.append(f"built in {seconds:.2f} s and {time.perf_counter() - begin - seconds:.2f} s")
    if "initial" in parts:
        unequal = unequal_weights(ours, theirs)
        words.append(f"{len(unequal)} initial weights DIFFER: {unequal[:3]}" if unequal else "initial weights equal")
        good &= not unequal
    if "results" in parts:
        stir(theirs)
        ours.load_state_dict(state_of(theirs))
        small = sum(parameter.numel() for parameter in ours.parameters()) < LARGE
        for training in (False, True)[: 1 + small]:
            difference = differences(ours, theirs, name, training)
            words.append(f"{'training' if training else 'evaluation'} {difference:.1e}{'' if difference < RELATIVE else ' TOO FAR'}")
            good &= difference < RELATIVE
    return f"{name}: {'; '.join(words)}", good


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.programs.vision_models", description=str(__doc__).splitlines()[0])
    parser.add_argument("names", nargs="*", help="models; all for classification unless told")
    parser.add_argument("--parts", nargs="+", choices=("keys", "initial", "results"), default=["keys", "initial", "results"])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    failed = []
    for name in arguments.names or classification_models():
        line, good = compare(name, set(arguments.parts))
        print(line, flush=True)
        if not good:
            failed.append(name)
        gc.collect()
    print(f"{len(failed)} differ: {' '.join(failed)}" if failed else "all equal")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
