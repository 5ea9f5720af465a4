"""Log configuration: text, or one JSON object per line."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from ..settings import LogFormat


class JsonFormatter(logging.Formatter):
    """Formats a record as a JSON object, including the members of its ``fields``."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def configure(level: str, log_format: LogFormat) -> None:
    """Sends the log of this process to stderr; uvicorn and asyncio only log warnings and errors."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)-7s %(message)s", "%Y-%m-%d %H:%M:%S")
    handler.setFormatter(JsonFormatter() if log_format == "json" else text)
    logging.basicConfig(handlers=[handler], level=level.upper())
    for library in ("uvicorn.error", "asyncio"):
        logging.getLogger(library).setLevel(logging.WARNING)
