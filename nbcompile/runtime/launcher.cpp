/* The part of the launcher that is C++: a matrix product by oneDNN (operators.h says which ones), and what surrounds an
 * operator while it runs: torch's guard that excludes dispatch keys, and its handler that converts warnings to Python's.
 *
 * It is C++ because an exception of oneDNN must not unwind through frames of C. No header of torch's is included; functions
 * are declared by their mangled names, which contain the types of their arguments: a torch with other types has no such
 * symbol.
 *
 * In torch: aten/src/ATen/native/mkldnn/Matmul.cpp
 */
extern "C" {

__attribute__((weak)) void onednn_product(const void *left, const void *right, const void *result, float beta, float alpha)
    __asm__("_ZN2at6native13mkldnn_matmulERKNS_6TensorES3_S3_ff");
__attribute__((weak)) void *copy_values(void *into, const void *from, bool later) /* not recorded by autograd */
    __asm__("_ZN2at6native5copy_ERNS_6TensorERKS1_b");
__attribute__((weak)) const void *torch_settings(void) __asm__("_ZN2at13globalContextEv");
__attribute__((weak)) bool allows_onednn(const void *settings) __asm__("_ZNK2at7Context17userEnabledMkldnnEv");

__attribute__((weak)) void begin_excluding(void *guard, unsigned long keys)
    __asm__("_ZN3c104impl23ExcludeDispatchKeyGuardC1ENS_14DispatchKeySetE");
__attribute__((weak)) void end_excluding(void *guard) __asm__("_ZN3c104impl23ExcludeDispatchKeyGuardD1Ev");

/* Exclude dispatch keys in this thread; `guard` is the memory of torch's guard object. */
void exclude_keys(void *guard, unsigned long keys) {
  if (begin_excluding && end_excluding) begin_excluding(guard, keys);
}
void include_keys(void *guard) {
  if (begin_excluding && end_excluding) end_excluding(guard);
}

__attribute__((weak)) void begin_warnings(void *handler) __asm__("_ZN5torch16PyWarningHandlerC1Ev");
__attribute__((weak)) void end_warnings(void *handler) __asm__("_ZN5torch16PyWarningHandlerD1Ev");

/* Capture the warnings of operators of this thread; `handler` is the memory of torch's handler object. */
void capture_warnings(void *handler) {
  if (begin_warnings && end_warnings) begin_warnings(handler);
}
/* Issue the captured warnings in Python, with the GIL held. Returns nonzero, with a Python exception, if a filter turns one into an error. */
int issue_warnings(void *handler) {
  try {
    if (begin_warnings && end_warnings) end_warnings(handler);
    return 0;
  } catch (...) {
    return -1;
  }
}

/* Call a function of C++ with words at the positions of the System V ABI: six registers of integers, eight of doubles, the
 * stack (direct.py). A function with fewer arguments ignores the others. Nonzero if it threw. */
int call_function(void *function, const long *w) {
  typedef void (*Function)(long, long, long, long, long, long, double, double, double, double, double, double, double, double,
                           long, long, long, long, long, long, long, long, long, long);
  const double *d = (const double *)(w + 6);
  try {
    ((Function)function)(w[0], w[1], w[2], w[3], w[4], w[5], d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7], w[14], w[15],
                         w[16], w[17], w[18], w[19], w[20], w[21], w[22], w[23]);
    return 0;
  } catch (...) {
    return 1;
  }
}

/* Box a value for an optional argument of the dispatcher, which deletes it. */
void *boxed(unsigned long value) { return new unsigned long(value); }

/* Free the memory of a vector whose items have other owners. */
void free_array(void *start) { ::operator delete(start); }

/* Return whether this torch exports oneDNN's matrix product, under these names. */
int has_onednn_products(void) {
#if defined(__x86_64__) && defined(__linux__)
  return onednn_product && copy_values && torch_settings && allows_onednn;
#else
  return 0; /* ATen has no MKL there */
#endif
}

/* An exception of torch takes a millisecond: after the first one, oneDNN is not tried again. */
static bool is_unsupported = false;

/* result = left @ right (+ bias); nonzero on failure. All are at::Tensor pointers. */
int multiply_by_onednn(const void *left, const void *right, void *result, const void *bias) {
  if (is_unsupported || !allows_onednn(torch_settings())) return 1;
  try {
    if (bias) copy_values(result, bias, false);
    onednn_product(left, right, result, bias ? 1.0f : 0.0f, 1.0f);
    return 0;
  } catch (...) {
    is_unsupported = true;
    return 1;
  }
}
}
