"""The pictures of docs/page.md: a browser takes them, and each holds a digest of what the page looked like then.

So a picture that shows an older page is noticed without a browser. Digests are of pages over the fixed view of these
tests, as those of real Jobs differ each time.
"""

from __future__ import annotations

import base64
import hashlib
import re
import struct
import tempfile
import zlib
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Page

from router.page import app
from router.page.app import create_app
from router.page.models.logged import Tail, logged
from router.page.policysource import Policies
from tests.operating.objects import NOW
from tests.page.apiserver import answering
from tests.page.objects import LOGGED, Fixed, sight, told_job

NAMES: Final = {"page.png": "/", "page-job.png": "/jobs/default/train", "page-decisions.png": "/decisions"}
"""The pictures, and the page of which each is."""
LAST: Final = {"page.png": "footer", "page-job.png": "#pods-part article", "page-decisions.png": "footer"}
"""The last part that is on each of them."""
MOST_BYTES: Final = 150_000
_KEY: Final = b"batchgate"
_HEAD: Final = 33
"""Bytes of a PNG before its second chunk: the signature and IHDR."""

_FEW_COLOURS: Final = """async (data) => {
  const image = new Image();
  image.src = "data:image/png;base64," + data;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height), context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const all = context.getImageData(0, 0, image.width, image.height).data;
  const wide = image.width, high = image.height, pixels = new Uint8Array(wide * high), counts = new Map();
  const colour = (at) => (all[4 * at] << 16) | (all[4 * at + 1] << 8) | all[4 * at + 2];
  const parts = (one) => [one >> 16, (one >> 8) & 255, one & 255];
  for (let at = 0; at < pixels.length; at++) counts.set(colour(at), (counts.get(colour(at)) || 0) + 1);
  const palette = [...counts.keys()].sort((one, other) => counts.get(other) - counts.get(one)).slice(0, 256);
  const kept = palette.map(parts), places = new Map();
  const far = (one, other) => one.reduce((sum, part, at) => sum + (part - other[at]) ** 2, 0);
  for (const one of counts.keys()) {
    const distances = kept.map((other) => far(parts(one), other));
    places.set(one, distances.indexOf(Math.min(...distances)));
  }
  for (let at = 0; at < pixels.length; at++) pixels[at] = places.get(colour(at));
  let text = "";
  for (let at = 0; at < pixels.length; at += 8192) text += String.fromCharCode(...pixels.subarray(at, at + 8192));
  return { wide, high, palette: kept.flat(), pixels: btoa(text) };
}"""
"""Of a picture its 256 commonest colours, and each point as the place of the nearest one: a third of the bytes."""


def digest(name: str) -> str:
    """Of what determines how a picture looks: the page's main part over the fixed view, and the styles."""
    with tempfile.TemporaryDirectory() as directory, answering() as server:
        server.jobs, server.pods, server.events = told_job()
        log = logged(Tail("decisions", LOGGED), "", NOW)
        found = Fixed(sight(), server.cluster(Path(directory)))
        made = create_app(lambda: found, Policies(), lambda _app: None, log=lambda _now: log)  # type: ignore[arg-type, return-value]
        text = made.test_client().get(NAMES[name]).text
    main = re.search("<main.*</main>", text, re.DOTALL)
    assert main is not None
    styles = (Path(app.__file__).parent / "static" / "page.css").read_text()
    return hashlib.sha256(f"{main[0]}\0{styles}".encode()).hexdigest()


def take(page: Page, path: Path) -> None:
    """Take the picture of what a browser shows, down to the part that is the last one on it."""
    last = page.locator(LAST[path.name]).first.bounding_box()
    assert last is not None
    assert page.viewport_size is not None
    wide, high = page.viewport_size["width"], int(last["y"] + last["height"]) + 10
    data = page.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": wide, "height": high})
    blank = page.context.new_page()
    made = blank.evaluate(_FEW_COLOURS, base64.b64encode(data).decode())
    blank.close()
    path.write_bytes(_png(made, digest(path.name)))


def _png(made: dict[str, Any], text: str) -> bytes:
    wide, high, pixels = made["wide"], made["high"], base64.b64decode(made["pixels"])
    rows = b"".join(b"\0" + pixels[wide * row : wide * (row + 1)] for row in range(high))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        (
            _chunk(b"IHDR", struct.pack(">IIBBBBB", wide, high, 8, 3, 0, 0, 0)),
            _chunk(b"tEXt", _KEY + b"\0" + text.encode()),
            _chunk(b"PLTE", bytes(made["palette"])),
            _chunk(b"IDAT", zlib.compress(rows, 9)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def digest_in(path: Path) -> str:
    """The digest in a picture; empty if it has none or is missing."""
    if not path.exists():
        return ""
    found = re.match(rb"tEXt" + _KEY + rb"\0([0-9a-f]{64})", path.read_bytes()[_HEAD + 4 :])
    return found[1].decode() if found else ""
