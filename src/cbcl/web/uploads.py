"""Multipart forms: fields and files, checked and limited while they arrive."""

# Starlette's parser does not keep our limits: it has none for a file's size, refuses no unknown
# field, accepts a form that ends early, reads a label of another encoding as Latin-1, and spools an
# import to a file without a name, which would have to be written a second time to be opened.

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from cbcl.errors import reason
from cbcl.web.errors import ApiError
from cbcl.web.limits import MAX_PICTURE_BYTES, MAX_PICTURES, MB

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

MAX_FIELD_BYTES = 2000
MAX_PART_HEADER_BYTES = 8000
MAX_NAME_LENGTH = 100
WRITE_BUFFER_BYTES = 1 << 20


class UploadedFile(NamedTuple):
    """A file of a form."""

    name: str
    data: bytes


@dataclass
class UploadForm:
    """A form: texts by the names of their fields, and files."""

    fields: dict[str, list[str]] = field(default_factory=dict)
    files: list[UploadedFile] = field(default_factory=list)

    def texts(self, name: str) -> list[str]:
        return self.fields.get(name, [])

    def text(self, name: str) -> str:
        """Return the value of a field that must be given once."""
        values = self.texts(name)
        if len(values) != 1:
            problem = "is given more than once" if values else "is missing"
            raise ApiError("argument", f"{name!r} {problem}.")
        return values[0]


@dataclass
class _Part:
    """A part of a form, handed over when it is complete."""

    finish: Callable[[bytes], None]
    limit: float = math.inf
    too_large: ApiError | None = None
    data: bytearray = field(default_factory=bytearray)

    def write(self, data: bytes) -> None:
        self.data += data
        if len(self.data) > self.limit and self.too_large is not None:
            raise self.too_large


async def read_form(request: Request, *, files: str, fields: Collection[str]) -> UploadForm:
    """Read a form with any number of files in one field, and texts in others."""
    form = UploadForm()

    def open_part(name: str, filename: str | None) -> _Part:
        if filename is not None and name == files:
            if len(form.files) >= MAX_PICTURES:
                raise too_many_pictures()
            shown = _clean_name(filename) or f"picture {len(form.files) + 1}"
            limit = f"{MAX_PICTURE_BYTES // MB} MB"
            too_large = ApiError("size", f"{shown} has more than {limit}: make it smaller.")
            return _Part(
                lambda data: form.files.append(UploadedFile(shown, data)),
                MAX_PICTURE_BYTES,
                too_large,
            )
        if filename is None and name in fields:
            values = form.fields.setdefault(name, [])
            if len(values) >= MAX_PICTURES:
                raise ApiError("size", f"{name!r} is given more than {MAX_PICTURES} times.")
            too_long = ApiError("argument", f"{name!r} has more than {MAX_FIELD_BYTES} bytes.")
            return _Part(lambda data: values.append(_decode(data, name)), MAX_FIELD_BYTES, too_long)
        allowed = ", ".join(map(repr, sorted({*fields, files})))
        message = f"the form has an unknown field {name[:50]!r}: {allowed} can be given."
        raise ApiError("argument", message)

    await _parse(request, open_part)
    return form


async def save_file(request: Request, *, field: str, path: Path) -> str:
    """Write the only file of a form to a path while it arrives, and return its name."""
    names: list[str] = []
    received = bytearray()

    def open_part(name: str, filename: str | None) -> _Part:
        if filename is None or name != field or names:
            raise ApiError("argument", f"give one file, as {field!r}.")
        names.append(_clean_name(filename) or field)
        return _Part(lambda _: None, data=received)

    async def write(at_least: int = WRITE_BUFFER_BYTES) -> None:
        if len(received) > at_least:
            await run_in_threadpool(file.write, bytes(received))
            received.clear()

    with report_disk_errors(), path.open("wb") as file:
        await _parse(request, open_part, write)
        await write(at_least=0)
    if not names:
        raise ApiError("argument", f"{field!r} is missing.")
    return names[0]


def too_many_pictures() -> ApiError:
    message = f"the request has more than {MAX_PICTURES} pictures: send them in several requests."
    return ApiError("size", message)


@contextmanager
def report_disk_errors() -> Iterator[None]:
    """Turn a temporary file that cannot be written into an API error."""
    try:
        yield
    except OSError as error:
        message = f"the upload cannot be stored ({reason(error)}): free some space and try again."
        raise ApiError("memory", message) from error


class _FormReader:
    """Callbacks of the parser: opens a part after its header, fills and closes it."""

    def __init__(self, open_part: Callable[[str, str | None], _Part]) -> None:
        self._open_part = open_part
        self._part = _Part(lambda _: None)
        self._header_name = bytearray()
        self._header_value = bytearray()
        self._header_bytes = 0  # of the part
        self._disposition = b""
        self.complete = False

    def callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._begin_part,
            "on_header_field": partial(self._read_header, self._header_name),
            "on_header_value": partial(self._read_header, self._header_value),
            "on_header_end": self._end_header,
            "on_headers_finished": self._open,
            "on_part_data": self._write,
            "on_part_end": self._close,
            "on_end": self._end,
        }

    def _begin_part(self) -> None:
        self._disposition, self._header_bytes = b"", 0

    def _read_header(self, into: bytearray, data: bytes, start: int, end: int) -> None:
        self._header_bytes += end - start
        if self._header_bytes > MAX_PART_HEADER_BYTES:
            raise ApiError("argument", "a part of the form has too long a header.")
        into += data[start:end]

    def _end_header(self) -> None:
        if self._header_name.lower() == b"content-disposition":
            self._disposition = bytes(self._header_value)
        self._header_name.clear()
        self._header_value.clear()

    def _open(self) -> None:
        _, options = parse_options_header(self._disposition)
        name, filename = options.get(b"name"), options.get(b"filename")
        if name is None:
            raise ApiError("argument", "a part of the form has no name.")
        shown = None if filename is None else filename.decode(errors="replace")
        self._part = self._open_part(name.decode(errors="replace"), shown)

    def _write(self, data: bytes, start: int, end: int) -> None:
        self._part.write(data[start:end])

    def _close(self) -> None:
        self._part.finish(bytes(self._part.data))

    def _end(self) -> None:
        self.complete = True


async def _parse(
    request: Request,
    open_part: Callable[[str, str | None], _Part],
    after_chunk: Callable[[], Awaitable[None]] | None = None,
) -> None:
    media_type, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary")
    if media_type != b"multipart/form-data" or not boundary:
        raise ApiError("argument", "the body is not a form: send it as multipart/form-data.")
    reader = _FormReader(open_part)
    try:
        parser = MultipartParser(boundary, reader.callbacks())
        async for chunk in request.stream():
            parser.write(chunk)
            if after_chunk is not None:
                await after_chunk()
        parser.finalize()
    except FormParserError as error:
        raise ApiError("argument", "the form is broken: it is not multipart/form-data.") from error
    if not reader.complete:
        raise ApiError("argument", "the form ends too early.")


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ApiError("argument", f"{name!r} is not UTF-8.") from error


def _clean_name(filename: str) -> str:
    """Return a file's name without folders and unprintable characters, and not too long."""
    name = PurePosixPath(filename.replace("\\", "/")).name
    return "".join(letter for letter in name if letter.isprintable())[:MAX_NAME_LENGTH].strip()
