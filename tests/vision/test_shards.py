"""Shards: a worker that has another backbone, or not the file, is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.photos import NAMES, encoded, folders, views

from cbcl.errors import BackboneError, WorkerError
from cbcl.vision.backbones import load_backbone
from cbcl.vision.backbones.base import Backbone, Fittable
from cbcl.vision.extraction import EmbeddedPicture, embed_pictures
from cbcl.vision.shards import BackboneTicket, check_seen, embed_in_order, embed_shard


def load(name: str) -> Backbone:
    backbone = load_backbone(name)
    assert not isinstance(backbone, Fittable)
    return backbone


def test_a_worker_loads_a_network_by_its_name_once_and_checks_its_fingerprint() -> None:
    ticket = BackboneTicket.of(load("efficientnet-lite0"))
    assert ticket.itself is None
    assert ticket.backbone() is ticket.backbone()
    problem = r"has another efficientnet-lite0 \(\w{8}, not 00000000\)"
    with pytest.raises(BackboneError, match=problem):
        ticket._replace(fingerprint="0" * 32).backbone()
    assert BackboneTicket.of(load("pixels")).itself is not None


def test_a_file_that_only_the_driver_has_ends_the_run_and_one_that_nobody_has_does_not(
    tmp_path: Path,
) -> None:
    ticket, photo = BackboneTicket.of(load("pixels")), tmp_path / "cup.jpg"
    result = embed_shard(ticket, [photo], False)
    assert result.absent == [photo]
    check_seen(result)
    photo.touch()
    problem = r"does not have .*cup\.jpg, which is here: give a folder"
    with pytest.raises(WorkerError, match=problem):
        check_seen(result)
    broken = embed_shard(ticket, [photo], False)
    assert broken.absent == []


def test_a_shard_gives_the_vectors_for_the_cache_and_no_thumbnails_unless_asked() -> None:
    jpeg = encoded(views("coffee", 1)[0])
    (picture,), ((_, fresh),), *_ = embed_shard(BackboneTicket.of(load("pixels")), [jpeg], False)
    assert isinstance(picture, EmbeddedPicture)
    assert picture.vector is fresh
    assert not picture.has_thumbnail


def test_pictures_that_are_embedded_already_need_no_worker(tmp_path: Path) -> None:
    backbone = load("pixels")
    files = sorted(folders(tmp_path, NAMES[:2], count=2).rglob("*.jpg"))
    embedded = embed_pictures(backbone, files, thumbnails=range(4))
    mixed = [embedded[0], files[1], embedded[2], files[3]]
    results = [*embed_in_order(backbone, mixed, thumbnails=range(4), n_jobs=1)]
    assert results[0] is embedded[0]
    assert results[2] is embedded[2]
    for one, other in zip(results, embedded, strict=True):
        assert isinstance(one, EmbeddedPicture)
        assert isinstance(other, EmbeddedPicture)
        assert (one.vector.tobytes(), one.jpeg) == (other.vector.tobytes(), other.jpeg)
