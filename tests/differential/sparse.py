"""Programs over tensors that are not strided: COO, the compressed layouts, hybrid, batched, empty, not coalesced; masked and nested ones.

Arithmetic, products, reductions, conversions, indexing, in-place forms, backward passes and printing. Values are small whole numbers, so
that sums are exact in any order. A program holds what PyTorch computes: that flambeau has operations for more layouts is no difference.
"""

from __future__ import annotations

import ast
import random
import re
import warnings
from typing import Any

import numpy as np
from oracle import pytorch

import flambeau

from .area import Area, Difference, Known, Run, agrees_in_float64, attempt, differ_little, variables
from .comparing import TOLERANCE, compare_results, compare_tensors, first_difference, is_close, values_of

NEAR = {**TOLERANCE, "float64": 1e-6, "complex128": 1e-6}  # it may have been float32 before
LENGTH = 9  # statements
MOST = 8  # tensors
COMPRESSED = ("csr", "csc", "bsr", "bsc")
# Without sizes of 0: PyTorch then looks at neither dtypes nor layouts. Tensors without specified elements are among these.
SHAPES = ((3, 4), (4, 3), (4, 4), (2, 6), (4, 4), (1, 4), (5,), (4, 4, 2), (2, 4, 4), (2, 2, 4, 4))
DTYPES = ("float32", "float32", "float64", "complex64", "int64", "bool", "float16")

