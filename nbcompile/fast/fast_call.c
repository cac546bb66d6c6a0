/* Runs compiled code for a call that its guards accept, without the frame hook and without a Python frame of the compiler.
 *
 *   fast_call = FastCall(function, self, names, slow)      fast_call(arguments, keywords): what the call returns
 *   fast_call.add(check, run)                              runs `run(*arguments, **keywords)` where the check holds
 *   fast_call.forget()                                     from now on every call is slow(arguments, keywords)
 *   fast_call.checks_failed                                      the last call was slow because no check accepted it
 *
 * The frame hook sets and restores a thread state, inspects an interpreter's frame, and runs guards that are objects of
 * C++, each with a virtual function. Here the guards of an entry are one list of instructions over
 * slots: the first slots are the function's arguments and free variables, each instruction fetches a value into a new
 * slot or tests one. fast/guard_bytecode.py writes them, from the same guards; a guard that they cannot express has no
 * fast call. A call that no check accepts is no error; it takes the slow path.
 *
 * The layouts of torch's objects that this file assumes are measured and tested by fast_call.py before it is used.
 *
 * In torch: torch/csrc/dynamo/guards.cpp, eval_frame_cpp.cpp.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <structmember.h>
#include <stdint.h>
#include <string.h>

typedef int64_t i64;
typedef void *Handle;

/* Torch's stable C interface returns sizes and dtypes. Functions that it lacks are called by their mangled C++ names. */
extern int aoti_torch_get_dim(Handle, i64 *);
extern int aoti_torch_get_sizes(Handle, i64 **);
extern int aoti_torch_get_strides(Handle, i64 **);
extern int aoti_torch_get_dtype(Handle, int32_t *);
extern int aoti_torch_get_device_type(Handle, int32_t *);
extern int aoti_torch_get_device_index(Handle, int32_t *);
extern char requires_grad(const void *impl) __asm__("_ZNK3c1010TensorImpl13requires_gradEv");
extern _Bool has_callbacks(void) __asm__("_ZN2at12hasCallbacksEv");
extern i64 function_modes(void) __asm__("_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv");
#define IF_EXPORTED __attribute__((weak)) extern
IF_EXPORTED _Bool grad_mode(void) __asm__("_ZN3c108GradMode10is_enabledEv");
IF_EXPORTED _Bool is_autocast_cached(void) __asm__("_ZN2at8autocast25is_autocast_cache_enabledEv");
IF_EXPORTED char function_state(void) __asm__("_ZN2at4impl22PythonTorchFunctionTLS18get_disabled_stateEv");
IF_EXPORTED const void *context(void) __asm__("_ZN2at13globalContextEv");
IF_EXPORTED _Bool is_deterministic(const void *) __asm__("_ZNK2at7Context23deterministicAlgorithmsEv");
IF_EXPORTED _Bool only_warns(const void *) __asm__("_ZNK2at7Context31deterministicAlgorithmsWarnOnlyEv");
/* Not allowTF32CuBLAS: that raises where the user set the precision of one backend. */
IF_EXPORTED int precision(const void *, int backend, int operators) __asm__("_ZNK2at7Context16float32PrecisionENS_14Float32BackendENS_9Float32OpE");
enum { CUDA = 1, MATRIX_PRODUCTS = 3 }; /* torch's Float32Backend and Float32Op */
IF_EXPORTED char allows_fp16(const void *) __asm__("_ZNK2at7Context24allowFP16ReductionCuBLASEv");
IF_EXPORTED char allows_bf16(const void *) __asm__("_ZNK2at7Context24allowBF16ReductionCuBLASEv");
IF_EXPORTED int threads(void) __asm__("_ZN2at15get_num_threadsEv");
IF_EXPORTED char default_dtype(void) __asm__("_ZN3c1031get_default_dtype_as_scalartypeEv");
extern const uintptr_t *saved_tensors_hooks(void) __asm__("_ZN2at23SavedTensorDefaultHooks13get_tls_stateEv");
typedef struct { uint64_t included, excluded; } Keys;
extern __thread Keys thread_keys __asm__("_ZN3c104impl26raw_local_dispatch_key_setE");

/* Set by setup(): the offset of the TensorImpl in a tensor object, and that of the dispatch keys in a TensorImpl. */
static Py_ssize_t tensor_offset, keys_offset;
/* Set by read_state(): torch's object for the state of the process compares the fields of State and no others. */
static int knows_state;
/* Set by set_hook(): the function that returns the frame hook of a thread, and the class of our hooks. */
static PyObject *get_hook;
static PyTypeObject *own_hook;

enum { MOST_SLOTS = 4096, MOST_LOCALS = 64 }; /* they are on the stack: 32 KiB of slots, four times that for DISTINCT */

/* ---------------------------------------------------------------- instructions */

enum Operation {
  /* a value into a new slot */
  LOOK_UP, ITEM, INDEX, ATTRIBUTE, VARS, CLASS, MEMBER, CONTENTS, LIST_KEYS, LIST_VALUES,
  /* yes or no */
  IS, OF_CLASS, WITH_CODE, EQUALS, LENGTH, DICT_LENGTH, KEYS, HAS, LACKS, LACKS_MEMBER, ABSENT, TENSOR, UNMARKED, SAME, DISTINCT,
  STATE, KEYS_OF_THREAD, NO_MODES, NO_HOOKS, EMPTY, UNCHANGED, PREDICATE, PREDICATE_OF_ALL,
  OPERATIONS
};

typedef struct {
  uint64_t keys;
  int32_t dtype, device, index;
  char grad;
  i64 dim, *sizes, *strides; /* -1: any */
} TensorMetadata;

