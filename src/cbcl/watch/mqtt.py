"""Sightings over MQTT, and Home Assistant's discovery: each known thing is a sensor.

Topics, below the given one; messages are retained, so that later subscribers get them:

- `state`: the latest sighting, as JSON;
- `things/<id>`: ON if it is the latest answer, else OFF;
- `availability`: online or offline; the broker says offline when the watch was killed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from contextlib import suppress
from hashlib import sha256
from importlib import import_module
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from cbcl import __version__
from cbcl.errors import ServerError
from cbcl.watch.frames import ProblemLog
from cbcl.watch.watcher import Sighting

DISCOVERY = "homeassistant"  # Home Assistant's default prefix
KEEPALIVE_SECONDS = 30
MAX_RETRY_SECONDS = 60
CLOSE_SECONDS = 5.0


class MqttAddress(NamedTuple):
    """A broker, and the topic above all messages.

    >>> MqttAddress.of("mqtt://ann:secret@broker/home/shelf")[:4]
    ('broker', 1883, 'home/shelf', False)
    >>> MqttAddress.of("mqtts://broker").port
    8883
    """

    host: str
    port: int
    topic: str
    tls: bool
    user: str | None
    password: str | None

    @classmethod
    def of(cls, url: str, topic: str = "cbcl") -> MqttAddress:
        """Read an address; `topic` is the default for one without a path."""
        try:
            parts = urlsplit(url)
            given = unquote(parts.path).strip("/")
            port = parts.port
            is_address = parts.scheme in ("mqtt", "mqtts") and not {*"+#\0"} & {*given}
        except ValueError:
            is_address = False
        if not is_address or not parts.hostname:
            advice = "give one such as mqtt://user:password@broker:1883/home/shelf"
            raise ServerError("the address", "is not one of MQTT", advice)
        tls = parts.scheme == "mqtts"
        user, password = (
            None if text is None else unquote(text) for text in (parts.username, parts.password)
        )
        return cls(
            parts.hostname, port or (8883 if tls else 1883), given or topic, tls, user, password
        )


class MqttSink:
    """A client of a broker; it connects, and reconnects, by itself.

    Without a connection nothing is queued: the next connection begins with the latest state.
    """

    def __init__(self, address: MqttAddress, problems: ProblemLog) -> None:
        mqtt = _paho()
        self._topic = address.topic
        self._problems = problems
        self._tls = address.tls
        self._name = f"mqtt{'s' if address.tls else ''}://{address.host}:{address.port}"
        self._availability = f"{self._topic}/availability"
        self._device = topic_id(address.topic)
        self._sensors = f"{DISCOVERY}/binary_sensor/{self._device}"
        self._labels: list[str] | None = None  # None: not announced yet
        self._latest: Sighting | None = None
        self._client = client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        client.username_pw_set(address.user, address.password)
        if address.tls:
            client.tls_set()
        client.will_set(self._availability, "offline", qos=1, retain=True)
        client.reconnect_delay_set(1, MAX_RETRY_SECONDS)
        client.on_connect = self._connected
        client.on_disconnect = self._disconnected
        client.on_connect_fail = self._failed
        client.on_message = self._discovered
        client.connect_async(address.host, address.port, KEEPALIVE_SECONDS)
        client.loop_start()

    def announce(self, labels: Collection[str]) -> None:
        """Make a sensor for each label, and remove the sensors of deleted labels."""
        gone = set(self._labels or ()) - {*labels}
        self._labels = [*labels]
        for label in gone:
            self._publish(self._config_topic(label), "")
            self._publish(self._thing_topic(label), "")
        self._tell_all()

    def send(self, sighting: Sighting) -> None:
        """Publish the latest answer."""
        self._latest = sighting
        self._tell_state()

    def close(self) -> None:
        """Publish that the watch has ended, and disconnect."""
        if self._client.is_connected():
            message = self._client.publish(self._availability, "offline", qos=1, retain=True)
            with suppress(RuntimeError):  # the connection is lost: the broker's last will says so
                message.wait_for_publish(CLOSE_SECONDS)
        self._client.disconnect()
        self._client.loop_stop()

    def _connected(self, client: Any, _: Any, __: Any, code: Any, ___: Any) -> None:
        if code.is_failure:
            self._problems.report(self._name, f"{self._name} refuses the connection ({code}).")
            return
        self._problems.resolve(self._name)
        client.subscribe(f"{self._sensors}/+/config", qos=1)
        self._tell_all()

    def _disconnected(self, _: Any, __: Any, ___: Any, code: Any, ____: Any) -> None:
        if code.is_failure:
            self._problems.report(self._name, f"{self._name} was lost ({code}): trying again.")

    def _failed(self, _: Any, __: Any) -> None:
        or_else = ", or its certificate is not trusted here" if self._tls else ""
        self._problems.report(self._name, f"{self._name} cannot be reached{or_else}: trying again.")

    def _discovered(self, _: Any, __: Any, message: Any) -> None:
        """Remove the sensor of a thing that was forgotten while no watch ran."""
        if self._labels is None or not message.payload:
            return
        if message.topic not in {self._config_topic(label) for label in self._labels}:
            self._publish(message.topic, "")

    def _tell_all(self) -> None:
        if self._labels is None:
            return
        self._publish(f"{DISCOVERY}/sensor/{self._device}/answer/config", self._answer_config())
        for label in self._labels:
            sensor = self._config(topic_id(label), label, self._thing_topic(label))
            self._publish(self._config_topic(label), sensor)
        self._publish(self._availability, "online")
        self._tell_state()

    def _tell_state(self) -> None:
        if self._latest is None:
            return
        self._publish(f"{self._topic}/state", json.dumps(self._latest.as_dict()))
        for label in self._labels or ():
            state = "ON" if label == self._latest.answer.label else "OFF"
            self._publish(self._thing_topic(label), state)

    def _publish(self, topic: str, message: str | dict[str, Any]) -> None:
        if self._client.is_connected():
            text = message if isinstance(message, str) else json.dumps(message)
            self._client.publish(topic, text, qos=1, retain=True)

    def _config_topic(self, label: str) -> str:
        return f"{self._sensors}/{topic_id(label)}/config"

    def _thing_topic(self, label: str) -> str:
        return f"{self._topic}/things/{topic_id(label)}"

    def _answer_config(self) -> dict[str, Any]:
        state = f"{self._topic}/state"
        return {
            **self._config("answer", "Answer", state),
            "value_template": "{{ value_json.label or 'unknown' }}",
            "json_attributes_topic": state,
        }

    def _config(self, unique: str, name: str, state: str) -> dict[str, Any]:
        return {
            "name": name,
            "unique_id": f"cbcl_{self._device}_{unique}",
            "state_topic": state,
            "availability_topic": self._availability,
            "device": {
                "identifiers": [f"cbcl_{self._device}"],
                "name": f"cbcl {self._topic.removeprefix('cbcl/')}",
            },
            "origin": {"name": "cbcl", "sw_version": __version__},
        }


def topic_id(text: str) -> str:
    """Return a text as a part of a topic; a text that had to be changed ends with a hash.

    >>> topic_id("cup"), topic_id("my cup/mug")
    ('cup', 'my_cup_mug-dcd0af97')
    """
    safe = re.sub(r"[^A-Za-z0-9_-]", "_", text)[:40]
    return safe if safe == text else f"{safe}-{sha256(text.encode()).hexdigest()[:8]}"


def _paho() -> Any:
    try:
        return import_module("paho.mqtt.client")
    except ImportError as error:
        advice = 'pip install "cbcl[mqtt]"'
        raise ServerError("MQTT", "needs paho-mqtt, which is not installed", advice) from error
