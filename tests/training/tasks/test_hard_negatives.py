import numpy as np
import torch

from diptych_training.tasks.hard_negatives import embed_photos, encode_photos, find_nearest, without_duplicates


def test_mined_neighbours_are_the_nearest_of_other_subjects(tiny_network) -> None:
    pixels = torch.randint(0, 256, (20, 32, 32, 3), generator=torch.Generator().manual_seed(0)).byte()
    embeddings = embed_photos(tiny_network, pixels, 32)
    assert torch.equal(embeddings, encode_photos(tiny_network, pixels, 32)[1])
    subjects = np.arange(20) // 2
    found = find_nearest(embeddings.numpy(), subjects, count=4)
    cosines = (embeddings @ embeddings.T).numpy()
    for i, row in enumerate(found):
        order = [j for j in (-cosines[i]).argsort() if subjects[j] != subjects[i]]
        assert row.tolist() == order[:4]


def test_a_photo_whose_neighbourhood_is_all_its_own_kind_still_gets_others() -> None:
    vectors = np.zeros((100, 2), np.float32)
    vectors[:, 0] = 1
    vectors[-1] = (0, 1)
    subjects = np.array([0] * 99 + [1])
    assert (find_nearest(vectors, subjects, count=3)[0] == 99).all()


def test_near_duplicates_become_one_subject_and_other_photos_stay_apart(photo) -> None:
    photos = [np.asarray(photo(seed, (64, 64))) for seed in range(6)]
    lighter = np.clip(photos[2].astype(int) + 6, 0, 255).astype(np.uint8)
    recoloured = photos[3][..., [2, 0, 1]]
    merged = without_duplicates(np.arange(8), np.stack([*photos, lighter, recoloured]))
    assert merged[2] == merged[6]
    assert len(np.unique(merged)) == 7
