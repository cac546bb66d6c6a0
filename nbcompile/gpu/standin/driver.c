/* A stand-in for NVIDIA's driver library, libcuda.so.1: the driver API over the CPU's memory.
 *
 *   memory      cuMemAlloc is malloc; each allocation is in a table, so that a launch can be checked against it
 *   modules     are recorded, not executed: a callback receives each image, and each launch
 *   streams     run at once, one launch after the other, a graph as a whole; an event of any kind is complete when it is recorded
 *   capture     between cuStreamBeginCapture and cuStreamEndCapture launches are kept with the values of their arguments, and
 *               run by cuGraphLaunch; a synchronisation meanwhile spoils the capture
 *   faults      standin_fail(function, result) makes the next call of one function return a CUresult, once
 *
 * Every call is counted, and all that change anything are written to a log, one line each.
 *
 * In torch: nothing. Read next: nbcompile/gpu/standin/driver.py
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult;
typedef void *Pointer;
typedef struct {
  unsigned grid[3], block[3], shared;
  Pointer stream, attributes;
  unsigned attribute_count;
} Launch;

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_IMAGE = 200, INVALID_HANDLE = 400, NOT_FOUND = 500 };
enum { DEVICES = 2, MOST_ARGUMENTS = 256, NAME = 64 };

/* ---------------------------------------------------------------- faults and log */

static struct { char name[NAME]; CUresult result; int after; } fault;
static int lost = 0; /* after a fault that ends a context, every call returns it */
static char *log_text = NULL;
static size_t log_used = 0, log_room = 0;
static int logging = 1;

/* The log and the table of allocations are those of all threads. No callback runs while it is held. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void lock(void) { pthread_mutex_lock(&mutex); }
static void unlock(void) { pthread_mutex_unlock(&mutex); }

static void note(const char *format, ...) {
  if (!logging) return;
  lock();
  if (log_room - log_used < 512) log_text = realloc(log_text, log_room = log_room * 2 + 4096);
  __builtin_va_list arguments;
  __builtin_va_start(arguments, format);
  log_used += vsnprintf(log_text + log_used, 500, format, arguments);
  __builtin_va_end(arguments);
  log_text[log_used++] = '\n';
  log_text[log_used] = 0;
  unlock();
}

/* Errors after which a context cannot be used any more. */
static int ends_the_context(CUresult result) {
  return (result >= 700 && result != 701 && result != 704 && result != 705 && result != 708 && result != 709 && result < 720) ||
         result == 4 || result == 46 || result == 214 || result == 999;
}

static CUresult injected(const char *name) {
  if (lost) return lost;
  if (!fault.name[0] || strcmp(fault.name, name) || fault.after-- > 0) return SUCCESS;
  fault.name[0] = 0;
  note("fault %s %d", name, fault.result);
  if (ends_the_context(fault.result)) lost = fault.result;
  return fault.result;
}
#define MAY_FAIL(name) do { CUresult made = injected(name); if (made) return made; } while (0)

void standin_fail(const char *name, CUresult result, int after) {
  snprintf(fault.name, NAME, "%s", name);
  fault.result = result;
  fault.after = after;
}
int standin_fault_is_pending(void) { return fault.name[0] != 0; }
void standin_recover(void) { lost = 0; fault.name[0] = 0; }
const char *standin_log(void) { return log_text ? log_text : ""; }
void standin_clear_log(void) { log_used = 0; if (log_text) log_text[0] = 0; }
void standin_set_logging(int on) { logging = on; }

/* ---------------------------------------------------------------- device */

static int devices = 1, driver_version = 13000;
static __thread int context = 0; /* the number of a device and 1; 0: none is current */
void standin_set_devices(int count, int version) { devices = count; driver_version = version; }

