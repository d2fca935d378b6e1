"""Weights from files: PyTorch's checkpoints are read, and anything else in a file is refused."""

from __future__ import annotations

import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.checkpoints import (
    KINDS,
    REBUILD,
    Call,
    Global,
    New,
    Persistent,
    pickled,
    tensor,
    write_legacy,
    write_zip,
)

from cbcl.errors import WeightsError
from cbcl.vision.weights.torch_checkpoint import read_note, read_state_dict

Save = Callable[..., Path]

NUMBERS = np.arange(24, dtype=np.float32)
PLAIN = {"conv.weight": tensor("0", NUMBERS, shape=(4, 6), strides=(6, 1))}
SAVED = {"weights/data.pkl": pickled(PLAIN), "weights/data/0": NUMBERS.tobytes()}


def refusal(path: Path) -> str:
    with pytest.raises(WeightsError) as caught:
        read_state_dict(path)
    sentence = str(caught.value)
    assert str(path) in sentence
    assert sentence.endswith("torch.save(model.state_dict(), path).")
    return sentence


@pytest.fixture(params=[write_zip, write_legacy])
def save(request: pytest.FixtureRequest, tmp_path: Path) -> Save:
    """Write a checkpoint in the new or the old format, and return its path."""

    def write(tree: object, numbers: np.ndarray = NUMBERS, key: str = "0") -> Path:
        request.param(tmp_path / "w.pth", tree, {key: numbers})
        return tmp_path / "w.pth"

    return write


def test_tensors_come_back_as_they_were(save: Save) -> None:
    tensors = read_state_dict(save(PLAIN))
    assert list(tensors) == ["conv.weight"]
    np.testing.assert_array_equal(tensors["conv.weight"], NUMBERS.reshape(4, 6))
    assert tensors["conv.weight"].dtype == np.float32


@pytest.mark.parametrize("dtype", KINDS)
def test_numbers_of_every_width_are_read(save: Save, dtype: str) -> None:
    numbers = np.arange(6).astype(dtype)
    tree = {"a": tensor("7", numbers, shape=(6,), strides=(1,))}
    got = read_state_dict(save(tree, numbers, "7"))["a"]
    assert got.dtype == dtype
    assert got.tolist() == [0, 1, 2, 3, 4, 5]


def test_bfloat16_becomes_float32(save: Save) -> None:
    numbers = np.array([1.5, -2.0, 0.0, 3e38], dtype=np.float32)
    upper = (numbers.view(np.uint32) >> 16).astype(np.uint16)
    tree = {"a": tensor("0", upper, shape=(4,), strides=(1,), kind="BFloat16Storage")}
    got = read_state_dict(save(tree, upper))["a"]
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, numbers, rtol=2**-8)


def test_views_of_one_storage_are_read_from_it(save: Save) -> None:
    tree = {
        "whole": tensor("0", NUMBERS, shape=(4, 6), strides=(6, 1)),
        "turned": tensor("0", NUMBERS, shape=(6, 4), strides=(1, 6)),
        "second row": tensor("0", NUMBERS, offset=6, shape=(6,), strides=(1,)),
        "every third": tensor("0", NUMBERS, offset=2, shape=(8,), strides=(3,)),
        "one": tensor("0", NUMBERS, offset=23, shape=(), strides=()),
        "none": tensor("0", NUMBERS, offset=24, shape=(0, 3), strides=(3, 1)),
    }
    got = read_state_dict(save(tree))
    whole = NUMBERS.reshape(4, 6)
    np.testing.assert_array_equal(got["turned"], whole.T)
    np.testing.assert_array_equal(got["second row"], whole[1])
    np.testing.assert_array_equal(got["every third"], NUMBERS[2::3])
    assert got["one"] == 23
    assert got["none"].shape == (0, 3)
    assert np.shares_memory(got["whole"], got["turned"])


@pytest.mark.parametrize("key", ["state_dict", "model"])
def test_a_nested_state_dict_is_found_and_other_values_are_left_out(save: Save, key: str) -> None:
    rebuild = Global("torch._utils", "_rebuild_parameter")
    parameter = Call(rebuild, (PLAIN["conv.weight"], True, None))
    tree = {"epoch": 90, key: {"conv.weight": parameter, "step": 3}}
    assert list(read_state_dict(save(tree))) == ["conv.weight"]


def test_a_note_beside_the_state_dict_says_what_was_done_to_the_weights(tmp_path: Path) -> None:
    def note(tree: object, write: Callable[..., None] = write_zip) -> str:
        write(tmp_path / "w.pth", tree, {"0": NUMBERS})
        return read_note(tmp_path / "w.pth")

    noted = {"state_dict": PLAIN, "note": "made again"}
    assert note(noted) == "made again"
    assert list(read_state_dict(tmp_path / "w.pth")) == ["conv.weight"]
    assert note(PLAIN) == note({"state_dict": PLAIN, "note": 3}) == note(noted, write_legacy) == ""
    with pytest.raises(WeightsError, match="has a note of more than 500 characters"):
        note({**noted, "note": 501 * "x"})
    (tmp_path / "w.tgz").write_bytes(b"another kind of file")
    assert read_note(tmp_path / "w.tgz") == ""


def test_parameters_as_torch_wrote_them_in_2017_are_read(save: Save) -> None:
    old = Call(Global("torch._utils", "_rebuild_tensor"), PLAIN["conv.weight"].arguments[:4])
    parameter = Global("torch.nn.parameter", "Parameter")
    tree = {
        "at once": New(parameter, (old,), (True, False, {})),
        "later": New(parameter, (), (old, None, {}, True, False)),
    }
    tensors = read_state_dict(save(tree))
    assert list(tensors) == ["at once", "later"]
    for array in tensors.values():
        np.testing.assert_array_equal(array, NUMBERS.reshape(4, 6))


