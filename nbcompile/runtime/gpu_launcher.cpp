/* Launches compiled kernels on a GPU: NVIDIA's driver by dlopen, torch's device, stream and allocator.
 *
 *   GpuKernel(tensor, ..., size, ...)     one prepared kernel as a Python callable
 *   table()                               the same for launcher.c, which runs a whole graph (gpu_steps.h)
 *
 * Neither CUDA's toolkit nor torch's CUDA headers are needed: device and stream come from c10's DeviceGuardImplInterface,
 * memory from the allocator that torch has registered for the device, launches from libcuda's own functions. So there is
 * one build for the CPU wheel of torch (under the stand-in driver) and for the CUDA wheels.
 *
 * A launch is prepared once: the module is loaded, its parameters are counted. A call only compares the pointers
 * with the guaranteed alignment, points at the arguments, and calls cuLaunchKernel.
 *
 * In torch: torch/csrc/inductor/static_launcher/cuda.cpp. Read next: nbcompile/runtime/gpu_launcher.py
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <ATen/EmptyTensor.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu_table.h"

extern PyObject *wrap_tensor(const at::TensorBase &) __asm__("_Z16THPVariable_WrapRKN2at10TensorBaseE");
extern PyObject *THPVariableClass;

namespace {

constexpr c10::DeviceType CUDA = c10::DeviceType::CUDA;
constexpr int MOST_PARAMETERS = 256, ALIGNMENT = 16, SHARED_LIMIT = 8 /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */, PLAIN_SHARED = 48 << 10;

/* The functions of libcuda that are used. */
struct Driver {
  void *library = nullptr;
  int (*init)(unsigned);
  int (*version)(int *);
  int (*count)(int *);
  int (*context)(void **);
  int (*set_context)(void *);
  int (*retain)(void **, int);
  int (*load)(void **, const void *);
  int (*unload)(void *);
  int (*function)(void **, void *, const char *);
  int (*set_attribute)(void *, int, int);
  int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
  int (*synchronize)(void *);
  int (*text)(int, const char **);
  int (*attribute)(int *, int, int);
  int (*copy)(uint64_t, uint64_t, size_t, void *);
  int (*begin_capture)(void *, int);
  int (*end_capture)(void *, void **);
  int (*is_capturing)(void *, int *);
  int (*instantiate)(void **, void *, unsigned long long);
  int (*launch_graph)(void *, void *);
  int (*destroy_graph)(void *);
  int (*destroy_executable)(void *);
} driver;

Py_ssize_t tensor_offset = 0;
PyObject *on_error = nullptr;  /* (CUresult, its text, the attempted action, kernel) -> raises */
PyObject *on_memory = nullptr; /* () -> frees unused memory */
PyObject *out_of_memory = nullptr;

const at::TensorBase &tensor_of(PyObject *value) { return *(const at::TensorBase *)((char *)value + tensor_offset); }

int fail(int result, const char *what, PyObject *kernel) {
  const char *text = "";
  if (driver.text) driver.text(result, &text);
  PyObject *answer = PyObject_CallFunction(on_error, "issO", result, text ? text : "", what, kernel ? kernel : Py_None);
  if (answer) PyErr_SetString(PyExc_SystemError, "the driver failed, and the error handler raised no exception");
  Py_XDECREF(answer);
  return -1;
}

/* An exception of torch's as Python's. */
int raise(const std::exception &error) {
  if (auto *lost = dynamic_cast<const c10::AcceleratorError *>(&error)) return fail(lost->get_error_code(), "allocate memory", nullptr);
  auto *memory = dynamic_cast<const c10::OutOfMemoryError *>(&error);
  auto *known = dynamic_cast<const c10::Error *>(&error);
  PyErr_SetString(memory ? out_of_memory : PyExc_RuntimeError, known ? known->what_without_backtrace() : error.what());
  return -1;
}

/* ---------------------------------------------------------------- device and stream */

const c10::impl::DeviceGuardImplInterface *guard() { return c10::impl::getDeviceGuardImpl(CUDA); }

thread_local bool has_context = false;

