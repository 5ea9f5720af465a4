// A tile of products: matrices of sums, each of rows of the left operand and columns of the right one. With WINDOW the
// right operand is what a window sees of an input: its rows are channels and taps, its columns images and positions.
// LEFT, RIGHT, ADDEND and OUTPUT are the types of the tensors. FINISH says what becomes of a sum, and a generated
// function `activated` which activation follows. With HAS_ZEROS there are zero points, with HAS_SCALES sums are scaled.

const int ROUNDED = 0;    // it is rounded
const int ACTIVATED = 1;  // an activation of it is rounded
const int OPEN = 2;       // it stays a double
const int EXACT = 3;      // it is one of integers, which double holds

typedef LEFT Left;
typedef RIGHT Right;
typedef ADDEND Addend;
typedef OUTPUT Output;
#if HAS_SCALES
typedef SCALE Scale;
#endif

const u32 SPATIAL = 3;
const u32 WARP = 32;

// Steps in elements, from one to the next.
struct Steps {
    i64 outer, inner;  // matrices lie in two dimensions
    i64 line;          // a row, or a column
    i64 along;         // an element of the depth; of what lies like the sums, a column
};

// Numbers of which there is one, or one for each line.
struct Parameter {
    const void *at;  // or there is none
    i64 inner, line; // steps in elements
};

struct Window {
    i64 channel, image, space[SPATIAL];                  // steps of the input
    i64 base[SPATIAL], move[SPATIAL], turn[SPATIAL];     // position j meets by tap t element base + j * move + t * turn
    i64 weight_channel, weight[SPATIAL];                 // steps of the filter
    i64 target_image, target[SPATIAL];                   // steps of the output
    u32 size[SPATIAL], taps[SPATIAL], places[SPATIAL];
    u32 is_plain;                                        // whether taps and channels of the filter are neighbours
};

struct Task {
    const Left *left;      // where the tile begins
    const Right *right;
    const Addend *addend;  // or there is none
    Output *target;
    double *left_copy, *right_copy, *sums;
    double *row_bounds, *column_bounds;  // at first sums of squares, of slices of the depth one behind the other
    u32 *open;                           // how many sums bounds leave open, whether any is when they are summed again,
                                         // which, and rests of them, if in pieces
    i64 *limbs;                          // of those, if they are summed in several launches
    Left *left_turned;                   // copies whose lines lie along the depth, or there are none
    Right *right_turned;
    Steps left_steps, right_steps, addend_steps, target_steps;
    Parameter left_zero, right_zero;                // what is taken off operands
    Parameter left_scale, right_scale, scale, zero; // of rows, of columns, and those of the output
    double alpha, beta, error;
    double part;                         // of the bounds, if sums are summed again, or 0
    u32 matrices, rows, columns, depth;
    u32 matrix, inner;           // the first matrix, and how many there are along the inner dimension
    u32 first, count;            // of the depth, or of the open sums; of the blocks that certify, the first
    u32 left_pitch, right_pitch; // from a line of a copy to the next
    u32 share;                   // of the depth that a thread copies, or of the sums that it certifies
    u32 column;                  // the first one, where the operand begins before it
    u32 begin, length;           // of the depth, in exact sums
    u32 row_slices, column_slices;
    Window window;
};

static __device__ __forceinline__ i64 matrix_offset(const Task &task, const Steps &steps, u32 matrix) {
    u32 number = task.matrix + matrix, outer = number / task.inner;
    return outer * steps.outer + (number - outer * task.inner) * steps.inner;
}

// Where a sum of the tile lies.
struct Spot {
    u32 line, matrix, row, column, across;  // rows and columns of all matrices are counted in `line` and `across`

    __device__ __forceinline__ Spot() {}
    __device__ __forceinline__ Spot(const Task &task, u32 element) {
        line = element / task.columns;
        column = element - line * task.columns;
        matrix = line / task.rows;
        row = line - matrix * task.rows;
        across = matrix * task.columns + column;
    }
};

