from flambeau.facades._tensor_str import *
