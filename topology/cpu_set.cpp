// SPDX-License-Identifier: BSL-1.0
#include "cpu_set.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <charconv>
#include <stdexcept>
#include <system_error>

namespace lagom::topology {
namespace {

constexpr std::size_t word_bits = 64;

constexpr std::uint64_t bit_of(std::size_t cpu) { return std::uint64_t{1} << (cpu % word_bits); }

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const auto begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

[[noreturn]] void refuse(std::string_view whole, std::string_view item, const std::string& why) {
  throw std::invalid_argument("CPU list \"" + std::string(whole) + "\": \"" + std::string(item) + "\" " + why +
                "; expected numbers and ranges such as \"0-3,8\"");
}

std::size_t parse_number(std::string_view whole, std::string_view item, std::string_view digits) {
  std::size_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stopped_at, error] = std::from_chars(digits.data(), end, value);
  if (error == std::errc::result_out_of_range || (error == std::errc{} && value >= cpu_set::limit))
    refuse(whole, item, "is beyond the highest CPU number, " + std::to_string(cpu_set::limit - 1));
  if (error != std::errc{} || stopped_at != end) refuse(whole, item, "is not a CPU number or range");
  return value;
}

void parse_item(cpu_set& result, std::string_view whole, std::string_view item) {
  if (item.empty()) refuse(whole, item, "between two commas is empty");
  const auto dash = item.find('-');
  if (dash == std::string_view::npos) {
    result.set(parse_number(whole, item, item));
    return;
  }
  const auto first = parse_number(whole, item, item.substr(0, dash));
  const auto last = parse_number(whole, item, item.substr(dash + 1));
  if (first > last) refuse(whole, item, "runs backwards");
  result.set_range(first, last);
}

}  // namespace

cpu_set cpu_set::parse(std::string_view text) {
  cpu_set result;
  const std::string_view whole = trimmed(text);
  if (whole.empty()) return result;
  for (std::size_t begin = 0; begin <= whole.size();) {
    const auto comma = std::min(whole.find(',', begin), whole.size());
    parse_item(result, whole, trimmed(whole.substr(begin, comma - begin)));
    begin = comma + 1;
  }
  return result;
}

cpu_set& cpu_set::set(std::size_t cpu) {
  if (cpu >= limit)
    throw std::out_of_range("CPU " + std::to_string(cpu) + " is beyond the highest CPU number, " +
                std::to_string(limit - 1));
  const auto word = cpu / word_bits;
  if (word >= words_.size()) words_.resize(word + 1);
  words_[word] |= bit_of(cpu);
  return *this;
}

cpu_set& cpu_set::set_range(std::size_t first, std::size_t last) {
  assert(first <= last);
  set(last);
  for (std::size_t cpu = first; cpu < last; ++cpu) words_[cpu / word_bits] |= bit_of(cpu);
  return *this;
}

cpu_set& cpu_set::clear(std::size_t cpu) noexcept {
  const auto word = cpu / word_bits;
  if (word < words_.size()) words_[word] &= ~bit_of(cpu);
  trim();
  return *this;
}

bool cpu_set::test(std::size_t cpu) const noexcept {
  const auto word = cpu / word_bits;
  return word < words_.size() && (words_[word] & bit_of(cpu)) != 0;
}

std::size_t cpu_set::count() const noexcept {
  std::size_t result = 0;
  for (const auto word : words_) result += static_cast<std::size_t>(std::popcount(word));
  return result;
}

bool cpu_set::is_subset_of(const cpu_set& other) const noexcept {
  if (words_.size() > other.words_.size()) return false;
  for (std::size_t word = 0; word < words_.size(); ++word)
    if ((words_[word] & ~other.words_[word]) != 0) return false;
  return true;
}

bool cpu_set::intersects(const cpu_set& other) const noexcept {
  const auto common = std::min(words_.size(), other.words_.size());
  for (std::size_t word = 0; word < common; ++word)
    if ((words_[word] & other.words_[word]) != 0) return true;
  return false;
}

std::size_t cpu_set::first() const noexcept { return find_from(0); }

std::size_t cpu_set::next(std::size_t after) const noexcept { return after == npos ? npos : find_from(after + 1); }

std::size_t cpu_set::last() const noexcept {
  if (words_.empty()) return npos;
  const auto top_bit = word_bits - 1 - static_cast<std::size_t>(std::countl_zero(words_.back()));
  return (words_.size() - 1) * word_bits + top_bit;
}

cpu_set& cpu_set::operator&=(const cpu_set& other) noexcept {
  if (words_.size() > other.words_.size()) words_.resize(other.words_.size());
  for (std::size_t word = 0; word < words_.size(); ++word) words_[word] &= other.words_[word];
  trim();
  return *this;
}

cpu_set& cpu_set::operator|=(const cpu_set& other) {
  if (words_.size() < other.words_.size()) words_.resize(other.words_.size());
  for (std::size_t word = 0; word < other.words_.size(); ++word) words_[word] |= other.words_[word];
  return *this;
}

std::string cpu_set::to_string() const {
  std::string text;
  for (std::size_t begin = first(); begin != npos;) {
    std::size_t end = begin;
    std::size_t following = next(end);
    while (following == end + 1) {
      end = following;
      following = next(end);
    }
    if (!text.empty()) text += ',';
    text += std::to_string(begin);
    if (end != begin) text += '-' + std::to_string(end);
    begin = following;
  }
  return text;
}

void cpu_set::trim() noexcept {
  while (!words_.empty() && words_.back() == 0) words_.pop_back();
}

std::size_t cpu_set::find_from(std::size_t cpu) const noexcept {
  std::size_t word = cpu / word_bits;
  if (word >= words_.size()) return npos;
  std::uint64_t rest = words_[word] & (~std::uint64_t{0} << (cpu % word_bits));
  while (rest == 0) {
    if (++word == words_.size()) return npos;
    rest = words_[word];
  }
  return word * word_bits + static_cast<std::size_t>(std::countr_zero(rest));
}

}  // namespace lagom::topology
