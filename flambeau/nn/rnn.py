"""Recurrent layers and cells."""

from __future__ import annotations

import math
import numbers
import warnings
import weakref
from collections.abc import Callable
from typing import Any, Self

from .. import ops
from ..core.device import cpu
from ..core.state import active, thread
from ..core.tensor import Parameter, Tensor
from . import init
from ._shown import unusual
from .module import Module
from .utils.rnn import PackedSequence

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """``tensor.index_select(dim, permutation)``, under its old name."""
    warnings.warn(
        "`apply_permutation` is deprecated, please use `tensor.index_select(dim, permutation)` instead", FutureWarning, stacklevel=2
    )
    return tensor.index_select(dim, permutation)


class RNNBase(Module):
    """Parameters, checks and calls that the recurrent layers share.

    Args:
        mode: ``"LSTM"``, ``"GRU"``, ``"RNN_TANH"`` or ``"RNN_RELU"``.
        input_size, hidden_size: features of the input and of the state.
        num_layers, bias, batch_first, dropout, bidirectional: as in ``LSTM``.
        proj_size: features of a projected hidden state; 0 for no projection, and always 0 but for LSTM.
        device, dtype: of the parameters; the default ones when None.
    Attributes:
        weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, ...: as in ``LSTM``.
        all_weights: the same as a list for each layer and direction.
    Raises:
        ValueError, TypeError: sizes or a dropout probability that make no sense, or an unknown ``mode``.
    Source: torch.nn.RNNBase.
    Example:
        >>> [weight.shape for weight in nn.RNNBase('GRU', 4, 8).all_weights[0]]
        [torch.Size([24, 4]), torch.Size([24, 8]), torch.Size([24]), torch.Size([24])]
    """

    __constants__ = ["mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional", "proj_size"]
    __jit_unused_properties__ = ["all_weights"]
    mode: str
    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    proj_size: int
    _flat_weights: list[Any]

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.mode, self.input_size, self.hidden_size = mode, input_size, hidden_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._flat_weight_refs: list[Any] = []
        self._check_arguments(dropout)
        self._flat_weights_names: list[str] = []
        self._all_weights: list[list[str]] = []
        rows, directions, output_size = _GATES[mode] * hidden_size, 2 if bidirectional else 1, proj_size or hidden_size
        for layer in range(num_layers):
            features = input_size if layer == 0 else output_size * directions
            for suffix in ("", "_reverse")[:directions]:
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, features), "weight_hh": (rows, output_size)}
                if bias:
                    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                names = [f"{name}_l{layer}{suffix}" for name in shapes]
                for name, shape in zip(names, shapes.values(), strict=True):
                    setattr(self, name, Parameter(ops.empty(shape, device=device, dtype=dtype)))
                self._flat_weights_names += names
                self._all_weights.append(names)
        self._init_flat_weights()
        self.reset_parameters()

    def _check_arguments(self, dropout: Any) -> None:
        if not isinstance(dropout, numbers.Number) or not 0 <= dropout <= 1 or isinstance(dropout, bool):  # type: ignore[operator]
            raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element being zeroed")
        if dropout and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers greater than 1, "
                f"but got dropout={dropout} and num_layers={self.num_layers}",
                stacklevel=4,
            )
        for name, kind in (("input_size", int), ("bias", bool), ("batch_first", bool), ("hidden_size", int)):
            if not isinstance(value := getattr(self, name), kind):
                raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")
        if self.input_size <= 0:
            raise ValueError("input_size must be greater than zero")
        if self.hidden_size <= 0:
            raise ValueError("hidden_size must be greater than zero")
        if self.num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if self.proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if self.mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + self.mode)

    # -- the list of parameters -------------------------------------------------------------------------------------------
    def _init_flat_weights(self) -> None:
        self._flat_weights = [getattr(self, name, None) for name in self._flat_weights_names]
        self._flat_weight_refs = _references(self._flat_weights)
        self.flatten_parameters()

    def __setattr__(self, name: str, value: Any) -> None:
        names = self.__dict__.get("_flat_weights_names", ())
        if name in names and "_flat_weights" in self.__dict__:
            self._flat_weights[names.index(name)] = value
        super().__setattr__(name, value)

    def _weights_have_changed(self) -> bool:
        """Whether a parameter was replaced past ``__setattr__``, as ``functional_call`` does."""
        for reference, name in zip(self._flat_weight_refs, self._flat_weights_names):
            if reference is not None and reference() is not (weight := getattr(self, name, None)) and weight is not None:
                return True
        return False

    def _update_flat_weights(self) -> None:
        parameters = self._parameters
        for reference, name in zip(self._flat_weight_refs, self._flat_weights_names):
            if reference is None or reference() is not parameters.get(name):  # as a rule a parameter is itself
                if self._weights_have_changed():
                    self._init_flat_weights()
                break

    def flatten_parameters(self) -> None:
        """Nothing to do: parameters need not lie side by side in memory here. Source: torch.nn.RNNBase.flatten_parameters."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        self._flat_weight_refs = []
        super()._apply(fn, recurse)
        self._init_flat_weights()
        return self

    def _replicate_for_data_parallel(self) -> Self:
        replica = super()._replicate_for_data_parallel()
        replica._flat_weights = self._flat_weights[:]
        replica._flat_weight_refs = []
        return replica

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def __getstate__(self) -> dict[str, Any]:
        self._update_flat_weights()
        state = super().__getstate__()
        del state["_flat_weight_refs"]  # weak references cannot be pickled
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("proj_size", 0)  # older files have no projections
        if "_flat_weights" not in self.__dict__:
            self._flat_weights = [getattr(self, name, None) for name in self._flat_weights_names]
        self._flat_weight_refs = _references(self._flat_weights)

    def reset_parameters(self) -> None:
        """Draw new weights."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    # -- checks -------------------------------------------------------------------------------------------------------------
    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raise what is wrong with an input; packed data comes with its batch sizes."""
        weight = self._flat_weights[0]
        if input.dtype != weight.dtype and thread.autocast is None:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). Convert input: input.to({weight.dtype}), "
                f"or convert model: model.to({input.dtype})"
            )
        expected_input_dim = 2 if batch_sizes is not None else 3
        shape = input.shape
        if len(shape) != expected_input_dim:
            raise RuntimeError(f"input must have {expected_input_dim} dimensions, got {len(shape)}")
        if self.input_size != shape[-1]:
            raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {shape[-1]}")

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Shape of the first state that belongs to an input."""
        batch = batch_sizes[0].item() if batch_sizes is not None else input.shape[0 if self.batch_first else 1]
        return (self.num_layers * (2 if self.bidirectional else 1), batch, self.proj_size or self.hidden_size)

    def check_hidden_size(
        self, hx: Tensor, expected_hidden_size: tuple[int, int, int], msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """Raise unless a state has the expected shape."""
        if hx.shape != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input: Tensor, hidden: Tensor, batch_sizes: Tensor | None) -> None:
        """Raise what is wrong with input and state."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """A state with its sequences in another order."""
        return hx if permutation is None else hx.index_select(1, permutation)

    # -- the call -----------------------------------------------------------------------------------------------------------
    def _run(self, function: Callable[..., Any], input: Any, hx: Any) -> tuple[Any, Any]:
        """Output and last state of ``function``, for a tensor with or without batch, or a packed sequence."""
        self._update_flat_weights()
        packed = input if isinstance(input, PackedSequence) else None
        batched = True
        if packed is not None:
            input = packed.data
        elif input.dim() not in (2, 3):
            tail = "D tensor instead" if self.mode.startswith("RNN") else "D instead"
            raise ValueError(f"{self.mode.partition('_')[0]}: Expected input to be 2D or 3D, got {input.dim()}{tail}")
        elif input.dim() == 2:
            batched = False
            input = input.unsqueeze(0 if self.batch_first else 1)
        sizes = None if packed is None else packed.batch_sizes
        if hx is None:
            hx = self._first_state(input, sizes)
        else:
            hx = self._with_batch(hx, batched, packed is not None)
            hx = self.permute_hidden(hx, None if packed is None else packed.sorted_indices)
        self.check_forward_args(input, hx, sizes)
        options = (self._flat_weights, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        if sizes is None:
            output, *state = function(input, hx, *options, self.batch_first)
        else:
            output, *state = function(input, sizes, hx, *options)
        last = tuple(state) if len(state) > 1 else state[0]
        if packed is not None:
            output = PackedSequence(output, sizes, packed.sorted_indices, packed.unsorted_indices)
            return output, self.permute_hidden(last, packed.unsorted_indices)
        if not batched:
            output = output.squeeze(0 if self.batch_first else 1)
            last = tuple([part.squeeze(1) for part in last]) if isinstance(last, tuple) else last.squeeze(1)
        return output, last

    def _first_state(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        return _zeros(self.get_expected_hidden_size(input, batch_sizes), input)

    def _with_batch(self, hx: Any, batched: bool, packed: bool) -> Any:
        if packed:
            return hx
        dims = 3 if batched else 2
        if hx.dim() != dims:
            kind = "batched 3-D" if batched else "unbatched 2-D"
            raise RuntimeError(f"For {kind} input, hx should also be {dims}-D but got {hx.dim()}-D tensor")
        return hx if batched else hx.unsqueeze(1)

    def extra_repr(self) -> str:
        options = unusual(self, proj_size=0, num_layers=1, bias=True, batch_first=False, dropout=0, bidirectional=False)
        return ", ".join([str(self.input_size), str(self.hidden_size), *options])


def _zeros(shape: tuple[int, ...], input: Tensor) -> Tensor:
    """Zeros beside ``input``; fast where they lie there without being told, and nobody looks at how they are made."""
    if input.device is cpu and not active:
        return ops.zeros(shape, dtype=input.dtype)
    return ops.zeros(shape, dtype=input.dtype, device=input.device)


def _references(weights: list[Any]) -> list[Any]:
    return [None if weight is None else weakref.ref(weight) for weight in weights]


class RNN(RNNBase):
    """Layers of ``h = tanh(W_ih x + b_ih + W_hh h + b_hh)``, step by step.

    Args:
        input_size: features of the input.
        hidden_size: features of the state.
        num_layers: layers, each of which takes the output of the one before.
        nonlinearity: ``"tanh"`` or ``"relu"``.
        bias: whether there are biases.
        batch_first: whether input and output are ``(N, T, *)`` instead of ``(T, N, *)``; states never are.
        dropout: probability of an element between layers to be zeroed, in training.
        bidirectional: whether each layer runs in both directions, whose outputs are put side by side.
        device, dtype: of the parameters; the default ones when None.
    Shape:
        ``(T, N, input_size)``, or ``(T, input_size)`` without a batch, to ``(T, N, directions * hidden_size)``; a packed sequence to a
        packed sequence. States: ``(layers * directions, N, hidden_size)``; zeros where none are passed.
    Attributes:
        weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, ...: of each layer, ``(hidden_size, *)``; ``_reverse`` is added for the second
            direction. All uniform in ``±1 / sqrt(hidden_size)``.
    Raises:
        ValueError, TypeError: sizes or a dropout probability that make no sense.
        RuntimeError: input or states that do not fit.
    Source: torch.nn.RNN; Elman 1990.
    Example:
        >>> layer = nn.RNN(4, 8, num_layers=2, batch_first=True)
        >>> output, state = layer(torch.zeros(3, 5, 4))
        >>> output.shape, state.shape
        (torch.Size([3, 5, 8]), torch.Size([2, 3, 8]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            self.nonlinearity = args[3]
            args = (*args[:3], *args[4:])
        else:
            self.nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if self.nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{self.nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{self.nonlinearity.upper()}", *args, **kwargs)

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        return self._run(ops.rnn_tanh if self.mode == "RNN_TANH" else ops.rnn_relu, input, hx)


class LSTM(RNNBase):
    """Long short-term memory: layers that carry a hidden state and a cell from step to step.

    Args:
        input_size: features of the input.
        hidden_size: features of the state.
        num_layers: layers, each of which takes the output of the one before.
        bias: whether there are biases.
        batch_first: whether input and output are ``(N, T, *)`` instead of ``(T, N, *)``; states never are.
        dropout: probability of an element between layers to be zeroed, in training.
        bidirectional: whether each layer runs in both directions, whose outputs are put side by side.
        proj_size: features of the hidden state where it is projected; 0 for no projection.
        device, dtype: of the parameters; the default ones when None.
    Shape:
        ``(T, N, input_size)``, or ``(T, input_size)`` without a batch, to ``(T, N, directions * hidden_size (or proj_size))``; a packed
        sequence to a packed sequence. States: ``(layers * directions, N, hidden_size (or proj_size))``, and cells
        ``(layers * directions, N, hidden_size)``; zeros where none are passed.
    Attributes:
        weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, ...: of each layer, ``(4 * hidden_size, *)``; ``_reverse`` is added for the
            second direction. All uniform in ``±1 / sqrt(hidden_size)``.
    Raises:
        ValueError, TypeError: sizes or a dropout probability that make no sense.
        RuntimeError: input or states that do not fit.
    Source: torch.nn.LSTM; Hochreiter and Schmidhuber 1997, Gers et al. 2000, Sak et al. 2014 for the projection.
    Example:
        >>> layer = nn.LSTM(4, 8, bidirectional=True)
        >>> output, (state, cell) = layer(torch.zeros(5, 3, 4))
        >>> output.shape, state.shape, cell.shape
        (torch.Size([5, 3, 16]), torch.Size([2, 3, 8]), torch.Size([2, 3, 8]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Shape of the first cells that belong to an input."""
        return (*self.get_expected_hidden_size(input, batch_sizes)[:2], self.hidden_size)

    def check_forward_args(self, input: Tensor, hidden: tuple[Tensor, Tensor], batch_sizes: Tensor | None) -> None:  # type: ignore[override]
        """Raise what is wrong with input, hidden state and cells."""
        self.check_input(input, batch_sizes)
        h, c = hidden
        expected = self.get_expected_hidden_size(input, batch_sizes)
        if h.shape != expected or self.proj_size or c.shape != expected:
            self.check_hidden_size(h, expected, "Expected hidden[0] size {}, got {}")
            self.check_hidden_size(c, self.get_expected_cell_size(input, batch_sizes), "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Hidden states and cells with their sequences in another order."""
        return hx if permutation is None else (hx[0].index_select(1, permutation), hx[1].index_select(1, permutation))

    def _first_state(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        zeros = _zeros(self.get_expected_hidden_size(input, batch_sizes), input)
        are_two = self.proj_size or active  # who looks at how they are made sees what PyTorch makes
        return (zeros, _zeros(self.get_expected_cell_size(input, batch_sizes), input) if are_two else zeros)

    def _with_batch(self, hx: Any, batched: bool, packed: bool) -> Any:
        if packed:
            return hx
        dims = 3 if batched else 2
        if hx[0].dim() != dims or hx[1].dim() != dims:
            kind = "batched 3-D" if batched else "unbatched 2-D"
            raise RuntimeError(f"For {kind} input, hx and cx should also be {dims}-D but got ({hx[0].dim()}-D, {hx[1].dim()}-D) tensors")
        return hx if batched else (hx[0].unsqueeze(1), hx[1].unsqueeze(1))

    def forward(self, input: Any, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Any, tuple[Tensor, Tensor]]:
        return self._run(ops.lstm, input, hx)


class GRU(RNNBase):
    """Gated recurrent units: layers whose state is partly reset and partly updated at each step.

    Args:
        input_size: features of the input.
        hidden_size: features of the state.
        num_layers: layers, each of which takes the output of the one before.
        bias: whether there are biases.
        batch_first: whether input and output are ``(N, T, *)`` instead of ``(T, N, *)``; states never are.
        dropout: probability of an element between layers to be zeroed, in training.
        bidirectional: whether each layer runs in both directions, whose outputs are put side by side.
        device, dtype: of the parameters; the default ones when None.
    Shape:
        ``(T, N, input_size)``, or ``(T, input_size)`` without a batch, to ``(T, N, directions * hidden_size)``; a packed sequence to a
        packed sequence. States: ``(layers * directions, N, hidden_size)``; zeros where none are passed.
    Attributes:
        weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, ...: of each layer, ``(3 * hidden_size, *)``; ``_reverse`` is added for the
            second direction. All uniform in ``±1 / sqrt(hidden_size)``.
    Raises:
        ValueError, TypeError: sizes or a dropout probability that make no sense.
        RuntimeError: input or states that do not fit.
    Source: torch.nn.GRU; Cho et al. 2014, with the reset gate behind the state's product.
    Example:
        >>> layer = nn.GRU(4, 8)
        >>> output, state = layer(torch.zeros(5, 3, 4), torch.ones(1, 3, 8))
        >>> output.shape, state.shape
        (torch.Size([5, 3, 8]), torch.Size([1, 3, 8]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        return self._run(ops.gru, input, hx)


# -- cells --------------------------------------------------------------------------------------------------------------------
class RNNCellBase(Module):
    """Parameters and checks that the recurrent cells share.

    Args:
        input_size, hidden_size: features of input and state.
        bias: whether there are biases.
        num_chunks: rows of the weights for each feature of the state: 1, 3 for GRU, 4 for LSTM.
        device, dtype: of the parameters; the default ones when None.
    Attributes:
        weight_ih: ``(num_chunks * hidden_size, input_size)``, uniform in ``±1 / sqrt(hidden_size)``.
        weight_hh: ``(num_chunks * hidden_size, hidden_size)``, the same.
        bias_ih, bias_hh: ``(num_chunks * hidden_size,)``, the same; None without bias.
    Source: torch.nn.RNNCellBase.
    Example:
        >>> nn.RNNCellBase(4, 8, bias=True, num_chunks=3).weight_ih.shape
        torch.Size([24, 4])
    """

    __constants__ = ["input_size", "hidden_size", "bias"]
    input_size: int
    hidden_size: int
    bias: bool

    def __init__(self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(ops.empty((rows, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(ops.empty((rows, hidden_size), device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(ops.empty(rows, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        shown = f"{self.input_size}, {self.hidden_size}"
        if "bias" in self.__dict__ and self.bias is not True:
            shown += f", bias={self.bias}"
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        return shown if nonlinearity == "tanh" else f"{shown}, nonlinearity={nonlinearity}"

    def _is_plain(self, input: Tensor, *states: Tensor) -> bool:
        """Whether input and states are batches of sizes that fit, so that there is nothing to look at."""
        shape = input.shape
        if len(shape) != 2 or shape[1] != self.input_size:
            return False
        fitting = (shape[0], self.hidden_size)
        for state in states:
            if state.shape != fitting:
                return False
        return True

    def _checked(self, input: Tensor, *states: tuple[str, Tensor]) -> None:
        """Raise what is wrong with the number of dimensions."""
        for name, tensor in (("input", input), *states):
            if tensor.dim() not in (1, 2):
                raise ValueError(f"{type(self).__name__}: Expected {name} to be 1D or 2D, got {tensor.dim()}D instead")

    def _fitting(self, input: Tensor, *states: Tensor) -> None:
        """Raise what is wrong with the sizes.

        Raises:
            RuntimeError: input or states have other numbers of features, or another batch size.
        """
        if input.size(1) != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {input.size(1)} expected {self.input_size}")
        for number, state in enumerate(states):
            if state.size(0) != input.size(0):
                raise RuntimeError(f"Input batch size {input.size(0)} doesn't match hidden{number} batch size {state.size(0)}")
            if state.size(1) != self.hidden_size:
                raise RuntimeError(f"hidden{number} has inconsistent hidden_size: got {state.size(1)}, expected {self.hidden_size}")

    def _step(self, function: Callable[..., Any], input: Tensor, hx: Tensor | None) -> Tensor:
        """The next state, of one sample or a batch."""
        if hx is not None and self._is_plain(input, hx):
            return function(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        self._checked(input, *(() if hx is None else (("hidden", hx),)))
        single = input.dim() == 1
        if single:
            input = input.unsqueeze(0)
        if hx is None:
            hx = _zeros((input.size(0), self.hidden_size), input)
        elif single:
            hx = hx.unsqueeze(0)
        self._fitting(input, hx)
        state = function(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return state.squeeze(0) if single else state


class RNNCell(RNNCellBase):
    """One step of ``h = tanh(W_ih x + b_ih + W_hh h + b_hh)``.

    Args:
        input_size, hidden_size: features of input and state.
        bias: whether there are biases.
        nonlinearity: ``"tanh"`` or ``"relu"``.
        device, dtype: of the parameters; the default ones when None.
    Shape:
        ``(N, input_size)`` and ``(N, hidden_size)``, both with or without ``N``, to the next state, ``(N, hidden_size)``. Zeros where no
        state is passed.
    Attributes:
        weight_ih, weight_hh, bias_ih, bias_hh: ``(hidden_size, *)``, uniform in ``±1 / sqrt(hidden_size)``.
    Raises:
        ValueError: another number of dimensions.
        RuntimeError: sizes that do not fit.
    Source: torch.nn.RNNCell.
    Example:
        >>> cell, state = nn.RNNCell(4, 8, nonlinearity="relu"), None
        >>> for element in torch.zeros(5, 3, 4):
        ...     state = cell(element, state)
        >>> state.shape
        torch.Size([3, 8])
    """

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]
    nonlinearity: str

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=1, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(ops.rnn_tanh_cell if self.nonlinearity == "tanh" else ops.rnn_relu_cell, input, hx)


class LSTMCell(RNNCellBase):
    """One step of an LSTM.

    Args:
        input_size, hidden_size: features of input and state.
        bias: whether there are biases.
        device, dtype: of the parameters; the default ones when None.
    Shape:
        ``(N, input_size)`` and ``(N, hidden_size)`` twice, hidden state and cell, both with or without ``N``, to the next hidden state and
        cell, a pair. Zeros where no state is passed.
    Attributes:
        weight_ih, weight_hh, bias_ih, bias_hh: ``(4 * hidden_size, *)``, uniform in ``±1 / sqrt(hidden_size)``.
    Raises:
        ValueError: another number of dimensions.
        RuntimeError: sizes that do not fit.
    Source: torch.nn.LSTMCell.
    Example:
        >>> state, memory = nn.LSTMCell(4, 8)(torch.zeros(3, 4))
        >>> state.shape, memory.shape
        (torch.Size([3, 8]), torch.Size([3, 8]))
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=4, device=device, dtype=dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        if hx is not None and self._is_plain(input, hx[0], hx[1]):
            return ops.lstm_cell(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        self._checked(input, *(() if hx is None else (("hx[0]", hx[0]), ("hx[1]", hx[1]))))
        single = input.dim() == 1
        if single:
            input = input.unsqueeze(0)
        if hx is None:
            zeros = _zeros((input.size(0), self.hidden_size), input)
            hx = (zeros, zeros)
        elif single:
            hx = (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        self._fitting(input, *hx)
        h, c = ops.lstm_cell(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return (h.squeeze(0), c.squeeze(0)) if single else (h, c)


class GRUCell(RNNCellBase):
    """One step of gated recurrent units.

    Args:
        input_size, hidden_size: features of input and state.
        bias: whether there are biases.
        device, dtype: of the parameters; the default ones when None.
    Shape:
        ``(N, input_size)`` and ``(N, hidden_size)``, both with or without ``N``, to the next state, ``(N, hidden_size)``. Zeros where no
        state is passed.
    Attributes:
        weight_ih, weight_hh, bias_ih, bias_hh: ``(3 * hidden_size, *)``, uniform in ``±1 / sqrt(hidden_size)``.
    Raises:
        ValueError: another number of dimensions.
        RuntimeError: sizes that do not fit.
    Source: torch.nn.GRUCell.
    Example:
        >>> nn.GRUCell(4, 8)(torch.zeros(3, 4), torch.zeros(3, 8)).shape
        torch.Size([3, 8])
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=3, device=device, dtype=dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step(ops.gru_cell, input, hx)
