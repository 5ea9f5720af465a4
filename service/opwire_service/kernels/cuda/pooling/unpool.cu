// MAX_UNPOOLING: scatters elements by index, with zeros elsewhere; the last element with an index wins.

const u32 THREADS = 256;

typedef ELEMENT Element;
typedef INDEX Index;

struct Task {
    const Element *source;
    const Index *indices;
    Element *target;
    u32 *owner;  // per row-major output element: 1 + the number of the last input element that goes there, or 0
    u32 first, count;
    u32 elements;  // of the output
    u32 unused;
    Nest from;  // over the input: source and indices
    Nest to;    // over the output: the target
};

extern "C" __global__ void __launch_bounds__(THREADS) find_owners(const __grid_constant__ Task task) {
    u64 number = (u64)blockIdx.x * THREADS + threadIdx.x;
    if (number >= task.count) return;
    u32 element = task.first + (u32)number;
    Offsets at = {};
    go_to(task.from, element, at);
    Index index = task.indices[at.of[1]];
    if (index < task.elements) atomicMax(task.owner + index, element + 1);
}

extern "C" __global__ void __launch_bounds__(THREADS) put_elements(const __grid_constant__ Task task) {
    u64 number = (u64)blockIdx.x * THREADS + threadIdx.x;
    if (number >= task.count) return;
    u32 element = task.first + (u32)number, owner = task.owner[element];
    Offsets to = {}, from = {};
    go_to(task.to, element, to);
    if (owner) go_to(task.from, owner - 1, from);
    task.target[to.of[0]] = owner ? task.source[from.of[0]] : 0;
}
