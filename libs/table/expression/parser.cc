#include "libs/table/expression/parser.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <string>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/charconv.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/status.h"
#include "libs/base/text.h"

namespace paceline::expression {
namespace {

constexpr absl::string_view kValue = "w";
constexpr absl::string_view kGradient = "g";
constexpr absl::string_view kStep = "step";

struct Function {
  absl::string_view name;
  Operation operation;
  size_t arguments;
};
constexpr Function kFunctions[] = {{"sqrt", Operation::kSquareRoot, 1},
                                   {"abs", Operation::kAbsolute, 1},
                                   {"min", Operation::kMin, 2},
                                   {"max", Operation::kMax, 2}};
constexpr absl::string_view kSelect = "select";

bool IsFunction(absl::string_view name) {
  return name == kSelect ||
         std::ranges::any_of(kFunctions, [name](const Function& f) { return f.name == name; });
}

bool BeginsName(char c) {
  return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_';
}
bool InName(char c) {
  return BeginsName(c) || absl::ascii_isdigit(static_cast<unsigned char>(c));
}
bool IsSpace(char c) {
  return c == ' ' || c == '\n';
}

// The name at the beginning of `text`; empty: there is none.
absl::string_view NameAt(absl::string_view text) {
  if (text.empty() || !BeginsName(text.front())) return {};
  return text.substr(0, static_cast<size_t>(std::ranges::find_if_not(text, InName) - text.begin()));
}

absl::Status CheckDeclared(absl::string_view field, absl::string_view name) {
  const auto wrong = [&](absl::string_view expected) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": '", Escaped(name, kNameBytesMax), "'; expected ", expected));
  };
  if (name.empty() || name.size() > kNameBytesMax || NameAt(name) != name) {
    return wrong(absl::StrCat("1 to ", kNameBytesMax, " letters, digits and '_', and no digit first"));
  }
  if (name == kValue || name == kGradient || name == kStep || IsFunction(name)) {
    return wrong("a name that means nothing yet: w, g, step and the functions are taken; choose another");
  }
  return absl::OkStatus();
}

// A recursive descent over the text, which is read once. At the first error it stops: `failed_`.
class Parser {
 public:
  explicit Parser(const Source& source) : source_(source) {}

  absl::StatusOr<Graph> Parse() {
    ABSL_RETURN_IF_ERROR(Declare());
    while (failed_.ok() && !AtEnd()) Statement();
    ABSL_RETURN_IF_ERROR(failed_);
    if (!wrote_value_) {
      return absl::InvalidArgumentError(
          "rule.code never assigns w, so that no update would have an effect; expected a statement such as "
          "w = w - lr*g: add one");
    }
    for (size_t i = 0; i <= slots(); ++i)
      graph_.stored.push_back(names_[i == 0 ? kValue : source_.slots[i - 1]]);
    if (graph_.counts_steps) graph_.stored.push_back(names_[kStep]);
    return std::move(graph_);
  }

 private:
  // -- names --