UNARY = "neg abs sign relu sqrt sin tanh expm1 log1p floor ceil trunc round square isnan isinf signbit sgn erf asinh deg2rad conj real"
IN_PLACE = "neg_ zero_ abs_ sqrt_ sin_ relu_ tanh_ sign_ floor_"
WITH_ONE = (
    "{x}.to_dense()",
    "{x}.to_sparse()",
    "{x}.to_sparse({small})",
    "{x}.to_sparse_coo()",
    "{x}.to_sparse_csr()",
    "{x}.to_sparse_csc()",
    "{x}.to_sparse_bsr({block})",
    "{x}.to_sparse_bsc({block})",
    "{x}.to_sparse(layout=torch.sparse_{layout})",
    "{x}.coalesce()",
    "{x}.clone()",
    "{x}.detach()",
    "{x}.values()",
    "{x}._values()",
    "{x}.indices().clone()",
    "{x}.to(torch.{dtype})",
    "{x}.double()",
    "{x} * {number}",
    "{number} * {x}",
    "{x} / {number}",
    "{x} // {number}",
    "-{x}",
    "{x} ** 2",
    "torch.pow({x}, 2)",
    "{x}.sum()",
    "{x}.sum({dim})",
    "{x}.sum({dim}, keepdim=True)",
    "torch.sparse.sum({x})",
    "torch.sparse.sum({x}, {dim})",
    "torch.sparse.sum({x}, dtype=torch.float64)",
    "torch.sparse.softmax({x}, {dim})",
    "torch.sparse.log_softmax({x}, {dim})",
    "{x}.norm()",
    "{x}.transpose({dim}, {dim})",
    "{x}.t()",
    "{x}.mT",
    "{x}.permute({order})",
    "{x}.unsqueeze({dim})",
    "{x}.squeeze()",
    "{x}.squeeze({dim})",
    "{x}.select({dim}, {small})",
    "{x}[{small}]",
    "{x}[{small}:]",
    "{x}[..., {small}]",
    "{x}.narrow({dim}, {small}, {small})",
    "{x}.index_select({dim}, torch.tensor([{small}, 0, {small}]))",
    "{x}.flatten()",
    "{x}.any()",
    "{x}.isnan()",
    "{x}.mean()",
    "torch.zeros_like({x})",
    "torch.ones_like({x})",
    "torch.empty_like({x}).zero_()",
    "torch.cat([{x}, {x}], {dim})",
    "torch.stack([{x}, {x}])",
    "torch.hstack([{x}, {x}])",
    "{x}.resize_as_sparse_({x})",
    "{x}.unbind({dim})",
    "{x}.split({small}, {dim})",
    "{x}.chunk(2)",
    "{x}.softmax({dim})",
    "{x}.amax({dim})",
    "{x}.contiguous()",
    "{x}.nan_to_num()",
    "{x}.cumsum({dim})",
    "torch.triu({x})",
    "{x}.diagonal()",
)
QUESTIONS = (
    "str({x}.detach())",
    "repr({x}.detach())",
    "{x}.layout",
    "{x}.is_sparse",
    "{x}.is_sparse_csr",
    "{x}._nnz()",
    "{x}.is_coalesced()",
    "({x}.sparse_dim(), {x}.dense_dim())",
    "{x}.numel()",
    "{x}.is_nonzero()",
    "{x}.requires_grad",
    "{x}.grad_fn is None",
    "torch.is_same_size({x}, {y})",
    "torch.equal({x}, {y})",
    "torch.allclose({x}, {y})",
    "len({x})",
)
WITH_TWO = (
    "{x} + {y}",
    "{x} - {y}",
    "{x} * {y}",
    "{x} / {y}",
    "torch.add({x}, {y}, alpha={number})",
    "{x} @ {y}",
    "torch.mm({x}, {y})",
    "torch.bmm({x}, {y})",
    "torch.sparse.mm({x}, {y})",
    "torch.hspmm({x}, {y})",
    "torch.mv({x}, {y})",
    "torch.matmul({x}, {y}.transpose(-1, -2))",
    "{x} @ {y}.to_dense()",
    "{x}.to_dense() @ {y}",
    "torch.addmm({z}, {x}, {y})",
    "torch.addmm({z}, {x}, {y}, beta={number}, alpha={number})",
    "torch.sparse.addmm({z}, {x}, {y}, beta={number})",
    "torch.sspaddmm({z}, {x}, {y})",
    "torch.sparse.sampled_addmm({x}, {y}, {z})",
    "{x}.sparse_mask({y})",
    "{x}.to_dense().sparse_mask({y})",
    "{y}._to_sparse({x}.layout)",
    "torch.cat([{x}, {y}], {dim})",
    "torch.stack([{x}, {y}])",
    "torch.maximum({x}, {y})",
    "torch.where({x} > 0, {x}, {y})",
    "torch.dot({x}, {y})",
    "torch.nn.functional.embedding(torch.tensor([0, {small}]), {x}.to_dense(), sparse=True)",
)
IN_PLACE_TWO = (
    "{x}.add_({y})",
    "{x}.add_({y}, alpha={number})",
    "{x}.sub_({y})",
    "{x}.mul_({y})",
    "{x}.mul_({number})",
    "{x}.div_({number})",
    "{x} += {y}",
    "{x} *= {number}",
    "{x}.copy_({y})",
    "{x}.t_()",
    "{x}.transpose_({dim}, {dim})",
    "{x}.addmm_({y}, {z})",
    "{x}._coalesced_(True)",
    "{x}.values().mul_({number})",
    "{x}._values().zero_()",
    "{x}.sparse_resize_(({small}, 5), 2, 0)",
    "{x}.fill_(0)",
)
BACKWARD = (
    "torch.autograd.backward([{x}], [torch.ones_like({x})])",
    "{x}.sum().backward()",
    "torch.sparse.sum({x}).backward()",
    "{x}.to_dense().square().sum().backward()",
    "({x} * {number}).to_dense().sum().backward()",
    "({x} @ {y}).to_dense().sum().backward()",
    "({x} @ {y}).sum().backward()",
)

TRANSPOSED = r"(?s)masked_tensor.*(mT|transpose|\.t\(|permute)"


