"""Drawn worlds: pictures show what is in them, and answers are what a reader of the world would say."""

import numpy as np

from diptych_studies.data.worlds import (
    ANSWERS,
    CELLS,
    COLOURS,
    KINDS,
    LONGEST,
    MOST,
    VOCABULARY,
    Question,
    Thing,
    ask_question,
    draw_examples,
    draw_things,
    draw_world,
    paint_world,
)


def answered(world: list[Thing], question: Question) -> str:
    """The answer, from the words alone and in another way than the questions are made."""
    words = set(question.words)
    match question.words:
        case ("is", "there", "a", colour, shape, "?"):
            return "yes" if [t for t in world if t.colour == colour and t.shape == shape] else "no"
        case ("how", "many", name, "things", "?"):
            return str(len([t for t in world if name in (t.colour, t.shape)]))
        case ("what", "colour", "is", "the", shape, "?"):
            (thing,) = [t for t in world if t.shape == shape]
            return thing.colour
        case ("what", "shape", "is", "the", colour, "thing", "?"):
            (thing,) = [t for t in world if t.colour == colour]
            return thing.shape
        case ("is", "the", colour, shape, *_, other_colour, other_shape, "?"):
            (one,) = [t for t in world if (t.colour, t.shape) == (colour, shape)]
            (other,) = [t for t in world if (t.colour, t.shape) == (other_colour, other_shape)]
            before = one.col < other.col if "left" in words else one.row < other.row
            return "yes" if before else "no"
    raise AssertionError(question.words)


def test_every_kind_of_question_is_answered_as_its_words_say() -> None:
    rng, asked = np.random.default_rng(3), dict.fromkeys(KINDS, 0)
    for _ in range(150):
        world = draw_world(rng)
        assert 1 <= len(world) <= MOST
        assert len({(thing.row, thing.col) for thing in world}) == len(world)
        for kind in KINDS:
            question = ask_question(world, rng, kind)
            if question is not None:
                asked[kind] += 1
                assert (question.kind, question.answer) == (kind, answered(world, question))
                assert question.answer in ANSWERS
                assert [VOCABULARY[token] for token in question.tokens if token] == list(question.words)
    assert min(asked.values()) > 50


def test_yes_and_no_are_balanced() -> None:
    for kind in ("presence", "relation"):
        answers = draw_examples(300, 8, 0, [kind])[2]
        assert 0.4 < np.mean(answers == ANSWERS.index("yes")) < 0.6


def test_a_thing_is_painted_in_its_cell_in_its_colour_and_nothing_elsewhere() -> None:
    size = 30
    for place, colour in enumerate(COLOURS):
        thing = Thing("square", colour, place % CELLS, 2 - place % CELLS)
        pixels = paint_world([thing], size, np.random.default_rng(place)).astype(int)
        near = np.abs(pixels - COLOURS[colour]).max(-1) < 25
        rows, cols = np.nonzero(near)
        assert len(rows) > 20
        assert set(rows // 10) == {thing.row}
        assert set(cols // 10) == {thing.col}


def test_the_same_seed_draws_the_same_examples_and_another_others() -> None:
    one, again, other = (draw_examples(10, 16, seed) for seed in (1, 1, 2))
    assert one[0].shape == (10, 16, 16, 3)
    assert one[1].shape == (10, LONGEST)
    assert [question.kind for question in one[3]] == [*KINDS] * 2
    for a, b in zip(one[:3], again[:3], strict=True):
        np.testing.assert_array_equal(a, b)
    assert (one[0] != other[0]).any()
    np.testing.assert_array_equal(draw_things(3, 16, 5), draw_things(3, 16, 5))
