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
        text = JSONEncoder(sort_keys=True, indent=1).encode(make()) + "\n"
        file = directory / f"{make.__name__}.json"
        if not file.exists() or file.read_text(encoding="utf-8") != text:  # tests that have read it need not run again
            file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