CUresult cuInit(unsigned flags) { MAY_FAIL("cuInit"); return devices ? SUCCESS : 100; }
CUresult cuDriverGetVersion(int *version) { MAY_FAIL("cuDriverGetVersion"); *version = driver_version; return SUCCESS; }
CUresult cuDeviceGetCount(int *count) { MAY_FAIL("cuDeviceGetCount"); *count = devices; return SUCCESS; }
CUresult cuDeviceGet(int *device, int at) {
  MAY_FAIL("cuDeviceGet");
  if (at < 0 || at >= devices) return 101;
  *device = at;
  return SUCCESS;
}
CUresult cuDeviceGetName(char *name, int length, int device) { snprintf(name, length, "stand-in for an H200"); return SUCCESS; }
CUresult cuDeviceGetAttribute(int *value, int attribute, int device) {
  MAY_FAIL("cuDeviceGetAttribute");
  switch (attribute) {
    case 1: *value = 1024; break;     /* threads of a block */
    case 8: *value = 49152; break;    /* shared memory of a block */
    case 10: *value = 32; break;      /* threads of a warp */
    case 12: case 82: *value = 65536; break; /* registers of a block, of a multiprocessor */
    case 16: *value = 132; break;     /* multiprocessors */
    case 39: *value = 2048; break;    /* threads of a multiprocessor */
    case 75: *value = 9; break;       /* compute capability */
    case 76: *value = 0; break;
    case 81: *value = 233472; break;  /* shared memory of a multiprocessor */
    case 97: *value = 232448; break;  /* shared memory of a block, on request */
    default: *value = 1;
  }
  return SUCCESS;
}
CUresult cuCtxGetCurrent(Pointer *found) { MAY_FAIL("cuCtxGetCurrent"); *found = (Pointer)(intptr_t)context; return SUCCESS; }
CUresult cuCtxSetCurrent(Pointer wanted) { MAY_FAIL("cuCtxSetCurrent"); context = (int)(intptr_t)wanted; return SUCCESS; }
CUresult cuCtxGetDevice(int *device) { if (!context) return 201; *device = context - 1; return SUCCESS; }
CUresult cuDevicePrimaryCtxRetain(Pointer *made, int device) {
  MAY_FAIL("cuDevicePrimaryCtxRetain");
  *made = (Pointer)(intptr_t)(device + 1);
  return SUCCESS;
}
CUresult cuCtxSynchronize(void) { MAY_FAIL("cuCtxSynchronize"); note("synchronize context"); return SUCCESS; }
CUresult cuGetErrorString(CUresult result, const char **text) {
  static const struct { CUresult result; const char *text; } known[] = {
      {0, "no error"}, {1, "invalid argument"}, {2, "out of memory"}, {3, "initialization error"}, {35, "CUDA driver version is insufficient for CUDA runtime version"},
      {46, "all CUDA-capable devices are busy or unavailable"}, {100, "no CUDA-capable device is detected"}, {101, "invalid device ordinal"},
      {200, "device kernel image is invalid"}, {201, "invalid device context"}, {209, "no kernel image is available for execution on the device"},
      {214, "uncorrectable ECC error encountered"}, {400, "invalid resource handle"}, {500, "named symbol not found"}, {700, "an illegal memory access was encountered"},
      {701, "too many resources requested for launch"}, {702, "the launch timed out and was terminated"}, {710, "device-side assert triggered"},
      {716, "misaligned address"}, {900, "operation not permitted when stream is capturing"},
      {901, "operation failed due to a previous error during capture"}, {905, "operation failed due to a capture of another stream"}, {719, "unspecified launch failure"}, {803, "system has unsupported display driver / cuda driver combination"}, {999, "unknown error"}};
  if (result > 999) return *text = NULL, 1; /* as the real one, for a number that it does not know */
  *text = "an error of the stand-in driver";
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) if (known[i].result == result) *text = known[i].text;
  return SUCCESS;
}
CUresult cuGetErrorName(CUresult result, const char **text) { static char name[32]; snprintf(name, 32, "CUDA_ERROR_%d", result); *text = name; return SUCCESS; }

/* ---------------------------------------------------------------- memory */

typedef struct { uint64_t start, bytes; int device; } Block;
static Block *blocks = NULL;
static size_t block_count = 0, block_room = 0;
static uint64_t allocated = 0, capacity = 141ull << 30;

