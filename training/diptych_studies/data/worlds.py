"""Small drawn worlds: a few coloured shapes on a grid, as a picture, and questions about them with their answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

from diptych_training.errors import DataError

SHAPES = ("circle", "square", "triangle")
COLOURS = {"red": (214, 60, 52), "green": (64, 160, 72), "blue": (58, 96, 208), "yellow": (232, 200, 60)}
CELLS = 3  # of a side
MOST = 4  # things in a world
ANSWERS = ("no", "yes", *map(str, range(MOST + 1)), *COLOURS, *SHAPES)
WORDS = (
    "?",
    "is",
    "there",
    "a",
    "how",
    "many",
    "what",
    "colour",
    "shape",
    "thing",
    "things",
    "the",
    "left",
    "of",
    "above",
)
VOCABULARY = ("", *WORDS, *COLOURS, *SHAPES)  # the first fills questions up
LONGEST = 10
_FINE = 4  # drawn so many times as large, for smooth edges


@dataclass(frozen=True)
class Thing:
    """A thing in a world: what it is, and its cell, counted from the top left."""

    shape: str
    colour: str
    row: int
    col: int


@dataclass(frozen=True)
class Question:
    """A question in words, its answer, and its kind, one of `KINDS`."""

    words: tuple[str, ...]
    answer: str
    kind: str

    @property
    def tokens(self) -> list[int]:
        """The words' places in `VOCABULARY`, filled up with 0 to `LONGEST`."""
        return [VOCABULARY.index(word) for word in self.words] + [0] * (LONGEST - len(self.words))


def draw_world(rng: np.random.Generator) -> list[Thing]:
    """One to `MOST` things in cells of their own."""
    cells = rng.permutation(CELLS**2)[: rng.integers(1, MOST + 1)]
    return [_draw_thing(rng, *map(int, divmod(cell, CELLS))) for cell in cells]


def paint_world(world: Sequence[Thing], size: int, rng: np.random.Generator, cells: int = CELLS) -> np.ndarray:
    """The world of `cells` x `cells` as a picture, uint8 (size, size, 3): every thing somewhere in its cell, of a size
    of its own.
    """
    picture = Image.new("RGB", (size * _FINE, size * _FINE), tuple(int(level) for level in rng.integers(225, 256, 3)))
    draw, cell = ImageDraw.Draw(picture), size * _FINE / cells
    for thing in world:
        reach = cell * rng.uniform(0.3, 0.42)
        x, y = ((place + 0.5) * cell + rng.uniform(-1, 1) * (cell / 2 - reach) for place in (thing.col, thing.row))
        colour = tuple(int(np.clip(level + rng.integers(-18, 19), 0, 255)) for level in COLOURS[thing.colour])
        corners = (x - reach, y - reach, x + reach, y + reach)
        match thing.shape:
            case "circle":
                draw.ellipse(corners, fill=colour)
            case "square":
                draw.rectangle(corners, fill=colour)
            case _:
                draw.polygon([(x, y - reach), (x + reach, y + reach), (x - reach, y + reach)], fill=colour)
    return np.asarray(picture.resize((size, size), Image.Resampling.BOX))


def ask_question(world: Sequence[Thing], rng: np.random.Generator, kind: str) -> Question | None:
    """Ask a question of this kind about a world, drawn by chance.

    None where the world has nothing of which it could be asked.
    """
    if kind not in KINDS:
        raise DataError(f"the kind of a question must be one of {', '.join(KINDS)}, got {kind!r}")
    return KINDS[kind](world, rng)


def draw_examples(
    count: int, size: int, seed: int, kinds: Sequence[str] = ()
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[Question]]:
    """Worlds with a question each, of all kinds in turn: pictures uint8 (count, size, size, 3), questions int64
    (count, LONGEST), answers int64 (count,), and the questions in words.
    """
    rng = np.random.default_rng(seed)
    kinds, pictures, questions = tuple(kinds) or tuple(KINDS), [], []
    while len(questions) < count:
        world = draw_world(rng)
        question = ask_question(world, rng, kinds[len(questions) % len(kinds)])
        if question is not None:
            questions.append(question)
            pictures.append(paint_world(world, size, rng))
    tokens = np.array([question.tokens for question in questions], np.int64)
    answers = np.array([ANSWERS.index(question.answer) for question in questions], np.int64)
    return np.stack(pictures), tokens, answers, questions


