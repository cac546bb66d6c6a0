/* Conditions on sizes and numbers, evaluated in a fraction of a microsecond.
 *
 *   conditions(objects, numbers, constants, program, globals, otherwise)      called with the locals: True or False
 *
 * A program is a list of (operation, operand) for a machine with a stack of 64-bit integers and doubles:
 *
 *   2 <= L['x'].size()[0]       CONSTANT 2 ; NUMBER 0 ; LESS_EQUAL ; HOLDS
 *   objects  ((ITEM of the locals, 'x'),)        numbers  ((SIZE of object 0, dim 0),)
 *
 * In cases that this machine does not handle (an overflow, a number of another type, a tensor of a subclass, a missing
 * name) it calls `otherwise`, the same conditions in Python, which is also how they are shown.
 * conditions.py writes the programs, and tests this file against Python before anything relies on it.
 *
 * In torch: SYMBOLIC_SHAPE_GUARD in torch/csrc/dynamo/guards.cpp, which compiles C++ for every set of conditions.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

typedef int64_t i64;
extern int aoti_torch_get_dim(void *, i64 *);
extern int aoti_torch_get_sizes(void *, i64 **);
extern int aoti_torch_get_strides(void *, i64 **);
extern int aoti_torch_get_storage_offset(void *, i64 *);
extern PyObject *THPVariableClass;

enum Step { ITEM, ATTRIBUTE };
enum Property { VALUE, SIZE, STRIDE, OFFSET };
enum Operation {
  CONSTANT, NUMBER, ADD, SUBTRACT, MULTIPLY, FLOOR_DIVIDE, MODULO, DIVIDE, NEGATE, LESS, LESS_EQUAL, EQUAL, NOT_EQUAL,
  GREATER, GREATER_EQUAL, AND, OR, NOT, MAXIMUM, MINIMUM, HOLDS
};
enum { MANY = 64, NO = 0, YES = 1, UNKNOWN = 2, LOCALS = -1, GLOBALS = -2 };
#define EXACT (((i64)1) << 53) /* integers up to here are doubles, too */

typedef struct {
  int is_float;
  i64 whole;
  double real;
} Value;

typedef struct {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject *description, *globals, *otherwise;
  Py_ssize_t objects, numbers, length;
  struct { Py_ssize_t owner; int step; PyObject *key; } object[MANY];
  struct { Py_ssize_t object; int property; i64 dim; } number[MANY];
  Value constant[MANY];
  struct { int operation, operand; } program[];
} Conditions;

static Py_ssize_t tensor_offset = 0; /* of the at::Tensor within a torch.Tensor object; set by setup() */
static PyObject *parameter_class;

static int read_number(const Conditions *all, Py_ssize_t index, PyObject **found, Value *into) {
  PyObject *owner = found[all->number[index].object];
  i64 dim = all->number[index].dim, rank, *many;
  into->is_float = 0;
  if (all->number[index].property == VALUE) {
    if (PyFloat_CheckExact(owner)) {
      into->is_float = 1;
      into->real = PyFloat_AS_DOUBLE(owner);
      return YES;
    }
    int overflow;
    if (!PyLong_Check(owner)) return UNKNOWN;
    into->whole = PyLong_AsLongLongAndOverflow(owner, &overflow);
    return overflow ? UNKNOWN : YES;
  }
  if ((PyObject *)Py_TYPE(owner) != THPVariableClass && (PyObject *)Py_TYPE(owner) != parameter_class) return UNKNOWN;
  void *tensor = (char *)owner + tensor_offset;
  if (all->number[index].property == OFFSET) return aoti_torch_get_storage_offset(tensor, &into->whole) ? UNKNOWN : YES;
  if (aoti_torch_get_dim(tensor, &rank) || dim >= rank) return UNKNOWN;
  if ((all->number[index].property == SIZE ? aoti_torch_get_sizes : aoti_torch_get_strides)(tensor, &many)) return UNKNOWN;
  into->whole = many[dim];
  return YES;
}

/* Convert to a double of the same value. Returns 0 if there may be none. */
static int as_real(const Value *value, double *real) {
  if (!value->is_float && (value->whole > EXACT || value->whole < -EXACT)) return 0;
  *real = value->is_float ? value->real : (double)value->whole;
  return 1;
}

