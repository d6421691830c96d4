// What PyPTO 0.2.0's tensor-graph interpreter lacks to compute this operator, as one small library.
//
// 1. Its A_MUL_B step ignores both scale operands of an MX product and decodes byte floats differently from the
//    OCP definition. ExecuteOpAMulB below replaces it for MX products and hands every other product back.
// 2. Its copy and reshape steps decode and re-encode byte floats, which changes some bytes. They move bytes here.
// 3. It interprets a kernel once, while the kernel is compiled. interpret_graph() runs it again on new arguments.
// 4. Results stay in its own argument list. read_argument() copies one out.
// 5. It copies, and writes to disk, every argument at every step, for checks of later passes that are not made here:
//    most of the time and memory of a large call. CopyWithLinkRelationship and DumpTensorBinary leave that out.
//
// The library must be loaded with RTLD_GLOBAL before PyPTO, so that the dynamic linker binds the interpreter's own
// reference to ExecuteOpAMulB here. The layouts of four structures of PyPTO 0.2.0 are assumed; the caller checks
// that version, and that product_count() grew, before it believes a result.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <exception>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "calc_api.h"  // shipped inside the pypto wheel: lib/calculator/src

namespace {
using npu::tile_fwk::DataType;
using npu::tile_fwk::TensorData;
using Extents = std::vector<int64_t>;

// The interpreter's storage of one tensor. Only the members up to `stride` are read.
struct Storage {
    uint8_t *begin, *end, *capacity;
    uint8_t* device;
    DataType dtype;
    Extents shape, stride;
    size_t count, width;
};

// The interpreter's view into a storage.
struct View {
    std::shared_ptr<Storage> storage;
    Extents shape, valid, offset, stride;
    int64_t size;
    bool spilled, swapped;

    int64_t first() const {
        int64_t position = 0;
        for (size_t axis = 0; axis < offset.size(); ++axis) position += storage->stride[axis] * offset[axis];
        return position;
    }
    // Rows and columns that hold data: a tile at the end of a group is shorter than its shape.
    int64_t extent(size_t axis) const {
        return axis < valid.size() && valid[axis] >= 0 && valid[axis] < shape[axis] ? valid[axis] : shape[axis];
    }
};
using ViewPtr = std::shared_ptr<View>;

// What an interpreter step receives.
struct Step {
    void *frame, *interpreter, *operation;
    const std::vector<ViewPtr>* inputs;
    std::vector<ViewPtr>*outputs, *outputsInPlace;
};

void* interfaceLibrary = nullptr;
npu::tile_fwk::CalcOps* calculator = nullptr;
void (*stockCopy)(const TensorData&, const TensorData&, bool) = nullptr;
void (*stockReshape)(const TensorData&, const TensorData&) = nullptr;
int64_t scaledProducts = 0;
std::string lastError;

template <typename Signature>
Signature find(const char* symbol) {
    void* address = dlsym(interfaceLibrary, symbol);
    if (!address) throw std::runtime_error(std::string("PyPTO lacks the symbol ") + symbol);
    return reinterpret_cast<Signature>(address);
}

bool isByteFloat(DataType dtype) {
    return dtype == npu::tile_fwk::DT_FP8E4M3 || dtype == npu::tile_fwk::DT_FP8E5M2 ||
           dtype == npu::tile_fwk::DT_FP8E8M0 || dtype == npu::tile_fwk::DT_FP4_E2M1X2;
}

float decodeScale(int byte) {
    return byte == 255 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, byte - 127);
}

// sign, `exponentBits`, `mantissaBits`; every format of the operator decodes by the same rule but for its specials.
float decodeValue(int code, int exponentBits, int mantissaBits, int bias) {
    int mantissa = code & ((1 << mantissaBits) - 1);
    int exponent = (code >> mantissaBits) & ((1 << exponentBits) - 1);
    float sign = (code >> (mantissaBits + exponentBits)) & 1 ? -1.0f : 1.0f;
    float fraction = static_cast<float>(mantissa) / static_cast<float>(1 << mantissaBits);
    return sign * (exponent ? std::ldexp(1.0f + fraction, exponent - bias) : std::ldexp(fraction, 1 - bias));
}

