"""Several processes that train one network together, each with a share of every batch."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Literal, final, get_args

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from multirel.networks import Backbone, MultitaskNetwork
from multirel.networks._separate_outputs import SeparateOutputs
from multirel.priors import Penalty
from multirel.training._world import World

__all__ = ["DistributedWorld", "Strategy", "distribute"]

Strategy = Literal["ddp", "fsdp"]

BUCKET_SIZE = 2**20
"""Numbers that are sent at once, unless a single tensor has more: sending each alone takes longer."""

NORM_JITTER = 1e-6
"""Added to the norm of the gradient before dividing by it, as `torch.nn.utils.clip_grad_norm_` does."""


def distribute(
    network: nn.Module,
    strategy: Strategy = "ddp",
    *,
    find_unused_parameters: bool | None = None,
) -> nn.Module:
    """`network` for `train` in several processes, with the weights of the first process in all of them.

    | strategy | weights | gradients |
    |---|---|---|
    | "ddp" | whole in every process | averaged during the backward pass |
    | "fsdp" | those of `network.backbone` sharded over the processes, all others whole | the same |

    The strategy "ddp" wraps the network in `DistributedDataParallel`. The strategy "fsdp" changes it in
    place by `torch.distributed.fsdp.fully_shard`; the backbone must be called by every forward pass. A
    prior is attached before or after, in "fsdp" outside of the backbone.

    Args:
        network: The network, on the device of this process.
        strategy: "ddp" or "fsdp".
        find_unused_parameters: Whether a forward pass may leave out parameters, as those of a task without
            rows in it; to look for them takes some time. None looks unless the network is a
            `MultitaskNetwork` of stacks behind a backbone of `build_backbone` or none, which are always used
            whole. In "fsdp" it must be None.

    Raises:
        ValueError: If there is no such strategy, no backbone to shard, an argument that does not fit the
            strategy, or torch.distributed has not been initialized.
    """
    if strategy not in get_args(Strategy):
        known = ", ".join(map(repr, get_args(Strategy)))
        raise ValueError(f"`strategy` must be one of {known}: got {strategy!r}.")
    _check_initialized("distribute")
    if strategy == "fsdp":
        if find_unused_parameters is not None:
            raise ValueError(
                f"`find_unused_parameters` must be None for strategy='fsdp': got {find_unused_parameters}. "
                f"There, parameters outside of the backbone may always be unused."
            )
        return _shard_backbone(network)
    if find_unused_parameters is None:
        find_unused_parameters = _may_leave_out(network)
    replica = DistributedDataParallel(network, find_unused_parameters=find_unused_parameters)
    # The world exchanges buffers, after every step and not before every forward pass.
    replica.broadcast_buffers = False
    return replica


@final
class DistributedWorld(World):
    """All processes of torch.distributed, for `train(…, world=DistributedWorld())`.

    Every process is given the same rows and the same recipe, and draws the same batches, of which it takes
    its share: the result is that of one process, up to rounding. Three things differ: dropout draws other
    numbers; batch normalization sees the rows of one process, and its running averages are those of the
    first; and callbacks are called in all processes, which must all set `stops` alike.

    Raises:
        ValueError: If torch.distributed has not been initialized.
    """

    def __init__(self) -> None:
        _check_initialized("DistributedWorld")
        self._rank = dist.get_rank()
        self._size = dist.get_world_size()
        # Small numbers are exchanged on the CPU, so that none has to wait for a GPU.
        has_cpu = "cpu:" in dist.get_backend_config()
        self._cpu_group = dist.group.WORLD if has_cpu else dist.new_group(backend="gloo")

    @property
    def rank(self) -> int:
        return self._rank

    @property
    def size(self) -> int:
        return self._size

    def sum(self, values: Tensor) -> Tensor:
        total = values.detach().clone(memory_format=torch.contiguous_format)
        self._add_up(total)
        return total

    def module(self, network: nn.Module) -> nn.Module:
        if isinstance(network, DistributedDataParallel):
            inner: nn.Module = network.module
            return inner
        return network

    @torch.no_grad()
    def align(
        self, network: nn.Module, penalties: Sequence[Penalty], *, identity: Mapping[str, Any]
    ) -> None:
        _check_penalties(network, penalties)
        self._check_same(identity)
        values = [*network.parameters(), *network.buffers()]
        _in_buckets([value for value in values if not _is_sharded(value)], self._take_first)
        for penalty in penalties:
            state: dict[str, Tensor] = getattr(penalty, "state_dict", dict)()
            if state:
                _in_buckets([*state.values()], self._take_first)
                penalty.load_state_dict(state)  # type: ignore[attr-defined]

    def without_sync(self, network: nn.Module) -> AbstractContextManager[object]:
        if isinstance(network, DistributedDataParallel):
            return network.no_sync()
        sharded = [module for module in network.modules() if _can_hold_back(module)]
        return _holding_back(sharded) if sharded else nullcontext()

    @torch.no_grad()
    def exchange(self, network: nn.Module) -> None:
        if not isinstance(network, DistributedDataParallel):
            parameters = [p for p in network.parameters() if p.requires_grad]
            self._average_gradients([p for p in parameters if not _is_sharded(p)])
        changing = [module for module in network.modules() if module.training]
        buffers = [buffer for module in changing for buffer in module.buffers(recurse=False)]
        _in_buckets(buffers, self._take_first)

    @torch.no_grad()
    def clip(self, network: nn.Module, norm: float) -> None:
        gradients = [p.grad for p in network.parameters() if p.grad is not None]
        whole = [gradient for gradient in gradients if not _is_sharded(gradient)]
        parts = [_part_of(gradient) for gradient in gradients if _is_sharded(gradient)]
        squares = [_sum_of_squares(whole)] if whole else []
        if parts:
            squares.append(self.sum(_sum_of_squares(parts)))
        if squares:
            total = sum(squares[1:], squares[0]).sqrt()
            factor = (norm / (total + NORM_JITTER)).clamp(max=1)
            for gradient in (*whole, *parts):
                gradient.mul_(factor.to(gradient))

    def whole(self, values: Tensor) -> Tensor:
        if not _is_sharded(values):
            return values
        gathered: Tensor = values.full_tensor()  # type: ignore[attr-defined]
        return gathered

    def part(self, values: Tensor, like: Tensor) -> Tensor:
        if not _is_sharded(like) or _is_sharded(values):
            return values
        from torch.distributed.tensor import DTensor, distribute_tensor

        layout: DTensor = like  # type: ignore[assignment]
        return distribute_tensor(values, layout.device_mesh, layout.placements)

    def wait(self) -> None:
        self.sum(torch.zeros(()))

    def _check_same(self, identity: Mapping[str, Any]) -> None:
        """Raise in all processes if one has another identity than the first."""
        texts = [""] * self.size
        dist.all_gather_object(texts, json.dumps(identity), group=self._cpu_group)
        first, *others = map(json.loads, texts)
        for number, other in enumerate(others, start=1):
            if differences := [*_differences(first, other, number=number)]:
                raise ValueError(
                    f"`train` must be given the same in every process: they differ in "
                    f"{', '.join(differences)}. Give each of them all rows, which `train` shares out, and a "
                    f"checkpoint folder that all of them see."
                )

    def _average_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Replace gradients by their means; none counts as zero where another process has one."""
        is_here = torch.tensor([parameter.grad is not None for parameter in parameters])
        is_anywhere = self.sum(is_here.int()) > 0
        gradients = []
        for parameter, is_used in zip(parameters, is_anywhere.tolist(), strict=True):
            if is_used:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                gradients.append(parameter.grad)
        _in_buckets(gradients, self._average)

    def _average(self, values: Tensor) -> None:
        self._add_up(values)
        values /= self.size

    def _add_up(self, values: Tensor) -> None:
        dist.all_reduce(values, group=self._group_of(values))

    def _take_first(self, values: Tensor) -> None:
        dist.broadcast(values, src=0, group=self._group_of(values))

    def _group_of(self, values: Tensor) -> Any:
        return self._cpu_group if values.device.type == "cpu" else dist.group.WORLD


