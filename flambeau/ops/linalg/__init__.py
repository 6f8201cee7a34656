"""Linear algebra: products, matrices, factorisations, systems of equations, norms."""
