/* Calls generated kernels from Python in well under a microsecond.
 *
 *   Kernel(address, tensors, sizes, ...)   called as kernel(tensor, ..., size, ...) -> None
 *   Program(...)                           called as program([tensor, ...]) -> (tensor, ...)
 *
 * A kernel is `i64 kernel(void **buffers, const i64 *sizes, Context *context)`; it returns 0, or a positive number
 * if a bounds check failed. A Program is the launch plan of a whole graph: an array of steps over numbered slots,
 * which interpret() runs, so that no graph needs C glue of its own:
 *
 *     slots      0: input x   1: input w   2: buf0   3: buf1        (a call's variables, one tensor each)
 *     steps      ALLOCATE 2, float32, (64, 32), (32, 1)
 *                RUN kernel0, slots (0, 2)                           kernel0(x, buf0)
 *                PRODUCT mm, slots (3, 2, 1)                         buf1 = buf0 @ w, by torch's C function
 *                FREE 2
 *     outputs    slot 3
 *
 * A call checks its inputs against the compiled shapes, computes the symbolic sizes, runs the steps and
 * frees the slots. If inputs do not match, the Python wrapper runs instead, which reports the error.
 *
 * torch's C++ headers take seconds to compile. This file uses the C functions that torch exports for
 * ahead-of-time compiled models (aoti_torch_*), whose ABI is stable, and two C++ symbols by their mangled
 * names. The offset of the at::Tensor within a tensor object is measured at start-up and passed to setup(), and a
 * self-test in launcher.py runs before this file is used.
 *
 * In torch: torch/csrc/inductor/aoti_runtime/
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef int64_t i64;
typedef void *Handle; /* an at::Tensor*; the code that created it owns it */

extern int aoti_torch_get_data_ptr(Handle, void **);
extern int aoti_torch_get_dim(Handle, i64 *);
extern int aoti_torch_get_sizes(Handle, i64 **);
extern int aoti_torch_get_strides(Handle, i64 **);
extern int aoti_torch_get_dtype(Handle, int32_t *);
extern int aoti_torch_get_device_type(Handle, int32_t *);
extern int aoti_torch_get_device_index(Handle, int32_t *);
extern int aoti_torch_empty_strided(i64, const i64 *, const i64 *, int32_t, int32_t, int32_t, Handle *);
extern int aoti_torch__reinterpret_tensor(Handle, i64, const i64 *, const i64 *, i64, Handle *);
extern int aoti_torch_delete_tensor_object(Handle);
extern int at_get_num_threads(void) __asm__("_ZN2at15get_num_threadsEv");
extern _Bool at_has_callbacks(void) __asm__("_ZN2at12hasCallbacksEv");
extern i64 mode_count(void) __asm__("_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv");
extern PyObject *wrap_tensor(const void *) __asm__("_Z16THPVariable_WrapRKN2at10TensorBaseE");
extern PyObject *THPVariableClass;

enum { CPU = 0, CUDA = 1 };

#include "gpu_table.h"
static const GpuTable *gpu = NULL; /* of gpu_launcher.cpp; NULL while no graph runs on a GPU */

/* Per-call state of a kernel: the number of threads, and the index that was out of bounds. As in nbvec.h. */
typedef struct {
  i64 threads, site, index, size;
} Context;
typedef i64 (*KernelFunction)(void **buffers, const i64 *sizes, Context *context);

/* Set by setup(): the offset of the at::Tensor within a torch.Tensor object, and torch's numbers of dtypes. */
static Py_ssize_t tensor_offset = 0;
static PyObject *dtype_numbers = NULL, *torch_empty_strided = NULL;

static Handle handle_of(PyObject *tensor) { return (char *)tensor + tensor_offset; }

static int is_tensor(PyObject *value) {
  PyTypeObject *type = (PyTypeObject *)THPVariableClass;
  return Py_TYPE(value) == type || PyType_IsSubtype(Py_TYPE(value), type);
}

/* The data pointer of a CPU tensor; -1 with a Python exception for anything else. */
static int pointer_of(PyObject *value, void **pointer) {
  int32_t device;
  if (!is_tensor(value)) {
    PyErr_Format(PyExc_TypeError, "a kernel takes tensors, not %.100s", Py_TYPE(value)->tp_name);
    return -1;
  }
  if (aoti_torch_get_device_type(handle_of(value), &device) || device != CPU) {
    PyErr_SetString(PyExc_TypeError, "a C++ kernel takes tensors that are in the CPU's memory");
    return -1;
  }
  if (aoti_torch_get_data_ptr(handle_of(value), pointer)) {
    PyErr_SetString(PyExc_TypeError, "a kernel takes tensors that have data");
    return -1;
  }
  return 0;
}

/* Run a kernel; release the GIL if it is expected to take long. */
static int run(KernelFunction function, void **buffers, const i64 *sizes, int lengthy, PyObject *on_error,
               PyObject *name) {
  Context context = {at_get_num_threads(), -1, 0, 0};
  i64 status;
  if (lengthy) {
    Py_BEGIN_ALLOW_THREADS;
    status = function(buffers, sizes, &context);
    Py_END_ALLOW_THREADS;
  } else {
    status = function(buffers, sizes, &context);
  }
  if (!status) return 0;
  /* on_error raises; a return would be an internal error. */
  PyObject *answer =
      PyObject_CallFunction(on_error, "OLLL", name, (long long)context.site, (long long)context.index, (long long)context.size);
  if (answer) PyErr_SetString(PyExc_SystemError, "a kernel failed, and its error handler raised no exception");
  Py_XDECREF(answer);
  return -1;
}

