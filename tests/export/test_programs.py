"""``torch.export``: programs of twelve kinds of model give at other batch sizes what the models give."""

from __future__ import annotations

import copy
import dataclasses
import io
from typing import Any

import pytest
from export_models import GPT, KINDS, UNet, dynamic_shapes

import flambeau as torch
from flambeau import nn
from flambeau.export import Dim, ExportedProgram, export, load, save
from flambeau.export.graph_signature import InputKind, OutputKind
from flambeau.utils._pytree import tree_leaves


def exported(name: str, batch: int = 3) -> tuple[Any, Any, ExportedProgram]:
    torch.manual_seed(0)
    kind = KINDS[name]
    model = kind.make().eval()
    return kind, model, export(model, kind.inputs(batch), dynamic_shapes=dynamic_shapes(kind))


def agree(model: Any, other: Any, inputs: tuple[Any, ...]) -> None:
    with torch.no_grad():
        wanted, found = tree_leaves(model(*inputs)), tree_leaves(other(*inputs))
    assert len(wanted) == len(found)
    for a, b in zip(wanted, found, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", KINDS)
def test_programs_are_their_models_at_other_batch_sizes(name: str) -> None:
    kind, model, program = exported(name)
    assert len(program.range_constraints) == 1
    module = program.module()
    for batch in (5, 1):
        agree(model, module, kind.inputs(batch))


@pytest.mark.parametrize("name", KINDS)
def test_decomposed_programs_are_their_models_and_write_nothing(name: str) -> None:
    kind, model, program = exported(name)
    divided = program.run_decompositions()
    targets = [node.target for node in divided.graph.nodes if node.op == "call_function"]
    assert not [target for target in targets if hasattr(target, "_schema") and (target._schema.is_mutable or target.namespace != "aten")]
    agree(model, divided.module(), kind.inputs(4))


@pytest.mark.parametrize("name", KINDS)
def test_programs_come_back_from_files(name: str) -> None:
    kind, model, program = exported(name)
    file = io.BytesIO()
    save(program, file, extra_files={"note": "here"})
    extra = {"note": ""}
    again = load(io.BytesIO(file.getvalue()), extra_files=extra)
    assert extra == {"note": "here"}
    assert str(again.graph) == str(program.graph) and str(again.graph_signature) == str(program.graph_signature)
    assert again.range_constraints == program.range_constraints
    agree(model, again.module(), kind.inputs(2))


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small"])
def test_vision_models_are_exported(name: str) -> None:
    from flambeau.vision import models

    torch.manual_seed(0)
    model = getattr(models, name)(weights=None, num_classes=4).eval()
    program = export(model, (torch.randn(2, 3, 32, 32),), dynamic_shapes=({0: Dim("batch")},))
    agree(model, program.module(), (torch.randn(3, 3, 32, 32),))


# ---- sizes
def test_a_length_may_be_symbolic_beside_the_batch() -> None:
    model = GPT().eval()
    shapes = ({0: Dim("batch"), 1: Dim("length", max=16)},)
    module = export(model, (torch.randint(0, 13, (2, 7)),), dynamic_shapes=shapes).module()
    for size in ((1, 16), (4, 3)):
        agree(model, module, (torch.randint(0, 13, size),))


def test_images_of_even_sizes() -> None:
    model = UNet().eval()
    shapes = ({0: Dim("batch"), 2: 2 * Dim("h"), 3: 2 * Dim("w")},)
    module = export(model, (torch.randn(2, 1, 8, 12),), dynamic_shapes=shapes).module()
    agree(model, module, (torch.randn(1, 1, 6, 10),))
    with pytest.raises(AssertionError, match=r"Guard failed: x.size\(\)\[2\] % 2 == 0"):
        module(torch.randn(1, 1, 7, 10))


def test_a_program_refuses_what_it_was_not_exported_for() -> None:
    class Sum(nn.Module):
        def forward(self, x, y, *, k=None):
            return x["a"] + y[0], None, 3

    batch = Dim("batch", min=2, max=9)
    x, y = torch.ones(3, 2), torch.ones(3, 2)
    program = export(Sum(), ({"a": x}, [y]), {"k": torch.ones(2)}, dynamic_shapes={"x": {"a": {0: batch}}, "y": [{0: batch}], "k": None})
    assert [node.name for node in program.graph.find_nodes(op="placeholder")] == ["x_a", "y_0", "k"]
    assert str(program.range_constraints) == "{s0: VR[2, 9]}"
    module = program.module()
    assert module({"a": x[:2]}, [y[:2]], k=torch.ones(2))[1:] == (None, 3)
    for bad, message in (
        (({"a": torch.ones(3, 3)}, [y]), r"x\['a'\].size\(\)\[1\] == 2"),
        (({"a": x[:2]}, [y]), r"y\[0\].size\(\)\[0\] == x\['a'\].size\(\)\[0\]"),
        (({"a": torch.ones(10, 2)}, [torch.ones(10, 2)]), r"x\['a'\].size\(\)\[0\] <= 9"),
    ):
        with pytest.raises(AssertionError, match=f"Guard failed: {message}"):
            module(*bad, k=torch.ones(2))
    with pytest.raises((ValueError, TypeError)):
        module([x], [y], k=torch.ones(2))


class Branch(nn.Module):
    def forward(self, x):
        return x + 1 if x.shape[0] > 5 else x - 1


def test_a_branch_on_a_size_must_follow_from_its_range() -> None:
    x = torch.randn(3, 4)
    with pytest.raises(RuntimeError, match=r"(?s)Constraints violated \(batch\)!.*batch = Dim\('batch', max=5\)"):
        export(Branch(), (x,), dynamic_shapes=({0: Dim("batch")},))
    program = export(Branch(), (x,), dynamic_shapes=({0: Dim("batch", max=5)},))
    assert "sub" in program.graph_module.code
    program = export(Branch(), (x,), dynamic_shapes=({0: Dim.AUTO},))
    assert [values.upper for values in program.range_constraints.values()] == [5]


class BranchOnSecond(nn.Module):
    def forward(self, x, y):
        return x.sum() - y.sum() if y.shape[0] == 2 else x.sum() + y.sum()


def test_a_branch_on_another_size_must_follow_from_its_range() -> None:
    with pytest.raises(RuntimeError, match=r"Constraints violated \(b\)"):
        export(BranchOnSecond(), (torch.ones(5), torch.ones(5)), dynamic_shapes=({0: Dim("a")}, {0: Dim("b")}))
    program = export(BranchOnSecond(), (torch.ones(5), torch.ones(5)), dynamic_shapes=({0: Dim("a")}, {0: Dim("b", min=3)}))
    assert program.module()(torch.ones(2), torch.ones(3)) == 5


class Joined(nn.Module):
    def forward(self, x, y):
        return x + y


def test_sizes_that_must_be_equal_have_to_be_declared_so() -> None:
    x = torch.randn(3, 4)
    with pytest.raises(RuntimeError, match=r"(?s)Constraints violated.*b = a|a = b"):
        export(Joined(), (x, x), dynamic_shapes=({0: Dim("a")}, {0: Dim("b")}))
    program = export(Joined(), (x, x), dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO}))
    assert len(program.range_constraints) == 1
    with pytest.raises(RuntimeError, match="constant"):
        export(Joined(), (x, x), dynamic_shapes=({0: Dim("a")}, None))
    program = export(Joined(), (x, x), dynamic_shapes=({0: Dim.AUTO}, None))
    assert not program.range_constraints


