from flambeau.jit._internal import *