class Sparse(Area):
    """See the module."""

    known = (
        Known(
            "products look at sparse dimensions where nothing is specified, too",
            kind="^exception$",
            line=r"[*]|mul",
            ours="same number of sparse",
        ),
        Known(
            "values of a transposed nested tensor are in its own order",
            kind="values",
            line=r"\.values\(\)",
            program="nested(?s:.*)transpose",
        ),
        Known(
            "sums of COO tensors that are not coalesced keep every element of both, and products are coalesced",
            kind="coalesced|nnz",
            line=r"add|sub|[-+*]|mul|square|pow",
        ),
        Known("PyTorch's products of integers, in place, read what they have written", kind="^values$", line=r"\.addmm_\("),
        Known("PyTorch reads what it has written through a view", kind="^values$", line=r"[-+*]=", program="diagonal"),
        Known(
            "in place, sparse tensors get new values: what shares them keeps the old",
            kind="values|col_indices|row_indices|crow|ccol|nnz|shape|requires_grad",
            when=lambda found: writes(found.line) and not found.ours.startswith(f"{written(found.line)}:"),
        ),
        Known("to_sparse of masked tensors looks at its options", line=r"to_sparse\(.", ours="masked tensor|Only 2D tensors"),
        Known(
            "copy_ looks at the masks, as PyTorch's message says of its own",
            line="copy_",
            ours="mask must match|the places of the MaskedTensor|input1 and input2 must have the same size|expected a masked tensor",
        ),
        Known(
            "indices are looked at beside sizes, and sizes and layouts where nothing is specified",
            kind="^exception$",
            ours="size is inconsistent with indices|to have same sizes, but|operands of one layout",
            theirs="^no exception",
        ),
        Known("what is left of a program by shrinking", ours="<module|Module"),
        Known("PyTorch's gradients of softmaxes along a negative dimension are wrong", kind="^grad.*values", program=r"softmax\(.*-"),
        Known("gradients of COO tensors are coalesced where their places are", kind="^grad.*coalesced"),
        Known("in place, a product by a number keeps what is coalesced", kind="coalesced", line=r"mul_|div_|[*]="),
        Known(
            "in place, PyTorch does not look at dtypes and sizes where nothing is specified, nor at dtypes in compressed products",
            kind="exception",
            line=r"mul_|add_|sub_|\*=|\+=|-=",
            ours="can't be cast to the desired output type|alpha must not be a floating point number|output with shape",
            theirs="^no exception",
        ),
        Known("gradients of products of sparse matrices are at the factor's places", kind="^grad .*shape", program=r"mm\(|@|matmul"),
        Known("what is marked as coalesced and is not", kind="indices|values|shape|nnz|coalesced", program=r"_coalesced_\(True"),
        Known(
            "in place, transposition writes new indices, where PyTorch writes into those that sparse_mask shares",
            kind="indices|values",
            program=r"(?s)sparse_mask.*\.(transpose_|t_)\(",
        ),
        Known("copy_ of a COO tensor of another size resizes in PyTorch", line="copy_", ours="size of tensor a|broadcast shape"),
        Known("permute leaves the mark of being coalesced in PyTorch where the first dimension stays", kind="coalesced", line="permute"),
        Known("the layout of products of tensors that specify nothing is either's in PyTorch", kind="^layout$", line=r"@|mm|matmul"),
        Known(
            "PyTorch's products of two CSC tensors lose values",
            kind="row_indices|values|ccol",
            line=r"sparse\.mm|addmm",
            program=r"csc|csr(.|\n)*(\.t\(|mT|transpose|permute)",
        ),
        Known(
            "the gradients of two factors are added up, and PyTorch's sums of CSR matrices whose columns are not in order lose values",
            kind="^grad values values$",
            line=r"\(t\d+ @ t\d+\).*backward",
            program="csr",
        ),
        Known("products by MKL have indices of int32", kind="indices dtype", line="mm"),
        Known("sums of tensors with blocks of one element lose the blocks in PyTorch", kind="values shape", line=r"[-+]|add|sub"),
        Known(
            "PyTorch scales the compressed operand instead of the dense one", kind="values", line=r"torch\.add\(.*alpha", program="cs[rc]"
        ),
        Known("NaN of either sign", kind="values", line="signbit"),
        Known(
            "negative complex zeros have a sign by their place in PyTorch, and functions with a cut take its other side",
            kind="values",
            line="sqrt|log1p|asinh|sgn",
            program=r"(?s)complex64.*(neg_?\(|-t|-1)",
        ),
        Known("PyTorch adds up complex numbers by a product with 1, which makes NaN of infinities", theirs="nanj", ours="inf"),
        Known("the order of entries that are not coalesced", kind="^values$", line="str|repr", program="index_select|cat|stack"),
        Known("PyTorch looks at no index where nothing is specified", line="index_select", ours="IndexError", theirs="^no exception"),
        Known("sums of batches and of blocks are not there", ours="Could not run 'aten::(add|sub)' with .*SparseCsrCPU"),
        Known("PyTorch loses rows where a sparse tensor is broadcast to a dense one", kind="_indices|nnz", line=r"\*|mul"),
        Known(
            "PyTorch loses rows where a sparse tensor is broadcast to a dense one",
            kind="^values$",
            line=r"\.mul_\(|\*=",
            when=lambda found: is_with_zeros(found.ours, found.theirs),
        ),
        Known(
            "PyTorch looks at no dtypes where an operand has no specified elements",
            ours="to have the same dtype|of one dtype|for 'Bool'|softmax\" not implemented|hspmm|matrices expected"
            "|operation has no sparse form|expected strided",
            when=lambda found: "exception" in found.kind and specifies_nothing(found),
        ),
        Known(
            "where a factor has no specified elements, PyTorch's sum with the product is the summand itself",
            kind="^dtype$",
            line="addmm",
            when=lambda found: specifies_nothing(found),
        ),
        Known(
            "PyTorch adds and multiplies a dense or COO tensor to compressed masked ones without a look at its size",
            kind="exception",
            ours="expected a number or a tensor of layout torch.sparse_.* beside a MaskedTensor|the same layout. Got torch.sparse_coo and",
        ),
        Known("PyTorch takes a bool tensor among masked ones for a mask", line="stack|cat", ours="mask must have dtype bool"),
        Known(
            "PyTorch's softmax of a transposed masked tensor is along another dimension", kind="values", line="softmax", program=TRANSPOSED
        ),
        Known(
            "a part of a tensor that is written into, or its transposition, gets a dense gradient in PyTorch",
            kind="^grad layout",
            program=r"(?s)(transpose|\.t\(|permute|mT|\w\[).*\w_\(",
            theirs="strided",
        ),
        Known("sparse_mask coalesces its input in PyTorch, which then is no leaf any more", kind="is_leaf", line="sparse_mask"),
        Known("the sign of a zero that is specified stays in the dense tensor", line="str|repr", ours=r"-0\."),
        Known(
            "one element is coalesced however it was turned, until PyTorch is asked for the size that it has",
            kind="coalesced",
            line="resize_as_sparse_",
            theirs="False",
            program=r"\bt_?\(\)|transpose",
        ),
        Known(
            "roundings of float32, enlarged where numbers cancel: off by little, and the same program has no difference in float64",
            kind="^values$",
            when=lambda found: differ_little(found, 1e-6) and agrees_in_float64(AREA, found.program),
        ),
        Known("some parts of PyTorch's nested tensors lie outside of their memory", kind="^memory$", theirs="out of bounds for storage"),
        Known("nested tensors have fewer operations", ours="nested tensor|only supported on matrices"),
        Known("after a sum of hybrid tensors with keepdim PyTorch counts a dense dimension among the sparse ones", line="keepdim"),
    )

    def generate(self, draw: random.Random) -> list[str]:
        torch = pytorch()
        space = self.space(torch)
        torch.manual_seed(0)
        torch.set_grad_enabled(True)
        lines: list[str] = []
        for _ in range(draw.choice((1, 2, 2, 3))):
            add(lines, space, made(draw, f"t{len(tensors(space))}"))
        for _ in range(8 * LENGTH):
            if len(lines) >= LENGTH + 3 or not tensors(space):
                break
            add(lines, space, statement(draw, space))
        return lines

    def compare(self, run: Run) -> Difference | None:
        found = super().compare(run)
        if found is None and not all(is_in_order(run.theirs[name]) for name in variables(run.theirs)):
            run.ended = True  # what is made of such a matrix has its order
        return found

    def compare_variable(self, name: str, ours: Any, theirs: Any) -> tuple[str, str, str] | None:
        found = compare_any(ours, theirs)
        if found is not None or not hasattr(theirs, "requires_grad"):
            return found
        try:
            theirs.is_leaf  # noqa: B018
        except RuntimeError:  # PyTorch makes the nodes of views again, for which it wants strides
            return None
        if theirs.is_leaf != ours.is_leaf:
            return "is_leaf", str(ours.is_leaf), str(theirs.is_leaf)
        if not theirs.is_leaf:
            return None
        if (ours.grad is None) != (theirs.grad is None):
            return "grad", str(ours.grad), str(theirs.grad)
        found = None if theirs.grad is None else compare_any(ours.grad, theirs.grad)
        return found and (f"grad {found[0]}", *found[1:])

    def compare_exceptions(self, run: Run) -> Difference | None:
        if run.errors[1] is not None:
            run.ended = run.errors[0] is None  # what follows has other tensors; of programs that were shrunk
            return None
        return super().compare_exceptions(run)


