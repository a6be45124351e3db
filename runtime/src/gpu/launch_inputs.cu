// Launches of the kernels that make the inputs of products.
#include "strata/device/quantize_rows.hpp"
#include "strata/simt/launch_gpu.hpp"

STRATA_LAUNCH(strata::device::QuantizeRows);
