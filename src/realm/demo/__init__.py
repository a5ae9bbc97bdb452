"""The demo: a task written as a grammar, a crowd of simulated annotators, and what each method makes of it."""
