"""``torch.distributed.elastic``: what a worker process tells the one that started it."""
