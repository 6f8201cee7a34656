"""Mathematical functions of vectors, and the coefficients of what approximates them."""
