#include "restarts/bands.h"

#include <algorithm>

#include "records/crc32c.h"
#include "restarts/layout.h"

namespace stoker {
namespace {

constexpr std::size_t kBandBytes = 8192;
constexpr std::size_t kMaxBands = 64;

}  // namespace

Bands::Bands(std::span<const std::uint32_t> numbers) {
    std::size_t size = numbers.size() / 2 * 2;
    while (size > 2 && numbers[size - 2] == 0) size -= 2;
    numbers_ = numbers.first(size);
}

bool Bands::fit(std::size_t payload_size) const {
    if (count() == 0 || numbers_[0] != 0) return false;
    for (std::size_t i = 2; i < numbers_.size(); i += 2)
        if (numbers_[i] <= numbers_[i - 2]) return false;
    return numbers_[numbers_.size() - 2] < payload_size;
}

std::size_t Bands::start(std::size_t band, std::size_t payload_size) const {
    return band < count() ? numbers_[2 * band + 2] : payload_size;
}

bool Bands::headers_match(const Payload& payload) const {
    return crc32c(payload.data, start(0, payload.size)) == numbers_[1];
}

bool Bands::match(const Payload& payload, std::size_t first, std::size_t last) const {
    for (std::size_t band = first; band < last; ++band) {
        const std::size_t begin = start(band, payload.size), end = start(band + 1, payload.size);
        if (crc32c(payload.data + begin, end - begin) != numbers_[2 * band + 3]) return false;
    }
    return true;
}

std::vector<std::uint32_t> make_bands(const Payload& jpeg) {
    const std::optional<RestartLayout> layout = read_layout(jpeg);
    if (!layout) return {};
    const std::vector<std::size_t> starts = interval_starts(jpeg, *layout);
    if (starts.empty()) return {};
    const auto rows = static_cast<std::size_t>(layout->rows());
    const std::size_t target = std::max(kBandBytes, jpeg.size / kMaxBands);
    const std::size_t most = std::clamp<std::size_t>((jpeg.size - layout->scan) / target, 1, std::min(rows, kMaxBands));
    const std::size_t per_band = (rows + most - 1) / most;
    std::vector<std::uint32_t> numbers{0};
    const auto close = [&](std::size_t end) {
        const std::size_t begin = numbers.back();
        numbers.push_back(crc32c(jpeg.data + begin, end - begin));
    };
    for (std::size_t row = 0; row < rows; row += per_band) {
        const std::size_t start = starts[row * static_cast<std::size_t>(layout->intervals_per_row())];
        close(start);
        numbers.push_back(static_cast<std::uint32_t>(start));
    }
    close(jpeg.size);
    return numbers;
}

}  // namespace stoker
