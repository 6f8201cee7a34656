from flambeau.facades.horovod import *
