"""One-coin Dawid-Skene: a single accuracy per annotator."""

from __future__ import annotations

from dataclasses import dataclass

from realm.crowd.aggregation.arrays import AnnotationArrays
from realm.crowd.aggregation.base import EMAggregator
from realm.crowd.coin import Coin


@dataclass(eq=False)
class OneCoin(EMAggregator):
    """EM for one accuracy per annotator: right with probability a, else any of the other K - 1 options equally.

    Y. Zhang, X. Chen, D. Zhou and M. I. Jordan (2016). Spectral methods meet EM: a provably optimal algorithm for
    crowdsourcing. Journal of Machine Learning Research, 17, 1-44.

    Starts from the shares of the labels. The annotator model is `realm.crowd.coin.Coin`; K is the number of the item's
    own options. `accuracy_` is a; the other attributes are those of every `EMAggregator`.

    Examples:
        >>> items, annotators = [0, 0, 0, 1, 1, 1, 2, 2, 2], [0, 1, 2, 0, 1, 2, 0, 1, 2]
        >>> model = OneCoin().fit(items, annotators, labels=[0, 0, 1, 1, 1, 0, 1, 1, 1])
        >>> model.labels_.tolist(), model.accuracy_.round(2).tolist()
        ([0, 1, 1], [1.0, 1.0, 0.33])
    """

    def _model(self, arrays: AnnotationArrays) -> Coin:
        return arrays.coin
