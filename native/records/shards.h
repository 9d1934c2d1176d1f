// Data files, mapped or read piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace stoker {

// Bytes of a payload: within a mapping, or a copy in `storage`; `owner` keeps a mapping alive.
struct Payload {
    const std::uint8_t* data = nullptr;
    std::size_t size = 0;
};

// One open file of a known size. Unmapped and closed when the last user lets go.
class DataFile {
  public:
    // Throws std::system_error, or std::length_error where the file has another size.
    DataFile(const std::string& path, std::int64_t size, bool mapped);
    ~DataFile();
    DataFile(const DataFile&) = delete;
    DataFile& operator=(const DataFile&) = delete;

    std::int64_t size() const { return size_; }
    bool mapped() const { return map_ != nullptr; }
    bool contains(std::int64_t offset, std::int64_t length) const {
        return offset >= 0 && length >= 0 && offset <= size_ && length <= size_ - offset;
    }
    // The bytes, without a copy where mapped, else read into `storage`. Throws std::system_error, and
    // std::out_of_range where the file is shorter.
    Payload read(std::int64_t offset, std::int64_t length, std::vector<std::uint8_t>& storage) const;
    void will_need(std::int64_t offset, std::int64_t length) const noexcept;

  private:
    std::string path_;
    std::int64_t size_;
    int fd_ = -1;
    std::uint8_t* map_ = nullptr;
};

using DataFiles = std::vector<std::shared_ptr<const DataFile>>;

struct Range {
    std::int32_t shard;
    std::int64_t offset;
    std::int64_t length;
};

// Ranges in file order, those less than `gap` bytes apart joined.
std::vector<Range> join_ranges(std::vector<Range> ranges, std::int64_t gap);

class Shards {
  public:
    Shards(const std::vector<std::string>& paths, const std::vector<std::int64_t>& sizes, bool mapped);

    // The open files; a batch holds them, so that close() never pulls bytes from under it.
    std::shared_ptr<const DataFiles> files() const;
    // Throws std::out_of_range where the shard is closed or the range is not within it.
    std::shared_ptr<const DataFile> file(std::int64_t shard, std::int64_t offset, std::int64_t length) const;
    void will_need(std::vector<Range> ranges) const;
    void close();

  private:
    mutable std::mutex mutex_;
    std::shared_ptr<const DataFiles> files_;
};

}  // namespace stoker
