"""``torch.nn``: modules, layers, losses, and what belongs to them."""

# ruff: noqa: F401, F403 - every file lists its public names itself

from ..core import late as _late
from ..core.calls.machine_calls import once_there as _once_there
from . import attention, common_types, functional, init, modules, parallel, utils
from .activation import *
from .adaptive import *
from .containers import *
from .conv import *
from .distance import *
from .dropout import *
from .embedding import *
from .flatten import *
from .fold import *
from .linear import *
from .linear_cross_entropy import *
from .loss import *
from .module import Module
from .multihead_attention import *
from .normalization import *
from .padding import *
from .parallel import DataParallel as DataParallel
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter
from .pooling import *
from .rnn import *
from .shuffling import *
from .sync_batchnorm import *
from .transformer import *
from .upsampling import *

_late.adopt(__name__)
_once_there(f"{__name__}._machine")
