"""A test of the tests: small changes of the package's source, one at a time, each of which some test must notice."""
