"""The declaration of an operation: ``Op`` and ``Param``.

An operation is declared once, by a decorator over its reference kernel in ``ops/``; everything else is derived: the public function, the
method, ``f_``, ``out=``, operators, the tape's node, documentation.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..late import made_once
from .tables import key_of, rules_of

if TYPE_CHECKING:
    from ..tape.derivatives import OpNode

REQUIRED = inspect.Parameter.empty

# Promotion words, as PyTorch's references use them.
DEFAULT = "default"  # operands to their common dtype, which is the result's
INT_TO_FLOAT = "int_to_float"  # integers and bools become the default float dtype first
BOOL = "bool"  # common dtype for computing, bool result
COMPLEX_TO_FLOAT = "complex_to_float"  # default, but a complex result becomes its real counterpart
BOOL_TO_LONG = "bool_to_long"  # default, but bool becomes int64
SAME = "same"  # operands must have one dtype already; the kernel decides the result's
PARTS = "parts"  # of ``may_overlap``: only some elements are written to
KEEP = "keep"  # operands are passed as they are; the kernel decides

SAME_NAME = ""  # of ``aten``: the kernels of PyTorch that have the operation's own name

# Words of ``forward``: what forward mode knows of an operation beyond what follows from its declaration. One that is missing costs time,
# nothing else.
FORWARD = {
    "linear": "the tangent of the result is what the operation makes of the operands' tangents, zeros in place of those that have none",
    "bilinear": "... or the sum over the operands of what it makes of one tangent and the other operands",
    "selects": "results are (elements of the operand along ``dim``, their places)",
    "reduces": "each result depends on one slice of the operand, so that the gradient of ones has all slopes",
    "symmetric": "the matrix of the derivative of a real operand is its own transpose",
    "constant": "a result that does not depend on its differentiable operands",
    "holomorphic": "an element-wise operation whose rule serves complex numbers too, conjugated around",
}

# Words of ``autocast``. A call of an operation that has one gets its floating point tensors cast, those of float64 excepted, and what runs
# inside of it is not cast again. Which operations those are is PyTorch's choice; others take their operands as they come.
# Source: torch.amp, "Autocast Op Reference".
AUTOCAST = {
    "narrow": "to the dtype of the region: products, which are fast in few bits and forgiving",
    "float32": "to float32: losses, norms, solvers, functions that need range or digits",
    "widest": "to the widest dtype among the operands",
    "state": "to what the narrow dtype and the first states' promote to: recurrent layers, whose states PyTorch keeps in their dtype; all "
    "that a layer computes is in that dtype here. An LSTM over padded sequences is narrow in bfloat16",
    "result": "nothing is cast; ``dtype=float32`` is given where the caller gave none (sums, softmax)",
    "untouched": "nothing is cast, neither here nor in the operations that it is made of",
    "banned": "an error",
}
# Words of ``batch``, beside numbers.
BATCH = {
    "product": "the operands are vectors and matrices, batches in front of them broadcast",
    "sized": "the second argument is the result's shape, which the batch stands in front of",
    "reduced": "losses of all elements, of which ``reduction`` makes one for each example",
    "rows": "the same, of the losses of rows, whose mean counts the classes' weights",
    "folded": "the first dimension of all operands is a batch already, as in pooling",
    "along": "``dim`` is reduced or run along, other dimensions are so many problems",
    "along all": "the same, and no ``dim`` stands for all dimensions",
    "along flat": "the same, and no ``dim`` stands for all elements in a row",
}
# Words of ``draws``: which random numbers an operation takes from a generator.
DRAWS = {
    "numbers": "each element of the result is one, whose derivative is zero; or what is written into a tensor, by its methods",
    "rows": "the same, of each row of the operand",
    "mask": "one for each element of the operand, which is dropped or not",
    "inside": "those that its body knows of",
}
_LISTING = ("cpu", "cuda")  # the types of devices for which PyTorch has lists


def pop_autocast(entry: Any, options: dict[str, Any]) -> None:
    """Take the options about autocast: a word for each type of device."""
    word = options.pop("autocast", None)
    entry.autocast = {} if word is None else dict.fromkeys(_LISTING, word) if word.__class__ is str else word
    entry.autocast_except = options.pop("autocast_except", None)
    if not AUTOCAST.keys() >= set(entry.autocast.values()):
        raise TypeError(f"{entry.name}: autocast={word!r}; the words are {', '.join(AUTOCAST)}")


class Param:
    """One parameter of an operation, read off its signature."""

    __slots__ = ("default", "keyword_only", "kind", "name")

    def __init__(self, name: str, annotation: str, default: Any, keyword_only: bool):
        self.name, self.default, self.keyword_only = name, default, keyword_only
        if "Tensor" not in annotation:
            self.kind = "attr"
        elif "Sequence" in annotation:
            self.kind = "list"
        elif "Number" in annotation:
            self.kind = "number"
        elif "None" in annotation:
            self.kind = "optional"
        else:
            self.kind = "tensor"

    @classmethod
    def of(cls, parameter: inspect.Parameter) -> Param:
        if parameter.kind is not parameter.VAR_POSITIONAL:
            return cls(parameter.name, str(parameter.annotation), parameter.default, parameter.kind is parameter.KEYWORD_ONLY)
        rest = cls(parameter.name, "", (), False)
        rest.kind = "rest"
        return rest


def other_keywords(params: Sequence[Param]) -> dict[str, str]:
    """NumPy's spellings of parameters, which PyTorch understands too."""
    names = {p.name for p in params}
    return {other: name for other, name in (("axis", "dim"), ("keepdims", "keepdim")) if name in names and other not in names}


