"""Fast paths as machine code: what a call of a small operation does, without Python's bytecodes in between."""
