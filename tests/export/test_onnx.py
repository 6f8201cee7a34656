"""``torch.onnx``: models that the checker accepts, and onnxruntime runs with the modules' results at other batch sizes."""

from __future__ import annotations

import functools
import io
import logging
import os
import warnings
from collections.abc import Callable
from typing import Any

import exported_operations
import pytest
from export_models import GPT, KINDS, dynamic_shapes

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.export import Dim
from flambeau.utils._pytree import tree_leaves

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def checked(program: Any) -> Any:
    onnx.checker.check_model(program.model_proto, full_check=True)
    return program


def agree(model: Any, program: Any, inputs: tuple[Any, ...]) -> None:
    with torch.no_grad():
        wanted = [leaf for leaf in tree_leaves(model(*inputs)) if isinstance(leaf, torch.Tensor)]
    found = program(*inputs)
    assert len(wanted) == len(found)
    for a, b in zip(wanted, found, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5, check_stride=False)


@pytest.mark.parametrize("name", KINDS)
def test_models_run_at_other_batch_sizes(name: str) -> None:
    torch.manual_seed(0)
    kind = KINDS[name]
    model = kind.make().eval()
    program = checked(torch.onnx.export(model, kind.inputs(3), dynamic_shapes=dynamic_shapes(kind), opset_version=18))
    for batch in (5, 2):
        agree(model, program, kind.inputs(batch))


@pytest.mark.parametrize("opset", [20, 23])
def test_later_operator_sets(opset: int) -> None:
    kind = KINDS["transformer"]
    model = kind.make().eval()
    program = checked(torch.onnx.export(model, kind.inputs(3), dynamic_shapes=dynamic_shapes(kind), opset_version=opset))
    assert program.model_proto.opset_import[0].version == opset and "Gelu" in {node.op_type for node in program.model_proto.graph.node}
    agree(model, program, kind.inputs(2))


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small"])
def test_vision_models_run(name: str) -> None:
    from flambeau.vision import models

    torch.manual_seed(0)
    model = getattr(models, name)(weights=None, num_classes=4).eval()
    program = checked(torch.onnx.export(model, (torch.randn(2, 3, 32, 32),), dynamic_shapes=({0: Dim("batch")},)))
    agree(model, program, (torch.randn(3, 3, 32, 32),))


def test_lengths_may_be_symbolic_too() -> None:
    model = GPT().eval()
    shapes = ({0: Dim("batch"), 1: Dim("length", max=16)},)
    program = checked(torch.onnx.export(model, (torch.randint(0, 13, (2, 7)),), dynamic_shapes=shapes))
    for size in ((1, 16), (3, 4)):
        agree(model, program, (torch.randint(0, 13, size),))
    assert [dim.dim_param for dim in program.model_proto.graph.input[0].type.tensor_type.shape.dim] == ["batch", "length"]


# ---- rows
def _called(module: Any, name: str, x: Any) -> Any:
    return getattr(module, name)(x)


