from flambeau.facades.apex import *
