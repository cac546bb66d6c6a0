/* A CUDA device for a torch that was built without CUDA: torch's device guard and allocator, on the stand-in driver.
 *
 *   guard       the current device and stream of each thread; a stream's number is its native handle
 *   allocator   cuMemAlloc of the stand-in: memory of the device is memory of the CPU, in the driver's table; private pools
 *   tensors     empty_strided, and view and replace, which torch's own operators are composed of (device.py)
 *   attention   which operator computes it (attention.h)
 *
 * Compiled against torch's headers, once for a machine and a torch.
 *
 * In torch: c10/cuda/impl/CUDAGuardImpl.h, c10/cuda/CUDACachingAllocator.cpp. Read next: nbcompile/gpu/standin/device.py
 */
#include <Python.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <mutex>

#include "attention.h"

extern PyObject *wrap_tensor(const at::TensorBase &) __asm__("_Z16THPVariable_WrapRKN2at10TensorBaseE");

namespace {

constexpr c10::DeviceType CUDA = c10::DeviceType::CUDA;
constexpr int DEVICES = 2, OUT_OF_MEMORY = 2;

struct Driver {
  int (*set_context)(void *);
  int (*allocate)(uint64_t *, size_t);
  int (*release)(uint64_t);
  int (*synchronize)(void *);
  int (*device_count)(int *);
  int (*create_event)(void **, unsigned);
  int (*record_event)(void *, void *);
  int (*wait_event)(void *, void *, unsigned);
  int (*query_event)(void *);
  int (*synchronize_event)(void *);
  int (*destroy_event)(void *);
  int (*query_stream)(void *);
} driver;

constexpr int NOT_READY = 600;

/* Raise torch's exception for an error of the driver. */
void check(int result, const char *what) {
  if (result) throw c10::AcceleratorError({what, __FILE__, (uint32_t)__LINE__}, result, c10::str("CUDA error: ", what));
}

thread_local c10::DeviceIndex current = 0;
thread_local c10::StreamId streams[DEVICES];
c10::StreamId last_stream = 0;

void enter(c10::DeviceIndex device) {
  current = device;
  driver.set_context((void *)(intptr_t)(device + 1));
}

c10::Stream stream_of(c10::DeviceIndex device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(CUDA, device), id);
}

struct Guard final : public c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return CUDA; }
  c10::Device exchangeDevice(c10::Device device) const override {
    c10::Device before(CUDA, current);
    if (device != before) enter(device.index()); /* as torch's: a new thread has no context for it */
    return before;
  }
  c10::Device getDevice() const override { return c10::Device(CUDA, current); }
  void setDevice(c10::Device device) const override { enter(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { enter(device.index()); }
  c10::Stream getStream(c10::Device device) const override { return stream_of(device.index(), streams[device.index()]); }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream_of(device.index(), 0); }
  c10::Stream getNewStream(c10::Device device, int) const override { return stream_of(device.index(), ++last_stream); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override { return stream_of(device.index(), ++last_stream); }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    c10::Stream before = getStream(stream.device());
    streams[stream.device_index()] = stream.id();
    return before;
  }
  void *getStreamNativeHandle(const c10::Stream stream) const override { return (void *)(intptr_t)stream.id(); }
  c10::DeviceIndex deviceCount() const noexcept override {
    int count = 0;
    return driver.device_count(&count) ? 0 : (c10::DeviceIndex)count;
  }
  void record(void **event, const c10::Stream &stream, const c10::DeviceIndex, const c10::EventFlag) const override {
    if (!*event) check(driver.create_event(event, 0), "create an event");
    check(driver.record_event(*event, (void *)(intptr_t)stream.id()), "record an event");
  }
  void block(void *event, const c10::Stream &stream) const override {
    if (event) check(driver.wait_event((void *)(intptr_t)stream.id(), event, 0), "wait for an event");
  }
  static bool is_done(int result, const char *what) {
    if (result == NOT_READY) return false;
    check(result, what);
    return true;
  }
  bool queryEvent(void *event) const override { return !event || is_done(driver.query_event(event), "query an event"); }
  void synchronizeEvent(void *event) const override {
    if (event) check(driver.synchronize_event(event), "synchronise with an event");
  }
  void destroyEvent(void *event, const c10::DeviceIndex) const noexcept override {
    if (event) driver.destroy_event(event);
  }
  bool queryStream(const c10::Stream &stream) const override { return is_done(driver.query_stream((void *)(intptr_t)stream.id()), "query a stream"); }
  void synchronizeStream(const c10::Stream &stream) const override { driver.synchronize((void *)(intptr_t)stream.id()); }
  void synchronizeDevice(const c10::DeviceIndex) const override { driver.synchronize(nullptr); }
  void recordDataPtrOnStream(const c10::DataPtr &, const c10::Stream &) const override {}
} guard;

