"""Says whether traces are wanted, by OpenTelemetry's own variables, and starts what sends them.

Shell. Without traces nothing of OpenTelemetry is imported. The variables are those of its specification ("OpenTelemetry
Environment Variable Specification" and "OpenTelemetry Protocol Exporter"); its SDK itself reads all but a few of them.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from router.errors import ConfigError

if TYPE_CHECKING:
    from router.startup.exporting import Traces

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
EXPORTER: Final = "OTEL_TRACES_EXPORTER"
HEADERS: Final = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
DISABLED: Final = "OTEL_SDK_DISABLED"
SAMPLER: Final = "OTEL_TRACES_SAMPLER"
SAMPLER_ARG: Final = "OTEL_TRACES_SAMPLER_ARG"
SAMPLERS: Final = (
    *("always_on", "always_off", "traceidratio"),
    *("parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio"),
)
_OTLP: Final = "otlp"
_HTTP: Final = "http/protobuf"
_HEADER: Final = re.compile(r"\s*[!#$%&'*+.^_`|~0-9A-Za-z-]+\s*=[\x20-\x7e]*")
_NEEDED: Final = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


def wanted(environment: Mapping[str, str]) -> bool:
    """Whether these variables ask for traces: they name an endpoint, and none of them says otherwise.

    :raises ConfigError: they ask for another exporter or protocol than OTLP over HTTP, or a value is none that
        OpenTelemetry's SDK takes. It would log a wrong header, which may be a token, and sample all for a wrong sampler
    """
    if environment.get(DISABLED, "").strip().lower() == "true":
        return False
    exporter = environment.get(EXPORTER, "").strip() or _OTLP
    endpoint, address = _first(environment, ENDPOINTS)
    if exporter == "none" or not address:
        return False
    if exporter != _OTLP:
        raise ConfigError(f"{EXPORTER} is {exporter!r}; traces are sent by {_OTLP} only, and none turns them off")
    name, protocol = _first(environment, PROTOCOLS)
    if protocol not in {"", _HTTP}:
        raise ConfigError(f"{name} is {protocol!r}; traces are sent by {_HTTP} only, mostly at port 4318")
    if not address.startswith(("http://", "https://")):
        raise ConfigError(f"{endpoint} is {_without_password(address)!r}; it must begin with http:// or https://")
    _demand_headers(environment)
    _demand_sampler(environment)
    return True


def _first(environment: Mapping[str, str], variables: tuple[str, ...]) -> tuple[str, str]:
    """The first of these variables that is set, and its value; empty if none is."""
    return next(((name, value) for name in variables if (value := environment.get(name, "").strip())), ("", ""))


def _demand_headers(environment: Mapping[str, str]) -> None:
    for name in HEADERS:
        parts = environment.get(name, "").split(",")
        if not all(_HEADER.fullmatch(one) for one in parts if one.strip()):
            raise ConfigError(f"{name} must be NAME=VALUE,NAME=VALUE, with blanks in a value as %20")


def _demand_sampler(environment: Mapping[str, str]) -> None:
    sampler = environment.get(SAMPLER, "").strip().lower()
    if sampler and sampler not in SAMPLERS:
        raise ConfigError(f"{SAMPLER} is {sampler!r}; it must be one of {', '.join(SAMPLERS)}")
    ratio = environment.get(SAMPLER_ARG, "").strip()
    if ratio and sampler.endswith("traceidratio") and not _is_share(ratio):
        raise ConfigError(f"{SAMPLER_ARG} is {ratio!r}; it must be a number from 0 to 1")


def _is_share(text: str) -> bool:
    try:
        return 0 <= float(text) <= 1
    except ValueError:
        return False


def start(service: str, environment: Mapping[str, str]) -> Traces | None:
    """What sends traces, begun; None without traces. Call it after a fork, as it has a thread.

    :param service: the ``service.name``, where no variable gives another
    :raises ConfigError: the variables cannot work, or OpenTelemetry is missing
    """
    if not wanted(environment):
        return None
    demand_installed()
    # Imported here, as it takes tenths of a second and some megabytes.
    from router.startup.exporting import Traces  # noqa: PLC0415

    return Traces(service)


def check(environment: Mapping[str, str]) -> None:
    """Raise ConfigError if traces are wanted and cannot be sent by this installation."""
    if wanted(environment):
        demand_installed()


def demand_installed() -> None:
    """Raise ConfigError if OpenTelemetry is not installed."""
    for module in _NEEDED:
        try:
            found = importlib.util.find_spec(module)
        except ModuleNotFoundError:
            found = None
        if found is None:
            raise ConfigError(
                f"traces are wanted, as {' or '.join(ENDPOINTS)} is set, but {module} is not installed; "
                f"install batchgate[tracing], or set {DISABLED}=true"
            )


def _without_password(address: str) -> str:
    return address.rpartition("@")[2]
