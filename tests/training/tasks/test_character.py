import numpy as np


def test_a_character_drawn_twice_in_one_turn_is_its_own_match_too(opened, drawn) -> None:
    # The small alphabets have fewer characters than a group asks for, so some come twice.
    part = drawn(opened("character", groups=2, size=25))
    assert part.match.diagonal().all()
    assert part.match.sum() > len(part.match)
    assert not (part.match & part.rival).any()


def test_a_character_is_no_rival_of_itself_in_another_turn(opened, drawn) -> None:
    letters = opened("character", groups=8, size=20)
    part = drawn(letters)
    character = letters.groups.draw_from(np.random.default_rng(0), 8, 20)[2]
    alike = character[:, None] == character[None, :]
    assert (part.rival == ~alike).all()
    assert (alike & ~part.match).any()


def test_the_validation_set_asks_each_hand_for_one_of_twenty_characters_of_another(opened) -> None:
    validation = opened("character").validation()
    assert validation.among is not None
    assert validation.among.shape == (len(validation.queries), 20)
    found = np.take_along_axis(validation.relevant, validation.among, 1)
    assert (found.sum(1) == 1).all()
