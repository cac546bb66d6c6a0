/* CUDA graphs: record the launches of a compiled graph once, and replay them by one call of the driver.
 *
 *   begin_capture(pool), end_capture(keep)                      around a call of the program; an executable graph
 *   make_recording(exec, ...)                                   the graph, its inputs and outputs as a Python object
 *   recording.run([input, ...], most bytes)                     a tuple of outputs, or the reason of a rejection (Rejection)
 *
 * A recording reads and writes fixed addresses. An input has the address that was recorded, or is copied to the buffer
 * that was recorded for it. Results get new tensors at each call, over the same memory: while a result that the
 * graph would overwrite is still used, its own or one of another graph of the pool (gpu_graph_memory.h), its content is
 * moved to memory of its own before the graph runs, and all tensors over its storage refer to that. So no result changes
 * afterwards.
 *
 * In torch: torch/_inductor/cudagraph_trees.py, torch/csrc/cuda/Graph.cpp. Read next: nbcompile/gpu/cuda_graphs.py
 */
enum Rejection { LAYOUT = 0, ADDRESS = 1, IN_USE = 2, IN_CAPTURE = 3, REJECTIONS = 4 };
constexpr int THREAD_LOCAL_CAPTURE = 1; /* CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: other threads are not affected */

using Numbers = c10::SmallVector<int64_t, 6>;

/* ---------------------------------------------------------------- capture */

struct Capture {
  bool active = false;
  int device = 0, device_before = 0;
  c10::Stream stream_before = c10::Stream(c10::Stream::UNSAFE, c10::Device(CUDA, 0), 0);
  void *stream = nullptr;
  std::unique_ptr<HeldBlocks> kept; /* until make_recording takes it */
};
thread_local Capture capture;

/* A private stream for captures: the default stream cannot be captured. */
c10::Stream capture_stream(int device) {
  static std::map<int, c10::Stream> streams;
  auto found = streams.find(device);
  if (found == streams.end())
    found = streams.emplace(device, guard()->getStreamFromGlobalPool(c10::Device(CUDA, (c10::DeviceIndex)device), false)).first;
  return found->second;
}

void leave_capture() {
  auto *impl = guard();
  impl->exchangeStream(capture.stream_before);
  impl->uncheckedSetDevice(c10::Device(CUDA, (c10::DeviceIndex)capture.device_before));
  capture.active = false;
}

/* begin_capture(pool): from now on torch's current stream records */
PyObject *begin_capture(PyObject *, PyObject *arguments) {
  PyObject *pool;
  if (!PyArg_ParseTuple(arguments, "O!", &GraphPoolType, &pool)) return nullptr;
  int device = pool_of(pool)->device;
  if (capture.active) return PyErr_SetString(PyExc_RuntimeError, "a graph is being recorded in this thread"), nullptr;
  try {
    auto *impl = guard();
    capture.device = device;
    capture.device_before = impl->exchangeDevice(c10::Device(CUDA, (c10::DeviceIndex)device)).index();
    c10::Stream own = capture_stream(device);
    capture.stream_before = impl->exchangeStream(own);
    capture.stream = impl->getStreamNativeHandle(own);
  } catch (const std::exception &error) {
    raise(error);
    return nullptr;
  }
  capture.active = true;
  capture.kept = std::make_unique<HeldBlocks>(pool_of(pool));
  int result = driver.begin_capture(capture.stream, THREAD_LOCAL_CAPTURE);
  if (!result) Py_RETURN_NONE;
  leave_capture();
  capture.kept.reset();
  fail(result, "begin the capture of a graph", nullptr);
  return nullptr;
}

/* end_capture(keep) -> the executable graph's address; None if it is not kept */
PyObject *end_capture(PyObject *, PyObject *arguments) {
  int keep;
  if (!PyArg_ParseTuple(arguments, "p", &keep)) return nullptr;
  if (!capture.active) return PyErr_SetString(PyExc_RuntimeError, "no graph is being recorded in this thread"), nullptr;
  void *graph = nullptr, *executable = nullptr;
  int result = driver.end_capture(capture.stream, &graph);
  leave_capture();
  const char *what = "end the capture of a graph";
  if (!result && keep) {
    result = driver.instantiate(&executable, graph, 0);
    what = "instantiate a graph";
  }
  if (graph) driver.destroy_graph(graph);
  if (result || !keep) capture.kept.reset();
  if (!keep) Py_RETURN_NONE;
  if (result) return fail(result, what, nullptr), nullptr;
  return PyLong_FromVoidPtr(executable);
}

