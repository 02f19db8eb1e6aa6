// SPDX-License-Identifier: BSL-1.0
#include "discover.hpp"

#include <hwloc.h>
// The one header of hwloc that forgets to say that it is C.
extern "C" {
#include <hwloc/plugins.h>
}

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "bind.hpp"

namespace lagom::topology {
namespace {

static_assert(HWLOC_API_VERSION < 0x00030000, "written for hwloc 2.x: the plugin interface changes in 3.0");

using hwloc_ptr = std::shared_ptr<hwloc_topology>;

struct bitmap_free {
  void operator()(hwloc_bitmap_s* bitmap) const noexcept { hwloc_bitmap_free(bitmap); }
};
using bitmap_ptr = std::unique_ptr<hwloc_bitmap_s, bitmap_free>;

// Where Linux ends. hwloc takes seconds for as many in one flat level.
constexpr std::size_t synthetic_cpus_max = 8192;

[[noreturn]] void refuse(std::string_view spec, const std::string& why) {
  throw std::invalid_argument("topology \"" + std::string(spec) + "\": " + why);
}

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

hwloc_ptr new_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) fail(errno != 0 ? errno : ENOMEM, "topology: hwloc_topology_init");
  return {raw, hwloc_topology_destroy};
}

bitmap_ptr new_bitmap() {
  bitmap_ptr bitmap(hwloc_bitmap_alloc());
  if (!bitmap) throw std::bad_alloc();
  return bitmap;
}

cpu_set to_cpu_set(hwloc_const_bitmap_t bitmap) {
  cpu_set set;
  for (int cpu = hwloc_bitmap_first(bitmap); cpu >= 0; cpu = hwloc_bitmap_next(bitmap, cpu))
    set.set(static_cast<std::size_t>(cpu));
  return set;
}

// ---- loading: this machine

void refuse_misleading_environment() {
  const char* root = std::getenv("HWLOC_FSROOT");
  const bool other_root = root != nullptr && std::strcmp(root, "/") != 0;
  if (!other_root && std::getenv("HWLOC_CPUID_PATH") == nullptr) return;
  throw std::invalid_argument(std::string("topology: ") + (other_root ? "HWLOC_FSROOT" : "HWLOC_CPUID_PATH") +
                              " is set, so hwloc would describe another machine as this one; unset it, or name the "
                              "topology as \"xml:<file>\" or \"synthetic:<string>\"");
}

// hwloc obeys HWLOC_SYNTHETIC, HWLOC_XMLFILE and the like only while no source of information has been chosen. There is
// no call to choose "this machine", but a source that does nothing will do. The other way in, HWLOC_COMPONENTS, respects
// the application's list of unwanted components.
void keep_environment_out(hwloc_topology_t topology) {
  static hwloc_disc_component nothing = {"lagom", HWLOC_DISC_PHASE_ANNOTATE, 0, nullptr, 0, 0, nullptr};
  hwloc_backend* backend = hwloc_backend_alloc(topology, &nothing);
  if (backend == nullptr) throw std::bad_alloc();
  if (hwloc_backend_enable(backend) != 0) fail(EINVAL, "topology: hwloc refuses a source without information");
  for (const char* unwanted : {"synthetic", "xml"})
    hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, unwanted);
}

bool restrict_to(hwloc_topology_t topology, const cpu_set& cpus) {
  const bitmap_ptr set = new_bitmap();
  for (const auto one : cpus)
    if (hwloc_bitmap_set(set.get(), static_cast<unsigned>(one)) != 0) throw std::bad_alloc();
  return hwloc_topology_restrict(topology, set.get(), 0) == 0;
}

