"""``$(VAR)`` as Kubernetes defines it: the rows come from its reference of ``env``, ``command`` and ``args``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.errors import JobError, TooLarge
from router.workload import workload_of
from router.workload.expand import (
    LONGEST_STRING,
    MOST_STRINGS,
    argv,
    check_expansion,
    environment_of,
    expand,
    expand_within,
    literal_env,
    refers,
    refers_to_itself,
    resolve_argv,
)
from router.workload.model import Container, ContainerKind, EnvVar, Launcher
from tests.workload.manifests import container as fields_of
from tests.workload.manifests import job

VALUES = {"A": "1", "B": "$(A)", "EMPTY": "", "a b": "blank"}

EXPANSIONS = [
    ("plain", "plain"),
    ("", ""),
    ("$(A)", "1"),
    ("x$(A)y$(A)z", "x1y1z"),
    ("$(EMPTY)", ""),
    ("$(NONE)", "$(NONE)"),  # a reference to nothing stays as written
    ("$$(A)", "$(A)"),  # $$ is one dollar, so this is no reference
    ("$$$(A)", "$1"),
    ("$$$$(A)", "$$(A)"),
    ("$A ${A} `A`", "$A ${A} `A`"),  # it is no shell
    ("$(", "$("),
    ("$(A", "$(A"),
    ("$((A))", "$((A))"),  # the name is "(A", which nobody has
    ("$()", "$()"),
    ("$", "$"),
    ("$$", "$"),
    ("a$", "a$"),
    ("$(B)", "$(A)"),  # values are not expanded again
    ("$(a b)", "blank"),
    ("$(A)$(A", "1$(A"),
    ("$x$(A)", "$x1"),
    ("line\n$(A)", "line\n1"),
]


@pytest.mark.parametrize(("text", "expected"), EXPANSIONS)
def test_references_become_values(text: str, expected: str):
    assert expand(text, VALUES) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", ()), ("$(A) $(B)$(A)", ("A", "B", "A")), ("$$(A)", ()), ("$$$(A)", ("A",)), ("$(A", ()), ("$A", ())],
)
def test_names_that_are_referred_to(text: str, expected: tuple[str, ...]):
    assert refers(text) == expected


@given(st.text(alphabet="$(AB ", max_size=20))
def test_text_without_references_only_loses_doubled_dollars(text: str):
    assert expand(text, {}) == text.replace("$$", "$")


def make(
    *env: tuple[str, str | None],
    command: tuple[str, ...] | None = None,
    args: tuple[str, ...] | None = None,
    env_from: bool = False,
    launcher: Launcher | None = None,
) -> Container:
    return Container(
        *("c", ContainerKind.MAIN, "p", "image"),
        command=command,
        args=args,
        env=tuple(EnvVar(name, value) for name, value in env),
        env_from=env_from,
        launcher=launcher,
    )


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        (make(), {}),
        (make(("A", "1"), ("B", "$(A)2")), {"A": "1", "B": "12"}),
        (make(("B", "$(A)"), ("A", "1")), {"B": "$(A)", "A": "1"}),  # only what stands before is seen
        (make(("A", "$(A)")), {"A": "$(A)"}),
        (make(("A", None), ("B", "x$(A)"), ("C", "$(B)"), ("D", "d")), {"D": "d"}),
        (make(("A", None), ("A", "1"), ("B", "$(A)")), {"A": "1", "B": "1"}),  # the later of two wins
        (make(("A", "1"), ("A", None), ("B", "$(A)")), {}),
        (make(("A", "1"), ("B", "$(X)"), env_from=True), {"A": "1"}),  # X may come from the ConfigMap
        (make(("A", "1"), ("B", "$(A)"), env_from=True), {"A": "1", "B": "1"}),
        (make(("B", "$$(X)"), env_from=True), {"B": "$(X)"}),
        (
            make(("A", "$(KUBERNETES_SERVICE_HOST)"), ("B", "$(A)"), ("C", "c")),
            {"C": "c"},
        ),  # a kubelet's, and here the agent's
        (
            make(("KUBERNETES_SERVICE_PORT", "1"), ("B", "$(KUBERNETES_SERVICE_PORT)")),
            {"KUBERNETES_SERVICE_PORT": "1", "B": "1"},
        ),
    ],
)
def test_what_is_known_now(container: Container, expected: dict[str, str]):
    assert literal_env(container) == expected


@pytest.mark.timeout(120)
@pytest.mark.parametrize("text", ["$(" * 500_000, "$(" * 500_000 + ")", "$(A)" * 250_000, "$" * 1_000_001])
def test_long_text_takes_linear_time(text: str):
    assert len(expand(text, {})) <= len(text)
    refers(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)$(", "1$("),
        ("$(A$$)", "$(A$$)"),  # a name may hold anything but a closing parenthesis
        ("$(A)$$$(", "1$$("),
        ("$$)$(A", "$)$(A"),
        ("$($(A)", "$($(A)"),
        ("a)$$(A)b", "a)$(A)b"),
        ("$", "$"),
        ("$x$(A)$", "$x1$"),
    ],
)
def test_what_is_left_open_stays_as_written(text: str, expected: str):
    assert expand(text, {"A": "1"}) == expected


def test_more_references_than_anybody_writes_are_an_error_before_they_are_looked_at():
    manifest = job(fields_of(command=["echo", "$(X)" * 10_001]))
    with pytest.raises(JobError) as caught:
        workload_of(manifest, namespace="default")
    assert caught.value.path == "spec.template.spec.containers[0]"
    assert "10001 references" in caught.value.message


def bomb(levels: int) -> tuple[tuple[str, str], ...]:
    return (("V0", "x" * 100), *((f"V{n}", f"$(V{n - 1})" * 100) for n in range(1, levels)))


def test_variables_that_multiply_are_an_error_long_before_they_fill_the_memory():
    with pytest.raises(JobError) as caught:
        check_expansion(make(*bomb(20)))
    assert caught.value.path == "p.env[3]"


def test_words_that_multiply_are_an_error():
    with pytest.raises(JobError) as caught:
        check_expansion(make(("A", "x" * 10_000), command=("$(A)" * 200,)))
    assert caught.value.path == "p"


def doubled(first: tuple[str, str | None], levels: int) -> tuple[tuple[str, str | None], ...]:
    return (first, *((f"X{n}", f"$(X{n - 1})$(X{n - 1})") for n in range(1, levels)))


@pytest.mark.parametrize(
    ("env_from", "first", "field"),
    [(False, ("X0", None), "p.env[11]"), (True, ("Y", None), "p.env[11]"), (False, ("X0", "x" * 256), "p.env[12]")],
)
def test_what_is_known_only_later_multiplies_too(env_from: bool, first: tuple[str, str | None], field: str):
    with pytest.raises(JobError, match="more than 1048576 characters") as caught:
        check_expansion(make(*doubled(first, 45), env_from=env_from))
    assert caught.value.path == field


def test_words_of_what_is_known_only_later_multiply_too():
    check_expansion(make(*doubled(("X0", None), 10), command=("$(X9)",) * 7))
    with pytest.raises(JobError) as caught:
        check_expansion(make(*doubled(("X0", None), 10), command=("$(X9)",) * 8))
    assert caught.value.path == "p"


@pytest.mark.parametrize("source", [{"fieldRef": {"fieldPath": "metadata.name"}}, None])
def test_a_small_job_that_would_grow_without_end_is_refused(source: dict[str, object] | None):
    first = {"name": "X0", "valueFrom": source} if source else {"name": "X0", "value": "x"}
    env = [first, *({"name": f"X{n}", "value": f"$(X{n - 1})$(X{n - 1})"} for n in range(1, 45))]
    with pytest.raises(JobError, match="may expand to more than") as caught:
        workload_of(job(fields_of(env=env)), namespace="default")
    assert caught.value.path.startswith("spec.template.spec.containers[0].env[")


def test_few_references_to_what_is_long_only_later_are_looked_at():
    env = [{"name": "X0", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    env += [{"name": f"X{n}", "value": f"$(X{n - 1})$(X{n - 1})"} for n in range(1, 8)]  # 14 references
    workload_of(job(fields_of(env=env, command=["$(X7)"] * 6)), namespace="default")


def test_values_of_config_maps_may_be_joined():
    maps = [(f"M{n}", None) for n in range(300)]
    check_expansion(make(*maps, *((f"URL{n}", f"db://$(M{n}):$(M0)@$(M1)/x") for n in range(300)), env_from=True))


@given(st.text(alphabet="$(AB )", max_size=20), st.text(max_size=30))
def test_a_text_within_its_bound_expands_as_any_does(text: str, value: str):
    assert expand_within(text, {"A": value}, "p") == expand(text, {"A": value})


@pytest.mark.parametrize("text", ["$(A)" * 2, "$(A)" * 10_000, "$(A)$(A)$(N)$$"])
def test_nothing_longer_than_a_string_of_a_process_is_built(text: str):
    with pytest.raises(TooLarge, match="the longest that Linux takes is 131071") as caught:
        expand_within(text, {"A": "x" * 100_000}, "p.env[3]")
    assert caught.value.path == "p.env[3]"


@pytest.mark.parametrize(("rest", "fits"), [("", True), ("y", False)])
def test_the_longest_string_of_a_process(rest: str, fits: bool):
    text, values = f"$(A)$$$${rest}", {"A": "x" * (LONGEST_STRING - 2)}
    if fits:
        assert len(expand_within(text, values, "p")) == LONGEST_STRING
    else:
        with pytest.raises(TooLarge):
            expand_within(text, values, "p")


def test_words_are_no_more_than_a_process_can_be_given():
    container = make(("A", None), command=("$(A)",) * 21)
    assert len(resolve_argv(container, {"A": "x" * 99_000}, "p.command")) == 21
    with pytest.raises(TooLarge, match=f"larger than {MOST_STRINGS} bytes") as caught:
        resolve_argv(container, {"A": "x" * 100_000}, "p.command")
    assert caught.value.path == "p.command"


def test_ordinary_references_are_fine():
    check_expansion(make(*bomb(2), command=("$(V1)",)))


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        (make(), ()),
        (make(command=("a",), args=("b",)), ("a", "b")),
        (make(args=("b",)), ("b",)),
        (make(("A", "1"), command=("x", "$(A)", "$$(A)")), ("x", "1", "$(A)")),
        (make(command=("x", "$(A)")), ("x", "$(A)")),
        (make(("A", None), command=("x", "$(A)")), None),
        (make(("A", None), ("B", "$(A)"), command=("x", "$(B)")), None),
        (make(command=("x", "$(A)"), env_from=True), None),
        (make(("A", "1"), command=("x", "$(A)"), env_from=True), ("x", "1")),
        (make(command=("x", "$(JOB_COMPLETION_INDEX)")), None),  # an Indexed Job's Pods have it
        (make(command=("x", "$$(JOB_COMPLETION_INDEX)")), ("x", "$(JOB_COMPLETION_INDEX)")),
        (make(args=("https://$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT_HTTPS)",)), None),
        (make(("KUBERNETES_SERVICE_HOST", "h"), args=("$(KUBERNETES_SERVICE_HOST)",)), ("h",)),
        (make(args=("$(KUBERNETES_SERVICE)",)), ("$(KUBERNETES_SERVICE)",)),
    ],
)
def test_words_known_now(container: Container, expected: tuple[str, ...] | None):
    assert argv(container) == expected


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        (make(), False),
        (make(("A", "1"), command=("sh", "-c", "for n in $(seq 1 $A); do echo $((n + 1)); done")), False),
        (make(("A", "1"), command=("x", "$$(A)")), False),
        (make(("A", "1"), command=("x", "$(A)")), True),
        (make(("A", "1"), ("B", "$(A)")), True),
        (make(("A", None), command=("x", "$(A)")), True),
        (make(command=("x", "$(JOB_COMPLETION_INDEX)")), True),
        (make(command=("x", "$(seq 3)"), env_from=True), True),  # a key of the ConfigMap may have any name
        (make(command=("x",), env_from=True), False),
    ],
)
def test_whether_a_container_refers_to_its_variables(container: Container, expected: bool):
    assert refers_to_itself(container) is expected


_TEXTS = st.text(alphabet="$()AB", max_size=8)


@given(
    st.lists(st.tuples(st.sampled_from("ABC"), st.none() | _TEXTS), max_size=3),
    st.lists(_TEXTS, max_size=3),
    st.booleans(),
)
def test_a_container_that_does_not_refer_to_itself_is_passed_on_as_written(
    env: list[tuple[str, str | None]], words: list[str], env_from: bool
):
    container = make(*env, command=tuple(words), env_from=env_from)
    environment = environment_of(container)

    if not refers_to_itself(container):
        written = {name: value for name, value in dict(env).items() if value is not None}
        assert environment.values == {name: expand(value, {}) for name, value in written.items()}
        assert [environment.known(word) for word in words] == [expand(word, {}) for word in words]


def test_a_lifted_launcher_leaves_its_program():
    launcher = Launcher("mpirun", ("./a", "$(A)"), "the command")
    container = make(("A", "1"), command=("mpirun", "-np", "2", "./a", "$(A)"), launcher=launcher)
    assert argv(container) == ("./a", "1")


def test_words_resolved_from_the_pods_environment():
    container = make(("A", None), command=("x", "$(A)", "$(NONE)", "$$(A)"))
    assert resolve_argv(container, {"A": "later"}, "p.command") == ("x", "later", "$(NONE)", "$(A)")
