// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the shared library exports; everything else in it is hidden. The static library is compiled with LAGOM_STATIC: linked
// into a shared object it exports nothing there, so that two of them in one process do not meet. Users define nothing.
#if defined(LAGOM_STATIC)
#define LAGOM_EXPORT
#else
#define LAGOM_EXPORT __attribute__((visibility("default")))
#endif