/* The state of the process, without autocast: that is in the keys of the thread, where these are the default ones. */
typedef struct {
  int threads;
  char grad, cached, functions, deterministic, warns, precision, fp16, bf16, dtype, is_default;
} State;

typedef struct {
  int operation;
  Py_ssize_t slot, number;  /* the value to test; an index or a length */
  uintptr_t address;        /* the expected address: compared, never dereferenced */
  PyObject *key;            /* borrowed from Check.description, as all objects here */
  TensorMetadata metadata;              /* TENSOR */
  i64 *numbers;             /* DISTINCT: slots */
  PyCFunction method;       /* STATE */
  State state;              /* STATE: the last state that `method` accepted, if is_default */
  uint64_t version;         /* LOOK_UP, ABSENT: of the dict, at which */
  PyObject *held;           /* this was the key's value; borrowed from the dict */
} Instruction;

typedef struct {
  PyObject_HEAD
  PyObject *names, *description;
  Py_ssize_t locals, slots, length;
  Instruction *instruction;
} Check;

/* Return whether a value is a tensor with the class, keys, dtype, device, sizes and strides that were guarded. */
static int matches_tensor(PyObject *value, const Instruction *instruction) {
  const TensorMetadata *metadata = &instruction->metadata;
  /* The class first: only a tensor has a TensorImpl. */
  if ((uintptr_t)Py_TYPE(value) != instruction->address) return 0;
  Handle handle = (char *)value + tensor_offset;
  const char *impl = *(char **)handle;
  int32_t dtype, device, index;
  i64 dim, *sizes, *strides;
  if (*(uint64_t *)(impl + keys_offset) != metadata->keys || requires_grad(impl) != metadata->grad) return 0;
  if (aoti_torch_get_dtype(handle, &dtype) || dtype != metadata->dtype) return 0;
  if (aoti_torch_get_device_type(handle, &device) || device != metadata->device) return 0;
  /* -1: a device without an index, as the CPU. */
  if (metadata->index >= 0 && (aoti_torch_get_device_index(handle, &index) || index != metadata->index)) return 0;
  if (aoti_torch_get_dim(handle, &dim) || dim != metadata->dim) return 0;
  if (aoti_torch_get_sizes(handle, &sizes) || aoti_torch_get_strides(handle, &strides)) return 0;
  for (i64 i = 0; i < dim; i++)
    if ((metadata->sizes[i] != -1 && metadata->sizes[i] != sizes[i]) || (metadata->strides[i] != -1 && metadata->strides[i] != strides[i]))
      return 0;
  return 1;
}

/* The __dict__ of an instance, borrowed; NULL if it has none: reading it must not create one. */
static PyObject *vars_of(PyObject *value) {
  PyObject **field = _PyObject_GetDictPtr(value);
  return field ? *field : NULL;
}

static int has(PyObject *held, PyObject *key) {
  if (PyAnySet_Check(held)) return PySet_Contains(held, key) == 1;
  return PyDict_Check(held) && PyDict_Contains(held, key) == 1;
}
static int lacks(PyObject *dict, PyObject *key) { return PyDict_Check(dict) && PyDict_Contains(dict, key) == 0; }

/* No name of the tuple is in the instance's own __dict__. */
static int is_unmarked(PyObject *value, PyObject *marks) {
  PyObject *dict = vars_of(value);
  if (!dict || !PyDict_GET_SIZE(dict)) return 1;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(marks); i++)
    if (!lacks(dict, PyTuple_GET_ITEM(marks, i))) return 0;
  return 1;
}

/* Equal, and of the same type and bits: 1 is not True, 0.0 not -0.0, neither alone nor in tuples. */
static int is_same(PyObject *value, PyObject *expected) {
  if (value == expected) return 1;
  if (Py_TYPE(value) != Py_TYPE(expected)) return 0;
  if (PyFloat_CheckExact(value)) {
    double one = PyFloat_AS_DOUBLE(value), other = PyFloat_AS_DOUBLE(expected);
    return one == other && __builtin_signbit(one) == __builtin_signbit(other);
  }
  if (!PyTuple_Check(value)) return PyObject_RichCompareBool(value, expected, Py_EQ) == 1;
  if (PyTuple_GET_SIZE(value) != PyTuple_GET_SIZE(expected)) return 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++)
    if (!is_same(PyTuple_GET_ITEM(value, i), PyTuple_GET_ITEM(expected, i))) return 0;
  return 1;
}

static int has_keys(PyObject *dict, PyObject *keys) {
  PyObject *key, *value;
  Py_ssize_t position = 0, number = 0;
  if (!PyDict_CheckExact(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(keys)) return 0;
  while (PyDict_Next(dict, &position, &key, &value)) {
    PyObject *expected = PyTuple_GET_ITEM(keys, number++);
    if (!is_same(key, expected)) return 0;
  }
  return 1;
}

static int are_distinct(PyObject **found, const i64 *slots, Py_ssize_t count) {
  /* A hash table of addresses, open addressing, at most half full: linear time instead of comparing each pair. It
   * is on the stack, which MOST_SLOTS bounds. */
  size_t size = 4;
  while (size < 2 * (size_t)count) size *= 2;
  PyObject *table[size];
  memset(table, 0, size * sizeof *table);
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *one = found[slots[i]];
    /* Objects are aligned to 16 bytes, so the low bits are 0; the multiplier spreads the others (Fibonacci
     * hashing). */
    size_t at = ((uintptr_t)one >> 4) * 0x9E3779B97F4A7C15u >> 32;
    for (at &= size - 1; table[at]; at = (at + 1) & (size - 1))
      if (table[at] == one) return 0;
    table[at] = one;
  }
  return 1;
}

