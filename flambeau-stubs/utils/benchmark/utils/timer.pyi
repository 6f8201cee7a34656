from flambeau.utils.benchmark import Language as Language
from flambeau.utils.benchmark import Timer as Timer
from flambeau.utils.benchmark import timer as timer
