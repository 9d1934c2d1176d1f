#include "decode/jpeg/baseline/region_decoder.h"

#include <algorithm>
#include <bit>

namespace stoker::jpeg {
namespace {

constexpr int divided_up(int value, int by) { return (value + by - 1) / by; }

// The samples of a block without AC coefficients, 8 on a side (both passes of the transform, in one).
void fill_block(int dc, int quantum, std::uint8_t* samples, std::ptrdiff_t stride) {
    const auto scaled = static_cast<std::int16_t>(static_cast<std::uint32_t>(dc * quantum) << 2);
    const auto sample = static_cast<std::uint64_t>(std::clamp((scaled + 16) >> 5, -128, 127) + 128);
    const std::uint64_t row = sample * 0x0101010101010101U;
    for (int y = 0; y < 8; ++y) std::memcpy(samples + y * stride, &row, 8);
}

}  // namespace

bool RegionDecoder::open(const EncodedImage& image) {
    payload_ = image.payload;
    bands_ = image.bands;
    checked_ = image.checked;
    grey_ = image.grey;
    if (bands_.count() == 0) return checked_ && read_frame(payload_, frame_) && reader_.begin(frame_);
    if (!checked_ && !bands_.headers_match(payload_)) return false;
    return read_frame_only(payload_, frame_) && fits_bands() && reader_.begin(frame_);
}

bool RegionDecoder::fits_bands() const {
    return frame_.restart_interval != 0 && frame_.mcus_per_row() % frame_.restart_interval == 0 &&
           bands_.count() <= static_cast<std::size_t>(frame_.mcu_rows()) &&
           payload_.data + bands_.start(0, payload_.size) == frame_.scan;
}

// Blocks of chroma are larger where this avoids upsampling, at most 8 samples a side (jdmaster.c).
void RegionDecoder::set_planes(int eighths) {
    for (int i = 0; i < stored(); ++i) {
        Plane& plane = planes_[i];
        plane.h = frame_.component[i].h;
        plane.v = frame_.component[i].v;
        plane.scale_x = frame_.max_h() / plane.h;
        plane.scale_y = frame_.max_v() / plane.v;
        plane.size = eighths;
        if (plane.scale_x == 2 && plane.scale_y == 2 && eighths < 8) {
            plane.size = 2 * eighths;
            plane.scale_x = plane.scale_y = 1;
        }
        plane.width = divided_up(frame_.width * plane.h * plane.size, 8 * frame_.max_h());
        plane.height = divided_up(frame_.height * plane.v * plane.size, 8 * frame_.max_v());
        plane.need(window_.left, window_.top, window_.right, window_.bottom);
    }
    const Plane& chroma = planes_[1];
    const bool scaled_x = stored() > 1 && chroma.scale_x == 2;
    const bool scaled_y = stored() > 1 && chroma.scale_y == 2;
    // The rules of jinit_upsampler (jdsample.c).
    triangle_ = eighths > 1 && (!scaled_x || chroma.width > 2);
    context_ = triangle_ && scaled_y;
}

bool RegionDecoder::start(const Window& window, int eighths) {
    window_ = window;
    set_planes(eighths);
    first_mcu_ = frame_.mcus_per_row();
    last_mcu_ = 0;
    mcu_row_ = frame_.mcu_rows();
    for (int i = 0; i < stored(); ++i) {
        const Plane& plane = planes_[i];
        first_mcu_ = std::min(first_mcu_, plane.begin_x / (plane.h * plane.size));
        last_mcu_ = std::max(last_mcu_, divided_up(plane.end_x, plane.h * plane.size));
        mcu_row_ = std::min(mcu_row_, plane.begin_y / (plane.v * plane.size));
    }
    for (int i = 0; i < stored(); ++i) planes_[i].reset(first_mcu_, last_mcu_, reader_.max_rows());
    const int mcu_height = planes_[0].v * planes_[0].size;
    // As decode_mcu_rows() counts the rows that are ready.
    end_mcu_row_ = std::min(divided_up(window_.bottom + (context_ ? 2 : 0), mcu_height), frame_.mcu_rows());
    set_rows();
    return seek();
}

// Moves the reader to the first MCU row, or to the band that holds it.
bool RegionDecoder::seek() {
    if (bands_.count() == 0) {
        reader_.seek(0, frame_.scan);
        return true;
    }
    const int rows = bands_.rows_per_band(frame_.mcu_rows());
    const auto first = static_cast<std::size_t>(mcu_row_ / rows);
    const auto last = static_cast<std::size_t>((end_mcu_row_ - 1) / rows + 1);
    if (!checked_ && !bands_.match(payload_, first, last)) return false;
    const std::int64_t intervals = frame_.mcus_per_row() / frame_.restart_interval;
    reader_.seek(static_cast<std::int64_t>(first) * rows * intervals,
                 payload_.data + bands_.start(first, payload_.size));
    return true;
}

void RegionDecoder::set_rows() {
    constexpr std::size_t line = 64;
    const std::size_t pixels = static_cast<std::size_t>(window_.right - window_.left);
    static_assert(kRgbSlack >= kRowSlack);
    row_bytes_ = (3 * pixels + kRgbSlack + line - 1) / line * line;
    // One sample more on each side, two pixels for each sample, and one for an odd window.
    upsampled_bytes_ = (pixels + 6 + 2 * kSampleSlack + line - 1) / line * line;
    rows_.grow(Decoder::kMaxRows * row_bytes_ + 2 * upsampled_bytes_);
    next_row_ = ready_ = window_.top;
}

int RegionDecoder::read(const std::uint8_t* rows[Decoder::kMaxRows]) {
    while (next_row_ >= ready_)
        if (!decode_mcu_rows()) return 0;
    const int count = std::min(Decoder::kMaxRows, std::min(ready_, window_.bottom) - next_row_);
    for (int i = 0; i < count; ++i) {
        std::uint8_t* row = rows_.data() + static_cast<std::size_t>(i) * row_bytes_;
        write_row(next_row_ + i, row);
        rows[i] = row;
    }
    next_row_ += count;
    return count;
}

bool RegionDecoder::decode_mcu_rows() {
    // Rows after the last may lie in a band that is not checked.
    const int mcu_rows = std::min(reader_.max_rows(), end_mcu_row_ - mcu_row_);
    for (int i = 0; i < stored(); ++i) planes_[i].move_to(mcu_row_, mcu_rows, context_);
    set_targets(mcu_rows);
    const std::int64_t first = static_cast<std::int64_t>(mcu_row_) * frame_.mcus_per_row();
    if (!reader_.skip_to(first + first_mcu_, mcu_rows)) return false;
    for (int mcu = first_mcu_; mcu < last_mcu_; mcu += reader_.max_mcus()) {
        const int mcus = std::min(reader_.max_mcus(), last_mcu_ - mcu);
        if (!reader_.decode(mcus)) return false;
        transform(mcu, mcus);
    }
    // libjpeg reads a row to its end, and finds damage there.
    if (frame_.restart_interval == 0 && !reader_.skip_to(first + frame_.mcus_per_row())) return false;
    if (triangle_ && stored() > 1 && planes_[1].scale_x == 2)
        for (int i = 1; i < stored(); ++i) planes_[i].repeat_ends();
    mcu_row_ += mcu_rows;
    ready_ = std::min(planes_[0].height, mcu_row_ * planes_[0].v * planes_[0].size);
    // The last rows wait for the chroma below them.
    if (context_ && mcu_row_ < frame_.mcu_rows()) ready_ -= 2;
    return true;
}

// Finds the blocks of an MCU of each row whose rows the window needs.
void RegionDecoder::set_targets(int mcu_rows) {
    targets_used_ = 0;
    for (int row = 0; row < mcu_rows; ++row)
        for (int c = 0, index = 0; c < stored(); ++c) {
            Plane& plane = planes_[c];
            for (int block = 0; block < plane.h * plane.v; ++block, ++index) {
                const int y = ((mcu_row_ + row) * plane.v + block / plane.h) * plane.size;
                if (y >= plane.end_y || y + plane.size <= plane.begin_y) continue;
                const int x = (first_mcu_ * plane.h + block % plane.h) * plane.size;
                targets_[targets_used_++] = {row, index, c, plane.h * plane.size, plane.at(y, x)};
            }
        }
}

// Transforms the blocks of MCUs that the reader has decoded.
void RegionDecoder::transform(int mcu, int mcus) {
    const int blocks_per_mcu = frame_.blocks_per_mcu();
    for (int i = 0; i < targets_used_; ++i) {
        const BlockTarget& target = targets_[i];
        const Plane& plane = planes_[target.component];
        const auto& quanta = frame_.quantisation[frame_.component[target.component].quantisation];
        std::array<DctBlock, kChunkBlocks> blocks;
        int count = 0;
        std::uint8_t* samples = target.samples + (mcu - first_mcu_) * target.step;
        for (int index = target.index; index < mcus * blocks_per_mcu; index += blocks_per_mcu, samples += target.step) {
            const std::int16_t* coefficients = reader_.block(target.row, index);
            if (plane.size == 8 && reader_.last(target.row, index) == kOnlyDc)
                fill_block(*coefficients, quanta[0], samples, plane.stride());
            else
                blocks[count++] = {coefficients, samples};
        }
        const auto kind = static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(plane.size)));
        kernels().inverse_dct[kind](blocks.data(), count, quanta.data(), plane.stride());
    }
}

