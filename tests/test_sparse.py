"""Sparse tensors: compared with PyTorch expression by expression, and with dense tensors where PyTorch is not installed."""

from __future__ import annotations

import copy
import io
import pickle
import re
import warnings
from typing import Any

import numpy as np
import pytest

import flambeau
from flambeau.autograd import gradcheck, gradgradcheck


def tensors(T: Any) -> dict[str, Any]:
    """The same small tensors in every layout, of one library."""
    d = T.tensor([[0, 1.0, 0, 0], [2, 0, 3, 0]])
    return {
        "T": T,
        "d": d,
        "coo": d.to_sparse(),
        "csr": d.to_sparse_csr(),
        "csc": d.to_sparse_csc(),
        "bsr": d.to_sparse_bsr((1, 2)),
        "bsc": d.to_sparse_bsc((2, 1)),
        "un": T.sparse_coo_tensor([[1, 0, 0], [2, 1, 1]], [3.0, 1, 2], (2, 4)),  # not coalesced
        "hy": d.to_sparse(1),  # hybrid
        "m": T.arange(8.0).reshape(4, 2),
        "gradient_of": gradient_of,
    }


def gradient_of(function: Any, x: Any) -> Any:
    """The gradient of the sum of squares of what a function makes of a leaf."""
    leaf = x.clone().requires_grad_()
    result = function(leaf)
    (result if str(result.layout) == "torch.strided" else result.to_dense()).pow(2).sum().backward()
    return leaf.grad


