#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "paceline/v1/coordinator.pb.h"
#include "services/coordinator/metadata/facts/context.h"
#include "services/coordinator/metadata/members/membership.h"
#include "services/coordinator/metadata/sessions/sessions.h"

namespace paceline::coordinator {

// The tables of all jobs. The first opening of a name creates the table. A later one must state the same
// schema: the present one, or, if rates have changed since, the one that the table was created with.
class Tables {
 public:
  Tables(Context& context, Membership& membership, Sessions& sessions)
      : context_(context), membership_(membership), sessions_(sessions) {}

  // Returns once the table is in the store; does not wait until shards know it.
  //   kAlreadyExists       it exists with another schema; the message names the first field and both values
  //   kNotFound            it does not exist and `create` is not set
  //   kInvalidArgument     the schema or the name is wrong, by field
  //   kFailedPrecondition  some shard is too old for its rule, or the table is aggregated and the session
  //                        would hold back updates
  absl::StatusOr<v1::OpenTableReply> Open(const v1::OpenTableRequest& request);

 private:
  absl::Status CheckSame(const v1::Table& table, const v1::TableSchema& schema) const;
  // Workers of the table allow its bound to be as large.
  absl::Status AllowBound(v1::Table table, uint32_t bound_max);
  // OK: sessions may hold back updates of such a table.
  absl::Status CheckHoldsBack(const v1::OpenTableRequest& request, const v1::TableSchema& schema) const;
  // From now on manifests say that some do.
  absl::Status HoldBack(v1::Table table);
  absl::StatusOr<v1::Table> Create(uint32_t job, const v1::OpenTableRequest& request);

  Context& context_;
  Membership& membership_;
  Sessions& sessions_;
};

}  // namespace paceline::coordinator
