"""The wire format: bytes to and from requests and answers.

It does no I/O, and knows nothing of HTTP beyond two media types and one header. The service reads with ``requests`` and
``inputs`` and writes with ``answers``; the client writes with ``calls`` and reads with ``results``.
"""

from .answers import (
    BATCH_BEGINS,
    Answer,
    EncodedOutput,
    Outcome,
    OutputFrame,
    batch_ends,
    encode_output,
    member_frames,
    output_frames,
    write_batch,
    write_error,
    write_outcome,
)
from .bare_graphs import is_bare_graph
from .calls import Call, Encoding, constant_bytes, write_call, write_calls, write_json, write_registration
from .encoded import EncodedTensor, encoded_inputs
from .framing import BINARY, HEAD_LENGTH, JSON, Buffer, Parts, parse_json, split_body
from .in_process import Executed, registration_of, request_of, result_of, validation_of
from .inputs import are_views, read_inputs
from .models import ModelGiven, ModelRequest, parse_execute_unless_model, parse_model, parse_validate_unless_model
from .payloads import Numbers, Payload
from .registrations import parse_registration, read_constants
from .request_body import NODE_BYTES, RequestBody
from .requests import (
    LOWEST_PRIORITY,
    ExecuteRequest,
    OutputFormat,
    ValidateRequest,
    parse_batch,
    parse_execute,
    parse_validate,
)
from .results import PoolingResult, Result, read_answer, read_answers, read_desc, read_pooling_answer, read_validation

__all__ = [
    "BATCH_BEGINS",
    "BINARY",
    "HEAD_LENGTH",
    "JSON",
    "LOWEST_PRIORITY",
    "NODE_BYTES",
    "Answer",
    "Buffer",
    "Call",
    "EncodedOutput",
    "EncodedTensor",
    "Encoding",
    "ExecuteRequest",
    "Executed",
    "ModelGiven",
    "ModelRequest",
    "Numbers",
    "Outcome",
    "OutputFormat",
    "OutputFrame",
    "Parts",
    "Payload",
    "PoolingResult",
    "RequestBody",
    "Result",
    "ValidateRequest",
    "are_views",
    "batch_ends",
    "constant_bytes",
    "encode_output",
    "encoded_inputs",
    "is_bare_graph",
    "member_frames",
    "output_frames",
    "parse_batch",
    "parse_execute",
    "parse_execute_unless_model",
    "parse_json",
    "parse_model",
    "parse_registration",
    "parse_validate",
    "parse_validate_unless_model",
    "read_answer",
    "read_answers",
    "read_constants",
    "read_desc",
    "read_inputs",
    "read_pooling_answer",
    "read_validation",
    "registration_of",
    "request_of",
    "result_of",
    "split_body",
    "validation_of",
    "write_batch",
    "write_call",
    "write_calls",
    "write_error",
    "write_json",
    "write_outcome",
    "write_registration",
]