SAME = """
coo csr csc bsr bsc un hy T.sparse_coo_tensor([[0,1],[1,2]],[1.,2]) T.sparse_coo_tensor((2,3))
T.sparse_coo_tensor(size=(2,3),dtype=T.int64) T.sparse_coo_tensor([[0,1],[1,2]],[1,2],(2,3),dtype=T.float64,requires_grad=True)
T.sparse_coo_tensor([[0.,1],[1,2]],[1.,2],(2,3)) T.sparse_coo_tensor([[]],[],(3,)) T.tensor(3.).to_sparse() T.tensor(0.).to_sparse()
T.sparse_coo_tensor(T.empty(1,0),T.empty(0,4),(3,4)) T.sparse_coo_tensor(T.zeros(0,2,dtype=T.int64),T.ones(2),()).coalesce()
T.sparse_csr_tensor([0,1,2],[1,0],[1.,2],(2,2),dtype=T.int32) T.sparse_csr_tensor([0,1,2],[0,1],[1.,2])
T.sparse_bsr_tensor([0,1,2],[0,1],T.ones(2,1,2)) T.sparse_bsc_tensor([0,1,2],[0,1],T.ones(2,1,2))
T.sparse_compressed_tensor([0,1,2],[0,1],[1.,2],layout=T.sparse_csc)
T.sparse_csr_tensor(T.tensor([0,1,2],dtype=T.int32),T.tensor([0,1],dtype=T.int32),T.ones(2),(2,2)).crow_indices() x.indices() x.values()
x._indices() x._values() x.crow_indices() x.col_indices() x.ccol_indices() x.sparse_dim() x.dense_dim() x._nnz() x.is_coalesced()
x.coalesce() x.layout x.is_sparse x.is_sparse_csr x.stride() x.untyped_storage() x.data_ptr() x.numpy() x.numel() x.dim()
csc.ccol_indices() csc.row_indices() bsr.values() d.indices() d._nnz() d.coalesce() d.sparse_dim() d.dense_dim() d.values() coo.type()
x.to_sparse() x.to_sparse_csr() x.to_sparse_csc() x.to_sparse_bsr((1,2)) x.to_sparse_bsc((2,1)) x.to_dense() x.to_dense(T.float64)
d.to_sparse(0) d.to_sparse(3) d.to_sparse(layout=T.sparse_bsr,blocksize=(1,2)) d.to_sparse_bsr((2,3)) T.ones(2).to_sparse_csr()
T.stack([d,d]).to_sparse_csr().to_dense() T.stack([d,d]).to_sparse_bsr((1,2)).to_dense() T.stack([d,T.eye(2,4)]).to_sparse_csr()
T.stack([d,d],-1).to_sparse_csr(dense_dim=1) T.stack([d,d],-1).to_sparse(2).to_sparse_csr() T.stack([d,d]).to_sparse_csr().to_sparse()
bsr.to_sparse() bsc.to_dense() bsr.t() csr.t().to_sparse_csr() T.zeros(0,3).to_sparse_csr().to_dense() T.zeros(3,0).to_sparse_csr()
T.zeros(2,3,layout=T.sparse_coo) T.zeros(2,3,layout=T.sparse_csr) T.ones(2,3,layout=T.sparse_coo) T.zeros_like(d,layout=T.sparse_coo)
T.zeros_like(x) T.ones_like(csr) T.ones_like(coo) T.full_like(csr,3) T.zeros_like(coo,layout=T.strided) coo.new_zeros((2,2))
T.empty_like(hy) x+x x+d d+x d-x x*d d*x coo*coo csr*csr hy*hy x*2 2*x -x x+1 x/d x.add(x,alpha=3) d.add(coo,alpha=3) coo/2
coo/T.tensor(2.) coo**2 coo//2 coo-coo coo.div(2,rounding_mode='floor') coo*T.ones(4) coo*T.ones(2,1) coo*T.ones(3,2,4)
coo+T.ones(2,3).to_sparse() coo.int()*2.5 coo.int()/2 coo.int()+coo d.double()+coo coo*T.tensor(2.,dtype=T.float64)
coo*T.ones(2,4,dtype=T.float64) bsr*2 csc+csc coo.mul(csr) x.abs() x.sin() x.sqrt() x.relu() x.tanh() x.isnan() x.floor() x.neg() x.sgn()
x.log1p() x.erf() x.deg2rad() coo.square() coo.nan_to_num() x.cos() x.exp() x.sigmoid() x.mean() x.max() x.cumsum(0) x==x x.equal(x)
x.argmax() x.logical_not() x.reciprocal() x.clamp(0,1) x.sum() coo.sum(0) coo.sum(0,keepdim=True) hy.sum(1) hy.sum(0)
hy.sum(0,keepdim=True) csr.sum(1,keepdim=True) csr.sum((0,1),keepdim=True) coo.int().sum() coo.bool().sum() coo.norm() coo.norm(1)
un.norm() coo.any() coo.norm(dim=0) x.t() coo.T coo.mT x.transpose(0,1) hy.transpose(0,1) coo.permute(1,0) coo.unsqueeze(0)
hy.unsqueeze(2) coo.movedim(0,1) x.reshape(4,2) x.expand(3,2,4) x[1] x[0,1] x[:,1] coo[None] coo[None,1] coo[...,1] coo[5] x.select(0,-1)
hy.select(1,0) coo.narrow_copy(1,1,2) list(x) len(x) coo.index_select(0,T.tensor([1,1])) coo.index_select(1,T.tensor([2,0,2]))
hy.index_select(1,T.tensor([1])) un.index_select(0,T.tensor([0])) T.cat([coo,coo]) T.cat([coo,un],1) T.cat([hy,hy],1) T.cat([coo,d])
T.stack([coo,coo]) T.stack([hy]*2) T.hstack([coo,coo]) T.cat([csr,csr]) x.clone() x.detach() x.to(T.float64) x.double() x.int() x.half()
x.bool() x.to(T.complex64) x.conj() coo.to(T.complex64).conj() T.tensor(coo) T.as_tensor(coo) bool(coo) coo.item()
T.sparse_coo_tensor([[0],[1]],[1.]).is_coalesced() csr.to_sparse().is_coalesced() coo.clone().zero_() csr.clone().zero_()
hy.clone().zero_() coo.clone().mul_(2) coo.clone().add_(coo) coo.clone().add_(d) coo.clone().sqrt_() coo.clone().t_() d.clone().add_(coo)
d.clone().mul_(coo) d.clone().copy_(coo) coo.clone().copy_(d) coo.clone().copy_(un) coo.clone().div_(2)
T.add(coo,coo,out=T.zeros(2,4).to_sparse()) T.mm(coo,m,out=T.zeros(2,2)) coo.clone().sparse_resize_((3,5),2,0)
coo.clone().sparse_resize_((1,5),2,0) coo.clone().sparse_resize_and_clear_((3,4),1,1) T.resize_as_sparse_(T.sparse_coo_tensor((1,1)),coo)
x.mm(m) x@m x.matmul(m) m@x x@T.ones(4) x.mv(T.ones(4)) x@m.double() x@T.ones(3,2) T.spmm(x,m) T.addmm(T.ones(2,2),x,m,beta=2,alpha=3)
coo@coo.t() csr@csr.t() T.mm(d,coo.t()) T.ones(2)@coo csc@m bsr.to_sparse()@m coo.to(T.complex64)@m.to(T.complex64) coo.half()@m.half()
coo.to(T.bfloat16)@m.to(T.bfloat16) coo.long()@m.long() T.zeros(0,3).to_sparse()@T.ones(3,2)
T.nn.functional.linear(T.ones(3,4),csr,T.ones(2)) T.bmm(T.stack([coo,coo]),T.ones(2,4,3)) T.matmul(coo,T.ones(3,4,2)) T.smm(coo,m)
T.hspmm(coo,m) T.sspaddmm(T.eye(2).to_sparse(),coo,m) T.smm(d,m) T.hspmm(d,m) T.sparse.mm(x,m) T.sparse.mm(m.t(),csr.t())
T.sparse.mm(coo,coo.t()) T.sparse.mm(d,m) T.sparse.mm(csr,T.ones(3,2)) T.sparse.mm(csr,m,'mean') T.sparse.mm(csr,m,'amax')
T.sparse.mm(csr,-m,'amin') T.sparse.mm(csr,m,'sum') T.sparse.mm(csr,m,'no') T.sparse.mm(coo,m,'sum')
T.sparse.addmm(T.ones(2,2),x,m,beta=2,alpha=3) T.sparse.sampled_addmm(csr,T.ones(2,3),T.ones(3,4),beta=2,alpha=3)
T.sparse.sampled_addmm(d,T.ones(2,3),T.ones(3,4)) T.sparse.sampled_addmm(csr,T.ones(2,3),T.ones(2,4)) T.sparse.sum(coo)
T.sparse.sum(coo,0) T.sparse.sum(coo,dim=(0,1)) T.sparse.sum(hy,1) T.sparse.sum(hy,0) T.sparse.sum(coo,[0],dtype=T.float64)
T.sparse.sum(d,0) T.sparse.softmax(coo,1) T.sparse.softmax(hy,0) T.sparse.softmax(hy,1) T.sparse.log_softmax(coo,0)
T.sparse.softmax(coo.int(),0,dtype=T.float64) T.sparse.softmax(un,1) T.sparse.softmax(d,1) T.sparse.softmax(T.zeros(2,3).to_sparse(),1)
T.sparse.spdiags(T.arange(6.).reshape(2,3),T.tensor([0,-1]),(3,3)) T.sparse.spdiags(T.ones(2,3),T.tensor([0,1]),(3,4),layout=T.sparse_csr)
T.sparse.spdiags(T.ones(3),T.tensor(1),(2,3)) T.sparse.spdiags(T.ones(2,3),T.tensor([0,0]),(3,3)) x.sparse_mask(x) d.sparse_mask(x)
coo.sparse_mask(T.eye(2,4).to_sparse()) d.sparse_mask(T.eye(2).to_sparse()) d.sparse_mask(d) csr.sparse_mask(coo)
T.sparse.FloatTensor(2,3) T.sparse.FloatTensor(T.tensor([[0,1],[1,2]]),T.ones(2),T.Size([2,3])) T.sparse.DoubleTensor()
isinstance(coo,T.sparse.FloatTensor)
gradient_of(lambda x:x.to_dense(),coo) gradient_of(lambda x:x.to_dense(),csr) gradient_of(lambda x:x.to_dense(masked_grad=False),coo)
gradient_of(lambda x:x.to_dense(),un) gradient_of(lambda x:x.to_sparse(),d) gradient_of(lambda x:x.to_sparse_csc(),d)
gradient_of(lambda x:x.to_sparse_csr(),coo) gradient_of(lambda x:x.coalesce().values(),un)
gradient_of(lambda v:T.sparse_coo_tensor(T.tensor([[0,0,1],[1,1,2]]),v,(2,3)),T.arange(3.))
gradient_of(lambda v:T.sparse_csr_tensor(T.tensor([0,1,3]),T.tensor([1,0,2]),v),T.arange(3.)) gradient_of(lambda x:T.sparse.mm(x,m),coo)
gradient_of(lambda x:T.sparse.mm(x,m),csr) gradient_of(lambda x:T.sparse.mm(coo,x),m) gradient_of(lambda x:T.sparse.mm(csr,x),m)
gradient_of(lambda x:T.mm(x,m),coo) gradient_of(lambda x:coo@x,m) gradient_of(lambda x:x@coo,m.t()@m)
gradient_of(lambda x:coo.mv(x),T.arange(4.)) gradient_of(lambda x:T.bmm(T.stack([coo,coo]),x),T.ones(2,4,3))
gradient_of(lambda x:T.sparse.addmm(T.ones(2,2),x,m,beta=2.,alpha=3.),coo)
gradient_of(lambda x:T.sparse.sampled_addmm(csr,x,m.t()@m@m.t()),T.ones(2,2))
gradient_of(lambda x:T.sparse.sampled_addmm(x,T.ones(2,3),T.ones(3,4),beta=2.),csr) gradient_of(lambda x:T.sparse.mm(csr,x,'mean'),m)
gradient_of(lambda x:T.sparse.mm(csr,x,'amax'),m) gradient_of(lambda x:T.sparse.mm(x,m,'amin'),csr)
gradient_of(lambda x:T.sparse.mm(x,m,'mean'),csr) gradient_of(lambda x:T.sparse.sum(x,1),coo) gradient_of(lambda x:T.sparse.sum(x,0),hy)
gradient_of(lambda x:T.sparse.softmax(x,1),coo) gradient_of(lambda x:T.sparse.log_softmax(x,0),hy) gradient_of(lambda x:x*coo,d)
gradient_of(lambda x:x*d,coo) gradient_of(lambda x:x+x,coo) gradient_of(lambda x:x/2,coo) gradient_of(lambda x:d+x,coo)
gradient_of(lambda x:x+coo,d) gradient_of(lambda x:x.t(),coo) gradient_of(lambda x:x.relu(),coo) gradient_of(lambda x:x.pow(2),coo)
gradient_of(lambda x:x.double(),coo) gradient_of(lambda x:x.sum(),coo) gradient_of(lambda x:x.sparse_mask(coo),d)
gradient_of(lambda x:x.values(),csr) gradient_of(lambda x:x.clone(),hy)
"""


