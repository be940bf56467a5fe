#include "services/coordinator/metadata/members/stamps.h"

namespace paceline::coordinator {

bool SameStamp(const v1::Stamp& a, const v1::Stamp& b) {
  return a.count() == b.count() && a.random() == b.random();
}

FolderAge AgeOf(const v1::DataFolder& folder, const v1::Stamp& stored) {
  if (SameStamp(stored, folder.previous()) || SameStamp(stored, folder.newest())) return FolderAge::kGood;
  if (stored.count() < folder.previous().count()) return FolderAge::kStoreBehind;
  if (stored.count() > folder.newest().count()) return FolderAge::kFolderOld;
  return FolderAge::kCopy;
}

}  // namespace paceline::coordinator