/* ---------------------------------------------------------------- Kernel */

typedef struct {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  KernelFunction function;
  Py_ssize_t tensors, sizes;
  int lengthy;
  PyObject *on_error, *name, *owner; /* owner keeps the shared object mapped */
} Kernel;

#define MANY 32
#define MOST_DIMENSIONS 64

static PyObject *kernel_call(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *keywords) {
  Kernel *kernel = (Kernel *)self;
  Py_ssize_t given = PyVectorcall_NARGS(flags);
  /* Arrays on the stack for most kernels: no allocation in a call. */
  void *few_buffers[MANY], **buffers = few_buffers;
  i64 few_sizes[MANY], *sizes = few_sizes;
  PyObject *result = NULL;
  if (keywords && PyTuple_GET_SIZE(keywords)) return PyErr_Format(PyExc_TypeError, "a kernel takes no keyword arguments");
  if (given != kernel->tensors + kernel->sizes)
    return PyErr_Format(PyExc_TypeError, "%U takes %zd tensors and %zd sizes, not %zd arguments", kernel->name,
                        kernel->tensors, kernel->sizes, given);
  if (kernel->tensors > MANY) buffers = PyMem_Malloc(kernel->tensors * sizeof(void *));
  if (kernel->sizes > MANY) sizes = PyMem_Malloc(kernel->sizes * sizeof(i64));
  if (!buffers || !sizes) {
    PyErr_NoMemory();
    goto done;
  }
  for (Py_ssize_t i = 0; i < kernel->tensors; i++)
    if (pointer_of(arguments[i], &buffers[i])) goto done;
  for (Py_ssize_t i = 0; i < kernel->sizes; i++) {
    sizes[i] = PyLong_AsLongLong(arguments[kernel->tensors + i]);
    if (sizes[i] == -1 && PyErr_Occurred()) goto done;
  }
  if (!run(kernel->function, buffers, sizes, kernel->lengthy, kernel->on_error, kernel->name)) {
    Py_INCREF(Py_None);
    result = Py_None;
  }
done:
  if (buffers != few_buffers) PyMem_Free(buffers);
  if (sizes != few_sizes) PyMem_Free(sizes);
  return result;
}

static void kernel_dealloc(PyObject *self) {
  Kernel *kernel = (Kernel *)self;
  Py_XDECREF(kernel->on_error);
  Py_XDECREF(kernel->name);
  Py_XDECREF(kernel->owner);
  Py_TYPE(self)->tp_free(self);
}

static PyTypeObject KernelType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nbcompile.runtime.Kernel",
    .tp_basicsize = sizeof(Kernel),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Kernel, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_dealloc = kernel_dealloc,
};

/* make_kernel(name, address, tensors, sizes, lengthy, on_error, owner) */
static PyObject *make_kernel(PyObject *module, PyObject *arguments) {
  PyObject *name, *on_error, *owner;
  unsigned long long address;
  Py_ssize_t tensors, sizes;
  int lengthy;
  if (!PyArg_ParseTuple(arguments, "UKnnpOO", &name, &address, &tensors, &sizes, &lengthy, &on_error, &owner)) return NULL;
  Kernel *kernel = PyObject_New(Kernel, &KernelType);
  if (!kernel) return NULL;
  kernel->vectorcall = kernel_call;
  kernel->function = (KernelFunction)(uintptr_t)address;
  kernel->tensors = tensors;
  kernel->sizes = sizes;
  kernel->lengthy = lengthy;
  Py_INCREF(kernel->name = name);
  Py_INCREF(kernel->on_error = on_error);
  Py_INCREF(kernel->owner = owner);
  return (PyObject *)kernel;
}

/* --------------------------------------------------------------- Program */

/* A tensor's type and layout; `sizes` and `strides` point into Program.numbers. */
typedef struct {
  int32_t dtype;
  i64 dim;
  const i64 *sizes, *strides, *offset; /* offset: NULL, where there is none */
  int16_t device_type, device;
} Layout;

#include "output_pool.h"

enum { ALLOCATE, RUN, FREE, VIEW, CALL, PRODUCT, CONVOLVE, LAUNCH };

/* Result of an extern call: its slot, and the shape that later kernels rely on. */
typedef struct {
  Py_ssize_t slot, depth;
  const i64 *path;          /* which item of the result: result[path[0]][path[1]]... */
  Layout layout;
  PyObject *adopt;          /* borrowed: converts a tensor that does not fit, or raises */
} Result;

typedef struct {
  int kind;
  Py_ssize_t slot;          /* ALLOCATE, FREE, VIEW */
  Py_ssize_t source;        /* VIEW */
  Layout layout;            /* ALLOCATE, VIEW */
  PyObject *target, *forms, *keywords; /* CALL; borrowed from Program.description, as all objects here */
  const char *operator_name, *overload; /* CALL, by the dispatcher: its name; NULL: in Python */
  const i64 *codes;         /* the arguments, encoded */
  Py_ssize_t returns;       /* the number of results */
  void *direct;             /* CALL: address of the operator's C++ function, whose argument words are `codes`; NULL: none */
  PyObject *texts;          /* CALL: strings whose addresses are in `codes` */
  Py_ssize_t tensors;       /* CALL, with `direct`: the number of slots that are read */
  Py_ssize_t zeros;         /* CALL: does nothing if the elements of this slot are 0; -1: none */
  Result *result;           /* CALL, CONVOLVE */
  int views;                /* CALL: its results are views of its arguments, for autograd, too */
  Py_ssize_t results;
  int product;              /* PRODUCT: which one */
  double beta, alpha;       /* PRODUCT */
  int by_onednn;
  const i64 *geometry;      /* CONVOLVE: strides, padding, dilation, output padding; transposed, groups */
  KernelFunction function;  /* RUN */
  Py_ssize_t count;         /* RUN, LAUNCH: how many slots it reads and writes */
  const i64 *slots, *sizes; /* RUN, LAUNCH */
  PyObject *kernel;         /* LAUNCH; borrowed */
  const i64 *grid;          /* LAUNCH: the number of blocks */
  int lengthy;
  PyObject *name;           /* RUN; borrowed from Program.description */
} Step;

