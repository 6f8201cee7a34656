from flambeau.core.tensor import Tensor as Tensor
from flambeau.core.protocols.rebuild import _rebuild_from_type_v2 as _rebuild_from_type_v2
