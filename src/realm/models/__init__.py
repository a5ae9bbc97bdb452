"""The store of models that a package index carries."""
