"""Tensors that carry a mask, of sparse data: COO and CSR, whole and hybrid, compared with PyTorch."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import flambeau

ROWS = [[1.0, 0.0, 2.0], [0.0, 0.5, 0.0]]
LAYOUTS = ("coo", "csr")


@pytest.fixture(autouse=True)
def without_notice() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the prototype, of PyTorch's CSR tensors, of operations that are refused
        yield


def parts(torch: Any, layout: str, shown: list[bool]) -> tuple[Any, Any]:
    """Data with three places, and a mask with the same ones."""
    data = getattr(torch.tensor(ROWS), f"to_sparse_{layout}")()
    values = torch.tensor(shown)
    if layout == "coo":
        return data, torch.sparse_coo_tensor(data.indices(), values, (2, 3))
    return data, torch.sparse_csr_tensor(data.crow_indices(), data.col_indices(), values, (2, 3))


def made(torch: Any, layout: str, *, hides: bool = False, requires_grad: bool = False) -> Any:
    return torch.masked.masked_tensor(*parts(torch, layout, [True, not hides, True]), requires_grad=requires_grad)


def hybrid(torch: Any) -> Any:
    values = torch.arange(8.0).reshape(4, 2)
    return torch.masked.masked_tensor(values.to_sparse(1), torch.ones(4, 2).bool().to_sparse(1))


def batched(torch: Any) -> Any:
    return torch.masked.masked_tensor(torch.arange(1, 13.0).reshape(2, 2, 3).to_sparse_csr(), torch.ones(2, 2, 3).bool().to_sparse_csr())


def name_of(value: Any) -> str:
    return str(value).replace("flambeau", "torch")


def facts(torch: Any, value: Any) -> Any:
    """What is compared of a result: of a masked tensor what the mask shows, and where it has places."""
    if isinstance(value, (list, tuple)):
        return [facts(torch, item) for item in value]
    if not isinstance(value, torch.Tensor):
        return value if value is None or isinstance(value, (bool, int, float, str)) else name_of(value)
    if not torch.masked.is_masked_tensor(value):
        return [name_of(value.layout), name_of(value.dtype), list(value.shape), value.detach().to_dense().tolist()]
    data, mask = value.get_data().detach(), value.get_mask()
    found = [name_of(value.layout), name_of(value.dtype), list(value.shape), value.requires_grad, mask.to_dense().tolist()]
    return [*found, data.to_dense().masked_fill(~mask.to_dense(), 0).tolist(), repr(value)]


def outcome(torch: Any, program: Callable[[Any, Any], Any], make: Callable[[Any], Any]) -> Any:
    try:
        return facts(torch, program(torch, make(torch)))
    except Exception as error:
        return error


def agrees(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, Exception):
        return isinstance(ours, RuntimeError if isinstance(theirs, NotImplementedError) else type(theirs))
    if isinstance(theirs, (list, tuple)):
        return isinstance(ours, (list, tuple)) and len(ours) == len(theirs) and all(map(agrees, ours, theirs))
    if isinstance(theirs, float):
        return ours == pytest.approx(theirs, rel=1e-5, abs=1e-6, nan_ok=True)
    return ours == theirs and type(ours) is type(theirs)


UNARY = "abs acos angle asin asinh atan ceil cos cosh deg2rad digamma erf erfc exp exp2 expm1 floor frac lgamma log log10 log1p log2 logit"
UNARY += (
    " i0 isnan nan_to_num neg positive rad2deg reciprocal round rsqrt sigmoid sign sgn signbit sin sinc sinh sqrt square tan tanh trunc"
)
BINARY = "add atan2 div floor_divide fmod logaddexp logaddexp2 mul nextafter remainder sub eq ne le ge gt lt maximum minimum fmax fmin"
WHOLE = "sum amin amax prod"
ALONG = "sum mean amin amax argmin argmax prod all var std"
OTHER: dict[str, Callable[[Any, Any], Any]] = {
    "repr": lambda torch, x: repr(x),
    "questions": lambda torch, x: [
        x.layout,
        x.is_sparse,
        x.is_sparse_coo(),
        x.is_sparse_csr(),
        x.shape,
        x.dtype,
        len(x),
        x.numel(),
        x.is_leaf,
    ],
    "the data": lambda torch, x: x.get_data(),
    "the mask": lambda torch, x: x.get_mask(),
    "raw values": lambda torch, x: x._values(),
    "raw indices": lambda torch, x: x._indices(),
    "dense": lambda torch, x: x.to_dense(),
    "dense and back": lambda torch, x: [x.to_dense().to_sparse(), x.to_dense().to_sparse_coo(), x.to_dense().to_sparse_csr()],
    "other layouts": lambda torch, x: x.to_sparse_csc(),
    "numbers": lambda torch, x: [x + 1, 1 + x, x * 2.5, 1 / x, x**2, x.pow(3), x // 2, x > 1, 2 < x, x == 1, x.clamp(0.7)],
    "0-d": lambda torch, x: [x * torch.tensor(2.0), x + torch.ones(1), x * torch.tensor(2.0, dtype=torch.float64)],
    "plain beside masked": lambda torch, x: x * x.get_data() if x.layout == torch.sparse_csr else x * x.get_data().coalesce(),
    "masked beside plain": lambda torch, x: x.get_data() / x,
    "other places": lambda torch, x: x + torch.tensor([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]]).to_sparse(layout=x.layout),
    "more places": lambda torch, x: x + torch.ones(2, 3).to_sparse(layout=x.layout),
    "other layout": lambda torch, x: x + made(torch, "csr" if x.is_sparse_coo() else "coo"),
    "other mask": lambda torch, x: (
        x * torch.masked.masked_tensor(*parts(torch, "coo" if x.is_sparse_coo() else "csr", [False, True, True]))
    ),
    "dense masked": lambda torch, x: x.to_dense() + x,
    "masked beside dense masked": lambda torch, x: x * x.to_dense(),
    "dense masked and plain": lambda torch, x: [x.to_dense() + x.get_data(), x.to_dense().add_(x.get_data())],
    "keyword": lambda torch, x: x.add(x, alpha=2),
    "keyword of one": lambda torch, x: x.round(decimals=1),
    "tensor beside one": lambda torch, x: x.clamp(torch.ones(2, 3)),
    "dtypes": lambda torch, x: [
        x.double(),
        x.half(),
        x.int(),
        x.long(),
        x.bool(),
        x.to(torch.float64),
        x.type(torch.int32),
        x.cpu(),
        x.int() / 2,
    ],
    "copies": lambda torch, x: [x.clone(), x.detach(), x.data],
    "real": lambda torch, x: [x.conj() is x, torch.conj(x) is x, torch.real(x) is x, x.resolve_conj() is x, x.resolve_neg() is x],
    "copied": lambda torch, x: x.copy_(x * 2),
    "row": lambda torch, x: [x[0], x.select(0, 1), x[0, 0], x[0, 1]],
    "same size": lambda torch, x: [x.is_same_size(x), torch.is_same_size(x, x)],
    "softmax": lambda torch, x: x.softmax(0),
    "where": lambda torch, x: torch.where(torch.ones(2, 3).bool(), x, x),
    "contiguous": lambda torch, x: x.contiguous(),
    "is_contiguous": lambda torch, x: x.is_contiguous(),
    "view": lambda torch, x: x.view(-1),
    "reshape": lambda torch, x: x.reshape(-1),
    "expand": lambda torch, x: x.expand(2, 2, 3),
    "product": lambda torch, x: x @ x.t(),
    "mm": lambda torch, x: torch.mm(x, torch.ones(3, 2)),
    "values": lambda torch, x: x.values(),
    "median": lambda torch, x: x.median(),
    "numpy": lambda torch, x: x.numpy(),
    "of one element": lambda torch, x: [torch.is_nonzero(x[0, 0]), x[0, 0].is_nonzero(), bool(x[0, 0]), x[0, 0].item()],
    "of several": lambda torch, x: x.is_nonzero(),
    "item": lambda torch, x: x.item(),
    "zeros_like": lambda torch, x: torch.zeros_like(x),
    "cumsum": lambda torch, x: x.cumsum(0),
}
COO: dict[str, Callable[[Any, Any], Any]] = {
    "dimensions": lambda torch, x: [x.t(), x.transpose(0, 1), x.unsqueeze(0), x.unsqueeze(2)],
    "joined": lambda torch, x: [torch.cat([x, x]), torch.cat([x, x], 1), torch.stack([x, x])],
    "csr": lambda torch, x: x.to_sparse_csr(),
    "place": lambda torch, x: [x.argmax(), x.argmin()],
    "joined with plain": lambda torch, x: torch.cat([x, x.get_data()]),
}
CSR: dict[str, Callable[[Any, Any], Any]] = {
    "in place": lambda torch, x: [x.neg_(), x.mul_(2), x.add_(x), x.sub_(0.5), x.exp_()],
    "ones": lambda torch, x: torch.ones_like(x),
}


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    **{f"unary {name}": lambda torch, x, name=name: getattr(torch, name)(x) for name in UNARY.split()},
    **{f"binary {name}": lambda torch, x, name=name: getattr(torch, name)(x, x) for name in BINARY.split()},
    **{f"whole {name}": lambda torch, x, name=name: getattr(x, name)() for name in WHOLE.split()},
    **{f"along {name}": lambda torch, x, name=name: getattr(torch, name)(x, 0) for name in ALONG.split()},
    **OTHER,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("hides", [False, True])
def test_operations_are_pytorchs(layout: str, hides: bool, of_pytorch: Callable[..., Any]) -> None:
    programs = PROGRAMS | (COO if layout == "coo" else CSR)
    if not hides:  # PyTorch's count hidden elements
        programs |= {f"whole {name}": lambda torch, x, name=name: getattr(torch, name)(x) for name in ("mean", "var", "std")}
    check(programs, lambda torch: made(torch, layout, hides=hides), of_pytorch)


@pytest.mark.parametrize("kind", ["hybrid", "batched"])
def test_hybrid_and_batched_ones(kind: str, of_pytorch: Callable[..., Any]) -> None:
    names = (
        "repr",
        "questions",
        "numbers",
        "copies",
        "unary sin",
        "unary isnan",
        "binary mul",
        "whole sum",
        "whole amax",
        "along sum",
        "dense",
    )
    check({name: PROGRAMS[name] for name in names}, hybrid if kind == "hybrid" else batched, of_pytorch)


def check(programs: dict[str, Callable[[Any, Any], Any]], make: Callable[[Any], Any], of_pytorch: Callable[..., Any]) -> None:
    problems = []
    for name, program in programs.items():
        theirs = of_pytorch(outcome, program, make)
        ours = outcome(flambeau, program, make)
        if not agrees(ours, theirs):
            problems.append(f"{name}: {ours!r}, PyTorch {theirs!r}")
    assert not problems, "\n".join(problems)


CONSTRUCTIONS: dict[str, Callable[[Any], Any]] = {
    "other indices": lambda torch: (coo(torch, [1.0, 2.0]), coo(torch, [True, True], [[0, 1], [1, 1]])),
    "fewer places in the mask": lambda torch: (coo(torch, [1.0, 2.0]), coo(torch, [True], [[0], [2]])),
    "more places in the mask": lambda torch: (coo(torch, [1.0, 2.0]), coo(torch, [True] * 3, [[0, 0, 1], [0, 2, 1]])),
    "not coalesced": lambda torch: (coo(torch, [1.0, 2.0], [[0, 0], [1, 1]]), coo(torch, [True, False], [[0, 0], [1, 1]])),
    "mask of integers": lambda torch: (coo(torch, [1.0, 2.0]), coo(torch, [1, 1])),
    "bfloat16": lambda torch: (coo(torch, [1.0, 2.0]).bfloat16(), coo(torch, [True, True])),
    "complex": lambda torch: (coo(torch, [1.0, 2.0j]), coo(torch, [True, True])),
    "integers": lambda torch: (coo(torch, [1, 2]), coo(torch, [True, False])),
    "other size": lambda torch: (
        coo(torch, [1.0, 2.0]),
        torch.sparse_coo_tensor(torch.tensor([[0, 1], [2, 0]]), torch.tensor([True] * 2), (3, 3)),
    ),
    "dense mask": lambda torch: (coo(torch, [1.0, 2.0]), torch.ones(2, 3).bool()),
    "dense data": lambda torch: (torch.ones(2, 3), coo(torch, [True, True])),
    "two layouts": lambda torch: (coo(torch, [1.0, 2.0]).to_sparse_csr(), coo(torch, [True, True])),
    "csc": lambda torch: (coo(torch, [1.0, 2.0]).to_sparse_csc(), coo(torch, [True, True]).to_sparse_csc()),
    "bsr": lambda torch: (torch.ones(2, 4).to_sparse_bsr((1, 2)), torch.ones(2, 4).bool().to_sparse_bsr((1, 2))),
    "other columns": lambda torch: (coo(torch, [1.0, 2.0]).to_sparse_csr(), coo(torch, [True, True], [[0, 1], [1, 0]]).to_sparse_csr()),
    "other rows": lambda torch: (coo(torch, [1.0, 2.0]).to_sparse_csr(), coo(torch, [True, True], [[0, 0], [2, 0]]).to_sparse_csr()),
    "more rows": lambda torch: (coo(torch, [1.0, 2.0]).to_sparse_csr(), coo(torch, [True] * 3, [[0, 0, 1], [1, 2, 0]]).to_sparse_csr()),
    "no mask": lambda torch: (coo(torch, [1.0, 2.0]), None),
    "nothing": lambda torch: (torch.zeros(2, 3).to_sparse(), torch.zeros(2, 3).bool().to_sparse()),
}


def coo(torch: Any, values: list[Any], indices: Any = ((0, 1), (2, 0))) -> Any:
    return torch.sparse_coo_tensor(torch.tensor(indices), torch.tensor(values), (2, 3))


@pytest.mark.parametrize("function", ["masked_tensor", "as_masked_tensor"])
def test_constructions_are_pytorchs(function: str, of_pytorch: Callable[..., Any]) -> None:
    for name, operands in CONSTRUCTIONS.items():

        def program(torch: Any, x: Any, operands: Any = operands) -> Any:
            made = getattr(torch.masked, function)(*operands(torch))
            return [made, made.sum(), made.get_data(), made.get_mask()]

        ours, theirs = outcome(flambeau, program, lambda torch: None), of_pytorch(outcome, program, lambda torch: None)
        assert agrees(ours, theirs), f"{name}: {ours!r}, PyTorch {theirs!r}"
        if isinstance(theirs, (TypeError, ValueError)) and name != "no mask":
            assert str(ours) == str(theirs), name


GRADIENTS: dict[str, Callable[[Any, Any], Any]] = {
    "dense": lambda torch, x: x.to_dense(),
    "dense and on": lambda torch, x: x.to_dense().sin() * 3,
    "sparse and dense": lambda torch, x: x.exp().to_dense(),
    "several": lambda torch, x: ((x.sin() * x + 1) / 2).to_dense().exp(),
    "shared": lambda torch, x: (x * x - x).to_dense(),
    "double": lambda torch, x: x.double().to_dense(),
    "the data": lambda torch, x: x.get_data().to_dense(),
    "reduced": lambda torch, x: x.sum(),
    "squares": lambda torch, x: (x**2 + x.sqrt()).to_dense().sum(0),
}


@pytest.mark.parametrize("kind", [*LAYOUTS, "as_coo", "as_csr"])
def test_gradients_are_pytorchs(kind: str, of_pytorch: Callable[..., Any]) -> None:
    layout = kind[-3:]

    def run(torch: Any, function: Callable[[Any, Any], Any]) -> Any:
        if kind in LAYOUTS:
            x = source = made(torch, layout, requires_grad=True)
        else:
            source, mask = parts(torch, layout, [True] * 3)
            source = source.requires_grad_()
            x = torch.masked.as_masked_tensor(source, mask)
        result = function(torch, x)
        result.sum().backward()
        return [result, source.grad]

    for name, function in GRADIENTS.items():
        theirs = of_pytorch(outcome, lambda torch, _, function=function: run(torch, function), lambda torch: None)
        ours = outcome(flambeau, lambda torch, _, function=function: run(torch, function), lambda torch: None)
        assert agrees(ours, theirs), f"{name}: {ours!r}, PyTorch {theirs!r}"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_of_dense_ones_pass_sparse_ones(layout: str, of_pytorch: Callable[..., Any]) -> None:
    def run(torch: Any, _: Any) -> Any:
        mask = torch.tensor([[True, False, True], [False, True, False]])  # PyTorch finds the size from the last column
        x = torch.masked.masked_tensor(torch.tensor(ROWS), mask, requires_grad=True)
        sparse = getattr(x, f"to_sparse_{layout}")()
        (sparse.exp() * sparse).to_dense().sum().backward()
        return [sparse, x.grad]

    ours, theirs = outcome(flambeau, run, lambda torch: None), of_pytorch(outcome, run, lambda torch: None)
    assert agrees(ours, theirs), (ours, theirs)


# -- what PyTorch refuses, or gets wrong ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("layout", LAYOUTS)
def test_hidden_elements_do_not_count(layout: str) -> None:
    x = made(flambeau, layout, hides=True)
    dense = x.to_dense()
    for name in "sum mean amin amax prod var std argmax argmin all norm".split():
        whole = getattr(x, name)()
        assert whole.item() == pytest.approx(getattr(dense, name)().item()), name
        assert not whole.requires_grad and whole.get_mask().item()
    shown = masked(x, x.get_mask().to_dense() & False)
    assert repr(shown.sum()) == repr(shown.to_dense().sum()) == "MaskedTensor(--, False)"


def masked(x: Any, mask: Any) -> Any:
    """``x`` with the same places, shown where ``mask`` is."""
    places = x.get_mask()
    return flambeau.masked.masked_tensor(x.get_data(), mask.sparse_mask(places))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_where_elements_are_hidden(layout: str) -> None:
    x = made(flambeau, layout, hides=True, requires_grad=True)
    twin = flambeau.masked.masked_tensor(x.get_data().to_dense(), x.get_mask().to_dense(), requires_grad=True)
    for function in (
        lambda x: x.sqrt().exp() * 3,
        lambda x: x * x + x.log(),
        lambda x: x.to_sparse_csr() / 2,
        lambda x: x.to_sparse() ** 3,
    ):
        function(x).to_dense().sum().backward()
        function(twin).to_dense().sum().backward()  # gradients add up
        assert x.grad.layout == x.layout and repr(x.grad) == repr(twin.grad)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_in_place(layout: str) -> None:
    x, data = made(flambeau, layout, hides=True), parts(flambeau, layout, [True] * 3)[0]
    same = x
    x.neg_().add_(x).mul_(3)
    x -= 1
    assert x is same and x.get_data().to_dense().tolist() == [[-7.0, 0.0, -13.0], [0.0, -4.0, 0.0]]
    assert data.to_dense().tolist() == ROWS
    leaf = made(flambeau, layout, requires_grad=True)
    with pytest.raises(RuntimeError):
        leaf.mul_(2)
    y = leaf * 1
    y.exp_().to_dense().sum().backward()
    assert repr(leaf.grad) == repr(y.detach())
    with pytest.raises(RuntimeError):
        x.int().mul_(2.5)
    with pytest.raises(TypeError, match="as what is written to"):
        flambeau.ones(()).add_(x)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_copies_pickles_and_dense_values(layout: str) -> None:
    x = made(flambeau, layout, hides=True)
    for again in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.to_sparse(layout=x.layout), x.to_sparse_csr(), x.to_sparse_coo()):
        assert repr(again) == repr(x)
    assert x.to_tensor(7.0).tolist() == [[1.0, 7.0, 7.0], [7.0, 0.5, 7.0]]
    assert x.to_dense(dtype=flambeau.float64).dtype is flambeau.float64


def test_what_is_refused() -> None:
    x, many = made(flambeau, "csr"), hybrid(flambeau)
    for call, error in [
        (lambda: flambeau.masked.sum(x), NotImplementedError),
        (lambda: x.to_sparse(1), NotImplementedError),
        (lambda: x.to_sparse(layout=flambeau.sparse_csc), NotImplementedError),
        (lambda: many.argmax(), NotImplementedError),
        (lambda: x * flambeau.ones(2, 3), RuntimeError),
        (lambda: x * flambeau.ones(3), RuntimeError),
        (lambda: x.sum(keepdim=True), TypeError),
        (lambda: x.copy_(x.to_sparse()), ValueError),
        (lambda: x.to_dense() * x.get_data(), RuntimeError),
    ]:
        with pytest.raises(error):
            call()