/* A thread that has not used CUDA yet has no current context, and torch's guard creates none if its device is the first
 * one: memory may come from torch's cache, and the driver would reject the launch. Torch uses the device's primary
 * context, so it becomes current here. */
int with_context(int device, PyObject *kernel) {
  void *context = nullptr;
  int result = driver.context(&context);
  if (!result && !context && !(result = driver.retain(&context, device))) result = driver.set_context(context);
  has_context = !result;
  return result ? fail(result, "enter the device", kernel) : 0;
}

void leave(const GpuState *state) {
  if (state->before != state->device) guard()->uncheckedSetDevice(c10::Device(CUDA, (c10::DeviceIndex)state->before));
}

/* Make the device current in this thread, and find its stream. */
int enter(int device, GpuState *state) {
  try {
    auto *impl = guard();
    c10::Device target(CUDA, (c10::DeviceIndex)device);
    state->before = impl->exchangeDevice(target).index();
    state->device = device;
    state->stream = impl->getStreamNativeHandle(impl->getStream(target));
  } catch (const std::exception &error) {
    return raise(error);
  }
  if (has_context || !with_context(device, nullptr)) return 0;
  leave(state);
  return -1;
}

struct CurrentDevice {
  GpuState state;
  bool inside;
  explicit CurrentDevice(int device) : inside(!enter(device, &state)) {}
  ~CurrentDevice() { if (inside) leave(&state); }
};

/* ---------------------------------------------------------------- memory */

/* Run the garbage collector: uncollected objects may hold memory. */
int free_unused() {
  PyObject *freed = PyObject_CallNoArgs(on_memory);
  Py_XDECREF(freed);
  return freed ? 0 : -1;
}

/* Allocate; if there is too little memory, free unused memory and try once more. */
template <typename Allocate> int allocate_twice_at_most(Allocate allocate) {
  for (int attempt = 0;; attempt++) {
    try {
      allocate();
      return 0;
    } catch (const c10::OutOfMemoryError &error) {
      if (attempt) return raise(error);
    } catch (const std::exception &error) {
      return raise(error);
    }
    if (free_unused()) return -1;
  }
}

int allocate(int64_t dim, const int64_t *sizes, const int64_t *strides, int dtype, int device, void **created) {
  c10::IntArrayRef size(sizes, dim), stride(strides, dim);
  return allocate_twice_at_most([&] {
    auto tensor = at::detail::empty_strided_generic(size, stride, c10::GetAllocator(CUDA), c10::DispatchKeySet(c10::DispatchKey::CUDA), (c10::ScalarType)dtype);
    *created = new at::TensorBase(std::move(tensor)); /* as aoti_torch_delete_tensor_object expects it */
  });
}

/* Memory of the current device for one launch. */
int take_scratch(size_t bytes, c10::DataPtr *created) {
  return allocate_twice_at_most([&] { *created = c10::GetAllocator(CUDA)->allocate(bytes); });
}

/* ---------------------------------------------------------------- kernels */

struct GpuKernel {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  void *module[2], *function[2]; /* for aligned pointers; for any, once one is needed */
  unsigned threads[2], shared[2], scratch[2];
  int parameters[2];
  int tensors, sizes, device, debug;
  PyObject *name, *grid, *unaligned; /* unaligned() -> (image, entry, threads, shared, parameters, scratch) */
};

int load(GpuKernel *kernel, int which, PyObject *created) {
  const char *image, *entry;
  Py_ssize_t bytes;
  int parameters;
  unsigned threads, shared, scratch;
  if (!PyArg_ParseTuple(created, "y#sIIiI", &image, &bytes, &entry, &threads, &shared, &parameters, &scratch)) return -1;
  if (parameters < kernel->tensors + kernel->sizes || parameters > MOST_PARAMETERS) {
    PyErr_Format(PyExc_ValueError, "%U takes %d parameters, and %d are given", kernel->name, parameters, kernel->tensors + kernel->sizes);
    return -1;
  }
  CurrentDevice entered(kernel->device);
  if (!entered.inside) return -1;
  void *module = nullptr, *function = nullptr;
  int result = with_context(kernel->device, kernel->name);
  if (result) return result;
  if ((result = driver.load(&module, image))) return fail(result, "load", kernel->name);
  result = driver.function(&function, module, entry);
  /* A function gets more than 48 KiB of dynamic shared memory only after this call. */
  if (!result && shared > PLAIN_SHARED) result = driver.set_attribute(function, SHARED_LIMIT, (int)shared);
  if (result) {
    driver.unload(module);
    return fail(result, "prepare", kernel->name);
  }
  kernel->threads[which] = threads;
  kernel->shared[which] = shared;
  kernel->parameters[which] = parameters;
  kernel->scratch[which] = scratch;
  kernel->module[which] = module;
  kernel->function[which] = function;
  return 0;
}