typedef struct {
  Py_ssize_t slot;
  int is_view;
  Layout layout;
  PyObject *constant; /* borrowed; not NULL: this object, and no slot */
  int is_value;       /* the number slots.values[slot], and no slot */
} Output;

typedef struct {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  Py_ssize_t given;  /* number of arguments */
  Py_ssize_t inputs; /* arguments and the graph's own tensors (constants): the first slots */
  Py_ssize_t slots, steps, outputs, widest;
  int single, calls; /* returns one value and no tuple; calls operators of torch */
  int device;        /* the GPU that it launches on; -1: none */
  Layout *input;
  Step *step;
  Output *output;
  i64 *numbers;          /* every size, stride and slot list */
  Py_ssize_t count, values, holes; /* how many numbers; and how many of them are run-time values */
  struct Value *value;
  struct Hole *hole;
  PyObject *description; /* the tuples it was built from: owns the names */
  PyObject *constants;   /* a tuple: the graph's own tensors */
  PyObject *slow;        /* called with the list of inputs if one does not match */
  PyObject *on_error, *owner;
} Program;

#define ANYTHING -1 /* as a layout's dim: an argument that the graph does not read */

static int has_layout(Handle handle, const Layout *expected) {
  int32_t dtype, device;
  i64 dim, *sizes, *strides;
  if (aoti_torch_get_device_type(handle, &device) || device != expected->device_type) return 0;
  if (device != CPU && (aoti_torch_get_device_index(handle, &device) || device != expected->device)) return 0;
  if (aoti_torch_get_dtype(handle, &dtype) || dtype != expected->dtype) return 0;
  if (aoti_torch_get_dim(handle, &dim) || dim != expected->dim) return 0;
  if (aoti_torch_get_sizes(handle, &sizes) || aoti_torch_get_strides(handle, &strides)) return 0;
  for (i64 i = 0; i < dim; i++)
    /* the stride of a dimension of size one (or of an empty tensor) is never used */
    if (sizes[i] != expected->sizes[i] || (strides[i] != expected->strides[i] && sizes[i] > 1)) return 0;
  return 1;
}

static int fits(PyObject *value, const Layout *expected) {
  return expected->dim == ANYTHING || (is_tensor(value) && has_layout(handle_of(value), expected));
}

static int is_unknown(const Layout *layout) { return layout->dim == ANYTHING; }

/* The slots of one call. A slot holds an input, a tensor that the program allocated (`created`, owned), or the result of an
 * operator (`held`). */
typedef struct {
  Program *program;
  PyObject **inputs; /* NULL: freed */
  void **pointers;
  Handle *created;
  PyObject **held;
  void **buffers; /* for the arguments of one kernel */
  const i64 *numbers, *values; /* the program's numbers in this call */
  int owned;                   /* the inputs are this call's to free, as they came in a list */
  GpuState gpu;
} Slots;

/* Integers of the program with their values in this call, and a layout of them. */
static const i64 *now(const Slots *slots, const i64 *numbers) { return slots->numbers + (numbers - slots->program->numbers); }

static Layout layout_now(const Slots *slots, const Layout *layout) {
  Layout own = *layout;
  own.sizes = now(slots, layout->sizes);
  own.strides = now(slots, layout->strides);
  if (layout->offset) own.offset = now(slots, layout->offset);
  return own;
}

static Handle handle_at(const Slots *slots, Py_ssize_t slot) {
  if (slot < slots->program->inputs) return handle_of(slots->inputs[slot]);
  return slots->held[slot] ? handle_of(slots->held[slot]) : slots->created[slot];
}

/* A new reference. */
static PyObject *object_at(const Slots *slots, Py_ssize_t slot) {
  if (slot < slots->program->inputs) return Py_NewRef(slots->inputs[slot]);
  return slots->held[slot] ? Py_NewRef(slots->held[slot]) : wrap_tensor(slots->created[slot]);
}

/* An input is freed only where the caller gave its reference away; any other owner keeps the tensor alive. */
static void empty(const Slots *slots, Py_ssize_t slot) {
  if (slot < slots->program->inputs) {
    if (slots->owned) Py_CLEAR(slots->inputs[slot]);
    return;
  }
  if (slots->held[slot]) Py_CLEAR(slots->held[slot]);
  else if (slots->created[slot]) aoti_torch_delete_tensor_object(slots->created[slot]);
  slots->created[slot] = NULL;
}

