"""What must not break a process: exceptions of signal handlers, Ctrl-C, threads that race for first uses, forks.

``python -m tests.faults SCENARIO --count N`` runs a scenario for long; ``test_faults.py`` runs a little of each.
"""
