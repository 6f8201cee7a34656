from flambeau.facades._C import *
