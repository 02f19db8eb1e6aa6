// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

namespace lagom::os {

// "function+0x12 (file+0x3456)" for an address in code, or "(file+0x3456)" where the name is not in the dynamic symbol table
// (link with -rdynamic, or ask addr2line -e file 0x3456), or "?". Any thread, not from signal handlers. O(symbols of the file).
std::string describe_code(const void* address);

}  // namespace lagom::os
