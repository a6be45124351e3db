// Kernels of a format that is known when they run, and device matrices made of stored rows.
#pragma once

#include <cstddef>

#include "strata/device/expert_down.hpp"
#include "strata/device/expert_gate_up.hpp"
#include "strata/device/run.hpp"
#include "strata/device/to_floats.hpp"
#include "strata/device/window_linear.hpp"
#include "strata/formats.hpp"

namespace strata::device {

// Throw as `run` does.
void run_window_linear(const formats::Info& format, const WindowLinearCommon::Args& args, Stream stream);
void run_expert_gate_up(const formats::Info& format, const ExpertGateUpCommon::Args& args, Stream stream);
void run_expert_down(const formats::Info& format, const ExpertDownCommon::Args& args, Stream stream);
void run_to_floats(const formats::Info& format, const ToFloatsCommon::Args& args, Stream stream);

// Bytes of a device matrix. Throws std::invalid_argument for sizes that blocks do not divide.
std::size_t device_matrix_bytes(const formats::Info& format, std::size_t rows, std::size_t columns);

// Makes a device matrix of stored rows, on the calling thread. Whole groups of 16 rows may be made piece by piece.
void arrange_device_matrix(const formats::Info& format, std::size_t rows, std::size_t columns, const std::byte* stored,
                           std::byte* out);

}  // namespace strata::device
