/* Steps of a Program that call operators of torch; part of launcher.c.
 *
 *   CALL       any operator: by its own function of C++, where it writes to nothing and there is a form for each argument
 *              (direct.py); else by torch's dispatcher, from C, where they are tensors and numbers (dispatched.py); else as
 *              Python would call it, with forms that mark the positions of tensors
 *   PRODUCT    a matrix product into memory that an earlier step has created, by torch's C function or by oneDNN
 *   CONVOLVE   a convolution, by torch's C function
 *
 * The C functions call the CPU's kernels directly, not through the dispatcher. A mode or a profiler would miss them, so
 * while one is active, the Python wrapper runs instead of a program that contains any (can_run).
 *
 * In torch: torch/csrc/inductor/aoti_torch/generated/c_shim_cpu.h
 */

extern int aoti_torch_cpu_mm_out(Handle, Handle, Handle);
extern int aoti_torch_cpu_bmm_out(Handle, Handle, Handle);
extern int aoti_torch_cpu_addmm_out(Handle, Handle, Handle, Handle, double, double);
extern int aoti_torch_cpu_baddbmm_out(Handle, Handle, Handle, Handle, double, double);
extern int32_t aoti_torch_dtype_float32(void);
#define IF_EXPORTED __attribute__((weak)) extern
IF_EXPORTED int aoti_torch_call_dispatcher(const char *name, const char *overload, uint64_t *stack);
IF_EXPORTED int aoti_torch_new_tensor_handle(Handle, Handle *);
IF_EXPORTED int torch_new_list_reserve_size(size_t, void **);
IF_EXPORTED int torch_list_push_back(void *, uint64_t);
extern int call_function(void *function, const i64 *words);                            /* launcher.cpp */
extern void *boxed(uint64_t value);                                                   /* launcher.cpp */
extern void free_array(void *start);                                                  /* launcher.cpp */
extern int has_onednn_products(void);                                                  /* launcher.cpp */
extern int multiply_by_onednn(Handle left, Handle right, Handle result, Handle bias); /* launcher.cpp */
extern void exclude_keys(void *guard, unsigned long keys);                            /* launcher.cpp */
extern void include_keys(void *guard);                                                /* launcher.cpp */
extern void capture_warnings(void *handler);                                             /* launcher.cpp */
extern int issue_warnings(void *handler);                                              /* launcher.cpp */

/* Elements of all arguments and results of an operator that is called with the GIL held: releasing and acquiring it costs
 * 0.1 us. */
static const i64 BRIEF = 4096;

/* Autograd is not involved inside a compiled graph: inside ATen's products and convolutions the bias is copied through the
 * dispatcher, which would make a result that needs a gradient, and count a change of it. */
static unsigned long autograd_keys = 0; /* set by setup() */
typedef struct { i64 words[8]; } Guard;     /* room for torch's object, of two words */
typedef struct { i64 words[16]; } Warnings; /* room for torch's object, of six words */
extern int aoti_torch_cpu_convolution(Handle, Handle, Handle *, const i64 *, i64, const i64 *, i64, const i64 *, i64, int32_t,
                                      const i64 *, i64, i64, Handle *);

enum { FORM_VALUE, FORM_TENSOR, FORM_LIST, FORM_TUPLE, FORM_NUMBER };

/* One argument: (FORM_VALUE, object) | (FORM_TENSOR, slot) | (FORM_LIST, forms) | (FORM_TUPLE, forms) | (FORM_NUMBER, value) */
static PyObject *build(PyObject *form, const Slots *slots) {
  long kind = PyLong_AsLong(PyTuple_GET_ITEM(form, 0));
  PyObject *content = PyTuple_GET_ITEM(form, 1);
  if (kind == FORM_VALUE) return Py_NewRef(content);
  if (kind == FORM_TENSOR) return object_at(slots, PyLong_AsSsize_t(content));
  if (kind == FORM_NUMBER) return PyLong_FromLongLong(slots->values[PyLong_AsSsize_t(content)]);
  Py_ssize_t count = PyTuple_GET_SIZE(content);
  PyObject *created = kind == FORM_LIST ? PyList_New(count) : PyTuple_New(count);
  for (Py_ssize_t i = 0; created && i < count; i++) {
    PyObject *item = build(PyTuple_GET_ITEM(content, i), slots);
    if (!item) Py_CLEAR(created);
    else if (kind == FORM_LIST) PyList_SET_ITEM(created, i, item);
    else PyTuple_SET_ITEM(created, i, item);
  }
  return created;
}

