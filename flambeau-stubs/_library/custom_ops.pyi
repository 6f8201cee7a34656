from flambeau.aten.library.custom_ops import *
