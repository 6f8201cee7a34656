"""Random arguments for measurements: sizes and layouts of tensors, drawn again for the same seed. Source: torch.utils.benchmark."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...core.dtype import dtype as Dtype, float32
from ...ops import manual_seed, rand, randint

__all__ = ["FuzzedParameter", "FuzzedTensor", "Fuzzer", "ParameterAlias"]

ATTEMPTS = 1000  # of drawing parameters that fit everything


class ParameterAlias:
    """A value of a distribution that stands for another parameter's.

    Args:
        alias_to: the parameter's name.
    Source: torch.utils.benchmark.ParameterAlias.
    Example:
        >>> torch.utils.benchmark.ParameterAlias("n").alias_to
        'n'
    """

    def __init__(self, alias_to: str):
        self.alias_to = alias_to

    def __repr__(self) -> str:
        return f"ParameterAlias[alias_to: {self.alias_to}]"


class FuzzedParameter:
    """A parameter that is drawn.

    Args:
        name: of the parameter.
        minval, maxval: the smallest and the largest value, which count, too.
        distribution: ``"loguniform"`` (whole numbers), ``"uniform"`` (of the kind of ``minval``), or probabilities by value.
        strict: whether it is kept when the drawing is repeated because others did not fit.
    Raises:
        AssertionError: bounds without a distribution, or with one by value; probabilities that are not 1 together.
    Source: torch.utils.benchmark.FuzzedParameter.
    Example:
        >>> parameter = torch.utils.benchmark.FuzzedParameter("n", 1, 8, "uniform")
        >>> 1 <= parameter.sample(np.random.RandomState(0)) <= 8
        True
    """

    def __init__(
        self,
        name: str,
        minval: float | None = None,
        maxval: float | None = None,
        distribution: str | dict[Any, float] | None = None,
        strict: bool = False,
    ):
        self._name, self._minval, self._maxval, self.strict = name, minval, maxval, strict
        if isinstance(distribution, dict):
            if minval is not None or maxval is not None:
                raise AssertionError("minval and maxval go with a named distribution only")
            if abs(sum(distribution.values()) - 1) > 1e-6:
                raise AssertionError("Distribution is not normalized")
        elif distribution not in ("loguniform", "uniform"):
            raise AssertionError(f"Unknown distribution: {distribution}")
        elif minval is None or maxval is None:
            raise AssertionError(f"a {distribution} distribution needs minval and maxval")
        self._distribution = distribution

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    def sample(self, state: np.random.RandomState) -> Any:
        """Draw a value. Source: torch.utils.benchmark.FuzzedParameter.sample."""
        if isinstance(self._distribution, dict):
            chances = self._distribution
            return list(chances)[state.choice(np.arange(len(chances)), p=tuple(chances.values()))]
        low, high = self._minval, self._maxval
        assert low is not None and high is not None
        if self._distribution == "loguniform":
            return min(max(int(2 ** state.uniform(low=np.log2(low), high=np.log2(high))), low), high)
        return int(state.randint(low, int(high) + 1)) if isinstance(low, int) else state.uniform(low=low, high=high)


class FuzzedTensor:
    """A tensor whose sizes and layout in memory are drawn.

    Args:
        name: of the tensor.
        size: numbers, or names of parameters.
        steps: distances of its elements in memory along each dimension, as ``size``; 1 where None.
        probability_contiguous: how likely its dimensions are in order.
        min_elements, max_elements, max_allocation_bytes: what does not fit is drawn again.
        dim_parameter: the parameter that says how many dimensions it has; as many as ``size`` when None.
        roll_parameter: has no meaning, as in PyTorch.
        dtype: of the elements. cuda: whether it lies on the GPU.
        tensor_constructor: called with ``size``, ``dtype`` and the parameters; random numbers when None.
    Source: torch.utils.benchmark.FuzzedTensor.
    Example:
        >>> tensor = torch.utils.benchmark.FuzzedTensor("x", size=("n", 3))
        >>> tensor.name, tensor.satisfies_constraints({"n": 2})
        ('x', True)
    """

    def __init__(
        self,
        name: str,
        size: Sequence[str | int],
        steps: Sequence[str | int] | None = None,
        probability_contiguous: float = 0.5,
        min_elements: int | None = None,
        max_elements: int | None = None,
        max_allocation_bytes: int | None = None,
        dim_parameter: str | None = None,
        roll_parameter: str | None = None,
        dtype: Dtype = float32,
        cuda: bool = False,
        tensor_constructor: Callable[..., Any] | None = None,
    ):
        self._name, self._size, self._steps = name, size, steps
        self._probability_contiguous, self._dim_parameter, self._dtype, self._cuda = probability_contiguous, dim_parameter, dtype, cuda
        self._bounds = (min_elements, max_elements, max_allocation_bytes)
        self._tensor_constructor = tensor_constructor

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    @staticmethod
    def default_tensor_constructor(size: Sequence[int], dtype: Dtype, **kwargs: Any) -> Any:
        """Random numbers: 0 to 1, of whole numbers 1 to 126. Source: torch.utils.benchmark.FuzzedTensor.default_tensor_constructor."""
        return rand(size, dtype=dtype) if dtype.is_floating_point or dtype.is_complex else randint(1, 127, size, dtype=dtype)

    def _make_tensor(self, params: dict[str, Any], state: np.random.RandomState) -> tuple[Any, dict[str, Any]]:
        size, steps, allocated = self._get_size_and_steps(params)
        whole = (self._tensor_constructor or self.default_tensor_constructor)(size=allocated, dtype=self._dtype, **params)
        if self._cuda:
            whole = whole.cuda()
        order = np.arange(len(size))
        if state.uniform() > self._probability_contiguous and len(size) > 1:  # drawn in any case
            while (order == np.arange(len(size))).all():
                order = state.permutation(len(size))
            whole = whole.permute(tuple(order.tolist())).contiguous().permute(tuple(np.argsort(order).tolist()))
        tensor = whole[tuple([slice(0, length * step, step) for length, step in zip(size, steps, strict=True)])]
        facts = {"numel": int(tensor.numel()), "order": order, "steps": steps, "is_contiguous": tensor.is_contiguous()}
        return tensor, {**facts, "dtype": str(self._dtype)}

    def _get_size_and_steps(self, params: dict[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        count = len(self._size) if self._dim_parameter is None else params[self._dim_parameter]

        def found(values: Sequence[Any]) -> tuple[int, ...]:
            known = tuple([params.get(value, value) if isinstance(value, str) else value for value in values])
            return (known + (1,) * count)[:count]

        size, steps = found(self._size), found(self._steps or ())
        return size, steps, tuple([length * step for length, step in zip(size, steps, strict=True)])

    def satisfies_constraints(self, params: dict[str, Any]) -> bool:
        """Whether the tensor fits its bounds. Source: torch.utils.benchmark.FuzzedTensor.satisfies_constraints."""
        size, _, allocated = self._get_size_and_steps(params)
        least, most, memory = self._bounds
        elements, space = math.prod(size), math.prod(allocated) * self._dtype.itemsize
        return (least is None or elements >= least) and (most is None or elements <= most) and (memory is None or space <= memory)


class Fuzzer:
    """Draws tensors for measurements, the same ones for the same seed.

    Args:
        parameters: parameters, or lists of them. tensors: likewise.
        constraints: functions of the dictionary of parameters; what does not fulfil all of them is drawn again.
        seed: of the drawing; another each time when None.
    Raises:
        ValueError: two of a name.
    Source: torch.utils.benchmark.Fuzzer.
    Example:
        >>> from flambeau.utils.benchmark import FuzzedParameter, FuzzedTensor, Fuzzer
        >>> fuzzer = Fuzzer([FuzzedParameter("n", 2, 8, "uniform")], [FuzzedTensor("x", size=("n", "n"))], seed=0)
        >>> [parameters["n"] == tensors["x"].shape[0] for tensors, properties, parameters in fuzzer.take(2)]
        [True, True]
    """

    def __init__(
        self,
        parameters: Sequence[FuzzedParameter | Sequence[FuzzedParameter]],
        tensors: Sequence[FuzzedTensor | Sequence[FuzzedTensor]],
        constraints: Sequence[Callable[[dict[str, Any]], bool]] | None = None,
        seed: int | None = None,
    ):
        self._seed = int(np.random.RandomState().randint(0, 2**32 - 1, dtype=np.int64)) if seed is None else seed
        self._parameters: list[FuzzedParameter] = _flat(parameters)
        self._tensors: list[FuzzedTensor] = _flat(tensors)
        self._constraints = tuple(constraints or ())
        names = [each.name for each in self._parameters] + [each.name for each in self._tensors]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"parameters and tensors have the same names: {repeated}")
        self._rejected = self._drawn = 0

    @property
    def rejection_rate(self) -> float:
        """Part of all drawings that did not fit."""
        return self._rejected / self._drawn if self._drawn else 0.0

    def take(self, n: int) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
        """Draw ``n`` times: tensors, facts about them, and parameters. Source: torch.utils.benchmark.Fuzzer.take."""
        state = np.random.RandomState(self._seed)
        manual_seed(int(state.randint(low=0, high=2**63, size=(), dtype=np.int64)))  # of the tensors' elements
        for _ in range(n):
            params = self._generate(state)
            made = {each.name: each._make_tensor(params, state) for each in self._tensors}
            yield {name: pair[0] for name, pair in made.items()}, {name: pair[1] for name, pair in made.items()}, params

    def _generate(self, state: np.random.RandomState) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for _ in range(ATTEMPTS):
            params = {}
            for each in self._parameters:
                params[each.name] = kept[each.name] if each.name in kept else each.sample(state)
                if each.strict:
                    kept[each.name] = params[each.name]
            params = _resolved(params)
            self._drawn += 1
            if all(rule(params) for rule in self._constraints) and all(each.satisfies_constraints(params) for each in self._tensors):
                return params
            self._rejected += 1
        raise ValueError("Failed to generate a set of valid parameters.")


def _flat(values: Sequence[Any]) -> list[Any]:
    return [each for value in values for each in (value if isinstance(value, (list, tuple)) else (value,))]


def _resolved(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters with the values of those that stand for others."""
    found = dict(params)
    for name, value in found.items():
        seen = {name}
        while isinstance(value, ParameterAlias):
            if value.alias_to in seen:
                raise ValueError(f"ParameterAlias: {name} stands for itself")
            seen.add(value.alias_to)
            value = params[value.alias_to]
        found[name] = value
    return found
