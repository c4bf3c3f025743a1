"""The error of data and recipes."""

from diptych_runtime.errors import DiptychError


class DataError(DiptychError):
    """Training or evaluation data, or a recipe, that is missing or not as expected."""

    code = "invalid_data"
