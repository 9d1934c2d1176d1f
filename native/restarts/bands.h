// The bands of a JPEG with restart markers: parts of a payload that have their own checksums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "records/sample_columns.h"
#include "records/shards.h"

namespace stoker {

// The headers of a JPEG, and bands of its MCU rows from the top down, all with the same number of rows except the
// last. They follow each other, and the last one ends with the payload. This is a row of the index column
// `jpeg_bands`: two numbers for each part, its first byte and its CRC32C.
class Bands {
  public:
    Bands() = default;
    // Zeros after the last part are padding.
    explicit Bands(std::span<const std::uint32_t> numbers);

    // The number of bands, without the headers; 0 if the payload has none.
    std::size_t count() const { return numbers_.size() < 4 ? 0 : numbers_.size() / 2 - 1; }
    // Whether there are bands, and the parts lie in a payload of so many bytes, one after the other.
    bool fit(std::size_t payload_size) const;
    // The first byte of a band. That of the band after the last one is the end of the payload.
    std::size_t start(std::size_t band, std::size_t payload_size) const;
    // The MCU rows of each band except the last, where the image has `rows`.
    int rows_per_band(int rows) const { return (rows + static_cast<int>(count()) - 1) / static_cast<int>(count()); }

    bool headers_match(const Payload& payload) const;
    // Whether the bands [first, last) have their checksums. No other byte is looked at.
    bool match(const Payload& payload, std::size_t first, std::size_t last) const;

  private:
    std::span<const std::uint32_t> numbers_;
};

// Returns the bands of sample `i`.
inline Bands bands_of(const SampleColumns& samples, std::size_t i) {
    if (samples.bands.data == nullptr) return {};
    return Bands({samples.bands.row(i), samples.bands.row_size});
}

// Returns the numbers of the bands of a JPEG whose restart intervals divide its MCU rows, or none for other images.
// A band has about 8 KiB, or a 64th of a large payload.
std::vector<std::uint32_t> make_bands(const Payload& jpeg);

}  // namespace stoker
