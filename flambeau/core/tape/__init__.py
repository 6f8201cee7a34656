"""Parts of the tape: nodes, derivative rules, saved tensors, the history of views, hooks."""