static int predicate_holds(PyObject *function, PyObject *value) {
  PyObject *answer = PyObject_CallOneArg(function, value);
  int yes = answer == Py_True;
  Py_XDECREF(answer);
  return yes;
}

/* Return whether a class is unchanged. CPython gives it a new version with every change of it or of a base class (0: none
 * yet). After a change its members are compared, and the new version is stored unless the class changed meanwhile. */
static int is_unchanged(Instruction *instruction, PyObject *value) {
  PyTypeObject *class = (PyTypeObject *)(value ? value : PyTuple_GET_ITEM(instruction->key, 0));
  if (!PyType_Check(class)) return 0;
  if (instruction->number && class->tp_version_tag == instruction->number) return 1;
  /* The version is read before the look-up, which may run Python and change the class. */
  Py_ssize_t before = class->tp_version_tag;
  if (!predicate_holds(PyTuple_GET_ITEM(instruction->key, 1), (PyObject *)class)) return 0;
  if (class->tp_version_tag == before) instruction->number = before;
  return 1;
}

/* Conditions on several values take the locals in a dict, by their names. */
static int predicate_of_all_holds(PyObject *function, const Check *check, PyObject **found) {
  PyObject *locals = PyDict_New();
  int yes = locals != NULL;
  for (Py_ssize_t i = 0; yes && i < check->locals; i++) yes = !PyDict_SetItem(locals, PyTuple_GET_ITEM(check->names, i), found[i]);
  yes = yes && predicate_holds(function, locals);
  Py_XDECREF(locals);
  return yes;
}

/* Look a name up in a class, or in its method resolution order after the first `after` classes: a new reference. */
static PyObject *member_of(PyTypeObject *class, PyObject *name, Py_ssize_t after) {
  if (!after) return Py_XNewRef(_PyType_Lookup(class, name));
  for (; class->tp_mro && after < PyTuple_GET_SIZE(class->tp_mro); after++) {
    PyTypeObject *next = (PyTypeObject *)PyTuple_GET_ITEM(class->tp_mro, after);
#if PY_VERSION_HEX < 0x030C0000
    PyObject *dict = Py_XNewRef(next->tp_dict);
#else
    PyObject *dict = PyType_GetDict(next);
#endif
    PyObject *found = dict ? Py_XNewRef(PyDict_GetItemWithError(dict, name)) : NULL;
    Py_XDECREF(dict);
    if (found || PyErr_Occurred()) return found;
  }
  return NULL;
}

/* Look a key up in a dict, a borrowed reference. CPython gives a dict a new version with each change of its keys and values,
 * so the cached value is returned while the version is the same. CPython 3.13 may change an instance's dict without a new
 * version, and later releases have no versions. */
static PyObject *dict_entry(Instruction *instruction) {
  PyObject *dict = PyTuple_GET_ITEM(instruction->key, 0), *key = PyTuple_GET_ITEM(instruction->key, 1);
#if PY_VERSION_HEX < 0x030D0000
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  uint64_t version = ((PyDictObject *)dict)->ma_version_tag;
#pragma GCC diagnostic pop
  /* A key with an __eq__ of its own could return another result each time. */
  if (!PyUnicode_CheckExact(key)) return PyDict_GetItemWithError(dict, key);
  if (instruction->version == version) return instruction->held;
  instruction->held = PyDict_GetItemWithError(dict, key);
  /* The look-up may have run another key's __eq__; a change by it is found at the next call. */
  instruction->version = PyErr_Occurred() ? 0 : version;
  return instruction->held;
#else
  return PyDict_GetItemWithError(dict, key);
#endif
}

/* The state of the process that torch's object (GlobalStateGuard) compares, in half the time: that calls 20 functions for
 * autocast, and uses the results only if autocast is on. Code that reads a dtype of autocast while it is off has a guard
 * of its own. */
static State state_now(void) {
  State now;
  memset(&now, 0, sizeof now); /* compared as bytes */
  now.is_default = knows_state && !thread_keys.included && !thread_keys.excluded;
  if (!now.is_default) return now;
  const void *of = context();
  now.threads = threads();
  now.grad = grad_mode(), now.cached = is_autocast_cached(), now.functions = function_state(), now.dtype = default_dtype();
  now.deterministic = is_deterministic(of), now.warns = only_warns(of);
  now.precision = precision(of, CUDA, MATRIX_PRODUCTS), now.fp16 = allows_fp16(of), now.bf16 = allows_bf16(of);
  return now;
}

static int is_state(Instruction *instruction) {
  State now = state_now();
  if (now.is_default && !memcmp(&now, &instruction->state, sizeof now)) return 1;
  /* The C function itself, without a look-up of the method and its arguments. */
  PyObject *answer = instruction->method(instruction->key, NULL);
  Py_XDECREF(answer);
  if (answer == Py_True && now.is_default) instruction->state = now;
  return answer == Py_True;
}