// Null where hwloc finds nothing that we may use.
hwloc_ptr load_this_machine_as_hwloc_sees_it(const cpu_set& mask) {
  hwloc_ptr topology = new_topology();
  keep_environment_out(topology.get());
  // RESTRICT_TO_CPUBINDING keeps hwloc from visiting CPUs outside of the mask. It is not enough: it takes the mask of the
  // process, and takes none at all if the process's threads have different ones.
  hwloc_topology_set_flags(topology.get(),
                           HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM | HWLOC_TOPOLOGY_FLAG_RESTRICT_TO_CPUBINDING |
                               HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS);
  if (hwloc_topology_load(topology.get()) != 0) return nullptr;
  if (hwloc_topology_is_thissystem(topology.get()) == 0)
    throw std::invalid_argument(
        "topology: hwloc was told that this is not the machine we run on, so nothing could be bound; unset "
        "HWLOC_THISSYSTEM");
  return restrict_to(topology.get(), mask) ? topology : nullptr;
}

hwloc_ptr load_synthetic(const std::string& description, unsigned long flags) {
  hwloc_ptr topology = new_topology();
  hwloc_topology_set_flags(topology.get(), flags | HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS);
  if (hwloc_topology_set_synthetic(topology.get(), description.c_str()) != 0) return nullptr;
  return hwloc_topology_load(topology.get()) == 0 ? topology : nullptr;
}

// No /sys, or one that speaks of other CPUs than the kernel lets us use: all we know is our mask.
hwloc_ptr load_bare_mask(const cpu_set& mask) {
  const std::string plain_cpus = "core:" + std::to_string(mask.last() + 1) + " pu:1";
  hwloc_ptr topology = load_synthetic(plain_cpus, HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM);
  if (!topology || !restrict_to(topology.get(), mask)) fail(ENOMEM, "topology: hwloc cannot describe " + plain_cpus);
  return topology;
}

// ---- loading: something else

// The number of CPUs a synthetic description asks for, saturating; hwloc itself would start to build 10^12 of them.
// Levels are separated by spaces; in brackets are attributes and memory, which do not multiply.
std::size_t synthetic_cpu_count(std::string_view description) {
  std::size_t product = 1;
  int brackets = 0;
  for (std::size_t at = 0; at < description.size(); ++at) {
    const char c = description[at];
    if (c == '(' || c == '[') ++brackets;
    if (c == ')' || c == ']') --brackets;
    const char before = at == 0 ? ' ' : description[at - 1];
    const bool count_begins = c >= '0' && c <= '9' && (before == ':' || before == ' ');
    if (brackets != 0 || !count_begins) continue;
    std::size_t count = 0;
    const auto result = std::from_chars(&description[at], description.data() + description.size(), count);
    if (result.ec != std::errc{} || count > synthetic_cpus_max) return synthetic_cpus_max + 1;
    product = std::min(product * std::max<std::size_t>(count, 1), synthetic_cpus_max + 1);
  }
  return product;
}

hwloc_ptr load_synthetic_spec(std::string_view spec, const std::string& description) {
  if (synthetic_cpu_count(description) > synthetic_cpus_max)
    refuse(spec, "more than " + std::to_string(synthetic_cpus_max) + " CPUs");
  // A minus sign would wrap to a huge number.
  hwloc_ptr topology = description.find('-') == std::string::npos ? load_synthetic(description, 0) : nullptr;
  if (!topology)
    refuse(spec, "hwloc does not understand this description; expected levels from the outside inwards, ending in pu, "
                 "such as \"synthetic:pack:2 [numa] l3:1 core:8 pu:2\"");
  return topology;
}

hwloc_ptr load_xml_spec(std::string_view spec, const std::string& file) {
  // hwloc would read standard input for "-".
  if (file.empty() || file == "-") refuse(spec, "expected a file name, as in \"xml:machine.xml\"");
  const std::string what = "topology \"" + std::string(spec) + "\": cannot read the file";
  errno = 0;
  std::ifstream stream(file);
  if (!stream.is_open()) fail(errno != 0 ? errno : EIO, what);
  errno = 0;
  if (stream.peek() == std::ifstream::traits_type::eof() && errno != 0) fail(errno, what);  // a directory

  hwloc_ptr topology = new_topology();
  hwloc_topology_set_flags(topology.get(), HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS);
  if (hwloc_topology_set_xml(topology.get(), file.c_str()) != 0 || hwloc_topology_load(topology.get()) != 0)
    refuse(spec, "the file is not a topology of hwloc; expected what \"lstopo machine.xml\" writes");
  return topology;
}

