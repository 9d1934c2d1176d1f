// The data files of a dataset, either mapped or read one payload at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "records/file_listing.h"
#include "records/open_files.h"

namespace stoker {

// One file of a known size, which is mapped, or opened for each read. The destructor unmaps it. A listing stands for
// the files that it names.
class DataFile {
  public:
    // Maps the file if `open_files` is null. Otherwise read() opens the file, as number `file` of `open_files`.
    // Throws std::system_error, and std::length_error if the file has another size.
    DataFile(const std::string& path, std::int64_t size, std::size_t file, std::shared_ptr<OpenFiles> open_files,
             bool may_be_listing);
    ~DataFile();
    DataFile(const DataFile&) = delete;
    DataFile& operator=(const DataFile&) = delete;

    // The bytes of the file, or of all files of a listing.
    std::int64_t size() const { return listing_ == nullptr ? size_ : listing_->size(); }
    // Whether the index has checksums of the payloads.
    bool has_checksums() const { return listing_ == nullptr; }
    bool contains(std::int64_t offset, std::int64_t length) const {
        return offset >= 0 && length >= 0 && offset <= size() && length <= size() - offset;
    }
    // Returns bytes of the mapping, or reads them into `storage`. Throws std::system_error, and
    // std::out_of_range if the file has become shorter.
    Payload read(std::int64_t offset, std::int64_t length, std::vector<std::uint8_t>& storage) const;
    // Asks the kernel to read these bytes ahead.
    void will_need(std::int64_t offset, std::int64_t length) const noexcept;

  private:
    void find_listing(const Descriptor& descriptor);

    std::string path_;
    std::int64_t size_;
    std::size_t file_;
    std::int64_t most_ahead_ = 0;  // most bytes that one call can read ahead
    std::shared_ptr<OpenFiles> open_files_;
    std::uint8_t* map_ = nullptr;
    std::vector<std::uint8_t> copy_;  // of a listing that is not mapped
    std::unique_ptr<const FileListing> listing_;
};

using DataFiles = std::vector<std::shared_ptr<const DataFile>>;

struct Range {
    std::int32_t shard;
    std::int64_t offset;
    std::int64_t length;
};

// The data files of a dataset.
class Shards {
  public:
    Shards(const std::vector<std::string>& paths, const std::vector<std::int64_t>& sizes, bool mapped, bool listing);

    // Returns the files. A batch holds them, so they can be read after close() until the batch is done.
    std::shared_ptr<const DataFiles> files() const;
    // Throws std::out_of_range if the files are closed, or the range does not lie within the shard.
    std::shared_ptr<const DataFile> file(std::int64_t shard, std::int64_t offset, std::int64_t length) const;
    // Asks the kernel to read ranges ahead, and the bytes between those that lie less than `gap` bytes apart.
    void will_need(std::vector<Range> ranges, std::int64_t gap) const;
    void close();

  private:
    mutable std::mutex mutex_;
    std::shared_ptr<const DataFiles> files_;
};

}  // namespace stoker
