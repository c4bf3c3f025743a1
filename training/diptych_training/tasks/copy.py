"""The copy task: an edited photo against the photo it was made from, among photos like it."""

from dataclasses import dataclass, field

import numpy as np
import torch
from PIL import Image
from torch import Generator, Tensor

from diptych_runtime.decoder import panel_pixels
from diptych_training.data.archives import DOCUMENTS, Photos, subjects_of
from diptych_training.data.augment import (
    HARD,
    HEAVY,
    MILD,
    Views,
    draw_sprites,
    edit_photos,
    make_identity_places,
    view_unedited,
)
from diptych_training.data.edits import Props, edit_hard
from diptych_training.tasks.hard_negatives import find_nearest, without_duplicates
from diptych_training.tasks.task import Embed, OpenTask, Part, Source, Task
from diptych_training.tasks.validation import ValidationSet

FAMILY = 8  # photos that look alike and come together in a step
STRENGTHS = {"heavy": HEAVY, "hard": HARD}
UNCHANGED = 0.6  # the share of references that are the photo as it is: that is what a collection holds
SPRITES = 512
ASKED, ASKED_WHOLE = 128, 600
EXAMINER = 1_000_003  # the seed of a validation set's overlays: no run trains on them


@dataclass(frozen=True)
class Copy(Task):
    """`queries` photos a step from these archives; judged by micro-AP.

    `strength` says how the photos are edited: *heavy*, as the first release learnt, or *hard*, in every way people do,
    but for a share `easy` of them, which are edited heavily all the same: most copies have few edits. The originals
    of a share `distractors` of the queries are left out: their scores have to be low everywhere.
    """

    queries: int = 64
    archives: tuple[str, ...] = ("clothing", "flowers", "goods", "grocery")
    strength: str = "heavy"
    easy: float = 0.0
    distractors: float = 0.0
    kind: str = field(default="copy", init=False)

    def __post_init__(self) -> None:
        if self.strength not in STRENGTHS or not 0 <= self.distractors <= 0.5 or not 0 <= self.easy <= 1:
            raise ValueError(
                f"strength must be one of {', '.join(STRENGTHS)}, distractors a share of 0 to 0.5 and easy one of 0 "
                f"to 1, got {self.strength!r}, {self.distractors} and {self.easy}"
            )

    def open(self, source: Source) -> "Copies":
        """Load the archives, and look for near-duplicates among their photos."""
        return Copies(self, source)


