// Decoded images that several images of near batches show, such as the partners of mosaics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "pixels/aligned_bytes.h"
#include "pixels/rectangle.h"

namespace stoker {

// A whole image as it is stored, at a size at which it was decoded.
class KeptImage {
  public:
    void reset(Size size);
    Size size() const { return size_; }
    // Interleaved RGB, followed by kRowSlack readable bytes.
    std::uint8_t* row(int y) { return bytes_.data() + static_cast<std::size_t>(y) * stride(); }

  private:
    std::size_t stride() const { return 3 * static_cast<std::size_t>(size_.width); }

    AlignedBytes bytes_;
    Size size_;
};

// The images of one pool that were decoded last. All methods are safe to call from any thread.
class KeptImages {
  public:
    using Shared = std::shared_ptr<KeptImage>;
    // Larger images are not kept, which bounds the memory.
    static constexpr std::size_t kMostBytes = std::size_t{4} << 20;

    // The shard and the offset of the payload, and the size at which it is decoded.
    struct Key {
        std::int32_t shard;
        std::int64_t offset;
        int eighths;

        auto operator<=>(const Key&) const = default;
    };

    // Keeps at most `count` images.
    explicit KeptImages(std::size_t count) : count_(count) {}

    bool keeps(Size size) const {
        return count_ > 0 && 3 * size.pixels() <= kMostBytes;
    }
    // Returns an image, or null.
    Shared find(const Key& key);
    // Returns an image to decode into. The memory of images that no thread uses any more is used again.
    Shared make();
    // Keeps an image, and drops the one that has been kept for longest if there are too many.
    void keep(const Key& key, const Shared& image);

  private:
    const std::size_t count_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<KeptImage>> free_;
    std::map<Key, Shared> images_;
    std::deque<Key> order_;  // the image kept for longest first
};

}  // namespace stoker