/* ---------------------------------------------------------------- recordings */

struct RecordedGraph {
  enum Kind { STATIC, COPIED, OTHER };
  struct Input {
    Kind kind;
    caffe2::TypeMeta dtype;
    Numbers sizes, strides;
    void *address; /* of the tensor, or of the buffer that it is copied to */
    size_t bytes;  /* COPIED */
    PyObject *value; /* OTHER: a number, None */
  };
  enum Source { GIVEN, VIEW, CREATED, OBJECT };
  struct Output {
    Source source;
    size_t from; /* the input, or the block */
    caffe2::TypeMeta dtype;
    Numbers sizes, strides;
    int64_t offset;
    PyObject *object;
  };
  int device;
  bool single;
  void *executable;
  std::vector<at::TensorBase> buffers; /* of copied inputs */
  std::vector<Input> inputs;
  std::vector<SharedBlock> blocks;
  std::vector<Output> outputs;
  SharedPool pool;
  std::vector<Range> kept;
  std::vector<SharedBlock> watched;
  size_t watched_version = 0; /* of the pool's list, when it was created */

  const std::vector<SharedBlock> &blocks_to_watch() {
    if (watched_version == pool->version) return watched;
    watched = blocks;
    for (const auto &block : pool->blocks)
      if (block->pooled && block->owner != this && !is_within(kept, range_of(*block))) watched.push_back(block);
    watched_version = pool->version;
    return watched;
  }
};

struct Recording {
  PyObject_HEAD
  RecordedGraph *recorded;
};
PyTypeObject RecordingType = {PyVarObject_HEAD_INIT(NULL, 0)};

bool is_a_tensor(PyObject *value) { return PyObject_TypeCheck(value, (PyTypeObject *)THPVariableClass); }

void *address_of(const at::TensorBase &tensor) { return tensor.unsafeGetTensorImpl()->mutable_data(); }

Numbers numbers_of(c10::IntArrayRef values) { return Numbers(values.begin(), values.end()); }

/* Bytes from a tensor's first element to the end of its last. */
size_t span(const at::TensorBase &tensor) {
  int64_t last = 0;
  for (int64_t i = 0; i < tensor.dim(); i++) {
    if (!tensor.size(i)) return 0;
    last += (tensor.size(i) - 1) * tensor.stride(i);
  }
  return (size_t)(last + 1) * tensor.dtype().itemsize();
}

bool is_on(const at::TensorBase &tensor, int device) {
  return tensor.device().type() == CUDA && tensor.device().index() == device;
}

/* The stride of a dimension of size one (or of an empty tensor) is never used. */
bool same_layout(const at::TensorBase &tensor, const RecordedGraph::Input &input, int device) {
  if (!is_on(tensor, device) || tensor.dtype() != input.dtype || tensor.dim() != (int64_t)input.sizes.size()) return false;
  for (int64_t i = 0; i < tensor.dim(); i++)
    if (tensor.size(i) != input.sizes[i] || (tensor.stride(i) != input.strides[i] && tensor.size(i) > 1)) return false;
  return true;
}

/* Compare by type and value. Returns 1, 0, or -1 with an exception. */
int same_value(PyObject *value, PyObject *known) {
  if (value == known) return 1;
  return Py_TYPE(value) == Py_TYPE(known) ? PyObject_RichCompareBool(value, known, Py_EQ) : 0;
}

size_t bytes_in_use(RecordedGraph *recorded) {
  size_t total = 0;
  for (const auto &block : recorded->blocks_to_watch())
    if (used(*block)) total += block->bytes;
  return total;
}

PyObject *new_tensor(c10::Storage storage, const RecordedGraph::Output &output, int64_t offset) {
  at::TensorBase tensor = at::detail::make_tensor_base<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CUDA), output.dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(output.sizes, output.strides, offset);
  return wrap_tensor(tensor);
}

