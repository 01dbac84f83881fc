// What a Pod's status says about what its kubelet has done with it.
#pragma once

#include "api/objects.h"

namespace numafit::cache {

// The kubelet has admitted the Pod: it writes container statuses then, and only then.
[[nodiscard]] bool ShowsAdmission(const api::Pod& pod);

// The kubelet refused the Pod at admission: it held no device for longer than that moment.
[[nodiscard]] bool RefusedAtAdmission(const api::Pod& pod);

}  // namespace numafit::cache
