// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace lagom::topology {

// A set of CPUs by the operating system's numbers. It grows as needed: machines with more than 1024 CPUs exist,
// and the numbers may be sparse.
class cpu_set {
 public:
  // Linux stops at 8192 CPUs. The limit exists so that "0-4000000000" is an error and not half a gigabyte.
  static constexpr std::size_t limit = 65536;
  // What first() and next() return when there is none.
  static constexpr std::size_t npos = static_cast<std::size_t>(-1);

  class iterator;

  cpu_set() = default;

  // "0-3,8": the form of taskset and of the kernel's files. Spaces around an item and a final newline are allowed; ""
  // is the empty set. Throws std::invalid_argument that names the item and what would be right.
  static cpu_set parse(std::string_view text);

  // Both throw std::out_of_range from `limit` on.
  cpu_set& set(std::size_t cpu);
  cpu_set& set_range(std::size_t first, std::size_t last);  // both ends belong to it

  cpu_set& clear(std::size_t cpu) noexcept;
  bool test(std::size_t cpu) const noexcept;
  std::size_t count() const noexcept;
  bool empty() const noexcept { return words_.empty(); }
  bool is_subset_of(const cpu_set& other) const noexcept;
  bool intersects(const cpu_set& other) const noexcept;

  std::size_t first() const noexcept;
  std::size_t next(std::size_t after) const noexcept;
  std::size_t last() const noexcept;

  iterator begin() const noexcept;
  iterator end() const noexcept;

  cpu_set& operator&=(const cpu_set& other) noexcept;
  cpu_set& operator|=(const cpu_set& other);
  friend cpu_set operator&(cpu_set left, const cpu_set& right) noexcept { return left &= right; }
  friend cpu_set operator|(cpu_set left, const cpu_set& right) { return left |= right; }
  friend bool operator==(const cpu_set& left, const cpu_set& right) noexcept = default;

  // The shortest text that parse() reads back: "0-3,8"; "" for the empty set.
  std::string to_string() const;

 private:
  void trim() noexcept;
  std::size_t find_from(std::size_t cpu) const noexcept;

  // No zero word at the end, so that equal sets have equal words.
  std::vector<std::uint64_t> words_;
};

// Ascending. Valid until the set changes.
class cpu_set::iterator {
 public:
  using value_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using pointer = const std::size_t*;
  using reference = std::size_t;
  using iterator_category = std::input_iterator_tag;

  iterator() = default;
  iterator(const cpu_set& set, std::size_t cpu) noexcept : set_(&set), cpu_(cpu) {}

  std::size_t operator*() const noexcept { return cpu_; }
  iterator& operator++() noexcept {
    cpu_ = set_->next(cpu_);
    return *this;
  }
  iterator operator++(int) noexcept {
    iterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const iterator& left, const iterator& right) noexcept { return left.cpu_ == right.cpu_; }

 private:
  const cpu_set* set_ = nullptr;
  std::size_t cpu_ = npos;
};

inline cpu_set::iterator cpu_set::begin() const noexcept { return {*this, first()}; }
inline cpu_set::iterator cpu_set::end() const noexcept { return {*this, npos}; }

}  // namespace lagom::topology
