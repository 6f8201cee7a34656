"""Parts of PyTorch that packages replace, put together anew or look into: vmap's steps, a tensor's text, tensors of modules by name."""

from __future__ import annotations

import dataclasses
import importlib
import io
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch


def shown(function: Callable[[Any], Any], library: Any) -> str:
    """The result's ``repr``, or the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = function(library)
        except Exception as error:
            result = type(error).__name__, str(error)
    return repr(result)


def module(library: Any, name: str) -> Any:
    return importlib.import_module(f"{library.__name__}.{name}")


def accessor(library: Any) -> list[Any]:
    """What a name leads to, and what is put there."""
    members = module(library, "nn.utils._named_member_accessor")
    net = library.nn.Sequential(library.nn.Linear(2, 2), library.nn.BatchNorm1d(2))
    own = members.NamedMemberAccessor(net)
    before = own.swap_tensors_dict({"0.weight": library.ones(2, 2), "1.running_mean": library.zeros(2)})
    found: list[Any] = [sorted(before[0]), before[1], own.get_tensor("0.weight").tolist(), own.check_keys(["0.bias", "q"])]
    found += [type(net[0]._parameters["weight"]).__name__, [name for name, _ in own.named_tensors()]]
    own.set_tensor("0.extra", library.ones(1))
    own.del_tensor("1.bias")
    found += ["extra" in vars(net[0]), "bias" in net[1]._parameters, own.swap_submodule("1", library.nn.ReLU()).__class__.__name__]
    return [*found, members.swap_tensor(net[0], "nope", library.zeros(1), allow_missing=True) is members._MISSING, str(net)]


def accessor_errors(library: Any) -> list[str]:
    members = module(library, "nn.utils._named_member_accessor")
    net = library.nn.Linear(2, 2)
    own = members.NamedMemberAccessor(net)
    tensor = library.ones(1)
    return [
        shown(call, library)
        for call in (
            lambda _: members.swap_tensor(net, "nope", tensor),
            lambda _: members.swap_tensor(net, "a.b", tensor),
            lambda _: members.set_tensor(net, "", tensor),
            lambda _: members.swap_tensor(net, "in_features", tensor),
            lambda _: members.swap_tensor(1, "x", None),
            lambda _: members.set_tensor(net, "weight", 3),
            lambda _: members.swap_submodule(net, "weight", net),
            lambda _: own.get_tensor("5.x"),
            lambda _: own.get_tensor("y"),
            lambda _: own.get_submodule("in_features"),
            lambda _: own.del_tensor("z"),
            lambda _: own.swap_tensors(["weight"], []),
            lambda _: own.swap_tensors_dict({"weight": tensor, "7": tensor}),
        )
    ]


def texts(library: Any) -> list[str]:
    """A tensor's text from its parts."""
    parts = module(library, "_tensor_str")
    tensors = [library.arange(3), library.ones(2, 2) * 0.5, library.zeros(0, 2), library.tensor(1.5)]
    return [
        *[parts._tensor_str(tensor, 7) for tensor in tensors],
        parts._add_suffixes("tensor([1])", ["size=(1,)", "x" * 70], 7, False),
        parts._add_suffixes("tensor([1])", ["size=(1,)"], 7, True),
        parts._str_intern(tensors[1], tensor_contents="..."),
        parts.PRINT_OPTS.linewidth,
    ]


def places(library: Any) -> list[Any]:
    crow, column = library.tensor([0, 1, 1, 4]), library.tensor([2, 0, 1, 2])
    batch = library.tensor([[0, 1, 2], [0, 0, 2]])
    return [
        library._convert_indices_from_csr_to_coo(crow, column),
        library._convert_indices_from_csr_to_coo(crow, column, out_int32=True, transpose=True),
        library._convert_indices_from_csr_to_coo(batch, library.tensor([[1, 0], [0, 1]])),
        library._convert_indices_from_coo_to_csr(library.tensor([0, 2, 2, 3]), 5),
        library._convert_indices_from_coo_to_csr(library.tensor([0, 2, 2, 3]), 5, out_int32=True),
        library._segment_reduce(library.arange(4.0), "mean", lengths=library.tensor([1, 3])),
        library._shape_as_tensor(library.ones(2, 3)),
        hasattr(library, "_no_such_kernel_"),
    ]