/* Held while code is loaded that several threads may need at the same time. */
std::recursive_mutex loading;

int need_unaligned(GpuKernel *kernel) {
  PyObject *created = PyObject_CallNoArgs(kernel->unaligned);
  if (!created) return -1;
  /* A driver may let another thread run Python before the load has finished, so the GIL does not order the loads. A thread
   * waits without the GIL: the loading thread may need it. */
  std::unique_lock<std::recursive_mutex> lock(loading, std::defer_lock);
  Py_BEGIN_ALLOW_THREADS;
  lock.lock();
  Py_END_ALLOW_THREADS;
  int status = kernel->function[1] ? 0 : load(kernel, 1, created);
  Py_DECREF(created);
  return status;
}

/* Blocks along each dimension; the driver's limits. */
struct Grid {
  int64_t blocks[3] = {0, 1, 1};
};
constexpr int64_t MOST_BLOCKS[3] = {0x7fffffff, 65535, 65535};

/* One launch on the stream of an entered device. An empty grid is not launched. */
int launch_grid(void *given, void **pointers, const int64_t *sizes, const Grid &grid, const GpuState *state) {
  GpuKernel *kernel = (GpuKernel *)given;
  static uint64_t nothing = 0; /* the argument of Triton's profiler */
  void *parameters[MOST_PARAMETERS];
  uintptr_t all = 0;
  int count = 0;
  for (int64_t blocks : grid.blocks)
    if (blocks <= 0) return 0;
  for (int i = 0; i < 3; i++)
    if (grid.blocks[i] > MOST_BLOCKS[i])
      return PyErr_Format(PyExc_RuntimeError, "%U: a grid of %lld blocks is too large", kernel->name, (long long)grid.blocks[i]), -1;
  for (int i = 0; i < kernel->tensors; i++) {
    /* The low bits of the disjunction are 0 only if they are 0 in each address: one test for all pointers. */
    all |= (uintptr_t)pointers[i];
    parameters[count++] = &pointers[i];
  }
  for (int i = 0; i < kernel->sizes; i++) parameters[count++] = (void *)&sizes[i];
  int which = all % ALIGNMENT != 0;
  if (!kernel->function[which] && need_unaligned(kernel)) return -1;
  /* Torch's allocator reuses memory that is freed now for later work of the same stream, which runs after the kernel. */
  c10::DataPtr scratch;
  void *address = nullptr;
  if (kernel->scratch[which]) {
    if (take_scratch(kernel->scratch[which] * (size_t)(grid.blocks[0] * grid.blocks[1] * grid.blocks[2]), &scratch)) return -1;
    address = scratch.get();
    parameters[count++] = &address;
  }
  while (count < kernel->parameters[which]) parameters[count++] = &nothing;
  /* A launch returns before the kernel runs, so its faults are reported at a synchronisation: in debug mode at once, with
   * the kernel's name. An earlier failure, of an operator of the library perhaps, must not be reported with this name. */
  int result = 0, before = 0;
  Py_BEGIN_ALLOW_THREADS;
  if (kernel->debug) before = driver.synchronize(state->stream);
  if (!before) result = driver.launch(kernel->function[which], (unsigned)grid.blocks[0], (unsigned)grid.blocks[1], (unsigned)grid.blocks[2], kernel->threads[which], 1, 1, kernel->shared[which], state->stream, parameters, nullptr);
  if (!before && !result && kernel->debug) result = driver.synchronize(state->stream);
  Py_END_ALLOW_THREADS;
  if (before) return fail(before, "wait for earlier work before", kernel->name);
  return result ? fail(result, kernel->debug ? "run" : "launch", kernel->name) : 0;
}

