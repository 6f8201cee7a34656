"""Tensors in several processes: shared memory, queues, starting and ending of processes.

``python -m tests.processes SCENARIO --count N`` kills processes for long; the tests do a little of each.
"""