def lists(library: Any) -> list[Any]:
    """Operands in a subclass of list."""

    class Several(list):  # type: ignore[type-arg]
        pass

    x = library.ones(2, requires_grad=True)
    joined = library.cat(Several([x, x * 2]))
    joined.sum().backward()
    return [joined, x.grad, library.stack(Several([library.ones(1), library.zeros(1, dtype=library.int64)]))]


def traced(library: Any) -> str:
    """A list of operands is recorded one by one, and a condition is recorded."""

    def function(x: Any, y: Any) -> Any:
        library._assert(x.shape[0] == 2, "two")
        return library.einsum("ij,jk->ik", [x, y])

    return str(module(library, "fx").symbolic_trace(function).code).replace("torch.functional.", "torch.")


def storages(library: Any) -> list[Any]:
    x = library.ones(4)
    return [library._C._is_alias_of(x, x[1:]), library._C._is_alias_of(x, x.clone()), library._C._get_default_device()]


def devices(library: Any) -> list[Any]:
    utils, guards = module(library, "_utils"), module(library, "_guards")
    fake = module(library, "_subclasses").FakeTensorMode()
    with fake:
        inside = guards.active_fake_mode() is fake, guards.detect_fake_mode(library.ones(1)) is fake
    return [utils._get_device_module("cpu").__name__.rpartition(".")[2], *inside, guards.active_fake_mode(), guards.detect_fake_mode([1])]


def jacobian_parts(library: Any) -> list[Any]:
    """What ``torch.autograd.functional`` makes Jacobians of."""
    parts = module(library, "autograd.functional")
    x = library.ones(2, requires_grad=True)
    (alias,), (leaf,) = parts._grad_preprocess((x,), True, True), parts._grad_preprocess((x,), False, True)
    kept, cut = parts._grad_postprocess((alias * 2,), True)[0], parts._grad_postprocess(((alias * 2,),), False)[0][0]
    return [
        parts._construct_standard_basis_for((library.ones(2, 1), library.ones(3)), (2, 3)),
        parts._as_tuple(x)[0], len(parts._as_tuple((x, x), "inputs", "f")[1]),
        parts._tuple_postprocess(((x,),), (False, False)) is x, parts._tuple_postprocess((x, x), True)[1] is x,
        alias.is_leaf, leaf.is_leaf, leaf is x, kept.requires_grad, cut.requires_grad,
    ]  # fmt: skip


def line_search(library: Any) -> list[Any]:
    """Parts of L-BFGS."""
    search = module(library, "optim.lbfgs")

    def evaluate(x: Any, length: Any, direction: Any) -> Any:
        place = (x + length * direction).requires_grad_()
        loss = (place.square() - place.cos()).sum()
        return float(loss), library.autograd.grad(loss, place)[0]

    x = library.tensor([3.0, -2.0])
    loss, slopes = evaluate(x, 0, x)
    found = search._strong_wolfe(evaluate, x, 2.0, -slopes, loss, slopes, slopes.dot(-slopes))
    cubic = search._cubic_interpolate(0.0, 1.0, library.tensor(-2.0), 1.0, 0.5, library.tensor(1.5))
    return [round(found[0], 4), [round(each, 3) for each in found[1].tolist()], round(float(found[2]), 4), found[3], round(float(cubic), 5)]


@pytest.mark.oracle
@pytest.mark.parametrize(
    "function",
    [
        jacobian_parts,
        line_search,
        lambda torch: [repr(torch.finfo(float)), repr(torch.finfo(complex)), repr(torch.iinfo(int))],
        accessor,
        accessor_errors,
        texts,
        places,
        lists,
        traced,
        storages,
        devices,
        lambda torch: module(torch, "_utils")._get_device_module("foo"),
        lambda torch: torch.classes.library.Kind,
        lambda torch: torch.distributed.tensor.DTensor.__name__,
    ],
)
def test_parts_are_those_of_pytorch(oracle, function):
    importlib.import_module(f"{oracle.__name__}.distributed.tensor")
    importlib.import_module("flambeau.distributed.tensor")
    assert shown(function, torch) == shown(function, oracle)