class Unrolled(nn.Module):
    def forward(self, x):
        total = x
        for _ in range(x.shape[0]):  # takes the size without asking
            total = total * 2
        return total


class Multiplied(nn.Module):
    def forward(self, x):
        return torch.zeros([1] * x.shape[0]) + x.sum()


@pytest.mark.parametrize("model", [Unrolled(), Multiplied()])
def test_a_size_that_python_took_for_a_number_is_noticed(model: Any) -> None:
    with pytest.raises(RuntimeError, match=r"Constraints violated \(n\)"):
        export(model, (torch.ones(3, 2),), dynamic_shapes=({0: Dim("n", max=6)},))
    assert not export(model, (torch.ones(3, 2),), dynamic_shapes=({0: Dim.AUTO},)).range_constraints


def test_values_that_a_program_reads_are_refused() -> None:
    class Reads(nn.Module):
        def forward(self, x):
            return x * 2 if x.sum() > 0 else x

    with pytest.raises(RuntimeError):
        export(Reads(), (torch.ones(3),))


# ---- what a program has
class Everything(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.fc = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Linear(4, 5)
        self.register_buffer("scale", torch.ones(5))
        self.register_buffer("shift", torch.ones(5), persistent=False)
        self.constant = torch.ones(5)

    def forward(self, x):
        x = torch.relu(self.bn(self.conv(x))).mean((2, 3))
        z = torch.zeros(x.shape[0], 5) + torch.tensor(2.0)
        z[:, 0] = 1
        return {"out": self.fc(x) * self.scale + self.shift + self.constant + z, "n": x.shape[0] * 2}


def test_the_signature_names_parameters_buffers_and_constants() -> None:
    program = export(Everything(), (torch.randn(2, 3, 4, 4),), dynamic_shapes=({0: Dim("batch")},))
    signature = program.graph_signature
    assert list(signature.parameters) == ["conv.weight", "conv.bias", "bn.weight", "bn.bias", "fc.weight", "fc.bias"]
    assert list(signature.buffers) == ["scale", "shift", "bn.running_mean", "bn.running_var", "bn.num_batches_tracked"]
    assert list(signature.non_persistent_buffers) == ["shift"] and "shift" not in program.state_dict
    assert list(signature.lifted_tensor_constants) == ["lifted_tensor_0", "lifted_tensor_1", "constant"]
    assert signature.input_specs[-1].kind is InputKind.USER_INPUT and list(signature.user_inputs) == ["x"]
    assert "b_bn_running_mean: BUFFER target='bn.running_mean' persistent=True" in str(signature)
    assert 'x: "f32[s0, 3, 4, 4]"' in str(program) and "Range constraints: {s0: VR[0, int_oo]}" in str(program)


def test_training_writes_to_the_buffers_of_the_module() -> None:
    torch.manual_seed(0)
    model = Everything()
    twin = copy.deepcopy(model)
    x = torch.randn(4, 3, 4, 4)
    program = export(model, (torch.randn(2, 3, 4, 4),), dynamic_shapes=({0: Dim("batch")},))
    divided = program.run_decompositions()
    kinds = [spec.kind for spec in divided.graph_signature.output_specs]
    assert kinds.count(OutputKind.BUFFER_MUTATION) == 3 and kinds.count(OutputKind.USER_OUTPUT) == 2
    wanted = twin(x)
    for each in (program, divided):
        module = copy.deepcopy(each).module()
        found = module(x)
        torch.testing.assert_close(found["out"], wanted["out"])
        assert found["n"] == 8 and module.bn.num_batches_tracked == 1
        torch.testing.assert_close(module.bn.running_var, twin.bn.running_var)
    assert model.bn.num_batches_tracked == 0


def test_the_state_of_the_module_is_the_programs() -> None:
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(()), persistent=False)
            self.register_buffer("kept", torch.zeros(()))
            self.weight, self.plain = nn.Parameter(torch.ones(2)), torch.ones(2)

        def forward(self, x):
            self.seen.add_(1)
            return x * self.weight + self.seen + self.kept + self.plain

    program = export(Counts(), (torch.ones(2),))
    for each in (program, program.run_decompositions()):
        assert sorted(each.module().state_dict()) == sorted(each.state_dict) == ["kept", "weight"]


