// Calls opwire from Go with the standard library alone: JSON, raw bytes, a batch, a graph, and errors.
//
// Usage: go run examples/go/requests.go
// OPWIRE_URL is the address of the server, http://127.0.0.1:8000 by default; OPWIRE_API_KEY is the API key, if any.
package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// object is a JSON object of a request.
type object = map[string]any

// tensor is a tensor of an answer: its desc, and its elements as JSON or the number of its bytes after the JSON.
type tensor struct {
	Desc struct {
		DataType string
		Sizes    []int
	} `json:"desc"`
	Data  json.RawMessage `json:"data"`
	Bytes int             `json:"binary_data_size"`
}

// answer is an answer to a request. One of a batch may also be a problem.
type answer struct {
	Outputs map[string]tensor `json:"outputs"`
	problem
}

// problem is what every error consists of, as in RFC 9457.
type problem struct {
	Status     int         `json:"status"`
	Code       string      `json:"code"`
	Detail     string      `json:"detail"`
	Violations []violation `json:"violations"`
}

type violation struct {
	Code          string `json:"code"`
	Pointer       string `json:"pointer"`
	Message       string `json:"message"`
	AvailableFrom string `json:"available_from"`
}

func (p *problem) Error() string {
	text := fmt.Sprintf("%d %s: %s", p.Status, p.Code, p.Detail)
	for _, v := range p.Violations {
		text += fmt.Sprintf("\n  %s: %s", v.Pointer, v.Message)
	}
	return text
}

// post sends a body and returns the header and the body of the response. A busy server says when to try again, and is
// asked again then.
func post(path string, body []byte, header http.Header) (http.Header, []byte, error) {
	server := os.Getenv("OPWIRE_URL")
	if server == "" {
		server = "http://127.0.0.1:8000"
	}
	if key := os.Getenv("OPWIRE_API_KEY"); key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
	for attempt := 1; ; attempt++ {
		request, err := http.NewRequest(http.MethodPost, server+path, bytes.NewReader(body))
		if err != nil {
			return nil, nil, err
		}
		request.Header = header
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return nil, nil, err
		}
		received, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			return nil, nil, err
		}
		if response.StatusCode == http.StatusOK {
			return response.Header, received, nil
		}
		wait, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		if wait == 0 || attempt == 5 {
			refused := &problem{}
			if err := json.Unmarshal(received, refused); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", response.Status, err)
			}
			return nil, nil, refused
		}
		time.Sleep(time.Duration(wait) * time.Second)
	}
}

// postJSON sends JSON and reads a JSON answer.
func postJSON(path string, request any, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	_, received, err := post(path, body, http.Header{"Content-Type": {"application/json"}})
	if err != nil {
		return err
	}
	return json.Unmarshal(received, answer)
}

// postBytes sends JSON with the bytes of the inputs after it; it returns the answer and the bytes of the outputs.
func postBytes(path string, request any, inputs []byte) (*answer, []byte, error) {
	head, err := json.Marshal(request)
	if err != nil {
		return nil, nil, err
	}
	header := http.Header{
		"Content-Type":                    {"application/octet-stream"},
		"Inference-Header-Content-Length": {strconv.Itoa(len(head))},
		"Accept":                          {"application/octet-stream"},
	}
	received, body, err := post(path, append(head, inputs...), header)
	if err != nil {
		return nil, nil, err
	}
	length, err := strconv.Atoi(received.Get("Inference-Header-Content-Length"))
	if err != nil {
		return nil, nil, err
	}
	found := &answer{}
	return found, body[length:], json.Unmarshal(body[:length], found)
}

// largestInRows asks for the position of the largest element in each row of a matrix.
func largestInRows(axis int) object {
	return object{
		"operator": object{
			"type": "ARGMAX",
			"desc": object{
				"InputTensor":   object{"DataType": "FLOAT32", "Sizes": []int{2, 3}},
				"Axes":          []int{axis},
				"AxisDirection": "INCREASING",
			},
		},
		"inputs":        object{"InputTensor": object{"data": [][]any{{1, 5, 2}, {9, "NaN", 3}}}},
		"output_format": "numbers",
	}
}

// flat shows the elements of a tensor without their nesting.
func flat(data json.RawMessage) string {
	text := strings.NewReplacer("[", " ", "]", " ", ",", " ", ".0", "").Replace(string(data))
	return strings.Join(strings.Fields(text), " ")
}

// 1. JSON: the elements are numbers, nested or not; NaN and the infinities are strings.
func withJSON() error {
	var found answer
	if err := postJSON("/v1/execute", largestInRows(1), &found); err != nil {
		return err
	}
	output := found.Outputs["OutputTensor"]
	var elements [][]uint32 // as deep as the tensor has dimensions
	if err := json.Unmarshal(output.Data, &elements); err != nil {
		return err
	}
	fmt.Printf("json: %s %dx%d: %d %d\n", output.Desc.DataType, len(elements), len(elements[0]), elements[0][0], elements[1][0])
	return nil
}

