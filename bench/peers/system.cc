#include "bench/peers/system.h"

namespace paceline::bench::peers {

const char* NameOf(Op op) {
  return op == Op::kPush ? "push" : "pull";
}

}  // namespace paceline::bench::peers
