#include "decode/jpeg/baseline/byte_source.h"

#include <cstring>

#include "decode/jpeg/kernels/jpeg_kernels.h"

namespace stoker::jpeg {

void ByteSource::begin(const std::uint8_t* data, const std::uint8_t* end, SymbolStream& stream) {
    source_ = data;
    end_ = end;
    ended_ = false;
    fill(0);
    stream.start(bytes_.data());
}

void ByteSource::fill(std::size_t begin) {
    const Unstuffed unstuffed = kernels().unstuff(source_, end_, bytes_.data() + begin, kCapacity - begin);
    source_ = unstuffed.source;
    ended_ = unstuffed.ended;
    filled_ = begin + unstuffed.bytes;
}

void ByteSource::refill(SymbolStream& stream) {
    const auto at = static_cast<std::size_t>(stream.next - bytes_.data());
    if (ended_ || filled_ - at >= kReserve) return;
    // The window may already hold bits of the byte at `next`, which stay the same.
    std::memmove(bytes_.data(), stream.next, filled_ - at);
    stream.next = bytes_.data();
    fill(filled_ - at);
}

bool ByteSource::overrun(const SymbolStream& stream) const {
    const auto at = static_cast<std::ptrdiff_t>(stream.next - bytes_.data());
    return 8 * at - static_cast<std::ptrdiff_t>(stream.bits) > 8 * static_cast<std::ptrdiff_t>(filled_);
}

}  // namespace stoker::jpeg
