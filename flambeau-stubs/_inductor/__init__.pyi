from flambeau.facades._inductor import *
