// What the states of rows may know of the whole job. ELEMENT names the type of all tensors.

typedef ELEMENT Element;

const bool HALF = sizeof(Element) == 2;

// What is kept of a term: a float is as good where results are FLOAT16.
template <bool IS_HALF> struct KeptOf { typedef double Type; };
template <> struct KeptOf<true> { typedef float Type; };
typedef KeptOf<HALF>::Type Kept;

// How tensors beside the input are walked.
const int NOTHING = 0;  // there is no such tensor
const int SAME = 1;     // LANES neighbours have the same
const int DENSE = 2;    // LANES neighbours lie side by side
const int GATHER = 3;   // anyhow

struct Numbers {
    double epsilon;
    double depth;    // additions that an element takes part in, at most
    double inverse;  // of `count`
    u32 count;       // elements of a row
    u32 unused;
};

// Two sums of what functions add up of the elements of a row.
struct Sums {
    double first, second;
};

// What beside its row an element meets.
struct Beside {
    float scale, bias, added;
};

// Asks whether each of some neighbours is certain, without branches if they are: the bits of those that are not.
template <int COUNT, class Tell> static __device__ __forceinline__ u32 open_of(Tell tell) {
    bool is_certain[COUNT], are_certain = true;
#pragma unroll
    for (int k = 0; k < COUNT; ++k) are_certain &= is_certain[k] = tell(k);
    u32 open = 0;
    if (!are_certain) {
#pragma unroll
        for (int k = 0; k < COUNT; ++k) open |= (u32)!is_certain[k] << k;
    }
    return open;
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
