"""Importing this module makes ``torch`` mean flambeau: for child processes, which can be told what to import and little else."""

from . import install

install()
