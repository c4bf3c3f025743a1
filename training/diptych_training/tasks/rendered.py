"""The rendered task: a thing with photos printed on it, seen from two sides, among its lookalikes."""

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Generator, Tensor

from diptych_training.data.archives import subjects_of
from diptych_training.data.augment import MILD, SHOT, Strength, Views, draw_sprites, edit_photos, view_unedited
from diptych_training.data.render.scene import render_things, texture_side
from diptych_training.data.render.things import Things, draw_lookalikes, draw_things, join_things
from diptych_training.errors import DataError
from diptych_training.tasks.task import OpenTask, Part, Source, Task
from diptych_training.tasks.validation import ValidationSet

EXAMINED, EXAMINED_WHOLE = 150, 400
EXAMINER = 1_000_033  # the seed of a validation set's things and scenes


@dataclass(frozen=True)
class Rendered(Task):
    """`queries` things a step, each against another side of it and of lookalikes; judged by recall@1 over things made
    of photos never trained on.
    """

    queries: int = 16
    archives: tuple[str, ...] = ("flowers", "clothing", "goods", "grocery")
    calibrated: bool = False
    kind: str = field(default="rendered", init=False)

    def open(self, source: Source) -> "Renderings":
        """Load the archives whose photos are printed on things."""
        return Renderings(self, source)


class Renderings(OpenTask):
    """Things made of the photos that are not held out."""

    def __init__(self, settings: Rendered, source: Source) -> None:
        self.settings, self.source = settings, source
        self.photos = source.archives.load_photos(settings.archives)
        self.names = [row.name for row in self.photos.rows]
        self.kinds = sorted({row.kind for row in self.photos.rows})
        self.subject = subjects_of(self.photos)
        self.printed = self.photos.find_places(kinds=self.kinds, split="train")
        if len(np.unique(self.subject[self.printed])) < 2:
            raise DataError(
                "the rendered task needs photos of two subjects or more to print on things; "
                f"{', '.join(settings.archives)} have none that are not held out: name other archives"
            )
        self.textures = self._make_textures(self.printed).to(source.device)
        self.sprites = draw_sprites(1, source.seed).to(source.device)

    def draw_part(self, rng: np.random.Generator, generator: Generator, fill: float) -> Part:
        """Things from one side; then the same things from another, and a lookalike of each."""
        count = max(2, round(self.settings.queries * fill))
        things, lookalikes = _draw_things(self.subject[self.printed], count, rng, generator)
        size, textures = self.source.pixels, self.textures
        queries = render_things(things, textures, textures, size, generator)
        references = render_things(join_things(things, lookalikes), textures, textures, size, generator)
        match = np.eye(len(things), 2 * len(things), dtype=bool)
        return Part(
            self._edit_colours(queries, SHOT, generator),
            self._edit_colours(references, MILD, generator),
            match,
            ~match,
            linked=True,
        )

    def validation(self, *, whole: bool = False) -> ValidationSet:
        """Things made of held-out photos, before held-out photos, among lookalikes and each other."""
        held_out = self.photos.find_places(kinds=self.kinds, split="validation")
        if len(np.unique(self.subject[held_out])) < 2:
            raise DataError(
                "the validation set of the rendered task needs held-out photos of two subjects or more; "
                f"{', '.join(self.settings.archives)} have {len(held_out)} held-out photos: name other archives"
            )
        rng, generator = np.random.default_rng(EXAMINER), torch.Generator().manual_seed(EXAMINER)
        textures, size = self._make_textures(held_out), self.source.pixels
        count = EXAMINED_WHOLE if whole else EXAMINED
        things, lookalikes = _draw_things(self.subject[held_out], count, rng, generator)
        queries = render_things(things, textures, textures, size, generator).pictures
        gallery = render_things(join_things(things, lookalikes), textures, textures, size, generator).pictures
        relevant = np.eye(len(queries), len(gallery), dtype=bool)
        return ValidationSet(_as_files(queries), _as_files(gallery), relevant, "recall@1")

    def _make_textures(self, chosen: np.ndarray) -> Tensor:
        side = min(texture_side(self.source.pixels), self.photos.pixels.shape[1])
        parts = torch.from_numpy(self.photos.pixels[chosen]).split(256)
        return torch.cat([_as_files(view_unedited(part, side)) for part in parts])

    def _edit_colours(self, views: Views, strength: Strength, generator: Generator) -> Views:
        """Edit colours, sharpness and compression; every pixel stays in place."""
        still = replace(strength, crop=0.0, flip=0.0, rotate=0.0, perspective=0.0, shrink=0.0, overlay=0.0)
        edited = edit_photos(_as_files(views.pictures), self.source.pixels, still, generator, self.sprites)
        return Views(edited.pictures, views.places)


def _draw_things(
    subject: np.ndarray, count: int, rng: np.random.Generator, generator: Generator
) -> tuple[Things, Things]:
    """Draw things, no two fronts showing one subject, and a lookalike of each; `subject` (n,) are those of the photos.

    There are fewer than `count` where there are fewer subjects.
    """
    order = rng.permutation(len(subject))
    _, first = np.unique(subject[order], return_index=True)
    fronts = order[np.sort(first)][:count]
    spare = np.flatnonzero(~np.isin(subject, subject[fronts]))
    others = torch.arange(len(subject), device=generator.device)
    things = draw_things(torch.from_numpy(fronts), others, generator)
    return things, draw_lookalikes(things, torch.from_numpy(spare) if len(spare) else others, generator)


def _as_files(pictures: Tensor) -> Tensor:
    """Pictures (n, 3, S, S) in [0, 1] as uint8 (n, S, S, 3)."""
    return (pictures * 255).round().clamp(0, 255).byte().permute(0, 2, 3, 1).contiguous()