/* A view, its offset counted from the tensor's own data. */
static int view_of(const Slots *slots, Py_ssize_t slot, const Layout *layout, Handle *view) {
  Layout own = layout_now(slots, layout);
  i64 offset = own.offset ? *own.offset : 0;
  if (!aoti_torch__reinterpret_tensor(handle_at(slots, slot), own.dim, own.sizes, own.strides, offset, view)) return 0;
  PyErr_SetString(PyExc_RuntimeError, "could not make a view of a tensor");
  return -1;
}

/* One output as a Python object; an input is returned as the same object. */
static PyObject *finish(const Output *output, const Slots *slots) {
  Handle view;
  if (output->constant) return Py_NewRef(output->constant);
  if (output->is_value) return PyLong_FromLongLong(slots->values[output->slot]);
  if (!output->is_view) return object_at(slots, output->slot);
  if (view_of(slots, output->slot, &output->layout, &view)) return NULL;
  PyObject *wrapped = wrap_tensor(view);
  aoti_torch_delete_tensor_object(view);
  return wrapped;
}

#include "sizes.h"

/* Append tuples of ints to Program.numbers; the caller has checked the capacity. */
typedef struct {
  i64 *next, *end;
  Program *program; /* NULL: there are no holes */
} Numbers;

static int read_hole(PyObject *given, const Numbers *numbers) {
  Program *program = numbers->program;
  Operand operand;
  if (!program) return PyErr_SetString(PyExc_ValueError, "sizes are ints"), -1;
  if (read_operand(given, program->values, &operand)) return -1;
  program->hole[program->holes++] = (Hole){numbers->next - program->numbers, operand.number};
  return 0;
}

static const i64 *read_numbers(PyObject *values, Numbers *numbers, Py_ssize_t *count) {
  i64 *start = numbers->next;
  if (!PyTuple_Check(values) || numbers->end - start < PyTuple_GET_SIZE(values)) {
    PyErr_SetString(PyExc_ValueError, "a program is described by tuples of ints");
    return NULL;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(values); i++, numbers->next++) {
    PyObject *item = PyTuple_GET_ITEM(values, i);
    if (PyTuple_Check(item) ? read_hole(item, numbers) : (*numbers->next = PyLong_AsLongLong(item)) == -1 && PyErr_Occurred())
      return NULL;
  }
  if (count) *count = PyTuple_GET_SIZE(values);
  return start;
}

/* A type's number, and above its lowest eight bits a device: 1 and the device's number, 0 for the CPU. */
static void read_type(long number, Layout *layout) {
  layout->dtype = (int32_t)(number & 255);
  layout->device_type = number >> 8 ? CUDA : CPU;
  layout->device = (int16_t)((number >> 8) - 1);
}

/* `offset`: a tuple of one, or NULL */
static int read_layout(PyObject *dtype, PyObject *sizes, PyObject *strides, PyObject *offset, Numbers *numbers, Layout *layout) {
  Py_ssize_t dim, same;
  if (dtype) read_type(PyLong_AsLong(dtype), layout);
  if (PyErr_Occurred()) return -1;
  if (!(layout->sizes = read_numbers(sizes, numbers, &dim)) || !(layout->strides = read_numbers(strides, numbers, &same))) return -1;
  if (dim != same) {
    PyErr_SetString(PyExc_ValueError, "as many sizes as strides");
    return -1;
  }
  layout->dim = dim;
  layout->offset = NULL;
  if (!offset) return 0;
  if (!(layout->offset = read_numbers(offset, numbers, &dim))) return -1;
  return dim == 1 ? 0 : (PyErr_SetString(PyExc_ValueError, "an offset is one number"), -1);
}

static int read_slot(PyObject *value, Py_ssize_t slots, Py_ssize_t *slot) {
  *slot = PyLong_AsSsize_t(value);
  if (PyErr_Occurred()) return -1;
  if (*slot >= 0 && *slot < slots) return 0;
  PyErr_SetString(PyExc_ValueError, "no such slot");
  return -1;
}

#include "operators.h"

/* Interpret the steps. Returns 0 when done, -1 with a Python exception, 1 if an allocation failed.

     slots.created      tensors that this call owns      slots.pointers      their data, and that of the inputs
     ALLOCATE 2      created[2] = empty(...)             pointers[2]
     RUN kernel0     reads and writes                 pointers[0], pointers[2]
     FREE 2          created[2] is released

   A kernel sees pointers alone; that of each tensor is looked up once, where it is allocated or a view is taken. */
static int interpret(Program *program, const Slots *slots) {
  for (Py_ssize_t i = 0; i < program->steps; i++) {
    Step *step = &program->step[i];
    int status = 0;
    switch (step->kind) {
      case ALLOCATE: {
        Layout layout = layout_now(slots, &step->layout);
        if (allocate(&layout, &slots->created[step->slot])) {
          /* A tensor that was not allocated must not be released at the end of the call. */
          slots->created[step->slot] = NULL;
          return PyErr_Occurred() ? -1 : 1;
        }
        if (aoti_torch_get_data_ptr(slots->created[step->slot], &slots->pointers[step->slot])) return 1;
        break;
      }
      case RUN:
        for (Py_ssize_t k = 0; k < step->count; k++) slots->buffers[k] = slots->pointers[step->slots[k]];
        status = run(step->function, slots->buffers, now(slots, step->sizes), step->lengthy, program->on_error, step->name);
        break;
      case LAUNCH:
        for (Py_ssize_t k = 0; k < step->count; k++) slots->buffers[k] = slots->pointers[step->slots[k]];
        status = gpu->launch(step->kernel, slots->buffers, now(slots, step->sizes), *now(slots, step->grid), &slots->gpu);
        break;
      case FREE:
        empty(slots, step->slot);
        break;
      case VIEW: {
        Handle view;
        if (view_of(slots, step->source, &step->layout, &view)) return -1;
        slots->created[step->slot] = view;
        if (aoti_torch_get_data_ptr(view, &slots->pointers[step->slot])) return 1;
        break;
      }
      case CALL:
        status = call_operator(step, slots);
        break;
      case PRODUCT:
        status = multiply(step, slots);
        break;
      case CONVOLVE:
        status = convolve(step, slots);
        break;
    }
    if (status) return status;
  }
  return 0;
}

