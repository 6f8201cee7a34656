from flambeau.utils.benchmark import Colorize as Colorize
from flambeau.utils.benchmark import Compare as Compare
