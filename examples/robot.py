"""A robot that says what it sees, and learns the name that you type while it looks at a thing.

Start `cbcl teach things.cbcl` in one terminal, and in another

    python examples/robot.py http://127.0.0.1:8737             # frames of a camera, through OpenCV
    python examples/robot.py http://127.0.0.1:8737 pictures/   # or the files of a folder, in turn

An empty line or the end of the input stops it. The server may run on another machine: give the
whole address that `cbcl teach --host 0.0.0.0` prints, with its token.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from itertools import chain, cycle
from pathlib import Path
from threading import Thread
from time import sleep

from cbcl import CBCLError, LabelError
from cbcl.client import Client


def frames(folder: str | None) -> Iterator[bytes]:
    """Yield what the robot sees, as files of pictures."""
    if folder is not None:
        files = [path for path in sorted(Path(folder).iterdir()) if path.is_file()]
        yield from cycle([path.read_bytes() for path in files])
        return
    import cv2  # pip install opencv-python

    camera = cv2.VideoCapture(0)
    while (frame := camera.read())[0]:
        yield cv2.imencode(".jpg", frame[1])[1].tobytes()


def read_names(names: deque[str]) -> None:
    for line in chain(sys.stdin, [""]):
        names.append(line.strip())


def main(url: str, folder: str | None = None) -> None:
    robot = Client(url)
    names: deque[str] = deque()  # typed, and not learned yet
    Thread(target=read_names, args=[names], daemon=True).start()
    said = None
    for frame in frames(folder):
        try:
            answer = robot.recognize(frame)
            if (sees := answer["label"] or "something that I do not know") != said:
                print(f"I see {sees}.", flush=True)
                said = sees
            if names and names[0]:
                robot.learn(names[0], seen=[answer["seen"]])  # this frame, without sending it again
                print(f"So this is {names.popleft()}.", flush=True)
        except LabelError as error:  # no other frame would change it
            print(error, file=sys.stderr, flush=True)
            names.popleft()
        except CBCLError as error:
            print(error, file=sys.stderr, flush=True)
            if "" in names:
                return
            sleep(1.0)
        if names and not names[0]:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