/* Return whether a form is valid, and all its slots and values exist. */
static int is_form(PyObject *form, const Program *program) {
  if (!PyTuple_Check(form) || PyTuple_GET_SIZE(form) != 2) return 0;
  long kind = PyLong_AsLong(PyTuple_GET_ITEM(form, 0));
  PyObject *content = PyTuple_GET_ITEM(form, 1);
  Py_ssize_t slot;
  if (kind == FORM_VALUE) return 1;
  if (kind == FORM_TENSOR) return !read_slot(content, program->slots, &slot);
  if (kind == FORM_NUMBER) return !read_slot(content, program->values, &slot);
  if ((kind != FORM_LIST && kind != FORM_TUPLE) || !PyTuple_Check(content)) return 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(content); i++)
    if (!is_form(PyTuple_GET_ITEM(content, i), program)) return 0;
  return 1;
}

static PyObject *tuple_of(const i64 *numbers, i64 count) {
  PyObject *created = PyTuple_New(count);
  for (i64 i = 0; created && i < count; i++) PyTuple_SET_ITEM(created, i, PyLong_FromLongLong(numbers[i]));
  return created;
}

/* Store an operator's result in a slot; steals the reference. */
static int hold(const Result *result, const Slots *slots, PyObject *value) {
  Layout layout = layout_now(slots, &result->layout);
  /* A result with other strides than FakeTensor predicts is copied: kernels were compiled for the predicted ones. */
  if (value && !is_unknown(&layout) && !(is_tensor(value) && has_layout(handle_of(value), &layout)))
    Py_SETREF(value, PyObject_CallFunction(result->adopt, "ONN", value, tuple_of(layout.sizes, layout.dim), tuple_of(layout.strides, layout.dim)));
  if (!value) return -1;
  slots->held[result->slot] = value;
  if (!is_tensor(value) || is_unknown(&layout)) return 0; /* for example a token: no kernel reads it */
  return aoti_torch_get_data_ptr(handle_of(value), &slots->pointers[result->slot]) ? 1 : 0;
}

/* The same for a result that is no Python object yet, and may never be one. */
static int keep(const Result *result, const Slots *slots, Handle created) {
  Layout layout = layout_now(slots, &result->layout);
  if (is_unknown(&layout)) return slots->created[result->slot] = created, 0;
  if (has_layout(created, &layout)) {
    slots->created[result->slot] = created;
    return aoti_torch_get_data_ptr(created, &slots->pointers[result->slot]) ? 1 : 0;
  }
  PyObject *wrapped = wrap_tensor(created);
  aoti_torch_delete_tensor_object(created);
  return hold(result, slots, wrapped);
}

/* Forms of an argument of the dispatcher; larger codes: an optional argument of the form that is left. */
enum { PLAIN, TENSOR, LIST, OPTIONAL };

/* Read an argument and advance past it; the dispatcher owns what it refers to. Returns 0 on success. */
static int argument(const Slots *slots, const i64 **code, uint64_t *into) {
  i64 form = *(*code)++, value = *(*code)++;
  void *created = NULL;
  int status = 0;
  switch (form % OPTIONAL) {
    case TENSOR:
      status = aoti_torch_new_tensor_handle(handle_at(slots, value), &created);
      break;
    case LIST:
      status = torch_new_list_reserve_size(value, &created);
      for (i64 i = 0; i < value && !status; i++) {
        uint64_t item;
        status = argument(slots, code, &item) || torch_list_push_back(created, item);
      }
      break;
  }
  *into = created ? (uint64_t)(uintptr_t)created : (uint64_t)value;
  if (form >= OPTIONAL) *into = (uint64_t)(uintptr_t)boxed(*into);
  return status;
}

