from flambeau.aten.library.autograd import *
