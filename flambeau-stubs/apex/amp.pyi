from flambeau.facades.apex.amp import *
