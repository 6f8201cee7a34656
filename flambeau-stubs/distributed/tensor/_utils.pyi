from flambeau.distributed.tensor._spec import *
