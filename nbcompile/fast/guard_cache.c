/* Remembers that the guards about a module held, and sees in nanoseconds whether anything they look at has changed.
 *
 *   GuardCache(watched, check)    cache(module) -> True or False
 *
 * `check(module)` evaluates the guards. `watched(module)` lists what they look at: modules, dicts and tensors, owners
 * first, the module itself at the head. What is kept of each is its address and
 *
 *   of a module   its class and the address of its __dict__
 *   of a dict     its version, which CPython changes with every change of the dict; since Python 3.12 this file counts
 *                 the changes itself, of which CPython tells whoever watches a dict
 *   of a tensor   its class, whether it requires grad, and the bytes of its TensorImpl: sizes, strides, dtype, ...
 *
 * Nothing is kept alive. A thing is looked at only after what holds it was found unchanged, so it still exists.
 * Where the bytes of a TensorImpl begin and end is measured at start-up (guard_cache.py), as is where a tensor object keeps
 * it; a self-test runs before anything relies on this file.
 *
 * In torch: dict tags in torch/csrc/dynamo/guards.cpp (GuardManager, DictGuardManager).
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

extern PyObject *THPVariableClass;
extern char requires_grad(const void *impl) __asm__("_ZNK3c1010TensorImpl13requires_gradEv");

enum { LONGEST = 256 };
static Py_ssize_t impl_offset, first_byte, last_byte; /* set by setup() */

enum Kind { MODULE, DICT, TENSOR };

/* ---------------------------------------------------------------- versions of dicts
 *
 *   begin(thing, dict)      remember the version that it has now
 *   is_as_it_was(thing)     never looks into the dict, which may be gone
 *   end(thing)
 */

#if PY_VERSION_HEX < 0x030C0000

static int begin_versions(void) { return 0; }

#define VERSION uint64_t version;
/* Before 3.12 each dict has a version tag, unique over all dicts, which every change renews. */
#define begin(thing, dict) ((thing)->version = ((PyDictObject *)(dict))->ma_version_tag, 0)
#define is_as_it_was(thing) (((PyDictObject *)(thing)->object)->ma_version_tag == (thing)->version)
#define end(thing) ((void)(thing))

#else

/* A dict that is watched, by its address; several caches may watch one. A list for each of 4096 remainders. */
typedef struct Watched {
  struct Watched *next;
  PyObject *dict; /* borrowed; NULL once it is gone */
  Py_ssize_t users;
  uint64_t version;
} Watched;

static Watched *watched[4096];
static int watcher = -1;

static Watched **link_to(PyObject *dict) {
  Watched **link = &watched[((uintptr_t)dict >> 4) % 4096];
  while (*link && (*link)->dict != dict) link = &(*link)->next;
  return link;
}

static int on_change(PyDict_WatchEvent event, PyObject *dict, PyObject *key, PyObject *value) {
  Watched **link = link_to(dict), *each = *link;
  if (!each) return 0;
  /* An event of a dict that is deallocated comes before its memory is used again. */
  each->version++;
  if (event == PyDict_EVENT_DEALLOCATED) { /* another dict may get this address */
    *link = each->next;
    each->dict = NULL;
  }
  return 0;
}

static int begin_versions(void) {
  if (watcher < 0) watcher = PyDict_AddWatcher(on_change);
  return watcher < 0 ? -1 : 0;
}

/* The values of an instance's __dict__ may lie in the instance itself, where Python 3.13 tells nobody that they change.
 * A key that is no text, put in and taken out again, brings them into the dict. */
static int has_own_values(PyObject *dict) {
#if PY_VERSION_HEX >= 0x030D0000
  if (((PyDictObject *)dict)->ma_values) {
    PyObject *key = PyLong_FromLong(0);
    /* For a key that is no str CPython copies the inline values into a table of the dict's own. */
    if (key && !PyDict_Contains(dict, key) && !PyDict_SetItem(dict, key, Py_None)) PyDict_DelItem(dict, key);
    Py_XDECREF(key);
    return !PyErr_Occurred() && !((PyDictObject *)dict)->ma_values;
  }
#endif
  return 1;
}

