from flambeau.func import vmap as vmap
