"""Importing this module makes ``torch`` mean flambeau: for child processes, for which one can set what to import and little else."""

from . import install

install()
