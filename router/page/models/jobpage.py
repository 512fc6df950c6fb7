"""Puts a Job's page together.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from router import names
from router.operating.jobs import JobPhase
from router.operating.story import PodStory, Story, notes_of, story
from router.page.models.commands import commands
from router.page.models.explained import Explained, explained
from router.page.models.joblist import SHAPES
from router.page.models.looking import JobObjects
from router.page.models.marks import seen
from router.page.models.parts import urgency
from router.page.models.timeline import Plot, Step, plot, steps, unscheduled
from router.page.models.usage import Asked, Used, asked_of, untold, usage
from router.policy import Policy
from router.policy.decision import QueueStates, Requester


@dataclass(frozen=True, slots=True)
class PodPart:
    """One Pod on the page, with what it used, and a sentence about what of that is unknown."""

    pod: PodStory
    used: tuple[Used, ...]
    untold: str


@dataclass(frozen=True, slots=True)
class JobPage:
    """Everything that a Job's page shows. ``script``: its own part of the script that was decided, all of it seen, or empty.

    ``pods``: the first ones, failed and running ones before others. ``phases`` counts all of them.
    """

    story: Story
    shape: str
    steps: tuple[Step, ...]
    plot: Plot | None
    pods: tuple[PodPart, ...]
    phases: tuple[tuple[str, int], ...]
    explained: Explained
    script: str
    commands: tuple[tuple[str, str], ...]
    missed: tuple[str, ...]

    @property
    def all_pods(self) -> int:
        """How many Pods there are."""
        return sum(count for _, count in self.phases)


def job_page(
    objects: JobObjects, policy: tuple[Policy | None, str], now: float, states: QueueStates, reader: Requester
) -> JobPage:
    """The page of a Job.

    :param policy: the policy of now, or None and why it is unknown
    :param now: seconds since 1970
    :param states: the state of queues by which the Job is explained
    :param reader: who looks, for whom it is if the Job does not say who made it
    """
    found = story(objects.job, objects.pods, objects.events)
    known, why = policy
    asked = asked_of(objects.job, found.decision, known, objects.filled.cluster) if found.pods else Asked()
    on_hpc = bool(found.decision.site)
    filled = objects.filled
    told = Explained(problem=why) if known is None else explained(objects.job, known, states, now, reader, filled)
    return JobPage(
        story=found,
        shape=SHAPES[JobPhase(found.state)],
        steps=steps(found, unscheduled(objects.pods), now),
        plot=plot(found, now),
        pods=tuple(
            PodPart(pod, usage(pod, asked), untold(pod, asked, on_hpc=on_hpc))
            for pod in sorted(found.pods, key=lambda one: urgency(one.phase))
        ),
        phases=tuple((phase.lower(), count) for phase, count in objects.phases.items()),
        explained=told,
        script=seen(str(notes_of(objects.job).get(names.KEY_SCRIPT) or "")),
        commands=commands(found),
        missed=objects.missed,
    )
