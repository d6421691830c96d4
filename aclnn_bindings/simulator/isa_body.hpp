// Body of the inner loops, in compiler vectors of GMMFR_LANES floats. Included once for each instruction set,
// inside a namespace of its own and with that set switched on: it uses nothing of the standard library, so that
// no shared inline function is ever compiled for a set that the machine may lack.

typedef float Floats __attribute__((vector_size(4 * GMMFR_LANES)));
typedef uint32_t Words __attribute__((vector_size(4 * GMMFR_LANES)));
typedef uint8_t Bytes __attribute__((vector_size(16)));

#define GMMFR_INLINE static inline __attribute__((always_inline))

constexpr int kLanes = GMMFR_LANES;
constexpr int kStripVectors = 2;
constexpr int kStripColumns = kStripVectors * kLanes;
constexpr int kStripRows = GMMFR_STRIP_ROWS;

GMMFR_INLINE void load(Floats& value, const float* from) {
    __builtin_memcpy(&value, from, sizeof value);
}
GMMFR_INLINE void store(float* to, const Floats& value) {
    __builtin_memcpy(to, &value, sizeof value);
}

// --- decoding: shift the code's exponent and mantissa into place and add the difference of the biases. Codes
// with exponent field 0 take a detour: with an implied one added and subtracted again they are exact.

template <CodeFormat format>
struct Minifloat;  // bits: of exponent and mantissa; mantissa: of the mantissa; bias: 127 minus the format's

template <>
struct Minifloat<CodeFormat::e4m3> {
    static constexpr uint32_t bits = 7, mantissa = 3, bias = 120;
};
template <>
struct Minifloat<CodeFormat::e5m2> {
    static constexpr uint32_t bits = 7, mantissa = 2, bias = 112;
};
template <>
struct Minifloat<CodeFormat::e2m1> {
    static constexpr uint32_t bits = 3, mantissa = 1, bias = 126;
};

// Bits from .. from + width - 1 of each word, moved so that the lowest lands on bit to.
template <int from, int width, int to>
GMMFR_INLINE Words move_bits(const Words& words) {
    constexpr uint32_t mask = ((1U << width) - 1U) << to;
    if constexpr (from > to) return (words >> (from - to)) & mask;
    return (words << (to - from)) & mask;
}

// The codes in byte number byte of each word.
template <CodeFormat format, int byte>
GMMFR_INLINE void decode_byte(Floats& value, const Words& words) {
    if constexpr (format == CodeFormat::int4) {
        typedef int32_t Signed __attribute__((vector_size(4 * GMMFR_LANES)));
        value = __builtin_convertvector((Signed)(move_bits<8 * byte, 4, 28>(words)) >> 28, Floats);
    } else {
        using Form = Minifloat<format>;
        constexpr int kShift = 23 - Form::mantissa;
        const Words shifted = move_bits<8 * byte, Form::bits, kShift>(words);
        const Words ones = shifted + ((Form::bias + 1) << 23);
        const Floats implied = (Floats)(((Form::bias + 1) << 23) - Words{});
        const Words tiny = (Words)((Floats)ones - implied);
        Words bits = shifted < (1U << 23) ? tiny : shifted + (Form::bias << 23);
        if constexpr (format == CodeFormat::e4m3) {
            bits |= (Words)(shifted == (0x7FU << kShift)) & 0x7FC00000U;
        } else if constexpr (format == CodeFormat::e5m2) {
            bits |= (Words)(shifted >= (0x7CU << kShift)) & 0x7F800000U;
        }
        bits |= move_bits<8 * byte + Form::bits, 1, 31>(words);
        value = (Floats)bits;
    }
}

template <CodeFormat format, int byte>
GMMFR_INLINE void decode_and_scale(const Words& words, const float* scale, float* to) {
    Floats value;
    decode_byte<format, byte>(value, words);
    if (scale != nullptr) {
        Floats factor;
        load(factor, scale + byte * kLanes);
        value *= factor;
    }
    store(to, value);
}

