"""The errors a user can meet, one base class for all of them."""


class DiptychError(Exception):
    """Base of every error that a user can correct; its text names the expected value, the actual one and the next step.

    `code` is the machine-readable word used in HTTP envelopes and `--json` output.
    """

    code = "error"


class PictureError(DiptychError, ValueError):
    """A picture that cannot be read as one: missing, empty, damaged, too large, too small, or of another format."""

    code = "invalid_picture"


class TooLargeError(PictureError):
    """A file of more bytes than a picture may have, which was not read."""


class ArgumentError(DiptychError, ValueError):
    """An argument of a call that is out of its range, of another form than expected, or does not go with the others."""

    code = "invalid_argument"


class NoHomeError(ArgumentError):
    """A user without a home folder, where a path needs one."""

    code = "no_home"


class ArtifactError(DiptychError):
    """A model artifact that is missing, damaged, of another version, or cannot run here as asked."""

    code = "invalid_artifact"


class UnknownModelError(ArtifactError):
    """A name that no model has."""

    code = "unknown_model"
