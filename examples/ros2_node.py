"""A ROS 2 node that says what a camera sees: it reads images, and publishes labels.

    ros2 run image_tools cam2image                    # or any other publisher of images
    python examples/ros2_node.py things.cbcl /image   # publishes /image/label and /image/confidence

The label of something unknown is empty. Teach the memory with `cbcl teach` or `cbcl learn`, also
while the node runs: the next frame is answered by what was learned. Frames that arrive while the
node answers one are dropped.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbcl import CBCLError, Recognizer

CHANNELS = {"rgb8": [0, 1, 2], "bgr8": [2, 1, 0], "rgba8": [0, 1, 2], "bgra8": [2, 1, 0]}


def as_pixels(message: Any) -> NDArray[np.uint8]:
    """Return the pixels of a sensor_msgs/Image, RGB, (height, width, 3)."""
    n_channels = 1 if message.encoding == "mono8" else len(message.encoding) - 1
    order = [0, 0, 0] if n_channels == 1 else CHANNELS.get(message.encoding)
    if order is None:
        raise ValueError(f"images of the encoding {message.encoding!r} are not read here.")
    rows = np.frombuffer(message.data, np.uint8).reshape(message.height, message.step)
    used = rows[:, : message.width * n_channels]  # the rest of a row is padding
    return used.reshape(message.height, message.width, n_channels)[:, :, order]


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("memory", help="a memory, as cbcl learn writes it")
    parser.add_argument("topic", help="a topic of sensor_msgs/Image")
    options = parser.parse_args(arguments)
    try:
        import rclpy
        from sensor_msgs.msg import Image
        from std_msgs.msg import Float32, String
    except ModuleNotFoundError:
        sys.exit("the node needs ROS 2 with rclpy: source its setup.bash first.")
    rclpy.init()
    node = rclpy.create_node("cbcl")
    label = node.create_publisher(String, f"{options.topic}/label", 10)
    confidence = node.create_publisher(Float32, f"{options.topic}/confidence", 10)
    with Recognizer(options.memory) as recognizer:

        def answer(message: Any) -> None:
            try:
                seen = recognizer.recognize(as_pixels(message))
            except (CBCLError, ValueError) as error:
                node.get_logger().warning(str(error))
                return
            label.publish(String(data=seen.label or ""))
            confidence.publish(Float32(data=float(seen.confidence)))

        node.create_subscription(Image, options.topic, answer, 1)
        with suppress(KeyboardInterrupt):
            rclpy.spin(node)


if __name__ == "__main__":
    main(sys.argv[1:])
