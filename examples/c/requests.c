/* Calls opwire from C: JSON, raw bytes, a batch, a graph, and errors.
 *
 * Usage: cc examples/c/requests.c -o requests && ./requests
 * OPWIRE_URL is the address of the server, http://127.0.0.1:8000 by default; OPWIRE_API_KEY is the API key, if any.
 *
 * It needs only POSIX. A real program would use libcurl (with TLS and connections that stay open) and a JSON library
 * such as cJSON, in the places that say so.
 */

#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define JSON "Content-Type: application/json\r\n"

/* A response: one block of memory, in which the head and the body are found. */
typedef struct {
    char *memory;
    int status;
    const char *head; /* the header lines, up to an empty one */
    char *body;       /* ends with a zero byte */
    size_t size;      /* bytes of the body */
} response;

static void fail(const char *what) {
    fprintf(stderr, "requests: %s%s%s\n", what, errno ? ": " : "", errno ? strerror(errno) : "");
    exit(1);
}

static const char *setting(const char *name, const char *otherwise) {
    const char *found = getenv(name);
    return found && *found ? found : otherwise;
}

static int connected(void) {
    char host[256], port[6] = "80";
    const char *url = setting("OPWIRE_URL", "http://127.0.0.1:8000");
    if (sscanf(url, "http://%255[^:/]:%5[0-9]", host, port) < 1) fail("OPWIRE_URL is not as http://HOST:PORT");
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    if (getaddrinfo(host, port, &hints, &found)) fail("there is no such host");
    int server = socket(found->ai_family, found->ai_socktype, found->ai_protocol);
    if (server < 0 || connect(server, found->ai_addr, found->ai_addrlen)) fail(url);
    freeaddrinfo(found);
    return server;
}

static void send_all(int server, const void *bytes, size_t size) {
    for (const char *at = bytes; size;) {
        ssize_t sent = send(server, at, size, 0);
        if (sent < 0) fail("send");
        at += sent;
        size -= (size_t)sent;
    }
}

/* Reads until the server closes the connection, which it does after one response to HTTP/1.0. */
static response receive_all(int server) {
    size_t room = 1 << 16, size = 0;
    char *memory = malloc(room + 1);
    for (ssize_t got; memory && (got = recv(server, memory + size, room - size, 0)) != 0; size += (size_t)got) {
        if (got < 0) fail("recv");
        if (size + (size_t)got == room) memory = realloc(memory, (room *= 2) + 1);
    }
    if (!memory) fail("memory");
    memory[size] = 0;
    response found = {.memory = memory, .head = memory};
    found.body = strstr(memory, "\r\n\r\n");
    if (!found.body || sscanf(memory, "HTTP/1.%*d %d", &found.status) != 1) fail("the response is not HTTP");
    found.body += 4;
    found.size = size - (size_t)(found.body - memory);
    return found;
}

/* Returns the number in a header line, or 0 if there is none. */
static long header(const response *from, const char *name) {
    size_t length = strlen(name);
    for (const char *line = from->head; line + 2 < from->body; line = strstr(line, "\r\n") + 2)
        if (!strncasecmp(line, name, length) && line[length] == ':') return atol(line + length + 1);
    return 0;
}

/* Sends JSON with further bytes after it, and returns the response. A busy server says when to try again, and is asked
 * again then. libcurl would do this with CURLOPT_POSTFIELDS and CURLOPT_HTTPHEADER. */
static response post(const char *path, const char *headers, const char *json, const void *tail, size_t tail_size) {
    const char *key = setting("OPWIRE_API_KEY", "");
    for (int attempt = 1;; attempt++) {
        char head[1024];
        int length = snprintf(head, sizeof head, "POST %s HTTP/1.0\r\nContent-Length: %zu\r\n%s%s%s%s\r\n", path,
                              strlen(json) + tail_size, headers, *key ? "Authorization: Bearer " : "", key,
                              *key ? "\r\n" : "");
        if (length >= (int)sizeof head) fail("the API key is too long");
        int server = connected();
        send_all(server, head, (size_t)length);
        send_all(server, json, strlen(json));
        send_all(server, tail, tail_size);
        response found = receive_all(server);
        close(server);
        long wait = header(&found, "Retry-After");
        if (found.status == 200 || !wait || attempt == 5) return found;
        free(found.memory);
        sleep((unsigned)wait);
    }
}

