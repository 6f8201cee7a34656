from flambeau.facades._dynamo.config import *
