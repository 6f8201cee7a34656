from flambeau.facades.return_types import *
