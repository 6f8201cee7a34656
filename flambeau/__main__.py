"""``python -m flambeau script.py``: see :mod:`flambeau.runner`."""

from .runner import main

if __name__ == "__main__":
    main()
