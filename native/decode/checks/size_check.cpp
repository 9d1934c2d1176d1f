#include "decode/checks/size_check.h"

#include <algorithm>

namespace stoker {

std::string size_text(std::int64_t height, std::int64_t width) {
    return std::to_string(height) + "x" + std::to_string(width) + " pixels";
}

CheckResult check_size(std::int64_t height, std::int64_t width, std::int64_t indexed_height, std::int64_t indexed_width,
                   std::int64_t max_pixels) {
    if (std::max(height, width) > kMaxSourceSide)
        return {Status::not_decodable,
                size_text(height, width) + ", of at most " + std::to_string(kMaxSourceSide) + " a side"};
    if (height * width > max_pixels) return {Status::too_large, size_text(height, width)};
    if (height != indexed_height || width != indexed_width)
        return {Status::size_mismatch,
                size_text(height, width) + ", the index says " + size_text(indexed_height, indexed_width)};
    return {};
}

}  // namespace stoker
