"""The study by joblib's workers: the records and vectors of one process."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.photos import folders

from cbcl.cli.commands import main
from cbcl_study.records import read

ENGINES = [
    "loky",
    pytest.param("dask", marks=pytest.mark.skipif(not find_spec("distributed"), reason="no dask")),
    pytest.param("ray", marks=pytest.mark.skipif(not find_spec("ray"), reason="no ray")),
]


def records_of(folder: Path, *options: str) -> dict[str, Any]:
    words = ["bench", "run", "digits", "--increment", "2", "--shots", "5", "--seeds", "0-1"]
    words += ["--learner", "cbcl,ncm,slda", "--results", str(folder), *options]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    unequal = ("seconds", "commit")  # the source may be changed between two processes
    return {
        str(record["run"]): {key: value for key, value in record.items() if key not in unequal}
        for record in read(folder)
    }


@pytest.mark.filterwarnings("ignore")  # those of the engines
@pytest.mark.parametrize("engine", ENGINES)
def test_the_records_of_workers_are_those_of_one_process(tmp_path: Path, engine: str) -> None:
    alone = records_of(tmp_path / "alone", "--workers", "1")
    assert len(alone) >= 6
    assert records_of(tmp_path / engine, "--workers", "2", "--backend", engine) == alone


def vectors_of(home: Path, photos: Path, *options: str) -> tuple[bytes, str]:
    words = ["bench", "vectors", str(photos), "--backbone", "efficientnet-lite0", *options]
    done = CliRunner().invoke(main, words, env={"CBCL_HOME": str(home)})
    stored = [*home.glob("cache/study/*/vectors.npy")]
    return stored[0].read_bytes() if stored else b"", done.output


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("engine", ENGINES)
def test_the_vectors_of_workers_are_those_of_one_process(tmp_path: Path, engine: str) -> None:
    photos = folders(tmp_path / "photos", count=2)
    alone = vectors_of(tmp_path / "alone", photos)
    assert "8 pictures of 4 classes" in alone[1]
    jobs = ("--jobs", "2", "--backend", engine)
    assert vectors_of(tmp_path / engine, photos, *jobs) == alone
    (photos / "coffee" / "0.jpg").write_bytes(b"no picture")
    stored, told = vectors_of(tmp_path / "broken", photos, *jobs)
    assert stored == b""
    assert "cannot be used, and a study drops no pictures" in told
