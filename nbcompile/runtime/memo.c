/* Remembers that the guards about a module held, and sees in nanoseconds whether anything they look at has changed.
 *
 *   Memo(watched, check)    memo(module) -> True or False
 *
 * `check(module)` evaluates the guards. `watched(module)` lists what they look at: modules, dicts and tensors, owners
 * first, the module itself at the head. What is kept of each is its address and
 *
 *   of a module   its class and the address of its __dict__
 *   of a dict     its version, which CPython changes with every change of the dict (until Python 3.12)
 *   of a tensor   its class, whether it requires grad, and the bytes of its TensorImpl: sizes, strides, dtype, ...
 *
 * Nothing is kept alive. A thing is looked at only after what holds it was found unchanged, so it still exists.
 * Where the bytes of a TensorImpl begin and end is measured at start-up (memo.py), as is where a tensor object keeps
 * it; a self-test runs before anything relies on this file.
 *
 * In torch: dict tags in torch/csrc/dynamo/guards.cpp (GuardManager, DictGuardManager).
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if PY_VERSION_HEX >= 0x030C0000
#error "dicts have no version of their own any more"
#endif

extern PyObject *THPVariableClass;
extern char requires_grad(const void *impl) __asm__("_ZNK3c1010TensorImpl13requires_gradEv");

enum { LONGEST = 256 };
static Py_ssize_t impl_offset, first_byte, last_byte; /* set by setup() */

enum Kind { MODULE, DICT, TENSOR };

typedef struct {
  PyObject *object; /* borrowed: compared, and looked into once its owner was found unchanged */
  enum Kind kind;
  void *type, *place; /* its class; its __dict__ or its TensorImpl */
  uint64_t version;   /* of a dict */
  char grad, bytes[]; /* of a tensor; see SIZE */
} Thing;

#define SIZE ((sizeof(Thing) + LONGEST + 15) / 16 * 16)

typedef struct {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject *watched, *check;
  char *things;
  Py_ssize_t count; /* 0: nothing is remembered */
  uint64_t turn;    /* how often `things` was written: another thread may ask while `check` runs */
} Memo;

static void *dict_of(PyObject *object) {
  PyObject **place = _PyObject_GetDictPtr(object);
  return place ? *place : NULL;
}

static void *impl_of(PyObject *tensor) { return *(void **)((char *)tensor + impl_offset); }

static int is_tensor(PyObject *object) {
  PyTypeObject *type = (PyTypeObject *)THPVariableClass;
  return Py_TYPE(object) == type || PyType_IsSubtype(Py_TYPE(object), type);
}

static void look(Thing *thing, PyObject *object) {
  thing->object = object;
  thing->type = Py_TYPE(object);
  if (PyDict_CheckExact(object) || PyODict_CheckExact(object)) {
    thing->kind = DICT;
    thing->version = ((PyDictObject *)object)->ma_version_tag;
  } else if (is_tensor(object)) {
    thing->kind = TENSOR;
    thing->place = impl_of(object);
    thing->grad = requires_grad(thing->place);
    memcpy(thing->bytes, (char *)thing->place + first_byte, last_byte - first_byte);
  } else {
    thing->kind = MODULE;
    thing->place = dict_of(object);
  }
}

static int unchanged(const Thing *thing) {
  PyObject *object = thing->object;
  if (thing->kind == DICT) return ((PyDictObject *)object)->ma_version_tag == thing->version;
  if (Py_TYPE(object) != thing->type) return 0;
  if (thing->kind == MODULE) return dict_of(object) == thing->place;
  return impl_of(object) == thing->place && requires_grad(thing->place) == thing->grad &&
         !memcmp(thing->bytes, (char *)thing->place + first_byte, last_byte - first_byte);
}

static Thing *thing_at(const Memo *memo, Py_ssize_t index) { return (Thing *)(memo->things + index * SIZE); }