static Watched *watch(PyObject *dict) {
  Watched **link = link_to(dict), *each = *link;
  if (!each) {
    if (!has_own_values(dict) || PyDict_Watch(watcher, dict) || !(each = PyMem_Calloc(1, sizeof(Watched)))) return NULL;
    each->dict = dict;
    each->next = *link;
    *link = each;
  }
  each->users++;
  return each;
}

static void unwatch(Watched *each) {
  if (!each || --each->users) return;
  if (each->dict) {
    *link_to(each->dict) = each->next;
    PyDict_Unwatch(watcher, each->dict);
  }
  PyMem_Free(each);
}

#define VERSION Watched *of; uint64_t version;
#define begin(thing, dict) (((thing)->of = watch(dict)) ? (thing)->version = (thing)->of->version, 0 : -1)
#define is_as_it_was(thing) ((thing)->of->version == (thing)->version)
#define end(thing) unwatch((thing)->of)

#endif

/* ---------------------------------------------------------------- */

typedef struct {
  PyObject *object; /* borrowed: compared, and read once its owner was found unchanged */
  enum Kind kind;
  void *type, *content; /* its class; its __dict__ or its TensorImpl */
  VERSION             /* of a dict */
  char grad, bytes[]; /* of a tensor; see SIZE */
} Thing;

/* Things have one size, so that the list is one block of memory; 16 bytes keep the pointers aligned. */
#define SIZE ((sizeof(Thing) + LONGEST + 15) / 16 * 16)

typedef struct {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject *watched, *check;
  char *things;
  Py_ssize_t noted; /* how many things are in the list */
  Py_ssize_t count; /* the same once the guards were found to hold; 0: nothing is remembered */
  int failed;       /* the guards did not hold the last time */
  uint64_t turn;    /* how often `things` was written: another thread may ask while `check` runs */
} GuardCache;

static void *dict_of(PyObject *object) {
  PyObject **field = _PyObject_GetDictPtr(object);
  return field ? *field : NULL;
}

static void *impl_of(PyObject *tensor) { return *(void **)((char *)tensor + impl_offset); }

static int is_tensor(PyObject *object) {
  PyTypeObject *type = (PyTypeObject *)THPVariableClass;
  return Py_TYPE(object) == type || PyType_IsSubtype(Py_TYPE(object), type);
}

static int look(Thing *thing, PyObject *object) {
  thing->object = object;
  thing->type = Py_TYPE(object);
  if (PyDict_CheckExact(object) || PyODict_CheckExact(object)) {
    thing->kind = DICT;
    return begin(thing, object);
  }
  if (is_tensor(object)) {
    thing->kind = TENSOR;
    thing->content = impl_of(object);
    thing->grad = requires_grad(thing->content);
    memcpy(thing->bytes, (char *)thing->content + first_byte, last_byte - first_byte);
  } else {
    thing->kind = MODULE;
    thing->content = dict_of(object);
  }
  return 0;
}

static int unchanged(const Thing *thing) {
  /* In this order: the class says whether there is a TensorImpl, and equal bytes are read only at the same
   * address. */
  PyObject *object = thing->object;
  if (thing->kind == DICT) return is_as_it_was(thing);
  if (Py_TYPE(object) != thing->type) return 0;
  if (thing->kind == MODULE) return dict_of(object) == thing->content;
  return impl_of(object) == thing->content && requires_grad(thing->content) == thing->grad &&
         !memcmp(thing->bytes, (char *)thing->content + first_byte, last_byte - first_byte);
}

static Thing *thing_at(const GuardCache *cache, Py_ssize_t index) { return (Thing *)(cache->things + index * SIZE); }

static void forget(GuardCache *cache) {
  cache->count = 0;
  while (cache->noted) {
    Thing *thing = thing_at(cache, --cache->noted);
    if (thing->kind == DICT) end(thing);
  }
}

/* Keep what the guards are about to look at; how many things that is. It counts for nothing until they are found to
 * hold. That it cannot be listed is no error: the guards will say why. */
