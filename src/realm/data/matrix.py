"""A label matrix, items by annotators, as `Annotations`: the shape that users of cleanlab and scikit-learn have."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from realm.data.annotations import Annotations


def read_matrix(labels: Any) -> tuple[Annotations, npt.NDArray[Any]]:
    """Annotations of a matrix, and its distinct labels as they are in it, sorted; see `Annotations.from_matrix`."""
    frame = pd.DataFrame(labels)
    values = frame.to_numpy()
    given = ~pd.isna(values)
    if np.issubdtype(values.dtype, np.number):
        given &= ~(values < 0)
    item, annotator = np.nonzero(given)
    options, label = np.unique(values[item, annotator], return_inverse=True)
    if np.issubdtype(options.dtype, np.floating) and (options == np.round(options)).all():
        options = options.astype(np.int64)  # whole numbers beside NaN
    names, label_set = list(map(str, frame.columns)), list(map(str, options))
    return Annotations.from_arrays(item, annotator, label, label_set, n_items=len(values), names=names), options
