from flambeau.facades._dynamo.utils import *
