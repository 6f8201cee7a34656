"""``torch.distributed._composable``: what is done to modules in place for several processes."""
