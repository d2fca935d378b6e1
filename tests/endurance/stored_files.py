"""Kinds of files that are read from elsewhere: how one is made, mutated and read."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import random
import struct
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from support.checkpoints import MANIFEST, SHARDS, depth_of, write_legacy, write_tar, write_zip

from cbcl import Recognizer, load_backbone
from cbcl.memory.exchange import _read_exported
from cbcl.vision.backbones.network import read_network, read_stored
from cbcl.vision.onnx_graph import Filters, NetworkGraph
from cbcl.vision.preprocessing import Preprocessing
from cbcl.vision.weights.safe_pickle import MAX_NESTING
from cbcl.vision.weights.torch_checkpoint import read_note, read_state_dict
from cbcl_study import records
from cbcl_study.backbones import keras, vgg
from cbcl_study.backbones.numpy_archive import read_numpy_pickle
from cbcl_study.data.cifar import find_cifar
from cbcl_study.data.datasets import CIFAR100
from cbcl_study.data.vectors import ABOUT_FIELDS, _read_stored
from endurance.mutation import edited_bytes, edited_json
from endurance.pickles import (
    CHECKPOINTS,
    CIFAR_BATCHES,
    NUMBERS,
    NUMPY_PICKLES,
    PLAIN,
    legacy,
    mutated_pickle,
)

PREPROCESSING = Preprocessing(32, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))

Files = dict[str, bytes]  # by name, in one folder


class FileKind(NamedTuple):
    """A kind of file, with what belongs beside it."""

    share: int  # of all files that are tried
    make: Callable[[Path], object]  # writes the original into a folder
    mutate: Callable[[Files, random.Random], Files]
    read: Callable[[Path], object]


def make_files(folder: Path) -> dict[str, Files]:
    """Return the originals of all kinds."""
    originals: dict[str, Files] = {}
    for name, kind in FILE_KINDS.items():
        place = folder / name
        place.mkdir(parents=True)
        kind.make(place)
        originals[name] = {path.name: path.read_bytes() for path in place.iterdir()}
    return originals


def mutate_one(files: Files, rng: random.Random) -> Files:
    """Mutate the bytes of one file, its JSON if it is JSON; or leave it out."""
    name = rng.choice([*files])
    chance = rng.random()
    if chance < 0.02:
        return {other: data for other, data in files.items() if other != name}
    is_json = name.endswith((".json", ".jsonl")) and chance < 0.85
    data = (
        edited_json(files[name], rng)
        if is_json
        else edited_bytes(files[name], [*files.values()], rng)
    )
    return {**files, name: data + b"\n" if name.endswith(".jsonl") else data}


def _describe(place: Path) -> None:
    description = {"size": 32, "mean": [0, 0, 0], "scale": [255, 255, 255], "tokens": "class"}
    (place / "net.json").write_text(json.dumps(description | {"note": "a note"}))


def _small_network() -> bytes:
    graph = NetworkGraph("small", 32)
    colours = np.eye(3)[:, :, np.newaxis, np.newaxis]
    return graph.finish(graph.relu(graph.conv(graph.pictures, Filters(colours, np.zeros(3)))))


def _make_network(place: Path) -> None:
    model = onnx.load_from_string(_small_network())
    branch = model.graph.node.add(op_type="If").attribute.add(name="then_branch")
    branch.g.initializer.add(name="inner", data_type=1, dims=[1], raw_data=bytes(4))
    model.functions.add(name="f").node.add(op_type="Constant").attribute.add().t.CopyFrom(
        model.graph.initializer[0]
    )
    (place / "net.onnx").write_bytes(model.SerializeToString())
    _describe(place)


def _messages(message: Any) -> list[Any]:
    """Return a message of protobuf and all messages in it."""
    found, left = [], [message]
    while left:
        found.append(left.pop())
        for field, value in found[-1].ListFields():
            if field.message_type is not None:
                left += [*value] if hasattr(value, "__len__") else [value]
    return found


def _mutate_network(files: Files, rng: random.Random) -> Files:
    """Mutate a model as bytes, or as messages that are copied into one another."""
    if rng.random() < 0.5:
        return mutate_one(files, rng)
    model = onnx.load_from_string(files["net.onnx"])
    for _ in range(rng.choice((1, 2, 5))):
        _change_message(rng.choice(_messages(model)), model, rng)
    return {**files, "net.onnx": model.SerializeToString()}


def _change_message(message: Any, model: onnx.ModelProto, rng: random.Random) -> None:
    tensors = [one for one in _messages(model) if isinstance(one, onnx.TensorProto)]
    if isinstance(message, onnx.TensorProto) and rng.random() < 0.5:
        message.data_location = onnx.TensorProto.EXTERNAL
        place = rng.choice(("net.bin", "/etc/hostname", "../net.bin", ""))
        message.external_data.add(key="location", value=place)
    elif isinstance(message, onnx.AttributeProto) and rng.random() < 0.7:
        deep = message
        for _ in range(rng.choice((1, 3, 20))):  # protobuf reads up to a hundred messages deep
            deep = deep.g.node.add(op_type="If").attribute.add(name="then_branch")
        deep.t.CopyFrom(rng.choice(tensors))
    else:
        alike = [one for one in _messages(model) if type(one) is type(message)]
        with suppress(Exception):  # of protobuf: they would be nested too deeply
            message.MergeFrom(rng.choice(alike)) if rng.random() < 0.5 else message.Clear()


def _read_network(place: Path) -> None:
    network = read_network(place / "net.onnx", "net")
    model = onnx.load_from_string(network.model)
    if "data_location: EXTERNAL" in str(model):
        raise AssertionError("a network is read that keeps weights in another file")


def _make_stored(place: Path) -> None:
    _make_network(place)
    network = read_network(place / "net.onnx", "net")
    network.write(place / "net.onnx")


def _read_stored_network(place: Path) -> None:
    read_stored(place / "net.onnx", "net", PREPROCESSING)


def _letters(words: Sequence[str]) -> list[list[int]]:
    return [[word.count(letter) for letter in "abcdefgh"] for word in words]


def _export(place: Path, head: Any) -> None:
    letters = load_backbone(_letters, name="letters")
    memory = place.with_name(f"{head}.cbcl")
    with Recognizer(memory, letters, head=head, cache=False) as recognizer:
        recognizer.learn("fruit", ["cabbage", "bag"])
        recognizer.learn("music", ["deed", "feed", "egg"])
        recognizer.export(place / "words.safetensors")


def _mutate_export(files: Files, rng: random.Random) -> Files:
    """Mutate the JSON, the arrays, or the head of the arrays' file, whose length is right."""
    if rng.random() < 0.6:
        return mutate_one(files, rng)
    data = files["words.safetensors"]
    (size,) = struct.unpack_from("<Q", data)
    head = edited_json(data[8 : 8 + size], rng)
    return {**files, "words.safetensors": struct.pack("<Q", len(head)) + head + data[8 + size :]}


