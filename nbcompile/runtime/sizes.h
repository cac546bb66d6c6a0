/* Run-time sizes: integers of a Program, some of which each call computes; part of launcher.c.
 *
 *   value 0 = size(input 0, dimension 1)      value 1 = value 0 * 8      number 17 = value 1
 *
 * Every size, stride, offset and slot that a program is described by is in one array. A tuple (k,) in a
 * description, instead of an int, is a hole for the k-th value. A call of a program with holes computes all values
 * in order, in memory of its own (several threads may run one program), and fills a copy of the array.
 */

enum { ARGUMENT, SIZE, STRIDE, ADD, MULTIPLY, FLOOR_DIVIDE, MODULO, SMALLER, LARGER };

/* An integer, or a reference to a value. */
typedef struct {
  i64 number;
  int is_value;
} Operand;

/* One operation: it reads an input (position, dimension), or computes with two earlier values. */
typedef struct Value {
  int operation;
  Operand first, second;
} Value;

/* Position of the array that a value is copied to. */
typedef struct Hole {
  Py_ssize_t number, value;
} Hole;

static int read_operand(PyObject *given, Py_ssize_t values, Operand *operand) {
  operand->is_value = PyTuple_Check(given);
  if (operand->is_value && PyTuple_GET_SIZE(given) != 1) return PyErr_SetString(PyExc_ValueError, "not a value"), -1;
  operand->number = PyLong_AsLongLong(operand->is_value ? PyTuple_GET_ITEM(given, 0) : given);
  if (PyErr_Occurred()) return -1;
  if (!operand->is_value || (operand->number >= 0 && operand->number < values)) return 0;
  return PyErr_SetString(PyExc_ValueError, "no such value"), -1;
}

/* ((operation, first, second), ...), in topological order */
static int read_values(Program *program, PyObject *texts) {
  program->values = PyTuple_GET_SIZE(texts);
  if (!(program->value = PyMem_Calloc(program->values + 1, sizeof(Value)))) return PyErr_NoMemory(), -1;
  for (Py_ssize_t i = 0; i < program->values; i++) {
    Value *value = &program->value[i];
    PyObject *first, *second;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(texts, i), "iOO", &value->operation, &first, &second) ||
        read_operand(first, i, &value->first) || read_operand(second, i, &value->second))
      return -1;
    int reads_input = value->operation <= STRIDE;
    if (value->operation < ARGUMENT || value->operation > LARGER ||
        (reads_input && (value->first.is_value || value->first.number < 0 || value->first.number >= program->given)))
      return PyErr_SetString(PyExc_ValueError, "not a value of a program"), -1;
  }
  return 0;
}

/* Read a size, stride or integer of an input. Returns 0, or -1 if the input is of another type. */
static int read_input(const Value *value, PyObject *input, i64 *answer) {
  i64 dim, *numbers;
  if (value->operation == ARGUMENT) {
    int overflow;
    if (!PyLong_CheckExact(input)) return -1;
    *answer = PyLong_AsLongLongAndOverflow(input, &overflow);
    return overflow ? -1 : 0;
  }
  if (!is_tensor(input) || aoti_torch_get_dim(handle_of(input), &dim) || value->second.number >= dim) return -1;
  if ((value->operation == SIZE ? aoti_torch_get_sizes : aoti_torch_get_strides)(handle_of(input), &numbers)) return -1;
  *answer = numbers[value->second.number];
  return 0;
}

/* Floor division and remainder, as in Python. Returns 0, or -1 for the divisors 0 and -1 (which may overflow). */
static int divide(i64 a, i64 b, i64 *quotient, i64 *rest) {
  if (b == 0 || b == -1) return -1;
  *quotient = a / b - (a % b != 0 && (a < 0) != (b < 0));
  *rest = a - *quotient * b;
  return 0;
}

/* Compute the values of one call. Returns 0, or -1 if the inputs do not have them. */
static int compute_values(const Program *program, PyObject *const *inputs, i64 *values) {
  for (Py_ssize_t i = 0; i < program->values; i++) {
    const Value *value = &program->value[i];
    i64 other = 0;
    if (value->operation <= STRIDE) {
      if (read_input(value, inputs[value->first.number], &values[i])) return -1;
      continue;
    }
    i64 a = value->first.is_value ? values[value->first.number] : value->first.number;
    i64 b = value->second.is_value ? values[value->second.number] : value->second.number;
    /* Unsigned arithmetic wraps; an overflow of signed integers is undefined in C. */
    switch (value->operation) {
      case ADD: values[i] = (i64)((uint64_t)a + (uint64_t)b); break;
      case MULTIPLY: values[i] = (i64)((uint64_t)a * (uint64_t)b); break;
      case FLOOR_DIVIDE: if (divide(a, b, &values[i], &other)) return -1; break;
      case MODULO: if (divide(a, b, &other, &values[i])) return -1; break;
      case SMALLER: values[i] = a < b ? a : b; break;
      case LARGER: values[i] = a > b ? a : b; break;
    }
  }
  return 0;
}

/* The program's integers, with the values of this call. */
static void fill(const Program *program, const i64 *values, i64 *numbers) {
  memcpy(numbers, program->numbers, program->count * sizeof(i64));
  for (Py_ssize_t i = 0; i < program->holes; i++) numbers[program->hole[i].number] = values[program->hole[i].value];
}
