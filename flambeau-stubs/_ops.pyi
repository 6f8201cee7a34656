from flambeau.aten.namespaces import *
