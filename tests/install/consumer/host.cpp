// SPDX-License-Identifier: BSL-1.0
// A program that knows nothing of lagom: loads objects that do, uses them, unloads them, again and again and side by side.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <thread>

namespace {

using work = int (*)(int);

bool is_mapped(const char* path) {
  std::FILE* maps = std::fopen("/proc/self/maps", "r");
  char line[4096];
  bool found = false;
  while (maps && std::fgets(line, sizeof line, maps)) found |= std::strstr(line, path) != nullptr;
  if (maps) std::fclose(maps);
  return found;
}

bool load_and_work(const char* path, int times) {
  for (int i = 0; i < times; ++i) {
    void* plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!plugin) return std::fprintf(stderr, "%s\n", dlerror()), false;
    const auto run = reinterpret_cast<work>(dlsym(plugin, "plugin_work"));
    if (!run || run(50) != 50) return std::fprintf(stderr, "%s: wrong result\n", path), false;
    if (dlclose(plugin) != 0) return std::fprintf(stderr, "%s\n", dlerror()), false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (!load_and_work(argv[i], 3)) return 1;
  }
  if (argc == 3) {
    bool first = false, second = false;
    std::thread a([&] { first = load_and_work(argv[1], 20); });
    std::thread b([&] { second = load_and_work(argv[2], 20); });
    a.join();
    b.join();
    if (!first || !second) return 1;
  }
  for (int i = 1; i < argc; ++i) std::printf("%s is %s\n", argv[i], is_mapped(argv[i]) ? "still mapped" : "gone");
  return 0;
}
