// The memory that libjpeg writes a JPEG to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <jpeglib.h>

namespace stoker {

// A destination of libjpeg that doubles its memory when it is full. jpeg_mem_dest() does so, too, but leaves a
// pointer to freed memory when it runs out of memory.
class JpegOutput {
  public:
    JpegOutput();
    ~JpegOutput() { std::free(bytes_); }
    JpegOutput(const JpegOutput&) = delete;
    JpegOutput& operator=(const JpegOutput&) = delete;

    jpeg_destination_mgr* manager() { return &destination_; }
    std::vector<std::uint8_t> bytes() const;

  private:
    // libjpeg's structure, with a pointer back to this object.
    struct Destination : jpeg_destination_mgr {
        JpegOutput* owner;
    };
    static boolean grow(j_compress_ptr encoder);

    Destination destination_{};
    JOCTET* bytes_ = nullptr;
    std::size_t capacity_ = 0;
};

}  // namespace stoker
