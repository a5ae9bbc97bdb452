"""The annotations table: who gave which label to which item. Knows nothing of torch."""

from realm.data.annotations import Annotations
from realm.data.items import Item, Items, Task
from realm.data.ledger import Ledger

__all__ = ["Annotations", "Item", "Items", "Ledger", "Task"]
