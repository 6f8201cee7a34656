"""From a declaration to a call: operations, the registry, generated wrappers, the one path, promotion, overrides."""
