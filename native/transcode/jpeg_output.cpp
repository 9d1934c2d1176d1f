#include "transcode/jpeg_output.h"

#include <jerror.h>

namespace stoker {

JpegOutput::JpegOutput() {
    destination_.owner = this;
    destination_.init_destination = [](j_compress_ptr encoder) { grow(encoder); };
    destination_.empty_output_buffer = grow;
    destination_.term_destination = [](j_compress_ptr) {};
}

std::vector<std::uint8_t> JpegOutput::bytes() const {
    return {bytes_, bytes_ + (capacity_ - destination_.free_in_buffer)};
}

// Doubles the capacity, which is used up.
boolean JpegOutput::grow(j_compress_ptr encoder) {
    JpegOutput& self = *static_cast<Destination*>(encoder->dest)->owner;
    const std::size_t taken = self.capacity_, larger = taken == 0 ? 1 << 16 : 2 * taken;
    auto* bytes = static_cast<JOCTET*>(std::realloc(self.bytes_, larger));
    if (bytes == nullptr) ERREXIT1(encoder, JERR_OUT_OF_MEMORY, 0);
    self.bytes_ = bytes;
    self.capacity_ = larger;
    self.destination_.next_output_byte = bytes + taken;
    self.destination_.free_in_buffer = larger - taken;
    return TRUE;
}

}  // namespace stoker