/* A new reference, or NULL (perhaps with an exception). */
static PyObject *fetched(const Instruction *instruction, PyObject *value) {
  switch (instruction->operation) {
    case LOOK_UP: return Py_XNewRef(dict_entry((Instruction *)instruction));
    case ITEM: return PyDict_Check(value) ? Py_XNewRef(PyDict_GetItemWithError(value, instruction->key)) : NULL;
    /* No negative index: guard_bytecode.py writes none. */
    case INDEX:
      if (PyList_CheckExact(value))
        return instruction->number < PyList_GET_SIZE(value) ? Py_NewRef(PyList_GET_ITEM(value, instruction->number)) : NULL;
      return PyTuple_Check(value) && instruction->number < PyTuple_GET_SIZE(value) ? Py_NewRef(PyTuple_GET_ITEM(value, instruction->number)) : NULL;
    case ATTRIBUTE: return PyObject_GetAttr(value, instruction->key);
    case VARS: return Py_XNewRef(vars_of(value));
    case CLASS: return Py_NewRef(Py_TYPE(value));
    case MEMBER: return PyType_Check(value) ? member_of((PyTypeObject *)value, instruction->key, instruction->number) : NULL;
    case CONTENTS: {
      PyObject *closure = PyFunction_Check(value) ? PyFunction_GET_CLOSURE(value) : NULL;
      if (!closure || instruction->number >= PyTuple_GET_SIZE(closure)) return NULL;
      return Py_XNewRef(PyCell_GET(PyTuple_GET_ITEM(closure, instruction->number)));
    }
    case LIST_KEYS:
      if (PyAnySet_CheckExact(value)) return PySequence_List(value);
      return PyDict_CheckExact(value) ? PyDict_Keys(value) : NULL;
    case LIST_VALUES: return PyDict_CheckExact(value) ? PyDict_Values(value) : NULL;
  }
  return NULL;
}

static int is_true_of(const Instruction *instruction, PyObject **found, const Check *check) {
  PyObject *value = instruction->slot >= 0 ? found[instruction->slot] : NULL, *key = instruction->key;
  switch (instruction->operation) {
    case IS: return (uintptr_t)value == instruction->address;
    case OF_CLASS: return (uintptr_t)Py_TYPE(value) == instruction->address;
    case WITH_CODE: return PyFunction_Check(value) && (uintptr_t)PyFunction_GET_CODE(value) == instruction->address;
    case EQUALS: return is_same(value, key);
    case LENGTH:
      if (PyAnySet_Check(value)) return PySet_GET_SIZE(value) == instruction->number;
      return (PyList_Check(value) || PyTuple_Check(value)) && Py_SIZE(value) == instruction->number;
    case DICT_LENGTH: return PyDict_Check(value) && PyDict_GET_SIZE(value) == instruction->number;
    case KEYS: return has_keys(value, key);
    case HAS: return has(value, key);
    case LACKS: return lacks(value, key);
    case LACKS_MEMBER: return PyType_Check(value) && !_PyType_Lookup((PyTypeObject *)value, key) && !PyErr_Occurred();
    case ABSENT: return !dict_entry((Instruction *)instruction) && !PyErr_Occurred();
    case TENSOR: return matches_tensor(value, instruction);
    case UNMARKED: return (!instruction->number || _PyObject_GetDictPtr(value)) && is_unmarked(value, key); /* 1: where it may have a dict */
    case SAME: return value == found[instruction->number];
    case DISTINCT: return are_distinct(found, instruction->numbers, instruction->number);
    case STATE: return is_state((Instruction *)instruction);
    case KEYS_OF_THREAD: return thread_keys.included == (uint64_t)instruction->numbers[0] && thread_keys.excluded == (uint64_t)instruction->numbers[1];
    case NO_MODES: return function_modes() == 0;
    /* A std::deque begins with: map, map size, then the start iterator (current, first, last, node) and the end
     * iterator. Words 2 and 6 are the current elements of the two; they are equal if it is empty. */
    case NO_HOOKS: { /* a std::deque is empty if its begin is its end */
      const uintptr_t *stack = saved_tensors_hooks();
      return stack[2] == stack[6];
    }
    case EMPTY: return PyList_CheckExact(key) ? PyList_GET_SIZE(key) == 0 : PyDict_GET_SIZE(key) == 0;
    case UNCHANGED: return is_unchanged((Instruction *)instruction, value);
    case PREDICATE: return predicate_holds(key, value);
    case PREDICATE_OF_ALL: return predicate_of_all_holds(key, check, found);
  }
  return 0;
}

/* `locals`: the function's arguments and free variables. A check never raises: if a value cannot be fetched, it fails. */
static int holds(const Check *check, PyObject **locals) {
  PyObject *found[check->slots + 1];
  Py_ssize_t computed = check->locals;
  int yes = 1;
  memcpy(found, locals, computed * sizeof *found);
  /* One pass over the instructions, in order: an instruction only reads slots that earlier ones have filled. */
  for (const Instruction *next = check->instruction; yes && next < check->instruction + check->length; next++) {
    if (next->operation < IS) {
      found[computed] = fetched(next, next->slot >= 0 ? found[next->slot] : NULL);
      if (found[computed]) computed++;
      else yes = 0;
    } else {
      yes = is_true_of(next, found, check);
    }
  }
  /* Fetched values are owned, the locals are the caller's. */
  while (computed > check->locals) Py_DECREF(found[--computed]);
  /* A value that cannot be fetched is a failed guard, and no error of the call. */
  if (!yes && PyErr_Occurred()) PyErr_Clear();
  return yes;
}

/* ---------------------------------------------------------------- the description */

static i64 *numbers_of(PyObject *tuple) {
  Py_ssize_t count = PyTuple_Check(tuple) ? PyTuple_GET_SIZE(tuple) : 0;
  i64 *numbers = PyMem_Calloc(count + 1, sizeof *numbers);
  for (Py_ssize_t i = 0; numbers && i < count; i++) {
    PyObject *one = PyTuple_GET_ITEM(tuple, i);
    numbers[i] = one == Py_None ? -1 : (i64)PyLong_AsUnsignedLongLongMask(one);
  }
  return numbers;
}

