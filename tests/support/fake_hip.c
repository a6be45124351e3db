// A HIP runtime as far as packages call it. It writes what it is asked for to FAKE_HIP_LOG, a line each. Settings:
// FAKE_HIP_DEVICES (1), FAKE_HIP_COUNT, FAKE_HIP_LOAD and FAKE_HIP_LAUNCH (codes that these calls return).
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int current = 0;

static int number(const char* name, int otherwise) {
  const char* text = getenv(name);
  return text ? atoi(text) : otherwise;
}

static void note(const char* format, ...) {
  const char* path = getenv("FAKE_HIP_LOG");
  FILE* file = path ? fopen(path, "a") : NULL;
  if (!file) return;
  va_list given;
  va_start(given, format);
  vfprintf(file, format, given);
  va_end(given);
  fputc('\n', file);
  fclose(file);
}

int hipGetDeviceCount(int* count) {
  *count = number("FAKE_HIP_DEVICES", 1);
  return number("FAKE_HIP_COUNT", 0);
}

int hipGetDevice(int* device) {
  *device = current;
  return 0;
}

int hipSetDevice(int device) {
  current = device;
  return 0;
}

int hipDeviceGetName(char* name, int length, int device) {
  snprintf(name, (size_t)length, "Fake GPU %d", device);
  return 0;
}

int hipDeviceGetPCIBusId(char* id, int length, int device) {
  snprintf(id, (size_t)length, "ffff:%02x:00.0", device + 1);
  return 0;
}

int hipMemGetInfo(size_t* unused, size_t* total) {
  *unused = (size_t)3 << 30;
  *total = (size_t)4 << 30;
  return 0;
}

int hipDriverGetVersion(int* version) {
  *version = 60342134;
  return 0;
}

int hipRuntimeGetVersion(int* version) { return hipDriverGetVersion(version); }

int hipModuleLoadData(void** module, const void* image) {
  note("load %.4s on %d", (const char*)image, current);
  *module = (void*)image;
  return number("FAKE_HIP_LOAD", 0);
}

int hipModuleGetFunction(void** function, void* module, const char* name) {
  note("find %s in %.4s", name, (const char*)module);
  *function = strdup(name);
  return 0;
}

// The first argument is an address.
int hipModuleLaunchKernel(void* function, unsigned bx, unsigned by, unsigned bz, unsigned tx, unsigned ty, unsigned tz,
                          unsigned shared, void* stream, void** args, void** extra) {
  note("launch %s %ux%ux%u of %ux%ux%u, %u bytes, stream %p, argument %p%s", (const char*)function, bx, by, bz, tx, ty,
       tz, shared, stream, *(void**)args[0], extra ? ", extra" : "");
  return number("FAKE_HIP_LAUNCH", 0);
}

int hipGetLastError(void) { return 0; }

const char* hipGetErrorString(int code) { return code == 100 ? "no ROCm-capable device is detected" : "a fake error"; }

const char* hipGetErrorName(int code) { return code == 100 ? "hipErrorNoDevice" : "hipErrorFake"; }