CUresult cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  MAY_FAIL("cuMemAlloc");
  if (!bytes) return INVALID_VALUE;
  if (allocated + bytes > capacity) return OUT_OF_MEMORY;
  void *memory;
  if (posix_memalign(&memory, 512, bytes)) return OUT_OF_MEMORY;
  lock();
  if (block_count == block_room) blocks = realloc(blocks, (block_room = 2 * block_room + 64) * sizeof(Block));
  blocks[block_count++] = (Block){(uint64_t)(uintptr_t)memory, bytes, context ? context - 1 : 0};
  allocated += bytes;
  unlock();
  *address = (uint64_t)(uintptr_t)memory;
  note("allocate %zu", bytes);
  return SUCCESS;
}
CUresult cuMemFree_v2(uint64_t address) {
  uint64_t bytes = 0;
  lock();
  for (size_t i = 0; i < block_count && !bytes; i++)
    if (blocks[i].start == address) {
      bytes = blocks[i].bytes;
      blocks[i] = blocks[--block_count];
    }
  allocated -= bytes;
  unlock();
  if (!bytes) return INVALID_VALUE;
  note("free %llu", (unsigned long long)bytes);
  free((void *)(uintptr_t)address);
  return SUCCESS;
}
CUresult cuMemGetInfo_v2(size_t *unused, size_t *total) { *unused = capacity - allocated; *total = capacity; return SUCCESS; }
void standin_set_capacity(uint64_t bytes) { capacity = bytes; }
uint64_t standin_allocated(void) { return allocated; }
size_t standin_blocks(Block *into, size_t most) {
  lock();
  size_t count = block_count;
  for (size_t i = 0; i < count && i < most; i++) into[i] = blocks[i];
  unlock();
  return count;
}
CUresult cuPointerGetAttribute(void *value, int attribute, uint64_t address) { *(uint64_t *)value = address; return SUCCESS; }

/* ---------------------------------------------------------------- modules and launches */

typedef struct { int number, device; } Module;
typedef struct { Module *module; char name[128]; int shared_limit; } Function;
/* What a captured stream was asked for: a launch with the arguments' values of then, a copy, or a function of the CPU. */
enum { KERNEL, COPY, HOST };
typedef struct Node { int kind; Function *function; Launch launch; uint64_t arguments[MOST_ARGUMENTS]; struct Node *next; } Node;
typedef struct { Node *first, *last; int count, invalid, executable; } Graph;

static void (*on_load)(int module, const void *image) = NULL;
static int (*on_launch)(int module, const char *name, const Launch *launch, const uint64_t *arguments) = NULL;
static int (*count_arguments)(int module, const char *name) = NULL;
static void (*on_turn)(int begins) = NULL; /* around a graph: nothing of another thread runs between two of its nodes */
static int modules = 0;
static long launches = 0;

void standin_set_callbacks(void (*load)(int, const void *), int (*launch)(int, const char *, const Launch *, const uint64_t *), int (*count)(int, const char *)) {
  on_load = load;
  on_launch = launch;
  count_arguments = count;
}
void standin_set_turn(void (*turn)(int)) { on_turn = turn; }
long standin_launches(void) { return launches; }

CUresult cuModuleLoadData(Pointer *made, const void *image) {
  MAY_FAIL("cuModuleLoadData");
  if (!context) return 201;
  if (memcmp(image, "\x7f" "ELF", 4)) return INVALID_IMAGE;
  Module *module = malloc(sizeof *module);
  *module = (Module){++modules, context - 1};
  note("load module %d device %d", module->number, module->device);
  if (on_load) on_load(module->number, image);
  *made = module;
  return SUCCESS;
}
CUresult cuModuleLoadDataEx(Pointer *made, const void *image, unsigned count, Pointer options, Pointer values) { return cuModuleLoadData(made, image); }
CUresult cuModuleUnload(Pointer given) {
  MAY_FAIL("cuModuleUnload");
  note("unload module %d", ((Module *)given)->number);
  free(given);
  return SUCCESS;
}
CUresult cuModuleGetFunction(Pointer *found, Pointer given, const char *name) {
  MAY_FAIL("cuModuleGetFunction");
  Function *function = malloc(sizeof *function);
  function->module = given;
  function->shared_limit = 49152;
  snprintf(function->name, sizeof function->name, "%s", name);
  *found = function;
  return SUCCESS;
}
CUresult cuFuncGetAttribute(int *value, int attribute, Pointer function) { *value = attribute == 0 ? 1024 : attribute == 4 ? 32 : 0; return SUCCESS; }
CUresult cuFuncSetAttribute(Pointer given, int attribute, int value) {
  MAY_FAIL("cuFuncSetAttribute");
  if (attribute == 8) ((Function *)given)->shared_limit = value;
  return SUCCESS;
}
CUresult cuFuncSetCacheConfig(Pointer function, int config) { return SUCCESS; }
CUresult cuOccupancyMaxActiveClusters(int *count, Pointer function, const Launch *launch) { *count = 1; return SUCCESS; }
CUresult cuCtxSetLimit(int limit, size_t value) { return SUCCESS; }
CUresult cuCtxGetLimit(size_t *value, int limit) { *value = 0; return SUCCESS; }
CUresult cuTensorMapEncodeTiled(void) { return 801; }