static PyObject *results_of(Program *program, const Slots *slots) {
  if (program->single) return finish(program->output, slots);
  PyObject *result = PyTuple_New(program->outputs);
  for (Py_ssize_t i = 0; result && i < program->outputs; i++) {
    PyObject *value = finish(&program->output[i], slots);
    if (value) PyTuple_SET_ITEM(result, i, value);
    else Py_CLEAR(result);
  }
  return result;
}

/* Slow path: call the Python wrapper, which reports why inputs do not match the compiled shapes. Owned inputs are moved
   into its list, so that the wrapper can free them as early. */
static PyObject *program_slowly(Program *program, PyObject **inputs, Py_ssize_t given, int owned) {
  PyObject *list = PyList_New(given);
  if (!list) return NULL;
  for (Py_ssize_t i = 0; i < given; i++) {
    PyList_SET_ITEM(list, i, owned ? inputs[i] : Py_NewRef(inputs[i]));
    if (owned) inputs[i] = NULL;
  }
  PyObject *result = PyObject_CallOneArg(program->slow, list);
  Py_DECREF(list);
  return result;
}

/* With a dispatch mode, the wrapper calls operators through the dispatcher; for a profiler, it names the kernels. */
static int can_run(const Program *program, Py_ssize_t given) {
  return given == program->given && !at_has_callbacks() && !(program->calls && mode_count());
}

/* 1: every input is as expected; 0: one is not; -1: one has no data. */
static int take_inputs(const Slots *slots) {
  const Program *program = slots->program;
  for (Py_ssize_t i = 0; i < program->given; i++) {
    Layout expected = layout_now(slots, &program->input[i]);
    if (!fits(slots->inputs[i], &expected)) return 0;
  }
  for (Py_ssize_t i = 0; i < program->inputs; i++)
    if (program->input[i].dim != ANYTHING && aoti_torch_get_data_ptr(handle_of(slots->inputs[i]), &slots->pointers[i])) return -1;
  return 1;
}

static PyObject *program_run(Program *program, PyObject **inputs, int owned) {
  /* One block of memory for all arrays of a call, on the stack where it is small:
   *     pointers[slots] | created[slots] | held[slots] | buffers[widest] | values[values] | numbers[count]
   * Without run-time sizes the last two are left out, and Program.numbers is used as it is. */
  char small[2048];
  size_t words = 3 * program->slots + program->widest, numbers = program->holes || program->values ? program->values + program->count : 0;
  size_t needed = words * sizeof(void *) + numbers * sizeof(i64);
  char *memory = needed <= sizeof small ? small : PyMem_Malloc(needed);
  if (!memory) return PyErr_NoMemory();
  void **word = (void **)memory;
  i64 *values = (i64 *)(word + words);
  Slots slots = {program, inputs, word, word + program->slots, (PyObject **)(word + 2 * program->slots), word + 3 * program->slots,
                 numbers ? values + program->values : program->numbers, values, owned};
  PyObject *result = NULL;
  int fit = !numbers || !compute_values(program, inputs, values), status;
  if (fit && numbers) fill(program, values, values + program->values);
  if (fit) fit = take_inputs(&slots);
  if (!fit) {
    result = program_slowly(program, inputs, program->given, owned);
  } else {
    /* created and held: NULL is what `empty` releases nothing for, if the steps stop halfway. */
    memset(slots.created, 0, 2 * program->slots * sizeof(void *));
    int entered = program->device >= 0;
    if (entered && gpu->enter(program->device, &slots.gpu)) status = -1, entered = 0;
    else status = fit < 0 ? 1 : interpret(program, &slots);
    if (!status) result = results_of(program, &slots);
    else if (status > 0) PyErr_SetString(PyExc_MemoryError, "could not allocate the result of a compiled graph");
    /* An output has a reference of its own by now (wrap_tensor), so that every slot can be emptied. */
    for (Py_ssize_t i = program->inputs; i < program->slots; i++) empty(&slots, i);
    if (entered) gpu->leave(&slots.gpu);
  }
  if (memory != small) PyMem_Free(memory);
  return result;
}

/* program([tensor, ...]): boxed calling convention; the list is cleared, so that the caller keeps no input alive. */
static PyObject *program_call(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *keywords) {
  Program *program = (Program *)self;
  if (PyVectorcall_NARGS(flags) != 1 || (keywords && PyTuple_GET_SIZE(keywords)) || !PyList_CheckExact(arguments[0]))
    return PyErr_Format(PyExc_TypeError, "a compiled graph takes one list of inputs");
  PyObject *list = arguments[0];
  Py_ssize_t given = PyList_GET_SIZE(list), own = program->inputs - program->given;
  PyObject *few[MANY], **inputs = given + own <= MANY ? few : PyMem_Malloc((given + own) * sizeof(PyObject *));
  if (!inputs) return PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < given; i++) Py_INCREF(inputs[i] = PyList_GET_ITEM(list, i));
  for (Py_ssize_t i = 0; i < own; i++) inputs[given + i] = PyTuple_GET_ITEM(program->constants, i);
  PyObject *result = NULL;
  if (!PyList_SetSlice(list, 0, given, NULL))
    result = can_run(program, given) ? program_run(program, inputs, 1) : program_slowly(program, inputs, given, 1);
  for (Py_ssize_t i = 0; i < given; i++) Py_XDECREF(inputs[i]);
  if (inputs != few) PyMem_Free(inputs);
  return result;
}

