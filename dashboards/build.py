"""Writes Grafana's dashboards as JSON into a directory: python build.py ../charts/groupcast/dashboards"""

import pathlib
import sys

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from boards import ALL


def main():
    """Writes every dashboard."""
    directory = pathlib.Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for make in ALL:
        text = JSONEncoder(sort_keys=True, indent=1).encode(make())
        (directory / f"{make.__name__}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
