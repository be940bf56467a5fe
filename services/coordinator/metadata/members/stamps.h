#pragma once

#include "paceline/v1/coordinator.pb.h"

namespace paceline::coordinator {

// Each start of a shard with a folder draws a stamp: a count, one more than the previous start's, and a
// random number. The stamp is synced into the folder, which keeps the last two, and then committed to the
// store in place of the previous one. So wherever a start ended, the store has one of the folder's two
// stamps:
enum class FolderAge {
  kGood,
  kStoreBehind,  // the store's stamp is older than the folder's last two: the store was set back
  kFolderOld,    // the store's stamp is newer than them: the folder was set back
  kCopy,         // same count, other random number: starts from two copies of one folder
};
FolderAge AgeOf(const v1::DataFolder& folder, const v1::Stamp& stored);

bool SameStamp(const v1::Stamp& a, const v1::Stamp& b);

}  // namespace paceline::coordinator
