import logging

from diptych.log_format import VisibleFormatter


def test_no_terminal_obeys_a_log_line():
    record = logging.LogRecord("x", logging.WARNING, "", 1, "%s", ("\x1b[2J",), None)
    assert VisibleFormatter("diptych: %(message)s").format(record) == "diptych: \\x1b[2J"