def test_steps_of_vmap_can_be_replaced(monkeypatch):
    steps = module(torch, "_functorch.vmap")
    seen = []

    def inputs(dims, flat, level, spec):
        seen.append((dims, level))
        return steps.tree_unflatten([steps._add_batch_dim(each, dim, level) for each, dim in zip(flat, dims, strict=True)], spec)

    def outputs(made, out_dims, level, size, func):
        seen.append((out_dims, level, size, steps._get_name(func)))
        return steps._maybe_remove_batch_dim("f", made["sum"], level, size, out_dims)

    monkeypatch.setattr(steps, "_create_batched_inputs", inputs)
    monkeypatch.setattr(steps, "_unwrap_batched", outputs)
    result = torch.vmap(lambda given: {"sum": given["x"].sum() * 2})({"x": torch.arange(6.0).reshape(3, 2)})
    assert result.tolist() == [2, 10, 18] and seen == [([0], 1), (0, 1, 3, "<lambda>")]
    monkeypatch.undo()
    assert torch.vmap(torch.sum)(torch.ones(3, 2)).tolist() == [2, 2, 2]


def test_functorch_has_modules_as_functions():
    code = """
import warnings; warnings.simplefilter("ignore")
import torch, functorch
net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
function, params, buffers = functorch.make_functional_with_buffers(net)
print(torch.equal(function(params, buffers, torch.ones(4, 2)), net(torch.ones(4, 2))), len(params), len(buffers), function.param_names)
print({p.device.type for p in function.parameters()}, all(p is q for p, q in zip(params, net.parameters())))
try: functorch.make_functional(net)
except RuntimeError as error: print(error)
alone, params = functorch.make_functional(net[0], disable_autograd_tracking=True)
print([p.requires_grad for p in params], alone(params, torch.ones(1, 2)).shape, functorch.vmap is torch.vmap)
many, params, _ = functorch.combine_state_for_ensemble([torch.nn.Linear(2, 2) for _ in range(3)])
print(functorch.vmap(many, (0, 0, None))(params, (), torch.ones(4, 2)).shape, params[0].requires_grad)
"""
    said = subprocess.run([sys.executable, "-m", "flambeau", "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == [
        "True 4 3 ('0.weight', '0.bias', '1.weight', '1.bias')",
        "{'meta'} False",
        "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead.",
        "[False, False] torch.Size([1, 3]) True",
        "torch.Size([3, 4, 2]) False",
    ]


def test_workers_tell_their_error_in_a_file(tmp_path, monkeypatch):
    errors = module(torch, "distributed.elastic.multiprocessing.errors")
    file = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(file))

    @errors.record
    def fails():
        raise KeyError("lost")

    with pytest.raises(KeyError):
        fails()
    failure = errors.ProcessFailure(1, 100, 1, str(file))
    assert failure.message["message"] == "KeyError: 'lost'" and "fails" in failure.message["extraInfo"]["py_callstack"]
    killed = errors.ProcessFailure(0, 99, -9, str(tmp_path / "none"))
    killed.timestamp -= 10
    assert (killed.message, killed.error_file) == ("Signal 9 (SIGKILL) received by PID 99", "<N/A>")
    assert errors.ProcessFailure(0, 99, -1000, "").message == "Signal 1000 (<N/A>) received by PID 99"
    error = errors.ChildFailedError("program", {0: killed, 1: failure})
    assert error.get_first_failure() == (0, killed) and "KeyError" in str(error)

    @errors.record
    def starts():
        raise errors.ChildFailedError("program", {1: failure})

    with pytest.raises(errors.ChildFailedError):
        starts()
    assert '"errorCode": 1' in file.read_text()
    assert errors.record(sys.exit)(0) is None
    with pytest.raises(SystemExit):
        errors.record(sys.exit)(3)


@dataclasses.dataclass
class Pair:
    first: torch.Tensor
    count: int = 3

    def repeated(self) -> torch.Tensor:
        return self.first * self.count


def of_pairs(x: torch.Tensor) -> torch.Tensor:
    pair = Pair(x)
    return pair.repeated() + Pair(x, 2).count


def gradient(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor | None:
    return torch.autograd.grad([(x * y * y).sum()], [y], create_graph=True)[0]


def test_data_classes_and_gradients_are_scripted():
    torch.jit.script(Pair)
    assert torch.jit.script(of_pairs)(torch.ones(2)).tolist() == [5, 5]
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(gradient), file)
    file.seek(0)
    y = torch.ones(2, requires_grad=True)
    for function in (torch.jit.script(gradient), torch.jit.load(file)):
        assert function(torch.full((2,), 3.0), y).tolist() == [6, 6]
