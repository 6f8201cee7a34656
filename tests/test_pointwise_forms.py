"""Spellings of pointwise calls - operators, reflected and in-place forms, keywords, old argument orders - beside PyTorch's."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau
import flambeau.nn.functional
from flambeau.core import once

# L is the library, F its nn.functional; f, g are floats, i integers, b bools, c complex numbers
EXPRESSIONS = (
    "L.add(f,2,g)",
    "f.clone().add_(2,g)",
    "f.clone().add_(-0.5,g)",
    "L.sub(f,2,g)",
    "L.add(f,2,g,alpha=3)",
    "f.add(f,g,f,g)",
    "L.addmm(2,f.outer(g),3,f.outer(g),f.outer(f))",
    "f.outer(g).addmm(2,f.outer(g),f.outer(f))",
    "L.addmm(f.outer(g),f.outer(g),f.outer(f),f.outer(f))",
    "f.clone().sub_(2,g)",
    "L.addcmul(f,2,f,g)",
    "f.clone().addcmul_(0.5,f,g)",
    "L.addcdiv(f,2,f,g)",
    "f.clone().addcdiv_(-0.5,f,g)",
    "f.clone().addcdiv_(f,g,value=-0.5)",
    "f.clone().addcmul_(f,g,value=-0.5)",
    "f.clone().add_(g,alpha=-0.5)",
    "2-f",
    "2/f",
    "2**f",
    "2//f",
    "2%f",
    "5-i",
    "5//i",
    "5%i",
    "i/2",
    "i//2",
    "i%2",
    "2**i",
    "i**2",
    "f**2",
    "f**0.5",
    "f**-1",
    "f**i",
    "f+True",
    "i+1.5",
    "b+1",
    "b+b",
    "b*b",
    "i&3",
    "3&i",
    "3|i",
    "3^i",
    "i<<1",
    "1<<i",
    "i>>1",
    "~i",
    "~b",
    "b&b",
    "b^True",
    "f==None",
    "f!=None",
    "f<1",
    "1<f",
    "f>=g",
    "b.logical_not()",
    "-f",
    "+f",
    "abs(-f)",
    "f.clone().__iadd__(1)",
    "f.clone().__imul__(g)",
    "f.clone().__itruediv__(2)",
    "i.clone().__ifloordiv__(2)",
    "i.clone().__iand__(2)",
    "f.clone().__ipow__(2)",
    "f.clone().clamp_(1.2,1.8)",
    "f.clone().clamp_min_(1.2)",
    "L.clamp_(f.clone(),min=1.5)",
    "L.relu_(f.clone())",
    "F.relu_(f.clone())",
    "F.relu(f.clone(),inplace=True)",
    "F.relu(-f,True)",
    "F.leaky_relu(-f,0.2,True)",
    "F.elu_(-f)",
    "F.hardtanh_(f.clone())",
    "F.leaky_relu_(-f,0.3)",
    "F.selu_(-f)",
    "F.celu_(-f,2.0)",
    "F.threshold_(f.clone(),1.5,9.)",
    "F.threshold(f,1.5,9.)",
    "F.softmax(f,dim=0)",
    "F.softmax(f,-1,dtype=L.float64)",
    "f.softmax(0)",
    "f.softmax(dim=0,dtype=L.float64)",
    "L.softmax(f,0)",
    "F.log_softmax(f,0)",
    "f.log_softmax(0)",
    "F.prelu(-f,L.tensor([0.1]))",
    "L.round(f*1.37,decimals=1)",
    "f.round()",
    "L.max(f,g)",
    "L.square(i)",
    "L.true_divide(i,2)",
    "L.divide(f,g,rounding_mode='floor')",
    "L.multiply(f,g)",
    "L.subtract(f,g)",
    "L.negative(f)",
    "L.absolute(f)",
    "L.arccos(f/3)",
    "L.arctan2(f,g)",
    "L.greater(f,g)",
    "L.not_equal(f,g)",
    "L.clip(f,1.1,1.2)",
    "L.fix(f*1.7)",
    "f.polygamma(2)",
    "L.polygamma(2,f)",
    "f.mvlgamma(1)",
    "c.real",
    "c.imag",
    "c.conj()",
    "c.abs()",
    "c.angle()",
    "f.real",
    "L.complex(f,g)",
    "L.polar(f,g)",
    "L.view_as_real(c)",
    "c*2j",
    "f*2j",
    "f*(1+2j)",
    "f.pow(exponent=2)",
    "L.pow(input=f,exponent=g)",
    "L.add(input=f,other=g)",
    "L.add(f,g,alpha=3)",
    "f.add(other=g,alpha=2)",
    "f.sub(g,alpha=2)",
    "L.rsub(f,1)",
    "L.isclose(f,g)",
    "L.allclose(f,f)",
    "L.equal(f,g)",
    "f.equal(f)",
    "L.isin(f,L.tensor([1.]))",
    "f.dtype",
    "(f+np.float64(2)).dtype",
    "(f*np.float32(2)).dtype",
    "(i*np.float32(2)).dtype",
    "(i+np.int32(2)).dtype",
    "np.float64(2)*f",
    "np.array([1.,2.])*f",
    "f.div(g,rounding_mode='trunc')",
    "f.clone().div_(g,rounding_mode='floor')",
    "f.clone().fmod_(1)",
    "f.clone().remainder_(0.7)",
    "f.clone().pow_(2)",
    "f.clone().float_power_(2)",
    "f.double().float_power_(2)",
    "i.clone().add_(1.5)",
    "i.clone().div_(2)",
    "i.clone().mul_(f)",
    "b.clone().add_(1)",
    "f.clone().lt_(1.5)",
    "f.clone().eq_(1)",
    "f.logical_and(g)",
    "f.xlogy(2)",
    "f.sigmoid_()",
    "f.hardshrink(1.5)",
    "F.hardshrink(f)",
    "F.glu(f)",
    "F.gelu(f,approximate='tanh')",
    "F.softmin(f,dim=0)",
    "F.softplus(f,beta=2,threshold=1)",
    "F.logsigmoid(f)",
    "F.tanhshrink(f)",
    "F.softsign(f)",
    "F.hardswish(f,inplace=True)",
    "F.mish(f)",
    "F.silu(f.clone(),True)",
    "L.nan_to_num(L.tensor([float('nan'),float('inf')]))",
    "L.logit(f/5,1e-3)",
    "L.frexp(f)",
    "L.ldexp(f,i)",
    "L.heaviside(f-1,g)",
    "f.sgn()",
    "f.sign_()",
    "L.clamp(f,L.tensor([1.5,1.5]),L.tensor([1.7,1.9]))",
    "L.clamp(f,max=L.tensor(1.5))",
    "f.add(1,2)",
    "L.maximum(f,1)",
    "L.where(f>1,f,g)",
    "f.__and__(1)",
    'f.add("a")',
    'f+"a"',
    "f+[1,2]",
    "[1,2]+f",
    "f+None",
    "L.add(f,g,beta=2)",
    "L.add(f)",
    "L.exp(2)",
    "L.softmax(f,3)",
    "F.softmax(f,0,5,L.float64)",
    "L.addmm(f.outer(g),f.outer(g),f.outer(f),2)",
    "L.addmm(f.outer(g),2,f.outer(g),2,f.outer(f))",
    "L.arange(5,step=2)",
    "L.arange(end=5,step=2)",
    "L.arange(1,5,step=2)",
    "L.tensor_split(f,indices=(1,))",
    "f.tensor_split(indices=[1],dim=0)",
    "L.tensor_split(f,sections=2)",
    "L.tensor_split(f,tensor_indices_or_sections=L.tensor([1]))",
    "L.tensor_split(f,2,indices=(1,))",
    "L.tensor_split(f,indices=2)",
    "L.tensor_split(f,sections=(1,))",
    "L.tensor_split(f)",
)


def evaluate(library: Any, expression: str) -> tuple[Any, Exception | None]:
    names = {
        "L": library,
        "F": library.nn.functional,
        "np": np,
        "f": library.tensor([1.0, 2.0]),
        "g": library.tensor([2.0, 0.5]),
        "i": library.tensor([3, 4]),
        "b": library.tensor([True, False]),
        "c": library.tensor([1 + 2j, 3 - 1j]),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return eval(expression, names), None
        except Exception as error:
            return None, error


def values(result: Any) -> Any:
    """Dtypes and values of a result, in plain Python."""
    if isinstance(result, (tuple, list)):
        return [values(item) for item in result]
    if hasattr(result, "tolist"):
        return str(result.dtype), np.round(np.array(result.tolist(), complex), 4).tolist()
    return str(result)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_spelling_means_what_it_means_in_pytorch(expression: str, of_pytorch: Callable[..., Any]) -> None:
    (got, error), (want, expected) = evaluate(flambeau, expression), of_pytorch(evaluate, expression)
    assert type(error) is type(expected), f"{error!r}, PyTorch: {expected!r}"
    assert values(got) == values(want)


@pytest.mark.filterwarnings("ignore:This overload")
def test_an_old_order_takes_no_second_factor() -> None:
    a, third = flambeau.tensor([1.0, 2.0]), flambeau.tensor([0.0, 0.0])
    for call in (lambda: flambeau.add(a, 2, third, alpha=3), lambda: a.add_(2, a, third)):
        with pytest.raises(TypeError, match="positional arguments but"):
            call()
    assert third.tolist() == [0.0, 0.0] and a.tolist() == [1.0, 2.0]


def test_a_third_tensor_receives_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """As PyTorch's first documents have it; PyTorch of today refuses it."""
    a, third = flambeau.tensor([1.0, 2.0]), flambeau.tensor([0.0, 0.0])
    monkeypatch.setattr(once, "_said", set())  # it is said once
    with pytest.warns(UserWarning, match="out="):
        assert flambeau.add(a, a, third) is third
    assert third.tolist() == [2.0, 4.0]