def _check_initialized(name: str) -> None:
    if not dist.is_available() or not dist.is_initialized():
        raise ValueError(
            f"`{name}` must come after `torch.distributed.init_process_group()`: got no process group. Start "
            f"the script by `torchrun --nproc-per-node 2`, and call it first."
        )


def _may_leave_out(network: nn.Module) -> bool:
    """Whether a forward pass may not use all parameters, as far as one can tell."""
    if not isinstance(network, MultitaskNetwork):
        return True
    has_known_backbone = isinstance(network.backbone, Backbone | nn.Identity)
    modules = {type(module) for module in network.modules()}
    return not has_known_backbone or SeparateOutputs in modules


def _shard_backbone(network: nn.Module) -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    backbone = getattr(network, "backbone", None)
    parameters = [*backbone.parameters()] if isinstance(backbone, nn.Module) else []
    if not isinstance(backbone, nn.Module) or not parameters:
        raise ValueError(
            f"`network` must have a `backbone` with parameters for strategy='fsdp': got "
            f"{type(network).__name__} without. Use strategy='ddp'."
        )
    world = DistributedWorld()
    world.align(network, (), identity={"network": [*_shapes_of(network)]})
    mesh = init_device_mesh(parameters[0].device.type, (world.size,))
    # Not whole between two passes, so that all who ask for the parameters find the sharded ones.
    fully_shard(backbone, mesh=mesh, reshard_after_forward=True)
    return network