/* program.positional(tensor, ...): the caller keeps the inputs alive during the call. */
static PyObject *program_positional(PyObject *self, PyObject *const *inputs, Py_ssize_t given) {
  Program *program = (Program *)self;
  if (!can_run(program, given)) return program_slowly(program, (PyObject **)inputs, given, 0);
  /* Nothing to append: the arguments of the call are the first slots as they are. */
  if (program->inputs == given) return program_run(program, (PyObject **)inputs, 0);
  PyObject *few[MANY], **all = program->inputs <= MANY ? few : PyMem_Malloc(program->inputs * sizeof(PyObject *));
  if (!all) return PyErr_NoMemory();
  memcpy(all, inputs, given * sizeof(PyObject *));
  for (Py_ssize_t i = given; i < program->inputs; i++) all[i] = PyTuple_GET_ITEM(program->constants, i - given);
  PyObject *result = program_run(program, all, 0);
  if (all != few) PyMem_Free(all);
  return result;
}

static void program_dealloc(PyObject *self) {
  Program *program = (Program *)self;
  for (Py_ssize_t i = 0; program->step && i < program->steps; i++) PyMem_Free(program->step[i].result);
  PyMem_Free(program->input);
  PyMem_Free(program->step);
  PyMem_Free(program->output);
  PyMem_Free(program->numbers);
  PyMem_Free(program->value);
  PyMem_Free(program->hole);
  Py_XDECREF(program->description);
  Py_XDECREF(program->constants);
  Py_XDECREF(program->slow);
  Py_XDECREF(program->on_error);
  Py_XDECREF(program->owner);
  Py_TYPE(self)->tp_free(self);
}

#include "joined.h"

static PyMethodDef program_methods[] = {
    {"joined", program_joined, METH_VARARGS, "A graph some of whose results are replaced by these views."},
    {"positional", (PyCFunction)(void (*)(void))program_positional, METH_FASTCALL, "Call with the inputs as arguments."},
    {NULL},
};

static PyTypeObject ProgramType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nbcompile.runtime.Program",
    .tp_basicsize = sizeof(Program),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Program, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_dealloc = program_dealloc,
    .tp_methods = program_methods,
};

/* (ALLOCATE, slot, dtype, sizes, strides) | (RUN, address, slots, sizes, lengthy, name) | (FREE, slot)
   | (LAUNCH, GpuKernel, slots, sizes, (blocks,), name)
   | (VIEW, slot, source, sizes, strides, offset) | what operators.h reads */
static int read_step(Program *program, PyObject *text, Numbers *numbers, Step *step) {
  PyObject *a, *b, *c, *d, *e;
  if (!PyTuple_Check(text) || PyTuple_GET_SIZE(text) < 2) goto wrong;
  step->kind = (int)PyLong_AsLong(PyTuple_GET_ITEM(text, 0));
  switch (step->kind) {
    case ALLOCATE: {
      if (!PyArg_ParseTuple(text, "iOOOO", &step->kind, &a, &b, &c, &d)) return -1;
      if (read_slot(a, program->slots, &step->slot) || read_layout(b, c, d, NULL, numbers, &step->layout)) return -1;
      if (step->slot < program->inputs) goto wrong;
      return 0;
    }
    case RUN:
      if (!PyArg_ParseTuple(text, "iOOOOO", &step->kind, &a, &b, &c, &d, &e)) return -1;
      step->function = (KernelFunction)(uintptr_t)PyLong_AsUnsignedLongLong(a);
      if (PyErr_Occurred() || !(step->slots = read_numbers(b, numbers, &step->count))) return -1;
      if (!(step->sizes = read_numbers(c, numbers, NULL))) return -1;
      for (Py_ssize_t i = 0; i < step->count; i++)
        if (step->slots[i] < 0 || step->slots[i] >= program->slots) goto wrong;
      step->lengthy = PyObject_IsTrue(d);
      step->name = e;
      if (step->count > program->widest) program->widest = step->count;
      return 0;
    case LAUNCH:
      if (!PyArg_ParseTuple(text, "iOOOOO", &step->kind, &step->kernel, &b, &c, &d, &step->name)) return -1;
      if (!(step->slots = read_numbers(b, numbers, &step->count)) || !(step->sizes = read_numbers(c, numbers, NULL)) ||
          !(step->grid = read_numbers(d, numbers, NULL)))
        return -1;
      for (Py_ssize_t i = 0; i < step->count; i++)
        if (step->slots[i] < 0 || step->slots[i] >= program->slots) goto wrong;
      if (!gpu) return PyErr_SetString(PyExc_RuntimeError, "no launcher for a GPU"), -1;
      if (step->count > program->widest) program->widest = step->count;
      return 0;
    case FREE:
      if (read_slot(PyTuple_GET_ITEM(text, 1), program->slots, &step->slot)) return -1;
      /* An argument may be freed, a constant of the graph may not. */
      if (step->slot >= program->inputs || step->slot < program->given) return 0;
      break;
    case VIEW: {
      if (!PyArg_ParseTuple(text, "iOOOOO", &step->kind, &a, &b, &c, &d, &e)) return -1;
      if (read_slot(a, program->slots, &step->slot) || read_slot(b, program->slots, &step->source) ||
          read_layout(NULL, c, d, e, numbers, &step->layout))
        return -1;
      if (step->slot < program->inputs) goto wrong;
      return 0;
    }
    case CALL:
      return read_call(program, text, numbers, step);
    case PRODUCT:
      return read_product(program, text, numbers, step);
    case CONVOLVE:
      return read_convolution(program, text, numbers, step);
  }
wrong:
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "not a step of a program");
  return -1;
}

