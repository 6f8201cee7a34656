from flambeau.distributed.tensor.placement_types import *
