// Max pooling over two dimensions with a small compile-time window, for contiguous rows. A thread computes WIDE results
// of TALL rows; it reads each row of the input once and keeps the maxima of its segments.

const int STRIP_THREADS = 128;
const int WIDE_IN = WIDE * STRIDE_X;                               // columns that belong to a thread
const int READ_X = (WIDE - 1) * STRIDE_X + (WINDOW_X - 1) * DILATION_X + 1;  // columns that it reads
const int READ_Y = (TALL - 1) * STRIDE_Y + (WINDOW_Y - 1) * DILATION_Y + 1;

struct Strips {
    Pooling pooling;
    u32 across, down;  // strips per plane
};

// Padding never wins: it is NaN, or the lowest integer. If such a value is the result, the window is computed
// separately.
static __device__ __forceinline__ float padding(float) { return __uint_as_float(0x7fc00000u); }
template <class W> static __device__ __forceinline__ W padding(W) { return Bounds<W>::lowest(); }
static __device__ __forceinline__ bool is_undecided(float x) { return x != x; }
template <class W> static __device__ __forceinline__ bool is_undecided(W x) { return INDICES && x == Bounds<W>::lowest(); }
// Whether an element wins over an earlier one.
static __device__ __forceinline__ bool wins(float x, float best) { return !(x <= best) && x == x; }
template <class W> static __device__ __forceinline__ bool wins(W x, W best) { return x > best; }

struct Winner {
    Wide value;
    u32 position;
    __device__ __forceinline__ void challenge(Wide x, u32 at) {
        bool won = wins(x, value);
        value = won ? x : value;
        if (INDICES) position = won ? at : position;
    }
};

// Reads the strip's segment of a row, with padding outside of the row.
static __device__ __forceinline__ void read(Wide (&piece)[READ_X], const Input *row, bool inside, u32 begin, u32 width) {
    typedef Pack<Input, PACK> Lanes;
    Lanes lanes[WIDE_IN / PACK];
#pragma unroll
    for (int k = 0; k < WIDE_IN / PACK; ++k)
        if (PACK > 1 && inside && begin + k * PACK < width)
            lanes[k] = *reinterpret_cast<const Lanes *>(row + begin + k * PACK);
#pragma unroll
    for (int i = 0; i < READ_X; ++i) {
        int own = i - START_X;
        u32 at = begin + own;
        bool present = inside && at < width;
        if (PACK > 1 && own >= 0 && own < WIDE_IN)
            piece[i] = present ? widen(lanes[own / PACK].lane[own % PACK]) : padding(Wide());
        else
            piece[i] = present ? widen(row[at]) : padding(Wide());
    }
}

extern "C" __global__ void __launch_bounds__(STRIP_THREADS) pool_strips(const __grid_constant__ Strips strips) {
    const Pooling &pooling = strips.pooling;
    u32 planes = pooling.size[0] * pooling.size[1], height = pooling.dimension[0].size, width = pooling.dimension[1].size;
    u64 strip = (u64)blockIdx.x * STRIP_THREADS + threadIdx.x;
    if (strip >= (u64)strips.across * strips.down * planes) return;
    u32 left = (u32)(strip % strips.across) * WIDE;
    u64 outer = strip / strips.across;
    u32 top = (u32)(outer % strips.down) * TALL, plane = (u32)(outer / strips.down);
    u32 n = plane / pooling.size[1], c = plane % pooling.size[1];
    const Input *source = pooling.source + (n * pooling.source_step[0] + c * pooling.source_step[1]);
    u32 first_y = top * STRIDE_Y - START_Y, first_x = left * STRIDE_X, position = plane * height * width;
    Winner best[TALL][WIDE];
#pragma unroll
    for (int r = 0; r < READ_Y; ++r) {
        u32 y = first_y + r;
        Wide piece[READ_X];
        read(piece, source + (y < height ? y * pooling.source_step[2] : 0), y < height, first_x, width);
        u32 row_position = position + y * width + first_x - START_X;
        Winner row[WIDE];
#pragma unroll
        for (int i = 0; i < WIDE; ++i) {
            row[i].value = piece[i * STRIDE_X];
            row[i].position = row_position + i * STRIDE_X;
#pragma unroll
            for (int k = 1; k < WINDOW_X; ++k)
                row[i].challenge(piece[i * STRIDE_X + k * DILATION_X], row_position + i * STRIDE_X + k * DILATION_X);
        }
#pragma unroll
        for (int o = 0; o < TALL; ++o) {
            const int offset = r - o * STRIDE_Y;
            if (offset < 0 || offset % DILATION_Y || offset / DILATION_Y >= WINDOW_Y) continue;
#pragma unroll
            for (int i = 0; i < WIDE; ++i) {
                if (offset == 0) best[o][i] = row[i];
                else best[o][i].challenge(row[i].value, row[i].position);
            }
        }
    }
    u32 target = n * pooling.target_step[0] + c * pooling.target_step[1];
    u32 positions = n * pooling.position_step[0] + c * pooling.position_step[1];
    bool whole = STORE > 1 && left + WIDE <= pooling.size[3];
#pragma unroll
    for (int o = 0; o < TALL; ++o) {
        if (top + o >= pooling.size[2]) break;
        bool undecided = false;
#pragma unroll
        for (int i = 0; i < WIDE; ++i) undecided = undecided || is_undecided(best[o][i].value);
        Input *values = pooling.target + target + (top + o) * pooling.target_step[2] + left;
        Position *places = pooling.positions + positions + (top + o) * pooling.position_step[2] + left;
        if (undecided) {
            for (u32 x = left; x < pooling.size[3] && x < left + WIDE; ++x) {
                Window window = window_at(pooling, (plane * pooling.size[2] + top + o) * pooling.size[3] + x);
                store(pooling, window, winner(pooling, window, 0, 1));
            }
        } else if (whole) {
            Pack<Input, WIDE> out;
            Pack<Position, WIDE> out_places;
#pragma unroll
            for (int i = 0; i < WIDE; ++i) {
                narrow(out.lane[i], started(best[o][i].value));
                out_places.lane[i] = best[o][i].position;
            }
            *reinterpret_cast<Pack<Input, WIDE> *>(values) = out;
            if (INDICES) *reinterpret_cast<Pack<Position, WIDE> *>(places) = out_places;
        } else {
#pragma unroll
            for (int i = 0; i < WIDE; ++i) {
                if (left + i >= pooling.size[3]) break;
                narrow(values[i], started(best[o][i].value));
                if (INDICES) places[i] = best[o][i].position;
            }
        }
    }
}
