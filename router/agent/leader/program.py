"""Runs ``batchgate agent``: checks the settings, waits to lead, leads, hands over.

Shell. The exit code is 0 after SIGTERM, 1 if this process must be restarted (the lead was lost, a thread has ended), 2
for settings that cannot work.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from typing import Final, NoReturn

from router import names
from router.agent import sites
from router.agent.batch.commands import BatchCommands
from router.agent.leader import given, serving
from router.agent.leader.leading import HAND_OVER_SECONDS, TURN_SECONDS, Lead
from router.agent.leader.serving import Answer, verdict
from router.agent.metrics import Metrics
from router.agent.settings import AgentSettings
from router.agent.users.nowhere import Nowhere
from router.agent.users.seats import Seat, Seats
from router.agent.users.world import World
from router.background.loop import Loop
from router.errors import ApiError, BatchgateError, ConfigError
from router.host import Host
from router.host.reach import UserHosts
from router.hpc import cluster_id
from router.kube.client import connect
from router.kube.election import Election
from router.kube.events import Recorder
from router.kube.renewal import Renewal
from router.pod.layout import site_directory
from router.pod.view import PodView
from router.policy.model import Policy
from router.reconcile.model import Terms
from router.site.schema import Access, Site
from router.site.systems import SYSTEMS
from router.startup import account, logs, signals, tracing
from router.startup.policysource import PolicySource
from router.startup.settings import WATCH_SECONDS
from router.startup.sources import FileSource, watch

log: Final = logging.getLogger("batchgate.agent")

SERVICE: Final = "batchgate-agent"
"""The ``service.name`` of its spans."""
_ENDING: Final = (signal.SIGTERM, signal.SIGINT)
_AGAIN: Final = 1
"""The exit code that asks for a restart."""
_LOCAL_DELAY: Final = 2.0
"""The embedded queue runs on this machine, so a file is seen at once unless the machine is busy."""
_EVENTS_SECONDS: Final = 2.0
_PAUSE: Final = 2.0


def run(settings: AgentSettings) -> NoReturn:
    """Run until SIGTERM or a failure; ends the process.

    :raises ConfigError: the settings cannot work; raised before any change
    """
    logs.configure(settings.log_format)
    stopping = threading.Event()
    asked = signals.call_at(_ENDING, stopping.set)
    renewal = given.renewal(settings)
    source, policy = given.policy(settings, stopping)
    if policy is None:
        _end(0)
    site = sites.site_of(policy, settings.site)
    sites.demand_user(site, os.geteuid())
    agent = Agent(sites.paced(settings, site), site, policy, source, stopping, renewal)
    agent.serve()
    code = _code(agent)
    if agent.anew and not asked:
        log.info("starting anew, as the policy has changed for this site")
        signals.hold(_ENDING)  # until the new program is ready for them
        if not asked:
            os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - as this one was started
    _end(code)


def _code(agent: Agent) -> int:
    """The exit code of an agent that has ended. An error of its own ends the process here and now.

    Else the end would wait for all threads with commands, while the lead is renewed and nobody does its work.
    """
    try:
        return agent.run()
    finally:
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, BatchgateError):
            log.critical("an error of the agent itself", exc_info=error)
            _end(_AGAIN)


def _end(code: int) -> NoReturn:
    # The process does not wait for threads that run a command: the next leader finds the command's effects.
    logging.shutdown()
    os._exit(code)


class Agent:
    """One process: candidate, then leader."""

    def __init__(
        self,
        settings: AgentSettings,
        site: Site,
        policy: Policy,
        source: PolicySource,
        stopping: threading.Event,
        renewal: Renewal | None,
    ) -> None:
        self.anew = False
        """Whether the program must be restarted with another policy."""
        self._settings = settings
        self._site = site
        self._policy = policy
        self._source = source
        self._base = _terms(settings, site)
        self._gpus = policy.gpu_resources
        self._accounts = policy.accounts
        self._user = account.own_account()
        self._hosts = UserHosts(site, self._user)
        self._commands = sites.commands_of(site, settings.local_state, settings.local_commands)
        self._keys = FileSource("public-key", (settings.public_key,), lambda: given.read_keys(settings.public_key), log)
        self._api = connect(settings.kubeconfig)
        self._metrics = Metrics()
        self._traces = tracing.start(SERVICE, os.environ)
        self._renewal = renewal
        self._metrics.show_sources((source, self._keys, *((renewal,) if renewal else ())), source)
        if renewal is not None:
            self._metrics.credential_expiry.set_function(lambda: renewal.expires)
        self._stopping = stopping
        self._next: Lead | None = None
        """The term that begins once the election is won."""
        self._lead: Lead | None = None
        """The term in which this agent leads; None before."""
        self._files: Loop | None = None

    def serve(self) -> None:
        """Serve probes and metrics. Raises ConfigError if the address cannot be used."""
        serving.serve(self._settings.metrics, live=self._live, ready=self._ready, metrics=self._metrics.text)

    def run(self) -> int:
        """Wait to lead, lead and hand over; returns the exit code."""
        self._files = watch((self._source, self._keys), WATCH_SECONDS)
        world = self._world()
        if world is None:
            return 0
        lead = Lead(world)
        world.recorder.start()
        world.election.start()
        log.info("waiting to lead", extra={"fields": {"identity": world.election.identity}})
        lead.stand_by()
        self._next = lead
        code = self._standing_by(world)
        if code is None:
            code = self._leading(world, lead)
        world.recorder.stop(_EVENTS_SECONDS)
        self._hosts.close()
        world.election.release()
        if self._traces is not None:
            self._traces.close()  # for seconds, if the collector is away: others lead meanwhile
        log.info("ended", extra={"fields": {"code": code}})
        return code

    def _standing_by(self, world: World) -> int | None:
        """Wait to lead; None once this process leads, else the exit code."""
        while not self._stopping.is_set():
            if world.election.wait(_PAUSE):
                return 0 if self._stopping.is_set() else None
            if self._has_ended():
                return _AGAIN
            self._look_at()
        return 0

    def _leading(self, world: World, lead: Lead) -> int:
        self._lead = lead
        self._metrics.show(lead.figures)
        self._metrics.leading.set(1)
        lead.start()
        while not self._stopping.wait(TURN_SECONDS):
            if not world.election.leading:
                log.error("the lead is lost", extra={"fields": {"problem": world.election.problem}})
                return _AGAIN
            if self._has_ended():
                return _AGAIN
            lead.turn()
            lead.tell_sources(self._broken())
            if self._renewal is not None:
                lead.tell_credential(self._renewal.warning)
            self._look_at()
        self._metrics.leading.set(0)
        lead.stop(HAND_OVER_SECONDS)
        return 0

    def _has_ended(self) -> bool:
        if problem := self._ended:
            log.error("a part of the agent has ended", extra={"fields": {"problem": problem}})
        return bool(problem)

    def _look_at(self) -> None:
        """Ask for a restart if the policy has changed for this site."""
        policy = self._source.policy
        if policy is None:
            return
        self._policy = policy
        try:
            site = sites.site_of(policy, self._settings.site)
        except ConfigError:
            return  # the site is gone or cannot be driven: its old settings stay in force for its running jobs
        now = (site, policy.gpu_resources, sites.users_of(site, policy.accounts, self._user))
        if now != (self._site, self._gpus, sites.users_of(self._site, self._accounts, self._user)):
            self.anew = True
            self._stopping.set()

    def _world(self) -> World | None:
        """The objects that exist before the agent leads; None if the agent was stopped first. Raises ConfigError."""
        settings, site = self._settings, self._site
        cluster = settings.cluster or self._cluster()
        if not cluster:
            return None
        seats = self._seats(cluster)
        if site.host == sites.LOCAL and site.access is Access.OWN:
            seats.of(self._user).host.check()
        election = Election(
            self._api, settings.namespace, names.lease_name(site.name), _identity(settings), settings.lease_seconds
        )
        recorder = Recorder(self._api, election.identity)
        return World(
            settings=settings,
            site=site,
            cluster=cluster,
            gpu_resources=self._gpus,
            terms=self._terms,
            api=self._api,
            seats=seats,
            nobody=self._seat(Nowhere(), "", ""),
            metrics=self._metrics,
            election=election,
            recorder=recorder,
            keys=lambda: self._keys.value,
            policy=lambda: self._source.digest,
            accounts=lambda: self._policy.accounts,
            observer=self._observer(),
            tell_span=None if self._traces is None else self._traces.tell,
        )

    def _seats(self, cluster: str) -> Seats:
        """The seats of this deployment, for users whom the site's access allows it to act as."""
        site, hosts = self._site, self._hosts

        def host_of(user: str) -> tuple[Host, str]:
            root = site_directory(site.work_dir, user, site.name, cluster)
            return hosts.host_of(user, root), root

        def refusal(user: str) -> str:
            try:
                sites.demand_account(site, user)
                host_of(user)
            except ConfigError as error:
                return str(error)
            return ""

        def make(user: str) -> Seat:
            host, root = host_of(user)
            return self._seat(host, root, user)

        return Seats(sites.users_of(site, self._accounts, self._user), make=make, refusal=refusal)

    def _seat(self, host: Host, root: str, user: str) -> Seat:
        seconds = self._settings.command_seconds
        system = sites.system_of(self._site)
        commands = BatchCommands(host, system, self._commands, user, seconds, self._metrics)
        return Seat(user, root, host, commands)

    def _observer(self) -> BatchCommands | None:
        """The commands of the site's observer; None if each user asks."""
        runner = self._hosts.observer()
        if runner is None:
            return None
        return BatchCommands(
            runner,
            sites.system_of(self._site),
            self._commands,
            user="",
            seconds=self._settings.command_seconds,
            metrics=self._metrics,
            observes=True,
        )

    def _terms(self, pod: PodView) -> Terms:
        """The terms of a Pod by the present policy."""
        return sites.terms_of(self._base, self._policy, pod.rule)

    def _cluster(self) -> str:
        """The cluster's eight digits; waits while the API server is down. Empty if the agent was stopped first."""
        while not self._stopping.is_set():
            try:
                found = self._api.get("/api/v1/namespaces/kube-system")
            except ApiError as error:
                log.warning("waiting for the API server", extra={"fields": {"error": str(error)}})
                self._stopping.wait(_PAUSE)
            else:
                return cluster_id(found["metadata"]["uid"])
        return ""

    @property
    def _ended(self) -> str:
        """Why this process should be restarted; empty while all of its threads run."""
        if not self._source.alive:
            return "ended: the watch of the policy"
        if self._files is not None and not self._files.alive:
            return "ended: the watch of files"
        if self._renewal is not None and not self._renewal.alive:
            return "ended: the renewal of the credential"
        lead = self._lead or self._next
        return lead.problem if lead is not None else ""

    def _broken(self) -> str:
        """Which files are unusable, with the first line of each error."""
        return "; ".join(f"{name}: {error.splitlines()[0]}" for name, error in self._errors().items())

    def _errors(self) -> dict[str, str]:
        """The errors of unusable files, by source."""
        return {one.name: one.error for one in (self._source, self._keys) if one.error}

    def _live(self) -> Answer:
        return verdict(self._ended)

    def _ready(self) -> Answer:
        """The answer to ``/readyz``. A standby is ready, as it can take over.

        An agent that waits for its certificate is ready too, as only logs fail without it. So is one with a policy
        that it cannot put into force, as the last good one stays in force.
        """
        if self._stopping.is_set():
            return verdict("ending")
        lead, waiting = self._lead, self._next.waiting_for if self._next is not None else ""
        told = {"certificate": f"waits for: kubectl certificate approve {waiting}"} if waiting else {}
        if self._renewal is not None and self._renewal.warning:
            told["credential"] = self._renewal.warning
        told |= self._errors()
        return verdict(lead.ready if lead is not None else "", leading=lead is not None, **told)


def _terms(settings: AgentSettings, site: Site) -> Terms:
    delay = min(_LOCAL_DELAY, site.fs_delay) if SYSTEMS[site.system].TRAITS.embedded else site.fs_delay
    return Terms(fs_delay=delay, lost_proof=settings.lost_seconds)


def _identity(settings: AgentSettings) -> str:
    return settings.identity or socket.gethostname()
