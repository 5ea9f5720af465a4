// What chunks publish for later ones: first their own total, then in its place the total up to their end. See Merrill and
// Garland, "Single-pass parallel prefix scan with decoupled look-back".

// Some words of a total and its mark. Packets are scalars in memory, not vectors, whose loads the compiler may split, so
// that nobody sees the words of one total with the mark of another.
struct Packet {
    static const u32 COUNT = Words<Running>::COUNT == 1 ? 1 : 3, BYTES = 4 * (COUNT + 1);
    u32 word[COUNT], mark;

    __device__ __forceinline__ void load(const void *from) {
        u64 low, high;
        if (COUNT == 1) {
            asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(high) : "l"(from));
        } else {
            asm volatile("{ .reg .b128 all; ld.relaxed.gpu.global.b128 all, [%2]; mov.b128 {%0, %1}, all; }"
                         : "=l"(low), "=l"(high)
                         : "l"(from));
            word[0] = (u32)low;
            word[COUNT / 2] = (u32)(low >> 32);
        }
        word[COUNT - 1] = (u32)high;
        mark = (u32)(high >> 32);
    }
    __device__ __forceinline__ void store(void *to) const {
        const u64 low = (u64)word[COUNT / 2] << 32 | word[0], high = (u64)mark << 32 | word[COUNT - 1];
        if (COUNT == 1)
            asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" : : "l"(to), "l"(high));
        else
            asm volatile("{ .reg .b128 all; mov.b128 all, {%1, %2}; st.relaxed.gpu.global.b128 [%0], all; }"
                         :
                         : "l"(to), "l"(low), "l"(high));
    }
};

// The totals of all chunks, in memory.
struct ChunkStates {
    static const u32 AGGREGATE = 1, PREFIX = 2;  // marks
    static const u32 PACKETS = (Words<Running>::COUNT + Packet::COUNT - 1) / Packet::COUNT;
    unsigned char *first;

    __device__ __forceinline__ ChunkStates(const Lines &all) : first(reinterpret_cast<unsigned char *>(all.states + 2)) {}
    __device__ __forceinline__ unsigned char *at(u32 chunk, u32 packet) const {
        return first + (u64)(chunk * PACKETS + packet) * Packet::BYTES;
    }
    __device__ __forceinline__ void publish(u32 chunk, const Running &total, u32 mark) const {
        Words<Running> words;
        words.whole = total;
#pragma unroll
        for (u32 p = 0; p < PACKETS; ++p) {
            Packet packet = {{}, mark};
#pragma unroll
            for (u32 i = 0; i < Packet::COUNT && p * Packet::COUNT + i < Words<Running>::COUNT; ++i)
                packet.word[i] = words.word[p * Packet::COUNT + i];
            packet.store(at(chunk, p));
        }
    }
    // Reads a total. Returns its mark, or 0 if it is not there or just being replaced.
    __device__ __forceinline__ u32 read(u32 chunk, Running &total) const {
        Words<Running> words;
        u32 mark = AGGREGATE | PREFIX;
#pragma unroll
        for (u32 p = 0; p < PACKETS; ++p) {
            Packet packet;
            packet.load(at(chunk, p));
#pragma unroll
            for (u32 i = 0; i < Packet::COUNT && p * Packet::COUNT + i < Words<Running>::COUNT; ++i)
                words.word[p * Packet::COUNT + i] = packet.word[i];
            mark &= packet.mark;
        }
        total = words.whole;
        return mark;
    }
};
