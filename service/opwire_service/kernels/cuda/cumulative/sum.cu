// Running sums of floats, as those of reductions.

struct Running : Accumulator {
    __device__ __forceinline__ void take(Input x) {
        float wide = widen(x);
        greatest = fmaxf(greatest, fabsf(wide));
        add_term(wide);
    }
    // False if it is open.
    __device__ __forceinline__ bool result(Output &to, const Terms &terms) const {
        bool certain = true;
        if (low == 0 && inexact == 0)
            to = Format<Output>::make(Format<Output>::nearest(high));
        else
            certain = finish(to, Input(), terms);
        // A sum that starts at 0 is never -0.
        if (EXCLUSIVE && widen(to) == 0) to = Format<Output>::make(0);
        return certain;
    }
};
