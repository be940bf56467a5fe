#include "libs/secret/secret.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "absl/strings/str_format.h"

namespace paceline::secret {

static_assert(kDigestBytes == SHA256_DIGEST_LENGTH);

std::string Draw(world::Random& random) {
  const uint64_t high = random.Next();
  return absl::StrFormat("%016x%016x", high, random.Next());
}

std::string Sha256(absl::string_view secret) {
  std::string digest(kDigestBytes, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(secret.data()), secret.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

bool Equal(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace paceline::secret
