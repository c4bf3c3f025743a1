import logging
import time

from diptych.log_format import RateLimit, VisibleFormatter


def test_a_warning_that_repeats_is_said_once_a_second_with_the_number_of_others():
    limit = RateLimit(0.2)

    def said(text: str, *values: object, level: int = logging.WARNING) -> str | None:
        record = logging.LogRecord("x", level, "", 1, text, values, None)
        return record.getMessage() if limit.filter(record) else None

    assert said("bad %s", 1) == "bad 1"
    assert [said("bad %s", number) for number in range(1000)] == [None] * 1000
    assert said("other") == "other"
    assert [said("fine", level=logging.INFO)] * 2 == ["fine"] * 2
    time.sleep(0.25)
    assert said("bad %s", 2) == "bad 2 (and 1,000 more like it)"
    assert said("bad %s", 3) is None


def test_no_terminal_obeys_a_log_line():
    record = logging.LogRecord("x", logging.WARNING, "", 1, "%s", ("\x1b[2J",), None)
    assert VisibleFormatter("diptych: %(message)s").format(record) == "diptych: \\x1b[2J"
