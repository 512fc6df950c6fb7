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
from router.page.models.timeline import Plot, Step, plot, steps, unscheduled
from router.page.models.usage import Used, usage
from router.policy import Policy
from router.policy.decision import QueueStates


@dataclass(frozen=True, slots=True)
class PodPart:
    """One Pod on the page, with what it used."""

    pod: PodStory
    used: tuple[Used, ...]


@dataclass(frozen=True, slots=True)
class JobPage:
    """Everything that a Job's page shows. ``script``: its own part of the script that was decided, or empty."""

    story: Story
    shape: str
    steps: tuple[Step, ...]
    plot: Plot | None
    pods: tuple[PodPart, ...]
    explained: Explained
    script: str
    commands: tuple[tuple[str, str], ...]
    missed: tuple[str, ...]


def job_page(
    objects: JobObjects, policy: tuple[Policy | None, str], now: float, states: QueueStates, reader: str
) -> JobPage:
    """The page of a Job.

    :param policy: the policy of now, or None and why it is unknown
    :param now: seconds since 1970
    :param states: the state of queues by which the Job is explained
    :param reader: for whom, if the Job does not say who made it
    """
    found = story(objects.job, objects.pods, objects.events)
    known, why = policy
    told = Explained(problem=why) if known is None else explained(objects.job, known, states, now, reader)
    return JobPage(
        story=found,
        shape=SHAPES[JobPhase(found.state)],
        steps=steps(found, unscheduled(objects.pods), now),
        plot=plot(found, now),
        pods=tuple(PodPart(pod, usage(pod, found.sizes)) for pod in found.pods),
        explained=told,
        script=str(notes_of(objects.job).get(names.KEY_SCRIPT) or ""),
        commands=commands(found),
        missed=objects.missed,
    )