def declared_name(function: Callable[..., Any]) -> str:
    """The operation's name: the function's, without the trailing underscore that keeps it apart from a builtin (``sum_``)."""
    name = function.__name__
    return name[:-1] if name.endswith("_") and hasattr(builtins, name[:-1]) else name


class Sheet:
    """An operation's sheet: what its declaration says of it, and the rules that hang on it.

    Args:
        function: what was declared. options: the declaration's words; those that every declaration has are taken out.
    Attributes:
        draws: which random numbers it takes (``DRAWS``).
        compiled: whether it is code of PyTorch's library, without Python code around it, so that tracers show arguments as they are given.
    """

    pointwise = False
    moves = False
    old_orders: Sequence[Any] = ()

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]):
        self.kernel = function
        self.name: str = options.pop("name", None) or declared_name(function)
        self.namespace: str = options.pop("namespace", "torch")
        self.key = key_of(self.name, self.namespace)
        self.aliases: tuple[str, ...] = options.pop("aliases", ())
        self.compiled: bool = options.pop("compiled", False)
        self.draws: str | None = options.pop("draws", None)
        if self.draws is not None and self.draws not in DRAWS:
            raise TypeError(f"{self.name}: draws={self.draws!r}; the words are {', '.join(DRAWS)}")
        self.renamed: dict[str, str] = {}
        self.module: str = function.__module__
        self.doc: str | None = function.__doc__

    def refuse(self, options: dict[str, Any]) -> None:
        """TypeError where options are left that nobody has taken."""
        if options:
            raise TypeError(f"{self.name}: unknown options {sorted(options)}")

    # -- what the signature says, read when first needed -------------------------------------------------------------------
    @made_once
    def params(self) -> tuple[Param, ...]:
        return tuple(Param.of(p) for p in inspect.signature(self.kernel).parameters.values())

    @made_once
    def names(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.params)

    @made_once
    def positions(self) -> tuple[int, ...]:
        """Places of the operands among the parameters."""
        return tuple(i for i, p in enumerate(self.params) if p.kind not in ("attr", "rest"))

    @made_once
    def other_keywords(self) -> dict[str, str]:
        """Keywords that stand for a parameter: NumPy's spellings, and this operation's own."""
        return {**other_keywords(self.params), **self.renamed}

    @made_once
    def arity(self) -> int:
        """Number of operands."""
        return sum(param.kind != "attr" for param in self.params)

    @made_once
    def hanging(self) -> dict[str, Callable[..., Any]]:
        """The rules, by subject."""
        return rules_of(self.key)


