"""The random generator and the distributions drawn from it."""
