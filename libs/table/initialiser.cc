#include "libs/table/initialiser.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "libs/ring/hash.h"
#include "libs/table/about.h"

namespace paceline::table {
namespace internal {
namespace {

static_assert(std::numeric_limits<double>::is_iec559 && std::numeric_limits<float>::is_iec559);

// coefficients[0] + coefficients[1] * x + …, by Horner's rule.
template <size_t n>
double Polynomial(const std::array<double, n>& coefficients, double x) {
  double sum = coefficients[n - 1];
  for (size_t i = n - 1; i-- > 0;) sum = sum * x + coefficients[i];
  return sum;
}

// A ratio of two polynomials of degree 7.
struct Ratio {
  std::array<double, 8> above;
  std::array<double, 8> below;
  double operator()(double x) const { return Polynomial(above, x) / Polynomial(below, x); }
};

// AS 241's coefficients: for |p - 1/2| <= 0.425, for tails down to e^-25, and beyond.
constexpr Ratio kCentre = {
    {3.3871328727963666080e0, 1.3314166789178437745e+2, 1.9715909503065514427e+3, 1.3731693765509461125e+4,
     4.5921953931549871457e+4, 6.7265770927008700853e+4, 3.3430575583588128105e+4, 2.5090809287301226727e+3},
    {1.0, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3,
     2.1213794301586595867e+4, 3.9307895800092710610e+4, 2.8729085735721942674e+4, 5.2264952788528545610e+3}};
constexpr Ratio kTail = {{1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
                          3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
                          2.27238449892691845833e-2, 7.74545014278341407640e-4},
                         {1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
                          1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
                          1.05075007164441684324e-9}};
constexpr Ratio kFarTail = {{6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
                             2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                             2.71155556874348757815e-5, 2.01033439929228813265e-7},
                            {1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1,
                             1.48753612908506148525e-2, 7.86869131145613259100e-4, 1.84631831751005468180e-5,
                             1.42151175831644588870e-7, 2.04426310338993978564e-15}};

}  // namespace

// x = m * 2^e with m in [1/sqrt(2), sqrt(2)); log m = 2 artanh(s), s = (m - 1) / (m + 1), |s| < 0.172.
double Log(double x) {
  constexpr double kLn2 = 0.69314718055994530942;
  constexpr double kSqrt2 = 1.41421356237309504880;
  constexpr uint64_t kMantissa = (uint64_t{1} << 52) - 1;
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & kMantissa) | (uint64_t{1023} << 52));
  if (m >= kSqrt2) {
    m = m * 0.5;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1);
  // The series of artanh; the first term left out is below 2^-57 of the sum.
  static constexpr std::array<double, 11> kOdd = {1.0,      1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9, 1.0 / 11,
                                                  1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21};
  return exponent * kLn2 + 2 * s * Polynomial(kOdd, s * s);
}

double NormalQuantile(double p) {
  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) return q * kCentre(0.180625 - q * q);
  const double r = std::sqrt(-Log(q < 0 ? p : 1 - p));
  const double z = r <= 5 ? kTail(r - 1.6) : kFarTail(r - 5);
  return q < 0 ? -z : z;
}

}  // namespace internal

namespace {

// The SplitMix64 stream of one row.
class RowStream {
 public:
  RowStream(uint64_t seed, uint64_t key, uint64_t column)
      : state_(ring::Mix64(ring::Mix64(seed), key) + column * kGolden) {}
  double Fraction() { return static_cast<double>(Next() >> 11) * 0x1p-53; }
  // Of odd multiples of 2^-53: never 0 or 1, and both p and 1 - p are exact.
  double Normal() { return internal::NormalQuantile(static_cast<double>(2 * (Next() >> 12) + 1) * 0x1p-53); }

 private:
  uint64_t Next() { return ring::Mix64(state_ += kGolden); }

  static constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;
  uint64_t state_;
};

}  // namespace

void Fill(const Initialiser& init, uint64_t seed, uint64_t key, uint32_t first_column,
          absl::Span<float> out) {
  RowStream words(seed, key, first_column);
  std::visit(
      [&]<class T>(const T& chosen) {
        for (float& value : out) value = About<T>::Value(chosen, words);
      },
      init);
}

}  // namespace paceline::table