/* Returns the value of the next member with a name in a JSON text, or NULL. A JSON library would not be fooled by the
 * same words inside of a string. */
static const char *member(const char *text, const char *name) {
    char quoted[64];
    int length = snprintf(quoted, sizeof quoted, "\"%s\":", name);
    const char *found = text ? strstr(text, quoted) : NULL;
    return found ? found + length : NULL;
}

/* Prints a JSON string, without its quotes. */
static void print_string(const char *value) {
    if (*value == '"') printf("%.*s", (int)strcspn(value + 1, "\""), value + 1);
}

/* Prints the numbers of a JSON list, without its nesting. */
static void print_numbers(const char *list) {
    int depth = 0;
    do {
        char *after;
        double number = strtod(list, &after);
        if (after != list) {
            printf(" %g", number);
            list = after;
        } else {
            depth += (*list == '[') - (*list == ']');
            list++;
        }
    } while (depth > 0 && *list);
}

static void check(const response *found) {
    if (found->status == 200) return;
    fprintf(stderr, "refused: %s\n", found->body);
    exit(1);
}

/* The position of the largest element in each row of a matrix, along the axis that is filled in. */
#define LARGEST_IN_ROWS                                                                                              \
    "{\"operator\": {\"type\": \"ARGMAX\", \"desc\": {"                                                              \
    "  \"InputTensor\": {\"DataType\": \"FLOAT32\", \"Sizes\": [2, 3]},"                                             \
    "  \"Axes\": [%d], \"AxisDirection\": \"INCREASING\"}},"                                                         \
    " \"inputs\": {\"InputTensor\": {\"data\": [[1, 5, 2], [9, \"NaN\", 3]]}}, \"output_format\": \"numbers\"}"

/* 1. JSON: the elements are numbers, nested or not; NaN and the infinities are strings. */
static void with_json(void) {
    char json[1024];
    snprintf(json, sizeof json, LARGEST_IN_ROWS, 1);
    response found = post("/v1/execute", JSON, json, NULL, 0);
    check(&found);
    const char *output = member(found.body, "OutputTensor");
    long rows, columns;
    sscanf(member(output, "Sizes"), "[%ld,%ld]", &rows, &columns);
    printf("json: ");
    print_string(member(output, "DataType"));
    printf(" %ldx%ld:", rows, columns);
    print_numbers(member(output, "data"));
    printf("\n");
    free(found.memory);
}

/* 2. Raw bytes, little-endian: the fastest form. The tensors follow the JSON, one directly after another, in the order
 * of "inputs". Nothing is aligned: here the scale begins at byte 5, and the outputs begin wherever the JSON ends.
 * memcpy reads and writes floats at any address; a cast of the pointer would not. */
static void with_bytes(void) {
    const unsigned char quantized[5] = {10, 13, 15, 0, 255}, zero_point = 10;
    const float scale = 0.5f;
    unsigned char inputs[sizeof quantized + sizeof scale + sizeof zero_point];
    memcpy(inputs, quantized, sizeof quantized);
    memcpy(inputs + sizeof quantized, &scale, sizeof scale);
    memcpy(inputs + sizeof quantized + sizeof scale, &zero_point, sizeof zero_point);
    const char *json = /* with stride 0, one element is read five times */
        "{\"operator\": {\"type\": \"ELEMENT_WISE_DEQUANTIZE_LINEAR\", \"desc\": {"
        "  \"InputTensor\": {\"DataType\": \"UINT8\", \"Sizes\": [5]},"
        "  \"ScaleTensor\": {\"DataType\": \"FLOAT32\", \"Sizes\": [5], \"Strides\": [0]},"
        "  \"ZeroPointTensor\": {\"DataType\": \"UINT8\", \"Sizes\": [5], \"Strides\": [0]}}},"
        " \"inputs\": {\"InputTensor\": {\"binary_data_size\": 5}, \"ScaleTensor\": {\"binary_data_size\": 4},"
        "              \"ZeroPointTensor\": {\"binary_data_size\": 1}}}";
    char headers[256];
    snprintf(headers, sizeof headers,
             "Content-Type: application/octet-stream\r\nAccept: application/octet-stream\r\n"
             "Inference-Header-Content-Length: %zu\r\n",
             strlen(json));
    response found = post("/v1/execute", headers, json, inputs, sizeof inputs);
    check(&found);
    float output[5];
    size_t length = (size_t)header(&found, "Inference-Header-Content-Length");
    if (found.size != length + sizeof output) fail("unexpected number of bytes");
    memcpy(output, found.body + length, sizeof output);
    printf("bytes: %g %g %g %g %g\n", output[0], output[1], output[2], output[3], output[4]);
    free(found.memory);
}

