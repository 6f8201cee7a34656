"""From a Python function to machine code that the pool's threads run."""
