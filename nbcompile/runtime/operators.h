/* Steps of a Program that call operators of torch; part of launcher.c.
 *
 *   CALL       any operator, as Python would call it; its arguments are forms that say where tensors go
 *   PRODUCT    a matrix product into memory that a step before has made, by torch's C function or by oneDNN
 *   CONVOLVE   a convolution, by torch's C function
 *
 * The C functions go to the CPU's kernels without asking the dispatcher. A mode or a profiler would miss them, so
 * a program that calls any runs as its wrapper in Python while one is there (can_run).
 *
 * In torch: torch/csrc/inductor/aoti_torch/generated/c_shim_cpu.h
 */

extern int aoti_torch_cpu_mm_out(Handle, Handle, Handle);
extern int aoti_torch_cpu_bmm_out(Handle, Handle, Handle);
extern int aoti_torch_cpu_addmm_out(Handle, Handle, Handle, Handle, double, double);
extern int aoti_torch_cpu_baddbmm_out(Handle, Handle, Handle, Handle, double, double);
extern int32_t aoti_torch_dtype_float32(void);
extern int has_onednn_products(void);                                                  /* launcher.cpp */
extern int multiply_by_onednn(Handle left, Handle right, Handle result, Handle bias); /* launcher.cpp */
extern void exclude_keys(void *guard, unsigned long keys);                            /* launcher.cpp */
extern void include_keys(void *guard);                                                /* launcher.cpp */

/* Autograd is not involved inside a compiled graph: inside ATen's products and convolutions the bias is copied through the
 * dispatcher, which would make a result that needs a gradient, and count a change of it. */
static unsigned long autograd_keys = 0; /* set by setup() */
typedef struct { i64 words[8]; } Guard; /* room for torch's object, of two words */
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
  PyObject *made = kind == FORM_LIST ? PyList_New(count) : PyTuple_New(count);
  for (Py_ssize_t i = 0; made && i < count; i++) {
    PyObject *item = build(PyTuple_GET_ITEM(content, i), slots);
    if (!item) Py_CLEAR(made);
    else if (kind == FORM_LIST) PyList_SET_ITEM(made, i, item);
    else PyTuple_SET_ITEM(made, i, item);
  }
  return made;
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
  PyObject *made = PyTuple_New(count);
  for (i64 i = 0; made && i < count; i++) PyTuple_SET_ITEM(made, i, PyLong_FromLongLong(numbers[i]));
  return made;
}

/* Store an operator's result in a slot; steals the reference. */
static int hold(const Result *result, const Slots *slots, PyObject *value) {
  Layout layout = layout_now(slots, &result->layout);
  /* A result with other strides than FakeTensor predicts is copied: kernels were compiled for the predicted ones. */
  if (value && !(is_tensor(value) && has_layout(handle_of(value), &layout)))
    Py_SETREF(value, PyObject_CallFunction(result->adopt, "ONN", value, tuple_of(layout.sizes, layout.dim), tuple_of(layout.strides, layout.dim)));
  if (!value) return -1;
  slots->held[result->slot] = value;
  if (!is_tensor(value)) return 0; /* a token, say: no kernel reads it */
  return aoti_torch_get_data_ptr(handle_of(value), &slots->pointers[result->slot]) ? 1 : 0;
}