/* 3. A batch: several requests in one, each with its own outcome, in the same order. A wrong one does not stop others. */
static void with_batch(void) {
    char json[2048];
    snprintf(json, sizeof json, "{\"requests\": [" LARGEST_IN_ROWS ", " LARGEST_IN_ROWS "]}", 1, 5);
    response found = post("/v1/batch", JSON, json, NULL, 0);
    check(&found);
    printf("batch:");
    print_numbers(member(member(found.body, "OutputTensor"), "data"));
    const char *problem = member(found.body, "title"); /* only a problem has one */
    printf("\nbatch: %ld ", atol(member(problem, "status")));
    print_string(member(problem, "code"));
    printf(": ");
    print_string(member(problem, "message"));
    printf("\n");
    free(found.memory);
}

/* 4. A graph: relu(x * w + b) in one request. Sources are nodes by name, and inputs as input:NAME. */
static void with_graph(void) {
#define MATRIX "{\"DataType\": \"FLOAT32\", \"Sizes\": [2, 2]}"
    const char *json =
        "{\"graph\": {\"nodes\": {"
        "   \"w\": {\"constant\": {\"data\": [[1, -1], [2, -2]]}},"
        "   \"b\": {\"constant\": {\"data\": [[0.5, 0.5], [0.5, 0.5]]}},"
        "   \"sums\": {\"type\": \"GEMM\", \"desc\": {"
        "      \"ATensor\": " MATRIX ", \"BTensor\": " MATRIX ", \"CTensor\": " MATRIX ","
        "      \"TransA\": \"NONE\", \"TransB\": \"NONE\", \"Alpha\": 1, \"Beta\": 1},"
        "    \"inputs\": {\"ATensor\": \"input:x\", \"BTensor\": \"w\", \"CTensor\": \"b\"}},"
        "   \"relu\": {\"type\": \"ACTIVATION_RELU\", \"desc\": {\"InputTensor\": " MATRIX "},"
        "    \"inputs\": {\"InputTensor\": \"sums\"}}},"
        "  \"outputs\": {\"y\": \"relu\"}},"
        " \"inputs\": {\"x\": {\"data\": [[1, 2], [-3, -4]]}}, \"output_format\": \"numbers\"}";
    response found = post("/v1/execute", JSON, json, NULL, 0);
    check(&found);
    printf("graph:");
    print_numbers(member(member(found.body, "y"), "data"));
    printf("\n");
    free(found.memory);
}

/* 5. Errors: every one has a status and a code; a violation also says where in the request it is, and which feature
 * level accepts it. */
static void with_errors(void) {
    const char *json =
        "{\"feature_level\": \"2_1\", \"operator\": {\"type\": \"REDUCE\", \"desc\": {\"Function\": \"SUM\","
        "  \"InputTensor\": {\"DataType\": \"INT64\", \"Sizes\": [1, 1, 2, 3]}, \"Axes\": [3]}},"
        " \"inputs\": {\"InputTensor\": {\"data\": [[1, 2, 3], [4, 5, 6]]}}}";
    response found = post("/v1/execute", JSON, json, NULL, 0);
    printf("errors: %d ", found.status);
    print_string(member(found.body, "code"));
    printf("\n");
    for (const char *at = found.body; (at = member(at, "pointer")) && member(at, "available_from");) {
        printf("errors: ");
        print_string(at);
        printf(" is accepted from ");
        print_string(member(at, "available_from"));
        printf(" on\n");
    }
    free(found.memory);
}

int main(void) {
    with_json();
    with_bytes();
    with_batch();
    with_graph();
    with_errors();
    return 0;
}
