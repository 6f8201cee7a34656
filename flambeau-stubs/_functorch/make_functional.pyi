from flambeau.facades.functorch import *
