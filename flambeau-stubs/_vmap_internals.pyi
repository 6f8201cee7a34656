from flambeau.facades._vmap_internals import *