template <class T> static __device__ __forceinline__ double number_at(const T *at) { return (double)widen(*at); }

const u32 LANES = 4;  // neighbours that one load brings

template <u32 COUNT = LANES, class T> static __device__ __forceinline__ bool is_aligned(const T *at) {
    return (u64)at % sizeof(Pack<T, COUNT>) == 0;
}
template <u32 COUNT = LANES, class T> static __device__ __forceinline__ Pack<T, COUNT> load_pack(const T *at) {
    return *reinterpret_cast<const Pack<T, COUNT> *>(at);
}

template <class T>
static __device__ __forceinline__ double parameter_of(const Task &task, const Parameter &row, u32 matrix, u32 line) {
    u32 number = (task.matrix + matrix) % task.inner;
    return number_at((const T *)row.at + number * row.inner + line * row.line);
}

// Where a row of the right operand of a window lies: which channel, and which tap of each dimension.
struct Taps {
    u32 channel, tap[SPATIAL];

    __device__ __forceinline__ Taps(const Window &window, u32 along) {
#pragma unroll
        for (int i = SPATIAL - 1; i >= 0; --i) {
            u32 rest = along / window.taps[i];
            tap[i] = along - rest * window.taps[i];
            along = rest;
        }
        channel = along;
    }
    __device__ __forceinline__ void next(const Window &window) {
#pragma unroll
        for (int i = SPATIAL - 1; i >= 0; --i) {
            if (++tap[i] < window.taps[i]) return;
            tap[i] = 0;
        }
        channel += 1;
    }
    // As many rows on as there are before another one.
    __device__ __forceinline__ void advance(const Window &window, const Taps &by) {
        u32 carry = 0;
#pragma unroll
        for (int i = SPATIAL - 1; i >= 0; --i) {
            tap[i] += by.tap[i] + carry;
            carry = tap[i] >= window.taps[i];
            if (carry) tap[i] -= window.taps[i];
        }
        channel += by.channel + carry;
    }
};

// A row of the left operand.
struct LeftLine {
    const Left *begin;
    i64 step;
    double zero = 0;

    __device__ __forceinline__ LeftLine(const Task &task, u32 matrix, u32 row)
        : begin(task.left + matrix_offset(task, task.left_steps, matrix) + row * task.left_steps.line),
          step(task.left_steps.along) {
        if (HAS_ZEROS && task.left_zero.at) zero = parameter_of<Left>(task, task.left_zero, matrix, row);
    }
    __device__ __forceinline__ double number(const Left *at) const {
        return HAS_ZEROS ? number_at(at) - zero : number_at(at);
    }
    // Whether neighbours of the depth lie side by side.
    __device__ __forceinline__ bool is_straight(const Task &task) const {
        return step == 1 && (!WINDOW || task.window.is_plain);
    }
    __device__ __forceinline__ double at(const Task &task, u32 along) const {
        if (!WINDOW || task.window.is_plain) return number(begin + along * step);
        return at(task, Taps(task.window, along));
    }
    __device__ __forceinline__ double at(const Task &task, const Taps &taps) const {
        const Window &window = task.window;
        i64 offset = taps.channel * window.weight_channel;
#pragma unroll
        for (int i = 0; i < SPATIAL; ++i) offset += taps.tap[i] * window.weight[i];
        return number(begin + offset);
    }
};

#if WINDOW
// A column: an image and a position of each dimension.
struct Place {
    u32 image, position[SPATIAL];

    __device__ __forceinline__ Place(const Window &window, u32 column) {
#pragma unroll
        for (int i = SPATIAL - 1; i >= 0; --i) {
            u32 rest = column / window.places[i];
            position[i] = column - rest * window.places[i];
            column = rest;
        }
        image = column;
    }
};

// A column of the right operand. Outside of the input there is padding.
struct RightLine {
    const Right *begin;
    i64 spot[SPATIAL];
    double zero = 0;

