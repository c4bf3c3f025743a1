import numpy as np
import torch


def test_every_shop_photo_is_laid_beside_its_product_and_others_of_the_catalogue(opened, drawn) -> None:
    products = opened("catalogue", queries=3)
    part = drawn(products)
    assert part.match.shape == (3, 6)
    assert (part.match.sum(1) == 1).all()
    assert (part.match ^ part.rival).all()


def test_the_validation_set_asks_for_classes_that_are_never_drawn_among_all(opened) -> None:
    products = opened("catalogue")
    validation = products.validation()
    drawn = {products.photos.rows[i].subject for i in products.shots}
    asked = {row.subject for row in products.photos.rows if row.kind == "grocery" and row.split == "validation"}
    assert asked
    assert not drawn & asked
    assert len(validation.gallery) == sum(row.kind == "iconic" for row in products.photos.rows)
    assert (validation.relevant.sum(1) == 1).all()


def test_an_article_is_laid_beside_another_side_of_it(opened, drawn) -> None:
    sides = opened("instance", queries=3)
    part = drawn(sides)
    assert part.match.shape == (3, 3)
    assert (part.match == np.eye(3, dtype=bool)).all()
    assert not np.allclose(part.queries.pictures, part.references.pictures)
    assert not part.linked


def test_an_article_s_validation_set_leaves_out_the_very_picture_that_is_asked_with(opened) -> None:
    validation = opened("instance").validation()
    for query, place, relevant in zip(validation.queries, validation.itself, validation.relevant, strict=True):
        assert torch.equal(query, validation.gallery[place])
        assert not relevant[place]
    assert (validation.relevant.sum(1) == 1).all()
    assert len(np.unique(validation.itself)) == len(validation.queries)