def draw_things(count: int, size: int, seed: int) -> np.ndarray:
    """Pictures of one thing each that nearly fills them, uint8 (count, size, size, 3)."""
    rng = np.random.default_rng(seed)
    return np.stack([paint_world([_draw_thing(rng, 0, 0)], size, rng, cells=1) for _ in range(count)])


def _draw_thing(rng: np.random.Generator, row: int, col: int) -> Thing:
    return Thing(str(rng.choice(SHAPES)), str(rng.choice(list(COLOURS))), row, col)


def _ask_presence(world: Sequence[Thing], rng: np.random.Generator) -> Question:
    """Is there a COLOUR SHAPE? Half the answers are yes; of the rest both words mostly name something that is there."""
    if rng.random() < 0.5:
        thing = world[int(rng.integers(len(world)))]
        colour, shape = thing.colour, thing.shape
    else:
        there = {(thing.colour, thing.shape) for thing in world}
        near = [(a.colour, b.shape) for a in world for b in world if (a.colour, b.shape) not in there]
        absent = [(colour, shape) for colour in COLOURS for shape in SHAPES if (colour, shape) not in there]
        choices = near or absent
        colour, shape = choices[int(rng.integers(len(choices)))]
    answer = "yes" if any((thing.colour, thing.shape) == (colour, shape) for thing in world) else "no"
    return Question(("is", "there", "a", colour, shape, "?"), answer, "presence")


def _ask_count(world: Sequence[Thing], rng: np.random.Generator) -> Question:
    """Ask for the number of things of one colour or shape."""
    name = str(rng.choice(list(COLOURS) if rng.random() < 0.5 else SHAPES))
    count = sum(name in (thing.colour, thing.shape) for thing in world)
    return Question(("how", "many", name, "things", "?"), str(count), "count")


def _ask_colour(world: Sequence[Thing], rng: np.random.Generator) -> Question | None:
    """Ask for the colour of the only thing of its shape."""
    thing = _pick_unique(world, rng, lambda thing: thing.shape)
    return thing and Question(("what", "colour", "is", "the", thing.shape, "?"), thing.colour, "colour")


def _ask_shape(world: Sequence[Thing], rng: np.random.Generator) -> Question | None:
    """Ask for the shape of the only thing of its colour."""
    thing = _pick_unique(world, rng, lambda thing: thing.colour)
    return thing and Question(("what", "shape", "is", "the", thing.colour, "thing", "?"), thing.shape, "shape")


def _ask_relation(world: Sequence[Thing], rng: np.random.Generator) -> Question | None:
    """Is the COLOUR SHAPE left of, or above, the COLOUR SHAPE?, of two things that stand apart in that direction."""
    names = [(thing.colour, thing.shape) for thing in world]
    single = [thing for thing, name in zip(world, names, strict=True) if names.count(name) == 1]
    across = rng.random() < 0.5
    pairs = [(a, b) for a in single for b in single if a is not b and (a.col != b.col if across else a.row != b.row)]
    if not pairs:
        return None
    a, b = pairs[int(rng.integers(len(pairs)))]
    before = a.col < b.col if across else a.row < b.row
    where = ("left", "of") if across else ("above",)
    words = ("is", "the", a.colour, a.shape, *where, "the", b.colour, b.shape, "?")
    return Question(words, "yes" if before else "no", "relation")


KINDS: dict[str, Callable[[Sequence[Thing], np.random.Generator], Question | None]] = {
    "presence": _ask_presence,
    "count": _ask_count,
    "colour": _ask_colour,
    "shape": _ask_shape,
    "relation": _ask_relation,
}


def _pick_unique(world: Sequence[Thing], rng: np.random.Generator, name: Callable[[Thing], str]) -> Thing | None:
    """Pick a thing of the world whose name no other has."""
    names = [name(thing) for thing in world]
    single = [thing for thing in world if names.count(name(thing)) == 1]
    return single[int(rng.integers(len(single)))] if single else None
