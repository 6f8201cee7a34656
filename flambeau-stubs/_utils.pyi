from flambeau.facades._utils import *
