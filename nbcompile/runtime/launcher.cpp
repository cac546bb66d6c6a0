/* The part of the launcher that is C++: a matrix product by oneDNN (operators.h says which ones).
 *
 * It is C++ for one thing: what oneDNN throws must not fly through frames of C. No header of torch's is read; the function is
 * known by its mangled name, which holds the types of its arguments, so that another torch's is not taken for it.
 *
 * In torch: aten/src/ATen/native/mkldnn/Matmul.cpp
 */
extern "C" {

__attribute__((weak)) void onednn_product(const void *left, const void *right, const void *result, float beta, float alpha)
    __asm__("_ZN2at6native13mkldnn_matmulERKNS_6TensorES3_S3_ff");
__attribute__((weak)) const void *torch_settings(void) __asm__("_ZN2at13globalContextEv");
__attribute__((weak)) bool allows_onednn(const void *settings) __asm__("_ZNK2at7Context17userEnabledMkldnnEv");

/* Whether this processor's products are oneDNN's, as far as its maker and torch decide it. */
int has_onednn_products(void) {
#if defined(__x86_64__) && defined(__linux__)
  __builtin_cpu_init();
  return onednn_product && torch_settings && allows_onednn && !__builtin_cpu_is("intel");
#else
  return 0; /* ATen has no MKL there */
#endif
}

/* result = beta * result + left @ right; anything but 0: not done. The three are at::Tensor pointers. */
int multiply_by_onednn(const void *left, const void *right, const void *result, double beta) {
  if (!allows_onednn(torch_settings())) return 1;
  try {
    onednn_product(left, right, result, (float)beta, 1.0f);
    return 0;
  } catch (...) {
    return 1;
  }
}
}