static int call_operator(const Step *step, const Slots *slots) {
  Py_ssize_t count = PyTuple_GET_SIZE(step->forms), named = step->keywords ? PyTuple_GET_SIZE(step->keywords) : 0, built = 0;
  PyObject *few[MANY], **arguments = count <= MANY ? few : PyMem_Malloc(count * sizeof(PyObject *)), *answer = NULL;
  if (!arguments) return PyErr_NoMemory(), -1;
  while (built < count && (arguments[built] = build(PyTuple_GET_ITEM(step->forms, built), slots))) built++;
  if (built == count) answer = PyObject_Vectorcall(step->target, arguments, count - named, step->keywords);
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

enum { MM, BMM, ADDMM, BADDBMM };
static const i64 LARGE_PRODUCT = 1 << 24; /* multiplications */
static int has_onednn = 0; /* set by setup() */

/* Return whether oneDNN accepts a float32 matrix, or a batch, without a copy: rows or columns without gaps. */
static int lies_plainly(Handle matrix, i64 dim) {
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
         lies_plainly(result, dim) && lies_plainly(left, dim) && lies_plainly(right, dim);
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
  Py_BEGIN_ALLOW_THREADS;
  Guard guard;
  exclude_keys(&guard, autograd_keys);
  status = by_onednn(step, with) && by_aten(step, with);
  include_keys(&guard);
  Py_END_ALLOW_THREADS;
  if (status) PyErr_SetString(PyExc_RuntimeError, "a matrix product of a compiled graph failed; torch said why on the standard error");
  return status ? -1 : 0;
}

static int convolve(const Step *step, const Slots *slots) {
  i64 dims = step->geometry[0];
  const i64 *stride = step->geometry + 1, *padding = stride + dims, *dilation = padding + dims, *more = dilation + dims;
  Handle input = handle_at(slots, step->slots[0]), weight = handle_at(slots, step->slots[1]), made = NULL;
  Handle bias = step->count > 2 ? handle_at(slots, step->slots[2]) : NULL;
  int status;
  Py_BEGIN_ALLOW_THREADS;
  Guard guard;
  exclude_keys(&guard, autograd_keys);
  status = aoti_torch_cpu_convolution(input, weight, bias ? &bias : NULL, stride, dims, padding, dims, dilation, dims,
                                      (int32_t)more[dims], more, dims, more[dims + 1], &made);
  include_keys(&guard);
  Py_END_ALLOW_THREADS;
  if (status) {
    PyErr_SetString(PyExc_RuntimeError, "a convolution of a compiled graph failed; torch said why on the standard error");
    return -1;
  }
  const Result *result = step->result;
  Layout layout = layout_now(slots, &result->layout);
  /* The tensor stays a handle: no Python object is made for it. */
  if (has_layout(made, &layout)) {
    slots->made[result->slot] = made;
    return aoti_torch_get_data_ptr(made, &slots->pointers[result->slot]) ? 1 : 0;
  }
  PyObject *wrapped = wrap_tensor(made);
  aoti_torch_delete_tensor_object(made);
  return hold(result, slots, wrapped);
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
             read_slot(slot, program->slots, &result->slot) || !(result->path = read_numbers(path, numbers, &result->depth)) ||
             read_layout(dtype, sizes, strides, NULL, numbers, &result->layout);
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

/* (CALL, target, forms, names of the last of them or None, results) */
static int read_call(Program *program, PyObject *text, Numbers *numbers, Step *step) {
  PyObject *results;
  if (!PyArg_ParseTuple(text, "iOO!OO", &step->kind, &step->target, &PyTuple_Type, &step->forms, &step->keywords, &results)) return -1;
  if (step->keywords == Py_None) step->keywords = NULL;
  program->calls = 1;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(step->forms); i++)
    if (!is_form(PyTuple_GET_ITEM(step->forms, i), program))
      return PyErr_Occurred() ? -1 : (PyErr_SetString(PyExc_ValueError, "not a form of an argument"), -1);
  return read_results(program, results, numbers, step);
}

/* (PRODUCT, which, (out, ...), beta, alpha, whether large ones are oneDNN's) */
static int read_product(Program *program, PyObject *text, Numbers *numbers, Step *step) {
  PyObject *slots;
  if (!PyArg_ParseTuple(text, "iiOddi", &step->kind, &step->product, &slots, &step->beta, &step->alpha, &step->by_onednn)) return -1;
  program->calls = 1;
  Py_ssize_t wanted = step->product == MM || step->product == BMM ? 3 : 4;
  return read_slots(program, slots, numbers, step, wanted, wanted);
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