/* Store the results of an operator that the step uses, and drop the others. Returns 0, or -1 with a Python exception. */
static int keep_results(const Step *step, const Slots *slots, uint64_t *stack, int status) {
  for (Py_ssize_t i = 0; i < step->results && status >= 0; i++) {
    Py_ssize_t at = step->result[i].depth ? step->result[i].path[0] : 0;
    Handle created = (Handle)(uintptr_t)stack[at];
    stack[at] = 0;
    if (keep(&step->result[i], slots, created)) status = -1;
  }
  for (Py_ssize_t i = 0; i < step->returns; i++)
    if (stack[i]) aoti_torch_delete_tensor_object((Handle)(uintptr_t)stack[i]);
  if (status && !PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "a result of an operator has no memory");
  return status;
}

static i64 count_of(const i64 *sizes, i64 dim) {
  i64 number = 1;
  for (i64 i = 0; i < dim; i++) number *= sizes[i];
  return number;
}

/* Return whether a step's tensors are so small that an operator takes less than other threads would gain. */
static int is_brief(const Step *step, const Slots *slots, Py_ssize_t tensors) {
  i64 left = BRIEF, dim, *sizes;
  for (Py_ssize_t i = 0; i < tensors && left >= 0; i++) {
    if (step->slots[i] < 0) continue;
    Handle handle = handle_at(slots, step->slots[i]);
    if (aoti_torch_get_dim(handle, &dim) || aoti_torch_get_sizes(handle, &sizes)) return 0;
    left -= count_of(sizes, dim);
  }
  for (Py_ssize_t i = 0; i < step->results && left >= 0; i++) {
    Layout layout = layout_now(slots, &step->result[i].layout);
    left -= count_of(layout.sizes, layout.dim);
  }
  return left >= 0;
}

/* The number of results of an operator that returns a list. */
enum { LISTED = -1 };
enum { NUMBER, AT_TENSOR, MAYBE_TENSOR, CELL, TEXT, ARRAY, WORDS = 24, CELLS = 48 };

/* Write the words of a call at their positions; what they are addresses of is in `cells`. */
static void write_words(const Step *step, const Slots *slots, i64 *words, i64 *cells) {
  const i64 *code = now(slots, step->codes), *end = code + step->count;
  while (code < end) {
    i64 *into = &words[*code++], form = *code++, value = *code++;
    switch (form) {
      case NUMBER: *into = value; break;
      case AT_TENSOR: *into = (i64)(uintptr_t)handle_at(slots, value); break;
      case MAYBE_TENSOR:
        *into = (i64)(uintptr_t)cells;
        *cells++ = value < 0 ? 0 : *(i64 *)handle_at(slots, value); /* borrowed: the operator only reads it */
        *cells++ = value >= 0;
        break;
      case CELL:
        *into = (i64)(uintptr_t)cells;
        *cells++ = value;
        break;
      case TEXT: *into = (i64)(uintptr_t)PyUnicode_AsUTF8(PyTuple_GET_ITEM(step->texts, value)); break;
      case ARRAY:
        *into = (i64)(uintptr_t)cells;
        for (i64 i = 0; i < value; i++) *cells++ = *code++;
        break;
    }
  }
}

/* Call an operator by its own function. 0: done; -1: done, and a result does not fit, with a Python exception; 1: it failed. */
static int call_directly(const Step *step, const Slots *slots) {
  i64 words[WORDS] = {0}, cells[CELLS];
  uint64_t created[MANY] = {0};
  write_words(step, slots, words, cells);
  words[0] = (i64)(uintptr_t)created;
  int status;
  Warnings warnings;
  capture_warnings(&warnings);
  PyThreadState *thread = is_brief(step, slots, step->tensors) ? NULL : PyEval_SaveThread();
  Guard guard;
  exclude_keys(&guard, autograd_keys);
  status = call_function(step->direct, words);
  include_keys(&guard);
  if (thread) PyEval_RestoreThread(thread);
  int raised = issue_warnings(&warnings);
  if (status) return raised ? -1 : 1;
  /* A tuple of C++ begins with its last item here. A tensor is one pointer, and its object is one word of memory. */
  uint64_t stack[MANY];
  for (Py_ssize_t i = 0; i < step->returns; i++) stack[i] = (uint64_t)(uintptr_t)boxed(created[step->returns - 1 - i]);
  return keep_results(step, slots, stack, raised);
}

