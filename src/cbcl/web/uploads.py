"""Forms with pictures, taken apart while they come: nothing is kept that is too large, too many or not asked for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from cbcl.web.errors import RequestRefused
from cbcl.web.request_body import MAX_PICTURES, MB, PICTURE

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

WORD = 2000  # bytes of a field that is no file
HEAD = 8000  # bytes of what precedes a part
MAX_LETTERS = 100  # of a file's name
AT_ONCE = 1 << 20  # bytes to be written to a file in one go


class Upload(NamedTuple):
    """A file that was sent."""

    name: str
    data: bytes


@dataclass
class Form:
    """What was sent: words by the names of their fields, and files."""

    words: dict[str, list[str]] = field(default_factory=dict)
    files: list[Upload] = field(default_factory=list)

    def word(self, name: str) -> str:
        """The one value of a field."""
        found = self.words.get(name, [])
        if len(found) != 1:
            raise RequestRefused(
                "argument",
                f"{name!r} is missing." if not found else f"{name!r} is given more than once.",
            )
        return found[0]


async def read_form(request: Request, *, files: str, words: Collection[str]) -> Form:
    """A form with any number of files in one field, and words in others."""
    form = Form()

    def begin(name: str, filename: str | None) -> _Part:
        if filename is not None and name == files:
            if len(form.files) >= MAX_PICTURES:
                raise RequestRefused(
                    "size",
                    f"that is more than {MAX_PICTURES} pictures: send them in several requests.",
                )
            given = _base_name(filename) or f"picture {len(form.files) + 1}"
            too_large = RequestRefused(
                "size", f"{given} has more than {PICTURE // MB} MB: make it smaller."
            )
            return _Part(PICTURE, too_large, lambda data: form.files.append(Upload(given, data)))
        if filename is None and name in words:
            values = form.words.setdefault(name, [])
            if len(values) >= MAX_PICTURES:
                raise RequestRefused("size", f"{name!r} is given more than {MAX_PICTURES} times.")
            too_long = RequestRefused("argument", f"{name!r} is longer than {WORD} bytes.")
            return _Part(WORD, too_long, lambda data: values.append(_text(data, name)))
        wanted = ", ".join(map(repr, sorted({*words, files})))
        raise RequestRefused(
            "argument",
            f"the form has a part that is not wanted, {name[:50]!r}: {wanted} can be given.",
        )

    await _read(request, begin)
    return form


async def save_file(request: Request, *, files: str, path: Path) -> str:
    """The one file of a form, written to a path while it comes; what it was called."""
    names: list[str] = []
    pieces: list[bytes] = []

    def begin(name: str, filename: str | None) -> _Part:
        if filename is None or name != files or names:
            raise RequestRefused("argument", f"give one file, as {files!r}.")
        names.append(_base_name(filename) or files)
        return _Part(0, None, pieces.append, whole=False)

    with on_disk(), path.open("wb") as file:
        await _read(request, begin, lambda: _flush(pieces, file, AT_ONCE))
        await _flush(pieces, file, 0)
    if not names:
        raise RequestRefused("argument", f"{files!r} is missing.")
    return names[0]


@contextmanager
def on_disk() -> Iterator[None]:
    """What the system says where a file cannot be written, as a refusal."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise RequestRefused(
            "memory", f"the file cannot be kept while it comes: {reason}. Make room, try again."
        ) from error


async def _flush(pieces: list[bytes], file: BinaryIO, at_least: int) -> None:
    if sum(map(len, pieces)) > at_least:
        await run_in_threadpool(file.write, b"".join(pieces))
        pieces.clear()


class _Part:
    """One part of a form: gathered up to a limit and handed over whole, or piece by piece."""

    def __init__(
        self,
        limit: int,
        beyond: RequestRefused | None,
        give: Callable[[bytes], None],
        *,
        whole: bool = True,
    ) -> None:
        self._limit, self._beyond, self._give, self._whole = limit, beyond, give, whole
        self._data = bytearray()

    def add(self, piece: bytes) -> None:
        if not self._whole:
            self._give(piece)
            return
        self._data += piece
        if len(self._data) > self._limit and self._beyond is not None:
            raise self._beyond

    def end(self) -> None:
        if self._whole:
            self._give(bytes(self._data))


class _Reader:
    """What a parser calls: heads are read, parts begun, filled and ended."""

    def __init__(self, begin: Callable[[str, str | None], _Part]) -> None:
        self._begin = begin
        self._head: list[tuple[bytes, bytes]] = []
        self._name = self._value = b""
        self._part: _Part | None = None
        self.ended = False

    def on_part_begin(self) -> None:
        self._head = []

    def on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]
        self._bound()

    def on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]
        self._bound()

    def on_header_end(self) -> None:
        self._head.append((self._name.lower(), self._value))
        self._name = self._value = b""
        self._bound()

    def on_headers_finished(self) -> None:
        _, options = parse_options_header(dict(self._head).get(b"content-disposition", b""))
        name, filename = options.get(b"name"), options.get(b"filename")
        if name is None:
            raise RequestRefused("argument", "a part of the form has no name.")
        self._part = self._begin(
            name.decode(errors="replace"),
            None if filename is None else filename.decode(errors="replace"),
        )

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._part is not None:
            self._part.add(data[start:end])

    def on_part_end(self) -> None:
        if self._part is not None:
            self._part.end()

    def on_end(self) -> None:
        self.ended = True

    def _bound(self) -> None:
        if (
            sum(len(name) + len(value) for name, value in [*self._head, (self._name, self._value)])
            > HEAD
        ):
            raise RequestRefused("argument", "a part of the form has too long a head.")


async def _read(
    request: Request,
    begin: Callable[[str, str | None], _Part],
    after_each: Callable[[], Awaitable[None]] | None = None,
) -> None:
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary")
    if kind != b"multipart/form-data" or not boundary:
        raise RequestRefused("argument", "the body is no form: send it as multipart/form-data.")
    reader = _Reader(begin)
    callbacks: MultipartCallbacks = {
        "on_part_begin": reader.on_part_begin,
        "on_header_field": reader.on_header_field,
        "on_header_value": reader.on_header_value,
        "on_header_end": reader.on_header_end,
        "on_headers_finished": reader.on_headers_finished,
        "on_part_data": reader.on_part_data,
        "on_part_end": reader.on_part_end,
        "on_end": reader.on_end,
    }
    try:
        parser = MultipartParser(boundary, callbacks)
        async for chunk in request.stream():
            parser.write(chunk)
            if after_each is not None:
                await after_each()
        parser.finalize()
    except FormParserError as error:
        raise RequestRefused(
            "argument", "the form is broken: it is not as multipart/form-data should be."
        ) from error
    if not reader.ended:
        raise RequestRefused("argument", "the form ends too early.")


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise RequestRefused("argument", f"{name!r} is not UTF-8.") from error


def _base_name(filename: str) -> str:
    """A file's name as it may be shown: no folders, nothing that cannot be printed, not too long."""
    name = PurePosixPath(filename.replace("\\", "/")).name
    return "".join(letter for letter in name if letter.isprintable())[:MAX_LETTERS].strip()