def compare_any(ours: Any, theirs: Any) -> tuple[str, str, str] | None:
    """Masked tensors by what their masks show, nested ones by their parts, COO tensors that are not coalesced by the dense tensor."""
    if isinstance(theirs, (list, tuple)) and isinstance(ours, (list, tuple)) and len(ours) == len(theirs):
        return next(filter(None, (compare_any(a, b) for a, b in zip(ours, theirs, strict=True))), None)
    torch = pytorch()
    if isinstance(theirs, str) and isinstance(ours, str):
        ours, theirs = (re.sub(r"\bj\d+", "j", text) for text in (ours, theirs))  # numbers of ragged sizes
    if not isinstance(theirs, torch.Tensor) or not hasattr(ours, "layout"):
        return compare_results(ours, theirs)
    if hasattr(theirs, "get_mask"):
        masks = [tensor.get_mask().to_dense() for tensor in (ours, theirs)]
        found = compare_results(*masks, strides=False)
        if found is not None:
            return "mask", *found[1:]
        shown = [tensor.get_data().detach().to_dense().masked_fill(~mask, 0) for tensor, mask in zip((ours, theirs), masks, strict=True)]
        return compare_results(*shown, strides=False, tolerance=NEAR)
    if theirs.is_nested:
        if not ours.is_nested or ours.layout.__str__() != str(theirs.layout):
            return "layout", str(ours.layout), str(theirs.layout)
        try:
            parts = [*theirs.unbind()]
        except RuntimeError as error:
            return "memory", repr(ours), str(error)
        return compare_results([*ours.unbind()], parts, strides=False, tolerance=NEAR)
    if str(theirs.layout) == "torch.sparse_coo" == str(ours.layout) and not theirs.is_coalesced():
        for fact in ("dtype", "shape", "requires_grad"):
            a, b = (str(getattr(tensor, fact)) for tensor in (ours, theirs))
            if a.removeprefix("flambeau") != b:
                return fact, a, b
        facts = [(tensor.is_coalesced(), tensor.sparse_dim(), tensor.dense_dim(), tensor._nnz()) for tensor in (ours, theirs)]
        if facts[0] != facts[1]:
            return "coalesced, sparse_dim, dense_dim, nnz", str(facts[0]), str(facts[1])
        a, b = (values_of(tensor.detach().to_dense()) for tensor in (ours, theirs))
        close = is_close(a, b, 1e-3 if theirs.dtype == torch.float16 else 1e-5)
        return None if a.shape == b.shape and close.all() else ("values", *first_difference(a, b, 1e-5))
    if not is_in_order(theirs) and theirs.shape == ours.shape and str(ours.layout) == str(theirs.layout):
        ours, theirs = in_order(ours), in_order(theirs)
    return compare_tensors(ours, theirs, strides=False, tolerance=NEAR)


