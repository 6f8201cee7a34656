from flambeau.facades.__future__ import *