def test_signatures_are_those_of_today() -> None:
    for name, parameters in {
        "add": ["input", "other", "alpha"],
        "addcmul": ["input", "tensor1", "tensor2", "value"],
        "addmm": ["input", "mat1", "mat2", "beta", "alpha"],
    }.items():
        assert list(inspect.signature(getattr(flambeau, name)).parameters) == parameters


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
@pytest.mark.parametrize(("shape", "dim"), [((), 0), ((3,), 0), ((2, 3), 1), ((2, 3, 2), 0), ((1, 2, 3, 2), 1)])
def test_missing_dim_is_guessed_with_a_warning(name: str, shape: tuple[int, ...], dim: int) -> None:
    function, x = getattr(flambeau.nn.functional, name), flambeau.arange(float(np.prod(shape))).reshape(shape)
    with pytest.warns(UserWarning, match=f"Implicit dimension choice for {name} has been deprecated"):
        guessed = function(x)
    np.testing.assert_allclose(guessed.numpy(), function(x, dim).numpy(), rtol=1e-6)


@pytest.mark.parametrize("exponent", [0.5, 2, 3, -0.5, -1, -2])
def test_common_powers_are_exact(exponent: float) -> None:
    """These exponents are computed by roots, products and quotients: within one rounding of the true value a step."""
    x = np.random.default_rng(0).uniform(0.1, 10, 1000)
    got = (flambeau.from_numpy(x) ** exponent).numpy()
    np.testing.assert_allclose(got, x.astype(np.longdouble) ** exponent, rtol=4e-16)


@pytest.mark.parametrize("size", [4, 40_000])
@pytest.mark.parametrize("exponent", [2.0, 3.0, -1.0, 0.5])
def test_a_float_power_of_integers_is_a_float(exponent: float, size: int) -> None:
    x = flambeau.arange(size) % 7 + 1
    got = x**exponent
    assert got.dtype is flambeau.float32
    np.testing.assert_allclose(got.numpy(), x.numpy().astype(np.float64) ** exponent, rtol=1e-6)
