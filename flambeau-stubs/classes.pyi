from flambeau.facades.classes import *
