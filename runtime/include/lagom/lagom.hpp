// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <lagom/attributes.hpp>
#include <lagom/barrier.hpp>
#include <lagom/call_once.hpp>
#include <lagom/channel.hpp>
#include <lagom/condition_variable.hpp>
#include <lagom/cpu_set.hpp>
#include <lagom/error.hpp>
#include <lagom/event.hpp>
#include <lagom/features.hpp>
#include <lagom/fiber.hpp>
#include <lagom/fiber_local.hpp>
#include <lagom/future.hpp>
#include <lagom/histogram.hpp>
#include <lagom/io.hpp>
#include <lagom/latch.hpp>
#include <lagom/mutex.hpp>
#include <lagom/net.hpp>
#include <lagom/runtime.hpp>
#include <lagom/scope.hpp>
#include <lagom/select.hpp>
#include <lagom/semaphore.hpp>
#include <lagom/shared_mutex.hpp>
#include <lagom/this_fiber.hpp>
#include <lagom/version.hpp>
#include <lagom/wait_group.hpp>
