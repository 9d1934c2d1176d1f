// The reader of the entropy-coded data: quantised coefficients of MCUs, in the order of the file.
#pragma once

#include <array>
#include <cstdint>

#include "decode/jpeg/byte_source.h"
#include "decode/jpeg/frame.h"
#include "decode/jpeg/huffman.h"

namespace stoker::jpeg {

// A position of the last coefficient of a block without AC coefficients.
constexpr std::uint64_t kOnlyDc = kEndStep;

class ScanReader {
  public:
    ScanReader();

    // Returns false if libjpeg-turbo must decode the image. The payload must outlive the reading, which begins with
    // seek().
    bool begin(const Frame& frame);
    // The most MCUs that decode() takes at once.
    int max_mcus() const { return kChunkBlocks / blocks_per_mcu_; }
    // Begins with the restart interval of this number, which lies at `data`; interval 0 without restarts.
    void seek(std::int64_t interval, const std::uint8_t* data);
    // Moves forward to an MCU. Restart intervals between are left out; other MCUs are read without being stored.
    // Returns false if the data is damaged.
    bool skip_to(std::int64_t mcu);
    // Decodes MCUs. Returns false if the data is damaged.
    bool decode(int mcus);
    // A block of the MCUs that were decoded last, and the position of its last coefficient.
    const std::int16_t* block(int i) const { return coefficients_.data() + i * kCoefficients; }
    std::uint64_t last(int i) const { return stored_[static_cast<std::size_t>(2 * i + 1)].last; }

  private:
    void set_phases(const Frame& frame);
    bool start_interval(std::int64_t interval);
    int left_in_interval(int mcus);
    bool decode_piece(int begin, int end);
    bool skip_piece(int mcus);

    HuffmanTables tables_;
    ByteSource source_;
    SymbolStream stream_;
    std::array<Phase, 2 * kChunkBlocks + 1> stored_;
    std::array<SkipPhase, 2 * kChunkBlocks + 1> skipped_;
    alignas(64) std::array<std::int16_t, kChunkBlocks * kCoefficients + kBlockSlots> coefficients_{};

    int blocks_per_mcu_ = 1;
    std::array<std::uint8_t, kMaxBlocks> component_of_{};  // of each block of an MCU
    std::array<std::uint32_t, kMaxComponents> predictions_{};
    bool has_restarts_ = false;
    std::int64_t mcu_ = 0;                // the next to decode
    std::int64_t interval_mcus_ = 0;      // MCUs of a restart interval; all, without restarts
    std::int64_t interval_ = 0;           // the number of the current interval
    const std::uint8_t* interval_data_ = nullptr;
    const std::uint8_t* end_ = nullptr;
};

}  // namespace stoker::jpeg
