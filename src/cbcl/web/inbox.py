"""Inbox of `cbcl watch`, as the page sees it: photos to be named, listed, read and removed.

A photo `NAME.jpg` is in it if `.NAME.jpg.json` lies beside it; no other file is touched. Who asks
for a photo gives a name of the list, never a path.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import BaseModel

from cbcl.errors import PictureError, encodable, reason
from cbcl.vision.decoding import read
from cbcl.web.errors import ApiError
from cbcl.web.limits import RouteLimits
from cbcl.web.route_parts import kept

BINARY_TYPE = "application/octet-stream"

router = APIRouter(prefix="/api/inbox", include_in_schema=False)  # for the page, not for programs


class InboxResponse(BaseModel):
    """Names of the photos that wait to be named, the latest first."""

    photos: list[str]
    watched: bool  # there is a folder, so that more may come


class PhotoInbox:
    """The folder that `cbcl watch --inbox` writes to; None: there is none."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        if folder is not None and not folder.is_dir():
            raise PictureError(folder, "is not a folder", "give the one of cbcl watch --inbox")

    @property
    def exists(self) -> bool:
        return self._folder is not None

    def photos(self) -> dict[str, Path]:
        """Return the photos that are there, by their names, the latest first."""
        if self._folder is None:
            return {}
        answers = sorted(self._folder.glob(".*.json"), reverse=True)
        photos = (one.with_name(one.name[1:].removesuffix(".json")) for one in answers)
        return {encodable(one.name): one for one in photos if one.is_file()}

    def find(self, name: str) -> Path:
        """Return the file of a photo that is listed."""
        try:
            return self.photos()[name]
        except KeyError:
            message = "this photo is not in the inbox, or no longer."
            raise ApiError("missing", message) from None

    def remove(self, name: str) -> None:
        """Remove a photo, and its answer."""
        photo = self.find(name)
        try:
            photo.unlink(missing_ok=True)
            photo.with_name(f".{photo.name}.json").unlink(missing_ok=True)
        except OSError as error:
            raise PictureError(photo, f"cannot be removed: {reason(error)}") from error


ServedInbox = Annotated[PhotoInbox, kept("inbox")]


@router.get("")
@RouteLimits()
def list_photos(inbox: ServedInbox) -> InboxResponse:
    """List the photos of the inbox."""
    return InboxResponse(photos=[*inbox.photos()], watched=inbox.exists)


@router.get("/{name}")
@RouteLimits()
def read_photo(inbox: ServedInbox, name: str) -> Response:
    """Return the bytes of a photo."""
    return Response(read(inbox.find(name)), media_type=BINARY_TYPE)


@router.delete("/{name}")
@RouteLimits()
def remove_photo(inbox: ServedInbox, name: str) -> InboxResponse:
    """Remove a photo that was named, or is not to be; list those that are left."""
    inbox.remove(name)
    return list_photos(inbox)
