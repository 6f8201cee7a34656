"""Façades for names that programs expect from PyTorch, or from another library, with little behind them; ``modules`` has the table.

unsupported       names that raise ``NotImplementedError``
more_names        names of ``torch`` that are neither operations nor settings
everything else   a module of PyTorch's, of Apex, visdom or Gym: ``facades/_C`` is ``flambeau._C``
"""
