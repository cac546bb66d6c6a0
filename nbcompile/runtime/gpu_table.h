/* The functions of gpu_launcher.cpp that launcher.c calls: plain C, so that launcher.c needs none of torch's headers. */
#ifndef NBCOMPILE_GPU_TABLE
#define NBCOMPILE_GPU_TABLE
#include <stdint.h>

/* The current device and stream of a call, and the device to restore after it. */
typedef struct {
  int device, before;
  void *stream;
} GpuState;

/* Each returns 0, or -1 with a Python exception. */
typedef struct {
  int (*enter)(int device, GpuState *state);
  void (*leave)(const GpuState *state);
  int (*allocate)(int64_t dim, const int64_t *sizes, const int64_t *strides, int dtype, int device, void **created);
  int (*launch)(void *kernel, void **pointers, const int64_t *sizes, int64_t grid, const GpuState *state);
} GpuTable;
#endif
