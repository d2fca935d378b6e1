"""The examples tell a newcomer how to call them, in one sentence and without a traceback."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
RUN = (
    "import runpy, sys; sys.argv = sys.argv[1:]; {}; runpy.run_path(sys.argv[0], {{}}, '__main__')"
)


def run(example: str, *words: object, without: str = "") -> subprocess.CompletedProcess[str]:
    """Run an example, where a module is not installed."""
    code = RUN.format(f"sys.modules[{without!r}] = None" if without else "pass")
    command = [sys.executable, "-c", code, EXAMPLES / example, *words]
    return subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_every_example_says_how_to_call_it(example: str) -> None:
    done = run(example, "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: {example} ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["portable.py"], "the following arguments are required: graph, PHOTO"),
        (["portable.py", "none.onnx", "new.jpg"], "none.onnx is not a file."),
        (["robot.py"], "the following arguments are required: url"),
        (["robot.py", "here", EXAMPLES], "'here' is not an address of a server: give one such as"),
        (["robot.py", "http://127.0.0.1:9", "none"], "none is not a folder with pictures in it."),
        (["ros2_node.py", "things.cbcl"], "the following arguments are required: topic"),
        (["demo.py", "a", "b"], "unrecognized arguments: b"),
    ],
)
def test_what_is_missing_or_wrong_is_one_sentence(words: list[object], message: str) -> None:
    example, *rest = words
    done = run(str(example), *rest)
    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_not_installed_is_named_with_the_command_that_installs_it() -> None:
    done = run("robot.py", "http://127.0.0.1:9", without="cv2")
    assert (done.returncode, done.stderr) == (
        1,
        "the camera needs OpenCV: pip install opencv-python, or give a folder of pictures\n",
    )
    done = run("ros2_node.py", "things.cbcl", "/image", without="rclpy")
    assert (done.returncode, done.stderr) == (
        1,
        "the node needs ROS 2 with rclpy: source its setup.bash first.\n",
    )
    done = run("demo.py", without="skimage")
    assert (done.returncode, done.stderr) == (
        1,
        'the photographs are in scikit-image: pip install "cbcl[demo]"\n',
    )


@pytest.mark.parametrize("encoding", ["rgb8", "bgr8", "rgba8", "bgra8", "mono8"])
def test_the_node_reads_images_of_ros_whatever_their_order_and_padding(encoding: str) -> None:
    as_pixels = runpy.run_path(str(EXAMPLES / "ros2_node.py"))["as_pixels"]
    colours = np.random.default_rng(0).integers(0, 256, (4, 5, 3), dtype=np.uint8)
    if encoding == "mono8":
        colours[:] = colours[:, :, :1]
    stored = colours[:, :, ["rgb".index(sign) for sign in "rgb" if sign in encoding] or [0]]
    if encoding.startswith("bgr"):
        stored = stored[:, :, ::-1]
    if "a8" in encoding:
        stored = np.concatenate([stored, np.full((4, 5, 1), 255, np.uint8)], axis=2)
    rows = stored.reshape(4, -1)
    step = rows.shape[1] + 3
    data = np.pad(rows, ((0, 0), (0, 3))).tobytes()
    image = SimpleNamespace(height=4, width=5, encoding=encoding, step=step, data=data)
    assert np.array_equal(as_pixels(image), colours)


def test_the_node_refuses_images_that_it_cannot_read() -> None:
    as_pixels = runpy.run_path(str(EXAMPLES / "ros2_node.py"))["as_pixels"]
    image = SimpleNamespace(height=1, width=1, encoding="bayer_rggb8", step=1, data=b"0")
    with pytest.raises(ValueError, match="images of the encoding 'bayer_rggb8' are not read"):
        as_pixels(image)
