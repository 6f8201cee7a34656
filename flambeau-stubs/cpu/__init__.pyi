from flambeau.facades.cpu import *
