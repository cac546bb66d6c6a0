/* A pool of memory for results and large intermediates, reused from one call to the next.
 *
 * The first touch of fresh memory costs more than computing its content: the operating system maps page after
 * page. A block of a mebibyte or more is therefore owned by a tensor of the pool, the keeper, and returned as another
 * tensor that shares the keeper's storage. When the keeper is the storage's only owner again, the block is reused for
 * the next allocation of as many bytes.
 *
 * What a user may do to a result stays possible: its storage is an ordinary one of torch's allocator. If it was
 * resized or moved (share_memory_), its data is elsewhere, and the pool drops the block. All blocks together, in use
 * or idle, are at most as large as the setting output_pool_megabytes; beyond that, memory is allocated as usual.
 *
 * The owners of a storage are counted by its reference counts, whose offsets output_pool.py measures at start-up.
 */
#include <stdlib.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

enum { POOL_BLOCKS = 64, POOL_WORDS = 2, POOL_SMALL = 1 << 20, HUGE_PAGE = 1 << 21 };

typedef struct {
  Handle keeper;
  void *data;
  i64 bytes, last_use;
  int32_t dtype;
  int inference;               /* created in inference mode, a property that a tensor never loses */
  uint64_t idle_counts[POOL_WORDS];  /* the storage's counts while the keeper is its only owner */
} Block;

static struct {
  int ready;
  Py_ssize_t storage_word;            /* where a TensorImpl points to its storage */
  Py_ssize_t count_word[POOL_WORDS];  /* where a storage has its reference count, and that of weak references */
  uint64_t has_object;                /* bits of the first, while a Python object represents the storage */
  PyObject *settings, *limit_name;    /* nbcompile.config's dictionary, and the setting's name */
  i64 bytes, clock, hits;
  Py_ssize_t count;
  Block block[POOL_BLOCKS];
} pool;

extern int aoti_torch_get_storage_size(Handle, i64 *);
extern size_t aoti_torch_dtype_element_size(int32_t);
extern _Bool inference_mode(void) __asm__("_ZN3c1013InferenceMode10is_enabledEv");

static const uint64_t *storage_of(Handle tensor) { return (*(uint64_t ***)tensor)[pool.storage_word]; }

static int is_idle(const Block *block) {
  const uint64_t *storage = storage_of(block->keeper);
  for (int i = 0; i < POOL_WORDS; i++)
    if (storage[pool.count_word[i]] != block->idle_counts[i]) return 0;
  return 1;
}

/* Return whether a block is still the memory that was allocated: the storage was not resized, has no other data, and no
   Python object represents it (the object would be shared by one result and the next). */
static int is_unmodified(const Block *block) {
  void *data;
  if (storage_of(block->keeper)[pool.count_word[0]] & pool.has_object) return 0;
  i64 bytes;
  return !aoti_torch_get_storage_size(block->keeper, &bytes) && bytes == block->bytes &&
         !aoti_torch_get_data_ptr(block->keeper, &data) && data == block->data;
}

static void drop_block(Py_ssize_t at) {
  Handle keeper = pool.block[at].keeper;
  pool.bytes -= pool.block[at].bytes;
  pool.block[at] = pool.block[--pool.count];
  aoti_torch_delete_tensor_object(keeper);
}

/* The limit of the pool in bytes: the current nbcompile.config.output_pool_megabytes; 0 on the reference path. */
static i64 pool_limit(void) {
  if (PyDict_GetItemString(pool.settings, "reference") == Py_True) return 0;
  PyObject *setting = PyDict_GetItem(pool.settings, pool.limit_name);
  int too_large = 0;
  long long megabytes = setting ? PyLong_AsLongLongAndOverflow(setting, &too_large) : 0;
  if (too_large > 0 || megabytes > INT64_MAX >> 20) return INT64_MAX;
  return megabytes > 0 ? megabytes << 20 : 0;
}

/* Free unused blocks, least recently used first, until there is space; 0 if there is not enough of them. */
static int make_room(i64 requested, i64 limit) {
  while (pool.bytes + requested > limit || pool.count == POOL_BLOCKS) {
    Py_ssize_t oldest = -1;
    for (Py_ssize_t i = 0; i < pool.count; i++)
      if (is_idle(&pool.block[i]) && (oldest < 0 || pool.block[i].last_use < pool.block[oldest].last_use)) oldest = i;
    if (oldest < 0) return 0;
    drop_block(oldest);
  }
  return 1;
}

