/** Sample graph. */

const IMAGE = '{ "DataType": "FLOAT32", "Sizes": [1, 1, 8, 8] }';
const SMALL = '{ "DataType": "FLOAT32", "Sizes": [1, 1, 4, 4] }';
const WINDOW = `"InputTensor": ${IMAGE}, "Strides": [2, 2], "WindowSize": [2, 2]`;

export const EXAMPLE = `{
  "nodes": {
    "edges": { "constant": { "data": [[[[-1, -1, -1], [-1, 8, -1], [-1, -1, -1]]]] } },
    "filtered": {
      "type": "CONVOLUTION",
      "desc": {
        "InputTensor": ${IMAGE},
        "FilterTensor": { "DataType": "FLOAT32", "Sizes": [1, 1, 3, 3] },
        "Mode": "CROSS_CORRELATION",
        "Direction": "FORWARD",
        "Strides": [1, 1],
        "Dilations": [1, 1],
        "StartPadding": [1, 1],
        "EndPadding": [1, 1],
        "OutputPadding": [0, 0],
        "GroupCount": 1
      },
      "inputs": { "InputTensor": "input:image", "FilterTensor": "edges" }
    },
    "positive": {
      "type": "ACTIVATION_RELU",
      "desc": { "InputTensor": ${IMAGE} },
      "inputs": { "InputTensor": "filtered" }
    },
    "greatest": {
      "type": "MAX_POOLING",
      "desc": { ${WINDOW}, "StartPadding": [0, 0], "EndPadding": [0, 0] },
      "inputs": { "InputTensor": "positive" }
    },
    "average": {
      "type": "AVERAGE_POOLING",
      "desc": { ${WINDOW}, "StartPadding": [0, 0], "EndPadding": [0, 0], "IncludePadding": false },
      "inputs": { "InputTensor": "positive" }
    },
    "both": {
      "type": "JOIN",
      "desc": { "InputTensors": [${SMALL}, ${SMALL}], "Axis": 1 },
      "inputs": { "InputTensors": ["greatest", "average"] }
    },
    "mean": {
      "type": "REDUCE",
      "desc": { "Function": "AVERAGE", "InputTensor": ${SMALL}, "Axes": [2, 3] },
      "inputs": { "InputTensor": "average" }
    }
  },
  "outputs": { "pooled": "both", "mean": "mean" }
}
`;
