from flambeau.facades._guards import *