/* Call a view operator by its own function, which autograd records. Views whose number it decides come in a std::vector.
 * 0: done; -1: done, with a Python exception; 1: it failed. */
static int make_views(const Step *step, const Slots *slots) {
  i64 words[WORDS] = {0}, cells[CELLS];
  uint64_t created[MANY] = {0}, *first = created, *end = created + 1;
  write_words(step, slots, words, cells);
  words[0] = (i64)(uintptr_t)created;
  if (call_function(step->direct, words)) return 1;
  if (step->returns == LISTED) first = (uint64_t *)(uintptr_t)created[0], end = (uint64_t *)(uintptr_t)created[1];
  int status = 0;
  for (uint64_t *view = first; view < end; view++) {
    const Result *result = NULL;
    for (Py_ssize_t i = 0; i < step->results && !result; i++)
      if (!step->result[i].depth || step->result[i].path[0] == view - first) result = &step->result[i];
    Handle handle = boxed(*view);
    if (!result) aoti_torch_delete_tensor_object(handle);
    else if (keep(result, slots, handle)) status = -1;
  }
  for (Py_ssize_t i = 0; i < step->results && !status; i++)
    if (!slots->created[step->result[i].slot]) status = (PyErr_SetString(PyExc_RuntimeError, "a view operator returned fewer views"), -1);
  if (step->returns == LISTED) free_array(first);
  return status;
}

/* Call an operator by the dispatcher. 0: done; -1: done, and a result does not fit, with a Python exception; 1: it failed. */
static int dispatch(const Step *step, const Slots *slots) {
  uint64_t stack[MANY] = {0};
  const i64 *code = now(slots, step->codes);
  for (Py_ssize_t i = 0; i < step->count; i++)
    if (argument(slots, &code, &stack[i])) return 1;
  int status;
  Warnings warnings;
  capture_warnings(&warnings);
  Py_BEGIN_ALLOW_THREADS;
  Guard guard;
  exclude_keys(&guard, autograd_keys);
  status = aoti_torch_call_dispatcher(step->operator_name, step->overload, stack);
  include_keys(&guard);
  Py_END_ALLOW_THREADS;
  int raised = issue_warnings(&warnings);
  return status ? (raised ? -1 : 1) : keep_results(step, slots, stack, raised);
}

/* Return whether the tensor in a slot is of int32, and all its elements are 0. */
static int is_zero(const Slots *slots, Py_ssize_t slot) {
  Handle handle = handle_at(slots, slot);
  int32_t dtype, device;
  i64 dim, *sizes, *strides, count = 1;
  int32_t *element;
  if (aoti_torch_get_device_type(handle, &device) || device != CPU || aoti_torch_get_dtype(handle, &dtype) ||
      dtype != aoti_torch_dtype_int32() || aoti_torch_get_dim(handle, &dim) || aoti_torch_get_sizes(handle, &sizes) ||
      aoti_torch_get_strides(handle, &strides) || aoti_torch_get_data_ptr(handle, (void **)&element))
    return 0;
  for (i64 i = dim - 1; i >= 0; count *= sizes[i--])
    if (sizes[i] != 1 && strides[i] != count) return 0; /* has gaps: not supported */
  for (i64 i = 0; i < count; i++)
    if (element[i]) return 0;
  return 1;
}

