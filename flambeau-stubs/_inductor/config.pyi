from flambeau.facades._inductor.config import *