PyObject *output_of(RecordedGraph *recorded, const RecordedGraph::Output &output, PyObject *const *inputs, std::vector<c10::Storage> &storages) {
  switch (output.source) {
    case RecordedGraph::GIVEN: return Py_NewRef(inputs[output.from]);
    case RecordedGraph::OBJECT: return Py_NewRef(output.object);
    case RecordedGraph::VIEW: {
      const at::TensorBase &base = tensor_of(inputs[output.from]);
      return new_tensor(base.storage(), output, base.storage_offset() + output.offset);
    }
    case RecordedGraph::CREATED: break;
  }
  Block &block = *recorded->blocks[output.from];
  c10::Storage &storage = storages[output.from];
  if (!storage) {
    c10::DataPtr data(block.address, new Hold(block.hold), release_memory, c10::Device(CUDA, (c10::DeviceIndex)recorded->device));
    storage = c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), block.bytes, std::move(data), c10::GetAllocator(CUDA), true));
    block.last = c10::weak_intrusive_ptr<c10::StorageImpl>(storage.getWeakStorageImpl());
  }
  return new_tensor(storage, output, output.offset);
}

PyObject *outputs_of(RecordedGraph *recorded, PyObject *const *inputs) {
  std::vector<c10::Storage> storages(recorded->blocks.size());
  if (recorded->single) return output_of(recorded, recorded->outputs[0], inputs, storages);
  PyObject *results = PyTuple_New((Py_ssize_t)recorded->outputs.size());
  for (size_t i = 0; results && i < recorded->outputs.size(); i++) {
    PyObject *created = output_of(recorded, recorded->outputs[i], inputs, storages);
    if (created) PyTuple_SET_ITEM(results, i, created);
    else Py_CLEAR(results);
  }
  return results;
}

/* Compare the inputs with the recorded ones. Returns REJECTIONS if they match, LAYOUT if not, -1 with an exception. */
int check_inputs(const RecordedGraph *recorded, PyObject *const *inputs, Py_ssize_t given) {
  if (given != (Py_ssize_t)recorded->inputs.size()) return LAYOUT;
  for (Py_ssize_t i = 0; i < given; i++) {
    const RecordedGraph::Input &input = recorded->inputs[i];
    if (input.kind != RecordedGraph::OTHER) {
      if (!is_a_tensor(inputs[i]) || !same_layout(tensor_of(inputs[i]), input, recorded->device)) return LAYOUT;
      continue;
    }
    int same = same_value(inputs[i], input.value);
    if (same <= 0) return same < 0 ? -1 : LAYOUT;
  }
  return REJECTIONS;
}

/* run(inputs, most bytes of results in use, a function to call before, or None) -> the outputs, or a Rejection; raises the
   driver's errors */
PyObject *recording_run(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
  RecordedGraph *recorded = ((Recording *)self)->recorded;
  if (count != 3 || !PyList_CheckExact(arguments[0])) return PyErr_SetString(PyExc_TypeError, "run(list, bytes, function)"), nullptr;
  size_t most = PyLong_AsSize_t(arguments[1]);
  if (PyErr_Occurred()) return nullptr;
  PyObject **inputs = ((PyListObject *)arguments[0])->ob_item;
  int rejection = check_inputs(recorded, inputs, PyList_GET_SIZE(arguments[0])), capturing = 0;
  if (rejection < 0) return nullptr;
  if (rejection != REJECTIONS) return PyLong_FromLong(rejection);
  CurrentDevice entered(recorded->device);
  if (!entered.inside) return nullptr;
  const GpuState *state = &entered.state;
  if (recorded->pool->stream != state->stream) return PyLong_FromLong(LAYOUT); /* what it writes is ordered on one stream */
  int result = driver.is_capturing(state->stream, &capturing);
  if (result) return fail(result, "query the state of a stream", nullptr), nullptr;
  if (capturing) return PyLong_FromLong(IN_CAPTURE);
  for (size_t i = 0; i < recorded->inputs.size(); i++)
    if (recorded->inputs[i].kind == RecordedGraph::STATIC && address_of(tensor_of(inputs[i])) != recorded->inputs[i].address)
      return PyLong_FromLong(ADDRESS);
  if (bytes_in_use(recorded) > most) return PyLong_FromLong(IN_USE);
  for (const auto &block : recorded->blocks_to_watch())
    if (move_out(state, *block)) return nullptr;
  /* The function runs after the moves, as a result can be a random tensor itself, and before the copies, as Python may let
   * another thread replay. */
  if (arguments[2] != Py_None) {
    PyObject *drawn = PyObject_CallNoArgs(arguments[2]);
    if (!drawn) return nullptr;
    Py_DECREF(drawn);
  }
  for (size_t i = 0; i < recorded->inputs.size(); i++) {
    const RecordedGraph::Input &input = recorded->inputs[i];
    if (input.kind == RecordedGraph::COPIED && copy_bytes(state, input.address, address_of(tensor_of(inputs[i])), input.bytes)) return nullptr;
  }
  if ((result = driver.launch_graph(recorded->executable, state->stream))) return fail(result, "replay a recorded graph", nullptr), nullptr;
  return outputs_of(recorded, inputs);
}

