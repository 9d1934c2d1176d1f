// A comparison of the kernels of the JPEG decoder for this machine with those in plain C++, on random coefficients and
// samples, of any size: every sample and pixel must be equal.
//
//     jpeg_kernels INPUTS SEED
//
// STOKER_CPU_LEVEL chooses the kernels. tests/sanitize/run.sh builds and runs this program.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "cpu/cpu.h"
#include "decode/jpeg/kernels/jpeg_kernels.h"

namespace stoker::jpeg {
extern const JpegKernels plain_kernels;
}

namespace {

using namespace stoker::jpeg;
using Random = std::mt19937_64;

constexpr int kMost = 200;       // samples of a row
constexpr int kFirst = 64;       // the first sample of a row, which has others before it
constexpr int kBlocks = 5;
using Row = std::array<std::uint8_t, kFirst + kMost + 2 * kSampleSlack>;
using Out = std::array<std::uint8_t, 3 * kMost + kRgbSlack>;

int below(Random& random, int limit) { return static_cast<int>(random() % static_cast<std::uint64_t>(limit)); }

Row random_row(Random& random) {
    Row row;
    const bool extreme = below(random, 2) == 0;
    for (std::uint8_t& sample : row)
        sample = static_cast<std::uint8_t>(extreme ? 255 * below(random, 2) : below(random, 256));
    return row;
}

// Blocks with few or many coefficients, as an encoder writes them or of any size.
bool equal_blocks(Random& random) {
    std::array<std::array<std::int16_t, kCoefficients>, kBlocks> blocks{};
    std::array<std::uint16_t, kCoefficients> quanta{};
    const int largest = 1 << (3 + below(random, 13)), used = 1 + below(random, 64);
    for (auto& block : blocks)
        for (int i = 0; i < used; ++i)
            block[kZigzag[i]] = static_cast<std::int16_t>(below(random, 2 * largest) - largest);
    const int largest_quantum = 1 << (1 + below(random, 15));
    for (std::uint16_t& quantum : quanta) quantum = static_cast<std::uint16_t>(below(random, largest_quantum));
    constexpr std::ptrdiff_t stride = 8 * kBlocks + kSampleSlack;
    for (std::size_t kind = 0; kind < 4; ++kind) {
        std::array<std::array<std::uint8_t, 9 * stride>, 2> samples{};
        for (int table = 0; table < 2; ++table) {
            std::array<DctBlock, kBlocks> dct;
            for (int i = 0; i < kBlocks; ++i) dct[i] = {blocks[i].data(), samples[table].data() + (i << kind)};
            (table != 0 ? kernels() : plain_kernels).inverse_dct[kind](dct.data(), kBlocks, quanta.data(), stride);
        }
        for (int y = 0; y < 1 << kind; ++y)
            for (int x = 0; x < kBlocks << kind; ++x)
                if (samples[0][y * stride + x] != samples[1][y * stride + x]) return false;
    }
    return true;
}

template <class Kernel>
bool equal_rows(int bytes, Kernel kernel) {
    Out plain{}, chosen{};
    kernel(plain_kernels, plain.data());
    kernel(kernels(), chosen.data());
    return std::equal(plain.begin(), plain.begin() + bytes, chosen.begin());
}

bool equal_samples(Random& random) {
    const Row a = random_row(random), b = random_row(random), c = random_row(random);
    const std::uint8_t *y = a.data() + kFirst, *cb = b.data() + kFirst, *cr = c.data() + kFirst;
    const int n = 1 + below(random, kMost);
    return equal_rows(2 * n, [&](auto& table, auto* out) { table.upsample_h2v1(y, n, out); }) &&
           equal_rows(2 * n, [&](auto& table, auto* out) { table.upsample_h2v2(y, cb, n, out); }) &&
           equal_rows(n, [&](auto& table, auto* out) { table.upsample_h1v2(y, cb, n, 1, out); }) &&
           equal_rows(2 * n, [&](auto& table, auto* out) { table.repeat_h2(y, n, out); }) &&
           equal_rows(3 * n, [&](auto& table, auto* out) { table.ycbcr_to_rgb(y, cb, cr, n, out); }) &&
           equal_rows(3 * n, [&](auto& table, auto* out) { table.grey_to_rgb(y, n, out); });
}

// Bytes with zeros behind each 0xFF, and now and then a marker.
bool equal_scans(Random& random) {
    Row bytes = random_row(random);
    for (std::size_t i = 1; i < bytes.size(); ++i)
        if (bytes[i - 1] == 0xFF && below(random, 100) != 0) bytes[i] = 0;
    const std::uint8_t* begin = bytes.data() + below(random, 64);
    const std::uint8_t* end = bytes.data() + bytes.size() - below(random, 64);
    if (plain_kernels.find_marker(begin, end) != kernels().find_marker(begin, end)) return false;
    Out plain{}, chosen{};
    const Unstuffed a = plain_kernels.unstuff(begin, end, plain.data(), bytes.size());
    const Unstuffed b = kernels().unstuff(begin, end, chosen.data(), bytes.size());
    return a.source == b.source && a.bytes == b.bytes && a.ended == b.ended &&
           std::equal(plain.begin(), plain.begin() + static_cast<std::ptrdiff_t>(a.bytes), chosen.begin());
}

}  // namespace

int main(int count, char** words) {
    if (count != 3) {
        std::fprintf(stderr, "usage: jpeg_kernels INPUTS SEED\n");
        return 2;
    }
    Random random(std::strtoull(words[2], nullptr, 10));
    const long inputs = std::strtol(words[1], nullptr, 10);
    for (long i = 0; i < inputs; ++i)
        if (!equal_blocks(random) || !equal_samples(random) || !equal_scans(random)) {
            std::printf("input %ld differs\n", i);
            return 1;
        }
    std::printf("%ld inputs, kernels for %s: all equal\n", inputs, stoker::name(stoker::cpu_level()));
}