float decodeElement(int byte, DataType dtype) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    if (dtype == npu::tile_fwk::DT_FP4_E2M1X2) return decodeValue(byte & 15, 2, 1, 1);
    if (dtype == npu::tile_fwk::DT_FP8E4M3) return (byte & 127) == 127 ? nan : decodeValue(byte, 4, 3, 7);
    if (dtype != npu::tile_fwk::DT_FP8E5M2) throw std::runtime_error("an MX product takes FP8 or FP4 elements");
    if ((byte & 0x7c) != 0x7c) return decodeValue(byte, 5, 2, 15);
    float infinity = std::numeric_limits<float>::infinity();
    return byte & 3 ? nan : (byte & 128 ? -infinity : infinity);
}

std::vector<float> elementTable(DataType dtype) {
    std::vector<float> table(256);
    for (int byte = 0; byte < 256; ++byte) table[byte] = decodeElement(byte, dtype);
    return table;
}

// A matrix whose rows (kAxis 1) or columns (kAxis 0) are scaled in blocks of 32, and the extents of its data.
struct Operand {
    const View &matrix, &scale;
    int kAxis;
    bool pairFirst;  // the scale is stored [K/64, outer, 2] instead of [outer, K/64, 2]

    int64_t k() const { return matrix.shape[kAxis]; }
    int64_t outer() const { return matrix.extent(1 - kAxis); }
    int64_t rows() const { return kAxis ? outer() : k(); }
    int64_t columns() const { return kAxis ? k() : outer(); }
};

// The scales as floats, in the order of the matrix: [outer, K/32], or [K/32, outer] when K is its first axis.
std::vector<float> readScales(const Operand& operand) {
    const View& view = operand.scale;
    int outerAxis = operand.pairFirst ? 1 : 0, pairAxis = operand.pairFirst ? 0 : 1;
    int64_t outer = operand.outer(), blocks = operand.k() / 32;
    if (view.shape.size() != 3 || view.shape[2] != 2) throw std::runtime_error("a scale must be [.., .., 2]");
    if (view.shape[outerAxis] < outer || view.shape[pairAxis] * 2 != blocks)
        throw std::runtime_error("a scale does not match its matrix");
    const Extents& stride = view.storage->stride;
    const uint8_t* bytes = view.storage->begin + view.first();
    std::vector<float> scales(static_cast<size_t>(outer * blocks));
    for (int64_t row = 0; row < outer; ++row)
        for (int64_t block = 0; block < blocks; ++block)
            scales[operand.kAxis ? row * blocks + block : block * outer + row] =
                decodeScale(bytes[row * stride[outerAxis] + (block / 2) * stride[pairAxis] + (block % 2) * stride[2]]);
    return scales;
}

// The matrix as scaled floats [rows, columns].
std::vector<float> readMatrix(const Operand& operand) {
    const View& view = operand.matrix;
    std::vector<float> table = elementTable(view.storage->dtype), scales = readScales(operand);
    const Extents& stride = view.storage->stride;
    const uint8_t* bytes = view.storage->begin + view.first();
    int64_t rows = operand.rows(), columns = operand.columns();
    std::vector<float> values(static_cast<size_t>(rows * columns));
    for (int64_t row = 0; row < rows; ++row) {
        const float* scale = scales.data() + (operand.kAxis ? row * (columns / 32) : row / 32 * columns);
        const uint8_t* source = bytes + row * stride[0];
        float* target = values.data() + row * columns;
        for (int64_t column = 0; column < columns; ++column)
            target[column] = table[source[column * stride[1]]] * scale[operand.kAxis ? column / 32 : column];
    }
    return values;
}

