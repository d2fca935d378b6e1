"""A robot that says what it sees, and learns the name that you type while it looks at a thing.

Start `cbcl teach things.cbcl` in one terminal, and in another

    python examples/robot.py http://127.0.0.1:8737             # frames of a camera, through OpenCV
    python examples/robot.py http://127.0.0.1:8737 pictures/   # or the files of a folder, in turn

An empty line or the end of the input stops it. The server may run on another machine: give the
whole address that `cbcl teach --host 0.0.0.0` prints, with its token, and `--certificate` with the
file that it has at /cbcl-authority.crt.
"""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Iterator
from itertools import chain, cycle
from pathlib import Path
from threading import Thread
from time import sleep

from cbcl import CBCLError, LabelError
from cbcl.client import Client


def frames(files: list[Path]) -> Iterator[bytes]:
    """Yield pictures that the robot sees, as bytes of files; without files, of the camera."""
    if files:
        yield from cycle([path.read_bytes() for path in files])
        return
    try:
        import cv2
    except ModuleNotFoundError:
        sys.exit("the camera needs OpenCV: pip install opencv-python, or give a folder of pictures")
    camera = cv2.VideoCapture(0)
    while (frame := camera.read())[0]:
        yield cv2.imencode(".jpg", frame[1])[1].tobytes()


def read_names(names: deque[str]) -> None:
    for line in chain(sys.stdin, [""]):
        names.append(line.strip())


def main(robot: Client, files: list[Path]) -> None:
    names: deque[str] = deque()  # typed and not learned yet
    Thread(target=read_names, args=[names], daemon=True).start()
    said = None
    for frame in frames(files):
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url", help="the address that `cbcl teach` prints")
    parser.add_argument("folder", nargs="?", type=Path, help="pictures to see; else the camera")
    parser.add_argument("--certificate", type=Path, help="a certificate to trust, as a file")
    arguments = parser.parse_args()
    pictures: list[Path] = []
    if arguments.folder is not None:
        found = sorted(arguments.folder.iterdir()) if arguments.folder.is_dir() else []
        pictures = [path for path in found if path.is_file()]
        if not pictures:
            parser.error(f"{arguments.folder} is not a folder with pictures in it.")
    try:
        main(Client(arguments.url, certificate=arguments.certificate), pictures)
    except CBCLError as error:
        sys.exit(str(error))