  absl::Status Declare() {
    graph_.counts_steps = CountsSteps(source_.code);
    if (source_.code.size() > kCodeBytesMax) {
      return absl::InvalidArgumentError(absl::StrCat(
          "rule.code has ", source_.code.size(), " bytes; expected at most ", kCodeBytesMax, ": shorten it"));
    }
    if (slots() + (graph_.counts_steps ? 1 : 0) > kSlotsMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("rule.slots has ", slots(), " names",
                       graph_.counts_steps ? " and rule.code has step, a slot too" : "",
                       "; expected at most ", kSlotsMax, " slots: keep less beside a value"));
    }
    if (source_.parameters.size() > kParametersMax) {
      return absl::InvalidArgumentError(absl::StrCat("rule.params has ", source_.parameters.size(),
                                                     " names; expected at most ", kParametersMax,
                                                     ": write numbers that never change into the code"));
    }
    names_[kValue] = Stored(0);
    names_[kGradient] = graph_.Add({.kind = Value::Kind::kGradient});
    for (size_t i = 0; i < slots(); ++i) {
      ABSL_RETURN_IF_ERROR(Declare("rule.slots", source_.slots[i], Stored(i + 1)));
    }
    for (size_t i = 0; i < source_.parameters.size(); ++i) {
      const Value parameter{
          .kind = Value::Kind::kParameter, .index = static_cast<uint8_t>(i), .uniform = true};
      ABSL_RETURN_IF_ERROR(Declare("rule.params", source_.parameters[i], graph_.Add(parameter)));
    }
    if (graph_.counts_steps) names_[kStep] = Add(Operation::kAdd, {Stored(slots() + 1), Constant(1)});
    return absl::OkStatus();
  }

  absl::Status Declare(absl::string_view field, absl::string_view name, ValueId value) {
    ABSL_RETURN_IF_ERROR(CheckDeclared(field, name));
    if (names_.try_emplace(name, value).second) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": '", name,
                     "' is there twice; expected each name once among slots and params: "
                     "rename one"));
  }

  size_t slots() const { return source_.slots.size(); }

  ValueId Stored(size_t index) {
    return graph_.Add({.kind = Value::Kind::kStored, .index = static_cast<uint8_t>(index)});
  }
  ValueId Constant(float value) {
    return graph_.Add(
        {.kind = Value::Kind::kConstant, .bits = std::bit_cast<uint32_t>(value), .uniform = true});
  }

  bool IsParameter(absl::string_view name) const {
    return std::ranges::find(source_.parameters, name) != source_.parameters.end();
  }

  // The names that can be read, for people.
  std::string Known() const {
    constexpr size_t kShown = 30;
    std::vector<absl::string_view> known;
    for (const auto& [name, value] : names_) known.push_back(name);
    if (!graph_.counts_steps) known.push_back(kStep);
    if (known.size() > kShown) {
      known.resize(kShown);
      known.push_back("…");
    }
    return absl::StrJoin(known, ", ");
  }

  // -- statements --

  void Statement() {
    const size_t at = at_;
    const absl::string_view name = TakeName();
    if (name.empty())
      return Fail(at, "a statement begins with a name", "NAME = …", "write one, or end the code");
    if (name.size() > kNameBytesMax) {
      return Fail(at, "the name is too long", absl::StrCat("at most ", kNameBytesMax, " characters"),
                  "shorten it");
    }
    if (name == kGradient || name == kStep || IsParameter(name) || IsFunction(name)) {
      return Fail(at, absl::StrCat("'", name, "' cannot be assigned"), "w, a slot or a name of your own",
                  "assign another name");
    }
    if (!Take("=") || absl::StartsWith(Rest(), "=")) {
      return Fail(at_, "the assignment lacks its '='", absl::StrCat(name, " = …"), "add it");
    }
    const ValueId value = Sum();
    if (!failed_.ok()) return;
    names_[name] = value;
    if (name == kValue) wrote_value_ = true;
    if (!AtEnd() && !Take(";")) {
      Fail(at_, "the statement does not end here", "an operator or ';'", "add it");
    }
  }

  // -- expressions: each returns the value; after an error, any --

  ValueId Sum() {
    ValueId left = Product();
    while (failed_.ok()) {
      if (Take("+")) {
        left = Add(Operation::kAdd, {left, Product()});
      } else if (Take("-")) {
        left = Add(Operation::kSubtract, {left, Product()});
      } else {
        break;
      }
    }
    return left;
  }

  ValueId Product() {
    ValueId left = Factor();
    while (failed_.ok()) {
      if (Take("*")) {
        left = Add(Operation::kMultiply, {left, Factor()});
      } else if (Take("/")) {
        left = Add(Operation::kDivide, {left, Factor()});
      } else {
        break;
      }
    }
    return left;
  }

  ValueId Factor() {
    if (!failed_.ok()) return 0;
    const size_t at = at_;
    if (depth_ == kDepthMax) {
      Fail(at, "too much is nested in each other", absl::StrCat("a depth of at most ", kDepthMax),
           "assign a part to a name of its own");
      return 0;
    }
    ++depth_;
    const ValueId value = Take("-") ? Add(Operation::kNegate, {Factor()}) : Primary();
    --depth_;
    return value;
  }

  ValueId Primary() {
    if (Take("(")) {
      const ValueId inner = Sum();
      Expect(")");
      return inner;
    }
    const size_t at = at_;
    if (!AtEnd() &&
        (absl::ascii_isdigit(static_cast<unsigned char>(source_.code[at])) || source_.code[at] == '.')) {
      return Number();
    }
    const absl::string_view name = TakeName();
    if (name.empty()) {
      Fail(at, "there is no value here", "a number, a name, a function or '('", "complete the expression");
      return 0;
    }
    if (IsFunction(name)) return Call(name);
    const auto known = names_.find(name);
    if (known != names_.end()) return known->second;
    Fail(at, absl::StrCat("'", name.substr(0, kNameBytesMax), "' is not known"),
         absl::StrCat("one of ", Known()), "declare it in slots or params, or assign it first");
    return 0;
  }

  ValueId Call(absl::string_view name) {
    Expect("(");
    if (name == kSelect) return Select();
    const Function& function = *std::ranges::find(kFunctions, name, &Function::name);
    const ValueId first = Sum();
    ValueId second = first;
    if (function.arguments == 2) {
      Expect(",");
      second = Sum();
    }
    Expect(")");
    return Add(function.operation, {first, second});
  }

  // select(a < b, x, y)
  ValueId Select() {
    const ValueId a = Sum();
    const size_t at = at_;
    Operation operation = Operation::kIfEqual;
    bool turned = false;  // the operands, or what is chosen, change places
    if (Take("<=")) {
      operation = Operation::kIfLessOrEqual;
    } else if (Take("<")) {
      operation = Operation::kIfLess;
    } else if (Take(">=")) {
      operation = Operation::kIfLessOrEqual;
      turned = true;
    } else if (Take(">")) {
      operation = Operation::kIfLess;
      turned = true;
    } else if (Take("!=")) {
      turned = true;
    } else if (!Take("==")) {
      Fail(at, "select lacks its comparison",
           "select(a < b, x, y) with <, <=, >, >=, == or !=", "compare two values");
      return 0;
    }
    const ValueId b = Sum();
    Expect(",");
    const ValueId yes = Sum();
    Expect(",");
    const ValueId no = Sum();
    Expect(")");
    if (operation == Operation::kIfEqual) {
      return turned ? Add(operation, {a, b, no, yes}) : Add(operation, {a, b, yes, no});
    }
    return turned ? Add(operation, {b, a, yes, no}) : Add(operation, {a, b, yes, no});
  }

  ValueId Number() {
    const char* const begin = source_.code.data() + at_;
    const char* const end = source_.code.data() + source_.code.size();
    float value = 0;
    const absl::from_chars_result read = absl::from_chars(begin, end, value, absl::chars_format::general);
    const auto length = static_cast<size_t>(read.ptr - begin);
    const bool hexadecimal = source_.code.substr(at_, length).find_first_of("xX") != absl::string_view::npos;
    if (length == 0 || hexadecimal || (read.ptr != end && (InName(*read.ptr) || *read.ptr == '.'))) {
      Fail(at_, "this is no number", "one such as 2, 0.5 or 1e-8", "put an operator between number and name");
      return 0;
    }
    if (read.ec == std::errc::result_out_of_range || (value != 0 && !std::isnormal(value))) {
      Fail(at_, "an f32 cannot hold this number", "0, or 1.2e-38 to 3.4e38", "use another number");
      return 0;
    }
    at_ += length;
    SkipSpaces();
    return Constant(value);
  }

  ValueId Add(Operation operation, std::initializer_list<ValueId> of) {
    if (!failed_.ok()) return 0;
    if (++operations_ > kOperationsMax) {
      Fail(at_, absl::StrCat("this is operation ", operations_), absl::StrCat("at most ", kOperationsMax),
           "compute some of it in the workers");
      return 0;
    }
    Value value{.kind = Value::Kind::kResult, .operation = operation};
    value.of.fill(*of.begin());
    std::ranges::copy(of, value.of.begin());
    value.uniform = std::ranges::all_of(value.of, [this](ValueId id) { return graph_.values[id].uniform; });
    return graph_.Add(value);
  }

  // -- characters --

  absl::string_view Rest() const { return source_.code.substr(at_); }
  bool AtEnd() {
    SkipSpaces();
    return at_ == source_.code.size();
  }
  void SkipSpaces() {
    while (at_ < source_.code.size() && IsSpace(source_.code[at_])) ++at_;
  }
  bool Take(absl::string_view token) {
    SkipSpaces();
    if (!failed_.ok() || !absl::StartsWith(Rest(), token)) return false;
    at_ += token.size();
    SkipSpaces();
    return true;
  }
  absl::string_view TakeName() {
    SkipSpaces();
    const absl::string_view name = NameAt(Rest());
    at_ += name.size();
    SkipSpaces();
    return name;
  }
  void Expect(absl::string_view token) {
    if (failed_.ok() && !Take(token)) {
      Fail(at_, absl::StrCat("'", token, "' is missing"), absl::StrCat("'", token, "'"), "add it");
    }
  }

  // The first error is the one that is told.
  void Fail(size_t at, absl::string_view what, absl::string_view expected, absl::string_view remedy) {
    if (!failed_.ok()) return;
    const absl::string_view before = source_.code.substr(0, at);
    const auto line = std::ranges::count(before, '\n') + 1;
    const size_t line_begin = before.rfind('\n') == absl::string_view::npos ? 0 : before.rfind('\n') + 1;
    const absl::string_view found = source_.code.substr(at, kNameBytesMax);
    failed_ = absl::InvalidArgumentError(
        absl::StrCat("rule.code, line ", line, ", character ", at - line_begin + 1,
                     found.empty() ? std::string(" (its end)") : absl::StrCat(" (", Escaped(found), ")"),
                     ": ", what, "; expected ", expected, ": ", remedy));
  }

  const Source& source_;
  size_t at_ = 0;  // always at a character that is no space, or at the end, once something was taken
  size_t depth_ = 0;
  size_t operations_ = 0;
  absl::Status failed_;
  Graph graph_;
  std::map<absl::string_view, ValueId> names_;  // as they are after the statements so far
  bool wrote_value_ = false;
};

}  // namespace

absl::StatusOr<Graph> Parse(const Source& source) {
  return Parser(source).Parse();
}

bool CountsSteps(absl::string_view code) {
  while (!code.empty()) {
    const absl::string_view name = NameAt(code);
    if (name == kStep) return true;
    code.remove_prefix(std::max<size_t>(name.size(), 1));
  }
  return false;
}

}  // namespace paceline::expression
