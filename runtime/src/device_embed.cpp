#include "strata/device/run_embed.hpp"
#include "strata/gen/format_types.hpp"

namespace strata::device {

void run_embed(const formats::Info& format, const EmbedRowsCommon::Args& args, Stream stream) {
  formats::visit(format.id, [&](auto type) { run<EmbedRows<typename decltype(type)::type>>(args, stream); });
}

}  // namespace strata::device