/* A warning of ATen has no handler when an operator is called from C: it would be printed on the standard error. */
static PyObject *call_with_warnings(PyObject *target, PyObject **arguments, Py_ssize_t count, PyObject *keywords) {
  PyObject *type, *value, *trace;
  Warnings warnings;
  capture_warnings(&warnings);
  PyObject *answer = PyObject_Vectorcall(target, arguments, count, keywords);
  PyErr_Fetch(&type, &value, &trace); /* no exception may be set while a warning is issued */
  int raised = issue_warnings(&warnings);
  if (raised && !type) Py_CLEAR(answer);
  else if (raised) PyErr_Clear();
  if (type) PyErr_Restore(type, value, trace);
  return answer;
}

static int call_from_python(const Step *step, const Slots *slots) {
  Py_ssize_t count = PyTuple_GET_SIZE(step->forms), named = step->keywords ? PyTuple_GET_SIZE(step->keywords) : 0, built = 0;
  PyObject *few[MANY], **arguments = count <= MANY ? few : PyMem_Malloc(count * sizeof(PyObject *)), *answer = NULL;
  if (!arguments) return PyErr_NoMemory(), -1;
  while (built < count && (arguments[built] = build(PyTuple_GET_ITEM(step->forms, built), slots))) built++;
  if (built == count) answer = call_with_warnings(step->target, arguments, count - named, step->keywords);
  while (built) Py_DECREF(arguments[--built]);
  if (arguments != few) PyMem_Free(arguments);
  int status = answer ? 0 : -1;
  for (Py_ssize_t i = 0; i < step->results && !status; i++) {
    PyObject *value = Py_NewRef(answer);
    for (Py_ssize_t k = 0; value && k < step->result[i].depth; k++)
      Py_SETREF(value, PySequence_GetItem(value, step->result[i].path[k]));
    status = hold(&step->result[i], slots, value);
  }
  Py_XDECREF(answer);
  return status;
}

static int call_operator(const Step *step, const Slots *slots) {
  if (step->zeros >= 0 && is_zero(slots, step->zeros)) return 0;
  /* An operator that failed raises again below, as a Python exception. */
  int status = !step->direct ? (step->operator_name ? dispatch(step, slots) : 1)
               : step->views ? make_views(step, slots) : call_directly(step, slots);
  return status > 0 ? call_from_python(step, slots) : status;
}

enum { MM, BMM, ADDMM, BADDBMM };
static const i64 LARGE_PRODUCT = 1 << 24; /* multiplications */
static int has_onednn = 0; /* set by setup() */

/* Return whether oneDNN accepts a float32 matrix, or a batch, without a copy: rows or columns without gaps. */
static int is_plain(Handle matrix, i64 dim) {
  i64 *size, *stride, rank;
  int32_t dtype;
  if (aoti_torch_get_dim(matrix, &rank) || rank != dim) return 0;
  if (aoti_torch_get_dtype(matrix, &dtype) || dtype != aoti_torch_dtype_float32()) return 0;
  if (aoti_torch_get_sizes(matrix, &size) || aoti_torch_get_strides(matrix, &stride)) return 0;
  i64 rows = size[dim - 2], columns = size[dim - 1], down = stride[dim - 2], across = stride[dim - 1];
  if (!((across == 1 && down >= columns) || (down == 1 && across >= rows))) return 0;
  return dim == 2 || size[0] == 1 || stride[0] >= rows * columns;
}

/* Return whether a product is one that oneDNN is faster at than MKL, on a processor that processor.py chose it for: so large that
 * preparing it does not count, and not only a few columns wide. docs/design/kernels.md has the figures. */
static int is_for_onednn(const Step *step, Handle result, Handle left, Handle right) {
  i64 *size, *inner, dim;
  if (!(step->by_onednn && has_onednn) || aoti_torch_get_dim(result, &dim) || aoti_torch_get_sizes(result, &size) || aoti_torch_get_sizes(left, &inner))
    return 0;
  i64 columns = size[dim - 1], work = inner[dim - 1];
  for (i64 i = 0; i < dim; i++) work *= size[i];
  return work >= LARGE_PRODUCT && (columns >= 64 || columns % 16 == 0) && step->alpha == 1 && step->beta == 1 &&
         is_plain(result, dim) && is_plain(left, dim) && is_plain(right, dim);
}

