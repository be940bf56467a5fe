#pragma once

#include "paceline/v1/coordinator.pb.h"

namespace paceline::coordinator {

// Each start of a shard that has a folder draws a stamp: a count, one more than that of the start before, and
// a random number. It is synced into the folder, which keeps the last two, and then comes to the store in the
// place of the one before. So the store has one of the folder's two, wherever a start may have ended:
enum class FolderAge {
  kGood,
  kStoreBehind,  // the store has a stamp from before the folder's last two: it was set back
  kFolderOld,    // it has one from after them: the folder was
  kCopy,         // it has another one of the same count: of two starts from copies of one folder
};
FolderAge AgeOf(const v1::DataFolder& folder, const v1::Stamp& stored);

bool SameStamp(const v1::Stamp& a, const v1::Stamp& b);

}  // namespace paceline::coordinator
