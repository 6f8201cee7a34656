from flambeau.aten.library import *
