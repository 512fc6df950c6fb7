"""The cloud's own nodes as one number of cores.

Pure, with a state. A Pod starts when its cores are free; one that is too large for now holds nobody up, as Kubernetes'
scheduler also tries the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from router.values import unchanging


@unchanging
class CloudPod:
    """A Pod, with its cores in thousandths; ``number`` is unique."""

    number: int
    cores: int


class Cloud:
    """Cores that Pods share.

    :param cores: in thousandths; None for as many as are asked for
    """

    def __init__(self, cores: int | None) -> None:
        self.cores = cores
        self.waiting: list[CloudPod] = []
        self._running: dict[int, int] = {}
        self._used = 0
        self._new: list[CloudPod] = []
        self._freed = False

    def holds(self, cores: int) -> bool:
        """Whether such a Pod would fit if nothing else ran."""
        return self.cores is None or cores <= self.cores

    def submit(self, pod: CloudPod) -> None:
        """Add a Pod, which must be one that the cloud holds."""
        self.waiting.append(pod)
        self._new.append(pod)

    def end(self, number: int) -> None:
        """Free a Pod's cores."""
        self._used -= self._running.pop(number)
        self._freed = True

    def start(self) -> Iterator[CloudPod]:
        """Start all Pods that fit, in the order of their creation."""
        tried: Sequence[CloudPod] = self.waiting if self._freed else self._new
        begun: dict[int, CloudPod] = {}
        for pod in tried:
            if self.cores is None or self._used + pod.cores <= self.cores:
                self._used += pod.cores
                self._running[pod.number] = pod.cores
                begun[pod.number] = pod
        self._new, self._freed = [], False
        if begun:
            self.waiting = [pod for pod in self.waiting if pod.number not in begun]
        yield from begun.values()
