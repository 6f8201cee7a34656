from flambeau.facades._C._profiler import *