TensorData describe(std::vector<float>& values, int64_t rows, int64_t columns) {
    TensorData data;
    data.dataPtr = values.data();
    data.rawShape = data.shape = {rows, columns};
    data.stride = {columns, 1};
    data.storageOffset = 0;
    data.dtype = npu::tile_fwk::DT_FP32;
    return data;
}

TensorData describe(const View& view, int64_t rows, int64_t columns) {
    TensorData data;
    data.dataPtr = view.storage->begin;
    data.rawShape = view.storage->shape;
    data.shape = {rows, columns};
    data.stride = view.storage->stride;
    data.storageOffset = view.first();
    data.dtype = view.storage->dtype;
    data.isAxisCombine = view.swapped;
    return data;
}

bool flag(void* operation, const char* name) {
    using Getter = bool (*)(const void*, const std::string&);
    static auto get = find<Getter>("_ZNK3npu8tile_fwk9Operation16GetBoolAttributeERKSs");
    return get(operation, std::string("op_attr_") + name);
}

int64_t number(void* operation, const char* name) {
    using Getter = int64_t (*)(const void*, const std::string&);
    static auto get = find<Getter>("_ZNK3npu8tile_fwk9Operation15GetIntAttributeERKSs");
    return get(operation, std::string("op_attr_") + name);
}

// Position of the first scale among the inputs (A, B, [accumulator], scale A, scale B), or 0 for a plain product.
size_t scalePosition(const std::vector<ViewPtr>& inputs) {
    size_t at = 2;
    while (at < inputs.size() && inputs[at]->storage->dtype != npu::tile_fwk::DT_FP8E8M0) ++at;
    bool both = at + 1 < inputs.size() && inputs[at + 1]->storage->dtype == npu::tile_fwk::DT_FP8E8M0;
    return both ? at : 0;
}

void multiplyScaled(const Step& step, size_t at) {
    const std::vector<ViewPtr>& inputs = *step.inputs;
    const View& out = *step.outputsInPlace->at(0);
    bool aTransposed = flag(step.operation, "trans_a"), bTransposed = flag(step.operation, "trans_b");
    // Copy-in mode 3 marks a scale whose first two axes are exchanged from the natural order, which is
    // [rows, K/64, 2] for A and [K/64, columns, 2] for B.
    bool aSwapped = number(step.operation, "scale_a_copy_in_mode") == 3;
    bool bSwapped = number(step.operation, "scale_b_copy_in_mode") == 3;
    Operand a{*inputs[0], *inputs[at], aTransposed ? 0 : 1, aSwapped};
    Operand b{*inputs[1], *inputs[at + 1], bTransposed ? 1 : 0, !bSwapped};
    if (a.k() != b.k() || a.k() % 64) throw std::runtime_error("K differs or is no multiple of 64");
    int64_t rows = a.outer(), columns = b.outer();
    if (rows == 0 || columns == 0) return;
    std::vector<float> left = readMatrix(a), right = readMatrix(b);
    std::vector<float> product(static_cast<size_t>(rows * columns));
    TensorData result = describe(product, rows, columns), previous;
    npu::tile_fwk::MatMulParam parameters;
    parameters.aTrans = aTransposed;
    parameters.bTrans = bTransposed;
    if (at == 3) previous = describe(*inputs[2], rows, columns);
    calculator->MatMul(result, describe(left, a.rows(), a.columns()), describe(right, b.rows(), b.columns()),
                       at == 3 ? &previous : nullptr, parameters);
    calculator->Cast(describe(out, rows, columns), result, npu::tile_fwk::CAST_NONE);
    ++scaledProducts;
}

bool sameByteFloat(const TensorData& out, const TensorData& in) {
    return out.dtype == in.dtype && isByteFloat(in.dtype);
}

TensorData asBytes(const TensorData& data) {
    TensorData bytes = data;
    bytes.dtype = npu::tile_fwk::DT_INT8;
    return bytes;
}

void copyBytes(const TensorData& out, const TensorData& in, bool transpose) {
    if (sameByteFloat(out, in))
        stockCopy(asBytes(out), asBytes(in), transpose);
    else
        stockCopy(out, in, transpose);
}

