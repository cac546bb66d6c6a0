/* A stand-in for NVIDIA's driver library, libcuda.so.1: the driver API over the CPU's memory.
 *
 *   memory      cuMemAlloc is malloc; each allocation is in a table, so that a launch can be checked against it
 *   modules     are recorded, not executed: a callback receives each image, and each launch
 *   streams     run at once, one launch after the other, a graph as a whole. The work of a held stream is queued until
 *               something waits for it (an event, a synchronisation): as late as a GPU might run it
 *   capture     between cuStreamBeginCapture and cuStreamEndCapture launches are kept with the values of their arguments, and
 *               run by cuGraphLaunch; a synchronisation meanwhile invalidates the capture. Another stream that waits for an
 *               event of it is captured, too; it must be joined before the end, and a replay runs its nodes as late as
 *               that allows
 *   faults      standin_fail(function, result) makes the next call of one function return a CUresult, once
 *
 * Every call is counted, and each that changes state is logged in one line.
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
static int lost = 0; /* after a sticky error, every call returns it */
static char *log_text = NULL;
static size_t log_used = 0, log_room = 0;
static int logging = 1;

/* Protects the log and the table of allocations, which all threads share. No callback runs while it is held. */
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

/* Sticky errors: the context cannot be used any more. */
static int is_sticky(CUresult result) {
  return (result >= 700 && result != 701 && result != 704 && result != 705 && result != 708 && result != 709 && result < 720) ||
         result == 4 || result == 46 || result == 214 || result == 999;
}