static int read_metadata(PyObject *text, TensorMetadata *metadata) {
  PyObject *sizes, *strides;
  int grad;
  if (!PyArg_ParseTuple(text, "KiiipO!O!", &metadata->keys, &metadata->dtype, &metadata->device, &metadata->index, &grad, &PyTuple_Type,
                        &sizes, &PyTuple_Type, &strides))
    return -1;
  metadata->grad = grad;
  metadata->dim = PyTuple_GET_SIZE(sizes);
  metadata->sizes = numbers_of(sizes);
  metadata->strides = numbers_of(strides);
  if (PyTuple_GET_SIZE(strides) != metadata->dim) PyErr_SetString(PyExc_ValueError, "not the metadata of a tensor");
  return PyErr_Occurred() ? -1 : 0;
}

/* The C function behind a method of torch's that takes no arguments. */
static PyCFunction method_of(PyObject *object, const char *name) {
  PyObject *found = PyObject_GetAttrString((PyObject *)Py_TYPE(object), name);
  PyCFunction method = NULL;
  if (found && Py_TYPE(found) == &PyMethodDescr_Type && ((PyMethodDescrObject *)found)->d_method->ml_flags == METH_NOARGS)
    method = ((PyMethodDescrObject *)found)->d_method->ml_meth;
  Py_XDECREF(found);
  if (!method && !PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "%s is no function of C", name);
  return method;
}

static int read_instruction(PyObject *text, Instruction *into, Py_ssize_t computed) {
  unsigned long long address;
  PyObject *key;
  if (!PyArg_ParseTuple(text, "innKO", &into->operation, &into->slot, &into->number, &address, &key)) return -1;
  into->address = (uintptr_t)address;
  into->key = key;
  int of_dict = into->operation == LOOK_UP || into->operation == ABSENT;
  if (of_dict && !(PyTuple_Check(key) && PyTuple_GET_SIZE(key) == 2 && PyDict_Check(PyTuple_GET_ITEM(key, 0)))) goto wrong;
  if (into->operation == UNCHANGED && !(PyTuple_Check(key) && PyTuple_GET_SIZE(key) == 2))
    goto wrong;
  if (into->operation == EMPTY && !PyList_CheckExact(key) && !PyDict_Check(key)) goto wrong;
  if ((into->operation == KEYS || into->operation == UNMARKED) && !PyTuple_Check(key)) goto wrong;
  if (into->operation < 0 || into->operation >= OPERATIONS || into->slot >= computed || into->slot < -1) goto wrong;
  if (into->operation == SAME && (into->number < 0 || into->number >= computed)) goto wrong;
  if (into->operation == TENSOR) return read_metadata(key, &into->metadata);
  if (into->operation == STATE) return (into->method = method_of(key, "check")) ? 0 : -1;
  if (into->operation == DISTINCT || into->operation == KEYS_OF_THREAD) {
    if (!PyTuple_Check(key) || !(into->numbers = numbers_of(key))) goto wrong;
    into->number = PyTuple_GET_SIZE(key);
    for (Py_ssize_t i = 0; into->operation == DISTINCT && i < into->number; i++)
      if (into->numbers[i] < 0 || into->numbers[i] >= computed) goto wrong;
  }
  return PyErr_Occurred() ? -1 : 0;
wrong:
  PyErr_SetString(PyExc_ValueError, "not an instruction");
  return -1;
}

/* Check(names, instructions): the names of the locals; tuples (operation, slot, number, address, key). */
static PyObject *check_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
  PyObject *names, *texts;
  if (!PyArg_ParseTuple(arguments, "O!O!", &PyTuple_Type, &names, &PyTuple_Type, &texts)) return NULL;
  Check *check = (Check *)type->tp_alloc(type, 0);
  if (!check) return NULL;
  check->names = Py_NewRef(names);
  check->description = Py_NewRef(texts);
  check->locals = check->slots = PyTuple_GET_SIZE(names);
  check->instruction = PyMem_Calloc(PyTuple_GET_SIZE(texts) + 1, sizeof(Instruction));
  for (; check->instruction && check->length < PyTuple_GET_SIZE(texts); check->length++) {
    Instruction *into = &check->instruction[check->length];
    if (read_instruction(PyTuple_GET_ITEM(texts, check->length), into, check->slots)) goto failed;
    check->slots += into->operation < IS;
    if (check->slots > MOST_SLOTS) goto failed;
  }
  if (check->instruction && check->locals <= MOST_LOCALS) return (PyObject *)check;
failed:
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "too many values to check");
  Py_DECREF(check);
  return NULL;
}

static void check_dealloc(PyObject *self) {
  Check *check = (Check *)self;
  for (Py_ssize_t i = 0; check->instruction && i <= check->length; i++) { /* one more: it may be half read */
    PyMem_Free(check->instruction[i].metadata.sizes);
    PyMem_Free(check->instruction[i].metadata.strides);
    PyMem_Free(check->instruction[i].numbers);
  }
  PyMem_Free(check->instruction);
  Py_XDECREF(check->names);
  Py_XDECREF(check->description);
  Py_TYPE(self)->tp_free(self);
}

/* check.holds((value, ...)): of the locals, in the order of their names */
static PyObject *check_holds(PyObject *self, PyObject *locals) {
  Check *check = (Check *)self;
  if (!PyTuple_Check(locals) || PyTuple_GET_SIZE(locals) != check->locals)
    return PyErr_Format(PyExc_TypeError, "a check takes %zd values", check->locals);
  return PyBool_FromLong(holds(check, ((PyTupleObject *)locals)->ob_item));
}

static PyMethodDef check_methods[] = {
    {"holds", check_holds, METH_O, "Return whether every instruction accepts these locals."},
    {NULL},
};

