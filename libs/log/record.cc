#include "libs/log/record.h"

namespace paceline::log {
namespace {

struct AskedAbout {
  using Id = std::optional<uint64_t>;

  Id operator()(const OpenSession& open) const { return open.session.v; }
  Id operator()(const Join& join) const { return join.session.v; }
  Id operator()(const Finish& finish) const { return finish.session.v; }
  Id operator()(const Evict& evict) const { return evict.session.v; }
  Id operator()(const DropTable& drop) const { return drop.table.v; }
  Id operator()(const ChangeRule& change) const { return change.table->id.v; }
  Id operator()(const CloseJob& close) const { return close.job.v; }
  Id operator()(const Cut& cut) const { return cut.id; }
  Id operator()(const EndLoad& end) const { return end.id; }
  Id operator()(const OpenTable&) const { return std::nullopt; }
  Id operator()(const Advance&) const { return std::nullopt; }
  Id operator()(const Update&) const { return std::nullopt; }
  Id operator()(const Fold&) const { return std::nullopt; }
  Id operator()(const BeginEpoch&) const { return std::nullopt; }
  Id operator()(const Load&) const { return std::nullopt; }
  Id operator()(const BeginChange& change) const {
    if (change.number == 0) return std::nullopt;
    return change.subject.id << 2 | static_cast<uint64_t>(change.subject.kind);
  }
};

}  // namespace

std::optional<uint64_t> AskedAboutAs(const Record& record) {
  return std::visit(AskedAbout{}, record);
}

}  // namespace paceline::log
