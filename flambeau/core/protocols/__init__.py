"""What stands above tensors and is put on them: printing, pickling, old constructors."""
