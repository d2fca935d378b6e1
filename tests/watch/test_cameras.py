"""Cameras: snapshots over http, and OpenCV's captures by a double of it."""

from __future__ import annotations

import gc
import sys
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest
from support.http_double import Received, Reply, http_double

from cbcl.errors import PictureError, ServerError
from cbcl.watch.cameras import VideoCamera, snapshots
from cbcl.watch.frames import ProblemLog
from cbcl.watch.http_requests import HttpAddress


def test_snapshots_are_frames_and_an_outage_is_told_once() -> None:
    told: list[str] = []
    replies = iter([Reply(b"one"), *[Reply(status=503)] * 3, Reply(b"two"), Reply(status=503)])
    with http_double(lambda _: next(replies, Reply(b"three"))) as server:
        address = HttpAddress(f"{server.url}/door/latest.jpg?h=300")
        frames = [*islice(snapshots(address, ProblemLog(told.append), every=0.01), 3)]
    assert [frame.data for frame in frames] == [b"one", b"two", b"three"]
    assert {frame.source for frame in frames} == {f"{server.url}/door/latest.jpg"}
    assert {request.path for request in server.received} == {"/door/latest.jpg?h=300"}
    outage = f"{server.url}/door/latest.jpg answers 503 Service Unavailable."
    assert told == [outage, outage]  # two outages


def test_a_camera_that_is_off_is_told_in_words() -> None:
    with http_double(lambda _: Reply()) as server:
        pass
    with pytest.raises(ServerError) as refusal:
        HttpAddress(server.url).request()
    assert str(refusal.value) == f"{server.url} does not answer (Connection refused)."


def asks_for_password(request: Received) -> Reply:
    if request.headers.get("Authorization") == "Basic YW5uOmEgc2VjcmV0":
        return Reply(b"frame")
    return Reply(status=401, headers={"WWW-Authenticate": 'Basic realm="camera"'})


# The standard library leaves the connection of the first refusal to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_password_in_an_address_is_sent_and_never_told() -> None:
    with http_double(asks_for_password) as server:
        url = server.url.replace("//", "//ann:a%20secret@")
        assert HttpAddress(url).request() == b"frame"
        wrong = HttpAddress(url.replace("secret", "guess"))
        with pytest.raises(ServerError) as refusal:
            wrong.request()
    assert str(refusal.value) == f"{server.url} answers 401 Unauthorized."
    gc.collect()


def test_a_stream_and_too_much_are_refused() -> None:
    endless = Reply(b"--x", headers={"Content-Type": "multipart/x-mixed-replace;boundary=x"})
    with http_double(lambda _: endless) as server, pytest.raises(ServerError, match="is a stream"):
        HttpAddress(server.url).request()
    with http_double(lambda _: Reply(b"12345")) as server:
        assert HttpAddress(server.url).request(limit=5) == b"12345"
        with pytest.raises(ServerError, match="more than"):
            HttpAddress(server.url).request(limit=4)


@pytest.mark.parametrize("url", ["ftp://a/b.jpg", "http://", "http://[", "http://h:port/"])
def test_what_is_not_an_http_address_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ServerError) as refusal:
        HttpAddress(url)
    assert str(refusal.value) == (
        "the address is not one of http or https: "
        "give one such as http://127.0.0.1:5000/api/door/latest.jpg."
    )


class Capture:
    """Frames as numbers, and how many were grabbed between them."""

    def __init__(self, frames: list[bytes]) -> None:
        self.frames = iter(frames)
        self.released = False

    def read(self) -> tuple[bool, bytes | None]:
        frame = next(self.frames, None)
        return frame is not None, frame

    def grab(self) -> bool:
        return next(self.frames, None) is not None

    def release(self) -> None:
        self.released = True


def opencv(*captures: Capture) -> tuple[Any, list[int | str]]:
    opened: list[int | str] = []
    waiting = iter(captures)

    def open_capture(number_or_url: int | str) -> Capture:
        opened.append(number_or_url)
        return next(waiting)

    def encode(_: str, pixels: bytes) -> tuple[bool, Any]:
        return True, SimpleNamespace(tobytes=lambda: b"jpeg of " + pixels)

    return SimpleNamespace(VideoCapture=open_capture, imencode=encode), opened


def test_a_camera_that_is_lost_is_told_and_opened_again() -> None:
    told: list[str] = []
    captures = Capture([b"1", b"2"]), Capture([]), Capture([b"3"])
    cv2, opened = opencv(*captures)
    camera = VideoCamera("0", ProblemLog(told.append), every=0.0, cv2=cv2)
    frames = [*islice(camera.frames(sleep=lambda _: None), 3)]
    assert [frame.data for frame in frames] == [b"jpeg of 1", b"jpeg of 2", b"jpeg of 3"]
    assert (opened, [capture.released for capture in captures[:2]]) == ([0, 0, 0], [True, True])
    assert told == ["camera 0 gives no picture: waiting for it."]


def test_frames_between_two_answers_are_taken_so_that_none_is_old() -> None:
    cv2, _ = opencv(Capture([b"x"] * 1_000_000))
    frames = VideoCamera("0", ProblemLog(print), every=0.02, cv2=cv2).frames()
    next(frames)
    next(frames)
    capture = Capture([b"1", b"2"])
    cv2, _ = opencv(capture, Capture([b"3"]))
    again = VideoCamera("0", ProblemLog(lambda _: None), every=60.0, cv2=cv2)
    frames = again.frames(sleep=lambda _: None)
    assert [next(frames).data, next(frames).data] == [b"jpeg of 1", b"jpeg of 3"]


def test_the_name_of_a_stream_has_no_password() -> None:
    cv2, opened = opencv(Capture([b"1"]))
    camera = VideoCamera("rtsp://ann:secret@door:554/live?key=7", ProblemLog(print), cv2=cv2)
    assert next(camera.frames()).source == "rtsp://door:554/live"
    assert opened == ["rtsp://ann:secret@door:554/live?key=7"]


def test_without_opencv_a_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(PictureError, match="needs OpenCV, which is not installed: pip install"):
        VideoCamera("0", ProblemLog(print))
