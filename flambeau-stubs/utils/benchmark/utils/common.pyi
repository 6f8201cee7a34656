from flambeau.utils.benchmark import Measurement as Measurement
from flambeau.utils.benchmark import TaskSpec as TaskSpec
from flambeau.utils.benchmark import ordered_unique as ordered_unique
from flambeau.utils.benchmark import select_unit as select_unit
from flambeau.utils.benchmark import set_torch_threads as set_torch_threads
from flambeau.utils.benchmark import trim_sigfig as trim_sigfig
from flambeau.utils.benchmark import unit_to_english as unit_to_english