// ---- reading what was loaded

bool is_data_cache(hwloc_obj_t object) { return hwloc_obj_type_is_dcache(object->type) != 0; }

bool has_several_cores(hwloc_topology_t topology, hwloc_obj_t object) {
  const auto cores = hwloc_get_nbobjs_inside_cpuset_by_type(topology, object->cpuset, HWLOC_OBJ_CORE);
  return cores > 1 || (cores <= 0 && hwloc_bitmap_weight(object->cpuset) > 1);
}

struct surroundings {
  hwloc_obj_t core;
  hwloc_obj_t cluster;
  hwloc_obj_t llc;
  hwloc_obj_t package;  // may be null
};

hwloc_obj_t find_llc(hwloc_topology_t topology, hwloc_obj_t pu, hwloc_obj_t package) {
  hwloc_obj_t llc = nullptr;
  for (hwloc_obj_t above = pu->parent; above != nullptr; above = above->parent)
    if (is_data_cache(above) && above->attr->cache.depth >= 2) llc = above;
  // A private L2 with nothing above it is no last-level cache, only the last one that this machine admits to.
  if (llc != nullptr && llc->attr->cache.depth == 2 && !has_several_cores(topology, llc)) llc = nullptr;
  if (llc != nullptr) return llc;
  return package != nullptr ? package : hwloc_get_root_obj(topology);
}

// An L2 of several cores, or what ARM and AMD show as a group of cores below the last-level cache. Else the core itself.
hwloc_obj_t find_cluster(hwloc_topology_t topology, hwloc_obj_t core, hwloc_obj_t llc) {
  for (hwloc_obj_t above = core->parent; above != nullptr; above = above->parent) {
    const bool is_l2 = is_data_cache(above) && above->attr->cache.depth == 2;
    const bool is_group = above->type == HWLOC_OBJ_GROUP && above != llc;
    if ((is_l2 || is_group) && has_several_cores(topology, above)) return above;
    if (above == llc || above->type == HWLOC_OBJ_PACKAGE) break;
  }
  return core;
}

surroundings look_around(hwloc_topology_t topology, hwloc_obj_t pu) {
  surroundings around{};
  around.core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, pu);
  if (around.core == nullptr) around.core = pu;
  around.package = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, pu);
  around.llc = find_llc(topology, pu, around.package);
  around.cluster = find_cluster(topology, around.core, around.llc);
  return around;
}

// Numbers the objects of a level in the order they are met and collects the CPUs of each.
class numbering {
 public:
  explicit numbering(level at) : at_(at) {}

  unsigned number(hwloc_obj_t object, unsigned os_index) {
    const auto [known, is_new] = numbers_.emplace(object, static_cast<unsigned>(domains_.size()));
    if (is_new) {
      char name[64];
      hwloc_obj_type_snprintf(name, sizeof name, object, 0);
      domains_.push_back({at_, known->second, name, {}});
    }
    domains_[known->second].cpus.set(os_index);
    return known->second;
  }

  std::vector<domain>& domains() { return domains_; }

 private:
  level at_;
  std::map<hwloc_obj_t, unsigned> numbers_;
  std::vector<domain> domains_;
};