def test_gradients_reach_the_parameters_of_the_module() -> None:
    model = nn.Linear(2, 1)
    module = export(model, (torch.ones(1, 2),)).module()
    module(torch.ones(1, 2)).sum().backward()
    assert torch.equal(model.weight.grad, torch.ones(1, 2))
    with pytest.raises(NotImplementedError):
        module.eval()


@dataclasses.dataclass
class Pair:
    a: Any
    b: Any


def test_data_classes_are_inputs_and_results() -> None:
    class Swap(nn.Module):
        def forward(self, pair):
            return Pair(pair.b, pair.a + 1)

    torch.export.register_dataclass(Pair)
    made = export(Swap(), (Pair(torch.zeros(2), torch.ones(3)),)).module()(Pair(torch.zeros(2), torch.ones(3)))
    assert isinstance(made, Pair) and made.a.shape == (3,) and torch.equal(made.b, torch.ones(2))


def test_generators_are_no_constants_of_programs() -> None:
    generator = torch.Generator()

    class Draws(nn.Module):
        def forward(self, x):
            return x + torch.rand(2, generator=generator)

    with pytest.raises(NotImplementedError, match="generator"):
        export(Draws(), (torch.ones(2),))


def test_what_cannot_be_exported_says_so() -> None:
    with pytest.raises(ValueError, match="instance of `torch.nn.Module`"):
        export(lambda x: x, (torch.ones(1),))  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="tuple of example positional inputs"):
        export(nn.ReLU(), torch.ones(1))
    with pytest.raises(RuntimeError, match="mismatch between the structure"):
        export(Joined(), (torch.ones(1), torch.ones(1)), dynamic_shapes=({0: Dim("a")},))
    with pytest.raises(RuntimeError, match="module"):
        export(nn.ReLU(), (torch.ones(1),))(torch.ones(1))