static PyTypeObject CheckType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nbcompile.runtime.Check",
    .tp_basicsize = sizeof(Check),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = check_new,
    .tp_dealloc = check_dealloc,
    .tp_methods = check_methods,
};

/* ---------------------------------------------------------------- FastCall */

typedef struct {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject *function; /* the user's: its code, defaults and free variables */
  PyObject *self;     /* its first argument, where it is bound to an object; or NULL */
  PyObject *code, *names, *slow;
  PyObject *defaults, *keyword_defaults; /* those that were compiled with; only compared */
  PyObject *entries;  /* a list of (check, run) */
  Py_ssize_t locals;  /* arguments and free variables */
  char checks_failed;       /* the last call took the slow path because each check failed */
  PyObject *weak_references;
} FastCall;

/* Bind the arguments of a call to the code's names: new references. Returns 0 if the call is an error, or of a rare kind. */
static int bind(const FastCall *fast_call, PyObject *arguments, PyObject *keywords, PyObject **locals) {
  PyFunctionObject *function = (PyFunctionObject *)fast_call->function;
  PyCodeObject *code = (PyCodeObject *)function->func_code;
  Py_ssize_t own = fast_call->self != NULL, given = PyTuple_GET_SIZE(arguments) + own, count = code->co_argcount;
  Py_ssize_t named = count + code->co_kwonlyargcount, next = named, defaults = 0;
  /* The compiled code depends on the identity of code and defaults. With others the slow path runs. */
  if (function->func_code != fast_call->code || function->func_defaults != fast_call->defaults ||
      function->func_kwdefaults != fast_call->keyword_defaults || (given > count && !(code->co_flags & CO_VARARGS))) return 0;
  if (own && !count) return 0;
  PyObject **rest = code->co_flags & CO_VARKEYWORDS ? &locals[named + !!(code->co_flags & CO_VARARGS)] : NULL;
  if (rest && !(*rest = PyDict_New())) return 0;
  if (own) locals[0] = Py_NewRef(fast_call->self);
  for (Py_ssize_t i = own; i < given && i < count; i++) locals[i] = Py_NewRef(PyTuple_GET_ITEM(arguments, i - own));
  if (keywords && PyDict_GET_SIZE(keywords)) {
    PyObject *name, *value;
    Py_ssize_t position = 0, at;
    while (PyDict_Next(keywords, &position, &name, &value)) {
      /* A handful of names: a loop over them is faster than a hash table. Positional-only names are no keywords. */
      for (at = code->co_posonlyargcount; at < named && PyUnicode_Compare(name, PyTuple_GET_ITEM(fast_call->names, at)); at++);
      if (at < named && !locals[at]) locals[at] = Py_NewRef(value);
      /* Given twice, or a name that the function lacks: an error, which the slow path raises. */
      else if (at < named || !rest || PyDict_SetItem(*rest, name, value)) return 0;
    }
  }
  if (function->func_defaults) defaults = PyTuple_GET_SIZE(function->func_defaults);
  for (Py_ssize_t i = given < count ? given : count; i < named; i++) {
    if (locals[i]) continue;
    if (i < count && i >= count - defaults) locals[i] = Py_NewRef(PyTuple_GET_ITEM(function->func_defaults, i - count + defaults));
    else if (i >= count && function->func_kwdefaults)
      locals[i] = Py_XNewRef(PyDict_GetItemWithError(function->func_kwdefaults, PyTuple_GET_ITEM(fast_call->names, i)));
    if (!locals[i]) return 0;
  }
  if (code->co_flags & CO_VARARGS && !(locals[next++] = PyTuple_GetSlice(arguments, count - own, PyTuple_GET_SIZE(arguments)))) return 0;
  next += rest != NULL;
  /* Free variables follow the arguments, by their contents; with an empty cell the slow path runs. */
  for (Py_ssize_t i = 0; next < fast_call->locals; i++) {
    PyObject *contents = PyCell_GET(PyTuple_GET_ITEM(function->func_closure, i));
    if (!(locals[next++] = Py_XNewRef(contents))) return 0;
  }
  return 1;
}

/* The first entry that accepts the call, a new reference; NULL where none does. */
static PyObject *accepting(FastCall *fast_call, PyObject *arguments, PyObject *keywords) {
  PyObject *locals[MOST_LOCALS], *found = NULL;
  int checks_failed = 0;
  /* Only as many as there are: to clear all 64 costs as much as a guard of three tensors. */
  for (Py_ssize_t i = 0; i < fast_call->locals; i++) locals[i] = NULL;
  if (bind(fast_call, arguments, keywords, locals)) {
    /* A check may run Python, and clear the list. */
    for (Py_ssize_t i = 0; !found && i < PyList_GET_SIZE(fast_call->entries); i++) {
      PyObject *entry = Py_NewRef(PyList_GET_ITEM(fast_call->entries, i));
      if (holds((Check *)PyTuple_GET_ITEM(entry, 0), locals)) found = entry;
      else Py_DECREF(entry);
    }
    checks_failed = !found;
  } else if (PyErr_Occurred()) {
    PyErr_Clear();
  }
  for (Py_ssize_t i = 0; i < fast_call->locals; i++) Py_XDECREF(locals[i]);
  fast_call->checks_failed = checks_failed; /* last: the checks above may have called this object */
  return found;
}

/* Whether the frame hook of this thread is another compiler's, as torch.compile's: it has to see the frame of the function.
   A call without any hook costs two loads here: torch replaces the interpreter's function only while a thread has a hook. */