void read_nodes(machine& result, hwloc_topology_t topology) {
  for (hwloc_obj_t node = nullptr; (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr;)
    result.nodes.push_back({node->os_index, node->attr->numanode.local_memory, to_cpu_set(node->cpuset)});
}

// A CPU can have several local nodes (fast and large memory): the first one is the default of Linux too.
unsigned node_of(const machine& where, hwloc_obj_t pu) {
  for (unsigned index = 0; index < where.nodes.size(); ++index)
    if (hwloc_bitmap_isset(pu->nodeset, where.nodes[index].os_index) != 0) return index;
  return none;
}

void read_cpus(machine& result, hwloc_topology_t topology) {
  numbering cores(level::core), clusters(level::cluster), llcs(level::llc), packages(level::package);
  std::map<unsigned, cpu_set> node_cpus;
  std::map<unsigned, unsigned> seen_in_core;
  for (hwloc_obj_t pu = nullptr; (pu = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, pu)) != nullptr;) {
    const surroundings around = look_around(topology, pu);
    cpu one;
    one.os_index = pu->os_index;
    one.core = cores.number(around.core, one.os_index);
    one.smt_index = seen_in_core[one.core]++;
    one.cluster = clusters.number(around.cluster, one.os_index);
    one.llc = llcs.number(around.llc, one.os_index);
    if (around.package != nullptr) one.package = packages.number(around.package, one.os_index);
    one.node = node_of(result, pu);
    if (one.node != none) node_cpus[one.node].set(one.os_index);
    result.cpus.push_back(one);
  }

  const auto add = [&](std::vector<domain>& found) {
    std::move(found.begin(), found.end(), std::back_inserter(result.domains));
  };
  // A cluster of one core is only the number that makes comparisons work.
  auto& all_clusters = clusters.domains();
  all_clusters.erase(std::remove_if(all_clusters.begin(), all_clusters.end(),
                                    [](const domain& one) { return one.sharing == "Core" || one.sharing == "PU"; }),
                     all_clusters.end());
  add(cores.domains());
  add(all_clusters);
  add(llcs.domains());
  add(packages.domains());
  for (const auto& [node, cpus] : node_cpus) result.domains.push_back({level::node, node, "NUMANode", cpus});
  result.domains.push_back({level::machine, 0, "Machine", result.allowed()});
}