/* A private pool: freed memory is reused by the pool's next allocation, and returned to the driver when the pool is released. */
struct Pool {
  std::multimap<size_t, void *> unused;
  int users = 0; /* one for each begin_pool without a release_pool */
  bool released = false;
};
struct PooledBlock { size_t bytes; std::shared_ptr<Pool> pool; };
std::map<int, std::shared_ptr<Pool>> pools;
std::map<void *, PooledBlock> pooled; /* blocks that came from a pool */
std::mutex pool_lock;
thread_local std::shared_ptr<Pool> current_pool;

struct Allocator final : public c10::Allocator {
  static void release(void *memory) {
    std::lock_guard<std::mutex> locked(pool_lock);
    auto found = pooled.find(memory);
    if (found != pooled.end()) {
      PooledBlock block = found->second;
      if (!block.pool->released) return (void)block.pool->unused.emplace(block.bytes, memory);
      pooled.erase(found);
    }
    driver.release((uint64_t)(uintptr_t)memory);
  }
  static void *from_pool(size_t bytes) {
    std::lock_guard<std::mutex> locked(pool_lock);
    auto found = current_pool->unused.find(bytes); /* of this size exactly, so that the simulator sees where a tensor ends */
    if (found == current_pool->unused.end()) return nullptr;
    void *memory = found->second;
    current_pool->unused.erase(found);
    return memory;
  }
  c10::DataPtr allocate(size_t bytes) override {
    c10::Device device(CUDA, current);
    uint64_t address = 0;
    if (!bytes) return {nullptr, device};
    enter(current);
    void *reused = current_pool ? from_pool(bytes) : nullptr;
    if (reused) return {reused, reused, &release, device};
    int failed = driver.allocate(&address, bytes);
    if (failed && failed != OUT_OF_MEMORY) throw c10::AcceleratorError({__func__, __FILE__, (uint32_t)__LINE__}, failed, "CUDA error: allocation");
    TORCH_CHECK_WITH(OutOfMemoryError, !failed, "CUDA out of memory. Tried to allocate ", bytes, " bytes on the stand-in device");
    void *memory = (void *)(uintptr_t)address;
    if (current_pool) {
      std::lock_guard<std::mutex> locked(pool_lock);
      pooled[memory] = {bytes, current_pool};
    }
    return {memory, memory, &release, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void *into, const void *from, size_t bytes) const override { memcpy(into, from, bytes); }
} allocator;

/* The interface to torch's CUDA library. A build without CUDA caches an object with default answers at its first use, so
 * enable() swaps the class (the vtable pointer) of that object and restores it: neither class has members. */
struct Hooks final : public at::CUDAHooksInterface {
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return guard.deviceCount() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return false; }
  int getNumGPUs() const override { return guard.deviceCount(); }
  c10::DeviceIndex deviceCount() const override { return guard.deviceCount(); }
  c10::DeviceIndex current_device() const override { return current; }
  c10::DeviceIndex getCurrentDevice() const override { return current; }
  void deviceSynchronize(c10::DeviceIndex) const override { driver.synchronize(nullptr); }
} hooks;

void *own_class = nullptr;

/* enable(whether torch has a CUDA device) */
PyObject *enable(PyObject *, PyObject *enabled) {
  void **object = (void **)&at::detail::getCUDAHooks();
  if (!own_class) own_class = *object;
  *object = PyObject_IsTrue(enabled) ? *(void **)&hooks : own_class;
  Py_RETURN_NONE;
}

