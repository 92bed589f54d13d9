"""Layers with their own weights for every task, and networks made of them."""

from multirel.networks._backbone import Backbone
from multirel.networks._build_backbone import build_backbone
from multirel.networks._factorized_task_linear import FactorizedTaskLinear
from multirel.networks._multitask_network import MultitaskNetwork
from multirel.networks._network_copies import NetworkCopies
from multirel.networks._preprocessing import Preprocessing
from multirel.networks._rows_by_task import RowsByTask, group_rows
from multirel.networks._task_conv import TaskConv2d
from multirel.networks._task_linear import TaskLinear
from multirel.networks._task_linear_copies import TaskLinearCopies

__all__ = [
    "Backbone",
    "FactorizedTaskLinear",
    "MultitaskNetwork",
    "NetworkCopies",
    "Preprocessing",
    "RowsByTask",
    "TaskConv2d",
    "TaskLinear",
    "TaskLinearCopies",
    "build_backbone",
    "group_rows",
]