static int has_other_hook(void) {
  if (_PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) == _PyEval_EvalFrameDefault || !get_hook) return 0;
  PyObject *hook = PyObject_CallNoArgs(get_hook);
  int other = hook && hook != Py_None && !PyBool_Check(hook) && !Py_IS_TYPE(hook, own_hook);
  Py_XDECREF(hook);
  if (!hook) PyErr_Clear();
  return other;
}

static PyObject *fast_call_vectorcall(PyObject *self, PyObject *const *given, size_t flags, PyObject *unused) {
  FastCall *fast_call = (FastCall *)self;
  if (PyVectorcall_NARGS(flags) != 2 || !PyTuple_CheckExact(given[0]) || !PyDict_CheckExact(given[1]))
    return PyErr_Format(PyExc_TypeError, "a fast call takes a tuple of arguments and a dict of keywords");
  PyObject *arguments = given[0], *keywords = given[1], *result;
  /* Callbacks of the profiler: torch's hook reports compiled regions to it, and a fast call would be missing. */
  fast_call->checks_failed = 0;
  int takes_entries = PyList_GET_SIZE(fast_call->entries) && !has_callbacks() && !has_other_hook();
  PyObject *entry = takes_entries ? accepting(fast_call, arguments, keywords) : NULL;
  if (!entry) return PyObject_Vectorcall(fast_call->slow, given, 2, NULL);
  PyObject *run = PyTuple_GET_ITEM(entry, 1);
  if (PyDict_GET_SIZE(keywords)) result = PyObject_Call(run, arguments, keywords);
  else result = PyObject_Vectorcall(run, ((PyTupleObject *)arguments)->ob_item, PyTuple_GET_SIZE(arguments), NULL);
  Py_DECREF(entry);
  return result;
}

/* FastCall(function, self or None, names, slow): the names of its arguments, then of its free variables */
static PyObject *fast_call_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
  PyObject *function, *own, *names, *slow;
  if (!PyArg_ParseTuple(arguments, "O!OO!O", &PyFunction_Type, &function, &own, &PyTuple_Type, &names, &slow)) return NULL;
  PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(function);
  Py_ssize_t expected = code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS) +
                      !!(code->co_flags & CO_VARKEYWORDS) + code->co_nfreevars;
  if (expected != PyTuple_GET_SIZE(names) || expected > MOST_LOCALS) return PyErr_Format(PyExc_ValueError, "not the names of a function");
  FastCall *fast_call = (FastCall *)type->tp_alloc(type, 0);
  if (!fast_call) return NULL;
  fast_call->vectorcall = fast_call_vectorcall;
  fast_call->function = Py_NewRef(function);
  fast_call->self = own == Py_None ? NULL : Py_NewRef(own);
  fast_call->code = Py_NewRef(code);
  fast_call->names = Py_NewRef(names);
  fast_call->slow = Py_NewRef(slow);
  fast_call->locals = expected;
  fast_call->defaults = Py_XNewRef(((PyFunctionObject *)function)->func_defaults);
  fast_call->keyword_defaults = Py_XNewRef(((PyFunctionObject *)function)->func_kwdefaults);
  if ((fast_call->entries = PyList_New(0))) return (PyObject *)fast_call;
  Py_DECREF(fast_call);
  return NULL;
}

static int fast_call_traverse(PyObject *self, visitproc visit, void *arg) {
  FastCall *fast_call = (FastCall *)self;
  Py_VISIT(fast_call->function);
  Py_VISIT(fast_call->self);
  Py_VISIT(fast_call->slow);
  Py_VISIT(fast_call->entries);
  return 0;
}

static int fast_call_clear(PyObject *self) {
  FastCall *fast_call = (FastCall *)self;
  Py_CLEAR(fast_call->function);
  Py_CLEAR(fast_call->self);
  Py_CLEAR(fast_call->slow);
  Py_CLEAR(fast_call->entries);
  return 0;
}

static void fast_call_dealloc(PyObject *self) {
  FastCall *fast_call = (FastCall *)self;
  PyObject_GC_UnTrack(self);
  if (fast_call->weak_references) PyObject_ClearWeakRefs(self);
  fast_call_clear(self);
  Py_XDECREF(fast_call->code);
  Py_XDECREF(fast_call->names);
  Py_XDECREF(fast_call->defaults);
  Py_XDECREF(fast_call->keyword_defaults);
  Py_TYPE(self)->tp_free(self);
}

/* bind(arguments, keywords): the locals, or None where the call is an error or takes the slow path */
static PyObject *fast_call_bind(PyObject *self, PyObject *given) {
  FastCall *fast_call = (FastCall *)self;
  PyObject *arguments, *keywords, *locals[MOST_LOCALS] = {NULL}, *tuple = NULL;
  if (!PyArg_ParseTuple(given, "O!O!", &PyTuple_Type, &arguments, &PyDict_Type, &keywords)) return NULL;
  if (bind(fast_call, arguments, keywords, locals) && (tuple = PyTuple_New(fast_call->locals)))
    for (Py_ssize_t i = 0; i < fast_call->locals; i++) PyTuple_SET_ITEM(tuple, i, Py_NewRef(locals[i]));
  for (Py_ssize_t i = 0; i < fast_call->locals; i++) Py_XDECREF(locals[i]);
  if (!tuple && !PyErr_Occurred()) Py_RETURN_NONE;
  return tuple;
}

/* add(check, run) */
static PyObject *fast_call_add(PyObject *self, PyObject *arguments) {
  FastCall *fast_call = (FastCall *)self;
  PyObject *check, *run;
  if (!PyArg_ParseTuple(arguments, "O!O", &CheckType, &check, &run)) return NULL;
  if (((Check *)check)->locals != fast_call->locals) return PyErr_Format(PyExc_ValueError, "a check of another function");
  if (PyList_Append(fast_call->entries, arguments)) return NULL;
  Py_RETURN_NONE;
}