static Py_ssize_t remember(GuardCache *cache, PyObject *module) {
  PyObject *listed = PyObject_CallOneArg(cache->watched, module), *items;
  if (!listed) {
    PyErr_Clear();
    forget(cache);
    return 0;
  }
  items = PySequence_Fast(listed, "a list of things");
  Py_DECREF(listed);
  if (!items) return -1;
  Py_ssize_t count = PySequence_Fast_GET_SIZE(items);
  forget(cache);
  char *things = PyMem_Realloc(cache->things, count * SIZE + 1);
  if (!things) {
    Py_DECREF(items);
    PyErr_NoMemory();
    return -1;
  }
  cache->things = things;
  for (; cache->noted < count; cache->noted++)
    if (look(thing_at(cache, cache->noted), PySequence_Fast_GET_ITEM(items, cache->noted))) {
      PyErr_Clear(); /* a dict that cannot be watched: nothing is remembered */
      forget(cache);
      count = 0;
    }
  cache->turn++;
  Py_DECREF(items);
  return count;
}

static PyObject *cache_call(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *keywords) {
  GuardCache *cache = (GuardCache *)self;
  if (PyVectorcall_NARGS(flags) != 1) return PyErr_Format(PyExc_TypeError, "a guard cache takes one module");
  PyObject *module = arguments[0];
  /* The head is compared by address: a call with another module of the same class is checked in full. */
  if (cache->count && thing_at(cache, 0)->object == module) {
    Py_ssize_t i = 0;
    while (i < cache->count && unchanged(thing_at(cache, i))) i++;
    if (i == cache->count) Py_RETURN_TRUE;
  }
  /* What is there is noted before it is checked: a change in between will be seen the next time. An entry whose guards
   * failed the last time is likely to be one of several about something that changes at each call: it notes nothing
   * until they hold again. */
  Py_ssize_t count = 0;
  if (cache->failed) {
    forget(cache);
    cache->turn++;
  } else if ((count = remember(cache, module)) < 0) {
    return NULL;
  }
  uint64_t turn = cache->turn;
  PyObject *answer = PyObject_CallOneArg(cache->check, module);
  int held = answer ? PyObject_IsTrue(answer) : 0;
  cache->failed = held <= 0;
  /* While ``check`` ran, another thread may have used this cache and written the list: it then is the other's. */
  if (held > 0 && cache->turn == turn) cache->count = count;
  return answer;
}

static void cache_dealloc(PyObject *self) {
  GuardCache *cache = (GuardCache *)self;
  forget(cache);
  Py_XDECREF(cache->watched);
  Py_XDECREF(cache->check);
  PyMem_Free(cache->things);
  Py_TYPE(self)->tp_free(self);
}

static PyTypeObject GuardCacheType;

static PyObject *cache_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
  PyObject *watched, *check;
  if (!PyArg_ParseTuple(arguments, "OO", &watched, &check)) return NULL;
  GuardCache *cache = (GuardCache *)type->tp_alloc(type, 0);
  if (!cache) return NULL;
  cache->vectorcall = cache_call;
  cache->watched = Py_NewRef(watched);
  cache->check = Py_NewRef(check);
  return (PyObject *)cache;
}

static PyTypeObject GuardCacheType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nbcompile.runtime.GuardCache",
    .tp_basicsize = sizeof(GuardCache),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(GuardCache, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = cache_new,
    .tp_dealloc = cache_dealloc,
};

static PyObject *setup(PyObject *module, PyObject *arguments) {
  if (!PyArg_ParseTuple(arguments, "nnn", &impl_offset, &first_byte, &last_byte)) return NULL;
  if (first_byte < 0 || last_byte - first_byte > LONGEST || last_byte <= first_byte)
    return PyErr_Format(PyExc_ValueError, "a TensorImpl of %zd bytes", last_byte - first_byte);
  if (begin_versions()) return NULL;
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"setup", setup, METH_VARARGS, "Say where a tensor object keeps its TensorImpl, and which bytes of it to compare."},
    {NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "nbcompile_guard_cache", NULL, -1, functions};

PyMODINIT_FUNC PyInit_nbcompile_guard_cache(void) {
  PyObject *module;
  if (PyType_Ready(&GuardCacheType) < 0 || !(module = PyModule_Create(&definition))) return NULL;
  Py_INCREF(&GuardCacheType);
  if (PyModule_AddObject(module, "GuardCache", (PyObject *)&GuardCacheType) < 0) return NULL;
  return module;
}
