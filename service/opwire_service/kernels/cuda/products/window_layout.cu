// Convolutions by remainders: filters and images are scaled to integers, each filter and each image by a power of two,
// and their remainders multiplied exactly on tensor cores. A kernel computes its sums modulo each of the small numbers in
// turn, adds the remainders up as the Chinese remainder theorem has it, and certifies the results.

const u32 PART = 64;   // channels that are consecutive before the next tap follows
const u32 CHUNK = 16;  // bytes per copy; channels are padded to whole chunks
const u32 STEP = 64;   // bytes of depth per step of a product

static __device__ __forceinline__ u32 rounded_up(u32 number, u32 unit) { return (number + unit - 1) / unit * unit; }

// The layout of the remainders. Images are boxes of what the windows reach, with padding: of each pixel, its channels.
// The depth of filters has the channels in parts, and within a part, tap after tap.
struct Layout {
    i64 begin[SPATIAL];  // of the box, in the input
    u32 size[SPATIAL], pixels, channels, padded, taps, images, first_image, steps;

    __device__ __forceinline__ Layout(const Task &task) {
        const Window &window = task.window;
        pixels = taps = 1;
        u32 places = 1;
#pragma unroll
        for (u32 i = 0; i < SPATIAL; ++i) {
            i64 reach = (i64)(window.taps[i] - 1) * window.turn[i], way = (i64)(window.places[i] - 1) * window.move[i];
            begin[i] = window.base[i] + min(reach, 0ll) + min(way, 0ll);
            size[i] = (u32)(abs(reach) + abs(way)) + 1;
            pixels *= size[i];
            taps *= window.taps[i];
            places *= window.places[i];
        }
        channels = task.depth / taps;
        padded = rounded_up(channels, CHUNK);
        images = task.columns / places;
        first_image = task.column / places;
        steps = rounded_up(padded * taps, STEP) / STEP;
    }
    __device__ __forceinline__ u64 left_plane(const Task &task) const {
        return (u64)task.matrices * task.rows * steps * STEP;
    }
    __device__ __forceinline__ u64 right_plane(const Task &task) const {
        return (u64)task.matrices * images * pixels * padded;
    }
    // The tap and the channel at some depth; false for the padding behind the last.
    __device__ __forceinline__ bool find(u32 along, u32 &tap, u32 &channel) const {
        if (along >= padded * taps) return false;
        u32 first = along / (PART * taps) * PART, rest = along - first * taps, width = min(PART, padded - first);
        tap = rest / width;
        channel = first + rest - tap * width;
        return true;
    }
    // The distance of a tap's pixel from that of the window's base.
    __device__ __forceinline__ i32 reach(const Window &window, u32 tap) const {
        Taps at(window, tap);
        i64 distance = 0;
#pragma unroll
        for (u32 i = 0; i < SPATIAL; ++i) distance = distance * size[i] + at.tap[i] * window.turn[i];
        return (i32)distance;
    }
    // The pixel of a window's base, in the images of all matrices.
    __device__ __forceinline__ u32 pixel(const Task &task, u32 matrix, const Place &place) const {
        u32 number = matrix * images + place.image - first_image;
#pragma unroll
        for (u32 i = 0; i < SPATIAL; ++i)
            number = number * size[i] + (u32)(task.window.base[i] + place.position[i] * task.window.move[i] - begin[i]);
        return number;
    }
};

// What is measured of images: of each pixel the sum of squares of its channels and of their rests, the greatest of the
// former in each of `share` groups of pixels, and the factors that take the integers back.
struct Measures {
    double *squares, *rests, *greatest, *backs;

    __device__ __forceinline__ Measures(const Task &task, const Layout &layout) {
        u32 lines = task.matrices * layout.images;
        squares = task.sums;
        rests = squares + (u64)lines * layout.pixels;
        greatest = rests + (u64)lines * layout.pixels;
        backs = greatest + (u64)lines * task.share;
    }
};