/* (slot, None) | (slot, (sizes, strides, (offset,))) | (None, object) | (None, (value,)) */
static int read_output(Program *program, PyObject *text, Numbers *numbers, Output *output) {
  PyObject *slot, *view, *sizes, *strides, *offset;
  if (!PyArg_ParseTuple(text, "OO", &slot, &view)) return -1;
  if (slot == Py_None) {
    Operand value;
    output->is_value = PyTuple_Check(view);
    if (!output->is_value) output->constant = view;
    else if (read_operand(view, program->values, &value)) return -1;
    else output->slot = value.number;
    return 0;
  }
  if (read_slot(slot, program->slots, &output->slot)) return -1;
  output->is_view = view != Py_None;
  if (!output->is_view) return 0;
  if (!PyArg_ParseTuple(view, "OOO", &sizes, &strides, &offset)) return -1;
  return read_layout(NULL, sizes, strides, offset, numbers, &output->layout);
}

/* Number of ints in nested tuples: the capacity that read_numbers needs. */
static Py_ssize_t count_numbers(PyObject *value) {
  if (!PyTuple_Check(value)) return 1;
  Py_ssize_t total = 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++) total += count_numbers(PyTuple_GET_ITEM(value, i));
  return total;
}

/* make_program((inputs, steps, outputs, values), slots, single, constants, slow, on_error, owner[, device]); an input is
   (dtype, sizes, strides), or None for an argument that is not read; those of the constants come last */
static PyObject *make_program(PyObject *module, PyObject *arguments) {
  PyObject *description, *inputs, *steps, *outputs, *values, *constants, *slow, *on_error, *owner;
  Py_ssize_t slots;
  int single, device = -1;
  if (!PyArg_ParseTuple(arguments, "O!npO!OOO|i", &PyTuple_Type, &description, &slots, &single, &PyTuple_Type, &constants, &slow,
                        &on_error, &owner, &device))
    return NULL;
  if (!PyArg_ParseTuple(description, "O!O!O!O!", &PyTuple_Type, &inputs, &PyTuple_Type, &steps, &PyTuple_Type, &outputs, &PyTuple_Type, &values))
    return NULL;
  Program *program = PyObject_New(Program, &ProgramType);
  if (!program) return NULL;
  /* From here on program_dealloc can clean up, whatever was created so far. */
  memset((char *)program + sizeof(PyObject), 0, sizeof(Program) - sizeof(PyObject));
  program->vectorcall = program_call;
  program->slots = slots;
  program->single = single;
  program->device = device;
  program->inputs = PyTuple_GET_SIZE(inputs);
  program->given = program->inputs - PyTuple_GET_SIZE(constants);
  program->steps = PyTuple_GET_SIZE(steps);
  program->outputs = PyTuple_GET_SIZE(outputs);
  Py_INCREF(program->description = description);
  Py_INCREF(program->constants = constants);
  Py_INCREF(program->slow = slow);
  Py_INCREF(program->on_error = on_error);
  Py_INCREF(program->owner = owner);
  Py_ssize_t room = count_numbers(description) + 1;
  program->input = PyMem_Calloc(program->inputs + 1, sizeof(Layout));
  program->step = PyMem_Calloc(program->steps + 1, sizeof(Step));
  program->output = PyMem_Calloc(program->outputs + 1, sizeof(Output));
  program->numbers = PyMem_Calloc(room, sizeof(i64));
  program->hole = PyMem_Calloc(room, sizeof(Hole));
  if (!program->input || !program->step || !program->output || !program->numbers || !program->hole) {
    PyErr_NoMemory();
    goto failed;
  }
  Numbers numbers = {program->numbers, program->numbers + room, program};
  if (program->given < 0 || (single && program->outputs != 1)) {
    PyErr_SetString(PyExc_ValueError, "not a program");
    goto failed;
  }
  if (read_values(program, values)) goto failed;
  for (Py_ssize_t i = 0; i < program->inputs; i++) {
    PyObject *dtype, *sizes, *strides, *text = PyTuple_GET_ITEM(inputs, i);
    program->input[i] = (Layout){0, ANYTHING, program->numbers, program->numbers, NULL};
    if (text == Py_None && i < program->given) continue;
    if (!PyArg_ParseTuple(text, "OOO", &dtype, &sizes, &strides) ||
        read_layout(dtype, sizes, strides, NULL, &numbers, &program->input[i]))
      goto failed;
  }
  for (Py_ssize_t i = program->given; i < program->inputs; i++)
    if (!fits(PyTuple_GET_ITEM(constants, i - program->given), &program->input[i])) {
      PyErr_SetString(PyExc_ValueError, "a constant of the graph has changed its layout");
      goto failed;
    }
  for (Py_ssize_t i = 0; i < program->steps; i++)
    if (read_step(program, PyTuple_GET_ITEM(steps, i), &numbers, &program->step[i])) goto failed;
  for (Py_ssize_t i = 0; i < program->outputs; i++)
    if (read_output(program, PyTuple_GET_ITEM(outputs, i), &numbers, &program->output[i])) goto failed;
  program->count = numbers.next - program->numbers;
  return (PyObject *)program;
failed:
  Py_DECREF(program);
  return NULL;
}

