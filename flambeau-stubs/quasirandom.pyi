from flambeau.facades.quasirandom import *
