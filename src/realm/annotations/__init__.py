"""The annotations table: who gave which label to which item. Knows nothing of torch."""

from realm.annotations.ledger import Ledger
from realm.annotations.table import Annotations, Task

__all__ = ["Annotations", "Ledger", "Task"]