def _read_export(place: Path) -> None:
    exported = _read_exported(place / "words.safetensors")
    if not exported.classes:
        raise AssertionError("a memory without labels is read")


def _import_export(place: Path) -> None:
    letters = load_backbone(_letters, name="letters")
    with Recognizer(place / "new.cbcl", letters, cache=False) as recognizer:
        recognizer.import_(place / "words.safetensors")
        recognizer.recognize("cab")
        if problems := recognizer.check():
            raise AssertionError(f"what is imported is damaged: {problems}")


def _mutate_archive(files: Files, rng: random.Random) -> Files:
    """Mutate what is in an archive, the archive unpacked, or as it is."""
    ((name, data),) = files.items()
    unpacked = gzip.decompress(data)
    chance = rng.random()
    if chance < 0.2:
        return {name: edited_bytes(data, [data], rng)}
    if chance < 0.5:
        return {name: gzip.compress(edited_bytes(unpacked, [unpacked], rng), 1)}
    file = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(unpacked)) as old,
        tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as new,
    ):
        for member in old.getmembers():
            content = old.extractfile(member)
            part = content.read() if content else b""
            if rng.random() < 0.5:
                is_json = member.name.endswith(".json")
                part = edited_json(part, rng) if is_json else edited_bytes(part, [part], rng)
            if rng.random() < 0.1:
                member.type = rng.choice((tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE))
                member.linkname = "/etc/hostname"
            member.size = len(part)
            new.addfile(member, io.BytesIO(part))
    return {name: file.getvalue()}


def _make_vgg(place: Path) -> None:
    layers = {f"Conv_{n}": {"kernel": np.ones((3, 3, 1, 2)), "bias": np.ones(2)} for n in range(13)}
    (place / "vgg16.ckpt").write_bytes(pickle.dumps({"VGG16_0": layers}, 3))


