import os

import pytest

from diptych.store.index.cache import CACHE, MANIFEST, find_fault, read_manifest


@pytest.mark.parametrize("name", [CACHE, MANIFEST])
def test_a_pipe_is_a_fault_of_the_index_and_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    found = find_fault(tmp_path, {}) if name == CACHE else read_manifest(tmp_path)[1]
    assert found is not None
    assert "is no file" in found