# ---- drafts
class Fixed(nn.Module):
    def forward(self, x, y):
        return x + y if x.shape[0] == 4 else x


def test_drafts_take_sizes_as_the_program_needs_them_and_say_so() -> None:
    inputs, n = (torch.ones(4, 2), torch.ones(4, 2)), Dim("n")
    with pytest.raises(RuntimeError):
        export(Fixed(), inputs, dynamic_shapes=({0: n, 1: Dim("m")}, {0: n, 1: None}))
    draft = torch.export.draft_export(Fixed(), inputs, dynamic_shapes=({0: n, 1: Dim("m")}, {0: n, 1: None}))
    assert not draft._report.successful() and "GUARD_ADDED" in str(draft._report) and not draft.range_constraints
    assert torch.equal(draft.module()(*inputs), torch.full((4, 2), 2.0))
    whole = torch.export.draft_export(nn.ReLU(), (torch.ones(3),), dynamic_shapes=({0: n},))
    assert whole._report.successful() and str(whole.range_constraints) == "{s0: VR[0, int_oo]}"
    with pytest.raises(RuntimeError):
        torch.export.draft_export(nn.ReLU(), torch.ones(1))  # type: ignore[arg-type]


# ---- what depends on values
class Selecting(nn.Module):
    def forward(self, x, n):
        k = n.item()
        torch._check(k >= 0)
        places = (x > 0).nonzero()
        return torch.zeros(k + 1, 2) + x.sum(), x[x > 0], places, places.shape[0] * 2, x.masked_select(x > 1).sum(), x[x.sum(1) > 0]


def test_sizes_may_depend_on_values() -> None:
    model = Selecting()
    program = export(model, (torch.randn(3, 4), torch.tensor(4)), dynamic_shapes=({0: Dim("n")}, None))
    assert str(program.range_constraints).startswith("{s0: VR[0, int_oo], u0: VR[0, int_oo]")
    for rows, n in ((3, 4), (5, 0)):
        inputs = (torch.randn(rows, 4), torch.tensor(n))
        for a, b in zip(model(*inputs), program.module()(*inputs), strict=True):
            assert a == b if isinstance(a, int) else torch.equal(a, b)


