#include "masks/mask_png.h"

#include <libdeflate.h>

#include <cstring>
#include <new>

#include "decode/header_bytes.h"

namespace stoker {
namespace {

constexpr std::uint8_t kSignature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
constexpr std::size_t kHeader = 13;         // bytes of IHDR
constexpr std::size_t kChunkOverhead = 12;  // bytes of a chunk's length, name and checksum
constexpr std::uint8_t kGray8Form[] = {8, 0, 0, 0, 0};  // 8 bits, grey, the only methods, not interlaced

}  // namespace

MaskPng::MaskPng() : decompressor_(libdeflate_alloc_decompressor(), libdeflate_free_decompressor) {
    if (decompressor_ == nullptr) throw std::bad_alloc();
}

const std::uint8_t* MaskPng::decode(const std::uint8_t* data, std::size_t size, int height, int width, int rows) {
    if (!find_stream(data, size, height, width)) return nullptr;
    // libdeflate inflates whole streams only, so the rows after the last one that is needed are inflated, too.
    const std::size_t bytes = static_cast<std::size_t>(height) * static_cast<std::size_t>(stride(width));
    pixels_.resize(bytes);
    const auto result = libdeflate_zlib_decompress(decompressor_.get(), stream_, stream_size_, pixels_.data(), bytes, nullptr);
    if (result != LIBDEFLATE_SUCCESS) return nullptr;
    const png::FilteredRows filtered{pixels_.data(), static_cast<std::size_t>(stride(width)), static_cast<std::size_t>(rows),
                                     static_cast<std::size_t>(width)};
    if (!filtered.have_known_filters()) return nullptr;
    undo_filters_(filtered, scratch_);
    return pixels_.data() + 1;
}

bool MaskPng::find_stream(const std::uint8_t* data, std::size_t size, int height, int width) {
    if (size < sizeof kSignature || std::memcmp(data, kSignature, sizeof kSignature) != 0) return false;
    const HeaderBytes bytes{data, size};
    stream_size_ = 0;
    bool first = true;
    for (std::size_t at = sizeof kSignature; size - at >= kChunkOverhead; first = false) {
        const std::size_t length = bytes.big32(at);
        if (length > size - at - kChunkOverhead) return false;
        const std::uint8_t *name = data + at + 4, *body = name + 4;
        if (bytes.big32(at + 8 + length) != libdeflate_crc32(0, name, 4 + length)) return false;
        at += kChunkOverhead + length;
        const bool is_header = std::memcmp(name, "IHDR", 4) == 0;
        if (is_header != first) return false;
        if (is_header) {
            const HeaderBytes header{body, length};
            if (length != kHeader || header.big32(0) != static_cast<std::uint32_t>(width) ||
                header.big32(4) != static_cast<std::uint32_t>(height) ||
                std::memcmp(body + 8, kGray8Form, sizeof kGray8Form) != 0)
                return false;
        } else if (std::memcmp(name, "IDAT", 4) == 0) {
            if (stream_size_ == 0) {
                stream_ = body;
            } else {
                if (stream_ != joined_chunks_.data()) joined_chunks_.assign(stream_, stream_ + stream_size_);
                joined_chunks_.insert(joined_chunks_.end(), body, body + length);
                stream_ = joined_chunks_.data();
            }
            stream_size_ += length;
        } else if (std::memcmp(name, "acTL", 4) == 0) {
            return false;  // an animation; its first frame need not be the mask
        } else if (stream_size_ != 0) {
            return true;
        }
    }
    return false;
}

}  // namespace stoker
