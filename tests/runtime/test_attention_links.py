import numpy as np

from diptych_runtime.attention_links import strongest_links


def test_the_links_are_the_strongest_with_each_patch_in_one_at_most():
    attention = np.array([[0.9, 0.8, 0.1], [0.7, 0.2, 0.3], [0.6, 0.5, 0.4]])
    assert strongest_links(attention, 12) == [(0, 0, 0.9), (2, 1, 0.5), (1, 2, 0.3)]
    assert strongest_links(attention, 1) == [(0, 0, 0.9)]
    assert (attention >= 0).all()
