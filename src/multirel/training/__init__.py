"""Training of networks on several tasks: one loop, and what goes into it."""

from multirel.training._callbacks import Callback, TrainingState
from multirel.training._checkpoints import Checkpoint
from multirel.training._copies import train_copies
from multirel.training._distributed import DistributedWorld, distribute
from multirel.training._feature_cache import cached_features
from multirel.training._history import History
from multirel.training._hold_out import hold_out
from multirel.training._loop import train
from multirel.training._losses import Losses
from multirel.training._optimizers import build_optimizer, parameter_groups
from multirel.training._penalties import add_penalty_gradients, step_penalties
from multirel.training._recipe import Recipe
from multirel.training._rows import Batch, DatasetRows, Rows, TrainingRows
from multirel.training._sampling import TaskSampler
from multirel.training._world import World

__all__ = [
    "Batch",
    "Callback",
    "Checkpoint",
    "DatasetRows",
    "DistributedWorld",
    "History",
    "Losses",
    "Recipe",
    "Rows",
    "TaskSampler",
    "TrainingRows",
    "TrainingState",
    "World",
    "add_penalty_gradients",
    "build_optimizer",
    "cached_features",
    "distribute",
    "hold_out",
    "parameter_groups",
    "step_penalties",
    "train",
    "train_copies",
]
