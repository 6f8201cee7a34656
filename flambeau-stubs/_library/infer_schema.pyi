from flambeau.aten.library.infer_schema import *
