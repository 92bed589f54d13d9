"""Data of several tasks: rows, labels and the task of each row."""

from multirel.data._folds import TaskFolds, task_folds
from multirel.data._related_tasks import make_related_tasks
from multirel.data._task_data import TaskData

__all__ = ["TaskData", "TaskFolds", "make_related_tasks", "task_folds"]
