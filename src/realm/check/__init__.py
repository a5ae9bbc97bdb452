"""Data checks: what a table of annotations is worth, before any training."""

from realm.check.agreement import alpha_by_task, krippendorff_alpha
from realm.check.examine import Examination, examine
from realm.check.findings import Finding

__all__ = ["Examination", "Finding", "alpha_by_task", "examine", "krippendorff_alpha"]