def _rows() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    torch.manual_seed(0)
    x, y, i = torch.randn(3, 4), torch.rand(3, 4) + 0.5, torch.randint(0, 3, (5,))
    image = torch.randn(3, 4, 6, 6)
    unary = (
        "abs acos asin atan ceil cos cosh erf exp expm1 floor log log1p log2 log10 neg reciprocal relu round rsqrt sigmoid sign sin sinh "
        "sqrt square tan tanh trunc isnan logical_not"
    ).split()
    found: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        name: (functools.partial(_called, torch, name), (torch.rand(3, 4) * 0.9 + 0.05,)) for name in unary
    }
    activations = (
        "celu elu gelu hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu6 selu silu softplus softshrink hardshrink".split()
    )
    found |= {name: (functools.partial(_called, F, name), (x,)) for name in activations}
    found |= {
        "binary": (lambda x, y: (x + y, x - 2 * y, 1 - x, x * y, x / y, y**x, y**2, torch.maximum(x, y), torch.fmod(x, y)), (x, y)),
        "rounded": (lambda x, y: (x // y, x % y, torch.div(x, y, rounding_mode="trunc"), torch.div(x, y, rounding_mode="floor")), (x, y)),
        "integers": (lambda i: (i // 2, i % 2, i * 3 - 1, i / 2, i.float(), i & 1, ~i, -i // 2), (i,)),
        "mixed": (
            lambda x, i: (x[:, :1] + i[:3, None], x > 0, x.long() == i[:3, None], (x > 0) + i[:3, None]),
            (x, torch.tensor([1, 0, 2])),
        ),
        "comparisons": (lambda x, y: (x < y, x <= y, x > 0.5, x >= y, x == y, x != y, (x > 0) & (y > 1), (x > 0) ^ (y > 1)), (x, y)),
        "where": (lambda x, y: (torch.where(x > 0, x, y), torch.where(x > 0, x, 0.0), x.masked_fill(y > 1, -1), x.clamp(-1, 0.5)), (x, y)),
        "reduced": (lambda x: (x.sum(), x.mean(1), x.amax(1, keepdim=True), x.prod(1), x.max(1), x.min(1).values, x.max(), x.any(1)), (x,)),
        "moments": (
            lambda x: (x.var(1), x.std(1, correction=0), x.var(), *torch.var_mean(x, dim=1), x.norm(dim=1), x.norm(1), x.all()),
            (x,),
        ),
        "along": (
            lambda x: (x.cumsum(1), x.softmax(1), x.log_softmax(1), x.logsumexp(1), x.argmax(1), x.argmin(), *x.topk(2), *x.sort(1)),
            (x,),
        ),
        "shapes": (
            lambda x: (x.t(), x.unsqueeze(1).squeeze(1), x.flatten(), x.view(x.size(0), 2, 2).permute(2, 0, 1), x[None].expand(2, -1, -1)),
            (x,),
        ),
        "parts": (
            lambda x: (x[1:], x[:, ::2], x[-1], x.narrow(1, 1, 2), *x.split(2, 1), *x.chunk(2, 1), *x.unbind(1), x.flip(1), x.roll(1, 1)),
            (x,),
        ),
        "joined": (
            lambda x: (torch.cat([x, x], 1), torch.stack([x, x]), x.repeat(2, 3), F.pad(x, (1, 2)), x.tril(), torch.triu(x, 1)),
            (x,),
        ),
        "padded": (
            lambda z: (F.pad(z, (1, 1, 2, 0), mode="reflect"), F.pad(z, (1, 1, 2, 0), mode="replicate"), F.pad(z, (1, 0), value=2.0)),
            (image,),
        ),
        "indexed": (
            lambda x, i: (x[i], x[i, i % 4], x[:, i % 4], x.index_select(0, i), x.gather(0, i[:4, None].expand(-1, 4) % 3)),
            (x, i),
        ),
        "scattered": (
            lambda x, i: (x.index_add(0, i, torch.ones(5, 4)), x.scatter_add(0, i[:, None].expand(-1, 4), torch.ones(5, 4))),
            (x, i),
        ),
        "put": (lambda x, i: (x.index_put((i,), torch.ones(4)), x.scatter(1, i[:3, None], 2.0), x.index_copy(0, i[:1], x[:1])), (x, i)),
        "one hot": (lambda i: F.one_hot(i, 4), (i,)),
        "made": (
            lambda x: (torch.arange(x.size(0)), x.new_zeros(2, x.size(0)), torch.full_like(x, 2.0), torch.eye(3), torch.ones(x.shape)),
            (x,),
        ),
        "products": (
            lambda x, y: (x @ y.t(), torch.bmm(x[None], y.t()[None]), torch.addmm(x, x @ x.t(), y), torch.einsum("ij,kj->ik", x, y)),
            (x, y),
        ),
        "normalized": (
            lambda z: (F.layer_norm(z, (6, 6)), F.group_norm(z, 2), F.instance_norm(z), F.normalize(z, dim=1), F.rms_norm(z, (6,))),
            (image,),
        ),
        "pooled": (
            lambda z: (
                F.max_pool2d(z, 3, 2, 1),
                F.avg_pool2d(z, 2, ceil_mode=True),
                F.adaptive_avg_pool2d(z, 3),
                F.adaptive_max_pool2d(z, 1),
            ),
            (image,),
        ),
        "resampled": (
            lambda z: (F.interpolate(z, scale_factor=2), F.interpolate(z, size=(9, 5), mode="bilinear", align_corners=True)),
            (image,),
        ),
        "cubic": (lambda z: F.interpolate(z, scale_factor=2, mode="bicubic"), (image,)),
        "shuffled": (lambda z: (F.pixel_shuffle(z, 2), F.pixel_unshuffle(z, 2), F.channel_shuffle(z, 2)), (image,)),
        "sampled": (lambda z, g: F.grid_sample(z, g, align_corners=False), (image, torch.rand(3, 5, 5, 2) * 2 - 1)),
        "attention": (
            lambda z: (
                F.scaled_dot_product_attention(z, z, z, is_causal=True),
                F.scaled_dot_product_attention(z, z, z, z[0, 0] > 0),
                F.scaled_dot_product_attention(z, z, z, torch.arange(6)[:, None] > torch.arange(6)),
            ),
            (image,),
        ),
        "losses": (
            lambda x, y, i: (F.mse_loss(x, y), F.l1_loss(x, y, reduction="sum"), F.cross_entropy(x, i[:3]), F.nll_loss(x, i[:3])),
            (x, y, i),
        ),
        "more losses": (
            lambda x, y: (F.binary_cross_entropy_with_logits(x, (y > 1).float()), F.smooth_l1_loss(x, y), F.huber_loss(x, y, delta=0.5)),
            (x, y),
        ),
        "sizes": (lambda x: (x * x.size(0), x.view(-1)[: x.size(0) // 2 + 1], x.sum() / x.size(0), torch.zeros(x.size(0) % 2 + 1)), (x,)),
        "written": (lambda x: _written(x), (x,)),
        "rarer functions": (
            lambda x, y: (torch.atan2(x, y), torch.xlogy(y, y), (y / 2).logit(1e-3), x.frac(), (x / 0).nan_to_num()),
            (x, y),
        ),
        "picked": (lambda x: (x[x > 0], x.masked_select(x > 1), x.unfold(1, 2, 1), x.take(torch.tensor([1, 5])), x.count_nonzero()), (x,)),
        "differences": (lambda x: (x.diff(dim=0), x.diff(2), (x > 0).diff(), x.diff(prepend=x[:, :1])), (x,)),
        "grouped queries": (
            lambda z: F.scaled_dot_product_attention(z, z[:, :2], z[:, 2:], enable_gqa=True),
            (image,),
        ),
        "uneven pooling": (lambda z: (F.adaptive_avg_pool2d(z, 4), *F.max_pool2d(z, 2, return_indices=True)), (image,)),
        "soft losses": (lambda x, y: (F.cross_entropy(x, y), F.kl_div(x, y, reduction="sum"), F.soft_margin_loss(x, y.sign())), (x, y)),
        "statistics of the batch": (lambda z: F.batch_norm(z, None, None, None, None, True), (image,)),
        "exact": (lambda z: F.interpolate(z, size=(5, 9), mode="nearest-exact"), (image,)),
        "activations with weights": (lambda z: (F.prelu(z, torch.full((4,), 0.2)), F.glu(z, 1), F.threshold(z, 0.1, 3.0)), (image,)),
    }
    return found


def _written(x: Any) -> Any:
    y = x.clone()
    y[:, 0] = 1
    y[1:].mul_(2)
    y += x
    return y


ROWS = _rows()


@pytest.mark.parametrize("name", ROWS)
def test_rows_give_what_operations_give(name: str) -> None:
    function, inputs = ROWS[name]

    class Model(nn.Module):
        def forward(self, *args):
            return function(*args)

    program = checked(torch.onnx.export(Model(), inputs, opset_version=18))
    agree(Model(), program, inputs)


RECURRENT = [(kind, layers, both) for kind in ("LSTM", "GRU", "RNN") for layers, both in ((1, False), (2, True))]


@pytest.mark.parametrize(("kind", "layers", "both"), RECURRENT)
def test_recurrent_layers(kind: str, layers: int, both: bool) -> None:
    model = getattr(nn, kind)(3, 4, layers, bidirectional=both)
    program = checked(torch.onnx.export(model, (torch.randn(5, 2, 3),), dynamic_shapes=({1: Dim("batch")}, None)[:1]))
    agree(model, program, (torch.randn(5, 3, 3),))


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        double = x * 2
        y = torch.cond(x.sum() > 0, lambda x: self.linear(x) + double, lambda x: x.cos() + x.shape[0], (x,))
        return torch.while_loop(lambda i, y: i < x.shape[0], lambda i, y: (i + 1, y * 2 + self.linear.bias), (torch.tensor(0), y))[1]


def test_branches_and_loops_are_graphs_in_the_model() -> None:
    torch.manual_seed(0)
    model = Flow()
    program = checked(torch.onnx.export(model, (torch.randn(3, 4),), dynamic_shapes=({0: Dim("n")},)))
    assert {"If", "Loop"} <= {node.op_type for node in program.model_proto.graph.node}
    for x in (torch.ones(2, 4), -torch.ones(5, 4)):
        agree(model, program, (x,))


# ---- how it is called
def net() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(72, 5))


def test_the_old_call_writes_a_file_with_names_and_axes(tmp_path: Any) -> None:
    model, path = net().train(), tmp_path / "net.onnx"
    axes = {"image": {0: "batch"}, "scores": [0]}
    done = torch.onnx.export(
        model,
        torch.rand(1, 1, 8, 8),
        path,
        dynamo=False,
        input_names=["image"],
        output_names=["scores"],
        dynamic_axes=axes,
        opset_version=18,
    )
    assert done is None and model.training and not torch.onnx.is_in_onnx_export() and os.listdir(tmp_path) == ["net.onnx"]
    graph = onnx.load(path).graph
    assert graph.input[0].name == "image" and graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert graph.output[0].name == "scores" and graph.output[0].type.tensor_type.shape.dim[0].dim_param == "scores_dynamic_axes_1"
    assert "image" in onnx.printer.to_text(graph)


def test_files_may_be_open_and_parameters_beside_them(tmp_path: Any) -> None:
    x = torch.rand(1, 1, 8, 8)
    file = io.BytesIO()
    torch.onnx.export(net(), (x,), file, dynamo=False)
    onnx.checker.check_model(onnx.load_from_string(file.getvalue()), full_check=True)
    program = torch.onnx.export(net(), (x,), tmp_path / "net.onnx")
    assert sorted(os.listdir(tmp_path)) == ["net.onnx", "net.onnx.data"]
    onnx.checker.check_model(onnx.load(tmp_path / "net.onnx"))
    program.save(tmp_path / "whole.onnx")
    assert not (tmp_path / "whole.onnx.data").exists()


def test_parameters_may_be_inputs() -> None:
    x = torch.rand(1, 1, 8, 8)
    without = torch.onnx.export(net(), (x,), export_params=False).model_proto.graph
    agree(net().eval(), torch.onnx.export(net(), (x,), export_params=False, verify=True), (x,))
    assert "5.weight" in [value.name for value in without.input] and "5.weight" not in [tensor.name for tensor in without.initializer]
    file = io.BytesIO()
    torch.onnx.export(net(), (x,), file, keep_initializers_as_inputs=True)
    both = onnx.load_from_string(file.getvalue()).graph
    assert "5.weight" in [value.name for value in both.input] and "5.weight" in [tensor.name for tensor in both.initializer]


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.value, self.scale = nn.Linear(4, 2), nn.Parameter(torch.tensor(2.0))

    def forward(self, parts, times, *, y, z):
        return self.value(parts[0] + parts[1]) * self.scale * times + 0.125, y - z


def test_names_of_sizes_find_their_inputs_among_structures_and_numbers() -> None:
    x, y = torch.ones(3, 4), torch.ones(5, 2)
    given = {"z": y * 2, "y": y}
    by_name = {"z": {0: "n"}, "y": {0: "n"}, "times": None, "parts": [{0: "batch"}, {0: "batch"}]}
    for options in (
        {"dynamic_shapes": by_name},
        {"dynamic_axes": {"parts_0": {0: "batch"}, "parts_1": {0: "batch"}, "y": {0: "n"}, "z": {0: "n"}}},
        {"input_names": ["a", "b", "z", "y"], "dynamic_axes": {"a": {0: "batch"}, "b": {0: "batch"}, "y": {0: "n"}, "z": {0: "n"}}},
    ):
        program = checked(torch.onnx.export(Both(), ([x, x], 3), kwargs=given, **options))  # type: ignore[arg-type]
        sizes = [item.type.tensor_type.shape.dim[0].dim_param for item in program.model_proto.graph.input]
        assert sizes == ["batch", "batch", "n", "n"]
        for arguments in (given, dict(reversed(given.items()))):  # as keywords, in any order
            assert program([x, x], 3, **arguments)[1].tolist() == (y - y * 2).tolist()
    with pytest.raises(RuntimeError, match="names 'yy'"):
        torch.onnx.export(Both(), ([x, x], 3), kwargs=given, dynamic_axes={"yy": {0: "n"}})


def test_expressions_of_sizes_have_the_names_of_all_sizes() -> None:
    class Joined(nn.Module):
        def forward(self, *parts):
            return torch.cat([parts[1], parts[11]])

    shapes = {"parts": tuple({0: f"s{20 - k}"} for k in range(12))}
    program = torch.onnx.export(Joined(), tuple(torch.ones(3 + k) for k in range(12)), dynamic_shapes=shapes)
    sum_of_sizes = program.model_proto.graph.output[0].type.tensor_type.shape.dim[0]
    assert sum_of_sizes.dim_param == "s19 + s9"
    program.rename_axes({"s9": "first", "s1": "other"})
    assert sum_of_sizes.dim_param == "s19 + first"


def test_a_size_may_be_an_input() -> None:
    class Times(nn.Module):
        def forward(self, x, n):
            return x * n

    program = checked(torch.onnx.export(Times(), (torch.ones(2), 3), dynamic_shapes=(None, Dim.DYNAMIC)))
    assert program(torch.ones(2), 7)[0].tolist() == [7.0, 7.0]


def test_parameters_keep_their_names_and_shapes_whatever_they_are_called() -> None:
    x = torch.rand(3, 4)
    y, model = x[0, 0], Both()
    file = io.BytesIO()
    torch.onnx.export(model, ([x, x], 3), file, kwargs={"y": y, "z": y}, keep_initializers_as_inputs=True)
    names = [item.name for item in onnx.load_from_string(file.getvalue()).graph.input]
    assert sorted(names) == ["parts_0", "parts_1", "scale", "value.bias", "value.weight", "y", "z"]
    program = torch.onnx.export(model, ([x, x], 3), kwargs={"y": y, "z": y})
    model.scale.data.fill_(5.0)
    program.apply_weights(model.state_dict())
    assert [list(each.dims) for each in program.model_proto.graph.initializer if each.name == "scale"] == [[]]
    torch.testing.assert_close(program([x, x], 3, y=y, z=y)[0], model([x, x], 3, y=y, z=y)[0].detach(), check_stride=False)


@pytest.mark.parametrize("size", [(), (0,), (0, 3), (1,)])
def test_inputs_without_dimensions_or_elements(size: tuple[int, ...]) -> None:
    class Shapes(nn.Module):
        def forward(self, x):
            joined = torch.cat([x.flatten(), x.flatten()])
            picked = (x.index_select(-1, torch.arange(x.numel() and 1)), x[x > 0], x.scatter(-1, torch.zeros(size, dtype=torch.int64), 2.0))
            along = (x.cumsum(-1), x.softmax(-1), x.logsumexp(-1), *x.sort(-1), x.argsort(-1), x.flip(-1), x.any(-1), x.all(-1))
            extremes = (*x.max(-1), x.argmin(-1), *x.topk(1)) if x.numel() else ()
            return x.sum(), x.any(), x.all(), x.reshape(-1), x[None], joined, *picked, *along, *extremes, F.one_hot(x.long(), 4)

    program = checked(torch.onnx.export(Shapes(), (torch.ones(size),)))
    agree(Shapes(), program, (torch.ones(size),))


def test_what_depends_on_constants_is_computed_once() -> None:
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.mask = torch.ones(3, 3)

        def forward(self, x):
            return x + torch.tril(self.mask) * 2

    kinds = [
        [node.op_type for node in torch.onnx.export(Masked(), (torch.ones(3, 3),), do_constant_folding=fold).model_proto.graph.node]
        for fold in (True, False)
    ]
    assert kinds[0] == ["Add"] and "Trilu" in kinds[1]
    torch.onnx.export(Masked(), (torch.ones(3, 3),)).optimize()
    program = torch.onnx.export(Masked(), (torch.ones(3, 3),), optimize=False)
    program.optimize()
    assert [node.op_type for node in program.model_proto.graph.node] == ["Add"]
    with pytest.raises(NotImplementedError, match="optimize"):
        torch.onnx.ONNXProgram(program.model_proto).optimize()


def test_other_weights_may_be_put_in() -> None:
    model, other = nn.Linear(2, 3), nn.Linear(2, 3)
    program = torch.onnx.export(model, (torch.ones(4, 2),), verify=True)
    program.apply_weights(other.state_dict())
    agree(other, program, (torch.rand(4, 2),))
    found = program.call_reference(torch.ones(4, 2))
    torch.testing.assert_close(found[0], other(torch.ones(4, 2)).detach(), check_stride=False)


def test_weights_that_were_put_in_stay_when_the_model_is_optimized(monkeypatch):
    class Scaled(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.weight = nn.Parameter(torch.full((2, 2), size))

        def forward(self, x):
            return x @ (self.weight * 2)

    rows = {"x": {0: torch.export.Dim("rows")}}
    program = torch.onnx.export(Scaled(1.0), (torch.ones(4, 2),), dynamic_shapes=rows, dynamo=True, optimize=False)
    program.rename_axes({"rows": "batch"})
    program.apply_weights(Scaled(5.0).state_dict())
    program.optimize()
    assert [node.op_type for node in program.model_proto.graph.node] == ["MatMul"]
    assert program.model_proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    agree(Scaled(5.0), program, (torch.rand(4, 2),))
    said = []
    monkeypatch.setattr(logging.getLogger("flambeau.onnx.program"), "warning", lambda text, *args: said.append(text % args))
    program.apply_weights(Scaled(7.0).state_dict())
    assert said == ["Weight 'weight' not found in the model. Skipped applying."]


def test_what_is_not_supported_says_so() -> None:
    x = torch.ones(2, 2)

    class Odd(nn.Module):
        def forward(self, x):
            return torch.linalg.eigvals(x).real

    with pytest.raises(torch.onnx.OnnxExporterError):
        torch.onnx.export(Odd(), (x,))
    for layer in (nn.Dropout2d(), nn.AlphaDropout()):
        with pytest.raises(torch.onnx.OnnxExporterError, match="in training"):
            torch.onnx.export(layer, (torch.ones(1, 2, 3, 3),), training=torch.onnx.TrainingMode.TRAINING)
        assert not torch.onnx.export(layer, (torch.ones(1, 2, 3, 3),)).model_proto.graph.node[0].op_type.endswith("Dropout")
    with pytest.warns(UserWarning, match="operator set version 18"):
        torch.onnx.export(nn.ReLU(), (x,), opset_version=11)
    for options in ({"profile": True}, {"export_modules_as_functions": True}, {"opset_version": 99}):
        with pytest.raises(NotImplementedError):
            torch.onnx.export(nn.ReLU(), (x,), **options)  # type: ignore[arg-type]
    program = torch.export.export(nn.ReLU(), (x,))
    for name, given in (("dynamic_shapes", ({0: "n"},)), ("dynamic_axes", {"input": [0]}), ("training", torch.onnx.TrainingMode.TRAINING)):
        with pytest.raises(NotImplementedError, match=name):
            torch.onnx.export(program, (x,), **{name: given})


def test_values_inside_of_a_model_and_reports(tmp_path: Any) -> None:
    x = torch.tensor([[-1.0, 2.0]])
    program = torch.onnx.export(nn.Sequential(nn.ReLU(), nn.Tanh()), (x,), report=True, artifacts_dir=tmp_path)
    relu, tanh = [node.output[0] for node in program.model_proto.graph.node]
    found = program.compute_values([relu, tanh], (x,))
    assert found[0].tolist() == [[0.0, 2.0]] and torch.allclose(found[1], found[0].tanh())
    with pytest.raises(torch.onnx.OnnxExporterError, match="no value"):
        program.compute_values(["nothing"], (x,))
    (report,) = tmp_path.iterdir()
    assert "- Relu: 1" in report.read_text()


def test_what_has_no_elements_needs_no_nodes() -> None:
    class Nothing(nn.Module):
        def forward(self, x: Any, y: Any, target: Any) -> Any:
            return torch.kron(x, y), F.cross_entropy(x, target, reduction="sum"), x[:, :1].sum().masked_scatter(target.sum() == 0, y)

    inputs = torch.ones(0, 3), torch.ones(2, 2), torch.zeros(0, dtype=torch.int64)
    agree(Nothing(), checked(torch.onnx.export(Nothing(), inputs)), inputs)


def test_padding_is_masked_in_encoders() -> None:
    layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = layers

        def forward(self, x: Any, padding: Any) -> Any:
            return self.layers(x, src_key_padding_mask=padding)

    b, n = torch.export.dims("b", "n", min=2)
    model = Encoder().eval()
    program = torch.onnx.export(model, (torch.randn(2, 5, 8), torch.zeros(2, 5, dtype=torch.bool)), dynamic_shapes=({0: b, 1: n},) * 2)
    with torch.enable_grad():  # without, the layers leave the padding out
        wanted = model(*(inputs := (torch.randn(3, 4, 8), torch.tensor([[False] * 4, [False] * 3 + [True], [False] * 2 + [True] * 2]))))
    torch.testing.assert_close(program(*inputs)[0], wanted.detach(), rtol=1e-4, atol=1e-5)


def test_programs_translate_operations_with_onnxscript() -> None:
    onnxscript = pytest.importorskip("onnxscript")
    op, own = onnxscript.opset18, onnxscript.values.Opset("own.domain", 1)

    def at_least_half(x: Any) -> Any:
        return op.Max(x, op.Constant(value_float=0.5)) * 2

    def wave(x: Any, weight: float = 1.0) -> Any:
        return op.Sin(x) + op.Cos(x) * weight

    wave.__globals__["op"] = op  # where onnxscript looks for it
    scripted = onnxscript.script(own)(wave)
    x = torch.tensor([[-1.0, 2.0]])
    table = {torch.ops.aten.relu.default: at_least_half, torch.ops.aten.tanh.default: [lambda x: scripted(x, weight=3.0)]}
    program = torch.onnx.export(nn.Sequential(nn.ReLU(), nn.Tanh()), (x,), custom_translation_table=table, opset_version=18)
    assert [node.op_type for node in program.model_proto.graph.node] == ["Max", "Mul", "wave"]
    doubled = x.clamp(min=0.5) * 2
    torch.testing.assert_close(program(x)[0], doubled.sin() + doubled.cos() * 3)
    for other in ({torch.ops.aten.relu.default: [at_least_half, wave]}, {torch.ops.aten.relu: at_least_half}, {torch.relu: at_least_half}):
        with pytest.raises(NotImplementedError, match="custom_translation_table"):
            torch.onnx.export(nn.ReLU(), (x,), custom_translation_table=other)


def test_programs_write_operations_of_their_own() -> None:
    library = torch.library.Library("onnx_test", "DEF")
    library.define("bent(Tensor x, float slope, int[] dims) -> Tensor")
    library.impl("bent", lambda x, slope, dims: torch.nn.functional.leaky_relu(x, slope).sum(dims), "CompositeExplicitAutograd")
    torch.library.register_fake("onnx_test::bent", lambda x, slope, dims: x.sum(dims), lib=library)

    def bent(g: Any, x: Any, slope: float, dims: list[int]) -> Any:
        halved = g.op("Mul", g.op("Constant", value_t=torch.tensor(1.0)), g.op("LeakyRelu", x, alpha_f=slope))
        return g.op("ReduceSum", halved, torch.tensor(dims), keepdims_i=0)

    class Bent(nn.Module):
        def forward(self, x):
            return torch.ops.onnx_test.bent(x, 0.25, [1]) + 1

    with pytest.raises(torch.onnx.errors.UnsupportedOperatorError, match="onnx_test::bent"):
        torch.onnx.export(Bent(), (torch.randn(3, 2),))
    torch.onnx.register_custom_op_symbolic("onnx_test::bent", bent, 19)
    try:
        program = checked(torch.onnx.export(Bent(), (torch.randn(3, 2),), dynamic_shapes=({0: Dim("n")},)))
        agree(Bent(), program, (torch.randn(5, 2),))
        with pytest.raises(torch.onnx.errors.UnsupportedOperatorError):
            torch.onnx.export(Bent(), (torch.randn(3, 2),), opset_version=18)
        torch.onnx.register_custom_op_symbolic("onnx_test::bent", lambda g, x, *rest: g.op("mine::Bend", x, modes_s=["a", "b"]), 19)
        model = torch.onnx.export(Bent(), (torch.randn(3, 2),), custom_opsets={"mine": 4}).model_proto
        assert model.graph.node[0].domain == "mine" and {each.domain: each.version for each in model.opset_import}["mine"] == 4
        torch.onnx.register_custom_op_symbolic("onnx_test::bent", lambda g, x, *rest: g.op("Relu", x, alpha=2), 19)
        with pytest.raises(ValueError, match="suffixed with type"):
            torch.onnx.export(Bent(), (torch.randn(3, 2),))
    finally:
        torch.onnx.unregister_custom_op_symbolic("onnx_test::bent", 19)
    for name, kind in (("a", torch.onnx.OnnxExporterError), ("onnx::Add", ValueError)):
        with pytest.raises(kind, match="Failed to register"):
            torch.onnx.register_custom_op_symbolic(name, bent, 18)


@pytest.mark.slow
def test_programs_give_the_same_numbers_in_onnxruntime() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = exported_operations.compare_onnx()
    assert not found["DIFFERENT"] and found["fails"] <= 8 and found["equal"] >= 410


# -- comparisons with the program, shapes as tensors ------------------------------------------------------------------------------------
def test_models_are_verified() -> None:
    from flambeau.onnx.verification import VerificationInfo, verify_onnx_program

    model, x = nn.Linear(3, 2), torch.ones(4, 3)
    program = torch.onnx.export(model, (x,), dynamo=True)
    (found,) = verify_onnx_program(program)
    assert found.max_abs_diff < 1e-5 and found.expected_dtype is found.actual_dtype is torch.float32
    assert verify_onnx_program(program, (torch.zeros(4, 3),))[0].abs_diff_hist[0].sum() == 8
    with pytest.raises(NotImplementedError, match="compare_intermediates"):
        verify_onnx_program(program, compare_intermediates=True)
    with pytest.raises(ValueError, match="no exported program"):
        verify_onnx_program(torch.onnx.ONNXProgram(program.model_proto))
    info = VerificationInfo.from_tensors("y", torch.tensor([1.0, 2.0, 0.0]), torch.tensor([1.1, 2.0, 1e-3]))
    assert info.abs_diff_hist[0].tolist() == [1, 0, 0, 0, 1, 0, 1, 0, 0] and info.rel_diff_hist[0].tolist() == [1, 0, 0, 0, 0, 0, 1, 0, 1]
    assert info.asdict()["expected_dtype"] == "torch.float32" and info.max_rel_diff == pytest.approx(1e4, rel=1e-3)
    assert VerificationInfo.from_tensors("y", True, False).max_abs_diff == 1
    pairs = torch.tensor([[1.0, 1.0], [2.0, -3.0]])
    assert VerificationInfo.from_tensors("y", torch.view_as_complex(pairs), pairs + 0.25).abs_diff_hist[0].sum() == 4
    assert VerificationInfo.from_tensors("y", torch.ones(0), torch.ones(0)).max_abs_diff == float("inf")


def test_shapes_are_tensors() -> None:
    from flambeau.onnx.operators import reshape_from_tensor_shape, shape_as_tensor

    x = torch.arange(6)
    assert shape_as_tensor(x.view(2, 3)).tolist() == [2, 3]
    assert torch.equal(reshape_from_tensor_shape(x, torch.tensor([3, 2])), x.view(3, 2))
    for shape in (torch.tensor([3.0, 2.0]), torch.tensor([[3, 2]]), torch.tensor(6)):
        with pytest.raises(RuntimeError, match="expected shape of shape"):
            reshape_from_tensor_shape(x, shape)
    with pytest.raises(TypeError, match="got list"):
        reshape_from_tensor_shape(x, [3, 2])
