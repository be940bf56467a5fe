#include "libs/engine/engine.h"

#include <iterator>

namespace paceline::engine {
namespace {

constexpr size_t kOperationBytes = 64;  // about, beside its content

size_t BytesOf(const Batch::Operation& operation) {
  if (const auto* entry = std::get_if<LogEntry>(&operation)) return entry->record.size();
  if (const auto* base = std::get_if<Batch::PutBase>(&operation)) return base->bytes.size();
  if (const auto* page = std::get_if<Batch::PutPage>(&operation)) return page->bytes.size();
  return 0;
}

}  // namespace

void Batch::Add(Operation operation) {
  bytes_ += kOperationBytes + BytesOf(operation);
  operations_.push_back(std::move(operation));
}

void Batch::Add(Batch other) {
  bytes_ += other.bytes_;
  if (operations_.empty()) {
    operations_ = std::move(other.operations_);
    return;
  }
  operations_.insert(operations_.end(), std::make_move_iterator(other.operations_.begin()),
                     std::make_move_iterator(other.operations_.end()));
}

}  // namespace paceline::engine
