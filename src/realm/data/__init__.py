"""The annotations table: who gave which label to which item. Knows nothing of torch."""

from realm.data.annotations import Annotations, Task
from realm.data.ledger import Ledger

__all__ = ["Annotations", "Ledger", "Task"]
