from flambeau.facades.apex.parallel import *
