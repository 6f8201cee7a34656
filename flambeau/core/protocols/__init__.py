"""Protocols above tensors whose methods are put on them: printing, pickling, old constructors."""