/* Keep what the guards are about to look at; how many things that is. It counts for nothing until they are found to
 * hold. That it cannot be listed is no error: the guards will say why. */
static Py_ssize_t remember(Memo *memo, PyObject *module) {
  PyObject *listed = PyObject_CallOneArg(memo->watched, module), *items;
  memo->count = 0;
  if (!listed) {
    PyErr_Clear();
    return 0;
  }
  items = PySequence_Fast(listed, "a list of things");
  Py_DECREF(listed);
  if (!items) return -1;
  Py_ssize_t count = PySequence_Fast_GET_SIZE(items);
  memo->count = 0;
  char *things = PyMem_Realloc(memo->things, count * SIZE + 1);
  if (!things) {
    Py_DECREF(items);
    PyErr_NoMemory();
    return -1;
  }
  memo->things = things;
  for (Py_ssize_t i = 0; i < count; i++) look(thing_at(memo, i), PySequence_Fast_GET_ITEM(items, i));
  memo->turn++;
  Py_DECREF(items);
  return count;
}

static PyObject *memo_call(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *keywords) {
  Memo *memo = (Memo *)self;
  if (PyVectorcall_NARGS(flags) != 1) return PyErr_Format(PyExc_TypeError, "a memo takes one module");
  PyObject *module = arguments[0];
  if (memo->count && thing_at(memo, 0)->object == module) {
    Py_ssize_t i = 0;
    while (i < memo->count && unchanged(thing_at(memo, i))) i++;
    if (i == memo->count) Py_RETURN_TRUE;
  }
  /* What is there is noted before it is checked: a change in between will be seen the next time. */
  Py_ssize_t count = remember(memo, module);
  if (count < 0) return NULL;
  uint64_t turn = memo->turn;
  PyObject *answer = PyObject_CallOneArg(memo->check, module);
  int held = answer ? PyObject_IsTrue(answer) : 0;
  if (held > 0 && memo->turn == turn) memo->count = count;
  return answer;
}

static void memo_dealloc(PyObject *self) {
  Memo *memo = (Memo *)self;
  Py_XDECREF(memo->watched);
  Py_XDECREF(memo->check);
  PyMem_Free(memo->things);
  Py_TYPE(self)->tp_free(self);
}

static PyTypeObject MemoType;

static PyObject *memo_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
  PyObject *watched, *check;
  if (!PyArg_ParseTuple(arguments, "OO", &watched, &check)) return NULL;
  Memo *memo = (Memo *)type->tp_alloc(type, 0);
  if (!memo) return NULL;
  memo->vectorcall = memo_call;
  memo->watched = Py_NewRef(watched);
  memo->check = Py_NewRef(check);
  return (PyObject *)memo;
}

static PyTypeObject MemoType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nbcompile.runtime.Memo",
    .tp_basicsize = sizeof(Memo),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Memo, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = memo_new,
    .tp_dealloc = memo_dealloc,
};

static PyObject *setup(PyObject *module, PyObject *arguments) {
  if (!PyArg_ParseTuple(arguments, "nnn", &impl_offset, &first_byte, &last_byte)) return NULL;
  if (first_byte < 0 || last_byte - first_byte > LONGEST || last_byte <= first_byte)
    return PyErr_Format(PyExc_ValueError, "a TensorImpl of %zd bytes", last_byte - first_byte);
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"setup", setup, METH_VARARGS, "Say where a tensor object keeps its TensorImpl, and which bytes of it to compare."},
    {NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "nbcompile_memo", NULL, -1, functions};

PyMODINIT_FUNC PyInit_nbcompile_memo(void) {
  PyObject *module;
  if (PyType_Ready(&MemoType) < 0 || !(module = PyModule_Create(&definition))) return NULL;
  Py_INCREF(&MemoType);
  if (PyModule_AddObject(module, "Memo", (PyObject *)&MemoType) < 0) return NULL;
  return module;
}
