#include "libs/carrier/descriptor.h"

#include <unistd.h>

namespace paceline::carrier {

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace paceline::carrier