def expressions() -> list[str]:
    """The expressions, ``x`` standing for tensors of several layouts."""
    listed: list[str] = []
    for line in SAME.split("\n"):
        for expression in (
            re.split(r" (?![^(\[]*[)\]])", line.strip()) if "lambda" not in line else re.split(r" (?=gradient_of)", line.strip())
        ):
            if expression and re.search(r"(?<![\w:])x\b", expression) and "lambda" not in expression:
                listed += [re.sub(r"\bx\b", name, expression) for name in ("coo", "csr", "un", "hy")]
            elif expression:
                listed.append(expression)
    return listed


def shown(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(map(shown, value)) + ")"
    return re.sub(r"\s+", " ", repr(value)).replace("flambeau", "torch")


def outcome(names: dict[str, Any], expression: str) -> tuple[str, Any]:
    try:
        return shown(eval(expression, names)), None
    except Exception as error:
        return "", error


# What raises in PyTorch and works here, without another result.
GENEROUS = re.compile(r"T\.matmul\(coo,T\.ones\(3|csr\.|csr\[|bsr|csc|d-csr|sparse_csr_tensor")


@pytest.mark.oracle
def test_expressions_agree_with_pytorch(oracle: Any) -> None:
    """Texts of results are equal, values and indices and layout, and errors are of PyTorch's types."""
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        listed, their_names, our_names = expressions(), tensors(oracle), tensors(flambeau)
        assert len(listed) > 550
        for expression in listed:
            compile(expression, "<expression>", "eval")
            theirs, their_error = outcome(their_names, expression)
            ours, our_error = outcome(our_names, expression)
            if their_error is None:
                if theirs != ours:
                    wrong.append(f"{expression}\n  theirs: {theirs}\n  ours:   {our_error!r} {ours}")
            elif our_error is None:
                if not GENEROUS.search(expression):
                    wrong.append(f"{expression}\n  theirs: {their_error!r}\n  ours: {ours}")
            elif not isinstance(our_error, type(their_error)) and not isinstance(their_error, type(our_error)):
                wrong.append(f"{expression}\n  theirs: {their_error!r}\n  ours: {our_error!r}")
    assert not wrong, f"{len(wrong)} differ\n" + "\n".join(wrong)


# -- without PyTorch ----------------------------------------------------------------------------------------------------------------------
T = flambeau
DENSE = np.array([[0, 1.5, 0, -2], [3, 0, 0, 0], [0, 0, 0, 0.5]])


def layouts(x: Any) -> list[Any]:
    return [x.to_sparse(), x.to_sparse_csr(), x.to_sparse_csc(), x.to_sparse_bsr((1, 2)), x.to_sparse_bsc((3, 1))]


def test_every_layout_holds_the_same_elements() -> None:
    x = T.tensor(DENSE)
    for a in layouts(x):
        assert (a.to_dense().numpy() == DENSE).all()
        for b in layouts(x):
            block = {"blocksize": b._array.block} if b._array.values.ndim > 1 else {}
            assert repr(a.to_sparse(layout=b.layout, **block).to_dense()) == repr(x)
        np.testing.assert_allclose((a @ T.ones(4, 2, dtype=T.float64)).numpy(), DENSE @ np.ones((4, 2)))
        np.testing.assert_allclose((T.ones(2, 3, dtype=T.float64) @ a).numpy(), np.ones((2, 3)) @ DENSE)
        assert (a.t().to_dense().numpy() == DENSE.T).all() and ((x + a).numpy() == 2 * DENSE).all()
        assert ((a * 2 - a).to_dense().numpy() == DENSE).all() and a.layout == (a * 2).layout == a.sin().layout


def test_random_tensors_compute_as_dense_ones() -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        shape = tuple(generator.integers(0, 6, 2))
        dense = [np.where(generator.random(shape) < 0.4, generator.standard_normal(shape), 0) for _ in range(2)]
        x, y = (T.tensor(array).to_sparse() for array in dense)
        doubled = T.sparse_coo_tensor(T.cat([x.indices()] * 2, 1), T.cat([x.values()] * 2), shape)
        assert not doubled.is_coalesced() or x._nnz() == 0
        for sparse, expected in (
            (doubled, 2 * dense[0]),
            (doubled.coalesce(), 2 * dense[0]),
            (x + y, dense[0] + dense[1]),
            (x * y, dense[0] * dense[1]),
            (x @ y.t(), dense[0] @ dense[1].T),
            (x.t(), dense[0].T),
            (T.cat([x, y]), np.concatenate(dense)),
            (doubled.abs(), abs(2 * dense[0])),
            (doubled.to_sparse_csr(), 2 * dense[0]),
        ):
            np.testing.assert_allclose(sparse.to_dense().numpy(), expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(doubled.sum().item(), 2 * dense[0].sum(), atol=1e-12)
        np.testing.assert_allclose((doubled @ T.ones(shape[1], 3, dtype=T.float64)).numpy(), 2 * dense[0] @ np.ones((shape[1], 3)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: T.sparse_coo_tensor([[0, 3], [1, 2]], [1.0, 2.0], (2, 3)),
        lambda: T.sparse_coo_tensor([[0, -1], [1, 2]], [1.0, 2.0], (2, 3)),
        lambda: T.sparse_csr_tensor([0, 1, 3], [0, 1], [1.0, 2.0], (2, 2)),
        lambda: T.sparse_csr_tensor([1, 1, 2], [0, 1], [1.0, 2.0], (2, 2)),
        lambda: T.sparse_csr_tensor([0, 2, 1, 2], [0, 1], [1.0, 2.0], (3, 2)),
        lambda: T.sparse_csr_tensor([0, 1, 2], [0, 5], [1.0, 2.0], (2, 2)),
        lambda: T.sparse_bsr_tensor([0, 1], [0], T.ones(1, 2, 2), (3, 2)),
    ],
    ids=["large", "negative", "end", "start", "falling", "column", "block"],
)
def test_indices_outside_of_the_size_are_refused(make: Any) -> None:
    with pytest.raises(RuntimeError):
        make()


def test_invariants_are_checked_where_wanted() -> None:
    twice = {"indices": [[0, 0]], "values": [1.0, 2.0], "size": (2,), "is_coalesced": True}
    check = T.sparse.check_sparse_tensor_invariants
    T.sparse_coo_tensor(**twice)
    with check(), pytest.raises(RuntimeError, match="uncoalesced"):
        T.sparse_coo_tensor(**twice)
    with pytest.raises(RuntimeError, match="sorted and distinct"):
        check()(T.sparse_csr_tensor)([0, 2], [1, 0], [1.0, 2.0], (1, 2))
    check.enable()
    assert check.is_enabled()
    check.disable()
    assert not check.is_enabled()


def test_what_is_not_supported_says_so() -> None:
    x = T.tensor(DENSE).to_sparse()
    for call in (lambda: x.cos(), lambda: x.max(), lambda: x == x, lambda: T.equal(x, x), lambda: x.view(-1), lambda: x.to("meta")):
        with pytest.raises(RuntimeError):
            call()
    with pytest.raises(TypeError, match="to_dense"):
        np.asarray(x)
    with pytest.raises(RuntimeError, match=r"add\(dense, sparse\)"):
        x.add_(T.tensor(DENSE))
    assert (x.to_dense().numpy() == DENSE).all()


def test_copies_and_pickles() -> None:
    x = T.tensor(DENSE)
    for a in (*layouts(x), x.to_sparse(1), T.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (3,))):
        for b in (pickle.loads(pickle.dumps(a)), copy.deepcopy(a), T.load(_file(T.save, a)), T.load(_file(T.save, a), weights_only=False)):
            assert repr(a) == repr(b) and a._array is not b._array and (not a.is_sparse or a.is_coalesced() == b.is_coalesced())
    parameter = pickle.loads(pickle.dumps(T.nn.Parameter(x.to_sparse())))
    assert type(parameter) is T.nn.Parameter and parameter.requires_grad and parameter.is_sparse


def _file(save: Any, value: Any, **options: Any) -> io.BytesIO:
    stream = io.BytesIO()
    save(value, stream, **options)
    stream.seek(0)
    return stream


@pytest.mark.oracle
def test_files_go_both_ways(oracle: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = tensors(T), tensors(oracle)
        for name in ("coo", "csr", "csc", "bsr", "bsc", "un", "hy"):
            assert repr(oracle.load(_file(T.save, ours[name]))) == repr(theirs[name])
            for is_zip in (True, False):
                back = T.load(_file(oracle.save, {"x": theirs[name]}, _use_new_zipfile_serialization=is_zip))["x"]
                assert repr(back) == repr(ours[name])
                with pytest.raises((NotImplementedError, RuntimeError)):
                    T.load(_file(oracle.save, _out_of_range(oracle), _use_new_zipfile_serialization=is_zip))


def _out_of_range(oracle: Any) -> Any:
    return oracle.sparse_coo_tensor(oracle.tensor([[7]]), oracle.ones(1), (2,), check_invariants=False)


@pytest.mark.parametrize("masked", [True, False])
def test_gradients_by_differences(masked: bool) -> None:
    x = T.tensor(DENSE)
    for dtype in (T.float64, T.complex128):
        dense = T.randn(4, 2, dtype=dtype, requires_grad=True)
        for a in (x.to(dtype).to_sparse(), x.to(dtype).to_sparse_csr()):
            a.requires_grad_()
            assert gradcheck(lambda a, b: a @ b if not masked else T.sparse.mm(a, b), (a, dense), masked=masked)
            assert gradcheck(lambda a: a.to_dense(masked_grad=masked), (a,), masked=masked)
            assert gradcheck(lambda a: a * 3, (a,), masked=masked)
    a = x.to_sparse().requires_grad_()
    for function in (
        lambda a: T.sparse.sum(a, 0),
        lambda a: T.sparse.softmax(a, 1),
        lambda a: T.sparse.log_softmax(a, 0),
        lambda a: a.t() * 2,
        lambda a: a + a * a,
        lambda a: a.coalesce().values() ** 2,
        lambda a: a[:, 1],
        lambda a: T.cat([a, a], 1),
        lambda a: T.stack([a, a]).sum(),
        lambda a: a.sparse_mask(x.to_sparse()),
    ):
        assert gradcheck(function, (a,), masked=masked)
    assert gradgradcheck(lambda a, b: T.sparse.mm(a, b) ** 2, (a, T.randn(4, 2, dtype=T.float64, requires_grad=True)), masked=True)


def test_sparse_gradients_add_up() -> None:
    dense = T.ones(2, 3, requires_grad=True)
    mask = T.eye(2, 3).to_sparse()
    for expected in (1, 2):
        dense.to_sparse().sparse_mask(mask).to_dense().sum().backward()
        assert (dense.grad.to_dense() if dense.grad.is_sparse else dense.grad).sum() == 2 * expected
    a = mask.clone().requires_grad_()
    a.to_dense().sum().backward()
    assert a.grad.is_sparse
    a.sum().backward()  # a dense gradient onto a sparse one
    assert not a.grad.is_sparse and a.grad.tolist() == [[2, 1, 1], [1, 2, 1]]
    a.to_dense().sum().backward()
    assert a.grad.tolist() == [[3, 1, 1], [1, 3, 1]]
    (grad,) = T.autograd.grad(a.to_dense().sum() + a.sum() + a.to_dense().sum(), a)
    assert grad.tolist() == [[3, 1, 1], [1, 3, 1]]
    with pytest.raises(RuntimeError, match="layout"):
        mask.grad = grad
    dense.grad = mask


def trained(library: Any, name: str, mode: str = "sum", **options: Any) -> tuple[Any, ...]:
    """Losses, the last gradient and the tables of two embeddings with sparse gradients."""
    library.manual_seed(0)
    one = library.nn.Embedding(10, 3, sparse=True, padding_idx=2)
    bags = library.nn.EmbeddingBag(7, 3, mode=mode, sparse=True)
    optimizer = getattr(library.optim, name)([*one.parameters(), *bags.parameters()], **options)
    x, y = library.tensor([[1, 2, 3, 1], [4, 9, 2, 1]]), library.tensor([[1, 2, 3], [1, 1, 6]])
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = (one(x) ** 2).sum() + (bags(y) ** 3).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, repr(one.weight.grad), one.weight.detach().numpy(), bags.weight.detach().numpy(), repr(optimizer)


@pytest.mark.oracle
def test_embeddings_train_with_sparse_gradients_as_in_pytorch(oracle: Any) -> None:
    for name, options in (
        ("SparseAdam", {}),
        ("SparseAdam", {"maximize": True, "lr": 0.1}),
        ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.1, "mode": "mean"}),
        ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
        ("Adagrad", {"lr": 0.1, "lr_decay": 0.1}),
    ):
        for ours, theirs in zip(trained(T, name, **options), trained(oracle, name, **options), strict=True):
            if isinstance(ours, str):
                assert ours == theirs
            else:
                np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_optimizers_refuse_sparse_gradients_where_they_cannot_use_them() -> None:
    for name, options in (("Adam", {}), ("RMSprop", {}), ("Adagrad", {"weight_decay": 0.1}), ("SGD", {"lr": 1, "weight_decay": 0.1})):
        with pytest.raises(RuntimeError, match="sparse"):
            trained(T, name, **options)
    table = T.nn.Embedding(3, 2)
    table(T.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match="dense gradients"):
        T.optim.SparseAdam(table.parameters()).step()
    with pytest.raises(ValueError, match="dense parameter"):
        T.optim.SparseAdam([T.eye(2).to_sparse()])