// Returns chroma from the first pixel of the window on, for row y of the image.
const std::uint8_t* RegionDecoder::chroma_row(int component, int y) {
    Plane& plane = planes_[component];
    const int near_y = y / plane.scale_y;
    const std::uint8_t* near = plane.at(near_y, plane.begin_x);
    if (plane.scale_x == 1 && (plane.scale_y == 1 || !triangle_)) return near + window_.left - plane.begin_x;
    const int far_y = std::clamp(near_y + (y % 2 == 0 ? -1 : 1), 0, plane.height - 1);
    const std::uint8_t* far = context_ ? plane.at(far_y, plane.begin_x) : nullptr;
    const int samples = plane.end_x - plane.begin_x;
    std::uint8_t* out = rows_.data() + Decoder::kMaxRows * row_bytes_ +
                        static_cast<std::size_t>(component - 1) * upsampled_bytes_;
    if (plane.scale_x == 1)
        kernels().upsample_h1v2(near, far, samples, y % 2 + 1, out);
    else if (!triangle_)
        kernels().repeat_h2(near, samples, out);
    else if (plane.scale_y == 1)
        kernels().upsample_h2v1(near, samples, out);
    else
        kernels().upsample_h2v2(near, far, samples, out);
    return out + window_.left - plane.scale_x * plane.begin_x;
}

void RegionDecoder::write_row(int y, std::uint8_t* rgb) {
    const int pixels = window_.right - window_.left;
    const std::uint8_t* luma = planes_[0].at(y, window_.left);
    if (stored() == 1) return kernels().grey_to_rgb(luma, pixels, rgb);
    kernels().ycbcr_to_rgb(luma, chroma_row(1, y), chroma_row(2, y), pixels, rgb);
}

}  // namespace stoker::jpeg
