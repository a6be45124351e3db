// Rows of a table whose format is known when it runs.
#pragma once

#include "strata/device/embed_rows.hpp"
#include "strata/device/run.hpp"
#include "strata/formats.hpp"

namespace strata::device {

// Throws as `run` does.
void run_embed(const formats::Info& format, const EmbedRowsCommon::Args& args, Stream stream);

}  // namespace strata::device
