from flambeau.facades.__config__ import *
