"""Mistakes get an error of PyTorch's type that names the operation, what was expected and what came.

Each case is a call, the exception's type, and a pattern that its message must match.  Where real PyTorch is installed, the same call
must fail there with the same type.  Broken and malicious checkpoints are in ``test_serialization_safety``.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import flambeau

Case = tuple[Callable[[Any], Any], type[Exception], str]


def saved_then_changed(torch: Any) -> Any:
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    y.add_(1)
    y.sum().backward()


def changed_through_a_view(torch: Any) -> Any:
    w = torch.ones(4, requires_grad=True)
    x = torch.ones(4)
    y = x * w
    x[1:3].zero_()
    y.sum().backward()


def changed_through_detach(torch: Any) -> Any:
    x = torch.ones(3, requires_grad=True)
    y = x.sigmoid()
    y.detach().zero_()
    y.sum().backward()


def backward_twice(torch: Any) -> Any:
    x = torch.ones(3, requires_grad=True)
    y = (x * x).sum()
    y.backward()
    y.backward()


def in_place_on_a_view_of_a_leaf(torch: Any) -> Any:
    x = torch.ones(3, requires_grad=True)
    x[0] = 2


def in_place_on_an_unbound_view(torch: Any) -> Any:
    first, _ = (torch.ones(2, 2, requires_grad=True) * 1).unbind()
    first.add_(1)


def saved_tensor_read_after_backward(torch: Any) -> Any:
    y = torch.ones(2, requires_grad=True).exp()
    node = y.grad_fn
    y.sum().backward()
    return node._saved_result


def function_with_a_wrong_number_of_gradients(torch: Any) -> Any:
    class Pair(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            return a + b

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    Pair.apply(a, b).sum().backward()


def state_of_another_shape(torch: Any) -> Any:
    torch.nn.Linear(2, 3).load_state_dict(torch.nn.Linear(3, 2).state_dict())


def unused_input(torch: Any) -> Any:
    x, y = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    torch.autograd.grad(x * 2, y)


SHAPES: dict[str, Case] = {
    "sum of different lengths": (lambda t: t.ones(3) + t.ones(4), RuntimeError, r"size of tensor a \(3\) must match.*b \(4\).*dimension 0"),
    "product in an inner dimension": (lambda t: t.ones(2, 3, 4) * t.ones(2, 4), RuntimeError, r"\(3\) must match.*\(2\).*dimension 1"),
    "in place into a smaller tensor": (
        lambda t: t.ones(3).add_(t.ones(2, 3)),
        RuntimeError,
        r"output with shape \[3\] doesn't match the broadcast shape \[2, 3\]",
    ),
    "matrix product": (lambda t: t.ones(2, 3) @ t.ones(4, 5), RuntimeError, r"2x3 and 4x5"),
    "matrix and vector": (lambda t: t.mv(t.ones(2, 3), t.ones(2)), RuntimeError, "size mismatch"),
    "batches of matrices": (lambda t: t.bmm(t.ones(2, 3, 4), t.ones(3, 4, 5)), RuntimeError, r"\[2, 4\].*\[3, 4, 5\]|Expected size"),
    "mm of a vector": (lambda t: t.mm(t.ones(3), t.ones(3, 2)), RuntimeError, "must be a matrix|2D"),
    "dot of matrices": (lambda t: t.dot(t.ones(2, 2), t.ones(2, 2)), RuntimeError, "1D tensors expected"),
    "view of another size": (lambda t: t.ones(6).view(4, 2), RuntimeError, r"shape '\[4, 2\]' is invalid for input of size 6"),
    "view across strides": (lambda t: t.ones(2, 3).t().view(6), RuntimeError, "view size is not compatible"),
    "reshape with two unknowns": (lambda t: t.ones(6).reshape(-1, -1), RuntimeError, "only one dimension can be inferred"),
    "expand of a dimension that is not 1": (lambda t: t.ones(3).expand(4), RuntimeError, r"expanded size of the tensor \(4\).*\(3\)"),
    "cat of different widths": (
        lambda t: t.cat([t.ones(2, 3), t.ones(2, 4)]),
        RuntimeError,
        r"Sizes of tensors must match except in dimension 0",
    ),
    "stack of different shapes": (lambda t: t.stack([t.ones(2), t.ones(3)]), RuntimeError, "equal size"),
    "cat of nothing": (lambda t: t.cat([]), (RuntimeError, ValueError), "non-empty list"),
    "split that does not add up": (lambda t: t.ones(5).split([2, 2]), RuntimeError, r"exactly to 5|sum exactly"),
    "permutation of too few": (lambda t: t.ones(2, 3).permute(0), RuntimeError, "number of dimensions|permute"),
    "squeezed to a number": (lambda t: t.ones(2).item(), RuntimeError, "cannot be converted to Scalar"),
    "truth of several elements": (lambda t: bool(t.ones(2)), RuntimeError, "ambiguous"),
    "negative size": (lambda t: t.zeros(-1), RuntimeError, "negative"),
    "mask of another shape": (lambda t: t.ones(3)[t.tensor([True, False])], IndexError, r"shape of the mask \[2\].*\[3\]"),
    "assignment of another shape": (lambda t: t.ones(3).__setitem__(slice(0, 2), t.ones(3)), RuntimeError, r"\(2\).*\(3\)|shape mismatch"),
    "convolution over other channels": (
        lambda t: t.nn.functional.conv2d(t.ones(1, 3, 8, 8), t.ones(4, 2, 3, 3)),
        RuntimeError,
        r"expected.*3, 8, 8.*to have 2 channels, but got 3|3 input channels",
    ),
    "kernel larger than its input": (
        lambda t: t.nn.functional.conv2d(t.ones(1, 1, 2, 2), t.ones(1, 1, 3, 3)),
        RuntimeError,
        r"[Kk]ernel size.*can't be greater than actual input size",
    ),
    "linear layer of another width": (lambda t: t.nn.Linear(3, 2)(t.ones(1, 4)), RuntimeError, r"1x4 and 3x2"),
    "state of another shape": (state_of_another_shape, RuntimeError, r"size mismatch for weight.*\[2, 3\].*\[3, 2\]"),
    "array with negative strides": (lambda t: t.from_numpy(np.arange(3)[::-1]), ValueError, "negative"),
    "ragged list": (lambda t: t.tensor([[1, 2], [3]]), ValueError, r"expected sequence of length 2 at dim 1 \(got 1\)"),
}

DTYPES: dict[str, Case] = {
    "matrix product of two dtypes": (lambda t: t.ones(2, 2) @ t.ones(2, 2, dtype=t.float64), RuntimeError, "same dtype"),
    "float into an integer tensor": (
        lambda t: t.ones(2, dtype=t.int64).add_(0.5),
        RuntimeError,
        "result type Float can't be cast to.*Long",
    ),
    "out= of a narrower kind": (lambda t: t.add(t.ones(2), 1, out=t.ones(2, dtype=t.int32)), RuntimeError, "Float can't be cast.*Int"),
    "mean of integers": (lambda t: t.arange(3).mean(), RuntimeError, "floating point or complex"),
    "minus of bools": (lambda t: t.tensor([True]) - t.tensor([True]), RuntimeError, "logical_xor|not supported"),
    "negated bool": (lambda t: -t.tensor([True]), RuntimeError, "logical_not|not supported"),
    "bits of floats": (lambda t: t.ones(2) & t.ones(2), RuntimeError, "bitwise_and|not implemented"),
    "gradient of integers": (lambda t: t.ones(2, dtype=t.int64, requires_grad=True), RuntimeError, "[Oo]nly Tensors of floating point"),
    "gradient asked for later": (lambda t: t.arange(2).requires_grad_(), RuntimeError, "only Tensors of floating point"),
    "float as an index": (lambda t: t.ones(3)[t.ones(1)], IndexError, "tensors used as indices must be"),
    "float indices of index_select": (
        lambda t: t.ones(3).index_select(0, t.ones(1)),
        RuntimeError,
        "int32.*int64|Expected dtype int|IntTensor",
    ),
    "float indices of gather": (lambda t: t.ones(3).gather(0, t.ones(1)), RuntimeError, "int64"),
    "float mask": (lambda t: t.ones(3).masked_fill(t.ones(3), 0), RuntimeError, "bool"),
    "integer power of a negative exponent": (lambda t: t.arange(3) ** -1, RuntimeError, "negative integer powers"),
    "list of text": (lambda t: t.tensor(["a"]), (TypeError, ValueError), "str"),
    "comparison of complex numbers": (
        lambda t: t.ones(2, dtype=t.complex64) < 1,
        RuntimeError,
        "not implemented for 'ComplexFloat'|complex",
    ),
    "complex to NumPy's objects": (lambda t: t.from_numpy(np.array([object()])), TypeError, "object"),
    "other dtype than the weights'": (lambda t: t.nn.Linear(2, 2)(t.ones(1, 2, dtype=t.float64)), RuntimeError, "same dtype"),
    "class labels as floats": (
        lambda t: t.nn.functional.nll_loss(t.zeros(2, 3), t.zeros(2)),
        RuntimeError,
        "Long.*Float",
    ),
}

INDICES: dict[str, Case] = {
    "element past the end": (lambda t: t.ones(3)[3], IndexError, "index 3 is out of bounds for dimension 0 with size 3"),
    "element before the start": (lambda t: t.ones(2, 3)[0, -4], IndexError, "index -4 is out of bounds for dimension 1 with size 3"),
    "tensor of indices past the end": (
        lambda t: t.ones(3)[t.tensor([0, 5])],
        IndexError,
        "index 5 is out of bounds for dimension 0 with size 3",
    ),
    "too many indices": (lambda t: t.ones(3)[0, 0], IndexError, "too many indices for tensor of dimension 1"),
    "index of a number": (lambda t: t.tensor(1)[0], IndexError, "dimension 0|0-dim tensor"),
    "dimension out of range": (
        lambda t: t.ones(2, 3).sum(2),
        IndexError,
        r"Dimension out of range \(expected to be in range of \[-2, 1\], but got 2\)",
    ),
    "dimension twice": (lambda t: t.ones(2, 3).sum((0, 0)), RuntimeError, "dim 0 appears multiple times"),
    "size of a missing dimension": (lambda t: t.ones(2).size(1), IndexError, "Dimension out of range"),
    "gather past the end": (
        lambda t: t.ones(3).gather(0, t.tensor([3])),
        RuntimeError,
        "index 3 is out of bounds for dimension 0 with size 3",
    ),
    "scatter past the end": (lambda t: t.zeros(3).scatter_(0, t.tensor([3]), 1.0), RuntimeError, "index 3 is out of bounds"),
    "index_select past the end": (
        lambda t: t.ones(3).index_select(0, t.tensor([3])),
        (IndexError, RuntimeError),
        "index out of range|out of bounds",
    ),
    "embedding past the end": (lambda t: t.nn.functional.embedding(t.tensor([4]), t.ones(4, 2)), IndexError, "index out of range"),
    "factors of rows of another dtype": (
        lambda t: t.nn.functional.embedding_bag(t.tensor([[1]]), t.ones(4, 2).double(), mode="sum", per_sample_weights=t.ones(1, 1)),
        RuntimeError,
        "to have the same type",
    ),
    "class past the last": (lambda t: t.nn.functional.nll_loss(t.zeros(1, 3), t.tensor([3])), IndexError, "Target 3 is out of bounds"),
    "narrow past the end": (lambda t: t.ones(3).narrow(0, 1, 3), RuntimeError, r"start \(1\) \+ length \(3\) exceeds dimension size \(3\)"),
    "topk of more than there is": (lambda t: t.ones(3).topk(4), RuntimeError, "k not in range|out of range"),
    "step of 0": (lambda t: t.ones(3)[::0], ValueError, "step must be"),
    "negative step": (lambda t: t.ones(3)[::-1], ValueError, "step must be greater than zero"),
    "unbind of a number": (lambda t: t.tensor(1).unbind(), IndexError, "[Dd]imension specified as 0 but tensor has no dimensions"),
}

TAPE: dict[str, Case] = {
    "backward twice": (backward_twice, RuntimeError, "backward through the graph a second time"),
    "saved tensor read after backward": (saved_tensor_read_after_backward, RuntimeError, "after they have already been freed"),
    "backward without a graph": (lambda t: t.ones(()).backward(), RuntimeError, "does not require grad and does not have a grad_fn"),
    "backward of several elements": (lambda t: t.ones(2, requires_grad=True).exp().backward(), RuntimeError, "only for scalar outputs"),
    "weights of another shape": (
        lambda t: t.ones(2, requires_grad=True).exp().backward(t.ones(3)),
        RuntimeError,
        r"Mismatch in shape: grad_output\[0\] has a shape of torch.Size\(\[3\]\) and output\[0\] has a shape of torch.Size\(\[2\]\)",
    ),
    "in place on a leaf": (lambda t: t.ones(2, requires_grad=True).mul_(2), RuntimeError, "a leaf Variable that requires grad"),
    "in place on a view of a leaf": (in_place_on_a_view_of_a_leaf, RuntimeError, "leaf Variable that requires grad"),
    "in place on one of several views": (in_place_on_an_unbound_view, RuntimeError, "is a view and is being modified inplace"),
    "saved tensor changed": (
        saved_then_changed,
        RuntimeError,
        r"(?s)modified by an inplace operation.*\[3\].*is at version 1; expected",
    ),
    "saved tensor changed through a view": (changed_through_a_view, RuntimeError, "modified by an inplace operation"),
    "saved tensor changed through detach": (changed_through_detach, RuntimeError, "modified by an inplace operation"),
    "grad of a tensor that is not used": (unused_input, RuntimeError, "not have been used in the graph"),
    "out= of a tensor that requires grad": (
        lambda t: t.add(t.ones(2), 1, out=t.ones(2, requires_grad=True)),
        RuntimeError,
        "out=.*don't support automatic differentiation",
    ),
    "numpy of a tensor that requires grad": (lambda t: t.ones(2, requires_grad=True).numpy(), RuntimeError, "detach"),
    "requires_grad of a result": (
        lambda t: setattr(t.ones(2, requires_grad=True).exp(), "requires_grad", False),
        RuntimeError,
        "leaf",
    ),
    "gradient of another shape": (lambda t: setattr(t.ones(2, requires_grad=True), "grad", t.ones(3)), RuntimeError, "shape|size"),
    "function with a wrong number of gradients": (
        function_with_a_wrong_number_of_gradients,
        RuntimeError,
        r"returned an incorrect number of gradients \(expected 2, got 1\)",
    ),
    "write to an inference tensor": (lambda t: write_to_inference_tensor(t), RuntimeError, "[Ii]nference tensor"),
    "write to an expanded tensor": (lambda t: t.ones(1).expand(3).add_(1), RuntimeError, "single memory location"),
}


def write_to_inference_tensor(torch: Any) -> None:
    with torch.inference_mode():
        tensor = torch.ones(2)
    tensor.add_(1)


ARGUMENTS: dict[str, Case] = {
    "text where a tensor is expected": (lambda t: t.add("a", t.ones(1)), TypeError, "must be Tensor, not str"),
    "missing operand": (lambda t: t.add(t.ones(1)), TypeError, "missing.*other"),
    "unknown keyword": (lambda t: t.exp(t.ones(1), colour=1), TypeError, "colour"),
    "too many arguments": (lambda t: t.exp(t.ones(1), 1, 2), TypeError, "takes.*given"),
    "one tensor where a list is expected": (lambda t: t.cat(t.ones(2)), TypeError, "must be tuple of Tensors, not Tensor"),
    "list with a number in it": (lambda t: t.stack([t.ones(2), 1]), TypeError, "element 1"),
    "text plus tensor": (lambda t: t.ones(2) + "a", TypeError, "str"),
    "unknown device": (lambda t: t.device("toaster"), RuntimeError, "toaster"),
    "unknown reduction": (
        lambda t: t.nn.functional.mse_loss(t.ones(2), t.ones(2), reduction="most"),
        ValueError,
        "most is not a valid value",
    ),
    "probability above 1": (lambda t: t.nn.Dropout(1.5), ValueError, "between 0 and 1"),
    "unknown name": (lambda t: t.no_such_function, AttributeError, "no_such_function"),
    "unknown method": (lambda t: t.ones(1).no_such_method(), AttributeError, "no_such_method"),
    "groups that do not divide the channels": (lambda t: t.nn.Conv2d(3, 4, 1, groups=2), ValueError, "divisible by groups"),
    "truth of no elements": (lambda t: bool(t.ones(0)), RuntimeError, "no values is ambiguous"),
    "max of nothing": (lambda t: t.ones(0).max(), RuntimeError, "numel\\(\\) == 0|empty"),
    "iteration over a number": (lambda t: list(t.tensor(1)), TypeError, "0-d tensor"),
    "length of a number": (lambda t: len(t.tensor(1)), TypeError, "0-d tensor"),
    "random integers from an empty range": (lambda t: t.randint(3, 3, (1,)), RuntimeError, "from.*less than.*to|expects 'from'"),
    "arange in the wrong direction": (lambda t: t.arange(3, 0, 1), (RuntimeError, ValueError), "inconsistent with step sign"),
}

CASES = {**SHAPES, **DTYPES, **INDICES, **TAPE, **ARGUMENTS}


def failure(call: Callable[[Any], Any], torch: ModuleType) -> Exception | None:
    try:
        call(torch)
    except Exception as error:
        return error
    return None


def test_no_case_hides_another() -> None:
    assert len(CASES) == sum(map(len, (SHAPES, DTYPES, INDICES, TAPE, ARGUMENTS)))


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_gets_a_message_of_the_right_type(name: str) -> None:
    call, kind, pattern = CASES[name]
    with pytest.raises(kind, match=pattern):
        call(flambeau)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_pytorch_raises_the_same_type(name: str, of_pytorch: Callable[..., Any]) -> None:
    call = CASES[name][0]
    theirs, ours = of_pytorch(lambda torch: failure(call, torch)), failure(call, flambeau)
    assert theirs is not None, "PyTorch accepts this"
    expected = RuntimeError if isinstance(theirs, NotImplementedError) else type(theirs)
    assert isinstance(ours, expected), f"{ours!r}, PyTorch raises {theirs!r}"


@pytest.mark.parametrize("name", ["in place on a leaf", "saved tensor changed", "float into an integer tensor"])
def test_a_refused_write_leaves_the_tensor_alone(name: str) -> None:
    tensor = flambeau.ones(2, dtype=flambeau.int64 if "integer" in name else flambeau.float32)
    tensor.requires_grad_("leaf" in name)
    before = tensor.tolist()
    with pytest.raises(RuntimeError):
        if "saved" in name:
            tensor.expand(2, 2).transpose(0, 1).add_(1)
        else:
            tensor.add_(0.5)
    assert tensor.tolist() == before


def test_an_error_while_walking_back_leaves_gradients_untouched() -> None:
    x = flambeau.ones(2, requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError):
        y.sum().backward()
    assert x.grad is None
    x.exp().sum().backward()
    assert x.grad is not None


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("name", ["index_add", "index_copy", "index_reduce"])
def test_sources_of_any_shape_are_taken_or_refused_as_in_pytorch(name: str, of_pytorch: Callable[..., Any]) -> None:
    sources = [(), (1,), (2,), (1, 2), (2, 2), (1, 3)]
    cases = [(shape, index, source) for shape in [(), (1,), (3,), (3, 2)] for index in [(), (1,), (2,)] for source in sources]

    def outcomes(torch: Any) -> list[Any]:
        found = []
        for shape, index, source in cases:
            arguments = torch.zeros(index, dtype=torch.int64), torch.full(source, 5.0), *(("prod",) if name == "index_reduce" else ())
            try:
                found.append(getattr(torch.ones(shape), name)(0, *arguments).tolist())
            except (RuntimeError, IndexError) as error:
                found.append(type(error).__name__)
        return found

    for case, got, want in zip(cases, outcomes(flambeau), of_pytorch(outcomes), strict=True):
        assert got == want, case
