#include "decode/jpeg/baseline/scan_reader.h"

#include <algorithm>

#include "decode/jpeg/kernels/jpeg_kernels.h"

namespace stoker::jpeg {

ScanReader::ScanReader() {
    for (Stream& stream : streams_)
        for (int i = 0; i < static_cast<int>(stream.stored.size()); ++i)
            stream.stored[static_cast<std::size_t>(i)].block = stream.coefficients.data() + i / 2 * kCoefficients;
}

bool ScanReader::begin(const Frame& frame) {
    if (!tables_.set(frame)) return false;
    blocks_per_mcu_ = frame.blocks_per_mcu();
    const int luma = blocks_per_mcu_ == 1 ? 1 : blocks_per_mcu_ - 2;
    for (int i = 0; i < blocks_per_mcu_; ++i)
        component_of_[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(std::max(0, i - luma + 1));
    set_phases(frame);
    mcus_per_row_ = frame.mcus_per_row();
    has_restarts_ = frame.restart_interval != 0;
    has_row_intervals_ = has_restarts_ && mcus_per_row_ % frame.restart_interval == 0;
    interval_mcus_ = has_restarts_ ? frame.restart_interval : mcus_per_row_ * frame.mcu_rows();
    end_ = frame.end;
    return true;
}

void ScanReader::seek(std::int64_t interval, const std::uint8_t* data) {
    rows_ = 1;
    streams_[0].interval = interval;
    streams_[0].interval_data = data;
    start_interval(streams_[0], interval);
}

void ScanReader::set_phases(const Frame& frame) {
    for (int i = 0; i <= kChunkBlocks; ++i) {
        const Component& component = frame.component[component_of_[static_cast<std::size_t>(i % blocks_per_mcu_)]];
        const auto at = static_cast<std::size_t>(2 * i);
        for (Stream& stream : streams_) {
            stream.stored[at].table = &tables_.dc(component.dc);
            if (i != kChunkBlocks) stream.stored[at + 1].table = &tables_.ac(component.ac);
        }
        skipped_[at].table = &tables_.skipped_dc(component.dc);
        if (i != kChunkBlocks) skipped_[at + 1].table = &tables_.skipped_ac(component.ac);
    }
}

// Begins an interval that is not before the current one of the stream.
bool ScanReader::start_interval(Stream& stream, std::int64_t interval) const {
    for (; stream.interval < interval; ++stream.interval) {
        const std::uint8_t* marker = kernels().find_marker(stream.interval_data, end_);
        if (end_ - marker < 2 || marker[1] != 0xD0 + (stream.interval & 7)) return false;
        stream.interval_data = marker + 2;
    }
    stream.source.begin(stream.interval_data, end_, stream.symbols);
    stream.predictions.fill(0);
    stream.mcu = interval * interval_mcus_;
    return true;
}

// Begins the intervals of an MCU and of the one below it, in rows after those that were read.
bool ScanReader::start_rows(std::int64_t mcu) {
    Stream &upper = streams_[0], &lower = streams_[1];
    if (rows_ == 2) {
        upper.interval = lower.interval;
        upper.interval_data = lower.interval_data;
    }
    rows_ = 2;
    if (!start_interval(upper, mcu / interval_mcus_)) return false;
    lower.interval = upper.interval;
    lower.interval_data = upper.interval_data;
    return start_interval(lower, (mcu + mcus_per_row_) / interval_mcus_);
}

bool ScanReader::skip_to(std::int64_t mcu, int rows) {
    if (rows == 2) {
        if (!start_rows(mcu)) return false;
    } else {
        if (rows_ == 2) {
            streams_[0].interval = streams_[1].interval;
            streams_[0].interval_data = streams_[1].interval_data;
            rows_ = 1;
        }
        const std::int64_t interval = mcu / interval_mcus_;
        if (has_restarts_ && interval > streams_[0].interval && !start_interval(streams_[0], interval)) return false;
    }
    while (streams_[0].mcu < mcu)
        if (!skip_piece(static_cast<int>(std::min<std::int64_t>(mcu - streams_[0].mcu, max_mcus())))) return false;
    return true;
}

bool ScanReader::decode(int mcus) {
    for (int row = 0; row < rows_; ++row)
        std::fill_n(streams_[row].coefficients.data(), mcus * blocks_per_mcu_ * kCoefficients, std::int16_t{0});
    for (int begin = 0; begin < mcus;) {
        const int count = left_in_interval(mcus - begin);
        if (count == 0 || !decode_piece(begin, begin + count)) return false;
        begin += count;
    }
    return true;
}

// Begins the next intervals if the current ones have ended. Returns the number of their MCUs that are left, of at most
// `mcus`; 0 if a next interval does not begin with its marker.
int ScanReader::left_in_interval(int mcus) {
    const Stream& stream = streams_[0];
    if (stream.mcu == (stream.interval + 1) * interval_mcus_)
        for (int row = 0; row < rows_; ++row)
            if (!start_interval(streams_[row], streams_[row].interval + 1)) return 0;
    return static_cast<int>(std::min<std::int64_t>(mcus, (stream.interval + 1) * interval_mcus_ - stream.mcu));
}

// Decodes MCUs [begin, end) of a chunk.
bool ScanReader::decode_piece(int begin, int end) {
    std::array<SymbolRun, kMaxRowsAtOnce> runs;
    for (int row = 0; row < rows_; ++row) {
        Stream& stream = streams_[row];
        stream.source.refill(stream.symbols);
        runs[row] = {&stream.symbols, stream.stored.data() + 2 * begin * blocks_per_mcu_,
                     stream.stored.data() + 2 * end * blocks_per_mcu_};
    }
    if (rows_ == 2)
        kernels().decode_two(runs[0], runs[1]);
    else
        kernels().decode_symbols(*runs[0].stream, runs[0].phase, runs[0].end);
    bool is_sound = true;
    for (int row = 0; row < rows_; ++row) is_sound &= add_differences(streams_[row], begin, end);
    return is_sound;
}

// Adds up the differences of the DC coefficients of MCUs that were decoded. Returns false if the data is damaged.
bool ScanReader::add_differences(Stream& stream, int begin, int end) const {
    const Phase* phase = stream.stored.data() + 2 * begin * blocks_per_mcu_;
    std::uint64_t positions = 0;
    for (int mcu = begin; mcu < end; ++mcu)
        for (int i = 0; i < blocks_per_mcu_; ++i, phase += 2) {
            std::uint32_t& prediction = stream.predictions[component_of_[static_cast<std::size_t>(i)]];
            prediction += static_cast<std::uint32_t>(*phase->block);
            *phase->block = static_cast<std::int16_t>(prediction);
            positions |= phase[0].last | phase[1].last;
        }
    stream.mcu += end - begin;
    return (positions & kErrorStep) == 0 && !stream.source.overrun(stream.symbols);
}

// Reads at most `mcus` MCUs of each row without storing them.
bool ScanReader::skip_piece(int mcus) {
    mcus = left_in_interval(mcus);
    if (mcus == 0) return false;
    bool is_sound = true;
    for (int row = 0; row < rows_; ++row) is_sound &= skip_piece(streams_[row], mcus);
    return is_sound;
}

// Reads MCUs, and keeps only the differences of their DC coefficients.
bool ScanReader::skip_piece(Stream& stream, int mcus) {
    stream.source.refill(stream.symbols);
    const unsigned positions =
        kernels().skip_symbols(stream.symbols, skipped_.data(), skipped_.data() + 2 * mcus * blocks_per_mcu_);
    for (int i = 0; i < mcus * blocks_per_mcu_; ++i) {
        const auto at = static_cast<std::size_t>(i);
        std::uint32_t& prediction = stream.predictions[component_of_[at % static_cast<std::size_t>(blocks_per_mcu_)]];
        prediction += static_cast<std::uint32_t>(stream.stored[2 * at].table->value(skipped_[2 * at].window));
    }
    stream.mcu += mcus;
    return (positions & kErrorStep) == 0 && !stream.source.overrun(stream.symbols);
}

}  // namespace stoker::jpeg