/* ---------------------------------------------------------------- module */

/* describe(tensor) -> (dtype, sizes, strides, data pointer): for make_program and the self-test */
static PyObject *describe(PyObject *module, PyObject *tensor) {
  void *pointer;
  int32_t dtype;
  i64 dim, *sizes, *strides;
  if (pointer_of(tensor, &pointer)) return NULL;
  Handle handle = handle_of(tensor);
  if (aoti_torch_get_dtype(handle, &dtype) || aoti_torch_get_dim(handle, &dim) || aoti_torch_get_sizes(handle, &sizes) ||
      aoti_torch_get_strides(handle, &strides))
    return PyErr_Format(PyExc_RuntimeError, "torch would not describe a tensor");
  PyObject *first = PyTuple_New(dim), *second = PyTuple_New(dim);
  for (i64 i = 0; first && second && i < dim; i++) {
    PyTuple_SET_ITEM(first, i, PyLong_FromLongLong(sizes[i]));
    PyTuple_SET_ITEM(second, i, PyLong_FromLongLong(strides[i]));
  }
  return Py_BuildValue("iNNK", (int)dtype, first, second, (unsigned long long)(uintptr_t)pointer);
}

/* empty_strided(sizes, strides, *, dtype[, device]): torch's, with large blocks of the CPU's memory from the pool */
static PyObject *empty_strided(PyObject *module, PyObject *const *arguments, Py_ssize_t given, PyObject *keywords) {
  i64 numbers[2 * MOST_DIMENSIONS];
  Numbers room = {numbers, numbers + 2 * MOST_DIMENSIONS, NULL};
  Layout layout = {0};
  Handle created;
  /* Any other call (a device, a type that is not in the table) is torch's. */
  int only_dtype = given == 2 && keywords && PyTuple_GET_SIZE(keywords) == 1;
  PyObject *number = only_dtype ? PyDict_GetItem(dtype_numbers, arguments[2]) : NULL;
  if (!number) return PyObject_Vectorcall(torch_empty_strided, arguments, given, keywords);
  layout.dtype = (int32_t)PyLong_AsLong(number);
  if (!(layout.sizes = read_numbers(arguments[0], &room, &given)) || !(layout.strides = read_numbers(arguments[1], &room, NULL)))
    return NULL;
  layout.dim = given;
  if (allocate(&layout, &created)) return PyErr_Format(PyExc_MemoryError, "could not allocate a tensor of a compiled graph");
  PyObject *tensor = wrap_tensor(created);
  aoti_torch_delete_tensor_object(created);
  return tensor;
}

/* setup(offset, {dtype: number}, torch.empty_strided, the dispatch keys of autograd) */
static PyObject *setup(PyObject *module, PyObject *arguments) {
  PyObject *numbers, *otherwise;
  Py_ssize_t offset;
  if (!PyArg_ParseTuple(arguments, "nO!Ok", &offset, &PyDict_Type, &numbers, &otherwise, &autograd_keys)) return NULL;
  tensor_offset = offset;
  has_onednn = has_onednn_products();
  Py_XSETREF(dtype_numbers, Py_NewRef(numbers));
  Py_XSETREF(torch_empty_strided, Py_NewRef(otherwise));
  Py_RETURN_NONE;
}

/* use_gpu(address of a GpuTable) */
static PyObject *use_gpu(PyObject *module, PyObject *address) {
  gpu = PyLong_AsVoidPtr(address);
  if (PyErr_Occurred()) return NULL;
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"use_gpu", use_gpu, METH_O, "Set the table of functions of gpu_launcher.cpp."},
    {"empty_strided", (PyCFunction)(void (*)(void))empty_strided, METH_FASTCALL | METH_KEYWORDS, "A new tensor."},
    {"pool_setup", pool_setup, METH_VARARGS, "Set the offsets of a storage's reference counts: output_pool.py's WordOffsets."},
    {"pool_clear", pool_clear, METH_NOARGS, "Release all blocks."},
    {"pool_state", pool_state, METH_NOARGS, "Return (blocks, idle blocks, bytes, hits)."},
    {"setup", setup, METH_VARARGS, "Set the offset of the at::Tensor in a tensor object, and torch's numbers of dtypes."},
    {"describe", describe, METH_O, "(dtype, sizes, strides, data pointer) of a CPU tensor."},
    {"make_kernel", make_kernel, METH_VARARGS, "One generated function as a callable."},
    {"make_program", make_program, METH_VARARGS, "One graph as a callable."},
    {NULL},
};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "nbcompile_launcher", NULL, -1, functions};

PyMODINIT_FUNC PyInit_nbcompile_launcher(void) {
  if (PyType_Ready(&KernelType) || PyType_Ready(&ProgramType) || PyType_Ready(&JoinedType)) return NULL;
  /* AOTAutograd reads from a compiled graph whether it takes its inputs in one list. */
  if (PyDict_SetItemString(ProgramType.tp_dict, "_boxed_call", Py_True)) return NULL;
  return PyModule_Create(&definition);
}
