"""``python -m flambeau.runner script.py``: the same as ``python -m flambeau``."""

from . import main

if __name__ == "__main__":
    main()