static int calculate(int operation, Value *left, const Value *right) {
  double a, b;
  if (!left->is_float && !right->is_float && operation != DIVIDE) {
    i64 x = left->whole, y = right->whole, *to = &left->whole;
    switch (operation) {
      case ADD: return !__builtin_add_overflow(x, y, to);
      case SUBTRACT: return !__builtin_sub_overflow(x, y, to);
      case MULTIPLY: return !__builtin_mul_overflow(x, y, to);
      case FLOOR_DIVIDE:
        if (!y || (x == INT64_MIN && y == -1)) return 0;
        *to = x / y - (x % y && (x < 0) != (y < 0));
        return 1;
      case MODULO:
        if (!y || y == -1) return 0;
        *to = x % y + (x % y && (x < 0) != (y < 0) ? y : 0);
        return 1;
      case MAXIMUM: *to = y > x ? y : x; return 1;
      case MINIMUM: *to = y < x ? y : x; return 1;
      case LESS: *to = x < y; return 1;
      case LESS_EQUAL: *to = x <= y; return 1;
      case EQUAL: *to = x == y; return 1;
      case NOT_EQUAL: *to = x != y; return 1;
      case GREATER: *to = x > y; return 1;
      case GREATER_EQUAL: *to = x >= y; return 1;
    }
    return 0;
  }
  if (!as_real(left, &a) || !as_real(right, &b)) return 0;
  left->is_float = operation < LESS;
  switch (operation) {
    case ADD: left->real = a + b; return 1;
    case SUBTRACT: left->real = a - b; return 1;
    case MULTIPLY: left->real = a * b; return 1;
    case DIVIDE: left->real = a / b; return b != 0;
    case LESS: left->whole = a < b; return 1;
    case LESS_EQUAL: left->whole = a <= b; return 1;
    case EQUAL: left->whole = a == b; return 1;
    case NOT_EQUAL: left->whole = a != b; return 1;
    case GREATER: left->whole = a > b; return 1;
    case GREATER_EQUAL: left->whole = a >= b; return 1;
  }
  return 0; /* floor, remainder, greatest and least of floats: Python handles signed zeros and nans */
}

static int truth(const Value *value) { return value->is_float ? value->real != 0 : value->whole != 0; }

static int run(const Conditions *all, PyObject **found) {
  Value stack[MANY + 1], numbers[MANY];
  /* Bit k: numbers[k] was read in this call. */
  uint64_t known = 0;
  int top = 0;
  for (Py_ssize_t at = 0; at < all->length; at++) {
    int operation = all->program[at].operation, operand = all->program[at].operand;
    switch (operation) {
      case CONSTANT: stack[top++] = all->constant[operand]; break;
      case NUMBER:
        /* A number is read when it is first needed, and once, however often the conditions mention it. */
        if (!(known >> operand & 1) && read_number(all, operand, found, &numbers[operand]) != YES) return UNKNOWN;
        known |= (uint64_t)1 << operand;
        stack[top++] = numbers[operand];
        break;
      case NEGATE:
        if (stack[top - 1].is_float) stack[top - 1].real = -stack[top - 1].real;
        else if (stack[top - 1].whole == INT64_MIN) return UNKNOWN;
        else stack[top - 1].whole = -stack[top - 1].whole;
        break;
      case NOT: stack[top - 1] = (Value){0, !truth(&stack[top - 1]), 0}; break;
      case AND: case OR: /* one of the two values, as in Python */
        if (truth(&stack[top - 2]) == (operation == AND)) stack[top - 2] = stack[top - 1];
        top--;
        break;
      case HOLDS:
        if (!truth(&stack[--top])) return NO;
        break;
      default:
        if (!calculate(operation, &stack[top - 2], &stack[top - 1])) return UNKNOWN;
        top--;
    }
  }
  return YES;
}

