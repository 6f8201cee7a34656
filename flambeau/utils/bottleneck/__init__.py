"""A report on where a script spends its time: ``python -m flambeau.utils.bottleneck script.py [args]``. Source: torch.utils.bottleneck."""
