// Launches of the kernels between the products of a layer.
#include "strata/device/add_rows.hpp"
#include "strata/device/append_heads.hpp"
#include "strata/device/argmax_rows.hpp"
#include "strata/device/attend_join.hpp"
#include "strata/device/attend_window.hpp"
#include "strata/device/combine.hpp"
#include "strata/device/norm_rows.hpp"
#include "strata/device/silu_rows.hpp"
#include "strata/simt/launch_gpu.hpp"

STRATA_LAUNCH(strata::device::AddRows);
STRATA_LAUNCH(strata::device::AppendHeads);
STRATA_LAUNCH(strata::device::ArgmaxRows);
STRATA_LAUNCH(strata::device::AttendJoin);
STRATA_LAUNCH(strata::device::AttendWindow);
STRATA_LAUNCH(strata::device::Combine);
STRATA_LAUNCH(strata::device::NormRows);
STRATA_LAUNCH(strata::device::SiluRows);