/* is_output(tensor) -> whether it is in the memory of a recording's outputs */
PyObject *is_output(PyObject *, PyObject *value) {
  return PyBool_FromLong(is_a_tensor(value) && tensor_of(value).storage().data_ptr().get_deleter() == release_memory);
}

/* changed(inputs) -> the positions of static inputs with another address */
PyObject *recording_changed(PyObject *self, PyObject *inputs) {
  RecordedGraph *recorded = ((Recording *)self)->recorded;
  PyObject *found = PyList_New(0);
  for (size_t i = 0; found && i < recorded->inputs.size() && (Py_ssize_t)i < PyList_GET_SIZE(inputs); i++) {
    PyObject *value = PyList_GET_ITEM(inputs, i);
    if (recorded->inputs[i].kind != RecordedGraph::STATIC || !is_a_tensor(value) || address_of(tensor_of(value)) == recorded->inputs[i].address) continue;
    PyObject *at = PyLong_FromSize_t(i);
    if (!at || PyList_Append(found, at)) Py_CLEAR(found);
    Py_XDECREF(at);
  }
  return found;
}

void recording_dealloc(PyObject *self) {
  RecordedGraph *recorded = ((Recording *)self)->recorded;
  if (recorded) {
    if (Py_IsInitialized() && recorded->executable) driver.destroy_executable(recorded->executable);
    for (auto &input : recorded->inputs) Py_XDECREF(input.value);
    for (auto &output : recorded->outputs) Py_XDECREF(output.object);
    /* Outputs that are still used own their memory. */
    for (auto &block : recorded->blocks) block->hold.reset(), block->owner = nullptr;
    recorded->pool->prune();
    delete recorded;
  }
  Py_TYPE(self)->tp_free(self);
}

PyMethodDef recording_methods[] = {
    {"run", (PyCFunction)(void (*)(void))recording_run, METH_FASTCALL, "Replay the graph."},
    {"changed", recording_changed, METH_O, "Return the positions of static inputs with another address."},
    {nullptr},
};

/* Describe one output; `seen` are the program's arguments during the recording, of which the first `given` are the caller's (the
   others are private buffers: an output over their memory is a result as any other). */
