"""``torch._foreach_*`` against PyTorch's, form by form."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau
from flambeau.ops import foreach


def outcome(torch: Any, name: str, *arguments: Any, **options: Any) -> Any:
    """Values and dtypes of the result and of the first operands afterwards, or the error."""

    def tensors(value: Any) -> Any:
        if value == "tensors":
            return [torch.tensor([0.25, -0.5, 0.75], dtype=torch.float64), torch.tensor([[0.5], [0.125]]), torch.tensor([3, 2])]
        if value == "floats":
            return [torch.tensor([0.25, 0.5]), torch.tensor([[0.75], [0.125]], dtype=torch.float64)]
        if value == "three":
            return torch.tensor(3.0)
        if value == "row":
            return torch.tensor([2.0, 3.0])
        if value == "squares":
            return [torch.tensor([[1.0, 2.0], [3.0, 4.0]])]
        return value

    arguments = tuple(map(tensors, arguments))
    options = {key: tensors(value) for key, value in options.items()}
    try:
        result = getattr(torch, name)(*arguments, **options)
    except (RuntimeError, TypeError) as error:
        return type(error).__name__, str(error) if type(error) is RuntimeError else ""

    def told(value: Any) -> Any:
        return [(tensor.tolist(), str(tensor.dtype).rpartition(".")[2]) for tensor in value]

    kept = result is arguments[0]
    return type(result).__name__, kept, told(result), told(arguments[0]) if isinstance(arguments[0], list) else None


def flat(value: Any) -> Any:
    """Numbers rounded to what both libraries agree upon."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    return type(value)(map(flat, value)) if isinstance(value, (list, tuple)) else value


def test_every_name_of_pytorch_is_there(oracle):
    theirs = {name for name in dir(oracle) if name.startswith("_foreach_")}
    assert theirs == foreach.names()
    assert all(callable(getattr(flambeau, name)) for name in theirs)
    assert not hasattr(flambeau, "_foreach_nothing")


@pytest.mark.parametrize(
    "name", sorted({f"_foreach_{base}" for base in foreach._UNARY} | {"_foreach_clone", "_foreach_max", "_foreach_norm"})
)
def test_of_one_list(oracle, name):
    for form in (name, f"{name}_"):
        if hasattr(oracle, form):
            assert flat(outcome(flambeau, form, "floats")) == flat(outcome(oracle, form, "floats"))
            assert outcome(flambeau, form, []) == outcome(oracle, form, [])


BINARY_CASES = [
    (("floats", 2), {}),
    (("floats", [2, 3.0]), {}),
    (("floats", [2]), {}),
    (("floats", "floats"), {}),
    (("floats", "tensors"), {}),
    (("tensors", 2), {}),
    (("floats", []), {}),
]


@pytest.mark.parametrize("name", sorted(foreach._BINARY))
@pytest.mark.parametrize("suffix", ["", "_"])
def test_of_a_list_and_more(of_pytorch, name, suffix):
    name = f"_foreach_{name}{suffix}"
    for arguments, options in BINARY_CASES:
        assert flat(outcome(flambeau, name, *arguments, **options)) == flat(of_pytorch(outcome, name, *arguments, **options)), arguments


@pytest.mark.parametrize(
    ("name", "arguments", "options"),
    [
        ("add", ("floats", "floats"), {"alpha": 2}),
        ("sub_", ("floats", "floats"), {"alpha": 2}),
        ("mul", ("floats", "floats"), {"alpha": 2}),
        ("add", ("floats", "three"), {"alpha": 2}),
        ("mul_", ("floats", "three"), {}),
        ("div", ("floats", "three"), {}),
        ("sub", ("floats", "three"), {}),
        ("add", ("floats", "row"), {}),
        ("add", ("row", 1), {}),
        ("pow", (2, "floats"), {}),
        ("lerp", ("floats", "floats", 0.5), {}),
        ("lerp_", ("floats", "floats", [0.25, 0.5]), {}),
        ("lerp", ("floats", "floats", "floats"), {}),
        ("lerp", ("floats", "floats"), {"weight": 0.5}),
        ("lerp_", ("floats", "floats"), {"weights": "floats"}),
        ("add", ("floats",), {"scalar": 3}),
        ("mul_", ("floats",), {"scalars": [3, 4]}),
        ("div", ("floats",), {"other": "floats"}),
        ("pow", ("floats",), {"exponent": 2}),
        ("addcmul", ("floats", "floats", "floats"), {}),
        ("addcmul_", ("floats", "floats", "floats", 2), {}),
        ("addcdiv", ("floats", "floats", "floats", [2, 3]), {}),
        ("addcdiv_", ("floats", "floats", "floats", "row"), {}),
        ("addcmul", ("floats", "floats", "floats", "three"), {}),
        ("addcmul", ("floats", "floats", "floats"), {"scalars": [2, 3]}),
        ("addcmul", ("floats", "floats", "tensors"), {}),
        ("norm", ("floats", 1), {}),
        ("norm", ("floats", float("inf")), {}),
        ("powsum", ("tensors", 2), {}),
        ("powsum", ("floats", 3), {}),
        ("copy_", ("floats", "floats"), {}),
        ("copy_", ("floats", "tensors"), {}),
        ("zero_", ("floats",), {}),
        ("mm", ("squares", "squares"), {}),
    ],
)
def test_further_forms(of_pytorch, name, arguments, options):
    name = f"_foreach_{name}"
    assert flat(outcome(flambeau, name, *arguments, **options)) == flat(of_pytorch(outcome, name, *arguments, **options))


def test_gradients_flow():
    leaf = flambeau.ones(2, requires_grad=True)
    sum(flambeau._foreach_mul([leaf, leaf], [2.0, 3.0])).sum().backward()
    assert leaf.grad.tolist() == [5.0, 5.0]
    with pytest.raises(RuntimeError, match="a leaf"):
        flambeau._foreach_mul_([leaf], 2)
