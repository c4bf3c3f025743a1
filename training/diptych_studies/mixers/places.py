"""What the studies' mixers ask of the `Place` at which they stand."""

from diptych_model.mixers.mixer import Place


def count_joined_panels(place: Place) -> int:
    """The number of panels that lie side by side within a window."""
    return place.panels if place.open_seam else 1


def has_facing_panel(place: Place) -> bool:
    """True if a local window includes the same place of the other panel."""
    return place.panels == 2 and not place.open_seam


def require_supported(place: Place, kind: str, **supported: tuple[object, ...]) -> None:
    """Raise `ValueError` for a field of a place whose value the mixer does not support."""
    for name, values in supported.items():
        if getattr(place, name) not in values:
            raise ValueError(
                f"the mixer {kind!r} takes {name} = {' or '.join(map(repr, values))}, got {getattr(place, name)!r}"
            )