PARTS = {"torch.sparse_csr": ("crow_indices", "col_indices"), "torch.sparse_csc": ("ccol_indices", "row_indices")}


def parts_in_order(tensor: Any) -> tuple[Any, Any, Any]:
    """Compressed indices of a CSR or CSC matrix, plain ones, and the order that these have within each row or column, sorted."""
    starts, plain = (np.asarray(getattr(tensor.detach(), name)().clone().numpy()) for name in PARTS[str(tensor.layout)])
    return starts, plain, np.lexsort((plain, np.repeat(np.arange(len(starts) - 1), np.diff(starts))))


def is_in_order(tensor: Any) -> bool:
    """Whether columns follow each other within rows: in MKL's products of two CSR matrices they do not."""
    if str(getattr(tensor, "layout", "")) not in PARTS or tensor.dim() != 2 or hasattr(tensor, "get_mask"):
        return True
    if int(getattr(tensor.detach(), PARTS[str(tensor.layout)][0])()[-1]) != tensor._nnz():
        return True  # not a matrix, by a write
    order = parts_in_order(tensor)[2]
    return bool((order == np.arange(len(order))).all())


def in_order(tensor: Any) -> Any:
    torch = flambeau if isinstance(tensor, flambeau.Tensor) else pytorch()
    starts, plain, order = parts_in_order(tensor)
    values = tensor.detach().values().clone()[torch.from_numpy(order)]
    with warnings.catch_warnings(action="ignore"):
        made = torch.sparse_compressed_tensor(
            torch.from_numpy(starts),
            torch.from_numpy(plain[order]),
            values,
            tensor.shape,
            layout=tensor.layout,
            check_invariants=False,
        )
    return made.requires_grad_(tensor.requires_grad)