def test_sparse_steps_touch_nothing_else() -> None:
    table = T.nn.Parameter(T.zeros(5, 2))
    optimizer = T.optim.SparseAdam([table], lr=0.1)
    for row in (1, 3):
        table.grad = T.sparse_coo_tensor([[row]], [[1.0, -1.0]], (5, 2))
        optimizer.step()
    state = optimizer.state[table]
    assert table[[0, 2, 4]].abs().sum() == 0 and (table[1, 0] < 0).item() and state["exp_avg"][0].abs().sum() == 0
    assert state["step"] == 2 and table[1, 0].item() == pytest.approx(-0.1)


def test_gather_with_a_sparse_gradient() -> None:
    index = T.tensor([[0, 0], [2, 1]])
    grads = []
    for sparse_grad in (False, True):
        x = T.arange(6.0).reshape(2, 3).requires_grad_()
        (T.gather(x, 1, index, sparse_grad=sparse_grad) ** 2).sum().backward()
        grads.append(x.grad)
    assert grads[1].is_sparse and (grads[1].to_dense() == grads[0]).all()


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["uint8", "int32", "bool", "float64"])
def test_sparse_sums_have_pytorchs_dtype(oracle: Any, dtype: str) -> None:
    """A sum over some dimensions keeps an integer dtype and wraps around in it; one over none is a copy."""
    for dim in (None, 0, -1, (0, 1), []):
        ours, theirs = [
            T.sparse.sum(T.sparse_coo_tensor([[0, 1], [2, 2]], T.tensor([200, 100]).to(getattr(T, dtype)), (2, 3)), dim)
            for T in (flambeau, oracle)
        ]
        assert str(ours.dtype) == str(theirs.dtype) and str(ours.layout) == str(theirs.layout)
        assert ours.to_dense().tolist() == theirs.to_dense().tolist()


