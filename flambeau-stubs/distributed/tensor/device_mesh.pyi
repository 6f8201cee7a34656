from flambeau.distributed.device_mesh import *
