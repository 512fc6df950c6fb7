"""The first words of a login node to the cluster: which credential to use, the policy, a longer credential.

Shell (the API, temporary files for the CA, the clock is the caller's).
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from router import names
from router import policy as policies
from router.errors import ApiError, ApiUnavailable, ConfigError, InputError
from router.joining import joinfile, planning
from router.joining.joinfile import Join
from router.joining.layout import Layout
from router.kube import renewal, tokens
from router.kube.client import Api
from router.kube.credentials import Access, load
from router.policy.configmap import texts_of
from router.policy.model import Policy

_REFUSED: Final = 401


@dataclass(frozen=True, slots=True)
class Entered:
    """The cluster as this machine sees it. ``kept``: whether the credential that is here already stays."""

    api: Api
    policy: Policy
    kept: bool


def enter(join: Join, source: str, found: str | None, now: float) -> Entered:
    """Read the policy, with the credential that is here already or, if that is of no use, with the join file's.

    :param source: the join file's name, for messages
    :param found: the token that is here already
    :param now: seconds since 1970
    :raises ConfigError: the credential has ended, the cluster does not answer or is another one, its policy is unusable
    """
    if found is not None and planning.is_usable(_claims(found), tokens.claims(join.token), now):
        api = _api(join, found)
        try:
            return Entered(api, _policy(api, join), kept=True)
        except ApiError as error:
            if error.status != _REFUSED:
                raise _told(join, error) from error
    joinfile.demand_in_time(join, source, now)
    api = _api(join, join.token)
    try:
        return Entered(api, _policy(api, join), kept=False)
    except ApiError as error:
        raise _told(join, error) from error


def credential(entered: Entered, join: Join, seconds: int) -> str:
    """A credential of the site's account for ``seconds``, or less if the server grants less. Raises ConfigError."""
    try:
        return renewal.ask(entered.api, tokens.claims(join.token), seconds)
    except (ApiError, InputError) as error:
        raise ConfigError(f"the cluster gives this machine no credential of its own: {error}") from error


def _claims(token: str) -> tokens.Claims | None:
    try:
        return tokens.claims(token)
    except InputError:
        return None


def _api(join: Join, token: str) -> Api:
    return Api(lambda: _access(join, token))


def _access(join: Join, token: str) -> Access:
    """The client reads kubeconfigs only from files, and so does TLS its CA; both are gone again afterwards."""
    with tempfile.TemporaryDirectory(prefix="batchgate-") as directory:
        document = planning.kubeconfig(join, Layout(join.site))
        document["users"][0]["user"] = {"token": token}
        if join.ca:
            ca = Path(directory, "ca.crt")
            ca.write_text(join.ca)
            document["clusters"][0]["cluster"]["certificate-authority"] = str(ca)
        file = Path(directory, "kubeconfig")
        file.write_text(yaml.safe_dump(document))
        return load(str(file))


def _policy(api: Api, join: Join) -> Policy:
    place = f"ConfigMap {join.namespace}/{names.POLICIES_CONFIG_MAP}"
    found = api.find(f"/api/v1/namespaces/{join.namespace}/configmaps/{names.POLICIES_CONFIG_MAP}")
    if found is None:
        raise ConfigError(f"the cluster has no {place}; `batchgate policy apply DIR` makes it")
    return policies.load(texts_of(found, place))


def _told(join: Join, error: ApiError) -> ConfigError:
    if error.status == _REFUSED:
        return ConfigError(
            f"{join.server} refuses the credential: the site's account is gone, or another one; run `batchgate site add "
            f"{join.site}` again and bring its file here"
        )
    if "certificate verify failed" in str(error).lower():
        return ConfigError(
            f"{join.server} shows a certificate that the join file's CA has not signed: another cluster, or something in "
            f"between ({error.message})"
        )
    if isinstance(error, ApiUnavailable):
        return ConfigError(
            f"{join.server} does not answer from here: {error.message}; is that its URL from this machine?"
        )
    return ConfigError(f"{join.server}: {error}")
