from flambeau.facades._dynamo import *