void reshapeBytes(const TensorData& out, const TensorData& in) {
    if (sameByteFloat(out, in))
        stockReshape(asBytes(out), asBytes(in));
    else
        stockReshape(out, in);
}
}  // namespace

namespace npu::tile_fwk {
struct ExecuteOperationContext;

__attribute__((visibility("default"))) void ExecuteOpAMulB(ExecuteOperationContext* context) {
    auto* step = reinterpret_cast<Step*>(context);
    size_t at = scalePosition(*step->inputs);
    if (at) return multiplyScaled(*step, at);
    using Stock = void (*)(ExecuteOperationContext*);
    static auto stock = find<Stock>("_ZN3npu8tile_fwk14ExecuteOpAMulBEPNS0_23ExecuteOperationContextE");
    stock(context);
}

class LogicalTensorData;

// What goes into a function and what comes out of it.
struct FunctionIODataPair {
    std::vector<std::shared_ptr<LogicalTensorData>> inputs, outputs;

    static void CopyWithLinkRelationship(FunctionIODataPair& target, const FunctionIODataPair& source);
};

__attribute__((visibility("default"))) void FunctionIODataPair::CopyWithLinkRelationship(
    FunctionIODataPair& target, const FunctionIODataPair& source) {
    target = source;  // the stock function copies the data too
}

struct FunctionInterpreter {
    void DumpTensorBinary(const std::shared_ptr<LogicalTensorData>& data, std::string fileName);
};

__attribute__((visibility("default"))) void FunctionInterpreter::DumpTensorBinary(
    const std::shared_ptr<LogicalTensorData>&, std::string) {
    // the stock function writes a file
}
}  // namespace npu::tile_fwk

extern "C" {
// Call once, after PyPTO and its calculator are loaded. 0, or 1 when the interface library is not loaded.
int attach(const char* interfacePath, void* calcOps) {
    interfaceLibrary = dlopen(interfacePath, RTLD_LAZY | RTLD_NOLOAD);
    calculator = static_cast<npu::tile_fwk::CalcOps*>(calcOps);
    if (!interfaceLibrary || !calculator) return 1;
    if (calculator->Copy != copyBytes) {
        stockCopy = calculator->Copy;
        calculator->Copy = copyBytes;
    }
    if (calculator->Reshape != reshapeBytes) {
        stockReshape = calculator->Reshape;
        calculator->Reshape = reshapeBytes;
    }
    return 0;
}

// Runs the traced kernel on the arguments set last. NULL, or what went wrong (valid until the next call).
const char* interpret_graph() {
    try {
        auto program = find<void* (*)()>("_ZN3npu8tile_fwk7Program11GetInstanceEv");
        auto verify = find<void (*)(void*)>("_ZN3npu8tile_fwk7Program17VerifyTensorGraphEv");
        verify(program());
        return nullptr;
    } catch (const std::exception& error) {
        lastError = error.what();
    } catch (...) {
        lastError = "an exception of unknown type";
    }
    if (lastError.empty()) lastError = "an exception without a message";
    return lastError.c_str();
}

// Copies the interpreter's copy of argument `index`. 0, 1 for an unknown index, 2 for another size, 3 without data.
int read_argument(size_t index, void* target, size_t bytes) {
    void* data = dlsym(interfaceLibrary, "_ZN3npu8tile_fwk11ProgramData11GetInstanceEv");
    if (!data) return 3;
    auto& arguments = *static_cast<std::vector<std::shared_ptr<Storage>>*>(reinterpret_cast<void* (*)()>(data)());
    if (index >= arguments.size()) return 1;
    const Storage& argument = *arguments[index];
    if (static_cast<size_t>(argument.end - argument.begin) != bytes) return 2;
    std::memcpy(target, argument.begin, bytes);
    return 0;
}

// How many MX products were computed here since the start of the process.
int64_t product_count() {
    return scaledProducts;
}
}
