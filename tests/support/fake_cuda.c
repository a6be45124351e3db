// A driver of CUDA as far as programs ask whether there are GPUs: FAKE_CUDA_VERSION (13000), FAKE_CUDA_INIT (what cuInit
// returns) and FAKE_CUDA_ARCHS ("90 86": compute capabilities).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int number(const char* name, int otherwise) {
  const char* text = getenv(name);
  return text ? atoi(text) : otherwise;
}

static int arch(int device) {
  const char* text = getenv("FAKE_CUDA_ARCHS");
  int found = 0;
  for (int count = 0; text && sscanf(text, "%d", &found) == 1; ++count) {
    if (count == device) return found;
    text = strchr(text + 1, ' ');
  }
  return 0;
}

int cuInit(unsigned flags) { return flags ? 1 : number("FAKE_CUDA_INIT", 0); }

int cuDriverGetVersion(int* version) {
  *version = number("FAKE_CUDA_VERSION", 13000);
  return 0;
}

int cuDeviceGetCount(int* count) {
  for (*count = 0; arch(*count); ++*count) continue;
  return 0;
}

int cuDeviceGet(int* device, int at) {
  *device = at;
  return 0;
}

int cuDeviceGetName(char* name, int length, int device) {
  snprintf(name, (size_t)length, "Fake GPU %d", device);
  return 0;
}

int cuDeviceGetAttribute(int* value, int attribute, int device) {
  *value = attribute == 75 ? arch(device) / 10 : attribute == 76 ? arch(device) % 10 : 0;
  return 0;
}
