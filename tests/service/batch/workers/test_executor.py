from diptych.batch.workers.executor import Serial
from diptych.batch.workers.retries import RetryQueue


def test_this_process_does_the_parts_one_after_the_other():
    done = []
    with Serial() as engine:
        numbers = engine.run(done.append, RetryQueue([4, 2, 7], str, print))
        assert next(numbers) == 4
        assert done == [4]
        assert list(numbers) == [2, 7]
    assert done == [4, 2, 7]
