from flambeau.facades._dynamo.exc import *