int launch(void *given, void **pointers, const int64_t *sizes, int64_t blocks, const GpuState *state) {
  Grid grid;
  grid.blocks[0] = blocks;
  return launch_grid(given, pointers, sizes, grid, state);
}

/* A number of blocks, or a tuple of up to three. */
int read_grid(PyObject *given, Grid *grid) {
  if (PyTuple_Check(given)) return PyArg_ParseTuple(given, "L|LL", &grid->blocks[0], &grid->blocks[1], &grid->blocks[2]) ? 0 : -1;
  grid->blocks[0] = PyLong_AsLongLong(given);
  return grid->blocks[0] == -1 && PyErr_Occurred() ? -1 : 0;
}

PyObject *kernel_call(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *keywords) {
  GpuKernel *kernel = (GpuKernel *)self;
  void *pointers[MOST_PARAMETERS];
  int64_t sizes[MOST_PARAMETERS];
  Py_ssize_t given = PyVectorcall_NARGS(flags);
  if (given != kernel->tensors + kernel->sizes || (keywords && PyTuple_GET_SIZE(keywords)))
    return PyErr_Format(PyExc_TypeError, "%U takes %d tensors and %d sizes, not %zd arguments", kernel->name, kernel->tensors, kernel->sizes, given);
  for (int i = 0; i < kernel->tensors; i++) {
    if (!PyObject_TypeCheck(arguments[i], (PyTypeObject *)THPVariableClass))
      return PyErr_Format(PyExc_TypeError, "a kernel takes tensors, not %.100s", Py_TYPE(arguments[i])->tp_name);
    const at::TensorBase &tensor = tensor_of(arguments[i]);
    c10::Device device = tensor.device();
    if (device.type() != CUDA || device.index() != kernel->device)
      return PyErr_Format(PyExc_ValueError, "%U was compiled for cuda:%d, and a tensor is on %s", kernel->name, kernel->device, device.str().c_str());
    pointers[i] = tensor.unsafeGetTensorImpl()->mutable_data();
  }
  for (int i = 0; i < kernel->sizes; i++) {
    sizes[i] = PyLong_AsLongLong(arguments[kernel->tensors + i]);
    if (sizes[i] == -1 && PyErr_Occurred()) return nullptr;
  }
  PyObject *blocks = PyObject_Vectorcall(kernel->grid, arguments + kernel->tensors, kernel->sizes, nullptr);
  if (!blocks) return nullptr;
  Grid grid;
  int status = read_grid(blocks, &grid);
  Py_DECREF(blocks);
  if (status) return nullptr;
  CurrentDevice entered(kernel->device);
  if (!entered.inside || launch_grid(kernel, pointers, sizes, grid, &entered.state)) return nullptr;
  Py_RETURN_NONE;
}

/* At interpreter shutdown no module is unloaded: the driver may already be unloaded. */
void kernel_dealloc(PyObject *self) {
  GpuKernel *kernel = (GpuKernel *)self;
  if (Py_IsInitialized())
    for (void *module : kernel->module)
      if (module) driver.unload(module);
  Py_XDECREF(kernel->name);
  Py_XDECREF(kernel->grid);
  Py_XDECREF(kernel->unaligned);
  Py_TYPE(self)->tp_free(self);
}

PyTypeObject KernelType = {PyVarObject_HEAD_INIT(NULL, 0)};

