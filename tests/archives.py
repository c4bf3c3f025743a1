"""Small archives in the layout of the real ones, drawn from seeds."""

import csv
import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw


def write_archives(folder: Path, photo_bytes: Callable[..., bytes]) -> None:
    """Write clothing.zip, flowers.zip, goods.zip and grocery.zip of drawn pictures."""
    seeds = iter(range(10_000))

    def write(archive: str, tables: dict[str, list[dict[str, str]]]) -> None:
        with zipfile.ZipFile(folder / f"{archive}.zip", "w") as file:
            for table, rows in tables.items():
                file.writestr(f"{archive}/{table}.csv", _table(rows))
                for row in rows:
                    file.writestr(f"{archive}/{row['path']}", photo_bytes(next(seeds), (64, 48)))

    clothes = [{"path": f"{i}.jpg", "label": "Hat", "contributor": str(i // 2)} for i in range(60)]
    flowers = [{"path": f"daisy/{i}.jpg", "label": ("daisy", "rose")[i % 2]} for i in range(40)]
    goods = [{"path": f"{i}_{side}.jpg", "item": f"i{i}", "style": f"s{i}"} for i in range(10) for side in "ab"]
    foods = [f"food{i}" for i in range(12)]
    shop = [
        {"path": f"train/{food}/{n}.jpg", "class": food, "coarse_class": food, "package": "0"}
        for food in foods
        for n in range(2)
    ]
    iconic = [{"path": f"iconic/{food}.jpg", "class": food, "coarse_class": food, "package": "0"} for food in foods]
    write("clothing", {"images": clothes})
    write("flowers", {"images": flowers})
    write("goods", {"images": goods})
    write("grocery", {"train": shop, "val": [shop[0] | {"path": "val/x.jpg"}], "iconic": iconic})


def write_omniglot(folder: Path) -> None:
    """Write omniglot.zip: alphabets of 21 and 3 characters, each drawn by 4 hands, in both splits."""
    rng = np.random.default_rng(0)
    with zipfile.ZipFile(folder / "omniglot.zip", "w") as archive:
        archive.writestr("LICENSE", "MIT")
        for split in ("background", "validation"):
            for alphabet, size in (("Runes", 21), ("Signs", 3)):
                for character in range(1, size + 1):
                    corners = rng.integers(20, 85, (4, 2))
                    for hand in range(1, 5):
                        drawing = Image.new("1", (105, 105), 1)
                        points = [tuple(int(v) for v in corner + rng.integers(-4, 5, 2)) for corner in corners]
                        ImageDraw.Draw(drawing).line(points, fill=0, width=3)
                        file = io.BytesIO()
                        drawing.save(file, "PNG")
                        name = f"omniglot/{split}/{alphabet}/character{character:02d}/{character:04d}_{hand:02d}.png"
                        archive.writestr(name, file.getvalue())


def _table(rows: list[dict[str, str]]) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()
