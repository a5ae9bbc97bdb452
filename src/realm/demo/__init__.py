"""The demo: a task written as a grammar, a crowd of simulated annotators, and the result of each method."""

from realm.demo.grammar import messages

__all__ = ["messages"]
