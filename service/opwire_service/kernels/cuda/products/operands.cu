// Operands of a tile of matrix products: sums over rows of the left operand and columns of the right one. With WINDOW
// the right operand is the im2col view of an input: its rows are channels and taps, its columns images and positions.
// LEFT, RIGHT, ADDEND and OUTPUT are the types of the tensors. FINISH selects what is done with a sum; the generated
// function `activated` applies the activation. HAS_ZEROS enables zero points, HAS_SCALES scales.

const int ROUNDED = 0;    // the sum is rounded
const int ACTIVATED = 1;  // the activation of the sum is rounded
const int UNROUNDED = 2;  // the sum stays a double
const int EXACT = 3;      // the sum is of integers, and a double holds it exactly

typedef LEFT Left;
typedef RIGHT Right;
typedef ADDEND Addend;
typedef OUTPUT Output;
#if HAS_SCALES
typedef LEFT_SCALE LeftScale;
typedef RIGHT_SCALE RightScale;
#endif

const u32 SPATIAL = 3;
const u32 WARP = 32;

// Strides in elements.
struct Steps {
    i64 outer, inner;  // matrices have two batch dimensions
    i64 line;          // of a row of the left operand, or a column of the right one
    i64 along;         // along the depth; for the addend and the target, of a column
};

// Numbers that are the same for all lines, or one for each.
struct Parameter {
    const void *at;  // or null
    i64 inner, line; // strides in elements
};

struct Window {
    i64 channel, image, space[SPATIAL];                  // strides of the input
    i64 base[SPATIAL], move[SPATIAL], turn[SPATIAL];     // tap t of position j reads element base + j * move + t * turn
    i64 weight_channel, weight[SPATIAL];                 // strides of the filter
    i64 target_image, target[SPATIAL];                   // strides of the output
    u32 size[SPATIAL], taps[SPATIAL], places[SPATIAL];
    u32 is_plain;                                        // whether the filter is contiguous over channels and taps
};

struct Task {
    const Left *left;      // where the tile begins
    const Right *right;
    const Addend *addend;  // or null
    Output *target;
    double *left_copy, *right_copy, *sums;
    double *row_bounds, *column_bounds;  // at first sums of squares, slice by slice of the depth
    u32 *undecided;                      // their count, whether any is still undecided after `sum_again`,
                                         // their indices, and their remainders if that takes several launches
    i64 *limbs;                          // of undecided sums, if they are summed in several launches
    Left *left_turned;                   // copies that are contiguous along the depth, or null
    Right *right_turned;
    Steps left_steps, right_steps, addend_steps, target_steps;
    Parameter left_zero, right_zero;                // zero points of the operands
    Parameter left_scale, right_scale, scale, zero; // of rows, of columns, and of the output
    double alpha, beta, error;
    double part;                         // fraction of the bounds that remains in `sum_again`, or 0
    u32 matrices, rows, columns, depth;
    u32 matrix, inner;           // the first matrix, and the size of the inner batch dimension
    u32 first, count;            // range of the depth or of undecided sums; for certifying, the first block
    u32 left_pitch, right_pitch; // between lines of a copy
    u32 share;                   // of the depth that a thread copies, or sums that a thread certifies
    u32 column;                  // first column of the tile within the operand
    u32 begin, length;           // range of the depth in exact sums
    u32 row_slices, column_slices;
    Window window;
    u32 left_is_copied, right_is_copied;  // for the host: whether they are in its scratch memory
};

static __device__ __forceinline__ i64 matrix_offset(const Task &task, const Steps &steps, u32 matrix) {
    u32 number = task.matrix + matrix, outer = number / task.inner;
    return outer * steps.outer + (number - outer * task.inner) * steps.inner;
}

// Coordinates of a sum within the tile.
struct Spot {
    u32 line, matrix, row, column, across;  // `line` and `across` number the rows and columns of all matrices

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

const u32 LANES = 4;  // elements per vector load

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

// The channel and taps of a row of the right operand of a window.
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
    // Moves on by the number of rows that precede the row `by`.
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
    // Whether the line is contiguous along the depth.
    __device__ __forceinline__ bool is_straight(const Task &task) const {
        return step == 1 && (!WINDOW || task.window.is_plain);
    }
    __device__ __forceinline__ double at(const Task &task, u32 along) const {
        if (!WINDOW || task.window.is_plain) return number(begin + along * step);
        return at(task, Taps(task.window, along));
    }
    __device__ __forceinline__ double at(const Task &task, const Taps &taps) const { return number(find(task, taps)); }
    __device__ __forceinline__ const Left *find(const Task &task, const Taps &taps) const {
        const Window &window = task.window;
        i64 offset = taps.channel * window.weight_channel;
#pragma unroll
        for (int i = 0; i < SPATIAL; ++i) offset += taps.tap[i] * window.weight[i];
        return begin + offset;
    }
};

#if WINDOW
// The image and positions of a column.
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

// A column of the right operand. Elements outside of the input are padding.
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

// The factor of a sum: alpha, or the product of its row's and column's scales, which is exact in double.
static __device__ __forceinline__ double factor_of(const Task &task, const Spot &spot) {
#if HAS_SCALES
    double left = parameter_of<LeftScale>(task, task.left_scale, spot.matrix, spot.row);
    return left * parameter_of<RightScale>(task, task.right_scale, spot.matrix, spot.column);
#else
    return task.alpha;
#endif
}

// beta times the addend; the product is exact in double.
static __device__ __forceinline__ double addend_of(const Task &task, u32 matrix, u32 row, u32 column) {
    const Steps &steps = task.addend_steps;
    const Addend *at = task.addend + matrix_offset(task, steps, matrix) + row * steps.line + column * steps.along;
    return task.beta * number_at(at);
}

#if FINISH != 3
// The fused activation, if any; its definition is generated.
static __device__ double activated(double x);

// Converts a double to the output, with the activation applied.
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