template <CodeFormat format>
void decode_as(const uint8_t* codes, ptrdiff_t stride, int depth, const float* scales, float* panel) {
    const ptrdiff_t strip = static_cast<ptrdiff_t>(depth) * kStripColumns;
    for (int k = 0; k < depth; ++k) {
        const uint8_t* row = codes + k * stride;
        const float* scale = scales == nullptr ? nullptr : scales + (k / kScaleSpan) * kPanelColumns;
        float* to = panel + k * kStripColumns;
        __builtin_prefetch(row + kPanelDepth * stride);
        __builtin_prefetch(row + kPanelDepth * stride + 64);
        for (int group = 0; group < kPanelColumns; group += 4 * kLanes) {
            Words words;
            __builtin_memcpy(&words, row + group, sizeof words);
            const float* factors = scale == nullptr ? nullptr : scale + group;
            float* first = to + group / kStripColumns * strip;
            decode_and_scale<format, 0>(words, factors, first);
            decode_and_scale<format, 1>(words, factors, first + kLanes);
            decode_and_scale<format, 2>(words, factors, first + strip);
            decode_and_scale<format, 3>(words, factors, first + strip + kLanes);
        }
    }
}

static void decode(CodeFormat format, const uint8_t* codes, ptrdiff_t stride, int depth, const float* scales,
                   float* panel) {
    switch (format) {
        case CodeFormat::e4m3: return decode_as<CodeFormat::e4m3>(codes, stride, depth, scales, panel);
        case CodeFormat::e5m2: return decode_as<CodeFormat::e5m2>(codes, stride, depth, scales, panel);
        case CodeFormat::e2m1: return decode_as<CodeFormat::e2m1>(codes, stride, depth, scales, panel);
        case CodeFormat::int4: return decode_as<CodeFormat::int4>(codes, stride, depth, scales, panel);
    }
}

// --- bytes

#if defined(__clang__) || __GNUC__ >= 12
#define GMMFR_SHUFFLE(type, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define GMMFR_SHUFFLE(type, a, b, ...) __builtin_shuffle(a, b, type{__VA_ARGS__})
#endif

// Numbers of the bytes from .. from + 7 of a and b in turn; b's numbers start at size.
#define GMMFR_ZIP(from, size)                                                                              \
    (from), (from) + (size), (from) + 1, (from) + 1 + (size), (from) + 2, (from) + 2 + (size), (from) + 3, \
        (from) + 3 + (size), (from) + 4, (from) + 4 + (size), (from) + 5, (from) + 5 + (size), (from) + 6, \
        (from) + 6 + (size), (from) + 7, (from) + 7 + (size)

GMMFR_INLINE void interleave(Bytes& low, Bytes& high, const Bytes& a, const Bytes& b) {
    low = GMMFR_SHUFFLE(Bytes, a, b, GMMFR_ZIP(0, 16));
    high = GMMFR_SHUFFLE(Bytes, a, b, GMMFR_ZIP(8, 16));
}

// As many pieces of 16 bytes as a vector holds; interleaved piece by piece.
typedef uint8_t Pieces __attribute__((vector_size(4 * GMMFR_LANES)));

GMMFR_INLINE void interleave_pieces(Pieces& low, Pieces& high, const Pieces& a, const Pieces& b) {
#if GMMFR_LANES == 16
    low = GMMFR_SHUFFLE(Pieces, a, b, GMMFR_ZIP(0, 64), GMMFR_ZIP(16, 64), GMMFR_ZIP(32, 64), GMMFR_ZIP(48, 64));
    high = GMMFR_SHUFFLE(Pieces, a, b, GMMFR_ZIP(8, 64), GMMFR_ZIP(24, 64), GMMFR_ZIP(40, 64), GMMFR_ZIP(56, 64));
#elif GMMFR_LANES == 8
    low = GMMFR_SHUFFLE(Pieces, a, b, GMMFR_ZIP(0, 32), GMMFR_ZIP(16, 32));
    high = GMMFR_SHUFFLE(Pieces, a, b, GMMFR_ZIP(8, 32), GMMFR_ZIP(24, 32));
#else
    low = GMMFR_SHUFFLE(Pieces, a, b, GMMFR_ZIP(0, 16));
    high = GMMFR_SHUFFLE(Pieces, a, b, GMMFR_ZIP(8, 16));
#endif
}