def test_gradient_of_a_sparse_sum_over_nothing() -> None:
    weight = flambeau.tensor([[1.0, 2], [3, 4]])
    x = flambeau.sparse_coo_tensor([[0, 1], [1, 0]], [5.0, 6], (2, 2)).requires_grad_()
    (flambeau.sparse.sum(x, []).to_dense() * weight).sum().backward()
    assert x.grad is not None and x.grad.to_dense().tolist() == [[0, 2], [3, 0]]


SHARING = {
    "t": lambda x: x.t(),
    "transpose": lambda x: x.transpose(-2, -1),
    "transpose of one": lambda x: x.transpose(0, 0),
    "permute": lambda x: x.permute(1, 0),
    "narrow_copy": lambda x: x.narrow_copy(0, 0, 3),
    "narrow_copy of all columns": lambda x: x.narrow_copy(1, 0, 4),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "coalesce": lambda x: x.coalesce(),
    "to": lambda x: x.to("cpu"),
    "detach": lambda x: x.detach(),
    "clone": lambda x: x.clone(),
    "mul": lambda x: x * 1,
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", SHARING)
def test_values_are_shared_where_pytorch_shares_them(oracle: Any, name: str) -> None:
    for is_coalesced in (False, True):
        seen = []
        for T in (flambeau, oracle):
            x = T.sparse_coo_tensor([[0, 0, 2, 1], [1, 3, 3, 0]], [1.0, 2, 3, 4], (3, 4))
            x = x.coalesce() if is_coalesced else x
            result = SHARING[name](x)
            x._values().mul_(3)
            seen.append((x.to_dense().tolist(), result.to_dense().tolist()))
            result._values().add_(1)
            seen[-1] += (x.to_dense().tolist(), result.to_dense().tolist())
        assert seen[0] == seen[1]