/* make_kernel(name, device, tensors, sizes, debug, grid, (image, entry, threads, shared, parameters, scratch), unaligned) */
PyObject *make_kernel(PyObject *, PyObject *arguments) {
  PyObject *name, *grid, *created, *unaligned;
  int device, tensors, sizes, debug;
  if (!PyArg_ParseTuple(arguments, "UiiipOO!O", &name, &device, &tensors, &sizes, &debug, &grid, &PyTuple_Type, &created, &unaligned)) return nullptr;
  GpuKernel *kernel = PyObject_New(GpuKernel, &KernelType);
  if (!kernel) return nullptr;
  memset((char *)kernel + sizeof(PyObject), 0, sizeof(GpuKernel) - sizeof(PyObject));
  kernel->vectorcall = kernel_call;
  kernel->device = device;
  kernel->tensors = tensors;
  kernel->sizes = sizes;
  kernel->debug = debug;
  Py_INCREF(kernel->name = name);
  Py_INCREF(kernel->grid = grid);
  Py_INCREF(kernel->unaligned = unaligned);
  if (load(kernel, 0, created)) {
    Py_DECREF(kernel);
    return nullptr;
  }
  return (PyObject *)kernel;
}

#include "gpu_graph_memory.h"
#include "gpu_capture.h"

/* ---------------------------------------------------------------- module */

template <typename Function> bool find(Function &function, const char *name) {
  function = (Function)dlsym(driver.library, name);
  return function != nullptr;
}

/* open_driver(path) -> (version, devices); raises OSError where there is none, or what on_error raises */
PyObject *open_driver(PyObject *, PyObject *arguments) {
  const char *path;
  if (!PyArg_ParseTuple(arguments, "s", &path)) return nullptr;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return PyErr_Format(PyExc_OSError, "%s", dlerror());
  driver.library = library;
  bool whole = find(driver.init, "cuInit") && find(driver.version, "cuDriverGetVersion") && find(driver.count, "cuDeviceGetCount") &&
               find(driver.context, "cuCtxGetCurrent") && find(driver.set_context, "cuCtxSetCurrent") && find(driver.retain, "cuDevicePrimaryCtxRetain") &&
               find(driver.load, "cuModuleLoadData") && find(driver.unload, "cuModuleUnload") && find(driver.function, "cuModuleGetFunction") &&
               find(driver.set_attribute, "cuFuncSetAttribute") && find(driver.launch, "cuLaunchKernel") &&
               find(driver.synchronize, "cuStreamSynchronize") && find(driver.text, "cuGetErrorString") &&
               find(driver.attribute, "cuDeviceGetAttribute") && find(driver.copy, "cuMemcpyDtoDAsync_v2") &&
               find(driver.begin_capture, "cuStreamBeginCapture_v2") && find(driver.end_capture, "cuStreamEndCapture") &&
               find(driver.is_capturing, "cuStreamIsCapturing") && find(driver.instantiate, "cuGraphInstantiateWithFlags") &&
               find(driver.launch_graph, "cuGraphLaunch") && find(driver.destroy_graph, "cuGraphDestroy") &&
               find(driver.destroy_executable, "cuGraphExecDestroy");
  if (!whole) return PyErr_Format(PyExc_OSError, "%s lacks functions of the driver API", path);
  int version = 0, devices = 0, result = driver.init(0);
  if (!result) result = driver.version(&version);
  if (!result) result = driver.count(&devices);
  if (result) return fail(result, "start the driver", nullptr), nullptr;
  return Py_BuildValue("ii", version, devices);
}

/* capability(device) -> (major, minor, multiprocessors) */
PyObject *capability(PyObject *, PyObject *arguments) {
  static const int attributes[] = {75, 76, 16}; /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR, _MULTIPROCESSOR_COUNT */
  int device, found[3];
  if (!PyArg_ParseTuple(arguments, "i", &device)) return nullptr;
  for (int i = 0; i < 3; i++) {
    int result = driver.attribute(&found[i], attributes[i], device);
    if (result) return fail(result, "query the compute capability", nullptr), nullptr;
  }
  return Py_BuildValue("iii", found[0], found[1], found[2]);
}

GpuTable functions_for_graphs = {enter, leave, allocate, launch};

PyObject *table(PyObject *, PyObject *) { return PyLong_FromVoidPtr(&functions_for_graphs); }

/* setup(offset of the at::Tensor in a tensor object, on_error, on_memory, torch.OutOfMemoryError) */
PyObject *setup(PyObject *, PyObject *arguments) {
  PyObject *error, *memory, *kind;
  if (!PyArg_ParseTuple(arguments, "nOOO", &tensor_offset, &error, &memory, &kind)) return nullptr;
  Py_XSETREF(on_error, Py_NewRef(error));
  Py_XSETREF(on_memory, Py_NewRef(memory));
  Py_XSETREF(out_of_memory, Py_NewRef(kind));
  Py_RETURN_NONE;
}

