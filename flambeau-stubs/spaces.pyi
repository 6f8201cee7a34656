from flambeau.facades.spaces import *
