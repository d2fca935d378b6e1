"""MQTT: addresses, and the whole of it against a real broker, where there is one."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from support.broker import broker_program, free_port, running_broker
from support.server import TIMEOUT_SECONDS, until

from cbcl.errors import ServerError
from cbcl.recognition.answer import Answer
from cbcl.watch.frames import ProblemLog
from cbcl.watch.mqtt import MqttAddress, MqttSink, topic_id
from cbcl.watch.watcher import Sighting

PROGRAM = broker_program()
# One run in seven or so, against mosquitto, ended with a socket that was left to the garbage
# collector; whose it was is not known, paho's when it is ended while it connects is a guess.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
broker = pytest.mark.skipif(
    PROGRAM is None or find_spec("paho") is None,
    reason="needs paho-mqtt, and a broker: mosquitto, amqtt or $CBCL_BROKER",
)


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    yield
    gc.collect()


def sighting(label: str | None) -> Sighting:
    answer = Answer(label, 0.97, ranking=(), evidence=(), strangeness=0.5)
    return Sighting("2026-11-16T12:00:00.000+00:00", "door", answer)


def test_an_address_has_a_broker_and_a_topic() -> None:
    address = MqttAddress.of("mqtts://ann:a%20secret@broker:1234/home/my%20shelf/")
    assert address == ("broker", 1234, "home/my shelf", True, "ann", "a secret")
    assert MqttAddress.of("mqtt://broker", "cbcl/things")[1:3] == (1883, "cbcl/things")


@pytest.mark.parametrize("url", ["http://a/b", "mqtt://", "mqtt://h:x/", "mqtt://h/a%23", "h/a+"])
def test_what_is_not_an_address_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ServerError, match="the address is not one of MQTT: give one"):
        MqttAddress.of(url)


def test_labels_are_parts_of_topics_each_its_own() -> None:
    labels = ["cup", "a b", "a_b", "a/b", "a+b", "ä", "ö", "x" * 200, "x" * 199]
    ids = [topic_id(label) for label in labels]
    assert len({*ids}) == len(ids)
    assert all(len(one) <= 49 and not {*"/+# "} & {*one} for one in ids)


def test_without_paho_a_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "paho.mqtt.client", None)
    with pytest.raises(ServerError, match=r'is not installed: pip install "cbcl\[mqtt\]"\.'):
        MqttSink(MqttAddress.of("mqtt://127.0.0.1/x"), ProblemLog(print))


def test_a_broker_that_is_lost_while_the_watch_ends_fails_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("paho")
    sink = MqttSink(MqttAddress.of(f"mqtt://127.0.0.1:{free_port()}/x"), ProblemLog(print))
    monkeypatch.setattr(sink._client, "is_connected", lambda: True)  # a moment ago
    sink.close()


class Subscriber:
    """The latest message of each topic, as Home Assistant would know it."""

    def __init__(self, port: int) -> None:
        paho = import_module("paho.mqtt.client")
        self.messages: dict[str, str] = {}
        self.client = paho.Client(paho.CallbackAPIVersion.VERSION2)
        self.client.on_connect = lambda client, *_: client.subscribe("#", qos=1)
        self.client.on_message = self._take
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()

    def _take(self, _: Any, __: Any, message: Any) -> None:
        self.messages[message.topic] = message.payload.decode()

    def waits_for(self, topic: str, expected: str | Callable[[str], bool]) -> None:
        def is_there() -> bool:
            message = self.messages.get(topic, "")
            return message == expected if isinstance(expected, str) else expected(message)

        until(is_there)

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


@contextmanager
def subscribed(port: int) -> Iterator[Subscriber]:
    subscriber = Subscriber(port)
    try:
        yield subscriber
    finally:
        subscriber.close()


@contextmanager
def connected(port: int, told: list[str]) -> Iterator[MqttSink]:
    sink = MqttSink(MqttAddress.of(f"mqtt://127.0.0.1:{port}/shelf"), ProblemLog(told.append))
    try:
        yield sink
    finally:
        sink.close()


@broker
def test_each_thing_is_a_sensor_of_home_assistant(tmp_path: Path) -> None:
    port = free_port()
    told = list[str]()
    with running_broker(PROGRAM or "", port, tmp_path), subscribed(port) as home:
        with connected(port, told) as sink:
            sink.announce(["cup", "my key"])
            home.waits_for("shelf/availability", "online")
            key = topic_id("my key")
            topic = f"homeassistant/binary_sensor/shelf/{key}/config"
            home.waits_for(topic, lambda text: bool(text))
            config = json.loads(home.messages[topic])
            assert (config["name"], config["unique_id"]) == ("my key", f"cbcl_shelf_{key}")
            assert config["availability_topic"] == "shelf/availability"
            assert config["device"] == {"identifiers": ["cbcl_shelf"], "name": "cbcl shelf"}
            sink.send(sighting("my key"))
            home.waits_for(config["state_topic"], "ON")
            home.waits_for("shelf/things/cup", "OFF")
            answer = json.loads(home.messages["homeassistant/sensor/shelf/answer/config"])
            state = json.loads(home.messages[answer["state_topic"]])
            assert (state["label"], state["source"]) == ("my key", "door")
            sink.send(sighting(None))
            home.waits_for(config["state_topic"], "OFF")
            sink.announce(["cup"])
            home.waits_for(topic, "")
        home.waits_for("shelf/availability", "offline")
    assert told == []


@broker
def test_the_sensor_of_a_thing_forgotten_while_nobody_watched_is_removed(tmp_path: Path) -> None:
    port = free_port()
    told = list[str]()
    topic = "homeassistant/binary_sensor/shelf/{}/config"
    with running_broker(PROGRAM or "", port, tmp_path):
        with subscribed(port) as home, connected(port, told) as sink:
            sink.announce(["cup", "key"])
            home.waits_for(topic.format("key"), lambda text: bool(text))
            home.waits_for(topic.format("cup"), lambda text: bool(text))
        with subscribed(port) as late:
            late.waits_for(topic.format("key"), lambda text: bool(text))  # it is retained
            with connected(port, told) as sink:
                sink.announce(["cup"])
                late.waits_for(topic.format("key"), "")
                assert late.messages[topic.format("cup")]


@broker
def test_a_broker_that_is_away_is_told_once_and_told_all_when_it_is_back(tmp_path: Path) -> None:
    port = free_port()
    told = list[str]()
    with connected(port, told) as sink:
        sink.announce(["cup"])
        until(lambda: told)
        sink.send(sighting("cup"))  # nobody waits for it
        with running_broker(PROGRAM or "", port, tmp_path), subscribed(port) as home:
            home.waits_for("shelf/things/cup", "ON")
            home.waits_for("shelf/availability", "online")
            assert told == [f"mqtt://127.0.0.1:{port} cannot be reached: trying again."]


@broker
def test_a_watch_that_is_killed_is_told_by_the_broker(tmp_path: Path) -> None:
    port = free_port()
    told = list[str]()
    with (
        running_broker(PROGRAM or "", port, tmp_path),
        subscribed(port) as home,
        connected(port, told) as sink,
    ):
        sink.announce(["cup"])
        home.waits_for("shelf/availability", "online")
        sink._client.reconnect_delay_set(TIMEOUT_SECONDS, TIMEOUT_SECONDS)
        sink._client.socket().close()  # without a word, as a kill would
        home.waits_for("shelf/availability", "offline")


@broker
def test_a_broker_that_refuses_is_told(tmp_path: Path) -> None:
    port = free_port()
    told = list[str]()
    with (
        running_broker(PROGRAM or "", port, tmp_path, open_to_all=False),
        connected(port, told),
    ):
        until(lambda: told)
    assert told[0].startswith(f"mqtt://127.0.0.1:{port} refuses the connection (")
