from flambeau.facades._C._functorch import *