static CUresult injected(const char *name) {
  if (lost) return lost;
  if (!fault.name[0] || strcmp(fault.name, name) || fault.after-- > 0) return SUCCESS;
  fault.name[0] = 0;
  note("fault %s %d", name, fault.result);
  if (is_sticky(fault.result)) lost = fault.result;
  return fault.result;
}
#define MAY_FAIL(name) do { CUresult failure = injected(name); if (failure) return failure; } while (0)

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
static __thread int context = 0; /* the number of a device plus 1; 0: none is current */
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
CUresult cuCtxSetCurrent(Pointer requested) { MAY_FAIL("cuCtxSetCurrent"); context = (int)(intptr_t)requested; return SUCCESS; }
CUresult cuCtxGetDevice(int *device) { if (!context) return 201; *device = context - 1; return SUCCESS; }
CUresult cuDevicePrimaryCtxRetain(Pointer *created, int device) {
  MAY_FAIL("cuDevicePrimaryCtxRetain");
  *created = (Pointer)(intptr_t)(device + 1);
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
  if (result > 999) return *text = NULL, 1; /* as the real driver, for an unknown number */
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
/* A node of a queue or a graph: a launch with the values of its arguments when it was issued, a copy, a function of the CPU,
 * or a wait until another stream (arguments[0]) has run so many nodes (arguments[1]). */
enum { KERNEL, COPY, HOST, WAIT };
typedef struct Node { int kind; Function *function; Launch launch; uint64_t arguments[MOST_ARGUMENTS]; Pointer stream; int at, done; struct Node *next; } Node;
typedef struct { Node *first, *last; int count, invalid, executable; Pointer origin; } Graph;

static void (*on_load)(int module, const void *image) = NULL;
static int (*on_launch)(int module, const char *name, const Launch *launch, const uint64_t *arguments) = NULL;
static int (*count_arguments)(int module, const char *name) = NULL;
static void (*on_replay)(int begins) = NULL; /* before (1) and after (0) a graph: no work of another thread runs between two of its nodes */
static int modules = 0;
static long launches = 0;

void standin_set_callbacks(void (*load)(int, const void *), int (*launch)(int, const char *, const Launch *, const uint64_t *), int (*count)(int, const char *)) {
  on_load = load;
  on_launch = launch;
  count_arguments = count;
}
void standin_set_replay_callback(void (*callback)(int)) { on_replay = callback; }
long standin_launches(void) { return launches; }

CUresult cuModuleLoadData(Pointer *created, const void *image) {
  MAY_FAIL("cuModuleLoadData");
  if (!context) return 201;
  if (memcmp(image, "\x7f" "ELF", 4)) return INVALID_IMAGE;
  Module *module = malloc(sizeof *module);
  *module = (Module){++modules, context - 1};
  note("load module %d device %d", module->number, module->device);
  if (on_load) on_load(module->number, image);
  *created = module;
  return SUCCESS;
}
CUresult cuModuleLoadDataEx(Pointer *created, const void *image, unsigned count, Pointer options, Pointer values) { return cuModuleLoadData(created, image); }
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

enum { STREAMS = 64, UNSUPPORTED_IN_CAPTURE = 900, INVALIDATED = 901, UNJOINED = 904, WRONG_CAPTURE = 905, ISOLATION = 907, CAPTURED_EVENT = 910, NOT_READY = 600 };
/* A stream that is being captured; whether its work is not joined yet, and the number of its nodes. */
static struct { Pointer stream; Graph *graph; int unjoined, count; } captures[STREAMS];
static int graphs = 0, live_graphs = 0;
static int (*on_host)(int number) = NULL;

void standin_set_host_function(int (*function)(int)) { on_host = function; }
int standin_live_graphs(void) { return live_graphs; }

static int capture_at(Pointer stream) {
  for (int i = 0; i < STREAMS; i++) if (captures[i].graph && captures[i].stream == stream) return i;
  return -1;
}
static Graph **capture_of(Pointer stream) {
  int at = capture_at(stream);
  return at < 0 ? NULL : &captures[at].graph;
}
static int join_capture(Pointer stream, Graph *graph) {
  for (int i = 0; i < STREAMS; i++)
    if (!captures[i].graph) {
      captures[i].stream = stream;
      captures[i].graph = graph;
      captures[i].unjoined = captures[i].count = 0;
      return i;
    }
  return -1;
}

/* A stream; whether it is held, and the nodes that were issued and have not run. */
static struct { Pointer stream; int held, issued, done; Node *first, *last; } queues[STREAMS];
static int queue_count = 0;

static int queue_of(Pointer stream) {
  int i = 0;
  lock();
  while (i < queue_count && queues[i].stream != stream) i++;
  if (i == queue_count && queue_count < STREAMS) queues[queue_count++].stream = stream;
  unlock();
  return i < STREAMS ? i : STREAMS - 1;
}
static int is_held(Pointer stream) {
  for (int i = 0; i < queue_count; i++) if (queues[i].stream == stream) return queues[i].held;
  return 0;
}
static CUresult run_node(Node *node);

/* Run the queued nodes of a stream, until so many have run since the start. */
static CUresult drain(Pointer stream, int until) {
  int at = queue_of(stream);
  CUresult result = SUCCESS;
  while (!result && queues[at].done < until && queues[at].first) {
    Node *node = queues[at].first;
    if (!(queues[at].first = node->next)) queues[at].last = NULL;
    queues[at].done++;
    result = run_node(node);
    free(node);
  }
  return result;
}
static CUresult drain_all(void) {
  CUresult result = SUCCESS;
  for (int i = 0; i < queue_count && !result; i++) result = drain(queues[i].stream, queues[i].issued);
  return result;
}
static Node *enqueue(Pointer stream, int kind) {
  int at = queue_of(stream);
  Node *node = calloc(1, sizeof *node);
  node->kind = kind;
  node->stream = stream;
  if (queues[at].last) queues[at].last->next = node; else queues[at].first = node;
  queues[at].last = node;
  queues[at].issued++;
  return node;
}
/* Let a stream run as late as possible from now on (1), or at once (0). */
int standin_hold(Pointer stream, int requested) {
  CUresult result = requested ? SUCCESS : drain(stream, 1 << 30);
  queues[queue_of(stream)].held = requested;
  return result;
}

static Node *add_node(Graph *graph, Pointer stream, int kind) {
  Node *node = calloc(1, sizeof *node);
  int at = capture_at(stream);
  node->kind = kind;
  node->stream = stream;
  node->at = ++captures[at].count;
  captures[at].unjoined = 1;
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
  if (is_sticky(result)) lost = result;
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
    Node *node = add_node(*graph, launch->stream, KERNEL);
    node->function = function;
    node->launch = *launch;
    for (int i = 0; i < count; i++) memcpy(&node->arguments[i], parameters[i], 8);
    note("captured %s", function->name);
    return SUCCESS;
  }
  if (is_held(launch->stream)) {
    Node *node = enqueue(launch->stream, KERNEL);
    node->function = function;
    node->launch = *launch;
    for (int i = 0; i < count; i++) memcpy(&node->arguments[i], parameters[i], 8);
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

/* ---------------------------------------------------------------- events */

/* A stream, and the number of its nodes when the event was recorded. */
typedef struct { Pointer stream; int at; Graph *graph; } Event;

CUresult cuEventCreate(Pointer *created, unsigned flags) {
  MAY_FAIL("cuEventCreate");
  *created = calloc(1, sizeof(Event));
  return SUCCESS;
}
CUresult cuEventRecord(Pointer given, Pointer stream) {
  MAY_FAIL("cuEventRecord");
  Event *event = given;
  int at = capture_at(stream);
  event->stream = stream;
  event->graph = at < 0 ? NULL : captures[at].graph;
  event->at = at < 0 ? queues[queue_of(stream)].issued : captures[at].count;
  note("record event stream %llu", (unsigned long long)(uintptr_t)stream);
  return SUCCESS;
}
static int is_being_captured(const Graph *graph) {
  for (int i = 0; i < STREAMS; i++) if (captures[i].graph == graph) return 1;
  return 0;
}
CUresult cuStreamWaitEvent(Pointer stream, Pointer given, unsigned flags) {
  MAY_FAIL("cuStreamWaitEvent");
  Event *event = given;
  int own = capture_at(stream);
  note("wait stream %llu for stream %llu", (unsigned long long)(uintptr_t)stream, (unsigned long long)(uintptr_t)event->stream);
  if (event->graph) {
    if (!is_being_captured(event->graph)) return CAPTURED_EVENT;
    if (own >= 0 && captures[own].graph != event->graph) return WRONG_CAPTURE;
    if (own < 0) join_capture(stream, event->graph);
    Node *node = add_node(event->graph, stream, WAIT);
    node->arguments[0] = (uint64_t)(uintptr_t)event->stream;
    node->arguments[1] = event->at;
    int other = capture_at(event->stream);
    if (captures[other].count == event->at) captures[other].unjoined = 0;
    return SUCCESS;
  }
  if (own >= 0) { /* the event's work was issued before the capture and is no part of the graph */
    captures[own].graph->invalid = 1;
    return ISOLATION;
  }
  if (!is_held(stream)) return drain(event->stream, event->at);
  Node *node = enqueue(stream, WAIT);
  node->arguments[0] = (uint64_t)(uintptr_t)event->stream;
  node->arguments[1] = event->at;
  return SUCCESS;
}
CUresult cuEventQuery(Pointer given) {
  MAY_FAIL("cuEventQuery");
  Event *event = given;
  if (event->graph) return CAPTURED_EVENT;
  return queues[queue_of(event->stream)].first && queues[queue_of(event->stream)].done < event->at ? NOT_READY : SUCCESS;
}
CUresult cuEventSynchronize(Pointer given) {
  MAY_FAIL("cuEventSynchronize");
  Event *event = given;
  if (event->graph) return CAPTURED_EVENT;
  note("synchronize event stream %llu", (unsigned long long)(uintptr_t)event->stream);
  return drain(event->stream, event->at);
}
CUresult cuEventDestroy_v2(Pointer given) {
  MAY_FAIL("cuEventDestroy");
  free(given);
  return SUCCESS;
}
CUresult cuStreamQuery(Pointer stream) {
  MAY_FAIL("cuStreamQuery");
  return queues[queue_of(stream)].first ? NOT_READY : SUCCESS;
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
static CUresult run_node(Node *node) {
  switch (node->kind) {
    case KERNEL: return execute(node->function, &node->launch, node->arguments);
    case COPY: return copy_now(node->arguments[0], node->arguments[1], node->arguments[2]);
    case HOST: return on_host ? on_host((int)node->arguments[0]) : SUCCESS;
    default: return drain((Pointer)(uintptr_t)node->arguments[0], (int)node->arguments[1]);
  }
}
CUresult cuMemcpyDtoDAsync_v2(uint64_t into, uint64_t from, size_t bytes, Pointer stream) {
  MAY_FAIL("cuMemcpyDtoDAsync");
  Graph **graph = capture_of(stream);
  if (!graph && !is_held(stream)) return copy_now(into, from, bytes);
  Node *node = graph ? add_node(*graph, stream, COPY) : enqueue(stream, COPY);
  node->arguments[0] = into;
  node->arguments[1] = from;
  node->arguments[2] = bytes;
  return SUCCESS;
}
/* An operator of torch is a function of the CPU on the stand-in device, and a node of a captured graph, as its kernel is on a GPU. */
int standin_capture_host(Pointer stream, int number) {
  Graph **graph = capture_of(stream);
  if (!graph) return 0;
  add_node(*graph, stream, HOST)->arguments[0] = number;
  note("captured function %d", number);
  return 1;
}
/* Run a function on a given stream: capture it, queue it if the stream is held, or call it at once. */
CUresult standin_run_on(Pointer stream, int number) {
  if (standin_capture_host(stream, number)) return SUCCESS;
  note("function %d stream %llu", number, (unsigned long long)(uintptr_t)stream);
  if (!is_held(stream)) return on_host ? on_host(number) : SUCCESS;
  enqueue(stream, HOST)->arguments[0] = number;
  return SUCCESS;
}

CUresult cuStreamSynchronize(Pointer stream) {
  MAY_FAIL("cuStreamSynchronize");
  Graph **graph = capture_of(stream);
  if (graph) { /* it ends the capture: what was recorded cannot be used any more */
    (*graph)->invalid = 1;
    return UNSUPPORTED_IN_CAPTURE;
  }
  note("synchronize stream %llu", (unsigned long long)(uintptr_t)stream);
  return stream ? drain(stream, 1 << 30) : drain_all(); /* torch.cuda.synchronize() passes the default stream */
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
  Graph *graph = new_graph(0);
  graph->origin = stream;
  if (join_capture(stream, graph) < 0) return free_graph(graph), INVALID_VALUE;
  note("begin capture stream %llu", (unsigned long long)(uintptr_t)stream);
  return SUCCESS;
}
CUresult cuStreamEndCapture(Pointer stream, Pointer *created) {
  Graph **capturing = capture_of(stream), *graph;
  *created = NULL;
  if (!capturing || (*capturing)->origin != stream) return WRONG_CAPTURE;
  graph = *capturing;
  CUresult result = injected("cuStreamEndCapture");
  if (!result && graph->invalid) result = INVALIDATED;
  for (int i = 0; i < STREAMS; i++) {
    if (captures[i].graph != graph) continue;
    if (!result && captures[i].stream != stream && captures[i].unjoined) result = UNJOINED;
    captures[i].graph = NULL;
  }
  if (result) return free_graph(graph), result;
  *created = graph;
  note("end capture nodes %d", graph->count);
  return SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(Pointer *created, Pointer given, unsigned long long flags) {
  MAY_FAIL("cuGraphInstantiate");
  Graph *graph = new_graph(1);
  for (Node *node = ((Graph *)given)->first; node; node = node->next) {
    Node *copied = malloc(sizeof *copied);
    *copied = *node;
    copied->next = NULL;
    if (graph->last) graph->last->next = copied; else graph->first = copied;
    graph->last = copied;
  }
  graph->count = ((Graph *)given)->count;
  graph->origin = ((Graph *)given)->origin;
  *created = graph;
  note("instantiate %d", ++graphs);
  return SUCCESS;
}
/* Run a node: those of the capture's origin stream run in order, those of another stream when a node waits for them. */
static CUresult run_in_graph(Graph *graph, Node *node) {
  if (node->done) return SUCCESS;
  node->done = 1;
  if (node->kind != WAIT) return run_node(node);
  CUresult result = SUCCESS;
  for (Node *other = graph->first; other && !result; other = other->next)
    if ((uint64_t)(uintptr_t)other->stream == node->arguments[0] && other->at <= (int)node->arguments[1]) result = run_in_graph(graph, other);
  return result;
}
CUresult cuGraphLaunch(Pointer given, Pointer stream) {
  MAY_FAIL("cuGraphLaunch");
  Graph *graph = given;
  if (!graph->executable) return INVALID_HANDLE;
  note("replay nodes %d stream %llu", graph->count, (unsigned long long)(uintptr_t)stream);
  if (on_replay) on_replay(1);
  CUresult result = SUCCESS;
  for (Node *node = graph->first; node; node = node->next) node->done = 0;
  for (Node *node = graph->first; node && !result; node = node->next) {
    node->launch.stream = node->stream == graph->origin ? stream : node->stream;
    if (node->stream == graph->origin) result = run_in_graph(graph, node);
  }
  if (on_replay) on_replay(0);
  if (is_sticky(result)) lost = result;
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