class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.largest = nn.EmbeddingBag(7, 3), nn.EmbeddingBag(7, 3, mode="max")

    def forward(self, x, n):
        return self.mean(x), self.largest(x), torch.arange(n) + 0


def test_operations_whose_parts_depend_on_values_stay_whole() -> None:
    model = Bags()
    program = export(model, (torch.randint(0, 7, (2, 4)), torch.tensor(5)), dynamic_shapes=({0: Dim("n")}, None))
    inputs = (torch.randint(0, 7, (5, 4)), torch.tensor(3))
    for each in (program, program.run_decompositions()):
        agree(model, each.module(), inputs)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.last = torch.zeros(2)

    def forward(self, x):
        self.calls = self.calls + 1
        self.last = x * 2
        return x + self.calls


def test_buffers_that_are_set_are_written_and_other_attributes_are_warned_of() -> None:
    model = Counting()
    with pytest.warns(UserWarning, match="self.last was assigned during export"):
        program = export(model, (torch.ones(2),))
    assert model.calls == 0 and torch.equal(model.last, torch.zeros(2))
    for each in (program, program.run_decompositions()):
        module = copy.deepcopy(each).module()
        assert torch.equal(module(torch.ones(2)), torch.full((2,), 2.0)) and torch.equal(module(torch.ones(2)), torch.full((2,), 3.0))


def test_casts_of_autocast_are_operations_of_the_program() -> None:
    class Cast(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x):
            with torch.autocast("cpu", torch.bfloat16):
                return self.linear(x)

    model = Cast()
    program = export(model, (torch.ones(1, 2),))
    assert "torch.ops.aten.to.dtype" in program.graph_module.code
    agree(model, program.module(), (torch.randn(1, 2),))


class _Keywords(nn.Module):
    def forward(self, x: Any, *, y: Any, z: Any) -> Any:
        return x + 1, y * 2, z * 3


def test_keywords_may_be_given_in_another_order_than_the_signature_has() -> None:
    """Placeholders have the call's order, shapes in a tuple the signature's; both were checked with PyTorch 2.13."""
    given = {"z": torch.ones(5), "y": torch.ones(7)}
    for shapes in ((None, {0: Dim("n")}, None), {"x": None, "y": {0: Dim("n")}, "z": None}):
        program = export(_Keywords(), (torch.ones(3),), given, dynamic_shapes=shapes)
        assert program.graph_signature.user_inputs == ("x", "z", "y")
        for arguments in ({"y": torch.ones(9), "z": torch.ones(5)}, {"z": torch.ones(5), "y": torch.ones(4)}):
            _, y, z = program.module()(torch.ones(3), **arguments)
            assert y.tolist() == [2.0] * len(arguments["y"]) and z.tolist() == [3.0] * 5


def test_dimensions_count_from_the_end_too_and_must_be_there() -> None:
    program = export(nn.ReLU(), (torch.ones(3, 4),), dynamic_shapes=({-1: Dim("n")},))
    assert program.module()(torch.ones(3, 6)).shape == (3, 6)
    with pytest.raises(IndexError, match="dimension 7"):
        export(nn.ReLU(), (torch.ones(3, 4),), dynamic_shapes=({7: Dim("n")},))


class _Called(nn.Module):
    def __init__(self, function: Any):
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def test_arguments_of_any_number_have_names_of_their_own() -> None:
    x, y, z = torch.ones(2), torch.full((2,), 3.0), torch.full((2,), 5.0)
    program = export(_Called(lambda x, y, *, z: x - y * z), (x, y), {"z": z})
    assert torch.equal(program.module()(x, y, z=z), x - y * z)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i: torch.nonzero_static(x, size=4),
        lambda x, i: x.repeat_interleave(i, 0),
        lambda x, i: x.repeat_interleave(i, 0, output_size=3),
        lambda x, i: torch.repeat_interleave(i),
        lambda x, i: torch.repeat_interleave(i, output_size=3),
        lambda x, i: torch.segment_reduce(x, "max", lengths=i),
        lambda x, i: x.unique(return_counts=True),
        lambda x, i: x.unique_consecutive(return_counts=True),
        lambda x, i: torch.bincount(i, minlength=5),
        lambda x, i: torch.argwhere(x),
        lambda x, i: torch.squeeze(x[None], ()),
    ],
)
def test_nothing_of_the_examples_values_is_left_in_programs(function: Any) -> None:
    program = export(_Called(function), (torch.tensor([0.0, 2.0, 2.0]), torch.tensor([0, 2, 1])))
    for each in (program, program.run_decompositions()):
        for given in ((torch.tensor([0.0, 2.0, 2.0]), torch.tensor([0, 2, 1])), (torch.tensor([3.0, 1.0, 0.0]), torch.tensor([2, 1, 0]))):
            agree(_Called(function), each.module(), given)


