// Parameters that are the same for all rows. ELEMENT is the type of all tensors.

typedef ELEMENT Element;

const bool HALF = sizeof(Element) == 2;

// Type of a kept term: a float is accurate enough where results are FLOAT16.
#if PAIRS
template <bool IS_HALF> struct KeptOf { typedef Pair Type; };
#else
template <bool IS_HALF> struct KeptOf { typedef double Type; };
#endif
template <> struct KeptOf<true> { typedef float Type; };
typedef KeptOf<HALF>::Type Kept;

// Walks of the tensors other than the input.
const int NOTHING = 0;  // there is no such tensor
const int SAME = 1;     // LANES elements of a row read the same one
const int DENSE = 2;    // LANES elements of a row are contiguous
const int GATHER = 3;   // any strides

struct Numbers {
    double epsilon;
    double depth;    // maximum additions that an element takes part in
    double inverse;  // 1 / `count`
    u32 count;       // elements per row
    float single_epsilon;
    // Errors of sums of elements and of squares in floats, relative to what `moments_pairs` says.
    float grain, grain_of_squares;
};

// Two sums over the elements of a row.
struct Sums {
    double first, second;
};

// The elements of the other tensors that belong to an element.
struct Beside {
    float scale, bias, added;
};

// Returns the bits of the elements that `settled` reports as undecided, without branches if all are settled.
template <int COUNT, class Settled> static __device__ __forceinline__ u32 undecided_of(Settled settled) {
    bool is_settled[COUNT], are_settled = true;
#pragma unroll
    for (int k = 0; k < COUNT; ++k) are_settled &= is_settled[k] = settled(k);
    u32 undecided = 0;
    if (!are_settled) {
#pragma unroll
        for (int k = 0; k < COUNT; ++k) undecided |= (u32)!is_settled[k] << k;
    }
    return undecided;
}

static __device__ __forceinline__ double two_sum(double a, double b, double &error) {
    double sum = a + b;
    double other = sum - a;
    error = (a - (sum - other)) + (b - other);
    return sum;
}

static __device__ __forceinline__ Element nearest(double x) {
    typedef Format<Element> F;
    return F::make(F::nearest(x));
}
