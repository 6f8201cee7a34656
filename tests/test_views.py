"""Views: which operations share memory, at which offset and with which strides; storages that grow and change hands; memory formats."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from libraries import relevant_strides

import flambeau

# operation on x of shape (2, 3, 4) -> (storage offset, strides) of the first result; None: a copy
VIEWS: dict[str, tuple[int, tuple[int, ...]] | None] = {
    "x.view(6, 4)": (0, (4, 1)),
    "x.view(-1)": (0, (1,)),
    "x.view(2, 3, 2, 2)": (0, (12, 4, 2, 1)),
    "x[:, 1:].reshape(2, 8)": (4, (12, 1)),
    "x.reshape(24)": (0, (1,)),
    "x.transpose(0, 2).reshape(24)": None,
    "x.flatten(1)": (0, (12, 1)),
    "x.transpose(0, 2)": (0, (1, 4, 12)),
    "x.permute(2, 0, 1)": (0, (1, 12, 4)),
    "x.mT": (0, (12, 1, 4)),
    "x[0].T": (0, (1, 4)),
    "x[0].t()": (0, (1, 4)),
    "x[0].H": (0, (1, 4)),
    "x.mH": (0, (12, 1, 4)),
    "x.movedim(0, -1)": (0, (4, 1, 12)),
    "x.unsqueeze(0)": (0, (24, 12, 4, 1)),
    "x[None]": (0, (24, 12, 4, 1)),
    "x[:, None]": (0, (12, 12, 4, 1)),
    "x[..., None]": (0, (12, 4, 1, 1)),
    "x[None, 1:]": (12, (24, 12, 4, 1)),
    "x[:, None, 0]": (0, (12, 12, 1)),
    "x[0].t().unsqueeze(0)": (0, (4, 1, 4)),
    "x[:1].expand(1, 1, 3, 4)": (0, (12, 12, 4, 1)),
    "x.tensor_split(2)[1]": (12, (12, 4, 1)),
    "x.unsqueeze(1)": (0, (12, 12, 4, 1)),
    "x.unsqueeze(-1)": (0, (12, 4, 1, 1)),
    "x.unsqueeze(0).squeeze()": (0, (12, 4, 1)),
    "x[:, :1].expand(2, 5, 4)": (0, (12, 0, 1)),
    "x.expand(5, -1, -1, -1)": (0, (0, 12, 4, 1)),
    "x.select(1, 2)": (8, (12, 1)),
    "x.narrow(2, 1, 2)": (1, (12, 4, 1)),
    "x.split(1)[1]": (12, (12, 4, 1)),
    "x.chunk(2, 2)[1]": (2, (12, 4, 1)),
    "x.unbind(1)[2]": (8, (12, 1)),
    "x.tensor_split(2, 1)[1]": (8, (12, 4, 1)),
    "x.diagonal(1, 1, 2)": (1, (12, 5)),
    "x.diagonal(-1, 0, 2)": (12, (4, 13)),
    "x.unfold(2, 2, 1)": (0, (12, 4, 1, 1)),
    "x.unfold(1, 2, 1)": (0, (12, 4, 1, 4)),
    "x.as_strided((2, 2), (3, 5), 4)": (4, (3, 5)),
    "x[1, ::2]": (12, (8, 1)),
    "x[..., -1]": (3, (12, 4)),
    "x.detach()": (0, (12, 4, 1)),
    "x.unflatten(2, (2, 2))": (0, (12, 4, 2, 1)),
    "x.view_as(x)": (0, (12, 4, 1)),
    "torch.view_as_complex(x.view(2, 3, 2, 2))": (0, (6, 2, 1)),
    "x.view(torch.int64)": (0, (12, 4, 1)),
    "x.view(torch.float32)": (0, (24, 8, 1)),
    "x.view(torch.complex128)": (0, (6, 2, 1)),
    "x.swapaxes(0, 1)": (0, (4, 12, 1)),
    "x.data": (0, (12, 4, 1)),
    "torch.atleast_3d(x[0])": (0, (4, 1, 1)),
    "torch.broadcast_tensors(x, x[0])[1]": (0, (0, 4, 1)),
    "x.clone()": None,
    "x.contiguous().clone()": None,
    "x.transpose(0, 1).contiguous()": None,
    "x.repeat(1, 1, 1)": None,
    "x.flip(0)": None,
    "x.roll(1)": None,
    "x.to(torch.float32)": None,
    "x.narrow_copy(0, 0, 1)": None,
    "x.index_select(0, torch.tensor([0]))": None,
    "x[[0, 1]]": None,
}


def example(torch: Any) -> Any:
    return torch.arange(24, dtype=torch.float64).reshape(2, 3, 4).clone()


def result_of(text: str, torch: Any) -> tuple[Any, Any]:
    x = example(torch)
    return x, eval(text, {"torch": torch, "x": x})


@pytest.mark.parametrize("text", VIEWS)
def test_memory_of_a_result(text: str) -> None:
    x, got = result_of(text, flambeau)
    expected = VIEWS[text]
    shares = got.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert shares == (expected is not None)
    if expected is None:
        return
    assert (got.storage_offset(), got.stride()) == expected
    assert got.data_ptr() == x.data_ptr() + got.storage_offset() * got.element_size()
    assert got._is_view() == (text not in ("x.detach()", "x.data") and "view(torch." not in text)
    before = x._version
    got.view(got.dtype).zero_()
    assert x._version == before + (text != "x.data") and (x == 0).any()


@pytest.mark.parametrize("text", VIEWS)
def test_memory_of_a_result_is_as_in_pytorch(text: str, of_pytorch: Callable[..., Any]) -> None:
    def memory(torch: Any) -> Any:
        x, got = result_of(text, torch)
        shares = got.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        facts = (shares, tuple(got.shape), got.stride(), got.storage_offset(), got.is_contiguous(), str(got.dtype))
        if "x.view(torch." not in text:  # PyTorch keeps no base where bytes are read as another dtype
            facts += (got._base is x,)
        return (*facts, got.untyped_storage().nbytes() if shares else None)

    assert memory(flambeau) == of_pytorch(memory)


def test_what_returns_the_tensor_itself() -> None:
    x = example(flambeau)
    for same in (
        x.contiguous(),
        x.to(flambeau.float64),
        x.double(),
        x.cpu(),
        x.to("cpu"),
        x.type(flambeau.float64),
        x.flatten(0, 0),
        x.requires_grad_(),
        x.to(x),
        x.type_as(x),
        flambeau.as_tensor(x),
        flambeau.atleast_1d(x),
    ):
        assert same is x
    assert x.to(flambeau.float64, copy=True) is not x and x.detach() is not x and x.expand(2, 3, 4) is not x and x[...] is not x


def test_writes_are_seen_through_chains_of_views() -> None:
    x = flambeau.zeros(4, 6)
    x.t()[1:3].reshape(2, 2, 2).transpose(1, 2)[0, :, 1].add_(5)
    assert x.nonzero().tolist() == [[1, 1], [3, 1]] or x.sum() == 10
    y = flambeau.zeros(3, 4)
    y.view(2, 6)[1, ::2] = 1
    assert y.tolist() == [[0, 0, 0, 0], [0, 0, 1, 0], [1, 0, 1, 0]]


def test_a_view_needs_strides_that_allow_it() -> None:
    x = example(flambeau)
    for view in (x.transpose(0, 1), x[:, :, :2], x.expand(2, 2, 3, 4)):
        with pytest.raises(RuntimeError, match="view size is not compatible"):
            view.view(-1)
        assert view.reshape(-1).tolist() == view.contiguous().view(-1).tolist()
    assert x[:, :, ::2].view(6, 2).stride() == (4, 2)
    assert x.transpose(0, 1).view(3, 2, 2, 2).shape == (3, 2, 2, 2)
    assert flambeau.zeros(0, 3).t().view(0).shape == (0,)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("m.zeros(1, 4).t().view(1, 4, 1)", (4, 1, 4)),
        ("m.zeros(1, 4).t().view(4, 1, 1)", (1, 4, 4)),
        ("m.zeros(4, 1).t().view(4, 1)", (1, 1)),
        ("m.zeros(3, 1, 4)[:, :, ::2].view(3, 2, 1)", (4, 2, 2)),
        ("m.zeros(2, 4)[:1].t().view(2, 1, 2)", (2, 2, 1)),
        ("m.zeros(4, 2)[:, :1].view(2, 1, 2, 1)", (4, 4, 2, 1)),
    ],
)
def test_views_of_sizes_of_one_have_pytorchs_strides(text: str, expected: tuple[int, ...]) -> None:
    assert eval(text, {"m": flambeau}).stride() == expected


# -- as_strided, set_, resize_ ------------------------------------------------------------------------------------------------------
def test_as_strided_counts_from_the_storage_not_from_the_view() -> None:
    x = flambeau.arange(10)
    part = x[4:]
    assert part.as_strided((2,), (1,)).tolist() == [4, 5] and part.as_strided((2,), (1,), 0).tolist() == [0, 1]
    assert part.as_strided((3, 3), (1, 1), 2).tolist() == [[2, 3, 4], [3, 4, 5], [4, 5, 6]]
    assert x.as_strided((), (), 7).item() == 7 and x.as_strided((0, 5), (1, 1)).shape == (0, 5)
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 80"):
        part.as_strided((6,), (1,), 5)
    with pytest.raises(RuntimeError):
        x.as_strided((2,), (1,), -1)


def test_the_gradient_of_overlapping_windows_adds_up() -> None:
    x = flambeau.arange(5.0, requires_grad=True)
    x.as_strided((3, 3), (1, 1)).sum().backward()
    assert x.grad.tolist() == [1, 2, 3, 2, 1]
    x.grad = None
    x.unfold(0, 2, 1).sum().backward()
    assert x.grad.tolist() == [1, 2, 2, 2, 1]


def test_set_makes_a_tensor_show_other_memory() -> None:
    x, y = flambeau.arange(6), flambeau.zeros(2, dtype=flambeau.int64)
    assert y.set_(x) is y and y.is_set_to(x) and y.data_ptr() == x.data_ptr()
    y[0] = 9
    assert x[0] == 9
    y.set_(x.untyped_storage(), 1, (2, 2), (2, 1))
    assert y.tolist() == [[1, 2], [3, 4]] and y.storage_offset() == 1
    y.set_(x.storage())
    assert y.tolist() == x.tolist()
    y.set_()
    assert y.shape == (0,) and y.untyped_storage().nbytes() == 0
    with pytest.raises(RuntimeError):
        flambeau.zeros(2).set_(x)


def test_resize_keeps_what_fits_and_grows_the_storage() -> None:
    x = flambeau.arange(6).reshape(2, 3).clone()
    assert x.resize_(2, 2) is x and x.tolist() == [[0, 1], [2, 3]] and x.untyped_storage().nbytes() == 48
    x.resize_(3, 4)
    assert x.reshape(-1)[:6].tolist() == [0, 1, 2, 3, 4, 5] and x.untyped_storage().nbytes() == 96
    assert x.resize_((0,)).shape == (0,) and x.untyped_storage().nbytes() == 96
    view = flambeau.arange(6)[2:]
    assert view.resize_(2, 2).tolist() == [[2, 3], [4, 5]]
    assert flambeau.zeros(1, 2, 3, 4).resize_(2, 3, 4, 5, memory_format=flambeau.channels_last).stride() == (60, 1, 15, 3)
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        flambeau.zeros(2, requires_grad=True).resize_(3)


def test_views_follow_a_storage_that_grows() -> None:
    x = flambeau.arange(4)
    view = x[:2]
    x.resize_(1000)
    x[0] = 7
    assert view[0] == 7 and view.data_ptr() == x.data_ptr()
    x.untyped_storage().resize_(8)
    assert x.untyped_storage().nbytes() == 8


@pytest.mark.oracle
def test_edges_of_set_resize_and_as_strided_are_pytorchs(oracle: ModuleType) -> None:
    programs = """
    x.resize_(3, 3) ; x.resize_(5) ; x.resize_(()) ; x.resize_(2, -1) ; x.resize_(0, 4) ; x.t().resize_(3, 2) ; x.t().resize_(2, 3)
    x[1].resize_(2)
    x.set_(x[1]) ; x.set_(x.untyped_storage(), 2, (2,), (2,)) ; x.set_(x.untyped_storage()) ; x.set_(torch.zeros(3, dtype=torch.int32))
    x.set_(x, 1, (2,), (1,)) ; x.set_(x.t(), 0, (2,), (1,)) ; x.as_strided_((2,), (3,), 1) ; x.as_strided_((2, 2), (2, 1))
    x[1].as_strided_((2,), (1,), 0)
    x.as_strided((2, 3), (3,)) ; x.as_strided((2,), (-1,)) ; x.as_strided((7,), (1,)) ; x.as_strided((-1,), (1,))
    x.as_strided((1,), (100,), 5)
    x.resize_as_(torch.zeros(3, 2)) ; x.t_() ; x.transpose_(0, 1) ; x.squeeze_() ; x.unsqueeze_(1) ; x.unsqueeze_(5) ; x.detach_()
    x[0].detach_()
    x.view(torch.float32) ; x.view(torch.int16) ; x[:, :1].view(torch.float32) ; x.t().view(torch.float32) ; x.view(torch.bool)
    x[0, 0].view(torch.float32)
    x.view(torch.float32)[:, 1:5].view(torch.float64) ; x.view(torch.float32)[:, :3].view(torch.float64) ; x.swapdims_(0, 1)
    x.swapaxes_(1, 0)
    """
    for program in (part.strip() for line in programs.strip().splitlines() for part in line.split(";")):
        outcomes = []
        for torch in (flambeau, oracle):
            x = torch.arange(6, dtype=torch.float64).reshape(2, 3).clone()
            try:
                got = eval(program, {"x": x, "torch": torch})
            except Exception as error:
                outcomes.append(type(error))
                continue
            facts = [
                (tuple(item.shape), item.stride(), item.storage_offset(), item.untyped_storage().nbytes(), item.dim()) for item in (got, x)
            ]
            known = got.flatten()[:6].tolist() if got.untyped_storage().nbytes() == 48 and got.dtype is torch.float64 else None
            outcomes.append((facts, known))
        assert outcomes[0] == outcomes[1], program


# -- other dtypes over the same bytes ---------------------------------------------------------------------------------------------------
def test_bytes_read_as_another_dtype() -> None:
    x = flambeau.tensor([1.0, -2.0])
    assert x.view(flambeau.int32).tolist() == [0x3F800000, -0x40000000]
    assert x.view(flambeau.uint8).tolist() == [0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0]
    assert flambeau.tensor([[1, 2, 3, 4]], dtype=flambeau.int16).view(flambeau.int64).tolist() == [[1 + (2 << 16) + (3 << 32) + (4 << 48)]]
    x.view(flambeau.int32)[0] = 0
    assert x.tolist() == [0, -2]
    half = flambeau.tensor([1.5], dtype=flambeau.bfloat16)
    assert half.view(flambeau.int16).item() == 0x3FC0 and half.view(flambeau.int16).view(flambeau.bfloat16).item() == 1.5
    for shape, dtype, words in (((), "int16", "self.dim\\(\\) cannot be 0"), ((3,), "float64", "must be divisible by 2")):
        with pytest.raises(RuntimeError, match=words):
            flambeau.zeros(shape).view(getattr(flambeau, dtype))
    with pytest.raises(RuntimeError, match="storage_offset\\(\\) must be divisible by 2"):
        flambeau.zeros(5)[1:].view(flambeau.float64)
    with pytest.raises(RuntimeError, match="stride\\(0\\) must be divisible by 2"):
        flambeau.zeros(3, 3)[:, :2].view(flambeau.float64)
    with pytest.raises(RuntimeError, match="self.stride\\(-1\\) must be 1"):
        flambeau.zeros(4, 2).t().view(flambeau.int16)


def test_real_and_imaginary_parts_are_views() -> None:
    z = flambeau.tensor([1 + 2j, 3 - 4j])
    z.real[0], z.imag[1] = 5, 6
    assert z.tolist() == [5 + 2j, 3 + 6j] and z.imag.stride() == (2,) and z.imag.storage_offset() == 1
    pairs = flambeau.view_as_real(z)
    pairs[0] = 0
    assert z[0] == 0 and flambeau.view_as_complex(pairs).data_ptr() == z.data_ptr()
    with pytest.raises(RuntimeError, match="imag is not implemented for tensors with non-complex dtypes"):
        _ = flambeau.ones(2).imag


# -- transposes by attribute --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "text", ["x[1:3]", "x[2:4]", "x[1:5].view(2, 2)", "x.as_strided((2, 2), (2, 1), 1)", "x.as_strided((1, 2), (1, 1), 1)"]
)
def test_pairs_begin_at_even_places_of_a_storage(text: str, of_pytorch: Callable[..., Any]) -> None:
    def pairs(torch: Any) -> Any:
        try:
            return str(torch.view_as_complex(eval(text, {"x": torch.arange(6.0)})).tolist())
        except RuntimeError as error:
            return str(error)

    assert pairs(flambeau) == of_pytorch(pairs)


def test_transposes_by_attribute() -> None:
    x = example(flambeau)
    assert x[0].T.tolist() == x[0].numpy().T.tolist() and x.mT.shape == (2, 4, 3) and x[0].mT.shape == (4, 3)
    z = flambeau.tensor([[1 + 1j, 2j]])
    assert z.H.tolist() == [[1 - 1j], [-2j]] and z.mH.tolist() == z.H.tolist() and z.T.tolist() == [[1 + 1j], [2j]]
    assert flambeau.ones(3).T.shape == (3,)
    for text in ("x[0, 0].mT", "x[0, 0].mH", "x[0, 0].H", "x.H", "x[0, 0].adjoint()"):
        with pytest.raises(RuntimeError, match="is only supported on matrices"):
            eval(text, {"x": x})
    for text in ("x.T", "x[0, 0, 0].T", "x[0, 0, 0].mT", "x[0, 0, 0].mH", "x[0, 0, 0].H", "x[0, 0, 0].adjoint()"):
        with pytest.warns(UserWarning, match="deprecated"):
            eval(text, {"x": x})


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["T", "mT", "H", "mH"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 4)])
def test_transposes_by_attribute_are_pytorchs(name: str, shape: tuple[int, ...], oracle: ModuleType) -> None:
    outcomes = []
    for torch in (flambeau, oracle):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                got = getattr(torch.arange(int(np.prod(shape))).reshape(shape), name)
                outcomes.append((tuple(got.shape), got.stride(), got.tolist()))
            except Exception as error:
                outcomes.append(type(error))
    assert outcomes[0] == outcomes[1]


# -- memory formats -----------------------------------------------------------------------------------------------------------------
def test_channels_last() -> None:
    x = flambeau.arange(120.0).reshape(2, 3, 4, 5)
    last = x.to(memory_format=flambeau.channels_last)
    assert last.stride() == (60, 1, 15, 3) and last.shape == x.shape and (last == x).all()
    assert last.is_contiguous(memory_format=flambeau.channels_last) and not last.is_contiguous()
    assert x.contiguous(memory_format=flambeau.channels_last).stride() == last.stride() and last.contiguous().stride() == (60, 20, 5, 1)
    assert last.contiguous(memory_format=flambeau.channels_last) is last
    for result in (
        last + 1,
        last.clone(),
        last * last,
        flambeau.relu(last),
        flambeau.empty_like(last),
        flambeau.zeros_like(last),
        last.double(),
        last.neg(),
    ):
        assert result.stride() == last.stride()
    assert last.clone(memory_format=flambeau.contiguous_format).stride() == x.stride()
    assert flambeau.empty(2, 3, 4, 5, memory_format=flambeau.channels_last).stride() == last.stride()
    assert flambeau.zeros(1, 2, 3, 4, 5).contiguous(memory_format=flambeau.channels_last_3d).stride() == (120, 1, 40, 10, 2)
    with pytest.raises(RuntimeError):
        flambeau.zeros(2, 3).contiguous(memory_format=flambeau.channels_last)
    assert x.contiguous(memory_format=flambeau.preserve_format) is x


def test_copies_of_dense_tensors_keep_their_strides() -> None:
    x = flambeau.arange(24.0).reshape(2, 3, 4)
    for order in ((2, 1, 0), (1, 0, 2), (2, 0, 1)):
        moved = x.permute(order)
        assert (
            moved.clone().stride()
            == moved.stride()
            == (moved + 1).stride()
            == flambeau.empty_like(moved).stride()
            == moved.float().stride()
        )
    assert x[:, :, ::2].clone().stride() == (6, 2, 1) and x[:1].expand(2, 3, 4).clone().is_contiguous()


@pytest.mark.oracle
def test_contiguity_is_pytorchs(oracle: ModuleType) -> None:
    programs = (
        "x",
        "x.t()",
        "x[:, :1]",
        "x[:1]",
        "x[:0]",
        "x[:, ::2]",
        "x.expand(2, 3, 4)",
        "x[:1].t()",
        "x.unsqueeze(1)",
        "x[0]",
        "x[:, 0]",
        "x.t()[:1]",
        "x.view(1, 3, 2, 2)",
        "x.view(1, 3, 2, 2).permute(0, 3, 1, 2)",
        "x.view(3, 1, 2, 2)",
        "x.view(3, 2, 2, 1)",
        "x.view(1, 12, 1, 1)",
    )
    for program in programs:
        outcomes = []
        for torch in (flambeau, oracle):
            got = eval(program, {"x": torch.zeros(3, 4)})
            forms = [torch.contiguous_format, *([torch.channels_last] if got.dim() == 4 else [])]
            strides = [relevant_strides(tensor) for tensor in (got.clone(), got + 1, got.contiguous())]
            outcomes.append([got.is_contiguous(memory_format=form) for form in forms] + strides)
        assert outcomes[0] == outcomes[1], program


def test_gradients_of_pairs_may_lie_anywhere() -> None:
    x, y = flambeau.randn(3, 4, requires_grad=True), flambeau.randn(3, 4, requires_grad=True)
    numbers = flambeau.arange(60.0)
    for grad in (numbers[1:25].reshape(3, 4, 2), numbers[1:25].reshape(2, 4, 3).permute(2, 1, 0), numbers[1:49:2].reshape(3, 4, 2)):
        real, imaginary = flambeau.autograd.grad(flambeau.view_as_real(flambeau.complex(x, y)), (x, y), grad)
        assert flambeau.equal(real, grad[..., 0]) and flambeau.equal(imaginary, grad[..., 1])


def test_a_tensor_that_says_where_a_dimension_goes_stays_as_it_is() -> None:
    x, dim, beyond = flambeau.zeros(2, 3), flambeau.tensor(-1), flambeau.tensor(-4)
    for _ in range(2):
        assert x.unsqueeze(dim).shape == (2, 3, 1) and flambeau.zeros(1, 2).unsqueeze(dim).shape == (1, 2, 1)
        with pytest.raises(IndexError, match="but got -4"):
            x.unsqueeze(beyond)
    assert (dim.item(), beyond.item()) == (-1, -4)
    for some in (x, flambeau.zeros(()), flambeau.zeros(1)):
        with pytest.raises(TypeError):
            some.unsqueeze(flambeau.tensor(-0.5))
