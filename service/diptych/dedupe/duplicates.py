"""The result of a search for duplicates: groups with the one to keep, and for each picture those that match it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import Literal

from diptych.dedupe.keeper import DEFAULT
from diptych.pictures.file_info import Picture
from diptych_runtime import judgement
from diptych_runtime.calibration.verdicts import Verdict

Method = Literal["network", "phash"]


@dataclass(frozen=True)
class Member:
    """A picture of a group: its score to the keeper in [0, 1], whether it has the very same bytes, and the verdict.

    `replaced_by` is the picture that stays and can stand for it: only then it goes unless a person says otherwise.
    `kept_because` is the reason for which that one is kept ("more pixels"), or for which this one stays too ("they
    differ in a part"), and `edit` says what distinguishes it ("mirrored, smaller"). One that `has_its_own` film, sound
    note, raw file or edited version stays for that.
    """

    picture: Picture
    relevance_score: float
    exact: bool
    verdict: Verdict = "same"
    closer_look: judgement.CloserLook | None = None
    kept_because: str = ""
    replaced_by: Picture | None = None
    edit: str = ""
    has_its_own: bool = False


@dataclass(frozen=True)
class Group:
    """The picture to keep, and those that match it: exact copies first, then in order."""

    keeper: Picture
    others: tuple[Member, ...]

    @property
    def kept_because(self) -> list[str]:
        """The reasons for which the keeper is kept and not one of those that go, each once."""
        going = [member for member in self.others if member.replaced_by == self.keeper]
        return list(dict.fromkeys(member.kept_because for member in going if member.kept_because))


@dataclass(frozen=True, eq=False)
class Duplicates(Mapping[str, list[str]]):
    """The result of a search for duplicates: `groups`, in the order of their keepers' paths, among `pictures`.

    As a mapping it has the shape of imagededup: the path of every picture, and the paths of those that match it, best
    first; `scores` has their scores too, and `to_remove` what can go because another stands for it.

    >>> found = find_duplicates("photos")
    >>> found["photos/cat.jpg"], found.to_remove, found.groups[0].keeper.path

    `keep` are the rules by which keepers were chosen, and `order` has the places of the pictures, the ones to keep
    first. `pairs` are (id, id, score) of all that were scored and reach `bound`, which is at most the `threshold`;
    `scored` counts all pairs, `computed` those not known. `verdicts` are the lowest scores of each, and `alarm_rate` is
    the share of the pictures that are expected to be in a false pair (`threshold.alarm_rate`). `closer_looks` counts
    those that were taken and not known from an earlier run, in `look_seconds`; `model` has the model's name and
    revision.

    The `method` *phash* compares hashes that differ in at most `max_distance` of 64 bits: a score is (64 - bits that
    differ) / 65 and no probability. Only exact copies match those that are too plain to be hashed (`unhashed`).
    """

    groups: list[Group]
    pictures: list[Picture]
    order: list[int]
    pairs: list[tuple[str, str, float]]
    threshold: float
    bound: float
    scored: int
    computed: int
    verdicts: dict[Verdict, float]
    question: str
    alarm_rate: float | None = None
    keep: tuple[str, ...] = DEFAULT
    model: str = ""
    method: Method = "network"
    max_distance: int | None = None
    unhashed: int = 0
    closer_looks: int = 0
    look_seconds: float = 0.0

    def __getitem__(self, path: str) -> list[str]:
        return [other for other, _ in self.scores[path]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def to_remove(self) -> list[str]:
        """The paths of the pictures that can go: for each another stays that can stand for it."""
        return [one.picture.path for group in self.groups for one in group.others if one.replaced_by is not None]

    @property
    def undecided(self) -> int:
        """The number of pictures, beside the keepers, for which no other is known to stand: a person decides."""
        return sum(len(group.others) for group in self.groups) - len(self.to_remove)

    @cached_property
    def scores(self) -> dict[str, list[tuple[str, float]]]:
        """For the path of every picture, path and score of those that match it, best first; 1.0 for the same bytes."""
        files: dict[str, list[Picture]] = {}
        for picture in self.pictures:
            files.setdefault(picture.id, []).append(picture)
        found: dict[str, list[tuple[str, float]]] = {picture.path: [] for picture in self.pictures}
        exact = [(one, other, 1.0) for same in files.values() for one, other in combinations(same, 2)]
        alike = [(one, other, score) for a, b, score in self.pairs for one, other in product(files[a], files[b])]
        for one, other, score in (*exact, *alike):
            if score >= self.threshold and not (one.reference and other.reference):
                found[one.path].append((other.path, score))
                found[other.path].append((one.path, score))
        return {path: sorted(others, key=lambda other: (-other[1], other[0])) for path, others in found.items()}
