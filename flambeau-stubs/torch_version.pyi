from flambeau.facades.torch_version import *