def is_with_zeros(ours: str, theirs: str) -> bool:
    """Whether a variable, printed, is the other one with 0 in place of some elements."""
    try:
        one, other = (np.array(ast.literal_eval(text.partition(": ")[2])) for text in (ours, theirs))
    except (ValueError, SyntaxError):
        return False
    return one.shape == other.shape and bool((np.isclose(other, one, rtol=1e-3) | (other == 0)).all())


def is_whole(value: Any) -> bool:
    """Whether a nested tensor lies in its memory: some parts that PyTorch makes do not."""
    try:
        return not value.is_nested or bool(value.unbind())
    except RuntimeError:
        return False


def writes(line: str) -> bool:
    """Whether a statement writes into a tensor."""
    return bool(re.search(r"\w_\(|[-+*]=", line))


def written(line: str) -> str:
    """The name of the tensor that a statement writes into."""
    return re.split(r"\W", line, maxsplit=1)[0]


def tensors(space: dict[str, Any]) -> list[str]:
    torch = pytorch()
    return [name for name, value in space.items() if isinstance(value, torch.Tensor)]


def add(lines: list[str], space: dict[str, Any], line: str) -> None:
    """Keep a statement that PyTorch computes, unless what it makes lies outside of its memory."""
    before = dict(space)
    if attempt(line, space) is None:
        if all(is_whole(space[name]) for name in tensors(space)):
            lines.append(line)
            return
        space.clear()
        space.update(before)


def numbers(draw: random.Random, shape: tuple[int, ...], dtype: str) -> str:
    """A nested list of small numbers, most of them 0."""
    if not shape:
        value = draw.choice((0, 0, 0, 1, 2, -1, 3))
        return repr(bool(value)) if dtype == "bool" else repr(value)
    return f"[{', '.join(numbers(draw, shape[1:], dtype) for _ in range(shape[0]))}]"


def dense(draw: random.Random, shape: tuple[int, ...], dtype: str) -> str:
    return f"torch.tensor({numbers(draw, shape, dtype)}, dtype=torch.{dtype}).reshape({shape})"


