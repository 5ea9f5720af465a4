"""The model for Triton's Python backend."""

import numpy as np
import triton_python_backend_utils as triton


class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            x = triton.get_input_tensor_by_name(request, "x").as_numpy()
            y = triton.Tensor("y", x.argmax(axis=1).astype(np.uint32))
            answers.append(triton.InferenceResponse([y]))
        return answers