    __device__ __forceinline__ RightLine(const Task &task, u32 matrix, u32 column) {
        const Window &window = task.window;
        Place place(window, task.column + column);
        begin = task.right + matrix_offset(task, task.right_steps, matrix) + place.image * window.image;
#pragma unroll
        for (int i = 0; i < SPATIAL; ++i) spot[i] = window.base[i] + place.position[i] * window.move[i];
        if (HAS_ZEROS && task.right_zero.at) zero = parameter_of<Right>(task, task.right_zero, matrix, 0);
    }
    __device__ __forceinline__ double number(const Right *at) const {
        return HAS_ZEROS ? number_at(at) - zero : number_at(at);
    }
    __device__ __forceinline__ const Right *find(const Task &task, const Taps &taps) const {
        const Window &window = task.window;
        i64 offset = taps.channel * window.channel;
        bool is_inside = true;
#pragma unroll
        for (int i = 0; i < SPATIAL; ++i) {
            i64 there = spot[i] + taps.tap[i] * window.turn[i];
            is_inside &= (u64)there < window.size[i];
            offset += there * window.space[i];
        }
        return is_inside ? begin + offset : nullptr;
    }
};

static __device__ __forceinline__ i64 target_offset(const Task &task, u32 matrix, u32 row, u32 column) {
    const Window &window = task.window;
    Place place(window, task.column + column);
    i64 offset = matrix_offset(task, task.target_steps, matrix) + row * task.target_steps.line;
    offset += place.image * window.target_image;
#pragma unroll
    for (int i = 0; i < SPATIAL; ++i) offset += place.position[i] * window.target[i];
    return offset;
}
#else
struct RightLine {
    const Right *begin;
    i64 step;
    double zero = 0;

    __device__ __forceinline__ RightLine(const Task &task, u32 matrix, u32 column)
        : begin(task.right + matrix_offset(task, task.right_steps, matrix) + column * task.right_steps.line),
          step(task.right_steps.along) {
        if (HAS_ZEROS && task.right_zero.at) zero = parameter_of<Right>(task, task.right_zero, matrix, column);
    }
    __device__ __forceinline__ double number(const Right *at) const {
        return HAS_ZEROS ? number_at(at) - zero : number_at(at);
    }
    __device__ __forceinline__ bool is_straight(const Task &) const { return step == 1; }
    __device__ __forceinline__ double at(const Task &, u32 along) const { return number(begin + along * step); }
};

static __device__ __forceinline__ i64 target_offset(const Task &task, u32 matrix, u32 row, u32 column) {
    const Steps &steps = task.target_steps;
    return matrix_offset(task, steps, matrix) + row * steps.line + column * steps.along;
}
#endif

// What a sum is multiplied by: alpha, or the scales of its row and its column, whose product is exact in double.
static __device__ __forceinline__ double factor_of(const Task &task, const Spot &spot) {
#if HAS_SCALES
    double left = parameter_of<Scale>(task, task.left_scale, spot.matrix, spot.row);
    return left * parameter_of<Scale>(task, task.right_scale, spot.matrix, spot.column);
#else
    return task.alpha;
#endif
}

// beta times the addend, which is exact in double.
static __device__ __forceinline__ double addend_of(const Task &task, u32 matrix, u32 row, u32 column) {
    const Steps &steps = task.addend_steps;
    const Addend *at = task.addend + matrix_offset(task, steps, matrix) + row * steps.line + column * steps.along;
    return task.beta * number_at(at);
}

#if FINISH != 3
// From a generated part: the activation that follows, if one does.
static __device__ double activated(double x);

// What a double becomes.
static __device__ __forceinline__ void finished(Output &into, double value) {
#if FINISH == 2
    into = value;
#else
    typedef Format<Output> F;
    if (FINISH == ACTIVATED) value = activated(value);
    into = value != value ? F::make(F::quiet_nan) : F::make(F::nearest(value));
#endif
}
#endif
