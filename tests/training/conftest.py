"""Small archives in the layout of the real ones, drawn from seeds."""

import csv
import io
import zipfile
from pathlib import Path

import pytest


def _table(rows: list[dict[str, str]]) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory, photo_bytes) -> Path:
    """A folder with clothing.zip, flowers.zip, goods.zip and grocery.zip of drawn pictures."""
    folder = tmp_path_factory.mktemp("archives")
    seeds = iter(range(10_000))

    def write(archive: str, tables: dict[str, list[dict[str, str]]]) -> None:
        with zipfile.ZipFile(folder / f"{archive}.zip", "w") as file:
            for table, rows in tables.items():
                file.writestr(f"{archive}/{table}.csv", _table(rows))
                for row in rows:
                    file.writestr(f"{archive}/{row['path']}", photo_bytes(next(seeds), (64, 48)))

    clothes = [{"path": f"{i}.jpg", "label": "Hat", "contributor": str(i // 2)} for i in range(60)]
    flowers = [{"path": f"daisy/{i}.jpg", "label": "daisy"} for i in range(40)]
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
    return folder