def _make_record(place: Path) -> None:
    run = records.Run._field_defaults | dict.fromkeys(records.Run._fields, "x") | {"seed": 0}
    record: dict[str, Any] = {field: [1.0] for field in records.FIELDS}
    record |= {"run": run, "inputs": {"vectors": "v", "pictures": "p"}}
    (place / f"{records.PREFIX}x.jsonl").write_text(json.dumps(record) + "\n")


def _make_vectors(place: Path) -> None:
    listed = json.dumps({"labels": ["a", "b"], "test": [True, False]}).encode()
    np.save(place / "vectors.npy", np.zeros((2, 3), np.float32))
    (place / "labels.json").write_bytes(listed)
    about = dict.fromkeys(ABOUT_FIELDS, "x") | {"pictures": 2, "dimension": 3}
    (place / "about.json").write_text(json.dumps(about | {"labels": sha256(listed).hexdigest()}))


def _read_vectors(place: Path) -> None:
    stored = _read_stored(place)
    if stored is not None:
        np.asarray(stored.vectors).sum()


def _mutate_checkpoint(files: Files, rng: random.Random) -> Files:
    """Mutate a checkpoint, or the pickle in it."""
    if rng.random() < 0.3:
        return mutate_one(files, rng)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("weights/data.pkl", mutated_pickle(CHECKPOINTS, rng))
        archive.writestr("weights/data/0", NUMBERS.tobytes())
    return {"weights.pth": file.getvalue()}


def _mutate_legacy(files: Files, rng: random.Random) -> Files:
    if rng.random() < 0.3:
        return mutate_one(files, rng)
    return {"weights.pth": legacy(mutated_pickle(CHECKPOINTS, rng), {"0": NUMBERS})}


def _read_checkpoint(place: Path) -> None:
    for tensor in read_state_dict(place / "weights.pth").values():
        np.asarray(tensor).sum()
    read_note(place / "weights.pth")


def _make_cifar(place: Path) -> None:
    batch, names = CIFAR_BATCHES
    for name, data in {"train": batch, "test": batch, "meta": names}.items():
        (place / name).write_bytes(data)


def _read_numpy_pickle(place: Path) -> None:
    value = read_numpy_pickle((place / "pickle").read_bytes())
    if depth_of(value) > MAX_NESTING:
        raise AssertionError("it is nested too deeply")
    repr(value)


FILE_KINDS: dict[str, FileKind] = {
    "torch files": FileKind(
        20,
        lambda place: write_zip(place / "weights.pth", PLAIN, {"0": NUMBERS}),
        _mutate_checkpoint,
        _read_checkpoint,
    ),
    "old torch files": FileKind(
        20,
        lambda place: write_legacy(place / "weights.pth", PLAIN, {"0": NUMBERS}),
        _mutate_legacy,
        _read_checkpoint,
    ),
    "numpy pickles": FileKind(
        60,
        lambda place: (place / "pickle").write_bytes(NUMPY_PICKLES[5]),
        lambda _, rng: {"pickle": mutated_pickle(NUMPY_PICKLES, rng)},
        _read_numpy_pickle,
    ),
    "CIFAR batches": FileKind(
        10,
        _make_cifar,
        lambda files, rng: {**files, "train": mutated_pickle(CIFAR_BATCHES, rng)},
        lambda place: find_cifar(CIFAR100, place),
    ),
    "Keras archives": FileKind(
        4,
        lambda place: write_tar(place / "n.tgz", {**SHARDS, "package/N/model.json": MANIFEST}),
        _mutate_archive,
        lambda place: keras.read_archive(place / "n.tgz"),
    ),
    "VGG pickles": FileKind(
        2, _make_vgg, mutate_one, lambda place: vgg.read_lpips(place / "vgg16.ckpt")
    ),
    "ONNX networks": FileKind(6, _make_network, _mutate_network, _read_network),
    "stored networks": FileKind(1, _make_stored, mutate_one, _read_stored_network),
    "exports": FileKind(
        8, lambda place: _export(place, "discriminant"), _mutate_export, _read_export
    ),
    "exports of the vote": FileKind(
        8, lambda place: _export(place, "vote"), _mutate_export, _read_export
    ),
    "imports": FileKind(
        1, lambda place: _export(place, "discriminant"), _mutate_export, _import_export
    ),
    "imports of the vote": FileKind(
        1, lambda place: _export(place, "vote"), _mutate_export, _import_export
    ),
    "records": FileKind(4, _make_record, mutate_one, records.read),
    "vectors": FileKind(4, _make_vectors, mutate_one, _read_vectors),
}
