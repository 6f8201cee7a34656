from flambeau.facades.visdom import *
