"""qsub's command line and directives: accepted and refused as OpenPBS 23.06.06 did."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.local import resources, submission
from router.local.resources import Chunk, Rejection


def _parsed(*words: str, script: str = "", environment: dict[str, str] | None = None) -> submission.Request:
    return submission.parse(words, script, environment or {}, script_name="script.sh")[0]


@pytest.mark.parametrize(
    ("words", "rc", "text"),
    [
        (["-l", "foo=1"], 187, "Unknown resource Resource_List.foo"),
        (["-l", "select=1:foo=1"], 187, "Unknown resource: foo"),
        (["-l", "select=1:ncpus=abc"], 166, "Illegal attribute or resource value select.ncpus"),
        (["-l", "select=0:ncpus=1"], 166, "Illegal attribute or resource value"),
        (["-l", "select=-1:ncpus=1"], 166, "Illegal attribute or resource value Resource_List.select"),
        (["-l", "select=1:ncpus=1:mem=100XB"], 166, "Illegal attribute or resource value select.mem"),
        (["-l", "select=1:ncpus=1:mem=1.5gb"], 166, "Illegal attribute or resource value select.mem"),
        (["-l", "select="], 166, "Illegal attribute or resource value Resource_List.select"),
        (["-l", "select=1:walltime=00:10:00"], 166, "Illegal attribute or resource value Resource_List.select"),
        (["-l", "place=foo", "-l", "select=1"], 166, "Illegal attribute or resource value Resource_List.place"),
        (["-l", "walltime=abc"], 166, "Illegal attribute or resource value Resource_List.walltime"),
        (["-l", "walltime=1-00:00:00"], 166, "Illegal attribute or resource value Resource_List.walltime"),
        (["-l", "walltime=1:2:3:4"], 166, "Illegal attribute or resource value Resource_List.walltime"),
        (["-l", "walltime=-5"], 166, "Illegal attribute or resource value Resource_List.walltime"),
        (
            ["-l", "select=1:ncpus=1:ncpus=2"], 12,
            "duplicated resource within a section of a select specification, resource is: ncpus",
        ),
        (
            ["-l", "select=1:ncpus=1", "-l", "ncpus=2"], 5,
            '"-lresource=" cannot be used with "select" or "place", resource is: ncpus',
        ),
        (["-l", "select=1:ncpus=1", "-l", "nodes=1"], 6, "Cannot be used with select or place: nodes"),
        (["-l", "place=scatter"], 7, 'Cannot have "place" without "select"'),
        (["-l", "nodes=2:ppn=2:gpus=1"], 241, "node(s) specification error"),
        (["-P", "a/b"], 166, "Illegal attribute or resource value project"),
        (["-W", "foo=bar"], 154, "Error (15002) submitting job"),
        (["-J", "0-3"], 3, "Array job exceeds server or queue size limit"),
        (["-v", "A=a,b"], 1, "cannot send environment with the job"),
        (["-v", "A='a"], 1, "cannot send environment with the job"),
        (["-v", "=x"], 1, "cannot send environment with the job"),
        (["-l", "select=1:mpiprocs=100001"], 166, "Illegal attribute or resource value select.mpiprocs"),
        (["-v", "NOT_THERE"], 1, "cannot send environment with the job"),
    ],
)  # fmt: skip
def test_refused(words: list[str], rc: int, text: str) -> None:
    with pytest.raises(Rejection) as refused:
        _parsed(*words)

    assert (refused.value.returncode, refused.value.words) == (rc, text)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-Z"], "invalid option -- 'Z'"),
        (["-q"], "option requires an argument -- 'q'"),
        (["-N", "a b"], "illegal -N value"),
        (["-N", "a/b"], "illegal -N value"),
        (["-N", "é"], "illegal -N value"),
        (["-N", "x" * 231], "illegal -N value"),
        (["-o", "/ö"], "illegal -o value"),
        (["-r", "x"], "illegal -r value"),
        (["-j", "xx"], "illegal -j value"),
        (["-k", "zz"], "illegal -k value"),
        (["-p", "1024"], "illegal -p value"),
        (["-p", "2000"], "illegal -p value"),
        (["-W", "umask=abc"], "illegal -W value"),
        (["-l", "walltime=1, ncpus=1"], "illegal -l value"),
    ],
)
def test_refused_with_the_usage(words: list[str], text: str) -> None:
    with pytest.raises(Rejection) as refused:
        _parsed(*words)

    assert (refused.value.returncode, refused.value.words) == (2, f"{text}\n{submission.USAGE}")


@pytest.mark.parametrize(
    "words",
    [
        ["-l", "select=1:ncpus=0"], ["-l", "select=100:ncpus=1"], ["-l", "walltime=0"], ["-l", "walltime="],
        ["-l", "select=1:ncpus=99999999999"], ["-l", "walltime=99999999999"], ["-W", "umask=999"], ["-A", ""],
        ["-P", ""], ["-N", "123"], ["-N", "_a.b-c+d"], ["-N", "x" * 230], ["-p", "-1024"], ["-p", "1023"],
        ["-k", "oed"], ["-W", "umask=027,block=false"], ["-j", "eo"], ["-A", "a b\nc'"], ["-f"], ["-z"],
    ],
)  # fmt: skip
def test_accepted(words: list[str]) -> None:
    assert _parsed(*words).name in {"script.sh", *words}


@pytest.mark.parametrize(
    ("script", "rc", "text"),
    [
        ("#!/bin/bash\r\n#PBS -N crlf\r\necho hi\r\n", 1, "script contains cr, lf"),
        ("#!/bin/bash\n#PBS -N name # comment\n", 1, "directive error: -N name # comment "),
        ("#PBS -l select=1:ncpus=1, walltime=00:01:00\n", 1, "illegal -l value"),
        ("#PBS -o /home/u/my file.out\n", 1, "directive error: -o /home/u/my file.out "),
        ("#PBS -A my acct\n", 1, "directive error: -A my acct "),
        ('#PBS -N "quoted name"\n', 2, f"illegal -N value\n{submission.USAGE}"),
        ("#PBS -N $USER.x\n", 2, f"illegal -N value\n{submission.USAGE}"),
        ("#PBS -l nodes=1:ppn=1\n#PBS -l select=1:ncpus=1\n", 6, "Cannot be used with select or place: nodes"),
    ],
)
def test_refused_directives(script: str, rc: int, text: str) -> None:
    with pytest.raises(Rejection) as refused:
        _parsed(script=script)

    assert (refused.value.returncode, refused.value.words) == (rc, text)


@pytest.mark.parametrize(
    ("script", "name", "walltime"),
    [
        ("#!/bin/bash\necho first\n#PBS -N late\n", "script.sh", None),
        ("#!/bin/bash\n\n# comment\n#PBS -N a\n\n\n#PBS -l walltime=00:01:00\necho\n", "a", 60),
        ("#!/bin/bash\n#PBS -N a -l walltime=00:01:00 -l select=1:ncpus=1\n", "a", 60),
        (" #PBS -N leading\n# PBS -N hashspace\n##PBS -N double\n#pbs -N lower\n", "leading", None),
        ("#PBS  -N  twospace\n", "twospace", None),
        ("#PBS-N nospace\n", "nospace", None),
        (": a colon ends nothing\n#PBS -N aftercolon\n", "aftercolon", None),
        ("\ufeff#!/bin/bash\n#PBS -N bom\n", "script.sh", None),
        ("#PBS -N dup1\n#PBS -N dup2\n#PBS -l walltime=1\n#PBS -l walltime=2\n", "dup2", 2),
        ("#PBS -N noeol", "noeol", None),
        ("#PBS -N a \\\n#PBS -l walltime=5\necho\n#PBS -N b\n", "a", 5),
    ],
)
def test_directives(script: str, name: str, walltime: int | None) -> None:
    request = _parsed(script=script)

    assert (request.name, request.asked.walltime) == (name, walltime)


def test_the_command_line_beats_the_script() -> None:
    script = "#PBS -N script -l select=2:ncpus=2 -l walltime=10 -q other\n"

    request = _parsed("-N", "line", "-l", "walltime=20", script=script)

    assert (request.name, request.asked.walltime, request.options["-q"]) == ("line", 20, "other")
    assert request.asked.chunks == (Chunk(2, 2, 1, 2, 0, 0),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("T_A=1,T_B=2", {"T_A": "1", "T_B": "2"}),
        ("T_A=hello world,T_B=x", {"T_A": "hello world", "T_B": "x"}),
        ("T_A=a\\,b,T_B=x", {"T_A": "a,b", "T_B": "x"}),
        ('T_A="a,b",T_B=x', {"T_A": "a,b", "T_B": "x"}),
        ("T_A='a,b'", {"T_A": "a,b"}),
        ("T_A=line1\nline2", {"T_A": "line1\nline2"}),
        ("T_A=a\\b", {"T_A": "a\\\\b"}),
        ("T_A=$HOME,T_B=`id`", {"T_A": "$HOME", "T_B": "`id`"}),
        ("T_A=a=b=c,T_B=", {"T_A": "a=b=c", "T_B": ""}),
        ('T_A={"k": 1}', {"T_A": "{k: 1}"}),
        ("T_A= lead,T_B=trail ", {"T_A": " lead", "T_B": "trail"}),
        ("PBS_O_WORKDIR=/scratch,T_A=1", {"T_A": "1"}),
        ("T_A=1,T_A=2", {"T_A": "2"}),
        ("HERE", {"HERE": "yes"}),
        ("T_A=C:\\path\\,x", {"T_A": "C:\\\\path,x"}),
    ],
)
def test_variables(text: str, expected: dict[str, str]) -> None:
    assert _parsed("-v", text, environment={"HERE": "yes"}).variables == expected


@pytest.mark.parametrize(
    ("items", "chunks", "listed"),
    [
        ({}, [Chunk(1, 1, 1, 1, 0, 0)], {"ncpus": "1", "nodect": "1", "place": "pack", "select": "1:ncpus=1"}),
        (
            {"select": "2:ncpus=4:mpiprocs=2:ompthreads=2:mem=100mb+1:ngpus=1", "place": "scatter"},
            [Chunk(2, 4, 2, 2, 100 << 20, 0), Chunk(1, 1, 1, 1, 0, 1)],
            {
                "mem": "200mb", "mpiprocs": "5", "ncpus": "9", "ngpus": "1", "nodect": "3", "place": "scatter",
                "select": "2:ncpus=4:mpiprocs=2:ompthreads=2:mem=100mb+1:ngpus=1",
            },
        ),
        (
            {"nodes": "2:ppn=2", "walltime": "00:99:00"},
            [Chunk(2, 2, 2, 2, 0, 0)],
            {
                "mpiprocs": "4", "ncpus": "4", "nodect": "2", "nodes": "2:ppn=2", "place": "scatter",
                "select": "2:ncpus=2:mpiprocs=2", "walltime": "01:39:00",
            },
        ),
        (
            {"ncpus": "2", "mem": "512kb"},
            [Chunk(1, 2, 1, 2, 512 << 10, 0)],
            {"mem": "512kb", "ncpus": "2", "nodect": "1", "place": "pack", "select": "1:ncpus=2:mem=512kb"},
        ),
    ],
)  # fmt: skip
def test_what_is_asked_for(items: dict[str, str], chunks: list[Chunk], listed: dict[str, str]) -> None:
    asked = resources.asked(items)

    assert (list(asked.chunks), dict(asked.listed)) == (chunks, listed)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1:30", 90), ("01:00:00", 3600), ("1.2", 2), ("99:00:00", 356400), ("0", 0)]
)
def test_times(text: str, seconds: int) -> None:
    assert resources.seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [("100", 100), ("1kb", 1024), ("2MB", 2 << 20), ("3G", 3 << 30), ("1mw", 8 << 20), ("5b", 5), ("0", 0)],
)
def test_sizes(text: str, expected: int) -> None:
    assert resources.size(text) == expected


@given(st.text(), st.sampled_from(["-l", "-v", "-N", "-W", "-k", "-j", "-o", "-P"]))
def test_any_option_is_taken_or_refused(value: str, flag: str) -> None:
    for script, words in (("", (flag, value)), (f"#PBS {flag} {value}\n", ())):
        assert _returncode(words, script) in {0, 1, 2, 3, 5, 6, 7, 12, 154, 166, 187, 241}


def _returncode(words: tuple[str, ...], script: str) -> int:
    try:
        _parsed(*words, script=script)
    except Rejection as refused:
        return refused.returncode
    return 0