/* result = left @ right (+ bias); returns 0 on success. */
static int by_onednn(const Step *step, Handle *with) {
  int with_bias = step->product == ADDMM || step->product == BADDBMM;
  Handle result = with[0], left = with[1 + with_bias], right = with[2 + with_bias];
  if (!is_for_onednn(step, result, left, right)) return 1;
  return multiply_by_onednn(left, right, result, with_bias ? with[1] : NULL);
}

static int by_aten(const Step *step, Handle *with) {
  switch (step->product) {
    case MM:
      return aoti_torch_cpu_mm_out(with[0], with[1], with[2]);
    case BMM:
      return aoti_torch_cpu_bmm_out(with[0], with[1], with[2]);
    case ADDMM:
      return aoti_torch_cpu_addmm_out(with[0], with[1], with[2], with[3], step->beta, step->alpha);
    default:
      return aoti_torch_cpu_baddbmm_out(with[0], with[1], with[2], with[3], step->beta, step->alpha);
  }
}

static int multiply(const Step *step, const Slots *slots) {
  Handle with[4];
  for (Py_ssize_t i = 0; i < step->count; i++) with[i] = handle_at(slots, step->slots[i]);
  int status;
  PyThreadState *thread = is_brief(step, slots, step->count) ? NULL : PyEval_SaveThread();
  Guard guard;
  exclude_keys(&guard, autograd_keys);
  status = by_onednn(step, with) && by_aten(step, with);
  include_keys(&guard);
  if (thread) PyEval_RestoreThread(thread);
  if (status) PyErr_SetString(PyExc_RuntimeError, "a matrix product of a compiled graph failed; torch printed the reason on the standard error");
  return status ? -1 : 0;
}

static int convolve(const Step *step, const Slots *slots) {
  i64 dims = step->geometry[0];
  const i64 *stride = step->geometry + 1, *padding = stride + dims, *dilation = padding + dims, *more = dilation + dims;
  Handle input = handle_at(slots, step->slots[0]), weight = handle_at(slots, step->slots[1]), created = NULL;
  Handle bias = step->count > 2 ? handle_at(slots, step->slots[2]) : NULL;
  int status;
  PyThreadState *thread = is_brief(step, slots, step->count) ? NULL : PyEval_SaveThread();
  Guard guard;
  exclude_keys(&guard, autograd_keys);
  status = aoti_torch_cpu_convolution(input, weight, bias ? &bias : NULL, stride, dims, padding, dims, dilation, dims,
                                      (int32_t)more[dims], more, dims, more[dims + 1], &created);
  include_keys(&guard);
  if (thread) PyEval_RestoreThread(thread);
  if (status) {
    PyErr_SetString(PyExc_RuntimeError, "a convolution of a compiled graph failed; torch printed the reason on the standard error");
    return -1;
  }
  return keep(step->result, slots, created);
}

/* ((slot, path, dtype, sizes, strides, adopt), ...) */
static int read_results(Program *program, PyObject *texts, Numbers *numbers, Step *step) {
  if (!PyTuple_Check(texts)) return PyErr_SetString(PyExc_ValueError, "results are tuples"), -1;
  step->results = PyTuple_GET_SIZE(texts);
  step->result = PyMem_Calloc(step->results + 1, sizeof(Result));
  if (!step->result) return PyErr_NoMemory(), -1;
  int status = 0;
  for (Py_ssize_t i = 0; i < step->results && !status; i++) {
    Result *result = &step->result[i];
    PyObject *slot, *path, *dtype, *sizes, *strides;
    status = !PyArg_ParseTuple(PyTuple_GET_ITEM(texts, i), "OOOOOO", &slot, &path, &dtype, &sizes, &strides, &result->adopt) ||
             read_slot(slot, program->slots, &result->slot) || !(result->path = read_numbers(path, numbers, &result->depth));
    /* Without a type: a view, as the operator returns it. */
    if (!status && dtype == Py_None) result->layout = (Layout){0, ANYTHING, program->numbers, program->numbers, NULL}, step->views = 1;
    else if (!status) status = read_layout(dtype, sizes, strides, NULL, numbers, &result->layout);
    if (!status && result->slot < program->inputs) status = (PyErr_SetString(PyExc_ValueError, "a result in an input's slot"), 1);
  }
  return status ? -1 : 0;
}

