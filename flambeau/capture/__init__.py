"""Programs as graphs of operations over arrays: recording, passes, and running them again.

    function --recorder--> Graph --passes--> Graph --interpret or lowering--> run(arrays) -> arrays

``graph`` has the representation, ``recorder`` makes it from one run of a program, ``passes`` simplify it, ``interpret`` makes the
reference replay of it. ``torch.compile`` (``flambeau.compiler``) decides when a recording may be replayed.

``lowering`` makes the quick replay, a plan of kernel launches: ``fusion`` groups element-wise nodes, ``elementwise`` has their kernels,
``rowwise`` those of groups with operations along rows, ``rules`` says how other operations become launches, ``launches`` finds those of
any native kernel, ``updates`` those of optimizers, ``planning`` gives values their places, ``driver`` runs the plan, ``picture`` draws it.
"""