static void unpack_rows(const uint8_t* packed, ptrdiff_t stride, int rows, int bytes, uint8_t* codes) {
    for (int row = 0; row < rows; ++row) {
        const uint8_t* from = packed + row * stride;
        uint8_t* to = codes + static_cast<ptrdiff_t>(row) * 2 * bytes;
        __builtin_prefetch(from + kPanelDepth * stride);
        int at = 0;
        for (; at + 16 <= bytes; at += 16) {
            Bytes both, first, second;
            __builtin_memcpy(&both, from + at, 16);
            interleave(first, second, both & 0x0F, both >> 4);
            __builtin_memcpy(to + 2 * at, &first, 16);
            __builtin_memcpy(to + 2 * at + 16, &second, 16);
        }
        for (; at < bytes; ++at) {
            to[2 * at] = from[at] & 0x0F;
            to[2 * at + 1] = from[at] >> 4;
        }
    }
}

// Four rounds of interleaving the first half of 16 rows with the second half transpose them, here for every
// piece of 16 bytes of the rows at once.
GMMFR_INLINE void transpose_16(const uint8_t* source, ptrdiff_t source_stride, uint8_t* target) {
    Pieces rows[16], next[16];
    for (int i = 0; i < 16; ++i) __builtin_memcpy(&rows[i], source + i * source_stride, sizeof rows[i]);
    for (int round = 0; round < 4; ++round) {
        for (int i = 0; i < 8; ++i) interleave_pieces(next[2 * i], next[2 * i + 1], rows[i], rows[i + 8]);
        for (int i = 0; i < 16; ++i) rows[i] = next[i];
    }
    for (int i = 0; i < 16; ++i) {
        for (int piece = 0; piece < kLanes / 4; ++piece) {
            __builtin_memcpy(target + (16 * piece + i) * kPanelColumns, (const uint8_t*)&rows[i] + 16 * piece, 16);
        }
    }
}

static void transpose(const uint8_t* source, ptrdiff_t source_stride, int depth, uint8_t* target) {
    constexpr int kWide = 4 * kLanes;
    for (int column = 0; column < kPanelColumns; column += 16) {
        const uint8_t* from = source + column * source_stride;
        for (int i = 0; i < 16; ++i) {  // the lines after these are wanted next
            for (int line = depth; line < 2 * depth; line += 64) __builtin_prefetch(from + i * source_stride + line);
        }
        int k = 0;
        for (; k + kWide <= depth; k += kWide) {
            transpose_16(from + k, source_stride, target + k * kPanelColumns + column);
        }
        for (; k < depth; ++k) {
            for (int i = 0; i < 16; ++i) target[k * kPanelColumns + column + i] = from[i * source_stride + k];
        }
    }
}

// --- multiplication

template <int rows>
void multiply_rows(int depth, const float* a, const float* b, float* c, ptrdiff_t row_stride) {
    Floats sum[rows][kStripVectors];
    for (int i = 0; i < rows; ++i) {
        for (int v = 0; v < kStripVectors; ++v) load(sum[i][v], c + i * row_stride + v * kLanes);
    }
    for (int k = 0; k < depth; ++k) {
        Floats right[kStripVectors];
        for (int v = 0; v < kStripVectors; ++v) load(right[v], b + k * kStripColumns + v * kLanes);
        for (int i = 0; i < rows; ++i) {
            const Floats left = a[k * rows + i] - Floats{};  // a splat: subtracting zero folds away
            for (int v = 0; v < kStripVectors; ++v) sum[i][v] += left * right[v];
        }
    }
    for (int i = 0; i < rows; ++i) {
        for (int v = 0; v < kStripVectors; ++v) store(c + i * row_stride + v * kLanes, sum[i][v]);
    }
}

template <int rows>
GMMFR_INLINE void multiply_dispatch(int wanted, int depth, const float* a, const float* b, float* c,
                                    ptrdiff_t row_stride) {
    if constexpr (rows > 0) {
        if (wanted == rows) return multiply_rows<rows>(depth, a, b, c, row_stride);
        multiply_dispatch<rows - 1>(wanted, depth, a, b, c, row_stride);
    }
}

static void multiply(int rows, int depth, const float* a, const float* b, float* c, ptrdiff_t row_stride) {
    multiply_dispatch<kStripRows>(rows, depth, a, b, c, row_stride);
}

#undef GMMFR_INLINE
#undef GMMFR_SHUFFLE
#undef GMMFR_ZIP
