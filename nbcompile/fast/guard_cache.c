/* A cache for the guards on a module: once they held, a comparison of versions and bytes takes nanoseconds per object.
 *
 *   GuardCache(watched, check)    cache(module) -> True or False
 *
 * `check(module)` evaluates the guards. `watched(module)` lists the objects that they read: modules, dicts and tensors,
 * owners first, the module itself at the head. The snapshot of an object is its address and
 *
 *   of a module   its class and the address of its __dict__
 *   of a dict     its version, which CPython changes with every change of the dict; since Python 3.12 this file counts
 *                 the changes, by a callback of CPython (a dict watcher)
 *   of a tensor   its class, whether it requires grad, and the bytes of its TensorImpl: sizes, strides, dtype, ...
 *
 * The cache keeps no object alive. An object is read only after its owner was found unchanged, so it still exists.
 * The offsets of a TensorImpl's bytes, and of its pointer in a tensor object, are measured at start-up (guard_cache.py);
 * a self-test runs before this file is used.
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
 *   save_version(snapshot, dict)
 *   has_same_version(snapshot)      never reads the dict, which may have been deallocated
 *   release_version(snapshot)
 */

#if PY_VERSION_HEX < 0x030C0000

static int begin_versions(void) { return 0; }

#define VERSION uint64_t version;
/* Before 3.12 each dict has a version tag, unique over all dicts; every change gives it a new one. */
#define save_version(snapshot, dict) ((snapshot)->version = ((PyDictObject *)(dict))->ma_version_tag, 0)
#define has_same_version(snapshot) (((PyDictObject *)(snapshot)->object)->ma_version_tag == (snapshot)->version)
#define release_version(snapshot) ((void)(snapshot))

#else

/* A watched dict; several caches may watch one. They are in a hash table of 4096 linked lists, by address. */
typedef struct WatchedDict {
  struct WatchedDict *next;
  PyObject *dict; /* borrowed; NULL once it is deallocated */
  Py_ssize_t users;
  uint64_t version;
} WatchedDict;

static WatchedDict *watched[4096];
static int watcher = -1;

static WatchedDict **link_to(PyObject *dict) {
  WatchedDict **link = &watched[((uintptr_t)dict >> 4) % 4096];
  while (*link && (*link)->dict != dict) link = &(*link)->next;
  return link;
}

static int on_change(PyDict_WatchEvent event, PyObject *dict, PyObject *key, PyObject *value) {
  WatchedDict **link = link_to(dict), *entry = *link;
  if (!entry) return 0;
  /* The event of a deallocation comes before the memory is reused. */
  entry->version++;
  if (event == PyDict_EVENT_DEALLOCATED) { /* another dict may get this address */
    *link = entry->next;
    entry->dict = NULL;
  }
  return 0;
}

static int begin_versions(void) {
  if (watcher < 0) watcher = PyDict_AddWatcher(on_change);
  return watcher < 0 ? -1 : 0;
}

/* The values of an instance's __dict__ may be inline in the instance, where Python 3.13 calls no watcher when they change.
 * Adding and deleting a key that is no str moves them into the dict. Returns whether the dict owns its values. */
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

static WatchedDict *watch(PyObject *dict) {
  WatchedDict **link = link_to(dict), *entry = *link;
  if (!entry) {
    if (!has_own_values(dict) || PyDict_Watch(watcher, dict) || !(entry = PyMem_Calloc(1, sizeof(WatchedDict)))) return NULL;
    entry->dict = dict;
    entry->next = *link;
    *link = entry;
  }
  entry->users++;
  return entry;
}

static void unwatch(WatchedDict *entry) {
  if (!entry || --entry->users) return;
  if (entry->dict) {
    *link_to(entry->dict) = entry->next;
    PyDict_Unwatch(watcher, entry->dict);
  }
  PyMem_Free(entry);
}

#define VERSION WatchedDict *watched; uint64_t version;
#define save_version(snapshot, dict) (((snapshot)->watched = watch(dict)) ? (snapshot)->version = (snapshot)->watched->version, 0 : -1)
#define has_same_version(snapshot) ((snapshot)->watched->version == (snapshot)->version)
#define release_version(snapshot) unwatch((snapshot)->watched)

#endif

/* ---------------------------------------------------------------- */

typedef struct {
  PyObject *object; /* borrowed: compared by address, and read once its owner was found unchanged */
  enum Kind kind;
  void *type, *content; /* its class; its __dict__ or its TensorImpl */
  VERSION             /* of a dict */
  char grad, bytes[]; /* of a tensor; see SIZE */
} Snapshot;

/* Snapshots have one size, so that the list is one block of memory; a multiple of 16 bytes keeps the pointers aligned. */
#define SIZE ((sizeof(Snapshot) + LONGEST + 15) / 16 * 16)