def made(draw: random.Random, name: str) -> str:
    """A statement that makes a tensor."""
    shape, dtype = draw.choice(SHAPES), draw.choice(DTYPES)
    grad = ".requires_grad_()" if dtype.startswith(("float", "complex")) and draw.random() < 0.4 else ""
    text = dense(draw, shape, dtype)
    kind = draw.choice(
        ("coo", "coo", "hybrid", "csr", "csc", "bsr", "bsc", "dense", "masked", "nested", "uncoalesced", "uncoalesced", "csr")
    )
    if kind == "uncoalesced":
        sparse_dims = draw.randint(1, len(shape))
        count = 0 if 0 in shape else draw.choice((0, 1, 3, 5))
        rows = [[draw.randrange(size) for _ in range(count)] for size in shape[:sparse_dims]]
        values = numbers(draw, (count, *shape[sparse_dims:]), dtype)
        parts = f"torch.tensor({rows}, dtype=torch.int64).reshape({sparse_dims}, {count})"
        parts += f", torch.tensor({values}, dtype=torch.{dtype}).reshape({(count, *shape[sparse_dims:])})"
        return f"{name} = torch.sparse_coo_tensor({parts}, {shape}){grad}"
    if kind == "masked":
        mask = dense(draw, shape, "bool")
        ends = draw.choice(("", "", ".to_sparse()", ".to_sparse_csr()" if len(shape) == 2 else ".to_sparse()"))
        if draw.random() < 0.5:
            return f"{name} = torch.masked.masked_tensor({text}, {mask}){ends}"
        return f"{name} = torch.masked.masked_tensor({text}{ends}, ({text} != 0){ends})"
    if kind == "nested":
        parts = ", ".join(dense(draw, (draw.randint(1, 3), 3), "float32") for _ in range(2))
        return f"{name} = torch.nested.nested_tensor([{parts}], layout=torch.{draw.choice(('strided', 'jagged'))})"
    ends = {
        "coo": ".to_sparse()",
        "hybrid": f".to_sparse({draw.randint(1, 2)})",
        "dense": "",
        "csr": ".to_sparse_csr()",
        "csc": ".to_sparse_csc()",
    }
    ends |= {layout: f".to_sparse_{layout}({draw.choice(((1, 1), (2, 2), (1, 2)))})" for layout in ("bsr", "bsc")}
    return f"{name} = {text}{ends[kind]}{grad}"


def statement(draw: random.Random, space: dict[str, Any]) -> str:
    names = tensors(space)
    x = draw.choice(names)
    ndim = max(space[x].dim(), 1)
    order = list(range(ndim))
    draw.shuffle(order)
    small = draw.randrange(3)
    words = {
        "x": x,
        "y": draw.choice(names),
        "z": draw.choice(names),
        "small": small,
        "number": draw.choice((2, 3, -1, 0.5, 2.0)),
        "block": draw.choice(((1, 1), (2, 2), (1, 2))),
        "layout": draw.choice(("coo", *COMPRESSED)),
        "dtype": draw.choice(DTYPES),
        "order": ", ".join(map(str, order)),
    }
    kind = draw.random()
    free = next(f"t{k}" for k in range(100) if f"t{k}" not in space) if len(names) < MOST else draw.choice(names)
    if kind < 0.1:
        line = made(draw, free)
        return line
    if kind < 0.22:
        line = f"{{x}}.{draw.choice(UNARY.split())}()"
    elif kind < 0.5:
        line = draw.choice(WITH_ONE)
    elif kind < 0.75:
        full = all(space[words[operand]].numel() for operand in "xyz")  # without elements PyTorch looks at no dtypes
        line = draw.choice(WITH_TWO if full else ("{x} + {y}", "{x} - {y}", "{x} * {y}", "torch.cat([{x}, {y}], {dim})"))
    elif kind < 0.83:
        line = draw.choice(QUESTIONS)
        free = "answer"
    elif kind < 0.95:
        line, free = draw.choice((*IN_PLACE_TWO, *[f"{{x}}.{name}()" for name in IN_PLACE.split()])), ""
    else:
        line, free = draw.choice(BACKWARD), ""
    while "{dim}" in line:
        line = line.replace("{dim}", str(draw.randrange(-ndim, ndim)), 1)
    text = line.format(**words)
    return f"{free} = {text}" if free else text


def specifies_nothing(found: Difference) -> bool:
    """Whether an operand of the last statement has no specified elements."""
    space = Area().space(pytorch())
    for line in found.program.removesuffix(found.line).split("\n"):
        attempt(line, space)
    operands = [space.get(name) for name in re.findall(r"\bt\d+\b", found.line)]
    return any(hasattr(operand, "layout") and count_of(operand) == 0 for operand in operands)


def count_of(tensor: Any) -> int:
    return tensor.numel() if str(tensor.layout) == "torch.strided" else tensor._nnz()


AREA = Sparse()
