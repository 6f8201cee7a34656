"""``torch.nn.utils``: clipping of gradients, parameters as one vector, modules without initialisation, sequences of several lengths."""

from ...core import late as _late
from . import rnn
from .clip_grad import clip_grad_norm, clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from .convert_parameters import parameters_to_vector, vector_to_parameters
from .init import skip_init

_late.adopt(__name__)

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "parameters_to_vector",
    "rnn",
    "skip_init",
    "vector_to_parameters",
]
