"""The schema of DirectML as data: every operator type with its members and support rows.

It consists of the JSON files in this package, each loaded on first use: ``operator_types.json`` lists all types,
``types.json`` the enums and structs, and each other file has one family of operators.
"""

from .catalog import CATALOG, PREFIX, OperatorType, find, hint, nearest_first
from .decisions import Decision, Departure, Ground, decisions_of
from .operator_document import operator_document
from .operators import Accuracy, OperatorSchema, Promise, schema_of
from .source import document

__all__ = [
    "CATALOG",
    "PREFIX",
    "Accuracy",
    "Decision",
    "Departure",
    "Ground",
    "OperatorSchema",
    "OperatorType",
    "Promise",
    "decisions_of",
    "document",
    "find",
    "hint",
    "nearest_first",
    "operator_document",
    "schema_of",
]
