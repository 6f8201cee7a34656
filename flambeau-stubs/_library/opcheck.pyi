from flambeau.aten.library.opcheck import *
