"""Finds and pulls the images of Pods on the site's host before a job is submitted.

Shell (threads, a clock): asks imagepull as one HPC user. It answers within seconds, and a pull goes on by itself. Each
question has its own thread, so a hanging registry holds up only submissions that need it; these are tried again later.
One question about an image is under way at a time, and its answer serves all Pods.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from router import names
from router.errors import BatchgateError
from router.host import Ended, Runner
from router.pod import image as ociimage
from router.pod import pullsecrets
from router.pod.image import Question, Seen, Used, Wait
from router.pod.view import PodView
from router.site import images
from router.site.credentials import reads_pull_secrets
from router.site.schema import Runtime, Site

log: Final = logging.getLogger("batchgate.agent")

Json = Mapping[str, Any]
ASK_SECONDS: Final = 60.0
"""How long imagepull may take to answer, as it may wait for several registries."""
PATIENCE: Final = 1.0
MOST_ASKED: Final = 8
"""Most questions under way at once for one user."""
MOST_KEPT: Final = 300
"""Most answers kept for one user: each holds up to 256 KiB of an image's configuration."""
KEPT_SECONDS: Final = ociimage.FORGOTTEN
"""How long an answer is kept without a Pod that asks for it; a waiting Pod asks again sooner."""
_NEVER: Final = "Never"
_PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


class ImageWait(BatchgateError):
    """An image is still missing; holds a kubelet's reason, the time of the next try, and the image."""

    def __init__(self, image: str, wait: Wait) -> None:
        super().__init__(wait.message)
        self.image = image
        self.reason = wait.reason or names.REASON_CREATING
        self.until = wait.until


class Images:
    """Answers about images, asked as one HPC user.

    :param patience: seconds for which a submission waits for an answer before it is put off
    """

    def __init__(
        self,
        runner: Runner,
        site: Site,
        user: str,
        *,
        clock: Callable[[], float] = time.time,
        patience: float = PATIENCE,
    ) -> None:
        self._runner = runner
        self._site = site
        self._user = user
        self._clock = clock
        self._patience = patience
        self._lock = threading.Condition()
        self._seen: dict[Question, Seen] = {}
        self._wanted: dict[Question, float] = {}  # when a Pod last asked, in seconds since 1970
        self._asking: set[Question] = set()

    def of(self, pod: Json, created: float, secrets: Sequence[Json] = ()) -> dict[str, Used]:
        """The image of each container of a Pod, by the container's name; images that the job itself finds are left out.

        :param created: when the Pod was made, in seconds since 1970
        :param secrets: the Pod's existing pull secrets
        :raises ImageWait: one of the images is still missing
        """
        with self._lock:
            self._forget()
        asked = dict(self._questions(pod, secrets))
        for question in dict.fromkeys(asked.values()):
            self._begin(question, created)
        self._await(set(asked.values()))
        found = {name: self._used(question, created) for name, question in asked.items()}
        return {name: used for name, used in found.items() if used is not None}

    # --- questions ----------------------------------------------------------------------------------------------

    def _questions(self, pod: Json, secrets: Sequence[Json]) -> Iterator[tuple[str, Question]]:
        site = self._site
        if site.runtime is Runtime.HOST or site.pull == "never":
            return
        spec = pod["spec"]
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
            image = str(container["image"])
            file = images.mapped(site, image)
            yield (
                container["name"],
                Question(
                    image=image,
                    file=file,
                    cache=cache_directory(site, self._user),
                    policy=ociimage.pull_policy(container),
                    when="job" if site.pull == "job" else "host",
                    runtime=site.runtime_path or str(site.runtime),
                    insecure=images.is_insecure(site, image),
                    auths=() if file else pullsecrets.credentials(secrets, image),
                ),
            )

    def _begin(self, question: Question, created: float) -> None:
        """Ask a question, unless its answer is known or under way."""
        with self._lock:
            known = self._seen.get(question)
            if known is not None:
                self._wanted[question] = self._clock()
            if known is not None and ociimage.stands(known, question, created, self._clock()):
                return
            if question in self._asking or len(self._asking) >= MOST_ASKED:
                return
            self._asking.add(question)
        name = f"image {question.image}"[:64]
        try:
            threading.Thread(target=self._ask, args=(question,), name=name, daemon=True).start()
        except RuntimeError:  # no more threads: asked again at the next turn
            with self._lock:
                self._asking.discard(question)
            raise

    def _forget(self) -> None:
        """Drop answers that no Pod asked for lately, and the oldest ones above ``MOST_KEPT``; called in the lock."""
        lately = self._clock() - KEPT_SECONDS
        ordered = sorted(self._seen, key=self._wanted.__getitem__, reverse=True)
        for number, question in enumerate(ordered):
            if number >= MOST_KEPT or self._wanted[question] < lately:
                del self._seen[question], self._wanted[question]

    def _await(self, questions: set[Question]) -> None:
        with self._lock:
            self._lock.wait_for(lambda: not self._asking & questions, self._patience)

    def _ask(self, question: Question) -> None:
        asked = self._clock()
        answer = ociimage.unanswered("imagepull was not asked to the end")
        try:
            answer = self._answer(question)
        finally:
            with self._lock:
                found = ociimage.seen(self._seen.pop(question, None), answer, asked, self._clock())
                self._seen[question] = found
                self._wanted.setdefault(question, asked)
                self._forget()
                self._asking.discard(question)
                self._lock.notify_all()
        if answer.state == ociimage.FAILED:
            fields = {"image": question.image, "user": self._user, "reason": answer.reason, "words": answer.message}
            log.log(logging.INFO if question.file else logging.WARNING, "image", extra={"fields": fields})

    def _answer(self, question: Question) -> ociimage.ImageState:
        program = self._site.imagepull
        ended = self._runner.run(argv_of(self._site), ASK_SECONDS, ociimage.request(question))
        if ended.returncode == 0:
            try:
                return ociimage.read(ended.stdout)
            except ValueError as error:
                return ociimage.unanswered(f"the answer of {program} on site {self._site.name} {error}")
        where = f"{program} on site {self._site.name}, which pulls images, gave no answer: {_words(ended)}"
        other = ", or set pull: job" if question.when == "host" else ""
        return ociimage.unanswered(f"{where}; the site's admin must install it there (imagepull){other}")

    # --- answers ------------------------------------------------------------------------------------------------

    def _used(self, question: Question, created: float) -> Used | None:
        """The answer about an image; None if the job finds the image itself. Raises ImageWait."""
        now, image = self._clock(), question.image
        with self._lock:
            known, asking = self._seen.get(question), question in self._asking
        if known is not None and _is_left_to_job(question, known.answer):
            return None
        if asking or known is None or not ociimage.stands(known, question, created, now):
            raise ImageWait(image, ociimage.asked_now(known, image, now))
        if (wait := ociimage.wait_for(known, image, now)) is not None:
            raise ImageWait(image, wait)
        by_job = question.when == "job" and question.file is None
        return Used(
            known.answer,
            cache=question.cache if by_job else "",
            insecure=question.insecure and by_job,
            waited=known.waited if known.at >= created else None,
        )


