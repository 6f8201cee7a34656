from flambeau.facades._inductor.compile_fx import *