void read_node_distances(machine& result, hwloc_topology_t topology) {
  unsigned available = 1;
  hwloc_distances_s* matrix = nullptr;
  if (hwloc_distances_get_by_type(topology, HWLOC_OBJ_NUMANODE, &available, &matrix, HWLOC_DISTANCES_KIND_MEANS_LATENCY,
                                  0) != 0 ||
      available == 0)
    return;
  const std::shared_ptr<void> release(nullptr, [&](void*) { hwloc_distances_release(topology, matrix); });

  const std::size_t nodes = result.nodes.size();
  result.node_distances.assign(nodes * nodes, 0);
  const auto place = [&](hwloc_obj_t object) {
    const auto is_it = [object](const memory_node& node) { return node.os_index == object->os_index; };
    return static_cast<std::size_t>(std::find_if(result.nodes.begin(), result.nodes.end(), is_it) - result.nodes.begin());
  };
  for (unsigned row = 0; row < matrix->nbobjs; ++row) {
    // Firmware means 10 by "local"; others who annotate a topology may use nanoseconds.
    const auto local = matrix->values[row * matrix->nbobjs + row];
    if (matrix->objs[row] == nullptr || local == 0) continue;
    for (unsigned column = 0; column < matrix->nbobjs; ++column) {
      if (matrix->objs[column] == nullptr) continue;
      const auto value = matrix->values[row * matrix->nbobjs + column] * 10 / local;
      result.node_distances[place(matrix->objs[row]) * nodes + place(matrix->objs[column])] =
          static_cast<unsigned>(std::min<std::uint64_t>(value, 100'000));
    }
  }
}

// ---- capacity

std::optional<unsigned> number_in(const char* text) {
  unsigned value = 0;
  const auto result = std::from_chars(text, text + std::strlen(text), value);
  return result.ec == std::errc{} ? std::optional(value) : std::nullopt;
}

std::optional<unsigned> cppc_highest_of(unsigned os_index) {
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(os_index) + "/acpi_cppc/highest_perf");
  unsigned value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

void read_kind(capacity_facts& facts, const hwloc_info_s& info) {
  const std::string_view name = info.name;
  if (name == "LinuxCapacity") facts.linux_capacity = number_in(info.value);
  if (name == "FrequencyMaxMHz") facts.frequency_max_mhz = number_in(info.value);
  if (name != "CoreType") return;
  const std::string_view type = info.value;
  if (type == "IntelCore") facts.kind = core_kind::intel_core;
  if (type == "IntelAtom") facts.kind = core_kind::intel_atom;
}

void read_capacities(machine& result, hwloc_topology_t topology) {
  std::vector<capacity_facts> facts(result.cpus.size());
  const bitmap_ptr members = new_bitmap();
  const int kinds = hwloc_cpukinds_get_nr(topology, 0);
  for (int kind = 0; kind < kinds; ++kind) {
    int efficiency = -1;
    unsigned infos = 0;
    hwloc_info_s* info = nullptr;
    const auto index = static_cast<unsigned>(kind);
    if (hwloc_cpukinds_get_info(topology, index, members.get(), &efficiency, &infos, &info, 0) != 0) continue;
    for (std::size_t at = 0; at < facts.size(); ++at) {
      if (hwloc_bitmap_isset(members.get(), result.cpus[at].os_index) == 0) continue;
      if (efficiency >= 0) facts[at].rank = static_cast<unsigned>(efficiency);
      for (unsigned i = 0; i < infos; ++i) read_kind(facts[at], info[i]);
    }
  }
  if (result.this_system)
    for (std::size_t at = 0; at < facts.size(); ++at) facts[at].cppc_highest = cppc_highest_of(result.cpus[at].os_index);

  const capacities estimate = estimate_capacities(facts);
  result.capacities = estimate.source;
  for (std::size_t at = 0; at < facts.size(); ++at) result.cpus[at].capacity = estimate.values[at];
}

std::size_t count_online(const machine& where, hwloc_topology_t topology) {
  const int complete = hwloc_bitmap_weight(hwloc_topology_get_complete_cpuset(topology));
  std::size_t online = complete > 0 ? static_cast<std::size_t>(complete) : 0;
  std::string list;
  std::ifstream file("/sys/devices/system/cpu/online");
  if (where.this_system && std::getline(file, list)) {
    try {
      online = cpu_set::parse(list).count();
    } catch (const std::invalid_argument&) {
      // An odd /sys: hwloc's answer stays.
    }
  }
  return std::max(online, where.cpus.size());
}

enum class origin : std::uint8_t { this_system, description };

machine read(std::string_view source, origin from, const hwloc_ptr& topology) {
  machine result;
  result.source = source;
  result.this_system = from == origin::this_system;
  if (result.this_system) result.binding_handle = topology;
  read_nodes(result, topology.get());
  read_cpus(result, topology.get());
  read_node_distances(result, topology.get());
  read_capacities(result, topology.get());
  result.online = count_online(result, topology.get());
  check_invariants(result);
  return result;
}

machine discover_this_machine() {
  refuse_misleading_environment();
  const cpu_set mask = current_mask();
  if (mask.empty()) fail(errno != 0 ? errno : EIO, "topology: the kernel does not say which CPUs this thread may use");
  hwloc_ptr topology = load_this_machine_as_hwloc_sees_it(mask);
  if (!topology) topology = load_bare_mask(mask);
  return read("this machine", origin::this_system, topology);
}

machine discover_described(std::string_view spec) {
  constexpr std::string_view synthetic = "synthetic:";
  constexpr std::string_view xml = "xml:";
  if (spec.starts_with(synthetic))
    return read(spec, origin::description, load_synthetic_spec(spec, std::string(spec.substr(synthetic.size()))));
  if (spec.starts_with(xml))
    return read(spec, origin::description, load_xml_spec(spec, std::string(spec.substr(xml.size()))));
  refuse(spec, "unknown form; expected \"\" (this machine), \"synthetic:<hwloc string>\" or \"xml:<file>\"");
}

}  // namespace

machine discover(std::string_view spec) {
  if (spec.find('\0') != std::string_view::npos) refuse(spec.substr(0, spec.find('\0')), "holds a zero byte");
  if (spec.empty()) return discover_this_machine();
  try {
    return discover_described(spec);
  } catch (const std::out_of_range& error) {  // a CPU number that no set holds
    refuse(spec, error.what());
  }
}

}  // namespace lagom::topology
