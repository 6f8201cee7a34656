from flambeau.func import grad as grad
from flambeau.func import grad_and_value as grad_and_value
from flambeau.func import vmap as vmap
