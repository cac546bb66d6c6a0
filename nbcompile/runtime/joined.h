/* A graph whose results are partly views of its inputs; part of launcher.c.
 *
 *     views.joined(run, (0,), 1)     called as joined(x, ...): run(x, ...), then the views, which replace result 0
 *
 * The views are a Program of view operators, which autograd records in the mode of the call. The graph itself, `run`, must not
 * be recorded (1) if ATen's operators may run in it.
 *
 * In torch: gen_alias_from_base in torch/_functorch/_aot_autograd/functional_utils.py
 */
extern _Bool grad_is_enabled(void) __asm__("_ZN3c108GradMode10is_enabledEv");
extern void enable_grad(_Bool) __asm__("_ZN3c108GradMode11set_enabledEb");

typedef struct {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject *run, *views;
  int without_autograd;
  Py_ssize_t count;
  Py_ssize_t position[]; /* the result that each view replaces */
} Joined;

static PyObject *run_of(const Joined *joined, PyObject *const *inputs, Py_ssize_t given) {
  if (!joined->without_autograd || !grad_is_enabled()) return PyObject_Vectorcall(joined->run, inputs, given, NULL);
  enable_grad(0);
  PyObject *results = PyObject_Vectorcall(joined->run, inputs, given, NULL);
  enable_grad(1);
  return results;
}

static PyObject *joined_call(PyObject *self, PyObject *const *inputs, size_t flags, PyObject *keywords) {
  const Joined *joined = (Joined *)self;
  Py_ssize_t given = PyVectorcall_NARGS(flags);
  if (keywords && PyTuple_GET_SIZE(keywords)) return PyErr_Format(PyExc_TypeError, "a graph takes no keyword arguments");
  PyObject *results = run_of(joined, inputs, given);
  if (!results) return NULL;
  PyObject *views = program_positional(joined->views, inputs, given);
  /* A list of its own: what `run` returned may have other owners. */
  PyObject *outputs = views ? PySequence_List(results) : NULL, *whole = NULL;
  Py_ssize_t created = views && PyTuple_CheckExact(views) ? PyTuple_GET_SIZE(views) : 0;
  Py_DECREF(results);
  if (outputs) {
    Py_ssize_t i = 0;
    for (; i < joined->count && i < created && joined->position[i] < PyList_GET_SIZE(outputs); i++)
      PyList_SetItem(outputs, joined->position[i], Py_NewRef(PyTuple_GET_ITEM(views, i)));
    if (i == joined->count) whole = PyList_AsTuple(outputs);
    else PyErr_SetString(PyExc_ValueError, "a view instead of no result");
  }
  Py_XDECREF(outputs);
  Py_XDECREF(views);
  return whole;
}

static int joined_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(((Joined *)self)->run);
  Py_VISIT(((Joined *)self)->views);
  return 0;
}

static int joined_clear(PyObject *self) {
  Py_CLEAR(((Joined *)self)->run);
  Py_CLEAR(((Joined *)self)->views);
  return 0;
}

static void joined_dealloc(PyObject *self) {
  PyObject_GC_UnTrack(self);
  joined_clear(self);
  PyObject_GC_Del(self);
}

static PyTypeObject JoinedType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nbcompile.runtime.Joined",
    .tp_basicsize = sizeof(Joined),
    .tp_itemsize = sizeof(Py_ssize_t),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Joined, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_traverse = joined_traverse,
    .tp_clear = joined_clear,
    .tp_dealloc = joined_dealloc,
};

/* views.joined(run, (position, ...), whether autograd must not record `run`) */
static PyObject *program_joined(PyObject *self, PyObject *arguments) {
  PyObject *run, *positions;
  int without_autograd;
  if (!PyArg_ParseTuple(arguments, "OO!p", &run, &PyTuple_Type, &positions, &without_autograd)) return NULL;
  Py_ssize_t count = PyTuple_GET_SIZE(positions);
  if (((Program *)self)->single || count != ((Program *)self)->outputs)
    return PyErr_Format(PyExc_ValueError, "a position for each view");
  Joined *joined = PyObject_GC_NewVar(Joined, &JoinedType, count);
  if (!joined) return NULL;
  joined->vectorcall = joined_call;
  joined->run = Py_NewRef(run);
  joined->views = Py_NewRef(self);
  joined->without_autograd = without_autograd;
  joined->count = count;
  int status = 0;
  for (Py_ssize_t i = 0; i < count && !status; i++) status = read_slot(PyTuple_GET_ITEM(positions, i), PY_SSIZE_T_MAX, &joined->position[i]);
  PyObject_GC_Track((PyObject *)joined);
  if (status) Py_CLEAR(joined);
  return (PyObject *)joined;
}