@pytest.mark.parametrize(
    ("module", "name"), [("posix", "system"), ("builtins", "eval"), ("torch", "load")]
)
def test_a_pickle_that_asks_for_anything_else_is_refused_by_name(
    save: Save, module: str, name: str, tmp_path: Path
) -> None:
    witness = tmp_path / "witness"
    path = save({**PLAIN, "evil": Call(Global(module, name), (f"touch {witness}",))})
    assert f"asks for {module}.{name}" in refusal(path)
    assert not witness.exists()


def test_a_name_in_a_pickle_that_terminals_would_obey_is_quoted(save: Save) -> None:
    path = save({"evil": Global("posix", "\x1b[31m")})
    assert r"asks for 'posix.\x1b[31m', which" in refusal(path)


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [
        (0, (5, 6), (6, 1)),
        (1, (4, 6), (6, 1)),
        (0, (2,), (24,)),
        (25, (0,), (1,)),
        (0, (1 << 40,), (0,)),
        (-1, (4,), (1,)),
        (8, (4,), (-1,)),
    ],
)
def test_a_tensor_outside_its_storage_is_refused(
    save: Save, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    view = tensor("0", NUMBERS, offset=offset, shape=shape, strides=strides)
    assert "is damaged" in refusal(save({"a": view}))


def test_a_storage_that_claims_more_than_the_file_holds_is_refused(save: Save) -> None:
    vast = np.broadcast_to(np.float32(0), 1 << 40)
    view = tensor("0", vast, shape=(24,), strides=(1,))
    assert "is damaged" in refusal(save({"a": view}))


@pytest.mark.parametrize("dtype", ["O", "<f4,O", Global("torch", "_utils._rebuild_tensor_v2"), 7])
def test_a_storage_of_no_kind_that_torch_has_is_refused(dtype: object, tmp_path: Path) -> None:
    pid = ("storage", dtype, "0", "cpu", 3)
    write_zip(
        tmp_path / "w.pth", {"a": Call(REBUILD, (Persistent(pid), 0, (3,), (1,)))}, {"0": NUMBERS}
    )
    assert "refers to a storage in a way" in refusal(tmp_path / "w.pth")


def test_a_file_cut_short_anywhere_is_refused(save: Save, tmp_path: Path) -> None:
    cut = tmp_path / "cut.pth"
    content = save(PLAIN).read_bytes()
    for end in range(len(content)):
        cut.write_bytes(content[:end])
        refusal(cut)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_file_with_wrong_bytes_is_read_or_refused_and_nothing_else(
    save: Save, data: st.DataObject
) -> None:
    path = save(PLAIN)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    tensors = {}
    error = None
    try:
        tensors = read_state_dict(path)
    except WeightsError as caught:
        error = caught
    assert error is None or error.subject == path
    assert all(array.nbytes <= NUMBERS.nbytes * 2 for array in tensors.values())


@pytest.mark.parametrize(
    "content", [b"", b"no checkpoint", b"PK\x03\x04 no zip", b"\x80\x02K\x07.", b"\x89PNG\r\n"]
)
def test_what_is_not_a_checkpoint_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "w.pth").write_bytes(content)
    refusal(tmp_path / "w.pth")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "w.pth")


@pytest.mark.parametrize(
    ("members", "compression", "problem"),
    [
        ({"readme.txt": b"hello"}, zipfile.ZIP_STORED, "no data.pkl"),
        ({**SAVED, "weights/data/0": bytes(1 << 24)}, zipfile.ZIP_DEFLATED, "is compressed"),
        ({**SAVED, "weights/byteorder": b"big"}, zipfile.ZIP_STORED, "big-endian"),
    ],
)
def test_a_zip_that_torch_does_not_write_is_refused(
    members: dict[str, bytes], compression: int, problem: str, tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "w.pth", "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    assert problem in refusal(tmp_path / "w.pth")


@pytest.mark.parametrize("step", [b"r\xff\xff\xff\xff", b"\x82\x01"])
def test_a_pickle_that_asks_for_room_or_extensions_is_refused(step: bytes, tmp_path: Path) -> None:
    (tmp_path / "w.pth").write_bytes(b"\x80\x02}" + step + b".")
    assert "not a plain collection of tensors" in refusal(tmp_path / "w.pth")


@pytest.mark.torch
@pytest.mark.parametrize("is_zip", [True, False])
def test_what_torch_saves_is_read(is_zip: bool, tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch")
    torch.manual_seed(0)
    layer = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8))
    big = torch.randn(10, 12)
    state = OrderedDict(layer.state_dict())
    state |= {
        "turned": big.t(),
        "part": big[2:5, ::3],
        "parameter": torch.nn.Parameter(big[0]),
        "one": torch.tensor(3),
    }
    state |= {"half": big.half(), "double": big.double(), "brain": big.bfloat16()}
    trees: list[Any] = [layer.state_dict(), state, {"state_dict": state, "epoch": 3}]
    for tree in trees:
        torch.save(tree, tmp_path / "w.pth", _use_new_zipfile_serialization=is_zip)
        tensors = read_state_dict(tmp_path / "w.pth")
        wanted = tree.get("state_dict", tree)
        assert list(tensors) == list(wanted)
        for name, value in wanted.items():
            value = value.detach().float() if name == "brain" else value.detach()
            np.testing.assert_array_equal(tensors[name], value.numpy())
            assert tensors[name].dtype == value.numpy().dtype