static int read_slots(Program *program, PyObject *values, Numbers *numbers, Step *step, Py_ssize_t least, Py_ssize_t most) {
  if (!(step->slots = read_numbers(values, numbers, &step->count))) return -1;
  int right = least <= step->count && step->count <= most;
  for (Py_ssize_t i = 0; right && i < step->count; i++) right = step->slots[i] >= 0 && step->slots[i] < program->slots;
  if (!right) PyErr_SetString(PyExc_ValueError, "not the slots of an operator");
  return right ? 0 : -1;
}

/* Return whether these are the numbers of one argument, and advance past it. */
static int is_argument(const Program *program, const i64 **code, const i64 *end) {
  if (end - *code < 2) return 0;
  i64 form = *(*code)++, value = *(*code)++;
  if (form < 0 || form >= 2 * OPTIONAL) return 0;
  form %= OPTIONAL;
  if (form != PLAIN && value < 0) return 0;
  if (form == TENSOR) return value < program->slots;
  for (i64 i = 0; form == LIST && i < value; i++)
    if (!is_argument(program, code, end)) return 0;
  return 1;
}

/* Return whether each result of a step is an item of what the operator returns, and each item has one owner. */
static int are_items(const Step *step) {
  for (Py_ssize_t i = 0; i < step->results; i++) {
    const Result *result = &step->result[i];
    i64 most = step->returns == LISTED ? INT64_MAX : step->returns;
    if (!(result->depth ? result->depth == 1 && result->path[0] >= 0 && result->path[0] < most : step->returns == 1)) return 0;
    for (Py_ssize_t k = 0; k < i; k++)
      if (result->depth != 1 || step->result[k].path[0] == result->path[0]) return 0;
  }
  return 1;
}

/* (name, overload, returns, (form, value, ...)): an operator for the dispatcher */
static int read_dispatch(Program *program, PyObject *text, Numbers *numbers, Step *step) {
  PyObject *codes;
  Py_ssize_t length;
  if (!PyArg_ParseTuple(text, "ssnO", &step->operator_name, &step->overload, &step->returns, &codes)) return -1;
  if (!(step->codes = read_numbers(codes, numbers, &length))) return -1;
  int right = 0 <= step->returns && step->returns <= MANY;
  const i64 *code = step->codes, *end = code + length;
  for (step->count = 0; right && code < end; step->count++) right = step->count < MANY && is_argument(program, &code, end);
  right = right && are_items(step);
  return right ? 0 : (PyErr_SetString(PyExc_ValueError, "not an operator for the dispatcher"), -1);
}

/* (address, (position, form, value, ...), texts, slots of tensors, returns): an operator's own function */
static int read_direct(Program *program, PyObject *text, Numbers *numbers, Step *step) {
  PyObject *codes, *tensors;
  unsigned long long address;
  if (!PyArg_ParseTuple(text, "KOO!On", &address, &codes, &PyTuple_Type, &step->texts, &tensors, &step->returns)) return -1;
  if (!(step->codes = read_numbers(codes, numbers, &step->count)) || !(step->slots = read_numbers(tensors, numbers, &step->tensors)))
    return -1;
  int listed = step->returns == LISTED && step->views;
  int right = (listed || (0 < step->returns && step->returns <= (step->views ? 1 : MANY))) && step->count > 0;
  i64 cells = 0;
  for (const i64 *code = step->codes, *end = code + step->count; right && code < end;) {
    if (end - code < 3) return PyErr_SetString(PyExc_ValueError, "not the words of a call"), -1;
    i64 at = *code++, form = *code++, value = *code++;
    right = at >= 0 && at < WORDS && form >= NUMBER && form <= ARRAY;
    if (form == AT_TENSOR || (form == MAYBE_TENSOR && value != -1)) right = right && value >= 0 && value < program->slots;
    if (form == TEXT)
      right = right && value >= 0 && value < PyTuple_GET_SIZE(step->texts) && PyUnicode_AsUTF8(PyTuple_GET_ITEM(step->texts, value));
    if (form == ARRAY) right = right && value >= 0 && value <= end - code;
    if (!right) break;
    cells += form == MAYBE_TENSOR ? 2 : form == CELL ? 1 : form == ARRAY ? value : 0;
    if (form == ARRAY) code += value;
  }
  for (Py_ssize_t i = 0; right && i < step->tensors; i++) right = step->slots[i] >= 0 && step->slots[i] < program->slots;
  right = right && cells <= CELLS && are_items(step);
  if (right) step->direct = (void *)(uintptr_t)address;
  return right ? 0 : (PyErr_Occurred() ? -1 : (PyErr_SetString(PyExc_ValueError, "not the words of a call"), -1));
}