def pulls_with_secrets(site: Site, pod: Json) -> bool:
    """Whether an image of a Pod is pulled with the Secrets that the Pod names for it."""
    if site.runtime is Runtime.HOST or not reads_pull_secrets(site):
        return False
    spec = pod["spec"]
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    return any(images.mapped(site, str(one["image"])) is None for one in containers)


def cache_directory(site: Site, user: str) -> str:
    """The directory of a user's pulled images."""
    if site.image_cache is not None:
        return site.image_cache.replace("{user}", user)
    return f"{site.work_dir.replace('{user}', user).rstrip('/')}/images"


def pulled(pod: PodView, found: Mapping[str, Used]) -> tuple[str, ...]:
    """A kubelet's sentences about the images of a submitted Pod; images that its job pulls are left out."""
    words = {pod.images.get(name, ""): used for name, used in found.items() if used.answer.source and not used.cache}
    return tuple(
        f'Container image "{image}" already present on machine'
        if used.waited is None
        else f'Successfully pulled image "{image}" in {used.waited:.1f}s'
        for image, used in words.items()
    )


def _is_left_to_job(question: Question, answer: ociimage.ImageState) -> bool:
    """Whether the job may still find an image that this host could not find.

    * A site's file may be visible only to jobs; this host is only asked for the file's configuration.
    * A job that pulls may reach a registry that this host does not reach. Such a job pulls whatever the pull policy is,
      so images with the policy Never are excluded.
    """
    if answer.state != ociimage.FAILED:
        return False
    if question.file is not None:
        return True
    if question.when != "job" or question.policy == _NEVER:
        return False
    return answer.silent or answer.reason == names.REASON_REGISTRY_UNAVAILABLE


def argv_of(site: Site) -> tuple[str, ...]:
    """The words that run imagepull on the site."""
    path = ":".join((*site.command_path, _PATH))
    return ("env", "-i", f"PATH={path}", site.imagepull)


def _words(ended: Ended) -> str:
    words = ended.stderr.decode(errors="replace").strip()[-500:]
    return words or f"exit code {ended.returncode}"
