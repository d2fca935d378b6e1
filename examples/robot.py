"""A robot that says what it sees, and learns what you tell it: type a name and Enter while it looks at the thing.

Start `cbcl teach things.cbcl` in one terminal, and in another

    python examples/robot.py http://127.0.0.1:8737             # frames of a camera, through OpenCV
    python examples/robot.py http://127.0.0.1:8737 pictures/   # or of a folder, one after another

An empty line, or the end of the input, stops it. Both ends may be on different machines: give the whole address, with
its token, that `cbcl teach --host 0.0.0.0` prints.
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
    """What the robot sees, as files of pictures."""
    if folder is not None:
        yield from cycle(
            [path.read_bytes() for path in sorted(Path(folder).iterdir()) if path.is_file()]
        )
        return
    import cv2  # pip install opencv-python

    camera = cv2.VideoCapture(0)
    while (taken := camera.read())[0]:
        yield cv2.imencode(".jpg", taken[1])[1].tobytes()


def listen(names: deque[str]) -> None:
    for line in chain(sys.stdin, [""]):
        names.append(line.strip())


def main(url: str, folder: str | None = None) -> None:
    robot = Client(url)
    names: deque[str] = deque()  # that were typed, and are not learned yet
    Thread(target=listen, args=[names], daemon=True).start()
    said = None
    for frame in frames(folder):
        try:
            answer = robot.recognize(frame)
            if (sees := answer["label"] or "something that I do not know") != said:
                print(f"I see {sees}.", flush=True)
                said = sees
            if names and names[0]:
                robot.learn(
                    names[0], seen=[answer["seen"]]
                )  # the very frame that was answered: it is not sent again
                print(f"So this is {names.popleft()}.", flush=True)
        except LabelError as error:  # which no other frame would change
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