class Op(Sheet):
    """One declared operation.

    Attributes:
        name: public name; ``kernel``: reference over arrays, its signature is the public one.
        promotion: one of the promotion words above.
        broadcasts: whether operands are broadcast against each other (checked before the kernel runs).
        constants: numbers that, as operands, deserve a native kernel of their own.
        elementwise: whether the kernel is an expression over corresponding elements, which a native kernel can be made of.
        rules: derivative per input name (or comma-separated names), None where it is not differentiable.
        fast: kernel of the fast path, or None where there is none; it may return None to take the slow path. A string is an
            expression over ``a`` (the first operand's array), ``d`` (its dtype), the attributes and names of the family's module, put
            into the wrapper as it is.
        method: whether it is a method too. Where nothing is said, it is, and it takes ``out=``; one whose name begins with an underscore,
            which only other operations call, is and does neither.
        out: whether it takes ``out=``, or an ``out.Out`` with its requirements.
        work: how much a call has to do, in elements, where that is not its first operand's size: an expression over the parameters,
            with arrays for the operands, and ``prod``. A factor in front (``8 * input.size``) says that an element costs as much as that
            many of an element-wise operation. ``native`` decides by it whether a native kernel runs; in an expression ``fast`` that
            kernel is ``large``, and ``THRESHOLD`` the work from which on it is to be called.
        together: there is a native kernel, ``gradients:`` and the operation's key, that makes the gradients of all operands from arrays; it
            is asked where the gradient of the result is large and no graph is wanted. Its arguments are which edges need one, ``grad``, and
            by name what rules have saved.
        fp_safe: the kernel of the fast path meets no floating-point errors, or silences NumPy itself.
        is_view: the kernel returns views of its first operand's array.
        exact_scalar: a last operand of one element is not rounded to float16 or bfloat16 first.
        opmath: how float16 and bfloat16 are computed: 'float32' (cast around the kernel) or 'native'.
        in_bfloat16: there is a native kernel, ``bfloat16:`` and the operation's key, that takes and gives bfloat16 where the processor
            has instructions for it; it is asked before operands are cast.
        canonicalize: function (arrays and attributes in signature order) -> the same, or an error; checks before any work.
        returns: names of the fields where the result is a named tuple.
        fast_bool: whether the fast path is right for bool operands too.
        row_major: the result is row-major whatever the operands' order is.
        keeps_strides: the result has the strides of the first operand, also where these say nothing, if it is dense; a kind of dtype
            where that holds for operands of this kind alone.
        may_overlap: the in-place form may write to a tensor that overlaps itself: True if all operands but that are numbers, as all of its
            elements get the same then; PARTS where elements are written over or left alone, so that a place is written if any of them is.
        may_share: operands of the in-place form may show parts of the target's memory; all of them are read before anything is written.
        writes: the kernel accepts a last argument ``out`` (a ufunc), so that in-place forms need no temporary.
        overloads: functions (op, *values) that serve calls of other types, as ``registry.overload`` adds them.
        old_orders: pairs of a number of arguments (None: any) and a function (op, *arguments) that understands an old order of them, as
            ``registry.old_order`` adds them.
        batch: how ``vmap`` makes one call of many, where that cannot be derived: how many of the last dimensions of each operand are one
            problem, those in front being batches that broadcast (a number for all, or a tuple); or a word (``BATCH``).
        pointwise: whether each element of the result follows from the corresponding elements of the operands, where ``elementwise`` does
            not say it.
        moves: elements of the operands get to other places, or are left out; what they are does not matter.
        keeps_zero: a function of one operand that is 0 at 0, so that what a sparse operand does not specify stays unspecified.
        aten: which of PyTorch's kernels it is (``"select.int"``, several one after another: a call is the first that its arguments fit);
            where nothing is said, the overloads of the same name. None where PyTorch has no kernel that does the same. In-place forms and
            ``out=`` follow from these.
        forward: a word for forward mode (``FORWARD``); or, of one differentiable operand, the tangent of the result in Tensor code: a
            function of ``tangent``, ``result`` and parameters, of which it names those that it needs.
        lowered: PyTorch's kernels that do the same, one after another, as modes below the tape see them: a function of the call's values.
        meta: function (new, *values) that makes the results on the meta device, where the kernel looks at values: ``new(shape, dtype)``
            is one, with ``columns=True`` one of matrices whose columns are contiguous, ``new.like(operand)`` one laid out as the operand.
        autocast: what autocast does about its operands: a word (``AUTOCAST``), or one for each type of device that lists it.
        autocast_except: which of its calls are not meant by ``autocast``: a function of the call's values.
        renamed: further keywords and the parameters they stand for, as ``registry.other_names`` adds them.
    """

    def __init__(self, kernel: Callable[..., Any], **options: Any):
        super().__init__(kernel, options)
        self.promotion: str = options.pop("promotion", KEEP)
        self.broadcasts: bool = options.pop("broadcasts", False)
        self.constants: frozenset[Any] = frozenset(options.pop("constants", ()))
        self.elementwise: bool = options.pop("elementwise", self.broadcasts)
        self.rules: dict[str, Callable[..., Any]] | None = options.pop("grad")
        self.fast: Callable[..., Any] | None = options.pop("fast", None)
        self.work: str | None = options.pop("work", None)
        self.together: bool = options.pop("together", False)
        self.fp_safe: bool = options.pop("fp_safe", False)
        self.is_view: bool = options.pop("view", False)
        self.exact_scalar: bool = options.pop("exact_scalar", False)
        self.opmath: str = options.pop("opmath", "float32")
        self.in_bfloat16: bool = options.pop("in_bfloat16", False)
        self.canonicalize: Callable[..., Any] | None = options.pop("canonicalize", None)
        self.returns: tuple[str, ...] | None = options.pop("returns", None)
        self.row_major: bool = options.pop("row_major", False)
        self.keeps_strides: bool | str = options.pop("keeps_strides", False)
        self.ufunc: Any = options.pop("ufunc", None)
        is_internal = self.name.startswith("_")
        self.method: bool = options.pop("method", not is_internal)
        self.operator: str | None = options.pop("operator", None)
        self.inplace: bool = options.pop("inplace", False)
        self.may_overlap: bool | str = options.pop("may_overlap", False)
        self.may_share: bool = options.pop("may_share", False)
        self.out: Any = options.pop("out", not is_internal)
        self.node_name: str | None = options.pop("node_name", None)
        self.batch: str | int | tuple[int, ...] | None = options.pop("batch", None)
        if self.batch.__class__ is str and self.batch not in BATCH:
            raise TypeError(f"{self.name}: batch={self.batch!r}; the words are {', '.join(BATCH)}")
        self.keeps_zero: bool = options.pop("keeps_zero", False)
        self.moves: bool = options.pop("moves", False)
        self.pointwise: bool = options.pop("pointwise", self.elementwise)
        self.aten: str | None = options.pop("aten", SAME_NAME)
        self.forward: Any = options.pop("forward", None)
        if self.forward is not None and not callable(self.forward) and self.forward not in FORWARD:
            raise TypeError(f"{self.name}: forward={self.forward!r}; the words are {', '.join(FORWARD)}")
        self.lowered: Callable[..., Any] | None = options.pop("lowered", None)
        self.meta: Callable[..., Any] | None = options.pop("meta", None)
        pop_autocast(self, options)
        self.fast_bool: bool = options.pop("fast_bool", True)
        if self.is_view:
            self.out = False
        self.is_multi_output = bool(options.pop("multi_output", False) or self.returns)
        self.is_multi_view = self.is_view and self.is_multi_output
        self.overloads: list[Callable[..., Any]] = []
        self.old_orders: list[tuple[int | None, Callable[..., Any]]] = []
        self.public_inplace: Any = None  # where another function than the generated one is public
        self.refuse(options)

    @made_once
    def any_device(self) -> bool:
        """Whether operands may lie on several devices, as those of a copy: the first one's kind runs the kernel."""
        return "non_blocking" in self.names

    @property
    def result_name(self) -> str:
        """The class of a named result."""
        return f"{self.namespace}_{self.name}" if self.namespace == "linalg" else self.kernel.__name__

    @made_once
    def keyword_names(self) -> tuple[str, ...]:
        """Names of the parameters that are passed by keyword only."""
        return tuple(p.name for p in self.params if p.keyword_only)

    if TYPE_CHECKING:  # the registry's entries have them

        @property
        def wrapper(self) -> Any: ...
        @property
        def reduced_wrapper(self) -> Any: ...
        @property
        def inplace_wrapper(self) -> Any: ...
        @property
        def node(self) -> type[OpNode]: ...

    def __repr__(self) -> str:
        return f"<operation {self.namespace}.{self.name}>"