static PyObject *fast_call_forget(PyObject *self, PyObject *unused) {
  PyObject *entries = ((FastCall *)self)->entries;
  if (PyList_SetSlice(entries, 0, PyList_GET_SIZE(entries), NULL)) return NULL;
  Py_RETURN_NONE;
}

static PyMethodDef fast_call_methods[] = {
    {"bind", fast_call_bind, METH_VARARGS, "The locals of a call."},
    {"add", fast_call_add, METH_VARARGS, "Run a function for the calls that a check accepts, from now on."},
    {"forget", fast_call_forget, METH_NOARGS, "Remove all entries: every call takes the slow path from now on."},
    {NULL},
};

static PyMemberDef fast_call_members[] = {
    {"slow", T_OBJECT_EX, offsetof(FastCall, slow), READONLY, "The function that is called where no entry accepts a call."},
    {"checks_failed", T_BOOL, offsetof(FastCall, checks_failed), READONLY, "Whether each check failed for the last call."},
    {NULL},
};

static PyTypeObject FastCallType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nbcompile.runtime.FastCall",
    .tp_basicsize = sizeof(FastCall),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(FastCall, vectorcall),
    .tp_weaklistoffset = offsetof(FastCall, weak_references),
    .tp_call = PyVectorcall_Call,
    .tp_new = fast_call_new,
    .tp_traverse = fast_call_traverse,
    .tp_clear = fast_call_clear,
    .tp_dealloc = fast_call_dealloc,
    .tp_methods = fast_call_methods,
    .tp_members = fast_call_members,
};

/* ---------------------------------------------------------------- module */

static PyObject *setup(PyObject *module, PyObject *arguments) {
  if (!PyArg_ParseTuple(arguments, "nn", &tensor_offset, &keys_offset)) return NULL;
  Py_RETURN_NONE;
}

/* set_hook(get, class): the function that returns the frame hook of a thread, and the class of ours */
static PyObject *set_hook(PyObject *module, PyObject *arguments) {
  PyObject *get, *class;
  if (!PyArg_ParseTuple(arguments, "OO!", &get, &PyType_Type, &class)) return NULL;
  Py_XSETREF(get_hook, Py_NewRef(get));
  Py_XSETREF(own_hook, (PyTypeObject *)Py_NewRef(class));
  Py_RETURN_NONE;
}

/* set_traced(function): what FastCall.__call__ is for code that reads it. A call of an object takes the C function above.
   Dynamo cannot trace a function in C, and traces this one where compiled code is called in code that it compiles. */
static PyObject *set_traced(PyObject *module, PyObject *function) {
  if (PyDict_SetItemString(FastCallType.tp_dict, "__call__", function)) return NULL;
  PyType_Modified(&FastCallType);
  Py_RETURN_NONE;
}

/* numbers(tensor) -> (dtype, device type, device index): as torch's C functions number them */
static PyObject *numbers(PyObject *module, PyObject *tensor) {
  Handle handle = (char *)tensor + tensor_offset;
  int32_t dtype = 0, device = 0, index = -1;
  if (aoti_torch_get_dtype(handle, &dtype) || aoti_torch_get_device_type(handle, &device) ||
      (device && aoti_torch_get_device_index(handle, &index)))
    return PyErr_Format(PyExc_RuntimeError, "torch would not describe a tensor");
  return Py_BuildValue("iii", (int)dtype, (int)device, (int)index);
}

/* keys_of_thread() -> (included, excluded): the dispatch keys that the thread's state includes and excludes, as stored */
static PyObject *keys_of_thread(PyObject *module, PyObject *unused) {
  return Py_BuildValue("KK", (unsigned long long)thread_keys.included, (unsigned long long)thread_keys.excluded);
}

/* read_state(): read the fields of State one by one from now on. Return whether torch has all of these functions. */
static PyObject *read_state(PyObject *module, PyObject *unused) {
  knows_state = grad_mode && is_autocast_cached && function_state && context && is_deterministic && only_warns && precision &&
                allows_fp16 && allows_bf16 && threads && default_dtype;
  return PyBool_FromLong(knows_state);
}

static PyMethodDef functions[] = {
    {"read_state", read_state, METH_NOARGS, "Read the state of the process one field after another."},
    {"set_hook", set_hook, METH_VARARGS, "Set the function that returns the frame hook of a thread, and the class of our hooks."},
    {"set_traced", set_traced, METH_O, "Set the Python function that a tracer of Python code reads instead of a fast call."},
    {"setup", setup, METH_VARARGS, "Set the offset of the TensorImpl in a tensor object, and that of its dispatch keys."},
    {"numbers", numbers, METH_O, "A tensor's dtype and device, as numbers."},
    {"keys_of_thread", keys_of_thread, METH_NOARGS, "The dispatch keys of this thread."},
    {NULL},
};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "nbcompile_fast_call", NULL, -1, functions};

PyMODINIT_FUNC PyInit_nbcompile_fast_call(void) {
  PyObject *module;
  if (PyType_Ready(&CheckType) < 0 || PyType_Ready(&FastCallType) < 0 || !(module = PyModule_Create(&definition))) return NULL;
  if (PyModule_AddObjectRef(module, "Check", (PyObject *)&CheckType) || PyModule_AddObjectRef(module, "FastCall", (PyObject *)&FastCallType)) {
    Py_DECREF(module);
    return NULL;
  }
  return module;
}