using Numbers = c10::SmallVector<int64_t, 8>;

bool read(PyObject *tuple, Numbers &numbers) {
  if (!PyTuple_Check(tuple)) return PyErr_SetString(PyExc_TypeError, "sizes are a tuple"), false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) numbers.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i)));
  return !PyErr_Occurred();
}

c10::TensorImpl *tensor_at(unsigned long long address) { return (c10::TensorImpl *)(uintptr_t)address; }

/* Torch's exceptions must not leave C++. */
template <typename Function> PyObject *guarded(Function function) {
  try {
    return function();
  } catch (const c10::OutOfMemoryError &error) {
    PyObject *torch = PyImport_ImportModule("torch"), *kind = torch ? PyObject_GetAttrString(torch, "OutOfMemoryError") : nullptr;
    if (kind) PyErr_SetString(kind, error.what_without_backtrace());
    Py_XDECREF(kind);
    Py_XDECREF(torch);
  } catch (const std::exception &error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

/* empty_strided(sizes, strides, dtype's number, device's number) */
PyObject *empty_strided(PyObject *, PyObject *arguments) {
  PyObject *sizes, *strides;
  int dtype, device;
  Numbers size, stride;
  if (!PyArg_ParseTuple(arguments, "OOii", &sizes, &strides, &dtype, &device) || !read(sizes, size) || !read(strides, stride)) return nullptr;
  return guarded([&]() {
    c10::DeviceIndex before = current;
    enter(device);
    struct RestoreDevice { c10::DeviceIndex device; ~RestoreDevice() { enter(device); } } restore{before};
    return wrap_tensor(at::detail::empty_strided_generic(size, stride, &allocator, c10::DispatchKeySet(c10::DispatchKey::CUDA), (c10::ScalarType)dtype));
  });
}

/* view(address of a TensorImpl, sizes, strides, offset): another tensor with its storage */
PyObject *view(PyObject *, PyObject *arguments) {
  PyObject *sizes, *strides;
  unsigned long long address;
  long long offset;
  Numbers size, stride;
  if (!PyArg_ParseTuple(arguments, "KOOL", &address, &sizes, &strides, &offset) || !read(sizes, size) || !read(strides, stride)) return nullptr;
  return guarded([&]() {
    c10::TensorImpl *base = tensor_at(address);
    at::TensorBase created = at::detail::make_tensor_base<c10::TensorImpl>(
        c10::TensorImpl::VIEW, c10::Storage(base->storage()), base->key_set(), base->dtype());
    created.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride, offset);
    return wrap_tensor(created);
  });
}

/* replace(address, address): the first tensor gets storage and shape of the second */
PyObject *replace(PyObject *, PyObject *arguments) {
  unsigned long long first, second;
  if (!PyArg_ParseTuple(arguments, "KK", &first, &second)) return nullptr;
  return guarded([&]() {
    c10::TensorImpl *into = tensor_at(first), *from = tensor_at(second);
    into->set_storage_keep_dtype(from->storage());
    into->set_sizes_and_strides(from->sizes(), from->strides(), from->storage_offset());
    return Py_NewRef(Py_None);
  });
}

/* set_stream(device, number) -> the number before */
PyObject *set_stream(PyObject *, PyObject *arguments) {
  int device;
  long long number;
  if (!PyArg_ParseTuple(arguments, "iL", &device, &number)) return nullptr;
  long long before = streams[device];
  streams[device] = number;
  return PyLong_FromLongLong(before);
}

/* set_device(number) -> the number before */
PyObject *set_device(PyObject *, PyObject *arguments) {
  int device;
  if (!PyArg_ParseTuple(arguments, "i", &device)) return nullptr;
  long before = current;
  enter(device);
  return PyLong_FromLong(before);
}

/* current_device(): as torch's, it creates no context in a new thread */
PyObject *current_device(PyObject *, PyObject *) { return PyLong_FromLong(current); }

/* begin_pool(number): this thread allocates from the pool from now on; end_pool(); release_pool(number) */
PyObject *begin_pool(PyObject *, PyObject *number) {
  auto &pool = pools[(int)PyLong_AsLong(number)];
  if (!pool) pool = std::make_shared<Pool>();
  pool->users++;
  current_pool = pool;
  Py_RETURN_NONE;
}
PyObject *end_pool(PyObject *, PyObject *) {
  current_pool.reset();
  Py_RETURN_NONE;
}
PyObject *release_pool(PyObject *, PyObject *number) {
  std::lock_guard<std::mutex> locked(pool_lock);
  auto found = pools.find((int)PyLong_AsLong(number));
  if (found == pools.end()) return PyErr_SetString(PyExc_ValueError, "no such pool"), nullptr;
  if (--found->second->users) Py_RETURN_NONE; /* as torch's: other graphs still use it */
  found->second->released = true;
  for (auto &block : found->second->unused) {
    pooled.erase(block.second);
    driver.release((uint64_t)(uintptr_t)block.second);
  }
  found->second->unused.clear();
  pools.erase(found);
  Py_RETURN_NONE;
}

/* pool_count() -> the number of private pools */
PyObject *pool_count(PyObject *, PyObject *) { return PyLong_FromSize_t(pools.size()); }

/* current_stream(device) -> its number */
PyObject *current_stream(PyObject *, PyObject *device) { return PyLong_FromLongLong(streams[PyLong_AsLong(device)]); }

/* install(path of the stand-in driver) */
PyObject *install(PyObject *, PyObject *arguments) {
  const char *path;
  if (!PyArg_ParseTuple(arguments, "s", &path)) return nullptr;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return PyErr_Format(PyExc_OSError, "%s", dlerror());
  driver.set_context = (int (*)(void *))dlsym(library, "cuCtxSetCurrent");
  driver.allocate = (int (*)(uint64_t *, size_t))dlsym(library, "cuMemAlloc_v2");
  driver.release = (int (*)(uint64_t))dlsym(library, "cuMemFree_v2");
  driver.synchronize = (int (*)(void *))dlsym(library, "cuStreamSynchronize");
  driver.device_count = (int (*)(int *))dlsym(library, "cuDeviceGetCount");
  driver.create_event = (int (*)(void **, unsigned))dlsym(library, "cuEventCreate");
  driver.record_event = (int (*)(void *, void *))dlsym(library, "cuEventRecord");
  driver.wait_event = (int (*)(void *, void *, unsigned))dlsym(library, "cuStreamWaitEvent");
  driver.query_event = (int (*)(void *))dlsym(library, "cuEventQuery");
  driver.synchronize_event = (int (*)(void *))dlsym(library, "cuEventSynchronize");
  driver.destroy_event = (int (*)(void *))dlsym(library, "cuEventDestroy_v2");
  driver.query_stream = (int (*)(void *))dlsym(library, "cuStreamQuery");
  c10::impl::device_guard_impl_registry[(int)CUDA].store(&guard);
  c10::SetAllocator(CUDA, &allocator, 0);
  attention::install();
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"install", install, METH_VARARGS, "Register guard and allocator with torch."},
    {"enable", enable, METH_O, "Enable or disable torch's CUDA device."},
    {"empty_strided", empty_strided, METH_VARARGS, "A new tensor on the device."},
    {"view", view, METH_VARARGS, "A tensor with the storage of another."},
    {"replace", replace, METH_VARARGS, "Give a tensor another storage and shape."},
    {"set_stream", set_stream, METH_VARARGS, "Make a stream current in this thread."},
    {"begin_pool", begin_pool, METH_O, "Allocate from a private pool."},
    {"end_pool", end_pool, METH_NOARGS, "Allocate as usual."},
    {"pool_count", pool_count, METH_NOARGS, "Return the number of private pools."},
    {"release_pool", release_pool, METH_O, "Free the memory of a pool."},
    {"current_stream", current_stream, METH_O, "The stream that is current in this thread."},
    {"current_device", current_device, METH_NOARGS, "The device that is current in this thread."},
    {"set_device", set_device, METH_VARARGS, "Make a device current in this thread."},
    {nullptr},
};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "nbcompile_standin_device", nullptr, -1, functions};
}  // namespace

PyMODINIT_FUNC PyInit_nbcompile_standin_device(void) { return PyModule_Create(&definition); }
