"""Engines that move bytes between processes: MPI, started with or without its launcher, and a group of one that needs none."""
