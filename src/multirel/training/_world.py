"""The processes that train together, as the loop sees them; usually there is one."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, final

from torch import Tensor, nn

from multirel._annotations import Int
from multirel.priors import Penalty

__all__ = ["SingleProcess", "World"]


class World(ABC):
    """What the loop asks of the processes that train together.

    All processes draw the same batches. Each takes its share, and divides its losses by the weights of the
    whole batch over the number of processes, so that the mean of the gradients is that of one process.
    """

    @property
    @abstractmethod
    def rank(self) -> int:
        """The number of this process, from 0, which alone writes files and shows progress."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of processes."""

    @abstractmethod
    def sum(self, values: Tensor) -> Tensor:
        """The sum over the processes, the same in each of them."""

    @abstractmethod
    def module(self, network: nn.Module) -> nn.Module:
        """The network itself, without what was wrapped around it."""

    @abstractmethod
    def align(
        self, network: nn.Module, penalties: Sequence[Penalty], *, identity: Mapping[str, Any]
    ) -> None:
        """Give all processes the weights and the penalties of the first.

        Args:
            network: The network itself.
            penalties: Its penalties.
            identity: What must be the same in every process, as JSON can hold it.

        Raises:
            ValueError: If it is not, or a penalty acts on weights that are not in the network.
        """

    @abstractmethod
    def without_sync(self, network: nn.Module) -> AbstractContextManager[object]:
        """A context for forward and backward passes whose gradients add up here and are not exchanged."""

    @abstractmethod
    def exchange(self, network: nn.Module) -> None:
        """Finish the gradients of a step: what the network has not exchanged in its backward pass."""

    @abstractmethod
    def clip(self, network: nn.Module, norm: float) -> None:
        """Shorten the gradient of all weights together to `norm`, if it is longer."""

    @abstractmethod
    def whole(self, values: Tensor) -> Tensor:
        """All of a tensor of which every process may hold a part; every process must call it."""

    @abstractmethod
    def part(self, values: Tensor, like: Tensor) -> Tensor:
        """This process's part of `values`, laid out as `like` is."""

    @abstractmethod
    def wait(self) -> None:
        """Wait until all processes are here."""

    def share(self, index: Int[Tensor, "n"]) -> Int[Tensor, "m"]:
        """The rows of a batch that this process takes: none if there are fewer rows than processes."""
        return index[self.rank :: self.size]


@final
class SingleProcess(World):
    """One process that has everything."""

    @property
    def rank(self) -> int:
        return 0

    @property
    def size(self) -> int:
        return 1

    def sum(self, values: Tensor) -> Tensor:
        return values

    def module(self, network: nn.Module) -> nn.Module:
        """The network, which must not be one of several processes.

        Raises:
            ValueError: If it is.
        """
        # What only sharded parameters have: their class takes long to import.
        is_sharded = any(hasattr(parameter, "device_mesh") for parameter in network.parameters())
        if is_sharded or isinstance(network, nn.parallel.DistributedDataParallel):
            raise ValueError(
                "`world` must be given with a network for several processes: got None. Call "
                "train(…, world=DistributedWorld())."
            )
        return network

    def align(
        self, network: nn.Module, penalties: Sequence[Penalty], *, identity: Mapping[str, Any]
    ) -> None:
        """Nothing to align."""

    def without_sync(self, network: nn.Module) -> AbstractContextManager[object]:
        return nullcontext()

    def exchange(self, network: nn.Module) -> None:
        """Nothing to exchange."""

    def clip(self, network: nn.Module, norm: float) -> None:
        nn.utils.clip_grad_norm_(network.parameters(), norm)

    def whole(self, values: Tensor) -> Tensor:
        return values

    def part(self, values: Tensor, like: Tensor) -> Tensor:
        return values

    def wait(self) -> None:
        """Nothing to wait for."""