static Block *new_block(i64 bytes, int32_t dtype, i64 itemsize) {
  i64 elements = bytes / itemsize, one = 1;
  Block *block = &pool.block[pool.count];
  if (aoti_torch_empty_strided(1, &elements, &one, dtype, CPU, 0, &block->keeper)) return NULL;
  if (aoti_torch_get_data_ptr(block->keeper, &block->data)) {
    aoti_torch_delete_tensor_object(block->keeper);
    return NULL;
  }
#ifdef MADV_HUGEPAGE
  /* The whole huge pages within the block: the first touch of 2 MiB is then one page fault, not 512. */
  uintptr_t start = ((uintptr_t)block->data + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1);
  uintptr_t end = ((uintptr_t)block->data + bytes) & ~(uintptr_t)(HUGE_PAGE - 1);
  if (end > start) madvise((void *)start, end - start, MADV_HUGEPAGE); /* advice: that it fails does no harm */
#endif
  block->bytes = bytes;
  block->dtype = dtype;
  block->inference = inference_mode();
  /* The storage has no other owner yet: these are its counts without one. */
  for (int i = 0; i < POOL_WORDS; i++) block->idle_counts[i] = storage_of(block->keeper)[pool.count_word[i]];
  pool.count++;
  pool.bytes += bytes;
  return block;
}

static Block *idle_block(i64 bytes, int32_t dtype) {
  int inference = inference_mode();
  for (Py_ssize_t i = 0; i < pool.count; i++) {
    Block *block = &pool.block[i];
    /* drop_block moves the last block to this index, which is visited again. */
    if (!is_unmodified(block)) drop_block(i--);
    else if (block->bytes == bytes && block->dtype == dtype && block->inference == inference && is_idle(block)) return block;
  }
  return NULL;
}

/* The number of elements from the first to the last in memory, both included. */
static i64 span_of(const Layout *layout) {
  i64 span = 1;
  for (i64 i = 0; i < layout->dim; i++) {
    if (!layout->sizes[i]) return 0;
    span += (layout->sizes[i] - 1) * layout->strides[i];
  }
  return span;
}

/* Allocate a new tensor. Returns 0, or nonzero if there is no memory. */
static int allocate(const Layout *layout, Handle *created) {
  if (layout->device_type != CPU) return gpu->allocate(layout->dim, layout->sizes, layout->strides, layout->dtype, layout->device, created);
  i64 itemsize = (i64)aoti_torch_dtype_element_size(layout->dtype), bytes = span_of(layout) * itemsize;
  if (bytes >= POOL_SMALL && pool.ready) {
    i64 limit = pool_limit();
    Block *block = limit < bytes ? NULL : idle_block(bytes, layout->dtype);
    if (block) pool.hits++;
    else if (limit >= bytes && make_room(bytes, limit)) block = new_block(bytes, layout->dtype, itemsize);
    if (block) {
      block->last_use = ++pool.clock;
      if (!aoti_torch__reinterpret_tensor(block->keeper, layout->dim, layout->sizes, layout->strides, 0, created)) return 0;
    }
  }
  return aoti_torch_empty_strided(layout->dim, layout->sizes, layout->strides, layout->dtype, CPU, 0, created);
}

/* Raise glibc's dynamic mmap threshold. glibc unmaps a freed block of up to 32 MiB (a temporary of an operator of ATen, for
 * example), and the next call faults in page after page, until a block as large as that was freed once: from then on it
 * reuses such blocks, up to 64 MiB. So one is allocated and freed without a write. Limits that the user has set
 * (MALLOC_TRIM_THRESHOLD_) stay in force. */
static void raise_mmap_threshold(void) {
#ifdef __GLIBC__
  void *volatile block = malloc(((size_t)32 << 20) - 2 * 4096);
  free(block);
#endif
}

/* pool_setup(storage, owners, weak, has_object, settings, name): output_pool.py's WordOffsets, and the dict and key of the limit */
static PyObject *pool_setup(PyObject *module, PyObject *arguments) {
  PyObject *settings, *name;
  Py_ssize_t storage, owners, weak;
  unsigned long long has_object;
  if (!PyArg_ParseTuple(arguments, "nnnKOU", &storage, &owners, &weak, &has_object, &settings, &name)) return NULL;
  pool.storage_word = storage;
  pool.count_word[0] = owners;
  pool.count_word[1] = weak;
  pool.has_object = has_object;
  Py_XSETREF(pool.settings, Py_NewRef(settings));
  Py_XSETREF(pool.limit_name, Py_NewRef(name));
  pool.ready = 1;
  if (pool_limit()) raise_mmap_threshold();
  Py_RETURN_NONE;
}

/* pool_clear(): free idle blocks, and drop those in use, which their tensors free. */
static PyObject *pool_clear(PyObject *module, PyObject *nothing) {
  while (pool.count) drop_block(pool.count - 1);
  Py_RETURN_NONE;
}

/* pool_state() -> (blocks, idle blocks, bytes, number of reuses) */
static PyObject *pool_state(PyObject *module, PyObject *nothing) {
  Py_ssize_t idle = 0;
  for (Py_ssize_t i = 0; i < pool.count; i++) idle += is_idle(&pool.block[i]);
  return Py_BuildValue("nnLL", pool.count, idle, (long long)pool.bytes, (long long)pool.hits);
}
