from flambeau.facades._dynamo.testing import *
