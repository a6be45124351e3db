// Launches of the kernels between router and experts of a window.
#include "strata/device/ecap_redirect.hpp"
#include "strata/device/flag_wait.hpp"
#include "strata/device/late_add.hpp"
#include "strata/device/publish.hpp"
#include "strata/device/resident_plan.hpp"
#include "strata/device/router_topk.hpp"
#include "strata/device/rows_copy.hpp"
#include "strata/device/tail_skip.hpp"
#include "strata/device/time_stamp.hpp"
#include "strata/simt/launch_gpu.hpp"

STRATA_LAUNCH(strata::device::EcapRedirect);
STRATA_LAUNCH(strata::device::FlagWait);
STRATA_LAUNCH(strata::device::LateAdd);
STRATA_LAUNCH(strata::device::Publish);
STRATA_LAUNCH(strata::device::ResidentPlan);
STRATA_LAUNCH(strata::device::RouterTopk);
STRATA_LAUNCH(strata::device::RowsCopy);
STRATA_LAUNCH(strata::device::TailSkip);
STRATA_LAUNCH(strata::device::TimeStamp);
