"""What programs expect by PyTorch's names, or another library's, and what is little more than names here; ``modules`` has the table.

unsupported       names that raise ``NotImplementedError``
more_names        names of ``torch`` that are neither operations nor settings
everything else   a module of PyTorch's, of Apex, visdom or Gym: ``facades/_C`` is ``flambeau._C``
"""