/* ---------------------------------------------------------------- streams and graphs */

enum { STREAMS = 64, UNSUPPORTED_IN_CAPTURE = 900, INVALIDATED = 901, WRONG_CAPTURE = 905 };
static struct { Pointer stream; Graph *graph; } captures[STREAMS];
static int graphs = 0, live_graphs = 0;
static int (*on_host)(int number) = NULL;

void standin_set_host_function(int (*function)(int)) { on_host = function; }
int standin_live_graphs(void) { return live_graphs; }

static Graph **capture_of(Pointer stream) {
  for (int i = 0; i < STREAMS; i++) if (captures[i].graph && captures[i].stream == stream) return &captures[i].graph;
  return NULL;
}

static Node *add_node(Graph *graph, int kind) {
  Node *node = calloc(1, sizeof *node);
  node->kind = kind;
  if (graph->last) graph->last->next = node; else graph->first = node;
  graph->last = node;
  graph->count++;
  return node;
}

static Graph *new_graph(int executable) {
  Graph *graph = calloc(1, sizeof *graph);
  graph->executable = executable;
  live_graphs++;
  return graph;
}

static void free_graph(Graph *graph) {
  for (Node *node = graph->first, *next; node; node = next) { next = node->next; free(node); }
  free(graph);
  live_graphs--;
}

static CUresult execute(Function *function, const Launch *launch, const uint64_t *arguments) {
  launches++;
  char grid[40];
  int is_flat = launch->grid[1] == 1 && launch->grid[2] == 1;
  snprintf(grid, sizeof grid, is_flat ? "%u" : "%ux%ux%u", launch->grid[0], launch->grid[1], launch->grid[2]);
  note("launch %s module %d device %d stream %llu grid %s block %u shared %u", function->name, function->module->number, function->module->device,
       (unsigned long long)(uintptr_t)launch->stream, grid, launch->block[0], launch->shared);
  if (!on_launch) return SUCCESS;
  int result = on_launch(function->module->number, function->name, launch, arguments);
  if (ends_the_context(result)) lost = result;
  return result;
}

CUresult cuLaunchKernelEx(const Launch *launch, Pointer given, void **parameters, void **extra) {
  MAY_FAIL("cuLaunchKernel");
  Function *function = given;
  if (!context || context - 1 != function->module->device) return INVALID_HANDLE;
  if (!launch->grid[0] || !launch->grid[1] || !launch->grid[2] || launch->grid[1] > 65535 || launch->grid[2] > 65535 || !launch->block[0] || launch->block[0] > 1024) return INVALID_VALUE;
  if ((int)launch->shared > function->shared_limit) return INVALID_VALUE;
  int count = count_arguments ? count_arguments(function->module->number, function->name) : 0;
  if (count < 0 || count > MOST_ARGUMENTS) return INVALID_VALUE;
  Graph **graph = capture_of(launch->stream);
  if (graph) {
    Node *node = add_node(*graph, KERNEL);
    node->function = function;
    node->launch = *launch;
    for (int i = 0; i < count; i++) memcpy(&node->arguments[i], parameters[i], 8);
    note("captured %s", function->name);
    return SUCCESS;
  }
  uint64_t arguments[MOST_ARGUMENTS];
  for (int i = 0; i < count; i++) memcpy(&arguments[i], parameters[i], 8);
  return execute(function, launch, arguments);
}
CUresult cuLaunchKernel(Pointer function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, Pointer stream,
                        void **parameters, void **extra) {
  Launch launch = {{gx, gy, gz}, {bx, by, bz}, shared, stream, NULL, 0};
  return cuLaunchKernelEx(&launch, function, parameters, extra);
}

