"""A robot that says what it sees, and learns what you tell it: type a name and Enter while it looks at the thing.

Start `cbcl teach things.cbcl` in one terminal, and in another

    python examples/robot.py http://127.0.0.1:8737             # frames of a camera, through OpenCV
    python examples/robot.py http://127.0.0.1:8737 pictures/   # or of a folder, one after another

An empty line, or the end of the input, stops it. Both ends may be on different machines: give the whole address, with
its token, that `cbcl teach --host 0.0.0.0` prints.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain, cycle
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from time import sleep

from cbcl import CBCLError
from cbcl.web.client import Client


def frames(folder: str | None) -> Iterator[bytes]:
    """What the robot sees, as files of pictures."""
    if folder is not None:
        yield from cycle([path.read_bytes() for path in sorted(Path(folder).iterdir()) if path.is_file()])
        return
    import cv2  # pip install opencv-python

    camera = cv2.VideoCapture(0)
    while (taken := camera.read())[0]:
        yield cv2.imencode(".jpg", taken[1])[1].tobytes()


def listen(commands: SimpleQueue[str]) -> None:
    for line in chain(sys.stdin, [""]):
        commands.put(line.strip())


def main(url: str, folder: str | None = None) -> None:
    robot = Client(url)
    commands: SimpleQueue[str] = SimpleQueue()
    Thread(target=listen, args=[commands], daemon=True).start()
    said = None
    for frame in frames(folder):
        try:
            answer = robot.recognize(frame)
            if (sees := answer["label"] or "something that I do not know") != said:
                print(f"I see {sees}.", flush=True)
                said = sees
            if not (name := commands.get_nowait()):
                return
            robot.learn(name, seen=[answer["seen"]])  # the very frame that was answered, which need not be sent again
            print(f"So this is {name}.", flush=True)
        except Empty:  # nobody says anything
            pass
        except CBCLError as error:
            print(error, file=sys.stderr)
            sleep(1.0)


if __name__ == "__main__":
    main(*sys.argv[1:])
