"""The errors of the service, beside those of bad pictures and bad artifacts."""

from __future__ import annotations

from typing import Any

from diptych_runtime.errors import DiptychError, PictureError


class StoreError(DiptychError):
    """A collection that is missing, damaged, in use, of another version or made by another model."""

    code = "store"


class StoreInUseError(StoreError):
    """A collection, or a folder of some, that another process writes to."""

    code = "store_in_use"


class ReadOnlyError(StoreError):
    """A collection that was opened for reading, and was to be changed."""

    code = "read_only"


class ModelMismatchError(StoreError):
    """A collection whose pictures were embedded by another model revision than the loaded one."""

    code = "model_mismatch"


class UnreachableError(StoreError):
    """A collection whose server does not answer; in some `seconds` it may."""

    code = "unreachable"

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class NoOriginalsError(StoreError):
    """A collection that has no place for the files of pictures."""

    code = "no_originals"


class UnknownCollectionError(StoreError):
    """No collection has this name, or there is none at all."""

    code = "unknown_collection"


class CollectionNameError(StoreError):
    """A name that no collection may have, or none where several could be meant."""

    code = "collection_name"


class DamagedCollectionError(StoreError):
    """A collection among others that could not be opened."""

    code = "damaged_collection"


class CollectionKeptError(StoreError):
    """A collection that is not removed: it has other pictures than were said to go, or somebody is using it."""

    code = "collection_kept"


class UnknownPictureError(DiptychError, LookupError):
    """No picture has this id, or its content is no longer available."""

    code = "not_found"


class DecodingTimeError(PictureError):
    """A picture whose decoding took longer than it may, and was stopped."""

    code = "decoding_time"


class DecodingMemoryError(PictureError):
    """A picture whose decoding takes more memory than it may."""

    code = "decoding_memory"


class DecoderEndedError(PictureError):
    """A picture whose decoding ended the process that did it: a crash, or a kill."""

    code = "decoder_ended"


class DecoderStartError(DiptychError):
    """Decoding processes that end, or are ended, before they can begin; a while later one may start."""

    code = "decoder_unavailable"


class DeadlineError(DiptychError):
    """A request that was not done within its time."""

    code = "deadline"


class ClientLeftError(DeadlineError):
    """A request whose client closed the connection before the answer, which is therefore not computed."""

    code = "client_left"


class OverloadedError(DiptychError):
    """Too much is waiting to be computed; `seconds` from now there may be room."""

    code = "overloaded"

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class SettingsError(DiptychError):
    """A setting that is unknown, cannot be read or is out of its range."""

    code = "settings"


class BenchError(DiptychError):
    """A measurement or an estimate that cannot be made as asked."""

    code = "bench"


class BatchError(DiptychError):
    """A pair-scoring job that cannot start or go on as asked."""

    code = "batch"


class DedupeError(DiptychError):
    """A search for duplicates, or an act on its results, that cannot be made as asked."""

    code = "dedupe"


class LabellingError(DiptychError):
    """Labels that cannot be read, or from which no calibration can be made."""

    code = "labelling"


class NotBetterError(LabellingError):
    """Labels that do not show that a calibration is better than the released one; `fitted` has its figures."""

    code = "not_better"

    def __init__(self, message: str, *, fitted: Any) -> None:
        super().__init__(message)
        self.fitted = fitted


class OutputError(DiptychError):
    """An output that would take the place of an input or of a part of a collection."""

    code = "output"


class SyncError(DiptychError):
    """Folders that cannot be followed as asked, or pictures whose removal was not allowed."""

    code = "sync"


class RemoteError(DiptychError):
    """A picture that cannot be fetched from its web address: no server, no answer, or not the one expected."""

    code = "remote_failed"


class RemoteRefusedError(RemoteError):
    """A web address that is not asked: badly spelled, not public, not allowed, or one that redirects to such."""

    code = "remote_url_refused"


class RemoteTooLargeError(RemoteError):
    """A web address behind which there are more bytes than a picture may have."""

    code = "remote_too_large"


class RemoteTimeoutError(RemoteError):
    """A web address that does not give its picture in time."""

    code = "remote_timeout"
