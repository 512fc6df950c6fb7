"""Sentences of docstrings, comments and pages: at most 35 words and one negation, so that nobody reads one twice."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LONGEST = 35
CODE = ("router", "bed", "kindcluster", "bench", "imagebuild")
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("manifests/**/*.md"),
        *ROOT.glob("examples/**/*.md"),
        *ROOT.glob("charts/**/*.md"),
    ]
)

_NEGATION = re.compile(r"\b(?:no|not|never|none|nobody|nothing|nowhere|neither|nor|cannot|\w+n't)\b", re.IGNORECASE)
_CODE = re.compile(r"``[^`]*``|`[^`]*`")
_PART = re.compile(r"\n\s*\n|\n\s*(?=(?:[-*]|\d+\.) )|\n(?=\s*:(?:param|return|raise))")
"""What ends a paragraph: an empty line, the next entry of a list, a field of a docstring."""
_END = re.compile(r"(?<=[.:?!])\s+(?=[A-Z(`\"'*])|;\s+")
_FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)


def _sentences(text: str) -> Iterator[str]:
    for part in _PART.split(_CODE.sub("X", text)):
        whole = " ".join(part.split()).removeprefix("* ").removeprefix("- ")
        yield from (one for one in _END.split(whole) if one)


def _docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Also the texts below a constant or a field, which say what it is."""
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for one in body if isinstance(body, list) else ():
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) and isinstance(one.value.value, str):
                yield one.lineno, one.value.value


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Comments. Those on lines that follow each other are one."""
    first, last, words = 0, -1, ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        if token.start[0] != last + 1:
            yield first, words
            first, words = token.start[0], ""
        last = token.start[0]
        words += token.string.lstrip("#!") + "\n"
    yield first, words


def _paragraphs(page: str) -> Iterator[tuple[int, str]]:
    """Paragraphs, and cells of tables, without what is shown as code."""
    text = _FENCE.sub(lambda match: "\n" * match[0].count("\n"), page)
    for match in re.finditer(r"(?:^(?!\s*$).*\n?)+", text, re.MULTILINE):
        line = text[: match.start()].count("\n") + 1
        if match[0].lstrip().startswith("|"):
            yield from ((line, cell) for row in match[0].splitlines() for cell in row.split("|"))
        else:
            yield line, match[0]


def _wrong(path: Path, texts: Iterator[tuple[int, str]]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line}: {sentence}"
        for line, text in texts
        for sentence in _sentences(text)
        if len(sentence.split()) > LONGEST or len(_NEGATION.findall(sentence)) > 1
    ]


@pytest.mark.parametrize("room", CODE)
def test_docstrings_and_comments(room: str) -> None:
    sources = sorted((ROOT / room).rglob("*.py"))

    assert [
        one
        for path in sources
        for texts in (_docstrings(path.read_text()), _comments(path.read_text()))
        for one in _wrong(path, texts)
    ] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages(page: Path) -> None:
    assert _wrong(page, _paragraphs(page.read_text())) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two; three: Four", ["One.", "Two", "three:", "Four"]),
        ("Names end in ``a. B``. So.", ["Names end in X.", "So."]),
        ("One\ngoes on.\n\n* two\n* three\n\n:param x: four", ["One goes on.", "two", "three", ":param x: four"]),
    ],
)
def test_what_a_sentence_is(text: str, expected: list[str]) -> None:
    assert list(_sentences(text)) == expected
