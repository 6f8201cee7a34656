"""``torch.onnx.symbolic_helper``: what functions that programs register call, as public packages write them."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.onnx import symbolic_helper as helper
from flambeau.onnx.symbolic_helper import parse_args

onnx = pytest.importorskip("onnx")
SEEN: list[Any] = []


@parse_args("v", "i", "none")
def halved_softmax(g: Any, x: Any, dim: int, dtype: Any) -> Any:
    SEEN.append((helper._get_tensor_sizes(x), helper._get_tensor_rank(x), helper._get_tensor_dim_size(x, 1), x.type().scalarType()))
    SEEN.append((helper._is_value(x), helper._is_constant(x), helper._is_none(dtype), helper._is_fp(x), x.type().sizes(), x.type().dim()))
    assert helper._maybe_get_const(x, "t") is x and helper._maybe_get_scalar(x) is x
    with pytest.raises(torch.onnx.OnnxExporterError, match="constant value"):
        helper._get_const(x, "i", "x")
    first = helper._slice_helper(g, helper._unsqueeze_helper(g, x, [0]), axes=[1], starts=[0], ends=[2])
    flat = helper._reshape_helper(g, helper._squeeze_helper(g, first, [0]), [2, -1])
    total = helper._reducesum_helper(g, flat, axes_i=[1])
    total.setType(x.type().with_sizes([2, 1]))
    SEEN.append(helper._get_tensor_sizes(total))
    return g.op("Softmax", g.op("Div", x, helper._numel_helper(g, x)), axis_i=dim)


def test_functions_that_are_registered_read_their_arguments() -> None:
    SEEN.clear()
    torch.onnx.register_custom_op_symbolic("aten::softmax", halved_softmax, 18)
    try:
        shapes = ({0: torch.export.Dim("n")},)
        model = torch.onnx.export(nn.Softmax(1), (torch.ones(4, 3),), dynamic_shapes=shapes, opset_version=18).model_proto
    finally:
        torch.onnx.unregister_custom_op_symbolic("aten::softmax", 18)
    assert SEEN == [([None, 3], 2, 3, "Float"), (True, False, True, True, None, 2), [2, 1]]
    assert [node.op_type for node in model.graph.node] == ["Shape", "ReduceProd", "Div", "Softmax"]


def test_arguments_are_parsed_as_they_are_described() -> None:
    @parse_args("v", "i", "is", "f", "fs", "b", "s", "t", "none")
    def parsed(g: Any, *args: Any) -> Any:
        return args

    x = torch.ones(1)
    found = parsed(None, x, torch.tensor(2), (1, 2), 3, [1], 1, "w", 2.5, None)
    assert found[0] is x and found[1:7] == (2, [1, 2], 3.0, [1.0], True, "w") and torch.equal(found[7], torch.tensor(2.5))
    assert parsed(None, x, 1) == (x, 1)
    with pytest.raises(AssertionError, match="number of arguments"):
        parsed(None, *range(10))
    with pytest.raises(AssertionError, match="_outputs"):
        parsed(None, x, other=1)
    with pytest.raises(torch.onnx.OnnxExporterError, match="descriptor 'q'"):
        parse_args("q")(lambda g, x: x)(None, 1)


def test_what_cannot_be_exported_is_an_error() -> None:
    for call in (
        lambda: helper._unimplemented("aten::foo", "with weights"),
        lambda: helper._onnx_unsupported("aten::foo"),
        lambda: helper._onnx_opset_unsupported("foo", 9, 11),
        lambda: helper._onnx_opset_unsupported_detailed("foo", 9, 11, "because"),
    ):
        with pytest.raises(torch.onnx.OnnxExporterError, match="Unsupported: ONNX export of"):
            call()
    with pytest.raises(NotImplementedError, match="symbolic_helper.quantized_args"):
        helper.quantized_args(True)
    with pytest.warns(UserWarning, match="train=True"):
        helper.check_training_mode(True, "dropout")


def test_dtypes_have_their_names_and_numbers() -> None:
    assert helper.cast_pytorch_to_onnx["Float"] == 1 and helper.pytorch_name_to_type["Long"] is torch.int64
    assert [helper.scalar_type_to_pytorch_type[k] for k in (0, 6, 11)] == [torch.uint8, torch.float32, torch.bool]
    assert helper.scalar_type_to_onnx == [2, 3, 5, 6, 7, 10, 1, 11, 0, 14, 15, 9, 3, 2, 6, 16]
    assert helper._type_promote_from_values(torch.ones(1), torch.ones(1).double()) is torch.float64
