from flambeau.distributed.tensor._api import *
