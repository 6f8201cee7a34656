from flambeau.facades.cpu.amp import *
