"""A label matrix, items by annotators, as `Annotations`: the shape that users of cleanlab and scikit-learn have."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from realm.data.annotations import Annotations


def read_matrix(labels: Any) -> tuple[Annotations, npt.NDArray[Any]]:
    """Annotations of a matrix (items, annotators), and its distinct labels as they are in it, sorted: (options,).

    NaN, None or a negative number is no label. The columns of a DataFrame name the annotators.
    """
    import pandas as pd

    values = labels.to_numpy() if hasattr(labels, "to_numpy") else np.asarray(labels)
    given = ~pd.isna(values)
    if np.issubdtype(values.dtype, np.number):
        given &= ~(values < 0)
    item, annotator = np.nonzero(given)
    options, label = np.unique(values[item, annotator], return_inverse=True)
    if np.issubdtype(options.dtype, np.floating) and (options == np.round(options)).all():
        options = options.astype(np.int64)  # whole numbers beside NaN
    names = [str(name) for name in getattr(labels, "columns", range(values.shape[1]))]
    table = Annotations.from_arrays(item, annotator, label, list(map(str, options)), n_items=len(values), names=names)
    return table, options