class Copies(OpenTask):
    """The copy task on photos that are not held out."""

    def __init__(self, settings: Copy, source: Source) -> None:
        self.settings, self.source = settings, source
        photos = source.archives.load_photos(settings.archives)
        self.kin = _merge_duplicates(photos)
        chosen = photos.find_places(kinds=settings.archives, split="train")
        self.names = [row.name for row in photos.rows]
        self.photos, self.pixels = photos, torch.from_numpy(photos.pixels[chosen]).to(source.device)
        self.panels = torch.cat(
            [(view_unedited(part, source.pixels) * 255).round().byte() for part in self.pixels.split(256)]
        )
        self.subject = self.kin[chosen]
        self.sprites = draw_sprites(SPRITES, source.seed).to(source.device)

    def draw_part(self, rng: np.random.Generator, generator: Generator, fill: float) -> Part:
        """Photos in families of look-alikes, once edited heavily, once as they are or a little changed."""
        count = min(round(self.settings.queries * fill), len(self.pixels))
        chosen = (
            self._draw_families(rng, count)
            if self.neighbours is not None
            else rng.permutation(len(self.pixels))[:count]
        )
        pixels, size = self.pixels[torch.from_numpy(chosen)], self.source.pixels
        unchanged = self.panels[torch.from_numpy(chosen)].float() / 255
        references = Views(unchanged, make_identity_places(len(pixels), size).to(pixels.device).clone())
        changed = torch.from_numpy(rng.random(len(chosen)) >= UNCHANGED).to(pixels.device)
        if changed.any():
            views = edit_photos(pixels[changed], size, MILD, generator, self.sprites)
            references.pictures[changed], references.places[changed] = views
        kept = torch.from_numpy(rng.random(len(chosen)) >= self.settings.distractors)
        match = np.eye(len(chosen), dtype=bool)[:, kept.numpy()]
        rival = (self.subject[chosen][:, None] != self.subject[chosen][None, :])[:, kept.numpy()]
        kept = kept.to(pixels.device)
        return Part(
            self._edit_pictures(pixels, rng, generator),
            Views(references.pictures[kept], references.places[kept]),
            match,
            rival,
            linked=True,
            copies=True,
        )

    def _edit_pictures(self, pixels: Tensor, rng: np.random.Generator, generator: Generator) -> Views:
        size, strength = self.source.pixels, STRENGTHS[self.settings.strength]
        if not strength.most:
            return edit_photos(pixels, size, strength, generator, self.sprites)
        few = round(self.settings.easy * len(pixels))
        parts = [edit_photos(pixels[:few], size, HEAVY, generator, self.sprites)] if few else []
        backgrounds = self.pixels[torch.from_numpy(rng.choice(len(self.pixels), min(len(self.pixels), len(pixels))))]
        if few < len(pixels):
            hard = pixels[few:]
            parts.append(
                edit_photos(hard, size, strength, generator, self.sprites, backgrounds=backgrounds[: len(hard)])
            )
        return Views(*(torch.cat(part) for part in zip(*parts, strict=True)))

    def mine_negatives(self, embed: Embed) -> None:
        """Find each photo's look-alikes."""
        self.neighbours = find_nearest(embed(self.pixels), self.subject)

    def validation(self, *, whole: bool = False) -> ValidationSet:
        """Edited held-out photos among unedited ones: a few among some 1,500, or many among all."""
        rng, generator = np.random.default_rng(0), torch.Generator().manual_seed(0)
        held_out = self.photos.find_places(kinds=self.settings.archives, split="validation")
        others = self.photos.find_places(kinds=self.settings.archives, split="train")
        asked = rng.permutation(held_out)[: ASKED_WHOLE if whole else ASKED]
        shown = np.concatenate([np.setdiff1d(held_out, asked), rng.permutation(others)[: None if whole else 1500]])
        # Near-duplicates of what is asked for are neither right nor wrong.
        gallery = np.concatenate([asked, shown[~np.isin(self.kin[shown], self.kin[asked])]])
        if self.settings.strength == "hard":
            queries = _edited_by_hand(self.photos.pixels[asked], self.source.pixels)
            # Every fourth is a query without a match: its original is not there.
            missing = np.arange(len(asked)) % 4 == 3
            gallery = np.setdiff1d(gallery, asked[missing])
        else:
            queries = _edit_heavily(self.photos, asked, self.source.pixels, generator)
        relevant = asked[:, None] == gallery[None, :]
        return ValidationSet(
            queries, torch.from_numpy(self.photos.pixels[gallery]), relevant, "micro_ap", question="copy"
        )

    def _draw_families(self, rng: np.random.Generator, count: int) -> np.ndarray:
        assert self.neighbours is not None
        seeds = rng.choice(len(self.pixels), -(-count // FAMILY), replace=False)
        near = [rng.permutation(self.neighbours[seed])[: FAMILY - 1] for seed in seeds]
        drawn = np.concatenate([np.concatenate([[seed], kin]) for seed, kin in zip(seeds, near, strict=True)])
        return np.array(list(dict.fromkeys(drawn.tolist())))[:count]


def _merge_duplicates(photos: Photos) -> np.ndarray:
    """Merge the subjects of near-duplicates into one: int64 (n,).

    Documents stay what they are: two of one layout look like duplicates to a hash and are the very pictures that must
    not match.
    """
    subjects, drawn = subjects_of(photos), np.array([row.kind == DOCUMENTS for row in photos.rows])
    kin = np.empty_like(subjects)
    kin[~drawn] = without_duplicates(subjects[~drawn], photos.pixels[~drawn])
    kin[drawn] = np.arange(drawn.sum()) + len(kin)
    return kin


def _edited_by_hand(pixels: np.ndarray, size: int) -> Tensor:
    """Photos edited as copies are measured with (`edits`), one to five edits each: uint8 (n, size, size, 3)."""
    rng, props = np.random.default_rng(EXAMINER), Props()
    edited = [edit_hard(Image.fromarray(photo), rng, props)[0] for photo in pixels]
    return torch.from_numpy(np.stack([panel_pixels(picture, size) for picture in edited]))


def _edit_heavily(photos: Photos, chosen: np.ndarray, size: int, generator: Generator) -> Tensor:
    """Edit photos heavily on the CPU, a few at a time.

    They are uint8 (n, size, size, 3), as files would be.
    """
    sprites = draw_sprites(SPRITES, EXAMINER)
    parts = [
        edit_photos(torch.from_numpy(photos.pixels[part]), size, HEAVY, generator, sprites).pictures
        for part in np.array_split(chosen, max(1, len(chosen) // 64))
    ]
    return (torch.cat(parts) * 255).round().byte().permute(0, 2, 3, 1)
