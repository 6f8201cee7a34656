from flambeau.facades._VF import *