static PyObject *conditions_call(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *keywords) {
  Conditions *all = (Conditions *)self;
  PyObject *found[MANY];
  Py_ssize_t computed = 0;
  if (PyVectorcall_NARGS(flags) != 1) return PyErr_Format(PyExc_TypeError, "conditions take one argument, a dict of locals");
  for (; computed < all->objects; computed++) {
    Py_ssize_t owner = all->object[computed].owner;
    PyObject *base = owner >= 0 ? found[owner] : owner == LOCALS ? arguments[0] : all->globals, *key = all->object[computed].key;
    found[computed] = all->object[computed].step == ITEM ? PyObject_GetItem(base, key) : PyObject_GetAttr(base, key);
    if (!found[computed]) break;
  }
  int answer = computed == all->objects ? run(all, found) : UNKNOWN;
  PyErr_Clear();
  while (computed) Py_DECREF(found[--computed]);
  if (answer == UNKNOWN) return PyObject_CallOneArg(all->otherwise, arguments[0]);
  return PyBool_FromLong(answer);
}

static void conditions_dealloc(PyObject *self) {
  Conditions *all = (Conditions *)self;
  Py_XDECREF(all->description); /* owns all objects that the other fields refer to */
  Py_TYPE(self)->tp_free(self);
}

static PyTypeObject ConditionsType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nbcompile.runtime.Conditions",
    .tp_basicsize = offsetof(Conditions, program),
    .tp_itemsize = 2 * sizeof(int),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Conditions, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_dealloc = conditions_dealloc,
};

/* conditions(objects, numbers, constants, program, globals, otherwise): tuples of tuples, as in the example at the top of this file. */
static PyObject *make(PyObject *module, PyObject *arguments) {
  PyObject *objects, *numbers, *constants, *program, *globals, *otherwise;
  if (!PyArg_ParseTuple(arguments, "O!O!O!O!OO", &PyTuple_Type, &objects, &PyTuple_Type, &numbers, &PyTuple_Type,
                        &constants, &PyTuple_Type, &program, &globals, &otherwise))
    return NULL;
  if (PyTuple_GET_SIZE(objects) > MANY || PyTuple_GET_SIZE(numbers) > MANY || PyTuple_GET_SIZE(constants) > MANY)
    return PyErr_Format(PyExc_ValueError, "more than %d objects, numbers or constants", MANY);
  Conditions *all = (Conditions *)ConditionsType.tp_alloc(&ConditionsType, PyTuple_GET_SIZE(program));
  if (!all) return NULL;
  all->vectorcall = conditions_call;
  all->description = Py_NewRef(arguments);
  all->globals = globals;
  all->otherwise = otherwise;
  for (; all->objects < PyTuple_GET_SIZE(objects); all->objects++)
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(objects, all->objects), "niO", &all->object[all->objects].owner,
                          &all->object[all->objects].step, &all->object[all->objects].key))
      goto failed;
  for (; all->numbers < PyTuple_GET_SIZE(numbers); all->numbers++)
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(numbers, all->numbers), "niL", &all->number[all->numbers].object,
                          &all->number[all->numbers].property, &all->number[all->numbers].dim))
      goto failed;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); i++) {
    PyObject *constant = PyTuple_GET_ITEM(constants, i);
    all->constant[i].is_float = PyFloat_Check(constant);
    if (PyFloat_Check(constant)) all->constant[i].real = PyFloat_AS_DOUBLE(constant);
    else all->constant[i].whole = PyLong_AsLongLong(constant);
  }
  for (; all->length < PyTuple_GET_SIZE(program); all->length++)
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(program, all->length), "ii", &all->program[all->length].operation,
                          &all->program[all->length].operand))
      goto failed;
  if (!PyErr_Occurred()) return (PyObject *)all;
failed:
  Py_DECREF(all);
  return NULL;
}

static PyObject *setup(PyObject *module, PyObject *arguments) {
  if (!PyArg_ParseTuple(arguments, "nO", &tensor_offset, &parameter_class)) return NULL;
  Py_INCREF(parameter_class);
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"setup", setup, METH_VARARGS, "Set the offset of the at::Tensor in a tensor object, and the class of parameters."},
    {"conditions", make, METH_VARARGS, "Create a callable that evaluates conditions."},
    {NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "nbcompile_conditions", NULL, -1, functions};

PyMODINIT_FUNC PyInit_nbcompile_conditions(void) {
  if (PyType_Ready(&ConditionsType) < 0) return NULL;
  return PyModule_Create(&definition);
}