/* (CALL, target, forms, names of the last of them or None, results, what read_dispatch or read_direct reads or None,
   the slot of a tensor for whose zeros it does nothing or None) */
static int read_call(Program *program, PyObject *text, Numbers *numbers, Step *step) {
  PyObject *results, *by_dispatcher, *zeros;
  if (!PyArg_ParseTuple(text, "iOO!OOOO", &step->kind, &step->target, &PyTuple_Type, &step->forms, &step->keywords, &results,
                        &by_dispatcher, &zeros))
    return -1;
  if (step->keywords == Py_None) step->keywords = NULL;
  program->calls = 1;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(step->forms); i++)
    if (!is_form(PyTuple_GET_ITEM(step->forms, i), program))
      return PyErr_Occurred() ? -1 : (PyErr_SetString(PyExc_ValueError, "not a form of an argument"), -1);
  step->zeros = -1;
  int has_dispatcher = aoti_torch_call_dispatcher && aoti_torch_new_tensor_handle && torch_new_list_reserve_size &&
                       torch_list_push_back;
  if (zeros != Py_None && read_slot(zeros, program->slots, &step->zeros)) return -1;
  if (read_results(program, results, numbers, step)) return -1;
  if (by_dispatcher != Py_None && PyTuple_GET_SIZE(by_dispatcher) == 5) return read_direct(program, by_dispatcher, numbers, step);
  return by_dispatcher == Py_None || !has_dispatcher ? 0 : read_dispatch(program, by_dispatcher, numbers, step);
}

/* (PRODUCT, which, (out, ...), beta, alpha, whether large ones are oneDNN's) */
static int read_product(Program *program, PyObject *text, Numbers *numbers, Step *step) {
  PyObject *slots;
  if (!PyArg_ParseTuple(text, "iiOddi", &step->kind, &step->product, &slots, &step->beta, &step->alpha, &step->by_onednn)) return -1;
  program->calls = 1;
  Py_ssize_t expected = step->product == MM || step->product == BMM ? 3 : 4;
  return read_slots(program, slots, numbers, step, expected, expected);
}

/* (CONVOLVE, (input, weight[, bias]), (dims, *stride, *padding, *dilation, *output padding, transposed, groups), results) */
static int read_convolution(Program *program, PyObject *text, Numbers *numbers, Step *step) {
  PyObject *slots, *geometry, *results;
  Py_ssize_t count;
  if (!PyArg_ParseTuple(text, "iOOO", &step->kind, &slots, &geometry, &results)) return -1;
  program->calls = 1;
  if (read_slots(program, slots, numbers, step, 2, 3) || !(step->geometry = read_numbers(geometry, numbers, &count))) return -1;
  if (count < 1 || count != 4 * step->geometry[0] + 3) return PyErr_SetString(PyExc_ValueError, "not a convolution"), -1;
  if (read_results(program, results, numbers, step)) return -1;
  return step->results == 1 ? 0 : (PyErr_SetString(PyExc_ValueError, "a convolution has one result"), -1);
}
