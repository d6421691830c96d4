// Inner loops, compiled for several instruction sets from one source and chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gmmfr {

// Weights go through these: one code per byte.
enum class CodeFormat { e4m3, e5m2, e2m1, int4 };

constexpr int kPanelColumns = 128;  // columns of a weight panel
constexpr int kPanelDepth = 128;    // its k extent; a multiple of kScaleSpan
constexpr int kScaleSpan = 32;      // elements along k that share an E8M0 scale

struct Kernels {
    const char* name;
    int strip_columns;  // a divisor of kPanelColumns
    int strip_rows;     // most rows of one call of multiply

    // Within a group of 4 * lanes columns a panel holds the columns with number 0 modulo 4 first, then 1, 2, 3:
    // one vector load of codes then gives four vectors of values by shifts alone.
    int lanes;
    int position(int column) const {
        const int group = column / (4 * lanes) * (4 * lanes), within = column - group;
        return group + within % 4 * lanes + within / 4;
    }

    // codes: depth rows of kPanelColumns codes, stride bytes apart. scales: one row of kPanelColumns, in panel
    // order, for each kScaleSpan codes; NULL for none. panel: strips of [depth][strip_columns] floats.
    void (*decode)(CodeFormat format, const uint8_t* codes, ptrdiff_t stride, int depth, const float* scales,
                   float* panel);
    // 4-bit rows: bytes bytes at each row become 2 * bytes codes, low nibble first.
    void (*unpack_rows)(const uint8_t* packed, ptrdiff_t stride, int rows, int bytes, uint8_t* codes);
    // columns sources of depth bytes each, source_stride apart, become depth rows of kPanelColumns bytes.
    void (*transpose)(const uint8_t* source, ptrdiff_t source_stride, int depth, uint8_t* target);
    // c[rows][strip_columns], row_stride floats apart, += a[depth][rows] * b[depth][strip_columns].
    void (*multiply)(int rows, int depth, const float* a, const float* b, float* c, ptrdiff_t row_stride);
};

// The best set for this machine.
const Kernels& kernels();

// NULL where the processor (or the target of this build) does not have it.
const Kernels* avx512_kernels();
const Kernels* avx2_kernels();
const Kernels* baseline_kernels();

}  // namespace gmmfr