// 2. Raw bytes, little-endian: the fastest form. The tensors follow the JSON, one directly after another, in the order
// of "inputs". Nothing is aligned: here the scale begins at byte 5, and the outputs begin wherever the JSON ends.
// encoding/binary reads elements at any address; a cast of the pointer with unsafe would not.
func withBytes() error {
	quantized := []uint8{10, 13, 15, 0, 255}
	scale := []float32{0.5}
	zeroPoint := []uint8{10}
	one := func(dataType string) object { // one element, read five times
		return object{"DataType": dataType, "Sizes": []int{5}, "Strides": []int{0}}
	}
	inputs := new(bytes.Buffer)
	for _, elements := range []any{quantized, scale, zeroPoint} {
		if err := binary.Write(inputs, binary.LittleEndian, elements); err != nil {
			return err
		}
	}
	// A Go map is written in the order of its keys, and the bytes are in the same order. A struct would keep its own.
	request := object{
		"operator": object{
			"type": "ELEMENT_WISE_DEQUANTIZE_LINEAR",
			"desc": object{
				"InputTensor":     object{"DataType": "UINT8", "Sizes": []int{5}},
				"ScaleTensor":     one("FLOAT32"),
				"ZeroPointTensor": one("UINT8"),
			},
		},
		"inputs": object{
			"InputTensor":     object{"binary_data_size": binary.Size(quantized)},
			"ScaleTensor":     object{"binary_data_size": binary.Size(scale)},
			"ZeroPointTensor": object{"binary_data_size": binary.Size(zeroPoint)},
		},
	}
	found, tail, err := postBytes("/v1/execute", request, inputs.Bytes())
	if err != nil {
		return err
	}
	elements := make([]float32, found.Outputs["OutputTensor"].Bytes/4)
	if err := binary.Read(bytes.NewReader(tail), binary.LittleEndian, elements); err != nil {
		return err
	}
	fmt.Println("bytes:", strings.Trim(fmt.Sprint(elements), "[]"))
	return nil
}

// 3. A batch: several requests in one, each with its own outcome, in the same order. A wrong one does not stop others.
func withBatch() error {
	var found struct {
		Results []answer `json:"results"`
	}
	if err := postJSON("/v1/batch", object{"requests": []object{largestInRows(1), largestInRows(5)}}, &found); err != nil {
		return err
	}
	for _, result := range found.Results {
		if result.Outputs != nil {
			fmt.Println("batch:", flat(result.Outputs["OutputTensor"].Data))
		} else {
			fmt.Printf("batch: %d %s: %s\n", result.Status, result.Code, result.Violations[0].Message)
		}
	}
	return nil
}

// 4. A graph: relu(x * w + b) in one request. Sources are nodes by name, and inputs as input:NAME.
func withGraph() error {
	matrix := object{"DataType": "FLOAT32", "Sizes": []int{2, 2}}
	request := object{
		"graph": object{
			"nodes": object{
				"w": object{"constant": object{"data": [][]float32{{1, -1}, {2, -2}}}},
				"b": object{"constant": object{"data": [][]float32{{0.5, 0.5}, {0.5, 0.5}}}},
				"sums": object{
					"type": "GEMM",
					"desc": object{
						"ATensor": matrix, "BTensor": matrix, "CTensor": matrix,
						"TransA": "NONE", "TransB": "NONE", "Alpha": 1, "Beta": 1,
					},
					"inputs": object{"ATensor": "input:x", "BTensor": "w", "CTensor": "b"},
				},
				"relu": object{
					"type":   "ACTIVATION_RELU",
					"desc":   object{"InputTensor": matrix},
					"inputs": object{"InputTensor": "sums"},
				},
			},
			"outputs": object{"y": "relu"},
		},
		"inputs":        object{"x": object{"data": [][]float32{{1, 2}, {-3, -4}}}},
		"output_format": "numbers",
	}
	var found answer
	if err := postJSON("/v1/execute", request, &found); err != nil {
		return err
	}
	fmt.Println("graph:", flat(found.Outputs["y"].Data))
	return nil
}

// 5. Errors: every one has a status and a code; a violation also says where in the request it is, and which feature
// level accepts it.
func withErrors() error {
	request := object{
		"feature_level": "2_1",
		"operator": object{
			"type": "REDUCE",
			"desc": object{
				"Function":    "SUM",
				"InputTensor": object{"DataType": "INT64", "Sizes": []int{1, 1, 2, 3}},
				"Axes":        []int{3},
			},
		},
		"inputs": object{"InputTensor": object{"data": [][]int{{1, 2, 3}, {4, 5, 6}}}},
	}
	var found answer
	err := postJSON("/v1/execute", request, &found)
	var refused *problem
	if !errors.As(err, &refused) {
		return fmt.Errorf("expected to be refused: %w", err)
	}
	fmt.Printf("errors: %d %s\n", refused.Status, refused.Code)
	for _, v := range refused.Violations {
		fmt.Printf("errors: %s is accepted from %s on\n", v.Pointer, v.AvailableFrom)
	}
	return nil
}

func main() {
	for _, example := range []func() error{withJSON, withBytes, withBatch, withGraph, withErrors} {
		if err := example(); err != nil {
			log.Fatal(err)
		}
	}
}
