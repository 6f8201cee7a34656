from flambeau.facades.futures import *
