"""The annotations table: who gave which label to which item. Knows nothing of torch.

Its classes are imported when they are asked for, so that the flags of the command line need no numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from realm.data.annotations import Annotations
    from realm.data.items import Item, Items, Task
    from realm.data.ledger import Ledger
    from realm.data.read_options import ReadOptions

__all__ = ["Annotations", "Item", "Items", "Ledger", "ReadOptions", "Task"]
_MODULE_OF = {"Annotations": "annotations", "Ledger": "ledger", "ReadOptions": "read_options"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"realm.data.{_MODULE_OF.get(name, 'items')}"), name)
