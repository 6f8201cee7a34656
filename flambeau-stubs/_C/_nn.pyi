from flambeau.facades._C._nn import *
