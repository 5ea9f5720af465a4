"""JSON Schemas (2020-12) for operators and requests, for DxDispatch models, and for the schema of DirectML."""

from .descs import definitions, desc_name, member_schema, nullable, object_schema, ref
from .documents import documents
from .meta import META
from .requests import REQUESTS

__all__ = [
    "META",
    "REQUESTS",
    "definitions",
    "desc_name",
    "documents",
    "member_schema",
    "nullable",
    "object_schema",
    "ref",
]
