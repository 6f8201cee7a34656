"""Losses, and the recursion of connectionist temporal classification."""
