"""From pictures of a collection to groups, each with the one to keep: what `find_duplicates` and `dedupe` do."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import product
from pathlib import Path
from typing import Literal

import numpy as np

from diptych.collection.collection import Collection
from diptych.dedupe.candidates import CANDIDATES, candidate_pairs
from diptych.dedupe.closer import CloserLook, OnStage, ignore_stage
from diptych.dedupe.companions import Companions
from diptych.dedupe.duplicates import Duplicates, Group, Member
from diptych.dedupe.groups import Ask, Matches, Pair, group_items, matches_of
from diptych.dedupe.keeper import DEFAULT, checked_rules, preference_order, preferred_reason
from diptych.dedupe.labelled import NONE, IdPairs, different_pairs, places_of
from diptych.dedupe.pair_cache import KnownFile, PairCache
from diptych.dedupe.pair_scores import PairScores
from diptych.dedupe.settling import Compare, PixelComparisons, Settled, settle_group
from diptych.dedupe.threshold import alarm_rate, check_threshold, most_lenient, stated_of, threshold_of
from diptych.errors import UnknownPictureError
from diptych.pictures.file_info import Facts, Picture, read_facts
from diptych.pictures.walk import FoundFile
from diptych.scoring.view_cache import ViewCache
from diptych.store.records import Record
from diptych_runtime import judgement
from diptych_runtime.calibration.false_discovery import joining_scores
from diptych_runtime.calibration.folds import are_among
from diptych_runtime.calibration.questions import COPY
from diptych_runtime.calibration.verdicts import Verdict, verdict_from, verdict_thresholds
from diptych_runtime.errors import PictureError

_STEP = 500  # records read at once
_FILES = 20  # files read between two ticks


def duplicates_among(
    collection: Collection,
    pictures: Iterable[Picture] | None = None,
    *,
    threshold: float | Literal["auto"] = "auto",
    keep: str | Sequence[str] = DEFAULT,
    candidates: int = CANDIDATES,
    bound: float | None = None,
    pair_cache: PairCache | None = None,
    on_stage: OnStage = ignore_stage,
    question: str = COPY,
    views: ViewCache | None = None,
    apart: IdPairs = NONE,
    same_orientation: bool = False,
) -> Duplicates:
    """Group the pictures of a collection, by default all of it, that are copies of one: see `find_duplicates`.

    The pairs answered reach down to `bound`, by default the most lenient threshold that the model states. `pair_cache`
    keeps scores for the next time, and `views` keypoints. Pairs of ids that are labelled different in the collection,
    or `apart`, do not match, and with `same_orientation` neither do mirror images and turned ones. Pictures in
    references are kept, and two of them not compared.

    Raises ArgumentError, DedupeError for unknown rules and a model without calibration, and StoreError.
    """
    stored = (of_record(record) for page in collection.backend.pages(_STEP) for record in page)
    found = sorted(stored if pictures is None else pictures, key=lambda p: p.path)
    ids, kept = sorted({one.id for one in found}), {one.id for one in found if one.reference}
    asked = collection.scorer.asking(question).runtime
    check_threshold(threshold, asked)
    pair_cache = pair_cache or PairCache(None, asked.scores_revision)
    scores = PairScores(collection, ids, pair_cache, question=question)
    embeddings, asking = collection.embeddings(ids)[1], np.array([id not in kept for id in ids], bool)
    queries = asked.weight_queries(embeddings)
    pairs = candidate_pairs(embeddings, candidates, asked.threads, queries=queries, asking=asking)
    scores.tick = on_stage("pairs", missing := scores.count_missing(pairs), len(pairs) - missing)
    scores.hold_against(pairs)
    paths = {one.id: one.path for one in reversed(found)}
    closer = CloserLook(collection, ids, paths, pair_cache, question, on_stage, views)
    pairs = closer.elect_pairs(scores, pairs, asking, candidates)
    values = (judged := partial(closer.judge_pairs, scores))(pairs)
    apart |= different_pairs(collection.backend, question)
    labelled = places_of(apart, ids)
    values = np.where(are_among(pairs, labelled), 0.0, values)
    joined = joining_scores(pairs, values)
    limit = threshold_of(asked, joined, len(ids), len(kept)) if threshold == "auto" else threshold
    bound = min(limit, most_lenient(stated_of(asked)) if bound is None else bound)
    near = values >= bound
    if pictures is None:
        found = with_file_facts(collection, found, {ids[at] for at in pairs[near].flat}, pair_cache, scores.tick)
    order, place = preference_order(found, keep), {id: at for at, id in enumerate(ids)}
    contents = list(dict.fromkeys(place[found[number].id] for number in order))
    likely = [(a, b) for a, b in pairs[near].tolist()], values[near].tolist()
    known, matching = matches_of(*likely, bound), matches_of(*likely, limit)
    ask = _ask_about(known, bound, asking, labelled, judged)
    groups = group_items(contents, matching, limit, ask)
    shown = list(map({found[number].id: found[number] for number in reversed(order)}.__getitem__, ids))
    compare = PixelComparisons(closer, pair_cache, scores.tick, apart).compare
    groups = _split_turned(groups, known, shown, compare) if same_orientation else groups
    settled = _settle_groups([[shown[content] for content in group] for group in groups], compare, keep, on_stage)
    least = verdict_thresholds(stated_of(asked))
    least["likely"] = min(least["likely"], limit if threshold == "auto" else 1.0)  # that knows the scores of all
    return Duplicates(
        groups=make_groups(settled, matching, closer.looks, ids, found, order, least, keep),
        closer_looks=closer.taken,
        look_seconds=closer.seconds,
        pictures=found,
        order=order,
        pairs=[(ids[a], ids[b], known[a][b]) for a in sorted(known) for b in sorted(known[a]) if a < b],
        threshold=limit,
        bound=bound,
        scored=scores.requested_count,
        computed=scores.computed,
        verdicts=least,
        question=asked.question,
        alarm_rate=alarm_rate(asked, joined, limit, len(ids), len(kept)),
        keep=checked_rules(keep),
        model=f"{asked.name}, revision {asked.revision}",
    )


def _settle_groups(
    groups: Sequence[Sequence[Picture]], compare: Compare, keep: str | Sequence[str], on_stage: OnStage
) -> list[Settled]:
    """What goes of each group, and for what."""
    settled, tick = list[Settled](), on_stage("groups", len(groups), 0)
    for group in groups:
        settled.append(settle_group(group, compare, checked_rules(keep)))
        tick(1)
    return settled


def _split_turned(
    groups: Iterable[list[int]], known: Matches, pictures: Sequence[Picture], compare: Compare
) -> list[list[int]]:
    """Split mirror images and turned pictures of the first of a group off; several of them are a group of their own.

    These pairs are no longer `known`.
    """
    found = []
    for group in groups:
        rest = group
        while rest:
            first, *others = rest
            seen = {one: compare(pictures[first], pictures[one]) for one in others}
            turned = [one for one, comparison in seen.items() if comparison is not None and comparison.is_turned]
            same = [one for one in rest if one not in turned]
            if len(same) > 1:
                found.append(same)
            for a, b in product(same, turned):
                known.get(a, {}).pop(b, None)
                known.get(b, {}).pop(a, None)
            rest = turned
    return found


def _ask_about(
    known: Matches,
    bound: float,
    asking: np.ndarray,
    labelled: np.ndarray,
    judged: Callable[[np.ndarray], np.ndarray],
) -> Ask:
    """A function that scores pairs for `group_items`, 0 where neither is `asking` or they are `labelled` different.

    It adds those that reach `bound` to what is `known`.
    """

    def ask(wanted: list[Pair]) -> list[float]:
        places = np.array(wanted)
        compared = asking[places].any(1) & ~are_among(places, labelled)
        answers = np.zeros(len(places))
        answers[compared] = judged(places[compared])
        for (a, b), score in zip(wanted, answers.tolist(), strict=True):
            if score >= bound:
                known.setdefault(a, {})[b] = known.setdefault(b, {})[a] = score
        return answers.tolist()

    return ask


def make_groups(
    groups: Sequence[Settled],
    matching: Mapping[int, Mapping[int, float]],
    looks: Mapping[tuple[int, int], judgement.CloserLook],
    ids: Sequence[str],
    pictures: Sequence[Picture],
    order: Sequence[int],
    least: Mapping[Verdict, float],
    keep: Sequence[str],
) -> list[Group]:
    """Make groups of pictures from groups of contents, which are places in `ids`, and of files of one content.

    `matching` has the scores of those that match. No picture goes of whose companions one would be lost.
    """
    files: dict[str, list[Picture]] = {}
    for number in order:
        files.setdefault(pictures[number].id, []).append(pictures[number])
    for same in files.values():  # of which those in references come first
        same[:] = [one for number, one in enumerate(same) if number == 0 or not one.reference]
    place = {id: number for number, id in enumerate(ids)}
    taken = {id for group in groups for id in (*group.stays, *group.replaced)}
    alone = [Settled([id]) for id in ids if id not in taken and len(files[id]) > 1]
    found, companions = [], Companions()
    for group in [*groups, *alone]:
        keeper, members = files[group.stays[0]][0], list[Member]()
        for id in (*group.stays, *group.replaced):
            here, there = place[group.stays[0]], place[id]
            score = 1.0 if here == there else _score_of(matching, here, there)
            said = verdict_from(score, least), looks.get((min(here, there), max(here, there)))
            stands = files[group.replaced[id]][0] if id in group.replaced else None
            for number, picture in enumerate(files[id]):
                instead = stands or (None if number == 0 else files[id][0])
                why, edit = group.reasons.get(id, ""), group.edits.get(id, "")
                if number and not stands:
                    why, edit = preferred_reason(files[id][0], picture, keep) or "", ""
                held = companions.reason_to_stay(picture.path, instead.path, by_size=True) if instead else None
                if held:
                    instead, why = None, held
                if picture is not keeper:
                    exact = id == keeper.id
                    one = (1.0, True, "same", None) if exact else (score, False, *said)
                    members.append(Member(picture, *one, why, instead, edit, has_its_own=held is not None))
        found.append(Group(keeper, tuple(sorted(members, key=lambda one: not one.exact))))
    return sorted(found, key=lambda group: group.keeper.path)


def _score_of(matching: Mapping[int, Mapping[int, float]], keeper: int, other: int) -> float:
    """The score of two matches, or of two that match a third the one of the second with that."""
    near = matching.get(keeper, {})
    return near[other] if other in near else max(matching[other].values())


def of_record(record: Record) -> Picture:
    """A stored picture, of whose file the collection knows no more than this; `modified` is when it was added."""
    added = round(datetime.fromisoformat(record.added).timestamp() * 1e9)
    kind = record.media_type.rpartition("/")[2].upper()
    path, frames = record.path or record.id, record.frames or 1
    return Picture(record.id, path, 0, added, record.width, record.height, kind, frames=frames)


def with_file_facts(
    collection: Collection,
    pictures: list[Picture],
    wanted: Container[str],
    pair_cache: PairCache,
    tick: Callable[[int], object] = lambda done: None,
) -> list[Picture]:
    """The pictures; those `wanted` by id have the facts of their files, if these are there and unchanged.

    The cache keeps what was read. What `tick` raises ends the reading.
    """
    known = {file.picture.id: file.picture for file in pair_cache.get_files(["/"]).values()}
    missing = [one for one in pictures if one.id in wanted and one.id not in known]
    for begin in range(0, len(missing), _FILES):
        batch = (_read_picture(collection, one) for one in missing[begin : begin + _FILES])
        read = [found for found in batch if found is not None]
        pair_cache.add_files([KnownFile(one, 0) for one in read])
        known |= {one.id: one for one in read}
        tick(0)
    facts = ("bytes", "modified", *Facts._fields)
    return [
        replace(one, **{name: getattr(known[one.id], name) for name in facts})
        if one.id in wanted and one.id in known
        else one
        for one in pictures
    ]


def _read_picture(collection: Collection, picture: Picture) -> Picture | None:
    """A picture as its file shows it, at a path of its own where it has none."""
    try:
        data, _ = collection.content(picture.id)
        facts = read_facts(data, picture.path)
        path = Path(picture.path)
        modified = FoundFile.of(path.stat()).stamp.modified if path.is_file() else picture.modified
    except (UnknownPictureError, PictureError, OSError):
        return None
    absolute = picture.path if path.is_absolute() else f"/{picture.id}"
    return Picture(picture.id, absolute, len(data), modified, *facts)