def test_what_needs_values_says_so() -> None:
    x, i = torch.arange(5.0), torch.tensor([1, 3])
    with pytest.raises(torch._dynamo.exc.UserError, match="data-dependent"):
        export(_Called(torch.tensor_split), (x, i))
    with pytest.raises(NotImplementedError, match="max_norm"):
        export(_Called(lambda i, table: nn.functional.embedding(i, table, max_norm=1.0)), (i, torch.ones(4, 2)))


class _Beside(nn.Module):
    def forward(self, a: Any, b: Any, c: Any) -> Any:
        return torch.cat([a, b]) + c


@pytest.mark.parametrize("kind", [Dim.AUTO, Dim.DYNAMIC])
def test_sizes_may_be_sums_of_others(kind: Any) -> None:
    x = torch.ones
    program = export(_Beside(), (x(3), x(4), x(7)), dynamic_shapes=({0: kind},) * 3)
    assert str(program.graph.find_nodes(op="placeholder")[2].meta["val"].shape[0]) == "s0 + s1"
    file = io.BytesIO()
    save(program, file)
    for each in (program, program.run_decompositions(), load(io.BytesIO(file.getvalue()))):
        agree(_Beside(), each.module(), (x(2), x(6), x(8)))
        with pytest.raises(AssertionError, match=r"Guard failed: c.size\(\)\[0\] == a.size\(\)\[0\] \+ b.size\(\)\[0\]"):
            each.module()(x(2), x(6), x(9))
    named = export(_Beside(), (x(3), x(4), x(7)), dynamic_shapes=({0: Dim("n")}, {0: kind}, {0: kind}))
    agree(_Beside(), named.module(), (x(2), x(6), x(8)))
    with pytest.raises(torch._dynamo.exc.UserError, match=r"related to the values of a and b by c = a \+ b"):
        export(_Beside(), (x(3), x(4), x(7)), dynamic_shapes=({0: Dim("a")}, {0: Dim("b")}, {0: Dim("c")}))


def test_sums_of_sizes_may_be_compared() -> None:
    def chosen(a: Any, b: Any, c: Any) -> Any:
        return a + 1 if a.shape[0] + 2 * b.shape[0] == c.shape[0] + 1 else a * 2

    x = torch.ones
    program = export(_Called(chosen), (x(3), x(4), x(10)), dynamic_shapes=(({0: Dim.AUTO},) * 3,))
    agree(_Called(chosen), program.module(), (x(5), x(2), x(8)))


class _Cached(nn.Module):
    def forward(self, q: Any, mask: Any, past: Any) -> Any:
        k, v = (torch.cat([each, q], 1) for each in past)
        return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, :] > 0), k, v


def test_masks_beside_caches_of_keys() -> None:
    def inputs(b: int, t: int, p: int) -> Any:
        return torch.randn(b, t, 4), torch.ones(b, t + p), (torch.randn(b, p, 4), torch.randn(b, p, 4))

    dims = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    program = export(_Cached(), inputs(2, 3, 5), dynamic_shapes=(dims, dims, (dims, dims)))
    assert len(program.range_constraints) == 3
    for given in (inputs(4, 2, 7), inputs(3, 6, 4)):
        agree(_Cached(), program.module(), given)