def _shapes_of(network: nn.Module) -> Iterator[str]:
    for name, value in network.state_dict().items():
        yield f"{name} {tuple(value.shape)}"


def _check_penalties(network: nn.Module, penalties: Sequence[Penalty]) -> None:
    """Raise if a penalty acts on weights that are not those of the network."""
    known = {id(parameter) for parameter in network.parameters()}
    for penalty in penalties:
        for stack in getattr(penalty, "stacks", ()):
            if any(id(parameter) not in known for parameter in stack.parameters):
                raise ValueError(
                    f"`penalties` must act on the weights of `network`: those of {stack.layer!r} are not in "
                    f"it, or have been sharded since. Attach the prior to the network that is trained, "
                    f"outside of a sharded backbone."
                )


def _differences(first: Any, other: Any, *, number: int, name: str = "") -> Iterator[str]:
    """The leaves in which two nested dictionaries differ, and what they are."""
    if isinstance(first, Mapping) and isinstance(other, Mapping):
        for key in {**first, **other}:
            inner = f"{name}.{key}" if name else key
            yield from _differences(first.get(key), other.get(key), number=number, name=inner)
    elif first != other:
        yield f"{name} ({first} in process 0, {other} in process {number})"


def _in_buckets(tensors: Sequence[Tensor], change: Callable[[Tensor], None]) -> None:
    """Let `change` work on the values of tensors in place, those of many small ones at once."""
    for bucket in _buckets(tensors):
        flat = [tensor.detach().reshape(-1) for tensor in bucket]
        values = torch.cat(flat) if len(flat) > 1 else flat[0]
        change(values)
        for tensor, part in zip(bucket, values.split([len(f) for f in flat]), strict=True):
            if tensor.data_ptr() != part.data_ptr():
                tensor.copy_(part.view(tensor.shape))


def _buckets(tensors: Sequence[Tensor]) -> list[list[Tensor]]:
    """Tensors of one dtype on one device, together of no more than the size of a bucket."""
    buckets: list[list[Tensor]] = []
    current: dict[tuple[torch.dtype, torch.device], tuple[list[Tensor], int]] = {}
    for tensor in tensors:
        kind = tensor.dtype, tensor.device
        bucket, size = current.get(kind, ([], BUCKET_SIZE))
        if size + tensor.numel() > BUCKET_SIZE:
            bucket, size = [], 0
            buckets.append(bucket)
        bucket.append(tensor)
        current[kind] = bucket, size + tensor.numel()
    return buckets


@contextmanager
def _holding_back(modules: Sequence[Any]) -> Iterator[None]:
    """A context in which the gradients of sharded modules are not exchanged."""
    for module in modules:
        module.set_requires_gradient_sync(False)
    try:
        yield
    finally:
        for module in modules:
            module.set_requires_gradient_sync(True)


# The classes of sharded tensors and modules take long to import, and are not in every build of torch.


def _is_sharded(values: Tensor) -> bool:
    return hasattr(values, "device_mesh")


def _can_hold_back(module: nn.Module) -> bool:
    return hasattr(module, "set_requires_gradient_sync")


def _part_of(values: Tensor) -> Tensor:
    part: Tensor = values.to_local()  # type: ignore[attr-defined]
    return part


def _sum_of_squares(values: Sequence[Tensor]) -> Tensor:
    """The sum of the squares of all numbers in some tensors, on the device of the first."""
    norms = [torch.linalg.vector_norm(value).to(values[0]) for value in values]
    return torch.stack(norms).square().sum()