typedef struct {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject *watched, *check;
  char *snapshots;
  Py_ssize_t length; /* number of snapshots in the list */
  Py_ssize_t count; /* the same once the guards were found to hold; 0: the cache is empty */
  int failed;       /* the guards did not hold the last time */
  uint64_t generation; /* how often `snapshots` was written: another thread may call the cache while `check` runs */
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

static int take_snapshot(Snapshot *snapshot, PyObject *object) {
  snapshot->object = object;
  snapshot->type = Py_TYPE(object);
  if (PyDict_CheckExact(object) || PyODict_CheckExact(object)) {
    snapshot->kind = DICT;
    return save_version(snapshot, object);
  }
  if (is_tensor(object)) {
    snapshot->kind = TENSOR;
    snapshot->content = impl_of(object);
    snapshot->grad = requires_grad(snapshot->content);
    memcpy(snapshot->bytes, (char *)snapshot->content + first_byte, last_byte - first_byte);
  } else {
    snapshot->kind = MODULE;
    snapshot->content = dict_of(object);
  }
  return 0;
}

static int is_unchanged(const Snapshot *snapshot) {
  /* In this order: the class decides whether there is a TensorImpl, and equal bytes are read only at the same
   * address. */
  PyObject *object = snapshot->object;
  if (snapshot->kind == DICT) return has_same_version(snapshot);
  if (Py_TYPE(object) != snapshot->type) return 0;
  if (snapshot->kind == MODULE) return dict_of(object) == snapshot->content;
  return impl_of(object) == snapshot->content && requires_grad(snapshot->content) == snapshot->grad &&
         !memcmp(snapshot->bytes, (char *)snapshot->content + first_byte, last_byte - first_byte);
}

static Snapshot *snapshot_at(const GuardCache *cache, Py_ssize_t index) { return (Snapshot *)(cache->snapshots + index * SIZE); }

static void clear(GuardCache *cache) {
  cache->count = 0;
  while (cache->length) {
    Snapshot *snapshot = snapshot_at(cache, --cache->length);
    if (snapshot->kind == DICT) release_version(snapshot);
  }
}

/* Take snapshots of the objects that the guards will read, and return their number, or -1 with an exception. They are
 * valid once the guards are found to hold. A list that cannot be computed is no error: the guards will fail, too. */
static Py_ssize_t take_snapshots(GuardCache *cache, PyObject *module) {
  PyObject *listed = PyObject_CallOneArg(cache->watched, module), *items;
  if (!listed) {
    PyErr_Clear();
    clear(cache);
    return 0;
  }
  items = PySequence_Fast(listed, "a list of objects");
  Py_DECREF(listed);
  if (!items) return -1;
  Py_ssize_t count = PySequence_Fast_GET_SIZE(items);
  clear(cache);
  char *snapshots = PyMem_Realloc(cache->snapshots, count * SIZE + 1);
  if (!snapshots) {
    Py_DECREF(items);
    PyErr_NoMemory();
    return -1;
  }
  cache->snapshots = snapshots;
  for (; cache->length < count; cache->length++)
    if (take_snapshot(snapshot_at(cache, cache->length), PySequence_Fast_GET_ITEM(items, cache->length))) {
      PyErr_Clear(); /* a dict that cannot be watched: the cache stays empty */
      clear(cache);
      count = 0;
    }
  cache->generation++;
  Py_DECREF(items);
  return count;
}

static PyObject *cache_call(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *keywords) {
  GuardCache *cache = (GuardCache *)self;
  if (PyVectorcall_NARGS(flags) != 1) return PyErr_Format(PyExc_TypeError, "a guard cache takes one module");
  PyObject *module = arguments[0];
  /* The head is compared by address: a call with another module of the same class is checked in full. */
  if (cache->count && snapshot_at(cache, 0)->object == module) {
    Py_ssize_t i = 0;
    while (i < cache->count && is_unchanged(snapshot_at(cache, i))) i++;
    if (i == cache->count) Py_RETURN_TRUE;
  }
  /* Snapshots are taken before the check: a change in between is found at the next call. If the guards of an entry
   * failed the last time, they are likely to guard a value that changes at each call, with several entries: no
   * snapshot is taken until they hold again. */
  Py_ssize_t count = 0;
  if (cache->failed) {
    clear(cache);
    cache->generation++;
  } else if ((count = take_snapshots(cache, module)) < 0) {
    return NULL;
  }
  uint64_t generation = cache->generation;
  PyObject *answer = PyObject_CallOneArg(cache->check, module);
  int held = answer ? PyObject_IsTrue(answer) : 0;
  cache->failed = held <= 0;
  /* While ``check`` ran, another thread may have called this cache and written the list, which then is of the other call. */
  if (held > 0 && cache->generation == generation) cache->count = count;
  return answer;
}

static void cache_dealloc(PyObject *self) {
  GuardCache *cache = (GuardCache *)self;
  clear(cache);
  Py_XDECREF(cache->watched);
  Py_XDECREF(cache->check);
  PyMem_Free(cache->snapshots);
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
    {"setup", setup, METH_VARARGS, "Set the offset of the TensorImpl in a tensor object, and the range of its bytes to compare."},
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
