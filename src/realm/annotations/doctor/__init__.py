"""The doctor: what a table of annotations is worth, before any training."""

from realm.annotations.doctor.agreement import alpha_by_task, krippendorff_alpha
from realm.annotations.doctor.examine import Examination, Finding, examine

__all__ = ["Examination", "Finding", "alpha_by_task", "examine", "krippendorff_alpha"]
