from flambeau.func import debug_unwrap as debug_unwrap
from flambeau.func import functionalize as functionalize
from flambeau.func import hessian as hessian
from flambeau.func import jacfwd as jacfwd
from flambeau.func import jacrev as jacrev
from flambeau.func import jvp as jvp
from flambeau.func import linearize as linearize
from flambeau.func import vjp as vjp
