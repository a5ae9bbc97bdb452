"""Training: a scorer and a channel, batches of annotations, and the run folder."""

from realm.training.config import METHODS, RealmConfig
from realm.training.model import RealmModel
from realm.training.run_folder import Run
from realm.training.trainer import RealmTrainer

__all__ = ["METHODS", "RealmConfig", "RealmModel", "RealmTrainer", "Run"]
