// A listing of files, whose contents are read as if they lay in one data file, one after the other.
//
// formats/containers/listing.py writes it, and describes its bytes.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace stoker {

// The bytes of one payload, in a mapping or in a buffer. They belong to the file or to the buffer.
struct Payload {
    const std::uint8_t* data = nullptr;
    std::size_t size = 0;
    bool has_checksum = true;  // whether the index has a checksum of it
};

class FileListing {
  public:
    static constexpr std::size_t kMagicBytes = 8;
    static constexpr std::size_t kHeaderBytes = 32;
    // Returns whether a data file with these first bytes, kHeaderBytes or more, is a listing.
    static bool recognizes(const std::uint8_t* data, std::size_t size);

    // Uses the bytes of the listing at `path`, which must outlive the object. A root that is relative starts at the
    // folder of `path`. Throws std::length_error if they are damaged.
    FileListing(const std::string& path, const std::uint8_t* data, std::size_t size);

    // The bytes of all files together.
    std::int64_t size() const { return starts_[count_]; }
    // Reads the file whose bytes are `offset` to `offset + length - 1` into `storage`. Throws std::system_error if it
    // cannot be read, std::length_error if its size or its modification time differs from that in the listing, and
    // std::out_of_range if there is no such file.
    Payload read(std::int64_t offset, std::int64_t length, std::vector<std::uint8_t>& storage) const;
    // Asks the kernel to read the files between these bytes ahead.
    void will_need(std::int64_t offset, std::int64_t length) const noexcept;

  private:
    std::int64_t row_at(std::int64_t offset) const;
    std::string path_of(std::int64_t row) const;

    std::int64_t count_ = 0;
    const std::int64_t* starts_ = nullptr;
    const std::int64_t* modified_ = nullptr;  // nanoseconds since 1970
    const std::int64_t* names_ = nullptr;
    const char* text_ = nullptr;
    std::int64_t text_bytes_ = 0;
    std::string root_;
};

// Returns the time of the last change of a file, nanoseconds since 1970.
std::int64_t modified_ns(const struct stat& info);

}  // namespace stoker
