"""Drawn containers: their words, variables, mounts, resources, and what they print of these."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from tests.e2e import looks
from tests.e2e.drawnvolumes import FIELDS, KEYS, Json, Volume, mounts, resource
from tests.e2e.jobs import IMAGE

_NAMES: Final = (
    "A", "B", "C", "_d", "lower", "dotted.name", "dash-name", "UPPER_1", "HOME", "TMPDIR", "LANG", "TZ", "TERM", "USER", "SHELL",
    "LD_LIBRARY_PATH", "PS1", "HOSTNAME", "OMP_NUM_THREADS", "with space", "1st", "a/b", "it's", "x%y", "BASH_ENV", "UID",
)  # fmt: skip
_PARTS: Final = (
    "", "x", "two words", "a\nb", "ü€", "'", '"', "\\", "`id`", "*", "-n", "$", "$$", "$x", "${A}", "%s\\n", "\t", "#", "~", "!", ";", "=",
    "$(A)", "$(B)", "$(C)", "$(_d)", "$(dotted.name)", "$(not)", "$$(A)", "$$$(A)", "$$$$(A)", "$(A", "$()", "$(A $(B))", "$((A))", "$(a/b)",
)  # fmt: skip
_SECRET_NAMES: Final = ("S_A", "S_B")
_CODES: Final = (1, 2, 3, 42, 126, 127, 128, 137, 143, 200, 254, 255)
"""Exit codes of failures."""


def texts() -> st.SearchStrategy[str]:
    """Values and words: plain, nasty, and with references of all forms."""
    return st.lists(st.sampled_from(_PARTS), max_size=3).map("".join)


def codes() -> st.SearchStrategy[int]:
    return st.sampled_from(_CODES)


@st.composite
def variable(draw: st.DrawFn, name: str) -> Json:
    """One variable that holds no Secret."""
    way = draw(st.integers(0, 7))
    if way == 0:
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": draw(st.sampled_from((*FIELDS, _ACCOUNT)))}}}
    if way == 1:
        return {"name": name, "valueFrom": {"resourceFieldRef": draw(resource())}}
    if way == 2:
        return {"name": name, "valueFrom": {"configMapKeyRef": draw(_key("words"))}}
    return {"name": name, "value": draw(texts())}


_ACCOUNT: Final = "spec.serviceAccountName"


@st.composite
def _key(draw: st.DrawFn, name: str) -> Json:
    """A key of an object, which may be missing where it is optional."""
    missing = ({"name": name, "key": "none", "optional": True}, {"name": "none", "key": "x", "optional": True})
    there = [{"name": name, "key": key} for key in KEYS[name]]
    return draw(st.sampled_from((*there, *there, *missing)))


@st.composite
def variables(draw: st.DrawFn) -> list[Json]:
    """``env``: some names twice, and Secrets under names to which no command line refers."""
    names = draw(st.lists(st.sampled_from(_NAMES), max_size=6))
    found = [draw(variable(name)) for name in names]
    secret = draw(st.lists(st.sampled_from(_SECRET_NAMES), unique=True))
    found += [{"name": name, "valueFrom": {"secretKeyRef": draw(_key("keys"))}} for name in secret]
    if draw(st.integers(0, 3)) == 0:
        found.append({"name": "S_C", "value": "a$(S_A)b$$(S_B)"})
    if draw(st.integers(0, 5)) == 0:
        found.append({"name": "PATH", "value": draw(st.sampled_from(("/bin", "/bin:/opt/$(A)", "/sbin:/bin:$(PATH)")))})
    return found


@st.composite
def sources(draw: st.DrawFn) -> list[Json]:
    """``envFrom``."""
    found = []
    for _ in range(draw(st.integers(0, 2))):
        way = draw(st.integers(0, 3))
        reference: Json = {"name": draw(st.sampled_from(("words", "odd")))} if way < 2 else {"name": "keys"}
        if draw(st.integers(0, 4)) == 0:
            reference = {"name": "none", "optional": True}
        prefix = draw(st.sampled_from(({}, {"prefix": "P_"}, {"prefix": "p.p-"} if way < 2 else {"prefix": "Q_"})))
        found.append({"configMapRef" if way < 2 else "secretRef": reference, **prefix})
    return found


def _resources() -> st.SearchStrategy[Json]:
    return st.sampled_from(
        (
            {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "2", "memory": "64Mi"}},
            {"requests": {"cpu": "0.02"}, "limits": {"cpu": "1500m", "memory": "100M"}},
            {"limits": {"cpu": "20m", "memory": "67108865"}},
        )
    )


@st.composite
def _words(draw: st.DrawFn, text: str) -> Json:
    """The program as ``command``, ``args`` or both, with words of its own."""
    words = [
        "sh",
        "-c",
        looks.word(text),
        draw(st.sampled_from(("sh", "my program"))),
        *draw(st.lists(texts(), max_size=4)),
    ]
    cut = draw(st.sampled_from((0, 1, 3, 4, len(words))))
    return ({"command": words[:cut]} if cut else {}) | ({"args": words[cut:]} if words[cut:] else {})


_FILES: Final = ("/dev/termination-log", "/tmp/end", "/last/word")


@st.composite
def _message(draw: st.DrawFn) -> tuple[Json, str]:
    """Fields of the last word, and the text by which a program leaves it."""
    path = draw(st.sampled_from(_FILES))
    fields = {} if path == _FILES[0] else {"terminationMessagePath": path}
    if draw(st.booleans()):
        fields["terminationMessagePolicy"] = draw(st.sampled_from(("FallbackToLogsOnError", "File")))
    said = draw(st.sampled_from(("", "", "bye", "two\nlines\n", "ü €", " ")))
    many = draw(st.sampled_from((1, 1, 3000)))
    text = looks.MANY_LINES if "terminationMessagePolicy" in fields else ""
    return fields, text + (looks.message(path, said, many) if said else "")


@st.composite
def container(
    draw: st.DrawFn, name: str, volumes: list[Volume], *, alone: bool, end: str, own: bool = False, host: bool = True
) -> Json:
    """A container that prints what it sees, and then does what ``end`` says.

    :param alone: whether no other container runs meanwhile
    :param own: whether its resources may be read, as a field refers to them
    :param host: whether it looks at the names of its host
    """
    chosen = draw(mounts(volumes, alone=alone))
    root = draw(st.integers(0, 4)) == 0
    fields, message = draw(_message())
    text = looks.ITSELF + (looks.HOST if host else "") + looks.trees([one["mountPath"] for one in chosen])
    if alone:
        text += "".join([looks.writing(one["mountPath"], f"by {name}") for one in chosen if "subPath" not in one])
    text += looks.writing("/opt", name) if root or draw(st.booleans()) else ""
    text += message
    places = ("", "/tmp", "/etc", *(one["mountPath"] for one in chosen if "subPath" not in one))
    directory = draw(st.sampled_from(places))
    return {
        "name": name,
        "image": IMAGE,
        **draw(_words(text + end)),
        **({"env": found} if (found := draw(variables())) else {}),
        **({"envFrom": found} if (found := draw(sources())) else {}),
        "resources": draw(_resources()),
        **({"volumeMounts": chosen} if chosen else {}),
        **fields,
        **({"workingDir": directory} if directory else {}),
        "securityContext": draw(_security(root=root)),
        **draw(
            st.sampled_from(({}, {"stdin": True}, {"imagePullPolicy": "IfNotPresent"}, {"imagePullPolicy": "Never"}))
        ),
        **draw(_ports()),
    }


def _ports() -> st.SearchStrategy[dict[str, Any]]:
    return st.sampled_from(({}, {}, {"ports": [{"containerPort": 8080, "name": "web"}]}))


@st.composite
def _security(draw: st.DrawFn, *, root: bool) -> Json:
    found: Json = draw(
        st.sampled_from(
            (
                {},
                {"allowPrivilegeEscalation": False},
                {"capabilities": {"drop": ["NET_RAW"]}},
                {"seccompProfile": {"type": "RuntimeDefault"}},
            )
        )
    )
    return found | ({"readOnlyRootFilesystem": True} if root else {})
