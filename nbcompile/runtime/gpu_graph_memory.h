/* The memory of recorded graphs: pools that the graphs of a stream share, and the outputs in them that are still used.
 *
 *   make_pool(device)    a pool of the current stream
 *   pool.ready()         whether a graph can be recorded in it; frees the memory of unused outputs
 *   pool.idle()          whether its memory may be released
 *
 * Graphs of one stream run one after the other, so their temporaries may share memory. Outputs that are still used
 * must not be overwritten:
 *
 *   a block      memory of outputs of one recording. While it is held, the allocator does not reuse it.
 *   kept         the blocks that were held while a graph was recorded: that graph writes none of them
 *   watched      all other blocks of the pool, and the graph's own: before it runs, their content is moved away if an
 *                output is still used
 *
 * A block that is neither used nor held may overlap the memory of other graphs. If it is used again when a graph is to be
 * recorded, nothing protects it, and the pool is not ready: the graph is recorded in a new pool.
 *
 * In torch: torch/_inductor/cudagraph_trees.py, c10/cuda/CUDACachingAllocator.cpp. Read next: gpu_capture.h
 */
using Hold = std::shared_ptr<at::TensorBase>;
void release_memory(void *context) { delete (Hold *)context; }

struct Block {
  void *address;
  size_t bytes;
  bool pooled; /* false: the buffer of a copied input, which is in no pool */
  c10::weak_intrusive_ptr<c10::StorageImpl> last; /* the storage of the latest call's output */
  Hold hold;
  std::weak_ptr<at::TensorBase> held; /* by `hold`, or by the outputs of a destroyed recording */
  const void *owner;            /* the recording; null once it is destroyed */
};
using SharedBlock = std::shared_ptr<Block>;

/* The storage of an output that is still used and that a graph would overwrite; null if there is none. */
c10::intrusive_ptr<c10::StorageImpl> used(const Block &block) {
  if (block.last.expired()) return {};
  auto storage = block.last.lock();
  if (storage && (storage->data() != block.address || !block.bytes)) storage.reset();
  return storage;
}

struct Range {
  uintptr_t start, end;
  bool operator<(const Range &other) const { return start < other.start; }
};
Range range_of(const Block &block) { return {(uintptr_t)block.address, (uintptr_t)block.address + block.bytes}; }

struct MemoryPool {
  int device;
  void *stream;
  std::vector<SharedBlock> blocks;
  size_t version = 0; /* of the list */

  void prune() {
    size_t before = blocks.size();
    blocks.erase(std::remove_if(blocks.begin(), blocks.end(), [](const SharedBlock &block) { return !block->owner && !used(*block); }), blocks.end());
    if (blocks.size() != before) version++;
  }

  bool all_used_are_held() const {
    return std::all_of(blocks.begin(), blocks.end(), [](const SharedBlock &block) { return !used(*block) || !block->held.expired(); });
  }

  /* Return memory without another owner to the allocator; a constant of the graph, for example, has one. */
  void free_unused() {
    for (auto &block : blocks)
      if (block->hold && !used(*block) && block->hold.use_count() == 1 && block->hold->storage().use_count() == 1) block->hold.reset();
  }
};
using SharedPool = std::shared_ptr<MemoryPool>;

/* The blocks that are held while a graph is recorded. */
struct HeldBlocks {
  SharedPool pool;
  std::vector<Hold> holds;
  std::vector<Range> ranges;

  explicit HeldBlocks(SharedPool given) : pool(std::move(given)) {
    for (const auto &block : pool->blocks)
      if (Hold hold = block->held.lock()) {
        holds.push_back(std::move(hold));
        ranges.push_back(range_of(*block));
      }
    std::sort(ranges.begin(), ranges.end());
  }
};

bool is_within(const std::vector<Range> &ranges, const Range &range) {
  auto after = std::upper_bound(ranges.begin(), ranges.end(), range);
  return after != ranges.begin() && (after - 1)->end >= range.end;
}

/* ---------------------------------------------------------------- copies */

int copy_bytes(const GpuState *state, void *into, const void *from, size_t bytes) {
  if (!bytes) return 0;
  int result = driver.copy((uint64_t)(uintptr_t)into, (uint64_t)(uintptr_t)from, bytes, state->stream);
  return result ? fail(result, "copy an input of a recorded graph", nullptr) : 0;
}

/* Move the content of an output to memory of its own: all tensors over this storage refer to that. */
int move_out(const GpuState *state, const Block &block) {
  auto storage = used(block);
  if (!storage) return 0;
  int64_t sizes[] = {(int64_t)block.bytes}, strides[] = {1};
  void *created;
  if (allocate(1, sizes, strides, (int)c10::ScalarType::Byte, state->device, &created)) return -1;
  at::TensorBase *fresh = (at::TensorBase *)created;
  int status = copy_bytes(state, fresh->unsafeGetTensorImpl()->mutable_data(), block.address, block.bytes);
  if (!status) storage->set_data_ptr_noswap(fresh->storage().unsafeGetStorageImpl()->set_data_ptr(c10::DataPtr(nullptr, fresh->device())));
  delete fresh;
  return status;
}

/* ---------------------------------------------------------------- pools as Python objects */

struct GraphPool {
  PyObject_HEAD
  SharedPool *pool;
};
PyTypeObject GraphPoolType = {PyVarObject_HEAD_INIT(NULL, 0)};

SharedPool &pool_of(PyObject *value) { return *((GraphPool *)value)->pool; }

/* make_pool(device) */
PyObject *make_pool(PyObject *, PyObject *device) {
  int number = (int)PyLong_AsLong(device);
  if (PyErr_Occurred()) return nullptr;
  CurrentDevice entered(number);
  if (!entered.inside) return nullptr;
  GraphPool *created = PyObject_New(GraphPool, &GraphPoolType);
  if (created) created->pool = new SharedPool(new MemoryPool{number, entered.state.stream, {}});
  return (PyObject *)created;
}

PyObject *pool_ready(PyObject *self, PyObject *) {
  auto &pool = pool_of(self);
  CurrentDevice entered(pool->device);
  if (!entered.inside) return nullptr;
  if (pool->stream != entered.state.stream) Py_RETURN_FALSE;
  pool->prune();
  if (!pool->all_used_are_held()) Py_RETURN_FALSE;
  pool->free_unused();
  Py_RETURN_TRUE;
}

PyObject *pool_idle(PyObject *self, PyObject *) { return PyBool_FromLong(pool_of(self)->all_used_are_held()); }

void pool_dealloc(PyObject *self) {
  delete ((GraphPool *)self)->pool;
  Py_TYPE(self)->tp_free(self);
}

PyMethodDef pool_methods[] = {
    {"ready", pool_ready, METH_NOARGS, "Return whether a graph can be recorded in it."},
    {"idle", pool_idle, METH_NOARGS, "Return whether its memory may be released."},
    {nullptr},
};
