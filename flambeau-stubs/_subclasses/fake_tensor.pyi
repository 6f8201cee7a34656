from flambeau.aten.fake_tensor import *
