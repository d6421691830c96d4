/* What the extension offers beside one wrapper for each function of the headers. */
#ifndef GMMFR_SHIM_H_
#define GMMFR_SHIM_H_

/* Names of the table's functions, in its order. */
extern const char* const gmmfr_names[GMMFR_FUNCTIONS];

/* dlopen with lazy binding and local scope; NULL leaves the reason in gmmfr_open_error. */
void* gmmfr_open(const char* path);
const char* gmmfr_open_error(void);
/* Whether the process has this file loaded. */
bool gmmfr_is_loaded(const char* path);

/* The address of name in the library or in what that library needs, or NULL. */
void* gmmfr_symbol(void* library, const char* name);
/* Path of the file that holds address, or NULL. */
const char* gmmfr_origin(const void* address);

/* Puts a function into the table by its index; a NULL address takes it out. */
void gmmfr_set(gmmfr_table* table, size_t index, void* address);
void* gmmfr_get(const gmmfr_table* table, size_t index);

/* One argument of aclCreateTensor for each field; strides NULL means contiguous. */
typedef struct gmmfr_descriptor {
    const int64_t* dims;
    const int64_t* strides;
    const int64_t* storage;
    uint64_t rank;
    uint64_t storageRank;
    int64_t offset;
    int32_t dtype;
    int32_t format;
} gmmfr_descriptor;

/*
 * Creates the tensors one after the other, each stored as soon as it exists. A descriptor without dims is an
 * absent argument and stays NULL. Returns the index of the first that could not be created, or count.
 */
size_t gmmfr_create_tensors(const gmmfr_table* table, size_t count, const gmmfr_descriptor* descriptors,
                            void* const* addresses, aclTensor** tensors);
/* Destroys what is not NULL and sets it to NULL; the first status that is not 0. */
int gmmfr_destroy_tensors(const gmmfr_table* table, size_t count, aclTensor** tensors);

/*
 * Copies sources[i] of sizes[i] bytes to device address targets[i], one after the other. Returns the index of the first
 * copy that failed, with its status, or count.
 */
size_t gmmfr_upload(const gmmfr_table* table, size_t count, const uintptr_t* targets, const uint64_t* sizes,
                    void* const* sources, int* status);

/* The scalar arguments of phase 1. */
typedef struct gmmfr_scalars {
    int64_t dtype;
    float sharedInputWeight;
    int64_t sharedInputOffset;
    bool transposeX1;
    bool transposeX2;
    int64_t groupListType;
} gmmfr_scalars;

/* Phase 1 with the thirteen tensors in the order of the prototype. */
int gmmfr_phase_one(const gmmfr_table* table, aclTensor* const* tensors, const gmmfr_scalars* scalars,
                    const aclIntArray* tuningConfig, uint64_t* workspaceSize, aclOpExecutor** executor);

enum { GMMFR_TENSORS = 13, GMMFR_X1 = 0, GMMFR_OUT = 12 };

/* What calls of one kind share. Argument i begins offsets[i] bytes into the call's own block and takes sizes[i]. */
typedef struct gmmfr_kind {
    const gmmfr_descriptor* descriptors;
    const gmmfr_scalars* scalars;
    uint64_t offsets[GMMFR_TENSORS];
    uint64_t sizes[GMMFR_TENSORS];
} gmmfr_kind;

/* How far a call came. */
typedef enum gmmfr_step {
    GMMFR_UPLOAD,
    GMMFR_CREATE,
    GMMFR_PHASE_ONE,
    GMMFR_WORKSPACE,
    GMMFR_PROTECT_X1,
    GMMFR_PHASE_TWO,
    GMMFR_SYNCHRONIZE,
    GMMFR_DOWNLOAD,
    GMMFR_DESTROY,
    GMMFR_DONE
} gmmfr_step;

/*
 * One call. An argument is host memory, which is copied into the block (out: back from there), or else device memory at
 * its address; 0 where it is absent. x1Copy is device memory for a copy of x1 that the kernel may destroy, or 0.
 */
typedef struct gmmfr_call {
    void* host[GMMFR_TENSORS];
    uintptr_t addresses[GMMFR_TENSORS];
    uintptr_t block;
    uintptr_t x1Copy;
    uintptr_t workspace;
    uint64_t workspaceSize;
    aclrtStream stream;
    /* Written: the step that failed or GMMFR_DONE, the argument it was about, the library's message (not owned). */
    gmmfr_step step;
    size_t argument;
    const char* message;
} gmmfr_call;

/*
 * A whole call: copies in, descriptors, phase 1, phase 2, waiting, copies out; nothing that it makes outlives it.
 * Returns the status of the step that failed. GMMFR_WORKSPACE with status 0 says that phase 1 asked for more workspace
 * than there is, now in workspaceSize, and that nothing was run.
 */
int gmmfr_run(const gmmfr_table* table, const gmmfr_kind* kind, gmmfr_call* call);

#endif
