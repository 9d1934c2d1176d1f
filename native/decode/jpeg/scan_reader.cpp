#include "decode/jpeg/scan_reader.h"

#include <algorithm>

#include "decode/jpeg/kernels/jpeg_kernels.h"

namespace stoker::jpeg {

ScanReader::ScanReader() {
    for (int i = 0; i < static_cast<int>(stored_.size()); ++i)
        stored_[static_cast<std::size_t>(i)].block = coefficients_.data() + i / 2 * kCoefficients;
}

bool ScanReader::begin(const Frame& frame) {
    if (!tables_.set(frame)) return false;
    blocks_per_mcu_ = frame.blocks_per_mcu();
    const int luma = blocks_per_mcu_ == 1 ? 1 : blocks_per_mcu_ - 2;
    for (int i = 0; i < blocks_per_mcu_; ++i)
        component_of_[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(std::max(0, i - luma + 1));
    set_phases(frame);
    const std::int64_t mcus = static_cast<std::int64_t>(frame.mcus_per_row()) * frame.mcu_rows();
    has_restarts_ = frame.restart_interval != 0;
    interval_mcus_ = frame.restart_interval == 0 ? mcus : frame.restart_interval;
    end_ = frame.end;
    return true;
}

void ScanReader::seek(std::int64_t interval, const std::uint8_t* data) {
    interval_ = interval;
    interval_data_ = data;
    start_interval(interval);
}

void ScanReader::set_phases(const Frame& frame) {
    for (int i = 0; i <= kChunkBlocks; ++i) {
        const Component& component = frame.component[component_of_[static_cast<std::size_t>(i % blocks_per_mcu_)]];
        const auto at = static_cast<std::size_t>(2 * i);
        stored_[at].table = &tables_.dc(component.dc);
        skipped_[at].table = &tables_.skipped_dc(component.dc);
        if (i == kChunkBlocks) break;
        stored_[at + 1].table = &tables_.ac(component.ac);
        skipped_[at + 1].table = &tables_.skipped_ac(component.ac);
    }
}

// Begins an interval that is not before the current one.
bool ScanReader::start_interval(std::int64_t interval) {
    for (; interval_ < interval; ++interval_) {
        const std::uint8_t* marker = kernels().find_marker(interval_data_, end_);
        if (end_ - marker < 2 || marker[1] != 0xD0 + (interval_ & 7)) return false;
        interval_data_ = marker + 2;
    }
    source_.begin(interval_data_, end_, stream_);
    predictions_.fill(0);
    mcu_ = interval * interval_mcus_;
    return true;
}

bool ScanReader::skip_to(std::int64_t mcu) {
    const std::int64_t interval = mcu / interval_mcus_;
    if (has_restarts_ && interval > interval_ && !start_interval(interval)) return false;
    while (mcu_ < mcu)
        if (!skip_piece(static_cast<int>(std::min<std::int64_t>(mcu - mcu_, max_mcus())))) return false;
    return true;
}

bool ScanReader::decode(int mcus) {
    std::fill_n(coefficients_.data(), mcus * blocks_per_mcu_ * kCoefficients, std::int16_t{0});
    for (int begin = 0; begin < mcus;) {
        const int count = left_in_interval(mcus - begin);
        if (count == 0 || !decode_piece(begin, begin + count)) return false;
        begin += count;
    }
    return true;
}

// Begins the next interval if the current one has ended. Returns the number of its MCUs that are left, of at most
// `mcus`; 0 if the next interval does not begin with its marker.
int ScanReader::left_in_interval(int mcus) {
    if (mcu_ == (interval_ + 1) * interval_mcus_ && !start_interval(interval_ + 1)) return 0;
    return static_cast<int>(std::min<std::int64_t>(mcus, (interval_ + 1) * interval_mcus_ - mcu_));
}

// Decodes MCUs [begin, end) of a chunk, and adds up the differences of their DC coefficients.
bool ScanReader::decode_piece(int begin, int end) {
    source_.refill(stream_);
    Phase* phase = stored_.data() + 2 * begin * blocks_per_mcu_;
    kernels().decode_symbols(stream_, phase, stored_.data() + 2 * end * blocks_per_mcu_);
    std::uint64_t positions = 0;
    for (int mcu = begin; mcu < end; ++mcu)
        for (int i = 0; i < blocks_per_mcu_; ++i, phase += 2) {
            std::uint32_t& prediction = predictions_[component_of_[static_cast<std::size_t>(i)]];
            prediction += static_cast<std::uint32_t>(*phase->block);
            *phase->block = static_cast<std::int16_t>(prediction);
            positions |= phase[0].last | phase[1].last;
        }
    mcu_ += end - begin;
    return (positions & kErrorStep) == 0 && !source_.overrun(stream_);
}

// Reads at most `mcus` MCUs, and keeps only the differences of their DC coefficients.
bool ScanReader::skip_piece(int mcus) {
    mcus = left_in_interval(mcus);
    if (mcus == 0) return false;
    source_.refill(stream_);
    const unsigned positions =
        kernels().skip_symbols(stream_, skipped_.data(), skipped_.data() + 2 * mcus * blocks_per_mcu_);
    for (int i = 0; i < mcus * blocks_per_mcu_; ++i) {
        const auto at = static_cast<std::size_t>(i);
        std::uint32_t& prediction = predictions_[component_of_[at % static_cast<std::size_t>(blocks_per_mcu_)]];
        prediction += static_cast<std::uint32_t>(stored_[2 * at].table->value(skipped_[2 * at].window));
    }
    mcu_ += mcus;
    return (positions & kErrorStep) == 0 && !source_.overrun(stream_);
}

}  // namespace stoker::jpeg
