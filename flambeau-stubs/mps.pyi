from flambeau.facades.mps import *
