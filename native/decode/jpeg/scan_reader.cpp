#include "decode/jpeg/scan_reader.h"

#include <algorithm>

#include "decode/jpeg/kernels/jpeg_kernels.h"

namespace stoker::jpeg {

ScanReader::ScanReader() {
    for (int i = 0; i <= kChunkBlocks; ++i) {
        const auto at = static_cast<std::size_t>(2 * i);
        stored_[at].block = coefficients_.data() + i * kCoefficients;
        skipped_[at].block = dc_.data() + i;
        if (i == kChunkBlocks) break;
        stored_[at + 1].block = stored_[at].block;
        skipped_[at + 1].block = unused_.data();
    }
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
        stored_[at].table = skipped_[at].table = &tables_.dc(component.dc);
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
    return skip(mcu - mcu_);
}

bool ScanReader::skip(std::int64_t mcus) {
    while (mcus > 0) {
        const int count = static_cast<int>(std::min<std::int64_t>(mcus, max_mcus()));
        if (!run(skipped_, dc_.data(), 1, count)) return false;
        mcus -= count;
    }
    return true;
}

bool ScanReader::decode(int mcus) {
    std::fill_n(coefficients_.data(), mcus * blocks_per_mcu_ * kCoefficients, std::int16_t{0});
    return run(stored_, coefficients_.data(), kCoefficients, mcus);
}

bool ScanReader::run(Phases& phases, std::int16_t* dc, int dc_distance, int mcus) {
    for (int begin = 0; begin < mcus;) {
        std::int64_t left = (interval_ + 1) * interval_mcus_ - mcu_;
        if (left == 0) {
            if (!start_interval(interval_ + 1)) return false;
            left = interval_mcus_;
        }
        const int end = static_cast<int>(std::min<std::int64_t>(mcus, begin + left));
        if (!run_piece(phases, dc, dc_distance, begin, end)) return false;
        mcu_ += end - begin;
        begin = end;
    }
    return true;
}

// Decodes MCUs [begin, end) of a chunk, and adds up the differences of their DC coefficients, in `dc`.
bool ScanReader::run_piece(Phases& phases, std::int16_t* dc, int dc_distance, int begin, int end) {
    source_.refill(stream_);
    stream_.phase = phases.data() + 2 * begin * blocks_per_mcu_;
    stream_.end = phases.data() + 2 * end * blocks_per_mcu_;
    kernels().decode_symbols(stream_);
    std::uint64_t errors = 0;
    const Phase* phase = phases.data() + 2 * begin * blocks_per_mcu_;
    dc += begin * blocks_per_mcu_ * dc_distance;
    for (int mcu = begin; mcu < end; ++mcu)
        for (int i = 0; i < blocks_per_mcu_; ++i, phase += 2, dc += dc_distance) {
            std::uint32_t& prediction = predictions_[component_of_[static_cast<std::size_t>(i)]];
            prediction += static_cast<std::uint32_t>(*dc);
            *dc = static_cast<std::int16_t>(prediction);
            errors |= phase[0].last | phase[1].last;
        }
    return (errors & kErrorStep) == 0 && !source_.overrun(stream_);
}

}  // namespace stoker::jpeg
