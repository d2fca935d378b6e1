"""Learning runs: many labels learned in order, a step each, while joblib's workers embed the rest.

The steps of a run tell how far it got, so that one that was stopped goes on from there.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from hashlib import sha256
from itertools import groupby, islice
from typing import Any

from cbcl.errors import PictureError
from cbcl.memory.store import Memory
from cbcl.recognition.embedder import Embedder, OnBroken
from cbcl.recognition.learning import (
    LearningOptions,
    LearningResult,
    as_batch,
    check_lesson,
    expand,
    first_of_each,
    learn_batch,
)
from cbcl.vision.decoding import as_path
from cbcl.vision.extraction import EmbeddedPicture, Progress
from cbcl.vision.finding import RemotePicture


def learn_run(
    memory: Memory,
    embedder: Embedder,
    things: Mapping[Any, Any],
    options: LearningOptions,
    *,
    broken: OnBroken,
    progress: Progress | None,
    n_jobs: int | None,
) -> LearningResult:
    """Learn labels in order, a step each; in one step where its head learns all together."""
    labels, sources = expand(embedder, things)
    certain = first_of_each(labels)
    groups = [len([*group]) for _, group in groupby(labels)]
    state = memory.latest()
    if check_lesson(state, labels, options).learns_together:
        groups = [len(labels)]
    run = _identify(labels, sources)
    n_done = _find_done(memory, run, len(groups))
    first = n_before = sum(groups[:n_done])
    embedder.backbone(sources)  # fitted to all of them, if it is to be fitted
    embedded = embedder.embed_in_order(
        sources[n_before:],
        embedder.about(),
        thumbnails={number - n_before for number in certain},
        broken=broken,
        progress=progress and (lambda done, _: progress(n_before + done, len(sources))),
        n_jobs=n_jobs,
    )
    results: list[LearningResult] = []
    problems: list[PictureError] = []
    with closing(embedded):
        for number, size in enumerate(groups[n_done:], start=n_done + 1):
            pictures = [*islice(embedded, size)]
            if any(isinstance(picture, EmbeddedPicture) for picture in pictures):
                batch = as_batch(labels[first : first + size], pictures)
                note = {"run": f"{run} {number}"} if run else {}
                results.append(learn_batch(memory, embedder, batch, options, note))
            problems += [picture for picture in pictures if isinstance(picture, PictureError)]
            first += size
    if not results and not n_done:
        raise problems[0]
    return _summarize(memory, results, problems, n_done)


def _identify(labels: Sequence[str], sources: Sequence[Any]) -> str:
    """Return a digest of labels and files, as their names, sizes and times tell; "": not files."""
    digest = sha256()
    for label, source in zip(labels, sources, strict=True):
        if not isinstance(source, str | os.PathLike):
            return ""
        name, version = _version(source)
        digest.update(repr((label, name, version)).encode(errors="surrogatepass"))
    return digest.hexdigest()[:32]


def _version(source: str | os.PathLike[str]) -> tuple[str, str]:
    """Return the name of a file, and what tells one version of it from another."""
    path = as_path(source)
    if isinstance(path, RemotePicture):
        return path.url, path.version
    try:
        status = path.stat()
    except OSError:
        return str(path.absolute()), ""
    return str(path.absolute()), f"{status.st_size} {status.st_mtime_ns}"


def _find_done(memory: Memory, run: str, n_groups: int) -> int:
    """Return how many labels of a run were learned before it was stopped.

    One that ended begins anew, if anything was changed since: perhaps a label was forgotten.
    """
    history = memory.history() if run and memory.exists() else []
    for step in history:
        mark = str(step.about.get("run", "")).split()
        if step.action == "learn" and not step.undone and mark[:1] == [run]:
            n_done = int(mark[1])
            return n_done if n_done < n_groups or step is history[0] else 0
    return 0


def _summarize(
    memory: Memory, results: Sequence[LearningResult], problems: Sequence[PictureError], n_done: int
) -> LearningResult:
    pictures: Counter[str] = Counter()
    copies: Counter[str] = Counter()
    moved: Counter[str] = Counter()
    totals: dict[str, int] = {}
    alike: dict[str, str] = {}
    for result in results:
        pictures.update(result.pictures)
        copies.update(result.copies)
        moved.update(result.moved)
        totals |= result.totals
        alike |= result.spelled_alike
    known = [*memory.view().classes]
    gone = {label for result in results for label in result.gone} - {*known}
    return LearningResult(
        dict(pictures),
        tuple(problems),
        totals,
        len(known),
        dict(copies),
        dict(moved),
        tuple(sorted(gone)),
        alike,
        n_done,
    )
