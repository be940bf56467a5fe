#include "libs/table/expression/program.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"

namespace paceline::expression {
namespace {

// Gives each value of a graph its place.
class Compiler {
 public:
  Compiler(const Graph& graph, size_t parameters)
      : graph_(graph),
        needed_(graph.values.size()),
        last_use_(graph.values.size()),
        at_(graph.values.size()) {
    program_.parameters = parameters;
  }

  absl::StatusOr<Program> Compile() {
    FindNeeded();
    PlaceUniforms();
    PlaceInputs();
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      if (needed_[id] && IsResult(id)) Emit(id);
    }
    for (size_t i = 0; i < graph_.stored.size(); ++i) {
      const ValueId id = graph_.stored[i];
      const Value& value = graph_.values[id];
      const bool stays = value.kind == Value::Kind::kStored && value.index == i;
      program_.stored.push_back(stays ? std::nullopt
                                      : std::optional<Register>(static_cast<Register>(at_[id])));
    }
    program_.registers = registers_;
    if (registers_ <= kRegistersMax) return std::move(program_);
    return absl::InvalidArgumentError(
        absl::StrCat("rule.code needs ", registers_, " numbers at a time; expected at most ", kRegistersMax,
                     ": compute what is used once where it is used, and write fewer different numbers"));
  }

 private:
  // A result that differs between rows.
  bool IsResult(ValueId id) const {
    return graph_.values[id].kind == Value::Kind::kResult && !graph_.values[id].uniform;
  }

  // Values precede what is made of them, so one pass from the end finds all that the stored ones need.
  void FindNeeded() {
    const size_t end = graph_.values.size();
    for (const ValueId id : graph_.stored) {
      needed_[id] = true;
      last_use_[id] = end;
    }
    for (size_t i = end; i-- > 0;) {
      const Value& value = graph_.values[i];
      if (!needed_[i] || value.kind != Value::Kind::kResult) continue;
      for (const ValueId of : value.of) {
        needed_[of] = true;
        last_use_[of] = std::max(last_use_[of], i);
      }
    }
  }

  void PlaceUniforms() {
    std::vector<uint16_t> place(graph_.values.size());
    uint16_t next = static_cast<uint16_t>(program_.parameters);
    const auto of_kind = [&](Value::Kind kind, auto&& place_one) {
      for (ValueId id = 0; id < graph_.values.size(); ++id) {
        if (graph_.values[id].uniform && graph_.values[id].kind == kind) place_one(id, graph_.values[id]);
      }
    };
    of_kind(Value::Kind::kParameter, [&](ValueId id, const Value& value) { place[id] = value.index; });
    of_kind(Value::Kind::kConstant, [&](ValueId id, const Value& value) {
      place[id] = next++;
      program_.constants.push_back(std::bit_cast<float>(value.bits));
    });
    of_kind(Value::Kind::kResult, [&](ValueId id, const Value& value) {
      place[id] = next++;
      Program::Uniform& uniform = program_.uniforms.emplace_back();
      uniform.operation = value.operation;
      std::ranges::transform(value.of, uniform.of.begin(), [&](ValueId of) { return place[of]; });
    });
    registers_ = graph_.stored.size() + 1;
    std::vector<bool> loaded(graph_.values.size());
    const auto load = [&](ValueId id) {
      if (!graph_.values[id].uniform || loaded[id]) return;
      loaded[id] = true;
      at_[id] = registers_++;
      program_.loaded.push_back(place[id]);
    };
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      if (needed_[id] && IsResult(id)) std::ranges::for_each(graph_.values[id].of, load);
    }
    std::ranges::for_each(graph_.stored, load);
  }

  void PlaceInputs() {
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      const Value& value = graph_.values[id];
      if (value.kind == Value::Kind::kStored) at_[id] = value.index;
      if (value.kind == Value::Kind::kGradient) at_[id] = graph_.stored.size();
    }
  }

  // A result may take the register of an operand that nobody needs after it.
  void Emit(ValueId id) {
    const Value& value = graph_.values[id];
    Program::Instruction& instruction = program_.code.emplace_back();
    instruction.operation = value.operation;
    std::ranges::transform(value.of, instruction.of.begin(),
                           [this](ValueId of) { return static_cast<Register>(at_[of]); });
    for (size_t i = 0; i < value.of.size(); ++i) {
      const ValueId of = value.of[i];
      const bool again = std::find(value.of.begin(), value.of.begin() + static_cast<std::ptrdiff_t>(i), of) !=
                         value.of.begin() + static_cast<std::ptrdiff_t>(i);
      if (!again && !graph_.values[of].uniform && last_use_[of] == id) free_.push_back(at_[of]);
    }
    if (free_.empty()) {
      at_[id] = registers_++;
    } else {
      at_[id] = free_.back();
      free_.pop_back();
    }
    instruction.to = static_cast<Register>(at_[id]);
  }

  const Graph& graph_;
  Program program_;
  std::vector<bool> needed_;
  std::vector<size_t> last_use_;  // the last value made of it; values.size(): it is stored
  std::vector<size_t> at_;        // the register of each value that rows have
  std::vector<size_t> free_;
  size_t registers_ = 0;
};

}  // namespace

absl::StatusOr<Program> Compile(const Source& source) {
  ABSL_ASSIGN_OR_RETURN(const Graph graph, Parse(source));
  return Compiler(graph, source.parameters.size()).Compile();
}

}  // namespace paceline::expression
