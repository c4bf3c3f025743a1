"""The character task: a letter against the same letter by another hand, among the letters of its alphabet."""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Generator

from diptych_training.data.augment import Views, make_identity_places
from diptych_training.data.characters import Groups, draw_episodes, load_characters, make_pictures
from diptych_training.tasks.task import OpenTask, Part, Source, Task
from diptych_training.tasks.validation import ValidationSet

EPISODES = 50


@dataclass(frozen=True)
class Character(Task):
    """`groups` of `size` characters of one alphabet a step, a share `composed` of them made of two characters each;
    judged by the one-shot trials won on other alphabets.
    """

    groups: int = 4
    size: int = 20
    composed: float = 0.0
    kind: str = field(default="character", init=False)

    def __post_init__(self) -> None:
        if self.groups < 1 or self.size < 2:
            raise ValueError(f"a step needs groups of 2 characters or more, got {self.groups} of {self.size}")
        if not 0 <= self.composed <= 1:
            raise ValueError(f"composed is a share of the groups, 0 to 1, got {self.composed}")

    def open(self, source: Source) -> "Letters":
        """Load Omniglot."""
        return Letters(self, source)


class Letters(OpenTask):
    """Omniglot's background alphabets, drawn in groups."""

    def __init__(self, settings: Character, source: Source) -> None:
        self.settings, self.source = settings, source
        characters = load_characters(source.archives.folder, "background", source.pixels)
        self.groups = Groups(characters, varied=True, composed=settings.composed)
        self.names = [str(number) for number in characters.character]

    def draw_part(self, rng: np.random.Generator, generator: Generator, fill: float) -> Part:
        """Groups of characters, once by one hand and once by another."""
        groups = max(1, round(self.settings.groups * fill))
        one, other, character, turn = self.groups.draw_from(rng, groups, self.settings.size)
        device = self.source.device
        places = make_identity_places(len(character), self.source.pixels).to(device)
        alike, turned = (values[:, None] == values[None, :] for values in (character, turn))
        # A character turned is another one, but too often the same: O, X and S are no rivals of themselves.
        return Part(Views(one.to(device), places), Views(other.to(device), places), alike & turned, ~alike)

    def validation(self, *, whole: bool = False) -> ValidationSet:
        """One-shot trials: one hand's character among twenty by another, of the validation alphabets."""
        characters = load_characters(self.source.archives.folder, "validation", self.source.pixels)
        episodes = draw_episodes(characters, EPISODES * (5 if whole else 1), seed=1)
        drawings = (make_pictures(characters.pixels) * 255).round().byte().permute(0, 2, 3, 1)
        queries = np.concatenate([episode.queries for episode in episodes])
        among = np.concatenate([np.tile(e.candidates, (len(e.queries), 1)) for e in episodes])
        relevant = characters.character[queries][:, None] == characters.character[None, :]
        return ValidationSet(drawings[torch.from_numpy(queries)], drawings, relevant, "recall@1", among)
