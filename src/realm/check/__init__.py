"""Data checks: what a table of annotations is worth, before any training."""

from realm.check.examine import Examination, examine
from realm.check.findings import Finding

__all__ = ["Examination", "Finding", "examine"]
