"""What the tape is made of: nodes, derivative rules, saved tensors, the history of views, hooks."""