static int is_allocated(uint64_t address, size_t bytes) {
  int found = 0;
  lock();
  for (size_t i = 0; i < block_count && !found; i++) found = blocks[i].start <= address && address + bytes <= blocks[i].start + blocks[i].bytes;
  unlock();
  return found;
}
static CUresult copy_now(uint64_t into, uint64_t from, size_t bytes) {
  if (!is_allocated(into, bytes) || !is_allocated(from, bytes)) return INVALID_VALUE;
  note("copy %zu", bytes);
  memmove((void *)(uintptr_t)into, (void *)(uintptr_t)from, bytes);
  return SUCCESS;
}
CUresult cuMemcpyDtoDAsync_v2(uint64_t into, uint64_t from, size_t bytes, Pointer stream) {
  MAY_FAIL("cuMemcpyDtoDAsync");
  Graph **graph = capture_of(stream);
  if (!graph) return copy_now(into, from, bytes);
  Node *node = add_node(*graph, COPY);
  node->arguments[0] = into;
  node->arguments[1] = from;
  node->arguments[2] = bytes;
  return SUCCESS;
}
/* Where torch launches a kernel of its own, the stand-in device calls a function of the CPU, which is a node of a graph, too. */
int standin_capture_host(Pointer stream, int number) {
  Graph **graph = capture_of(stream);
  if (!graph) return 0;
  add_node(*graph, HOST)->arguments[0] = number;
  note("captured function %d", number);
  return 1;
}

CUresult cuStreamSynchronize(Pointer stream) {
  MAY_FAIL("cuStreamSynchronize");
  Graph **graph = capture_of(stream);
  if (graph) { /* it ends the capture: what was recorded cannot be used any more */
    (*graph)->invalid = 1;
    return UNSUPPORTED_IN_CAPTURE;
  }
  note("synchronize stream %llu", (unsigned long long)(uintptr_t)stream);
  return SUCCESS;
}
int standin_is_capturing(Pointer stream) { return capture_of(stream) != NULL; }
CUresult cuStreamIsCapturing(Pointer stream, int *status) {
  MAY_FAIL("cuStreamIsCapturing");
  *status = capture_of(stream) != NULL;
  return SUCCESS;
}
CUresult cuStreamBeginCapture_v2(Pointer stream, int mode) {
  MAY_FAIL("cuStreamBeginCapture");
  if (!stream || capture_of(stream)) return UNSUPPORTED_IN_CAPTURE;
  for (int i = 0; i < STREAMS; i++)
    if (!captures[i].graph) {
      captures[i].stream = stream;
      captures[i].graph = new_graph(0);
      note("begin capture stream %llu", (unsigned long long)(uintptr_t)stream);
      return SUCCESS;
    }
  return INVALID_VALUE;
}
CUresult cuStreamEndCapture(Pointer stream, Pointer *made) {
  Graph **capturing = capture_of(stream), *graph;
  *made = NULL;
  if (!capturing) return WRONG_CAPTURE;
  graph = *capturing;
  *capturing = NULL;
  CUresult result = injected("cuStreamEndCapture");
  if (!result && graph->invalid) result = INVALIDATED;
  if (result) return free_graph(graph), result;
  *made = graph;
  note("end capture nodes %d", graph->count);
  return SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(Pointer *made, Pointer given, unsigned long long flags) {
  MAY_FAIL("cuGraphInstantiate");
  Graph *graph = new_graph(1);
  for (Node *node = ((Graph *)given)->first; node; node = node->next) {
    Node *copied = add_node(graph, node->kind), *next = copied->next;
    *copied = *node;
    copied->next = next;
  }
  *made = graph;
  note("instantiate %d", ++graphs);
  return SUCCESS;
}
CUresult cuGraphLaunch(Pointer given, Pointer stream) {
  MAY_FAIL("cuGraphLaunch");
  Graph *graph = given;
  if (!graph->executable) return INVALID_HANDLE;
  note("replay nodes %d stream %llu", graph->count, (unsigned long long)(uintptr_t)stream);
  if (on_turn) on_turn(1);
  CUresult result = SUCCESS;
  for (Node *node = graph->first; node && !result; node = node->next) {
    node->launch.stream = stream;
    result = node->kind == KERNEL ? execute(node->function, &node->launch, node->arguments)
             : node->kind == COPY ? copy_now(node->arguments[0], node->arguments[1], node->arguments[2])
                                  : on_host ? on_host((int)node->arguments[0]) : SUCCESS;
  }
  if (on_turn) on_turn(0);
  if (ends_the_context(result)) lost = result;
  return result;
}
CUresult cuGraphDestroy(Pointer given) {
  MAY_FAIL("cuGraphDestroy");
  free_graph(given);
  return SUCCESS;
}
CUresult cuGraphExecDestroy(Pointer given) {
  MAY_FAIL("cuGraphExecDestroy");
  free_graph(given);
  note("destroy graph");
  return SUCCESS;
}