/* stream(device) -> the native handle of torch's current stream there */
PyObject *stream(PyObject *, PyObject *arguments) {
  int device;
  if (!PyArg_ParseTuple(arguments, "i", &device)) return nullptr;
  CurrentDevice entered(device);
  return entered.inside ? PyLong_FromVoidPtr(entered.state.stream) : nullptr;
}

/* empty_strided(sizes, strides, number of a dtype, device): from torch's allocator */
PyObject *empty_strided(PyObject *, PyObject *arguments) {
  PyObject *sizes, *strides;
  int dtype, device;
  if (!PyArg_ParseTuple(arguments, "O!O!ii", &PyTuple_Type, &sizes, &PyTuple_Type, &strides, &dtype, &device)) return nullptr;
  c10::SmallVector<int64_t, 8> size, stride;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sizes); i++) size.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(sizes, i)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(strides); i++) stride.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(strides, i)));
  if (PyErr_Occurred()) return nullptr;
  void *created;
  CurrentDevice entered(device);
  if (!entered.inside || allocate((int64_t)size.size(), size.data(), stride.data(), dtype, device, &created)) return nullptr;
  at::TensorBase *tensor = (at::TensorBase *)created;
  PyObject *wrapped = wrap_tensor(*tensor);
  delete tensor;
  return wrapped;
}

PyMethodDef functions[] = {
    {"setup", setup, METH_VARARGS, "Set the functions that raise errors and free memory."},
    {"open_driver", open_driver, METH_VARARGS, "Load and start the driver library."},
    {"make_kernel", make_kernel, METH_VARARGS, "A kernel, loaded for a device."},
    {"table", table, METH_NOARGS, "The address of the functions for launcher.c."},
    {"capability", capability, METH_VARARGS, "Return a device's compute capability and number of multiprocessors."},
    {"stream", stream, METH_VARARGS, "Torch's current stream of a device."},
    {"empty_strided", empty_strided, METH_VARARGS, "A new tensor on a device."},
    {"begin_capture", begin_capture, METH_VARARGS, "Record the work of torch's current stream."},
    {"end_capture", end_capture, METH_VARARGS, "End the recording, and return an executable graph."},
    {"is_output", is_output, METH_O, "Whether a recording wrote a tensor."},
    {"make_pool", make_pool, METH_O, "Memory for the graphs of the current stream."},
    {"make_recording", make_recording, METH_VARARGS, "An executable graph with its inputs and outputs."},
    {nullptr},
};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "nbcompile_gpu_launcher", nullptr, -1, functions};
}  // namespace

PyMODINIT_FUNC PyInit_nbcompile_gpu_launcher(void) {
  KernelType.tp_name = "nbcompile.runtime.GpuKernel";
  KernelType.tp_basicsize = sizeof(GpuKernel);
  KernelType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
  KernelType.tp_vectorcall_offset = offsetof(GpuKernel, vectorcall);
  KernelType.tp_call = PyVectorcall_Call;
  KernelType.tp_dealloc = kernel_dealloc;
  RecordingType.tp_name = "nbcompile.runtime.Recording";
  RecordingType.tp_basicsize = sizeof(Recording);
  RecordingType.tp_flags = Py_TPFLAGS_DEFAULT;
  RecordingType.tp_dealloc = recording_dealloc;
  RecordingType.tp_methods = recording_methods;
  GraphPoolType.tp_name = "nbcompile.runtime.GraphPool";
  GraphPoolType.tp_basicsize = sizeof(GraphPool);
  GraphPoolType.tp_flags = Py_TPFLAGS_DEFAULT;
  GraphPoolType.tp_dealloc = pool_dealloc;
  GraphPoolType.tp_methods = pool_methods;
  if (PyType_Ready(&KernelType) || PyType_Ready(&RecordingType) || PyType_Ready(&GraphPoolType)) return nullptr;
  return PyModule_Create(&definition);
}
