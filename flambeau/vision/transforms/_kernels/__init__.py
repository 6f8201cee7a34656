"""Functions of both forms of transforms, which look up a kernel by the type of their input, and the kernels.

``transforms.v2.functional`` shows these functions as they are; ``transforms.functional`` checks and orders its arguments and calls them.
"""
