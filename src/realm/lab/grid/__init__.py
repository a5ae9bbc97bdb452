"""Grids: a YAML spec to cells with stable ids, what is missing run, every finished cell kept in one SQLite file."""
