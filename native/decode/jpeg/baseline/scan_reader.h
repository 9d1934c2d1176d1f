// The reader of the entropy-coded data: quantised coefficients of MCUs, in the order of the file.
#pragma once

#include <array>
#include <cstdint>

#include "decode/jpeg/baseline/byte_source.h"
#include "decode/jpeg/baseline/frame.h"
#include "decode/jpeg/baseline/huffman.h"

namespace stoker::jpeg {

// The position at which a block without AC coefficients ends.
constexpr std::uint64_t kOnlyDc = kEndStep;
// The most rows of MCUs that are decoded at once.
constexpr int kMaxRowsAtOnce = 2;

// Reads one row of MCUs, or two at once where each row begins with a restart interval: two streams are decoded faster
// together than one after the other.
class ScanReader {
  public:
    ScanReader();

    // Returns false if libjpeg-turbo must decode the image. The payload must outlive the reading, which begins with
    // seek().
    bool begin(const Frame& frame);
    // How many rows can be read at once.
    int max_rows() const { return has_row_intervals_ ? kMaxRowsAtOnce : 1; }
    // The most MCUs that decode() takes at once.
    int max_mcus() const { return kChunkBlocks / blocks_per_mcu_; }
    // Begins with the restart interval of this number, which lies at `data`; interval 0 without restarts.
    void seek(std::int64_t interval, const std::uint8_t* data);
    // Moves forward to an MCU, and to those below it in the next rows. Restart intervals between are left out; other
    // MCUs are read without being stored. Returns false if the data is damaged.
    bool skip_to(std::int64_t mcu, int rows = 1);
    // Decodes the next MCUs of all rows. Returns false if the data is damaged.
    bool decode(int mcus);
    // A block of the MCUs of a row that were decoded last, and the position of its last coefficient.
    const std::int16_t* block(int row, int i) const { return streams_[row].coefficients.data() + i * kCoefficients; }
    std::uint64_t last(int row, int i) const { return streams_[row].stored[static_cast<std::size_t>(2 * i + 1)].last; }

  private:
    // The reading of one row.
    struct Stream {
        ByteSource source;
        SymbolStream symbols;
        std::array<Phase, 2 * kChunkBlocks + 1> stored;
        alignas(64) std::array<std::int16_t, kChunkBlocks * kCoefficients + kBlockSlots> coefficients{};
        std::array<std::uint32_t, kMaxComponents> predictions{};
        std::int64_t mcu = 0;       // the next to decode
        std::int64_t interval = 0;  // the number of the current interval
        const std::uint8_t* interval_data = nullptr;
    };

    void set_phases(const Frame& frame);
    bool start_interval(Stream& stream, std::int64_t interval) const;
    bool start_rows(std::int64_t mcu);
    int left_in_interval(int mcus);
    bool decode_piece(int begin, int end);
    bool add_differences(Stream& stream, int begin, int end) const;
    bool skip_piece(int mcus);
    bool skip_piece(Stream& stream, int mcus);

    HuffmanTables tables_;
    std::array<Stream, kMaxRowsAtOnce> streams_;
    int rows_ = 1;  // that are read at once
    std::array<SkipPhase, 2 * kChunkBlocks + 1> skipped_;

    int blocks_per_mcu_ = 1;
    std::array<std::uint8_t, kMaxBlocks> component_of_{};  // of each block of an MCU
    bool has_restarts_ = false;
    bool has_row_intervals_ = false;   // rows begin with a restart interval
    std::int64_t interval_mcus_ = 0;   // MCUs of a restart interval; all, without restarts
    std::int64_t mcus_per_row_ = 0;
    const std::uint8_t* end_ = nullptr;
};

}  // namespace stoker::jpeg
