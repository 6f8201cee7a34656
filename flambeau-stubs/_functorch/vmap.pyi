from flambeau.func._vmap import *