int describe_output(RecordedGraph *recorded, PyObject *value, PyObject *seen, Py_ssize_t given) {
  RecordedGraph::Output output{RecordedGraph::OBJECT, 0, caffe2::TypeMeta(), {}, {}, 0, nullptr};
  for (Py_ssize_t i = 0; i < given; i++)
    if (PyList_GET_ITEM(seen, i) == value) output.source = RecordedGraph::GIVEN, output.from = (size_t)i;
  if (!is_a_tensor(value)) {
    if (output.source == RecordedGraph::OBJECT) output.object = Py_NewRef(value);
    recorded->outputs.push_back(output);
    return 0;
  }
  const at::TensorBase &tensor = tensor_of(value);
  if (!is_on(tensor, recorded->device)) return PyErr_SetString(PyExc_ValueError, "multiple devices: a result is on another one"), -1;
  output.dtype = tensor.dtype();
  output.sizes = numbers_of(tensor.sizes());
  output.strides = numbers_of(tensor.strides());
  output.offset = tensor.storage_offset();
  auto *storage = tensor.storage().unsafeGetStorageImpl();
  if (output.source == RecordedGraph::OBJECT) {
    output.source = RecordedGraph::CREATED;
    for (Py_ssize_t i = 0; i < given; i++) {
      PyObject *input = PyList_GET_ITEM(seen, i);
      if (!is_a_tensor(input) || tensor_of(input).storage().unsafeGetStorageImpl() != storage) continue;
      output.source = RecordedGraph::VIEW;
      output.from = (size_t)i;
      output.offset -= tensor_of(input).storage_offset();
    }
  }
  if (output.source == RecordedGraph::CREATED) {
    void *address = storage->mutable_data();
    for (output.from = 0; output.from < recorded->blocks.size() && recorded->blocks[output.from]->address != address; output.from++) {}
    if (!address || output.from == recorded->blocks.size()) {
      output.from = recorded->blocks.size();
      bool pooled = std::none_of(recorded->buffers.begin(), recorded->buffers.end(), [&](const at::TensorBase &buffer) { return buffer.storage().unsafeGetStorageImpl() == storage; });
      Hold hold = std::make_shared<at::TensorBase>(tensor);
      recorded->blocks.push_back(SharedBlock(new Block{address, storage->nbytes(), pooled, c10::weak_intrusive_ptr<c10::StorageImpl>(c10::intrusive_ptr<c10::StorageImpl>()), hold, hold, recorded}));
    }
  }
  recorded->outputs.push_back(output);
  return 0;
}

void describe_input(RecordedGraph *recorded, PyObject *value, PyObject *seen) {
  if (!is_a_tensor(value)) {
    recorded->inputs.push_back({RecordedGraph::OTHER, caffe2::TypeMeta(), {}, {}, nullptr, 0, Py_NewRef(value)});
    return;
  }
  const at::TensorBase &tensor = tensor_of(value), &buffer = tensor_of(seen);
  bool copied = value != seen;
  recorded->inputs.push_back({copied ? RecordedGraph::COPIED : RecordedGraph::STATIC, tensor.dtype(), numbers_of(tensor.sizes()), numbers_of(tensor.strides()),
                              address_of(buffer), copied ? span(tensor) : 0, nullptr});
  if (copied) recorded->buffers.push_back(buffer);
}

/* make_recording(pool, executable graph, inputs, the program's argument for each, the number of the caller's, its result)
   */
PyObject *make_recording(PyObject *, PyObject *arguments) {
  PyObject *pool, *inputs, *seen, *result;
  unsigned long long executable;
  Py_ssize_t given;
  if (!PyArg_ParseTuple(arguments, "O!KO!O!nO", &GraphPoolType, &pool, &executable, &PyList_Type, &inputs, &PyList_Type, &seen, &given, &result)) return nullptr;
  Recording *created = PyObject_New(Recording, &RecordingType);
  if (!created) return nullptr;
  RecordedGraph *recorded = created->recorded = new RecordedGraph();
  recorded->pool = pool_of(pool);
  recorded->device = recorded->pool->device;
  recorded->executable = (void *)(uintptr_t)executable;
  recorded->single = !PyTuple_CheckExact(result);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(inputs); i++) describe_input(recorded, PyList_GET_ITEM(inputs, i), PyList_GET_ITEM(seen, i));
  int status = recorded->single ? describe_output(recorded, result, seen, given) : 0;
  for (Py_ssize_t i = 0; !status && !recorded->single && i < PyTuple_GET_SIZE(result); i++) status = describe_output(recorded, PyTuple_GET_ITEM(result, i), seen, given);
  if (capture.kept) recorded->kept = std::move(capture.kept->ranges);
  capture.kept.reset();
  if (status) {
    Py_DECREF(created);
    return nullptr;
  }
  auto &known = recorded->pool->blocks;
  known.insert(known.end(), recorded->blocks.begin(), recorded->blocks.end());
  recorded->pool->version++;
  return (PyObject *)created;
}
